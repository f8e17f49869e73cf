"""AMOEBA water: a droplet in a container, without a cutoff, or a periodic box with PME. Units are OpenMM's."""
import numpy as np
import openmm as mm
from openmm import app, unit

from common.runs import remove_forces
from common.water import WaterBox, build_box, nearest_waters

CUTOFF = 0.7               # nm, of PME and of the van der Waals forces
CONTAINER = 0.6, 1000.0    # nm and kJ/mol/nm^2: oxygens outside of a sphere are drawn back by a spring
POLARIZATION_TOLERANCE = 1e-5
NONBONDED, BONDED, OUTSIDE = 0, 1, 2  # groups: polarizable and van der Waals forces; bonds, angles; the container
ENERGIES = {"nonbonded": {NONBONDED}, "bonded": {BONDED}}
INNER_STEP = 0.5           # fs, of the bonded forces of MTSLangevinIntegrator


def build_droplet(waters: int) -> WaterBox:
    """The molecules nearest to the centre of a box of TIP3P, without the box and around the origin."""
    box = build_box(895)
    box.positions -= box.positions[::3].mean(axis=0)
    modeller = nearest_waters(box, waters, np.zeros(3))
    return WaterBox(modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer)))


def build_system(topology: app.Topology, polarization: str) -> mm.System:
    """In a periodic box with PME, else with a container and without a cutoff."""
    periodic = topology.getPeriodicBoxVectors() is not None
    method = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer,
              "vdwCutoff": CUTOFF * unit.nanometer} if periodic else {"nonbondedMethod": app.NoCutoff}
    system = app.ForceField("amoeba2018.xml").createSystem(
        topology, constraints=None, rigidWater=False, polarization=polarization,
        mutualInducedTargetEpsilon=POLARIZATION_TOLERANCE, removeCMMotion=periodic, **method)
    # One has no terms, and takes seconds to compile.
    remove_forces(system, lambda force: isinstance(force, mm.CustomCompoundBondForce))
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
