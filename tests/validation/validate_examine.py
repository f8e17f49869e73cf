#!/usr/bin/env python
"""Do the steps hold that examine() recommends? Many steps at each, and at twice as much, which is to be too large.

A step holds if the run ends and its temperature is within 2 % of the bath's; if twice as much holds, too, it is timid.
"""
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit

from openmmstiff import (ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator, ZhangSkeelLangevinIntegrator,
                         addPairsFromTopology, examine)
from openmmstiff._topology import find_unrecognized
from openmmstiff.sampling import Samples, blockedError, sample
from openmmstiff.tasks import runTasks

import runs  # noqa: F401 (finds the examples)
from amoeba_water import build_droplet, build_system as build_amoeba
from options import OptionParser, choice, number, progress_bar, run_program
from villin import build_villin, read_villin
from water import build_box, build_system
from xtb import MOLECULES

TEMPERATURE, FRICTION = 300.0, 5.0
TOLERANCE = 0.02        # of the temperature
EQUILIBRATION = 2000    # steps of LangevinMiddle
SAMPLES = 2000
INTEGRATORS = {"LangevinMiddleIntegrator": mm.LangevinMiddleIntegrator,
               "MassPenaltyLangevinIntegrator": MassPenaltyLangevinIntegrator,
               "ZhangSkeelLangevinIntegrator": ZhangSkeelLangevinIntegrator,
               "ImpulseLangevinIntegrator": ImpulseLangevinIntegrator}
Built = tuple[app.Topology, mm.System, np.ndarray, str]     # positions in nm, the platform


def tip3p(geometry: str) -> Built:
    box = build_box(216)
    return box.topology, build_system(box, geometry), box.positions, "CPU"


def villin(solvent: str, constraints=None, hydrogen_mass: float | None = None) -> Built:
    modeller = read_villin(solvent)
    system = build_villin(modeller, solvent, constraints, constraints is not None, hydrogen_mass)
    return modeller.topology, system, np.array(modeller.positions.value_in_unit(unit.nanometer)), "CPU"


def xtb(name: str, hydrogen_mass: float | None = None) -> Built:
    molecule = MOLECULES[name]
    return molecule.build_topology(), molecule.build_system(hydrogen_mass), np.array(molecule.positions), "Reference"


def amoeba() -> Built:
    box = build_droplet(8)
    return box.topology, build_amoeba(box.topology, "mutual"), box.positions, "Reference"


def beads() -> Built:
    """A liquid of 200 chains of four beads, with the masses, bonds, angles and sizes of Martini."""
    chains, spacing = 200, 1.0
    side = int(np.ceil(chains**(1 / 3)))
    system, topology = mm.System(), app.Topology()
    bonds, angles = mm.HarmonicBondForce(), mm.HarmonicAngleForce()
    pairs = mm.CustomNonbondedForce("4*5*((0.47/r)^12-(0.47/r)^6)")
    pairs.setNonbondedMethod(mm.CustomNonbondedForce.CutoffPeriodic)
    pairs.setCutoffDistance(1.1)
    chain, positions = topology.addChain(), []
    for place in list(np.ndindex(side, side, side))[:chains]:
        residue, first = topology.addResidue("CHN", chain), system.getNumParticles()
        atoms = [topology.addAtom(f"B{i}", None, residue) for i in range(4)]
        for i in range(4):
            system.addParticle(72)
            pairs.addParticle([])
            positions.append(spacing * np.array(place) + [0.24 * (i % 2), 0.22 * i, 0.1 * i])
        for i in range(3):
            bonds.addBond(first + i, first + i + 1, 0.47, 1250)
            topology.addBond(atoms[i], atoms[i + 1])
            pairs.addExclusion(first + i, first + i + 1)
        for i in range(2):
            angles.addAngle(first + i, first + i + 1, first + i + 2, np.radians(120), 25)
            pairs.addExclusion(first + i, first + i + 2)
    for force in bonds, angles, pairs, mm.CMMotionRemover():
        system.addForce(force)
    edges = side * spacing * np.eye(3)
    system.setDefaultPeriodicBoxVectors(*edges)
    topology.setPeriodicBoxVectors(edges * unit.nanometer)
    return topology, system, np.array(positions), "CPU"


SYSTEMS: dict[str, Callable[[], Built]] = {
    "tip3p": lambda: tip3p("flexible"),
    "tip3p-rigid": lambda: tip3p("rigid"),
    "beads": beads,
    "ethanol": lambda: xtb("ethanol"),
    "methylacetamide": lambda: xtb("methylacetamide"),
    "ethanol-heavy": lambda: xtb("ethanol", 4.0),
    "amoeba": amoeba,
    "villin-vacuum": lambda: villin("vacuum"),
    "villin": lambda: villin("water"),
    "villin-hbonds-heavy": lambda: villin("water", app.HBonds, 4.0),
}


