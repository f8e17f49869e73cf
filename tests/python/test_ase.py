"""MassPenaltyLangevin, a MolecularDynamics of ASE: the integrator's steps, and what happens to Atoms around them."""

import functools
import threading
import warnings

import numpy as np
import openmm
import pytest

pytest.importorskip("ase")

from ase import Atoms, units  # noqa: E402
from ase.build import add_adsorbate, bulk, fcc111, molecule  # noqa: E402
from ase.calculators.calculator import CalculationFailed, Calculator, all_changes  # noqa: E402
from ase.calculators.emt import EMT  # noqa: E402
from ase.constraints import (ExternalForce, FixAtoms, FixBondLengths, FixCom, FixedPlane,  # noqa: E402
                             FixInternals, FixSubsetCom, Hookean)
from ase.geometry import find_mic  # noqa: E402
from ase.io import Trajectory, read  # noqa: E402
from ase.md import Langevin, thermalize_momenta  # noqa: E402
from ase.optimize import BFGS  # noqa: E402

from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology, examine  # noqa: E402
from openmmstiff._atoms import Guard, Molecules  # noqa: E402
from openmmstiff.ase import Batch, MassPenaltyLangevin  # noqa: E402
from openmmstiff.sampling import blockedError  # noqa: E402
from openmmstiff.scanning import scan  # noqa: E402
from systems import molecule as topology_of, system_of  # noqa: E402
from trials import bind  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error")
STEP, TEMPERATURE, FRICTION = 6*units.fs, 300, 0.005/units.fs
BONDS, ANGLES = 40.0, 15.0      # eV/Angstrom^2


