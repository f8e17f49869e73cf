#!/usr/bin/env python
"""The magnetised rigid body of Tao and Owhadi (2014, section 4.5, figures 9 and 10): SO(3) by penalties.

R(t) in SO(3) turns a body of identity inertia whose dipole R e3 lies in a magnetic field along e3. With R' = R hat(W),

    L = 1/4 tr(R'^T R') - B mu R33,  1/4 tr(R'^T R') = 1/2 W^T W,  R(0) = I,  W(0) = (1, 0.2, 0.1).

With penalties, R is any matrix of 3 x 3, and V = B mu R33 + 1/2 omega^2 tr((R^T R - I)^T (R^T R - I)), omega = 10. For
OpenMM, the columns of R are three particles of mass 1/2, since the entries of R^T R are their scalar products. The
method is Z&S (Integrator 1, the Hessian of the whole potential) at h = 0.1. Deviations are those from
W' = B mu (R^T e3) x e3, integrated to a tolerance of 1e-12, in the Frobenius norm. R is the x that Z&S propagates, the
paper's R_k.

What differs from the paper, or is not said there:
- B mu is not given: 1 here. Neither are the times of the figures: t = 20 here.
- The paper's integrator kicks, then drifts. Integrator 1 is the one of its trapezoidal rule. They go through the same
  positions, but for half a kick at the start.
- The parameter. In (36) the velocities have the mass 1/2 and a_k the mass 1, which makes the paper's beta = 0.4 the
  b = 0.2 of Integrator 1 (and 1/2 the least beta that is stable for any step). Both b = 0.4 and b = 0.2 are run.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, run_program  # noqa: E402
from common.papers import panels, parse, print_table, solve  # noqa: E402
from penalties import simulate_both, zhang_skeel  # noqa: E402

OMEGA, STEP = 10.0, 0.1
FIELD = 1.0                               # B mu
ROTATION = np.array((1.0, 0.2, 0.1))      # W at the start
E3 = np.array((0.0, 0.0, 1.0))
BETAS = (0.4, 0.2)


@dataclass
class Motion:
    """At every STEP."""
    label: str
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


def benchmark_motion(steps: int) -> Motion:
    def rates(_: float, y: np.ndarray) -> np.ndarray:
        matrix = y[:9].reshape(3, 3)
        return np.concatenate(((matrix @ hat(y[9:])).ravel(), FIELD * np.cross(matrix[2], E3)))

    times = STEP * np.arange(steps + 1)
    found = solve(rates, np.concatenate((np.eye(3).ravel(), ROTATION)), times[-1])(times)
    matrices = found[:9].T.reshape(-1, 3, 3)
    return Motion("benchmark", matrices, np.sum(found[9:] ** 2, axis=0) / 2 + FIELD * matrices[:, 2, 2])


def penalised_body() -> mm.System:
    """Particle j is column j of R."""
    products = {(i, j): f"x{i}*x{j}+y{i}*y{j}+z{i}*z{j}" for i in (1, 2, 3) for j in range(i, 4)}
    squares = [f"({product}-1)^2" if i == j else f"2*({product})^2" for (i, j), product in products.items()]
    penalty = mm.CustomCompoundBondForce(3, f"{OMEGA ** 2 / 2}*({'+'.join(squares)})")
    penalty.addBond([0, 1, 2])
    field = mm.CustomExternalForce(f"{FIELD}*z")
    field.addParticle(2)
    system = mm.System()
    for _ in range(3):
        system.addParticle(0.5)
    system.addForce(penalty)
    system.addForce(field)
    return system


def penalised_motion(beta: float, steps: int) -> Motion:
    found, x = simulate_both(penalised_body(), zhang_skeel("ThirdDerivatives", STEP, beta), np.eye(3), steps,
                             hat(ROTATION).T)
    matrices = np.swapaxes(x, 1, 2)
    penalties = OMEGA ** 2 / 2 * np.sum((gram(matrices) - np.eye(3)) ** 2, axis=(1, 2))
    kinetic = np.sum(found.velocities ** 2, axis=(1, 2)) / 4
    return Motion(f"Z&S, b = {beta:g}", matrices, kinetic + penalties + FIELD * matrices[:, 2, 2])


def draw(motions: list[Motion], benchmark: Motion, path: Path):
    times = STEP * np.arange(len(benchmark.matrices))
    with panels(path, 1, 2) as (dipole, deviation):
        for i, color in enumerate(("#2ca02c", "#ff7f0e", "#08306b")):
            dipole.plot(times, benchmark.matrices[:, i, 2], color=color, linewidth=4, alpha=0.3)
            dipole.plot(times, motions[0].matrices[:, i, 2], color=color, linewidth=1, label="xyz"[i])
        for motion in motions:
            deviation.semilogy(times[1:], motion.deviations(benchmark)[1:], label=motion.label)
        dipole.set(title=f"Dipole R e3: benchmark (wide), {motions[0].label} (thin)", xlabel="time", ylim=(-1.15, 1.4))
        deviation.set(title="Deviation from the benchmark", xlabel="time")


def main():
    options = parse(OptionParser(__doc__), time=20.0)
    steps = round(options.time / STEP)
    benchmark = benchmark_motion(steps)
    motions = [penalised_motion(beta, steps) for beta in BETAS]
    errors = [motion.energies - benchmark.energies[0] for motion in motions]
    print_table(f"omega = {OMEGA:g}, h = {STEP:g}, B mu = {FIELD:g}, up to t = {STEP * steps:g}: deviation from the "
                f"benchmark,\nerror of the energy, which is {benchmark.energies[0]:g}, and |R^T R - I|",
                "|at the end:.2g|largest:.2g|energy, largest:.2g|mean:+.2g|violation:.1g",
                [(motion.label, motion.deviations(benchmark)[-1], motion.deviations(benchmark).max(),
                  np.abs(error).max(), error.mean(), motion.violations().max())
                 for motion, error in zip(motions, errors)])
    draw(motions, benchmark, options.figure)


if __name__ == "__main__":
    run_program(main)
