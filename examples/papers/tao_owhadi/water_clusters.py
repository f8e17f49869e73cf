#!/usr/bin/env python
"""Clusters of TIP3P water with penalties in place of constraints: section 4.3, Figures 4 and 5 of Tao and Owhadi.

Rigid molecules against V1 = 1/2 omega^2 sum (r^2 - d^2)^2 over O-H1, O-H2 and H1-H2 of every molecule, integrated by
the Zhang-Skeel family with the stiff blocks of V1. In two parts:

histogram7    Fig. 4: O-O distances of 7 waters at constant temperature, by the Langevin form of StiffHessian
              (their simplified Z&S for stiff systems) and by LangevinMiddle with SETTLE. Two more runs tell apart
              what the finite omega does and what the step does: penalties by LangevinMiddle at a fifth of the step
              ("control"), and StiffHessian with a larger omega, its stiff modes without noise: with noise, x swings so
              far at b = 1/4 that the matrix of the linear system is no longer definite, an exception.
multipliers   Fig. 5: at constant energy, the multiplier of the first O-H constraint against window averages of
              -omega^2 g, g = r^2 - d^2, for several steps.

The paper leaves its units open; taken are Angstrom, dalton and kcal/mol, which make 48.9 fs the unit of time. Then
omega = 20 gives the penalties of a molecule periods of 3.4, 8 and 13 fs, for which Verlet would need h < 0.022;
h = 0.05 is 2.44 fs, T = 10000 is 489 ps, and the inverse temperature 50 is 10 K: a frozen cluster, whose distribution
has clear peaks. The friction of the paper, dp = -gamma v dt, is the same for every atom whatever its mass; OpenMM's
is a rate. Taken is the mean of gamma / m over the atoms, 0.14/ps: heat is exchanged with the bath as fast as in the
paper.

In these units omega = 20 is too soft to stand in for constraints: the forces in the cluster stretch O-H by up to
0.026 Angstrom and move the peaks of the histogram by many times their errors, with any integrator. The shift falls
as omega^-2. It is not the work of the Fixman potential: det(G M^-1 G^T), G = dg/dx, is constant for a molecule of
fixed shape.

More that differs from the paper. SETTLE is not SHAKE by iterations but a closed formula. The parameter b is 1/4 here,
where stiff modes have the exact variance. Positions are the Context's q, not the propagated x. The long run is cut into
independent replicas, because a frozen cluster tells its own errors badly: they all start from one minimum (the lowest
of those found by cooling the rigid cluster down, refined for each Hamiltonian) and are settled under strong friction
before they count. The multipliers, at omega = 500, start from g = 0.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, sqrt
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from matplotlib.axes import Axes
from openmm import unit
from openmmstiff import ZhangSkeelLangevinIntegrator
from openmmstiff.sampling import GAS_CONSTANT, blockedError
from scipy.signal import find_peaks

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cluster import (  # noqa: E402
    ENERGY, FRICTION, LENGTH, OH_LENGTH, OMEGA, SEED, STEP, TEMPERATURE, TIME, WATERS, Cluster)
from common.options import OptionParser, add_names_option, each, number, run_program  # noqa: E402
from common.papers import panels, parse, print_table, simulate, verlet  # noqa: E402
from common.runs import configured, get_positions  # noqa: E402
from penalties import STIFF_GROUP, simulate_both, zhang_skeel  # noqa: E402

LARGE_OMEGA, MULTIPLIER_OMEGA, WINDOW = 50.0, 500.0, 0.2
B = 0.25                        # beta of the method
HISTOGRAM_TIME, MULTIPLIER_TIME, LEAST_TIME = 10000.0, 10.0, 5 * WINDOW     # the last however much runs are shortened
MULTIPLIER_STEPS = (0.05, 0.025, 0.01, 0.005, 0.0025)      # every one divides WINDOW, and the last divides the others

CONTROL_SUBSTEPS = 5                                       # steps of the control run in one of the others
SETTLING_TIME, SETTLING_FRICTION = 100.0, 5.0              # the paper's unit, 1/ps
SAMPLING = 20                                              # steps from one look at the distances to the next
BIN = 0.02                                                 # Angstrom, of histograms
PEAK_WIDTH = 0.24                                          # Angstrom: what counts to a peak is half as far away


# Histograms

@dataclass
class Sampled:
    """Of one integrator; of every replica but for the seconds."""
    distances: list[np.ndarray] = field(default_factory=list)   # (frames, pairs), Angstrom
    temperatures: list[np.ndarray] = field(default_factory=list)
    seconds: float = 0.0                                        # of the steps

    def histogram(self, edges: np.ndarray) -> np.ndarray:
        """Densities."""
        return np.histogram(self.distances, edges, density=True)[0]

    def peak(self, near: float) -> np.ndarray:
        """The mean distance within a window that has it in its middle; of every replica."""
        positions = []
        for distances in self.distances:
            centre = near
            for _ in range(10):
                centre = distances[np.abs(distances - centre) < PEAK_WIDTH / 2].mean()
            positions.append(centre)
        return np.array(positions)


stiff_langevin = configured(ZhangSkeelLangevinIntegrator, StiffForceGroups=1 << STIFF_GROUP, Beta=B)
# Without noise in the stiff modes, as it is right for stand-ins of constraints.
cold_langevin = configured(stiff_langevin, ThermalizeStiffModes=False)


@dataclass
class Run:
    omega: float | None  # None: constraints
    make: Callable[[float, float, float], mm.Integrator]
    substeps: int = 1    # in a step of length STEP


LARGER = f"omega {LARGE_OMEGA:g}"
RUNS = {"SETTLE": Run(None, mm.LangevinMiddleIntegrator), "Z&Ss stiff": Run(OMEGA, stiff_langevin),
        LARGER: Run(LARGE_OMEGA, cold_langevin), "control": Run(OMEGA, mm.LangevinMiddleIntegrator, CONTROL_SUBSTEPS)}
COMPARED = (("Z&Ss stiff", "SETTLE"), ("control", "SETTLE"), ("Z&Ss stiff", "control"), (LARGER, "SETTLE"))


def sample(cluster: Cluster, system: mm.System, run: Run, start: np.ndarray, frames: int, seed: int, sampled: Sampled):
    """One replica: settle under strong friction, then look every SAMPLING steps of length STEP."""
    integrator = run.make(TEMPERATURE, FRICTION, STEP * TIME / run.substeps)
    integrator.setRandomNumberSeed(seed)
    context = cluster.context(system, integrator)
    context.setPositions(start)
    context.setVelocitiesToTemperature(TEMPERATURE, seed)
    integrator.setFriction(SETTLING_FRICTION)
    integrator.step(round(SETTLING_TIME / STEP) * run.substeps)
    integrator.setFriction(FRICTION)
    freedoms = 3 * system.getNumParticles() - (
        len(cluster.pairs) if run.make is cold_langevin else system.getNumConstraints())
    first, second = np.triu_indices(WATERS, k=1)
    distances, energies = [], []
    for _ in range(frames):
        begin = perf_counter()
        integrator.step(SAMPLING * run.substeps)
        sampled.seconds += perf_counter() - begin
        oxygens = get_positions(context)[::3] / LENGTH
        distances.append(np.linalg.norm(oxygens[first] - oxygens[second], axis=1))
        energies.append(context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole))
    sampled.distances.append(np.array(distances))
    sampled.temperatures.append(2 / freedoms / GAS_CONSTANT * np.array(energies))


def run_histogram(cluster: Cluster, time: float, replicas: int) -> dict[str, Sampled]:
    """The replicas of the integrators take turns, so that the load of the machine is the same for all."""
    frames = max(2, round(time / STEP / SAMPLING / replicas))
    systems = {name: cluster.penalised(run.omega) if run.omega else cluster.rigid for name, run in RUNS.items()}
    starts = {name: cluster.minimise(system, cluster.minimum)[1] for name, system in systems.items()}
    found = {name: Sampled() for name in RUNS}
    for turn, name in enumerate(each("histograms", [name for _ in range(replicas) for name in RUNS])):
        sample(cluster, systems[name], RUNS[name], starts[name], frames, SEED + 1 + turn, found[name])
    return found


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """Of the means of replicas, with its standard error; or without, if there is one replica."""
    shift = one.mean() - other.mean()
    if len(one) == 1:
        return f"{shift:+.4f}"
    return f"{shift:+.4f} +- {sqrt((one.var(ddof=1) + other.var(ddof=1)) / len(one)):.4f}"


def show_histogram(panel: Axes, cluster: Cluster, time: float, replicas: int):
    found = run_histogram(cluster, time, replicas)
    rows = []
    for name, sampled in found.items():
        kinetic = np.concatenate(sampled.temperatures)
        rows.append((name, f"{kinetic.mean():.2f} +- {blockedError(kinetic):.2f}", sampled.seconds,
                     sampled.seconds / found["SETTLE"].seconds))
    print_table(f"{WATERS} waters, T = {time:g} ({time * TIME:.0f} ps) in {replicas} replicas, {TEMPERATURE:.1f} K, "
                f"friction {FRICTION:.3f}/ps; the minimum of the rigid\ncluster has {cluster.energy:.2f} kcal/mol. Z&Ss"
                f" stiff: omega = {OMEGA:g}. Control: LangevinMiddle at h / {CONTROL_SUBSTEPS}, omega = {OMEGA:g}",
                "|T (K)|seconds:.2f|over SETTLE:.2f", rows)
    everything = np.concatenate([distances for sampled in found.values() for distances in sampled.distances])
    edges = BIN * np.arange(int(everything.min() / BIN), ceil(everything.max() / BIN) + 1)
    for name, sampled in found.items():
        panel.plot((edges[1:] + edges[:-1]) / 2, sampled.histogram(edges), linewidth=1, label=name)
    panel.set(title=f"O-O distances of {WATERS} waters, {TEMPERATURE:.0f} K", xlabel="r (Angstrom)",
              ylabel="density (1/Angstrom)")
    rows = []
    for near in peaks(edges, found["SETTLE"].histogram(edges)):
        at = {name: sampled.peak(near) for name, sampled in found.items()}
        rows.append((at["SETTLE"].mean(), *(difference(at[one], at[other]) for one, other in COMPARED)))
    print_table("Peaks of the O-O histogram (Angstrom)",
                ["SETTLE:.3f", *(f"{one} - {other}" for one, other in COMPARED)], rows)


def peaks(edges: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Where a smoothed histogram has tops that stand out."""
    smooth = np.convolve(np.pad(density, 2), (1, 2, 3, 2, 1), "valid") / 9
    tops, _ = find_peaks(np.pad(smooth, 1), prominence=0.05 * smooth.max(), distance=round(PEAK_WIDTH / BIN))
    return (edges[tops - 1] + edges[tops]) / 2


