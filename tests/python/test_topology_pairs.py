"""addPairsFromTopology(): pairs of some of the atoms, and force constants measured from the forces."""

import itertools

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import REFERENCE, CountingForce, Waters, add_force_with_parameter, remove_forces, water_box
from openmmstiff import MassPenaltyIntegrator, addPairsFromTopology
from openmmstiff._forces import Forces, make_whole
from openmmstiff._modes import Curvature, Inertia, find_fastest
from systems import add_residue, angles, bonds, external, force, molecule, periodic, system_of
from trials import bind

STEP = 0.008
PERIOD = 16*STEP


def pairs_of(molecules, stiffness="measured", integrator=None, platform=REFERENCE, **arguments):
    """{(i, j): force constant} of the pairs that are added."""
    integrator, pairs = integrator or MassPenaltyIntegrator(STEP), {}
    added = addPairsFromTopology(integrator, molecules.topology, molecules.system, molecules.positions,
                                 stiffness=stiffness, platform=platform, **arguments)
    for index in added:
        i, j, inertia = integrator.getPairParameters(index)
        masses = (molecules.system.getParticleMass(particle)._value for particle in (i, j))
        reduced_mass = 1/sum(1/mass for mass in masses if mass > 0)
        pairs[i, j] = (inertia._value + reduced_mass)*(2*np.pi/PERIOD)**2
    return pairs


class Chain:
    """A zigzag of carbons, 0.15 nm and 2 rad, whose harmonic bonds and angles are at rest."""

    pairs = pairs_of

    def __init__(self, length=3, bond=2.5e5, angle=500.0, masses=None, residue="CHN", symbols=None):
        pairs = [(i, i + 1) for i in range(length - 1)]
        self.topology = molecule(symbols or "C"*length, pairs, residue)
        self.system = system_of(masses or [12.01078]*length, bonds(*((*pair, 0.15, bond) for pair in pairs)),
                                angles(*((i, i + 1, i + 2, 2, angle) for i in range(length - 2))))
        self.positions = np.array([(i*0.15*np.sin(1), i % 2*0.15*np.cos(1), 0) for i in range(length)])


@pytest.mark.parametrize("bond, angle", [(2.5e5, 500), (8e5, 2000)])
@pytest.mark.parametrize("masses", [None, [12, 12, 1], [1, 16, 1], [0, 12, 1], [12, 0, 12]])
def test_an_angle_has_the_constant_of_its_distance(bond, angle, masses):
    """k_theta/(dr13/dtheta)^2, whatever the masses: the bonds stay as they are, up to the square of 5e-4/0.15."""
    pairs = Chain(bond=bond, angle=angle, masses=masses).pairs()
    assert pairs[2, 0] == pytest.approx(angle/(0.15*np.cos(1))**2, rel=5e-4)


def test_a_bond_has_its_constant_and_what_else_changes_with_it():
    """A light atom moves alone: along the bond, which does nothing to the angle or to the other bond."""
    assert Chain(masses=[12, 1e5, 1e-3]).pairs()[1, 2] == pytest.approx(2.5e5, rel=1e-4)
    assert Chain(length=2, bond=4e5).pairs() == {(0, 1): pytest.approx(4e5, rel=1e-6)}
    # The atom in the middle, moving along one bond by 1/2, changes the other by 1/2 cos(2) and the angle.
    turned = 0.5*np.sin(2)/0.15
    both = 2.5e5*(1 + (0.5*np.cos(2))**2) + 500*turned**2
    assert Chain().pairs()[0, 1] == pytest.approx(both, rel=1e-3)


def test_a_bond_that_a_topology_has_twice_counts_once():
    twice = Chain()
    atoms = list(twice.topology.atoms())
    twice.topology.addBond(atoms[1], atoms[0])
    assert twice.pairs() == Chain().pairs() and twice.pairs("typical") == Chain().pairs("typical")


