"""NestedSampler: ensembles of a target from dynamics in a surrogate, against quadrature; and what faults do to it."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openmm
import pytest
from scipy.special import erfc

from conftest import energies_of, quick

pytest.importorskip("ase")

from ase import Atoms, units  # noqa: E402
from ase.build import molecule  # noqa: E402
from ase.calculators.calculator import Calculator, all_changes  # noqa: E402
from ase.calculators.fd import calculate_numerical_forces  # noqa: E402
from ase.io import read, write  # noqa: E402
from ase.md.langevin import Langevin  # noqa: E402
from ase.md.md import MolecularDynamics  # noqa: E402
from ase.md.verlet import VelocityVerlet  # noqa: E402

import openmmstiff.nested  # noqa: E402
from openmmstiff.ase import MassPenaltyLangevin, SystemCalculator  # noqa: E402
from openmmstiff.nested import LADDER, MOVES, PILOT, TRIES, NestedSampler, _describe  # noqa: E402
from systems import angles, bonds, force, system_of  # noqa: E402
from trials import bind  # noqa: E402

TEMPERATURE = 300
KT = units.kB*TEMPERATURE
ERRORS, COUNT = 4, 300
BEYOND = 5      # errors, of what is wrong


class Function(Calculator):
    """An energy [kT] and its derivative, functions of x of the first atom or of the distance of two."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, energy, derivative=None):
        super().__init__()
        self.energy, self.derivative = energy, derivative

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        forces, pair = np.zeros((len(atoms), 3)), len(atoms) > 1
        arm = atoms.positions[1] - atoms.positions[0] if pair else atoms.positions[0]
        length = np.linalg.norm(arm) if pair else arm[0]
        if self.derivative is not None:
            direction = arm/length if pair else np.eye(3)[0]
            forces[-1] -= KT*self.derivative(length)*direction
            forces[0] += KT*self.derivative(length)*direction*pair
        self.results = {"energy": KT*self.energy(length), "forces": forces}


class Perfect(MolecularDynamics):
    """x' = c x + sqrt(1 - c^2) noise: reversible, with a normal distribution."""

    def __init__(self, atoms, memory=0.0, seed=1):
        super().__init__(atoms, 1.0)
        self.temp, self.memory, self.rng = KT, memory, np.random.default_rng(seed)

    def step(self, forces=None):
        noise = self.rng.standard_normal()
        self.atoms.positions[0, 0] = self.memory*self.atoms.positions[0, 0] + np.sqrt(1 - self.memory**2)*noise


def normal(path, spread=0.8, target=None, memory=0.0, **arguments):
    """A sampler whose surrogate is x^2/2, its target x^2/2 + spread x: the difference has a Gaussian distribution."""
    atoms = Atoms("H", calculator=Function(lambda x: x**2/2))
    target = target or Function(lambda x: x**2/2 + spread*x)
    return NestedSampler(Perfect(atoms, memory), target, path,
                         **{"steps": 1, "rng": np.random.default_rng(2), **arguments})


def test_the_first_snapshot_has_forgotten_where_the_surrogate_began(tmp_path):
    """c^t x of far outside is left after t steps: much after one interval, nothing after those before the first."""
    sampler = normal(tmp_path/"run.db", memory=0.5, steps=10)
    sampler.atoms.positions[0, 0] = 1e6
    sampler.run(1)
    assert abs(sampler.atoms.positions[0, 0]) < 5 < 1e6*0.5**10


def double_well(tilt):
    return Function(lambda x: (4*x**2 - 1)**2 + tilt*x, lambda x: 16*x*(4*x**2 - 1) + tilt)


def spring(length, constant):
    return Function(lambda r: constant*(r - length)**2/2, lambda r: constant*(r - length))


def mass_penalty(atoms, seed, femtoseconds=6, friction=0.02):
    return MassPenaltyLangevin(atoms, femtoseconds*units.fs, temperature_K=TEMPERATURE, friction=friction/units.fs,
                               rng=np.random.default_rng(seed))


def first_x(atoms):
    return atoms.positions[0, 0]


