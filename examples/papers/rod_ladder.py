#!/usr/bin/env python
"""A ladder of rigid rods that falls, pinned at a corner: SPOOK on the test problem of Lacoursiere (2007, section 6).

In two dimensions rod j is its centre x_j, of mass 10, and its direction u_j, |u_j| = 1, of mass 10/12; its tail is at
x_j - u_j/2, its head at x_j + u_j/2. Rods 1 and 2 start at the origin. The tail of rod j is at the head of rod j - 3
if j mod 3 = 2, of rod j - 2 otherwise, and rod 3k ends where rod 3k + 1 does. N links have 3N + 1 rods: a rail of N
from the origin, another beside it, and N + 1 rungs. Gravity is 9.8. The ladder starts at rest, its rails level, the
one from the pin above the other; which is which, the paper's text does not say. Velocities belong to half a step
before, so that at large steps the energy starts visibly above that of rest. For OpenMM a centre and a direction
are a particle each, whose z stays 0, and a joint is two linear constraints. The numbers are the paper's, and consistent
units: 1 stands for nm, ps and dalton.

Compliance 1e-8, damping of two steps (theta = tau/h = 2), h = 1/60 unless another is given. Printed and drawn are

- configurations of a ladder of 20 (the paper's figure 3);
- the energy, 1 at the start and 0 for a ladder that hangs at rest, and the violations of the constraints, their root
  mean square, over time (figures 4 and 5). The farthest point is a head's distance from the origin, in units of N + 1:
  no rigid ladder reaches beyond 1;
- violations against h (figure 6), averaged over a time at the beginning in which the motion is not chaotic yet. Those
  of joints, which are linear, come from the compliance alone, epsilon times the force. Those of unit lengths are
  (h^2/4 + h tau/2) |u'|^2 = 1.25 h^2 |u'|^2 in a steady motion; "theory" has this for them and 0 for the others. The
  compliance ends the second order at small h, so that one of 1e-12 is given beside the paper's;
- time of a step against N (figure 7), with its slope in logarithms; 1 is a cost proportional to N. The set-up, of the
  Context and its first step, is not counted;
- larger steps. The energy stays below its start at all of them, and no step is refused: what fails is that rods
  stretch. A step is said to hold the ladder if no head gets a quarter beyond the reach, an arbitrary limit; the paper's
  largest stable step was h = 1/20 for N = 20. Longer ladders fall faster and need smaller steps: one of 300 is
  stretched by 41 % at h = 1/60 (--links 300 --time 40), by 3 % at 1/120.

Counts: 4 coordinates a rod, 12N + 4; constraints 2 a joint, 8N + 2, and a unit length a rod, 11N + 3 in all. These
are independent as long as no link is flat, and leave N + 1 freedoms: the directions of the rods of one rail, and of the
rungs, which stay parallel. In a flat link, rungs along the rail, they lose a rank: a ladder that hangs at rest lacks N.
With multipliers, N = 20 has 244 + 223 = 467 unknowns. The paper speaks of 427 variables: as many are left without the
two constraints that close each of the 20 loops.
"""
import sys
from collections.abc import Iterable, Sequence
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
from common.options import OptionParser, add_output_option, choice, number, progress_bar, run_program  # noqa: E402

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
        positions[of(rod)] = centre, direction
    return positions


def ladder_system(links: int) -> mm.System:
    system = mm.System()
    gravity = mm.CustomExternalForce(f"{MASS * GRAVITY}*y")
    for rod in range(1, count_rods(links) + 1):
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


def make_context(links: int, integrator: SpookIntegrator, platform: str) -> mm.Context:
    context = mm.Context(ladder_system(links), integrator, mm.Platform.getPlatform(platform))
    context.setPositions(level_ladder(links))
    return context


def heads(positions: np.ndarray) -> np.ndarray:
    """Of all rods, (rods, 2)."""
    return positions[0::2, :2] + positions[1::2, :2] / 2


def energy_scale(links: int) -> tuple[float, float]:
    """The energy of the ladder that hangs at rest, and by how much that of the level one is higher."""
    level = MASS * GRAVITY * level_ladder(links)[0::2, 1].sum()
    hanging = -MASS * GRAVITY * (links * (links + 1) + (links + 1) ** 2 / 2)  # of the rails, of the rungs
    return hanging, level - hanging


