"""HMMIntegrator as it is used from Python."""

import numpy as np
import openmm
import pytest
from conftest import CountingForce, positions_of
from openmm import unit
from openmmstiff import HMMIntegrator

OMEGA = 1e6


def shaken_pendulum(integrator, platform):
    """The paper's inverted pendulum: the x of a particle is the angle; its vibration is in group 1, gravity in 0."""
    system = openmm.System()
    system.addParticle(1)
    for group, energy in enumerate(("9.8/0.2*cos(x)", "4*omega*cos(theta)/0.2*cos(x)")):
        force = openmm.CustomExternalForce(energy)
        force.setForceGroup(group)
        if group == 1:
            force.addGlobalParameter("theta", 0)
            force.addGlobalParameter("omega", OMEGA)
        force.addParticle(0)
        system.addForce(force)
    counter = CountingForce(system)
    context = openmm.Context(system, integrator, platform)
    context.setPositions([[0.5, 0, 0]])
    return context, counter


def test_vibration_holds_a_pendulum_upright(platform):
    """The energy of the averaged motion is kept, that of its effective potential."""
    integrator = HMMIntegrator(0.005*unit.picoseconds, OMEGA/unit.picosecond)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(80)
    context, _ = shaken_pendulum(integrator, platform)

    def energy():
        state = context.getState(velocities=True, energy=True)
        angle = positions_of(context)[0, 0]
        return state.getKineticEnergy()._value + 9.8/0.2*np.cos(angle) + (4*np.sin(angle)/0.2)**2/4

    start, angles = energy(), []
    for _ in range(400):
        integrator.step(1)
        angles.append(positions_of(context)[0, 0])
        assert energy() == pytest.approx(start, rel=0.005)
    assert max(angles) == pytest.approx(0.5, abs=0.01) and min(angles) == pytest.approx(-0.5, abs=0.01)


def test_slow_forces_are_evaluated_once_a_step(platform):
    integrator = HMMIntegrator(0.01, OMEGA)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(20)
    context, counter = shaken_pendulum(integrator, platform)    # the counting force is in neither group
    integrator.step(1)
    assert counter.count == 2       # at the first positions and at the new ones
    integrator.step(10)
    assert counter.count == 12
    assert integrator.computeNumMicroEvaluations() == 11


def test_groups_without_the_phase_can_be_vibrated_too(platform):
    ends = []
    for groups in (None, {1}, {0, 1}):
        integrator = HMMIntegrator(0.01, OMEGA)
        integrator.setFilter(HMMIntegrator.Simple)
        if groups:
            integrator.setVibratedForceGroups(groups)
        context, _ = shaken_pendulum(integrator, platform)
        integrator.step(20)
        ends.append(positions_of(context)[0, 0])
    assert ends[0] == ends[1]
    assert ends[2] == pytest.approx(ends[0], abs=1e-5)


def test_a_force_that_is_not_periodic_is_an_error(platform):
    integrator = HMMIntegrator(0.01, OMEGA)
    system = openmm.System()
    force = openmm.CustomExternalForce("theta*x")
    force.addGlobalParameter("theta", 0)
    force.addParticle(system.addParticle(1))
    system.addForce(force)
    context = openmm.Context(system, integrator, platform)
    context.setPositions([[0.5, 0, 0]])
    with pytest.raises(openmm.OpenMMException, match="HMMIntegrator.*period of 2 pi.*particle 0.*sin\\(theta\\)"):
        integrator.step(1)


def test_a_missing_phase_is_an_error_that_names_the_forces(platform):
    integrator = HMMIntegrator(0.01, OMEGA)
    integrator.setPhaseParameter("phi")
    with pytest.raises(openmm.OpenMMException, match="'phi', of 'CustomExternalForce'.*setPhaseParameter"):
        shaken_pendulum(integrator, platform)
