"""PyPI's physical-validation on flexible waters that do not see each other: short forms of the exam in validation."""
import warnings

import numpy as np
import openmm
import physical_validation
import pytest
from physical_validation.data import EnsembleData, ObservableData, SimulationData, SystemData, UnitData

from conftest import GAS_CONSTANT, Waters, remove_forces
from openmmstiff import ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator, ZhangSkeelLangevinIntegrator
from openmmstiff.sampling import sample
from trials import bind, seeded

WATERS, FRICTION, TIME, INTERVAL = 40, 5, 120.0, 0.096      # 1/ps, ps, ps
TEMPERATURES = (300.0, 325.0)
UNITS = UnitData(kb=GAS_CONSTANT, energy_conversion=1, length_conversion=1, volume_conversion=1,
                 temperature_conversion=1, pressure_conversion=1, time_conversion=1)
MOST = 4    # standard errors that a right run may be off: once in 16,000


def cold_stiff_modes(*arguments):
    """A heat bath that leaves out the stiff modes, which is right for penalty springs only."""
    integrator = ZhangSkeelLangevinIntegrator(*arguments)
    integrator.setThermalizeStiffModes(False)
    return integrator


def run(make, step, temperature):
    """As physical-validation takes it; the kinetic energy is the integrator's own."""
    system, positions = Waters(WATERS).system, Waters(WATERS).positions
    remove_forces(system, openmm.NonbondedForce, openmm.CMMotionRemover)
    integrator = seeded(make(temperature, FRICTION, step))
    context = bind(system, integrator, "Reference", positions, temperature)
    integrator.step(round(3/step))
    found = sample(context, round(INTERVAL/step), round(TIME/INTERVAL),
                   observe=lambda state: {"kinetic": state.getKineticEnergy()._value})
    atoms = system.getNumParticles()
    return SimulationData(
        units=UNITS, ensemble=EnsembleData("NVT", natoms=atoms, volume=1.0, temperature=temperature),
        system=SystemData(natoms=atoms, nconstraints=0, ndof_reduction_tra=0, ndof_reduction_rot=0),
        observables=ObservableData(potential_energy=found.potential, kinetic_energy=found.observed["kinetic"],
                                   total_energy=found.potential + found.observed["kinetic"]))


def examine(make, step):
    """How many standard errors the ratio of two temperatures' distributions of the potential energy is off, and the
    mean and the width of the kinetic energy's."""
    both = [run(make, step, temperature) for temperature in TEMPERATURES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble = physical_validation.ensemble.check(*both, verbosity=0)
        kinetic = physical_validation.kinetic_energy.distribution(both[0], verbosity=0, bootstrap_seed=1)
    return np.abs([*ensemble, *kinetic])


@pytest.mark.parametrize("make, step", [
    (MassPenaltyLangevinIntegrator, 0.008),
    pytest.param(ZhangSkeelLangevinIntegrator, 0.003, marks=pytest.mark.thorough),
    pytest.param(ImpulseLangevinIntegrator, 0.004, marks=pytest.mark.thorough)])
def test_ensemble_and_kinetic_energy(make, step):
    assert (examine(make, step) < MOST).all()


def test_the_negative_control_fails():
    """A third of the kinetic energy is missing."""
    assert examine(cold_stiff_modes, 0.003).max() > 10*MOST
