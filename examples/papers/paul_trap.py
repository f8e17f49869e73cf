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
of half a period; the effective potential has 1 and 2. Printed are these frequencies, which differ by O(1/omega^2), what
an HMM run shows, and its error with H halved and n doubled each time: order 2, down to where the difference that does
not depend on H takes over.

Two ions, with their Coulomb repulsion, in a trap that has in addition a static quadrupole, m/2 s (y^2 - z^2), so that
the pair points along x. In the effective potential its centre oscillates with the trap's frequencies; its length
breathes with sqrt(3) times that along x, and it rocks with the roots of the differences of squares. Printed are the
frequencies that HMM and velocity Verlet with all vibrations show when each mode is excited a little, and the mean
length. For paths HMM is of order 1 in 1/omega, but there are two simple ways to a better one:

- "apart", as usual, repulsion and static field are in a group that is evaluated once a macro-step, where the ions are
  at theta = 0, at one end of their trembling. "Together", they are evaluated in each micro-step, and are averaged;
- an ion at theta = 0 with the velocity v moves, from one such moment to the next, with (1 + 2 eps) v, where eps is
  negative along z. "Corrected" are runs together that start with that as the macro-velocity, not with v.

Five ions, a pentagon that is kicked. Printed are evaluations of the vibrated force by HMM and by velocity Verlet,
seconds, and the largest distance of an ion from where Verlet has it. Verlet's evaluations grow with omega, HMM's do
not. The distance has a part from omega, of order 1, or 2 if corrected, and one from H, which remains.
"""
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from matplotlib.axes import Axes
from openmmstiff import HMMIntegrator
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, number, run_program  # noqa: E402
from common.papers import (  # noqa: E402
    Trajectory, draw_slope, each, panels, parse, print_table, simulate, slope, verlet)

MASS, CHARGE = 40.0, 1.0
COULOMB = 138.935458 * CHARGE ** 2          # of a pair, kJ nm/mol
SECULAR = 1.0                               # Omega, 1/ps
FRAME = 0.25                                # the time from one look to the next, and the largest macro-step
FEWEST_MICRO = 20                           # the number of micro-steps in a period doubles as H is halved
EFFECTIVE = {"x": SECULAR, "z": 2 * SECULAR}  # frequencies of an ion in the effective potential; y is as x
SLOW_GROUP, VIBRATED_GROUP = 0, 1

PERIODS = (4, 16, 64, 256, 1024)            # in a ps
ION_TIME, PAIR_TIME, CLUSTER_TIME = 10.0, 25.0, 10.0
PAIR_PERIODS, CLUSTER_PERIODS = PERIODS[:3], PERIODS[:4]
STATIC = 0.5 * SECULAR ** 2                 # s
EXCITED = 1e-3                              # amplitudes of the modes of the pair, nm
DIRECT_MICRO = 160                          # steps in a period, at most, where all vibrations are resolved
CLUSTER, KICK, SHAKE = 5, 0.3, 0.1          # ions of the pentagon, random velocities and displacements

APART, TOGETHER, CORRECTED = KINDS = ("apart", "together", "corrected")  # of HMM runs


@dataclass
class Start:
    positions: np.ndarray   # (ions, 3)
    velocities: np.ndarray
    static: float = 0


ION = Start(np.array(((1.0, 0.7, 0.5),)), np.array(((0.0, 0.5, 0.4),)))

def trap_strength(omega: float) -> float:
    """kappa."""
    return np.sqrt(2) * MASS * omega * SECULAR


def trembling(omega: float) -> np.ndarray:
    """eps along x, y and z."""
    return trap_strength(omega) / (MASS * omega ** 2) * np.array((1, 1, -2))


def trapped_ions(ions: int, omega: float, static: float) -> mm.System:
    system = mm.System()
    trap = mm.CustomExternalForce("kappa/2*cos(theta)*(x^2+y^2-2*z^2)")
    trap.addGlobalParameter("theta", 0)
    trap.addGlobalParameter("kappa", trap_strength(omega))
    trap.setForceGroup(VIBRATED_GROUP)
    slow = mm.CustomExternalForce(f"{MASS * static / 2}*(y^2-z^2)")
    repulsion = mm.NonbondedForce()
    for ion in range(ions):
        system.addParticle(MASS)
        trap.addParticle(ion)
        slow.addParticle(ion)
        repulsion.addParticle(CHARGE, 1, 0)
    for force in (trap, repulsion, *([slow] if static else [])):
        system.addForce(force)
    return system


# Runs

def micro_steps(step: float) -> int:
    """In a period; the product with the macro-step is constant."""
    return round(FEWEST_MICRO * FRAME / step)


def hmm_integrator(step: float, omega: float) -> HMMIntegrator:
    integrator = HMMIntegrator(step, omega)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(micro_steps(step))
    return integrator


def follow_slowly(start: Start, periods: int, step: float, duration: float, kind: str = APART,
                  frame: float = FRAME) -> Trajectory:
    """By HMM."""
    omega = 2 * np.pi * periods
    integrator = hmm_integrator(step, omega)
    if kind != APART:
        integrator.setVibratedForceGroups(1 << SLOW_GROUP | 1 << VIBRATED_GROUP)
    if kind == CORRECTED:
        start = replace(start, velocities=start.velocities * (1 + 2 * trembling(omega)))
    return follow(start, omega, integrator, duration, frame)


def follow_fully(start: Start, periods: int, micro: int, duration: float, frame: float = FRAME) -> Trajectory:
    """By velocity Verlet."""
    omega = 2 * np.pi * periods
    return follow(start, omega, verlet(1 / (periods * micro), omega, constrained=False), duration, frame)


def follow(start: Start, omega: float, integrator: mm.Integrator, duration: float, frame: float) -> Trajectory:
    every = round(frame / integrator.getStepSize()._value)
    return simulate(trapped_ions(len(start.positions), omega, start.static), integrator, start.positions,
                    every * round(duration / frame), every, start.velocities)


def frequency(values: np.ndarray) -> float:
    """Of a harmonic oscillation around any constant: neighbours add up to 2 cos(frequency*FRAME) times a value."""
    values = np.diff(values)  # without the constant
    inner = values[1:-1]
    return float(np.arccos(inner @ (values[2:] + values[:-2]) / (2 * inner @ inner))) / FRAME


# One ion

def exact_frequencies(axis: str, omega: float) -> tuple[float, float]:
    """Of the ion along an axis, by Mathieu's equation, and of HMM with H -> 0 and as many micro-steps as one likes."""
    eps = trembling(omega)["xyz".index(axis)]

    def end(constant: float, slope: float, tolerance: float) -> np.ndarray:
        """A solution that starts at `constant`, less that constant, and its slope, after half a period."""
        return solve_ivp(lambda theta, state: (state[1], -eps * np.cos(theta) * (constant + state[0])), (0, np.pi),
                         (0, slope), method="DOP853", rtol=1e-13, atol=tolerance).y[:, -1]

    # Of the solution that starts at 1 only the change, for the other digits would hide it.
    value, change = end(0, 1, 1e-16)[0], end(1, 0, 1e-18)[1]
    return omega / np.pi * np.arcsin(np.sqrt(-change * value)), omega * np.sqrt(-change / np.pi)


