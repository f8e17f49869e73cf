#!/usr/bin/env python
"""The double pendulum of Tao and Owhadi (2014, section 4.1, figures 1 and 2): penalties at coarse steps against SHAKE.

Masses and gravity are 1, links have the lengths 1 and sqrt 2, and the pendulum starts from rest at (0, -1), (1, -2).
Constraints g = (r1^2 - L1^2, r2^2 - L2^2) = 0 are those of OpenMM, whose solver CCMA stands for SHAKE, or penalties
omega^2/2 g^T g with omega = 20.
Errors are those of (x2, y2) against the generalized coordinates theta, phi, integrated to a tolerance of 1e-12. Then:
does omega^2 |g| stay bounded as omega grows, and are window averages of -omega^2 g the multipliers of SHAKE?

What differs from the paper:
- Gravity. The paper prints V = -g y1 - g y2, by which this start stands on its head; Z&S at h = 0.1 fails there at
  t = 3. With V = g (y1 + y2), gravity along -y, the runs behave as in the paper's figures: that is what is used.
- Times. Those of the figures are not in the text: errors are up to t = 100 here, figure 2 is up to t = 10.
- The benchmark is an explicit method of order 8 at adaptive steps, for the paper's variational Euler at small ones.
- The pin is a particle without mass; for SHAKE it has the mass 1e12, because OpenMM refuses constraints to massless
  particles. SHAKE's multipliers are not given out by OpenMM: they are solved for at the states of its trajectory.
- One-step Newmark is this package's: it ends a step with the true force at the new positions, and fails after a
  while. In the paper it has a large error.
- The seconds are those of OpenMM's Reference platform against MATLAB of 2008: compare the ratios, if anything.

The methods of Z&S and Newmark show positions q = x + b h^2 a(x) in the Context and propagate x. The penalties' forces
at q are those that hold the masses on their paths, at x they are larger by a factor that grows as (h omega)^2:
errors, energies, violations and multipliers are those of q. The first step goes from q = x to q, which changes the
energy once. One-step Newmark has no x.
"""
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import openmm as mm
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, number, progress_bar, run_program  # noqa: E402
from common.papers import Trajectory, make_context, panels, parse  # noqa: E402
from penalties import GRAVITY, Method, pendulum_system, swing, zhang_skeel  # noqa: E402

LENGTHS = np.array((1.0, np.sqrt(2)))
ANGLES = np.array((0.0, np.pi / 4))                  # at the start, from the downward vertical
START = np.array(((0, 0, 0), (0, -1, 0), (1, -2, 0)), dtype=float)  # the pin, the masses
OMEGA, BETA, STEP = 20.0, 0.4, 0.1
EARLY = 10.0                                         # errors are also given up to here
TOLERANCE = 1e-12                                    # of the benchmark
REPEATS = 10                                         # of each run, for its cost

FIGURE_2_TIME, FIGURE_2_STEP, WINDOW = 10.0, 0.01, 0.2
OMEGAS = (10, 20, 50, 100, 200, 500, 1000)           # of the violation
RESOLVED = 0.2                                       # h omega of steps that resolve the penalties
MULTIPLIER_OMEGAS = (20, 50, 100, 200)

LONG_METHODS = ("ThirdDerivatives", "Newmark", "NewmarkOneIteration")
LONG_SAMPLES, BLOCKS = 20000, 10


BENCHMARK_SECONDS = 91.3  # in the paper, as those of the methods
METHODS = (Method("SHAKE", "SHAKE", STEP, 3.8, "black"),
           Method("Verlet, penalties", "Verlet", STEP / OMEGA, 1.0, "#9467bd"),
           Method("Newmark", "Newmark", STEP, 5.3, "#9ecae1"),
           Method("Newmark, one iteration", "NewmarkOneIteration", STEP, 0.2, "#d62728"),
           Method("Z&S", "ThirdDerivatives", STEP, 0.4, "#08306b"),
           Method("Z&S, simplified", "FullHessian", STEP, 0, "#ff7f0e"))
SHAKE_SECONDS = METHODS[0].paper_seconds


