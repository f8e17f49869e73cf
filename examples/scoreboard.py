#!/usr/bin/env python
"""Evaluations of the forces for an independent sample, and how far each step of each method may be off.

Deviations are those of energies from a small step's, and of temperatures from the thermostat's; a bound is a deviation
and two standard errors. Tolerated are 0.3 % of the potential energy between molecules, 1 % of each kind of bonded
energy and of temperature. A step is wrong if it fails, or deviates by more than its tolerance and two errors. A run is
repeated with other seeds while a bound is beyond its tolerance, until a budget is spent. Each method goes on to its
first step that is wrong.

The slow observables are the torsion of a molecule and the distance of its ends, whose independent samples are two
correlation times apart; in water, the dipoles (two times of their reorientation) and the centres of molecules (the time
to diffuse over one diameter); in proteins, the torsions psi, chi1 and of methyl groups (the time between transitions).

Results are kept in files, one for each run: what has been done is not done again. Prints a table and draws it.
"""
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import GAS_CONSTANT, Deviation, Samples, blockedError, sample

from common import amoeba, proteins, scores, water
from expensive_forces import Geometry, evaluations_per_sample
from common.observables import diffusion, places_of_waters, reorientation, temperatures_by_motion, transitions, turns
from common.options import (OptionParser, add_names_option, add_output_option, add_record_option, add_repeat_options,
                            add_scale_option, number, run_program)
from common.runs import Result, Settings, Task, begin, make_missing
from common.tables import MEASUREMENTS, origin, print_table, read, write
from common.xtb import MOLECULES, add_distilled

TEMPERATURE = 300.0                 # K
REFERENCE, CPU = "Reference", "CPU"  # platforms
WELLS = {"psi": 2, "chi1": 3, "methyl": 3}   # of torsions
DIAMETER = 0.28                     # nm, of a water
SAMPLE_INTERVAL = 0.048             # ps, more than a period of what vibrates
INNER_STEP = 0.5                    # fs, of the fast forces of MTSLangevinIntegrator
FAST, SLOW = 1, 0                   # its force groups where a force field is distilled
OURS, OURS_ON_DARK, THEIRS = "#99000d", "#ef3b2c", "#4292c6"     # colours


@dataclass(frozen=True)
class Method:
    """How a System is built and moved; steps in fs, growing to one that is wrong."""
    label: str
    make: Callable[[float, float, float], mm.Integrator]
    steps: tuple[float, ...]
    geometry: str = "flexible"
    hydrogen_mass: float | None = None  # dalton

    @property
    def ours(self) -> bool:
        return self.make in (penalty, without_inertia)


@dataclass(frozen=True)
class Found:
    """Of a run: energies and temperatures are series; the slow observables have times (ps) of an independent sample."""
    step: float                         # ps
    energies: dict[str, np.ndarray]     # kJ/mol
    temperatures: dict[str, np.ndarray]
    slow: dict[str, tuple[float, float]]    # with standard errors
    scale: dict[str, float] = field(default_factory=dict)   # of which an energy may be off, if not of itself

    @property
    def evaluations(self) -> dict[str, tuple[float, float]]:
        return {name: (time / self.step, error / self.step) for name, (time, error) in self.slow.items()}


def middle(temperature: float, friction: float, step: float) -> mm.Integrator:
    return mm.LangevinMiddleIntegrator(temperature, friction, step)


def penalty(temperature: float, friction: float, step: float) -> mm.Integrator:
    return MassPenaltyLangevinIntegrator(temperature, friction, step)


def without_inertia(temperature: float, friction: float, step: float) -> mm.Integrator:
    integrator = MassPenaltyLangevinIntegrator(temperature, friction, step)
    integrator.setBondInertia(0)
    return integrator