# Surrogate, target, observable, and its values with their measure.
SYSTEMS = {"double well": (double_well(-1.0), double_well(1.0), first_x, np.linspace(-1.2, 1.2, 4001), 1.0),
           "bond": (spring(0.76, 450), spring(0.73, 450), lambda atoms: atoms.get_distance(0, 1),
                    np.linspace(0.4, 1.2, 4001), np.linspace(0.4, 1.2, 4001)**2)}


def sample(system, target, path, move, rng=None):
    """A sampler after a run."""
    if system == "double well":
        dynamics = Langevin(Atoms("H", [[0.4, 0, 0]], calculator=double_well(-1.0)), 4*units.fs, fixcm=False,
                            temperature_K=TEMPERATURE, friction=0.03/units.fs, rng=np.random.default_rng(3))
    else:
        dynamics = mass_penalty(Atoms("H2", [[0, 0, 0], [0, 0, 0.75]], calculator=spring(0.76, 450)), 3)
    sampler = NestedSampler(dynamics, target, path, move=move, steps=30, rng=rng or np.random.default_rng(4))
    sampler.run(COUNT)
    return sampler


def quadrature(system, calculator):
    x, measure = SYSTEMS[system][3:]
    density = measure*np.exp(-calculator.energy(x))
    return np.sum(x*density)/np.sum(density)


# ---- Right ----

@pytest.mark.parametrize("move", quick(["independent"], MOVES))
@pytest.mark.parametrize("system", quick(["double well"], SYSTEMS))
def test_averages_are_those_of_quadrature(system, move, tmp_path):
    """And those of the surrogate, and with the sign of the difference turned round, are others."""
    surrogate, target, observe = SYSTEMS[system][:3]
    sampler = sample(system, target, tmp_path/"run.db", move)
    mean, error, energies = sampler.average(observe)
    expected = quadrature(system, target)
    assert abs(mean - expected) < ERRORS*error
    assert abs(quadrature(system, surrogate) - expected) > BEYOND*error
    assert 1 < energies < 40
    assert np.mean([observe(atoms) for atoms in sampler.samples()]) == pytest.approx(mean, abs=2*error)
    if move == "independent":
        atoms, weights = sampler.snapshots()
        values = np.array([observe(each) for each in atoms])
        assert abs(values.mean() - quadrature(system, surrogate)) < ERRORS*error
        assert abs(values @ (1/weights)/np.sum(1/weights) - expected) > BEYOND*error
    else:
        turned_round = Function(lambda x: 2*surrogate.energy(x) - target.energy(x))
        wrong = sample(system, turned_round, tmp_path/"wrong.db", move)
        assert abs(wrong.average(observe).mean - expected) > BEYOND*error


class Rolling(MolecularDynamics):
    """x is 0, 1 or 2, and goes to one of the other two: reversible, with three equal probabilities."""

    temp = KT

    def run(self, steps):
        self.atoms.positions[0, 0] = (self.atoms.positions[0, 0] + self.rng.integers(1, 3)) % 3


@pytest.fixture
def unwritten(tmp_path, monkeypatch):
    """The name of a file in which nothing is written, for speed."""
    numbers = itertools.count(1)
    monkeypatch.setattr(openmmstiff.nested, "connect", lambda *_, **__: SimpleNamespace(
        metadata={}, select=lambda **_: [], write=lambda *_, **__: next(numbers), update=lambda *_, **__: None))
    (tmp_path/"run.db").touch()
    return tmp_path/"run.db"


def test_three_states_have_their_populations(unwritten):
    """By counting: exp(-D) of each, and not those of a decision by 0.8 of the rise."""
    levels, dynamics = np.array([0, 2, 2.2]), Rolling(Atoms("H", calculator=Function(lambda x: 0)), 1.0)
    dynamics.rng = np.random.default_rng(1)
    sampler = NestedSampler(dynamics, Function(lambda x: levels[int(x)]), unwritten, move="nested", steps=30,
                            rng=np.random.default_rng(2))
    sampler.run(1500)
    right, wrong = (np.exp(-share*levels)/np.exp(-share*levels).sum() for share in (1, 0.8))
    for state in range(3):
        mean, error, _ = sampler.average(lambda atoms: first_x(atoms) == state)
        assert abs(mean - right[state]) < ERRORS*error
        assert state > 0 or abs(mean - wrong[state]) > ERRORS*error


