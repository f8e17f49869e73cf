#!/usr/bin/env python
"""Flexible TIP3P water at 8 fs: an ordinary OpenMM script, in which the line of the integrator is changed.

LangevinMiddleIntegrator at 1 fs is the reference, and at 2 and 2.5 fs near its limit; MassPenaltyLangevinIntegrator
runs at 4 to 10 fs. Compares energies, bond lengths and radial distribution functions, in a table and a figure.
"""
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import blockedError

from common.observables import RDF_PAIRS, RDF_RANGE, first_peak, rdf_distances
from common.options import (OptionParser, add_box_options, add_output_option, add_record_option, add_run_options,
                            number, progress_bar, run_program)
from common.tables import NOTE, mean_with_error, print_table
from common.water_sampling import BOND_BINS, Samples, number_of_steps, sample
from tip3p_water import TEMPERATURE, equilibrate_both
from common.water import CUTOFF, GROUPS, WaterBox, advance, build_box

REFERENCE_STEP, ORDINARY_STEPS = 1.0, (1.0, 2.0, 2.5)  # fs, of LangevinMiddle
SHOWN_STEP = 8.0          # fs, the run whose distributions are drawn
EQUILIBRATION_TIME = 5.0  # ps, rigid and then flexible
SETTLING_TIME = 3.0       # ps, then with each run's own integrator
ORDINARY, PENALTY = "LangevinMiddle", "mass penalty"


def simulate(box: WaterBox, positions, name: str, step: float, options) -> app.Simulation:
    """What an ordinary script does before the run; `step` in ps. The two integrators differ in their line only."""
    forcefield = app.ForceField("tip3p.xml")
    system = forcefield.createSystem(box.topology, nonbondedMethod=app.PME, nonbondedCutoff=CUTOFF * unit.nanometer,
                                     constraints=None, rigidWater=False)
    for force in system.getForces():  # so that the energies can be told apart
        force.setForceGroup(GROUPS.get(force.getName(), 0))
    if name == ORDINARY:
        integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, options.friction, step)
    else:
        integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, options.friction, step)  # the line that is changed
    integrator.setRandomNumberSeed(options.seed)
    simulation = app.Simulation(box.topology, system, integrator, mm.Platform.getPlatform(options.platform))
    simulation.context.setPositions(positions)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    return simulation


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=20.0)
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", default=[4.0, 6.0, 8.0, 9.0, 10.0],
                        metavar="FS", help=f"step sizes of the {PENALTY}, fs (default: 4 6 8 9 10)")
    add_output_option(parser, "flexible_water.png")
    add_record_option(parser)
    options = parser.parse_args()
    parser.make_folder(options.output)

    box = build_box(options.waters)
    state = equilibrate_both(box, EQUILIBRATION_TIME, options)["flexible"]
    print(f"{options.waters} flexible TIP3P waters, {TEMPERATURE:g} K, friction {options.friction:g}/ps, "
          f"{options.time:g} ps each, {options.platform} platform; energies in kJ/mol per water\n")
    results = {}

    def rows() -> Iterator[list[str]]:
        for name, fs in [(ORDINARY, fs) for fs in ORDINARY_STEPS] + [(PENALTY, fs) for fs in options.steps]:
            simulation = simulate(box, state.getPositions(), name, fs / 1000, options)
            try:
                found = run(simulation, fs / 1000, options.time, f"{name}, {fs:g} fs")
            except (FloatingPointError, mm.OpenMMException):
                time = simulation.context.getTime().value_in_unit(unit.picosecond)
                yield [name, f"{fs:g}", f"fails after {time:.2f} ps"]
                continue
            results[name, fs] = found
            yield [name, f"{fs:g}", mean_with_error(found.temperature, 1), mean_with_error(found.nonbonded, 2),
                   mean_with_error(found.bond_energy, 3), mean_with_error(found.angle_energy, 3),
                   f"{found.bond_length[0]:.5f}, {found.bond_variance[0] ** 0.5:.5f}", f"{found.ns_per_day:.2f}"]

    print_table(["integrator", "step (fs)", "T (K)", "nonbonded", "bonds", "angles", "O-H mean, s.d. (nm)", "ns/day"],
                rows(), options.record, "flexible-water")
    print(NOTE)
    if (ORDINARY, REFERENCE_STEP) not in results:
        sys.exit(f"No figure: the reference, {ORDINARY} at {REFERENCE_STEP:g} fs, has failed")
    draw(results, options.output / "flexible_water.png")
    print(f"Distributions and energies: {options.output / 'flexible_water.png'}")


