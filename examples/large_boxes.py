#!/usr/bin/env python
"""What the scoreboard measures, decided on a GPU: energies of water, and how often torsions of alanine dipeptide turn.

Boxes are those of the scoreboard, put together so many times along each edge: averages of 24,165 waters over 60 ps are
known to 0.03 %, and 64 dipeptides make 6.4 ns in 100 ps. Deviations are those of energies from the scoreboard's
reference, if it was run before, and of temperatures from the thermostat's; with blocked errors. An H200 needs four
minutes for what is on record.
"""
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff.sampling import blockedError

from common import proteins, water
from common.observables import temperatures_by_motion, transitions, turns
from common.options import OptionParser, add_name_option, add_record_option, add_seed_option, number, run_program
from common.runs import FAILURES, get_positions
from common.scores import ERRORS, WRONG, decide
from common.tables import print_table, with_error
from scoreboard import CALM, SUBJECTS, TEMPERATURE, WELLS, Method

SETTLING = 5.0      # ps, of each run
MOTIONS = "translation", "rotation", "vibration"


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

    def __init__(self, copies: int):
        box = water.build_box()
        self.modeller = tile(app.Modeller(box.topology, box.positions * unit.nanometer), copies)
        self.torsions: dict[str, np.ndarray] = {}
        self.label = f"{self.modeller.topology.getNumResidues()} TIP3P waters"

    def build(self, method: Method) -> mm.System:
        return water.build_system(water.WaterBox(self.modeller.topology, np.array([])), method.geometry)

    @staticmethod
    def temperatures(state: mm.State, system: mm.System) -> dict[str, float]:
        masses = np.array([system.getParticleMass(i)._value for i in range(3)])
        x, v = (each._value.reshape(-1, 3, 3) for each in (state.getPositions(asNumpy=True),
                                                            state.getVelocities(asNumpy=True)))
        return dict(zip(MOTIONS, temperatures_by_motion(x, v, masses, state.getKineticEnergy()._value)))


class Alanine:
    """Energies, and torsions."""
    key, interval, every = "alanine", 0.2, 5
    groups = {name: next(iter(group)) for name, group in proteins.ENERGIES.items()}

    def __init__(self, copies: int):
        self.modeller = tile(proteins.solvate_alanine(350), copies)
        found = proteins.torsions(self.modeller.topology)
        self.torsions = {name: found[name] for name in ("psi", "methyl")}
        self.label = f"{len(found['psi'])} alanine dipeptides in water"

    def build(self, method: Method) -> mm.System:
        flexible = method.geometry == "flexible"
        return proteins.build_protein(self.modeller, "water", None if flexible else app.HBonds, not flexible,
                                      method.hydrogen_mass, "tip3p")

    @staticmethod
    def temperatures(state: mm.State, system: mm.System) -> dict[str, float]:
        return {}


KINDS: dict[str, Any] = {"tip3p": Water, "alanine": Alanine}


def run(subject: Any, context: mm.Context, fs: float, time: float) -> dict[str, np.ndarray]:
    """Series by name."""
    system, integrator = context.getSystem(), context.getIntegrator()
    series: dict[str, list] = {}
    integrator.setStepSize(fs / 1000)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    integrator.step(round(1000 * SETTLING / fs))
    burst = round(1000 * subject.interval / fs)
    for i in range(round(1000 * time / fs / burst)):
        whole = i % subject.every == 0
        integrator.step(burst)
        state = context.getState(positions=True, velocities=whole, energy=whole)
        found: dict[str, Any] = {name: turns(state.getPositions(asNumpy=True)._value, atoms)
                                 for name, atoms in subject.torsions.items()}
        if whole:
            energies = {name: context.getState(energy=True, groups={group}).getPotentialEnergy()._value
                        for name, group in subject.groups.items()}
            found |= {name: energy for name, energy in energies.items() if energy}
            found |= {name: value for name, value in subject.temperatures(state, system).items() if np.isfinite(value)}
        for name, value in found.items():
            series.setdefault(name, []).append(value)
    result = {name: np.array(each) for name, each in series.items()}
    if not all(np.isfinite(each).all() for each in result.values()):
        raise FloatingPointError("it is not finite")
    return result


def columns_of(subject: Any) -> tuple[str, ...]:
    return *subject.groups, *(() if subject.torsions else MOTIONS)


def describe(subject: Any, found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> list[str]:
    """The cells of a row: deviations in percent, with a mark where a step is wrong; times between transitions in ps."""
    cells = []
    for name in columns_of(subject):
        if name not in found or name not in MOTIONS and not reference:
            cells.append("")
            continue
        mean, error = found[name].mean(), blockedError(found[name])
        expected, other = (TEMPERATURE, 0) if name in MOTIONS else (reference[name].mean(), blockedError(reference[name]))
        part, error = (mean - expected) / abs(expected), float(np.hypot(error, other)) / abs(expected)
        cells.append(with_error(100 * part, 100 * error, 2) + (" !" if decide(name, (part, error)) == WRONG else ""))
    for name, atoms in subject.torsions.items():
        count = max(1, transitions(found[name], WELLS[name]))
        between = len(atoms) * len(found[name]) * subject.interval / count
        cells.append(with_error(between, between / count**0.5, 2 if between < 10 else 0))
    return cells


def compare(subject: Any, runs: dict[str, Sequence[float]], options) -> Iterator[list[str]]:
    """The rows of the table."""
    known = SUBJECTS[subject.key].methods
    name, _, precision = options.platform.partition(":")
    platform, properties = mm.Platform.getPlatform(name), {"Precision": precision} if precision else {}
    starts: dict[str, np.ndarray] = {}
    references: dict[str, dict[str, np.ndarray]] = {}
    for key, steps in runs.items():
        method = known[key]
        integrator = method.make(TEMPERATURE, SUBJECTS[subject.key].friction, steps[0] / 1000)
        integrator.setRandomNumberSeed(options.seed)
        context = mm.Context(subject.build(method), integrator, platform, properties)
        if method.geometry not in starts:
            starts[method.geometry] = equilibrate(subject, method, platform, properties, options)
        for fs in steps:
            context.setPositions(starts[method.geometry])
            try:
                found = run(subject, context, fs, options.time)
            except FAILURES as error:
                print(error, file=sys.stderr)
                yield [method.label, f"{fs:g}", "fails"]
                break
            if method is next(each for each in known.values() if each.geometry == method.geometry):
                references.setdefault(method.geometry, found)
            yield [method.label, f"{fs:g}", *describe(subject, found, references.get(method.geometry, {}))]


def equilibrate(subject: Any, method: Method, platform: mm.Platform, properties: dict[str, str], options) -> np.ndarray:
    """Positions after a run of LangevinMiddle with friction."""
    step = 0.002 if method.geometry == "flexible" else 0.004
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, CALM, step / 4)
    context = mm.Context(subject.build(method), integrator, platform, properties)
    context.setPositions(subject.modeller.positions)
    mm.LocalEnergyMinimizer.minimize(context, 10, 30)
    context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    integrator.step(2000)
    integrator.setStepSize(step)
    integrator.step(round(options.equilibration / step))
    return get_positions(context)


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
    columns = [*(f"{each} (%)" for each in columns_of(subject)), *(f"{each} (ps)" for each in subject.torsions)]
    print_table(["method", "step (fs)", *columns], compare(subject, runs, options), options.record,
                f"large-boxes-{options.system}")


if __name__ == "__main__":
    run_program(main)
