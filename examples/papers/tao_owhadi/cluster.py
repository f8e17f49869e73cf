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
from common.runs import get_positions, remove_forces  # noqa: E402
from penalties import penalty_force  # noqa: E402

# The paper's units in those of OpenMM
LENGTH = 0.1                    # nm
ENERGY = 4.184                  # kJ/mol
TIME = LENGTH / sqrt(ENERGY)    # ps

# The paper's parameters, in its units
WATERS, OMEGA, STEP, GAMMA, INVERSE_TEMPERATURE = 7, 20.0, 0.05, 0.01, 50.0

OXYGEN, HYDROGEN = 15.99943, 1.007947                      # dalton; these and the shape are those of tip3p.xml
OH_LENGTH, HOH_ANGLE = 0.9572, 1.82421813418               # Angstrom, rad
LENGTHS = (OH_LENGTH, OH_LENGTH, 2 * OH_LENGTH * sin(HOH_ANGLE / 2))
TEMPERATURE = ENERGY / INVERSE_TEMPERATURE / GAS_CONSTANT  # K
FRICTION = GAMMA * (1 / OXYGEN + 2 / HYDROGEN) / 3 / TIME  # 1/ps

HOT, STAGES, COOLING_TIME, COOLING_FRICTION, COOLINGS = 200.0, 100, 1000.0, 5.0, 10  # K, -, the paper's unit, 1/ps, -
SEED, TOLERANCE = 1, 1e-10


class Cluster:
    """Topology and constraints of the waters, and a minimum of the rigid model; lengths are nm here."""

    def __init__(self, shorten: float):
        modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
        modeller.addSolvent(app.ForceField("tip3p.xml"), model="tip3p", numAdded=WATERS)
        self.topology = modeller.topology
        self.topology.setPeriodicBoxVectors(None)
        self.pairs = [(3 * a + i, 3 * a + j) for a in range(WATERS) for i, j in ((0, 1), (0, 2), (1, 2))]
        self.lengths = LENGTH * np.array(LENGTHS * WATERS)
        self.rigid = self.system(rigid=True)
        self.minimum = self.cool(modeller.positions, ceil(round(COOLING_TIME / STEP / STAGES) / shorten))
        self.observer = self.context(self.rigid, mm.VerletIntegrator(STEP * TIME))

    @staticmethod
    def context(system: mm.System, integrator: mm.Integrator) -> mm.Context:
        return mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))

    def system(self, rigid: bool) -> mm.System:
        """Nonbonded forces without cutoff, with constraints or with neither constraints nor bonds."""
        system = app.ForceField("tip3p.xml").createSystem(self.topology, nonbondedMethod=app.NoCutoff,
                                                          rigidWater=rigid, removeCMMotion=False)
        remove_forces(system, lambda force: not isinstance(force, mm.NonbondedForce))
        return system

    def penalised(self, omega: float) -> mm.System:
        system = self.system(rigid=False)
        system.addForce(penalty_force(self.pairs, self.lengths, omega * sqrt(ENERGY) / LENGTH ** 2))
        return system

    def cool(self, positions: unit.Quantity, steps: int) -> np.ndarray:
        """The lowest minimum of COOLINGS, each from HOT in STAGES of so many steps."""
        found = []
        with progress_bar("cooling", COOLINGS * STAGES * steps) as bar:
            for cooling in range(COOLINGS):
                integrator = mm.LangevinMiddleIntegrator(HOT, COOLING_FRICTION, STEP * TIME)
                integrator.setRandomNumberSeed(SEED + cooling)
                context = self.context(self.rigid, integrator)
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
        context = self.context(system, mm.VerletIntegrator(STEP * TIME))
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

    def multipliers(self, positions: np.ndarray, velocities: np.ndarray) -> np.ndarray:
        """lambda of M a = F + G^T lambda, for which G a + dG/dt v = 0, G = dg/dx, g = r^2 - d^2; kJ/mol/nm^2."""
        self.observer.setPositions(positions)
        forces = self.observer.getState(forces=True).getForces(asNumpy=True)._value.ravel()
        first, second = np.array(self.pairs).T
        gradients = np.zeros((len(self.pairs), len(positions), 3))
        for gradient, i, j in zip(gradients, first, second):
            gradient[i] = 2 * (positions[i] - positions[j])
            gradient[j] = -gradient[i]
        jacobian = gradients.reshape(len(self.pairs), -1)
        accelerated = jacobian / np.repeat((OXYGEN, HYDROGEN, HYDROGEN) * WATERS, 3)
        bend = 2 * np.sum((velocities[first] - velocities[second]) ** 2, axis=1)
        return np.linalg.solve(accelerated @ jacobian.T, -(accelerated @ forces + bend))
