"""Penalties instead of constraints: springs, violations, multipliers."""

import copy
import io
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import FEMTOSECONDS, REFERENCE, Waters, positions_of
from openmmstiff import ImpulseIntegrator, MultiplierReporter, ZhangSkeelIntegrator, penalizeConstraints
from systems import external, molecule, system_of
from trials import bind

PERIOD = 0.01  # ps
each_form = pytest.mark.parametrize("form", ["squared", "linear"])


def rigid_waters(number=2):
    return Waters(number, rigid=True)


@each_form
def test_constraints_become_springs_of_a_period(form):
    system = rigid_waters().system
    constraints = [system.getConstraintParameters(i) for i in range(system.getNumConstraints())]
    penalties = penalizeConstraints(system, PERIOD*unit.picosecond, form)
    assert system.getNumConstraints() == 0
    assert penalties.getNumConstraints() == len(constraints) == 6
    force = system.getForce(penalties.getForceIndex())
    assert isinstance(force, openmm.CustomBondForce if form == "squared" else openmm.HarmonicBondForce)
    assert force.getName() == "ConstraintPenalties"
    for index, (i, j, distance) in enumerate(constraints):
        p1, p2, d, stiffness = penalties.getConstraintParameters(index)
        assert (p1, p2) == (i, j) and d == distance
        d = d.value_in_unit(unit.nanometer)
        mass1, mass2 = (system.getParticleMass(p).value_in_unit(unit.dalton) for p in (i, j))
        k = 1/(1/mass1 + 1/mass2)*(2*np.pi/PERIOD)**2
        assert stiffness == pytest.approx(k if form == "linear" else k/(4*d**2), rel=1e-12)


@each_form
def test_a_pair_vibrates_with_the_period(form):
    system = system_of([12, 1], constraints=[(0, 1, 0.1)])
    penalizeConstraints(system, PERIOD, form)
    context = bind(system, openmm.VerletIntegrator(PERIOD/1000), "Reference", [[0, 0, 0], [0.1001, 0, 0]])
    context.getIntegrator().step(1000)
    assert np.diff(positions_of(context)[:, 0]) == pytest.approx(0.1001, abs=2e-7)


@each_form
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
    linear, squared = rigid_waters().system, rigid_waters().system
    penalizeConstraints(linear, PERIOD, "linear")
    penalizeConstraints(squared, PERIOD, "squared")
    openmm.Context(linear, ImpulseIntegrator(1*FEMTOSECONDS), REFERENCE)
    with pytest.raises(openmm.OpenMMException, match="ConstraintPenalties.*form Linear"):
        openmm.Context(squared, ImpulseIntegrator(1*FEMTOSECONDS), REFERENCE)


def pendulum(period=None):
    """A plane pendulum of length 1: (System, penalties)."""
    system = system_of([1e9, 1], external("9.8*y", 1), constraints=[(0, 1, 1)])
    penalties = None if period is None else penalizeConstraints(system, period)
    return system, penalties


def run_pendulum(reporter, system, steps, start=1.0, checkpoint=None, before=0):
    """From rest at an angle, or from a checkpoint, with so many steps before the reporter; returns a checkpoint."""
    simulation = app.Simulation(molecule("CC", []), system, ZhangSkeelIntegrator(0.005), REFERENCE)
    simulation.context.setPositions([[0, 0, 0], [np.sin(start), -np.cos(start), 0]])
    if checkpoint is not None:
        simulation.context.loadCheckpoint(checkpoint)
    simulation.step(before)
    simulation.reporters.append(reporter)
    simulation.step(steps)
    return simulation.context.createCheckpoint()


def test_window_averages_are_the_multipliers():
    """lambda grad g is the pull of the thread: 2 lambda L = m (g cos(phi) + L phi'^2), with the sign of a pull."""
    system, penalties = pendulum(0.05)
    text, start = io.StringIO(), np.radians(60)
    reporter = MultiplierReporter(penalties, 40, text)
    run_pendulum(reporter, system, 400, start)
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
    # Of a single sample it is -w^2 g, and of a window the mean of its samples.
    steps = MultiplierReporter(penalties, 1)
    run_pendulum(steps, system, 400, start)
    stiffness = penalties.getConstraintParameters(0)[3]
    single = np.reshape(steps.multipliers, (10, 40))
    assert np.abs(single) == pytest.approx(stiffness*np.reshape(steps.violations, (10, 40)), rel=1e-12)
    assert single.mean(axis=1) == pytest.approx(found, rel=1e-12)
    assert all(0 < violation.max() < 0.01 for violation in reporter.violations)


def test_samples_are_taken_at_multiples_of_their_interval():
    """As OpenMM's reporters do, whenever they are added: at the steps 4, 6 and so on of 0.005 ps, two a window."""
    system, penalties = pendulum(0.05)
    reporter = MultiplierReporter(penalties, 4, sampleInterval=2)
    run_pendulum(reporter, system, 12, before=3)
    assert reporter.times == pytest.approx([0.03, 0.05, 0.07])