def test_a_distance_across_two_angles_counts_once():
    """A diagonal in a ring of four, which has 2 n - 3 distances; in one of three what is across an angle is a bond."""
    for symbols, pairs in ("CCC", 3), ("CCCC", 5):
        ring = Chain(len(symbols))
        ring.topology = molecule(symbols, [(i, (i + 1) % len(symbols)) for i in range(len(symbols))])
        integrator = MassPenaltyIntegrator(STEP)
        added = addPairsFromTopology(integrator, ring.topology, ring.system, stiffness="typical")
        ends = {frozenset(integrator.getPairParameters(index)[:2]) for index in added}
        assert len(ends) == len(added) == pairs


@pytest.mark.parametrize("masses", [[4, 4, 20], [4, 60, 4]])
def test_masses_of_ones_own_are_no_other_order(masses):
    """Of other sums than those of the elements, less or more, whatever the parts are."""
    assert len(Chain(masses=masses).pairs()) == 3


def test_waters_have_the_constants_of_their_force_field(platform):
    """O-H: oxygen moves by 1/17, so that the angle adds 0.2 % and the neighbours in the cluster some 2 %."""
    waters = Waters(20)
    integrator = MassPenaltyIntegrator(STEP)
    integrator.setUseBondedForces(False)
    half_angle, length = 1.82421813418/2, 0.09572
    of_angles = 836.8/(length*np.cos(half_angle))**2
    for (i, j), constant in pairs_of(waters, integrator=integrator, platform=platform).items():
        assert constant == pytest.approx(462750.4 if min(i, j) % 3 == 0 else of_angles, rel=0.06)


@pytest.mark.parametrize("symbols, alike", [("HOH", True), ("COH", False)])
def test_water_is_told_by_its_atoms_whatever_its_name(symbols, alike):
    found = [Chain(masses=[1, 16, 1], residue=residue, symbols=symbols).pairs("typical") for residue in ("HOH", "SOL")]
    assert (found[0] == found[1]) == alike


def test_the_number_of_evaluations_does_not_grow_with_the_molecule():
    counts = {}
    for length in (3, 30, 300):
        chain = Chain(length)
        counter = CountingForce(chain.system)
        assert len(chain.pairs()) == 2*length - 3
        counts[length] = counter.count
    assert counts[3] == 2*3 and counts[30] == counts[300] <= 40
    # Each distance on its own would give the same: what is displaced together does not interfere.
    together, alone = Chain(30).pairs(), {}
    for first in range(28):
        alone |= Chain(30).pairs(atoms=range(first, first + 3))
    assert together == pytest.approx(alone, rel=1e-6)


def test_what_is_soft_gets_half_the_typical_constant():
    assert Chain(bond=1e4, angle=10).pairs() == pytest.approx({(0, 1): 0.5*3.5e5, (1, 2): 0.5*3.5e5, (2, 0): 0.5*1e5})
    # A negative curvature, too: the force constant of nothing but a repulsion.
    assert Chain(length=2, bond=-1e5).pairs() == {(0, 1): pytest.approx(0.5*3.5e5)}
    water = Chain(length=2, bond=1e4, residue="HOH")
    assert water.pairs() == pytest.approx({(0, 1): 0.5*4.6e5})
    assert water.pairs("typical") == pytest.approx({(0, 1): 4.6e5})


def test_a_given_constant_is_not_measured():
    chain = Chain()
    counter = CountingForce(chain.system)
    assert chain.pairs(bondStiffness=3e5, angleStiffness=2e5) == pytest.approx({(0, 1): 3e5, (1, 2): 3e5, (2, 0): 2e5})
    assert counter.count == 0
    assert chain.pairs(bondStiffness=0).keys() == {(2, 0)}
    assert counter.count == 2


def test_forces_are_those_of_the_integrators_groups():
    chain, bond = Chain(length=2), bonds((0, 1, 0.15, 1e6))
    bond.setForceGroup(3)
    chain.system.addForce(bond)
    for groups, constant in (({0, 3}, 1.25e6), ({0}, 2.5e5)):
        integrator = MassPenaltyIntegrator(STEP)
        integrator.setIntegrationForceGroups(groups)
        assert chain.pairs(integrator=integrator) == {(0, 1): pytest.approx(constant, rel=1e-4)}


@pytest.mark.parametrize("symbols, places, triple", [
    ("HCCH", [0, 0.106, 0.226, 0.332], {(1, 2)}),                      # acetylene
    ("OCO", [0, 0.116, 0.232], {(0, 1), (1, 2)}),
    ("NN", [0, 0.11], {(0, 1)}),
    ("HF", [0, 0.092], set()),
    ("CCC", [0, 0.15, 0.30], set())])
