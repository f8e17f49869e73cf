#!/usr/bin/env python
"""Liquid water in a machine-learned potential by ASE: MassPenaltyLangevin at 12 fs against ASE's Langevin at 0.5 fs.

The potential is ANI-1ccx, whose weights the wheel has: pip install 'openmm-stiff[ase]' mdtraj torchani==2.0. It was
made for molecules in vacuum, so the liquid is not that of experiment; what is asked is whether both steps agree. Runs
are kept in files: what has been done is not done again.
"""
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import openmm as mm
from ase import Atoms, units
from ase.calculators.calculator import Calculator
from ase.md.langevin import Langevin
from openmm import app, unit
from openmmstiff.ase import MassPenaltyLangevin, SystemCalculator

from common.observables import (RDF_PAIRS, Geometry, diffusion, first_peak, mean_and_error, places_of_waters,
                                radial_distributions, reorientation)
from common.options import (OptionParser, add_name_option, add_output_option, add_record_option, add_repeat_options,
                            add_run_options, number, progress_bar, run_program)
from common.potentials import make_ani1ccx
from common.runs import Result, begin, results_of
from common.tables import NOTE, mean_with_error, print_table, with_error
from common.water import DENSITY, close_up

TEMPERATURE, SMALL_STEP = 300, 0.5  # K, fs
PICOSECOND = 1000 * units.fs
CLASSICAL = (0.001, 5.0, 10.0)          # step (ps), friction (1/ps), time (ps) in TIP3P, where runs begin
EQUILIBRATION = (4.0, 20.0, 2.0)        # step (fs), friction (1/ps), time (ps) of the mass penalty after that
SETTLING, SAMPLE_INTERVAL = 0.5, 0.024  # ps, with each run's own integrator; between samples
LAGS = (0.5, 2.0)                       # ps, for diffusion and reorientation
MASSES = np.array([15.999, 1.008, 1.008])


def build_waters(count: int) -> app.Modeller:
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    modeller.addSolvent(app.ForceField("tip3p.xml"), numAdded=count)
    return close_up(modeller, (count / DENSITY) ** (1 / 3))


def build_system(modeller: app.Modeller) -> mm.System:
    """Flexible TIP3P."""
    cutoff = 0.45 * modeller.topology.getUnitCellDimensions()[0]
    return app.ForceField("tip3p.xml").createSystem(modeller.topology, nonbondedMethod=app.PME, nonbondedCutoff=cutoff,
                                                    constraints=None, rigidWater=False)


POTENTIALS: dict[str, Callable[[app.Modeller], Calculator]] = {
    "ANI-1ccx": lambda modeller: make_ani1ccx(),
    "TIP3P": lambda modeller: SystemCalculator(build_system(modeller), "CPU")}


def equilibrate(modeller: app.Modeller, seed: int) -> np.ndarray:
    """Positions (nm) in TIP3P."""
    step, friction, time = CLASSICAL
    context = begin(build_system(modeller), mm.LangevinMiddleIntegrator(TEMPERATURE, friction, step),
                    modeller.positions, "CPU", TEMPERATURE, seed, minimize=50)
    context.getIntegrator().step(round(time / step))
    return context.getState(positions=True).getPositions(asNumpy=True)._value


def make_run(potential: str, waters: int, fs: float, friction: float, time: float, seed: int) -> dict[str, np.ndarray]:
    """Positions (nm), energies of a molecule (kJ/mol) and temperatures (K) of a run; the step SMALL_STEP is ASE's."""
    modeller, rng = build_waters(waters), np.random.default_rng(seed)
    edge = modeller.topology.getUnitCellDimensions()[0].value_in_unit(unit.angstrom)
    atoms = Atoms("OHH" * waters, 10 * equilibrate(modeller, seed), cell=3 * [edge], pbc=True,
                  calculator=POTENTIALS[potential](modeller))

    def dynamics(kind, fs, friction):
        return kind(atoms, fs * units.fs, temperature_K=TEMPERATURE, friction=friction / PICOSECOND, fixcm=False,
                    rng=rng)

    step, strong, equilibration = EQUILIBRATION
    dynamics(MassPenaltyLangevin, step, strong).run(round(1000 * equilibration / step))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fixcm", category=FutureWarning)
        run = dynamics(Langevin if fs == SMALL_STEP else MassPenaltyLangevin, fs, friction)
    run.run(round(1000 * SETTLING / fs))
    interval, samples = max(1, round(1000 * SAMPLE_INTERVAL / fs)), []
    with progress_bar(f"{fs:g} fs", round(1000 * time / fs)) as bar:
        for _ in range(round(1000 * time / (interval * fs))):
            run.run(interval)
            bar.update(interval)
            energy = atoms.get_potential_energy() / (waters * units.kJ / units.mol)
            samples.append((atoms.positions / 10, energy, atoms.get_temperature()))
    frames, energies, temperatures = zip(*samples)
    return {"frames": np.array(frames, np.float32), "energy": np.array(energies), "T": np.array(temperatures),
            "interval": np.array(interval * fs / 1000)}