@dataclass
class Fall:
    links: int
    step: float
    seconds: float            # of the steps, without what is looked at after each
    times: np.ndarray         # after each step
    energies: np.ndarray      # 1 at the start, 0 for a ladder that hangs at rest
    violations: np.ndarray    # root mean square over the constraints
    theory: np.ndarray        # the same of 1.25 h^2 |u'|^2 for unit lengths, 0 for joints
    farthest: np.ndarray      # distance of a head from the origin, over N + 1
    largest: float            # violation of any constraint at any time
    pictures: dict[float, np.ndarray]  # heads


def fall(links: int, step: float, time: float, platform: str, compliance: float = COMPLIANCE,
         picture_times: Iterable[float] = ()) -> Fall:
    integrator = ladder_integrator(links, step, compliance)
    context = make_context(links, integrator, platform)
    lowest, drop = energy_scale(links)
    tau = integrator.getDamping().value_in_unit(unit.picosecond)
    steps = max(1, round(time / step))
    pictures = {at: round(at / step) for at in picture_times if round(at / step) <= steps}
    seen = {0: heads(level_ladder(links))}
    rows, largest, seconds = [], 0.0, 0.0
    with progress_bar(f"{links} links, h = 1/{1 / step:.0f}", steps) as bar:
        for count in range(1, steps + 1):
            begin = perf_counter()
            integrator.step(1)
            seconds += perf_counter() - begin
            state = context.getState(positions=True, velocities=True, energy=True)
            energy = (state.getPotentialEnergy() + state.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)
            ends = heads(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
            turning = state.getVelocities(asNumpy=True)[1::2].value_in_unit(unit.nanometer / unit.picosecond)
            g = integrator.computeViolations()
            expected = (step ** 2 / 4 + step * tau / 2) * np.sum(turning ** 2, axis=1)
            rows.append((count * step, (energy - lowest) / drop, np.sqrt(np.mean(g ** 2)),
                         np.sqrt(np.sum(expected ** 2) / len(g)), np.linalg.norm(ends, axis=1).max() / (links + 1)))
            largest = max(largest, np.abs(g).max())
            if count in pictures.values():
                seen[count] = ends
            bar.update()
    times, energies, violations, theory, farthest = np.array(rows).T
    return Fall(links, step, seconds, times, energies, violations, theory, farthest, largest,
                {at: seen[k] for at, k in pictures.items()})


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """In logarithms."""
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def print_falls(falls: list[Fall]):
    print(f"h = 1/{1 / STEP:.0f} up to t = {falls[0].times[-1]:.4g}: energy, 1 at the start and 0 for a ladder that "
          f"hangs at rest;\nviolation, root mean square over the constraints, and the largest of any; the farthest "
          f"point, of a reach of N + 1\n")
    columns = "{:>6}{:>10}{:>13}{:>11}{:>9}{:>11}{:>12}{:>10}{:>10}{:>10}"
    print(columns.format("links", "unknowns", "constraints", "highest E", "at end", "mean rms", "largest rms", "any",
                         "farthest", "ms/step"))
    for found in falls:
        rods, constraints = count_rods(found.links), 11 * found.links + 3
        print(columns.format(found.links, 4 * rods + constraints, constraints, f"{found.energies.max():.4f}",
                             f"{found.energies[-1]:.3f}", f"{found.violations.mean():.1e}",
                             f"{found.violations.max():.1e}", f"{found.largest:.1e}", f"{found.farthest.max():.3f}",
                             f"{1000 * found.seconds / len(found.times):.2f}"))


def print_order(orders: dict[float, list[Fall]], time: float):
    print(f"\nViolation (root mean square, average up to t = {time:g}) against h, {ORDER_LINKS} links\n")
    print(f"{'':8}" + "".join(f"{f'compliance {compliance:g}':>20}{'theory':>10}" for compliance in orders))
    for i, step in enumerate(ORDER_STEPS):
        print(f"1/{1 / step:<6.0f}" + "".join(
            f"{found[i].violations.mean():20.2e}{found[i].theory.mean():10.2e}" for found in orders.values()))
    print(f"{'slope':8}" + "".join(
        f"{slope(ORDER_STEPS, [run.violations.mean() for run in found]):20.2f}"
        f"{slope(ORDER_STEPS, [run.theory.mean() for run in found]):10.2f}" for found in orders.values()))


def holds(found: Fall) -> bool:
    """Not so if anything is infinite or not a number."""
    return bool(np.all(found.farthest < STRETCHED))


def print_large_steps(falls: list[Fall]):
    print(f"\nHow large a step? {LARGE_LINKS} links up to t = {falls[0].times[-1]:.4g}; it holds the ladder if the "
          f"farthest point stays below {STRETCHED:g}\n")
    print(f"{'h':8}{'highest E':>10}{'E at end':>10}{'mean viol.':>12}{'any':>8}{'farthest':>10}  holds")
    for found in falls:
        print(f"1/{1 / found.step:<6.0f}{found.energies.max():10.4f}{found.energies[-1]:10.3f}"
              f"{found.violations.mean():12.1e}{found.largest:8.2f}{found.farthest.max():10.3f}  "
              + ("yes" if holds(found) else "no"))
    held = [found.step for found in falls if holds(found)]
    print("Largest of them that holds: " + (f"1/{1 / max(held):.0f}" if held else "none") + "; the paper's: 1/20")


def time_steps(links: int, platform: str) -> tuple[float, float]:
    """Seconds of the set-up, which ends with the first step, and of a step: the median."""
    integrator = ladder_integrator(links, STEP)
    begin = perf_counter()
    context = make_context(links, integrator, platform)
    integrator.step(1)
    set_up = perf_counter() - begin
    seconds: list[float] = []
    while len(seconds) < FEW_STEPS or (len(seconds) < MANY_STEPS and sum(seconds) < ENOUGH_SECONDS):
        begin = perf_counter()
        context.getIntegrator().step(1)
        seconds.append(perf_counter() - begin)
    return set_up, float(np.median(seconds))


@dataclass
class Timing:
    sizes: list[int]
    set_up: list[float]
    step: list[float]

    def upper_half(self) -> slice:
        return slice(len(self.sizes) // 2, None)

    def slope(self) -> float:
        return slope(self.sizes[self.upper_half()], self.step[self.upper_half()])


def time_sizes(largest: int, platform: str) -> Timing:
    sizes = [int(size) for size in np.unique(np.round(np.geomspace(SMALLEST, largest, SIZES)))]
    with progress_bar("timing", len(sizes)) as bar:
        found = []
        for size in sizes:
            found.append(time_steps(size, platform))
            bar.update()
    return Timing(sizes, *map(list, zip(*found)))


def print_timing(timing: Timing):
    print(f"\n{'links':>8}{'set-up, s':>12}{'ms/step':>10}{'us/link':>10}")
    for size, set_up, step in zip(timing.sizes, timing.set_up, timing.step):
        print(f"{size:8}{set_up:12.3f}{1e3 * step:10.3f}{1e6 * step / size:10.2f}")
    print(f"Slope in logarithms from {timing.sizes[timing.upper_half()][0]} links on: {timing.slope():.2f}")


def draw_ladder(panel: Axes, ends: np.ndarray, label: str, color):
    """Rod by rod, from the head of the rod at its tail, or from the origin, to its own head."""
    rods = np.arange(1, len(ends) + 1)
    before = np.where(rods <= 2, 0, np.where(rods % 3 == 2, rods - 3, rods - 2))
    tails = np.vstack((np.zeros((1, 2)), ends))[before]
    gaps = np.full_like(ends, np.nan)
    panel.plot(*np.stack((tails, ends, gaps), axis=1).reshape(-1, 2).T, color=color, linewidth=1, label=label)


def draw(picture: Fall, falls: list[Fall], orders: dict[float, list[Fall]], timing: Timing, large: list[Fall],
         path: Path):
    figure, panels = pyplot.subplots(2, 3, figsize=(15, 8.5), layout="constrained")
    (shapes, energy, violation), (order, cost, steps) = panels
    colors = pyplot.get_cmap("viridis")(np.linspace(0, 0.95, len(picture.pictures)))
    for color, (at, ends) in zip(colors, picture.pictures.items()):
        draw_ladder(shapes, ends, f"{at:g}", color)
    shapes.plot(0, 0, "ko", markersize=4)
    shapes.set_aspect("equal", adjustable="datalim")
    shapes.legend(title="t", frameon=False, fontsize="small")
    for found in falls:
        energy.plot(found.times, found.energies, linewidth=1, label=f"N = {found.links}")
        violation.semilogy(found.times, found.violations, linewidth=0.8, label=f"N = {found.links}")
    for (compliance, runs), marker, color in zip(orders.items(), "os", ("#1f77b4", "#d62728")):
        order.loglog(ORDER_STEPS, [run.violations.mean() for run in runs], marker, color=color,
                     label=f"compliance {compliance:g}")
        order.loglog(ORDER_STEPS, [run.theory.mean() for run in runs], "-", color=color, linewidth=0.8,
                     label="1.25 h² |u'|²")
    cost.loglog(timing.sizes, 1e3 * np.array(timing.step), "o-", label="median")
    cost.loglog(timing.sizes, 1e3 * timing.step[-1] * np.array(timing.sizes) / timing.sizes[-1], "k-.", linewidth=0.8,
                label="slope 1")
    for found in large:
        style, remark = ("-", "") if holds(found) else (":", ", rods stretch")
        steps.plot(found.times, found.energies, style, linewidth=1, label=f"1/{1 / found.step:.0f}{remark}")
    for panel in (energy, violation, order, cost, steps):
        panel.legend(frameon=False, fontsize="small")
    shapes.set(title=f"The ladder, N = {picture.links}", xlabel="x", ylabel="y")
    energy.set(title=f"Energy, h = 1/{1 / STEP:.0f}", xlabel="time", ylabel="1: start, 0: hanging at rest")
    violation.set(title=f"Violation, h = 1/{1 / STEP:.0f}", xlabel="time", ylabel="root mean square")
    order.set(title=f"Mean violation over the step, N = {ORDER_LINKS}", xlabel="h", ylabel="root mean square, average")
    cost.set(title="Time of a step", xlabel="links N", ylabel="ms")
    steps.set(title=f"Energy at larger steps, N = {LARGE_LINKS}", xlabel="time", ylabel="1: start, 0: hanging at rest")
    figure.savefig(path, dpi=150)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--time", type=number(float, 0.1), default=10.0, metavar="T",
                        help="time of the runs (default: %(default)s)")
    parser.add_argument("--links", type=number(int, 1), nargs="+", default=[10, 100], metavar="N",
                        help="numbers of links of the runs (default: 10 100)")
    parser.add_argument("--largest", type=number(int, 2 * SMALLEST), default=10000, metavar="N",
                        help="links of the largest ladder whose steps are timed (default: %(default)s)")
    parser.add_argument("--platform", type=choice(("CPU", "Reference")), default="CPU", metavar="NAME",
                        help="OpenMM platform, CPU or Reference (default: %(default)s)")
    add_output_option(parser, "rod_ladder.png")
    options = parser.parse_args()
    parser.make_folder(options.output)

    falls = [fall(links, STEP, options.time, options.platform) for links in options.links]
    print_falls(falls)
    order_time = min(ORDER_TIME, options.time)
    orders = {compliance: [fall(ORDER_LINKS, step, order_time, options.platform, compliance) for step in ORDER_STEPS]
              for compliance in (COMPLIANCE, SMALL_COMPLIANCE)}
    print_order(orders, order_time)
    timing = time_sizes(options.largest, options.platform)
    print_timing(timing)
    large = [fall(LARGE_LINKS, step, options.time, options.platform) for step in LARGE_STEPS]
    print_large_steps(large)
    picture = fall(PICTURE_LINKS, STEP, min(options.time, max(PICTURE_TIMES)), options.platform,
                   picture_times=PICTURE_TIMES)
    draw(picture, falls, orders, timing, large, options.output / "rod_ladder.png")
    print(f"\nThe ladder, energies, violations and times: {options.output / 'rod_ladder.png'}")


if __name__ == "__main__":
    run_program(main)