@dataclass
class Result:
    times: np.ndarray          # of the frames before the run fails
    errors: np.ndarray         # largest of x2, y2
    energy_errors: np.ndarray
    steps: int
    seconds: float             # of all the steps
    fails: float | None        # when


# The benchmark

def angular_acceleration(_: float, state: np.ndarray) -> np.ndarray:
    """Euler-Lagrange equations of L = L1^2 theta'^2 + L2^2/2 phi'^2 + L1 L2 cos(theta - phi) theta' phi' - V.

    V = -g (2 L1 cos theta + L2 cos phi); the state is (theta, phi, theta', phi').
    """
    (l1, l2), (theta, phi), rates = LENGTHS, state[:2], state[2:]
    c, s = l1 * l2 * np.cos(theta - phi), l1 * l2 * np.sin(theta - phi)
    torque = (-s * rates[1] ** 2 - 2 * GRAVITY * l1 * np.sin(theta), s * rates[0] ** 2 - GRAVITY * l2 * np.sin(phi))
    return np.concatenate((rates, np.linalg.solve(((2 * l1 ** 2, c), (c, l2 ** 2)), torque)))


def benchmark(times: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, float]:
    """(x2, y2) and the energies at these times, the number of steps, and the seconds."""
    begin = perf_counter()
    solution = solve_ivp(angular_acceleration, (0, times[-1]), (*ANGLES, 0, 0), method="DOP853", dense_output=True,
                         rtol=TOLERANCE, atol=TOLERANCE)
    seconds = perf_counter() - begin
    (l1, l2), (theta, phi, theta_rate, phi_rate) = LENGTHS, solution.sol(times)
    energies = (l1 * theta_rate) ** 2 + (l2 * phi_rate) ** 2 / 2 \
        + l1 * l2 * np.cos(theta - phi) * theta_rate * phi_rate \
        - GRAVITY * (2 * l1 * np.cos(theta) + l2 * np.cos(phi))
    positions = np.stack((l1 * np.sin(theta) + l2 * np.sin(phi), -l1 * np.cos(theta) - l2 * np.cos(phi)), axis=1)
    return positions, energies, len(solution.t) - 1, seconds


# Figure 1

def frames_before_failure(found: Trajectory) -> int:
    """Until the run ends, or the energy is off by more than its initial size."""
    failed = ~(np.abs(found.energies - found.energies[0]) <= np.abs(found.energies[0]))
    return int(np.argmax(failed)) if failed.any() else len(failed)


def compare(method: Method, exact: np.ndarray, frames: int) -> Result:
    """A run with frames every STEP, and its cost by further ones without them."""
    every = round(STEP / method.step)
    steps = every * frames
    with progress_bar(method.label, (1 + REPEATS) * steps) as bar:
        found = swing(method.name, LENGTHS, START, method.step, steps, every, OMEGA, BETA, bar.update)
        lived = frames_before_failure(found)
        fails = found.times[lived - 1] + STEP if lived <= frames else None
        timed = every * (lived - 1)
        seconds = min(swing(method.name, LENGTHS, START, method.step, timed, timed, OMEGA, BETA, bar.update).seconds
                      for _ in range(REPEATS))
    return Result(found.times[:lived], np.abs(found.positions[:lived, 2, :2] - exact[:lived]).max(axis=1),
                  np.abs(found.energies - found.energies[0])[:lived], steps, seconds * steps / timed, fails)


