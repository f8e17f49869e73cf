"""Which step a System can take: the fastest motions, with constraints and inertias, and what follows from them."""

import math

import numpy as np
import openmm
import pytest
from openmm import app, unit

import openmmstiff
from conftest import Waters
from openmmstiff import MassPenaltyLangevinIntegrator, examine
from openmmstiff._examination import ROTATION, SHOWN, Examination, Motion, Recommendation, _Examiner, roundStep
from openmmstiff._forces import Forces
from openmmstiff._modes import find_fastest

REFERENCE = openmm.Platform.getPlatform("Reference")
GRAVITY, LENGTH, MASS, STIFFNESS = 9.8, 0.25, 2.0, 500.0
HANGING = np.array([[0, 0, 0], [0, -LENGTH, 0]])


def simulation_of(system, positions, topology=None, integrator=None):
    integrator = integrator or openmm.LangevinMiddleIntegrator(300, 1, 0.001)
    simulation = app.Simulation(topology or app.Topology(), system, integrator, REFERENCE)
    simulation.context.setPositions(positions)
    return simulation


def system_of(masses, *forces):
    system = openmm.System()
    for mass in masses:
        system.addParticle(mass)
    for force in forces:
        system.addForce(force)
    return system


def spring(length, stiffness):
    """A harmonic bond between the first two particles."""
    bond = openmm.HarmonicBondForce()
    bond.addBond(0, 1, length, stiffness)
    return bond


def pendulum(constrained):
    """A System: a mass that hangs at rest on a rod, or on a spring, from one that is too heavy to move."""
    gravity = openmm.CustomExternalForce(f"{MASS*GRAVITY}*y")
    gravity.addParticle(1, [])
    system = system_of([1e9, MASS], gravity)
    if constrained:
        system.addConstraint(0, 1, LENGTH)
    else:
        system.addForce(spring(LENGTH - MASS*GRAVITY/STIFFNESS, STIFFNESS))
    return system


def test_a_rod_pulls_a_pendulum_back():
    """The potential of a pendulum is linear: what makes it swing is the tension of the rod, omega^2 = g/l."""
    period, displacement = find_fastest(Forces(pendulum(constrained=True)), HANGING, [(0, 1, math.inf)])
    assert period == pytest.approx(2*math.pi*math.sqrt(LENGTH/GRAVITY), rel=1e-4)
    assert abs(displacement[1, 1]) < 1e-6*np.linalg.norm(displacement)


@pytest.mark.parametrize("inertia, period", [
    (0.0, 2*math.pi*math.sqrt(MASS/STIFFNESS)), (5.0, 2*math.pi*math.sqrt((MASS + 5)/STIFFNESS)),
    (1e6, 2*math.pi*math.sqrt(LENGTH/GRAVITY))])
def test_an_inertia_slows_a_spring_and_leaves_the_swing(inertia, period):
    """Along the spring omega^2 = k/(m + kappa), across it g/l: the faster of the two is found."""
    pairs = [(0, 1, inertia)] if inertia > 0 else []
    found, _ = find_fastest(Forces(pendulum(constrained=False)), HANGING, pairs)
    assert found == pytest.approx(period, rel=1e-3)


def test_the_inertia_of_a_bond_adds_to_the_reduced_mass():
    """omega^2 = k/(mu + lambda), also with a mass that does not move."""
    inertia = 3.0
    for masses, reduced in (((2.0, 6.0), 1.5), ((2.0, 0.0), 2.0)):
        forces = Forces(system_of(masses, spring(LENGTH, STIFFNESS)))
        period, displacement = find_fastest(forces, HANGING, [], [(0, 1, inertia)])
        assert period == pytest.approx(2*math.pi*math.sqrt((reduced + inertia)/STIFFNESS), rel=1e-3)
        assert abs(displacement[1, 0]) < 1e-6 and (masses[1] > 0 or (displacement[1] == 0).all())


