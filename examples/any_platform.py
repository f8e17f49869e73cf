#!/usr/bin/env python
"""The mass penalty on each platform of OpenMM: flexible TIP3P water with PME at 8 fs, the same start for all.

Compares energies, bond lengths, angles and temperatures, and the time of a step with that of LangevinMiddleIntegrator
on the same platform: the two step in turn, with the same step size, so that both meet the same forces. With --alone
there are no nonbonded forces, only times: what is left is the integrator's own part. With --kernels that part alone is
timed, for each integrator with kernels for devices, beside LangevinMiddle with SETTLE. A platform may be followed by
its precision, as in OpenCL:mixed.
"""
from itertools import cycle
from time import perf_counter

import numpy as np
import openmm as mm
from openmm import app
from openmmstiff import (ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator, StiffIntegrator,
                         ZhangSkeelLangevinIntegrator)

from common.options import OptionParser, add_box_options, add_run_options, number, progress_bar, run_program
from common.water_sampling import number_of_steps, sample
from tip3p_water import TEMPERATURE, equilibrate_both, with_error
from common.water import advance, build_box, build_system

EQUILIBRATION_TIME = 5.0  # ps, rigid and then flexible
SETTLING_TIME = 3.0       # ps, then on each platform
TIMED_STEP = 0.002        # ps, of both integrators when their steps are timed
BURST = 20                # steps


def find_platforms() -> list[str]:
    """Those of this process, each in its mixed precision if it has one."""
    platforms = [mm.Platform.getPlatform(i) for i in range(mm.Platform.getNumPlatforms())]
    return [platform.getName() + (":mixed" if "Precision" in platform.getPropertyNames() else "")
            for platform in platforms if platform.getName() != "Reference"]


def without_nonbonded(system: mm.System) -> mm.System:
    """The same System, with bonded forces alone."""
    for i in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(i), mm.NonbondedForce):
            system.removeForce(i)
    return system


def simulate(box, system: mm.System, positions, integrator: mm.Integrator, platform: str, seed: int) -> app.Simulation:
    """A Simulation on a platform such as OpenCL:mixed."""
    name, _, precision = platform.partition(":")
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(box.topology, system, integrator, mm.Platform.getPlatform(name),
                                {"Precision": precision} if precision else {})
    simulation.context.setPositions(positions)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return simulation


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=895)
    add_run_options(parser, time=20.0)
    parser.add_argument("--platforms", nargs="+", default=find_platforms(), metavar="NAME[:PRECISION]",
                        help="default: those of OpenMM here, but for Reference (%(default)s); --platform is that of "
                             "the equilibration")
    parser.add_argument("--step", type=number(float, 0.1, "fs"), default=8.0, metavar="FS",
                        help="step size of MassPenaltyLangevinIntegrator, fs (default: %(default)s)")
    parser.add_argument("--rounds", type=number(int, 2), default=20, metavar="N",
                        help=f"number of bursts of {BURST} steps that are timed (default: %(default)s)")
    parser.add_argument("--alone", action="store_true", help="time steps without nonbonded forces, and no more")
    parser.add_argument("--kernels", action="store_true", help="time what integrators do beside forces, and no more")
    options = parser.parse_args()
    box = build_box(options.waters)
    system = build_system(box, "flexible")
    if options.kernels:
        print_kernel_times(box, without_nonbonded(system), options)
        return
    if options.alone:
        print_times(box, without_nonbonded(system), box.positions, options)
        return
    state = equilibrate_both(box, EQUILIBRATION_TIME, options)["flexible"]
    print_times(box, system, state.getPositions(), options)

    print(f"\nMassPenaltyLangevinIntegrator at {options.step:g} fs, friction {options.friction:g}/ps, "
          f"{options.time:g} ps each\n")
    columns = "{:15}{:>8}  {:13} {:13} {:15} {:15} {:>8} {:>8}"
    print(columns.format("", "", "", "energies (kJ/", "mol per water)", "", "O-H (nm)", ""))
    print(columns.format("platform", "ns/day", "T (K)", "nonbonded", "bonds", "angles", "mean", "s.d."), flush=True)
    step = options.step / 1000
    for platform in options.platforms:
        integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, options.friction, step)
        simulation = simulate(box, system, state.getPositions(), integrator, platform, options.seed)
        settling = round(SETTLING_TIME / step)
        with progress_bar(platform, settling + number_of_steps(options.time, step)) as bar:
            advance(integrator, settling, bar.update)
            found = sample(simulation, options.time, bar.update, kinds=())
        print(columns.format(
            platform, f"{found.ns_per_day:.2f}", with_error(found.temperature, 1), with_error(found.nonbonded, 2),
            with_error(found.bond_energy, 3), with_error(found.angle_energy, 3),
            f"{found.bond_length[0]:.5f}", f"{found.bond_variance[0] ** 0.5:.5f}"), flush=True)
    print("\n+-: one standard error by blocking; on runs of a few ps it is a lower bound.")


