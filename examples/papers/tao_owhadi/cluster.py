"""Clusters of TIP3P water in the units of Tao and Owhadi (2014, section 4.3): what water_clusters.py runs."""
import sys
from math import ceil, sin, sqrt
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff.sampling import GAS_CONSTANT

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import progress_bar  # noqa: E402
from penalties import penalty_force  # noqa: E402

# The paper's units in those of OpenMM
LENGTH = 0.1                    # nm
ENERGY = 4.184                  # kJ/mol
TIME = LENGTH / sqrt(ENERGY)    # ps

# The paper's parameters, in its units
OMEGA, STEP, GAMMA, INVERSE_TEMPERATURE = 20.0, 0.05, 0.01, 50.0

OXYGEN, HYDROGEN = 15.99943, 1.007947                      # dalton; these and the shape are those of tip3p.xml
OH_LENGTH, HOH_ANGLE = 0.9572, 1.82421813418               # Angstrom, rad
LENGTHS = (OH_LENGTH, OH_LENGTH, 2 * OH_LENGTH * sin(HOH_ANGLE / 2))
TEMPERATURE = ENERGY / INVERSE_TEMPERATURE / GAS_CONSTANT  # K
FRICTION = GAMMA * (1 / OXYGEN + 2 / HYDROGEN) / 3 / TIME  # 1/ps

HOT, STAGES, COOLING_TIME, COOLING_FRICTION = 200.0, 100, 1000.0, 5.0  # K, -, the paper's unit, 1/ps
COOLINGS = {7: 10, 100: 1}
SEED, TOLERANCE = 1, 1e-10
# The faster one. CPU has forces in single precision, and no two runs of it are alike.
PLATFORMS = {7: "Reference", 100: "CPU"}


