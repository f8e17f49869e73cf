#!/usr/bin/env python
"""Liquid TIP3P water with several integrators: rigid, flexible, and rigid-like without constraints.

Compares speed, temperature, energy, bond length and radial distribution functions, in a table and a figure.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import app
from openmmstiff import (ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator,
                         SpookIntegrator, ZhangSkeelLangevinIntegrator)
from openmmstiff.sampling import blockedError

from common.observables import RDF_PAIRS, RDF_RANGE, rdf_distance, rdf_distances, rdf_noise
from common.options import (OptionParser, add_box_options, add_output_option, add_run_options, choice, progress_bar,
                            run_program)
from common.tables import NOTE, mean_with_error, with_error
from common.water_sampling import Samples, number_of_steps, sample
from common.water import EQUILIBRATION_STEP, WaterBox, advance, build_box, build_system, equilibrate, start_geometry

TEMPERATURE = 300.0  # K
EQUILIBRATION_TIME = {"rigid": 6.0, "flexible": 3.0}  # ps
# Then each run settles with its own integrator: a Zhang-Skeel run has cold stiff modes after setPositions().
SETTLING_TIME = 0.3       # ps
SETTLING_FRICTION = 20.0  # 1/ps


def zhang_skeel_penalty(temperature: float, friction: float, step: float) -> mm.Integrator:
    """For springs that stand in for constraints: their modes take no part in the thermal motion."""
    integrator = ZhangSkeelLangevinIntegrator(temperature, friction, step)
    integrator.setThermalizeStiffModes(False)
    return integrator


def impulse(kick: int) -> Callable[[float, float, float], mm.Integrator]:
    """Bonds and angles vibrate by micro-steps. With Projected kicks molecules move as rigid ones do."""
    def make(temperature: float, friction: float, step: float) -> mm.Integrator:
        integrator = ImpulseLangevinIntegrator(temperature, friction, step)
        integrator.setKick(kick)
        return integrator
    return make


def spook(damping: float) -> Callable[[float, float, float], mm.Integrator]:
    """Constraints with one linear solve a step, and a damping time of so many steps; it has no thermostat."""
    def make(temperature: float, friction: float, step: float) -> mm.Integrator:
        integrator = SpookIntegrator(step)
        integrator.setDampingSteps(damping)
        return integrator
    return make


@dataclass
class Run:
    label: str
    geometry: str   # of water.build_system
    step: float     # ps
    make: Callable[[float, float, float], mm.Integrator]
    reference: str = ""                 # the run that its radial distributions are compared with, if any
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
    add_run_options(parser, time=2.5, friction=5.0)
    parser.add_argument("--integrators", type=choice(RUNS), nargs="+", default=list(RUNS), metavar="NAME",
                        help=f"the runs to make, of {', '.join(RUNS)} (default: all)")
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
        simulation.context.setPositions(states[start_geometry(run.geometry)].getPositions())
        simulation.context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
        settling = round(SETTLING_TIME / run.step)
        with progress_bar(name, settling + number_of_steps(options.time, run.step)) as bar:
            try:
                advance(simulation.integrator, settling, bar.update)
                set_friction(simulation, options.friction)
                results[name] = sample(simulation, options.time, bar.update)
            except (FloatingPointError, mm.OpenMMException) as error:
                sys.exit(f"\n{name}: {error}")

    print(f"{options.waters} TIP3P waters, {TEMPERATURE:g} K, friction {options.friction:g}/ps, "
          f"{options.time:g} ps each, {options.platform} platform\n")
    print_table(RUNS, results)
    print(verdict(results))
    draw(results, options.output / "rdf.png")
    print(f"\nRadial distribution functions: {options.output / 'rdf.png'}")


def print_table(runs: dict[str, Run], results: dict[str, Samples]):
    columns = "{:31}{:>4}{:>8}  {:11} {:11}  {:14}  {:>7} {:>7}  {:13} {:13}"
    print(columns.format("", "step", "", "temperature (K)", "", "nonbonded (kJ/", "O-H", "(nm)",
                         "RDF distance", "(noise)").rstrip())
    print(columns.format("integrator", "fs", "ns/day", "all", "centres", "mol per water)", "mean", "s.d.",
                         *RDF_PAIRS).rstrip())
    for name, found in results.items():
        run = runs[name]
        if run.reference == name:
            distances = ["reference"] * len(RDF_PAIRS)
        elif run.reference in results:
            distances = [f"{rdf_distance(*both):.3f} ({rdf_noise(*both):.3f})"
                         for both in zip(found.rdf, results[run.reference].rdf)]
        else:
            distances = ["-"] * len(RDF_PAIRS)
        print(columns.format(
            run.label, f"{1000 * run.step:g}", f"{found.ns_per_day:.2f}", mean_with_error(found.temperature, 1),
            mean_with_error(found.centre_temperature, 1), mean_with_error(found.nonbonded, 2),
            f"{found.bond_length[0]:.5f}", f"{found.bond_variance[0] ** 0.5:.5f}", *distances).rstrip())
    print(f"{NOTE}\nCentres: the centres of mass of the molecules. RDF distance: mean of |g(r) - g_ref(r)| from "
          f"{RDF_RANGE[0]:g} to {RDF_RANGE[1]:g} nm,\nto LangevinMiddle's of the same physics, "
          "rigid or flexible; in brackets, what noise alone would give.")


def verdict(results: dict[str, Samples]) -> str:
    """A sentence on the mass penalty, against a small step of the same model."""
    if not {"middle-1fs", "masspenalty-12fs"} <= results.keys():
        return ""
    small, large = results["middle-1fs"], results["masspenalty-12fs"]
    apart = (large.nonbonded.mean() - small.nonbonded.mean()) / abs(small.nonbonded.mean())
    error = np.hypot(blockedError(large.nonbonded), blockedError(small.nonbonded)) / abs(small.nonbonded.mean())
    return (f"\nFlexible water runs {large.ns_per_day / small.ns_per_day:.1f} times as fast at 12 fs with the mass "
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
