#!/usr/bin/env python
"""The magnetised rigid body of Tao and Owhadi (2014, section 4.5, figures 9 and 10): SO(3) by penalties.

R(t) in SO(3) turns a body of identity inertia whose dipole R e3 lies in a magnetic field along e3. With R' = R hat(W),

    L = 1/4 tr(R'^T R') - B mu R33,  1/4 tr(R'^T R') = 1/2 W^T W,  R(0) = I,  W(0) = (1, 0.2, 0.1).

With penalties, R is any matrix of 3 x 3, and V = B mu R33 + 1/2 omega^2 tr((R^T R - I)^T (R^T R - I)), omega = 10. For
OpenMM, the columns of R are three particles of mass 1/2, since the entries of R^T R are their scalar products. The
method is Z&S (Integrator 1, the Hessian of the whole potential) at h = 0.1. It is compared with a variational method
on the group, the paper's (34), at the same step. Deviations are those from W' = B mu (R^T e3) x e3, integrated to a
tolerance of 1e-12, in the Frobenius norm.

What differs from the paper, or is not said there:
- B mu is not given: 1 here. Neither are the times of the figures: t = 20 here.
- The benchmark is an explicit method of order 8 at adaptive steps, for the paper's (34) at h = 0.0001.
- The paper's integrator comes from a quadrature of first order: it kicks, then drifts. Integrator 1 is the one of its
  trapezoidal rule. They go through the same positions, but for half a kick at the start.
- The parameter. In (36) the velocities have the mass 1/2 and a_k the mass 1, which makes the paper's beta = 0.4 the
  b = 0.2 of Integrator 1 (and 1/2 the least beta that is stable for any step). Both b = 0.4 and b = 0.2 are run.
  An implementation of the printed equations in NumPy with beta = 0.4 and this one with b = 0.2 and the half kick agree
  to 1e-12, once f_k has a minus before its second term: with the printed plus, the run fails at t = 16.
- The penalty has a wrong sign in the continuous action of the paper, though not in (36).
- For identity inertia the equations (34) are one of third degree for |W|. Newton's method for that is given a time
  too, beside fsolve, which the paper used in its MATLAB form.
- The seconds are those of OpenMM's Reference platform, and of NumPy and SciPy, against MATLAB of 2008: compare the
  ratios, if anything.

Z&S propagates x, the paper's R_k, and shows q = x + b h^2 a(x) in the Context, which is nearer to the group. Both are
given. The penalties at a small step show what the finite omega does alone, without an integrator's error.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import openmm as mm
from matplotlib import pyplot
from scipy.optimize import fsolve

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, number, run_program  # noqa: E402
from common.papers import parse, save, simulate, solve  # noqa: E402
from penalties import simulate_both, zhang_skeel  # noqa: E402

OMEGA, STEP = 10.0, 0.1
FIELD = 1.0                               # B mu
ROTATION = np.array((1.0, 0.2, 0.1))      # W at the start
E3 = np.array((0.0, 0.0, 1.0))
BETAS = (0.4, 0.2)
RESOLVED = 50                             # small steps in STEP, of Verlet on the penalties
TOLERANCE = 1e-12                         # of the benchmark, and of the equations of the group's method
TIMES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # of the table, up to that of the run
REPEATS = 20                              # of each run, for its cost
PAPER_SECONDS = (0.03, 1.45)              # Z&S, (34) with fsolve
COLORS = {"Z&S, b = 0.4": "#08306b", "Z&S, b = 0.2": "#6baed6", "Lie group": "#d62728", "penalties alone": "#74c476"}


@dataclass
class Motion:
    """At every STEP."""
    label: str
    coordinate: str       # x or q of a penalty run
    matrices: np.ndarray  # R, shape (frames, 3, 3)
    energies: np.ndarray

    def deviations(self, benchmark: "Motion") -> np.ndarray:
        return np.linalg.norm(self.matrices - benchmark.matrices, axis=(1, 2))

    def violations(self) -> np.ndarray:
        """|R^T R - I|"""
        return np.linalg.norm(gram(self.matrices) - np.eye(3), axis=(1, 2))


def gram(matrices: np.ndarray) -> np.ndarray:
    """R^T R"""
    return np.swapaxes(matrices, 1, 2) @ matrices


def hat(w: np.ndarray) -> np.ndarray:
    return np.array(((0, -w[2], w[1]), (w[2], 0, -w[0]), (-w[1], w[0], 0)))


def unhat(matrix: np.ndarray) -> np.ndarray:
    return np.array((matrix[2, 1], matrix[0, 2], matrix[1, 0]))


def torque(matrix: np.ndarray) -> np.ndarray:
    """B mu (R^-1 e3) x e3, of R in SO(3)"""
    return FIELD * np.cross(matrix[2], E3)


def rigid_motion(label: str, matrices: np.ndarray, rotations: np.ndarray) -> Motion:
    return Motion(label, "", matrices, np.sum(rotations ** 2, axis=1) / 2 + FIELD * matrices[:, 2, 2])


def benchmark_motion(steps: int) -> Motion:
    def rates(_: float, y: np.ndarray) -> np.ndarray:
        matrix = y[:9].reshape(3, 3)
        return np.concatenate(((matrix @ hat(y[9:])).ravel(), torque(matrix)))

    times = STEP * np.arange(steps + 1)
    found = solve(rates, np.concatenate((np.eye(3).ravel(), ROTATION)), times[-1], TOLERANCE)(times)
    return rigid_motion("benchmark", found[:9].T.reshape(-1, 3, 3), found[9:].T)


def by_fsolve(matrix: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The next W of the paper's (34)."""
    def cubed(rotation: np.ndarray) -> np.ndarray:
        return rotation.T @ rotation @ rotation.T

    old = hat(w)
    known = old - STEP ** 2 / 4 * cubed(old) + STEP * hat(torque(matrix))

    def residual(new: np.ndarray) -> np.ndarray:
        rotation = hat(new)
        return unhat(rotation - STEP ** 2 / 4 * cubed(rotation) - known)

    return fsolve(residual, w, xtol=TOLERANCE)


