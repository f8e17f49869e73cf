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
  gains no energy at h = 2. Z&Ss (Integrator 4) lasts longer than Z&S, but gains energy too in longer runs. Verlet is
  not near its limit at h = 0.2: that is shortly before h = 1, the frequencies being up to 2 and, by U, a little more.
- The momenta "facilitate opening-up": without them the mean stays at the first minimum in the two runs made.
- The seconds are those of OpenMM's Reference platform against MATLAB of 2008. A Verlet step is compiled code here,
  while a step of Z&S evaluates second and third derivatives of general expressions, and solves a sparse system of
  600 coordinates, y and z included: ten times the step does not pay for that here.

Z&S propagates x and shows q = x + b h^2 a(x) in the Context. Angles are x, and so is the paper's energy; the energy
of q is given beside it. Fast oscillations are damped at large steps, as the paper says: by that, both energies become
lower than the start's.
VerletIntegrator has velocities half a step behind: it is given those at -h/2, and its energies allow for it. The rate
of the mean is that of its velocities as they are.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import unit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, number, progress_bar, run_program  # noqa: E402
from common.papers import make_context, parse, save  # noqa: E402
from penalties import STIFF_GROUP, simulate_both, zhang_skeel  # noqa: E402

ANGLES = 200
A, X0, EPS = 7.0, 0.3, 1 / 1400
MINIMA = (np.arccos(1 - X0), 2 * np.pi - np.arccos(1 - X0))
MEAN, SPREAD = 0.8, 0.1  # of the angles at the start
BETA = 0.3
FRAME = 2.0              # time from one frame to the next, about
LIMITS_FRAME = 10.0      # the same where larger steps are tried
NEAR = 0.5               # of a minimum
RUNAWAY = 10.0           # a run has failed when its energy exceeds that of the start by this factor


@dataclass
class Method:
    name: str
    step: float
    paper_seconds: float = 0
    color: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}, h = {self.step:g}"


METHODS = (Method("Verlet", 0.2, 23.26, "#d62728"), Method("Z&S", 2.0, 3.24, "#08306b"))
LIMITS = (Method("Verlet", 0.9), Method("Verlet", 1.0), Method("Z&S", 2.0), Method("Z&S", 3.0), Method("Z&Ss", 2.0),
          Method("Z&Ss", 3.0), Method("Newmark", 2.0))
INTEGRATORS = {"Z&S": "ThirdDerivatives", "Z&Ss": "FullHessian", "Newmark": "Newmark"}


@dataclass
class Run:
    method: Method
    times: np.ndarray     # of frames, up to a failure
    mean: np.ndarray      # angle
    rate: np.ndarray      # of the mean
    energies: np.ndarray  # of x, as in the paper
    shown: np.ndarray     # energies of the Context, of q for Z&S
    failure: float | None  # when
    steps: int            # that were made
    seconds: float        # of these

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
    pairing = mm.CustomExternalForce("eps*(exp(-a*(1-cos(x)-x0))-1)^2")
    for name, value in (("eps", EPS), ("a", A), ("x0", X0)):
        pairing.addGlobalParameter(name, value)
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


