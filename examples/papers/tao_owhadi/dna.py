#!/usr/bin/env python
"""The DNA model of Tao and Owhadi (2014, section 4.4, figure 8): transitions of 200 base pairs at a coarse step.

The angles theta_k of the bases of one strand follow

    theta_k'' = theta_{k+1} - 2 theta_k + theta_{k-1} - eps U'(theta_k),  U = (exp(-a (1 - cos theta - x0)) - 1)^2,

with a = 7, x0 = 0.3, eps = 1/1400. U has its minima at arccos 0.7 = 0.795 and 2 pi - arccos 0.7 = 5.49, the closed
double strand. The start is theta_k = 0.8 + 0.1 xi_k with normal xi_k, and theta_k' = cos(4 pi k/N) / sqrt N. Compared
are Verlet at h = 0.2 and Z&S (Integrator 1, the Hessian of the whole potential) at h = 2, b = 0.3, in the mean of
theta and its rate. A transition is a change of the minimum within 0.5 of which the mean was last. The system is
chaotic: only statistics compare, and a few draws of xi are few.
For OpenMM, theta_k is the x of a particle of mass 1, whose y and z stay 0.

What differs from the paper, or is not said there:
- The chain is closed to a ring. The paper states no boundary.
- Times: that of the figure is not in the text. Here it is 5000, which has most transitions: by and by the mean loses
  its energy to the other modes, and stays near one minimum.
- The limits of the steps. Z&S at h = 2 is beyond its limit in the long run: its energy creeps up, and runs away at
  t = 7500 with the first draw of xi. An implementation in NumPy, apart from this package and equal to it to rounding
  for as long as chaos lets it, fails at t = 5000 to 9000 with each of ten draws; there h = 1.5 failed with five of them
  from t = 28000 on, h = 1 with none up to t = 10000, and an open chain was no better than the ring. The likely reason
  is the truncation that makes Z&S linearly implicit: push-forward Newmark (Integrator 3), from which it is truncated,
  gains no energy at h = 2. Z&Ss (Integrator 4) lasts longer than Z&S, but gains energy too in longer runs.
- Ten times the step does not pay here: a step of Verlet is compiled code, while one of Z&S evaluates second and third
  derivatives of general expressions, and solves a sparse system of 600 coordinates, y and z included.

Z&S propagates x and shows q = x + b h^2 a(x) in the Context. Angles are x, and so is the paper's energy; the energy
of q is given beside it. Fast oscillations are damped at large steps, as the paper says: by that, both energies become
lower than the start's.
VerletIntegrator has velocities half a step behind: it is given those at -h/2, and its energies allow for it. The rate
of the mean is that of its velocities as they are.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import unit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, choice, number, run_program  # noqa: E402
from common.papers import each, make_context, panels, parse, print_table  # noqa: E402
from penalties import STIFF_GROUP, simulate_both, zhang_skeel  # noqa: E402

ANGLES = 200
A, X0, EPS = 7.0, 0.3, 1 / 1400
MINIMA = (np.arccos(1 - X0), 2 * np.pi - np.arccos(1 - X0))
MEAN, SPREAD = 0.8, 0.1  # of the angles at the start
BETA = 0.3
FRAME = 2.0              # time from one frame to the next
NEAR = 0.5               # of a minimum
RUNAWAY = 10.0           # a run has failed when its energy exceeds that of the start by this factor
# Steps, and names of zhang_skeel().
METHODS = {"Verlet": (0.2, ""), "Z&S": (2.0, "ThirdDerivatives"), "Z&Ss": (2.0, "FullHessian"),
           "Newmark": (2.0, "Newmark")}


@dataclass
class Run:
    times: np.ndarray     # of frames, up to a failure
    mean: np.ndarray      # angle
    rate: np.ndarray      # of the mean
    energies: np.ndarray  # of x, as in the paper
    shown: np.ndarray     # energies of the Context, of q for Z&S
    failure: float | None  # when

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
    for force in (pairing, alignment):
        force.setForceGroup(STIFF_GROUP)  # matters to Newmark: all is stiff
        system.addForce(force)
    return system


def potential_energy(angles: np.ndarray) -> np.ndarray:
    """Of each row of angles."""
    pairing = (np.exp(-A * (1 - np.cos(angles) - X0)) - 1) ** 2
    return np.sum(EPS * pairing + (np.roll(angles, -1, axis=1) - angles) ** 2 / 2, axis=1)


def run(method: str, noise: int, time: float) -> Run:
    """From angles with noise, of which this is the seed."""
    step, name = METHODS[method]
    x, v = np.zeros((ANGLES, 3)), np.zeros((ANGLES, 3))
    x[:, 0] = MEAN + SPREAD * np.random.default_rng(noise).standard_normal(ANGLES)
    v[:, 0] = np.cos(4 * np.pi * np.arange(1, ANGLES + 1) / ANGLES) / np.sqrt(ANGLES)
    if method == "Verlet":
        integrator = mm.VerletIntegrator(step)
        forces = make_context(dna(), mm.VerletIntegrator(1.0), x).getState(forces=True).getForces(asNumpy=True)
        v -= step / 2 * forces.value_in_unit(unit.kilojoule_per_mole / unit.nanometer)
    else:
        integrator = zhang_skeel(name, step, BETA)
    every, frames = round(FRAME / step), round(time / FRAME)
    found, propagated = simulate_both(dna(), integrator, x, every * frames, every, v)
    sound = np.isfinite(found.energies) & (found.energies < RUNAWAY * found.energies[0])
    kept = len(sound) if sound.all() else int(np.argmin(sound))
    rates, angles, shown = found.velocities[:kept, :, 0], propagated[:kept, :, 0], found.energies[:kept]
    energies = shown if method == "Verlet" else potential_energy(angles) + np.sum(rates ** 2, axis=1) / 2
    return Run(found.times[:kept], angles.mean(axis=1), rates.mean(axis=1), energies, shown,
               None if kept > frames else kept * FRAME)


def row(method: str, noise: int, found: Run) -> tuple:
    visits = found.visits()
    late = slice(len(found.times) // 2, None)
    return (f"{method}, h = {METHODS[method][0]:g}", noise, len(visits) - 1, visits[-1][0], MINIMA[visits[-1][1]],
            found.mean.max(), found.energies[0], found.energies[late].mean(), found.shown[late].mean(),
            "" if found.failure is None else f"by t = {found.failure:.0f}")


def draw(runs: dict[str, Run], path: Path):
    with panels(path, len(runs), 3) as free:
        for i, (method, found) in enumerate(runs.items()):
            over_time, portrait, energy = free[3 * i:3 * i + 3]
            over_time.plot(found.times, found.mean, linewidth=0.9)
            portrait.plot(found.mean, found.rate, linewidth=0.5)
            for minimum in MINIMA:
                over_time.axhline(minimum, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
                portrait.axvline(minimum, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            energy.plot(found.times, found.energies, linewidth=0.7, label="of x, as in the paper")
            energy.plot(found.times, found.shown, linewidth=0.7, label="of q, as in the Context")
            energy.set(title="energy", xlabel="time", ylim=(0, 1.25 * found.energies[0]))
            over_time.set(title=method, xlabel="time", ylabel="mean angle", ylim=(0, 2 * np.pi))
            portrait.set(title="phase portrait", xlabel="mean angle", ylabel="rate of the mean")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--draws", type=number(int, 1, most=100), default=3, metavar="N",
                        help="draws of the initial angles (default: %(default)s)")
    parser.add_argument("--methods", type=choice(METHODS), nargs="+", default=["Verlet", "Z&S"], metavar="NAME",
                        help=f"of {', '.join(METHODS)} (default: Verlet Z&S)")
    options = parse(parser, time=5000.0, least=10)
    keys = [(method, noise) for method in options.methods for noise in range(1, options.draws + 1)]
    runs = {(method, noise): run(method, noise, options.time) for method, noise in each("runs", keys)}
    print_table(f"{ANGLES} angles on a ring, eps = {EPS:.3g}, b = {BETA:g}, up to t = {options.time:g}: transitions, "
                "the last one, where it led to;\nthe largest mean angle; energies at the start, over the second half, "
                "and that of q over the second half", "method|xi|transitions|last at:.0f|then at:.2f|largest:.2f"
                "|energy:.3f|later:.3f|of q:.3f|fails",
                [row(method, noise, found) for (method, noise), found in runs.items()])
    draw({method: runs[method, 1] for method in options.methods}, options.figure)


if __name__ == "__main__":
    run_program(main)
