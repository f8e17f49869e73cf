"""ASE's Atoms as OpenMM sees them, and their bonds."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import openmm
from ase import Atoms, units
from ase.constraints import FixAtoms, FixBondLengths, FixCom, FixInternals, FixLinearTriatomic, Hookean
from ase.geometry import find_mic
from ase.neighborlist import natural_cutoffs, neighbor_list
from openmm import app

from ._conversions import integer
from ._forces import find_cells
from ._topology import addPairsFromTopology, copy_pairs, find_neighbours
from .openmmstiff import MassPenaltyLangevinIntegrator

# What is 1 in OpenMM, in ASE's units.
PICOSECOND, NANOMETER, ENERGY = 1000*units.fs, units.nm, units.kJ/units.mol
# Of the sum of two covalent radii: what is a bond at the start, and how close other pairs must not come.
BOND, FORMED = 1.25, 1.1
BROKEN = 1.4            # of the length at the start
# Angstrom, where ASE's covalent radii are not used: with those, H2 and F2 lose their bonds as they vibrate, and ions
# have bonds.
RADII = {"H": 0.37, "F": 0.64, **dict.fromkeys(("Li", "Na", "K", "Rb", "Cs", "Mg", "Ca", "Sr", "Ba"), 0.0)}
MOST_BONDS = 8          # of an atom: those of metals and of sandwich complexes have more
MARGIN = 1.0            # Angstrom; pairs within it are looked up again when an atom has moved by half of it
DISPLACEMENT = 0.01     # Angstrom, of what a calculator is asked in between
SAME_PLACE = 1e-6       # Angstrom
DISTANCES = FixBondLengths, FixInternals, FixLinearTriatomic    # what holds these
SCOPE = ("Bonds must stay what they are: for reactions and extended solids there are the integrators of ASE, such as "
         "ase.md.langevin.Langevin")
MOLECULES_ALONE = ("For molecules on a solid, or a complex such as ferrocene, give their bonds alone by bonds=; examine() "
                   "and scan() take them, too")
UNDEFINED = ". The calculator fails at these positions: take others, or a smaller step if they are those of a run"
UNEXPECTED = f"{SCOPE}. If no reaction was expected, take a smaller step"


class Molecules:
    """
    Atoms as OpenMM sees them: a System with one force, that of the calculator, and a Topology with the bonds. Molecules
    across periodic boundaries are whole there.
    """

    def __init__(self, atoms: Atoms, bonds: Iterable[Sequence[SupportsIndex]] | None = None,
                 fixcm: bool = False) -> None:
        if not isinstance(atoms, Atoms):
            raise TypeError(f"atoms must be an object of ASE's class Atoms, not {atoms!r}")
        self.atoms, self.numbers = atoms, atoms.numbers.copy()
        self.masses, self.has_fix_com = _read_constraints(atoms)
        self.fixcm = fixcm or self.has_fix_com
        if not self.masses.any():
            raise ValueError("all atoms are in a FixAtoms, or there are none: nothing can move")
        if self.fixcm and not self.masses.all():
            raise ValueError(f"{'FixCom' if self.has_fix_com else 'fixcm=True'} does not go with a FixAtoms, which "
                             "holds the others; leave out one of them")
        _require_finite(atoms, "the position of", atoms.positions)
        for i, j in zip(*neighbor_list("ij", atoms, SAME_PLACE)):
            raise ValueError(f"{self.name(i)} and {self.name(j)} are in the same place")
        self.are_alone = bonds is None      # without atoms that they may touch, such as those of a surface
        self.bonds = _perceive_bonds(atoms) if bonds is None else _read_bonds(bonds, len(atoms))
        if not self.bonds:
            raise ValueError("atoms have no bonds to slow down; give those of molecules, pairs of indices, by bonds=")
        self.neighbours = find_neighbours(self.bonds, len(atoms))
        self.potential = Potential(atoms)
        self.make_whole()
        self.start = self.get_positions()
        self.topology, self.system = self._build_topology(), openmm.System()
        for mass in self.masses.tolist():
            self.system.addParticle(mass)
        self.system.addForce(openmm.PythonForce(self.potential))
        if self.fixcm:
            self.system.addForce(openmm.CMMotionRemover(1))

    def get_positions(self) -> np.ndarray:
        """The positions of the atoms, molecules being whole [nm]."""
        return (self.atoms.positions + self.potential.shift)/NANOMETER

    def make_simulation(self) -> app.Simulation:
        """A Simulation at these positions, for examine()."""
        simulation = app.Simulation(self.topology, self.system, openmm.LangevinMiddleIntegrator(300, 1, 0.001),
                                    openmm.Platform.getPlatform("Reference"))
        simulation.context.setPositions(self.start)
        return simulation

    def set_inertias(self, integrator: MassPenaltyLangevinIntegrator, bond_inertia: float | None) -> None:
        """Give bonds and 1-3 distances the inertias for an integrator's step, or bonds another one [dalton]."""
        other = MassPenaltyLangevinIntegrator(0, 0, integrator.getStepSize())
        addPairsFromTopology(other, self.topology, self.system, self.start, bondInertia=bond_inertia)
        copy_pairs(other, integrator)

    def make_whole(self) -> None:
        """
        Find the cells to shift atoms by, so that molecules are whole. A ValueError if there are none, as in extended
        solids.
        """
        first, second = np.transpose(self.bonds)
        direct = self.atoms.positions[second] - self.atoms.positions[first]
        pbc: Any = self.atoms.pbc
        nearest, _ = find_mic(direct, self.atoms.cell, pbc)
        cells = np.rint(self.atoms.cell.complete().scaled_positions(nearest - direct)).astype(int)
        offsets, self.molecule_of = find_cells(first, second, cells, len(self.atoms))
        for i in first[(offsets[second] - offsets[first] != cells).any(axis=1)]:
            raise ValueError(f"the bonds of {self.name(i)} lead to its images in other cells. {SCOPE}. "
                             f"{MOLECULES_ALONE}")
        self.potential.shift = offsets @ self.atoms.cell.array

    def require_same(self) -> None:
        """A ValueError unless these are the atoms, masses and constraints of the System, at finite positions."""
        masses, has_fix_com = _read_constraints(self.atoms)
        if not (np.array_equal(self.atoms.numbers, self.numbers) and np.array_equal(masses, self.masses)
                and has_fix_com == self.has_fix_com):
            raise ValueError("elements, masses or constraints of the atoms have changed: make a new "
                             "MassPenaltyLangevin")
        _require_finite(self.atoms, "the position of", self.atoms.positions)
        _require_finite(self.atoms, "the momentum of", self.atoms.get_momenta())

    def name(self, index: int) -> str:
        """'atom 3 (H)'."""
        return _name(self.atoms, index)

    def translate(self, text: str) -> str:
        """A message of OpenMM in words of ASE: its class and unit, and the names of atoms for particles."""
        text = text.partition(". There are ")[0]    # what integrators say of pairs and forces of OpenMM
        for word, of_ase in ("LangevinIntegrator", "Langevin"), ("getNumCollisions", "get_number_of_collisions"):
            text = text.replace(word, of_ase)
        text = re.sub(r"([\d.e-]+) ps\b", lambda found: f"{1000*float(found[1]):g} fs", text)
        return re.sub(r"particles? (\d+(, (\.{3} )?\d+)*)",
                      lambda found: re.sub(r"\d+", lambda index: self.name(int(index[0])), found[1]), text)

    def _build_topology(self):
        topology = app.Topology()
        chain, residue, before, every = topology.addChain(), None, None, []
        waters = {molecule for molecule in set(self.molecule_of)
                  if sorted(self.numbers[self.molecule_of == molecule]) == [1, 1, 8]}
        for i, (number_, molecule) in enumerate(zip(self.numbers, self.molecule_of)):
            if molecule != before:      # the atoms of a residue follow each other, those of a molecule need not
                residue, before = topology.addResidue("HOH" if molecule in waters else "MOL", chain), molecule
            element = app.Element.getByAtomicNumber(int(number_)) if number_ > 0 else None
            every.append(topology.addAtom(self.name(i), element, residue))
        for i, j in self.bonds:
            topology.addBond(every[i], every[j])
        return topology


