"""Penalties instead of constraints: springs, violations, multipliers."""

import io
from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import FEMTOSECONDS, Waters
from openmmstiff import (ConstraintPenalties, ImpulseIntegrator, MultiplierReporter, ZhangSkeelIntegrator,
                         penalizeConstraints)

PERIOD = 0.01  # ps


def rigid_waters(number=2):
    return Waters(number, rigid=True)


@pytest.mark.parametrize("form, kind, power", [
    ("squared", openmm.CustomBondForce, 2), ("linear", openmm.HarmonicBondForce, 1)])
def test_constraints_become_springs_of_a_period(form, kind, power):
    system = rigid_waters().system
    constraints = [system.getConstraintParameters(i) for i in range(system.getNumConstraints())]
    penalties = penalizeConstraints(system, PERIOD*unit.picosecond, form)
    assert system.getNumConstraints() == 0
    assert penalties.getNumConstraints() == len(constraints) == 6
    force = system.getForce(penalties.getForceIndex())
    assert isinstance(force, kind) and force.getName() == "ConstraintPenalties"
    for index, (i, j, distance) in enumerate(constraints):
        p1, p2, d, stiffness = penalties.getConstraintParameters(index)
        assert (p1, p2) == (i, j) and d == distance
        d = d.value_in_unit(unit.nanometer)
        mass1, mass2 = (system.getParticleMass(p).value_in_unit(unit.dalton) for p in (i, j))
        k = 1/(1/mass1 + 1/mass2)*(2*np.pi/PERIOD)**2
        assert stiffness == pytest.approx(k if power == 1 else k/(4*d**2), rel=1e-12)


def test_a_pair_vibrates_with_the_period():
    for form in ("squared", "linear"):
        system = openmm.System()
        for mass in (12, 1):
            system.addParticle(mass)
        system.addConstraint(0, 1, 0.1)
        penalizeConstraints(system, PERIOD, form)
        integrator = openmm.VerletIntegrator(PERIOD/1000)
        context = openmm.Context(system, integrator, openmm.Platform.getPlatform("Reference"))
        context.setPositions([[0, 0, 0], [0.1001, 0, 0]])
        integrator.step(1000)
        positions = context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)
        assert positions[1, 0] - positions[0, 0] == pytest.approx(0.1001, abs=2e-7)


@pytest.mark.parametrize("form", ["squared", "linear"])
def test_integrators_take_the_springs_by_themselves(form, platform):
    waters = rigid_waters()
    penalties = penalizeConstraints(waters.system, 0.004, form)
    integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
    context = waters.context(integrator, platform)
    context.setVelocitiesToTemperature(50, 1)
    integrator.step(200)
    lengths = np.array([penalties.getConstraintParameters(i)[2].value_in_unit(unit.nanometer) for i in range(6)])
    assert np.abs(penalties.computeViolations(context)/lengths).max() < 0.02


def test_impulse_integrators_take_the_linear_form_only():
    for form in ("linear", "squared"):
        system = rigid_waters().system
        penalizeConstraints(system, PERIOD, form)
        integrator = ImpulseIntegrator(1*FEMTOSECONDS)
        if form == "linear":
            openmm.Context(system, integrator, openmm.Platform.getPlatform("Reference"))
        else:
            with pytest.raises(openmm.OpenMMException, match="ConstraintPenalties.*form Linear"):
                openmm.Context(system, integrator, openmm.Platform.getPlatform("Reference"))


def pendulum(period=None):
    """A plane pendulum of length 1, begun at rest at an angle of 60 degrees; and its angle's equation of motion."""
    system = openmm.System()
    for mass in (1e9, 1.0):
        system.addParticle(mass)
    system.addConstraint(0, 1, 1.0)
    gravity = openmm.CustomExternalForce("9.8*y")
    gravity.addParticle(1)
    system.addForce(gravity)
    penalties = None if period is None else penalizeConstraints(system, period)
    return system, penalties


def test_window_averages_are_the_multipliers():
    """lambda grad g is the pull of the thread: 2 lambda L = m (g cos(phi) + L phi'^2), with the sign of a pull."""
    system, penalties = pendulum(0.05)
    topology = app.Topology()
    residue = topology.addResidue("PEN", topology.addChain())
    for name in ("A", "B"):
        topology.addAtom(name, app.Element.getBySymbol("C"), residue)
    integrator = ZhangSkeelIntegrator(0.005)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatform("Reference"))
    start = np.radians(60)
    simulation.context.setPositions([[0, 0, 0], [np.sin(start), -np.cos(start), 0]])
    text = io.StringIO()
    reporter = MultiplierReporter(penalties, 40, text)
    simulation.reporters.append(reporter)
    simulation.step(400)
    assert len(reporter.times) == 10 and reporter.times[0] == pytest.approx(0.2)
    lines = text.getvalue().splitlines()
    assert lines[0] == "time (ps),largest violation,lambda 0-1" and len(lines) == 11
    # energy: L phi'^2 / 2 = g (cos(phi) - cos(start)), so that the pull is g (3 cos(phi) - 2 cos(start))
    phi, rate, step = start, 0.0, 1e-4
    expected = []
    for _ in range(10):
        pull = 0.0
        for _ in range(2000):
            rate -= 0.5*step*9.8*np.sin(phi)
            phi += step*rate
            rate -= 0.5*step*9.8*np.sin(phi)
            pull += 9.8*(3*np.cos(phi) - 2*np.cos(start))/2000
        expected.append(-pull/2)
    found = np.array(reporter.multipliers)[:, 0]
    assert np.abs(found/expected - 1).max() < 0.05
    assert all(0 < violation.max() < 0.01 for violation in reporter.violations)