def multiple_steps(slow: set[int], fast: set[int], temperature: float, friction: float, step: float) -> mm.Integrator:
    """OpenMM's r-RESPA: slow forces once a step, fast ones in inner steps."""
    inner = round(1000 * step / INNER_STEP)
    return mm.MTSLangevinIntegrator(temperature, friction, step, [(group, 1) for group in slow]
                                    + [(group, inner) for group in fast])


class Subject:
    """A system and its methods. The reference for those of a geometry is the smallest step of the first of them."""
    label: str
    friction: float     # 1/ps
    evaluations: int    # steps of a run, whatever their size
    reference = 3       # times as many for the reference
    methods: dict[str, Method]
    slow: tuple[str, ...]
    practice: tuple[str, float]             # the method and step (fs) that people use
    shown: tuple[tuple[str, float | None], ...]     # what is compared with it, at this step or at its largest
    platform = CPU

    def time(self, key: str, fs: float) -> float:
        """Of a run (ps): all take the same number of evaluations, but the reference takes more."""
        method = self.methods[key]
        first = next(of for of in self.methods.values() if of.geometry == method.geometry)
        return fs / 1000 * self.evaluations * (self.reference if method is first and fs == method.steps[0] else 1)

    def start(self, geometry: str, seed: int, steps: int | None = None) -> mm.Context:
        """Of a small step, equilibrated, if need be by so many."""
        raise NotImplementedError

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        """From positions of start(); step and time in ps."""
        raise NotImplementedError


class Molecule(Subject):
    """In GFN2-xTB, in vacuum."""
    friction, slow, platform = 5.0, ("torsion", "ends"), REFERENCE
    practice, shown = ("middle", 1), (("mts", None), ("penalty", 12))
    methods = {
        "middle": Method("LangevinMiddle", middle, (0.5, 1, 1.5, 2, 2.5, 3)),
        "heavy": Method("LangevinMiddle, H of 4 dalton", middle, (1, 2, 3, 4), hydrogen_mass=4.0),
        "mts": Method("MTSLangevin, distilled force field", partial(multiple_steps, {SLOW}, {FAST}), (2, 3, 4, 5, 6),
                      "distilled"),
        "without": Method("mass penalty, no inertia of bonds", without_inertia, (4, 6, 8, 10, 12, 16, 20, 24, 32)),
        "penalty": Method("mass penalty", penalty, (8, 10, 12, 16, 20, 24, 28, 32, 40)),
    }

    def __init__(self, name: str, evaluations: int):
        self.molecule, self.evaluations = MOLECULES[name], evaluations
        self.label = f"{self.molecule.name}, GFN2-xTB"

    def start(self, geometry: str, seed: int, steps: int | None = None) -> mm.Context:
        return self.molecule.relax(self.molecule.build_system(), TEMPERATURE, seed)

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        molecule, topology = self.molecule, self.molecule.build_topology()
        system = molecule.build_system(method.hydrogen_mass)
        if method.geometry == "distilled":
            add_distilled(system, self.start(method.geometry, seed), Geometry(molecule), FAST)
        integrator = method.make(TEMPERATURE, self.friction, step)
        if isinstance(integrator, MassPenaltyLangevinIntegrator):
            own = integrator.getUseDefaultBondInertia()
            addPairsFromTopology(integrator, topology, system, positions, bondInertia=None if own else 0)
        context = begin(system, integrator, positions, REFERENCE, TEMPERATURE, seed)
        integrator.step(round(5 / step))
        burst = max(1, round(SAMPLE_INTERVAL / step))
        found = sample(context, burst, round(time / (burst * step)), observe=Geometry(molecule))
        counts = {kind: evaluations_per_sample([found], kind) for kind in self.slow}
        slow = {kind: (step * count, step * error) for kind, (count, error) in counts.items()}
        thermal = (3 * len(molecule.labels) - 6) / 2 * GAS_CONSTANT * TEMPERATURE
        return collect(found, {"temperature": found.temperature}, slow, {"potential": thermal})