def start(noise: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities; noise is the seed of xi."""
    x, v = np.zeros((ANGLES, 3)), np.zeros((ANGLES, 3))
    x[:, 0] = MEAN + SPREAD * np.random.default_rng(noise).standard_normal(ANGLES)
    v[:, 0] = np.cos(4 * np.pi * np.arange(1, ANGLES + 1) / ANGLES) / np.sqrt(ANGLES)
    return x, v


def accelerations(x: np.ndarray) -> np.ndarray:
    """By OpenMM; the masses are 1."""
    forces = make_context(dna(), mm.VerletIntegrator(1.0), x).getState(forces=True).getForces(asNumpy=True)
    return forces.value_in_unit(unit.kilojoule_per_mole / unit.nanometer)


def run(method: Method, x: np.ndarray, v: np.ndarray, time: float, frame: float,
        progress: Callable[[int], object]) -> Run:
    if method.name == "Verlet":
        integrator, v = mm.VerletIntegrator(method.step), v - method.step / 2 * accelerations(x)
    else:
        integrator = zhang_skeel(INTEGRATORS[method.name], method.step, BETA)
    every = max(1, round(frame / method.step))
    steps = every * max(1, round(time / (every * method.step)))
    found, propagated = simulate_both(dna(), integrator, x, steps, every, v, progress)
    sound = np.isfinite(found.energies) & (found.energies < RUNAWAY * found.energies[0])
    kept = len(sound) if sound.all() else int(np.argmin(sound))
    failure = None
    if kept <= steps // every:  # one that OpenMM or the integrator refused has no frame
        failure = kept * every * method.step
    rates = found.velocities[:kept, :, 0]
    angles, energies = propagated[:kept, :, 0], found.energies[:kept]
    if method.name != "Verlet":
        energies = potential_energy(angles) + np.sum(rates ** 2, axis=1) / 2
    return Run(method, found.times[:kept], angles.mean(axis=1), rates.mean(axis=1), energies, found.energies[:kept],
               failure, every * (len(found.times) - 1), found.seconds)


def late(values: np.ndarray) -> float:
    """The mean over the second half."""
    return float(values[len(values) // 2:].mean())


def print_run(label: str, found: Run):
    visits = found.visits()
    transitions = len(visits) - 1
    last = f"{visits[-1][0]:.0f}" if transitions else "-"
    shown = f"{late(found.shown):.3f}" if found.method.name != "Verlet" else ""
    failure = "" if found.failure is None else f"  fails by t = {found.failure:.0f}"
    print(f"{found.method.label:16}{label:12}{transitions:>11}{last:>9}{MINIMA[visits[-1][1]]:8.2f}"
          f"{found.mean.max():9.2f}{found.energies[0]:9.3f}{late(found.energies):9.3f}{shown:>9}{failure}")


def print_runs(noisy: list[Run], resting: list[Run]):
    print(f"\n{'':28}{'transitions':>11}{'last at':>9}{'then at':>8}{'largest':>9}{'energy':>9}{'later':>9}"
          f"{'of q':>9}")
    draws = len(noisy) // len(METHODS)
    for i, found in enumerate(noisy):
        print_run(f"xi {i % draws + 1}", found)
    for found in resting:
        print_run("at rest, xi 1", found)
    print("Largest: mean angle. Energies: at the start, over the second half, and that of q over the second half.\n")

    seconds = [np.mean([found.seconds for found in noisy if found.method is method]) for method in METHODS]
    print(f"{'':16}{'seconds':>9}{'us a step':>11}{'paper':>9}")
    for method, cost, found in zip(METHODS, seconds, noisy[::draws]):
        print(f"{method.label:16}{cost:9.2f}{1e6 * found.seconds / found.steps:11.0f}{method.paper_seconds:9.2f}")
    print(f"{'ratio':16}{seconds[0] / seconds[1]:9.2f}{'':11}"
          f"{METHODS[0].paper_seconds / METHODS[1].paper_seconds:9.2f}")


def draw(runs: list[Run], path: Path):
    figure, panels = pyplot.subplots(len(runs), 3, figsize=(13, 3.4 * len(runs)), squeeze=False, layout="constrained",
                                     sharex="col")
    for (over_time, portrait, energy), found in zip(panels, runs):
        color = found.method.color
        over_time.plot(found.times, found.mean, color=color, linewidth=0.9)
        portrait.plot(found.mean, found.rate, color=color, linewidth=0.5)
        for minimum in MINIMA:
            over_time.axhline(minimum, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            portrait.axvline(minimum, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        energy.plot(found.times, found.energies, color=color, linewidth=0.7,
                    label="of x, as in the paper" if found.method.name != "Verlet" else None)
        if found.method.name != "Verlet":
            energy.plot(found.times, found.shown, color="#6baed6", linewidth=0.7, label="of q, as in the Context")
            energy.legend(frameon=False, loc="upper left")
        energy.set_ylim(0, 1.25 * found.energies[0])
        over_time.set(title=found.method.label, ylabel="mean angle", ylim=(0, 2 * np.pi))
        portrait.set(title="phase portrait", ylabel="rate of the mean")
        energy.set(title="energy", ylabel="energy")
    for panel, label in zip(panels[-1], ("time", "mean angle", "time")):
        panel.set_xlabel(label)
    save(figure, path)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--time", type=number(float, 10), default=5000.0, metavar="T",
                        help="simulated time of each run (default: %(default)s)")
    parser.add_argument("--draws", type=number(int, 1, most=100), default=3, metavar="N",
                        help="draws of the initial angles (default: %(default)s)")
    parser.add_argument("--limits", type=number(float, 0), default=10000.0, metavar="T",
                        help="time up to which larger steps are tried, 0 for none (default: %(default)s)")
    options = parse(parser)

    print(f"{ANGLES} angles on a ring, eps = {EPS:.3g}, b = {BETA:g}, up to t = {options.time:g}")
    noisy, resting = [], []
    for method in METHODS:
        with progress_bar(method.label, round((options.draws + 1) * options.time / method.step)) as bar:
            for noise in range(1, options.draws + 1):
                noisy.append(run(method, *start(noise), options.time, FRAME, bar.update))
            x, v = start(1)
            resting.append(run(method, x, 0 * v, options.time, FRAME, bar.update))
    print_runs(noisy, resting)

    if options.limits:
        print(f"\nHow large a step? Up to t = {options.limits:g}, xi 1, energy less than {RUNAWAY:g} times that of the "
              f"start.\nGrowth: of the Context's energy, from the first quarter of what lasts to the fourth.\n\n"
              f"{'':16}{'growth':>8}")
        for method in LIMITS:
            with progress_bar(method.label, round(options.limits / method.step)) as bar:
                found = run(method, *start(1), options.limits, LIMITS_FRAME, bar.update)
            quarter = max(1, len(found.shown) // 4)
            growth = found.shown[-quarter:].mean() / found.shown[1:quarter + 1].mean()
            print(f"{method.label:16}{growth:8.2f}  "
                  + ("lasts" if found.failure is None else f"fails by t = {found.failure:.0f}"))

    draw(noisy[::options.draws], options.figure)


if __name__ == "__main__":
    run_program(main)