@pytest.mark.thorough
def test_without_a_decision_the_surrogate_is_sampled(tmp_path):
    surrogate, target, observe = SYSTEMS["bond"][:3]
    accepting = SimpleNamespace(choice=np.random.default_rng(4).choice, random=lambda: 0.0)
    sampler = sample("bond", target, tmp_path/"run.db", "nested", accepting)
    mean, error, _ = sampler.average(observe)
    assert sampler.report().acceptance == 1
    assert abs(mean - quadrature("bond", target)) > BEYOND*error
    assert abs(mean - quadrature("bond", surrogate)) < ERRORS*error


@pytest.mark.parametrize("spread", quick([0.5], [0.5, 0.9]))
def test_figures_are_those_of_gaussian_differences(spread, tmp_path):
    """Acceptance erfc(s/2); exp(s^2) energies for a sample of what does not depend on the difference."""
    sampler = normal(tmp_path/"run.db", spread)
    sampler.run(800)
    report = sampler.report()
    assert report.spread == pytest.approx(spread, rel=0.1) and report.energies == 800 and report.agreement is None
    assert report.expected == pytest.approx(erfc(report.spread/2))
    assert report.acceptance == pytest.approx(erfc(spread/2), abs=0.04)
    mean, error, _ = sampler.average(first_x)
    assert abs(mean + spread) < ERRORS*error
    random = np.random.default_rng(5)
    assert sampler.average(lambda atoms: random.standard_normal()).energies == pytest.approx(np.exp(spread**2), rel=0.2)
    samples = [first_x(atoms) for atoms in sampler.samples()]
    assert np.mean(np.diff(samples) != 0) == pytest.approx(erfc(spread/2), abs=0.05)


@pytest.mark.thorough
def test_correlated_snapshots_bias_no_average(tmp_path):
    """A Metropolis chain in their own order follows its proposals, which hardly change: it finds the surrogate's."""
    sampler = normal(tmp_path/"run.db", 0.9, memory=0.99, steps=5)
    sampler.run(1000)
    atoms, weights = sampler.snapshots()
    x, now, chain, random = [first_x(each) for each in atoms], 0, [], np.random.default_rng(1)
    for i in range(len(x)):
        now = i if random.random()*weights[now] < weights[i] else now
        chain.append(x[now])
    mean, error, energies = sampler.average(first_x)
    assert abs(mean + 0.9) < ERRORS*error and energies > 30
    assert abs(np.mean([first_x(each) for each in sampler.samples()]) - mean) < 0.15 < np.mean(chain) - mean


@pytest.mark.thorough
def test_both_moves_agree(tmp_path):
    sampler = normal(tmp_path/"run.db", 0.9, memory=0.97, move="nested", steps=30)
    sampler.run(450)
    report = sampler.report()
    assert report.move == "nested" and report.steps == 30 and abs(report.agreement) < ERRORS
    # D' = c D + noise: erfc(s sqrt(1 - c)/2)
    assert report.acceptance == pytest.approx(erfc(0.9*np.sqrt(1 - 0.97**30)/2), abs=0.07)
    mean, error, _ = sampler.average(first_x)
    assert abs(mean + 0.9) < ERRORS*error
    assert len(sampler.samples()) == 450 - PILOT
    assert "both moves differ by" in str(report)


def peroxide(barrier=1.0, length=0.1):
    """H2O2 as a System: springs, and a torsion with a barrier [kT]."""
    torsion = force("PeriodicTorsionForce", "addTorsion", [(2, 0, 1, 3, 2, 0, barrier*KT/(units.kJ/units.mol)/2)])
    return system_of([16, 16, 1, 1], bonds((0, 1, 0.145, 2e5), (2, 0, length, 3e5), (3, 1, length, 3e5)),
                     angles((2, 0, 1, 1.75, 400), (3, 1, 0, 1.75, 400)), torsion)


def peroxide_run(surrogate, target, path, count=0, **arguments):
    atoms = molecule("H2O2")
    atoms.calc = SystemCalculator(surrogate, "Reference")
    sampler = NestedSampler(mass_penalty(atoms, 6, 8, 0.01), target, path, rng=np.random.default_rng(7), **arguments)
    sampler.run(count)
    return sampler


