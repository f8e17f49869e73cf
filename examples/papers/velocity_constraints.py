#!/usr/bin/env python
"""Constraints on velocities: a skate and a rolling wheel, against their exact motions.

SpookIntegrator takes constraints A(x, t) v = w(t). Two problems, in consistent units (nm, ps, daltons):

- A skate on an inclined plane: two masses of 1 at a distance of 1. Their midpoint moves along the rod only, which
  no constraint on positions can say. The rod turns at a constant rate omega, and from rest on a plane with the pull
  g along x the midpoint goes along a cycloid,

      x = g/(2 omega^2) sin^2(omega t),   y = g/(2 omega^2) (omega t - 1/2 sin(2 omega t)):

  it never gets lower than x = g/(2 omega^2), but travels across the slope for ever. The force from the side is
  4 g sin(omega t).
- A wheel, a hub and a rim of masses on rigid spokes, rolls down a slope without slipping. One constraint is that the
  point of contact is at rest, another that the centre stays above the ground. With the moment of inertia I, mass M
  and radius r, the acceleration is g/(1 + I/(M r^2)), and the multipliers are friction and the load of the ground.

Each is also run with a large compliance gamma, by which the constraint becomes a friction, A v = w - gamma force: the
skate slips down the plane, and the wheel on it. The smaller gamma is, the closer is this motion, known from ordinary
differential equations, to the constrained one.

Printed are the largest errors of positions (of the midpoint, the centre of the wheel) and of the multipliers over steps
h that are halved, and their slopes. What to expect:

- The skate is of first order. A step takes the direction of the rod at its start for the velocity in its middle.
- The wheel is of second order: in motion its spokes are longer by O(h^2). But for that, its acceleration is exact.
- Friction is of first order: its force is that at the end of a step.
"""
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openmm as mm
from openmmstiff import SpookIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, each, number, run_program  # noqa: E402
from common.papers import draw_slope, panels, parse, print_table, simulate, slope, solve  # noqa: E402

DURATION, STEP = 6.0, 0.1  # the largest step, and the time from one frame to the next
TIMES = STEP * np.arange(1, round(DURATION / STEP) + 1)  # of frames
FITTED = 3                 # slopes in h are those of the smallest steps, so many
DAMPING_STEPS = 2          # of holonomic constraints, as in the paper; the time is in proportion to the step
TOLERANCE = 1e-11          # of exact motions that have no formula
FRICTION = 0.2             # gamma where the constraint is to be a friction
GAMMAS = (0.1, 0.03, 0.01, 0.003, 0.001)
GAMMA_STEP = 0.0125        # h of the runs over gamma

PULL = 1.0                 # g, the component of gravity down a slope
TURNING = 1.0              # omega of the skate

RIM, RADIUS, HUB_MASS, RIM_MASS = 6, 1.0, 3.0, 1.0
LOAD = np.sqrt(3)          # the component of gravity towards a slope of 30 degrees; gravity is 2


@dataclass
class Problem:
    """Masses, what constrains them, and their exact motion from t = -STEP/2 on."""
    system: mm.System
    constrain: Callable[[SpookIntegrator], Any]
    motion: Callable[[float], tuple[np.ndarray, np.ndarray]]  # positions and velocities, (particles, 3)
    forces: Callable[[float], Sequence[float]]          # the multipliers of the constraints on velocities
    weights: np.ndarray                                 # of the particles in the vector that is compared

    def path(self, times: np.ndarray) -> np.ndarray:
        """The compared vector."""
        return np.array([self.weights @ self.motion(time)[0] for time in times])


