#!/usr/bin/env python
"""Constraints on velocities: a skate, groups pulled apart, and a rolling wheel, against their exact motions.

SpookIntegrator takes constraints A(x, t) v = w(t). Three problems, in consistent units (nm, ps, daltons):

- A skate on an inclined plane: two masses of 1 at a distance of 1. Their midpoint moves along the rod only, which
  no constraint on positions can say. The rod turns at a constant rate omega, and from rest on a plane with the pull
  g along x the midpoint goes along a cycloid,

      x = g/(2 omega^2) sin^2(omega t),   y = g/(2 omega^2) (omega t - 1/2 sin(2 omega t)):

  it never gets lower than x = g/(2 omega^2), but travels across the slope for ever. The force from the side is
  4 g sin(omega t). Without gravity it goes round a circle, with 2 s omega at the speed s.
- Two groups of masses, each held together by springs and vibrating, are pulled apart along x: the distance d of
  their centres of mass has the prescribed rate w(t) = v + a sin(Omega t). A spring of force constant k is between
  the centres. The multiplier of the constraint is the pulling force, k (d - d0) + mu d'', mu the reduced mass.
- A wheel, a hub and a rim of masses on rigid spokes, rolls down a slope without slipping. One constraint is that the
  point of contact is at rest, another that the centre stays above the ground. With the moment of inertia I, mass M
  and radius r, the acceleration is g/(1 + I/(M r^2)), and the multipliers are friction and the load of the ground.

Each is also run with a large compliance gamma, by which the constraint becomes a friction, A v = w - gamma force: the
skate slips down the plane, the pulled groups lag, the wheel slips. That is another motion, known too, from ordinary
differential equations. The smaller gamma is, the closer is it to the constrained one.

Printed are the largest errors of positions (of the midpoint, the distance, the centre of the wheel) and of the
multipliers over steps h that are halved, and their slopes. What to expect:

- The skate is of first order. A step takes the direction of the rod at its start for the velocity in its middle,
  and projects the velocity from the direction before on this one: a factor cos(omega h) for the speed. So the free
  skate slows down at the rate omega^2 h/2.
- The pulling is of second order, because w is taken at the middle of the step.
- The wheel is of second order: in motion its spokes are longer by O(h^2), less with a shorter damping time than the
  paper's two steps, which is taken here. But for that, its acceleration would be exact.
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
from common.options import OptionParser, number, run_program  # noqa: E402
from common.papers import draw_slope, each, panels, parse, print_table, simulate, slope, solve  # noqa: E402

DURATION, STEP = 6.0, 0.1  # the largest step, and the time from one frame to the next
TIMES = STEP * np.arange(1, round(DURATION / STEP) + 1)  # of frames
FITTED = 3                 # slopes in h are those of the smallest steps, so many
DAMPING_STEPS = 2          # of holonomic constraints, as in the paper; the time is in proportion to the step
TOLERANCE = 1e-11          # of exact motions that have no formula
FRICTION = 0.2             # gamma where the constraint is to be a friction
GAMMAS = (0.1, 0.03, 0.01, 0.003, 0.001)
GAMMA_STEP = 0.0125        # h of the runs over gamma

PULL = 1.0                 # g, the component of gravity down a slope
TURNING, SPEED = 1.0, 1.0  # omega of the skate, and the speed of the free one

GROUP_MASSES = np.array(((1.0, 2.0, 3.0, 4.0), (5.0, 1.0, 2.0, 1.0)))
GROUP_SHAPE = 0.1 * np.array(((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)))
GROUP_SPRING, GROUP_BOND, VIBRATION = 10.0, 0.3, 0.2  # springs within groups; the size of velocities at the start
CENTRE_SPRING, CENTRE_DISTANCE = 2.0, 1.0             # k and d0
RATE, SWING, OMEGA = 0.1, 0.3, 2.0                    # v, a and Omega

RIM, RADIUS, HUB_MASS, RIM_MASS = 6, 1.0, 3.0, 1.0
LOAD = np.sqrt(3)          # the component of gravity towards a slope of 30 degrees; gravity is 2


@dataclass
class Problem:
    """Masses, what constrains them, and their exact motion from t = -STEP/2 on."""
    system: mm.System
    constrain: Callable[[SpookIntegrator], None]
    motion: Callable[[float], tuple[np.ndarray, np.ndarray]]  # positions and velocities, (particles, 3)
    forces: Callable[[float], Sequence[float]]          # the multipliers of the constraints on velocities
    weights: np.ndarray                                 # of the particles in the vector that is compared

    def path(self, times: np.ndarray) -> np.ndarray:
        """The compared vector."""
        return np.array([self.weights @ self.motion(time)[0] for time in times])


@dataclass
class Run:
    positions: np.ndarray    # the compared vector at each frame
    multipliers: np.ndarray  # of the last step before each, (frames, constraints)
    error: float             # the largest distance from the exact vector
    force_error: float       # the largest of a multiplier, after the first frame
    speed: float             # with which the compared vector moves at the end


def turned(vector: np.ndarray) -> np.ndarray:
    """By a right angle, in the plane."""
    return np.array((-vector[1], vector[0]))


def in_space(vectors: np.ndarray) -> np.ndarray:
    return np.pad(vectors, ((0, 0), (0, 1)))


def slipping_motion(rates: Callable[[float, np.ndarray], np.ndarray], start: Sequence[float]):
    """The solution of an ordinary differential equation from half of the largest step before the start."""
    after, before = (solve(rates, start, end, TOLERANCE) for end in (DURATION, -STEP / 2))
    return lambda time: after(time) if time >= 0 else before(time)


def weighed_system(masses: np.ndarray, gravity: tuple[float, float]) -> mm.System:
    system = mm.System()
    weight = mm.CustomExternalForce(f"-m*({gravity[0]}*x+({gravity[1]})*y)")
    weight.addPerParticleParameter("m")
    for mass in masses:
        weight.addParticle(system.addParticle(mass), [mass])
    system.addForce(weight)
    return system


# The skate

def skate(gravity: float, speed: float, gamma: float = 0) -> Problem:
    """It points down the plane at the start; gamma = 0 is the integrator's, that of a constraint."""

    def sliding(time: float) -> np.ndarray:
        """Position and velocity of the midpoint."""
        s, c = np.sin(TURNING * time), np.cos(TURNING * time)
        position = gravity / (2 * TURNING ** 2) * np.array((s * s, TURNING * time - s * c)) \
            + speed / TURNING * np.array((s, 1 - c))
        return np.concatenate((position, (gravity / TURNING * s + speed) * np.array((c, s))))

    def direction(time: float) -> np.ndarray:
        return np.array((np.cos(TURNING * time), np.sin(TURNING * time)))

    def slipping(time: float, state: np.ndarray) -> np.ndarray:
        sideways = turned(direction(time))
        acceleration = np.array((gravity, 0)) - sideways * (sideways @ state[2:]) / (2 * gamma)  # the mass is 2
        return np.concatenate((state[2:], acceleration))

    midpoint = slipping_motion(slipping, (0, 0, speed, 0)) if gamma else sliding

    def motion(time: float) -> tuple[np.ndarray, np.ndarray]:
        state, rod = midpoint(time), direction(time) / 2
        return (in_space(state[:2] + np.outer((-1, 1), rod)),
                in_space(state[2:] + np.outer((-1, 1), TURNING * turned(rod))))

    def forces(time: float) -> list[float]:
        if gamma:
            return [float(-turned(direction(time)) @ midpoint(time)[2:] / gamma)]
        return [4 * gravity * np.sin(TURNING * time) + 2 * speed * TURNING]

    def constrain(integrator: SpookIntegrator):
        integrator.addDistanceConstraint(0, 1, 1)
        integrator.addVelocityConstraint([0, 1], ["-(y2-y1)/2", "(x2-x1)/2", "0"] * 2, "0", gamma)

    return Problem(weighed_system(np.ones(2), (gravity, 0)), constrain, motion, forces, np.full(2, 0.5))


