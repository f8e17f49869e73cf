"""Run a box of water and record its energies, temperatures, bond lengths and radial distribution functions.

Positions are those of the Context, the coordinate which has the Boltzmann law also with our integrators.
"""
from dataclasses import dataclass

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import sampling
from openmmstiff.sampling import blockedError

from common.observables import (RDF_PAIRS, places_of_waters, radial_distributions, temperatures_by_motion,
                                without_vibrations)
from common.water import ANGLE_GROUP, BOND_GROUP, NONBONDED_GROUP, Progress

ENERGIES = {"nonbonded": {NONBONDED_GROUP}, "bond_energy": {BOND_GROUP}, "angle_energy": {ANGLE_GROUP}}
BOND_LENGTH = 0.09572    # nm, O-H at rest
ANGLE = 1.82421813418    # rad, H-O-H at rest
SHAPE = BOND_LENGTH * np.array([[0, 0, 0], [1, 0, 0], [np.cos(ANGLE), np.sin(ANGLE), 0]])
SAMPLE_INTERVAL = 0.048  # ps, a whole number of steps of 0.5, 1, 2, 3, 4, 6, 8 or 12 fs
SAMPLES_PER_FRAME = 4    # positions for the radial distributions are kept every 0.192 ps


@dataclass
class Samples:
    """What a run showed: a time series has one entry every SAMPLE_INTERVAL."""
    step: float                     # ps
    ns_per_day: float               # of simulated time; only the steps are timed, not the sampling
    nonbonded: np.ndarray           # energy per water, kJ/mol
    bond_energy: np.ndarray         # the same, of the bonds
    angle_energy: np.ndarray        # and of the angles
    temperature: np.ndarray         # K
    centre_temperature: np.ndarray  # K, of the molecules' centres of mass
    rotation_temperature: np.ndarray  # K, of their rotation
    internal_temperature: np.ndarray  # K, of their vibrations, as the integrator counts kinetic energy
    bond: np.ndarray                # O-H length less BOND_LENGTH, mean over the box, nm
    bond_square: np.ndarray         # the square of that difference, mean over the box, nm^2
    rdf: np.ndarray                 # g(r), shape (kinds of pairs, consecutive blocks of time, bins)
    rest_rdf: np.ndarray            # the same of the molecules without their vibrations, if asked for
    centres: np.ndarray             # centres of mass, nm, shape (samples, waters, 3), if asked for
    dipoles: np.ndarray             # unit vectors along the dipoles, the same

    @property
    def bond_length(self) -> tuple[float, float]:
        """Mean O-H length and its standard error, nm."""
        return BOND_LENGTH + float(self.bond.mean()), blockedError(self.bond)

    @property
    def bond_variance(self) -> tuple[float, float]:
        """Variance of the O-H length over molecules and time, and its standard error, nm^2."""
        mean = self.bond.mean()
        return (float(self.bond_square.mean() - mean**2),
                blockedError(self.bond_square - 2 * mean * self.bond))  # linear in the series' deviations


def steps_per_sample(step: float) -> int:
    """Number of steps of `step` ps between two samples."""
    return max(1, round(SAMPLE_INTERVAL / step))


def number_of_steps(ps: float, step: float) -> int:
    """Number of steps that `sample` makes: whole frames, at least one."""
    per_frame = SAMPLES_PER_FRAME * steps_per_sample(step)
    return per_frame * max(1, round(ps / step / per_frame))


def sample(simulation: app.Simulation, ps: float, progress: Progress, rest_rdf: bool = False,
           motion: bool = False, kinds: tuple[str, ...] = RDF_PAIRS) -> Samples:
    """Go on with a simulation for `ps`, and look at it every SAMPLE_INTERVAL.

    rest_rdf, motion: what else to record, see Samples; kinds: of pairs in the radial distributions.
    """
    context = simulation.context
    step = simulation.integrator.getStepSize().value_in_unit(unit.picosecond)
    burst = steps_per_sample(step)
    masses = np.array([context.getSystem().getParticleMass(i).value_in_unit(unit.dalton) for i in range(3)])
    waters = simulation.topology.getNumResidues()
    seen, frames = 0, []

    def observe(state: mm.State) -> dict[str, float | np.ndarray]:
        nonlocal seen
        positions = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
        molecules = positions.reshape(waters, -1, 3)[:, :3]     # without further sites
        velocities = state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond)
        parts = temperatures_by_motion(molecules, velocities.reshape(waters, -1, 3)[:, :3], masses,
                                       state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole))
        stretch = np.linalg.norm(molecules[:, 1:] - molecules[:, :1], axis=2) - BOND_LENGTH
        seen += 1
        if seen % SAMPLES_PER_FRAME == 0:
            frames.append(positions.astype(np.float32))
        found: dict[str, float | np.ndarray] = dict(
            zip(("centre_temperature", "rotation_temperature", "internal_temperature"), parts))
        found |= {"bond": stretch.mean(), "bond_square": np.mean(stretch**2)}
        if motion:
            found |= places_of_waters(molecules, masses)
        return found

    samples = sampling.sample(context, burst, number_of_steps(ps, step) // burst, groups=ENERGIES, observe=observe,
                              progress=progress)
    at_rest = [without_vibrations(frame.reshape(waters, 3, 3), SHAPE, masses).reshape(-1, 3).astype(np.float32)
               for frame in frames] if rest_rdf else []
    paths = {} if motion else {name: np.empty(0, dtype=np.float32) for name in ("centres", "dipoles")}
    return Samples(step=step, ns_per_day=samples.nsPerDay, temperature=samples.temperature,
                   rdf=radial_distributions(simulation.topology, frames, kinds),
                   rest_rdf=radial_distributions(simulation.topology, at_rest, kinds) if rest_rdf else np.empty(0),
                   **samples.observed, **paths,
                   **{name: energy / waters for name, energy in samples.energies.items()})
