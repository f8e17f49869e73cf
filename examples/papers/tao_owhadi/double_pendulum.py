#!/usr/bin/env python
"""The double pendulum of Tao and Owhadi (2014, section 4.1, figures 1 and 2): penalties at coarse steps against SHAKE.

Masses and gravity are 1, links have the lengths 1 and sqrt 2, and the pendulum starts from rest at (0, -1), (1, -2).
Constraints g = (r1^2 - L1^2, r2^2 - L2^2) = 0 are those of OpenMM, whose solver CCMA stands for SHAKE (with RATTLE's
velocities), or penalties omega^2/2 g^T g with omega = 20.
Errors are those of (x2, y2) against the generalized coordinates theta, phi, integrated to a tolerance of 1e-12. Then:
does omega^2 |g| stay bounded as omega grows, and are window averages of -omega^2 g the multipliers of SHAKE?

What differs from the paper:
- Gravity. The paper prints V = -g y1 - g y2, by which this start stands on its head; Z&S at h = 0.1 fails there at
  t = 3. With V = g (y1 + y2), gravity along -y, the runs behave as in the paper's figures: that is what is used.
- Times. Those of the figures are not in the text: errors are up to t = 100 here, figure 2 is up to t = 10.
- SHAKE's multipliers are not given out by OpenMM: they are solved for at the states of its trajectory.
- One-step Newmark is this package's: it ends a step with the true force at the new positions, and fails after a
  while. In the paper it has a large error.

The methods of Z&S and Newmark show positions q = x + b h^2 a(x) in the Context and propagate x. The penalties' forces
at q are those that hold the masses on their paths, at x they are larger by a factor that grows as (h omega)^2:
errors, energies, violations and multipliers are those of q.
"""
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, each, run_program  # noqa: E402
from common.papers import Trajectory, panels, parse, print_table, solve  # noqa: E402
from penalties import (  # noqa: E402
    BETA, GRAVITY, OMEGA, Method, pendulum_system, print_comparison, simulate_both, swing, swing_all, zhang_skeel)

LENGTHS = np.array((1.0, np.sqrt(2)))
ANGLES = np.array((0.0, np.pi / 4))                  # at the start, from the downward vertical
START = np.array(((0, 0, 0), (0, -1, 0), (1, -2, 0)), dtype=float)  # the pin, the masses
STEP, EARLY = 0.1, 10.0                              # errors are also given up to here
FIGURE_2_TIME, FIGURE_2_STEP, WINDOW = 10.0, 0.01, 0.2
OMEGAS = (10, 20, 50, 100, 200, 500, 1000)           # of the violation
RESOLVED = 0.2                                       # h omega of steps that resolve the penalties
MULTIPLIER_OMEGAS = (20, 50, 100, 200)
METHODS = (Method("SHAKE", "SHAKE", STEP, "black"),
           Method("Verlet, penalties", "Verlet", STEP / OMEGA, "#9467bd"),
           Method("Newmark", "Newmark", STEP, "#9ecae1"),
           Method("Newmark, one iteration", "NewmarkOneIteration", STEP, "#d62728"),
           Method("Z&S", "ThirdDerivatives", STEP, "#08306b"),
           Method("Z&S, simplified", "FullHessian", STEP, "#ff7f0e"))


def angular_acceleration(_: float, state: np.ndarray) -> np.ndarray:
    """Euler-Lagrange equations of L = L1^2 theta'^2 + L2^2/2 phi'^2 + L1 L2 cos(theta - phi) theta' phi' - V.

    V = -g (2 L1 cos theta + L2 cos phi); the state is (theta, phi, theta', phi').
    """
    (l1, l2), (theta, phi), rates = LENGTHS, state[:2], state[2:]
    c, s = l1 * l2 * np.cos(theta - phi), l1 * l2 * np.sin(theta - phi)
    torque = (-s * rates[1] ** 2 - 2 * GRAVITY * l1 * np.sin(theta), s * rates[0] ** 2 - GRAVITY * l2 * np.sin(phi))
    return np.concatenate((rates, np.linalg.solve(((2 * l1 ** 2, c), (c, l2 ** 2)), torque)))


