"""Molecules of all kinds in GFN2-xTB, at the step that examine() advises: they hold, at the bath's temperature.

What is planar was difficult: more distances than motions in the plane, the surplus ones of which tell motion out of it
in second order only.
"""
from collections.abc import Iterator
from functools import partial

import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology, examine
from openmmstiff.sampling import sample

from exam import Claim, Exam, Results, Settings, Table, bath_claim, by_name, each
from common.molecules import SMILES, read_smiles
from common.tables import mean_with_error
from common.xtb import Molecule

TEMPERATURE, FRICTION = 300.0, 5.0  # K, 1/ps
STEPS = 100_000
RELAXATION = (0.0, 50.0, 0.0005, 1000)      # K, 1/ps, ps, steps of LangevinMiddle from RDKit's positions
INTERVAL = 10                               # steps between samples
TOLERANCE = 0.015                           # of the temperature


def build(name: str) -> Molecule:
    from rdkit import Chem
    molecule = read_smiles(name)
    return Molecule(name, " ".join(f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.GetAtoms()),
                    tuple((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()),
                    tuple(map(tuple, 0.1 * molecule.GetConformer().GetPositions())), (), (),
                    charge=Chem.GetFormalCharge(molecule))


def simulate(molecule: Molecule, integrator: mm.Integrator, positions) -> app.Simulation:
    simulation = app.Simulation(molecule.build_topology(), molecule.build_system(), integrator,
                                mm.Platform.getPlatform("Reference"))
    simulation.context.setPositions(positions)
    return simulation


def make(name: str, settings: Settings) -> dict:
    molecule = build(name)
    *arguments, steps = RELAXATION
    start = simulate(molecule, mm.LangevinMiddleIntegrator(*arguments), molecule.positions)
    start.step(steps)
    positions = start.context.getState(positions=True).getPositions(asNumpy=True)
    found = examine(start, TEMPERATURE)
    integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, found.getStepSize())
    integrator.setRandomNumberSeed(settings.seed)
    addPairsFromTopology(integrator, start.topology, start.system, positions)
    simulation = simulate(molecule, integrator, positions)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, settings.seed)
    steps = max(1000, round(settings.scale * STEPS))
    integrator.step(steps // 20)
    run = sample(simulation.context, INTERVAL, steps // INTERVAL)
    return {"step": found.getStepSize().value_in_unit(unit.femtosecond), "temperature": run.temperature, "steps": steps,
            "reason": found.recommendations[0].reason}


def claims(results: Results, name: str) -> Iterator[Claim]:
    yield bath_claim("temperature, K", results[name]["temperature"], TEMPERATURE, TOLERANCE)


def report(results: Results) -> Iterator[Claim | Table]:
    columns = ["molecule", "step (fs)", "steps", "T (K)", "what limits it"]
    yield Table(f"At the advised step, friction {FRICTION:g}/ps", columns, [
        [name, f"{found['step']:g}", f"{found['steps']}", mean_with_error(found["temperature"], 1), found["reason"]]
        for name, found in results.items() if "failure" not in found], "molecules")
    yield from each(results, partial(claims, results))


EXAM = Exam("molecules", "Molecules of all kinds in GFN2-xTB, at the advised step", by_name(make, SMILES), report)
