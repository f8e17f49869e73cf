"""The mass penalty integrators in Python: units, warnings, and pairs from a Topology."""

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import FEMTOSECONDS, GAS_CONSTANT, REFERENCE, Waters, energies_of, positions_of
from openmmstiff import MassPenaltyIntegrator, MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import blockedError
from systems import add_residue, angles, bonds, external, force, system_of
from trials import bind, seeded, temperature



def test_a_warning_says_that_nothing_is_stiff(recwarn):
    """A potential that is not recognized: said once, at the line that steps; nothing is said of water."""
    silent = Waters(2).context(MassPenaltyIntegrator(0.004), REFERENCE)
    silent.getIntegrator().step(1)
    assert not recwarn.list
    system = system_of([12, 12], openmm.PythonForce(lambda state: (0.0, np.zeros((2, 3)))))
    integrator = MassPenaltyIntegrator(0.004)
    _context = bind(system, integrator, "Reference", np.eye(3)[:2])
    with pytest.warns(UserWarning, match="no pairs with an inertia.*addPairsFromTopology") as warned:
        integrator.step(1)
    assert warned[0].filename == __file__
    integrator.step(1)
    assert not recwarn.list
    assert integrator.describeStiffMotion() == "0 pairs with an inertia."


def test_pairs_from_a_topology():
    """For a potential that is not recognized: bonds, of a force constant with a unit, and 1-3 distances."""
    waters = Waters(5)
    integrator = MassPenaltyLangevinIntegrator(300, 1, 4*FEMTOSECONDS)
    integrator.setUseBondedForces(False)
    added = addPairsFromTopology(integrator, waters.topology, waters.system, waters.positions,
                                 bondStiffness=4627.504*unit.kilojoule_per_mole/unit.angstrom**2)
    assert added == list(range(15)) and integrator.getNumPairs() == 15
    pairs = {tuple(sorted(integrator.getPairParameters(i)[:2])) for i in added}
    assert pairs == {(o + a, o + b) for o in range(0, 15, 3) for a, b in ((0, 1), (0, 2), (1, 2))}
    # k (T / 2 pi)^2 - mu
    expected = 462750.4*(16*0.004/2/np.pi)**2 - 1/(1/15.99943 + 1/1.007947)
    assert integrator.getPairParameters(0)[2]._value == pytest.approx(expected, rel=1e-6)
    context = waters.context(integrator, REFERENCE)
    assert integrator.computeNumPenalizedPairs() == 15
    integrator.step(100)
    assert context.getStepCount() == 100


# Seven bonds, and eight angles; of six about the carbon one is determined by the others.
PAIRS_OF_METHANOL_AND_WATER = 14


def methanol_and_water(order=("MOH", "HOH"), has_bonds=True, hydrogen_mass=None):
    """The (topology, System) of a methanol and a water, in an order of theirs."""
    topology, system = app.Topology(), openmm.System()
    molecules = {"MOH": ("C H1 H2 H3 O HO", [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5)]),
                 "HOH": ("O H1 H2", [(0, 1), (0, 2)])}
    for name in order:
        names, bonded = molecules[name]
        atoms = add_residue(topology, name, names.split(), bonded if has_bonds else ())
        masses = [atom.element.mass.value_in_unit(unit.dalton) for atom in atoms]
        for i, j in bonded:
            if hydrogen_mass is not None and atoms[j].name[0] == "H":
                masses[i] -= hydrogen_mass - masses[j]
                masses[j] = hydrogen_mass
        for mass in masses:
            system.addParticle(mass)
    return topology, system


def count_pairs(topology, system):
    return len(addPairsFromTopology(MassPenaltyIntegrator(0.004), topology, system))


def test_pairs_need_a_mass_penalty_integrator():
    topology, system = methanol_and_water()
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(MassPenaltyIntegrator(0.004))
    assert len(addPairsFromTopology(compound.getIntegrator(0), topology, system)) == PAIRS_OF_METHANOL_AND_WATER
    for wrong, name in ((openmm.LangevinMiddleIntegrator(300, 1, 0.004), "LangevinMiddleIntegrator"),
                        (compound, "CompoundIntegrator"), (0.004, "float")):
        with pytest.raises(TypeError, match=f"must be a MassPenaltyIntegrator or .*, but is of class {name}"):
            addPairsFromTopology(wrong, topology, system)
    with pytest.raises(ValueError, match="the penalized period is 0.0 ps. Choose the step size first"):
        addPairsFromTopology(MassPenaltyIntegrator(0), topology, system)