def start(name: str, integrator: mm.Integrator) -> app.Simulation:
    topology, system, positions, platform = SYSTEMS[name]()
    simulation = app.Simulation(topology, system, integrator, mm.Platform.getPlatform(platform))
    simulation.context.setPositions(positions)
    try:
        simulation.minimizeEnergy(maxIterations=200)
    except mm.OpenMMException:      # a self-consistent field that does not converge far from the minimum
        simulation.context.setPositions(positions)
    return simulation


def equilibrate(name: str) -> app.Simulation:
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, 20, 0.0005)
    integrator.setRandomNumberSeed(1)
    return start(name, integrator)


def run(task: tuple[str, str, float, int]) -> tuple[float, float] | str:
    """Temperature and its error, or why the run failed."""
    name, integrator, step, steps = task
    before = equilibrate(name)
    positions = before.context.getState(positions=True).getPositions(asNumpy=True)
    before.context.setVelocitiesToTemperature(TEMPERATURE, 1)
    before.step(EQUILIBRATION)
    state = before.context.getState(positions=True)
    made = INTEGRATORS[integrator](TEMPERATURE, FRICTION, step)
    made.setRandomNumberSeed(1)
    topology, system, platform = before.topology, before.system, before.context.getPlatform()
    if integrator == "MassPenaltyLangevinIntegrator" and find_unrecognized(topology, system):
        addPairsFromTopology(made, topology, system, positions)
    simulation = app.Simulation(topology, system, made, platform)
    simulation.context.setPositions(state.getPositions())
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, 1)
    try:
        simulation.step(steps // 20)
        found: Samples = sample(simulation.context, steps // SAMPLES, SAMPLES)
    except (mm.OpenMMException, FloatingPointError) as error:
        return f"fails after {simulation.context.getTime()._value:.3g} ps ({str(error).split('.')[0][:60]})"
    return float(found.temperature.mean()), blockedError(found.temperature)


def main() -> int:
    parser = OptionParser(__doc__)
    parser.add_argument("--systems", type=choice(SYSTEMS), nargs="+", default=list(SYSTEMS), metavar="NAME",
                        help=f"of {', '.join(SYSTEMS)} (default: all)")
    parser.add_argument("--integrators", type=choice(INTEGRATORS), nargs="+", metavar="NAME",
                        default=list(INTEGRATORS)[:2], help=f"of {', '.join(INTEGRATORS)} (default: the first two)")
    parser.add_argument("--steps", type=number(int, SAMPLES), default=100000, metavar="N",
                        help="steps of each run (default: %(default)s)")
    parser.add_argument("--processes", type=number(int, 1), default=1, metavar="N",
                        help="runs side by side (default: %(default)s)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster that is to make the runs")
    options = parser.parse_args()
    tasks = []
    for name in options.systems:
        found = examine(equilibrate(name), TEMPERATURE)
        print(f"{name}: {found.evaluations} evaluations of the forces\n{found}\n", flush=True)
        for each in found.recommendations:
            if each.integrator in options.integrators and each.stepSize > 0:
                tasks += [(name, each.integrator, factor * each.stepSize, options.steps) for factor in (1, 2)]
    results = {}
    with progress_bar("runs", len(tasks)) as bar:
        for index, result in runTasks(run, tasks, options.processes, options.scheduler, lambda: bar.update(0)):
            results[index] = result
            bar.update()
    row = "{:21}{:31}{:>5}  {:<60}{}"
    print(f"{options.steps} steps, friction {FRICTION:g}/ps\n")
    print(row.format("system", "integrator", "fs", "T (K)", ""))
    held = True
    for index, (name, integrator, step, _) in enumerate(tasks):
        result, recommended = results[index], index % 2 == 0
        holds = not isinstance(result, str) and abs(result[0] / TEMPERATURE - 1) < TOLERANCE
        text = result if isinstance(result, str) else f"{result[0]:.1f}+-{result[1]:.1f}"
        verdict = ("pass" if holds else "FAIL") if recommended else ("HOLDS, TOO" if holds else "too large, as it says")
        held = held and holds == recommended
        print(row.format(name, integrator, f"{1000 * step:g}", text, verdict))
    return 0 if held else 1


if __name__ == "__main__":
    run_program(main)