class Potential:
    """What a PythonForce calls: the calculator of the atoms."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.shift = np.zeros((len(atoms), 3))      # Angstrom, of atoms to the positions of whole molecules
        self.error: BaseException | None = None     # what the calculator has raised

    def __call__(self, state: openmm.State) -> tuple[float, np.ndarray]:
        try:
            energy, forces = self.evaluate(self.convert(state))
        except BaseException as error:
            self.error = error
            raise
        return energy/ENERGY, forces*(NANOMETER/ENERGY)

    def convert(self, state: openmm.State) -> np.ndarray:
        """The positions of a State as those of the atoms [Angstrom]."""
        return NANOMETER*state.getPositions(asNumpy=True)._value - self.shift

    def evaluate(self, positions: np.ndarray) -> tuple[float, np.ndarray]:
        """Energy [eV] and forces [eV/Angstrom]; the calculator remembers the last ones for the atoms themselves."""
        copy = self.atoms.copy()
        copy.set_constraint([each for each in copy.constraints if isinstance(each, Hookean)])
        copy.positions[:] = positions
        copy.calc = self.atoms.calc
        calculator = type(copy.calc).__name__
        forces = read_array(f"{calculator}: the forces", copy.get_forces(), positions.shape)
        energy = copy.get_potential_energy()
        energy = read_array(f"{calculator}: the energy", energy, (1,)*np.ndim(energy)).item()  # some are arrays of 1
        _require_finite(copy, f"{calculator}: the force on", forces, UNDEFINED)
        if not np.isfinite(energy):
            raise ValueError(f"{calculator}: the energy is {energy}{UNDEFINED}")
        return energy, forces

    def measure_memory(self) -> float:
        """The difference of the forces at the same positions, asked twice with others in between [eV/Angstrom]."""
        positions = self.atoms.get_positions()
        _, before = self.evaluate(positions)
        self.evaluate(positions + DISPLACEMENT*np.random.default_rng(1).normal(size=positions.shape))
        _, after = self.evaluate(positions)
        return float(abs(after - before).max())


class Guard:
    """Watches that bonds stay what they are."""

    def __init__(self, molecules: Molecules) -> None:
        self.molecules, self.atoms = molecules, molecules.atoms
        # Not 1-3 distances: PF5 and SF4 turn inside out, and keep their bonds.
        self.first, self.second = np.transpose(molecules.bonds)
        self.lengths = self.measure(molecules.start*NANOMETER)
        self.radii = FORMED*np.array(_find_radii(self.atoms))
        self.left_out = set(molecules.bonds)
        self.find_others()
        close, _ = self.find_close()
        self.left_out |= set(close)     # bonds that the user has not given
        self.find_others()

    def measure(self, positions):
        """The lengths of bonds, at positions of whole molecules [Angstrom]."""
        return np.linalg.norm(positions[self.first] - positions[self.second], axis=1)

    def find_others(self):
        """Find what other pairs are near each other: of atoms with bonds, and of one with and one without."""
        self.positions = self.atoms.get_positions()
        i, j, cells = neighbor_list("ijS", self.atoms, self.radii + MARGIN/2)
        has_bonds = np.array([len(bound) > 0 for bound in self.molecules.neighbours])
        taken = (i < j) & (has_bonds[i] & has_bonds[j] | self.molecules.are_alone & (has_bonds[i] | has_bonds[j]))
        taken[taken] = [pair not in self.left_out for pair in zip(i[taken].tolist(), j[taken].tolist())]
        self.others = i[taken], j[taken], cells[taken] @ self.atoms.cell.array

    def find_close(self):
        """Those that are as close as a bond, a list of pairs, and their distances [Angstrom]."""
        i, j, shift = self.others
        distances = np.linalg.norm(self.atoms.positions[j] - self.atoms.positions[i] + shift, axis=1)
        close = distances < self.radii[i] + self.radii[j]
        return list(zip(i[close].tolist(), j[close].tolist())), distances[close]

    def check(self):
        """A RuntimeError if a bond has broken or formed."""
        name, lengths = self.molecules.name, self.measure(self.atoms.positions + self.molecules.potential.shift)
        longest = np.argmax(lengths/self.lengths)
        i, j = int(self.first[longest]), int(self.second[longest])
        if lengths[longest] > BROKEN*self.lengths[longest]:
            raise RuntimeError(f"the bond of {name(i)} and {name(j)} has broken: it is {lengths[longest]:.2f} "
                               f"Angstrom long, and was {self.lengths[longest]:.2f} at the start. {UNEXPECTED}")
        if np.max(np.linalg.norm(self.atoms.positions - self.positions, axis=1)) > MARGIN/2:
            self.find_others()
        close, distances = self.find_close()
        if close:
            i, j = close[0]
            raise RuntimeError(f"{name(i)} and {name(j)} have formed a bond: they are {distances[0]:.2f} Angstrom "
                               f"apart. {UNEXPECTED}")


def _name(atoms, index):
    """'atom 3 (H)'."""
    return f"atom {index} ({atoms.symbols[index]})"


def _require_finite(atoms, what, vectors, remedy=""):
    """A ValueError that names the atom if one of their vectors is not finite."""
    for i in np.flatnonzero(~np.isfinite(vectors).all(axis=1)):
        raise ValueError(f"{what} {_name(atoms, i)} is {vectors[i].tolist()}{remedy}")


def read_array(what, value, shape):
    """What a calculator has returned, as an array of numbers; a ValueError if it is none of this shape."""
    try:
        array = np.asarray(value).astype(float, casting="same_kind")
    except (TypeError, ValueError):
        array = None
    if array is None or array.shape != shape:
        raise ValueError(f"{what} must be {f'numbers in an array of shape {shape}' if shape else 'a number'}, not "
                         f"{repr(value) if array is None else f'of shape {array.shape}'}")
    return array


def _read_constraints(atoms):
    """The masses [dalton], 0 for what a FixAtoms holds, and whether there is a FixCom."""
    masses, fixed, has_fix_com = atoms.get_masses(), np.zeros(len(atoms), dtype=bool), False
    for constraint in atoms.constraints:
        kind = type(constraint)
        if isinstance(constraint, FixAtoms):
            fixed[constraint.get_indices()] = True
        elif kind is FixCom:    # and not of some of the atoms, which is derived from it
            has_fix_com = True
        elif not isinstance(constraint, Hookean):   # a force, which the Potential adds
            raise ValueError(
                f"atoms have a {kind.__name__}, but FixAtoms, FixCom and Hookean are the only constraints of ASE that "
                "can be kept. "
                + ("Leave it out if the calculator has forces along these distances, which are slowed down. ASE's TIP3P "
                   "has none: take a flexible water, such as that of a SystemCalculator, or ase.md.langevin.Langevin"
                   if isinstance(constraint, DISTANCES) else
                   "Hold the atoms by a FixAtoms, pull them by a Hookean, or take ase.md.langevin.Langevin"))
    for i in np.flatnonzero(~(masses > 0) & ~fixed):
        raise ValueError(f"{_name(atoms, i)} has a mass of {masses[i]}; set it by atoms.set_masses(), or hold the atom "
                         "by a FixAtoms")
    return np.where(fixed, 0, masses), has_fix_com


def _find_radii(atoms):
    """Covalent radii [Angstrom]; 0 for ions."""
    return natural_cutoffs(atoms, 1, **RADII)


def _perceive_bonds(atoms):
    """The bonds (i, j), i < j, by the distances; a ValueError for a metal, and where an image of an atom is bonded."""
    first, second, cells = neighbor_list("ijS", atoms, BOND*np.array(_find_radii(atoms)))
    counts = np.bincount(first, minlength=len(atoms))
    images: dict[tuple[int, int], list[int]] = {}
    for i, j, cell in zip(first.tolist(), second.tolist(), cells.tolist()):
        images.setdefault((i, j), cell)
        if i == j or images[i, j] != cell or counts[i] > MOST_BONDS:
            raise ValueError(f"{_name(atoms, i)} has {counts[i]} neighbours as close as bonds, or images of the same "
                             f"atom among them. {SCOPE}. {MOLECULES_ALONE}")
    return sorted(pair for pair in images if pair[0] < pair[1])


def _read_bonds(bonds, count):
    """The bonds (i, j), i < j, that a user gives."""
    try:
        bonds = [tuple(bond) for bond in bonds]
    except TypeError:
        raise TypeError(f"bonds must be pairs of indices of atoms, such as [(0, 1), (0, 2)], not {bonds!r}") from None
    found = set()
    for bond in bonds:
        pair = tuple(sorted(integer("an index in bonds", i) for i in bond))
        if len(set(pair)) != 2 or not 0 <= pair[0] < pair[-1] < count:
            raise ValueError(f"bonds must be pairs of different atoms from 0 to {count - 1}, but has {bond}")
        found.add(pair)
    return sorted(found)
