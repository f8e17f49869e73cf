#!/usr/bin/env python
"""Speed of MassPenaltyLangevinIntegrator at its largest steps, against LangevinMiddleIntegrator at its own.

TIP3P water with PME. All integrators step in turn, in short bursts, so that other load on the machine meets all
alike; only the steps are timed.

Then the share of a step that the integrator has, with its solves, for a flexible protein in flexible water: after
each step a second Context, which has no part in the motion, is given the positions just reached, and the evaluation
of the forces there is timed. The share is what is left of the step: (step - forces) / step. Neighbour lists are
rebuilt at one step in several, in both Contexts equally often, but not at the same steps. The median is that of
steps without it, and an upper bound: the rebuilding belongs to the forces.
"""
import os
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import MassPenaltyLangevinIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.options import OptionParser, add_box_options, add_record_option, number, run_program  # noqa: E402
from common.tables import print_table  # noqa: E402
from step_cost import quartiles  # noqa: E402
from tip3p_water import TEMPERATURE, Run, equilibrate_both  # noqa: E402
from common.villin import build_villin, read_villin  # noqa: E402
from common.water import HEAVY_HYDROGEN, build_box, build_system  # noqa: E402

FRICTION = 1.0        # 1/ps
VILLIN_STEP = 0.005   # ps
WARM_UP_TIME = 0.2    # ps, before anything is timed


RUNS = {
    "middle": Run("LangevinMiddle, flexible", "flexible", 0.0025, mm.LangevinMiddleIntegrator),
    "penalty": Run("MassPenaltyLangevin, flexible", "flexible", 0.012, MassPenaltyLangevinIntegrator),
    "penalty-limit": Run("MassPenaltyLangevin, flexible", "flexible", 0.014, MassPenaltyLangevinIntegrator),
    "penalty-rigid": Run("MassPenaltyLangevin, rigid", "rigid", 0.012, MassPenaltyLangevinIntegrator),
    "settle": Run("LangevinMiddle + SETTLE", "rigid", 0.004, mm.LangevinMiddleIntegrator),
    # What a step of 8 fs costs without a penalty: atoms that move further need more frequent neighbour lists.
    "settle-long": Run("LangevinMiddle + SETTLE", "rigid", 0.008, mm.LangevinMiddleIntegrator),
    "middle-heavy": Run("LangevinMiddle, flexible, heavy H", "flexible", 0.004, mm.LangevinMiddleIntegrator,
                        hydrogen_mass=HEAVY_HYDROGEN),
    "penalty-heavy": Run("MassPenaltyLangevin, flexible, heavy H", "flexible", 0.012, MassPenaltyLangevinIntegrator,
                         hydrogen_mass=HEAVY_HYDROGEN),
}
GOALS = {("penalty", "middle"): 4.0, ("penalty-limit", "middle"): 4.5, ("penalty-limit", "settle"): 2.8,
         ("penalty-rigid", "settle"): 2.4, ("penalty-heavy", "middle-heavy"): 2.8}


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=895)
    parser.add_argument("--threads", type=number(int, 1), default=os.cpu_count(), metavar="N",
                        help="threads of the CPU platform (default: all, here %(default)s)")
    parser.add_argument("--rounds", type=number(int, 2), default=40, metavar="N",
                        help="number of bursts of each integrator (default: %(default)s)")
    parser.add_argument("--steps", type=number(int, 1), default=20, metavar="N",
                        help="steps of a burst (default: %(default)s)")
    add_record_option(parser)
    options = parser.parse_args()

    where = f"{options.platform} platform" + (f", {options.threads} threads" if options.platform == "CPU" else "")
    print(f"{options.waters} TIP3P waters, {where}, {options.rounds} rounds of {options.steps} steps: "
          "median (quartiles)\n", flush=True)
    seconds = time_water(options)
    speed = {name: 86.4 * RUNS[name].step / times for name, times in seconds.items()}  # ns/day, in each round
    print_table(["integrator", "step (fs)", "ms/step", "ns/day"], [
        [run.label, f"{1000 * run.step:g}", quartiles(1000 * seconds[name]), quartiles(speed[name])]
        for name, run in RUNS.items()], options.record, "mass-penalty-speed")
    print()
    print_table(["", "ratio of ns/day", "goal"], [
        [" : ".join(f"{RUNS[name].label} {1000 * RUNS[name].step:g} fs" for name in (one, other)),
         quartiles(speed[one] / speed[other]), f"{goal:g}"] for (one, other), goal in GOALS.items()],
        options.record, "mass-penalty-speed-ratios")

    step, forces = time_villin(options)
    print(f"\nVillin in water, all flexible, MassPenaltyLangevin at {1000 * VILLIN_STEP:g} fs, {len(step)} steps\n")
    print(f"{'ms/step':40}{quartiles(1000 * step)}")
    print(f"{'ms for the forces at the same positions':40}{quartiles(1000 * forces)}")
    print(f"{'share of the integrator':40}{quartiles((step - forces) / step)}")


def properties(options) -> dict[str, str]:
    """Those of the Platform, for a Context."""
    return {"Threads": str(options.threads)} if options.platform == "CPU" else {}


def make_context(system: mm.System, integrator: mm.Integrator, positions, options) -> mm.Context:
    """A Context with velocities for TEMPERATURE, after WARM_UP_TIME."""
    integrator.setRandomNumberSeed(options.seed)
    context = mm.Context(system, integrator, mm.Platform.getPlatform(options.platform), properties(options))
    context.setPositions(positions)
    context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    integrator.step(round(WARM_UP_TIME / integrator.getStepSize().value_in_unit(unit.picosecond)))
    return context


def time_water(options) -> dict[str, np.ndarray]:
    """Seconds of a step with each of RUNS, in each round."""
    box = build_box(options.waters)
    states = equilibrate_both(box, 0.5, options)
    contexts = {name: make_context(build_system(box, run.geometry, run.hydrogen_mass),
                                   run.make(TEMPERATURE, FRICTION, run.step), states[run.geometry].getPositions(),
                                   options)
                for name, run in RUNS.items()}
    seconds = {name: np.empty(options.rounds) for name in RUNS}
    for i in range(options.rounds):
        for name in list(RUNS) if i % 2 == 0 else reversed(RUNS):  # none is always first
            integrator = contexts[name].getIntegrator()
            begin = perf_counter()
            integrator.step(options.steps)
            seconds[name][i] = (perf_counter() - begin) / options.steps
    return seconds


def time_villin(options) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of each step, and of one evaluation of the forces at the positions where it ends."""
    modeller = read_villin("water")
    system = build_villin(modeller, "water", constraints=None, rigid_water=False)
    # An evaluation has no use for the integrator of its Context.
    evaluator = mm.Context(system, mm.VerletIntegrator(VILLIN_STEP), mm.Platform.getPlatform(options.platform),
                           properties(options))
    evaluator.setPositions(modeller.positions)
    mm.LocalEnergyMinimizer.minimize(evaluator, 10, 50)
    integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, VILLIN_STEP)
    context = make_context(system, integrator, evaluator.getState(positions=True).getPositions(), options)
    step, forces = np.empty((2, options.rounds * options.steps))
    for i in range(len(step)):
        begin = perf_counter()
        integrator.step(1)
        step[i] = perf_counter() - begin
        evaluator.setPositions(context.getState(positions=True).getPositions(asNumpy=True))
        begin = perf_counter()
        evaluator.getState(forces=True)
        forces[i] = perf_counter() - begin
    return step, forces


if __name__ == "__main__":
    run_program(main)
