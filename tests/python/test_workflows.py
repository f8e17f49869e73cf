"""What users do with a run: changes in its middle, other integrators' States, compounds, Contexts that come and go.

The kinetic temperature stays near 300 K over the next 50 steps.
"""
import contextlib
import functools
import gc
import itertools

import numpy as np
import openmm
import pytest
from openmm import LocalEnergyMinimizer, XmlSerializer

import api
import openmmstiff
from trials import (INTEGRATORS, NATIVE, Refused, attempt, bind, create, judge, snapshot, steps, temperature, unchanged,
                    waters)

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore::UserWarning")]
for_each = pytest.mark.parametrize("name", INTEGRATORS)
FACTOR = 2.5
OTHERS = [*INTEGRATORS, *NATIVE]


def parameters(context):
    force = context.getSystem().getForce(0)
    for bond in range(force.getNumBonds()):
        i, j, length, k = force.getBondParameters(bond)
        force.setBondParameters(bond, i, j, length, 1.1*k)
    force.updateParametersInContext(context)


def other_state(name, **parts):
    """Loads the State of an integrator that has run on the same System."""
    def load(context):
        platform = context.getPlatform().getName()
        other = bind(context.getSystem(), create(name), platform, snapshot(context)[0], 300)
        other.getIntegrator().step(20)
        state = other.getState(positions=True, velocities=True, parameters=True, **parts)
        attempt(context.setState, XmlSerializer.clone(state))
    return load


def one_force_group(context):
    for force in context.getSystem().getForces():
        force.setForceGroup(5)
    context.reinitialize(True)


def back_and_forth(context):
    state = context.getState(positions=True, velocities=True)
    context._integrator.step(20)
    context.setState(state)


WORKFLOWS = {  # what is done with the Context, or a method of the integrator with its argument
    "step size halved": ("setStepSize", 0.0005),
    "step size doubled": ("setStepSize", 0.002),
    "force groups": ("setIntegrationForceGroups", {0, 1, 2, 3}),
    "stiff force groups": ("setStiffForceGroups", {1}),
    "reinitialize() with other force groups": one_force_group,
    "bond parameters": parameters,
    "global parameter": lambda context: context.setParameter("well", 40),
    "box": lambda context: context.setPeriodicBoxVectors((3, 0, 0), (0.5, 3, 0), (0, 0.5, 3)),
    "temperature": ("setTemperature", 350),
    "friction": ("setFriction", 50),
    "no friction": ("setFriction", 0),
    "seed": ("setRandomNumberSeed", 7),
    "constraint tolerance": ("setConstraintTolerance", 1e-8),
    "setVelocitiesToTemperature()": lambda context: context.setVelocitiesToTemperature(300, 3),
    "setVelocities() of a Boltzmann law": lambda context: context.setVelocities(
        np.random.default_rng(1).normal(size=(context.getSystem().getNumParticles(), 3))
        * np.sqrt([[2.494/context.getSystem().getParticleMass(i)._value]
                   for i in range(context.getSystem().getNumParticles())])),
    "setPositions() of the same": lambda context: context.setPositions(snapshot(context)[0]),
    "translation": lambda context: context.setPositions(snapshot(context)[0] + [0.1, 0, 0]),
    "minimizer": lambda context: LocalEnergyMinimizer.minimize(context, 10, 20),
    "velocities, then minimizer": lambda context: (context.setVelocitiesToTemperature(300, 3),
                                                   LocalEnergyMinimizer.minimize(context, 10, 20)),
    "minimizer, then velocities": lambda context: (LocalEnergyMinimizer.minimize(context, 10, 20),
                                                   context.setVelocitiesToTemperature(300, 3)),
    **{f"State of {name}": other_state(name) for name in OTHERS},
    **{f"State of {name} with what it has itself": other_state(name, integratorParameters=True) for name in OTHERS},
    "its own State": back_and_forth,
    "applyConstraints()": lambda context: (context.applyConstraints(1e-6), context.applyVelocityConstraints(1e-6)),
    "time and step count": lambda context: (context.setTime(0), context.setStepCount(0)),
}


def trial(name, change, rigid, platform):
    system, positions = waters(12, rigid)
    context = bind(system, create(name), platform, positions, 300)
    steps(context, 20)
    before = snapshot(context)
    try:
        change(context) if callable(change) else getattr(context._integrator, change[0])(change[1])
    except Refused as error:
        unchanged(context, before, f"what was refused ({error})")
        steps(context, 1)
        raise
    temperatures = []
    for _ in range(50):
        steps(context, 1)
        temperatures.append(temperature(context))
    mean, is_bath = np.mean(temperatures), hasattr(getattr(openmmstiff, name), "setFriction")
    assert mean < FACTOR*300 and (mean > 300/FACTOR or not is_bath), (
        f"{mean:.3g} K over the next 50 steps, from {temperatures[0]:.3g} to {temperatures[-1]:.3g}")


