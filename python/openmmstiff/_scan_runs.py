"""What a process does for a scan: the equilibration, and a run with what tells that it has failed."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import openmm
from openmm import app, unit

from . import MassPenaltyIntegrator, MassPenaltyLangevinIntegrator, addPairsFromTopology
from ._dynamics import members
from ._examination import examine
from ._forces import make_context
from ._topology import find_unrecognized
from .sampling import GAS_CONSTANT, MIN_BLOCKS, computeTemperature, countFreedom, sample

# Integrators and steps [ps] of the equilibration; the next if one fails. The longest comes furthest from the start.
EQUILIBRATIONS = ((MassPenaltyLangevinIntegrator, 0.004), (openmm.LangevinMiddleIntegrator, 0.001),
                  (openmm.LangevinMiddleIntegrator, 0.00025))
SHORT_EQUILIBRATION = 1.0                   # ps
MINIMIZER = 10.0, 200                       # kJ/mol/nm and iterations
SETTLING_SHARE = 0.2                        # of the time of a run
SETTLING_TIME = 1.0                         # ps, at least, but no more than half of the real time of a run
SETTLING_FRICTION = 20.0                    # 1/ps, or more: in the equilibration and the first half of the settling
BURST = 10                                  # steps between two looks at the clock
INTERVAL = 0.05                             # ps between samples, but at least a burst, and shorter in short runs
SAMPLES = 256                               # as many are wanted before the interval grows to that
HOT, FLUCTUATION = 1.5, 10.0                # a run fails beyond T*(HOT + FLUCTUATION*sqrt(2/freedom)) at once
MOST_OFF = 0.5                              # and with a mean that is off by more than this part of T


@dataclass
class Task:
    """What a process needs for a run; `system` and `integrator` as XML."""

    name: str
    system: str
    topology: app.Topology
    positions: np.ndarray   # nm
    box: np.ndarray | None  # nm
    integrator: str
    step: float             # ps
    temperature: float      # K
    groups: dict
    platform: str | None
    properties: dict
    seed: int
    seconds: float | None   # of real time, if this is given
    time: float | None      # ps to sample, or to equilibrate, if this is given
    progress: Callable | None = None    # is called with the number of steps that have been made since the last call


def settling_time(time):
    """How long a run settles that is to be sampled for some time [ps]."""
    return max(SETTLING_SHARE*time, min(SETTLING_TIME, time))


def count_steps(time, step):
    """How many steps are made in some time; at least one."""
    return max(1, round(time/step))


def equilibrate(task):
    """Minimize and equilibrate: returns positions and box [nm], the simulated time [ps], and notes."""
    begun = perf_counter()
    for make, step in EQUILIBRATIONS:
        notes = []
        integrator = openmm.XmlSerializer.serialize(make(task.temperature, SETTLING_FRICTION, step))
        attempt = replace(task, integrator=integrator, step=step)
        try:
            context = _begin(attempt)
            notes = _minimize(context, attempt)
            context.setVelocitiesToTemperature(task.temperature, task.seed)
            if task.seconds is None:
                _advance(context, task, steps=count_steps(task.time, step))
            else:
                _advance(context, task, seconds=task.seconds - (perf_counter() - begun), least=BURST)
            state = context.getState(positions=True)
        except (openmm.OpenMMException, FloatingPointError) as error:
            failure = f"The equilibration has failed at {1000*step:g} fs: {_reason(error)}."
            continue
        time = state.getTime().value_in_unit(unit.picosecond)
        if time < SHORT_EQUILIBRATION:
            notes.append(f"The equilibration had time for {time:.2g} ps only. Give more, or equilibrated positions.")
        box = None
        if context.getSystem().usesPeriodicBoundaryConditions():
            box = np.array(state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.nanometer))
        return state.getPositions(asNumpy=True).value_in_unit(unit.nanometer), box, time, notes
    raise RuntimeError(f"scan: {failure} Check the positions and the forces, for instance by minimizing first")


def advise(task):
    """What examine() says of equilibrated positions: the steps by integrator [ps], where there are any."""
    platform = [] if task.platform is None else [openmm.Platform.getPlatform(task.platform), task.properties]
    simulation = app.Simulation(task.topology, openmm.XmlSerializer.deserialize(task.system),
                                openmm.VerletIntegrator(task.step), *platform)
    if task.box is not None:
        simulation.context.setPeriodicBoxVectors(*task.box)
    simulation.context.setPositions(task.positions)
    return {each.integrator: each.stepSize for each in examine(simulation, task.temperature).recommendations
            if each.stepSize > 0}


def _minimize(context, task):
    """Minimize the energy; returns notes."""
    try:
        openmm.LocalEnergyMinimizer.minimize(context, *MINIMIZER,
                                             _Deadline(None if task.seconds is None else task.seconds/3))
    except Exception as error:  # a potential may not be defined where the minimizer's first step leads
        context.setPositions(task.positions)
        context.computeVirtualSites()
        context.applyConstraints(1e-5)
        return [f"The minimization has failed ({_reason(error)}): the equilibration began at the positions that were "
                "given."]
    return []


class _Deadline(openmm.MinimizationReporter):
    """Stops a minimization."""

    def __init__(self, seconds):
        super().__init__()
        self.end = None if seconds is None else perf_counter() + seconds

    def report(self, iteration, x, grad, args):
        return self.end is not None and perf_counter() > self.end


def make_run(task):
    """Make a run from equilibrated positions: returns what a Run has besides its integrator and step, a dict."""
    begun, context, found = perf_counter(), None, {}
    try:
        context = _begin(task)
        integrator = context.getIntegrator()
        found["platform"] = context.getPlatform().getName()
        if MassPenaltyIntegrator.isinstance(integrator):
            found["pairs"] = integrator.computeNumPenalizedPairs()
        pace = _settle(context, task)
        left = None if task.seconds is None else task.seconds - (perf_counter() - begun)
        found["samples"] = _sample(context, task, pace, left)
    except (openmm.OpenMMException, FloatingPointError, ValueError) as error:
        found["failure"] = _reason(error)
    if context is not None:
        found["time"] = context.getTime().value_in_unit(unit.picosecond)
    return found


def _begin(task):
    """The Context of a run."""
    integrator = _create_integrator(task)
    context = _create_context(task, integrator)
    bonds = find_unrecognized(task.topology, context.getSystem())
    if MassPenaltyIntegrator.isinstance(integrator) and integrator.getNumPairs() == 0 and bonds:
        integrator = _create_integrator(task)
        addPairsFromTopology(integrator, task.topology, context.getSystem(), task.positions, atoms=set().union(*bonds))
        context = _create_context(task, integrator)
    return context


def _create_integrator(task):
    integrator = openmm.XmlSerializer.deserialize(task.integrator)
    integrator.setStepSize(task.step)
    for each in members(integrator):
        if hasattr(each, "setRandomNumberSeed"):
            each.setRandomNumberSeed(task.seed)
    return integrator


def _create_context(task, integrator):
    """A Context with positions; `integrator` has no Context yet."""
    context = make_context(openmm.XmlSerializer.deserialize(task.system), integrator, task.platform, task.properties,
                           task.box, task.positions)
    context.computeVirtualSites()
    return context


def _settle(context, task):
    """Draw velocities, and make the steps that are not counted. Returns the seconds a step."""
    integrator = context.getIntegrator()
    context.setVelocitiesToTemperature(task.temperature, task.seed)
    # A method may begin with cold vibrations, which a high friction warms up; its own temperatures take its friction.
    bath = hasattr(integrator, "setFriction")
    friction = integrator.getFriction().value_in_unit(unit.picosecond**-1) if bath else 0.0
    for each in max(friction, SETTLING_FRICTION), friction:
        if bath:
            integrator.setFriction(each)
        if task.seconds is None:
            pace = _advance(context, task, steps=count_steps(settling_time(task.time)/2, task.step))
        else:
            pace = _advance(context, task, seconds=SETTLING_SHARE*task.seconds/2, most=task.seconds/4,
                            least=count_steps(SETTLING_TIME/2, task.step))
    return pace


def _sample(context, task, pace, left):
    """Samples of the time of the task, or of the real time that is left [s]."""
    expected = count_steps(task.time, task.step) if left is None else max(0, left)/pace     # steps
    interval = max(BURST, min(round(INTERVAL/task.step), int(expected/SAMPLES)))
    interval = max(1, min(interval, int(expected/MIN_BLOCKS)))
    freedom, hottest = countFreedom(context.getSystem()), _hottest(context.getSystem(), task.temperature)

    def watch(state):
        found = computeTemperature(context, state, freedom)
        if found > hottest:
            raise FloatingPointError(f"the temperature is {found:.3g} K")
        return {}

    length = {"samples": max(1, round(expected/interval))} if left is None else {"seconds": max(0, left)}
    samples = sample(context, interval, groups=task.groups, observe=watch, progress=task.progress, **length)
    mean = samples.temperature.mean()
    if abs(mean/task.temperature - 1) > MOST_OFF + math.sqrt(2/max(1, freedom)):
        raise FloatingPointError(f"the temperature is {mean:.0f} K on average")
    return samples


def _hottest(system, temperature):
    """The temperature [K] beyond which a run has failed; a few degrees of freedom fluctuate much."""
    return temperature*(HOT + FLUCTUATION*math.sqrt(2/max(1, countFreedom(system))))


def _advance(context, task, steps=None, seconds=math.inf, least=0, most=math.inf):
    """
    Make so many steps, or as many as come in some real time, but at least `least` unless `most` is over. Returns the
    seconds a step.
    """
    integrator, system = context.getIntegrator(), context.getSystem()
    masses = np.array([system.getParticleMass(i)._value for i in range(system.getNumParticles())])
    most_kinetic = _hottest(system, task.temperature)*GAS_CONSTANT*max(1, countFreedom(system))
    begun, done = perf_counter(), 0
    while done != steps:
        burst = BURST if steps is None else min(BURST, steps - done)
        integrator.step(burst)
        done += burst
        velocities = context.getState(velocities=True).getVelocities(asNumpy=True)._value
        kinetic = masses @ np.sum(velocities**2, axis=1)    # twice the energy; without that of other inertias
        if not kinetic <= most_kinetic:
            raise FloatingPointError(f"the velocities are {'too large' if np.isfinite(kinetic) else 'not finite'}")
        if task.progress is not None:
            task.progress(burst)
        elapsed = perf_counter() - begun
        if steps is None and (elapsed >= seconds and done >= least or elapsed >= most):
            break
    return (perf_counter() - begun)/done


def _reason(error):
    """The first sentence of an error, without what the row of the run says: integrator, step and time."""
    text = re.split(r"\.\s|\.$", " ".join(str(error).split()))[0]
    return re.sub(r"^\w+Integrator( with a step of \S+ fs)?: | after \S+ ps$", "", text)