class Liquid(Subject):
    """With water, whose motion is observed if it is among what is slow, and torsions that are."""
    groups: dict[str, set[int]]             # by kinds of energies
    motions = True                          # temperatures by kinds of motion of water, or one of all
    calm, small = 5.0, 0.002                # 1/ps, ps: how a start is equilibrated
    equilibration, settling = 4000, 5.0     # steps of that; ps of each run
    interval = SAMPLE_INTERVAL

    @cached_property
    def modeller(self) -> app.Modeller:
        raise NotImplementedError

    def build(self, method: Method) -> mm.System:
        raise NotImplementedError

    def start(self, geometry: str, seed: int, steps: int | None = None) -> mm.Context:
        system = self.build(next(method for method in self.methods.values() if method.geometry == geometry))
        context = begin(system, middle(TEMPERATURE, self.calm, self.small), self.modeller.positions, self.platform,
                        TEMPERATURE, seed, 100)
        context.getIntegrator().step(self.equilibration if steps is None else steps)
        return context

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        system, integrator = self.build(method), method.make(TEMPERATURE, self.friction, step)
        context = begin(system, integrator, positions, self.platform, TEMPERATURE, seed)
        integrator.step(round(self.settling / step))
        topology = self.modeller.topology
        waters = np.array([[atom.index for atom in residue.atoms()] for residue in topology.residues()
                           if residue.name == "HOH"])
        masses = np.array([system.getParticleMass(i)._value for i in waters[0]])
        held = any(isinstance(force, mm.CMMotionRemover) for force in system.getForces())
        names = ("translation", "rotation", "vibration") if self.motions else ()
        moving = any(kind in scores.OF_WATER for kind in self.slow)
        torsions = {kind: atoms for kind, atoms in proteins.torsions(topology).items() if kind in self.slow}

        def observe(state: mm.State) -> dict[str, float | np.ndarray]:
            x, v = state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value
            found: dict[str, float | np.ndarray] = {kind: turns(x, atoms) for kind, atoms in torsions.items()}
            if moving:
                found |= places_of_waters(x[waters], masses)
            if names:
                found |= dict(zip(names, temperatures_by_motion(x[waters], v[waters], masses,
                                                                state.getKineticEnergy()._value, held)))
            return found

        burst = max(1, round(self.interval / step))
        found = sample(context, burst, round(time / (burst * step)), groups=self.groups, observe=observe)
        slow = {kind: time_between(found.observed[kind], kind, found.interval) for kind in torsions}
        if moving:
            speed, error = diffusion(found.observed["centres"], found.interval)     # 1e-5 cm^2/s: 1e-3 nm^2/ps
            across = DIAMETER**2 / (6e-3 * speed)
            tau, its_error = reorientation(found.observed["dipoles"], found.interval)
            slow |= {"diffusion": (across, across * error / speed), "reorientation": (2 * tau, 2 * its_error)}
        return collect(found, {name: found.observed[name] for name in names} or {"temperature": found.temperature},
                       {kind: slow[kind] for kind in self.slow})


class Water(Liquid):
    """TIP3P with PME, flexible or rigid."""
    friction, slow = 1.0, scores.OF_WATER
    groups = {"nonbonded": {water.NONBONDED_GROUP}, "bonds": {water.BOND_GROUP}, "angles": {water.ANGLE_GROUP}}
    practice, shown = ("settle", 4), (("rigid", 12),)
    methods = {
        "middle": Method("LangevinMiddle", middle, (1, 2, 2.5, 3)),
        "mts": Method("MTSLangevin", partial(multiple_steps, {0, water.NONBONDED_GROUP},
                                             {water.BOND_GROUP, water.ANGLE_GROUP}), (1, 2, 3)),
        "without": Method("mass penalty, no inertia of bonds", without_inertia, (4, 6, 8)),
        "penalty": Method("mass penalty", penalty, (8, 10, 12, 14, 16)),
        "settle": Method("LangevinMiddle, SETTLE", middle, (2, 4, 5, 6, 8), "rigid"),
        "rigid": Method("mass penalty, rigid water", penalty, (8, 10, 12, 14, 16, 20), "rigid"),
    }

    def __init__(self, waters: int, evaluations: int):
        self.waters, self.evaluations, self.label = waters, evaluations, f"{waters} TIP3P waters"

    @cached_property
    def modeller(self) -> app.Modeller:
        return water.build_box(self.waters).modeller

    def build(self, method: Method) -> mm.System:
        return water.build_system(water.WaterBox(self.modeller.topology, np.empty(0)), method.geometry)


