"""Do the steps hold that examine() recommends? Many steps at each, and at twice as much, which is to be too large.

A step holds if the run ends and its temperature is within 2 % of the bath's; if twice as much holds, too, it is timid.
"""
import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology, examine
from openmmstiff._topology import find_unrecognized
from openmmstiff.sampling import sample

from common.amoeba import build_droplet, build_system as build_amoeba
from exam import Claim, Exam, Results, Settings, Table, each
from common.proteins import build_protein, read_villin
from common.tables import mean_with_error
from common.water import build_box, build_system
from common.xtb import MOLECULES

TEMPERATURE, FRICTION = 300.0, 5.0
TOLERANCE = 0.02        # of the temperature
EQUILIBRATION = 2000    # steps of LangevinMiddle
SAMPLES = 2000
STEPS = 20000           # of each run
MORE = {"amoeba": 50_000, "ethanol": 100_000, "ethanol-heavy": 100_000}     # small: their temperature fluctuates
INTEGRATORS = {"LangevinMiddleIntegrator": mm.LangevinMiddleIntegrator,
               "MassPenaltyLangevinIntegrator": MassPenaltyLangevinIntegrator}
Built = tuple[app.Topology, mm.System, np.ndarray, str]     # positions in nm, the platform


def tip3p(geometry: str) -> Built:
    box = build_box(216)
    return box.topology, build_system(box, geometry), box.positions, "CPU"


def villin(solvent: str, constraints=None, hydrogen_mass: float | None = None) -> Built:
    modeller = read_villin(solvent)
    system = build_protein(modeller, solvent, constraints, constraints is not None, hydrogen_mass)
    return modeller.topology, system, np.array(modeller.positions.value_in_unit(unit.nanometer)), "CPU"


def xtb(name: str, hydrogen_mass: float | None = None) -> Built:
    molecule = MOLECULES[name]
    return molecule.build_topology(), molecule.build_system(hydrogen_mass), np.array(molecule.positions), "Reference"


def amoeba() -> Built:
    box = build_droplet(8)
    return box.topology, build_amoeba(box.topology, "mutual"), box.positions, "Reference"


def beads() -> Built:
    """A liquid of 200 chains of four beads, with the masses, bonds, angles and sizes of Martini."""
    system, topology, edges = mm.System(), app.Topology(), 6.0 * np.eye(3)
    bonds, angles = mm.HarmonicBondForce(), mm.HarmonicAngleForce()
    pairs = mm.CustomNonbondedForce("4*5*((0.47/r)^12-(0.47/r)^6)")
    pairs.setNonbondedMethod(mm.CustomNonbondedForce.CutoffPeriodic)
    pairs.setCutoffDistance(1.1)
    chain, positions = topology.addChain(), []
    for place in list(np.ndindex(6, 6, 6))[:200]:
        residue, first = topology.addResidue("CHN", chain), system.getNumParticles()
        atoms = [topology.addAtom(f"B{i}", None, residue) for i in range(4)]
        for i in range(4):
            system.addParticle(72)
            pairs.addParticle([])
            positions.append(np.array(place) + [0.24 * (i % 2), 0.22 * i, 0.1 * i])
        for i in range(3):
            bonds.addBond(first + i, first + i + 1, 0.47, 1250)
            topology.addBond(atoms[i], atoms[i + 1])
            pairs.addExclusion(first + i, first + i + 1)
        for i in range(2):
            angles.addAngle(first + i, first + i + 1, first + i + 2, np.radians(120), 25)
            pairs.addExclusion(first + i, first + i + 2)
    for force in bonds, angles, pairs, mm.CMMotionRemover():
        system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*edges)
    topology.setPeriodicBoxVectors(edges * unit.nanometer)
    return topology, system, np.array(positions), "CPU"


SYSTEMS: dict[str, tuple[str, Callable[[], Built]]] = {
    "tip3p": ("216 TIP3P, flexible", lambda: tip3p("flexible")),
    "tip3p-rigid": ("216 TIP3P, rigid", lambda: tip3p("rigid")),
    "beads": ("beads as Martini's", beads),
    "ethanol": ("ethanol, GFN2-xTB", lambda: xtb("ethanol")),
    "ethanol-heavy": ("the same, H of 4 dalton", lambda: xtb("ethanol", 4.0)),
    "amoeba": ("8 AMOEBA waters", amoeba),
    "villin-vacuum": ("villin, in vacuum", lambda: villin("vacuum")),
    "villin-heavy": ("the same, HBonds, H of 4 dalton", lambda: villin("vacuum", app.HBonds, 4.0)),
}