def test_triple_and_cumulated_bonds_are_told_by_the_positions(symbols, places, triple):
    """Short, of two atoms alone or in a straight line; a carbonyl group is as short, but not in a line."""
    chain = Chain(len(symbols), masses=[app.Element.getBySymbol(symbol).mass._value for symbol in symbols],
                  symbols=symbols)

    def find_triple():
        found = chain.pairs("typical", angleStiffness=0)
        assert all(constant == pytest.approx(1.1e6) or constant == pytest.approx(3.5e5) for constant in found.values())
        return {pair for pair, constant in found.items() if constant > 1e6}

    chain.positions = np.array([(x, 0.0, 0.0) for x in places])
    assert find_triple() == triple
    if len(symbols) > 2:
        chain.positions[-1] = [places[-2], places[-1] - places[-2], 0]
        assert find_triple() == (triple if len(symbols) > 3 else set())     # the other end is still straight
    chain.positions = None
    assert find_triple() == set()


def test_flat_angles_constraints_and_massless_pairs_are_left_out():
    """Constraints of bonds and of angles; that an angle is flat is told by the positions."""
    chain = Chain(4)
    chain.system.addConstraint(0, 1, 0.15)
    chain.positions[3] = 2*chain.positions[2] - chain.positions[1]
    assert chain.pairs().keys() == {(1, 2), (2, 3), (2, 0)}
    chain.system.addConstraint(0, 2, 0.27)
    assert chain.pairs().keys() == {(1, 2), (2, 3)}
    chain.positions = None
    assert chain.pairs("typical").keys() == {(1, 2), (2, 3), (3, 1)}
    assert Chain(masses=[0, 0, 12]).pairs().keys() == {(1, 2), (2, 0)}


@pytest.mark.parametrize("stiffness", ["typical", "measured"])
def test_pairs_of_some_atoms(stiffness):
    """Both atoms of a bond and all three of an angle are among them, in whatever form they come."""
    chain = Chain(6)
    everything = chain.pairs(stiffness)
    for atoms in ([1, 2, 3], {3, 2, 1}, np.array([1, 2, 3]), (atom for atom in (1, 2, 3, 2))):
        pairs = chain.pairs(stiffness, atoms=atoms)
        assert pairs == pytest.approx({pair: everything[pair] for pair in [(1, 2), (2, 3), (3, 1)]}, rel=1e-6)
    assert chain.pairs(stiffness, atoms=[1, 3]) == {}
    assert chain.pairs(stiffness, atoms=range(6)) == everything


def test_a_mixed_system_has_pairs_of_the_forces_and_of_the_topology():
    """A water whose bonded forces are gone, as a machine-learned one's, among others that keep theirs."""
    waters = Waters(4)
    old, = (each for each in waters.system.getForces() if isinstance(each, openmm.HarmonicBondForce))
    others = bonds(*map(old.getBondParameters, range(2, old.getNumBonds())))
    remove_forces(waters.system, openmm.HarmonicBondForce)
    waters.system.addForce(others)
    integrator = MassPenaltyIntegrator(STEP)
    assert len(addPairsFromTopology(integrator, waters.topology, waters.system, waters.positions, atoms=[0, 1, 2])) == 3
    context = waters.context(integrator, REFERENCE)
    assert integrator.computeNumPenalizedPairs() == 12
    integrator.step(1)
    assert context.getStepCount() == 1


def test_only_the_chosen_atoms_need_bonds(recwarn):
    chain = Chain(3)
    for _ in add_residue(chain.topology, "LOOSE", ["C1", "C2"]):
        chain.system.addParticle(12.01078)
    chain.positions = np.vstack([chain.positions, [(0, 0, 1), (0, 0, 2)]])
    assert len(chain.pairs("typical", atoms=range(3))) == 3 and not recwarn.list
    with pytest.raises(ValueError, match="the Topology has no bonds of the chosen atoms; call"):
        chain.pairs("typical", atoms=[3, 4])
    with pytest.warns(UserWarning, match=r"atom 3 \(LOOSE 2, C1\) has no bonds, and"):
        assert len(chain.pairs("typical", atoms=range(4))) == 3