# Groups that are pulled apart

def group_system() -> mm.System:
    system = mm.System()
    springs = mm.HarmonicBondForce()
    between = mm.CustomCentroidBondForce(2, "k/2*(distance(g1,g2)-d0)^2")  # of centres of mass
    between.addGlobalParameter("k", CENTRE_SPRING)
    between.addGlobalParameter("d0", CENTRE_DISTANCE)
    for masses in GROUP_MASSES:
        members = [system.addParticle(mass) for mass in masses]
        between.addGroup(members)
        for i in members:
            for j in range(members[0], i):
                springs.addBond(j, i, GROUP_BOND, GROUP_SPRING)
    between.addBond([0, 1])
    system.addForce(springs)
    system.addForce(between)
    return system


def pulled_groups(gamma: float = 0) -> Problem:
    """Pulled exactly, or with gamma by a dashpot between the centres and what moves at the rate w."""
    totals = GROUP_MASSES.sum(axis=1)
    reduced = 1 / np.sum(1 / totals)
    shares = GROUP_MASSES / totals[:, None]
    weights = np.concatenate((-shares[0], shares[1]))  # the distance of the centres is weights @ x

    def rate(time: float) -> float:
        return RATE + SWING * np.sin(OMEGA * time)

    def pulled(time: float) -> tuple[float, float]:
        """Distance and its rate."""
        return CENTRE_DISTANCE + RATE * time + SWING / OMEGA * (1 - np.cos(OMEGA * time)), rate(time)

    def lagging(time: float, state: np.ndarray) -> np.ndarray:
        force = (rate(time) - state[1]) / gamma - CENTRE_SPRING * (state[0] - CENTRE_DISTANCE)
        return np.array((state[1], force / reduced))

    distance = slipping_motion(lagging, (CENTRE_DISTANCE, rate(0))) if gamma else pulled
    # In the frame of each group's centre; later on, the springs change these.
    at_rest, vibrating = (np.concatenate([each - share @ each for each, share in zip(vectors, shares)]) for vectors in (
        (GROUP_SHAPE, GROUP_SHAPE), VIBRATION * np.random.default_rng(1).normal(size=(2, *GROUP_SHAPE.shape))))

    def motion(time: float) -> tuple[np.ndarray, np.ndarray]:
        centres = np.repeat(reduced / totals * (-1, 1), len(GROUP_SHAPE))  # where they are at the distance 1
        along = np.outer(centres, (1, 0, 0))
        return at_rest + distance(time)[0] * along, vibrating + distance(time)[1] * along

    def forces(time: float) -> list[float]:
        d, d_rate = distance(time)
        if gamma:
            return [(rate(time) - d_rate) / gamma]
        return [CENTRE_SPRING * (d - CENTRE_DISTANCE) + reduced * SWING * OMEGA * np.cos(OMEGA * time)]

    def constrain(integrator: SpookIntegrator):
        coefficients = [text for weight in weights for text in (repr(float(weight)), "0", "0")]
        integrator.addVelocityConstraint(list(range(len(weights))), coefficients, f"{RATE}+{SWING}*sin({OMEGA}*t)",
                                         gamma)

    return Problem(group_system(), constrain, motion, forces, weights)