class Protein(Liquid):
    """In TIP3P water, with PME. Its own slow motions are torsions."""
    friction, water, groups, motions, equilibration, settling = 1.0, "tip3p", proteins.ENERGIES, False, 20000, 2.0
    practice, shown = ("constrained", 4), (("heavy1.5", None), ("rigid", 10))
    methods = {
        "middle": Method("LangevinMiddle", middle, (1, 2, 3)),
        "mts": Method("MTSLangevin", partial(multiple_steps, {0}, {1, 2, 3}), (1, 2)),
        "penalty": Method("mass penalty", penalty, (8, 10, 11, 12, 14, 16)),
        "constrained": Method("LangevinMiddle, HBonds, SETTLE", middle, (2, 4, 5, 6), "constrained"),
        **{f"heavy{mass:g}": Method(f"LangevinMiddle, HBonds, SETTLE, H of {mass:g} dalton", middle, (4, 5, 6),
                                    "constrained", mass) for mass in (1.5, 2, 3, 4)},
        "rigid": Method("mass penalty, HBonds, rigid water", penalty, (8, 10, 12, 14, 16), "constrained"),
    }

    def __init__(self, evaluations: int):
        self.evaluations = evaluations

    def build(self, method: Method) -> mm.System:
        flexible = method.geometry == "flexible"
        return proteins.build_protein(self.modeller, "water", None if flexible else app.HBonds, not flexible,
                                      method.hydrogen_mass, self.water)


class Villin(Protein):
    """The headpiece in TIP3P-FB water; the motion of its backbone would take too long."""
    label, slow, water = "villin in water", ("methyl", "chi1", "reorientation", "diffusion"), "tip3pfb"
    shown = (("heavy1.5", None), ("rigid", 12))

    @cached_property
    def modeller(self) -> app.Modeller:
        return proteins.read_villin("water")


class Alanine(Protein):
    """Alanine dipeptide, whose psi turns between two basins in some hundred picoseconds."""
    label, slow, reference = "alanine dipeptide in water", ("psi", "methyl", "reorientation"), 1

    @cached_property
    def modeller(self) -> app.Modeller:
        return proteins.solvate_alanine(350)


class Amoeba(Liquid):
    """A droplet of 27 AMOEBA waters in a container."""
    label, friction, slow, platform = "27 AMOEBA waters", 5.0, ("reorientation",), REFERENCE
    groups, calm, small, equilibration = amoeba.ENERGIES, 20.0, 0.001, 10000
    practice, shown = ("middle", 1), (("penalty", 12),)
    methods = {
        "middle": Method("LangevinMiddle", middle, (0.5, 1, 1.5, 2)),
        "mts": Method("MTSLangevin", amoeba.mts_langevin, (1, 2, 3)),
        "without": Method("mass penalty, no inertia of bonds", without_inertia, (6, 8, 10, 12)),
        "penalty": Method("mass penalty", penalty, (8, 10, 12, 16, 20)),
    }

    def __init__(self, evaluations: int):
        self.evaluations = evaluations

    @cached_property
    def modeller(self) -> app.Modeller:
        return amoeba.build_droplet(27).modeller

    def build(self, method: Method) -> mm.System:
        return amoeba.build_system(self.modeller.topology, "mutual")