def run_pendulum(reporter, penalties, system, steps, checkpoint=None):
    topology = app.Topology()
    residue = topology.addResidue("PEN", topology.addChain())
    for name in ("A", "B"):
        topology.addAtom(name, app.element.carbon, residue)
    simulation = app.Simulation(topology, system, ZhangSkeelIntegrator(0.005),
                                openmm.Platform.getPlatform("Reference"))
    simulation.context.setPositions([[0, 0, 0], [np.sin(1), -np.cos(1), 0]])
    if checkpoint is not None:
        simulation.context.loadCheckpoint(checkpoint)
    simulation.reporters.append(reporter)
    simulation.step(steps)
    return simulation.context.createCheckpoint()


@pytest.mark.parametrize("kind", [str, Path, open], ids=["str", "Path", "file"])
def test_a_resumed_run_appends_to_its_file(kind, tmp_path):
    """With append=True what the file holds is kept, and the table has one head; without it a file begins anew."""
    path = tmp_path/"multipliers.csv"
    system, penalties = pendulum(0.05)

    def reporter(append):
        file = path.open("a" if append else "w") if kind is open else kind(path)
        return MultiplierReporter(penalties, 40, file, append=append)

    checkpoint = run_pendulum(reporter(False), penalties, system, 80)
    run_pendulum(reporter(True), penalties, system, 80, checkpoint)
    head, *lines = path.read_text().splitlines()
    assert head.startswith("time (ps),")
    assert [float(line.split(",")[0]) for line in lines] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    run_pendulum(reporter(False), penalties, system, 40)
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("name, value, error, message", [
    ("penalties", None, TypeError, "penalties must be an object of class ConstraintPenalties, not None"),
    ("reportInterval", 2.5, TypeError, "reportInterval must be an integer, not 2.5"),
    ("sampleInterval", "2", TypeError, "sampleInterval must be an integer, not '2'"),
    ("sampleInterval", 0, ValueError, "both must be positive"),
    ("file", 3, TypeError, "file must be a path or an open file, not 3"),
    ("append", "a", TypeError, "append must be True or False, not 'a'")])
def test_arguments_of_the_reporter_are_checked(name, value, error, message):
    arguments = {"penalties": penalizeConstraints(rigid_waters().system, PERIOD), "reportInterval": 10, name: value}
    with pytest.raises(error, match=message):
        MultiplierReporter(**arguments)


@pytest.mark.parametrize("system, form, message", [
    (None, "squared", "system must be an object of class System, not None"),
    ("system", "squared", "system must be an object of class System"),
    (openmm.System(), ["squared"], "form must be one of 'squared', 'linear'"),
    (openmm.System(), 3*unit.kelvin, "form must be one of 'squared', 'linear'")])
def test_arguments_are_checked(system, form, message):
    with pytest.raises((TypeError, ValueError), match=message):
        penalizeConstraints(system, PERIOD, form)


def test_violations_need_a_context():
    penalties = penalizeConstraints(rigid_waters().system, PERIOD)
    with pytest.raises(TypeError, match="context must be an object of class Context, not None"):
        penalties.computeViolations(None)


@pytest.mark.parametrize("form", ["squared", "linear"])
def test_a_context_of_another_system_is_an_error(form):
    """Whether it has fewer particles, as many with other springs, or no springs; not if other forces are removed."""
    waters = rigid_waters(2)
    first = waters.system.addForce(openmm.CMMotionRemover())
    penalties = penalizeConstraints(waters.system, PERIOD, form)
    waters.system.removeForce(first)
    platform = openmm.Platform.getPlatform("Reference")
    own = waters.context(openmm.VerletIntegrator(0.0005), platform)
    assert np.abs(penalties.computeViolations(own)).max() < 1e-3
    softer, fewer, other = rigid_waters(2), rigid_waters(1), rigid_waters(2)
    penalizeConstraints(softer.system, 2*PERIOD, form)
    penalizeConstraints(fewer.system, PERIOD, form)
    penalizeConstraints(other.system, PERIOD, "linear" if form == "squared" else "squared")
    for each in (softer, fewer, other, rigid_waters(2)):
        context = each.context(openmm.VerletIntegrator(0.0005), platform)
        for compute in (penalties.computeViolations, penalties.computeMultipliers):
            with pytest.raises(openmm.OpenMMException, match="ConstraintPenalties: .*another System.*these 6 springs"):
                compute(context)


def test_errors_say_what_to_do():
    system, _ = pendulum()
    with pytest.raises(ValueError, match="'squared', 'linear', not 'cubic'"):
        penalizeConstraints(system, 0.1, "cubic")
    with pytest.raises(openmm.OpenMMException, match="ConstraintPenalties: the period must be .* number, not 0"):
        penalizeConstraints(system, 0)
    with pytest.raises(TypeError, match="period must be a quantity in picosecond"):
        penalizeConstraints(system, 1*unit.nanometer)
    penalties = penalizeConstraints(system, 0.1)
    with pytest.raises(openmm.OpenMMException, match="no constraints to replace"):
        penalizeConstraints(system, 0.1)
    with pytest.raises(openmm.OpenMMException, match="there is no constraint 1. There are 1, from 0 to 0$"):
        penalties.getConstraintParameters(1)
    with pytest.raises(ValueError, match="multiple of sampleInterval"):
        MultiplierReporter(penalties, 10, sampleInterval=3)
    assert ConstraintPenalties.__doc__ and penalizeConstraints.__doc__