def compare(time: float) -> tuple[list[Trajectory], list[np.ndarray]]:
    """Runs of METHODS, and their largest errors of x2, y2 over time."""
    runs = swing_all(METHODS, LENGTHS, START, STEP, time)
    times = STEP * np.arange(round(time / STEP) + 1)
    theta, phi = solve(angular_acceleration, (*ANGLES, 0, 0), times[-1])(times)[:2]
    l1, l2 = LENGTHS
    exact = np.stack((l1 * np.sin(theta) + l2 * np.sin(phi), -l1 * np.cos(theta) - l2 * np.cos(phi)), axis=1)
    errors = [np.abs(run.positions[:, 2, :2] - exact[:len(run.times)]).max(axis=1) for run in runs]
    print_comparison("Figure 1: largest error of x2, y2", METHODS, runs, errors, (min(EARLY, times[-1]), times[-1]))
    return runs, errors


# Figure 2

def links(vectors: np.ndarray) -> np.ndarray:
    """From positions (or velocities) of shape (frames, 3, 3) to differences of neighbours, (frames, 2, 2)."""
    return np.diff(vectors[..., :2], axis=1)


def constraints(positions: np.ndarray) -> np.ndarray:
    """g of every frame, (frames, 2)."""
    return np.sum(links(positions) ** 2, axis=2) - LENGTHS ** 2


def largest_violations(omega: float, step: float, time: float) -> list[float]:
    """omega^2 |g| of q and of x, the largest over time; nan if the run fails."""
    steps = round(time / step)
    found, x = simulate_both(pendulum_system(LENGTHS, omega), zhang_skeel("ThirdDerivatives", step, BETA), START, steps)
    return [omega ** 2 * np.linalg.norm(constraints(positions), axis=1).max() if len(x) > steps else np.nan
            for positions in (found.positions, x)]


def violations(time: float) -> np.ndarray:
    """Of q at resolved steps, of q and x at FIGURE_2_STEP, of q at STEP; (4, omegas)."""
    found = np.array([(largest_violations(omega, RESOLVED / omega, time)[0],
                       *largest_violations(omega, FIGURE_2_STEP, time), largest_violations(omega, STEP, time)[0])
                      for omega in each("violations", OMEGAS)])
    names = (f"q, h = {RESOLVED:g}/omega", f"q, h = {FIGURE_2_STEP:g}", f"x, h = {FIGURE_2_STEP:g}", f"q, h = {STEP:g}")
    print_table(f"Figure 2a: largest omega^2 |g| up to t = {time:g}, Z&S; q are the Context's positions, x those that "
                "are propagated", ["omega", *names],
                [(omega, *(f"{value:.3g}" if value < 1e6 else "fails" for value in row))
                 for omega, row in zip(OMEGAS, found)])
    spread = ", ".join(f"{values.max() / values.min():.3g} ({name})" for name, values in zip(names[:3], found.T))
    print(f"Largest over smallest, omega from {OMEGAS[0]} to {OMEGAS[-1]}: {spread}.")
    return found.T


def shake_multipliers(found: Trajectory) -> np.ndarray:
    """lambda of M x'' = F + G^T lambda at every frame, from d^2 g/dt^2 = 0: (G G^T) lambda = -(G F + dG/dt v), M = 1"""
    joined = np.array(((1, 0), (-1, 1)))  # bond i = sum_j joined_ij x_j
    jacobian = (2 * joined[:, :, None] * links(found.positions)[:, :, None]).reshape(-1, 2, 4)
    right = jacobian @ np.tile((0, -GRAVITY), 2) + 2 * np.sum(links(found.velocities) ** 2, axis=2)
    return np.linalg.solve(jacobian @ jacobian.transpose(0, 2, 1), -right[:, :, None])[:, :, 0]


