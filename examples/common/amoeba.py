"""AMOEBA water: a droplet in a container, without a cutoff, or a periodic box with PME. Units are OpenMM's."""
import numpy as np
import openmm as mm
from openmm import app, unit

from common.water import WaterBox, build_box

CUTOFF = 0.7               # nm, of PME and of the van der Waals forces
CONTAINER = 0.6, 1000.0    # nm and kJ/mol/nm^2: oxygens outside of a sphere are drawn back by a spring
POLARIZATION_TOLERANCE = 1e-5
NONBONDED, BONDED, OUTSIDE = 0, 1, 2  # groups: polarizable and van der Waals forces; bonds, angles; the container
ENERGIES = {"nonbonded": {NONBONDED}, "bonded": {BONDED}}
INNER_STEP = 0.5           # fs, of the bonded forces of MTSLangevinIntegrator


def build_droplet(waters: int) -> WaterBox:
    """The molecules nearest to the centre of a box of TIP3P, without the box and around the origin."""
    box = build_box(895)
    molecules = box.positions.reshape(-1, 3, 3)
    molecules = molecules - molecules[:, 0].mean(axis=0)
    nearest = set(np.argsort(np.linalg.norm(molecules[:, 0], axis=1))[:waters].tolist())
    modeller = app.Modeller(box.topology, molecules.reshape(-1, 3) * unit.nanometer)
    modeller.delete([residue for residue in box.topology.residues() if residue.index not in nearest])
    modeller.topology.setPeriodicBoxVectors(None)
    return WaterBox(modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer)))


def build_system(topology: app.Topology, polarization: str) -> mm.System:
    """In a periodic box with PME, else with a container and without a cutoff."""
    periodic = topology.getPeriodicBoxVectors() is not None
    method = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer,
              "vdwCutoff": CUTOFF * unit.nanometer} if periodic else {"nonbondedMethod": app.NoCutoff}
    system = app.ForceField("amoeba2018.xml").createSystem(
        topology, constraints=None, rigidWater=False, polarization=polarization,
        mutualInducedTargetEpsilon=POLARIZATION_TOLERANCE, removeCMMotion=periodic, **method)
    for index in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(index), mm.CustomCompoundBondForce):  # has no terms, and takes seconds to compile
            system.removeForce(index)
    for force in system.getForces():
        nonbonded = isinstance(force, (mm.AmoebaMultipoleForce, mm.AmoebaVdwForce))
        force.setForceGroup(NONBONDED if nonbonded else BONDED)
    if not periodic:
        container = mm.CustomExternalForce("k/2*max(0, sqrt(x^2+y^2+z^2)-radius)^2")
        for name, value in zip(("radius", "k"), CONTAINER):
            container.addGlobalParameter(name, value)
        for atom in topology.atoms():
            if atom.element is app.element.oxygen:
                container.addParticle(atom.index)
        container.setForceGroup(OUTSIDE)
        system.addForce(container)
    return system


def mts_langevin(temperature: float, friction: float, step: float) -> mm.Integrator:
    """OpenMM's r-RESPA: the expensive forces once a step, the others in inner steps."""
    inner = round(1000 * step / INNER_STEP)
    return mm.MTSLangevinIntegrator(temperature, friction, step, [(NONBONDED, 1), (BONDED, inner), (OUTSIDE, inner)])
