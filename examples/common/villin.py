"""The villin headpiece of OpenMM's test.pdb, in vacuum or in water."""
from pathlib import Path

import openmm as mm
from openmm import app, unit
from openmmstiff.sampling import GAS_CONSTANT

TEMPERATURE = 300.0      # K
KT = GAS_CONSTANT * TEMPERATURE
GROUPS = {"HarmonicBondForce": 1, "HarmonicAngleForce": 2, "PeriodicTorsionForce": 3}  # 0: everything else
ENERGIES = {"bonds": {1}, "angles": {2}, "torsions": {3}, "nonbonded": {0}}
IONS = ("CL", "NA")


def read_villin(solvent: str) -> app.Modeller:
    """The protein with its water and ions, or alone."""
    pdb = app.PDBFile(str(Path(app.__file__).parent / "data" / "test.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    if solvent == "vacuum":
        modeller.deleteWater()
        modeller.delete([residue for residue in modeller.topology.residues() if residue.name.upper() in IONS])
    return modeller


def build_villin(modeller: app.Modeller, solvent: str, constraints, rigid_water: bool = True,
                 hydrogen_mass: float | None = None) -> mm.System:
    """A System with its forces in the groups of GROUPS.

    Molecules of rigid water are no blocks, OpenMM's SETTLE holds them; the bonds and angles of flexible water are
    in the groups of the protein's. A mass of the hydrogens (dalton) is taken from the atoms they are bonded to.
    """
    method = {"nonbondedMethod": app.NoCutoff} if solvent == "vacuum" else {
        "nonbondedMethod": app.PME, "nonbondedCutoff": 0.9 * unit.nanometer}
    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")
    system = forcefield.createSystem(modeller.topology, constraints=constraints, rigidWater=rigid_water,
                                     hydrogenMass=hydrogen_mass, **method)
    for force in system.getForces():
        force.setForceGroup(GROUPS.get(force.getName(), 0))
    return system
