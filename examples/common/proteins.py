"""The villin headpiece of OpenMM's test.pdb, and alanine dipeptide, in vacuum or in water."""
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff.sampling import GAS_CONSTANT

from common.water import DENSITY, close_up

TEMPERATURE = 300.0      # K
KT = GAS_CONSTANT * TEMPERATURE
GROUPS = {"HarmonicBondForce": 1, "HarmonicAngleForce": 2, "PeriodicTorsionForce": 3}  # 0: everything else
ENERGIES = {"bonds": {1}, "angles": {2}, "torsions": {3}, "nonbonded": {0}}
IONS = ("CL", "NA")
VILLIN = 35     # residues
ALANINE = {  # alanine dipeptide without its hydrogens, Angstrom
    "ACE": (("CH3", 2.000, 2.090, 0), ("C", 3.427, 2.641, 0), ("O", 4.391, 1.877, 0)),
    "ALA": (("N", 3.555, 3.970, 0), ("CA", 4.853, 4.614, 0), ("CB", 5.661, 4.221, -1.232), ("C", 4.713, 6.129, 0),
            ("O", 3.601, 6.653, 0)),
    "NME": (("N", 5.846, 6.835, 0), ("C", 5.737, 8.286, 0)),
}
ALANINE_VOLUME = 0.2     # nm^3


def read_villin(solvent: str) -> app.Modeller:
    """The protein with its water and ions, or alone."""
    pdb = app.PDBFile(str(Path(app.__file__).parent / "data" / "test.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    if solvent == "vacuum":
        modeller.deleteWater()
        modeller.delete([residue for residue in modeller.topology.residues() if residue.name.upper() in IONS])
    return modeller


def cut_villin(residues: int) -> app.Modeller:
    """Its first residues, in vacuum; the nitrogen that follows becomes the oxygen that ends the chain."""
    modeller = read_villin("vacuum")
    every = list(modeller.topology.residues())
    nitrogen = next(atom for atom in every[residues].atoms() if atom.name == "N")
    end = modeller.positions[nitrogen.index].value_in_unit(unit.nanometer)
    modeller.delete(every[residues:])
    *_, last = modeller.topology.residues()
    oxygen = modeller.topology.addAtom("OXT", app.element.oxygen, last)
    modeller.topology.addBond(next(atom for atom in last.atoms() if atom.name == "C"), oxygen)
    modeller.positions = [*modeller.positions.value_in_unit(unit.nanometer), end] * unit.nanometer
    return modeller


def build_alanine(forcefield: app.ForceField) -> app.Modeller:
    """Alanine dipeptide with its hydrogens, in vacuum."""
    topology, positions = app.Topology(), []
    chain = topology.addChain()
    for name, atoms in ALANINE.items():
        residue = topology.addResidue(name, chain)
        for atom, *place in atoms:
            topology.addAtom(atom, app.Element.getBySymbol(atom[0]), residue)
            positions.append(mm.Vec3(*place) / 10)
    topology.createStandardBonds()
    modeller = app.Modeller(topology, positions * unit.nanometer)
    modeller.addHydrogens(forcefield)
    return modeller


def solvate_alanine(waters: int) -> app.Modeller:
    """Alanine dipeptide in a cube of TIP3P water."""
    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    modeller = build_alanine(forcefield)
    modeller.addSolvent(forcefield, model="tip3p", numAdded=waters)
    return close_up(modeller, (waters / DENSITY + ALANINE_VOLUME) ** (1 / 3))


def torsions(topology: app.Topology) -> dict[str, np.ndarray]:
    """Four atoms of each torsion by its kind: psi, chi1, and those of methyl groups, by one of their hydrogens."""
    bound: dict[app.topology.Atom, list[app.topology.Atom]] = {atom: [] for atom in topology.atoms()}
    for one, other in topology.bonds():
        bound[one].append(other)
        bound[other].append(one)
    found: dict[str, list[list[int]]] = {"psi": [], "chi1": [], "methyl": []}
    for atom, others in bound.items():
        hydrogens = [other for other in others if other.element is app.element.hydrogen]
        if len(hydrogens) == 3 and atom.element is app.element.carbon:
            middle = next(other for other in others if other not in hydrogens)
            end = next(other for other in bound[middle] if other is not atom)
            found["methyl"].append([hydrogens[0].index, atom.index, middle.index, end.index])
    for residue in topology.residues():
        at = {atom.name: atom for atom in residue.atoms()}
        if "CA" in at and "N" in at:
            following = [other for other in bound[at["C"]] if other.name == "N"]
            ends = [at[name] for name in ("CG", "CG1", "OG", "OG1", "SG") if name in at and residue.name != "PRO"]
            found["psi"] += [[at["N"].index, at["CA"].index, at["C"].index, other.index] for other in following]
            found["chi1"] += [[at["N"].index, at["CA"].index, at["CB"].index, other.index] for other in ends]
    return {kind: np.array(atoms) for kind, atoms in found.items() if atoms}


def build_protein(modeller: app.Modeller, solvent: str, constraints, rigid_water: bool = True,
                  hydrogen_mass: float | None = None, water: str = "tip3pfb") -> mm.System:
    """A System with its forces in the groups of GROUPS.

    Molecules of rigid water are no blocks, OpenMM's SETTLE holds them; the bonds and angles of flexible water are
    in the groups of the protein's. A mass of the hydrogens (dalton) is taken from the atoms they are bonded to.
    """
    method = {"nonbondedMethod": app.NoCutoff} if solvent == "vacuum" else {
        "nonbondedMethod": app.PME, "nonbondedCutoff": 0.9 * unit.nanometer}
    forcefield = app.ForceField("amber14-all.xml", f"amber14/{water}.xml")
    system = forcefield.createSystem(modeller.topology, constraints=constraints, rigidWater=rigid_water,
                                     hydrogenMass=hydrogen_mass, **method)
    for force in system.getForces():
        force.setForceGroup(GROUPS.get(force.getName(), 0))
    return system
