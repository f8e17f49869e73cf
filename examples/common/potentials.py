"""Potentials of molecules as calculators of ASE: what examples take for surrogates and for targets."""
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.calculators.calculator import CalculationFailed, Calculator, all_changes


def make_tblite(method: str) -> Calculator:
    """GFN1-xTB (S. Grimme, C. Bannwarth, P. Shushkov, J. Chem. Theory Comput. 13, 1989, 2017) or GFN2-xTB (that of
    xtb.py), converged so far that forces do not depend on where the molecule came from."""
    from tblite.ase import TBLite
    return TBLite(method=method, accuracy=0.01, verbosity=0)


def make_ani1ccx() -> Calculator:
    """ANI-1ccx (J. S. Smith et al., Nature Commun. 10, 2903, 2019), whose weights are in the wheel of torchani 2.0."""
    from torchani.models import ANI1ccx
    return ANI1ccx().double().ase()


class ForceField(Calculator):
    """MMFF94 by RDKit (T. A. Halgren, J. Comput. Chem. 17, 490, 1996), of a neutral molecule whose bonds are perceived
    at its first positions."""

    implemented_properties = ["energy", "forces"]

    def __init__(self):
        super().__init__()
        self.field: Any = None

    def calculate(self, atoms: Atoms | None = None, properties: Sequence[str] = ("energy",),
                  system_changes: Sequence[str] = tuple(all_changes)):
        super().calculate(atoms, properties, system_changes)
        here: Any = self.atoms  # a copy
        if self.field is None:
            self.field = self.perceive(here)
        places = here.positions.ravel().tolist()
        unit = units.kcal / units.mol
        self.results = {"energy": self.field.CalcEnergy(places) * unit,
                        "forces": -np.reshape(self.field.CalcGrad(places), (-1, 3)) * unit}

    @staticmethod
    def perceive(atoms: Atoms) -> Any:
        from rdkit.Chem import rdDetermineBonds, rdForceFieldHelpers, rdmolfiles
        lines = [f"{atom.symbol} {atom.x} {atom.y} {atom.z}" for atom in atoms]
        molecule = rdmolfiles.MolFromXYZBlock("\n".join([f"{len(atoms)}", "", *lines]) + "\n")
        rdDetermineBonds.DetermineBonds(molecule)
        kinds = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule)
        return rdForceFieldHelpers.MMFFGetMoleculeForceField(molecule, kinds, ignoreInterfragInteractions=False)


class DensityFunctional(Calculator):
    """Energies of closed shells in B3LYP with def2-SVP by PySCF, each from a new guess, with density fitting."""

    implemented_properties = ["energy"]

    def calculate(self, atoms: Atoms | None = None, properties: Sequence[str] = ("energy",),
                  system_changes: Sequence[str] = tuple(all_changes)):
        from pyscf import dft, gto
        super().calculate(atoms, properties, system_changes)
        here: Any = self.atoms  # a copy
        molecule = gto.M(atom=list(zip(here.symbols, here.positions)), basis="def2-svp", verbose=0)
        field = dft.RKS(molecule, xc="b3lyp").density_fit()
        energy = field.kernel()
        if not field.converged:
            raise CalculationFailed("B3LYP: the self-consistent field does not converge")
        self.results = {"energy": float(energy) * units.Hartree}


POTENTIALS: dict[str, Callable[[], Calculator]] = {
    "MMFF94": ForceField, **{method: partial(make_tblite, method) for method in ("GFN1-xTB", "GFN2-xTB")},
    "ANI-1ccx": make_ani1ccx, "B3LYP": DensityFunctional}
