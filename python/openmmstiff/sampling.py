"""Run a simulation and record what it shows, with errors: what `scan` does, for scripts of one's own.

Units are OpenMM's: nm, ps, kJ/mol, K.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import openmm
from numpy.typing import ArrayLike
from openmm import unit

GAS_CONSTANT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole/unit.kelvin)
MIN_BLOCKS = 8      # fewer blocks do not tell the error of a time series
LONG_ENOUGH = 30    # correlation times; nor do shorter series
WINDOW = 6          # correlation times over which an autocorrelation function is summed
MAX_GROUPS = 32     # force groups of OpenMM


@dataclass
class Samples:
    """
    What a run has shown, an entry a sample in each series.

    Attributes
    ----------
    step : float
        the step size [ps]
    interval : float
        the time between samples [ps]
    temperature : array of shape (samples,)
        the temperature [K], see computeTemperature()
    energies : dict of str to array of shape (samples,)
        potential energies by name [kJ/mol], as asked for
    observed : dict of str to array of shape (samples, ...)
        what else was asked for
    steps : int
        how many steps were made
    seconds : float
        how long these took, without what was done for the samples [s]
    """

    step: float
    interval: float
    temperature: np.ndarray
    energies: dict[str, np.ndarray]
    observed: dict[str, np.ndarray]
    steps: int
    seconds: float

    @property
    def potential(self) -> np.ndarray:
        """The sum of all energies [kJ/mol], an array of shape (samples,)."""
        return np.sum(list(self.energies.values()), axis=0)

    @property
    def nsPerDay(self) -> float:
        """The simulated time in a day of steps [ns]."""
        return 86.4*self.steps*self.step/self.seconds

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write a file of NumPy's kind .npz; an interruption leaves none or the whole of it.

        Parameters
        ----------
        path : str or path
            the file; its name must end in .npz
        """
        path = Path(path)
        flat = {name: value for name, value in vars(self).items() if not isinstance(value, dict)}
        flat.update({f"{kind}/{name}": series for kind in ("energies", "observed")
                     for name, series in getattr(self, kind).items()})
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **flat)
        part.replace(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Samples":
        """
        Read what save() has written.

        Parameters
        ----------
        path : str or path
            the file

        Returns
        -------
        Samples
            what was saved
        """
        values: dict[str, Any] = {"energies": {}, "observed": {}}
        with np.load(path) as data:
            for name in data:
                value = data[name] if data[name].ndim else data[name].item()
                kind, _, series = name.partition("/")
                if series:
                    values[kind][series] = value
                else:
                    values[name] = value
        return cls(**values)


def sample(context: openmm.Context, interval: int, samples: int | None = None, seconds: float | None = None,
           groups: Mapping[str, set[int]] | None = None,
           observe: Callable[[openmm.State], Mapping[str, Any]] | None = None,
           progress: Callable[[int], object] | None = None) -> Samples:
    """
    Go on with a Context and look at it at regular intervals.

    Parameters
    ----------
    context : openmm.Context
        the Context, with positions and velocities
    interval : int
        steps between samples
    samples : int
        how many samples to take; None: as many as come in `seconds`, at least one
    seconds : float
        when to stop [s of real time], at the next sample; None: when all samples have been taken
    groups : dict of str to set of int
        names of energies, and the force groups of each; by default "potential", of all forces
    observe : callable
        is called with the State of each sample (positions, velocities, the energy of the first of the groups) and
        returns a dict of what else to record: numbers, or arrays whose shape stays the same
    progress : callable
        is called with the number of steps that have been made since the last call

    Returns
    -------
    Samples
        what was recorded. A FloatingPointError if a temperature or an energy is not finite, and an OpenMMException
        if a step fails
    """
    if samples is None and seconds is None:
        raise ValueError("sample: give samples, seconds, or both; with neither it would not end")
    if interval < 1 or samples is not None and samples < 1:
        raise ValueError(f"sample: interval and samples must be at least 1, but are {interval} and {samples}")
    if groups is not None and not groups:
        raise ValueError("sample: groups is empty; leave it out for the energy of all forces")
    integrator = context.getIntegrator()
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    groups = {"potential": set(range(MAX_GROUPS))} if groups is None else groups
    first, *others = groups
    freedom = countFreedom(context.getSystem())
    temperature: list[float] = []
    energies: dict[str, list[Any]] = {name: [] for name in groups}
    observed: list[Mapping[str, Any]] = []
    begun, stepping = perf_counter(), 0.0
    while len(temperature) != samples and (seconds is None or not temperature or perf_counter() - begun < seconds):
        start = perf_counter()
        integrator.step(interval)
        state = context.getState(positions=True, velocities=True)   # waits for a device
        stepping += perf_counter() - start
        state = context.getState(positions=True, velocities=True, energy=True, groups=groups[first])
        temperature.append(computeTemperature(context, state, freedom))
        energies[first].append(state.getPotentialEnergy())
        for name in others:
            energies[name].append(context.getState(energy=True, groups=groups[name]).getPotentialEnergy())
        for name in groups:
            energies[name][-1] = energies[name][-1].value_in_unit(unit.kilojoule_per_mole)
        if not np.isfinite(temperature[-1] + sum(energy[-1] for energy in energies.values())):
            raise FloatingPointError(
                f"{type(integrator).__name__} with a step of {1000*step:g} fs: the energy is not finite after "
                f"{len(temperature)*interval*step:.2f} ps. Use a smaller step")
        if observe is not None:
            observed.append(observe(state))
        if progress is not None:
            progress(interval)
    return Samples(step, interval*step, np.array(temperature),
                   {name: np.array(each) for name, each in energies.items()},
                   {name: np.array([each[name] for each in observed]) for name in (observed[0] if observed else ())},
                   len(temperature)*interval, stepping)


def separateForces(system: openmm.System) -> dict[str, set[int]]:
    """
    Put the forces of a System into groups by name, all with the same name into one, so that their energies can be told
    apart. Call it before a Context is created.

    Parameters
    ----------
    system : openmm.System
        the System, whose force groups are changed; the reciprocal sum of a NonbondedForce stays in its group

    Returns
    -------
    dict of str to set of int
        the names and their groups, as sample() takes them. Forces without an energy (a barostat, the remover of the
        motion of the centre of mass) are left out. If there are more names than groups, the last group is "others"
    """
    silent = (openmm.CMMotionRemover, openmm.AndersenThermostat, openmm.MonteCarloBarostat,
              openmm.MonteCarloAnisotropicBarostat, openmm.MonteCarloMembraneBarostat,
              openmm.MonteCarloFlexibleBarostat)
    forces = [force for force in system.getForces() if not isinstance(force, silent)]
    names = list(Counter(force.getName() for force in forces))
    if len(names) > MAX_GROUPS:
        names[MAX_GROUPS - 1:] = ["others"]
    for force in forces:
        name = force.getName() if force.getName() in names else "others"
        force.setForceGroup(names.index(name))
        if isinstance(force, openmm.NonbondedForce):
            force.setReciprocalSpaceForceGroup(-1)
    return {name: {group} for group, name in enumerate(names)}


def computeTemperature(context: openmm.Context, state: openmm.State, freedom: int | None = None) -> float:
    """
    Compute the temperature of a Context, for the degrees of freedom that a heat bath acts on.

    Integrators that know it are asked (those of this package count their degrees of freedom). For others they are three
    for each particle with a mass, less the constraints, and less three if the motion of the centre of mass is removed.

    Parameters
    ----------
    context : openmm.Context
        the Context
    state : openmm.State
        its State, with the energy
    freedom : int
        what countFreedom() has returned for the System, if it is known: counting takes long

    Returns
    -------
    float
        the temperature [K]
    """
    integrator = context.getIntegrator()
    if hasattr(integrator, "computeSystemTemperature"):
        return integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    freedom = countFreedom(context.getSystem()) if freedom is None else freedom
    return 2*state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)/(freedom*GAS_CONSTANT)


