"""The Zhang-Skeel integrators in ordinary OpenMM scripts: what is theirs alone."""

import numpy as np
import openmm
import pytest

from conftest import FEMTOSECONDS, REFERENCE, CountingForce, Waters, positions_of, velocities_of, water_box
from openmmstiff import ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator
from systems import bonds, system_of
from trials import bind


def put_bonds_and_angles_into_group_1(system):
    for force in system.getForces():
        force.setForceGroup(1 if isinstance(force, (openmm.HarmonicBondForce, openmm.HarmonicAngleForce)) else 0)


def test_force_evaluations_of_each_method(waters, platform):
    """One a step; Newmark takes one for each iteration."""
    counter = CountingForce(waters.system)
    put_bonds_and_angles_into_group_1(waters.system)
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


def test_a_state_without_positions_moves_nothing():
    """A State brings the positions that are propagated, but maybe not those that belong to them; or these in the box."""
    system = system_of([12, 12], bonds((0, 1, 0.15, 2e5)), box=2*np.eye(3))
    for periodic in False, True:
        system.getForce(0).setUsesPeriodicBoundaryConditions(periodic)
        one, other = (bind(system, ZhangSkeelIntegrator(0.004), "Reference", np.array([[x, 0, 0], [x + 0.16, 0, 0]]))
                      for x in (0, 50.3))
        one.getIntegrator().step(3)
        before = positions_of(other)
        other.setState(one.getState(velocities=True, integratorParameters=True))
        other.getIntegrator().step(1)
        assert np.abs(positions_of(other) - before).max() < 0.1
        other.setState(other.getState(positions=True, velocities=True, integratorParameters=True,
                                      enforcePeriodicBox=periodic))
        assert np.ptp(other.getIntegrator().getPropagatedPositions(asNumpy=True)._value - positions_of(other)) > 1e-4


def test_centre_of_mass_motion_remover(waters, platform):
    waters.system.addForce(openmm.CMMotionRemover(1))
    integrator = ZhangSkeelLangevinIntegrator(300, 5, 2*FEMTOSECONDS)
    context = waters.context(integrator, platform)
    integrator.step(20)
    masses = np.array([waters.system.getParticleMass(i)._value for i in range(waters.system.getNumParticles())])
    assert np.abs(masses @ velocities_of(context)).max() > 1e-3, "the noise acts after the remover"
    # Without noise nothing is left of it but rounding (single precision forces on the CPU platform).
    integrator.setFriction(0)
    integrator.step(2)
    assert np.abs(masses @ velocities_of(context)).max() < 1e-2


def test_without_the_hidden_state_a_resumed_run_is_another(waters):
    """The negative control of checkpoints and States with integrator parameters, which resume exactly."""
    context = waters.context(ZhangSkeelIntegrator(2*FEMTOSECONDS), REFERENCE)
    context.getIntegrator().step(20)
    plain = context.getState(positions=True, velocities=True)
    context.getIntegrator().step(20)
    expected = positions_of(context)
    context.setState(plain)
    context.getIntegrator().step(20)
    assert np.abs(positions_of(context) - expected).max() > 1e-6


# ---- Methods that a System cannot do ----

FULL_HESSIAN, THIRD_DERIVATIVES = ZhangSkeelIntegrator.FullHessian, ZhangSkeelIntegrator.ThirdDerivatives


def box_of_waters():
    _, positions, system = water_box()
    return system, positions, "'NonbondedForce'.*it has a cutoff"


def waters_in_implicit_solvent():
    waters = Waters(2)
    solvent = openmm.GBSAOBCForce()
    for i in range(len(waters.positions)):
        solvent.addParticle(0, 0.15, 0.8)
    waters.system.addForce(solvent)
    return waters.system, waters.positions, "'GBSAOBCForce'.*a force of its kind is not supported"


def rigid_waters():
    waters = Waters(2, rigid=True)
    return waters.system, waters.positions, "constraint 0 of the System.*has stiff terms too"


def bond_to_a_virtual_site():
    """A term on a site is slow with the other methods; it cannot be left out of the whole potential."""
    system = system_of([12, 12, 0], bonds((0, 1, 0.1, 1e5), (0, 2, 0.05, 1e3)), sites=[(2, (0, 1))])
    return system, np.array([(0, 0, 0), (0.11, 0, 0), (0.055, 0, 0)]), "site"


@pytest.mark.parametrize("cls", [ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator])
@pytest.mark.parametrize("make", [box_of_waters, waters_in_implicit_solvent, rigid_waters, bond_to_a_virtual_site])
def test_a_method_that_the_system_cannot_do_is_refused_at_once(make, cls, platform):
    """The method stays what it was, and the run goes on: reinitialize() would lose a Context with such a method."""
    system, positions, message = make()
    integrator = cls(*[300, 1][:2*(cls is ZhangSkeelLangevinIntegrator)], 0.5*FEMTOSECONDS)
    context = bind(system, integrator, platform.getName(), positions)
    integrator.step(1)
    for begin in (ZhangSkeelIntegrator.StiffHessian, ZhangSkeelIntegrator.NewmarkOneIteration):
        integrator.setMethod(begin)
        for method in (FULL_HESSIAN, THIRD_DERIVATIVES):
            with pytest.raises(openmm.OpenMMException, match=f"{cls.__name__}: .*{message}"):
                integrator.setMethod(method)
            assert integrator.getMethod() == begin
            before = positions_of(context)
            context.reinitialize(True)
            assert (positions_of(context) == before).all()
            integrator.step(1)
            assert np.abs(positions_of(context) - before).max() > 0


def test_methods_are_refused_for_the_present_stiff_forces(platform):
    """What ThirdDerivatives needs depends on the stiff groups: of the rest of the potential it needs nothing."""
    _, positions, system = water_box()
    put_bonds_and_angles_into_group_1(system)
    integrator = ZhangSkeelIntegrator(0.5*FEMTOSECONDS)
    context = bind(system, integrator, platform.getName(), positions, 300)
    with pytest.raises(openmm.OpenMMException, match="it has a cutoff"):
        integrator.setMethod(THIRD_DERIVATIVES)
    integrator.setStiffForceGroups({1})
    integrator.setMethod(THIRD_DERIVATIVES)
    with pytest.raises(openmm.OpenMMException, match="it has a cutoff"):
        integrator.setMethod(FULL_HESSIAN)
    assert integrator.getMethod() == THIRD_DERIVATIVES
    integrator.step(1)
    assert context.getStepCount() == 1


def test_without_a_context_a_method_is_not_yet_refused():
    """There is no System to ask; the Context refuses it. The same integrator may then have another method."""
    _, positions, system = water_box()
    integrator = ZhangSkeelIntegrator(0.5*FEMTOSECONDS)
    integrator.setMethod(THIRD_DERIVATIVES)
    with pytest.raises(openmm.OpenMMException, match="it has a cutoff"):
        bind(system, integrator, "CPU")
    integrator.setMethod(FULL_HESSIAN)
    integrator.setMethod(ZhangSkeelIntegrator.StiffHessian)
    context = bind(system, integrator, "CPU", positions, 300)
    integrator.step(1)
    assert context.getStepCount() == 1
