#!/usr/bin/env python
"""Ions in a Paul trap: HMMIntegrator on a molecular system in a fast vibrated field.

No static field holds an ion in free space, but a quadrupole that vibrates does. Each ion of mass m has the energy

    kappa/2 cos(omega t) (x^2 + y^2 - 2 z^2),

whose mean over a period is zero. The ion trembles with the relative amplitude eps = kappa/(m omega^2), and its slow
motion is in the effective potential m/2 Omega^2 (x^2 + y^2 + 4 z^2), Omega = kappa/(sqrt(2) m omega). Here kappa
grows with omega such that Omega stays 1 and eps = sqrt(2) Omega/omega. HMMIntegrator is told kappa and omega only.
Vibrations have 4 periods in a ps, 16, 64 and so on, and all runs are looked at every 0.25 ps, whole numbers of
periods: there theta = omega t is 0, the phase to which the macro-states of HMM belong. Units are nm, ps and daltons.

One ion. Its equation is linear, that of Mathieu, and has an exact frequency along z: if a and b are the solutions over
the phase that start with value and slope (1, 0) and (0, 1), it is omega/pi arcsin(sqrt(-a'(pi) b(pi))). Printed are the
errors of HMM with H halved and n, the number of micro-steps, doubled each time: order 2, down to where a difference of
O(1/omega^2), which does not depend on H, takes over.

Five ions, a pentagon with Coulomb repulsion that is kicked. Printed are evaluations of the vibrated force by HMM and by
velocity Verlet, and the largest distance of an ion from where Verlet has it. Verlet's evaluations grow with omega,
HMM's do not. The distance has a part from H, which remains, and one from omega: for paths HMM is of order 1 in 1/omega,
but there are two simple ways to a better one:

- "apart", as usual, the repulsion is in a group that is evaluated once a macro-step, where the ions are at theta = 0,
  at one end of their trembling. "Together", it is evaluated in each micro-step, and is averaged;
- an ion at theta = 0 with the velocity v moves, from one such moment to the next, with (1 + 2 eps) v, where eps is
  negative along z. "Corrected" are runs together that start with that as the macro-velocity, not with v.
"""
import sys
from pathlib import Path

import numpy as np
import openmm as mm
from openmmstiff import HMMIntegrator
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, each, number, run_program  # noqa: E402
from common.papers import draw_slope, panels, parse, print_table, simulate, slope, verlet  # noqa: E402

MASS, CHARGE = 40.0, 1.0
COULOMB = 138.935458 * CHARGE ** 2          # of a pair, kJ nm/mol
SECULAR = 1.0                               # Omega, 1/ps
FRAME = 0.25                                # the time from one look to the next, and the largest macro-step
FEWEST_MICRO = 20                           # the number of micro-steps in a period doubles as H is halved
SLOW_GROUP, VIBRATED_GROUP = 0, 1

PERIODS = (4, 16, 64, 256, 1024)            # in a ps
TIME = 10.0
CLUSTER_PERIODS = PERIODS[:4]
DIRECT_MICRO = 160                          # steps in a period, at most, where all vibrations are resolved
CLUSTER, KICK, SHAKE = 5, 0.3, 0.1          # ions of the pentagon, random velocities and displacements

APART, TOGETHER, CORRECTED = KINDS = ("apart", "together", "corrected")  # of HMM runs
Start = tuple[np.ndarray, np.ndarray]       # positions and velocities, (ions, 3)
ION = np.array(((1.0, 0.7, 0.5),)), np.array(((0.0, 0.5, 0.4),))


def trap_strength(omega: float) -> float:
    """kappa."""
    return np.sqrt(2) * MASS * omega * SECULAR


def trembling(omega: float) -> np.ndarray:
    """eps along x, y and z."""
    return trap_strength(omega) / (MASS * omega ** 2) * np.array((1, 1, -2))


def trapped_ions(ions: int, omega: float) -> mm.System:
    system = mm.System()
    trap = mm.CustomExternalForce(f"{trap_strength(omega) / 2}*cos(theta)*(x^2+y^2-2*z^2)")
    trap.addGlobalParameter("theta", 0)
    trap.setForceGroup(VIBRATED_GROUP)
    repulsion = mm.NonbondedForce()
    for ion in range(ions):
        system.addParticle(MASS)
        trap.addParticle(ion)
        repulsion.addParticle(CHARGE, 1, 0)
    system.addForce(trap)
    system.addForce(repulsion)
    return system


def micro_steps(step: float) -> int:
    """In a period; the product with the macro-step is constant."""
    return round(FEWEST_MICRO * FRAME / step)


def hmm_integrator(step: float, omega: float) -> HMMIntegrator:
    integrator = HMMIntegrator(step, omega)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(micro_steps(step))
    return integrator


def follow_slowly(start: Start, periods: int, step: float, kind: str = APART) -> np.ndarray:
    """Positions by HMM."""
    omega = 2 * np.pi * periods
    integrator = hmm_integrator(step, omega)
    if kind != APART:
        integrator.setVibratedForceGroups(1 << SLOW_GROUP | 1 << VIBRATED_GROUP)
    factor = 1 + 2 * trembling(omega) if kind == CORRECTED else 1
    return follow((start[0], start[1] * factor), omega, integrator)


def follow_fully(start: Start, periods: int, micro: int, frame: float = FRAME) -> np.ndarray:
    """Positions by velocity Verlet."""
    omega = 2 * np.pi * periods
    return follow(start, omega, verlet(1 / (periods * micro), omega, constrained=False), frame)


