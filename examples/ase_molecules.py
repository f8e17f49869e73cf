#!/usr/bin/env python
"""Molecules in GFN2-xTB or SevenNet-0 by ASE: MassPenaltyLangevin at the step that examine() recommends, or at others,
against ASE's Langevin at 0.5 fs.

Printed are the means of bond lengths and angles by their elements, and of the energy of a molecule, with blocked
errors; the temperature; and how many evaluations of the forces there were, of how many molecules, and how fast.
pip install 'openmm-stiff[ase]' tblite, or sevenn, whose wheel has its weights.
"""
import argparse
import os
from collections.abc import Callable
from time import perf_counter

import numpy as np
from ase import Atoms, units
from ase.build import molecule
from ase.calculators.calculator import Calculator
from ase.md.langevin import Langevin
from ase.neighborlist import natural_cutoffs, neighbor_list
from ase.optimize import BFGS
from openmm import unit
from openmmstiff import examine
from openmmstiff.ase import MassPenaltyLangevin
from openmmstiff.sampling import blockedError

from common.observables import Geometry
from common.options import (OptionParser, add_record_option, add_run_options, choice, number, progress_bar,
                            run_program)
from common.tables import mean_with_error, print_table

os.environ.setdefault("OMP_NUM_THREADS", "1")  # more do not pay for a small molecule

TEMPERATURE = 300               # K
SMALL_STEP = 0.5                # fs
REFERENCE_FRICTION = 20.0       # 1/ps, of ASE's Langevin: averages do not depend on it, and need fewer steps with it
PICOSECOND = 1000 * units.fs
SETTLING = 0.1                  # of the time of a run, before it
SAMPLE_INTERVAL = 8 * units.fs  # at least
CELL = 25, 25, 100              # Angstrom, of a copy: they diffuse along a row, and their images move with them
ASPIRIN = (
    (3.03, 1.15, -1.08), (2.00, 0.49, -0.22), (1.85, 0.66, 0.96), (1.24, -0.35, -0.96), (0.09, -0.88, -0.39),
    (-0.05, -2.26, -0.39), (-1.19, -2.83, 0.15), (-2.18, -2.03, 0.70), (-2.03, -0.65, 0.70), (-0.90, -0.06, 0.15),
    (-0.79, 1.42, 0.09), (-0.11, 2.04, -0.69), (-1.57, 2.03, 0.99), (2.57, 2.05, -1.50), (3.32, 0.50, -1.90),
    (3.88, 1.44, -0.48), (0.73, -2.86, -0.81), (-1.31, -3.90, 0.15), (-3.06, -2.47, 1.13), (-2.80, -0.02, 1.12),
    (-1.45, 2.99, 0.93))
MOLECULES = {"ethanol": lambda: molecule("CH3CH2OH"), "benzene": lambda: molecule("C6H6"),
             "aspirin": lambda: Atoms("C2O2C7O2H8", ASPIRIN)}


def make_tblite() -> Calculator:
    """GFN2-xTB, converged so far that forces do not depend on where the molecule came from."""
    from tblite.ase import TBLite
    return TBLite(method="GFN2-xTB", accuracy=0.01, verbosity=0)


def make_sevennet() -> Calculator:
    """SevenNet-0, on a GPU if there is one."""
    from sevenn.calculator import SevenNetCalculator
    return SevenNetCalculator("7net-0")


CALCULATORS = {"tblite": make_tblite, "sevennet": make_sevennet}


def geometry_of(atoms: Atoms) -> Geometry:
    """Its bonds and angles by their elements."""
    pairs = zip(*neighbor_list("ij", atoms, 1.25 * np.array(natural_cutoffs(atoms))))
    return Geometry(atoms.get_chemical_symbols(), [(i, j) for i, j in pairs if i < j])


def lay_out(atoms: Atoms, copies: int) -> Atoms:
    """Copies of a molecule in a row, so far apart that a calculator with a cutoff takes each by itself."""
    row = atoms.copy()
    if copies > 1:
        row.set_cell(CELL)
        row.pbc = True      # without it, SevenNet's list of neighbours is slow
        row = row.repeat((1, 1, copies))
    return row