def by_newton(matrix: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The same: W (1 + h^2/4 |W|^2) is known, so that |W| has to be found."""
    c = STEP ** 2 / 4
    known = w * (1 + c * (w @ w)) + STEP * torque(matrix)
    length = np.sqrt(known @ known)
    size, change = length, length
    while abs(change) > TOLERANCE * length:
        change = (size + c * size ** 3 - length) / (1 + 3 * c * size ** 2)
        size -= change
    return known / (1 + c * size ** 2)


def group_motion(steps: int, solve: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """R and W by the paper's (34)."""
    matrix, w = np.eye(3), ROTATION
    matrices, rotations = [matrix], [w]
    for _ in range(steps):
        w = solve(matrix, w)
        half = STEP / 2 * hat(w)
        matrix = matrix @ np.linalg.solve(np.eye(3) - half, np.eye(3) + half)
        matrices.append(matrix)
        rotations.append(w)
    return np.array(matrices), np.array(rotations)


def penalised_body() -> mm.System:
    """Particle j is column j of R."""
    products = {(i, j): f"x{i}*x{j}+y{i}*y{j}+z{i}*z{j}" for i in (1, 2, 3) for j in range(i, 4)}
    squares = [f"({product}-1)^2" if i == j else f"2*({product})^2" for (i, j), product in products.items()]
    penalty = mm.CustomCompoundBondForce(3, f"0.5*omega^2*({'+'.join(squares)})")
    penalty.addGlobalParameter("omega", OMEGA)
    penalty.addBond([0, 1, 2])
    field = mm.CustomExternalForce("Bmu*z")
    field.addGlobalParameter("Bmu", FIELD)
    field.addParticle(2)
    system = mm.System()
    for _ in range(3):
        system.addParticle(0.5)
    system.addForce(penalty)
    system.addForce(field)
    return system


def penalised_motions(label: str, beta: float, substeps: int, steps: int) -> list[Motion]:
    """Of x and of q, which are the same without beta: that is velocity Verlet."""
    integrator = zhang_skeel("ThirdDerivatives", STEP / substeps, beta)
    found, propagated = simulate_both(penalised_body(), integrator, np.eye(3), steps * substeps, substeps,
                                      hat(ROTATION).T)
    if len(found.times) <= steps:
        sys.exit(f"{label} fails at t = {STEP * len(found.times):g}: give a shorter --time")
    motions = []
    for coordinate, positions in (("x", propagated), ("q", found.positions)):
        matrices = np.swapaxes(positions, 1, 2)
        penalties = OMEGA ** 2 / 2 * np.sum((gram(matrices) - np.eye(3)) ** 2, axis=(1, 2))
        kinetic = np.sum(found.velocities ** 2, axis=(1, 2)) / 4
        motions.append(Motion(label, coordinate, matrices, kinetic + penalties + FIELD * matrices[:, 2, 2]))
    return motions if beta > 0 else [Motion(label, "", motions[0].matrices, motions[0].energies)]


def penalties_seconds(beta: float, steps: int) -> float:
    integrator = zhang_skeel("ThirdDerivatives", STEP, beta)
    return simulate(penalised_body(), integrator, np.eye(3), steps, steps, hat(ROTATION).T).seconds


def group_seconds(solve: Callable[[np.ndarray, np.ndarray], np.ndarray], steps: int) -> float:
    begin = perf_counter()
    group_motion(steps, solve)
    return perf_counter() - begin


def print_motions(motions: list[Motion], benchmark: Motion):
    last = len(benchmark.matrices) - 1
    frames = [frame for frame in (round(time / STEP) for time in TIMES) if frame < last] + [last]
    print(f"\n{'':19}deviation from the benchmark at t =\n{'':19}"
          + "".join(f"{STEP * frame:<8g}" for frame in frames) + f"{'largest':10}{'energy':20}{'|R^T R - I|':11}")
    for motion in motions:
        deviations, errors = motion.deviations(benchmark), motion.energies - benchmark.energies[0]
        print(f"{motion.label:16}{motion.coordinate:3}" + "".join(f"{deviations[frame]:<8.2g}" for frame in frames)
              + f"{deviations.max():<10.2g}{np.abs(errors).max():<10.2g}{errors.mean():<+10.2g}"
              f"{motion.violations().max():<11.1g}")
    print("Energy: largest error, mean error.")


def print_costs(steps: int):
    costs = {f"Z&S, b = {BETAS[0]:g}": np.mean([penalties_seconds(BETAS[0], steps) for _ in range(REPEATS)]),
             "Lie group, fsolve": np.mean([group_seconds(by_fsolve, steps) for _ in range(REPEATS)]),
             "Lie group, Newton": np.mean([group_seconds(by_newton, steps) for _ in range(REPEATS)])}
    reference = next(iter(costs.values()))
    print(f"\n{'':19}{'seconds':>9}{'us a step':>11}{'ratio':>8}{'paper':>8}{'ratio':>8}")
    for (label, seconds), paper in zip(costs.items(), (*PAPER_SECONDS, None)):
        print(f"{label:19}{seconds:9.4f}{1e6 * seconds / steps:11.0f}{seconds / reference:8.1f}"
              + (f"{paper:8.2f}{paper / PAPER_SECONDS[0]:8.1f}" if paper else ""))


def draw(motions: list[Motion], benchmark: Motion, path: Path):
    """Of Z&S, x."""
    times = STEP * np.arange(len(benchmark.matrices))
    plotted = [motion for motion in motions if motion.coordinate != "q"]
    shown = plotted[0]
    figure = pyplot.figure(figsize=(13, 8), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    dipole, path_panel = figure.add_subplot(grid[0, :2]), figure.add_subplot(grid[0, 2], projection="3d")
    deviation, energy, violation = (figure.add_subplot(grid[1, i]) for i in range(3))

    for i, color in enumerate(("#2ca02c", "#ff7f0e", "#08306b")):
        dipole.plot(times, benchmark.matrices[:, i, 2], color=color, linewidth=4, alpha=0.3)
        dipole.plot(times, shown.matrices[:, i, 2], color=color, linewidth=1, label="xyz"[i])
    dipole.set(title=f"dipole R e3: benchmark (wide), {shown.label} (thin)", xlabel="time", ylim=(-1.15, 1.4))
    dipole.legend(frameon=False, ncols=3, loc="upper right")
    path_panel.plot(*benchmark.matrices[:, :, 2].T, color="0.6", linewidth=4, alpha=0.5)
    path_panel.plot(*shown.matrices[:, :, 2].T, color=COLORS[shown.label], linewidth=1)
    path_panel.plot((0, 0), (0, 0), (-1, 1), color="#d62728", linewidth=1)
    path_panel.view_init(elev=20, azim=55)
    path_panel.set(title="path of the dipole, and the field", xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1),
                   box_aspect=(1, 1, 1))
    for motion in plotted:
        style: dict[str, Any] = {"color": COLORS[motion.label], "linewidth": 1.2, "label": motion.label}
        deviation.semilogy(times[1:], motion.deviations(benchmark)[1:], **style)
        energy.plot(times, motion.energies, **style)
        violation.semilogy(times[1:], np.maximum(motion.violations()[1:], 1e-17), **style)
    deviation.set(title="deviation from the benchmark", xlabel="time")
    energy.set(title="energy", xlabel="time")
    violation.set(title="|R^T R - I|", xlabel="time")
    deviation.legend(frameon=False, loc="lower right")
    save(figure, path)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--time", type=number(float, 1, most=100), default=20.0, metavar="T",
                        help="simulated time (default: %(default)s)")
    options = parse(parser)

    steps = round(options.time / STEP)
    benchmark = benchmark_motion(steps)
    energy_error = np.abs(benchmark.energies - benchmark.energies[0]).max()
    print(f"omega = {OMEGA:g}, h = {STEP:g}, B mu = {FIELD:g}, up to t = {STEP * steps:g}, energy "
          f"{benchmark.energies[0]:g}\nThe benchmark keeps its energy to {energy_error:.1g} and R^T R = I to "
          f"{benchmark.violations().max():.1g}.")
    motions = [motion for beta in BETAS for motion in penalised_motions(f"Z&S, b = {beta:g}", beta, 1, steps)]
    motions += penalised_motions("penalties alone", 0, RESOLVED, steps)
    motions.append(rigid_motion("Lie group", *group_motion(steps, by_fsolve)))
    print_motions(motions, benchmark)
    print_costs(steps)
    draw(motions, benchmark, options.figure)


if __name__ == "__main__":
    run_program(main)