def test_water_is_described_and_left_as_it_was():
    """Periods of TIP3P's bonds from its force constant; steps near those that the documentation gives."""
    waters = Waters(8)
    simulation = simulation_of(waters.system, waters.positions, waters.topology)
    simulation.minimizeEnergy(maxIterations=50)
    simulation.context.setVelocitiesToTemperature(300, 1)
    before = simulation.context.getState(positions=True, velocities=True)
    found = examine(simulation)
    after = simulation.context.getState(positions=True, velocities=True)
    for quantity in "getPositions", "getVelocities":
        assert (getattr(before, quantity)(asNumpy=True) == getattr(after, quantity)(asNumpy=True)).all()
    bonds, angles = found.motions
    assert (bonds.kind, bonds.number, bonds.penalized, bonds.constrained) == ("H-O", 16, 16, 0)
    assert (angles.kind, angles.number, angles.penalized) == ("H-O-H", 8, 8)
    reduced = 1/(1/1.008 + 1/15.999)
    assert bonds.period == pytest.approx(2*math.pi*math.sqrt(reduced/462750.4), rel=0.03)
    assert 12 < bonds.slowedPeriod/found.getStepSize()._value < 20
    assert found.getStepSize("LangevinMiddleIntegrator") == found.getStepSize("LangevinMiddle") == 2*unit.femtosecond
    assert found.getStepSize() == 12*unit.femtosecond
    assert not found.notes
    answer, limit, _, heading, first, second, *rest = str(found).splitlines()
    assert answer == "Use MassPenaltyLangevinIntegrator with a step of 12 fs and a friction of 5/ps."
    assert limit.startswith("Limit: ")
    assert "It slows down 24 distances and gives 16 bonds an inertia of 4.3 dalton (without: " in limit
    assert heading.split() == ["integrator", "step", "(fs)", "friction", "(1/ps)", "limit"]
    assert first.split()[:3] == ["MassPenaltyLangevinIntegrator", "12", "5"]
    assert second.split()[:3] == ["LangevinMiddleIntegrator", "2", "5"]
    assert rest.index("") < next(i for i, line in enumerate(rest) if line.startswith("motion")) and "H-O-H" in rest[-1]
    with pytest.raises(ValueError, match="no step for 'HMMIntegrator'"):
        found.getStepSize("HMMIntegrator")


def test_steps_are_those_that_the_handbook_gives():
    """For liquid TIP3P, docs/choosing.md: flexible and rigid, at constant temperature and energy."""
    steps = {False: {"MassPenaltyLangevin": 12, "LangevinMiddle": 2, "MassPenalty": 4, "ZhangSkeel": 1},
             True: {"MassPenaltyLangevin": 12, "LangevinMiddle": 4, "MassPenalty": 4, "Spook": 1}}
    for rigid, expected in steps.items():
        waters = Waters(64, rigid)
        simulation = simulation_of(waters.system, waters.positions, waters.topology)
        simulation.minimizeEnergy(maxIterations=50)
        found = examine(simulation)
        for name, step in expected.items():
            assert found.getStepSize(f"{name}Integrator") == step*unit.femtosecond, name


def test_friction_is_that_of_a_liquid_or_of_the_vacuum():
    waters = Waters(8)
    for method, expected in (openmm.NonbondedForce.NoCutoff, 5), (openmm.NonbondedForce.CutoffPeriodic, 1):
        waters.system.getForce(1).setNonbondedMethod(method)
        simulation = simulation_of(waters.system, waters.positions, waters.topology)
        frictions = {each.integrator: each.friction for each in examine(simulation).recommendations}
        assert frictions["MassPenaltyLangevinIntegrator"] == frictions["LangevinMiddleIntegrator"] == expected
        assert frictions["ZhangSkeelLangevinIntegrator"] == max(expected, 3)
        assert math.isnan(frictions["MassPenaltyIntegrator"])


@pytest.mark.parametrize("limit, advised", [
    (0.0234, 0.02), (0.5001, 0.5), (0.97, 0.9), (1.25, 1), (1.82, 1.5), (2.14, 2), (2.78, 2.5), (3.8, 3), (4.32, 4),
    (7, 6), (8.66, 8), (10.26, 10), (12.7, 12), (14, 12), (19, 15), (52.7, 50), (130, 120), (1e5, 1e5)])
def test_steps_are_rounded_down_to_usual_ones(limit, advised):
    assert 1000*roundStep(limit/1000) == pytest.approx(advised, rel=1e-9)