SUBJECTS: dict[str, Subject] = {
    "ethanol": Molecule("ethanol", 50000), "methylacetamide": Molecule("methylacetamide", 40000),
    "amoeba": Amoeba(40000), "tip3p": Water(216, 15000), "tip3p-895": Water(895, 15000), "villin": Villin(5000),
    "alanine": Alanine(100000)}
DRAWN = {"ethanol": "ethanol in GFN2-xTB: its torsion", "methylacetamide": "N-methylacetamide in GFN2-xTB: its torsion",
         "amoeba": "27 AMOEBA waters: their turning", "tip3p": "216 TIP3P waters: their turning",
         "alanine": "alanine dipeptide in water: its torsion psi"}      # whose motion is counted


def time_between(series: np.ndarray, kind: str, interval: float) -> tuple[float, float]:
    """Between transitions of torsions of a kind (ps), and its standard error; series: as of transitions()."""
    frames, torsions, _ = series.shape
    count = max(1, transitions(series, WELLS[kind]))    # none: as one, whose error is as large
    between = torsions * interval * frames / count
    return between, between / count**0.5


def collect(found: Samples | Found, temperatures: dict[str, np.ndarray], slow: dict[str, tuple[float, float]],
            scale: dict[str, float] | None = None) -> Found:
    """Without kinds of energies and motions that are not there (of rigid molecules)."""
    return Found(found.step,
                 {name: series for name, series in found.energies.items() if series.any()},
                 {name: series for name, series in temperatures.items() if np.isfinite(series).all()},
                 slow, scale or {})


def make(subject: str, method: str, fs: float, seed: int, settings: Settings) -> dict:
    """A run, from a state that those of its geometry share."""
    of = SUBJECTS[subject]
    geometry = of.methods[method].geometry
    start = settings.shared(f"scoreboard-{subject}-{geometry}-{seed}",
                            lambda: of.start(geometry, seed).getState(positions=True))
    return vars(of.run(of.methods[method], fs / 1000, settings.time(of.time(method, fs)), seed,
                       start.getPositions(asNumpy=True)._value))


def runs_of(subject: str, seeds: int, settings: Settings) -> dict[tuple[str, float], dict[str, partial]]:
    """By method and step the runs of all seeds, by name."""
    first = settings.seed
    return {(key, fs): {f"{subject}-{key}-{fs:g}fs-{seed}": partial(make, subject, key, fs, seed, settings)
                        for seed in range(first, first + seeds)}
            for key, method in SUBJECTS[subject].methods.items() for fs in method.steps}


def found_of(results: list[Result]) -> list[Found]:
    """The runs of all seeds, or none if one has failed."""
    return [] if any("failure" in result for result in results) else [result.into(Found) for result in results]


def deviations(runs: list[Found], references: list[Found]) -> dict[str, Deviation | None]:
    """Of energies and temperatures; an energy of the reference itself has twice its error."""
    found: dict[str, Deviation | None] = {}
    for name in runs[0].energies:
        found[name] = None
        if references:
            each, other = (pool([run.energies[name] for run in of]) for of in (runs, references))
            deviation = Deviation.between(each, other, runs[0].scale.get(name))
            found[name] = Deviation(0.0, 2**0.5 * deviation.error) if runs is references else deviation
    for name in runs[0].temperatures:
        found[name] = Deviation.between(pool([run.temperatures[name] for run in runs]), (TEMPERATURE, 0))
    return found


def pool(series: list[np.ndarray]) -> tuple[float, float]:
    """The mean over seeds and its standard error."""
    return combine([float(np.mean(each)) for each in series], [blockedError(each) for each in series])