def test_late_times_are_written_in_full():
    system, penalties = pendulum(0.05)
    text, context = io.StringIO(), openmm.Context(system, openmm.VerletIntegrator(0.001), REFERENCE)
    context.setPositions([[0, 0, 0], [1, 0, 0]])
    context.setTime(123456.75)
    MultiplierReporter(penalties, 1, text).report(SimpleNamespace(context=context), None)
    assert text.getvalue().splitlines()[1].startswith("123456.75,")


@pytest.mark.parametrize("kind", [str, Path, open], ids=["str", "Path", "file"])
def test_a_resumed_run_appends_to_its_file(kind, tmp_path):
    """With append=True what the file holds is kept, and the table has one head; without it a file begins anew."""
    path = tmp_path/"multipliers.csv"
    system, penalties = pendulum(0.05)

    def reporter(append):
        file = path.open("a" if append else "w") if kind is open else kind(path)
        return MultiplierReporter(penalties, 40, file, append=append)

    checkpoint = run_pendulum(reporter(False), system, 80)
    run_pendulum(reporter(True), system, 80, checkpoint=checkpoint)
    head, *lines = path.read_text().splitlines()
    assert head.startswith("time (ps),")
    assert [float(line.split(",")[0]) for line in lines] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    run_pendulum(reporter(False), system, 40)
    assert len(path.read_text().splitlines()) == 2


def reporter(penalties, **changes):
    return MultiplierReporter(**{"penalties": penalties, "reportInterval": 10, **changes})


@pytest.mark.parametrize("call, error, message", [
    (lambda each: reporter(None), TypeError, "penalties must be an object of class ConstraintPenalties, not None"),
    (lambda each: reporter(each, reportInterval=2.5), TypeError, "reportInterval must be an integer, not 2.5"),
    (lambda each: reporter(each, sampleInterval="2"), TypeError, "sampleInterval must be an integer, not '2'"),
    (lambda each: reporter(each, sampleInterval=0), ValueError, "both must be positive"),
    (lambda each: reporter(each, sampleInterval=3), ValueError, "multiple of sampleInterval"),
    (lambda each: reporter(each, file=3), TypeError, "file must be a path or an open file, not 3"),
    (lambda each: reporter(each, file="/no folder/x"), FileNotFoundError, "/no folder/x"),
    (lambda each: reporter(each, append="a"), TypeError, "append must be True or False, not 'a'"),
    (lambda each: penalizeConstraints(None, 1), TypeError, "system must be an object of class System, not None"),
    (lambda each: penalizeConstraints("system", 1), TypeError, "system must be an object of class System"),
    *((lambda each, form=form: penalizeConstraints(openmm.System(), 1, form), (TypeError, ValueError),
       "form must be one of 'squared', 'linear'") for form in (["squared"], 3*unit.kelvin)),
    (lambda each: penalizeConstraints(pendulum()[0], 1, "cubic"), ValueError, "'squared', 'linear', not 'cubic'"),
    (lambda each: penalizeConstraints(pendulum()[0], 0), openmm.OpenMMException,
     "ConstraintPenalties: the period must be .* number, not 0"),
    (lambda each: penalizeConstraints(pendulum()[0], 1*unit.nanometer), TypeError,
     "period must be a quantity in picosecond"),
    (lambda each: penalizeConstraints(pendulum(0.1)[0], 0.1), openmm.OpenMMException, "no constraints to replace"),
    (lambda each: penalizeConstraints(system_of([1, 1], constraints=[(0, 1, 0)]), 0.1), openmm.OpenMMException,
     "constraint 0, between particles 0 and 1, has the distance 0.*form Linear"),
    (pickle.dumps, TypeError, "keep the XML of the System from before penalizeConstraints"),
    (lambda each: each.getConstraintParameters(1), openmm.OpenMMException,
     "there is no constraint 1. There are 1, from 0 to 0$"),
    (lambda each: each.computeViolations(None), TypeError, "context must be an object of class Context, not None")])
@pytest.mark.filterwarnings("error")    # as of an error in __del__()
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call(pendulum(0.1)[1])


def test_a_copy_is_the_same_as_nothing_of_it_changes():
    penalties = pendulum(0.1)[1]
    assert copy.deepcopy([penalties])[0] is copy.copy(penalties) is penalties


@each_form
def test_a_context_of_another_system_is_an_error(form):
    """Whether it has fewer particles, as many with other springs, or no springs; not if other forces are removed."""
    waters = rigid_waters(2)
    first = waters.system.addForce(openmm.CMMotionRemover())
    penalties = penalizeConstraints(waters.system, PERIOD, form)
    waters.system.removeForce(first)
    own = waters.context(openmm.VerletIntegrator(0.0005), REFERENCE)
    assert np.abs(penalties.computeViolations(own)).max() < 1e-3
    softer, fewer, other = rigid_waters(2), rigid_waters(1), rigid_waters(2)
    penalizeConstraints(softer.system, 2*PERIOD, form)
    penalizeConstraints(fewer.system, PERIOD, form)
    penalizeConstraints(other.system, PERIOD, "linear" if form == "squared" else "squared")
    for each in (softer, fewer, other, rigid_waters(2)):
        context = each.context(openmm.VerletIntegrator(0.0005), REFERENCE)
        for compute in (penalties.computeViolations, penalties.computeMultipliers):
            with pytest.raises(openmm.OpenMMException, match="ConstraintPenalties: .*another System.*these 6 springs"):
                compute(context)