@pytest.mark.thorough
def test_steps_of_the_nested_move_are_found(tmp_path):
    """A difference that follows the torsion, and no barrier: the more the better, up to where it is independent."""
    sampler = peroxide_run(peroxide(), peroxide(4.0), tmp_path/"run.db", PILOT + TRIES + 5, move="nested")
    proposals = sampler._proposals()
    assert {each.steps for each in proposals[:TRIES]} == set(LADDER)
    chosen, = {each.steps for each in proposals[TRIES:]}
    assert chosen in LADDER and sampler.report().steps == chosen
    assert len(sampler.samples()) == 5


def test_steps_of_the_nested_move_are_those_of_least_cost(unwritten, monkeypatch):
    """Of proposals that are all accepted the shortest that are independent."""
    monkeypatch.setattr(NestedSampler, "_measure_decay", lambda self: {steps: 0.9*(steps < 250) for steps in LADDER})
    sampler = normal(unwritten, 0, move="nested", steps=None)
    sampler.run(PILOT + TRIES + 2)
    assert sampler.report().steps == 250 and sampler.report().acceptance == 1


@pytest.mark.thorough
def test_system_is_corrected(tmp_path):
    """What the target has beyond the surrogate is a sum of the terms that are fitted."""
    sampler = peroxide_run(peroxide(1.0, 0.1), peroxide(5.0, 0.1015), tmp_path/"run.db", 80)
    assert sampler.report().spread > 1
    correction = sampler.correct()
    assert correction.spread == pytest.approx(sampler.report().spread)
    assert correction.left < 0.1*correction.spread
    atoms = sampler.snapshots()[0][-1].copy()
    differences = []
    for _ in range(4):
        atoms.rattle(0.01, seed=len(differences))
        atoms.calc = correction.calculator
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        atoms.calc = SystemCalculator(peroxide(5.0, 0.1015), "Reference")
        differences.append(energy - atoms.get_potential_energy())
        assert np.abs(forces - atoms.get_forces()).max() < 0.1*np.abs(forces).max()
    assert np.ptp(differences) < 0.2*KT
    peroxide_run(correction.system, correction.system, tmp_path/"other.db")     # a System like any other
    assert [force.getName() for force in correction.system.getForces()] == ["CustomBondForce", "CustomAngleForce",
                                                                            "CustomTorsionForce"]


def test_correction_needs_energies(tmp_path):
    sampler = peroxide_run(peroxide(), peroxide(), tmp_path/"run.db", 3)
    with pytest.raises(ValueError, match="needs 50 energies, but there are 3"):
        sampler.correct()


# ---- What it says ----

def test_bad_surrogate_is_told(tmp_path):
    sampler = normal(tmp_path/"run.db", 6)
    with pytest.warns(UserWarning, match="This surrogate will not do: a spread of [5-7].* see what correct"):
        sampler.run(60)
    with pytest.warns(UserWarning, match="is much: try move='nested', or correct()"):
        normal(tmp_path/"other.db", 3).run(60)


def test_samples_are_read_by_ase_and_mdtraj(tmp_path):
    mdtraj = pytest.importorskip("mdtraj")
    sampler = peroxide_run(peroxide(), peroxide(2.0), tmp_path/"run.db", 12)
    samples = sampler.samples()
    assert len(samples) == 12
    write(tmp_path/"run.xyz", samples)
    write(tmp_path/"start.pdb", samples[0])
    assert [atoms.get_potential_energy() for atoms in read(tmp_path/"run.xyz", ":")] == pytest.approx(
        [atoms.get_potential_energy() for atoms in samples])
    trajectory = mdtraj.load(str(tmp_path/"run.xyz"), top=str(tmp_path/"start.pdb"))
    assert trajectory.xyz*10 == pytest.approx(np.array([atoms.positions for atoms in samples]), abs=1e-4)
    assert len(read(tmp_path/"run.db@:")) == 12


def test_observers_are_called(tmp_path):
    sampler, seen = normal(tmp_path/"run.db"), []
    sampler.attach(lambda word, end: seen.append(word + end), 4, "four", end="!")
    sampler.run(9)
    assert seen == ["four!", "four!"]


# ---- Faults ----

