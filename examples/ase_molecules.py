#!/usr/bin/env python
"""Molecules in GFN2-xTB by ASE: MassPenaltyLangevin at the step that examine() recommends, against ASE's Langevin at
0.5 fs.

Printed are the means of bond lengths and angles by their elements, and of the energy, with blocked errors; the
temperature; and the evaluations of the forces. pip install 'openmm-stiff[ase]' tblite.
"""
import os

import numpy as np
from ase import Atoms, units
from ase.build import molecule
from ase.md.langevin import Langevin
from ase.neighborlist import natural_cutoffs, neighbor_list
from ase.optimize import BFGS
from openmm import unit
from openmmstiff import examine
from openmmstiff.ase import MassPenaltyLangevin
from openmmstiff.sampling import blockedError

from options import OptionParser, add_run_options, choice, number, progress_bar, run_program
from tip3p_water import with_error

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of tblite: more do not pay for a small molecule
from tblite.ase import TBLite  # noqa: E402

TEMPERATURE = 300               # K
SMALL_STEP = 0.5 * units.fs
SETTLING = 0.1                  # of the time of a run, before it
SAMPLE_INTERVAL = 8 * units.fs  # at least
ASPIRIN = (
    (3.03, 1.15, -1.08), (2.00, 0.49, -0.22), (1.85, 0.66, 0.96), (1.24, -0.35, -0.96), (0.09, -0.88, -0.39),
    (-0.05, -2.26, -0.39), (-1.19, -2.83, 0.15), (-2.18, -2.03, 0.70), (-2.03, -0.65, 0.70), (-0.90, -0.06, 0.15),
    (-0.79, 1.42, 0.09), (-0.11, 2.04, -0.69), (-1.57, 2.03, 0.99), (2.57, 2.05, -1.50), (3.32, 0.50, -1.90),
    (3.88, 1.44, -0.48), (0.73, -2.86, -0.81), (-1.31, -3.90, 0.15), (-3.06, -2.47, 1.13), (-2.80, -0.02, 1.12),
    (-1.45, 2.99, 0.93))
MOLECULES = {"ethanol": lambda: molecule("CH3CH2OH"), "benzene": lambda: molecule("C6H6"),
             "aspirin": lambda: Atoms("C2O2C7O2H8", ASPIRIN)}


class Counted(TBLite):
    """GFN2-xTB, converged so far that forces do not depend on where the molecule came from; counts evaluations."""

    def __init__(self):
        super().__init__(method="GFN2-xTB", accuracy=0.01, verbosity=0)
        self.evaluations = 0

    def calculate(self, *args, **kwargs):
        self.evaluations += 1
        super().calculate(*args, **kwargs)


class Geometry:
    """The bonds and angles of a molecule by their elements, such as C-H and H-C-H."""

    def __init__(self, atoms: Atoms):
        self.bonds: dict[str, list[tuple[int, int]]] = {}
        self.angles: dict[str, list[tuple[int, int, int]]] = {}
        symbols = atoms.get_chemical_symbols()
        pairs = list(zip(*neighbor_list("ij", atoms, 1.25 * np.array(natural_cutoffs(atoms)))))
        for i, vertex in pairs:
            first, last = sorted((symbols[i], symbols[vertex]))
            if i < vertex:
                self.bonds.setdefault(f"{first}-{last}", []).append((i, vertex))
            for j in (j for j, other in pairs if other == vertex and j > i):
                first, last = sorted((symbols[i], symbols[j]))
                self.angles.setdefault(f"{first}-{symbols[vertex]}-{last}", []).append((i, vertex, j))

    def __call__(self, atoms: Atoms) -> dict[str, float]:
        """The mean of each kind: Angstrom and degrees; the energy in kJ/mol."""
        found = {kind: float(np.mean([atoms.get_distance(i, j) for i, j in bonds]))
                 for kind, bonds in self.bonds.items()}
        found.update({kind: float(np.mean(atoms.get_angles(angles))) for kind, angles in self.angles.items()})
        found["energy"] = atoms.get_potential_energy() / (units.kJ / units.mol)
        return found


def run(dynamics: Langevin | MassPenaltyLangevin, atoms: Atoms, time: float, label: str) -> dict[str, np.ndarray]:
    """Series of what Geometry tells, and of the temperature; time in ASE's units."""
    geometry, samples = Geometry(atoms), []
    interval = max(1, round(SAMPLE_INTERVAL / dynamics.dt))
    settling, steps = round(SETTLING * time / dynamics.dt), round(time / dynamics.dt)
    of_dynamics = dynamics if isinstance(dynamics, MassPenaltyLangevin) else atoms
    with progress_bar(label, settling + steps) as bar:
        for done in range(0, settling + steps, interval):
            dynamics.run(interval)
            bar.update(interval)
            if done >= settling:
                samples.append({**geometry(atoms), "temperature": of_dynamics.get_temperature()})
    return {name: np.array([each[name] for each in samples]) for name in samples[0]}


def compare(name: str, time: float, friction: float, seed: int):
    """Make both runs of a molecule and print their averages."""
    atoms = MOLECULES[name]()
    atoms.calc = Counted()
    BFGS(atoms, logfile=None).run(fmax=0.03)
    picosecond = 1000 * units.fs
    large_step = examine(atoms, TEMPERATURE).getStepSize().value_in_unit(unit.picosecond) * picosecond
    columns, evaluations = [], []
    for step, make in ((SMALL_STEP, Langevin), (large_step, MassPenaltyLangevin)):
        copy = atoms.copy()
        copy.calc = Counted()
        dynamics = make(copy, step, temperature_K=TEMPERATURE, friction=friction / picosecond, fixcm=False,
                        rng=np.random.default_rng(seed))
        columns.append(run(dynamics, copy, time * picosecond, f"{name}, {step / units.fs:g} fs"))
        evaluations.append(copy.calc.evaluations / (time * (1 + SETTLING)))
    print(f"\n{name}: {time:g} ps, friction {friction:g}/ps")
    row = "{:14}{:>26}{:>26}{:>12}"
    print(row.format("", f"Langevin, {SMALL_STEP / units.fs:g} fs", f"mass penalty, {large_step / units.fs:g} fs",
                     "difference"))
    for kind in columns[0]:
        first, second = (column[kind] for column in columns)
        digits = (1, 4, 2)[kind.count("-")]
        difference = (second.mean() - first.mean()) / np.hypot(blockedError(first), blockedError(second))
        print(row.format(kind, with_error(first, digits), with_error(second, digits), f"{difference:.1f} errors"))
    print(row.format("forces/ps", *(f"{count:.0f}" for count in evaluations), ""))


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--molecules", type=choice(MOLECULES), nargs="+", default=list(MOLECULES), metavar="NAME",
                        help=f"of {', '.join(MOLECULES)} (default: all)")
    add_run_options(parser, time=50.0, friction=5.0)
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed (default: %(default)s)")
    options = parser.parse_args()
    print("Lengths in Angstrom, angles in degrees, energies in kJ/mol, temperatures in K")
    for name in options.molecules:
        compare(name, options.time, options.friction, options.seed)


if __name__ == "__main__":
    run_program(main)
