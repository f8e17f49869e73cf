#!/usr/bin/env python
"""Liquid TIP3P water with several integrators: rigid, flexible, and rigid-like without constraints.

Compares speed, temperature, energy and bond length in a table, and radial distribution functions in a figure.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import app, unit
from openmmstiff import (ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator,
                         SpookIntegrator, ZhangSkeelLangevinIntegrator)
from openmmstiff.sampling import Deviation, blockedError

from common.observables import RDF_PAIRS, RDF_RANGE, rdf_distances
from common.options import (OptionParser, add_box_options, add_names_option, add_output_option, add_run_options,
                            progress_bar, run_program)
from common.runs import configured
from common.tables import NOTE, mean_with_error, print_table, with_error
from common.water_sampling import Samples, number_of_steps, sample
from common.water import (EQUILIBRATION_STEP, Progress, WaterBox, advance, build_box, build_system, equilibrate,
                          start_geometry)

TEMPERATURE = 300.0  # K
EQUILIBRATION_TIME = {"rigid": 6.0, "flexible": 3.0}  # ps
# Then each run settles with its own integrator: a Zhang-Skeel run has cold stiff modes after setPositions().
SETTLING_TIME = 0.3       # ps
SETTLING_FRICTION = 20.0  # 1/ps


# For springs that stand in for constraints: their modes take no part in the thermal motion.
zhang_skeel_penalty = configured(ZhangSkeelLangevinIntegrator, ThermalizeStiffModes=False)


def impulse(kick: int) -> Callable[[float, float, float], mm.Integrator]:
    """Bonds and angles vibrate by micro-steps. With Projected kicks molecules move as rigid ones do."""
    return configured(ImpulseLangevinIntegrator, Kick=kick)


def spook(damping: float) -> Callable[[float, float, float], mm.Integrator]:
    """Constraints with one linear solve a step, and a damping time of so many steps; it has no thermostat."""
    return configured(lambda temperature, friction, step: SpookIntegrator(step), DampingSteps=damping)


@dataclass
class Run:
    label: str
    geometry: str   # of water.build_system
    step: float     # ps
    make: Callable[[float, float, float], mm.Integrator]
    reference: str = ""                 # the run of the same physics that it is compared with
    hydrogen_mass: float | None = None  # dalton, if it is not the force field's


LangevinMiddle = mm.LangevinMiddleIntegrator    # which uses SETTLE where water is rigid
RUNS = {
    "settle-4fs": Run("LangevinMiddle + SETTLE", "rigid", 0.004, LangevinMiddle, "settle-4fs"),
    "middle-1fs": Run("LangevinMiddle, flexible", "flexible", 0.001, LangevinMiddle, "middle-1fs"),
    "middle-2fs": Run("LangevinMiddle, flexible", "flexible", 0.002, LangevinMiddle, "middle-1fs"),
    "zhangskeel-3fs": Run("Z&Ss-Langevin, flexible", "flexible", 0.003, ZhangSkeelLangevinIntegrator, "middle-1fs"),
    "masspenalty-12fs": Run("Mass penalty, flexible", "flexible", 0.012, MassPenaltyLangevinIntegrator, "middle-1fs"),
    "penalty-2fs": Run("Z&Ss-Langevin, penalty springs", "penalty", 0.002, zhang_skeel_penalty, "settle-4fs"),
    "projected-4fs": Run("Projected impulse, flexible", "flexible", 0.004,
                         impulse(ImpulseIntegrator.Projected), "settle-4fs"),
    "spook-2fs": Run("SPOOK, rigid, Andersen", "rigid", 0.002, spook(0.25), "settle-4fs"),
}


def make_simulation(box: WaterBox, run: Run, friction: float, seed: int, platform: str) -> app.Simulation:
    """For a run, without positions. Where the integrator has no thermostat, an AndersenThermostat takes its place."""
    integrator = bath = run.make(TEMPERATURE, friction, run.step)
    system = build_system(box, run.geometry, run.hydrogen_mass)
    if not hasattr(integrator, "setFriction"):
        bath = mm.AndersenThermostat(TEMPERATURE, friction)
        system.addForce(bath)
    bath.setRandomNumberSeed(seed)
    return app.Simulation(box.topology, system, integrator, mm.Platform.getPlatform(platform))


def make_run(simulation: app.Simulation, state: mm.State, seed: int, settling: float, ps: float, progress: Progress,
             friction: float | None = None, **recorded) -> Samples:
    """Settle from positions and with drawn velocities, then sample, with another friction if it is given; times in
    ps."""
    simulation.context.setPositions(state.getPositions())
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    step = simulation.integrator.getStepSize().value_in_unit(unit.picosecond)
    advance(simulation.integrator, round(settling / step), progress)
    if friction is not None:
        set_friction(simulation, friction)
    return sample(simulation, ps, progress, **recorded)


def equilibrate_both(box: WaterBox, times: dict[str, float], options) -> dict[str, mm.State]:
    """Each geometry after so many ps of its own, flexible molecules from rigid ones, with a bar of progress."""
    states: dict[str, mm.State] = {}
    for geometry, ps in times.items():
        with progress_bar(f"equilibration, {geometry}", round(ps / EQUILIBRATION_STEP[geometry])) as bar:
            states[geometry] = equilibrate(box, geometry, ps, temperature=TEMPERATURE, platform=options.platform,
                                           seed=options.seed, progress=bar.update, start=states.get("rigid"))
    return states


def set_friction(simulation: app.Simulation, friction: float):
    """1/ps; of an AndersenThermostat the frequency of collisions."""
    if hasattr(simulation.integrator, "setFriction"):
        simulation.integrator.setFriction(friction)
    else:
        simulation.context.setParameter(mm.AndersenThermostat.CollisionFrequency(), friction)


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=895)
    add_run_options(parser, time=2.0, friction=5.0)
    add_names_option(parser, "--integrators", RUNS)
    add_output_option(parser, "rdf.png")
    options = parser.parse_args()
    parser.make_folder(options.output)

    box = build_box(options.waters)
    runs = {name: run for name, run in RUNS.items() if name in options.integrators}
    starts = {"rigid", *(start_geometry(run.geometry) for run in runs.values())}
    states = equilibrate_both(box, {geometry: ps for geometry, ps in EQUILIBRATION_TIME.items() if geometry in starts},
                              options)
    results = {}
    for name, run in runs.items():
        simulation = make_simulation(box, run, SETTLING_FRICTION, options.seed, options.platform)
        steps = round(SETTLING_TIME / run.step) + number_of_steps(options.time, run.step)
        with progress_bar(name, steps) as bar:
            try:
                results[name] = make_run(simulation, states[start_geometry(run.geometry)], options.seed, SETTLING_TIME,
                                         options.time, bar.update, options.friction)
            except (FloatingPointError, mm.OpenMMException) as error:
                sys.exit(f"\n{name}: {error}")

    print(f"{options.waters} TIP3P waters, {TEMPERATURE:g} K, friction {options.friction:g}/ps, "
          f"{options.time:g} ps each, {options.platform} platform\n")
    print_table(["integrator", "step (fs)", "ns/day", "T (K)", "T of centres (K)", "nonbonded (kJ/mol per water)",
                 "O-H mean, s.d. (nm)"], [row(RUNS[name], found) for name, found in results.items()])
    print(NOTE, verdict(results), sep="\n")
    draw(results, options.output / "rdf.png")
    print(f"\nRadial distribution functions: {options.output / 'rdf.png'}")


def row(run: Run, found: Samples) -> list[str]:
    motions = found.temperature, found.centre_temperature
    return [run.label, f"{1000 * run.step:g}", f"{found.ns_per_day:.2f}",
            *(mean_with_error(each, 1) for each in motions), mean_with_error(found.nonbonded, 2),
            f"{found.bond_length[0]:.5f}, {found.bond_variance[0] ** 0.5:.5f}"]


def verdict(results: dict[str, Samples]) -> str:
    """A sentence on the mass penalty, against a small step of the same model."""
    if not {"middle-1fs", "masspenalty-12fs"} <= results.keys():
        return ""
    small, large = results["middle-1fs"], results["masspenalty-12fs"]
    its, expected = ((each.nonbonded.mean(), blockedError(each.nonbonded)) for each in (large, small))
    apart, error = Deviation.between(its, expected)
    return (f"Flexible water runs {large.ns_per_day / small.ns_per_day:.1f} times as fast at 12 fs with the mass "
            f"penalty as at 1 fs with\nLangevinMiddle. The nonbonded energies differ by "
            f"{with_error(100 * apart, 100 * error, 1)} %, the temperature is "
            f"{mean_with_error(large.temperature, 1)} K.")


def draw(results: dict[str, Samples], path: Path):
    """O-O and O-H functions: rigid physics in blues, flexible in reds, the references pale and wide."""
    styles = {"settle-4fs": ("#9ecae1", "-", 4), "penalty-2fs": ("#08519c", "--", 1.4),
              "projected-4fs": ("#3f007d", ":", 1.8), "spook-2fs": ("#41ab5d", "-.", 1.4),
              "middle-1fs": ("#fcbba1", "-", 4), "middle-2fs": ("#fb6a4a", ":", 1.8),
              "zhangskeel-3fs": ("#99000d", "--", 1.4), "masspenalty-12fs": ("#e6550d", "-.", 1.8)}
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for i, (pair, panel) in enumerate(zip(RDF_PAIRS, panels)):
        for name in (name for name in styles if name in results):
            colour, line, width = styles[name]
            panel.plot(rdf_distances(), results[name].rdf[i].mean(axis=0), line, color=colour,
                       linewidth=width, label=f"{RUNS[name].label}, {1000 * RUNS[name].step:g} fs")
        panel.axhline(1, color="0.8", linewidth=0.8, zorder=0)
        panel.set(title=pair, xlabel="r (nm)", ylabel="g(r)", xlim=RDF_RANGE, ylim=(0, None))
    panels[0].legend(frameon=False)
    figure.suptitle("Atoms of different molecules")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    run_program(main)