class Logged(Function):
    """The target of normal(), which writes down what it has been paid for. It can be told to fail, or to die."""

    def __init__(self, folder, dies_at=0, fails_every=0, value=None):
        super().__init__(None)
        self.folder, self.dies_at, self.fails_every, self.value = Path(folder), dies_at, fails_every, value

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        dead, x, number = self.folder/"dead", first_x(atoms), len(self.paid()) + 1
        if number >= self.dies_at > 0 and not dead.exists():
            dead.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
        with open(self.folder/"log", "a") as file:
            file.write(f"{x!r}\n")
        self.results = {"energy": KT*(x**2/2 + 0.8*x)}
        if self.fails_every and number % self.fails_every == 0:
            if self.value is None:
                raise ArithmeticError("no convergence")
            self.results = {"energy": self.value}

    def paid(self):
        log = self.folder/"log"
        return log.read_text().splitlines() if log.exists() else []


def in_file(path):
    """What the log has of the snapshots whose energies are in a file."""
    return {repr(first_x(atoms)) for atoms in read(f"{path}@:")}


@pytest.mark.parametrize("move", quick(["nested"], MOVES))
def test_worker_that_is_killed_loses_nothing(move, tmp_path):
    target = Logged(tmp_path, dies_at=60)
    sampler = normal(tmp_path/"run.db", target=target, processes=2, move=move, steps=30)
    sampler.run(80)
    assert (tmp_path/"dead").exists()
    paid = target.paid()
    assert len(paid) - len(set(paid)) <= 1, "but for what the other one was at"
    assert set(paid) == in_file(tmp_path/"run.db") and len(set(paid)) == 80


KILLED = """
import sys
sys.path.insert(0, {folder!r})
from test_nested import Logged, normal
normal({path!r}, target=Logged({where!r}, dies_at=57), move={move!r}, steps=30).run(70)
"""


@pytest.mark.parametrize("move", quick(["nested"], MOVES))
def test_run_that_is_killed_goes_on(move, tmp_path):
    script = KILLED.format(folder=str(Path(__file__).parent), path=str(tmp_path/"run.db"), where=str(tmp_path),
                           move=move)
    codes = [subprocess.run([sys.executable, "-c", script], timeout=300).returncode for _ in range(3)]
    assert codes == [-signal.SIGKILL, 0, 0]
    paid = Logged(tmp_path).paid()
    assert len(paid) == len(set(paid)) == 70 and set(paid) == in_file(tmp_path/"run.db")
    sampler = normal(tmp_path/"run.db", target=Logged(tmp_path), move=move, steps=30)
    assert sampler.report().energies == 70
    if move == "nested":
        chain = sampler._of_walker(0)
        assert len(chain) == 20
        for before, after in zip(chain, chain[1:]):
            assert after.parent == (before.id if before.accepted else before.parent)


@pytest.mark.parametrize("value, message", [(None, "ArithmeticError: no convergence"), (np.nan, "the energy is nan")])
@pytest.mark.parametrize("move", quick(["nested"], MOVES))
def test_failures_end_the_run_or_are_rejected(move, value, message, tmp_path):
    target = Logged(tmp_path, fails_every=10, value=value)
    options = {"target": target, "move": move, "steps": 30}
    sampler = normal(tmp_path/"run.db", **options)
    with pytest.raises(RuntimeError, match=f"the target has failed at snapshot 10 of .*: {message}"):
        sampler.run(80)
    sampler.run(12)     # it is asked again, and succeeds
    assert sampler.report().failures == 0 and len(target.paid()) == 13
    (tmp_path/"log").unlink()
    other = normal(tmp_path/"other.db", failures="reject", **options)
    other.run(80)
    report = other.report()
    assert report.energies == 80 and report.failures == 8 and len(set(target.paid())) == 80
    assert np.isfinite([report.spread, report.acceptance, report.effective]).all()
    again = normal(tmp_path/"other.db", failures="reject", **options)
    again.run(80)
    assert again.report() == report and len(target.paid()) == 80
    assert "of which 8 failed" in str(report)


def test_target_that_always_fails_is_told(tmp_path):
    target = Logged(tmp_path, fails_every=1)
    with pytest.raises(RuntimeError, match="failed at all snapshots, the last time by ArithmeticError: no convergence"):
        normal(tmp_path/"run.db", target=target, failures="reject").run(4)