class Springs(Calculator):
    """Springs between atoms that are close at the start, nearest images, which can be cut. It can be told to fail."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, atoms, reach=1.8):
        super().__init__()
        distances = atoms.get_all_distances(mic=True)
        self.pairs = [(i, j, distances[i, j], BONDS if distances[i, j] < 1.2 else ANGLES)
                      for j in range(len(atoms)) for i in range(j) if distances[i, j] < reach]
        self.evaluations, self.error, self.noise = 0, None, 0.0

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        if self.error is not None:
            raise self.error
        self.evaluations += 1
        i, j, lengths, constants = map(np.array, zip(*self.pairs))
        x = self.atoms.positions
        vectors, distances = find_mic(x[j] - x[i], self.atoms.cell, self.atoms.pbc)
        forces, pulls = np.zeros((len(self.atoms), 3)), (constants*(1 - lengths/distances))[:, None]*vectors
        np.add.at(forces, i, pulls)
        np.subtract.at(forces, j, pulls)
        self.results = {"energy": float(constants @ (distances - lengths)**2/2),
                        "forces": forces + self.noise*self.evaluations}


def water(**arguments):
    atoms = molecule("H2O", **arguments)
    atoms.calc = Springs(atoms)
    return atoms


def run_of(atoms, seed=1, **arguments):
    return MassPenaltyLangevin(atoms, **{"timestep": STEP, "temperature_K": TEMPERATURE, "friction": FRICTION,
                                         "rng": np.random.default_rng(seed), **arguments})


def close(one, other, tolerance=1e-9):
    return np.allclose(one, other, rtol=0, atol=tolerance)


# ---- Steps ----

def test_steps_are_those_of_the_integrator():
    """To the last bit: the same System, made by hand. One after the other, as Reference has one stream of numbers."""
    atoms, other = water(), water()
    positions, masses = atoms.get_positions(), atoms.get_masses()
    run_of(atoms).run(30)
    topology, picosecond = topology_of(atoms.symbols, [(0, 1), (0, 2)], "HOH"), 1000*units.fs

    def compute(state):
        other.positions[:] = 10*state.getPositions(asNumpy=True)._value
        return other.get_potential_energy()/(units.kJ/units.mol), other.get_forces()*(10/(units.kJ/units.mol))

    system = system_of(masses, openmm.PythonForce(compute))
    integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION*picosecond, STEP/picosecond)
    addPairsFromTopology(integrator, topology, system, positions/10)
    for hydrogen in (1, 2):
        integrator.addBondInertia(hydrogen, 0, integrator.getBondInertia())
    random = np.random.default_rng(1)
    integrator.setRandomNumberSeed(1 + int(1e9*abs(random.standard_normal())))
    thermalize_momenta(other, TEMPERATURE, rng=random)
    context = bind(system, integrator, "Reference", positions/10)
    context.setVelocities(other.get_momenta()/masses[:, None]*(picosecond/10))
    integrator.step(30)
    state = context.getState(positions=True, velocities=True)
    assert np.array_equal(atoms.positions, 10*state.getPositions(asNumpy=True)._value)
    assert close(atoms.get_velocities(), state.getVelocities(asNumpy=True)._value*(10/picosecond), 1e-15)


def test_temperatures_and_energies_are_those_of_the_inertias(tmp_path):
    atoms = water()
    with run_of(atoms, friction=0.05/units.fs, logfile=str(tmp_path/"log"), loginterval=1) as dyn:
        dyn.run(4000)
    potential, kinetic, temperature = np.loadtxt(tmp_path/"log", skiprows=1, usecols=(2, 3, 4))[200:].T
    assert np.mean(temperature) == pytest.approx(TEMPERATURE, rel=0.05)
    assert np.mean(kinetic) == pytest.approx(4.5*units.kB*TEMPERATURE, rel=0.05)
    assert np.mean(potential) == pytest.approx(1.5*units.kB*TEMPERATURE, rel=0.1)


def test_settings_have_the_units_of_ase():
    dyn = run_of(water())
    integrator = dyn._integrator
    assert integrator.getStepSize()._value == pytest.approx(0.006)
    assert integrator.getFriction()._value == pytest.approx(5)
    assert integrator.getTemperature()._value == pytest.approx(300)
    dyn.set_temperature(temperature_K=350)
    dyn.set_friction(0.01/units.fs)
    assert integrator.getTemperature()._value == pytest.approx(350)
    assert integrator.getFriction()._value == pytest.approx(10)
    assert dyn.todict() == {"type": "molecular-dynamics", "md-type": "MassPenaltyLangevin", "timestep": STEP,
                            "temperature_K": pytest.approx(350), "friction": 0.01/units.fs, "fixcm": False,
                            "bond_inertia": None}
    with pytest.warns(FutureWarning, match="temperature_K"):
        dyn.set_temperature(400*units.kB)
    with pytest.warns(FutureWarning, match="temperature_K"):
        other = run_of(water(), temperature=400*units.kB, temperature_K=None)
    assert dyn.temp == other.temp == pytest.approx(400*units.kB)


def inertias(dyn):
    """{("pair" or "bond", i, j): inertia} of those that have one."""
    integrator = dyn._integrator
    every = [("pair", *integrator.getPairParameters(i)) for i in range(integrator.getNumPairs())] \
        + [("bond", *integrator.getBondInertiaParameters(i)) for i in range(integrator.getNumBondInertias())]
    return {(kind, *sorted((i, j))): inertia._value for kind, i, j, inertia in every if inertia._value > 0}


def test_inertias_follow_the_step():
    dyn = run_of(water())
    for femtoseconds in (2, 8, 0.1, 6):     # at 0.1 fs nothing is slowed down
        dyn.set_timestep(femtoseconds*units.fs)
        another = run_of(water(), timestep=femtoseconds*units.fs)
        assert inertias(dyn) == pytest.approx(inertias(another))
        assert np.array_equal(dyn._guard.first, another._guard.first)
        assert dyn._guard.lengths == pytest.approx(another._guard.lengths, abs=1e-12)
        dyn.run(2)
    assert len(inertias(dyn)) == 5
    run_of(water(), timestep=0.1*units.fs).run(1)       # without a warning of OpenMM's
    heavier = water()
    heavier.set_masses([15.999, 1.208, 1.008])
    of_bonds = inertias(run_of(heavier, timestep=8*units.fs))
    assert of_bonds["bond", 0, 2] - of_bonds["bond", 0, 1] == pytest.approx(0.2, abs=1e-3)


def test_the_inertia_of_bonds_is_what_is_given():
    """At all steps; by default it follows them, see above."""
    for given, of_bonds in (0, {}), (2, {("bond", 0, 1): 2, ("bond", 0, 2): 2}):
        dyn = run_of(water(), bond_inertia=given)
        for femtoseconds in (6, 10):
            dyn.set_timestep(femtoseconds*units.fs)
            assert {each: inertia for each, inertia in inertias(dyn).items() if each[0] == "bond"} == of_bonds
        assert len(inertias(dyn)) == 3 + len(of_bonds) and dyn.todict()["bond_inertia"] == given
        dyn.run(2)


@pytest.mark.parametrize("arguments, error, message", [
    ({"friction": None}, TypeError, "Missing 'friction'"),
    ({"temperature_K": None}, TypeError, "temperature_K"),
    ({"temperature": 0.02}, TypeError, "temperature_K"),
    ({"temperature": 300, "temperature_K": None}, ValueError,
     r"temperature=300 eV is 3.48e\+06 K. Were kelvin meant\? .*: temperature_K=300"),
    ({"temperature_K": -1}, ValueError, "temperature_K must be a finite number that is not negative, but is -1"),
    ({"temperature_K": np.array([300, 300, 300])}, TypeError, "temperature_K must be a number"),
    ({"friction": np.inf}, ValueError, "friction must be a finite number"),
    ({"timestep": 0}, ValueError, "timestep must be a finite number that is positive, but is 0"),
    ({"timestep": "8 fs"}, TypeError, "timestep must be a number"),
    ({"timestep": 12}, ValueError, r"is a step of 122 fs. Were femtoseconds meant\? .*: timestep=12\*ase.units.fs"),
    ({"timestep": 1}, ValueError, r"is a step of 10.2 fs. Were femtoseconds meant\? Multiply by ase.units.fs"),
    ({"timestep": 0.5}, ValueError, r"is a step of 5.09 fs. Were femtoseconds meant\?"),
    ({"timestep": 122}, ValueError, r"is a step of 1.24e\+03 fs. Were femtoseconds meant\?"),
    ({"timestep": 80*units.fs}, ValueError, r"a timestep of 80 fs is beyond 30 fs. Take a smaller one, .*examine\(atoms"),
    ({"timestep": 12e-3}, ValueError,
     r"is a step of 0.122 fs. Were picoseconds meant\? Multiply by 1000\*ase.units.fs: timestep=0.012\*1000\*ase"),
    ({"timestep": 0.0005}, ValueError, r"is a step of 0.00509 fs. Were picoseconds meant\?"),
    ({"friction": 5}, ValueError, r"friction=5 is one of 491/ps, beyond 200/ps. Were 1/ps meant\? Divide by 1000\*ase"),
    ({"friction": 1}, ValueError, r"friction=1 is one of 98.2/ps. Were 1/ps meant\? .*=5/\(1000\*ase.units.fs\)"),
    ({"friction": 5/units.fs}, ValueError, r"is one of 5e\+03/ps, beyond 200/ps. Were 1/ps meant\?"),
    ({"bond_inertia": -1}, ValueError, "bond_inertia must be a finite number that is not negative, but is -1"),
    ({"rng": 3}, TypeError, "rng must be a generator of random numbers, such as .*, not 3"),
    ({"fixcm": 1}, TypeError, "fixcm must be True or False"),
    ({"atoms": "H2O"}, TypeError, "atoms must be an object of ASE's class Atoms, not 'H2O'"),
    ({"bonds": 5}, TypeError, r"bonds must be pairs of indices of atoms, such as \[\(0, 1\), .*, not 5"),
    ({"bonds": [0, 1]}, TypeError, r"bonds must be pairs of indices of atoms, .*, not \[0, 1\]"),
    ({"bonds": []}, ValueError, "no bonds to slow down"),
    ({"bonds": [(0, 3)]}, ValueError, r"different atoms from 0 to 2, but has \(0, 3\)"),
    ({"bonds": [(0, 0)]}, ValueError, r"different atoms .* \(0, 0\)"),
    ({"bonds": [(0, 1, 2)]}, ValueError, r"pairs of different atoms"),
    ({"bonds": [(0, 1.5)]}, TypeError, "an index in bonds must be an integer, not 1.5"),
    ({"length": 3}, TypeError, "length")])
def test_wrong_arguments_are_errors(arguments, error, message, tmp_path):
    """Before anything is written."""
    kept = tmp_path/"run.traj"
    kept.write_text("kept")
    with pytest.raises(error, match=message):
        run_of(**{"atoms": water(), **arguments, **({} if "length" in arguments else {"trajectory": kept})})
    assert kept.read_text() == "kept"


def test_settings_with_units_are_taken():
    """Steps up to 30 fs and frictions up to 200/ps, as people write them, are not mistaken for other units."""
    dyn = run_of(water())
    dyn.set_timestep(0.1)       # 1 fs in ASE's time, and 100 fs if it were picoseconds
    for femtoseconds in np.arange(1, 121)/4:
        dyn.set_timestep(float(femtoseconds)*units.fs)
    for friction in (0.002*1000*units.fs, *np.arange(201)):     # the first as in tutorials of ASE
        dyn.set_friction(float(friction)/(1000*units.fs))
    with pytest.raises(ValueError, match="a timestep of 31 fs is beyond 30 fs"):
        dyn.set_timestep(31*units.fs)
    with pytest.raises(ValueError, match="one of 201/ps, beyond 200/ps"):
        dyn.set_friction(0.201/units.fs)
    for settings in dyn.todict(), run_of(water(), timestep=30*units.fs, friction=200/(1000*units.fs)).todict():
        assert settings["timestep"] == 30*units.fs and settings["friction"] == 200/(1000*units.fs)


# ---- As other dynamics of ASE ----

def test_runs_as_any_other_dynamics(tmp_path):
    atoms, steps = water(), []
    with run_of(atoms, trajectory=str(tmp_path/"run.traj"), logfile=str(tmp_path/"log"), loginterval=2) as dyn:
        dyn.attach(lambda: steps.append(dyn.nsteps), interval=3)
        assert list(dyn.irun(4)) == [False]*4 + [True]
        assert dyn.run(2) is True
    assert dyn.nsteps == 6 and steps == [0, 3, 6]
    assert dyn.get_time() == pytest.approx(36*units.fs)
    frames, lines = read(tmp_path/"run.traj", ":"), (tmp_path/"log").read_text().splitlines()
    assert len(frames) == 4 and len(lines) == 5
    assert close(frames[-1].positions, atoms.positions) and close(frames[-1].get_momenta(), atoms.get_momenta())
    assert frames[-1].get_potential_energy() == pytest.approx(atoms.get_potential_energy())
    assert float(lines[-1].split()[-3]) == pytest.approx(atoms.get_potential_energy(), abs=1e-3)
    with Trajectory(tmp_path/"run.traj") as trajectory:
        assert trajectory.description["md-type"] == "MassPenaltyLangevin"
    with run_of(atoms, trajectory=tmp_path/"run.traj", append_trajectory=True) as dyn:
        dyn.run(1)
    assert len(read(tmp_path/"run.traj", ":")) == 6


def test_a_step_asks_the_calculator_once(tmp_path):
    atoms = water()
    dyn = run_of(atoms, logfile=str(tmp_path/"log"), trajectory=str(tmp_path/"run.traj"))
    dyn.attach(atoms.get_temperature)
    dyn.attach(atoms.get_forces)
    assert atoms.calc.evaluations == 0
    for steps, evaluations in (10, 1 + 2 + 10), (5, 18), (0, 18):   # at the start, for the memory, after each step
        dyn.run(steps)
        assert atoms.calc.evaluations == evaluations


@pytest.mark.parametrize("generator", [np.random.default_rng, np.random.RandomState])
def test_random_numbers_come_from_rng(generator):
    ends = []
    for seed in (1, 1, 2):
        atoms = water()
        run_of(atoms, rng=generator(seed)).run(3)
        ends.append(atoms.get_positions())
    assert np.array_equal(ends[0], ends[1]) and not close(ends[0], ends[2])
    np.random.seed(5)
    run_of(water(), rng=None)
    drawn = np.random.standard_normal()
    np.random.seed(5)
    assert drawn == np.random.standard_normal(11)[-1]   # of steps and nine components of velocities


# ---- What is done to atoms ----

def test_a_run_goes_on_from_the_momenta_of_another(tmp_path):
    """Of its own class, or drawn."""
    atoms = water()
    run_of(atoms, trajectory=tmp_path/"run.traj").run(30)
    last = read(tmp_path/"run.traj")
    last.calc = Springs(water())
    dyn = run_of(last)
    assert np.array_equal(last.get_momenta(), atoms.get_momenta())
    dyn.run(1)
    assert close(last.positions, atoms.positions, 0.3)
    thermalize_momenta(last, 300, rng=np.random.default_rng(2))
    drawn = last.get_momenta()
    dyn.set_timestep(1e-3*units.fs)     # in which next to nothing happens
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # nothing is stiff then
        dyn.run(1)
    assert close(last.get_momenta(), drawn, 1e-2)


def test_another_seed_loses_no_momenta():
    """Nor does it where positions cannot be taken at first."""
    atoms, other = water(), water()
    runs = [run_of(each, friction=0) for each in (atoms, other)]
    for dyn in runs:
        dyn.run(3)
    positions = atoms.get_positions()
    atoms.positions[1] += [0, 0, 2]
    with pytest.raises(RuntimeError, match="broken"):
        runs[0].set_rng(np.random.default_rng(2))
    atoms.positions[:] = positions
    for dyn in runs:
        dyn.run(3)
    assert close(atoms.positions, other.positions) and close(atoms.get_momenta(), other.get_momenta())


@pytest.mark.parametrize("second", ["mass penalty", "Langevin"])
def test_integrators_take_turns_on_the_same_atoms(second):
    """The energies of a water are those of equipartition."""
    atoms, energies = water(), []
    large = run_of(atoms, timestep=10*units.fs, friction=0.02/units.fs)
    if second == "mass penalty":
        other = run_of(atoms, timestep=2*units.fs, friction=0.02/units.fs), 5
    else:
        other = Langevin(atoms, 0.5*units.fs, temperature_K=TEMPERATURE, friction=0.02/units.fs, fixcm=False,
                         rng=np.random.default_rng(3)), 10
    for _ in range(500):
        for dyn, steps in ((large, 5), other):
            dyn.run(steps)
            energies.append((atoms.get_potential_energy(), atoms.get_kinetic_energy()))
    assert np.mean(energies, axis=0)/(units.kB*TEMPERATURE) == pytest.approx([1.5, 4.5], rel=0.12)


def test_momenta_and_positions_that_are_set_count():
    atoms = water()
    dyn = run_of(atoms, friction=0, temperature_K=0)
    dyn.run(1)
    speed = 0.01
    atoms.set_momenta(atoms.get_masses()[:, None]*[speed, 0, 0])
    start = atoms.get_positions()
    dyn.run(10)
    assert close(atoms.positions, start + [10*speed*STEP, 0, 0], 1e-6)
    atoms.translate([0, 3, 0])
    dyn.run(1)
    assert close(atoms.positions, start + [11*speed*STEP, 3, 0], 1e-6)
    atoms.set_distance(0, 1, 1.1)
    energy = atoms.get_potential_energy()
    dyn.run(1)
    assert 0.01 < atoms.get_potential_energy() < energy


def test_other_atoms_are_an_error():
    for change in (lambda atoms: atoms.set_masses([16, 2, 2]), lambda atoms: atoms.append("H"),
                   lambda atoms: atoms.set_chemical_symbols("SHH"), lambda atoms: atoms.set_constraint(FixAtoms([0])),
                   lambda atoms: atoms.set_constraint(FixCom())):
        atoms = water()
        dyn = run_of(atoms)
        change(atoms)
        with pytest.raises(ValueError, match="have changed: make a new MassPenaltyLangevin"):
            dyn.run(1)
    atoms = water()
    dyn = run_of(atoms)
    atoms.positions[1, 2] = np.nan
    with pytest.raises(ValueError, match=LOST):
        dyn.run(1)


def changed(**settings):
    """A water after some of its set methods."""
    atoms = water()
    for name, value in settings.items():
        getattr(atoms, f"set_{name}")(value)
    return atoms


LOST = r"the position of atom 1 \(H\) is \[.*nan\]"
REFUSED = [
    (changed(masses=[16, 0, 1]), {}, r"atom 1 \(H\) has a mass of 0.0; set it by atoms.set_masses\(\)"),
    (changed(positions=[[0, 0, 0], [0, 0, np.nan], [0, 1, 0]]), {}, LOST),
    (changed(positions=[[0, 0, 0], [0, 1, 0], [0, 1, 0]]), {"bonds": [(0, 1), (0, 2)]},
     r"atom 1 \(H\) and atom 2 \(H\) are in the same place"),
    (changed(constraint=FixAtoms([0])), {"fixcm": True}, "fixcm=True does not go with a FixAtoms"),
    *((atoms, {}, "all atoms are in a FixAtoms, or there are none")
      for atoms in (changed(constraint=FixAtoms(mask=[True]*3)), Atoms())),
    (changed(constraint=[FixAtoms([0]), FixCom()]), {}, "FixCom does not go with a FixAtoms"),
    *((changed(constraint=[FixAtoms([0]), each]), {}, rf"atoms have a {type(each).__name__}, but FixAtoms, .*\. {remedy}")
      for remedy, constraints in {
          "Leave it out if the calculator has forces along .* TIP3P has none: take a flexible water": (
              FixBondLengths([(0, 1)]), FixInternals(bonds=[[1, [0, 1]]])),
          "Hold the atoms by a FixAtoms, pull them by a Hookean, or take": (
              FixedPlane(1, (0, 0, 1)), FixSubsetCom([1, 2]), ExternalForce(1, 2, 0.1))}.items() for each in constraints),
    *((solid, {}, "extended solids there are the integrators of ASE") for solid in (
        bulk("Cu")*(3, 3, 3), bulk("C", "diamond", 3.57), bulk("C", "diamond", 3.57, cubic=True)*(2, 2, 2),
        Atoms("C4H8", [(1.27*i, 0.8*(i % 2), 0) for i in range(4)]
              + [(1.27*i, 0.8*(i % 2) + (0.6 if i % 2 else -0.6), z) for i in range(4) for z in (-0.9, 0.9)],
              cell=[4*1.27, 10, 10], pbc=True)))]


@pytest.mark.parametrize("atoms, arguments, message", REFUSED)
def test_unfit_atoms_are_refused(atoms, arguments, message):
    for use in (run_of, examine)[:1 if arguments else 2]:
        with pytest.raises(ValueError, match=message):
            use(atoms, **arguments)


# ---- Constraints ----

def test_fixed_atoms_stay():
    atoms, temperatures = changed(constraint=FixAtoms([0])), []
    place = atoms.positions[0].copy()
    dyn = run_of(atoms, friction=0.05/units.fs)
    dyn.attach(lambda: temperatures.append(atoms.get_temperature()))
    dyn.run(2000)
    assert close(atoms.positions[0], place, 1e-14) and not atoms.get_momenta()[0].any()
    assert np.mean(temperatures) == pytest.approx(TEMPERATURE, rel=0.1)


@pytest.mark.parametrize("arguments, constraint, degrees", [({"fixcm": True}, None, 9), ({}, FixCom(), 6)])
def test_the_centre_of_mass_is_held_if_asked_for(arguments, constraint, degrees):
    """Neither it nor the temperature has the noise of a step, which CMMotionRemover takes away before the next."""
    atoms, temperatures = changed(constraint=constraint), []
    centre = atoms.get_center_of_mass()
    dyn = run_of(atoms, friction=0.05/units.fs, **arguments)
    assert dyn.todict()["fixcm"]

    def look():
        assert close(atoms.get_center_of_mass(), centre) and close(atoms.get_momenta().sum(axis=0), 0)
        temperatures.append(atoms.get_temperature())

    dyn.attach(look)
    dyn.run(3000)
    assert np.mean(temperatures) == pytest.approx(6/degrees*TEMPERATURE, rel=0.06)      # as ASE counts them
    assert atoms.calc.evaluations == 3003


@pytest.mark.parametrize("constraint", [
    Hookean(0, (0, 0, 3), k=0.5, rt=1), Hookean(1, (0, 0, 1, 0.7), k=2), Hookean(1, 2, k=2, rt=1.2)])
def test_springs_that_are_constraints_of_ase_act_once(constraint):
    """As if they were the calculator's, in examine(), too; besides a FixAtoms, which changes no force."""

    class Pulled(Springs):
        def calculate(self, atoms=None, *others):
            super().calculate(atoms, *others)
            self.results["energy"] += constraint.adjust_potential_energy(self.atoms)
            constraint.adjust_forces(self.atoms, self.results["forces"])

    atoms, other = changed(constraint=[FixAtoms([2]), constraint]), changed(constraint=FixAtoms([2]))
    other.calc = Pulled(other)
    assert abs(atoms.get_forces() - water().get_forces())[:2].max() > 0.1
    found = [examine(each) for each in (atoms, other)]
    assert found[0].motions == found[1].motions
    for each in (atoms, other):
        run_of(each).run(50)
    assert close(atoms.positions, other.positions)
    assert atoms.get_potential_energy() == pytest.approx(other.get_potential_energy())


