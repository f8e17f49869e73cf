"""HMMIntegrator as it is used from Python."""

import pytest
from conftest import CountingForce, positions_of
from openmmstiff import HMMIntegrator
from systems import external, system_of
from trials import bind

OMEGA = 1e6


def shaken_pendulum(platform, groups=None):
    """The paper's inverted pendulum: the x of a particle is the angle; its vibration is in group 1, gravity in 0."""
    integrator = HMMIntegrator(0.01, OMEGA)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(20)
    if groups:
        integrator.setVibratedForceGroups(groups)
    vibration = external("4*omega*cos(theta)/0.2*cos(x)", 0, theta=0, omega=OMEGA)
    vibration.setForceGroup(1)
    system = system_of([1], external("9.8/0.2*cos(x)", 0), vibration)
    counter = CountingForce(system)     # in neither group
    return bind(system, integrator, platform.getName(), [[0.5, 0, 0]]), counter


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