@pytest.mark.thorough
def test_dask_evaluates_targets(tmp_path):
    distributed = pytest.importorskip("distributed")
    target = Logged(tmp_path)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        normal(tmp_path/"run.db", target=target, scheduler=cluster.scheduler_address).run(10)
    assert len(target.paid()) == 10 and set(target.paid()) == in_file(tmp_path/"run.db")


def test_file_of_another_run_is_refused(tmp_path):
    normal(tmp_path/"run.db").run(3)
    atoms = Atoms("H", [[0.1, 0, 0]], calculator=Function(lambda x: 2*x**2))
    with pytest.raises(ValueError, match="made with another surrogate: at snapshot 3 .* differs by .* kT"):
        NestedSampler(Perfect(atoms), Function(lambda x: 0), tmp_path/"run.db").run(4)
    with pytest.raises(ValueError, match="is of another run, with .*300.0.*'H'.* not .*'He'"):
        NestedSampler(Perfect(Atoms("He")), Function(lambda x: 0), tmp_path/"run.db")
    with pytest.raises(ValueError, match="is of another run, with .*'Function {}'.* not .*'Function {\"degree\": 2}'"):
        target = Function(lambda x: 0)
        target.parameters["degree"] = 2
        normal(tmp_path/"run.db", target=target)
    sampler = normal(tmp_path/"run.db")
    sampler.dynamics.temp *= 2
    with pytest.raises(ValueError, match="is of another run, with .*300.0.* not .*600.0"):
        sampler.run(4)
    sampler = normal(tmp_path/"run.db")
    sampler.attach(lambda: normal(tmp_path/"run.db").run(5))
    with pytest.raises(OSError, match="another run works with"):
        sampler.run(4)


def test_targets_are_told_by_their_forces():
    """Or by their names, where they are functions."""
    one, other = (SystemCalculator(system_of([1, 1], bonds((0, 1, length, 1000)))) for length in (0.1, 0.2))
    assert _describe(one) == _describe(openmm.XmlSerializer.clone(one.system)) != _describe(other)
    assert _describe(peroxide) == "peroxide"


def test_what_is_given_out_are_copies(tmp_path):
    sampler = normal(tmp_path/"run.db")
    sampler.run(5)
    before = sampler.average(first_x)
    for atoms in sampler.samples() + sampler.snapshots()[0]:
        assert np.isfinite(atoms.get_potential_energy())
        atoms.positions += 1
    assert sampler.average(first_x) == before


@pytest.mark.parametrize("arguments, error, message", [
    ({"dynamics": "run"}, TypeError, "dynamics must be a MassPenaltyLangevin"),
    ({"dynamics": VelocityVerlet(Atoms("H"), 1)}, TypeError, "with a heat bath"),
    ({"target": "GFN2"}, TypeError, "target must be a calculator of ASE"),
    ({"path": "run.traj"}, ValueError, "must end in .db"),
    ({"move": "free"}, ValueError, "move must be one of 'independent', 'nested', not 'free'"),
    ({"failures": "ignore"}, ValueError, "failures must be one of 'raise', 'reject'"),
    ({"steps": 0}, ValueError, "steps of the independent move must be at least 1"),
    ({"steps": 20, "move": "nested"}, ValueError, "steps of the nested move must be at least 30"),
    ({"processes": 0}, ValueError, "processes must be at least 1")])
def test_wrong_arguments_are_told(arguments, error, message, tmp_path):
    good = {"dynamics": Perfect(Atoms("H")), "target": Function(lambda x: 0), "path": tmp_path/"run.db"}
    with pytest.raises(error, match=message):
        NestedSampler(**{**good, **arguments})


def test_there_must_be_energies(tmp_path):
    with pytest.raises(ValueError, match="there are no energies in .*; call run()"):
        normal(tmp_path/"run.db").report()
    sampler = normal(tmp_path/"run.db")
    sampler.run(3)
    with pytest.raises(ValueError, match="must be a finite number"):
        sampler.average(lambda atoms: atoms.positions)


# ---- The potential of a System ----

