"""What a user does to a Context, in any order, and whether it stays one run: random sequences from hypothesis.

A sequence is carried out once, and then again in other ways that are claimed to be the same: with actions between that
do nothing, step by step, moved from Context to Context and to copies of the integrator, on another platform. One after
the other, as the Contexts of the Reference platform draw from one stream of random numbers. Units are OpenMM's: nm, ps,
K, kJ/mol.

`HYPOTHESIS_PROFILE=long python -m pytest tests/python/test_state_machine.py` makes 50 times as many sequences, new ones
each time, and says how many. As a program, with the name of a platform, it runs all there.
"""

import collections
import itertools
import random
import sys
import warnings

import numpy as np
import openmm
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from openmm import XmlSerializer

import conftest
from openmmstiff import (HMMIntegrator, ImpulseIntegrator, MassPenaltyIntegrator, MassPenaltyLangevinIntegrator,
                         SpookIntegrator, ZhangSkeelIntegrator)
from systems import angles, bonds, force, periodic, system as with_phase
from test_devices import run_with_opencl
from trials import seeded

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SEQUENCES, ACTIONS = {"Reference": 12, "CPU": 8, "OpenCL": 2}, 14       # of a class on a platform; in a sequence
BOX = 2.4
STEPS = {MassPenaltyIntegrator: 0.002, HMMIntegrator: 0.0005}   # and classes derived from them; others 0.001
CHOICES = {     # settings of classes, and of those derived from them
    ZhangSkeelIntegrator: {"Method": st.sampled_from([ZhangSkeelIntegrator.StiffHessian, ZhangSkeelIntegrator.Newmark]),
                           "Beta": st.floats(0.25, 0.5)},
    ImpulseIntegrator: {"Kick": st.sampled_from([ImpulseIntegrator.Plain, ImpulseIntegrator.Projected]),
                        "NumMicroSteps": st.integers(4, 9), "ProjectedPeriod": st.floats(0, 0.05)},
    MassPenaltyIntegrator: {"PenalizedPeriod": st.floats(0, 0.1, exclude_min=True), "BondInertia": st.floats(0, 10)},
    MassPenaltyLangevinIntegrator: {"MetricCorrection": st.booleans()},
    SpookIntegrator: {"Damping": st.floats(0, 0.01, exclude_min=True), "Compliance": st.floats(1e-12, 1e-7)},
    HMMIntegrator: {"MacroMethod": st.sampled_from([HMMIntegrator.SHAKE, HMMIntegrator.RATTLE]),
                    "NumMicroStepsPerPeriod": st.sampled_from([4, 8, 10])}}
ON_DEVICES = {"Method", "Kick", "MacroMethod"}      # of these, as each choice needs Contexts, which take long to make
RANDOM = {"Barostat", "Andersen"}       # what draws random numbers, among the forces that change the state
counts = collections.Counter()


# ---- The System, of molecules that devices take and, if it is large, of others ----

WATER = np.array([[0, 0, 0], [0.0957, 0, 0], [-0.024, 0.0927, 0], [0.0106, 0.0137, 0]])     # the last is a virtual site


def place(large):
    """Positions, and the particles of each molecule: flexible waters, with a rigid one and a chain of 20 atoms."""
    waters = [WATER[:3] + [0.4, 0.4 + 0.35*i, 0.3] for i in range(3)]
    turns = np.arange(20)*np.pi/4
    chain = np.column_stack([1.4 + 0.18*np.cos(turns), 1.4 + 0.18*np.sin(turns), 0.6 + 0.45*turns/(2*np.pi)])
    x = [*waters, WATER + [0.8, 0.4, 0.3], chain] if large else waters
    ends = np.cumsum([len(molecule) for molecule in x]).tolist()
    return np.concatenate(x), [range(end - len(molecule), end) for end, molecule in zip(ends, x)]


