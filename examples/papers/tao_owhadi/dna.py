#!/usr/bin/env python
"""The DNA model of Tao and Owhadi (2014, section 4.4, figure 8): transitions of 200 base pairs at a coarse step.

The angles theta_k of the bases of one strand follow

    theta_k'' = theta_{k+1} - 2 theta_k + theta_{k-1} - eps U'(theta_k),  U = (exp(-a (1 - cos theta - x0)) - 1)^2,

with a = 7, x0 = 0.3, eps = 1/1400. U has its minima at arccos 0.7 = 0.795 and 2 pi - arccos 0.7 = 5.49, the closed
double strand. The start is theta_k = 0.8 + 0.1 xi_k with normal xi_k, and theta_k' = cos(4 pi k/N) / sqrt N. Compared
are Verlet at h = 0.2 and Z&S (Integrator 1, the Hessian of the whole potential) at h = 2, b = 0.3, in the mean of
theta and its rate. A transition is a change of the minimum within 0.5 of which the mean was last. The system is
chaotic: only statistics compare, and a few draws of xi are few. For OpenMM, theta_k is the x of a particle of mass 1.

What differs from the paper, or is not said there:
- The chain is closed to a ring. The paper states no boundary.
- The time of the figure is not in the text. Here it is 5000, which has most transitions: by and by the mean loses its
  energy to the other modes, and stays near one minimum.
- Z&S at h = 2 is beyond its limit in the long run: its energy creeps up, and runs away at t = 5000 to 9000. The likely
  reason is the truncation that makes it linearly implicit: push-forward Newmark (Integrator 3), from which it is
  truncated, gains no energy at h = 2.
- Angles and energies are those of the Context, of q = x + b h^2 a(x), where the paper has x.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, each, number, run_program  # noqa: E402
from common.papers import panels, parse, print_table, simulate, verlet  # noqa: E402
from penalties import zhang_skeel  # noqa: E402

ANGLES = 200
A, X0, EPS = 7.0, 0.3, 1 / 1400
MINIMA = (np.arccos(1 - X0), 2 * np.pi - np.arccos(1 - X0))
MEAN, SPREAD = 0.8, 0.1  # of the angles at the start
BETA = 0.3
FRAME = 2.0              # time from one frame to the next
NEAR = 0.5               # of a minimum
RUNAWAY = 10.0           # a run has failed when its energy exceeds that of the start by this factor
STEPS = {"Verlet": 0.2, "Z&S": 2.0}


@dataclass
class Run:
    times: np.ndarray     # of frames, up to a failure
    mean: np.ndarray      # angle
    rate: np.ndarray      # of the mean
    energies: np.ndarray
    failure: str          # when, if any

    def visits(self) -> list[tuple[float, int]]:
        """When the mean came near a minimum, other than the last, and which."""
        found: list[tuple[float, int]] = []
        for time, mean in zip(self.times, self.mean):
            for i, minimum in enumerate(MINIMA):
                if abs(mean - minimum) < NEAR and (not found or found[-1][1] != i):
                    found.append((time, i))
        return found


def dna() -> mm.System:
    system = mm.System()
    pairing = mm.CustomExternalForce(f"{EPS}*(exp(-{A}*(1-cos(x)-{X0}))-1)^2")
    alignment = mm.CustomCompoundBondForce(2, "0.5*(x1-x2)^2")
    for k in range(ANGLES):
        system.addParticle(1)
        pairing.addParticle(k)
        alignment.addBond([k, (k + 1) % ANGLES])
    system.addForce(pairing)
    system.addForce(alignment)
    return system


def run(method: str, noise: int, time: float) -> Run:
    """From angles with noise, of which this is the seed."""
    step = STEPS[method]
    x, v = np.zeros((ANGLES, 3)), np.zeros((ANGLES, 3))
    x[:, 0] = MEAN + SPREAD * np.random.default_rng(noise).standard_normal(ANGLES)
    v[:, 0] = np.cos(4 * np.pi * np.arange(1, ANGLES + 1) / ANGLES) / np.sqrt(ANGLES)
    integrator = verlet(step, constrained=False) if method == "Verlet" else zhang_skeel("ThirdDerivatives", step, BETA)
    every, frames = round(FRAME / step), round(time / FRAME)
    found = simulate(dna(), integrator, x, every * frames, every, v)
    sound = np.isfinite(found.energies) & (found.energies < RUNAWAY * found.energies[0])
    kept = len(sound) if sound.all() else int(np.argmin(sound))
    mean, rate = (vectors[:kept, :, 0].mean(axis=1) for vectors in (found.positions, found.velocities))
    return Run(found.times[:kept], mean, rate, found.energies[:kept],
               "" if kept > frames else f"by t = {kept * FRAME:.0f}")


def row(method: str, noise: int, found: Run) -> tuple:
    visits = found.visits()
    return (f"{method}, h = {STEPS[method]:g}", noise, len(visits) - 1, visits[-1][0], MINIMA[visits[-1][1]],
            found.mean.max(), found.energies[0], found.energies[len(found.times) // 2:].mean(), found.failure)


def draw(runs: dict[str, Run], path: Path):
    with panels(path, len(runs), 2) as free:
        for (method, found), over_time, portrait in zip(runs.items(), free[::2], free[1::2]):
            over_time.plot(found.times, found.mean, linewidth=0.9)
            portrait.plot(found.mean, found.rate, linewidth=0.5)
            for minimum in MINIMA:
                over_time.axhline(minimum, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
                portrait.axvline(minimum, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            over_time.set(title=method, xlabel="time", ylabel="mean angle", ylim=(0, 2 * np.pi))
            portrait.set(title="phase portrait", xlabel="mean angle", ylabel="rate of the mean")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--draws", type=number(int, 1, most=100), default=3, metavar="N",
                        help="draws of the initial angles (default: %(default)s)")
    options = parse(parser, time=5000.0, least=10)
    keys = [(method, noise) for method in STEPS for noise in range(1, options.draws + 1)]
    runs = {(method, noise): run(method, noise, options.time) for method, noise in each("runs", keys)}
    print_table(f"{ANGLES} angles on a ring, eps = {EPS:.3g}, b = {BETA:g}, up to t = {options.time:g}: transitions, "
                "the last one, where it led to;\nthe largest mean angle; energies at the start, and over the second "
                "half", "method|xi|transitions|last at:.0f|then at:.2f|largest:.2f|energy:.3f|later:.3f|fails",
                [row(method, noise, found) for (method, noise), found in runs.items()])
    draw({method: runs[method, 1] for method in STEPS}, options.figure)


if __name__ == "__main__":
    run_program(main)
