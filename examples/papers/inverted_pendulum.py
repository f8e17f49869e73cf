#!/usr/bin/env python
"""Pendula that stand on a shaking pivot: the heterogeneous multiscale method on the problems of its paper.

Calvo and Sanz-Serna (SIAM J. Sci. Comput. 32, 2029, 2010), in consistent units: nm, ps and dalton stand for m, s, kg.
The pivot has the vertical acceleration a = v_max omega cos(omega t), v_max = 4, which for large omega holds up pendula
that would fall. Angles are from the upward vertical. The pendula start at rest and are followed up to T = 1, with
n = T_macro/H micro-steps in a period. The averaged motion Q is known here; errors are the largest differences from it
at the ends of macro-steps.

- One pendulum, l = 0.2, g = 9.8, q(0) = 0.5, T_macro = 1:

      q'' = (g + a)/l sin q,   Q'' = (g/l - v_max^2/(2 l^2) cos Q) sin Q.

  For OpenMM the angle is the x coordinate of a particle of mass 1. The tables are the paper's 2.2 and 2.3, with its
  numbers in brackets. At omega = 1e3 one sees what the averaged equation leaves out: O(1/omega).
- What it costs beside velocity Verlet for q over the whole of T, with micro-steps of the same size, or smaller by as
  much as it takes for them to divide H. The errors of both are against Q. From it q itself differs by up to 20/omega.
- A double pendulum: rods of 0.2 and 0.1, masses of 0.01 and 0.005 at their ends, angles of 0.5 and 0, T_macro = 0.4.
  In the frame of the pivot, a particle of a huge mass, the forces are -m (g + a) along y; the rods are constraints. The
  averaged motion is that with v_max^2/4 b^T M^-1 b added to the potential, M the mass matrix in terms of the angles and
  b the derivative of the sum of m y by them. What is O(1/omega) is large at omega = 1e4; at larger ones errors show the
  order 2 in H.

Drawn are the full motion at omega = 200 and the averaged one (figure 2.1), errors against H, and the angles of the
double pendulum (figure 4.1).
"""
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, log10, pi, sin
from pathlib import Path

import numpy as np
import openmm as mm
from openmmstiff import HMMIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, each, run_program  # noqa: E402
from common.papers import draw_slope, panels, parse, print_table, simulate, solve, verlet  # noqa: E402

GRAVITY, SPEED, DURATION = 9.8, 4.0, 1.0  # SPEED is v_max
LENGTH, ANGLE, MACRO_TIME = 0.2, 0.5, 1.0
PERIODS = 40                              # in the window of the exponential weights
STEPS = (10, 20, 40, 80)                  # in T
FREQUENCIES = {"HalfBump": (1e4, 1e6, 1e8), "Simple": (1e3, 1e4, 1e6, 1e8)}
TITLES = {"HalfBump": f"exponential weights, {PERIODS} periods (table 2.2)",
          "Simple": "equal weights, half a period (table 2.3)"}
PAPER_ERRORS = {
    ("HalfBump", 1e4): (0.410, 0.110, 0.0295, 0.00911), ("HalfBump", 1e6): (0.408, 0.107, 0.0271, 0.00674),
    ("HalfBump", 1e8): (0.405, 0.105, 0.0251, 0.00481),
    ("Simple", 1e3): (0.386, 0.0911, 0.0115, 0.00867), ("Simple", 1e4): (0.405, 0.105, 0.0255, 0.00520),
    ("Simple", 1e6): (0.407, 0.107, 0.0270, 0.00670), ("Simple", 1e8): (0.407, 0.107, 0.0270, 0.00671)}
DIRECT_FREQUENCIES = (1e4, 1e5)
SLOW_FREQUENCY, SLOW_MICRO_STEPS = 200, 80  # of the full motion that is drawn

RODS, MASSES, ANGLES = np.array((0.2, 0.1)), np.array((0.01, 0.005)), np.array((0.5, 0.0))
PIVOT_MASS = 1e9
DOUBLE_MACRO_TIME, DOUBLE_STEPS, DOUBLE_FREQUENCIES = 0.4, (80, 160, 320), (1e4, 1e6, 1e8)
CONSTRAINT_TOLERANCE = 1e-10

