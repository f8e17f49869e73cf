"""SpookIntegrator as it is used from Python."""

import numpy as np
import openmm
import pytest
from conftest import Waters, positions_of
from openmm import unit
from openmmstiff import SpookIntegrator


def pendulum(integrator, platform):
    """A mass of 1 dalton, 1 nm beside the massless particle that it hangs from; gravity is 1 nm/ps^2."""
    system = openmm.System()
    system.addParticle(1)
    system.addParticle(0)
    gravity = openmm.CustomExternalForce("y")
    gravity.addParticle(0)
    system.addForce(gravity)
    context = openmm.Context(system, integrator, platform)
    context.setPositions([[1, 0, 0], [0, 0, 0]])
    return context


@pytest.mark.parametrize("pin", [
    lambda integrator: integrator.addDistanceConstraint(0, 1, 1),
    lambda integrator: integrator.addDistanceConstraint(1, 0, 10*unit.angstroms),
    lambda integrator: integrator.addHolonomicConstraint([0, 1], "distance(p1,p2)-1"),
    lambda integrator: integrator.addHolonomicConstraint((0,), "sqrt(x1^2+y1^2+z1^2)-1"),
    lambda integrator: integrator.addHolonomicConstraint(np.array([0]), "sqrt(x1^2+y1^2+z1^2)-1"),
])
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


def test_a_position_is_held(platform):
    integrator = SpookIntegrator(0.01)
    place = openmm.Vec3(0.9, 0.1, 0)*unit.nanometer
    integrator.addPositionConstraint(0, place)
    context = pendulum(integrator, platform)
    integrator.step(200)
    assert positions_of(context)[0] == pytest.approx([0.9, 0.1, 0], abs=1e-7)
    assert integrator.getMultipliers() == pytest.approx([0, 1, 0], abs=1e-6)


def test_a_velocity_is_prescribed(platform):
    integrator = SpookIntegrator(stepSize=0.01)
    integrator.addVelocityConstraint([0], ["1", "0", "0"], rate="0.5*t", compliance=1e-12)
    context = pendulum(integrator, platform)
    integrator.step(200)
    assert positions_of(context)[0, 0] == pytest.approx(2, rel=1e-9)    # the mean over each step is exact for 0.5 t


def test_rigid_water_at_constant_temperature(platform):
    """The constraints of the System, a thermostat and a reporter, as with any integrator."""
    waters = Waters(8, rigid=True)
    for index, force in reversed(list(enumerate(waters.system.getForces()))):
        if isinstance(force, openmm.CMMotionRemover):
            waters.system.removeForce(index)
    thermostat = openmm.AndersenThermostat(300, 20)
    thermostat.setRandomNumberSeed(2)
    waters.system.addForce(thermostat)
    well = openmm.CustomExternalForce("100*(x^2+y^2+z^2)")
    for particle in range(waters.system.getNumParticles()):
        well.addParticle(particle)
    waters.system.addForce(well)
    integrator = SpookIntegrator(1*unit.femtoseconds)
    integrator.setDamping(0.5*unit.femtoseconds)
    waters.positions -= waters.positions.mean(axis=0)
    simulation = waters.simulation(integrator, platform)
    temperatures = []

    class Reporter:
        def describeNextReport(self, simulation):
            return {"steps": 10, "periodic": None, "include": ["energy"]}

        def report(self, simulation, state):
            degrees = 6*8
            temperatures.append(2*state.getKineticEnergy()/(degrees*unit.MOLAR_GAS_CONSTANT_R)/unit.kelvin)

    simulation.step(1000)
    simulation.reporters.append(Reporter())
    simulation.step(10000)
    assert np.mean(temperatures) == pytest.approx(300, abs=20)
    assert np.abs(integrator.computeViolations()).max() < 1e-3


def test_drawn_velocities_are_allowed_by_all_constraints(platform):
    integrator = SpookIntegrator(0.001)
    integrator.addDistanceConstraint(0, 3, 0.3)
    integrator.addVelocityConstraint([1], ["0", "1", "0"], "0.25")
    waters = Waters(3, rigid=True)
    context = waters.context(integrator, platform)
    velocities = context.getState(getVelocities=True).getVelocities(asNumpy=True)._value
    along = positions_of(context)[3] - positions_of(context)[0]
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
        velocity = context.getState(velocities=True).getVelocities(asNumpy=True)._value[0]
        assert velocity == pytest.approx([0, 0.3, 0], rel=1e-6)
    integrator.setVelocityConstraintParameters(0, [0], [1, "x1", 0], 3)
    assert integrator.getVelocityConstraintParameters(0)[1:3] == [["1.0", "x1", "0.0"], "3.0"]
    assert "rate : str or float" in SpookIntegrator.addVelocityConstraint.__doc__
    assert "coefficients : sequence of str or float" in SpookIntegrator.addVelocityConstraint.__doc__


def test_energies_show_which_term_is_not_finite(platform):
    """They can be asked for where a step is impossible, one group at a time and with none."""
    integrator = SpookIntegrator(0.01)
    integrator.addDistanceConstraint(0, 1, 1)
    system = openmm.System()
    for _ in range(2):
        system.addParticle(1)
    for group, energy in enumerate(("x", "sqrt(-1-x)")):
        force = openmm.CustomExternalForce(energy)
        force.setForceGroup(group)
        force.addParticle(0)
        system.addForce(force)
    context = openmm.Context(system, integrator, platform)
    context.setPositions([[0.5, 0, 0], [1.5, 0, 0]])
    context.setVelocities([[0, 2, 0], [0, 0, 0]])
    for groups, expected in ((0, 0), ({0}, 0.5), ({1}, np.nan), ({0, 1}, np.nan)):
        state = context.getState(energy=True, groups=groups)
        assert state.getPotentialEnergy()._value == pytest.approx(expected, nan_ok=True)
        assert state.getKineticEnergy()._value == pytest.approx(2)
    with pytest.raises(openmm.OpenMMException, match="SpookIntegrator.*not finite"):
        integrator.step(1)


def test_mistakes_in_expressions_are_found_with_the_context(platform):
    integrator = SpookIntegrator(0.001)
    integrator.addHolonomicConstraint([0], "x1+speed")
    with pytest.raises(openmm.OpenMMException, match="holonomic constraint 0.*'x1\\+speed'.*no variable 'speed'"):
        pendulum(integrator, platform)
    integrator.setHolonomicConstraintParameters(0, [0], "x1-1")
    context = pendulum(integrator, platform)
    integrator.step(1)
    assert context.getStepCount() == 1
