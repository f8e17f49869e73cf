"""Systems with a DrudeForce are refused, by all integrators and whatever the force is called."""

import openmm
import pytest
from openmm import XmlSerializer, app

from conftest import INTEGRATORS, REFERENCE, Waters, create, remove_forces
from openmmstiff import MassPenaltyLangevinIntegrator
from systems import add_residue



def polarizable_water(drudeMass=0.4):
    """The System of a water of SWM4-NDP: O, H, H, the virtual site M and the Drude particle of O."""
    topology = app.Topology()
    oxygen, *_ = add_residue(topology, "HOH", ["O", "H1", "H2"], [(0, 1), (0, 2)])
    for name in ("M", "OD"):
        topology.addAtom(name, None, oxygen.residue)
    return app.ForceField("swm4ndp.xml").createSystem(topology, rigidWater=False, drudeMass=drudeMass)


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_drude_particles_are_refused_with_a_remedy(cls):
    """And the integrator is free for another System afterwards."""
    integrator = create(cls)
    with pytest.raises(openmm.OpenMMException, match=f"{cls.__name__}: force .* is a DrudeForce.*Langevin"):
        openmm.Context(polarizable_water(), integrator, REFERENCE)
    Waters(1).context(integrator, REFERENCE)


def test_drude_particles_are_refused_by_the_type_of_the_force():
    """Neither its name, nor its group, nor massless particles, nor where it comes from, nor a compound matter."""
    system = polarizable_water(drudeMass=0)
    drude, = (force for force in system.getForces() if isinstance(force, openmm.DrudeForce))
    drude.setName("springs")
    drude.setForceGroup(5)
    integrator = create(MassPenaltyLangevinIntegrator)
    integrator.setIntegrationForceGroups({0})
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(openmm.VerletIntegrator(0.001))
    compound.addIntegrator(create(MassPenaltyLangevinIntegrator))
    copy = XmlSerializer.deserialize(XmlSerializer.serialize(system))
    for refused in (integrator, compound):
        with pytest.raises(openmm.OpenMMException, match="'springs', is a DrudeForce"):
            openmm.Context(copy, refused, REFERENCE)


def test_the_atoms_of_a_drude_model_are_not_refused():
    """What is refused is the force, not its name nor a light particle."""
    system = polarizable_water()
    remove_forces(system, openmm.DrudeForce)
    for force in system.getForces():
        force.setName("DrudeForce")
    openmm.Context(system, create(MassPenaltyLangevinIntegrator), REFERENCE)