def run(dynamics: Langevin | MassPenaltyLangevin, geometry: Geometry, copies: int, time: float,
        label: str) -> dict[str, np.ndarray]:
    """Series of what Geometry tells, one copy after the other, of a molecule's energy in kJ/mol, and of the
    temperature; time in ASE's units."""
    atoms, samples = dynamics.atoms, []
    interval = max(1, round(SAMPLE_INTERVAL / dynamics.dt))
    settling, steps = round(SETTLING * time / dynamics.dt), round(time / dynamics.dt)
    with progress_bar(label, settling + steps) as bar:
        for done in range(0, settling + steps, interval):
            dynamics.run(interval)
            bar.update(interval)
            if done >= settling:
                energy = atoms.get_potential_energy() / copies / (units.kJ / units.mol)
                measured = geometry.measure(atoms.positions.reshape(copies, -1, 3))
                samples.append({**{kind: values.mean(axis=1) for kind, values in measured.items()}, "energy": energy,
                                "temperature": atoms.get_temperature()})
    return {name: np.array([each[name] for each in samples]).T.ravel() for name in samples[0]}


def difference(reference: np.ndarray, series: np.ndarray) -> float:
    """In combined errors."""
    return (series.mean() - reference.mean()) / np.hypot(blockedError(reference), blockedError(series))


def compare(name: str, make_calculator: Callable[[], Calculator], options: argparse.Namespace):
    """Run a molecule with each step and print the averages."""
    atoms = MOLECULES[name]()
    atoms.calc = make_calculator()
    BFGS(atoms, logfile=None).run(fmax=0.03)
    geometry, copies = geometry_of(atoms), options.copies
    steps = options.steps or [examine(atoms, TEMPERATURE).getStepSize().value_in_unit(unit.femtosecond)]
    titles, columns, counts = [], [], []
    for title, make, step, friction, time in (
            ("Langevin", Langevin, SMALL_STEP, REFERENCE_FRICTION, options.reference_time or options.time),
            *(("mass penalty", MassPenaltyLangevin, step, options.friction, options.time) for step in steps)):
        row = lay_out(atoms, copies)
        row.calc = make_calculator()
        dynamics = make(row, step * units.fs, temperature_K=TEMPERATURE, friction=friction / PICOSECOND, fixcm=False,
                        rng=np.random.default_rng(options.seed))
        titles.append(f"{title}, {step:g} fs")
        start = perf_counter()
        columns.append(run(dynamics, geometry, copies, time * PICOSECOND, f"{name}, {titles[-1]}"))
        speed = dynamics.nsteps / (perf_counter() - start)
        counts.append((f"{copies} x {time:g}", dynamics.nsteps, dynamics.nsteps * copies, f"{speed:.3g}"))

    rows = []
    for kind, reference in columns[0].items():
        digits = (1, 4, 2)[kind.count("-")]
        rows.append([kind, mean_with_error(reference, digits),
                     *(f"{mean_with_error(column[kind], digits)} ({difference(reference, column[kind]):+.1f})"
                       for column in columns[1:])])
    rows += [[what, *map(str, numbers)] for what, numbers in zip(("ps", "steps", "steps of molecules", "steps/s"),
                                                                 zip(*counts))]
    print()
    print_table([name, *titles], rows, options.record, f"{options.calculator}-{name}")


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--molecules", type=choice(MOLECULES), nargs="+", default=list(MOLECULES), metavar="NAME",
                        help=f"of {', '.join(MOLECULES)} (default: all)")
    parser.add_argument("--calculator", type=choice(CALCULATORS), default="tblite", metavar="NAME",
                        help=f"{' or '.join(CALCULATORS)} (default: %(default)s)")
    parser.add_argument("--copies", type=number(int, 1), default=1, metavar="N",
                        help="molecules in one evaluation, for calculators with a cutoff (default: %(default)s)")
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", metavar="FS",
                        help="of the mass penalty, fs (default: the recommended one)")
    add_run_options(parser, time=50.0, friction=5.0)
    parser.add_argument("--reference-time", type=number(float, 1, "ps"), metavar="PS",
                        help="of the run at 0.5 fs, ps (default: as --time)")
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed (default: %(default)s)")
    add_record_option(parser)
    options = parser.parse_args()
    if options.copies > 1 and options.calculator == "tblite":
        parser.error("argument --copies: those of tblite would interact; use --calculator sevennet")
    print("Lengths in Angstrom, angles in degrees, energies in kJ/mol, temperatures in K; standard errors of the last "
          "digits; (differences in errors)")
    for name in options.molecules:
        compare(name, CALCULATORS[options.calculator], options)


if __name__ == "__main__":
    run_program(main)