def window_averages(values: np.ndarray) -> np.ndarray:
    """Of values at 0, h, 2h, ..., by the trapezoidal rule."""
    means = (values[1:] + values[:-1]) / 2
    width = round(WINDOW / FIGURE_2_STEP)
    return means[:len(means) // width * width].reshape(-1, width, values.shape[1]).mean(axis=1)


def multipliers(time: float) -> tuple[np.ndarray, np.ndarray]:
    """SHAKE's (at every step), and -omega^2 g of the penalties for OMEGA."""
    steps = round(time / FIGURE_2_STEP)
    shake = shake_multipliers(swing("SHAKE", LENGTHS, START, FIGURE_2_STEP, steps))
    penalties = {omega: -omega ** 2 * constraints(swing("ThirdDerivatives", LENGTHS, START, FIGURE_2_STEP, steps,
                                                        omega=omega).positions)
                 for omega in each("multipliers", MULTIPLIER_OMEGAS)}
    rows = []
    for omega, values in penalties.items():
        relative, single = window_averages(values) / window_averages(shake) - 1, values / shake - 1
        rows.append((omega, np.abs(relative).max(), *(np.sqrt(np.mean(each ** 2)) for each in (relative, single))))
    print_table(f"Figure 2b: averages of -omega^2 g over windows of {WINDOW:g} against those of SHAKE's multipliers,\n"
                f"up to t = {time:g}, both at h = {FIGURE_2_STEP:g}. Relative differences, of all windows and both "
                "links; at single steps for comparison", "omega|largest:.1%|rms:.1%|rms, single steps:.0%", rows)
    return shake, penalties[int(OMEGA)]


def draw(runs: list[Trajectory], errors: list[np.ndarray], violated: np.ndarray, shake: np.ndarray,
         penalties: np.ndarray, path: Path):
    with panels(path, 2, 2) as (over_time, energy, over_omega, forces):
        for method, run, error in zip(METHODS, runs, errors):
            curve: dict[str, Any] = {"color": method.color, "linewidth": 4 if method.name == "Newmark" else 1}
            over_time.semilogy(run.times[1:], error[1:], label=method.whole_label, **curve)
            energy.semilogy(run.times[1:], np.abs(run.energies - run.energies[0])[1:], **curve)
        over_time.set(title=f"Error of x2, y2, omega = {OMEGA:g} (figure 1)", xlabel="time", ylabel="error",
                      ylim=(1e-6, 10))
        energy.set(title="Energy", xlabel="time", ylabel="|E - E(0)|", ylim=(1e-8, 10))
        over_time.legend(frameon=False, ncols=2, loc="lower right", fontsize="small")

        for row, label, style in zip(violated, (f"q, h = {RESOLVED:g}/omega", f"q, h = {FIGURE_2_STEP:g}",
                                                f"x, h = {FIGURE_2_STEP:g}"), ("ko-", "bs-", "rx--")):
            over_omega.loglog(OMEGAS, row, style, linewidth=1, label=label)
        over_omega.set(title="Largest violation of the constraints, Z&S (figure 2a)", xlabel="omega",
                       ylabel="omega^2 |g|", ylim=(1, None))

        times, averages = FIGURE_2_STEP * np.arange(len(shake)), window_averages(penalties)
        for link, color in enumerate(("#08306b", "#d62728")):
            forces.plot(times, penalties[:, link], color=color, alpha=0.3, linewidth=0.6)
            forces.plot(times, shake[:, link], color=color, linewidth=1, label=f"SHAKE, link {link + 1}")
            forces.plot(WINDOW * (np.arange(len(averages)) + 0.5), averages[:, link], "o", color=color, markersize=4,
                        markerfacecolor="none", label=f"windows of -omega^2 g, link {link + 1}")
        forces.set(title=f"Multipliers, omega = {OMEGA:g} (figure 2b; pale: at single steps)", xlabel="time",
                   ylabel="lambda", ylim=(None, 0.7))
        forces.legend(frameon=False, ncols=2, loc="upper right", fontsize="small")


def main():
    options = parse(OptionParser(__doc__), time=100.0)
    time = min(FIGURE_2_TIME, options.time)
    draw(*compare(options.time), violations(time), *multipliers(time), options.figure)


if __name__ == "__main__":
    run_program(main)