def start(name: str) -> app.Simulation:
    topology, system, positions, platform = SYSTEMS[name][1]()
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, 20, 0.0005)
    integrator.setRandomNumberSeed(1)
    simulation = app.Simulation(topology, system, integrator, mm.Platform.getPlatform(platform))
    simulation.context.setPositions(positions)
    try:
        simulation.minimizeEnergy(maxIterations=200)
    except mm.OpenMMException:      # a self-consistent field that does not converge far from the minimum
        simulation.context.setPositions(positions)
    return simulation


def run(name: str, integrator: str, factor: int, settings: Settings) -> dict:
    """Temperatures of many steps, with what was recommended times a factor."""
    examined = examine(start(name), TEMPERATURE)
    recommended = next(each for each in examined.recommendations if each.integrator == integrator)
    before = start(name)
    positions = before.context.getState(positions=True).getPositions(asNumpy=True)
    before.context.setVelocitiesToTemperature(TEMPERATURE, 1)
    before.step(EQUILIBRATION)
    state = before.context.getState(positions=True)
    made = INTEGRATORS[integrator](TEMPERATURE, FRICTION, factor * recommended.stepSize)
    made.setRandomNumberSeed(settings.seed)
    if integrator == "MassPenaltyLangevinIntegrator" and find_unrecognized(before.topology, before.system):
        addPairsFromTopology(made, before.topology, before.system, positions)
    simulation = app.Simulation(before.topology, before.system, made, before.context.getPlatform())
    simulation.context.setPositions(state.getPositions())
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, settings.seed)
    steps = max(SAMPLES, round(settings.scale * MORE.get(name, STEPS)))
    found = {"step": 1000 * factor * recommended.stepSize, "steps": steps}
    try:
        simulation.step(steps // 20)
        found["temperature"] = sample(simulation.context, steps // SAMPLES, SAMPLES).temperature
    except (mm.OpenMMException, FloatingPointError):
        found["end"] = f"fails after {simulation.context.getTime()._value:.3g} ps"
    return found


def runs(settings: Settings) -> dict[str, partial]:
    return {f"{name}-{kind}-{factor}x": partial(run, name, integrator, factor, settings)
            for name in SYSTEMS for kind, integrator in zip(("middle", "penalty"), INTEGRATORS) for factor in (1, 2)}


def tell(result: dict) -> str:
    return result["end"] if "end" in result else mean_with_error(result["temperature"], 1)


def holds(result: dict) -> bool:
    return "end" not in result and abs(result["temperature"].mean() / TEMPERATURE - 1) < TOLERANCE


def claims(results: Results, name: str) -> Iterator[Claim]:
    result, twice = results[name], name.endswith("2x")
    yield Claim.true("twice the step is too large" if twice else "the recommended step holds", holds(result) != twice)


def report(results: Results) -> Iterator[Claim | Table]:
    rows = []
    for system, kind in itertools.product(SYSTEMS, ("middle", "penalty")):
        once, twice = (results[f"{system}-{kind}-{factor}x"] for factor in (1, 2))
        if "failure" in once | twice:
            continue
        rows.append([SYSTEMS[system][0], {"middle": "LangevinMiddle", "penalty": "mass penalty"}[kind],
                     f"{once['step']:.3g}", f"{once['steps']:,}", tell(once), tell(twice)])
    yield Table(f"Friction {FRICTION:g}/ps", ["system", "integrator", "step (fs)", "steps", "T (K)",
                                              "at twice the step"], rows, "recommended-steps")
    yield from each(results, partial(claims, results))


# With an inertia of bonds the advice ends at 12 fs, for the sake of planar molecules.
LIMITS = {(f"{name}-penalty-2x", "twice the step is too large"): (0, 0) for name in ("ethanol", "ethanol-heavy")}
EXAM = Exam("recommended-steps", "The steps that examine() recommends, and twice as much", runs, report, LIMITS)