def make_system(large, nonbonded, extra):
    """The System. Particle 0 feels a force of the size of the parameter `scale`, and one of HMM's phase."""
    x, molecules = place(large)
    chain = [*molecules[4]] if large else []

    def length(i, j):
        return np.linalg.norm(x[i] - x[j])

    def angle(i, j, k):
        return np.arccos((x[i] - x[j]) @ (x[k] - x[j])/length(i, j)/length(j, k))

    flexible, rigid = [molecule[0] for molecule in molecules[:3]], molecules[3] if large else []
    pairs = [(o, o + k) for o in flexible for k in (1, 2)] + [*zip(chain, chain[1:])]
    triples = [(o + 1, o, o + 2) for o in flexible] + [*zip(chain, chain[1:], chain[2:])]
    weak = force("CustomBondForce", "addBond", [(*pair, [length(*pair)]) for pair in pairs[6:][-1:]],
                 "400*(1-exp(-20*(r-length)))^2",       # not harmonic
                 setup=lambda made: made.addPerBondParameter("length"))
    pull = force("CustomExternalForce", "addParticle", [(molecule[0], [1.0]) for molecule in molecules], "scale*a*x",
                 setup=lambda made: (made.addGlobalParameter("scale", 10.0), made.addPerParticleParameter("a")))
    water = [(16.0, -0.8, 0.315, 0.4), (1.0, 0.4, 0.1, 0), (1.0, 0.4, 0.1, 0), (0.0, 0, 0.1, 0)]
    particles = [water[i - molecule[0]] for molecule in molecules[:4] for i in molecule] + [
        (12.0, 0.1*(-1)**i, 0.315, 0.4) for i in chain]
    charges = force("NonbondedForce", "addParticle", [particle[1:] for particle in particles], setup=lambda made: (
        made.setNonbondedMethod(made.CutoffPeriodic), made.setCutoffDistance(0.7)))
    for molecule in molecules:
        for i, j in itertools.combinations(molecule, 2):
            if j <= i + 3:
                charges.addException(i, j, 0, 1, 0)
    stiff = pairs[:-1] if large else pairs
    system, _ = with_phase(
        x, periodic(bonds(*((*pair, length(*pair), 4e5) for pair in stiff))),
        periodic(angles(*((*triple, angle(*triple), 400) for triple in triples))), periodic(weak), pull,
        *([charges] if nonbonded else []), masses=[particle[0] for particle in particles], box=[*BOX*np.eye(3)],
        constraints=[(i, j, length(i, j)) for i, j in itertools.combinations(rigid[:3], 2)],
        sites=[(rigid[3], (rigid[0], rigid[1]))] if rigid else (), phase="20*cos(theta)*x")
    if extra:
        made = {"Barostat": lambda: openmm.MonteCarloBarostat(1, 300, 1), "Remover": lambda: openmm.CMMotionRemover(1),
                "Andersen": lambda: openmm.AndersenThermostat(300, 20)}[extra]()
        system.addForce(seeded(made) if extra in RANDOM else made)
    return system


# ---- A run ----