@pytest.mark.parametrize("name, value, message", [
    ("topology", None, "topology must be an object of class Topology"),
    ("system", None, "system must be an object of class System"),
    ("system", openmm.System(), "9 atoms, but the System only 0"),
    ("bondStiffness", float("nan"), "bondStiffness must be a finite number that is not negative, but is nan"),
    ("bondStiffness", -1, "bondStiffness must be .* but is -1"),
    ("angleStiffness", float("inf"), "angleStiffness must be .* but is inf"),
    ("angleStiffness", 1*unit.kelvin, "angleStiffness must be a quantity in .*, not in kelvin"),
    ("angleStiffness", "stiff", "angleStiffness must be a number"),
    ("positions", "here", "positions must be an array of shape"),
    ("positions", np.zeros((9, 3))*unit.kelvin, "positions must be a quantity in nanometer, not in kelvin"),
    ("positions", np.zeros((8, 3)), r"each of 9 particles, but are of shape \(8, 3\)"),
    ("positions", np.arange(27), r"each of 9 particles, but are of shape \(27,\)"),
    ("positions", np.where(np.arange(27) == 13, np.nan, np.arange(27.)).reshape(9, 3), "particle 4 are .*nan"),
    ("positions", np.ones((9, 3)), "atoms 2 and 0 are in the same place"),
    ("positions", np.outer([0, 1, 1, 3, 4, 5, 6, 7, 8], [1., 2, 3]), "atoms 2 and 1 are in the same place")])
def test_what_would_lose_pairs_is_an_error(name, value, message):
    topology, system = methanol_and_water()
    integrator = MassPenaltyIntegrator(0.004)
    with pytest.raises((TypeError, ValueError), match=message):
        addPairsFromTopology(integrator, **{"topology": topology, "system": system, name: value})
    assert integrator.getNumPairs() == 0


def test_a_topology_without_bonds_is_an_error_and_one_with_some_a_warning():
    topology, system = methanol_and_water(has_bonds=False)
    with pytest.raises(ValueError, match="the Topology has no bonds; call topology.createStandardBonds"):
        count_pairs(topology, system)
    topology.createStandardBonds()
    with pytest.warns(UserWarning, match=r"atom 0 \(MOH 1, C\) has no bonds \(nor have 5 more\).*addBond"):
        assert count_pairs(topology, system) == 3
    # Atoms that are alone have none.
    argon = app.Topology()
    for _ in range(2):
        add_residue(argon, "AR", ["Ar"])
    assert count_pairs(argon, system_of([40, 40])) == 0


@pytest.mark.parametrize("hydrogen_mass", [None, 2, 4])
def test_a_topology_in_another_order_is_an_error(hydrogen_mass):
    """Heavy hydrogens in the right order are none, nor are other masses of the System's own."""
    topology, system = methanol_and_water(hydrogen_mass=hydrogen_mass)
    assert count_pairs(topology, system) == PAIRS_OF_METHANOL_AND_WATER
    with pytest.raises(ValueError, match=r"atom \d+ .* the order of the atoms is another one"):
        count_pairs(methanol_and_water(("HOH", "MOH"))[0], system)
    for own in (12, 0.1):
        for i in range(9):
            system.setParticleMass(i, own)
        assert count_pairs(topology, system) > 0


def bending_energy(uniform):
    """Of 64 straight molecules that bend with a period of 32 fs, at 12 fs; kT of each, and its error."""
    firsts = range(0, 3*64, 3)
    bends = angles(*((first, first + 1, first + 2, np.pi, 1100) for first in firsts))
    bends.setForceGroup(1)
    system = system_of(64*[16, 12, 16], bends, bonds(*(
        (i, i + 1, 0.116, 1e6) for first in firsts for i in (first, first + 1))))
    integrator = seeded(MassPenaltyLangevinIntegrator(300, 5, 0.012))
    if uniform:
        integrator.setBondInertia(0)
    positions = [[0.116*atom, first, 0] for first in firsts for atom in range(3)]
    context = bind(system, integrator, "Reference", positions, 300)
    energies = []
    for _ in range(400):
        integrator.step(20)
        energies.append(energies_of(context, groups={1})[0]/(64*GAS_CONSTANT*300))
    return np.mean(energies[40:]), blockedError(np.array(energies[40:]))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_spectrum_holds_what_one_inertia_for_all_bonds_loses():
    """A bending in two directions has the energy kT where its atoms are heavier; without that 12 fs are too much."""
    mean, error = bending_energy(uniform=False)
    assert abs(mean - 1) < 4*error + 0.01 and error < 0.02
    with pytest.raises(openmm.OpenMMException, match="MassPenaltyLangevinIntegrator"):
        bending_energy(uniform=True)