def exact_motion(held: Callable, held_force: Callable, slip: Callable, acceleration: Callable,
                 gamma: float) -> tuple[Callable[[float], np.ndarray], Callable[[float], float]]:
    """Coordinates with their rates, and the force of the constraint, over time: as held, or with gamma in friction.

    slip(time, state) is the velocity against which the friction acts, acceleration(time, state, force) the motion.
    """
    if not gamma:
        return held, held_force

    def rates(time: float, state: np.ndarray) -> np.ndarray:
        return np.append(state[len(state) // 2:], acceleration(time, state, -slip(time, state) / gamma))

    after, before = (solve(rates, held(0), end, TOLERANCE) for end in (DURATION, -STEP / 2))

    def state(time: float) -> np.ndarray:
        return after(time) if time >= 0 else before(time)

    return state, lambda time: -slip(time, state(time)) / gamma


def in_space(points: np.ndarray) -> np.ndarray:
    """From complex numbers x + iy."""
    return np.stack((np.real(points), np.imag(points), np.zeros(len(points))), axis=-1)


def weighed_system(masses: np.ndarray, gravity: tuple[float, float]) -> mm.System:
    system = mm.System()
    weight = mm.CustomExternalForce(f"-m*({gravity[0]}*x+({gravity[1]})*y)")
    weight.addPerParticleParameter("m")
    for mass in masses:
        weight.addParticle(system.addParticle(mass), [mass])
    system.addForce(weight)
    return system


def skate(gamma: float = 0) -> Problem:
    """It points down the plane at the start. Its midpoint is x + iy."""
    def rod(time: float) -> complex:
        return np.exp(1j * TURNING * time)

    def sliding(time: float) -> np.ndarray:
        s, c = np.sin(TURNING * time), np.cos(TURNING * time)
        return np.array((PULL / (2 * TURNING ** 2) * (s * s + 1j * (TURNING * time - s * c)),
                         PULL / TURNING * s * rod(time)))

    midpoint, force = exact_motion(
        sliding, lambda time: 4 * PULL * np.sin(TURNING * time),
        lambda time, state: (np.conj(rod(time)) * state[1]).imag,
        lambda time, state, force: PULL + 1j * rod(time) * force / 2, gamma)  # the mass is 2

    def motion(time: float) -> tuple[np.ndarray, np.ndarray]:
        (place, velocity), ends = midpoint(time), np.array((-0.5, 0.5)) * rod(time)
        return in_space(place + ends), in_space(velocity + 1j * TURNING * ends)

    def constrain(integrator: SpookIntegrator):
        integrator.addDistanceConstraint(0, 1, 1)
        integrator.addVelocityConstraint([0, 1], ["-(y2-y1)/2", "(x2-x1)/2", "0"] * 2, "0", gamma)

    return Problem(weighed_system(np.ones(2), (PULL, 0)), constrain, motion, lambda time: [force(time)],
                   np.full(2, 0.5))


def wheel(gamma: float = 0) -> Problem:
    """It rolls, or with gamma slips on the ground; from rest, x down the slope, the ground at y = 0."""
    masses = np.array((HUB_MASS, *(RIM * [RIM_MASS])))
    total, inertia = masses.sum(), RIM * RIM_MASS * RADIUS ** 2
    ratio = inertia / (total * RADIUS ** 2)
    spokes = np.append(0, RADIUS * np.exp(2j * np.pi / RIM * np.arange(RIM)))

    def rolling(time: float) -> np.ndarray:
        """Place and angle, and their rates."""
        return PULL / (1 + ratio) * np.array((time ** 2 / 2, -time ** 2 / 2 / RADIUS, time, -time / RADIUS))

    going, friction = exact_motion(
        rolling, lambda time: -total * PULL * ratio / (1 + ratio), lambda time, state: state[2] + RADIUS * state[3],
        lambda time, state, force: (PULL + force / total, RADIUS * force / inertia), gamma)

    def motion(time: float) -> tuple[np.ndarray, np.ndarray]:
        place, angle, speed, spin = going(time)
        turned = spokes * np.exp(1j * angle)
        return in_space(place + 1j * RADIUS + turned), in_space(speed + 1j * spin * turned)

    def constrain(integrator: SpookIntegrator):
        for i in range(RIM):
            integrator.addDistanceConstraint(0, 1 + i, RADIUS)
            integrator.addDistanceConstraint(1 + i, 1 + (i + 1) % RIM, 2 * RADIUS * np.sin(np.pi / RIM))
        # Of these 2 RIM distances one is redundant. The velocity of the contact is that of the hub and r times the
        # spin, the mean over the rim of (spoke x velocity)/r^2; a velocity common to all spokes drops out of it.
        contact = ["1", "0", "0"] + [text for i in range(2, RIM + 2) for text in (
            f"-(y{i}-y1)/{RIM * RADIUS}", f"(x{i}-x1)/{RIM * RADIUS}", "0")]
        lifting = [text for mass in masses for text in ("0", repr(float(mass / total)), "0")]
        integrator.addVelocityConstraint(list(range(RIM + 1)), contact, "0", gamma)
        integrator.addVelocityConstraint(list(range(RIM + 1)), lifting)

    return Problem(weighed_system(masses, (PULL, -LOAD)), constrain, motion,
                   lambda time: [friction(time), total * LOAD], masses / total)


PROBLEMS: dict[str, Callable[..., Problem]] = {"skate": skate, "wheel": wheel}


@dataclass
class Run:
    positions: np.ndarray  # the compared vector at each frame
    error: float           # the largest distance from the exact vector
    force_error: float     # the largest of a multiplier, after the first frame


def run(problem: Problem, step: float) -> Run:
    """Velocities belong to half a step before the positions; multipliers to the start of the last step.

    The first step turns the velocity of the skate by half of the angle that later ones do, with half of the force.
    """
    integrator = SpookIntegrator(step)
    integrator.setDampingSteps(DAMPING_STEPS)
    problem.constrain(integrator)
    every, count = round(STEP / step), integrator.getNumVelocityConstraints()
    found = simulate(problem.system, integrator, problem.motion(0)[0], every * len(TIMES), every,
                     problem.motion(-step / 2)[1], observe=lambda: integrator.getMultipliers()[-count:])
    positions, forces = problem.weights @ found.positions[1:], [problem.forces(time - step) for time in TIMES]
    return Run(positions, distance(positions, problem.path(TIMES)), np.abs(found.observed - forces)[1:].max())


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest."""
    return np.linalg.norm(a - b, axis=1).max()


def print_errors(title: str, columns: Sequence[str], keys: Sequence[float], errors: np.ndarray, fitted: int):
    """Over the keys, and the slope of their logarithms over the last so many."""
    orders = slope(keys[-fitted:], errors[-fitted:])
    print_table(title, [f"{columns[0]}:g", *(f"{name}:.2g" for name in columns[1:])],
                [*((key, *row) for key, row in zip(keys, errors)), ("slope", *(f"{order:.2f}" for order in orders))])


def print_results(runs: dict[str, dict[float, Run]], steps: list[float]):
    for title, kind in ((f"Largest error of positions up to t = {DURATION:g}; slopes are those of the last "
                         f"{min(FITTED, len(steps))} steps; friction: gamma = {FRICTION:g}", "error"),
                        ("Largest error of the forces, the multipliers", "force_error")):
        print_errors(title, ("h", *runs), steps,
                     np.array([[getattr(found[step], kind) for found in runs.values()] for step in steps]), FITTED)
    lowest, slipped = (runs[name][steps[-1]].positions[:, 0].max() for name in ("skate", "skate, friction"))
    print(f"Lowest point of the skate: {lowest:.3f} (the cycloid's is {PULL / (2 * TURNING ** 2):g}), with friction "
          f"{slipped:.3f} and going on.")


def print_limit():
    columns = []
    for make in each("gamma", PROBLEMS.values()):
        held = run(make(), GAMMA_STEP).positions
        columns.append([distance(run(make(gamma=gamma), GAMMA_STEP).positions, held) for gamma in GAMMAS])
    print_errors(f"Largest distance from the run with a constraint at h = {GAMMA_STEP:g}: friction becomes a "
                 "constraint as gamma -> 0", ("gamma", *PROBLEMS), GAMMAS, np.array(columns).T, len(GAMMAS))


def draw(runs: dict[str, dict[float, Run]], steps: list[float], path: Path):
    with panels(path, 1, 2) as (cycloid, errors):
        cycloid.plot(*PROBLEMS["skate"]().path(np.linspace(0, DURATION, 601)).T[1::-1], color="#9ecae1", linewidth=5,
                     label="exact")
        for name, step, style, label in (("skate", steps[0], ".", f"h = {steps[0]:g}"),
                                         ("skate", steps[-1], "-", f"h = {steps[-1]:g}"),
                                         ("skate, friction", steps[-1], "--", f"gamma = {FRICTION:g}")):
            cycloid.plot(*runs[name][step].positions.T[1::-1], style, linewidth=1.2, label=label)
        cycloid.invert_yaxis()
        cycloid.set(title="Skate on an inclined plane", xlabel="y (across the slope)", ylabel="x (down the slope)")
        for name, by_step in runs.items():
            errors.loglog(steps, [found.error for found in by_step.values()], "o-" if name in PROBLEMS else "o--",
                          markersize=4, linewidth=1, label=name)
        draw_slope(errors, steps, 10, 1)
        draw_slope(errors, steps, 0.02, 2)
        errors.set(title="Largest error of positions", xlabel="h", ylabel="error", ylim=(steps[-1] ** 2 * 1e-4, 3))


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--halvings", type=number(int, 1, most=8), default=5, metavar="N",
                        help=f"how often the largest step, {STEP:g}, is halved (default: %(default)s)")
    options = parse(parser)
    steps = [STEP / 2 ** i for i in range(options.halvings + 1)]
    problems = {name: make() for name, make in PROBLEMS.items()}
    problems |= {f"{name}, friction": make(gamma=FRICTION) for name, make in PROBLEMS.items()}
    runs = {name: {step: run(problems[name], step) for step in steps} for name in each("steps", problems)}
    print_results(runs, steps)
    print_limit()
    draw(runs, steps, options.figure)


if __name__ == "__main__":
    run_program(main)
