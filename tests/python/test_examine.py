"""Which step a System can take: the fastest motions, with constraints and inertias, and what follows from them."""

import math
from copy import copy

import numpy as np
import openmm
import pytest
from openmm import app, unit
from scipy.linalg import eigh, null_space

import openmmstiff
from conftest import REFERENCE, CountingForce, Waters, positions_of, water_box
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology, examine
from openmmstiff._examination import ROTATION, SHOWN, Examination, Motion, Recommendation, _Examiner, \
    _find_integrator, roundStep
from openmmstiff._forces import Forces
from openmmstiff._modes import Curvature, Distances, Inertia, find_fastest, find_shortest
from test_amoeba import alanine_dipeptide
from systems import angles, bonds, custom_bond, external, force, molecule, periodic, system_of

GRAVITY, LENGTH, MASS, STIFFNESS = 9.8, 0.25, 2.0, 500.0
HANGING = np.array([[0, 0, 0], [0, -LENGTH, 0]])
OXYGEN = system_of([16, 16], bonds((0, 1, 0.12, 4e5)))


def simulation_of(system, positions, topology=None, integrator=None):
    integrator = integrator or openmm.LangevinMiddleIntegrator(300, 1, 0.001)
    simulation = app.Simulation(topology or app.Topology(), system, integrator, REFERENCE)
    simulation.context.setPositions(positions)
    return simulation


def pendulum(constrained):
    """A System: a mass that hangs at rest on a rod, or on a spring, from one that is too heavy to move."""
    rod = {"constraints": [(0, 1, LENGTH)]} if constrained else {}
    spring = [] if constrained else [bonds((0, 1, LENGTH - MASS*GRAVITY/STIFFNESS, STIFFNESS))]
    return system_of([1e9, MASS], external(f"{MASS*GRAVITY}*y", 1), *spring, **rod)


def fastest(forces, positions, pairs, of_bonds=()):
    return find_fastest(Curvature(forces, positions), Inertia(forces, positions, pairs, of_bonds))


def test_a_rod_pulls_a_pendulum_back():
    """The potential of a pendulum is linear: what makes it swing is the tension of the rod, omega^2 = g/l."""
    period, displacement = fastest(Forces(pendulum(constrained=True)), HANGING, [(0, 1, math.inf)])
    assert period == pytest.approx(2*math.pi*math.sqrt(LENGTH/GRAVITY), rel=1e-4)
    assert abs(displacement[1, 1]) < 1e-6*np.linalg.norm(displacement)


@pytest.mark.parametrize("inertia, period", [
    (0.0, 2*math.pi*math.sqrt(MASS/STIFFNESS)), (5.0, 2*math.pi*math.sqrt((MASS + 5)/STIFFNESS)),
    (1e6, 2*math.pi*math.sqrt(LENGTH/GRAVITY))])
def test_an_inertia_slows_a_spring_and_leaves_the_swing(inertia, period):
    """Along the spring omega^2 = k/(m + kappa), across it g/l: the faster of the two is found."""
    pairs = [(0, 1, inertia)] if inertia > 0 else []
    found, _ = fastest(Forces(pendulum(constrained=False)), HANGING, pairs)
    assert found == pytest.approx(period, rel=1e-3)


def test_the_inertia_of_a_bond_adds_to_the_reduced_mass():
    """omega^2 = k/(mu + lambda), also with a mass that does not move."""
    inertia = 3.0
    for masses, reduced in (((2.0, 6.0), 1.5), ((2.0, 0.0), 2.0)):
        forces = Forces(system_of(masses, bonds((0, 1, LENGTH, STIFFNESS))))
        period, displacement = fastest(forces, HANGING, [], [(0, 1, inertia)])
        assert period == pytest.approx(2*math.pi*math.sqrt((reduced + inertia)/STIFFNESS), rel=1e-3)
        assert abs(displacement[1, 0]) < 1e-6 and (masses[1] > 0 or (displacement[1] == 0).all())


