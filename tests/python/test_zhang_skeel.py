"""The Zhang-Skeel integrators in ordinary OpenMM scripts: what is theirs alone."""

from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import (FEMTOSECONDS, GAS_CONSTANT, CountingForce, Waters, positions_of,
                      total_energy, velocities_of, water_box)
from openmmstiff import ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator


def masses_of(system):
    return np.array([system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())])


def test_force_evaluations_of_each_method(waters, platform):
    """One a step; Newmark takes one for each iteration."""
    counter = CountingForce(waters.system)
    for force in waters.system.getForces():
        if isinstance(force, (openmm.HarmonicBondForce, openmm.HarmonicAngleForce)):
            force.setForceGroup(1)
    for name in ("StiffHessian", "NewmarkOneIteration", "Newmark", "ThirdDerivatives"):
        integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
        integrator.setMethod(getattr(ZhangSkeelIntegrator, name))
        integrator.setStiffForceGroups({1})
        integrator.setNewtonTolerance(1e-6)
        context = waters.context(integrator, platform)
        integrator.step(1)
        before = counter.count
        integrator.step(1)
        evaluations = counter.count - before
        if name == "Newmark":
            assert evaluations == integrator.getNumNewtonIterations() > 1
        else:
            assert evaluations == 1 and integrator.getNumNewtonIterations() == 0
        del context


def test_method_that_needs_more_than_there_is(platform):
    topology, positions, system = water_box()
    integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
    integrator.setMethod(ZhangSkeelIntegrator.FullHessian)
    with pytest.raises(openmm.OpenMMException, match="'NonbondedForce'.*it has a cutoff.*StiffHessian or Newmark"):
        openmm.Context(system, integrator, platform)


def test_newmark_needs_no_hessian_of_the_slow_forces():
    """A periodic box of water, with the nonbonded forces of the CPU platform in single precision."""
    topology, positions, system = water_box()
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 1*FEMTOSECONDS)
    integrator.setMethod(ZhangSkeelIntegrator.Newmark)
    integrator.setNewtonTolerance(1e-4)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(positions)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(5)
    assert 2 <= integrator.getNumNewtonIterations() <= 8


def test_centre_of_mass_motion_remover(waters, platform):
    waters.system.addForce(openmm.CMMotionRemover(1))
    integrator = ZhangSkeelLangevinIntegrator(300, 5, 2*FEMTOSECONDS)
    context = waters.context(integrator, platform)
    integrator.step(20)
    velocities, masses = velocities_of(context), masses_of(waters.system)
    assert np.abs(masses @ velocities).max() > 1e-3, "the noise acts after the remover"
    kinetic = context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    degrees = 3*len(masses) - 3
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    assert temperature == pytest.approx(2*kinetic/(degrees*GAS_CONSTANT), rel=1e-9)
    # Without noise nothing is left of it but rounding (single precision forces on the CPU platform).
    integrator.setFriction(0)
    integrator.step(2)
    assert np.abs(masses @ velocities_of(context)).max() < 1e-2


def test_reporters(waters, platform, tmp_path):
    """StateDataReporter takes the temperature from computeSystemTemperature(); chunks of steps change nothing."""
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 1*FEMTOSECONDS)
    integrator.setThermalizeStiffModes(False)
    integrator.setRandomNumberSeed(3)
    simulation = waters.simulation(integrator, platform)
    table = tmp_path/"table.csv"
    simulation.reporters.append(app.StateDataReporter(str(table), 7, step=True, temperature=True, totalEnergy=True))
    simulation.reporters.append(app.DCDReporter(str(tmp_path/"trajectory.dcd"), 7, enforcePeriodicBox=False))
    simulation.step(21)
    reported = np.loadtxt(table, delimiter=",")
    assert list(reported[:, 0]) == [7, 14, 21]
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    assert reported[-1, 2] == pytest.approx(temperature, rel=1e-6)
    # Six degrees of freedom for each water that is held by springs: half as many as 3 per atom would be 2/3.
    kinetic = simulation.context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    degrees = 6*len(waters.positions)//3 - 3*any(isinstance(f, openmm.CMMotionRemover)
                                                 for f in waters.system.getForces())
    assert temperature == pytest.approx(2*kinetic/(degrees*GAS_CONSTANT), rel=1e-9)


def test_without_the_hidden_state_a_resumed_run_is_another(waters):
    """The negative control of checkpoints and States with integrator parameters, which resume exactly."""
    context = waters.context(ZhangSkeelIntegrator(2*FEMTOSECONDS), openmm.Platform.getPlatform("Reference"))
    context.getIntegrator().step(20)
    plain = context.getState(positions=True, velocities=True)
    context.getIntegrator().step(20)
    expected = positions_of(context)
    context.setState(plain)
    context.getIntegrator().step(20)
    assert np.abs(positions_of(context) - expected).max() > 1e-6


def test_minimization_first(waters, platform):
    """Minimization sets new positions: the offset is 0, and the energy starts from the minimum."""
    integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
    simulation = waters.simulation(integrator, platform)
    simulation.step(10)
    simulation.minimizeEnergy()
    propagated = integrator.getPropagatedPositions(asNumpy=True).value_in_unit(unit.nanometer)
    assert (propagated == positions_of(simulation.context)).all()
    minimum = simulation.context.getState(energy=True).getPotentialEnergy()
    simulation.context.setVelocities(np.zeros_like(propagated))
    simulation.step(100)
    assert abs(total_energy(simulation.context) - minimum.value_in_unit(unit.kilojoule_per_mole)) < 1