class Run:
    """Contexts with what has been saved of them. The run is in one of them; another is where it may be moved."""
    kept = {}       # Contexts on OpenCL, which take long to make

    def __init__(self, platform, cls, friction=0.0, variant=(), large=True, extra=None, nonbonded=True):
        self.platform, self.saved, self.shown = openmm.Platform.getPlatform(platform), {}, []
        self.cls, self.has_extra, self.start = cls, extra is not None, place(large)[0]
        key = (platform, cls, friction, str(variant), large, extra)
        if key in self.kept:
            self.system, self.contexts, beginning = self.kept[key]
            self.change_force("HarmonicBondForce", 1.0), self.change_force("CustomExternalForce", 1.0)
            self.set_in_each("setStepSize", self.base_step())
            if issubclass(cls, MassPenaltyIntegrator):
                self.set_in_each("setUseDefaultBondInertia", True)
            for context in self.contexts:
                context.loadCheckpoint(beginning)
        else:
            self.system = make_system(large, nonbonded, extra)
            integrator = conftest.create(cls, self.base_step(), friction, seed=7)
            integrator.setConstraintTolerance(1e-10)
            for name, value in variant:
                getattr(integrator, "set" + name)(value)
            self.contexts = [self.fresh(integrator), self.fresh(integrator)][::-1]
            self.begin(1)
            if platform == "OpenCL":
                # A checkpoint of OpenMM's has no charges yet before forces have been computed, and erases those set.
                self.context.getState(forces=True)
                self.kept[key] = self.system, self.contexts, self.context.createCheckpoint()

    def base_step(self):
        return next((step for base, step in STEPS.items() if issubclass(self.cls, base)), 0.001)

    def fresh(self, integrator):
        """A new Context, with a copy of an integrator."""
        properties = {"OpenCL": {"Precision": "double"}, "CPU": {"Threads": "2"}}.get(self.platform.getName(), {})
        return openmm.Context(self.system, XmlSerializer.clone(integrator), self.platform, properties)

    @property
    def context(self):
        return self.contexts[0]

    @property
    def integrator(self):
        return self.context.getIntegrator()

    def show(self):
        """Positions, velocities, box, parameters, time and number of steps."""
        state = self.context.getState(positions=True, velocities=True, parameters=True)
        return (state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value,
                np.array(state.getPeriodicBoxVectors()._value), dict(state.getParameters()), state.getTime()._value,
                state.getStepCount())

    # Actions: these methods, and those of the Context.

    def begin(self, seed):
        self.context.setPositions(self.start)
        self.context.computeVirtualSites()
        self.context.setVelocitiesToTemperature(300, seed)

    def step(self, n):
        self.integrator.step(n)

    def set_positions(self, particles, x):
        new = self.show()[0]
        new[particles] = x
        self.context.setPositions(new)
        self.context.computeVirtualSites()

    def set_velocity(self, particle, v):
        new = self.show()[1]
        new[particle] = v
        self.context.setVelocities(new)

    def set_in_each(self, name, value):
        for context in self.contexts:
            getattr(context.getIntegrator(), name)(value)

    def add_bond_inertia(self, inertia):
        for context in self.contexts:
            integrator = context.getIntegrator()
            if integrator.getNumBondInertias():
                integrator.setBondInertiaParameters(0, 0, 1, inertia)
            else:
                integrator.addBondInertia(0, 1, inertia)

    def change_force(self, name, factor):
        """A constant of a force in the System, which Contexts are told of."""
        force = next(force for force in self.system.getForces() if force.getName() == name)
        if name == "HarmonicBondForce":
            for bond in range(force.getNumBonds()):
                force.setBondParameters(bond, *force.getBondParameters(bond)[:3], 4e5*factor)
        else:
            force.setParticleParameters(0, force.getParticleParameters(0)[0], [factor])
        for context in self.contexts:
            force.updateParametersInContext(context)

    def minimize(self):
        openmm.LocalEnergyMinimizer.minimize(self.context, 10, 3)

    def apply_constraints(self):
        self.context.applyConstraints(1e-10)
        self.context.applyVelocityConstraints(1e-10)

    def reinitialize(self, seed):
        """All over again; parameters have their defaults."""
        self.context.reinitialize()
        self.begin(seed)

    def keep(self, kind):
        self.saved[kind] = self.save(kind)

    def load_kept(self, kind):
        self.load(kind, self.saved[kind])

    def save(self, kind):
        """A checkpoint or the XML of a State."""
        if kind == "checkpoint":
            return self.context.createCheckpoint()
        return XmlSerializer.serialize(self.context.getState(positions=True, velocities=True, parameters=True,
                                                             integratorParameters=True))

    def load(self, kind, saved):
        if kind == "checkpoint":
            self.context.loadCheckpoint(saved)
        else:
            self.context.setState(XmlSerializer.deserialize(saved))

    # What does nothing.

    def read_everything(self):
        self.context.getState(energy=True, forces=True, positions=True, velocities=True, parameters=True,
                              integratorParameters=True, enforcePeriodicBox=True)

    def read_of_integrator(self):
        for name in dir(self.integrator):
            if name.startswith(("compute", "describe")) and name != "describeKernels":
                getattr(self.integrator, name)()

    def set_what_is(self):
        box, parameters = self.show()[2:4]
        self.integrator.setStepSize(self.integrator.getStepSize())
        self.integrator.setConstraintTolerance(self.integrator.getConstraintTolerance())
        self.context.setPeriodicBoxVectors(*box)
        self.context.setParameter("scale", parameters["scale"])

    def set_positions_that_are(self):
        """Zhang-Skeel methods are told thereby to begin anew with an offset of 0."""
        if not issubclass(self.cls, ZhangSkeelIntegrator):
            self.context.setPositions(self.show()[0])

    NO_OPS = (read_everything, read_of_integrator, set_what_is, set_positions_that_are,
              lambda self: self.context.setVelocities(self.show()[1]), lambda self: self.integrator.step(0),
              lambda self: self.context.loadCheckpoint(self.context.createCheckpoint()))

    def to_another(self, kind, fresh):
        """Go on in a Context that is new, or that has another past."""
        saved = self.save(kind)
        if fresh:
            self.contexts[1] = self.fresh(self.integrator)
        self.contexts.reverse()
        self.load(kind, saved)

    # The sequence.

    def act(self, name, *arguments, one_by_one=False):
        """Act, and note what is then shown. A step that fails says so, and leaves all as it was before it."""
        failed, size = "", self.integrator.getStepSize()
        for part in [(1,)]*arguments[0] if one_by_one and name == "step" else [arguments]:
            before = self.show()
            try:
                getattr(self if hasattr(self, name) else self.context, name)(*part)
            except openmm.OpenMMException as error:
                failed = str(error)
                if name == "step" and part == (1,) and not self.has_extra:
                    assert same(self.show(), before, 0, 0), f"changed by a failure: {failed}"
                break
        assert self.integrator.getStepSize() == size or arguments[:1] == ("setStepSize",)
        self.shown.append((*self.show(), failed))
        return failed