# ---- Bonds ----

@pytest.mark.parametrize("atoms, count", [
    *((molecule(name), count) for name, count in [
        ("CH3CH2OH", 8), ("C6H6", 12), ("H2O2", 3), ("H2", 1), ("F2", 1), ("CH3CN", 5), ("SiH4", 4), ("CH3SH", 5),
        ("PH3", 3), ("CCl4", 4), ("bicyclobutane", 11)]),
    # Short bonds while they vibrate: four standard deviations at 300 K above where they are at rest.
    *((Atoms(pair, [(0, 0, 0), (0, 0, length)]), 1) for pair, length in (("HH", 0.84), ("FF", 1.55)))])
def test_bonds_are_perceived(atoms, count):
    assert len(run_of(atoms)._molecules.bonds) == count


def test_ions_and_neighbours_have_no_bonds():
    """Na+ and its waters, a hydrogen bond."""
    atoms = molecule("H2O") + Atoms("Na", [(0, 0, 2.4)]) + Atoms("OH2", molecule("H2O").positions + [0, 2.4, -0.9])
    dyn = run_of(atoms)
    assert dyn._molecules.bonds == [(0, 1), (0, 2), (4, 5), (4, 6)]
    assert [residue.name for residue in dyn._molecules.topology.residues()] == ["HOH", "MOL", "HOH"]