@pytest.mark.parametrize("arguments, message", [
    ({"atoms": []}, "atoms is empty; leave it out for all"),
    ({"atoms": 3}, "atoms must be an iterable of indices of atoms, not 3"),
    ({"atoms": [0, 3]}, "there is no atom 3; the Topology has 3"),
    ({"atoms": [-1]}, "there is no atom -1"),
    ({"atoms": [0.5]}, "an element of atoms must be an integer, not 0.5"),
    ({"atoms": [True, False, True]}, r"not True; numpy.flatnonzero\(\) makes them of a mask"),
    ({"stiffness": "guessed"}, "stiffness must be one of 'typical', 'measured', not 'guessed'"),
    ({"stiffness": ["typical"]}, "stiffness must be one of 'typical'"),
    ({"platform": "CPU"}, "platform must be an object of class Platform, not 'CPU'"),
    ({"positions": None}, "to measure the stiffness, pass the positions of all 3 particles"),
    ({"positions": np.zeros((3, 3))}, "in the same place")])
def test_what_cannot_be_measured_is_an_error(arguments, message):
    chain, integrator = Chain(), MassPenaltyIntegrator(STEP)
    arguments = {"positions": chain.positions, "stiffness": "measured", "platform": REFERENCE, **arguments}
    with pytest.raises((TypeError, ValueError), match=message):
        addPairsFromTopology(integrator, chain.topology, chain.system, **arguments)
    assert integrator.getNumPairs() == 0


def test_forces_that_are_not_finite_are_an_error():
    chain = Chain()
    chain.system.addForce(external("sqrt(x)", 1))
    chain.positions -= [1, 0, 0]
    with pytest.raises(ValueError, match="the force on particle 1 is .*nan.* Pass positions near a minimum"):
        chain.pairs()


def test_positions_may_be_a_list_of_quantities():
    chain = Chain()
    chain.positions = [openmm.Vec3(*(10*row))*unit.angstrom for row in chain.positions]
    assert chain.pairs() == pytest.approx(Chain().pairs())
    chain.positions = ["C"]*400
    with pytest.raises(TypeError, match=r"must be an array of shape \(particles, 3\), not \['C', .*\.\.\.\]$"):
        chain.pairs()


def test_positions_of_the_atoms_alone_do_not_do_for_more_particles():
    waters = Waters(2)
    waters.system.addParticle(0)
    add_force_with_parameter(waters.system)
    with pytest.raises(ValueError, match="pass the positions of all 7 particles"):
        pairs_of(waters)


def inertias_of(chain, step=0.016, of_hydrogens=None, **arguments):
    """{(i, j): inertia of the bond} as addPairsFromTopology() gives them."""
    integrator = MassPenaltyIntegrator(step)
    if of_hydrogens is not None:
        integrator.setBondInertia(of_hydrogens)
    addPairsFromTopology(integrator, chain.topology, chain.system, chain.positions, **arguments)
    bonds = [integrator.getBondInertiaParameters(i) for i in range(integrator.getNumBondInertias())]
    return {(i, j): inertia.value_in_unit(unit.dalton) for i, j, inertia in bonds}


def test_bonds_of_hydrogens_get_an_inertia():
    """The integrator's, 8 dalton at 16 fs; or what is said, of these, or of all bonds."""
    chain = Chain(masses=[1.008, 12, 12])
    assert inertias_of(chain) == pytest.approx({(0, 1): 8})
    assert inertias_of(Chain(masses=[1.008, 16, 1.008], residue="HOH")) == pytest.approx({(0, 1): 8, (1, 2): 8})
    assert inertias_of(chain, step=0.008) == pytest.approx({(0, 1): 1.6})
    assert inertias_of(chain, of_hydrogens=2) == {(0, 1): 2}
    assert inertias_of(chain, of_hydrogens=0) == inertias_of(chain, bondInertia=0) == {}
    assert inertias_of(chain, bondInertia=0.002*unit.kilogram/unit.mole) == pytest.approx({(0, 1): 2, (1, 2): 2})
    assert inertias_of(chain, atoms=[1, 2]) == {}
    assert inertias_of(Chain(masses=[0, 0, 12]), bondInertia=3) == {(1, 2): 3}
    with pytest.raises(ValueError, match="bondInertia must be a finite number that is not negative, but is -1.0 dal"):
        inertias_of(chain, bondInertia=-1)