def same(one, other, dx, dv):
    """Whether two things shown are the same, within tolerances of positions and velocities."""
    return (np.abs(one[0] - other[0]).max() <= dx and np.abs(one[1] - other[1]).max() <= dv
            and np.abs(one[2] - other[2]).max() <= dx and one[3].keys() == other[3].keys()
            and all(abs(one[3][key] - other[3][key]) <= dx for key in one[3])
            and abs(one[4] - other[4]) < 1e-12 and one[5] == other[5])


# ---- Sequences ----

TOLERANCES = {"Reference": (0, 0), "CPU": (0, 0), "OpenCL": (1e-9, 1e-6)}     # of the same run on a platform


class Life(RuleBasedStateMachine):
    """A sequence of actions, on a run as it is; at the end the same in other ways."""

    def __init__(self, platform, cls):
        super().__init__()
        self.platform, self.cls, self.actions, self.kept, self.run = platform, cls, [], {}, None

    @initialize(data=st.data())
    def begin(self, data):
        friction = data.draw(st.sampled_from([0.0, 5.0])) if conftest.has_heat_bath(self.cls) else 0.0
        devices = self.platform == "OpenCL"
        chosen = [choice for base, choices in CHOICES.items() if issubclass(self.cls, base)
                  for choice in choices.items() if not devices or choice[0] in ON_DEVICES]
        if conftest.has_heat_bath(self.cls) and not devices:
            chosen.append(("Temperature", st.floats(0, 400)))
        extras = [None] if devices else [None, "Remover", "Andersen", "Barostat"]
        self.options = {"friction": friction,
                        "variant": tuple((name, data.draw(choice, label=name)) for name, choice in chosen),
                        "large": data.draw(st.booleans()), "nonbonded": self.platform != "CPU",
                        "extra": data.draw(st.sampled_from(extras))}
        self.seed = data.draw(st.integers(0, 999))
        self.run, self.wild = Run(self.platform, self.cls, **self.options), False
        self.random = friction > 0 or self.options["extra"] in RANDOM

    def act(self, name, *arguments, taken=0):
        """Act, and check what holds for each run by itself."""
        self.actions.append((name, *arguments))
        before = self.run.show()
        failed = self.run.act(name, *arguments)
        x, v, box, _, time_, steps = after = self.run.show()
        assert all(np.isfinite(each).all() for each in (x, v, box)), name
        assert self.wild or not failed, failed
        if name == "load_kept":
            assert (time_, steps) == self.kept[arguments[0]]
        elif name == "reinitialize":
            assert (time_, steps) == (0, 0)
        else:
            done = steps - before[5]
            assert done == taken if not failed else 0 <= done < max(taken, 1), name
            assert time_ == pytest.approx(before[4] + done*self.run.integrator.getStepSize()._value, abs=1e-12)

    @rule(n=st.integers(0, 5))
    def step(self, n):
        self.act("step", n, taken=n)

    @rule(molecule=st.integers(0, 4), seed=st.integers(0, 99), boxes=st.integers(-1, 1))
    def move_molecule(self, molecule, seed, boxes):
        """As a whole: turned a little about its first atom, and shifted, perhaps by the box."""
        particles, x, noise = self.draw(molecule, seed)
        turn, _ = np.linalg.qr(np.eye(3) + 0.1*noise.normal(size=(3, 3)))
        turn *= np.sign(np.diag(turn))
        shift = 0.003*noise.normal(size=3) + [boxes*BOX, 0, 0]
        turn *= np.linalg.det(turn)
        self.act("set_positions", particles, (x[particles] - x[particles[0]]) @ turn.T + x[particles[0]] + shift)

    @rule(molecule=st.integers(0, 4), seed=st.integers(0, 99), size=st.sampled_from([1e-8, 1e-5, 1e-3]),
          atoms=st.integers(1, 3))
    def move_atoms(self, molecule, seed, size, atoms):
        particles, x, noise = self.draw(molecule, seed)
        if len(particles) != 4:     # a rigid water has a length that it must keep
            moved = particles[:atoms]
            self.act("set_positions", moved, x[moved] + size*noise.normal(size=(len(moved), 3)))

    @rule(atom=st.integers(0, 8), speed=st.sampled_from([10.0, 1e4, 1e6]))
    def make_atom_hot(self, atom, speed):
        self.wild = True
        self.act("set_velocity", atom, [speed, 0, 0])

    @rule(factor=st.sampled_from([0.0, 0.8, -1.0]))
    def scale_velocities(self, factor):
        self.act("setVelocities", factor*self.run.show()[1])

    @rule(temperature=st.sampled_from([0, 100, 300]), seed=st.integers(1, 99))
    def draw_velocities(self, temperature, seed):
        self.act("setVelocitiesToTemperature", temperature, seed)

    @rule(factors=st.lists(st.floats(0.95, 1.05), min_size=3, max_size=3), tilt=st.sampled_from([0, 0.1]))
    def set_box(self, factors, tilt):
        box = BOX*np.diag(factors)
        box[2, 0] = 0 if self.platform == "OpenCL" else tilt    # OpenMM refuses it there
        self.act("setPeriodicBoxVectors", *box)

    @rule(factor=st.sampled_from([0.5, 0.9, 1.0, 6.0]))
    def set_step_size(self, factor):
        """Of the mass penalty up to 12 fs, with an inertia of bonds; not everything holds there."""
        penalty = issubclass(self.cls, MassPenaltyIntegrator)
        self.wild |= penalty and factor > 1
        self.act("set_in_each", "setStepSize", self.run.base_step()*(factor if penalty else min(factor, 1.0)))

    @precondition(lambda self: issubclass(self.cls, MassPenaltyIntegrator))
    @rule(inertia=st.sampled_from([0.0, 1.0, 4.0]), added=st.booleans())
    def set_inertia_of_bonds(self, inertia, added):
        if added and self.platform != "OpenCL":
            self.act("add_bond_inertia", inertia)
        else:
            self.act("set_in_each", "setBondInertia", inertia)

    @rule(value=st.floats(-50, 50))
    def set_parameter(self, value):
        self.act("setParameter", "scale", value)

    @rule(name=st.sampled_from(["HarmonicBondForce", "CustomExternalForce"]), factor=st.sampled_from([0.8, 1.0, 1.2]))
    def change_force(self, name, factor):
        self.act("change_force", name, factor)

    @precondition(lambda self: self.platform != "OpenCL")       # PoCL crashes there
    @rule()
    def minimize(self):
        self.act("minimize")

    @precondition(lambda self: self.platform != "OpenCL")       # which would compile anew
    @rule(seed=st.integers(1, 99))
    def reinitialize(self, seed):
        self.act("reinitialize", seed)

    @rule()
    def apply_constraints(self):
        self.act("apply_constraints")

    @rule(kind=st.sampled_from(["checkpoint", "state"]), load=st.booleans())
    def keep_or_load(self, kind, load):
        if kind in self.run.saved and load:
            self.act("load_kept", kind)
        else:
            self.act("keep", kind)
            self.kept[kind] = self.run.show()[4:]

    def draw(self, molecule, seed):
        """The particles of a molecule, the positions, and a generator of random numbers."""
        _, molecules = place(self.options["large"])
        return list(molecules[molecule % len(molecules)]), self.run.show()[0], np.random.default_rng(seed)

    def teardown(self):
        if self.run is None or not self.actions:
            return
        counts.update(sequences=1, actions=len(self.actions))
        self.repeat("with what does nothing", lambda run, chance: [
            each(run) for each in chance.sample(Run.NO_OPS, chance.randrange(4))])
        self.repeat("step by step", one_by_one=True)
        if self.options["extra"] != "Barostat":     # whose own size of moves no checkpoint has
            self.repeat("moved by checkpoints", lambda run, chance: chance.random() < 0.5 and (
                run.to_another("checkpoint", self.platform != "OpenCL" and chance.random() < 0.5)
                if self.platform == "OpenCL" or chance.random() < 0.7 else run.context.reinitialize(True)))
        if not self.random:
            self.repeat("moved by States", lambda run, chance: chance.random() < 0.5 and (
                run.to_another("state", self.platform != "OpenCL" and chance.random() < 0.5)))
            other = {"Reference": "CPU"}.get(self.platform, "Reference")
            self.repeat(f"on {other}", platform=other)

    def repeat(self, how, between=lambda run, chance: None, one_by_one=False, platform=None):
        """Do it all again, with something between the actions, and claim that it shows the same."""
        run, chance = Run(platform or self.platform, self.cls, **self.options), random.Random(self.seed)
        dx, dv = TOLERANCES[self.platform] if platform is None else (1e-5, 1e-2)
        for number, (action, expected) in enumerate(zip(self.actions, self.run.shown)):
            between(run, chance)
            run.act(*action, one_by_one=one_by_one)
            found = run.shown[-1]
            counts.update(repeated=1)
            done = [f"{name}{arguments}" for name, *arguments in self.actions[:number + 1]]
            text = f"{how}, after {done} with {self.options}: "
            assert bool(found[-1]) == bool(expected[-1]), f"{text}{found[-1]!r}, not {expected[-1]!r}"
            if platform is not None and (expected[-1] or action[0] == "minimize"):
                return      # where a minimization ends depends on the rounding of forces
            assert same(found, expected, dx, dv), text + "\n".join(
                f"{np.abs(one - other).max():.3g}" for one, other in zip(found[:3], expected[:3])) + str(
                    [found[3:], expected[3:]])


def explore(platform, cls):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        examples = max(1, settings().max_examples*SEQUENCES[platform]//conftest.EXAMPLES)
        counts.clear()
        run_state_machine_as_test(lambda: Life(platform, cls), settings=settings(
            settings(), stateful_step_count=ACTIONS, max_examples=examples))
        print(f"{cls.__name__} on {platform}: {dict(counts)}")


@pytest.mark.parametrize("platform", conftest.PLATFORMS)
@pytest.mark.parametrize("cls", conftest.INTEGRATORS)
def test_any_sequence_is_one_run(platform, cls):
    explore(platform, cls)


def test_any_sequence_is_one_run_on_opencl():
    run_with_opencl(__file__, "OpenCL")


if __name__ == "__main__":
    for each in conftest.INTEGRATORS:
        explore(sys.argv[1], each)