def test_order_of_atoms_does_not_matter():
    """Those of the same element one after the other, as in files of some programs."""
    pair = molecule("H2O") + Atoms("OH2", molecule("H2O").positions + [4, 0, 0])
    found = [sorted(inertias(run_of(atoms)).values()) for atoms in (pair, pair[[0, 3, 1, 4, 2, 5]])]
    assert len(found[0]) == 10 and found[0] == pytest.approx(found[1])


def test_molecules_may_lie_across_boundaries():
    """The same run as without the box; atoms go on from where they are, and may be wrapped between runs."""
    whole = water(vacuum=3, pbc=True)
    whole.set_cell([[7, 0, 0], [1, 7, 0], [0, 2, 7]])
    ends = []
    for shift in ([0, 0, 0], [3, 2, 1.5]):
        atoms = whole.copy()
        atoms.translate(-atoms.positions[0] + shift)
        atoms.translate(-np.array(shift))
        atoms.wrap()
        assert np.ptp(atoms.positions) > 5
        atoms.calc = Springs(atoms)
        dyn = run_of(atoms)
        dyn.run(20)
        assert np.ptp(atoms.positions) > 5
        atoms.wrap()
        dyn.run(20)
        ends.append(atoms.get_all_distances(mic=True))
    assert close(*ends, 1e-6) and not close(ends[0], whole.get_all_distances(), 1e-3)


