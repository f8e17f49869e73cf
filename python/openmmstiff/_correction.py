"""What a surrogate lacks, as a sum of bonds, angles and torsions: a linear fit to differences of energies."""

from collections.abc import Sequence

import numpy as np
import openmm

from ._conversions import needing

PENALTIES = np.logspace(-3, 4, 22)      # of ridge regression, for columns of unit variance
EXPRESSIONS = ("a*(r-centre) + b*(r-centre)^2", "a*(theta-centre) + b*(theta-centre)^2",
               "a*cos(theta) + b*cos(2*theta) + c*cos(3*theta)")
FORCES = openmm.CustomBondForce, openmm.CustomAngleForce, openmm.CustomTorsionForce


class Coordinates:
    """
    The bonds, angles and torsions of a molecule, in kinds whose members cannot be told apart by what is bound to what.

    Atoms get labels that are refined by those of their neighbours, again and again (Weisfeiler and Lehman 1968).
    """

    def __init__(self, numbers: Sequence[int], bonds: Sequence[tuple[int, int]], neighbours: Sequence) -> None:
        labels = list(numbers)
        for _ in labels:
            finer = [(labels[i], sorted(labels[j] for j in neighbours[i])) for i in range(len(labels))]
            order = sorted(finer)
            labels = [order.index(each) for each in finer]
        angles = [(i, vertex, j) for vertex, bound in enumerate(neighbours) for i in bound for j in bound if i < j]
        self.torsions = [(h, i, j, k) for i, j in bonds for h in neighbours[i] for k in neighbours[j]
                         if h != j and i != k and h != k]
        kinds: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for atoms in (*bonds, *angles, *self.torsions):
            kind = tuple(labels[i] for i in atoms)
            kinds.setdefault(min(kind, kind[::-1]), []).append(atoms)
        self.kinds = sorted(kinds.values(), key=lambda members: len(members[0]))

    def find_slow(self, positions: np.ndarray) -> np.ndarray:
        """What the motion of a molecule shows, shape (snapshots, coordinates): its torsions, or else all of them."""
        if self.torsions:
            angles = np.transpose([measure(positions, atoms) for atoms in self.torsions])
            return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.transpose([measure(positions, atoms) for members in self.kinds for atoms in members])

    def fit(self, positions: np.ndarray, differences: np.ndarray) -> tuple[openmm.System, float]:
        """
        The System whose energies, and a constant, are nearest to the differences [kJ/mol] at positions [nm], and the
        root mean square of what is left, of snapshots that the fit has not seen.
        """
        with needing("a corrected surrogate needs scikit-learn", "nested"):
            from sklearn.linear_model import RidgeCV
        centres, columns = [], []
        for members in self.kinds:
            values = np.array([measure(positions, atoms) for atoms in members])
            centres.append(0.0 if len(members[0]) == 4 else values.mean())
            shifted = values - centres[-1]
            columns += ([np.cos(n*values).sum(axis=0) for n in (1, 2, 3)] if len(members[0]) == 4 else
                        [(shifted**n).sum(axis=0) for n in (1, 2)])
        table = np.transpose(columns)
        widths = np.maximum(table.std(axis=0), 1e-12)
        found = RidgeCV(PENALTIES).fit((table - table.mean(axis=0))/widths, differences)     # leaves out one at a time
        parameters = iter(found.coef_/widths)
        forces = [make(expression) for make, expression in zip(FORCES, EXPRESSIONS)]
        for force, names in zip(forces, (("centre", "a", "b"), ("centre", "a", "b"), ("a", "b", "c"))):
            for name in names:
                getattr(force, f"addPer{type(force).__name__[6:-5]}Parameter")(name)
        for members, centre in zip(self.kinds, centres):
            size = len(members[0])
            terms = [next(parameters) for _ in range(3)] if size == 4 else [centre, next(parameters), next(parameters)]
            add = getattr(forces[size - 2], ("addBond", "addAngle", "addTorsion")[size - 2])
            for atoms in members:
                add(*atoms, terms)
        system = openmm.System()
        for _ in range(positions.shape[1]):
            system.addParticle(1)
        for force in forces:
            system.addForce(force)
        return system, float(np.sqrt(-found.best_score_))


def measure(positions: np.ndarray, atoms: tuple[int, ...]) -> np.ndarray:
    """A length [nm], or an angle or a torsion [radian], of each snapshot; positions of shape (snapshots, atoms, 3)."""
    arms = [positions[:, j] - positions[:, i] for i, j in zip(atoms, atoms[1:])]
    if len(arms) == 1:
        return np.linalg.norm(arms[0], axis=1)
    if len(arms) == 2:
        return np.arctan2(np.linalg.norm(np.cross(arms[0], arms[1]), axis=1), -np.sum(arms[0]*arms[1], axis=1))
    first, second = np.cross(arms[0], arms[1]), np.cross(arms[1], arms[2])
    return np.arctan2(np.linalg.norm(arms[1], axis=1)*np.sum(arms[0]*second, axis=1), np.sum(first*second, axis=1))