def study_ion(steps: list[float]) -> dict[tuple[str, int], np.ndarray]:
    """Relative errors, by axis and periods: of the effective potential, of HMM's limit, of HMM for each H."""
    found: dict[tuple[str, int], np.ndarray] = {}
    rows = []
    for many in each("one ion", PERIODS):
        paths = [follow_slowly(ION, many, step, ION_TIME).positions[:, 0] for step in steps]
        for axis, effective in EFFECTIVE.items():
            exact, limit = exact_frequencies(axis, 2 * np.pi * many)
            runs = [frequency(path[:, "xyz".index(axis)]) for path in paths]
            found[axis, many] = np.array((effective, limit, *runs)) / exact - 1
            rows.append((many, axis, exact, *found[axis, many][[0, 1, -1]], (runs[-1] - limit) / exact))
    print_table(f"One ion: frequencies along x and z, {EFFECTIVE['x']:g} and {EFFECTIVE['z']:g} in the effective "
                "potential; relative differences from the exact one\nof the effective potential, of HMM's limit, of "
                f"HMM with H = {steps[-1]:g} ps",
                "periods/ps|axis|exact:.7f|effective:.2e|limit:.2e|run:.2e|run-limit:.2e", rows)
    errors = np.abs([found["z", many][2:] for many in PERIODS]).T
    print_table("Relative error of HMM's frequency along z against H (and n micro-steps in a period), for each number "
                "of periods", ["H:g", "n", *(f"{many}:.2e" for many in PERIODS)],
                [*((step, micro_steps(step), *row) for step, row in zip(steps, errors)),
                 ("last slope", "", *(f"{order:.2f}" for order in slope(steps[-2:], errors[-2:])))])
    return found