def run(simulation: app.Simulation, step: float, ps: float, label: str) -> Samples:
    """Settle, then sample for `ps`."""
    settling = round(SETTLING_TIME / step)
    with progress_bar(label, settling + number_of_steps(ps, step)) as bar:
        advance(simulation.integrator, settling, bar.update)
        return sample(simulation, ps, bar.update)


def draw(results: dict[tuple[str, float], Samples], path: Path):
    """O-H lengths, radial distributions and energies: the reference pale and wide, the rest in strong colours."""
    reference = results[ORDINARY, REFERENCE_STEP]
    runs: dict[str, tuple[Samples, dict[str, Any]]] = {
        f"{ORDINARY}, {REFERENCE_STEP:g} fs": (reference, {"color": "#fcbba1", "linewidth": 4})}
    penalty = [fs for name, fs in results if name == PENALTY]
    if penalty:
        shown = SHOWN_STEP if SHOWN_STEP in penalty else max(penalty)
        runs[f"{PENALTY}, {shown:g} fs"] = (results[PENALTY, shown], {"color": "#99000d", "linewidth": 1.2})

    figure, panels = pyplot.subplot_mosaic(
        [["lengths", "rdf", "nonbonded"], ["lengths", "rdf", "bonded"]], figsize=(14, 4.5), layout="constrained")
    panels["lengths"].margins(y=0.2)  # room for the legend
    for label, (found, style) in runs.items():
        density = found.bond_histogram / (found.bond_histogram.sum() * np.diff(BOND_BINS))
        panels["lengths"].plot((BOND_BINS[1:] + BOND_BINS[:-1]) / 2, density, label=label, **style)
        for i in range(len(RDF_PAIRS)):
            panels["rdf"].plot(rdf_distances(), found.rdf[i].mean(axis=0), **style)
    panels["lengths"].set(title="O-H length", xlabel="r (nm)", ylabel="probability density (1/nm)", ylim=(0, None))
    panels["lengths"].legend(frameon=False, loc="upper left", fontsize="small")
    for i, pair in enumerate(RDF_PAIRS):
        r, height = first_peak(pair, reference.rdf[i].mean(axis=0))
        panels["rdf"].annotate(pair, (r, height), xytext=(10, -8), textcoords="offset points")
    panels["rdf"].axhline(1, color="0.8", linewidth=0.8, zorder=0)
    panels["rdf"].set(title="Atoms of different molecules", xlabel="r (nm)", ylabel="g(r)", xlim=RDF_RANGE,
                      ylim=(0, None))

    energies = {"nonbonded": ("Nonbonded energy", lambda found: found.nonbonded),
                "bonded": ("Bonds and angles", lambda found: found.bond_energy + found.angle_energy)}
    for key, (title, energy) in energies.items():
        draw_against_step(panels[key], {at: energy(found) for at, found in results.items()}, energy(reference))
        panels[key].set(title=title, ylabel="kJ/mol per water")
    panels["nonbonded"].tick_params(labelbottom=False)
    panels["nonbonded"].sharex(panels["bonded"])
    panels["bonded"].set(xlabel="step (fs)")
    panels["bonded"].legend(frameon=False, fontsize="small")
    figure.suptitle("Flexible TIP3P water")
    figure.savefig(path, dpi=150)


def draw_against_step(panel, series: dict[tuple[str, float], np.ndarray], reference: np.ndarray):
    """Means with error bars for each (integrator, step in fs), and the reference with its error as a band."""
    error = blockedError(reference)
    panel.axhspan(reference.mean() - error, reference.mean() + error, color="#fcbba1", zorder=0)
    for integrator, (colour, marker) in {ORDINARY: ("#fb6a4a", "s"), PENALTY: ("#99000d", "o")}.items():
        steps = [fs for name, fs in series if name == integrator]
        panel.errorbar(steps, [series[integrator, fs].mean() for fs in steps],
                       [blockedError(series[integrator, fs]) for fs in steps],
                       color=colour, marker=marker, markersize=4, capsize=3, linewidth=1, label=integrator)


if __name__ == "__main__":
    run_program(main)