def test_a_minimum_that_relaxes_in_a_cold_bath_is_no_collision():
    """What is left after a minimization is many times kT at 1 K."""
    waters = Waters(64)
    integrator = seeded(MassPenaltyLangevinIntegrator(1, 1, 0.012))
    context = waters.context(integrator, REFERENCE)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 300)
    context.setVelocitiesToTemperature(1, 1)
    integrator.step(600)
    assert integrator.getNumCollisions() == 0


def test_a_run_that_heats_itself_is_neither_silent_nor_endless():
    """
    Waters in a sphere at 12 fs, without the inertia of bonds that this needs: they get hot, collide and collide again,
    and each warning says what to do until one molecule needs its third undone step.
    """
    waters = Waters(27)
    waters.system.addForce(external("200*max(0, sqrt(x*x+y*y+z*z)-0.6)^2", *range(waters.system.getNumParticles())))
    waters.positions -= waters.positions.mean(axis=0)
    integrator = seeded(MassPenaltyLangevinIntegrator(300, 1, 0.012))
    integrator.setBondInertia(0)
    context = waters.context(integrator, REFERENCE)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    with pytest.warns(UserWarning) as warned, \
            pytest.raises(openmm.OpenMMException, match="for the third time within 10000 steps.*smaller step size"):
        for _ in range(400):
            integrator.step(50)
    texts = "\n".join(str(each.message) for each in warned)
    assert "as where molecules collide" in texts and "getNumCollisions()" in texts
    assert "like it, have had" in texts and "the heat bath has 300 K" in texts
    assert np.isfinite(positions_of(context)).all()


def test_a_quench_is_no_collision():
    """Particles are warmer than the heat bath until its friction has cooled them."""
    integrator = seeded(MassPenaltyLangevinIntegrator(300, 5, 0.008))
    waters = Waters(8)
    context = waters.context(integrator, REFERENCE)
    integrator.step(200)
    integrator.setTemperature(1)
    integrator.step(5)
    context.reinitialize(preserveState=True)
    integrator.step(495)
    temperatures = []
    for _ in range(100):
        integrator.step(5)
        temperatures.append(temperature(context))
    assert integrator.getNumCollisions() == 0
    assert 0.5 < np.mean(temperatures) < 2


def test_fast_particles_are_no_collision():
    """Nor are velocities that somebody has set, much warmer than the heat bath, or a force that drives a particle."""
    integrator = seeded(MassPenaltyLangevinIntegrator(300, 0.1, 0.004))
    integrator.addPair(1, 2, 1)
    context = bind(system_of([4]*8, external("-20*x", 0)), integrator, "Reference", np.eye(8, 3))
    integrator.step(1000)
    assert context.getState(velocities=True).getVelocities(asNumpy=True)._value[0, 0] > 10
    assert integrator.getNumCollisions() == 0
    for bath in 1, 300:
        context = Waters(8).context(integrator := seeded(MassPenaltyLangevinIntegrator(bath, 0.1, 0.004)), REFERENCE)
        integrator.step(200)
        context.setVelocitiesToTemperature(1500, 1)
        integrator.step(1000)
        assert integrator.getNumCollisions() == 0


def test_inertias_follow_the_parameters_of_torsions():
    """As those of a Context that has begun with them: a torsion that is switched on makes its atoms heavier."""
    torsion = force("CustomTorsionForce", "addTorsion", [(0, 1, 2, 3)], "scale*1000*(1-cos(2*theta))", scale=0)
    system = system_of(4*[12], bonds(*((i, i + 1, 0.14, 3e5) for i in range(3))),
                       angles(*((i, i + 1, i + 2, 2, 500) for i in range(2))), torsion)

    def inertias():
        return [integrator.getInertialBondParameters(i) for i in range(integrator.computeNumInertialBonds())]

    integrator = MassPenaltyIntegrator(0.012)
    context = openmm.Context(system, integrator, REFERENCE)
    assert inertias() == []
    context.setParameter("scale", 1)
    switched = inertias()
    torsion.setGlobalParameterDefaultValue(0, 1)
    integrator = MassPenaltyIntegrator(0.012)
    context = openmm.Context(system, integrator, REFERENCE)
    assert switched == inertias() and len(switched) > 0