def boron_trichloride(height=0):
    """Chlorines round a boron that is in their plane, or above it."""
    chain = Chain(4, masses=[10.81, 35.45, 35.45, 35.45])
    chain.topology = molecule("CCCC", [(0, 1), (0, 2), (0, 3)])     # of the masses above
    turns = 2*np.pi*np.arange(3)/3
    chain.positions = np.vstack([[0, 0, height], 0.174*np.column_stack([np.cos(turns), np.sin(turns), 0*turns])])
    return chain


@pytest.mark.parametrize("height, heavier", [(0, True), (0.04, False)])
def test_what_moves_out_of_its_plane_is_heavier_in_large_steps(height, heavier):
    """BCl3 out of its plane has a period of 72 fs: a boron that takes 5 steps of 30 fs is 12 dalton heavier or more."""
    assert set(inertias_of(boron_trichloride(height), step=0.012)) == set()
    found = inertias_of(boron_trichloride(height), step=0.03)
    assert (0, -1) in found if heavier else not found
    if heavier:
        mobility = [1/(mass + found.get((i, -1), 0)) for i, mass in enumerate([10.81, *3*[35.45]])]
        period = 2*np.pi*np.sqrt(0.174**2/2300/(mobility[0] + sum(mobility[1:])/9))
        assert period == pytest.approx(5*0.03, rel=0.01)


@pytest.mark.parametrize("step", [0.008, 0.016])
def test_what_turns_and_bends_out_of_a_plane_takes_five_steps(step):
    """Ethylene on springs of its bonds, 1-3 distances, heights above neighbours, and a torsion of 160 kJ/mol in all."""
    pairs, x = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)], np.zeros((6, 3))
    x[:, :2] = (-0.067, 0), (0.067, 0), (-0.122, 0.093), (-0.122, -0.093), (0.122, 0.093), (0.122, -0.093)
    integrator = MassPenaltyIntegrator(step)
    springs = bonds(*((i, j, np.linalg.norm(x[i] - x[j]), 3.5e5) for i, j in pairs))
    height = openmm.CustomCompoundBondForce(4, "k/2*(z4-a*z1-b*z2-c*z3)^2")
    for name in "kabc":
        height.addPerBondParameter(name)
    for atom, around in (0, [1, 2, 3]), (1, [0, 4, 5]):
        for i, j in itertools.combinations(around, 2):
            springs.addBond(i, j, np.linalg.norm(x[i] - x[j]), 1e5)
        length = np.linalg.norm(x[around] - x[atom], axis=1).mean()
        place = np.linalg.solve([*x[around, :2].T, [1, 1, 1]], [*x[atom, :2], 1])
        height.addBond([*around, atom], [2300/length**2, *place])
    torsion = force("PeriodicTorsionForce", "addTorsion", [     # k (1 + cos(2 phi - pi)) curves by 4 k
        (i, 0, 1, j, 2, np.pi, 160/4/4) for i in (2, 3) for j in (4, 5)])
    system = system_of([12, 12, *4*[1.008]], springs, torsion, height)
    addPairsFromTopology(integrator, molecule("CCHHHH", pairs), system, x)
    of_pairs, of_bonds = ([(i, j, inertia._value) for i, j, inertia in map(get, range(number)) if inertia._value > 0]
                       for get, number in ((integrator.getPairParameters, integrator.getNumPairs()),
                                           (integrator.getBondInertiaParameters, integrator.getNumBondInertias())))
    forces = Forces(system)
    period, motion = find_fastest(Curvature(forces, x), Inertia(forces, x, of_pairs, of_bonds))
    assert period == pytest.approx(5*step, rel=0.01) and np.abs(motion[:, :2]).max() < 1e-3


