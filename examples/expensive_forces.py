#!/usr/bin/env python
"""Large steps where forces are expensive: a molecule in GFN2-xTB, with the mass penalty at growing steps.

The reference is LangevinMiddleIntegrator at 0.5 fs. Its runs at 1 fs, as in practice, and at 2 fs, its limit, show what
an evaluation of the forces buys. Printed are the mean and the variance of each kind of bond and angle, the energy, the
temperature, and how many evaluations an independent sample of the slow motion takes: of the torsion, and of the
distance of the ends.

Results are kept in files, one for each run and seed: what has been done is not done again.
"""
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import Samples, blockedError, correlationTime, sample

from common import observables
from common.options import (OptionParser, add_output_option, add_record_option, add_repeat_options,
                            choice, number, run_program)
from common.runs import Result, Task, make_missing
from common.tables import print_table, with_error
from common.xtb import MOLECULES, Molecule

TEMPERATURE = 300.0         # K
SAMPLE_INTERVAL = 0.004     # ps, or two steps if they are longer: a small part of a period
SETTLING_TIME = 5.0         # ps, with each run's own integrator
HEAVY_HYDROGEN = 4.0        # dalton


@dataclass(frozen=True)
class Run:
    label: str
    make: type
    step: float                         # ps
    share: float = 1.0                  # of the time of the longest runs
    hydrogen_mass: float | None = None  # dalton
    friction: float | None = None       # 1/ps, if not that of the option
    bond_inertia: float | None = None   # dalton, if not what addPairsFromTopology() chooses


RUNS = {
    # Averages do not depend on the friction; with a high one, vibrations forget their energies sooner.
    "middle-0.5fs": Run("LangevinMiddle", mm.LangevinMiddleIntegrator, 0.0005, share=0.3, friction=20.0),
    "middle-1fs": Run("LangevinMiddle", mm.LangevinMiddleIntegrator, 0.001, share=0.05),
    "middle-2fs": Run("LangevinMiddle", mm.LangevinMiddleIntegrator, 0.002, share=0.3),
    "middle-2fs-heavy": Run("LangevinMiddle, H of 4 dalton", mm.LangevinMiddleIntegrator, 0.002, share=0.3,
                            hydrogen_mass=HEAVY_HYDROGEN),
    "without-8fs": Run("mass penalty, no inertia of bonds", MassPenaltyLangevinIntegrator, 0.008, bond_inertia=0.0),
    **{f"penalty-{fs}fs": Run("mass penalty", MassPenaltyLangevinIntegrator, fs / 1000)
       for fs in (8, 12, 16, 20)},
}
LIMIT = "middle-2fs"


class Geometry(observables.Geometry):
    """With the torsion and the ends of one of MOLECULES."""

    def __init__(self, molecule: Molecule):
        super().__init__(molecule.labels, molecule.bonds)
        self.molecule = molecule

    def __call__(self, state: mm.State) -> dict[str, np.ndarray]:
        """Lengths (nm) and angles (degrees) by kind; the torsion as a unit vector; the distance of the ends (nm)."""
        x = state.getPositions(asNumpy=True)._value
        found: dict[str, Any] = dict(self.measure(x))
        found["torsion"] = observables.turns(x, np.array([self.molecule.torsion]))[0]
        found["ends"] = np.linalg.norm(x[self.molecule.ends[0]] - x[self.molecule.ends[1]])
        return {name: np.asarray(value, dtype=np.float32) for name, value in found.items()}


def make_run(which: str, name: str, friction: float, time: float, seed: int) -> dict:
    """What vars() of Samples has."""
    molecule, run = MOLECULES[which], RUNS[name]
    topology, system = molecule.build_topology(), molecule.build_system(run.hydrogen_mass)
    integrator = run.make(TEMPERATURE, run.friction or friction, run.step)
    if isinstance(integrator, MassPenaltyLangevinIntegrator):
        addPairsFromTopology(integrator, topology, system, molecule.positions, bondInertia=run.bond_inertia)
    integrator.setRandomNumberSeed(seed)
    platform = mm.Platform.getPlatform("Reference")
    simulation = app.Simulation(topology, system, integrator, platform)
    relaxed = molecule.relax(system, TEMPERATURE, seed)
    simulation.context.setPositions(relaxed.getState(positions=True).getPositions())
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    burst = max(2, round(SAMPLE_INTERVAL / run.step))
    samples = round(time * run.share / (burst * run.step))
    try:
        simulation.step(round(SETTLING_TIME / run.step))
        return vars(sample(simulation.context, burst, samples, observe=Geometry(molecule)))
    except (FloatingPointError, mm.OpenMMException) as error:
        reached = simulation.context.getTime().value_in_unit(unit.picosecond)
        raise ValueError(f"fails after {reached:.0f} ps: {error}") from error