def countFreedom(system: openmm.System) -> int:
    """
    Count the degrees of freedom of a System: three for each particle with a mass, less the constraints, and less three
    if a CMMotionRemover is there.

    Parameters
    ----------
    system : openmm.System
        the System

    Returns
    -------
    int
        their number
    """
    masses = [system.getParticleMass(i)._value for i in range(system.getNumParticles())]
    constraints = [system.getConstraintParameters(i)[:2] for i in range(system.getNumConstraints())]
    removed = any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces())
    return (3*sum(mass > 0 for mass in masses) - sum(masses[i] > 0 or masses[j] > 0 for i, j in constraints)
            - 3*removed)


def blockedError(series: ArrayLike) -> float:
    """
    Compute the standard error of the mean of a correlated series.

    Blocking of Flyvbjerg and Petersen (J. Chem. Phys. 91, 461, 1989): neighbours are averaged in pairs, again and
    again; the naive error of the blocks rises to a plateau once they are longer than the correlation time. Taken is the
    largest error over all levels with at least 8 blocks: on series longer than some 30 correlation times it is right
    within 10 %, on shorter ones no plateau is reached and it is too small.

    Parameters
    ----------
    series : array of shape (samples,)
        the series

    Returns
    -------
    float
        the standard error; 0 for a single sample
    """
    blocks = np.asarray(series, dtype=float)
    error = 0.0
    while len(blocks) >= MIN_BLOCKS or error == 0.0 and len(blocks) > 1:
        error = max(error, float(blocks.std(ddof=1))/len(blocks)**0.5)
        blocks = (blocks[:-1:2] + blocks[1::2])/2
    return error


def correlationTime(series: ArrayLike) -> tuple[float, float]:
    """
    Compute the integrated autocorrelation time of a series, so that its mean has the error of samples/(2 tau)
    independent ones.

    The sum of the autocorrelation function ends after six times its own value (Sokal, Monte Carlo methods in
    statistical mechanics, 1989).

    Parameters
    ----------
    series : array of shape (samples,)
        the series

    Returns
    -------
    tuple of float
        tau, in samples (1/2 if they are independent), and its standard error; both infinite for a series that never
        changes
    """
    values = np.asarray(series, dtype=float)
    size = len(values)
    transform = np.fft.rfft(values - values.mean(), 2*size)
    correlation = np.fft.irfft(np.abs(transform)**2)[:size]
    if not correlation[0] > 0:
        return np.inf, np.inf
    times = np.cumsum(correlation/correlation[0]) - 0.5
    ends = np.flatnonzero(np.arange(size) >= WINDOW*times)
    window = ends[0] if len(ends) > 0 else size - 1
    tau = max(times[window], 0.5)
    return float(tau), float(tau*np.sqrt(2*(2*window + 1)/size))