def test_a_second_call_is_that_of_the_present_step():
    """What it finds again gets the inertia of now; a pair of others stays."""
    topology, positions, system = water_box(rigid=False)
    found = []
    for steps in ((0.004, 0.012), (0.012, 0.012), (0.012,), (0.012, 0.004), (0.004,)):
        integrator = MassPenaltyIntegrator(0.001)
        integrator.addPair(0, 5, 7.0)
        for step in steps:
            integrator.setStepSize(step)
            addPairsFromTopology(integrator, topology, system, positions)
        found.append([{(i, j): inertia._value for i, j, inertia in map(get, range(number)) if inertia._value > 0}
                      for get, number in ((integrator.getPairParameters, integrator.getNumPairs()),
                                          (integrator.getBondInertiaParameters, integrator.getNumBondInertias()))])
    assert found[0] == found[1] == found[2] and found[3] == found[4] != found[2]
    assert found[0][0].pop((0, 5)) == 7.0 and len(found[0][0]) == 3*topology.getNumResidues()


def test_what_is_slow_enough_loses_its_inertia():
    chain, integrator = Chain(), MassPenaltyIntegrator(STEP)
    for step, added in ((1e-4, 0), (STEP, 3), (1e-4, 0)):
        integrator.setStepSize(step)
        assert len(addPairsFromTopology(integrator, chain.topology, chain.system)) == added
    assert [integrator.getPairParameters(i)[2]._value for i in range(integrator.getNumPairs())] == [0, 0, 0]


@pytest.mark.parametrize("length", [2, 150])
def test_hydrogens_of_fixed_atoms_have_the_inertia_that_forces_give_them(length):
    chain = Chain(length, masses=[1.008] + [0]*(length - 1))
    integrator = MassPenaltyIntegrator(0.012)
    integrator.setBondInertia(2)
    _context = bind(chain.system, integrator, "Reference", chain.positions)
    found = [integrator.getInertialBondParameters(i) for i in range(integrator.computeNumInertialBonds())]
    assert {frozenset((i, j)): inertia._value for i, j, inertia in found} == {frozenset((0, 1)): 2}
    assert inertias_of(chain, step=0.012, of_hydrogens=2) == {(0, 1): 2}


BOXES = [np.diag([3.0, 3.0, 3.0]), np.array([[3.0, 0, 0], [1, 2.8, 0], [-1, 1.2, 2.5]])]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("stiffness", ["typical", "measured"])
def test_molecules_across_the_box_are_whole(box, stiffness):
    """Acetylene with each atom in another image has the constants that it has in one place."""
    chain = Chain(4, masses=[1.008, 12, 12, 1.008], symbols="HCCH")
    for each in chain.system.getForces():
        periodic(each)
    chain.system.setDefaultPeriodicBoxVectors(*box)
    line = np.array([0, 0.106, 0.226, 0.332])[:, None]*[0.6, 0.8, 0]
    chain.positions = line
    whole = chain.pairs(stiffness)
    chain.positions = line + np.array([[0, 0, 0], [1, 0, -2], [0, 3, 0], [1, -1, 1]]) @ box
    assert chain.pairs(stiffness) == pytest.approx(whole, rel=1e-4) and len(whole) == 3
    if stiffness == "typical":
        assert whole[1, 2] == pytest.approx(1.1e6)


@pytest.mark.parametrize("box", BOXES)
def test_atoms_of_whole_molecules_may_have_any_order(box):
    """A branched one, whose atoms are in any images, has all its distances."""
    random = np.random.default_rng(1)
    bonds = np.array([(0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (5, 6)])
    for _ in range(20):
        order = random.permutation(7)
        x = np.cumsum(random.uniform(-0.1, 0.1, (7, 3)), axis=0)
        found = make_whole(x + random.integers(-2, 3, (7, 3)) @ box, order[bonds].tolist(), box)
        assert found - found[0] == pytest.approx(x - x[0], abs=1e-12)


def test_nitrogen_across_the_box_has_its_triple_bond():
    chain = Chain(2, symbols="NN")
    chain.system = system_of([14, 14], periodic(openmm.PythonForce(lambda state: (0.0, np.zeros((2, 3))))),
                             box=2*np.eye(3))
    chain.positions = np.array([[0.05, 1, 1], [1.94, 1, 1]])
    assert chain.pairs("typical") == {(0, 1): pytest.approx(1.1e6)}