def follow(start: Start, omega: float, integrator: mm.Integrator, frame: float = FRAME) -> np.ndarray:
    every = round(frame / integrator.getStepSize()._value)
    positions, velocities = start
    return simulate(trapped_ions(len(positions), omega), integrator, positions, every * round(TIME / frame), every,
                    velocities).positions


def frequency(values: np.ndarray) -> float:
    """Of a harmonic oscillation around 0: neighbours add up to 2 cos(frequency*FRAME) times a value."""
    values = np.diff(values)
    inner = values[1:-1]
    return float(np.arccos(inner @ (values[2:] + values[:-2]) / (2 * inner @ inner))) / FRAME


def exact_frequency(omega: float) -> float:
    """Of the ion along z, by Mathieu's equation."""
    eps = trembling(omega)[2]

    def end(constant: float, slope: float, tolerance: float) -> np.ndarray:
        """A solution that starts at `constant`, less that constant, and its slope, after half a period."""
        return solve_ivp(lambda theta, state: (state[1], -eps * np.cos(theta) * (constant + state[0])), (0, np.pi),
                         (0, slope), method="DOP853", rtol=1e-13, atol=tolerance).y[:, -1]

    # Of the solution that starts at 1 only the change, for the other digits would hide it.
    value, change = end(0, 1, 1e-16)[0], end(1, 0, 1e-18)[1]
    return omega / np.pi * np.arcsin(np.sqrt(-change * value))


def study_ion(steps: list[float]) -> np.ndarray:
    """Relative errors of HMM's frequency along z, (steps, periods)."""
    errors = []
    for many in each("one ion", PERIODS):
        exact = exact_frequency(2 * np.pi * many)
        errors.append([abs(frequency(follow_slowly(ION, many, step)[:, 0, 2]) / exact - 1) for step in steps])
    found = np.transpose(errors)
    print_table("Relative error of HMM's frequency along z against H (and n micro-steps in a period), for each number "
                "of periods in a ps", ["H:g", "n", *(f"{many}:.2e" for many in PERIODS)],
                [*((step, micro_steps(step), *row) for step, row in zip(steps, found)),
                 ("last slope", "", *(f"{order:.2f}" for order in slope(steps[-2:], found[-2:])))])
    return found


def kicked_pentagon() -> Start:
    """A ring, at the radius at which it would rest in the effective potential but for what is added at random."""
    radius = (COULOMB / (MASS * SECULAR ** 2) * sum(1 / (4 * np.sin(np.pi * k / CLUSTER))
                                                    for k in range(1, CLUSTER))) ** (1 / 3)
    angles = 2 * np.pi * np.arange(CLUSTER) / CLUSTER
    ring = radius * np.stack((np.cos(angles), np.sin(angles), np.zeros(CLUSTER)), axis=1)
    shaken, kicked = np.random.default_rng(1).normal(size=(2, CLUSTER, 3))
    return ring + SHAKE * shaken, KICK * kicked


def study_cluster(steps: list[float], micro: int):
    rows = []
    for many in each("five ions", CLUSTER_PERIODS):
        full = follow_fully(kicked_pentagon(), many, micro)
        for step in steps:
            runs = [follow_slowly(kicked_pentagon(), many, step, kind=kind) for kind in KINDS]
            direct = many * micro * round(TIME)
            count = hmm_integrator(step, 1).computeNumMicroEvaluations() * round(TIME / step)
            rows.append((many, step, micro_steps(step), direct, count, direct / count,
                         *(np.linalg.norm(full - run, axis=-1).max() for run in runs)))
    print_table(f"Five ions for {TIME:g} ps: evaluations of the vibrated force by Verlet, with {micro} steps in a "
                "period, and by HMM,\ntheir ratio, and largest distances of an ion from Verlet's",
                ["periods/ps", "H:g", "n", "Verlet", "HMM", "ratio:.2f", *(f"{kind}:.4f" for kind in KINDS)], rows)


def draw(errors: np.ndarray, steps: list[float], micro: int, path: Path):
    """The motion of an ion along z at the lowest frequency, by HMM and with all vibrations; the frequency's error."""
    frame = 1 / (PERIODS[0] * micro)
    with panels(path, 1, 2) as (along, by_step):
        for label, found, interval in (("all vibrations", follow_fully(ION, PERIODS[0], micro, frame), frame),
                                       ("HMM", follow_slowly(ION, PERIODS[0], steps[-1]), FRAME)):
            along.plot(interval * np.arange(len(found)), found[:, 0, 2], label=label)
        along.set(title=f"One ion, {PERIODS[0]} periods/ps", xlabel="time, ps", ylabel="z, nm")
        for many, row in zip(PERIODS, errors.T):
            by_step.loglog(steps, row, "o-", markersize=4, label=f"{many} periods/ps")
        draw_slope(by_step, steps, 0.4, 2)
        by_step.set(title="Frequency along z, one ion", xlabel="H, ps", ylabel="relative error of HMM")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--halvings", type=number(int, 1, most=6), default=4, metavar="N",
                        help=f"how often the largest H, {FRAME:g} ps, is halved (default: %(default)s)")
    options = parse(parser)
    steps = [FRAME / 2 ** i for i in range(options.halvings + 1)]
    micro = min(DIRECT_MICRO, micro_steps(steps[-1]))
    errors = study_ion(steps)
    study_cluster(steps, micro)
    draw(errors, steps, micro, options.figure)


if __name__ == "__main__":
    run_program(main)