def combine(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """The mean of what seeds gave, and its standard error: by theirs, or by their scatter if that is more."""
    scatter = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(max(np.linalg.norm(errors) / len(values), scatter / len(values)**0.5))


def average(runs: list[Found], name: str) -> tuple[float, float]:
    """Evaluations for an independent sample, and the standard error; the samples of seeds add up."""
    rates = [(1 / value, error / value**2) for value, error in (each.evaluations[name] for each in runs)]
    rate, error = combine(*zip(*rates))
    return 1 / rate, error / rate**2


def weigh(runs: list[Found], references: list[Found], slow: Sequence[str]) -> dict:
    """A step, as common.scores takes it."""
    if not runs:
        return {"failure": "fails"}
    return {"deviations": deviations(runs, references), "evaluations": {kind: average(runs, kind) for kind in slow}}


def judge(subject: Subject, results: dict[tuple[str, float], list[Found]]) -> Iterator[dict]:
    """For each method what was found at each of its steps."""
    references: dict[str, list[Found]] = {}
    for name, method in subject.methods.items():
        geometry = "flexible" if method.geometry == "distilled" else method.geometry
        reference = references.setdefault(geometry, results.get((name, method.steps[0]), []))
        if made := {fs: results[name, fs] for fs in method.steps if (name, fs) in results}:
            yield {"system": subject.label, "method": method.label, "ours": method.ours,
                   "steps": {f"{fs:g}": weigh(runs, reference, subject.slow) for fs, runs in made.items()}}


def load(tasks: dict[tuple[str, float], list[Task]]) -> dict[tuple[str, float], list[Found]]:
    """What was found in the runs whose files are there, with one seed or more."""
    made = {key: [Result.load(task.path) for task in each if task.path.exists()] for key, each in tasks.items()}
    return {key: found_of(results) for key, results in made.items() if results}


def wanted(subject: Subject, tasks: dict[tuple[str, float], list[Task]], seeds: int,
           methods: Sequence[str]) -> Iterator[Task]:
    """The runs to make next: of the first step of each of these methods with less than `seeds`, or twice as many of one
    with a bound beyond its tolerance, as far as there are tasks; none beyond a step that is wrong."""
    found = {row["method"]: row["steps"] for row in judge(subject, load(tasks))}
    for key, method in subject.methods.items():
        for fs in method.steps if key in methods else ():
            missing = [task for task in tasks[key, fs] if not task.path.exists()]
            made = len(tasks[key, fs]) - len(missing)
            if made >= seeds:
                step = found[method.label][f"{fs:g}"]
                if scores.is_wrong(step):
                    break
                if scores.is_within(step) or not missing:
                    continue
            yield from missing[:max(seeds - made, made)]
            break


def record(file: Path, rows: list[dict]) -> list[dict]:
    """Put steps into a file, in place of those that it has; all its rows then."""
    data = read(file)
    known = {(row["system"], row["method"]): row for row in data["scoreboard"]}
    made = origin()
    for row in rows:
        old = known.setdefault((row["system"], row["method"]), row | {"steps": {}})
        steps = old["steps"] | {fs: {"made": made["made"]} | step for fs, step in row["steps"].items()}
        old |= {"steps": dict(sorted(steps.items(), key=lambda item: float(item[0]))), "command": made["command"]}
    systems = list(dict.fromkeys(system for system, _ in known))
    data["scoreboard"] = sorted(known.values(), key=lambda row: systems.index(row["system"]))
    write(file, data)
    return data["scoreboard"]


def times_fewer(subject: Subject, rows: list[dict], base: float | None = None, kind: str = "") -> Iterator[dict]:
    """What steps take of evaluations for a sample of a kind: those of standard practice, at a step or at its largest,
    over theirs."""
    known = {row["method"]: row["steps"] for row in rows if row["system"] == subject.label}

    def look(key: str, fs: float | None) -> tuple[str, float, float]:
        """Method and step, evaluations, and their error."""
        label, steps = subject.methods[key].label, known.get(subject.methods[key].label, {})
        step = scores.largest(steps) if fs is None else f"{fs:g}"
        value = steps.get(step or "", {}).get("evaluations", {}).get(kind or subject.slow[0], (np.nan, np.nan))
        return f"{label}, {step} fs", *value

    against, whole, its_error = look(subject.practice[0], base)
    for key, fs in subject.shown:
        label, value, error = look(key, fs)
        if np.isfinite(whole / value):
            yield {"label": label, "ours": subject.methods[key].ours, "against": against, "fewer": whole / value,
                   "error": whole / value * float(np.hypot(error / value, its_error / whole))}


def draw(rows: list[dict], path: Path):
    """The picture, and beside it a dark one for pages that are dark."""
    dark = path.with_stem(f"{path.stem}-dark")
    for name, style, ours in (path, "default", OURS), (dark, "dark_background", OURS_ON_DARK):
        with pyplot.style.context(style):
            draw_bars(rows, ours).savefig(name, dpi=110)
            pyplot.close()


def draw_bars(rows: list[dict], ours: str) -> Figure:
    """Bars of each system, as long as they take fewer evaluations than the method that it names."""
    figure, panel = pyplot.subplots(figsize=(11, 4.6), layout="constrained")
    ink = pyplot.rcParams["text.color"]
    ticks, y = {}, 0.0
    for name, label in DRAWN.items():
        bars = list(times_fewer(SUBJECTS[name], rows))
        for i, bar in enumerate(bars):
            panel.barh(y + i, bar["fewer"], 0.8, xerr=bar["error"], color=ours if bar["ours"] else THEIRS,
                       error_kw={"capsize": 2, "ecolor": ink})
            panel.text(bar["fewer"] + bar["error"] + 0.1, y + i, f"{bar['fewer']:.1f}   {bar['label']}", va="center")
        if bars:
            ticks[y + (len(bars) - 1) / 2] = f"{label}\n1 = {bars[0]['against']}"
            y += len(bars) + 0.6
    panel.axvline(1, color=ink, linewidth=0.8)
    panel.set_yticks(list(ticks), list(ticks.values()))
    panel.invert_yaxis()
    panel.set_xlim(0, 11)
    panel.set_title("How many times fewer evaluations of the forces an independent sample takes", loc="left")
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower right", ncols=2, frameon=False, handles=[
        Patch(color=ours, label="mass penalty, at the step that we advise"),
        Patch(color=THEIRS, label="OpenMM's own, at its largest step")])
    return figure