def measure(results: list[Result], waters: int, fs: float) -> dict[str, str]:
    """What the table shows of all seeds together."""
    frames, interval = np.concatenate([each["frames"] for each in results]), float(results[0]["interval"])
    shapes = Geometry("OHH", [(0, 1), (0, 2)]).measure(frames.reshape(len(frames), waters, 3, 3))
    found = {"T (K)": mean_with_error(np.concatenate([each["T"] for each in results]), 1),
             "energy of a molecule (kJ/mol)": mean_with_error(np.concatenate([each["energy"] for each in results]), 2),
             "O-H (nm)": mean_with_error(shapes["H-O"].mean(axis=(1, 2)), 5),
             "O-H, s.d. (nm)": mean_with_error(shapes["H-O"].std(axis=(1, 2)), 5),
             "H-O-H (degrees)": mean_with_error(shapes["H-O-H"].mean(axis=(1, 2)), 2)}
    for pair, blocks in zip(RDF_PAIRS, radial_distributions(build_waters(waters).topology, list(frames))):
        peaks = np.array([first_peak(pair, block) for block in blocks])
        for what, values, digits in (("at (nm)", peaks[:, 0], 4), ("height", peaks[:, 1], 2)):
            found[f"first peak of g({pair}), {what}"] = with_error(*mean_and_error(values), digits)
    places = [[places_of_waters(frame.reshape(waters, 3, 3), MASSES) for frame in each["frames"]] for each in results]
    for name, key, function in (("D (1e-5 cm2/s)", "centres", diffusion),
                                ("reorientation (ps)", "dipoles", reorientation)):
        values, errors = np.transpose([function(np.array([place[key] for place in each]), interval, LAGS)
                                       for each in places])
        mean, error = float(values.mean()), float(np.linalg.norm(errors)) / len(errors)
        found[name] = with_error(mean, error, 2)
    per_sample = 2 * 1000 / fs     # of ps of the reorientation
    return found | {"evaluations for a reorientation": with_error(per_sample * mean, per_sample * error, 0),
                    "evaluations": f"{len(frames) * round(1000 * interval / fs)}"}


def main():
    parser = OptionParser(__doc__)
    add_name_option(parser, "--potential", POTENTIALS, "ANI-1ccx")
    parser.add_argument("--waters", type=number(int, 32), default=64, metavar="N", help="default: %(default)s")
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", default=[8.0, 12.0], metavar="FS",
                        help="of the mass penalty, fs (default: 8 12)")
    add_run_options(parser, time=20.0, friction=5.0)
    parser.add_argument("--reference-time", type=number(float, 1, "ps"), default=10.0, metavar="PS",
                        help="of the run at 0.5 fs, ps (default: %(default)s)")
    add_repeat_options(parser)
    add_output_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    folder = (options.output / f"{options.potential}-{options.waters}-waters-{options.friction:g}").absolute()
    parser.make_folder(folder)
    times = {fs: options.reference_time if fs == SMALL_STEP else options.time for fs in (SMALL_STEP, *options.steps)}
    made = results_of({f"{fs:g}fs-{time:g}ps-{seed}": partial(
        make_run, options.potential, options.waters, fs, options.friction, time, seed)
        for fs, time in times.items() for seed in range(1, options.seeds + 1)},
        folder, options.processes, options.report)
    for name in [name for name, result in made.items() if "failure" in result]:
        print(f"{name}: {made.pop(name)['failure']}")
    columns = {fs: measure(results, options.waters, fs) for fs in times
               if (results := [result for name, result in made.items() if name.startswith(f"{fs:g}fs-")])}
    if not columns:
        parser.exit(1, "No run has been made\n")
    print(f"\n{options.waters} waters in {options.potential}, {TEMPERATURE} K, friction {options.friction:g}/ps\n")
    titles = [f"{'Langevin' if fs == SMALL_STEP else 'mass penalty'}, {fs:g} fs" for fs in columns]
    print_table([options.potential, *titles], [[name, *(column[name] for column in columns.values())]
                                              for name in next(iter(columns.values()))], options.record, "ml-water")
    print(NOTE)


if __name__ == "__main__":
    run_program(main)
