#!/usr/bin/env python
"""What the scoreboard measures, on a GPU: energies of water, and how often torsions of peptides turn.

Boxes are those of the scoreboard, put together so many times along each edge: averages of 24,165 waters over 40 ps are
known to 0.03 %, and 64 dipeptides make 6.4 ns in 100 ps. Prints the deviations of the scoreboard, those of energies if
its reference was run, too; --record puts the steps into the scoreboard.
"""
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from openmm import app, unit
from openmmstiff.sampling import ERRORS

from common.options import (OptionParser, add_name_option, add_record_option, add_seed_option, each, number,
                            run_program)
from common.runs import FAILURES, get_positions
from common.scores import is_off
from common.tables import print_table, with_error
from scoreboard import Alanine, Found, Liquid, Villin, Water, judge, record

SYSTEMS: dict[str, Liquid] = {"tip3p": Water(895, 0), "alanine": Alanine(0), "villin": Villin(0)}
# ps between samples, and what is slow; their columns.
OBSERVED: dict[str, tuple[float, tuple[str, ...]]] = {"tip3p": (1.0, ()), "alanine": (0.2, ("psi", "methyl")),
                                                    "villin": (0.2, ("methyl", "chi1"))}
PEPTIDES = "bonds", "angles", "torsions", "nonbonded", "temperature"
DEVIATIONS = {"tip3p": ("nonbonded", "bonds", "angles", "translation", "rotation", "vibration"),
              "alanine": PEPTIDES, "villin": PEPTIDES}
SETTLING = 5.0      # ps, of each run


def tile(modeller: app.Modeller, copies: int) -> app.Modeller:
    """The same box so many times along each edge."""
    topology, edge = app.Topology(), modeller.topology.getUnitCellDimensions().value_in_unit(unit.nanometer)
    places = np.array(modeller.positions.value_in_unit(unit.nanometer))
    offsets = np.array(list(np.ndindex(3 * (copies,)))) * np.array(edge)
    for _ in offsets:
        chain, atoms = topology.addChain(), {}
        for residue in modeller.topology.residues():
            own = topology.addResidue(residue.name, chain)
            for atom in residue.atoms():
                atoms[atom] = topology.addAtom(atom.name, atom.element, own)
        for one, other in modeller.topology.bonds():
            topology.addBond(atoms[one], atoms[other])
    topology.setUnitCellDimensions(copies * edge * unit.nanometer)
    return app.Modeller(topology, np.concatenate([places + offset for offset in offsets]) * unit.nanometer)


def describe(name: str, method: str, fs: str, step: dict) -> list[str]:
    """Method and step; deviations in percent, marked where the step is wrong; times between transitions in ps."""
    if "failure" in step:
        return [method, fs, step["failure"]]
    cells = []
    for kind in DEVIATIONS[name]:
        if (deviation := step["deviations"].get(kind)) is None:
            cells.append("")
            continue
        value, error = deviation
        cells.append(with_error(100 * value, 100 * error, 2) + (" !" if is_off(kind, deviation) else ""))
    for kind in OBSERVED[name][1]:
        time, error = (float(fs) / 1000 * each for each in step["evaluations"][kind])
        cells.append(with_error(time, error, 2 if time < 10 else 0))
    return [method, fs, *cells]


def main():
    parser = OptionParser(__doc__)
    add_name_option(parser, "--system", SYSTEMS, "tip3p")
    parser.add_argument("--methods", nargs="+", metavar="NAME[:FS,...]",
                        help="of the scoreboard's, at these steps (default: all, at all)")
    parser.add_argument("--platform", default="CUDA:mixed", metavar="NAME[:PRECISION]", help="default: %(default)s")
    parser.add_argument("--copies", type=number(int, 1), default=3, metavar="N",
                        help="along each edge (default: %(default)s)")
    parser.add_argument("--time", type=number(float, 1, "ps"), default=40.0, metavar="PS",
                        help="of each run, ps (default: %(default)s)")
    parser.add_argument("--equilibration", type=number(float, 0, "ps"), default=20.0, metavar="PS",
                        help="of the box, ps (default: %(default)s)")
    add_seed_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    subject = SYSTEMS[options.system]
    runs: dict[str, Sequence[float]] = {}
    for key, _, steps in (each.partition(":") for each in options.methods or subject.methods):
        if key not in subject.methods:
            parser.error(f"argument --methods: '{key}': choose from {', '.join(subject.methods)}")
        runs[key] = [float(fs) for fs in steps.split(",")] if steps else subject.methods[key].steps
    subject.modeller, subject.platform = tile(subject.modeller, options.copies), options.platform
    subject.settling, (subject.interval, subject.slow) = SETTLING, OBSERVED[options.system]
    subject.methods = {key: replace(method, steps=tuple(runs.get(key, method.steps)))
                       for key, method in subject.methods.items()}
    if options.system == "tip3p":
        subject.label = f"{subject.modeller.topology.getNumResidues()} TIP3P waters"
    starts: dict[str, np.ndarray] = {}
    found: dict[tuple[str, float], list[Found]] = {}
    for key, fs in each("runs", [(key, fs) for key, steps in runs.items() for fs in steps]):
        method = subject.methods[key]
        if method.geometry not in starts:
            context = subject.start(method.geometry, options.seed, round(options.equilibration / subject.small))
            starts[method.geometry] = get_positions(context)
        if [] in (found.get((key, smaller)) for smaller in method.steps):
            continue
        try:
            found[key, fs] = [subject.run(method, fs / 1000, options.time, options.seed, starts[method.geometry])]
        except FAILURES as error:
            print(error, file=sys.stderr)
            found[key, fs] = []
    rows = list(judge(subject, found))
    print(f"{subject.label}, {options.time:g} ps; !: beyond the scoreboard's tolerance by {ERRORS} errors")
    print_table(["method", "step (fs)", *(f"{kind} (%)" for kind in DEVIATIONS[options.system]),
                 *(f"{kind} (ps)" for kind in subject.slow)],
                [describe(options.system, row["method"], *step) for row in rows for step in row["steps"].items()],
                options.record, f"large-boxes-{options.system}")
    if options.record:
        record(options.record, rows)


if __name__ == "__main__":
    run_program(main)