def mean(samples: list[Samples], series) -> tuple[float, float]:
    """The mean of a series over seeds, and its error; `series` takes it from Samples."""
    whole = np.concatenate([series(each) for each in samples])
    return float(whole.mean()), blockedError(whole)


def mean_of(samples: list[Samples], kind: str) -> tuple[float, float]:
    """Of a kind of coordinates, and its error."""
    return mean(samples, lambda each: each.observed[kind].mean(axis=1, dtype=float))


def subtract(one: tuple[float, float], other: tuple[float, float], scale: float = 1.0) -> tuple[float, float]:
    """A difference and its error."""
    return scale * (one[0] - other[0]), scale * float(np.hypot(one[1], other[1]))


def variance(samples: list[Samples], kind: str) -> tuple[float, float]:
    """Of coordinates about the mean of their kind, and its error."""
    centre = np.mean([each.observed[kind].mean(dtype=float) for each in samples])
    return mean(samples, lambda each: np.mean((each.observed[kind] - centre)**2, axis=1))


def evaluations_per_sample(samples: list[Samples], kind: str) -> tuple[float, float]:
    """How many evaluations of the forces an independent sample takes (two correlation times), and the error of that."""
    taus = []
    for each in samples:
        columns = each.observed[kind].reshape(len(each.temperature), -1).T
        scale = round(each.interval / each.step)
        taus += [[2 * scale * value for value in correlationTime(column)] for column in columns]
    taus, errors = np.transpose(taus)
    return float(taus.mean()), float(np.sqrt(np.sum(errors**2)) / len(errors))


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--molecule", type=choice(MOLECULES), default="ethanol", metavar="NAME",
                        help=f"one of {', '.join(MOLECULES)} (default: %(default)s)")
    parser.add_argument("--runs", type=choice(RUNS), nargs="+", default=list(RUNS), metavar="NAME",
                        help=f"the runs to make, of {', '.join(RUNS)} (default: all)")
    parser.add_argument("--time", type=number(float, 1, "ps"), default=60.0, metavar="PS",
                        help="simulated time of the longest runs, ps, for each seed (default: %(default)s)")
    parser.add_argument("--friction", type=number(float, 0.01, "1/ps"), default=5.0, metavar="GAMMA",
                        help="Langevin friction, 1/ps; that of the reference is 20 (default: %(default)s)")
    add_repeat_options(parser)
    add_output_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    names = [name for name in RUNS if name in options.runs]
    folder = options.output / f"{options.molecule}-{options.friction:g}-{options.time:g}ps"
    parser.make_folder(folder)

    make = partial(make_run, options.molecule, friction=options.friction, time=options.time)
    tasks = {(name, seed): Task(f"{name}-{seed}", partial(make, name, seed=seed),
                                (folder / f"{name}-{seed}.npz").absolute())
             for name in names for seed in range(1, options.seeds + 1)}
    if not options.report:
        make_missing(list(tasks.values()), options.processes)
    made = {key: Result.load(task.path) for key, task in tasks.items() if task.path.exists()}
    results: dict[str, list[Samples]] = {}
    for (name, _), result in made.items():
        if "failure" not in result:
            results.setdefault(name, []).append(result.into(Samples))
    if not results:
        parser.exit(1, "Every run has failed\n")

    print(f"{MOLECULES[options.molecule].name} in GFN2-xTB, {TEMPERATURE:g} K, friction {options.friction:g}/ps\n")
    geometry = Geometry(MOLECULES[options.molecule])
    print_energies(results, geometry, options.record)
    for (name, seed), result in made.items():
        if "failure" in result:
            print(f"{title(name)}, seed {seed}, {result['failure']}")
    print_speeds(results, geometry.molecule, options.record)
    print_coordinates("Bonds: mean (nm), its difference from the reference (1e-5 nm), variance (1e-6 nm^2)", results,
                      geometry.bonds, 5, 1e5, 1e6)
    print_coordinates("Angles: mean, its difference from the reference (degrees), variance (degrees^2)", results,
                      geometry.angles, 2, 1, 1)


