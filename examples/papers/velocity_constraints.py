#!/usr/bin/env python
"""A constraint on velocities: a skate on an inclined plane, against its exact motion.

SpookIntegrator takes constraints A(x, t) v = w(t). The skate is two masses of 1 at a distance of 1, in consistent units
(nm, ps, daltons). Their midpoint moves along the rod only, which no constraint on positions can say. The rod turns at a
constant rate omega, and from rest on a plane with the pull g along x the midpoint goes along a cycloid,

    x = g/(2 omega^2) sin^2(omega t),   y = g/(2 omega^2) (omega t - 1/2 sin(2 omega t)):

it never gets lower than x = g/(2 omega^2), but travels across the slope for ever. The force from the side is
4 g sin(omega t).

Printed are the largest errors of the midpoint and of the multiplier over steps h that are halved, and their slopes.
They are of first order: a step takes the direction of the rod at its start for the velocity in its middle.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmmstiff import SpookIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, each, number, run_program  # noqa: E402
from common.papers import draw_slope, panels, parse, print_table, simulate, slope  # noqa: E402

DURATION, STEP = 6.0, 0.1  # the largest step, and the time from one frame to the next
TIMES = STEP * np.arange(1, round(DURATION / STEP) + 1)  # of frames
FITTED = 3                 # slopes in h are those of the smallest steps, so many
DAMPING_STEPS = 2          # of the distance, as in the paper; the time is in proportion to the step
PULL = 1.0                 # g, the component of gravity down the slope
TURNING = 1.0              # omega


def midpoint(time: float | np.ndarray) -> np.ndarray:
    """x + iy"""
    s, c = np.sin(TURNING * time), np.cos(TURNING * time)
    return PULL / (2 * TURNING ** 2) * (s * s + 1j * (TURNING * time - s * c))


def exact_motion(time: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities of both masses. The skate points down the plane at the start."""
    rod = np.exp(1j * TURNING * time)
    ends = np.array((-0.5, 0.5)) * rod
    speed = PULL / TURNING * np.sin(TURNING * time) * rod + 1j * TURNING * ends
    positions, velocities = (np.stack((np.real(points), np.imag(points), (0, 0)), axis=-1)
                             for points in (midpoint(time) + ends, speed))
    return positions, velocities


@dataclass
class Run:
    midpoints: np.ndarray  # at each frame, x + iy
    error: float           # of the midpoint, the largest
    force_error: float     # of the multiplier, the largest after the first frame


def run(step: float) -> Run:
    """Velocities belong to half a step before the positions; multipliers to the start of the last step.

    The first step turns the velocity of the skate by half of the angle that later ones do, with half of the force.
    """
    system, weight = mm.System(), mm.CustomExternalForce(f"-{PULL}*x")
    for _ in range(2):
        weight.addParticle(system.addParticle(1))
    system.addForce(weight)
    integrator = SpookIntegrator(step)
    integrator.setDampingSteps(DAMPING_STEPS)
    integrator.addDistanceConstraint(0, 1, 1)
    integrator.addVelocityConstraint([0, 1], ["-(y2-y1)/2", "(x2-x1)/2", "0"] * 2)
    every = round(STEP / step)
    found = simulate(system, integrator, exact_motion(0)[0], every * len(TIMES), every, exact_motion(-step / 2)[1],
                     observe=lambda: integrator.getMultipliers()[-1])
    places = found.positions[1:].mean(axis=1) @ (1, 1j, 0)
    forces = 4 * PULL * np.sin(TURNING * (TIMES - step))
    return Run(places, np.abs(places - midpoint(TIMES)).max(), np.abs(found.observed - forces)[1:].max())


def print_results(runs: dict[float, Run]):
    errors = [(found.error, found.force_error) for found in runs.values()]
    orders = slope(list(runs)[-FITTED:], errors[-FITTED:])
    print_table(f"Largest errors up to t = {DURATION:g}; slopes are those of the last {min(FITTED, len(runs))} steps",
                "h:g|midpoint:.2g|multiplier:.2g", [*((step, *row) for step, row in zip(runs, errors)),
                                                    ("slope", *(f"{order:.2f}" for order in orders))])
    lowest = np.real(runs[min(runs)].midpoints).max()
    print(f"Lowest point of the skate: {lowest:.3f} (the cycloid's is {PULL / (2 * TURNING ** 2):g}).")


def draw(runs: dict[float, Run], path: Path):
    with panels(path, 1, 2) as (cycloid, errors):
        exact = midpoint(np.linspace(0, DURATION, 601))
        cycloid.plot(np.imag(exact), np.real(exact), color="#9ecae1", linewidth=5, label="exact")
        for step, style in ((max(runs), "."), (min(runs), "-")):
            shown = runs[step].midpoints
            cycloid.plot(np.imag(shown), np.real(shown), style, linewidth=1.2, label=f"h = {step:g}")
        cycloid.invert_yaxis()
        cycloid.set(title="Skate on an inclined plane", xlabel="y (across the slope)", ylabel="x (down the slope)")
        errors.loglog(list(runs), [found.error for found in runs.values()], "o-")
        draw_slope(errors, list(runs), 10, 1)
        errors.set(title="Largest error of the midpoint", xlabel="h", ylabel="error")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--halvings", type=number(int, 1, most=8), default=5, metavar="N",
                        help=f"how often the largest step, {STEP:g}, is halved (default: %(default)s)")
    options = parse(parser)
    runs = {step: run(step) for step in each("steps", [STEP / 2 ** i for i in range(options.halvings + 1)])}
    print_results(runs)
    draw(runs, options.figure)


if __name__ == "__main__":
    run_program(main)