# The wheel

def wheel(gamma: float = 0) -> Problem:
    """It rolls, or with gamma slips on the ground; from rest, x down the slope, the ground at y = 0."""
    masses = np.array((HUB_MASS, *(RIM * [RIM_MASS])))
    total, inertia = masses.sum(), RIM * RIM_MASS * RADIUS ** 2
    ratio = inertia / (total * RADIUS ** 2)
    angles = 2 * np.pi / RIM * np.arange(RIM)

    def rolling(time: float) -> np.ndarray:
        """Place and angle, and their rates."""
        acceleration = PULL / (1 + ratio)
        place, speed = acceleration * time ** 2 / 2, acceleration * time
        return np.array((place, -place / RADIUS, speed, -speed / RADIUS))

    def friction(state: np.ndarray) -> float:
        return -(state[2] + RADIUS * state[3]) / gamma

    def slipping(time: float, state: np.ndarray) -> np.ndarray:
        force = friction(state)
        return np.array((*state[2:], PULL + force / total, RADIUS * force / inertia))

    going = slipping_motion(slipping, (0, 0, 0, 0)) if gamma else rolling

    def motion(time: float) -> tuple[np.ndarray, np.ndarray]:
        place, angle, speed, spin = going(time)
        spokes = RADIUS * np.stack((np.cos(angles + angle), np.sin(angles + angle)), axis=1)
        spokes = np.vstack(((0, 0), spokes))
        return in_space((place, RADIUS) + spokes), in_space((speed, 0) + spin * turned(spokes.T).T)

    def forces(time: float) -> list[float]:
        return [friction(going(time)) if gamma else -total * PULL * ratio / (1 + ratio), total * LOAD]

    def constrain(integrator: SpookIntegrator):
        for i in range(RIM):
            integrator.addDistanceConstraint(0, 1 + i, RADIUS)
            integrator.addDistanceConstraint(1 + i, 1 + (i + 1) % RIM, 2 * RADIUS * np.sin(np.pi / RIM))
        # Of these 2 RIM distances one is redundant. The velocity of the contact is that of the hub and r times the
        # spin, the mean over the rim of (spoke x velocity)/r^2; a velocity common to all spokes drops out of it.
        contact, lifting = ["1", "0", "0"], []
        for i in range(2, RIM + 2):
            contact += [f"-(y{i}-y1)/{RIM * RADIUS}", f"(x{i}-x1)/{RIM * RADIUS}", "0"]
        for mass in masses:
            lifting += ["0", repr(float(mass / total)), "0"]
        integrator.addVelocityConstraint(list(range(RIM + 1)), contact, "0", gamma)
        integrator.addVelocityConstraint(list(range(RIM + 1)), lifting)

    return Problem(weighed_system(masses, (PULL, -LOAD)), constrain, motion, forces, masses / total)


