"""HMMIntegrator as it is used from Python."""

import openmm
import pytest
from conftest import CountingForce, positions_of
from openmmstiff import HMMIntegrator

OMEGA = 1e6


def shaken_pendulum(platform, groups=None):
    """The paper's inverted pendulum: the x of a particle is the angle; its vibration is in group 1, gravity in 0."""
    integrator = HMMIntegrator(0.01, OMEGA)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(20)
    if groups:
        integrator.setVibratedForceGroups(groups)
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
    counter = CountingForce(system)     # in neither group
    context = openmm.Context(system, integrator, platform)
    context.setPositions([[0.5, 0, 0]])
    return context, counter


def test_slow_forces_are_evaluated_once_a_step(platform):
    context, counter = shaken_pendulum(platform)
    integrator = context.getIntegrator()
    integrator.step(1)
    assert counter.count == 2       # at the first positions and at the new ones
    integrator.step(10)
    assert counter.count == 12
    assert integrator.computeNumMicroEvaluations() == 11


def test_groups_without_the_phase_can_be_vibrated_too(platform):
    ends = []
    for groups in (None, {1}, {0, 1}):
        context, _ = shaken_pendulum(platform, groups)
        context.getIntegrator().step(20)
        ends.append(positions_of(context)[0, 0])
    assert ends[0] == ends[1]
    assert ends[2] == pytest.approx(ends[0], abs=1e-5)
