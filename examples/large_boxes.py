#!/usr/bin/env python
"""What the scoreboard measures, on a GPU: energies of water, and how often torsions of alanine dipeptide turn.

Boxes are those of the scoreboard, put together so many times along each edge: averages of 24,165 waters over 40 ps are
known to 0.03 %, and 64 dipeptides make 6.4 ns in 100 ps. Prints the deviations of the scoreboard, those of
energies if its reference was run before; --record puts the steps into the scoreboard, too. An H200 needs four minutes
for what is on record.
"""
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff.sampling import computeTemperature, countFreedom

from common import proteins, water
from common.observables import temperatures_by_motion, turns
from common.options import OptionParser, add_name_option, add_record_option, add_seed_option, number, run_program
from common.runs import FAILURES, begin, get_positions
from common.scores import ERRORS, is_off
from common.tables import print_table, with_error
from scoreboard import CALM, SUBJECTS, TEMPERATURE, Found, Method, collect, record, time_between, weigh

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


class Water:
    """Energies, and temperatures by kind of motion."""
    key, interval, every = "tip3p", 1.0, 1      # ps between samples of torsions, and of these between other samples
    groups = {"nonbonded": water.NONBONDED_GROUP, "bonds": water.BOND_GROUP, "angles": water.ANGLE_GROUP}
    motions: tuple[str, ...] = ("translation", "rotation", "vibration")
    slow: tuple[str, ...] = ()

    def __init__(self, copies: int):
        box = water.build_box()
        self.modeller = tile(app.Modeller(box.topology, box.positions * unit.nanometer), copies)
        self.label = f"{self.modeller.topology.getNumResidues()} TIP3P waters"

    def build(self, method: Method) -> mm.System:
        return water.build_system(water.WaterBox(self.modeller.topology, np.array([])), method.geometry)

    def temperatures(self, context: mm.Context, state: mm.State) -> Sequence[float]:
        masses = np.array([context.getSystem().getParticleMass(i)._value for i in range(3)])
        x, v = (each._value.reshape(-1, 3, 3) for each in (state.getPositions(asNumpy=True),
                                                            state.getVelocities(asNumpy=True)))
        return temperatures_by_motion(x, v, masses, state.getKineticEnergy()._value)


class Alanine:
    """Energies, and torsions."""
    key, interval, every = "alanine", 0.2, 5
    groups = {name: next(iter(group)) for name, group in proteins.ENERGIES.items()}
    motions, slow = ("temperature",), ("psi", "methyl")

    def __init__(self, copies: int):
        self.modeller = tile(proteins.solvate_alanine(350), copies)
        self.torsions = proteins.torsions(self.modeller.topology)
        self.label, self.freedom = SUBJECTS[self.key].label, 0

    def build(self, method: Method) -> mm.System:
        flexible = method.geometry == "flexible"
        system = proteins.build_protein(self.modeller, "water", None if flexible else app.HBonds, not flexible,
                                        method.hydrogen_mass, "tip3p")
        self.freedom = countFreedom(system)
        return system

    def temperatures(self, context: mm.Context, state: mm.State) -> Sequence[float]:
        return [computeTemperature(context, state, self.freedom)]


KINDS: dict[str, Any] = {"tip3p": Water, "alanine": Alanine}


def run(subject: Any, context: mm.Context, fs: float, time: float, seed: int) -> Found:
    """At a step, for a time in ps."""
    integrator = context.getIntegrator()
    integrator.setStepSize(fs / 1000)
    context.setVelocitiesToTemperature(TEMPERATURE, seed)
    integrator.step(round(1000 * SETTLING / fs))
    burst = round(1000 * subject.interval / fs)
    series: dict[str, list] = {name: [] for name in (*subject.groups, *subject.motions, *subject.slow)}
    for i in range(round(1000 * time / fs / burst)):
        whole = i % subject.every == 0
        integrator.step(burst)
        state = context.getState(positions=True, velocities=whole, energy=whole)
        for name in subject.slow:
            series[name].append(turns(state.getPositions(asNumpy=True)._value, subject.torsions[name]))
        if whole:
            for name, group in subject.groups.items():
                series[name].append(context.getState(energy=True, groups={group}).getPotentialEnergy()._value)
            for name, value in zip(subject.motions, subject.temperatures(context, state)):
                series[name].append(value)
    arrays = {name: np.array(each) for name, each in series.items()}
    energies = {name: arrays[name] for name in subject.groups}
    if not all(np.isfinite(each).all() for each in energies.values()):
        raise FloatingPointError("an energy is not finite")
    return collect(Found(fs / 1000, energies, {}, {}), {name: arrays[name] for name in subject.motions},
                   {name: time_between(arrays[name], name, subject.interval) for name in subject.slow})