def title(name: str) -> str:
    return f"{RUNS[name].label}, {1000 * RUNS[name].step:g} fs"


def print_energies(results: dict[str, list[Samples]], geometry: Geometry, file: Path | None):
    """Energies and temperatures; and of the kinds of bonds the mean length that differs most from the reference's."""
    name_of, (first, *_) = geometry.molecule.name, results
    energies = {name: mean(samples, lambda each: each.potential) for name, samples in results.items()}
    lengths = {name: {kind: mean_of(samples, kind) for kind in geometry.bonds} for name, samples in results.items()}
    rows = []
    for name, samples in results.items():
        shifts = [subtract(lengths[name][kind], lengths[first][kind], 1e5) for kind in geometry.bonds]
        differences = [with_error(*subtract(energies[name], energies[first]), 2),
                       with_error(*max(shifts, key=lambda shift: abs(shift[0])), 1)]
        energy, length = differences if name != first else ("", "")
        rows.append([name_of, title(name), energy, with_error(*mean(samples, lambda each: each.temperature), 1), length,
                     with_error(*energies[name], 2),
                     f"{sum(len(each.temperature) * each.interval for each in samples):.0f}"])
    print_table(["molecule", "integrator, step", f"energy, difference from {1000 * RUNS[first].step:g} fs (kJ/mol)",
                 "T (K)", "bond lengths, largest difference (1e-5 nm)", "energy (kJ/mol)", "ps"], rows, file,
                f"expensive-forces-{name_of}")


def print_speeds(results: dict[str, list[Samples]], molecule: Molecule, file: Path | None):
    """What an evaluation buys: the last two columns are independent samples per evaluation over those at the limit."""
    kinds = "torsion", "ends"
    print("\nEvaluations for an independent sample of the torsion and of the distance of the ends; samples per "
          f"evaluation over\nthose of {title(LIMIT)}\n")
    slow = {name: [evaluations_per_sample(samples, kind) for kind in kinds] for name, samples in results.items()}
    rows = []
    for name, samples in results.items():
        time = sum(each.steps * each.step for each in samples)
        gains = [f"{slow[LIMIT][k][0] / slow[name][k][0]:.2f}" if LIMIT in slow else "" for k in (0, 1)]
        rows.append([molecule.name, title(name), *(with_error(*value, 0) for value in slow[name]), *gains,
                     f"{sum(each.seconds for each in samples) / time:.3f}"])
    print_table(["molecule", "integrator, step", *kinds, *(f"{kind}, gain" for kind in kinds), "seconds per ps"], rows,
                file, f"evaluations-{molecule.name}")


def print_coordinates(heading: str, results: dict[str, list[Samples]], kinds, digits: int, magnify: float,
                      magnify_variance: float):
    """Means and variances of each kind of coordinate; deviations in errors stand in brackets."""
    print(f"\n{heading}; in brackets: differences in errors\n")
    for kind in kinds:
        print(kind)
        reference = None
        for name, samples in results.items():
            found = mean_of(samples, kind), variance(samples, kind)
            reference = reference or found
            shifts = [subtract(*pair) for pair in zip(found, reference)]
            beyond = [f"({shift / error:+.1f})" if name != next(iter(results)) else "" for shift, error in shifts]
            (value, error), (width, its_error) = shifts[0], found[1]
            print(f"  {title(name):43}{with_error(*found[0], digits):16}"
                  f"{with_error(magnify * value, magnify * error, 2 if magnify == 1 else 1):12}{beyond[0]:8}"
                  f"{with_error(magnify_variance * width, magnify_variance * its_error, 3):14}{beyond[1]}".rstrip())


if __name__ == "__main__":
    run_program(main)
