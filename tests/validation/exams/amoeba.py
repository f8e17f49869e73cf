"""Alanine dipeptide in AMOEBA, as OpenMM makes it: the mass penalty recognizes all of its bonds and angles.

Those at trigonal atoms are in-plane angles, terms of a CustomCompoundBondForce. Energies are those of LangevinMiddle at
1 fs.
"""
from collections.abc import Iterator
from functools import partial

import openmm as mm
from openmm import app
from openmmstiff import MassPenaltyIntegrator, MassPenaltyLangevinIntegrator
from openmmstiff.sampling import sample, separateForces

from exam import Claim, Exam, Results, Settings, Table, bath_claim, by_name, each, mean_within
from common.tables import mean_with_error
from common.proteins import build_alanine

TEMPERATURE, FRICTION = 300.0, 5.0  # K, 1/ps
STEPS = 100_000
INTERVAL = 10               # steps between samples
TOLERANCE = 0.015           # of the temperature
PAIRS = 21 + 20 + 10        # bonds, angles, in-plane angles that others do not determine, of the whole molecule
FORCES = {"bonds": "AmoebaBondForce", "angles": "AmoebaAngleForce", "in-plane angles": "AmoebaInPlaneAngleForce"}
REFERENCE = "middle-1fs"
RUNS = {REFERENCE: (mm.LangevinMiddleIntegrator, 1, 10 * STEPS),    # class, fs, steps
        **{f"penalty-{fs}fs": (MassPenaltyLangevinIntegrator, fs, STEPS) for fs in (8, 10, 12)}}


def make(name: str, settings: Settings) -> dict:
    cls, fs, steps = RUNS[name]
    solute = build_alanine(app.ForceField("amber14-all.xml"))    # whose hydrogens begin where they should be
    system = app.ForceField("amoeba2018.xml").createSystem(solute.topology, constraints=None, rigidWater=False,
                                                           removeCMMotion=False)
    groups = separateForces(system)
    integrator = cls(TEMPERATURE, FRICTION, fs / 1000)
    integrator.setRandomNumberSeed(settings.seed)
    simulation = app.Simulation(solute.topology, system, integrator, mm.Platform.getPlatform("Reference"))
    simulation.context.setPositions(solute.positions)
    simulation.minimizeEnergy()
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, settings.seed)
    pairs = 0
    if MassPenaltyIntegrator.isinstance(integrator):
        size = integrator.getMaxBlockSize()
        integrator.setMaxBlockSize(0)       # what is cut has no pair
        pairs = integrator.computeNumPenalizedPairs()
        integrator.setMaxBlockSize(size)
    steps = max(1000, round(settings.scale * steps))
    simulation.step(steps // 20)
    found = sample(simulation.context, INTERVAL, steps // INTERVAL,
                   groups={kind: groups[force] for kind, force in FORCES.items()})
    return {"steps": steps, "pairs": pairs, "temperature": found.temperature, **found.energies}


def claims(results: Results, name: str) -> Iterator[Claim]:
    found = results[name]
    yield Claim.true("all bonds and angles are recognized", found["pairs"] == PAIRS)
    for kind in FORCES:
        yield mean_within(f"{kind}, kJ/mol", found[kind], results[REFERENCE][kind])
    yield bath_claim("temperature, K", found["temperature"], TEMPERATURE, TOLERANCE)


def report(results: Results) -> Iterator[Claim | Table]:
    labels = {mm.LangevinMiddleIntegrator: "LangevinMiddle", MassPenaltyLangevinIntegrator: "mass penalty"}
    yield Table(f"Friction {FRICTION:g}/ps, energies in kJ/mol", ["integrator", "step (fs)", "T (K)", *FORCES], [
        [labels[RUNS[name][0]], str(RUNS[name][1]), mean_with_error(found["temperature"], 1),
         *(mean_with_error(found[kind], 2) for kind in FORCES)]
        for name, found in results.items() if "failure" not in found], "amoeba")
    yield from each([name for name in RUNS if name != REFERENCE], partial(claims, results))


EXAM = Exam("amoeba", "Alanine dipeptide in AMOEBA, against LangevinMiddle", by_name(make, RUNS), report)
