"""Part D: what users change in mid-run. The kinetic temperature stays near 300 K over the next 50 steps."""
import numpy as np
from openmm import LocalEnergyMinimizer, XmlSerializer

import openmmstiff
from trial import Fault, bind, create, snapshot, steps, temperature, waters

FACTOR = 2.5


def parameters(context):
    force = context.getSystem().getForce(0)
    for bond in range(force.getNumBonds()):
        i, j, length, k = force.getBondParameters(bond)
        force.setBondParameters(bond, i, j, length, 1.1*k)
    force.updateParametersInContext(context)


def other_state(name):
    """Loads the State of an integrator of OpenMM's that has run on the same System."""
    def load(context):
        platform = context.getPlatform().getName()
        other = bind(context.getSystem(), create(name), platform, snapshot(context)[0], 300)
        other.getIntegrator().step(20)
        state = other.getState(positions=True, velocities=True, parameters=True)
        context.setState(XmlSerializer.clone(state))
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
    "State of LangevinMiddleIntegrator": other_state("LangevinMiddleIntegrator"),
    "State of VerletIntegrator": other_state("VerletIntegrator"),
    "its own State": back_and_forth,
    "checkpoint": lambda context: context.loadCheckpoint(context.createCheckpoint()),
    "applyConstraints()": lambda context: (context.applyConstraints(1e-6), context.applyVelocityConstraints(1e-6)),
    "time and step count": lambda context: (context.setTime(0), context.setStepCount(0)),
}


def trial(name, change, rigid, platform):
    system, positions = waters(12, rigid)
    context = bind(system, create(name), platform, positions, 300)
    steps(context, 20)
    if callable(change):
        change(context)
    else:
        getattr(context._integrator, change[0])(change[1])
    temperatures = []
    for _ in range(50):
        steps(context, 1)
        temperatures.append(temperature(context))
    mean = np.mean(temperatures)
    if mean > FACTOR*300 or mean < 300/FACTOR and hasattr(getattr(openmmstiff, name), "setFriction"):
        raise Fault(f"{mean:.3g} K over the next 50 steps, from {temperatures[0]:.3g} to {temperatures[-1]:.3g}")


def cases(name):
    for what, change in WORKFLOWS.items():
        if not callable(change) and not hasattr(getattr(openmmstiff, name), change[0]):
            continue
        for rigid in (0, 12):
            yield (f"{name}: {what}, {'rigid' if rigid else 'flexible'} waters",
                   lambda platform, change=change, rigid=rigid: trial(name, change, rigid, platform))