def test_system_calculator_has_the_energies_and_forces_of_the_system():
    system, atoms = peroxide(), molecule("H2O2")
    atoms.calc = SystemCalculator(system, "Reference")
    energy, _ = energies_of(bind(system, openmm.VerletIntegrator(1), "Reference", atoms.positions/10))
    assert atoms.get_potential_energy() == pytest.approx(energy*units.kJ/units.mol)
    assert atoms.get_forces() == pytest.approx(calculate_numerical_forces(atoms, eps=1e-4), abs=1e-4)
    atoms.calc = pickle.loads(pickle.dumps(atoms.calc))
    assert atoms.get_potential_energy() == pytest.approx(energy*units.kJ/units.mol)
    with pytest.raises(ValueError, match="4 particles, but there are 3 atoms"):
        Atoms("OH2", np.eye(3), calculator=SystemCalculator(system)).get_potential_energy()
    system.addConstraint(0, 1, 0.1)
    with pytest.raises(ValueError, match="1 constraints, .* constraints=None"):
        SystemCalculator(system)


def test_periodic_system_has_the_cell_of_the_atoms():
    pair = force("NonbondedForce", "addParticle", 2*[(0, 0.3, 1)])
    pair.setNonbondedMethod(pair.CutoffPeriodic)
    system = system_of([1, 1], pair)
    far, near = (Atoms("Ar2", [[0, 0, 0], [x, 0, 0]], cell=[30, 30, 30], pbc=True,
                       calculator=SystemCalculator(system)).get_potential_energy() for x in (26, 4))
    assert far == pytest.approx(near)
    # The same lattice by vectors that OpenMM does not take as they are, and cells that are turned, or none.
    rhombic = Atoms("Ar2", [[0, 0, 0], [26, 0, 0]], cell=[[30, 0, 0], [-30, 30, 0], [50, 20, -30]], pbc=True,
                    calculator=SystemCalculator(system))
    assert rhombic.get_potential_energy() == pytest.approx(near)
    for cell in ([0, 15, 15], [15, 0, 15], [15, 15, 0]), np.zeros((3, 3)):
        rhombic.set_cell(cell)
        with pytest.raises(ValueError, match="cells whose first vector is along x .*standard_form"):
            rhombic.get_potential_energy()


def test_virtual_sites_follow_their_atoms():
    pair = force("NonbondedForce", "addParticle", [(1, 0.3, 0), (0, 0.3, 0), (1, 0.3, 0)])
    atoms = Atoms("Ar2X", [[0, 0, 0], [4, 0, 0], [2, 0, 0]],
                  calculator=SystemCalculator(system_of([1, 1, 0], pair, sites=[(2, (0, 1))]), "Reference"))
    before = atoms.get_potential_energy()
    atoms.positions[1] *= 2
    assert atoms.get_potential_energy() == pytest.approx(before/2)
    assert atoms.get_forces()[:2] == pytest.approx(calculate_numerical_forces(atoms, eps=1e-4)[:2], abs=1e-4)


class Field(Calculator):
    """A force of 0.2 eV/Angstrom along x on each atom."""

    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": -0.2*atoms.positions[:, 0].sum(), "forces": 0.2*np.eye(3)[[0]*len(atoms)]}


def test_drawn_momenta_belong_to_half_a_step_earlier():
    """The momentum of the whole molecule lacks half of what a step's force adds to it."""
    atoms, momenta = Atoms("H2", [[0, 0, 0], [0, 0, 0.76]], calculator=Field()), []
    dynamics = mass_penalty(atoms, 8)
    for _ in range(1000):
        dynamics.draw_momenta()
        momenta.append(atoms.get_momenta()[:, 0].sum())
    error = np.std(momenta)/len(momenta)**0.5
    assert np.std(momenta) == pytest.approx(np.sqrt(atoms.get_masses().sum()*KT), rel=0.1)
    assert abs(np.mean(momenta) + 3*units.fs*0.4) < ERRORS*error < abs(np.mean(momenta))


def test_another_seed_makes_another_run():
    found = []
    for seed in 1, 1, 2:
        atoms = Atoms("H2", [[0, 0, 0], [0, 0, 0.76]], calculator=spring(0.76, 100))
        dynamics = mass_penalty(atoms, 8)
        dynamics.run(3)
        dynamics.set_rng(np.random.default_rng(seed))
        dynamics.run(3)
        found.append(atoms.get_positions())
    assert (found[0] == found[1]).all() and np.abs(found[0] - found[2]).min() > 0