@for_each
def test_changes_in_mid_run(name, platform):
    where = platform.getName()
    judge(((f"{name}: {what}, {'rigid' if rigid else 'flexible'} waters, {where}",
            functools.partial(trial, name, change, rigid, where), "itself" not in what)
           for (what, change), rigid in itertools.product(WORKFLOWS.items(), (0, 12))
           if callable(change) or hasattr(getattr(openmmstiff, name), change[0])), share=0.4)


def rigid_waters(name, platform):
    """A Context after some steps, its System, and its first constraint."""
    system, positions = waters(3, rigid=3)
    context = bind(system, create(name), platform.getName(), positions, 300)
    steps(context, 5)
    return context, system, system.getConstraintParameters(0)


@for_each
def test_reinitialize_keeps_the_state_where_constraints_have_changed(name, platform):
    context, system, _ = rigid_waters(name, platform)
    before = snapshot(context)
    system.removeConstraint(0)
    context.reinitialize(True)
    unchanged(context, before, "reinitialize()")
    steps(context, 5)


@for_each
def test_constraints_have_other_lengths_by_reinitialize_alone(name, platform):
    """As with OpenMM's integrators, though a setting has changed since. (SPOOK's are soft.)"""
    context, system, (i, j, length) = rigid_waters(name, platform)
    integrator = context.getIntegrator()
    system.setConstraintParameters(0, i, j, 1.02*length)
    integrator.setStepSize(0.9*integrator.getStepSize())
    if name == "SpookIntegrator":
        integrator.setCompliance(2e-8)
    for expected in 1, 1.02:
        steps(context, 20)
        positions = snapshot(context)[0]
        assert abs(np.linalg.norm(positions[i] - positions[j])/length._value - expected) < 4e-3
        context.reinitialize(True)


@for_each
def test_a_new_particle_is_no_damaged_checkpoint(name, platform):
    """It has no position that could be kept; OpenMM's own integrators go on with what is in memory, such as nan."""
    context, system, _ = rigid_waters(name, platform)
    positions = snapshot(context)[0]
    system.addParticle(12)
    system.getForce(2).addParticle(0, 0.3, 0.5)
    with pytest.raises(openmm.OpenMMException, match=f"{name}: the System has 10 particles, the Context 9"):
        context.reinitialize(True)
    context.reinitialize()
    context.setPositions([*positions, [1, 1, 1]])
    steps(context, 5)


@for_each
def test_forces_on_massless_particles_need_not_be_finite(name, platform):
    """Nothing follows them, such as two frozen atoms in one place."""
    system, positions = waters(3, rigid=3)
    frozen = [system.addParticle(0) for _ in range(2)]
    for _ in frozen:
        system.getForce(2).addParticle(0, 0.3, 0)
    force = openmm.CustomBondForce("1/r")
    force.addBond(*frozen)
    system.addForce(force)
    context = bind(system, create(name), platform.getName(), [*positions, *2*[[1, 1, 1]]], 300)
    steps(context, 5, finite_energy=False)


def compound(name, other, alternating, platform):
    """Velocities of setVelocitiesToTemperature() and of another integrator are taken over at their temperature."""
    (system, positions), pair = waters(8, rigid=0), openmm.CompoundIntegrator()
    for each in name, other:
        pair.addIntegrator(create(each))
    context = bind(system, pair, platform, positions)
    for first, second in ((0, 1), (1, 0)):
        pair.setCurrentIntegrator(first)
        context.setVelocitiesToTemperature(300, 1)
        for round_ in range(3 if alternating else 1):
            pair.setCurrentIntegrator(second if round_ % 2 else first)
            steps(context, 5)
            assert temperature(context) < 3*300, f"{temperature(context):.3g} K by {pair.getCurrentIntegrator()}"


@for_each
def test_compounds(name, platform):
    where = platform.getName()
    judge((f"{name}: CompoundIntegrator with {other}, {'alternating' if alternating else 'velocities set'}, {where}",
           functools.partial(compound, name, other, alternating, where), True)
          for other, alternating in itertools.product(OTHERS, (False, True)))


@for_each
def test_contexts_come_and_go(name, platform):
    """What is asked for before there is a Context, with it, and when it has gone, is told or refused."""
    integrator, (system, positions), where = create(name), waters(), platform.getName()
    getters = [each for each in api.methods_of(type(integrator)) if each.startswith(("get", "compute"))
               and not api.arguments_of(name, each)]
    for stage in range(3):
        if stage == 1:
            context = bind(system, integrator, where, positions, 300)
            steps(context)
        if stage == 2:
            del context
            gc.collect()
            with pytest.raises(Refused):
                attempt(integrator.step, 1)
        for getter in getters:
            try:
                attempt(getattr(integrator, getter))
            except Refused:
                assert stage != 1, getter
    with contextlib.suppress(Refused):      # OpenMM's integrators, too, mostly serve one Context in their lives
        steps(attempt(bind, system, integrator, where, positions, 300))
    context = bind(system, create(name), where, positions, 300)
    del context._integrator
    gc.collect()
    attempt(context.getState, positions=True)   # energies would need the integrator, OpenMM's own too