# Two ions

def study_pair(step: float, micro: int):
    """HMM apart and together, and Verlet, for each number of periods."""
    length = (2 * COULOMB / (MASS * SECULAR ** 2)) ** (1 / 3)  # in the effective potential: m Omega^2 d/2 = C/d^2
    positions = np.outer((-0.5, 0.5), (length, 0, 0)) + EXCITED * np.array(((-1, 0, 0), (3, 2, 2)))
    pair = Start(positions, np.zeros((2, 3)), STATIC)
    x, y, z = SECULAR ** 2, SECULAR ** 2 + STATIC, 4 * SECULAR ** 2 - STATIC  # squared frequencies
    squares = {"centre x": x, "centre y": y, "centre z": z, "breathing": 3 * x, "rocking y": y - x, "rocking z": z - x}
    rows: list[tuple] = [("", "effective", *np.sqrt(list(squares.values())), length)]
    for many, label in each("two ions", [(many, label) for many in PAIR_PERIODS for label in (APART, TOGETHER, "")]):
        path = (follow_slowly(pair, many, step, PAIR_TIME, label) if label
                else follow_fully(pair, many, micro, PAIR_TIME)).positions
        between = path[:, 1] - path[:, 0]
        rows.append((many, f"HMM {label}" if label else "Verlet",
                     *(frequency(values) for values in (*path.mean(axis=1).T, *between.T)),
                     np.linalg.norm(between, axis=-1).mean()))
    print_table(f"Two ions: frequencies of the modes, HMM with H = {step:g} and n = {micro_steps(step)}, Verlet with "
                f"{micro} steps in a period,\nand the mean distance of the ions",
                ["periods/ps", "", *(f"{name}:.5f" for name in squares), "length:.5f"], rows)


# Five ions

def kicked_pentagon() -> Start:
    """A ring, at the radius at which it would rest in the effective potential but for what is added at random."""
    radius = (COULOMB / (MASS * SECULAR ** 2) * sum(1 / (4 * np.sin(np.pi * k / CLUSTER))
                                                    for k in range(1, CLUSTER))) ** (1 / 3)
    angles = 2 * np.pi * np.arange(CLUSTER) / CLUSTER
    ring = radius * np.stack((np.cos(angles), np.sin(angles), np.zeros(CLUSTER)), axis=1)
    shaken, kicked = np.random.default_rng(1).normal(size=(2, CLUSTER, 3))
    return Start(ring + SHAKE * shaken, KICK * kicked)


def study_cluster(steps: list[float], micro: int) -> dict[int, dict[str, float]]:
    """The largest distances of an ion from Verlet's at the smallest H, [periods][kind]."""
    rows, found = [], {}
    for many in each("five ions", CLUSTER_PERIODS):
        full = follow_fully(kicked_pentagon(), many, micro, CLUSTER_TIME)
        for step in steps:
            runs = {kind: follow_slowly(kicked_pentagon(), many, step, CLUSTER_TIME, kind) for kind in KINDS}
            found[many] = {kind: np.linalg.norm(full.positions - run.positions, axis=-1).max()
                           for kind, run in runs.items()}
            direct = many * micro * round(CLUSTER_TIME)
            count = hmm_integrator(step, 1).computeNumMicroEvaluations() * round(CLUSTER_TIME / step)
            rows.append((many, step, micro_steps(step), direct, count, direct / count, full.seconds,
                         runs[APART].seconds, *found[many].values()))
    print_table(f"Five ions for {CLUSTER_TIME:g} ps: evaluations of the vibrated force by Verlet, with {micro} steps "
                "in a period, and by HMM,\ntheir ratio, seconds of the runs (HMM apart), and largest distances of an "
                "ion from Verlet's",
                ["periods/ps", "H:g", "n", "Verlet", "HMM", "ratio:.2f", "Verlet, s:.2f", "HMM, s:.3f",
                 *(f"{kind}:.4f" for kind in KINDS)], rows)
    return found