def compare(subject: Any, runs: dict[str, Sequence[float]], options) -> Iterator[dict]:
    """Rows of the scoreboard, each with one step."""
    known = SUBJECTS[subject.key].methods
    starts: dict[str, np.ndarray] = {}
    references: dict[str, list[Found]] = {}
    for key, steps in runs.items():
        method = known[key]
        integrator = method.make(TEMPERATURE, SUBJECTS[subject.key].friction, steps[0] / 1000)
        if method.geometry not in starts:
            starts[method.geometry] = equilibrate(subject, method, options)
        context = start(subject.build(method), integrator, starts[method.geometry], options)
        for fs in steps:
            context.setPositions(starts[method.geometry])
            try:
                found = [run(subject, context, fs, options.time, options.seed)]
            except FAILURES as error:
                print(error, file=sys.stderr)
                found = []
            if method is next(each for each in known.values() if each.geometry == method.geometry):
                references.setdefault(method.geometry, found)
            yield {"system": subject.label, "method": method.label, "ours": method.ours,
                   "steps": {f"{fs:g}": weigh(found, references.get(method.geometry, []), subject.slow)}}
            if not found:
                break


def start(system: mm.System, integrator: mm.Integrator, positions: np.ndarray, options, minimize: int = 0) -> mm.Context:
    """On the platform of the options, such as CUDA:mixed."""
    platform, _, precision = options.platform.partition(":")
    return begin(system, integrator, positions, platform, TEMPERATURE, options.seed, minimize,
                 {"Precision": precision} if precision else {})


def equilibrate(subject: Any, method: Method, options) -> np.ndarray:
    """Positions after a run of LangevinMiddle with friction."""
    step = 0.002 if method.geometry == "flexible" else 0.004
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, CALM, step / 4)
    context = start(subject.build(method), integrator, subject.modeller.positions, options, 30)
    integrator.step(2000)
    integrator.setStepSize(step)
    integrator.step(round(options.equilibration / step))
    return get_positions(context)


def describe(subject: Any, row: dict) -> list[str]:
    """Method and step; deviations in percent, marked where the step is wrong; times between transitions in ps."""
    (fs, step), = row["steps"].items()
    if "failure" in step:
        return [row["method"], fs, step["failure"]]
    cells = []
    for name in (*subject.groups, *subject.motions):
        if (deviation := step["deviations"].get(name)) is None:
            cells.append("")
            continue
        value, error = deviation
        cells.append(with_error(100 * value, 100 * error, 2) + (" !" if is_off(name, deviation) else ""))
    for name in subject.slow:
        time, error = (float(fs) / 1000 * each for each in step["evaluations"][name])
        cells.append(with_error(time, error, 2 if time < 10 else 0))
    return [row["method"], fs, *cells]


def main():
    parser = OptionParser(__doc__)
    add_name_option(parser, "--system", KINDS, "tip3p")
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
    known = SUBJECTS[options.system].methods
    runs: dict[str, Sequence[float]] = {}
    for key, _, steps in (each.partition(":") for each in options.methods or known):
        if key not in known:
            parser.error(f"argument --methods: '{key}': choose from {', '.join(known)}")
        runs[key] = [float(fs) for fs in steps.split(",")] if steps else known[key].steps
    subject = KINDS[options.system](options.copies)
    print(f"{subject.label}, {options.time:g} ps; !: beyond the scoreboard's tolerance by {ERRORS} errors")
    rows: list[dict] = []

    def cells() -> Iterator[list[str]]:
        for row in compare(subject, runs, options):
            rows.append(row)
            yield describe(subject, row)

    columns = ["method", "step (fs)", *(f"{each} (%)" for each in (*subject.groups, *subject.motions)),
               *(f"{each} (ps)" for each in subject.slow)]
    print_table(columns, cells(), options.record, f"large-boxes-{options.system}")
    if options.record:
        record(options.record, rows)


if __name__ == "__main__":
    run_program(main)
