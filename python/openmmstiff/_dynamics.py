"""What sampling.py calls: what a process does for sampleDynamics(), a run at constant energy from a snapshot."""

import reprlib
from dataclasses import dataclass

import numpy as np
import openmm
from openmm import unit

from ._conversions import coordinates
from ._forces import make_context

BATHS = (openmm.AndersenThermostat, openmm.MonteCarloBarostat, openmm.MonteCarloAnisotropicBarostat,
         openmm.MonteCarloMembraneBarostat, openmm.MonteCarloFlexibleBarostat)


def require_fixed_step(caller, integrator):
    """A ValueError if the steps of an integrator vary, or of the current one of a CompoundIntegrator."""
    if isinstance(integrator, openmm.CompoundIntegrator):
        integrator = integrator.getIntegrator(integrator.getCurrentIntegrator())
    if isinstance(integrator, (openmm.VariableLangevinIntegrator, openmm.VariableVerletIntegrator)):
        raise ValueError(f"{caller}: the steps of {type(integrator).__name__} vary, so that samples would come at no "
                         "regular times. Use an integrator with a fixed step")


def members(integrator):
    """The integrators of a CompoundIntegrator, or the integrator itself."""
    if not isinstance(integrator, openmm.CompoundIntegrator):
        return [integrator]
    return [integrator.getIntegrator(index) for index in range(integrator.getNumIntegrators())]


def require_numbers(caller, observed):
    """A TypeError if what observe() has returned does not become arrays of numbers."""
    for name, value in observed.items():
        try:
            kind = np.asarray(value).dtype.kind
        except ValueError:      # lists of different lengths
            kind = "O"
        if kind not in "biufc":
            raise TypeError(f"{caller}: observe() returned {reprlib.repr(value)} as '{name}', which is neither a "
                            "number nor an array of numbers. Of a Quantity take value_in_unit()")


@dataclass
class Snapshot:
    """Where a run starts."""

    index: int
    positions: np.ndarray   # nm
    box: np.ndarray | None  # nm
    parameters: dict        # of the Context


def without_baths(system):
    """The System, or a copy without its thermostats and barostats."""
    baths = [index for index, force in enumerate(system.getForces()) if isinstance(force, BATHS)]
    if baths:
        system = openmm.XmlSerializer.clone(system)
        for index in reversed(baths):
            system.removeForce(index)
    return system


def read_snapshot(index, snapshot, system):
    """What a State has, or positions alone."""
    box, parameters = None, {}
    if isinstance(snapshot, openmm.State):
        try:
            positions = snapshot.getPositions(asNumpy=True)
        except openmm.OpenMMException as error:
            raise ValueError(f"sampleDynamics: snapshot {index} is a State without positions; make it by "
                             "context.getState(positions=True)") from error
        if system.usesPeriodicBoundaryConditions():
            box = np.array(snapshot.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.nanometer))
        if snapshot.getDataTypes() & openmm.State.Parameters:
            parameters = dict(snapshot.getParameters())
    else:
        positions = snapshot
    what = f"sampleDynamics: positions of snapshot {index}"
    return Snapshot(index, coordinates(what, positions, [system.getNumParticles()]), box, parameters)


def make_run(start, system, temperature, step, interval, samples, observe, platform, seed, tolerance):
    """
    What is observed of a run, arrays of shape (samples, ...) by name. Units are OpenMM's.

    seed: of the first snapshot; tolerance: by how much the energy may change [kJ/mol]
    """
    integrator = openmm.VerletIntegrator(step)
    context = make_context(system, integrator, platform, None, start.box, start.positions)
    for name in start.parameters.keys() & dict(context.getParameters()).keys():
        context.setParameter(name, start.parameters[name])
    context.applyConstraints(integrator.getConstraintTolerance())   # positions may have been rounded
    _draw_velocities(context, temperature, (seed + start.index - 1) % (2**31 - 1) + 1)
    begun = _energy(context)
    observed = []
    for sample in range(samples):
        if sample > 0:
            integrator.step(interval)
        observed.append(observe(context.getState(positions=True, velocities=True)))
        if sample == 0:
            require_numbers("sampleDynamics", observed[0])
    change = _energy(context) - begun
    if not abs(change) <= tolerance:
        time = (samples - 1)*interval*step
        raise FloatingPointError(
            f"sampleDynamics: from snapshot {start.index} the energy changes by {change:.3g} kJ/mol in {time:.3g} ps, "
            f"more than {tolerance:.3g}, with a step of {1000*step:g} fs. Use a smaller step; if that does "
            "not help, the forces are no gradient of an energy")
    return {name: np.array([each[name] for each in observed]) for name in observed[0]}


def _draw_velocities(context, temperature, seed):
    """Those of the masses; without the motion of the centre of mass if the System is to have none."""
    system = context.getSystem()
    context.setVelocitiesToTemperature(temperature, seed)
    if any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces()):
        masses = np.array([system.getParticleMass(i)._value for i in range(system.getNumParticles())])
        velocities = context.getState(velocities=True).getVelocities(asNumpy=True)._value
        velocities[masses > 0] -= masses @ velocities/masses.sum()
        context.setVelocities(velocities)


def _energy(context):
    state = context.getState(energy=True)
    return (state.getPotentialEnergy() + state.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)