Motion = Callable[[float | np.ndarray], np.ndarray]    # angles, and rates or momenta, as a function of time


# Systems

def vibration(energy: str, omega: float) -> mm.CustomExternalForce:
    """A force with the phase theta; a is the acceleration, with gravity."""
    force = mm.CustomExternalForce(f"{energy}; a={GRAVITY}+{SPEED * omega}*cos(theta)")
    force.addGlobalParameter("theta", 0)
    return force


def pendulum_system(omega: float) -> mm.System:
    """The angle is the x coordinate."""
    system = mm.System()
    force = vibration(f"a/{LENGTH}*cos(x)", omega)
    force.addParticle(system.addParticle(1))
    system.addForce(force)
    return system


def double_system(omega: float) -> mm.System:
    system = mm.System()
    system.addParticle(PIVOT_MASS)
    force = vibration("mass*a*y", omega)
    force.addPerParticleParameter("mass")
    for i, (mass, rod) in enumerate(zip(MASSES, RODS)):  # particle i + 1 stands on particle i
        system.addConstraint(i, system.addParticle(mass), rod)
        force.addParticle(i + 1, (mass,))
    system.addForce(force)
    return system


def standing(angles: np.ndarray) -> np.ndarray:
    """Positions of pivot and masses with the rods at these angles."""
    ends = np.cumsum(RODS[:, None] * np.stack((np.sin(angles), np.cos(angles), 0 * angles), axis=1), axis=0)
    return np.vstack((np.zeros(3), ends))


def rod_angles(positions: np.ndarray) -> np.ndarray:
    """From frames of positions, (frames, rods)."""
    rods = np.diff(positions, axis=1)
    return np.arctan2(rods[:, :, 0], rods[:, :, 1])


# Averaged motions

def averaged_pendulum() -> Motion:
    """Angle and rate."""
    def derivative(_: float, state: np.ndarray) -> tuple[float, float]:
        angle, rate = state
        return rate, (GRAVITY / LENGTH - SPEED ** 2 / (2 * LENGTH ** 2) * cos(angle)) * sin(angle)

    return solve(derivative, (ANGLE, 0), DURATION)


def averaged_double() -> Motion:
    """Angles and momenta, by Hamilton's equations of p^T M^-1 p/2 + g sum m y + v_max^2/4 b^T M^-1 b."""
    carried = np.array((MASSES.sum(), MASSES[1])) * RODS  # the sum of m y is carried @ cos(angles)
    diagonal, coupling = carried * RODS, MASSES[1] * RODS.prod()

    def derivative(_: float, state: np.ndarray) -> np.ndarray:
        angles, momenta = np.split(state, 2)
        turn = angles[0] - angles[1]
        mass = np.diag(diagonal) + coupling * np.cos(turn) * np.eye(2)[::-1]
        b = -carried * np.sin(angles)
        rates, pushed = np.linalg.solve(mass, np.stack((momenta, b), axis=1)).T
        # The derivative of M is that of the coupling, with opposite signs for the two angles.
        by_mass = coupling * np.sin(turn) * np.array((1, -1)) * (
            rates[0] * rates[1] + SPEED ** 2 / 2 * pushed[0] * pushed[1])
        by_b = GRAVITY * b - SPEED ** 2 / 2 * carried * np.cos(angles) * pushed
        return np.concatenate((rates, -by_mass - by_b))

    return solve(derivative, (*ANGLES, 0, 0), DURATION)


# Runs

@dataclass
class Run:
    steps: int
    angles: np.ndarray      # after each of the macro-steps, (steps, angles)
    positions: np.ndarray   # (steps, particles, 3)
    velocities: np.ndarray
    evaluations: int        # of the vibrated force

    @property
    def times(self) -> np.ndarray:
        return DURATION / self.steps * np.arange(1, self.steps + 1)

    def errors(self, motion: Motion) -> np.ndarray:
        """The largest of each angle."""
        return np.abs(self.angles - motion(self.times)[:self.angles.shape[1]].T).max(axis=0)