def print_comparison(times: np.ndarray, energies: np.ndarray, steps: int, seconds: float, results: dict[str, Result]):
    columns = "{:24}{:>9}{:>8}{:>11}{:>11}{:>10}{:>11}{:>9}{:>10}{:>9}"
    early, end = min(EARLY, times[-1]), times[-1]
    shake = results["SHAKE"].seconds
    print(f"Figure 1: largest error of x2, y2 up to t = {early:g} and t = {end:g}; largest change of the energy, which "
          f"is {energies[0]:g};\nseconds and their ratio to SHAKE's, here and in the paper\n")
    print(columns.format("method", "h", "steps", f"t <= {early:g}", f"t <= {end:g}", "energy", "seconds", "ratio",
                         "paper's", "ratio"))
    print(columns.format("generalized coordinates", "adaptive", steps, "-", "-",
                         f"{np.abs(energies - energies[0]).max():.1e}", f"{seconds:.3g}", f"{seconds / shake:.2f}",
                         BENCHMARK_SECONDS, f"{BENCHMARK_SECONDS / SHAKE_SECONDS:.2f}"))
    for method in METHODS:
        found = results[method.label]
        errors = [f"{found.errors[found.times < time + STEP / 2].max():.2g}"
                  if found.fails is None or found.fails > time else "fails" for time in (early, end)]
        energy = f"{found.energy_errors.max():.1e}" if found.fails is None else "fails"
        paper = (method.paper_seconds, f"{method.paper_seconds / SHAKE_SECONDS:.2f}") if method.paper_seconds else "--"
        print(columns.format(method.label, f"{method.step:g}", found.steps, *errors, energy,
                             f"{found.seconds:.3g}" + ("*" if found.fails else ""), f"{found.seconds / shake:.2f}",
                             *paper))
    for label, found in results.items():
        if found.fails is not None:
            print(f"* {label}: from t = {found.fails:.1f} on, the energy is off by more than its initial size. "
                  f"The error until\n  then is up to {found.errors.max():.2g}; the seconds are those of these steps, "
                  f"extrapolated.")
    print(f"Seconds: the least of {REPEATS} runs, OpenMM's Reference platform.")


# Figure 2

def links(vectors: np.ndarray) -> np.ndarray:
    """From positions (or velocities) of shape (frames, 3, 3) to differences of neighbours, (frames, 2, 2)."""
    return np.diff(vectors[..., :2], axis=1)


def constraints(positions: np.ndarray) -> np.ndarray:
    """g of every frame, (frames, 2)."""
    return np.sum(links(positions) ** 2, axis=2) - LENGTHS ** 2


def largest_violations(omega: float, step: float, time: float) -> tuple[float, ...]:
    """omega^2 |g| of q and of x, the largest over time; nan if the run fails."""
    integrator = zhang_skeel("ThirdDerivatives", step, BETA)
    context = make_context(pendulum_system(LENGTHS, omega), integrator, START)
    q, x = [], []
    for _ in range(round(time / step)):
        try:
            integrator.step(1)
        except mm.OpenMMException:
            return np.nan, np.nan
        q.append(context.getState(positions=True).getPositions(asNumpy=True)._value)
        x.append(integrator.getPropagatedPositions()._value)
    return tuple(omega ** 2 * np.linalg.norm(constraints(np.array(positions)), axis=1).max() for positions in (q, x))


def violations(time: float) -> dict[float, tuple[float, ...]]:
    """For every omega: of q at resolved steps, of q and x at FIGURE_2_STEP, of q at STEP."""
    found: dict[float, tuple[float, ...]] = {}
    with progress_bar("violations", len(OMEGAS)) as bar:
        for omega in OMEGAS:
            resolved = largest_violations(omega, RESOLVED / omega, time)[0]
            found[omega] = (resolved, *largest_violations(omega, FIGURE_2_STEP, time),
                            largest_violations(omega, STEP, time)[0])
            bar.update()
    return found


def print_violations(found: dict[float, tuple[float, ...]], time: float):
    print(f"\nFigure 2a: largest omega^2 |g| up to t = {time:g}, Z&S; q are the Context's positions, x those that are "
          f"propagated\n")
    columns = "{:10}{:>18}{:>14}{:>14}{:>14}"
    names = (f"q, h = {RESOLVED:g}/omega", f"q, h = {FIGURE_2_STEP:g}", f"x, h = {FIGURE_2_STEP:g}")
    print(columns.format("omega", *names, f"q, h = {STEP:g}"))
    for omega, values in found.items():
        print(columns.format(f"{omega:g}", *(f"{value:.3g}" if value < 1e6 else "fails" for value in values)))
    of_omega = np.array(list(found.values())).T
    spread = ", ".join(f"{values.max() / values.min():.3g} ({name})" for name, values in zip(names, of_omega))
    print(f"Largest over smallest, omega from {OMEGAS[0]} to {OMEGAS[-1]}: {spread}.")