class Cluster:
    """Topology and constraints of a number of waters, and a minimum of the rigid model; lengths are nm here."""

    def __init__(self, waters: int, shorten: float):
        self.waters, self.platform = waters, PLATFORMS[waters]
        modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
        modeller.addSolvent(app.ForceField("tip3p.xml"), model="tip3p", numAdded=waters)
        self.topology = modeller.topology
        self.topology.setPeriodicBoxVectors(None)
        self.pairs = [(3 * a + i, 3 * a + j) for a in range(waters) for i, j in ((0, 1), (0, 2), (1, 2))]
        self.lengths = LENGTH * np.array(LENGTHS * waters)
        self.rigid = self.system(rigid=True)
        self.masses = np.array([self.rigid.getParticleMass(i).value_in_unit(unit.dalton) for i in range(3 * waters)])
        self.minimum = self.cool(modeller.positions, ceil(round(COOLING_TIME / STEP / STAGES) / shorten))
        self.observer = mm.Context(self.rigid, mm.VerletIntegrator(STEP * TIME), self.get_platform("Reference"))

    def get_platform(self, name: str = "") -> mm.Platform:
        return mm.Platform.getPlatform(name or self.platform)

    def system(self, rigid: bool) -> mm.System:
        """Nonbonded forces without cutoff, with constraints or with neither constraints nor bonds."""
        system = app.ForceField("tip3p.xml").createSystem(self.topology, nonbondedMethod=app.NoCutoff,
                                                          rigidWater=rigid, removeCMMotion=False)
        for i in reversed(range(system.getNumForces())):
            if not isinstance(system.getForce(i), mm.NonbondedForce):
                system.removeForce(i)
        return system

    def penalised(self, omega: float) -> mm.System:
        system = self.system(rigid=False)
        system.addForce(penalty_force(self.pairs, self.lengths, omega * sqrt(ENERGY) / LENGTH ** 2))
        return system

    def cool(self, positions: unit.Quantity, steps: int) -> np.ndarray:
        """The lowest minimum of COOLINGS, each from HOT in STAGES of so many steps."""
        found = []
        with progress_bar("cooling", COOLINGS[self.waters] * STAGES * steps) as bar:
            for cooling in range(COOLINGS[self.waters]):
                integrator = mm.LangevinMiddleIntegrator(HOT, COOLING_FRICTION, STEP * TIME)
                integrator.setRandomNumberSeed(SEED + cooling)
                context = mm.Context(self.rigid, integrator, self.get_platform())
                context.setPositions(positions)
                mm.LocalEnergyMinimizer.minimize(context)
                for temperature in np.linspace(HOT, TEMPERATURE, STAGES):
                    integrator.setTemperature(temperature)
                    integrator.step(steps)
                    bar.update(steps)
                found.append(self.minimise(self.rigid, get_positions(context)))
        self.energy, minimum = min(found, key=lambda each: each[0])
        return minimum

    def minimise(self, system: mm.System, positions: np.ndarray) -> tuple[float, np.ndarray]:
        """The nearest minimum: its energy, kcal/mol, and positions."""
        context = mm.Context(system, mm.VerletIntegrator(STEP * TIME), self.get_platform())
        context.setPositions(positions)
        context.applyConstraints(TOLERANCE)
        mm.LocalEnergyMinimizer.minimize(context, 0.1)
        energy = context.getState(energy=True).getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
        return energy / ENERGY, get_positions(context)

    def thermal_start(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities of rigid molecules, to within rounding."""
        self.observer.setPositions(self.minimum)
        self.observer.applyConstraints(1e-12)
        self.observer.setVelocitiesToTemperature(TEMPERATURE, SEED)
        self.observer.applyVelocityConstraints(1e-12)
        velocities = self.observer.getState(velocities=True).getVelocities(asNumpy=True)
        return get_positions(self.observer), velocities.value_in_unit(unit.nanometer / unit.picosecond)

    def bonds(self, vectors: np.ndarray) -> np.ndarray:
        first, second = np.array(self.pairs).T
        return vectors[first] - vectors[second]

    def violations(self, positions: np.ndarray) -> np.ndarray:
        """g = r^2 - d^2, nm^2."""
        return np.sum(self.bonds(positions) ** 2, axis=1) - self.lengths ** 2

    def jacobian(self, positions: np.ndarray) -> np.ndarray:
        """G = dg/dx, (constraints, 3 atoms)."""
        jacobian = np.zeros((len(self.pairs), len(positions), 3))
        for row, (i, j), bond in zip(jacobian, self.pairs, self.bonds(positions)):
            row[i], row[j] = 2 * bond, -2 * bond
        return jacobian.reshape(len(self.pairs), -1)

    def multipliers(self, positions: np.ndarray, velocities: np.ndarray) -> np.ndarray:
        """lambda of M a = F + G^T lambda, for which G a + dG/dt v = 0; kJ/mol/nm^2."""
        self.observer.setPositions(positions)
        forces = self.observer.getState(forces=True).getForces(asNumpy=True)._value.ravel()
        jacobian = self.jacobian(positions)
        accelerated = jacobian / np.repeat(self.masses, 3)
        bend = 2 * np.sum(self.bonds(velocities) ** 2, axis=1)
        return np.linalg.solve(accelerated @ jacobian.T, -(accelerated @ forces + bend))

    def loaded_start(self, omega: float) -> tuple[np.ndarray, np.ndarray]:
        """thermal_start() with the penalties at rest under the constraint forces: omega^2 g = -lambda."""
        positions, velocities = self.thermal_start()
        violations = -self.multipliers(positions, velocities) / (omega * sqrt(ENERGY) / LENGTH ** 2) ** 2
        normal = self.jacobian(positions) / np.repeat(self.masses, 3)
        for _ in range(10):
            move = np.linalg.solve(self.jacobian(positions) @ normal.T, violations - self.violations(positions))
            positions = positions + (normal.T @ move).reshape(-1, 3)
        jacobian = self.jacobian(positions)
        normal = jacobian / np.repeat(self.masses, 3)
        rates = np.linalg.solve(jacobian @ normal.T, jacobian @ velocities.ravel())
        return positions, velocities - (normal.T @ rates).reshape(-1, 3)

    def momenta(self, positions: np.ndarray, velocities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Linear and angular, of frames."""
        momenta = self.masses[:, None] * velocities
        return momenta.sum(axis=1), np.cross(positions, momenta).sum(axis=1)

    def oxygen_distances(self, positions: np.ndarray) -> np.ndarray:
        """Of all pairs, Angstrom."""
        oxygens = positions[::3] / LENGTH
        first, second = np.triu_indices(self.waters, k=1)
        return np.linalg.norm(oxygens[first] - oxygens[second], axis=1)


def get_positions(context: mm.Context) -> np.ndarray:
    return context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)