@dataclass
class Pendulum:
    """Or double pendulum, as a function of omega, that starts at rest; angles(positions) has those of each frame."""
    make: Callable[[float], mm.System]
    start: np.ndarray
    macro_time: float
    angles: Callable[[np.ndarray], np.ndarray]

    def follow(self, omega: float, integrator: mm.Integrator, frames: int, every: int, evaluations: int) -> Run:
        integrator.setConstraintTolerance(CONSTRAINT_TOLERANCE)
        found = simulate(self.make(omega), integrator, self.start, frames * every, every)
        positions = found.positions[1:]
        return Run(frames, self.angles(positions), positions, found.velocities[1:], evaluations)

    def multiscale(self, omega: float, steps: int, filter: str = "Simple") -> Run:
        """With as many micro-steps in a period as in the paper."""
        integrator = HMMIntegrator(DURATION / steps, omega)
        integrator.setFilter(getattr(HMMIntegrator, filter))
        integrator.setNumMicroStepsPerPeriod(round(self.macro_time * steps))
        integrator.setNumPeriods(PERIODS)
        evaluations = (steps + 1) * integrator.computeNumMicroEvaluations()     # the first step has two averages
        return self.follow(omega, integrator, steps, 1, evaluations)

    def direct(self, omega: float, frames: int, micro_steps: int) -> Run:
        """The full motion by velocity Verlet (RATTLE), with at least so many micro-steps in a period."""
        every = int(np.ceil(DURATION / frames * omega * micro_steps / (2 * pi)))
        integrator = verlet(DURATION / frames / every, omega, constrained=len(self.start) > 1)
        return self.follow(omega, integrator, frames, every, frames * every + 1)


SINGLE = Pendulum(pendulum_system, np.array(((ANGLE, 0, 0),)), MACRO_TIME, lambda positions: positions[:, :, 0])
DOUBLE = Pendulum(double_system, standing(ANGLES), DOUBLE_MACRO_TIME, rod_angles)


# Results

def power(omega: float) -> str:
    """A power of 10."""
    return f"1e{round(log10(omega))}"


def study_pendulum(steps: Sequence[int], motion: Motion) -> dict[tuple[str, float], list[Run]]:
    """By filter and frequency."""
    found = {}
    for filter, frequencies in FREQUENCIES.items():
        for omega in each(filter, frequencies):
            found[filter, omega] = [SINGLE.multiscale(omega, count, filter) for count in steps]
        rows = [(f"1/{count}", *(f"{found[filter, omega][i].errors(motion)[0]:.2e} "
                                 f"({PAPER_ERRORS[filter, omega][STEPS.index(count)]:.2e})" for omega in frequencies))
                for i, count in enumerate(steps)]
        print_table("Errors of the averaged angle Q of the inverted pendulum, with the paper's in brackets\n"
                    f"{filter}: {TITLES[filter]}", ("H", *(f"omega {power(omega)}" for omega in frequencies)), rows)
    return found


def study_costs(steps: Sequence[int], motion: Motion):
    rows = []
    for omega, count in each("direct", [(omega, count) for omega in DIRECT_FREQUENCIES for count in steps]):
        runs = SINGLE.multiscale(omega, count), SINGLE.direct(omega, count, round(MACRO_TIME * count))
        results = [value for run in runs for value in (run.errors(motion)[0], run.evaluations)]
        rows.append((power(omega), f"1/{count}", *results, results[3] / results[1]))
    print_table("The same micro-steps over the whole of T: errors against Q, and evaluations of the vibrated force",
                "omega|H|Simple:.2e|evaluations|direct:.2e|evaluations|ratio:.0f", rows)


