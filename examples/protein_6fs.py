#!/usr/bin/env python
"""A protein with all its bonds and angles flexible at 6 fs, and at 8 fs with heavy hydrogens.

The villin headpiece of OpenMM's test.pdb in vacuum or in flexible water, with MassPenaltyLangevinIntegrator. The
reference is LangevinMiddleIntegrator at 1 fs; averages over positions do not depend on masses, so it is that of
heavy hydrogens as well. Energies are those of all bonds, angles and torsions (the water's included), and of all
other forces, in kT. Prints a table and draws a figure.
"""
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import blockedError

from common.options import OptionParser, add_output_option, number, run_program
from common.tables import NOTE, print_table
from villin import COLUMNS, TEMPERATURE, add_villin_options, build_villin, make_run, print_heading, read_villin

REFERENCE_STEP = 1.0  # fs
REFERENCE, PENALTY = "LangevinMiddle", "mass penalty"
DRAWN = ("bonds", "angles", "torsions")  # what follows the temperature in a series of villin.run


def main():
    parser = OptionParser(__doc__)
    add_villin_options(parser)
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", default=[4.0, 5.0, 6.0], metavar="FS",
                        help="step sizes with the masses of the force field, fs (default: 4 5 6)")
    parser.add_argument("--hydrogen-mass", type=number(float, 1, "dalton", most=4), default=4.0, metavar="DALTON",
                        help="mass of heavy hydrogens, taken from the atoms bonded to them (default: %(default)s)")
    parser.add_argument("--heavy-steps", type=number(float, 0.1, "fs"), nargs="*", default=[8.0], metavar="FS",
                        help="step sizes with heavy hydrogens, fs; none: leave these runs out (default: 8)")
    add_output_option(parser, "protein.png")
    options = parser.parse_args()
    parser.make_folder(options.output)

    modeller = read_villin(options.solvent)
    heavy = f"{PENALTY}, H of {options.hydrogen_mass:g} dalton"
    results = {}
    print_heading(modeller, options)

    def rows() -> Iterator[list[str]]:
        for label, make, hydrogen_mass, steps in (
                (REFERENCE, mm.LangevinMiddleIntegrator, None, [REFERENCE_STEP]),
                (PENALTY, MassPenaltyLangevinIntegrator, None, options.steps),
                (heavy, MassPenaltyLangevinIntegrator, options.hydrogen_mass, options.heavy_steps)):
            for fs in steps:
                system = build_villin(modeller, options.solvent, constraints=None, rigid_water=False,
                                      hydrogen_mass=hydrogen_mass)
                row, series = make_run(modeller, system, make(TEMPERATURE, options.friction, fs / 1000), label, options)
                yield row
                if series is not None:
                    results[label, fs] = dict(zip(DRAWN, series[1:]))

    print_table(COLUMNS, rows(), options.record, f"protein-{options.solvent}")
    print(f"{NOTE} Torsions and\nother forces follow the conformation, which outlasts runs of some ten ps: from seed "
          "to seed they scatter by 10 kT\nand more.")
    if (REFERENCE, REFERENCE_STEP) not in results:
        sys.exit(f"No figure: the reference, {REFERENCE} at {REFERENCE_STEP:g} fs, has failed")
    draw(results, options.solvent, options.output / "protein.png")
    print(f"Energies against the step: {options.output / 'protein.png'}")


def draw(results: dict[tuple[str, float], dict[str, np.ndarray]], solvent: str, path: Path):
    """A panel for each kind of energy: means with error bars against the step, the reference's as a band."""
    figure, panels = pyplot.subplots(1, len(DRAWN), figsize=(12, 4), layout="constrained")
    labels = list(dict.fromkeys(label for label, _ in results))
    for kind, panel in zip(DRAWN, panels):
        reference = results[REFERENCE, REFERENCE_STEP][kind]
        error = blockedError(reference)
        panel.axhspan(reference.mean() - error, reference.mean() + error, color="#fcbba1", zorder=0)
        for label, (colour, marker) in zip(labels, (("#fb6a4a", "s"), ("#99000d", "o"), ("#08519c", "D"))):
            steps = [fs for name, fs in results if name == label]
            panel.errorbar(steps, [results[label, fs][kind].mean() for fs in steps],
                           [blockedError(results[label, fs][kind]) for fs in steps],
                           color=colour, marker=marker, markersize=5, capsize=3, linewidth=1, label=label)
        panel.set(title=kind.capitalize(), xlabel="step (fs)", ylabel="mean energy (kT)")
    panels[0].legend(frameon=False, fontsize="small")
    figure.suptitle(f"Villin in {solvent}, all bonds and angles flexible")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    run_program(main)
