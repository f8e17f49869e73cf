"""SpookIntegrator as it is used from Python."""

import numpy as np
import openmm
import pytest
import trials
from conftest import Waters, positions_of, velocities_of
from openmm import unit
from openmmstiff import SpookIntegrator
from systems import external, system_of


def pendulum(integrator, platform):
    """A mass of 1 dalton, 1 nm beside the massless particle that it hangs from; gravity is 1 nm/ps^2."""
    return trials.bind(system_of([1, 0], external("y", 0)), integrator, platform.getName(), [[1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("pin", [
    lambda integrator: integrator.addDistanceConstraint(0, 1, 1),
    lambda integrator: integrator.addDistanceConstraint(1, 0, 10*unit.angstroms),
    lambda integrator: integrator.addHolonomicConstraint([0, 1], "distance(p1,p2)-1"),
    lambda integrator: integrator.addHolonomicConstraint((0,), "sqrt(x1^2+y1^2+z1^2)-1"),
    lambda integrator: integrator.addHolonomicConstraint(np.array([0]), "sqrt(x1^2+y1^2+z1^2)-1")])
def test_ways_to_pin_a_pendulum(pin, platform):
    """All say the same; the multiplier is the tension."""
    integrator = SpookIntegrator(0.002)
    pin(integrator)
    context = pendulum(integrator, platform)
    integrator.step(1000)
    x, y, z = positions_of(context)[0]
    assert np.hypot(x, y) == pytest.approx(1, abs=1e-4) and z == 0
    # From the horizontal: v^2 = -2y, and the tension is v^2 - y = -3y.
    assert integrator.getMultipliers() == pytest.approx([3*y], rel=0.01)
    assert integrator.computeViolations() == pytest.approx([np.hypot(x, y) - 1], abs=1e-12)


def test_rigid_water_at_constant_temperature(platform):
    """The constraints of the System and a thermostat, as with any integrator."""
    system, positions = trials.waters(8, rigid=8)
    thermostat = openmm.AndersenThermostat(300, 20)
    thermostat.setRandomNumberSeed(2)
    system.addForce(thermostat)
    integrator = SpookIntegrator(1*unit.femtoseconds)
    integrator.setDamping(0.5*unit.femtoseconds)
    context = trials.bind(system, integrator, platform.getName(), positions, 300)
    integrator.step(1000)
    temperatures = []
    for _ in range(1000):
        integrator.step(10)
        temperatures.append(trials.temperature(context))
    assert np.mean(temperatures) == pytest.approx(300, abs=20)
    assert np.abs(integrator.computeViolations()).max() < 1e-3


def test_drawn_velocities_are_allowed_by_all_constraints(platform):
    integrator = SpookIntegrator(0.001)
    integrator.addDistanceConstraint(0, 3, 0.3)
    integrator.addVelocityConstraint([1], ["0", "1", "0"], "0.25")
    waters = Waters(3, rigid=True)
    context = waters.context(integrator, platform)
    positions, velocities = positions_of(context), velocities_of(context)
    along = positions[3] - positions[0]
    assert along @ (velocities[3] - velocities[0]) == pytest.approx(0, abs=1e-6)
    assert velocities[1, 1] == pytest.approx(0.25, abs=1e-6)


def test_numbers_are_expressions(platform):
    """They become texts of the same double, which C++ understands."""
    for number in (1e-05, -1/3, 7, np.float64(2e22)):
        integrator = SpookIntegrator(0.01)
        integrator.addVelocityConstraint(particles=[0], coefficients=[0, number, "0"], rate=0.3*number)
        _, texts, text, _ = integrator.getVelocityConstraintParameters(0)
        assert [float(each) for each in texts] == [0, number, 0] and float(text) == 0.3*number
        integrator.setVelocityCompliance(1e-20)
        context = pendulum(integrator, platform)
        integrator.step(1)
        assert velocities_of(context)[0] == pytest.approx([0, 0.3, 0], rel=1e-6)
    integrator.setVelocityConstraintParameters(0, [0], [1, "x1", 0], 3)
    assert integrator.getVelocityConstraintParameters(0)[1:3] == [["1.0", "x1", "0.0"], "3.0"]
    assert "rate : str or float" in SpookIntegrator.addVelocityConstraint.__doc__
    assert "coefficients : sequence of str or float" in SpookIntegrator.addVelocityConstraint.__doc__