def study_double(motion: Motion) -> dict[tuple[float, int], Run]:
    """By frequency and steps."""
    runs = {(omega, steps): DOUBLE.multiscale(omega, steps) for omega, steps in each(
        "double pendulum", [(omega, steps) for omega in DOUBLE_FREQUENCIES for steps in DOUBLE_STEPS])}
    errors = {key: run.errors(motion) for key, run in runs.items()}
    rows = []
    for omega, steps in runs:
        now, before = errors[omega, steps], errors.get((omega, steps // 2))
        rows.append((power(omega), f"1/{steps}", *now,
                     *(f"{ratio:.2f}" for ratio in (() if before is None else before / now))))
    print_table("Largest errors of the angles of the double pendulum, against the averaged motion; ratios are to the H "
                "before", "omega|H|q1:.2e|q2:.2e|ratio|ratio", rows)
    return runs


def draw(found: dict[tuple[str, float], list[Run]], motion: Motion, doubles: dict[tuple[float, int], Run],
         double_motion: Motion, path: Path):
    frames = round(SLOW_FREQUENCY * SLOW_MICRO_STEPS * DURATION / (2 * pi))
    full = SINGLE.direct(SLOW_FREQUENCY, frames, SLOW_MICRO_STEPS)
    points = found["Simple", 1e4][-1]
    with panels(path, 2, 2) as (angle, rate, errors, double):
        for panel, vectors, averaged in ((angle, "positions", 0), (rate, "velocities", 1)):
            panel.plot(full.times, getattr(full, vectors)[:, 0, 0], color="#9ecae1", linewidth=1,
                       label=f"full, omega = {SLOW_FREQUENCY}")
            panel.plot(full.times, motion(full.times)[averaged], color="#08306b", linewidth=1.5, label="averaged")
            panel.plot(points.times, getattr(points, vectors)[:, 0, 0], ".", color="#d62728", markersize=5,
                       label=f"Simple, omega = 1e4, H = 1/{points.steps}")
        for (filter, omega), runs in found.items():
            color = {1e3: "#2ca02c", 1e4: "#ff7f0e", 1e6: "#d62728", 1e8: "#08306b"}[omega]
            errors.loglog([1 / run.steps for run in runs], [run.errors(motion)[0] for run in runs],
                          "o-" if filter == "Simple" else "s--", color=color, markersize=4, linewidth=1,
                          label=f"{filter}, omega = {power(omega)}")
        sizes = [1 / run.steps for run in runs]
        draw_slope(errors, sizes, 20, 2)
        fine = np.linspace(0, DURATION, 401)
        for i, color in enumerate(("#08306b", "#d62728")):
            double.plot(fine, double_motion(fine)[i], color=color, linewidth=1, label=f"q{i + 1}, averaged")
            for steps, marker in zip(DOUBLE_STEPS, "o."):
                run = doubles[DOUBLE_FREQUENCIES[0], steps]
                double.plot(run.times, run.angles[:, i], marker, color=color, markersize=4, fillstyle="none",
                            label=f"q{i + 1}, H = 1/{steps}")
        double.legend(frameon=False, fontsize="small", loc="upper right", ncols=2)
        angle.set(title="Angle of the pendulum", xlabel="time", ylabel="q", ylim=(-0.7, 1))
        rate.set(title="Its rate", xlabel="time", ylabel="q'", ylim=(-14, 21))
        errors.set_xticks(sizes, [f"1/{run.steps}" for run in runs])
        errors.set_xticks((), minor=True)
        errors.set(title="Error of the averaged angle", xlabel="H", ylabel="largest error")
        double.set(title=f"Angles of the double pendulum, omega = {power(DOUBLE_FREQUENCIES[0])}", xlabel="time",
                   ylabel="q", ylim=(-1.5, 2.1))


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--steps", type=int, choices=STEPS, nargs="+", default=list(STEPS), metavar="N",
                        help="macro-steps of the single pendulum, of 10, 20, 40 and 80 (default: all)")
    options = parse(parser)
    motion, double_motion = averaged_pendulum(), averaged_double()
    steps = sorted(set(options.steps))
    found = study_pendulum(steps, motion)
    study_costs(steps, motion)
    draw(found, motion, study_double(double_motion), double_motion, options.figure)


if __name__ == "__main__":
    run_program(main)