CONSTRAINED = {"incline": skate(PULL, 0), "circle": skate(0, SPEED), "pulling": pulled_groups(), "wheel": wheel()}
SOFT: dict[str, Callable[[float], Problem]] = {"incline": lambda gamma: skate(PULL, 0, gamma),
                                               "pulling": pulled_groups, "wheel": wheel}


# Runs and results

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
    return Run(positions, found.observed, largest_distance(positions, problem.path(TIMES)),
               np.abs(found.observed - forces)[1:].max(), float(np.linalg.norm(problem.weights @ found.velocities[-1])))


def largest_distance(a: np.ndarray, b: np.ndarray) -> float:
    return np.linalg.norm(a - b, axis=1).max()


def print_errors(title: str, columns: Sequence[str], rows: dict[float, list[float]], fitted: int):
    """Over the first column, and the slope of their logarithms over the last so many."""
    first, *others = columns
    fit = slope(list(rows)[-fitted:], list(rows.values())[-fitted:])
    print_table(title, [f"{first}:g", *(f"{name}:.2g" for name in others)],
                [*((key, *values) for key, values in rows.items()), ("slope", *(f"{order:.2f}" for order in fit))])


def print_results(runs: dict[str, dict[float, Run]], soft: dict[str, Problem]):
    steps = list(runs["incline"])
    for title, kind in ((f"Largest error of positions up to t = {DURATION:g}; slopes are those of the last "
                         f"{min(FITTED, len(steps))} steps; friction: gamma = {FRICTION:g}", "error"),
                        ("Largest error of the forces, the multipliers", "force_error")):
        print_errors(title, ("h", *runs), {step: [getattr(found[step], kind) for found in runs.values()]
                                           for step in steps}, FITTED)
    print_table(f"Speed of the free skate at t = {DURATION:g}, {SPEED:g} at the start, and with the factor "
                "cos(omega h) a step", "h:g|speed:.4f|expected:.4f",
                [(step, found.speed, SPEED * np.cos(TURNING * step) ** round(DURATION / step))
                 for step, found in runs["circle"].items()])
    rows = []
    for name, problem in soft.items():
        found, slipping, held = runs[f"{name}, friction"][steps[-1]], problem.path(TIMES), CONSTRAINED[name].path(TIMES)
        rows.append((name, found.error, largest_distance(found.positions, held), largest_distance(slipping, held)))
    print_table(f"With gamma = {FRICTION:g}, h = {steps[-1]:g}: largest distance of the run from the exact motion with "
                "friction and from that\nwith a constraint, and of those two from each other",
                "|friction:.2g|constraint:.2g|each other:.2g", rows)
    held, slipping = (runs[name][steps[-1]].positions[:, 0] for name in ("incline", "incline, friction"))
    print(f"Lowest point of the skate on the incline: {held.max():.3f} (the cycloid's is "
          f"{PULL / (2 * TURNING ** 2):g}), with friction {slipping.max():.3f} and going on.")