def test_constraints_hold_in_the_last_digits():
    """Methane on rods: five distances of hydrogens slow all that is left, and what comes of rounding is no motion."""
    rods, between = [(0, i) for i in range(1, 5)], [(i, j) for i in range(1, 5) for j in range(i + 1, 5)]
    positions = 0.109/3**0.5*np.array([[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    bends = angles(*((i, 0, j, math.acos(-1/3), 300) for i, j in between))
    forces = Forces(system_of([12, 1, 1, 1, 1], bends, constraints=[(*rod, 0.109) for rod in rods]))
    curvature = Curvature(forces, positions)
    for vector in np.eye(15).reshape(-1, 5, 3):
        curvature.measure(vector)
    size = np.array([np.linalg.norm(each) for each in curvature.directions])
    hessian = np.array([change.ravel() for change in curvature.changes])/size[:, None]
    gradients = Distances(between, positions).jacobian().toarray()
    free = null_space(Distances(rods, positions).jacobian().toarray())
    for inertias in (0, 0, 0, 0, 0, 0), (0, 17, 17, 17, 17, 17):
        mass = np.diag(np.repeat(forces.masses, 3)) + gradients.T @ np.diag(inertias) @ gradients
        square = eigh(free.T @ hessian @ free, free.T @ mass @ free, eigvals_only=True)[-1]
        pairs = [(*pair, inertia) for pair, inertia in zip(between, inertias) if inertia > 0]
        period, motion = fastest(forces, positions, [(*rod, math.inf) for rod in rods] + pairs)
        assert period == pytest.approx(2*math.pi/math.sqrt(square), rel=1e-3)
        assert np.abs(Distances(rods, positions).rates(motion)).max() < 1e-6


def test_what_is_known_of_the_forces_serves_the_next_inertia():
    waters = Waters(64)
    forces = Forces(waters.system)
    positions, counts, periods = waters.positions, [], []
    known = Curvature(forces, positions)
    for inertia in 0.1, 0.2, 0.3:
        pairs = [(3*i, 3*i + k, inertia) for i in range(64) for k in (1, 2)]
        before = forces.evaluations
        periods.append(find_fastest(known, Inertia(forces, positions, pairs))[0])
        counts.append(forces.evaluations - before)
        anew, _ = fastest(forces, positions, pairs)
        assert periods[-1] == pytest.approx(anew, rel=0.01)
    assert max(counts[1:]) <= counts[0]/2 and counts[0] < 20


def test_a_box_of_water_takes_few_evaluations():
    topology, positions, system = water_box()
    simulation = app.Simulation(topology, system, openmm.LangevinMiddleIntegrator(300, 1, 0.001),
                                openmm.Platform.getPlatform("CPU"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=20)
    found = examine(simulation)
    assert found.evaluations < 200 and found.getStepSize() == 12*unit.femtosecond


def test_of_many_distances_some_are_measured():
    """80 springs of oxygen in a row: of each kind of distance at most MEASURED, and one figure for all."""
    system = system_of([16]*160, bonds(*((2*i, 2*i + 1, 0.12, 4e5) for i in range(80))))
    positions = np.array([[i//2, 0.12*(i % 2), 0] for i in range(160)], dtype=float)
    simulation = simulation_of(system, positions, molecule("O"*160, [(2*i, 2*i + 1) for i in range(80)]))
    examiner = _Examiner(simulation, 2.5)
    examiner.find_coordinates(positions)
    assert examiner.periods == pytest.approx(np.full(80, 2*math.pi*math.sqrt(8/4e5)), rel=1e-3)


MORSE = "D*(1-exp(-22*(r-0.096)))^2"


@pytest.mark.parametrize("energy, shorter", [("D*22^2*(r-0.096)^2", 1), (MORSE, 0.93)])
def test_a_bond_that_is_stiffer_where_it_is_short_has_a_shorter_period(energy, shorter):
    """At its thermal amplitude a Morse bond of O-H has 1.13 times its curvature at rest: 1.5 fs, harmonic ones 2 fs."""
    positions = np.array([[0, 0, 0], [0.096, 0, 0]])
    forces = Forces(system_of([16, 1.008], custom_bond(energy, D=462750/2/22**2)))
    known, inertia = Curvature(forces, positions), Inertia(forces, positions, [])
    period, _ = motion = find_fastest(known, inertia)
    assert period == pytest.approx(2*math.pi*math.sqrt(16*1.008/17.008/462750), rel=0.01)
    found, _ = find_shortest(known, inertia, motion, 2.5)
    assert found/period == pytest.approx(shorter, abs=0.01)
    simulation = simulation_of(forces.system, positions, molecule("OH", [(0, 1)]))
    assert (examine(simulation).getStepSize("LangevinMiddle") == 2*unit.femtosecond) == (shorter == 1)


def test_fewer_than_4_2_steps_in_a_period_are_not_advised():
    """A period of 41 fs beside a bond with an inertia, such as that of a ring: 10 fs is lost there, 8 fs is not."""
    system = system_of([12, 1.008, 16], bonds((0, 1, 0.109, 284512)), external(f"{16*(2*math.pi/0.041)**2}/2*x^2", 2))
    found = examine(simulation_of(system, [[1, 0, 0], [1.109, 0, 0], [0, 0, 0]], molecule("CHO", [(0, 1)])))
    assert found.getStepSize() == 8*unit.femtosecond and "O3 in MOL 1" in found.recommendations[0].reason


def test_no_step_beyond_12_fs_for_atoms_nor_strides():
    """Two heavy atoms: without hydrogen molecules hold no more, either; in beads slow motion goes further."""
    slow, mass = 16*(2*math.pi/3)**2, 16
    well = external(f"{slow}/2*(x^2+y^2+z^2)", 0, 1)
    crystal = system_of([mass, mass], well)
    atoms = examine(simulation_of(crystal, [[0, 0, 0], [0.01, 0, 0]], molecule("OO", [])))
    assert atoms.getStepSize("MassPenaltyLangevin") == 12*unit.femtosecond
    strides = math.sqrt(3*2.494/mass)*np.array([1, atoms.getStepSize("LangevinMiddle")._value])
    assert strides[1] < 0.02 and atoms.getStepSize("LangevinMiddle")._value >= 0.02
    beads = examine(simulation_of(crystal, [[0, 0, 0], [0.01, 0, 0]]))
    assert beads.getStepSize("MassPenaltyLangevin") > 12*unit.femtosecond
    heavy = examine(simulation_of(system_of([72, 72], copy(well)), [[0, 0, 0], [0.01, 0, 0]], molecule("CC", [])))
    assert heavy.getStepSize("MassPenaltyLangevin") > 12*unit.femtosecond


def notes_of_bonds(system, positions, integrator=None):
    """What examine() says of inertias that sit on no bond of a chain of a hydrogen and carbons."""
    number = system.getNumParticles()
    topology = molecule("H" + "C"*(number - 1), [(i, i + 1) for i in range(number - 1)])
    notes = examine(simulation_of(system, positions[:number], topology, integrator)).notes
    return [note for note in notes if "are no bonds of the Topology" in note]


def test_more_inertia_is_named_where_it_allows_a_larger_step():
    """Inertias fall with the step, so that a smaller one may be no remedy: alanine with its dihedral angles held."""
    topology, positions = alanine_dipeptide()
    system = app.ForceField("amber14-all.xml").createSystem(topology, constraints=app.HBonds)
    at = {(atom.residue.index, atom.name): atom.index for atom in topology.atoms()}
    chain = [at[place] for place in ((0, "C"), (1, "N"), (1, "CA"), (1, "C"), (2, "N"))]
    restraint = openmm.CustomTorsionForce("-2000*cos(theta-0.5)")
    for k in range(2):
        restraint.addTorsion(*chain[k:k + 4])
    system.addForce(restraint)
    simulation = simulation_of(system, positions, topology)
    simulation.minimizeEnergy()
    found = examine(simulation)
    assert found.getStepSize() < 12*unit.femtoseconds
    note, = (each for each in found.notes if "more inertia" in each)
    assert "takes 12 fs" in note
    integrator = MassPenaltyLangevinIntegrator(300, 5, 0.012)
    exec(note.partition(":")[2].strip(), {"integrator": integrator})
    simulation = simulation_of(system, positions_of(simulation.context), topology, integrator)
    assert examine(simulation).getStepSize() >= 12*unit.femtoseconds


def test_inertias_of_what_is_not_bonded_are_named():
    """A stiff term of two ends of a chain, which is neither bond nor 1-3 distance; the remedy that is named is one."""
    positions = np.array([[0, 0, 0], [0.109, 0, 0], [0.16, 0.141, 0], [0.31, 0.141, 0]])
    for pair in (0, 2), (1, 3), (0, 3):
        system = system_of([1.008, 12, 12, 12], bonds(*(
            (i, j, np.linalg.norm(positions[i] - positions[j]), 3e5) for i, j in ((0, 1), (1, 2), (2, 3), pair))))
        notes = notes_of_bonds(system, positions)
        assert len(notes) == (pair == (0, 3))
    assert notes[0].startswith("Of 4 pairs with an inertia 1 (such as H1 of MOL 1, C4 of MOL 1) are no bonds")
    assert "integrator.addPair(i, j, 0)" in notes[0]
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.004)
    integrator.addPair(0, 3, 0)
    assert not notes_of_bonds(system, positions, integrator)


def test_an_inertia_of_a_bond_that_is_none_is_named():
    """Here a 1-3 distance, as Urey-Bradley terms have."""
    system = system_of([1.008, 12, 12], bonds((0, 1, 0.109, 3e5), (1, 2, 0.15, 3e5)))
    positions = [[0, 0, 0], [0.109, 0, 0], [0.16, 0.141, 0]]
    for inertia, number in ((3, 1), (0, 0)):
        integrator = MassPenaltyLangevinIntegrator(300, 1, 0.004)
        integrator.addBondInertia(0, 2, inertia)
        notes = notes_of_bonds(system, positions, integrator)
        assert len(notes) == number
        assert all("(such as H1 of MOL 1, C3 of MOL 1)" in note and "addBondInertia(i, j, 0)" in note for note in notes)


@pytest.mark.parametrize("given", [False, True])
def test_bonds_in_a_collective_variable_are_named(given):
    """Some bonds that the integrator sees, and some in a CustomCVForce: also with an integrator of the user's."""
    collective = openmm.CustomCVForce("bond")
    collective.addCollectiveVariable("bond", bonds((2, 3, 0.12, 4e5)))
    system = system_of([16]*4, bonds((0, 1, 0.12, 4e5)), collective)
    positions = [[0, 0, 0], [0.12, 0, 0], [1, 0, 0], [1.12, 0, 0]]
    topology = molecule("OOOO", [(0, 1), (2, 3)])
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.008) if given else None
    note, = examine(simulation_of(system, positions, topology, integrator)).notes
    assert "addPairsFromTopology(integrator, topology, system, positions, atoms=...)" in note and "O3 of MOL 1" in note
    if given:
        integrator = MassPenaltyLangevinIntegrator(300, 1, 0.008)
        addPairsFromTopology(integrator, topology, system, positions, atoms=[2, 3])
        assert not examine(simulation_of(system, positions, topology, integrator)).notes


def test_what_bends_a_straight_angle_is_heavier():
    """Flexible CO2, 30 fs: without heavier atoms that limits the step, and it is said."""
    system = system_of([16, 12, 16], bonds((0, 1, 0.116, 1e6), (2, 1, 0.116, 1e6)), angles((0, 1, 2, math.pi, 1100)))
    positions = [[0, 0, 0], [0.116, 1e-4, 0], [0.232, 0, 0]]
    topology = molecule("OCO", [(0, 1), (1, 2)], "CO2")
    found = examine(simulation_of(system, positions, topology))
    best = found.recommendations[0]
    assert found.getStepSize() == 12*unit.femtoseconds and "atoms an inertia of" in best.remark and not found.notes
    uniform = MassPenaltyLangevinIntegrator(300, 1, 0.012)
    uniform.setBondInertia(0)
    of_mass_penalty, = (each for each in examine(simulation_of(system, positions, topology, uniform)).recommendations
                        if each.integrator == "MassPenaltyLangevinIntegrator")
    assert of_mass_penalty.stepSize < 0.01 and "C2, O" in of_mass_penalty.reason


def test_bonds_of_virtual_sites_are_none():
    """O-EPW of a file of Amber's: neither a motion nor a reason for addPairsFromTopology()."""
    waters = Waters(2)
    modeller = app.Modeller(waters.topology, waters.positions*unit.nanometer)
    field = app.ForceField("tip4pew.xml")
    modeller.addExtraParticles(field)
    system = field.createSystem(modeller.topology, nonbondedMethod=app.NoCutoff, rigidWater=False)
    for residue in modeller.topology.residues():
        oxygen, *_, site = residue.atoms()
        modeller.topology.addBond(oxygen, site)
    found = examine(simulation_of(system, modeller.positions, modeller.topology))
    assert not found.notes and {motion.kind for motion in found.motions} == {"H-O", "H-O-H"}


def test_constraints_of_frozen_particles_do_not_count():
    at = np.array([[0, 0, 0], [0.12, 0, 0], [1, 0, 0], [1.1, 0, 0]])
    found = [examine(simulation_of(system_of([16, 16, 0, 0], bonds((0, 1, 0.12, 4e5)), constraints=constraints), at))
             for constraints in ((), [(2, 3, 0.1)])]
    assert found[0].recommendations == found[1].recommendations and found[0].recommendations[0].stepSize > 0


def test_particles_without_names_are_numbered():
    topology = app.Topology()
    residue = topology.addResidue("", topology.addChain())
    for _ in range(2):
        topology.addAtom("", None, residue)
    text = str(examine(simulation_of(OXYGEN, [[0, 0, 0], [0.12, 0, 0]], topology)))
    assert "particles 0, 1" in text and ", in" not in text


def test_drude_particles_are_refused_before_anything_is_computed():
    system = system_of([16, 0.4], force("DrudeForce", "addParticle", [(1, 0, -1, -1, -1, -1.0, 0.001, 1, 1)]))
    counter = CountingForce(system)
    with pytest.raises(openmm.OpenMMException, match="is a DrudeForce.*DrudeLangevinIntegrator"):
        examine(simulation_of(system, [[0, 0, 0], [0, 0, 0]]))
    assert counter.count == 0


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
    stretch, bend = found.motions
    assert (stretch.kind, stretch.number, stretch.penalized, stretch.constrained) == ("H-O", 16, 16, 0)
    assert (bend.kind, bend.number, bend.penalized) == ("H-O-H", 8, 8)
    reduced = 1/(1/1.008 + 1/15.999)
    assert stretch.period == pytest.approx(2*math.pi*math.sqrt(reduced/462750.4), rel=0.03)
    assert 12 < stretch.slowedPeriod/found.getStepSize()._value < 20
    assert found.getStepSize("LangevinMiddleIntegrator") == found.getStepSize("LangevinMiddle") == 2*unit.femtosecond
    assert found.getStepSize() == 12*unit.femtosecond
    assert not found.notes
    answer, limit, _, heading, first, second, *rest = str(found).splitlines()
    assert answer == "Use MassPenaltyLangevinIntegrator with a step of 12 fs and a friction of 5/ps."
    assert limit.startswith("Limit: ")
    assert "It slows down 24 distances and gives 16 bonds an inertia of 4.3 dalton (without inertias of bonds" in limit
    assert heading.split() == ["integrator", "step", "(fs)", "friction", "(1/ps)", "limit"]
    assert first.split()[:3] == ["MassPenaltyLangevinIntegrator", "12", "5"]
    assert second.split()[:3] == ["LangevinMiddleIntegrator", "2", "5"]
    assert rest.index("") < next(i for i, line in enumerate(rest) if line.startswith("motion")) and "H-O-H" in rest[-1]
    assert found.getStepSize(MassPenaltyLangevinIntegrator) == found.getStepSize("MassPenaltyLangevin")
    for name in "HMMIntegrator", None:
        with pytest.raises(ValueError, match=f"no step for {name!r}"):
            found.getStepSize(name)


@pytest.mark.parametrize("size, told", [(4, True), (3, False)])
def test_a_network_that_is_solved_at_once_is_told(size, told):
    """A cubic lattice across the box is one block of 3 bonds an atom: rings are not cut."""
    cells = list(np.ndindex(size, size, size))
    springs = [(cells.index(cell), cells.index(tuple((np.array(cell) + step) % size)), 0.3, 1e5)
               for cell in cells for step in np.eye(3, dtype=int)]
    box = [tuple(edge) for edge in 0.3*size*np.eye(3)]
    lattice = system_of([12]*len(cells), periodic(bonds(*springs)), box=box)
    notes = " ".join(examine(simulation_of(lattice, 0.3*np.array(cells))).notes)
    assert ("are one network" in notes) == told


def test_random_numbers_go_on():
    """On Reference all Contexts share them: to examine one leaves those of a run with its seed."""
    ends = []
    for seed, examines in (2, False), (2, True), (3, True):
        integrator = openmm.LangevinMiddleIntegrator(300, 10, 0.001)
        integrator.setRandomNumberSeed(seed)
        simulation = simulation_of(OXYGEN, [[0, 0, 0], [0.12, 0, 0]], integrator=integrator)
        integrator.step(1)      # which leaves one of a pair of Gaussian numbers for the next
        if examines:
            examine(simulation)
        integrator.step(10)
        ends.append(positions_of(simulation.context))
    assert (ends[0] == ends[1]).all()
    assert (ends[0] != ends[2]).all()


def test_a_coordinate_that_is_no_number_is_named():
    system, positions = system_of([16, 16], bonds((0, 1, 0.12, 4e5))), [[0, 0, 0], [0.12, math.nan, 0]]
    with pytest.raises(ValueError, match="positions: those of particle 1"):
        examine(simulation_of(system, positions, molecule("OO", [(0, 1)])))


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


@pytest.mark.parametrize("period, middle, langevin, conserving", [
    (79, 15, 15, 8), (81, 15, 15, 10), (83, 15, 15, 10), (85, 15, 20, 10), (87, 20, 20, 10)])
def test_steps_are_parts_of_the_fastest_period(period, middle, langevin, conserving):
    """4.3 of them, 4.2 with what the mass penalty leaves, and 8 at constant energy; rounded down to usual ones."""
    well = external(f"{72*(2*math.pi/(0.001*period))**2}/2*(x^2+y^2+z^2)", 0)
    found = examine(simulation_of(system_of([72], well), [[0, 0, 0]]))
    for name, step in ("LangevinMiddle", middle), ("MassPenaltyLangevin", langevin), ("MassPenalty", conserving):
        assert found.getStepSize(name) == step*unit.femtosecond, name


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
    beads = system_of([72, 72], bonds((0, 1, 0.47, 1250)))
    best, second, *_ = examine(simulation_of(beads, [[0, 0, 0], [0.47, 0, 0]])).recommendations
    assert best.integrator == "LangevinMiddleIntegrator" and best.stepSize >= second.stepSize


def test_what_is_not_recognized_is_named():
    """Bonds in a PythonForce: the step is that after addPairsFromTopology(), and the text says so."""
    topology = molecule("OO", [(0, 1)], "OXY")

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
    assert found.getStepSize() == 2*found.getStepSize("LangevinMiddleIntegrator") == 12*unit.femtosecond


@pytest.mark.thorough
def test_implicit_methods_have_a_step_where_they_know_what_is_stiff():
    """Harmonic forces and penalties. A CustomBondForce, as AMOEBA's, the mass penalty alone recognizes by itself."""
    custom, penalties = (custom_bond("2e5*(r-0.12)^2") for _ in range(2))
    penalties.setName("ConstraintPenalties")
    for bond, known in (bonds((0, 1, 0.12, 4e5)), True), (penalties, True), (custom, False):
        found = examine(simulation_of(system_of([16, 16], bond), [[0, 0, 0], [0.12, 0, 0]]))
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
    for topology, message in ((Waters(1).topology, "the Topology has 3 atoms, but the System only 2 particles"),
                              (None, "topology must be an object of class Topology")):
        simulation.topology = topology
        with pytest.raises((TypeError, ValueError), match=message):
            examine(simulation)
    simulation.topology = app.Topology()
    simulation.context.setPositions([[0, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="in the same place"):
        examine(simulation)


@pytest.mark.parametrize("masses, positions, message", [
    ([1.0], None, r"examine: the positions have not been set. Call simulation.context.setPositions\(\)"),
    ([1.0, 1.0], [[0, 0, 0], [0, math.nan, 0]], r"examine: positions: those of particle 1 are \[0.0, nan, 0.0\]"),
    ([0.0], [[0, 0, 0]], "examine: no particle of the System has a mass")])
def test_what_cannot_be_examined_is_told(masses, positions, message):
    simulation = app.Simulation(app.Topology(), system_of(masses), openmm.VerletIntegrator(0.001), REFERENCE)
    if positions is not None:
        simulation.context.setPositions(positions)
    with pytest.raises(ValueError, match=message):
        examine(simulation)


def test_no_large_step_from_where_forces_are_large():
    """A sodium and a chloride ion, far from their minimum: what vibrates slowly there is pulled away."""
    system = system_of([22.99, 35.45], force("NonbondedForce", "addParticle", [(1, 0.3, 0.4), (-1, 0.3, 0.4)]))
    for distance in 0.5, 0.6:
        found = examine(simulation_of(system, [[0, 0, 0], [distance, 0, 0]]))
        assert found.getStepSize("LangevinMiddle")._value <= 0.05
        assert all(each.stepSize <= 0.05 for each in found.recommendations if each.stepSize > 0)
        assert sum("no minimum" in note for note in found.notes) == 1


def test_what_heat_does_is_no_lack_of_a_minimum():
    """Beads on a spring, 1.8 standard deviations apart from its length: it swings back."""
    spring = system_of([72, 72], custom_bond("1e4*(r - 0.33)^2"))
    found = examine(simulation_of(spring, [[0, 0, 0], [0.31, 0, 0]]))
    assert not any("no minimum" in note for note in found.notes)


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
    rate, pair = examiner.measure_rotation([Inertia(examiner.forces, positions, [(0, 1, inertia)])])
    assert pair == (0, 1) and rate**2 == pytest.approx(2*2.5/(0.75*0.1**2), rel=0.06)


def test_pairs_of_the_given_integrator_are_examined():
    """A MassPenaltyIntegrator of the Simulation keeps its settings: without pairs nothing is slowed down."""
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.004)
    integrator.setUseBondedForces(False)
    compound = openmm.CompoundIntegrator()
    for each in openmm.VerletIntegrator(0.001), copy(integrator):
        compound.addIntegrator(each)
    for each in integrator, compound:
        simulation = simulation_of(pendulum(constrained=False), HANGING, integrator=each)
        assert [motion.penalized for motion in examine(simulation).motions] == [0]
    assert "examine" in openmmstiff.__all__


def test_of_two_integrators_with_pairs_the_current_one_is_meant():
    """And none while another takes the steps."""
    compound = openmm.CompoundIntegrator()
    for _ in range(2):
        compound.addIntegrator(MassPenaltyLangevinIntegrator(300, 1, 0.004))
    compound.addIntegrator(openmm.VerletIntegrator(0.001))
    for current, given in enumerate([True, True, False]):
        compound.setCurrentIntegrator(current)
        assert isinstance(_find_integrator(compound)[0], type(compound.getIntegrator(current)))
        assert (_find_integrator(compound)[1] is not None) == given


def test_molecules_across_the_box_are_examined_as_whole_ones():
    """Water under forces that take the nearest images, in a box 2 nm wide: wherever it is, its motions are the same."""
    shape = np.array([[0, 0, 0], [0.0757, 0.0586, 0], [-0.0757, 0.0586, 0]])
    system = system_of([16, 1, 1], periodic(bonds((0, 1, 0.09573, 462750.4), (0, 2, 0.09573, 462750.4))),
                       periodic(angles((1, 0, 2, 1.8242, 836.8))), box=2*np.eye(3))
    inside, across = (examine(simulation_of(system, (shape + place) % 2, molecule("OHH", [(0, 1), (0, 2)])))
                      for place in (0.5, 0.02))
    assert inside.getStepSize() == across.getStepSize()
    for one, other in zip(inside.motions, across.motions, strict=True):
        assert one.kind == other.kind and one.slowedPeriod == pytest.approx(other.slowedPeriod, rel=0.05)


def test_no_step_for_integrators_that_refuse_the_constraints():
    """A protein's constrained bonds to hydrogen: what takes no constraints on stiff molecules has no step."""
    topology, positions = molecule("CHH", []), np.array([[0, 0, 0], [0.109, 0, 0], [-0.0363, 0.1028, 0]])
    system = system_of([12, 1, 1], bonds((0, 1, 0.109, 284512)), angles((2, 0, 1, 1.9, 300)),
                       constraints=[(0, 2, 0.109)])
    found = examine(simulation_of(system, positions, topology))
    assert found.getStepSize("MassPenaltyLangevinIntegrator") > found.getStepSize("LangevinMiddleIntegrator")
    for cls in (openmmstiff.ZhangSkeelLangevinIntegrator, openmmstiff.ImpulseLangevinIntegrator):
        with pytest.raises(ValueError, match="there is no step"):
            found.getStepSize(cls.__name__)
        with pytest.raises(openmm.OpenMMException, match="constraint"):
            simulation_of(system, positions, topology, cls(300, 1, 0.002)).step(1)
