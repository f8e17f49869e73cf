#!/usr/bin/env python
"""A ladder of rigid rods that falls, pinned at a corner: SPOOK on the test problem of Lacoursiere (2007, section 6).

In two dimensions rod j is its centre x_j, of mass 10, and its direction u_j, |u_j| = 1, of mass 10/12; its tail is at
x_j - u_j/2, its head at x_j + u_j/2. Rods 1 and 2 start at the origin. The tail of rod j is at the head of rod j - 3
if j mod 3 = 2, of rod j - 2 otherwise, and rod 3k ends where rod 3k + 1 does. N links have 3N + 1 rods: a rail of N
from the origin, another beside it, and N + 1 rungs. Gravity is 9.8. The ladder starts at rest, its rails level, the
one from the pin above the other; which is which, the paper's text does not say. For OpenMM a centre and a direction
are a particle each, whose z stays 0, and a joint is two linear constraints.

Compliance 1e-8, damping of two steps (theta = tau/h = 2), h = 1/60 unless another is given. Printed and drawn are

- configurations of a ladder of 20 (the paper's figure 3);
- the energy, 1 at the start and 0 for a ladder that hangs at rest, and the violations of the constraints, their root
  mean square, over time (figures 4 and 5). The farthest point is a head's distance from the origin, in units of N + 1:
  no rigid ladder reaches beyond 1;
- violations against h (figure 6), averaged over a time at the beginning in which the motion is not chaotic yet. Those
  of joints, which are linear, come from the compliance alone, epsilon times the force. Those of unit lengths are
  (h^2/4 + h tau/2) |u'|^2 = 1.25 h^2 |u'|^2 in a steady motion; "theory" has this for them and 0 for the others. The
  compliance ends the second order at small h, so that one of 1e-12 is given beside the paper's;
- time of a step against N (figure 7), without the first one, with its slope in logarithms;
- larger steps. No step is refused, and the energy stays below its start: what fails is that rods stretch. A step is
  said to hold the ladder if no head gets a quarter beyond the reach; the paper's largest stable step was h = 1/20 for
  N = 20. Longer ladders fall faster and need smaller steps: one of 300 is stretched by 41 % at h = 1/60 (--links 300
  --time 40), by 3 % at 1/120.
"""
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from matplotlib import pyplot
from matplotlib.axes import Axes
from openmm import unit
from openmmstiff import SpookIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, each, number, run_program  # noqa: E402
from common.papers import draw_slope, make_context, panels, parse, print_table, simulate, slope  # noqa: E402

MASS, GRAVITY = 10.0, 9.8
DIRECTION_MASS = MASS / 12                        # of rods of length 1
STEP = 1 / 60
COMPLIANCE, SMALL_COMPLIANCE = 1e-8, 1e-12
DAMPING_STEPS = 2                                 # theta
PICTURE_LINKS, PICTURE_TIMES = 20, np.arange(0, 3.6, 0.5)
ORDER_LINKS, ORDER_TIME, ORDER_STEPS = 10, 2.0, (1 / 60, 1 / 120, 1 / 240, 1 / 480, 1 / 960)
LARGE_LINKS, LARGE_STEPS, STRETCHED = 20, (1 / 60, 1 / 40, 1 / 30, 1 / 20, 1 / 15, 1 / 10), 1.25
SIZES, SMALLEST = 7, 10                           # of ladders whose steps are timed
FEW_STEPS, MANY_STEPS, ENOUGH_SECONDS = 5, 200, 1.0  # of which the median is taken
PLATFORM = "CPU"

# Constraints, in the centre and direction of one rod or of two; the texts are shared by all rods.
UNIT_LENGTH = "sqrt(x1^2+y1^2)-1"
TAIL_AT_ORIGIN, TAIL_AT_HEAD, HEAD_AT_HEAD = (
    [text.replace("x", axis) for axis in "xy"] for text in ("x1-0.5*x2", "x1-0.5*x2-x3-0.5*x4", "x1+0.5*x2-x3-0.5*x4"))