# Figure

def draw_paths(panel: Axes, start: Start, axes: tuple[int, int], step: float, micro: int, duration: float):
    """At the lowest frequency."""
    full = follow_fully(start, PERIODS[0], micro, duration, 1 / (PERIODS[0] * micro)).positions
    slow, corrected = (follow_slowly(start, PERIODS[0], step, duration, kind, step).positions
                       for kind in (APART, CORRECTED))
    for path, style, color, label in ((full, "-", "#9ecae1", "all vibrations"), (slow, "--", "#ff7f0e", "HMM"),
                                      (corrected, "-", "#08306b", "HMM corrected"),
                                      (full[::micro], "o", "#d62728", "Verlet, theta = 0")):
        lines = panel.plot(*np.moveaxis(path[:, :, axes], 2, 0), style, color=color, linewidth=1.3, markersize=3)
        lines[0].set_label(label)
    name = "Five ions" if len(start.positions) > 1 else "One ion"
    panel.set(title=f"{name}, {PERIODS[0]} periods/ps", xlabel=f"{'xyz'[axes[0]]}, nm", ylabel=f"{'xyz'[axes[1]]}, nm")


def draw(ion: dict[tuple[str, int], np.ndarray], steps: list[float], cluster: dict[int, dict[str, float]], micro: int,
         path: Path):
    with panels(path, 2, 2) as (single, several, by_step, by_omega):
        draw_paths(single, ION, (0, 2), steps[-1], micro, 2 * np.pi / SECULAR)
        draw_paths(several, kicked_pentagon(), (0, 1), steps[-1], micro, 3.0)
        several.set_aspect("equal")
        for many, color in zip(PERIODS, pyplot.get_cmap("viridis")(np.linspace(0, 0.9, len(PERIODS)))):
            by_step.loglog(steps, abs(ion["z", many][2:]), "o-", color=color, markersize=4, label=f"{many} periods/ps")
        draw_slope(by_step, steps, 0.4, 2)
        by_step.set_xticks(steps, [f"1/{1 / step:g}" for step in steps])
        by_step.minorticks_off()
        by_step.set(title="Frequency along z, one ion", xlabel="H, ps", ylabel="relative error of HMM")
        for axis, color in zip(EFFECTIVE, ("#2ca02c", "#08306b")):
            effective, limit = np.abs([ion[axis, many][:2] for many in PERIODS]).T
            by_omega.loglog(PERIODS, effective, "s--", color=color, markersize=8,
                            markerfacecolor="none", linewidth=1, label=f"effective potential, {axis}")
            by_omega.loglog(PERIODS, limit, "o-", color=color, markersize=4, linewidth=1, label=f"HMM, H to 0, {axis}")
        for kind, color in ((APART, "#ff7f0e"), (CORRECTED, "#d62728")):
            by_omega.loglog(list(cluster), [found[kind] for found in cluster.values()], "^-", color=color, markersize=5,
                            linewidth=1, label=f"path of five ions, {kind}, H = 1/{1 / steps[-1]:g}")
        draw_slope(by_omega, PERIODS, 4.0, -1)
        draw_slope(by_omega, PERIODS, 0.6, -2)
        by_omega.set(title="Differences from the exact motion", xlabel="periods/ps", ylim=(1e-11, 3),
                     ylabel="relative (frequencies) or nm (path)")
        by_omega.legend(frameon=False, fontsize="small", loc="lower left")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--halvings", type=number(int, 1, most=6), default=4, metavar="N",
                        help=f"how often the largest H, {FRAME:g} ps, is halved (default: %(default)s)")
    options = parse(parser)
    steps = [FRAME / 2 ** i for i in range(options.halvings + 1)]
    micro = min(DIRECT_MICRO, micro_steps(steps[-1]))
    ion = study_ion(steps)
    study_pair(steps[-1], micro)
    draw(ion, steps, study_cluster(steps, micro), micro, options.figure)


if __name__ == "__main__":
    run_program(main)