def main():
    parser = OptionParser(__doc__)
    add_names_option(parser, "--systems", SUBJECTS)
    methods = dict.fromkeys(key for subject in SUBJECTS.values() for key in subject.methods)
    add_names_option(parser, "--methods", methods)
    add_scale_option(parser)
    add_repeat_options(parser)
    parser.add_argument("--budget", type=number(int, 1, most=999), default=8, metavar="N",
                        help="how many times at most, while a bound is beyond its tolerance (default: %(default)s)")
    add_output_option(parser, "scoreboard.png")
    add_record_option(parser)
    options = parser.parse_args()
    settings = Settings((options.output / "scoreboard").absolute(), scale=options.scale)
    parser.make_folder(settings.folder)
    tasks = {name: {key: [Task(run, call, settings.folder / f"{run}.npz") for run, call in calls.items()]
                    for key, calls in runs_of(name, max(options.seeds, options.budget), settings).items()}
             for name in options.systems}
    while not options.report and (missing := [
            task for name, of in tasks.items()
            for task in wanted(SUBJECTS[name], of, options.seeds, options.methods)]):
        make_missing(missing, options.processes)
    rows = [row for name, of in tasks.items() for row in judge(SUBJECTS[name], load(of))]
    if not rows:
        parser.error(f"argument --output: '{settings.folder}' has no runs; make them without --report")
    whole = scores.table(rows, scores.step_seconds(read(options.record or MEASUREMENTS)["tables"]))
    print_table(whole["columns"], whole["rows"])
    draw(record(options.record, rows) if options.record else rows, options.output / "scoreboard.png")
    print(f"\nThe picture: {options.output / 'scoreboard.png'}")


if __name__ == "__main__":
    run_program(main)