def test_atoms_that_no_run_goes_on_from_may_be_put_right():
    """Wrapped and pulled apart, in a cell that is stretched, or without periodicity, and then as before."""
    atoms = water(vacuum=3, pbc=True)
    atoms.positions -= atoms.positions[0]
    dyn = run_of(atoms)
    dyn.run(2)
    kept, cell = atoms.get_positions(), atoms.cell.array.copy()
    for pull, stretch, periodic in ((2, 1, True), (0, 1.2, True), (0, 1, False)):
        atoms.wrap()
        atoms.positions[1, 1] += pull
        atoms.set_cell(stretch*cell)
        atoms.pbc = periodic
        with pytest.raises(RuntimeError, match="the bond of atom .* has broken"):
            dyn.run(1)
        atoms.set_cell(cell)
        atoms.pbc, atoms.positions[:] = True, kept
        dyn.run(1)
        assert close(atoms.positions, kept, 0.2)
        kept = atoms.get_positions()
    atoms.wrap()
    dyn.run(1)
    atoms.pbc = False
    with pytest.raises(RuntimeError, match="the bond of atom .* has broken"):
        dyn.run(1)


def test_bonds_of_a_molecule_on_a_surface():
    """CO on copper that moves: its bonds, and what comes close to it, are not looked at."""
    surface = fcc111("Cu", (2, 2, 2), vacuum=8)
    add_adsorbate(surface, molecule("CO"), 3, "ontop", mol_index=1)
    surface.calc = EMT()
    with pytest.raises(ValueError, match=r"\(Cu\).*give their bonds alone by bonds="):
        run_of(surface)
    dyn = run_of(surface, bonds=np.array([(8, 9)]), timestep=2*units.fs)
    assert dyn._integrator.getNumPairs() == 1
    dyn.run(3)
    surface.positions[8:, 2] -= 1.1
    dyn.run(1)
    assert surface.get_distances(9, range(8)).min() < 2


def test_a_collision_is_told():
    """By the names of atoms, once; the step is made again."""
    class Pushed(Springs):
        push = 0.0

        def calculate(self, *arguments):
            super().calculate(*arguments)
            self.results["forces"][0, 2] += self.push
            self.push = 0.0

    atoms = molecule("H2O")
    atoms.calc = Pushed(atoms)
    dyn = run_of(atoms)
    dyn.run(101)
    assert dyn.get_number_of_collisions() == 0
    atoms.calc.push = 15.0  # eV/A, which gives the oxygen 80 kT
    atoms.calc.reset()
    text = r"MassPenaltyLangevin: in a step of 6 fs the molecule with atom 0 \(O\), atom 1 \(H\), atom 2 \(H\) .* " \
        r"of 1.5 fs .* get_number_of_collisions\(\) tells"
    with pytest.warns(UserWarning, match=text):
        dyn.run(1)
    assert (dyn.get_number_of_collisions(), dyn.nsteps) == (1, 102)