# Multipliers

def window_average(values: np.ndarray, step: float) -> np.ndarray:
    width = round(WINDOW / step)
    return np.convolve(values, np.full(width, 1 / width), "valid")


def relative_rms(values: np.ndarray, exact: np.ndarray) -> float:
    return sqrt(np.mean((values - exact) ** 2) / np.mean(exact ** 2))


def show_multipliers(panel: Axes, cluster: Cluster, time: float):
    """-omega^2 g or lambda of the first O-H bond after every step; the constrained motion is RATTLE's at the least."""
    start, velocities = cluster.thermal_start()
    least = MULTIPLIER_STEPS[-1]

    def spring(positions: np.ndarray) -> np.ndarray:
        """-omega^2 g of the first bond, kcal/mol/Angstrom^2."""
        squares = np.sum((positions[1:, 0] - positions[1:, 1]) ** 2, axis=1) / LENGTH ** 2
        return -MULTIPLIER_OMEGA ** 2 * (squares - OH_LENGTH ** 2)

    rigid = simulate(cluster.rigid, verlet(least * TIME), start, round(time / least), 1, velocities)
    exact = np.array([cluster.multipliers(x, v)[0] for x, v in zip(rigid.positions, rigid.velocities)]) * (
        LENGTH ** 2 / ENERGY)
    rows = []
    for step in each("multipliers", MULTIPLIER_STEPS):
        integrator = zhang_skeel("StiffHessian", step * TIME, B)
        run, propagated = simulate_both(cluster.penalised(MULTIPLIER_OMEGA), integrator, start, round(time / step),
                                        velocities)
        times, constrained = run.times[1:] / TIME, exact[::round(step / least)][1:len(run.times)]
        shown, x = spring(run.positions), spring(propagated)
        rows.append((step, 1000 * step * TIME, *(
            error for values in (shown, x) for error in (
                relative_rms(values, constrained),
                relative_rms(window_average(values, step), window_average(constrained, step))))))
        if step in (least, STEP):
            panel.plot(window_average(times, step), window_average(shown, step), linewidth=1.2,
                       label=f"window average of -omega^2 g, h = {step:g}")
    panel.plot(times, shown, color="#d62728", alpha=0.25, linewidth=0.4, label=f"-omega^2 g, h = {least:g}")
    panel.plot(times, constrained, "k--", linewidth=1, label="constrained")
    panel.set(title=f"Multiplier of the first O-H bond, omega = {MULTIPLIER_OMEGA:g}", xlabel="time",
              ylabel="kcal/mol/Angstrom^2")
    print_table(f"Multiplier of the first O-H bond, omega = {MULTIPLIER_OMEGA:g}, over a time of {time:g}; constrained:"
                f" mean {exact[1:].mean():.3f}, standard deviation\n{exact[1:].std():.3f} kcal/mol/Angstrom^2. "
                "Differences from it, rms over rms. x: the propagated positions; q: those of the\nContext. Averages: "
                f"over windows of {WINDOW:g}, of both", "h:g|h (fs):.3f|q:.2g|q, averages:.2g|x:.2g|x, averages:.2g",
                rows)


def main():
    parser, parts = OptionParser(__doc__), ("histogram7", "multipliers")
    add_names_option(parser, "--part", parts)
    parser.add_argument("--shorten", type=number(float, 1, most=100), default=1.0, metavar="FACTOR",
                        help="divide the times of all runs by this (default: %(default)s)")
    parser.add_argument("--replicas", type=number(int, 1, most=100), default=8, metavar="N",
                        help="of every run of the histograms, which share its time (default: %(default)s)")
    options = parse(parser)
    cluster = Cluster(options.shorten)
    with panels(options.figure, 1, len(set(options.part))) as free:
        if "histogram7" in options.part:
            show_histogram(free[0], cluster, max(HISTOGRAM_TIME / options.shorten, LEAST_TIME), options.replicas)
        if "multipliers" in options.part:
            show_multipliers(free[-1], cluster, max(MULTIPLIER_TIME / options.shorten, LEAST_TIME))


if __name__ == "__main__":
    run_program(main)