def shake_multipliers(found: Trajectory) -> np.ndarray:
    """lambda of M x'' = F + G^T lambda at every frame but the last, from d^2 g/dt^2 = 0.

    (G G^T) lambda = -(G F + dG/dt v), M = 1; v is the mean of the leapfrog's half a step before and after.
    """
    velocities = (found.velocities[1:] + found.velocities[:-1]) / 2
    joined = np.array(((1, 0), (-1, 1)))  # bond i = sum_j joined_ij x_j
    jacobian = (2 * joined[:, :, None] * links(found.positions[:-1])[:, :, None]).reshape(-1, 2, 4)
    right = jacobian @ np.tile((0, -GRAVITY), 2) + 2 * np.sum(links(velocities) ** 2, axis=2)
    return np.linalg.solve(jacobian @ jacobian.transpose(0, 2, 1), -right[:, :, None])[:, :, 0]


def window_averages(values: np.ndarray, step: float) -> np.ndarray:
    """Of values at 0, h, 2h, ..., by the trapezoidal rule."""
    means = (values[1:] + values[:-1]) / 2
    width = round(WINDOW / step)
    return means[:len(means) // width * width].reshape(-1, width, values.shape[1]).mean(axis=1)


def multipliers(time: float) -> tuple[np.ndarray, dict[float, np.ndarray]]:
    """SHAKE's (at every step), and -omega^2 g of the penalties for every omega."""
    steps = round(time / FIGURE_2_STEP)
    penalties: dict[float, np.ndarray] = {}
    with progress_bar("multipliers", (1 + len(MULTIPLIER_OMEGAS)) * steps) as bar:
        shake = swing("SHAKE", LENGTHS, START, FIGURE_2_STEP, steps + 1, progress=bar.update)
        for omega in MULTIPLIER_OMEGAS:
            found = swing("ThirdDerivatives", LENGTHS, START, FIGURE_2_STEP, steps, 1, omega, BETA, bar.update)
            penalties[omega] = -omega ** 2 * constraints(found.positions)
    return shake_multipliers(shake), penalties


def print_multipliers(shake: np.ndarray, penalties: dict[float, np.ndarray], time: float):
    print(f"\nFigure 2b: averages of -omega^2 g over windows of {WINDOW:g} against those of SHAKE's multipliers, up to "
          f"t = {time:g},\nboth at h = {FIGURE_2_STEP:g}. Relative differences, of all windows and both links; at "
          f"single steps for comparison\n")
    columns = "{:10}{:>14}{:>14}{:>22}"
    print(columns.format("omega", "largest", "rms", "rms, single steps"))
    averages = window_averages(shake, FIGURE_2_STEP)
    for omega, values in penalties.items():
        relative = window_averages(values, FIGURE_2_STEP) / averages - 1
        single = values / shake - 1
        print(columns.format(f"{omega:g}", f"{100 * np.abs(relative).max():.1f} %", f"{100 * rms(relative):.1f} %",
                             f"{100 * rms(single):.0f} %"))
    print(f"SHAKE's: solved for at every state of its trajectory; from {shake[:, 0].min():.3f} to "
          f"{shake[:, 0].max():.3f} and from {shake[:, 1].min():.3f} to {shake[:, 1].max():.3f}.")


def rms(values: np.ndarray) -> float:
    return np.sqrt(np.mean(values ** 2))


# Long runs

def print_long_runs(steps: int):
    """Block averages of the energy, and its linear drift with a standard error from their scatter."""
    every = max(1, steps // LONG_SAMPLES)
    frames = steps // every
    blocks = np.array_split(np.arange(1, frames + 1), BLOCKS)
    table, drifts, failures = [], [], []
    for name in LONG_METHODS:
        with progress_bar(name, steps) as bar:
            found = swing(name, LENGTHS, START, STEP, steps, every, OMEGA, BETA, bar.update)
        lived = frames_before_failure(found)
        table.append([np.mean(found.energies[block]) if block[-1] < lived else np.nan for block in blocks])
        if lived <= frames:
            drifts.append("-")
            failures.append(f"{name}: by t = {lived * every * STEP:g} the energy is off by more than its initial size")
        else:
            (slope, _), covariance = np.polyfit([found.times[block].mean() for block in blocks], table[-1], 1, cov=True)
            drifts.append(f"{slope:.1e} +- {np.sqrt(covariance[0, 0]):.1e}")
    columns = "{:20}" + len(LONG_METHODS) * "{:>24}"
    print(f"\nEnergies of {steps} steps of {STEP:g}, averages over {BLOCKS} blocks\n")
    print(columns.format("until t =", *LONG_METHODS))
    for block, energies in zip(blocks, zip(*table)):
        print(columns.format(f"{block[-1] * every * STEP:g}",
                             *("fails" if np.isnan(energy) else f"{energy:.6f}" for energy in energies)))
    print(columns.format("drift per unit time", *drifts))
    for failure in failures:
        print(failure)


def draw(results: dict[str, Result], violated: dict[float, tuple[float, ...]], shake: np.ndarray,
         penalties: np.ndarray, path: Path):
    with panels(path, 2, 2) as (over_time, energy, over_omega, forces):
        for method in METHODS:
            found = results[method.label]
            curve: dict[str, Any] = {"color": method.color, "linewidth": 4 if method.name == "Newmark" else 1}
            over_time.semilogy(found.times[1:], found.errors[1:], label=f"{method.label}, h = {method.step:g}", **curve)
            energy.semilogy(found.times[1:], found.energy_errors[1:], **curve)
        over_time.set(title=f"Error of x2, y2, omega = {OMEGA:g} (figure 1)", xlabel="time", ylabel="error",
                      ylim=(1e-6, 10))
        energy.set(title="Energy", xlabel="time", ylabel="|E - E(0)|", ylim=(1e-8, 10))
        over_time.legend(frameon=False, ncols=2, loc="lower right", fontsize="small")

        values = np.array(list(violated.values())).T
        for row, label, style in zip(values, (f"q, h = {RESOLVED:g}/omega", f"q, h = {FIGURE_2_STEP:g}",
                                              f"x, h = {FIGURE_2_STEP:g}"), ("ko-", "bs-", "rx--")):
            over_omega.loglog(OMEGAS, row, style, linewidth=1, label=label)
        over_omega.set(title="Largest violation of the constraints, Z&S (figure 2a)", xlabel="omega",
                       ylabel="omega^2 |g|", ylim=(1, None))

        times = FIGURE_2_STEP * np.arange(len(shake))
        averages = window_averages(penalties, FIGURE_2_STEP)
        for link, color in enumerate(("#08306b", "#d62728")):
            forces.plot(times, penalties[:, link], color=color, alpha=0.3, linewidth=0.6)
            forces.plot(times, shake[:, link], color=color, linewidth=1, label=f"SHAKE, link {link + 1}")
            forces.plot(WINDOW * (np.arange(len(averages)) + 0.5), averages[:, link], "o", color=color, markersize=4,
                        markerfacecolor="none", label=f"windows of -omega^2 g, link {link + 1}")
        forces.set(title=f"Multipliers, omega = {OMEGA:g} (figure 2b; pale: at single steps)", xlabel="time",
                   ylabel="lambda", ylim=(None, 0.7))
        forces.legend(frameon=False, ncols=2, loc="upper right", fontsize="small")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--time", type=number(float, 1), default=100.0, metavar="T",
                        help="time of the comparison, and of figure 2 if less than 10 (default: %(default)s)")
    parser.add_argument("--long", type=number(int, 0), default=0, metavar="STEPS",
                        help=f"steps of the long runs, at least {10 * BLOCKS}; 0 for none (default: %(default)s)")
    options = parse(parser)
    if 0 < options.long < 10 * BLOCKS:
        parser.error(f"argument --long: '{options.long}': give 0 or at least {10 * BLOCKS}")

    frames = round(options.time / STEP)
    times = STEP * np.arange(frames + 1)
    exact, energies, steps, seconds = benchmark(times)
    results = {method.label: compare(method, exact, frames) for method in METHODS}
    print_comparison(times, energies, steps, seconds, results)
    time = min(FIGURE_2_TIME, frames * STEP)
    violated = violations(time)
    print_violations(violated, time)
    shake, penalties = multipliers(time)
    print_multipliers(shake, penalties, time)
    if options.long:
        print_long_runs(options.long)
    draw(results, violated, shake, penalties[OMEGA], options.figure)


if __name__ == "__main__":
    run_program(main)
