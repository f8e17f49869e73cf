#!/usr/bin/env python
"""Large steps where forces are expensive: a molecule in GFN2-xTB, with the mass penalty at growing steps.

The reference is LangevinMiddleIntegrator at 0.5 fs. Printed are the energy, the temperature, and the mean of each kind
of bond and angle. What an independent sample of a slow motion takes, scoreboard.py tells.

Results are kept in files, one for each run and seed: what has been done is not done again.
"""
from collections.abc import Collection
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
from common.options import (OptionParser, add_name_option, add_names_option, add_output_option, add_record_option,
                            add_repeat_options, add_run_options, run_program)
from common.runs import results_of
from common.tables import print_table, with_error
from common.xtb import MOLECULES, Molecule

TEMPERATURE = 300.0         # K
SAMPLE_INTERVAL = 0.004     # ps, or two steps if they are longer: a small part of a period
SETTLING_TIME = 5.0         # ps, with each run's own integrator


@dataclass(frozen=True)
class Run:
    label: str
    make: type
    step: float                         # ps
    share: float = 1.0                  # of the time of the longest runs
    friction: float | None = None       # 1/ps, if not that of the option
    bond_inertia: float | None = None   # dalton, if not what addPairsFromTopology() chooses


RUNS = {
    # Averages do not depend on the friction; with a high one, vibrations forget their energies sooner.
    "middle-0.5fs": Run("LangevinMiddle", mm.LangevinMiddleIntegrator, 0.0005, share=0.3, friction=20.0),
    "middle-2fs": Run("LangevinMiddle", mm.LangevinMiddleIntegrator, 0.002, share=0.3),
    "without-8fs": Run("mass penalty, no inertia of bonds", MassPenaltyLangevinIntegrator, 0.008, bond_inertia=0.0),
    **{f"penalty-{fs}fs": Run("mass penalty", MassPenaltyLangevinIntegrator, fs / 1000)
       for fs in (8, 12, 16, 20)},
}


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
    topology, system = molecule.build_topology(), molecule.build_system()
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
    add_name_option(parser, "--molecule", MOLECULES, "ethanol")
    add_names_option(parser, "--runs", RUNS)
    add_run_options(parser, time=60.0, friction=5.0)
    add_repeat_options(parser)
    add_output_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    folder = options.output / f"{options.molecule}-{options.friction:g}-{options.time:g}ps"
    parser.make_folder(folder)
    made = results_of({f"{name}-{seed}": partial(make_run, options.molecule, name, options.friction, options.time, seed)
                       for name in RUNS if name in options.runs for seed in range(1, options.seeds + 1)},
                      folder, options.processes, options.report)
    results: dict[str, list[Samples]] = {}
    for key, result in made.items():
        name, _, seed = key.rpartition("-")
        if "failure" in result:
            print(f"{title(name)}, seed {seed}, {result['failure']}")
        else:
            results.setdefault(name, []).append(result.into(Samples))
    if not results:
        parser.exit(1, "Every run has failed\n")
    geometry = Geometry(MOLECULES[options.molecule])
    print(f"{geometry.molecule.name} in GFN2-xTB, {TEMPERATURE:g} K, friction {options.friction:g}/ps; that of the "
          "reference is 20/ps\n")
    print_energies(results, geometry, options.record)
    for heading, kinds, digits in (("Bonds (nm)", geometry.bonds, 5), ("Angles (degrees)", geometry.angles, 2)):
        print(f"\n{heading}; in brackets: differences from the reference in errors\n")
        print_coordinates(results, kinds, digits)


def title(name: str) -> str:
    return f"{RUNS[name].label}, {1000 * RUNS[name].step:g} fs"


def print_energies(results: dict[str, list[Samples]], geometry: Geometry, file: Path | None):
    """Energies and temperatures; and of the kinds of bonds the mean length that differs most from the reference's."""
    name_of, (first, *_) = geometry.molecule.name, results
    energies = {name: mean(samples, lambda each: each.potential) for name, samples in results.items()}
    rows = []
    for name, samples in results.items():
        shifts = [subtract(mean_of(samples, kind), mean_of(results[first], kind), 1e5) for kind in geometry.bonds]
        differences = [with_error(*subtract(energies[name], energies[first]), 2),
                       with_error(*max(shifts, key=lambda shift: abs(shift[0])), 1)]
        energy, length = differences if name != first else ("", "")
        temperature = mean(samples, lambda each: each.temperature)
        rows.append([name_of, title(name), energy, with_error(*temperature, 1), length])
    print_table(["molecule", "integrator, step", f"energy, difference from {1000 * RUNS[first].step:g} fs (kJ/mol)",
                 "T (K)", "bond lengths, largest difference (1e-5 nm)"], rows, file, f"expensive-forces-{name_of}")


def print_coordinates(results: dict[str, list[Samples]], kinds: Collection[str], digits: int):
    """The mean of each kind of coordinate."""
    (reference, *others), rows = results, []
    for kind in kinds:
        found = {name: mean_of(samples, kind) for name, samples in results.items()}
        shifts = {name: subtract(found[name], found[reference]) for name in others}
        rows.append([kind, with_error(*found[reference], digits),
                     *(f"{with_error(*found[name], digits)} ({shift / error:+.1f})"
                       for name, (shift, error) in shifts.items())])
    print_table(["", *map(title, results)], rows)


if __name__ == "__main__":
    run_program(main)