def print_limit():
    runs = {}
    for name in each("gamma", SOFT):
        held = run(CONSTRAINED[name], GAMMA_STEP).positions
        runs[name] = [largest_distance(run(SOFT[name](gamma), GAMMA_STEP).positions, held) for gamma in GAMMAS]
    print_errors(f"Largest distance from the run with a constraint at h = {GAMMA_STEP:g}: friction becomes a "
                 "constraint as gamma -> 0", ("gamma", *SOFT), dict(zip(GAMMAS, map(list, zip(*runs.values())))),
                 len(GAMMAS))


def draw(runs: dict[str, dict[float, Run]], path: Path):
    steps = list(runs["incline"])
    times = np.linspace(0, DURATION, 601)
    shown = ((steps[0], ".", "#d62728"), (steps[-1], "-", "#08306b"))
    friction: dict[str, Any] = {"color": "#ff7f0e", "linestyle": "--", "label": f"gamma = {FRICTION:g}"}
    with panels(path, 2, 2) as (cycloid, circle, force, errors):
        for panel, name in ((cycloid, "incline"), (circle, "circle")):
            panel.plot(*CONSTRAINED[name].path(times).T[1::-1], color="#9ecae1", linewidth=5, label="exact")
            for step, style, color in shown:
                panel.plot(*runs[name][step].positions.T[1::-1], style, color=color, linewidth=1.2,
                           label=f"h = {step:g}")
        cycloid.plot(*runs["incline, friction"][steps[-1]].positions.T[1::-1], **friction)
        cycloid.invert_yaxis()
        cycloid.set(title="Skate on an inclined plane", xlabel="y (across the slope)", ylabel="x (down the slope)")
        circle.set(title="Free skate", xlabel="y", ylabel="x", aspect="equal")

        force.plot(times, [CONSTRAINED["pulling"].forces(time) for time in times], color="#9ecae1", linewidth=5,
                   label="exact")
        for step, style, color in shown:
            force.plot(TIMES - step, runs["pulling"][step].multipliers, style, color=color, linewidth=1.2,
                       label=f"h = {step:g}")
        force.plot(TIMES - steps[-1], runs["pulling, friction"][steps[-1]].multipliers, **friction)
        force.set(title="Force that pulls the groups apart", xlabel="time", ylabel="force", ylim=(-2.5, 6))

        colors = {"incline": "#08306b", "circle": "#d62728", "pulling": "#2ca02c", "wheel": "#9467bd"}
        for name, by_step in runs.items():
            errors.loglog(steps, [found.error for found in by_step.values()], "o-" if name in colors else "o--",
                          color=colors[name.split(",")[0]], markersize=4, linewidth=1, label=name)
        draw_slope(errors, steps, 10, 1)
        draw_slope(errors, steps, 0.02, 2)
        errors.set(title="Largest error of positions", xlabel="h", ylabel="error", ylim=(steps[-1] ** 2 * 1e-4, 3))
        errors.legend(frameon=False, fontsize="small", ncols=2)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--halvings", type=number(int, 1, most=8), default=5, metavar="N",
                        help=f"how often the largest step, {STEP:g}, is halved (default: %(default)s)")
    options = parse(parser)
    steps = [STEP / 2 ** i for i in range(options.halvings + 1)]
    soft = {name: make(FRICTION) for name, make in SOFT.items()}
    problems = {**CONSTRAINED, **{f"{name}, friction": problem for name, problem in soft.items()}}
    runs = {name: {step: run(problems[name], step) for step in steps} for name in each("steps", problems)}
    print_results(runs, soft)
    print_limit()
    draw(runs, options.figure)


if __name__ == "__main__":
    run_program(main)
