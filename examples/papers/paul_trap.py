#!/usr/bin/env python
"""Ions in a Paul trap: HMMIntegrator on a molecular system in a fast vibrated field.

No static field holds an ion in free space, but a quadrupole that vibrates does. Each ion of mass m has the energy

    kappa/2 cos(omega t) (x^2 + y^2 - 2 z^2),

whose mean over a period is zero. The ion trembles with the relative amplitude eps = kappa/(m omega^2), and its slow
motion is in the effective potential m/2 Omega^2 (x^2 + y^2 + 4 z^2), Omega = kappa/(sqrt(2) m omega). Here kappa
grows with omega such that Omega stays 1 and eps = sqrt(2) Omega/omega. HMMIntegrator is told kappa and omega only.
Vibrations have 4 periods in a ps, 16, 64 and so on, and all runs are looked at every 0.25 ps, whole numbers of
periods: there theta = omega t is 0, the phase to which the macro-states of HMM belong. Units are nm, ps and daltons.

One ion. Its equation is linear, that of Mathieu, and has an exact frequency for each axis: if a and b are the
solutions over the phase that start with value and slope (1, 0) and (0, 1), it is omega/pi arcsin(sqrt(-a'(pi) b(pi))).
HMM in the limit of small macro-steps H and many micro-steps n has omega sqrt(-a'(pi)/pi), as its averaged force is that
of half a period; the effective potential has 1 and 2. Printed are

- these frequencies, and what an HMM run shows. They differ by O(1/omega^2): terms in 1/omega vanish for frequencies;
- the error of HMM against the exact frequency, with H halved and n doubled each time: order 2, down to where the
  difference that does not depend on H takes over.

A crystal of two ions, with their Coulomb repulsion, in a trap that has in addition a static quadrupole,
m/2 s (y^2 - z^2), so that the pair points along x. In the effective potential its centre oscillates with the trap's
frequencies; its length breathes with sqrt(3) times that along x, and it rocks with the roots of the differences of
squares. Printed are the frequencies that HMM and velocity Verlet with all vibrations show when each mode is excited a
little, and the mean length. For paths HMM is of order 1 in 1/omega, but there are two simple ways to a better one:

- "apart", as usual, repulsion and static field are in a group that is evaluated once a macro-step, where the ions are
  at theta = 0, at one end of their trembling. "Together", they are evaluated in each micro-step, and are averaged;
- an ion at theta = 0 with the velocity v moves, from one such moment to the next, with (1 + 2 eps) v, where eps is
  negative along z. "Corrected" are runs together that start with that as the macro-velocity, not with v.

Cost: five ions, a pentagon that is kicked. Printed are evaluations of the vibrated force by HMM and by velocity Verlet
with as many steps in a period as stated, seconds, and the largest distance of an ion from where Verlet has it. Verlet's
evaluations grow with omega, HMM's do not. The distance has a part from omega, of order 1, or 2 if corrected, and one
from H, which remains.

--halvings 1 takes a few seconds.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmmstiff import HMMIntegrator
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, add_output_option, number, progress_bar, run_program  # noqa: E402

MASS, CHARGE = 40.0, 1.0
COULOMB = 138.935458 * CHARGE ** 2          # of a pair, kJ nm/mol
SECULAR = 1.0                               # Omega, 1/ps
FRAME = 0.25                                # the time from one look to the next, and the largest macro-step
LARGEST_STEP, FEWEST_MICRO = FRAME, 20      # the number of micro-steps in a period doubles as H is halved
EFFECTIVE = {"x": SECULAR, "z": 2 * SECULAR}  # frequencies of an ion in the effective potential; y is as x
SLOW_GROUP, VIBRATED_GROUP = 0, 1

PERIODS = (4, 16, 64, 256, 1024)            # in a ps
ION_TIME, ION_START, ION_VELOCITY = 10.0, (1.0, 0.7, 0.5), (0.0, 0.5, 0.4)

PAIR_PERIODS, PAIR_TIME = (4, 16, 64), 25.0
STATIC = 0.5 * SECULAR ** 2                 # s
EXCITED = 1e-3                              # amplitudes of the modes of the pair, nm
DIRECT_MICRO = 160                          # steps in a period, at most, where all vibrations are resolved

CLUSTER, CLUSTER_PERIODS, CLUSTER_TIME = 5, (4, 16, 64, 256), 10.0
KICK, SHAKE = 0.3, 0.1                      # random velocities and displacements of the pentagon

APART, TOGETHER, CORRECTED = KINDS = ("apart", "together", "corrected")  # of HMM runs


def omega_of(periods: int) -> float:
    return 2 * np.pi * periods


def trap_strength(omega: float) -> float:
    """kappa."""
    return np.sqrt(2) * MASS * omega * SECULAR


def micro_steps(step: float) -> int:
    """In a period; the product with the macro-step is constant."""
    return round(FEWEST_MICRO * LARGEST_STEP / step)


def trembling(omega: float) -> np.ndarray:
    """eps along x, y and z."""
    return trap_strength(omega) / (MASS * omega ** 2) * np.array((1, 1, -2))


# Ions and their runs

def trapped_ions(ions: int, omega: float, static: float = 0) -> mm.System:
    system = mm.System()
    trap = mm.CustomExternalForce("kappa/2*cos(theta)*(x^2+y^2-2*z^2)")
    trap.addGlobalParameter("theta", 0)
    trap.addGlobalParameter("kappa", trap_strength(omega))
    trap.setForceGroup(VIBRATED_GROUP)
    slow = mm.CustomExternalForce(f"{MASS * static / 2}*(y^2-z^2)")
    repulsion = mm.NonbondedForce()
    slow.setForceGroup(SLOW_GROUP)
    repulsion.setForceGroup(SLOW_GROUP)
    repulsion.setNonbondedMethod(mm.NonbondedForce.NoCutoff)
    for _ in range(ions):
        ion = system.addParticle(MASS)
        trap.addParticle(ion)
        slow.addParticle(ion)
        repulsion.addParticle(CHARGE, 1, 0)
    system.addForce(trap)
    if static:
        system.addForce(slow)
    if ions > 1:
        system.addForce(repulsion)
    return system


def hmm_integrator(step: float, omega: float) -> HMMIntegrator:
    integrator = HMMIntegrator(step, omega)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(micro_steps(step))
    return integrator


def verlet_integrator(step: float, omega: float) -> mm.CustomIntegrator:
    """Velocity Verlet, with the phase as the time goes."""
    integrator = mm.CustomIntegrator(step)
    integrator.addGlobalVariable("advance", omega * step)
    integrator.addComputePerDof("v", "v+dt/2*f/m")
    integrator.addComputePerDof("x", "x+dt*v")
    integrator.addComputeGlobal("theta", "theta+advance")
    integrator.addComputePerDof("v", "v+dt/2*f/m")
    return integrator


@dataclass
class Start:
    positions: np.ndarray   # (ions, 3)
    velocities: np.ndarray
    static: float = 0


@dataclass
class Run:
    path: np.ndarray        # positions at each look from the start on, (looks, ions, 3)
    evaluations: int        # of the vibrated force
    seconds: float


def follow(start: Start, omega: float, integrator: mm.Integrator, duration: float, frame: float = FRAME,
           update: Callable[[int], object] = lambda frames: None) -> Run:
    """Integrate and look at positions each `frame`."""
    system = trapped_ions(len(start.positions), omega, start.static)
    context = mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))
    context.setPositions(start.positions)
    context.setVelocities(start.velocities)
    steps = round(frame / integrator.getStepSize()._value)
    path, seconds = [start.positions], 0.0
    for _ in range(round(duration / frame)):
        began = perf_counter()
        integrator.step(steps)
        seconds += perf_counter() - began
        path.append(context.getState(getPositions=True).getPositions(asNumpy=True)._value)
        update(1)
    evaluations = 1  # of Verlet in a step
    if isinstance(integrator, HMMIntegrator):
        evaluations = integrator.computeNumMicroEvaluations()
    return Run(np.array(path), evaluations * steps * (len(path) - 1), seconds)


def follow_slowly(start: Start, periods: int, step: float, duration: float, update: Callable[[int], object],
                  kind: str = APART, frame: float = FRAME) -> Run:
    omega = omega_of(periods)
    integrator = hmm_integrator(step, omega)
    if kind != APART:
        integrator.setVibratedForceGroups(1 << SLOW_GROUP | 1 << VIBRATED_GROUP)
    if kind == CORRECTED:
        start = replace(start, velocities=start.velocities * (1 + 2 * trembling(omega)))
    return follow(start, omega, integrator, duration, frame, update)


def follow_fully(start: Start, periods: int, micro: int, duration: float, update: Callable[[int], object],
                 frame: float = FRAME) -> Run:
    omega = omega_of(periods)
    return follow(start, omega, verlet_integrator(1 / (periods * micro), omega), duration, frame, update)


def frequency(values: np.ndarray) -> float:
    """
    Of a harmonic oscillation around any constant. Neighbours of each value add up to 2 cos(frequency*FRAME) times it;
    differences have no constant.
    """
    values = np.diff(values)
    inner = values[1:-1]
    return float(np.arccos(inner @ (values[2:] + values[:-2]) / (2 * inner @ inner))) / FRAME


# One ion

def one_ion() -> Start:
    return Start(np.array([ION_START]), np.array([ION_VELOCITY]))


def exact_frequencies(axis: str, omega: float) -> tuple[float, float]:
    """Of the ion along an axis, by Mathieu's equation, and of HMM with H -> 0 and as many micro-steps as one likes."""
    eps = trembling(omega)["xyz".index(axis)]

    def rates(theta: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate((state[2:], -eps * np.cos(theta) * state[:2]))

    end = solve_ivp(rates, (0, np.pi), (0, 0, 0, 1), method="DOP853", rtol=1e-13, atol=1e-16).y[:, -1]
    # For the solution that starts at 1, the difference from 1: the other digits would hide it.
    change = solve_ivp(lambda theta, state: np.array((state[1], -eps * np.cos(theta) * (1 + state[0]))), (0, np.pi),
                       (0, 0), method="DOP853", rtol=1e-13, atol=1e-18).y[:, -1]
    slope, value = change[1], end[1]
    return omega / np.pi * np.arcsin(np.sqrt(-slope * value)), omega * np.sqrt(-slope / np.pi)


@dataclass
class Ion:
    exact: dict[str, dict[int, float]]           # [axis][periods]
    limit: dict[str, dict[int, float]]
    found: dict[str, dict[int, dict[float, float]]]  # [axis][periods][H]

    def error(self, axis: str, periods: int, step: float) -> float:
        """Relative."""
        return abs(self.found[axis][periods][step] / self.exact[axis][periods] - 1)


def study_ion(steps: list[float]) -> Ion:
    both = {axis: {each: exact_frequencies(axis, omega_of(each)) for each in PERIODS} for axis in EFFECTIVE}
    exact, limit = ({axis: {each: pair[i] for each, pair in row.items()} for axis, row in both.items()} for i in (0, 1))
    found: dict[str, dict[int, dict[float, float]]] = {axis: {each: {} for each in PERIODS} for axis in EFFECTIVE}
    with progress_bar("one ion", len(PERIODS) * len(steps) * round(ION_TIME / FRAME)) as bar:
        for periods in PERIODS:
            for step in steps:
                path = follow_slowly(one_ion(), periods, step, ION_TIME, bar.update).path[:, 0]
                for axis in EFFECTIVE:
                    found[axis][periods][step] = frequency(path[:, "xyz".index(axis)])
    return Ion(exact, limit, found)


# Two ions

def pair_length() -> float:
    """In the effective potential: m Omega^2 d/2 = C/d^2."""
    return (2 * COULOMB / (MASS * SECULAR ** 2)) ** (1 / 3)


def pair_modes() -> dict[str, float]:
    """Their frequencies in the effective potential."""
    x, y, z = SECULAR ** 2, SECULAR ** 2 + STATIC, 4 * SECULAR ** 2 - STATIC  # squared
    squares = {"centre x": x, "centre y": y, "centre z": z, "breathing": 3 * x, "rocking y": y - x, "rocking z": z - x}
    return {name: np.sqrt(square) for name, square in squares.items()}


def excited_pair() -> Start:
    positions = np.outer((-0.5, 0.5), (pair_length(), 0, 0)) + EXCITED * np.array(((-1, 0, 0), (3, 2, 2)))
    return Start(positions, np.zeros((2, 3)), STATIC)


def mode_frequencies(path: np.ndarray) -> list[float]:
    centre, between = path.mean(axis=1), path[:, 1] - path[:, 0]
    return [frequency(coordinate) for coordinate in (*centre.T, *between.T)]


def study_pair(step: float, micro: int) -> dict[int, dict[str, Run]]:
    """HMM apart and together, and Verlet, for each number of periods."""
    with progress_bar("two ions", 3 * len(PAIR_PERIODS) * round(PAIR_TIME / FRAME)) as bar:
        return {each: {**{f"HMM {kind}": follow_slowly(excited_pair(), each, step, PAIR_TIME, bar.update, kind)
                          for kind in (APART, TOGETHER)},
                       "Verlet": follow_fully(excited_pair(), each, micro, PAIR_TIME, bar.update)}
                for each in PAIR_PERIODS}


# Five ions

def kicked_pentagon() -> Start:
    """A ring, at the radius at which it would rest in the effective potential but for what is added at random."""
    radius = (COULOMB / (MASS * SECULAR ** 2) * sum(1 / (4 * np.sin(np.pi * k / CLUSTER))
                                                    for k in range(1, CLUSTER))) ** (1 / 3)
    angles = 2 * np.pi * np.arange(CLUSTER) / CLUSTER
    ring = radius * np.stack((np.cos(angles), np.sin(angles), np.zeros(CLUSTER)), axis=1)
    shaken, kicked = np.random.default_rng(1).normal(size=(2, CLUSTER, 3))
    return Start(ring + SHAKE * shaken, KICK * kicked)


@dataclass
class Cluster:
    full: Run                          # Verlet
    slow: dict[float, dict[str, Run]]  # HMM, [H][kind]

    def distance(self, step: float, kind: str) -> float:
        """The largest of an ion from Verlet's."""
        return np.linalg.norm(self.full.path - self.slow[step][kind].path, axis=-1).max()


def study_cluster(steps: list[float], micro: int) -> dict[int, Cluster]:
    found = {}
    with progress_bar("five ions", (1 + len(KINDS) * len(steps)) * len(CLUSTER_PERIODS)
                      * round(CLUSTER_TIME / FRAME)) as bar:
        for each in CLUSTER_PERIODS:
            full = follow_fully(kicked_pentagon(), each, micro, CLUSTER_TIME, bar.update)
            found[each] = Cluster(full, {
                step: {kind: follow_slowly(kicked_pentagon(), each, step, CLUSTER_TIME, bar.update, kind)
                       for kind in KINDS} for step in steps})
    return found


# Tables and figure

def print_ion(ion: Ion, steps: list[float]):
    print(f"One ion: frequencies along x and z, {EFFECTIVE['x']:g} and "
          f"{EFFECTIVE['z']:g} in the effective potential;\nrelative differences from the exact one of "
          f"the effective potential, of HMM's limit, of HMM with H = {steps[-1]:g} ps\n\n"
          f"{'periods/ps':12}{'axis':6}{'exact':>12}{'effective':>12}{'limit':>12}{'run':>12}{'run-limit':>12}")
    for periods in PERIODS:
        for axis, effective in EFFECTIVE.items():
            exact, limit = ion.exact[axis][periods], ion.limit[axis][periods]
            run = ion.found[axis][periods][steps[-1]]
            others = "".join(f"{each / exact - 1:12.2e}" for each in (effective, limit, run))
            print(f"{periods:<12}{axis:6}{exact:12.7f}{others}{(run - limit) / exact:12.2e}")
    print("\nRelative error of HMM's frequency along z against H (and n micro-steps in a period), for each number of "
          f"periods\n\n{'H':<10}{'n':>5}{''.join(f'{each:12}' for each in PERIODS)}")
    for step in steps:
        row = "".join(f"{ion.error('z', each, step):12.2e}" for each in PERIODS)
        print(f"{step:<10g}{micro_steps(step):5}{row}")
    if len(steps) > 1:
        orders = (np.log2(ion.error("z", each, steps[-2]) / ion.error("z", each, steps[-1])) for each in PERIODS)
        print(f"{'last slope':15}" + "".join(f"{order:12.2f}" for order in orders))


def print_pair(found: dict[int, dict[str, Run]], step: float, micro: int):
    modes = pair_modes()
    print(f"\nTwo ions: frequencies of the modes, HMM with H = {step:g} and n = {micro_steps(step)}, Verlet with "
          f"{micro} steps in a period,\nand the mean distance of the ions\n\n"
          f"{'periods/ps':12}{'':14}{''.join(f'{name:>11}' for name in modes)}{'length':>11}")
    print(f"{'':12}{'effective':14}{''.join(f'{value:11.5f}' for value in modes.values())}{pair_length():11.5f}")
    for periods, runs in found.items():
        for label, run in runs.items():
            length = np.linalg.norm(run.path[:, 1] - run.path[:, 0], axis=-1).mean()
            values = "".join(f"{value:11.5f}" for value in (*mode_frequencies(run.path), length))
            print(f"{periods:<12}{label:14}{values}")


def print_cost(found: dict[int, Cluster], micro: int):
    print(f"\nFive ions for {CLUSTER_TIME:g} ps: evaluations of the vibrated force by Verlet, with {micro} steps in a "
          f"period, and by HMM,\ntheir ratio, seconds of the runs (HMM apart), and largest distances of an ion from "
          f"Verlet's\n\n{'periods/ps':12}{'H':>9}{'n':>5}{'Verlet':>9}{'HMM':>8}{'ratio':>9}{'Verlet, s':>11}"
          f"{'HMM, s':>9}{''.join(f'{kind:>11}' for kind in KINDS)}")
    for periods, each in found.items():
        for step, runs in each.slow.items():
            run = runs[APART]
            distances = "".join(f"{each.distance(step, kind):11.4f}" for kind in KINDS)
            print(f"{periods:<12}{step:9g}{micro_steps(step):5}{each.full.evaluations:9}{run.evaluations:8}"
                  f"{each.full.evaluations / run.evaluations:9.2f}{each.full.seconds:11.2f}"
                  f"{run.seconds:9.3f}{distances}")


def draw(ion: Ion, steps: list[float], cluster: dict[int, Cluster], micro: int, path: Path):
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 9.5), layout="constrained")
    single, several, by_step, by_omega = panels.flat
    slowest, step = PERIODS[0], steps[-1]
    for panel, start, axes, duration in ((single, one_ion(), (0, 2), 2 * np.pi / SECULAR),
                                         (several, kicked_pentagon(), (0, 1), 3.0)):
        full = follow_fully(start, slowest, micro, duration, lambda frames: None, 1 / (slowest * micro)).path
        slow, corrected = (follow_slowly(start, slowest, step, duration, lambda frames: None, kind, step).path
                           for kind in (APART, CORRECTED))
        for k in range(len(start.positions)):
            panel.plot(*full[:, k, axes].T, color="#9ecae1", linewidth=1.2, label="all vibrations" if k == 0 else None)
            panel.plot(*slow[:, k, axes].T, "--", color="#ff7f0e", linewidth=1.2, label="HMM" if k == 0 else None)
            panel.plot(*corrected[:, k, axes].T, color="#08306b", linewidth=1.5,
                       label="HMM corrected" if k == 0 else None)
            panel.plot(*full[::micro, k, axes].T, "o", color="#d62728", markersize=3,
                       label="Verlet, theta = 0" if k == 0 else None)
    single.set(title=f"One ion, {slowest} periods/ps", xlabel="x, nm", ylabel="z, nm")
    several.set(title=f"Five ions, {slowest} periods/ps", xlabel="x, nm", ylabel="y, nm", aspect="equal")

    for each, color in zip(PERIODS, pyplot.cm.viridis(np.linspace(0, 0.9, len(PERIODS)))):
        by_step.loglog(steps, [ion.error("z", each, length) for length in steps], "o-", color=color, markersize=4,
                       label=f"{each} periods/ps")
    by_step.loglog(steps, 0.4 * np.array(steps) ** 2, "k:", linewidth=0.8, label="slope 2")
    by_step.set_xticks(steps, [f"1/{1 / step:g}" for step in steps])
    by_step.minorticks_off()
    by_step.set(title="Frequency along z, one ion", xlabel="H, ps", ylabel="relative error of HMM")

    for axis, color in zip(EFFECTIVE, ("#2ca02c", "#08306b")):
        exact = np.array(list(ion.exact[axis].values()))
        by_omega.loglog(PERIODS, abs(EFFECTIVE[axis] / exact - 1), "s--", color=color, markersize=8,
                        markerfacecolor="none", linewidth=1, label=f"effective potential, {axis}")
        by_omega.loglog(PERIODS, abs(np.array(list(ion.limit[axis].values())) / exact - 1), "o-", color=color,
                        markersize=4, linewidth=1, label=f"HMM, H to 0, {axis}")
    for kind, color in ((APART, "#ff7f0e"), (CORRECTED, "#d62728")):
        by_omega.loglog(list(cluster), [each.distance(step, kind) for each in cluster.values()], "^-", color=color,
                        markersize=5, linewidth=1, label=f"path of five ions, {kind}, H = 1/{1 / step:g}")
    ends = np.array((PERIODS[0], PERIODS[-1]))
    by_omega.loglog(ends, 4.0 / ends, "k-.", linewidth=0.8, label="slope -1")
    by_omega.loglog(ends, 0.6 / ends ** 2, "k:", linewidth=0.8, label="slope -2")
    by_omega.set(title="Differences from the exact motion", xlabel="periods/ps", ylim=(1e-11, 3),
                 ylabel="relative (frequencies) or nm (path)")
    for panel in panels.flat:
        panel.legend(frameon=False, fontsize="small", loc="lower left" if panel is by_omega else "best")
    figure.savefig(path, dpi=150)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--halvings", type=number(int, 1, most=6), default=4, metavar="N",
                        help=f"how often the largest H, {LARGEST_STEP:g} ps, is halved (default: %(default)s)")
    add_output_option(parser, "paul_trap.png")
    options = parser.parse_args()
    parser.make_folder(options.output)

    steps = [LARGEST_STEP / 2 ** i for i in range(options.halvings + 1)]
    micro = min(DIRECT_MICRO, micro_steps(steps[-1]))
    ion = study_ion(steps)
    pair = study_pair(steps[-1], micro)
    cluster = study_cluster(steps, micro)
    print_ion(ion, steps)
    print_pair(pair, steps[-1], micro)
    print_cost(cluster, micro)
    draw(ion, steps, cluster, micro, options.output / "paul_trap.png")
    print(f"\nPaths and errors: {options.output / 'paul_trap.png'}")


if __name__ == "__main__":
    run_program(main)