def count_rods(links: int) -> int:
    return 3 * links + 1


def of(*rods: int) -> list[int]:
    """The particles of these rods, which count from 1: centre and direction of each."""
    return [2 * (rod - 1) + part for rod in rods for part in (0, 1)]


def level_ladder(links: int) -> np.ndarray:
    """Positions of particles: rods 2, 5, ... are the rail from the origin, 3, 6, ... the other, 1, 4, ... rungs."""
    positions = np.zeros((2 * count_rods(links), 3))
    for rod in range(1, count_rods(links) + 1):
        if rod % 3 == 1:
            centre, direction = ((rod - 1) / 3, -0.5, 0), (0, -1, 0)
        else:
            centre, direction = (rod // 3 + (0.5 if rod % 3 == 2 else -0.5), -1 if rod % 3 == 0 else 0, 0), (1, 0, 0)
        positions[of(rod)] = np.array((centre, direction))
    return positions


def ladder_system(links: int) -> mm.System:
    system, gravity = mm.System(), mm.CustomExternalForce(f"{MASS * GRAVITY}*y")
    for _ in range(count_rods(links)):
        gravity.addParticle(system.addParticle(MASS))
        system.addParticle(DIRECTION_MASS)
    system.addForce(gravity)
    return system


def ladder_integrator(links: int, step: float, compliance: float = COMPLIANCE) -> SpookIntegrator:
    """With all constraints of the ladder."""
    integrator = SpookIntegrator(step)
    integrator.setCompliance(compliance)
    integrator.setDampingSteps(DAMPING_STEPS)
    joints = [(TAIL_AT_ORIGIN, of(rod)) for rod in (1, 2)]
    for rod in range(1, count_rods(links) + 1):
        integrator.addHolonomicConstraint([of(rod)[1]], UNIT_LENGTH)
        if rod > 2:
            joints.append((TAIL_AT_HEAD, of(rod, rod - 3 if rod % 3 == 2 else rod - 2)))
        if rod % 3 == 0:
            joints.append((HEAD_AT_HEAD, of(rod, rod + 1)))
    for texts, particles in joints:
        for text in texts:
            integrator.addHolonomicConstraint(particles, text)
    return integrator


def heads(positions: np.ndarray) -> np.ndarray:
    """Of all rods, (frames, rods, 2)."""
    return positions[:, 0::2, :2] + positions[:, 1::2, :2] / 2


# Falls

@dataclass
class Fall:
    links: int
    step: float
    milliseconds: float       # of a step, without what is looked at after it
    times: np.ndarray         # after each step
    energies: np.ndarray      # 1 at the start, 0 for a ladder that hangs at rest
    violations: np.ndarray    # root mean square over the constraints
    theory: np.ndarray        # the same of 1.25 h^2 |u'|^2 for unit lengths, 0 for joints
    farthest: np.ndarray      # distance of a head from the origin, over N + 1
    largest: float            # violation of any constraint at any time
    heads: np.ndarray         # at the start and after each step

    @property
    def label(self) -> str:
        return f"1/{1 / self.step:.0f}"

    @property
    def holds(self) -> bool:
        """Not so if anything is infinite or not a number."""
        return bool(np.all(self.farthest < STRETCHED))


def fall(links: int, time: float, step: float = STEP, compliance: float = COMPLIANCE) -> Fall:
    start, integrator = level_ladder(links), ladder_integrator(links, step, compliance)
    found = simulate(ladder_system(links), integrator, start, max(1, round(time / step)),
                     observe=integrator.computeViolations, platform=PLATFORM)
    level = MASS * GRAVITY * start[0::2, 1].sum()
    hanging = -MASS * GRAVITY * (links * (links + 1) + (links + 1) ** 2 / 2)  # of the rails, of the rungs
    tau = integrator.getDamping().value_in_unit(unit.picosecond)
    expected = (step ** 2 / 4 + step * tau / 2) * np.sum(found.velocities[1:, 1::2] ** 2, axis=2)
    violations, ends = found.observed, heads(found.positions)
    return Fall(links, step, 1000 * found.seconds / len(violations), found.times[1:],
                (found.energies[1:] - hanging) / (level - hanging), np.sqrt(np.mean(violations ** 2, axis=1)),
                np.sqrt(np.sum(expected ** 2, axis=1) / violations.shape[1]),
                np.linalg.norm(ends[1:], axis=2).max(axis=1) / (links + 1), np.abs(violations).max(), ends)


def fall_all(numbers: Iterable[int], time: float) -> list[Fall]:
    falls = [fall(links, time) for links in each("falls", list(numbers))]
    print_table(f"h = {falls[0].label} up to t = {falls[0].times[-1]:.4g}: energy, 1 at the start and 0 for a ladder "
                "that hangs at rest; violation, root mean square\nover the constraints, and the largest of any; the "
                "farthest point, of a reach of N + 1",
                "links|highest E:.4f|at end:.3f|mean rms:.1e|largest rms:.1e|any:.1e|farthest:.3f|ms/step:.2f",
                [(found.links, found.energies.max(), found.energies[-1], found.violations.mean(),
                  found.violations.max(), found.largest, found.farthest.max(), found.milliseconds) for found in falls])
    return falls


def study_order(time: float) -> dict[float, np.ndarray]:
    """Violations and what they should be, (2, steps), for each compliance."""
    found = {compliance: np.array([[values.mean() for values in (run.violations, run.theory)] for run in (
        fall(ORDER_LINKS, time, step, compliance) for step in each("order", ORDER_STEPS))]).T
        for compliance in (COMPLIANCE, SMALL_COMPLIANCE)}
    columns = np.vstack(list(found.values()))
    print_table(f"Violation (root mean square, average up to t = {time:g}) against h, {ORDER_LINKS} links",
                ["", *(name for value in found for name in (f"compliance {value:g}:.2e", "theory:.2e"))],
                [*((f"1/{1 / step:.0f}", *row) for step, row in zip(ORDER_STEPS, columns.T)),
                 ("slope", *(f"{order:.2f}" for order in slope(ORDER_STEPS, columns.T)))])
    return found


def study_large_steps(time: float) -> list[Fall]:
    falls = [fall(LARGE_LINKS, time, step) for step in each("large steps", LARGE_STEPS)]
    print_table(f"How large a step? {LARGE_LINKS} links up to t = {falls[0].times[-1]:.4g}; it holds the ladder if the "
                f"farthest point stays below {STRETCHED:g}",
                "h|highest E:.4f|E at end:.3f|mean viol.:.1e|any:.2f|farthest:.3f|holds",
                [(found.label, found.energies.max(), found.energies[-1], found.violations.mean(), found.largest,
                  found.farthest.max(), "yes" if found.holds else "no") for found in falls])
    held = [found for found in falls if found.holds]
    print(f"Largest of them that holds: {held[-1].label if held else 'none'}; the paper's: 1/20")
    return falls


# Time of a step

def time_steps(links: int) -> float:
    """Milliseconds of a step, the median, after the first one."""
    context = make_context(ladder_system(links), ladder_integrator(links, STEP), level_ladder(links), platform=PLATFORM)
    integrator = context.getIntegrator()
    integrator.step(1)
    seconds: list[float] = []
    while len(seconds) < FEW_STEPS or (len(seconds) < MANY_STEPS and sum(seconds) < ENOUGH_SECONDS):
        begin = perf_counter()
        integrator.step(1)
        seconds.append(perf_counter() - begin)
    return 1e3 * float(np.median(seconds))


def study_cost(largest: int) -> dict[int, float]:
    """Milliseconds of a step by the number of links."""
    sizes = [int(size) for size in np.unique(np.round(np.geomspace(SMALLEST, largest, SIZES)))]
    found = {size: time_steps(size) for size in each("timing", sizes)}
    print_table("Time of a step", "links|ms/step:.3f", list(found.items()))
    upper = sizes[len(sizes) // 2:]
    print(f"Slope in logarithms from {upper[0]} links on: {slope(upper, [found[size] for size in upper]):.2f}")
    return found


# Figure

def draw_ladder(panel: Axes, ends: np.ndarray, label: str, color):
    """Rod by rod, from the head of the rod at its tail, or from the origin, to its own head."""
    rods = np.arange(1, len(ends) + 1)
    before = np.where(rods <= 2, 0, np.where(rods % 3 == 2, rods - 3, rods - 2))
    tails = np.vstack((np.zeros((1, 2)), ends))[before]
    gaps = np.full_like(ends, np.nan)
    panel.plot(*np.stack((tails, ends, gaps), axis=1).reshape(-1, 2).T, color=color, linewidth=1, label=label)


def draw(falls: list[Fall], orders: dict[float, np.ndarray], costs: dict[int, float], large: list[Fall],
         picture: Fall, path: Path):
    with panels(path, 2, 3) as (shapes, energy, violation, order, cost, steps):
        frames = [round(at / STEP) for at in PICTURE_TIMES if round(at / STEP) < len(picture.heads)]
        colors = pyplot.get_cmap("viridis")(np.linspace(0, 0.95, len(frames)))
        for color, at, frame in zip(colors, PICTURE_TIMES, frames):
            draw_ladder(shapes, picture.heads[frame], f"{at:g}", color)
        shapes.plot(0, 0, "ko", markersize=4)
        shapes.set_aspect("equal", adjustable="datalim")
        shapes.legend(title="t", frameon=False, fontsize="small")
        for found in falls:
            energy.plot(found.times, found.energies, linewidth=1, label=f"N = {found.links}")
            violation.semilogy(found.times, found.violations, linewidth=0.8, label=f"N = {found.links}")
        for (compliance, (violations, theory)), marker, color in zip(orders.items(), "os", ("#1f77b4", "#d62728")):
            order.loglog(ORDER_STEPS, violations, marker, color=color, label=f"compliance {compliance:g}")
            order.loglog(ORDER_STEPS, theory, "-", color=color, linewidth=0.8, label="1.25 h² |u'|²")
        sizes = list(costs)
        cost.loglog(sizes, list(costs.values()), "o-", label="median")
        draw_slope(cost, sizes, costs[sizes[-1]] / sizes[-1], 1)
        for found in large:
            style, remark = ("-", "") if found.holds else (":", ", rods stretch")
            steps.plot(found.times, found.energies, style, linewidth=1, label=found.label + remark)
        shapes.set(title=f"The ladder, N = {picture.links}", xlabel="x", ylabel="y")
        energy.set(title=f"Energy, h = {picture.label}", xlabel="time", ylabel="1: start, 0: hanging at rest")
        violation.set(title=f"Violation, h = {picture.label}", xlabel="time", ylabel="root mean square")
        order.set(title=f"Mean violation over the step, N = {ORDER_LINKS}", xlabel="h",
                  ylabel="root mean square, average")
        cost.set(title="Time of a step", xlabel="links N", ylabel="ms")
        steps.set(title=f"Energy at larger steps, N = {LARGE_LINKS}", xlabel="time",
                  ylabel="1: start, 0: hanging at rest")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--links", type=number(int, 1), nargs="+", default=[10, 100], metavar="N",
                        help="numbers of links of the runs (default: 10 100)")
    parser.add_argument("--largest", type=number(int, 2 * SMALLEST), default=10000, metavar="N",
                        help="links of the largest ladder whose steps are timed (default: %(default)s)")
    options = parse(parser, time=10.0, least=0.1)
    draw(fall_all(options.links, options.time), study_order(min(ORDER_TIME, options.time)),
         study_cost(options.largest), study_large_steps(options.time),
         fall(PICTURE_LINKS, min(options.time, max(PICTURE_TIMES))), options.figure)


if __name__ == "__main__":
    run_program(main)