def test_table_of_motions_ends_with_the_fastest():
    motions = [Motion(f"A-B{i}", 1, 0.01*(i + 1), 0, 1, 0.1) for i in range(SHOWN + 3)]
    text = str(Examination(motions, [Recommendation("VerletIntegrator", 0.002, "nothing")], ["Mind this."], 10))
    assert f"A-B{SHOWN - 1} " in text and f"A-B{SHOWN} " not in text
    assert text.splitlines()[-1] == "3 more kinds of motion, constrained or slower: Examination.motions"
    assert text.index("Limit") < text.index("Mind this.") < text.index("integrator ")


def test_openmms_integrator_is_recommended_where_nothing_is_slowed_down():
    """A bond of beads is slow."""
    beads = system_of([72, 72], spring(0.47, 1250))
    best, second, *_ = examine(simulation_of(beads, [[0, 0, 0], [0.47, 0, 0]])).recommendations
    assert best.integrator == "LangevinMiddleIntegrator" and best.stepSize >= second.stepSize


def test_what_is_not_recognized_is_named():
    """Bonds in a PythonForce: the step is that after addPairsFromTopology(), and the text says so."""
    topology = app.Topology()
    residue = topology.addResidue("OXY", topology.addChain())
    topology.addBond(*(topology.addAtom(f"O{i}", app.element.oxygen, residue) for i in (1, 2)))

    def bond(state):
        positions = state.getPositions(asNumpy=True)._value
        difference = positions[0] - positions[1]
        length = np.linalg.norm(difference)
        force = -4e5*(length - 0.12)*difference/length
        return 2e5*(length - 0.12)**2, np.array([force, -force])

    system = system_of([16, 16], openmm.PythonForce(bond))
    found = examine(simulation_of(system, [[0, 0, 0], [0.12, 0, 0]], topology))
    assert "addPairsFromTopology" in found.notes[0] and "O1 of OXY 1" in found.notes[0]
    assert found.motions[0].period == pytest.approx(2*math.pi*math.sqrt(8/4e5), rel=1e-3)
    assert found.motions[0].penalized == 1
    assert found.getStepSize() > 2*found.getStepSize("LangevinMiddleIntegrator")


@pytest.mark.thorough
def test_implicit_methods_have_a_step_where_they_know_what_is_stiff():
    """Harmonic forces and penalties. A CustomBondForce, as AMOEBA's, the mass penalty alone recognizes by itself."""
    custom = openmm.CustomBondForce("2e5*(r-0.12)^2")
    custom.addBond(0, 1)
    penalties = openmm.CustomBondForce(custom)
    penalties.setName("ConstraintPenalties")
    for force, known in (spring(0.12, 4e5), True), (penalties, True), (custom, False):
        found = examine(simulation_of(system_of([16, 16], force), [[0, 0, 0], [0.12, 0, 0]]))
        assert [motion.penalized for motion in found.motions] == [1]
        steps = {each.integrator: each.stepSize for each in found.recommendations}
        for name in "ZhangSkeelLangevinIntegrator", "ZhangSkeelIntegrator", "ImpulseLangevinIntegrator":
            assert (steps[name] > 0) == known
        if known:   # its period of 28 fs is not projected
            assert steps["ImpulseLangevinIntegrator"] == 0.006