def test_flexible_constraints_are_not_counted_twice():
    """Bonds and angles beside constraints that hold all their distances have nothing left to do."""
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"tip3p.pdb"))
    system = app.ForceField("tip3p.xml").createSystem(
        pdb.topology, nonbondedMethod=app.PME, rigidWater=True, flexibleConstraints=True)
    assert any(isinstance(force, openmm.HarmonicBondForce) and force.getNumBonds() > 0 for force in system.getForces())
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 2*FEMTOSECONDS)
    integrator.setThermalizeStiffModes(False)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(pdb.positions)
    context.setVelocitiesToTemperature(300, 1)
    # Six degrees of freedom a water, less the centre of mass: no stiff coordinate is subtracted beside the constraints.
    kinetic = context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    assert temperature == pytest.approx(2*kinetic/((6*895 - 3)*GAS_CONSTANT), rel=1e-9)
    integrator.step(10)


# ---- Methods that a System cannot do ----

SIMPLIFIED, ZHANG_SKEEL = ZhangSkeelIntegrator.FullHessian, ZhangSkeelIntegrator.ThirdDerivatives


def box_of_waters():
    topology, positions, system = water_box()
    return system, positions, {SIMPLIFIED: "'NonbondedForce'.*it has a cutoff", ZHANG_SKEEL: "it has a cutoff"}


def waters_in_implicit_solvent():
    waters = Waters(2)
    solvent = openmm.GBSAOBCForce()
    for i in range(len(waters.positions)):
        solvent.addParticle(0, 0.15, 0.8)
    waters.system.addForce(solvent)
    refused = "'GBSAOBCForce'.*a force of its kind is not supported"
    return waters.system, waters.positions, {SIMPLIFIED: refused, ZHANG_SKEEL: refused}


def rigid_waters():
    waters = Waters(2, rigid=True)
    refused = "constraint 0 of the System.*has stiff terms too"
    return waters.system, waters.positions, {SIMPLIFIED: refused, ZHANG_SKEEL: refused}


def bond_to_a_virtual_site():
    """A term on a site is slow with the other methods; it cannot be left out of the whole potential."""
    system = openmm.System()
    for mass in (12, 12, 0):
        system.addParticle(mass)
    system.setVirtualSite(2, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5))
    bond = openmm.HarmonicBondForce()
    bond.addBond(0, 1, 0.1, 1e5)
    bond.addBond(0, 2, 0.05, 1e3)
    system.addForce(bond)
    return system, np.array([(0, 0, 0), (0.11, 0, 0), (0.055, 0, 0)]), {SIMPLIFIED: "site", ZHANG_SKEEL: "site"}


IMPOSSIBLE = [box_of_waters, waters_in_implicit_solvent, rigid_waters, bond_to_a_virtual_site]


@pytest.mark.parametrize("cls", [ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator])
@pytest.mark.parametrize("make", IMPOSSIBLE)
def test_a_method_that_the_system_cannot_do_is_refused_at_once(make, cls, platform):
    """The method stays what it was, and the run goes on: reinitialize() would lose a Context with such a method."""
    system, positions, refused = make()
    integrator = cls(*[300, 1][:2*(cls is ZhangSkeelLangevinIntegrator)], 0.5*FEMTOSECONDS)
    context = openmm.Context(system, integrator, platform)
    context.setPositions(positions)
    integrator.step(1)
    for begin in (ZhangSkeelIntegrator.StiffHessian, ZhangSkeelIntegrator.NewmarkOneIteration):
        integrator.setMethod(begin)
        for method, message in refused.items():
            with pytest.raises(openmm.OpenMMException, match=f"{cls.__name__}: .*{message}"):
                integrator.setMethod(method)
            assert integrator.getMethod() == begin
            before = positions_of(context)
            context.reinitialize(True)
            assert (positions_of(context) == before).all()
            integrator.step(1)
            assert np.abs(positions_of(context) - before).max() > 0


def test_methods_are_refused_for_the_present_stiff_forces(platform):
    """What the method ZhangSkeel needs depends on the stiff groups: of the rest of the potential it needs nothing."""
    topology, positions, system = water_box()
    for force in system.getForces():
        force.setForceGroup(1 if isinstance(force, (openmm.HarmonicBondForce, openmm.HarmonicAngleForce)) else 0)
    integrator = ZhangSkeelIntegrator(0.5*FEMTOSECONDS)
    context = openmm.Context(system, integrator, platform)
    context.setPositions(positions)
    with pytest.raises(openmm.OpenMMException, match="it has a cutoff"):
        integrator.setMethod(ZHANG_SKEEL)
    integrator.setStiffForceGroups({1})
    integrator.setMethod(ZHANG_SKEEL)
    with pytest.raises(openmm.OpenMMException, match="it has a cutoff"):
        integrator.setMethod(SIMPLIFIED)
    assert integrator.getMethod() == ZHANG_SKEEL
    integrator.step(1)
    assert context.getStepCount() == 1


def test_without_a_context_a_method_is_not_yet_refused():
    """There is no System to ask; the Context refuses it. The same integrator may then have another method."""
    topology, positions, system = water_box()
    integrator = ZhangSkeelIntegrator(0.5*FEMTOSECONDS)
    integrator.setMethod(ZHANG_SKEEL)
    with pytest.raises(openmm.OpenMMException, match="it has a cutoff"):
        openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    integrator.setMethod(SIMPLIFIED)
    integrator.setMethod(ZhangSkeelIntegrator.StiffHessian)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(positions)
    integrator.step(1)
    assert context.getStepCount() == 1