def print_times(box, system: mm.System, positions, options):
    """Those of a step of both integrators on each platform."""
    forces = ", bonded forces alone" if options.alone else ""
    print(f"{options.waters} flexible TIP3P waters{forces}, {TEMPERATURE:g} K\n\n"
          f"Time of a step of {1000 * TIMED_STEP:g} fs, median of {options.rounds} bursts, ms\n")
    columns = "{:15}{:>16}{:>16}{:>12}{:>8}  {}"
    print(columns.format("platform", "LangevinMiddle", "mass penalty", "difference", "ratio", "kernels"))
    for platform in options.platforms:
        middle, penalty = 1e3 * time_steps(box, system, positions, platform, options)
        print(columns.format(platform, f"{np.median(middle):.2f}", f"{np.median(penalty):.2f}",
                             f"{np.median(penalty - middle):.2f}", f"{np.median(penalty / middle):.2f}",
                             StiffIntegrator.describeKernels(platform.partition(":")[0])), flush=True)


def print_kernel_times(box, system: mm.System, options):
    """
    Those of what integrators do beside forces. For ours the bonded forces are taken away by what these add to a step of
    LangevinMiddle; OpenMM's own is timed on rigid water, where there are none.
    """
    empty, rigid = mm.System(), build_system(box, "rigid")
    for i in range(system.getNumParticles()):
        empty.addParticle(system.getParticleMass(i))
    for i in reversed(range(rigid.getNumForces())):
        rigid.removeForce(i)
    print(f"{options.waters} waters: what integrators do in a step beside forces, least of {options.rounds} rounds, "
          "ms\n")
    columns = "{:15}{:34}{:>10}{:>10}"
    print(columns.format("platform", "integrator", "time", "ratio"))
    for platform in options.platforms:
        middle = mm.LangevinMiddleIntegrator
        settle, free, flexible = (time_step(box, of, middle(TEMPERATURE, options.friction, 0.001), platform, options)
                                  for of in (rigid, empty, system))
        print(columns.format(platform, "LangevinMiddle with SETTLE", f"{settle:.2f}", "1"), flush=True)
        for make, step in ((MassPenaltyLangevinIntegrator, 0.008), (ImpulseLangevinIntegrator, 0.004),
                           (ZhangSkeelLangevinIntegrator, 0.002)):
            own = time_step(box, system, make(TEMPERATURE, options.friction, step), platform, options) - flexible + free
            print(columns.format(platform, make.__name__, f"{own:.2f}", f"{own / settle:.2f}"), flush=True)


def time_step(box, system: mm.System, integrator: mm.Integrator, platform: str, options) -> float:
    """Milliseconds of a step, without what begins and ends a call of step()."""
    simulation = simulate(box, system, box.positions, integrator, platform, options.seed)

    def measure(steps):
        begin = perf_counter()
        integrator.step(steps)
        simulation.context.getState(velocities=True)  # waits for the device
        return perf_counter() - begin
    measure(BURST)
    few, many = (min(measure(steps) for _ in range(options.rounds)) for steps in (BURST, 3 * BURST))
    return 1e3 * (many - few) / (2 * BURST)


def time_steps(box, system: mm.System, positions, platform: str, options) -> np.ndarray:
    """Seconds of a step of LangevinMiddle and of the mass penalty, in each round; shape (2, rounds)."""
    simulations = [simulate(box, system, positions, make(TEMPERATURE, options.friction, TIMED_STEP), platform,
                            options.seed)
                   for make in (mm.LangevinMiddleIntegrator, MassPenaltyLangevinIntegrator)]
    seconds = np.empty((2, options.rounds))
    for simulation in simulations:
        simulation.step(2 * BURST)
    for i, order in zip(range(options.rounds), cycle([(0, 1), (1, 0)])):  # none is always first
        for k in order:
            begin = perf_counter()
            simulations[k].integrator.step(BURST)
            # A step is over when it has been computed, and not when a device has been told to.
            simulations[k].context.getState(velocities=True)
            seconds[k, i] = (perf_counter() - begin) / BURST
    return seconds


if __name__ == "__main__":
    run_program(main)