def test_wrong_arguments_are_errors():
    simulation = simulation_of(pendulum(constrained=False), HANGING)
    with pytest.raises(TypeError, match="simulation must be an object of class Simulation"):
        examine(simulation.context)
    for temperature in 0, -1, math.nan, math.inf:
        with pytest.raises(ValueError, match="temperature"):
            examine(simulation, temperature)
    simulation.context.setPositions([[0, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="in the same place"):
        examine(simulation)


@pytest.mark.parametrize("masses, positions, message", [
    ([1.0], None, r"examine: the positions have not been set. Call simulation.context.setPositions\(\)"),
    ([1.0, 1.0], [[0, 0, 0], [0, math.nan, 0]], r"examine: the position of particle 1 is \[0.0, nan, 0.0\] nm"),
    ([0.0], [[0, 0, 0]], "examine: no particle of the System has a mass")])
def test_what_cannot_be_examined_is_told(masses, positions, message):
    simulation = app.Simulation(app.Topology(), system_of(masses), openmm.VerletIntegrator(0.001), REFERENCE)
    if positions is not None:
        simulation.context.setPositions(positions)
    with pytest.raises(ValueError, match=message):
        examine(simulation)


def test_no_large_step_from_where_forces_are_large():
    """A sodium and a chloride ion, far from their minimum: what vibrates slowly there is pulled away."""
    forces = openmm.NonbondedForce()
    for charge in 1, -1:
        forces.addParticle(charge, 0.3, 0.4)
    system = system_of([22.99, 35.45], forces)
    for distance in 0.5, 0.6:
        found = examine(simulation_of(system, [[0, 0, 0], [distance, 0, 0]]))
        assert found.getStepSize("LangevinMiddle")._value <= 0.05
        assert all(each.stepSize <= 0.05 for each in found.recommendations if each.stepSize > 0)
        assert sum("no minimum" in note for note in found.notes) == 1


def test_what_nothing_pulls_back_has_no_step_unless_it_turns():
    """Free particles are an error; a rigid pair, omega^2 = 2 kT/(mu l^2), may turn by a small angle in a step."""
    system, positions = system_of([1, 1]), [[0, 0, 0], [0.1, 0, 0]]
    with pytest.raises(ValueError, match="nothing pulls"):
        examine(simulation_of(system, positions))
    system.addConstraint(0, 1, 0.1)
    rate = math.sqrt(2*0.0083145*300/0.5)/0.1
    step = examine(simulation_of(system, positions)).getStepSize()._value
    assert 0.7*ROTATION < step*rate < 1.05*ROTATION     # velocities are drawn; rounded down


@pytest.mark.parametrize("inertia", [1e-6, 1e6])
def test_how_fast_a_pair_turns_is_free_of_its_inertia(inertia):
    """<omega^2> = 2 kT/(mu r^2): what the pair's length does is no turning."""
    positions = np.array([[0, 0, 0], [0.06, 0, 0.08]])
    examiner = _Examiner(simulation_of(system_of([1, 3]), positions), 2.5)
    rate, pair = examiner.measure_rotation([positions], [(0, 1, inertia)])
    assert pair == (0, 1) and rate**2 == pytest.approx(2*2.5/(0.75*0.1**2), rel=0.06)


def test_pairs_of_the_given_integrator_are_examined():
    """A MassPenaltyIntegrator of the Simulation keeps its settings: without pairs nothing is slowed down."""
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.004)
    integrator.setUseBondedForces(False)
    simulation = simulation_of(pendulum(constrained=False), HANGING, integrator=integrator)
    assert [motion.penalized for motion in examine(simulation).motions] == [0]
    assert "examine" in openmmstiff.__all__


def test_no_step_for_integrators_that_refuse_the_constraints():
    """A protein's constrained bonds to hydrogen: what takes no constraints on stiff molecules has no step."""
    topology, positions = app.Topology(), np.array([[0, 0, 0], [0.109, 0, 0], [-0.0363, 0.1028, 0]])
    residue = topology.addResidue("CH2", topology.addChain())
    for name in ("C", "H1", "H2"):
        topology.addAtom(name, app.Element.getBySymbol(name[0]), residue)
    angle = openmm.HarmonicAngleForce()
    angle.addAngle(2, 0, 1, 1.9, 300)
    system = system_of([12, 1, 1], spring(0.109, 284512), angle)
    system.addConstraint(0, 2, 0.109)
    found = examine(simulation_of(system, positions, topology))
    assert found.getStepSize("MassPenaltyLangevinIntegrator") > found.getStepSize("LangevinMiddleIntegrator")
    for cls in (openmmstiff.ZhangSkeelLangevinIntegrator, openmmstiff.ImpulseLangevinIntegrator):
        with pytest.raises(ValueError, match="there is no step"):
            found.getStepSize(cls.__name__)
        with pytest.raises(openmm.OpenMMException, match="constraint"):
            simulation_of(system, positions, topology, cls(300, 1, 0.002)).step(1)