def test_a_bond_that_breaks_ends_the_run():
    atoms = molecule("C2H6")
    atoms.calc = Springs(atoms, reach=2.5)
    dyn = run_of(atoms)
    dyn.run(3)
    atoms.calc.pairs = [pair for pair in atoms.calc.pairs if 2 not in pair[:2]]
    momenta = atoms.get_momenta()
    momenta[2] = 3*(atoms.positions[2] - atoms.positions[0])
    atoms.set_momenta(momenta)
    text = r"of atom . \(.\) and atom 2 \(H\) has broken: it is .* and was .* at the start. .*reactions.* smaller step"
    with pytest.raises(RuntimeError, match=text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dyn.run(200)
    assert 1.4 < atoms.get_distance(0, 2)/1.09 < 3


def test_an_angle_that_opens_does_not_end_the_run():
    """From 85 to 170 degrees, which makes the 1-3 distance 1.47 times as long; PF5 and SF4 do so, and keep their bonds."""
    atoms = water()
    atoms.set_angle(1, 0, 2, 85)
    atoms.calc = Springs(atoms, reach=1.2)
    dyn = run_of(atoms)
    atoms.set_angle(1, 0, 2, 170)
    dyn.run(3)


def test_a_bond_that_forms_ends_the_run():
    """Two molecules of hydrogen that fly at each other, and an argon that comes near nothing."""
    atoms = Atoms("H2H2Ar", [(0, 0, 0), (0, 0, 0.74), (2.5, 0, 0), (2.5, 0, 0.74), (0, 8, 0)])
    atoms.calc = Springs(atoms, reach=1)
    dyn = run_of(atoms, friction=0, temperature_K=0, timestep=2*units.fs)
    momenta = np.zeros((5, 3))
    momenta[2:4] = -0.1, 0, 0
    atoms.set_momenta(momenta)
    with pytest.raises(RuntimeError, match=r"atom [01] \(H\) and atom [23] \(H\) have formed a bond: they are 0.[78]"):
        dyn.run(1000)
    assert dyn.nsteps > 20


def test_a_bond_is_seen_to_form_whoever_moves():
    """Both atoms, by less than what makes the Guard look again for what is near: 0.5 Angstrom."""
    atoms = Atoms("H2H2", [(0, 0, 0), (0, 0, 0.74), (1.6, 0, 0), (1.6, 0, 0.74)])
    guard = Guard(Molecules(atoms))
    guard.check()
    atoms.positions[:, 0] += [0.42, 0.42, -0.42, -0.42]
    with pytest.raises(RuntimeError, match=r"atom 0 \(H\) and atom 2 \(H\) have formed a bond: they are 0.76"):
        guard.check()


def interleaved_waters():
    """Four in a periodic cell, the atoms of each apart: all oxygens, one hydrogen of each, and then the others."""
    atoms = Atoms(cell=[9, 9, 9], pbc=True)
    for place in ((8.8, 8.9, 0.1), (4, 0.1, 0.2), (0.1, 4, 0.2), (4, 4, 9.3)):
        atoms += Atoms("OH2", molecule("H2O").positions + place)
    atoms = atoms[[3*i + k for k in (0, 2, 1) for i in (2, 0, 3, 1)]]
    atoms.wrap()
    atoms.calc = Springs(atoms)
    return atoms


@pytest.mark.parametrize("oxygen", range(4))
def test_errors_name_atoms_by_their_index_and_change_nothing(oxygen):
    """However they are ordered and shifted to be whole, for the solver and for what looks at bonds."""
    atoms = interleaved_waters()
    hydrogens = oxygen + 4, oxygen + 8
    assert np.ptp(atoms.positions[[oxygen, *hydrogens]]) > 5 and atoms.get_distance(oxygen, hydrogens[1], mic=True) < 1
    dyn = run_of(atoms)
    dyn.run(1)
    positions, momenta = atoms.get_positions(), atoms.get_momenta()
    hot = momenta.copy()
    hot[[oxygen, *hydrogens]] *= 1e5
    atoms.set_momenta(hot)
    with pytest.raises(openmm.OpenMMException, match=rf"^MassPenaltyLangevin: the bond .* molecule with atom {oxygen} \(O\), "
                       rf"atom {hydrogens[0]} \(H\), atom {hydrogens[1]} \(H\) cannot be solved for after a step of 6 fs"
                       ".* before the step$"):
        dyn.run(1)
    assert np.array_equal(atoms.positions, positions) and np.array_equal(atoms.get_momenta(), hot)
    atoms.set_momenta(momenta)
    atoms.positions[hydrogens[1]] += 0.8*atoms.get_distance(oxygen, hydrogens[1], mic=True, vector=True)
    with pytest.raises(RuntimeError, match=rf"bond of atom {oxygen} \(O\) and atom {hydrogens[1]} \(H\) has broken"):
        dyn.run(1)
    atoms.set_positions(positions)
    atoms.calc.reset()
    forces = np.zeros((12, 3))
    forces[hydrogens[1], 1] = np.nan
    atoms.calc.calculate = lambda *_: atoms.calc.results.update(energy=0.0, forces=forces)
    with pytest.raises(ValueError, match=rf"force on atom {hydrogens[1]} \(H\)"):
        dyn.run(1)


# ---- Batches ----

class Model:
    """A batched model of springs, which counts the Atoms of each call."""

    def __init__(self, systems):
        self.calculators, self.calls = {str(atoms.symbols): Springs(atoms) for atoms in systems}, []

    def __call__(self, systems):
        self.calls.append(len(systems))
        found = []
        for atoms in systems:
            calculator = self.calculators[str(atoms.symbols)]
            calculator.calculate(atoms)
            found.append(calculator.results)
        return {"energy": [each["energy"] for each in found],
                "forces": np.concatenate([each["forces"] for each in found])}


def waters(count):
    copies = [molecule("H2O") for _ in range(count)]
    model = Model(copies)
    return copies, model, Batch(model, iter(copies))


def test_a_step_of_a_batch_is_one_call(tmp_path):
    """As many as a lone run has, after two of a check; with logfiles and trajectories, in parts, and at other rates."""
    copies, model, batch = waters(3)
    runs = [run_of(atoms, loginterval=i + 1, **({"logfile": str(tmp_path/f"log{i}")} if i else {}),
                   trajectory=str(tmp_path/f"{i}.traj")) for i, atoms in enumerate(copies)]
    batch.run(runs, 10)
    assert model.calls == [3, 2] + (1 + 2 + 10)*[3]
    batch.run(iter(runs), 5)
    assert model.calls[15:] == 5*[3] and [run.nsteps for run in runs] == [15]*3
    for i, atoms in enumerate(copies):
        frames = read(tmp_path/f"{i}.traj", ":")
        assert len(frames) == 1 + 15//(i + 1)
        assert i or close(frames[-1].positions, atoms.positions)
        assert frames[-1].get_potential_energy() != frames[0].get_potential_energy()
    batch.run(runs[:2], 1)
    copies[2].rattle(0.01, seed=1)
    copies[2].get_forces()
    assert model.calls[20:] == [2, 1]
    assert threading.active_count() == 1


def test_a_model_is_called_again_for_whatever_it_may_depend_on():
    """And for nothing else."""
    (atoms,), model, _ = waters(1)
    for change in (lambda: atoms.rattle(1e-12), lambda: atoms.set_cell([7, 8, 9]), lambda: atoms.set_pbc(True),
                   lambda: atoms.set_initial_charges([0, 0, 1]), lambda: atoms.set_initial_charges([0, 1, 0]),
                   lambda: atoms.set_initial_magnetic_moments([1, 0, 0])):
        for _ in range(2):
            atoms.get_forces(), atoms.get_potential_energy()
        thermalize_momenta(atoms, 300)
        atoms.get_forces()
        before = len(model.calls)
        change()
        atoms.get_potential_energy()
        assert len(model.calls) == before + 1
    assert len(model.calls) == 7


def different_systems():
    """A molecule, one across the boundaries of a cell, one with an atom that is held, and another molecule."""
    held, periodic = changed(constraint=FixAtoms([0])), molecule("CH4", cell=[7, 8, 9], pbc=True)
    periodic.translate(-periodic.positions[0])
    periodic.wrap()
    for atoms in (systems := [molecule("CH3OH"), periodic, held, molecule("NH3")]):
        thermalize_momenta(atoms, 300, rng=np.random.default_rng(len(atoms)))
    return systems


RUNS = {"mass penalty": (lambda atoms: run_of(atoms, friction=0, fixcm=not atoms.constraints), {"steps": 20}),
        "Langevin": (lambda atoms: Langevin(atoms, units.fs, temperature_K=300, friction=FRICTION, fixcm=False,
                                            rng=np.random.default_rng(3)), {"steps": 20}),
        "BFGS": (lambda atoms: BFGS(atoms, logfile=None), {"fmax": 1e-3})}


@pytest.mark.parametrize("kind", RUNS)
def test_runs_of_a_batch_are_those_of_lone_atoms(kind):
    """To the last bit, without noise or with that of their own generators; optimizers end one after the other."""
    make, arguments = RUNS[kind]
    model, ends, steps = Model(different_systems()), [], []
    for together in (True, False):
        systems = different_systems()
        for atoms in systems:
            atoms.calc = model.calculators[str(atoms.symbols)]
            if kind == "BFGS":
                atoms.rattle(0.03, seed=len(atoms))
        batch = Batch(model, systems) if together else None
        runs = [make(atoms) for atoms in systems]
        if batch is not None:
            batch.run(runs, **arguments)
        else:
            for run in runs:
                run.run(**arguments)
        ends.append([array for atoms in systems for array in (atoms.positions, atoms.get_momenta())])
        steps.append([run.nsteps for run in runs])
    assert all(map(np.array_equal, *ends)) and steps[0] == steps[1]
    assert kind != "BFGS" or len(set(steps[0])) > 1


def test_a_batch_of_one_has_the_noise_of_a_lone_run():
    (copy,), _, batch = waters(1)
    lone = water()
    batch.run([run_of(copy)], 20)
    run_of(lone).run(20)
    assert np.array_equal(copy.positions, lone.positions)


def test_copies_have_their_own_noise_and_temperature():
    """Equipartition in each, at its temperature; and momenta at the same time that have nothing to do with each other,
    though all are seeded alike."""
    copies, _, batch = waters(3)
    temperatures, momenta, series = np.array([150, 150, 450]), [], []
    runs = [run_of(atoms, temperature_K=temperature, friction=0.15/units.fs, timestep=8*units.fs)
            for atoms, temperature in zip(copies, temperatures)]
    batch.run(runs, 20)
    for _ in range(400):
        batch.run(runs, 2)
        momenta.append([atoms.get_momenta() for atoms in copies])
        series.append([(atoms.get_temperature(), atoms.get_potential_energy()/(1.5*units.kB)) for atoms in copies])
    for found, temperature in zip(np.transpose(series, (1, 2, 0)), temperatures):
        for values in found:
            assert abs(values.mean() - temperature) < 4*blockedError(values) < 0.6*temperature
    correlations = np.corrcoef(np.array(momenta).swapaxes(0, 1).reshape(3, -1))
    assert abs(correlations[np.triu_indices(3, 1)]).max() < 0.1


def test_errors_of_one_run_end_the_batch():
    """Within a step, of which nothing is left in those that have not made it; the others go on without it."""
    copies, _, batch = waters(3)
    runs = [run_of(atoms) for atoms in copies]
    batch.run(runs, 2)
    copies[1].positions[2] += [0, 2, 0]
    kept = [atoms.get_positions() for atoms in copies]
    with pytest.raises(RuntimeError, match=r"Batch: run 1: the bond of atom 0 .* atom 2 \(H\) has broken") as raised:
        batch.run(runs, 2)
    assert isinstance(raised.value.__cause__, RuntimeError) and threading.active_count() == 1
    assert all(np.array_equal(atoms.positions, before) for atoms, before in zip(copies[1:], kept[1:]))
    batch.run([runs[0], runs[2]], 2)
    assert [run.nsteps for run in runs] == [5, 2, 4]


@pytest.mark.parametrize("change", [
    lambda found, count: {**found, "forces": found["forces"] + 1e-3*count},                 # they see each other
    lambda found, count: {**found, "forces": found["forces"].reshape(count, 3, 3)[::-1].reshape(-1, 3)},
    lambda found, count: {**found, "forces": found["forces"].reshape(count, 3, 3)[[1, 0, 2][:count]].reshape(-1, 3)}])
def test_models_that_mix_up_atoms_are_found_out(change):
    copies, model, _ = waters(3)
    batch = Batch(lambda systems: change(model(systems), len(systems)), copies)
    runs = [run_of(atoms) for atoms in copies]
    with pytest.warns(UserWarning, match="forces on Atoms depend on the others of the batch: they differ by .* eV"):
        batch.run(runs, 1)
    batch.run(runs, 1)      # it is said once


@pytest.mark.parametrize("change, error, message", [
    (lambda found: None, TypeError, "the model must return a dict with 'energy' and 'forces', not None"),
    (lambda found: {"energy": found["energy"]}, TypeError, "a dict with 'energy' and 'forces', not {'energy': "),
    (lambda found: {**found, "energy": 3.0}, ValueError, r"energy must be numbers in an array of shape \(2,\), not of"),
    (lambda found: {**found, "forces": found["forces"].reshape(2, 3, 3)}, ValueError,
     r"forces must be numbers in an array of shape \(6, 3\), not of shape \(2, 3, 3\)"),
    (lambda found: {**found, "forces": found["forces"]*[np.nan]}, RuntimeError,
     r"run 0: BatchCalculator: the force on atom 0 \(O\) is \[nan, nan, nan\]")])
def test_what_models_must_not_return(change, error, message):
    copies, model, _ = waters(2)
    batch = Batch(lambda systems: change(model(systems)), copies)
    with pytest.raises(error, match=message):
        batch.run([run_of(atoms) for atoms in copies], 1)


def test_batches_need_different_atoms():
    copies, model, batch = waters(2)
    with pytest.raises(ValueError, match="systems must be different objects, but 0 and 1 are the same: take atoms"):
        Batch(model, [copies[0]]*8)
    for wrong in (copies[0], ["H2O"]):
        with pytest.raises(TypeError, match="systems must be a list of ASE's Atoms, not"):
            Batch(model, wrong)
    with pytest.raises(TypeError, match="Batch: runs must be a sequence of runs, not"):
        batch.run(run_of(copies[0]), 1)
    with pytest.raises(ValueError, match="the Atoms of runs must be different objects, but 0 and 2 are the same"):
        batch.run([run_of(atoms) for atoms in (*copies, copies[0])], 1)


# ---- Calculators ----

@pytest.mark.parametrize("count, error", [(1, CalculationFailed("no convergence")), (1, KeyboardInterrupt()),
                                          (2, MemoryError("of the device")), (2, KeyboardInterrupt())])
def test_what_a_calculator_raises_comes_through(count, error):
    """Of lone Atoms or of a batch: the same object, with its cause, and all stays as it was."""
    error.__cause__ = cause = OSError("disk full")
    copies, model, batch = waters(count)
    calculator, = model.calculators.values()
    if count == 1:
        copies[0].calc = calculator
    runs = [run_of(atoms) for atoms in copies]
    advance = runs[0].run if count == 1 else functools.partial(batch.run, runs)
    advance(3)
    kept = [(atoms.get_positions(), atoms.get_momenta()) for atoms in copies]
    for atoms in copies:
        atoms.calc.reset()
    calculator.error = error
    with pytest.raises(type(error)) as raised:
        advance(2)
    assert raised.value is error and error.__cause__ is cause and threading.active_count() == 1
    with pytest.raises(type(error)) as raised:
        runs[0].draw_momenta()
    assert raised.value is error
    for atoms, (positions, momenta) in zip(copies, kept):
        assert np.array_equal(atoms.positions, positions) and np.array_equal(atoms.get_momenta(), momenta)
    calculator.error = None
    advance(2)
    assert [run.nsteps for run in runs] == [5]*count


@pytest.mark.parametrize("quantity, change, message", [
    ("energy", lambda energy: np.nan, r"Springs: the energy is nan\. .* a smaller step"),
    ("energy", lambda energy: None, "Springs: the energy must be a number, not None"),
    ("forces", lambda forces: forces + [[0]*3, [0, np.inf, 0], [0]*3],
     r"Springs: the force on atom 1 \(H\) is \[.*, inf, .*\]\. .* a smaller step"),
    ("forces", lambda forces: None, r"Springs: the forces must be numbers in an array of shape \(3, 3\), not None"),
    ("forces", np.ravel, r"array of shape \(3, 3\), not of shape \(9,\)"),
    ("forces", lambda forces: [[1, 2], [3]], r"array of shape \(3, 3\), not \[\[1, 2\], \[3\]\]"),
    ("forces", np.ndarray.tolist, None),
    ("energy", lambda energy: np.array([energy]), None)])
def test_what_a_calculator_must_not_return(quantity, change, message):
    """At the start, and later; lists are as good as arrays, and an array of one as a number."""
    for steps in (0, 2):
        atoms, other = water(), water()
        dyn, calculate = run_of(atoms), atoms.calc.calculate
        dyn.run(steps)

        def calculate_and_change(*arguments):
            calculate(*arguments)
            atoms.calc.results[quantity] = change(atoms.calc.results[quantity])

        atoms.calc.reset()
        atoms.calc.calculate = calculate_and_change
        if message is None:
            dyn.run(2)
            run_of(other).run(steps + 2)
            assert np.array_equal(atoms.positions, other.positions)
        else:
            with pytest.raises(ValueError, match=message):
                dyn.run(1)


def test_calculators_with_a_memory_are_found_out():
    atoms = water()
    atoms.calc.noise = 1e-4
    dyn = run_of(atoms)
    with pytest.warns(UserWarning, match="the forces of Springs depend on what it was asked before: .* by 0.0002 eV"):
        dyn.run(2)
    dyn.run(2)      # it is said once for a calculator
    atoms.calc = Springs(atoms)
    dyn.run(2)
    atoms.calc = Springs(atoms)
    atoms.calc.noise = 1e-4
    with pytest.warns(UserWarning, match="the forces of Springs depend"):
        dyn.run(1)
    atoms = water()
    atoms.calc.noise = 1e-6
    run_of(atoms).run(1)


def test_atoms_without_a_calculator_are_an_error():
    dyn = run_of(molecule("H2O"))
    with pytest.raises(RuntimeError, match="no calculator"):
        dyn.run(1)


@pytest.mark.thorough
def test_tblite():
    """GFN2-xTB begins with the density of the last positions, which can be seen unless it converges further."""
    tblite = pytest.importorskip("tblite.ase")
    atoms = molecule("CH3OH")
    atoms.calc = tblite.TBLite(verbosity=0)
    dyn = run_of(atoms)
    with pytest.warns(UserWarning, match="the forces of TBLite depend on what it was asked before"):
        dyn.run(1)
    atoms.calc = tblite.TBLite(verbosity=0, accuracy=0.01)
    run_of(atoms, timestep=8*units.fs).run(200)
    assert -0.3 < atoms.get_potential_energy() + 223.6 < 0.8    # at the minimum, and some kT above it


# ---- examine() and scan() ----

@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_examine_keeps_the_errors_of_calculators(error):
    atoms = water()
    atoms.calc.error = error("here")
    with pytest.raises(error, match="here"):
        examine(atoms)


def test_examine_takes_atoms():
    atoms = water()
    found = examine(atoms)
    assert {motion.kind: motion.penalized for motion in found.motions} == {"H-O": 2, "H-O-H": 1}
    assert 9 <= 1000*found.getStepSize()._value <= 16 and not found.notes
    assert "fs of atom 2 (H), atom 1 (H) in HOH 1" in str(found)
    assert found.evaluations > 100


@pytest.mark.parametrize("atoms", [molecule("CCl4"), changed(masses=[16, 100, 100])])
def test_advised_steps_are_those_that_are_tried(atoms):
    """Up to 12 fs, without hydrogens, too, and whatever these weigh: planar molecules are lost at 30 fs."""
    atoms.calc = Springs(atoms, reach=3)
    found = examine(atoms)
    assert found.getStepSize()._value == 0.012
    assert max(each.stepSize for each in found.recommendations if each.stepSize > 0) == 0.012


def test_complexes_of_metals_take_their_bonds():
    """Those of iron in ferrocene are twice as many as are perceived."""
    ring = [(radius*np.cos(angle), radius*np.sin(angle), 1.65) for radius in (1.21, 2.29)
            for angle in np.arange(5)*2*np.pi/5]
    atoms = Atoms("FeC5H5C5H5", [(0, 0, 0), *ring, *(-np.array(ring))])
    atoms.calc = Springs(atoms, reach=2.5)
    for use in (run_of, examine, scan):
        with pytest.raises(ValueError, match=r"atom 0 \(Fe\) has 10 neighbours .* complex such as ferrocene, give their"):
            use(atoms)
    bonds = [(i, j) for i, j, length, _ in atoms.calc.pairs if length < (2.1 if i == 0 else 1.5)]
    assert len(bonds) == 10 + 2*(5 + 5)
    step = examine(atoms, bonds=bonds).getStepSize()._value
    assert step >= 0.006
    run_of(atoms, timestep=1000*step*units.fs, bonds=bonds).run(20)


def test_bonds_are_those_of_atoms_alone():
    molecules = run_of(water())._molecules
    for use, arguments in (examine, [molecules.make_simulation()]), (scan, [molecules.system, molecules.topology, []]):
        with pytest.raises(TypeError, match=f"{use.__name__}: bonds are for Atoms of ASE; a S.* in its Topology"):
            use(*arguments, bonds=[(0, 1)])


def test_scan_takes_atoms():
    atoms = water()
    for step, bonds, pairs in (6, None, 3), (2, [(0, 1)], 1):
        found = scan(atoms, integrators="MassPenaltyLangevin", friction=200, steps=[step], time=0.15,
                     platform="Reference", bonds=bonds)
        assert found.runs[0].samples is not None and found.runs[0].pairs == pairs
    assert atoms.calc.evaluations == 0      # of a copy
    simulation = run_of(atoms)._molecules
    for arguments in (atoms, simulation.topology, None), (simulation.system, simulation.topology, None):
        with pytest.raises(TypeError, match="topology and the positions of a System, and neither with Atoms"):
            scan(*arguments)
