#!/usr/bin/env python
"""Evaluations of the forces, and seconds, for an independent sample: each method at its largest step that is right.

A step is wrong if an energy differs by more than 0.3 % from that of a small step, or a kind of temperature by more than
1 % from the thermostat's, and this is more than two standard errors. The slow observables are the torsion of a molecule
and the distance of its ends, whose independent samples are two correlation times apart; in water, the dipoles (two
times of their reorientation) and the centres of molecules (the time to diffuse over one diameter).

Results are kept in files, one for each run: what has been done is not done again. Prints a table and draws it.
"""
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import GAS_CONSTANT, Samples, blockedError, sample

from common import amoeba, villin, water
from expensive_forces import Geometry, evaluations_per_sample
from common.observables import diffusion, places_of_waters, reorientation, temperatures_by_motion
from common.options import OptionParser, add_output_option, add_record_option, choice, number, run_program
from common.runs import Result, Settings, Task, make_missing
from common.tables import origin, print_table, read, with_error, write
from common.xtb import MOLECULES, add_distilled

TEMPERATURE = 300.0                 # K
ENERGY_TOLERANCE, TEMPERATURE_TOLERANCE, ERRORS = 0.003, 0.01, 2
REFERENCE, CPU = "Reference", "CPU"  # platforms
DIAMETER = 0.28                     # nm, of a water
SAMPLE_INTERVAL = 0.048             # ps, more than a period of what vibrates
REFERENCE_SHARE = 3                 # of the evaluations of a run
INNER_STEP = 0.5                    # fs, of the fast forces of MTSLangevinIntegrator
FAST, SLOW = 1, 0                   # its force groups where a force field is distilled


@dataclass(frozen=True)
class Method:
    """How a System is built and moved; steps in fs, from which the largest right one is chosen."""
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
    seconds: float                      # of a processor, for a step
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
    methods: dict[str, Method]
    slow: tuple[str, ...]

    def time(self, key: str, fs: float) -> float:
        """Of a run (ps): all take the same number of evaluations, but the reference takes more."""
        method = self.methods[key]
        first = next(of for of in self.methods.values() if of.geometry == method.geometry)
        return fs / 1000 * self.evaluations * (REFERENCE_SHARE if method is first and fs == method.steps[0] else 1)

    def start(self, geometry: str, seed: int) -> mm.Context:
        """Of a small step, equilibrated."""
        raise NotImplementedError

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        """From positions of start(), for a time in ps."""
        raise NotImplementedError


class Molecule(Subject):
    """In GFN2-xTB, in vacuum."""
    friction, slow = 5.0, ("torsion", "ends")
    methods = {
        "middle": Method("LangevinMiddle", middle, (0.5, 1, 2)),
        "heavy": Method("LangevinMiddle, H of 4 dalton", middle, (1, 2), hydrogen_mass=4.0),
        "mts": Method("MTSLangevin, distilled force field", partial(multiple_steps, {SLOW}, {FAST}), (2, 3, 4, 5, 6),
                      "distilled"),
        "without": Method("mass penalty, no inertia of bonds", without_inertia, (4, 6, 8)),
        "penalty": Method("mass penalty", penalty, (8, 10, 12, 16)),
    }

    def __init__(self, name: str, evaluations: int):
        self.molecule, self.evaluations = MOLECULES[name], evaluations
        self.label = f"{self.molecule.name}, GFN2-xTB"

    def start(self, geometry: str, seed: int) -> mm.Context:
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
        context = begin(system, integrator, positions, REFERENCE, seed)
        integrator.step(round(5 / step))
        burst = max(1, round(SAMPLE_INTERVAL / step))
        found = sample_timed(context, burst, round(time / (burst * step)), observe=Geometry(molecule))
        counts = {kind: evaluations_per_sample([found], kind) for kind in self.slow}
        slow = {kind: (step * count, step * error) for kind, (count, error) in counts.items()}
        thermal = (3 * len(molecule.labels) - 6) / 2 * GAS_CONSTANT * TEMPERATURE
        return collect(found, {"temperature": found.temperature}, slow, {"potential": thermal})


class Water(Subject):
    """TIP3P with PME, flexible or rigid."""
    friction, slow = 1.0, ("reorientation", "diffusion")
    methods = {
        "middle": Method("LangevinMiddle", middle, (1, 2, 2.5)),
        "mts": Method("MTSLangevin", partial(multiple_steps, {0, water.NONBONDED_GROUP},
                                             {water.BOND_GROUP, water.ANGLE_GROUP}), (2, 3, 4)),
        "without": Method("mass penalty, no inertia of bonds", without_inertia, (4, 6)),
        "penalty": Method("mass penalty", penalty, (8, 10, 12, 14)),
        "settle": Method("LangevinMiddle, SETTLE", middle, (2, 4, 6), "rigid"),
        "rigid": Method("mass penalty, rigid water", penalty, (10, 12, 14), "rigid"),
    }

    def __init__(self, waters: int, evaluations: int):
        self.waters, self.evaluations, self.label = waters, evaluations, f"{waters} TIP3P waters"

    def start(self, geometry: str, seed: int) -> mm.Context:
        box = water.build_box(self.waters)
        context = begin(water.build_system(box, geometry), middle(TEMPERATURE, 5, 0.002), box.positions, CPU, seed)
        mm.LocalEnergyMinimizer.minimize(context, 10, 30)
        context.setVelocitiesToTemperature(TEMPERATURE, seed)
        context.getIntegrator().step(4000)
        return context

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        system = water.build_system(water.build_box(self.waters), method.geometry)
        integrator = method.make(TEMPERATURE, self.friction, step)
        context = begin(system, integrator, positions, CPU, seed)
        integrator.step(round(5 / step))
        found, motions, slow = sample_water(context, self.waters, time, {
            "nonbonded": {water.NONBONDED_GROUP}, "bonds": {water.BOND_GROUP}, "angles": {water.ANGLE_GROUP}})
        return collect(found, motions, slow)


class Villin(Subject):
    """The villin headpiece in TIP3P-FB water; what is slow is the water's motion, for the protein's takes too long."""
    label, friction, slow = "villin in water", 1.0, ("reorientation", "diffusion")
    methods = {
        "middle": Method("LangevinMiddle", middle, (1, 2)),
        "mts": Method("MTSLangevin", partial(multiple_steps, {0}, {1, 2, 3}), (2,)),
        "penalty": Method("mass penalty", penalty, (8, 10, 11)),
        "constrained": Method("LangevinMiddle, HBonds, SETTLE", middle, (2, 4), "constrained"),
        "heavy": Method("LangevinMiddle, HBonds, SETTLE, H of 4 dalton", middle, (4, 6), "constrained", 4.0),
        "rigid": Method("mass penalty, HBonds, rigid water", penalty, (8, 10), "constrained"),
    }

    def __init__(self, evaluations: int):
        self.evaluations = evaluations

    def build(self, method: Method) -> mm.System:
        flexible = method.geometry == "flexible"
        return villin.build_villin(villin.read_villin("water"), "water", None if flexible else app.HBonds, not flexible,
                                   method.hydrogen_mass)

    def start(self, geometry: str, seed: int) -> mm.Context:
        system = self.build(next(method for method in self.methods.values() if method.geometry == geometry))
        context = begin(system, middle(TEMPERATURE, 5, 0.002), villin.read_villin("water").positions, CPU, seed)
        mm.LocalEnergyMinimizer.minimize(context, 10, 100)
        context.setVelocitiesToTemperature(TEMPERATURE, seed)
        context.getIntegrator().step(20000)
        return context

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        integrator = method.make(TEMPERATURE, self.friction, step)
        context = begin(self.build(method), integrator, positions, CPU, seed)
        integrator.step(round(2 / step))
        waters = [residue for residue in villin.read_villin("water").topology.residues() if residue.name == "HOH"]
        found, _, slow = sample_water(context, len(waters), time, villin.ENERGIES,
                                      first=next(waters[0].atoms()).index, motions=False)
        return collect(found, {"temperature": found.temperature}, slow)


class Amoeba(Subject):
    """A droplet of 27 AMOEBA waters in a container."""
    label, friction, slow = "27 AMOEBA waters", 5.0, ("reorientation",)
    methods = {
        "middle": Method("LangevinMiddle", middle, (0.5, 1, 2)),
        "mts": Method("MTSLangevin", amoeba.mts_langevin, (1, 2, 3)),
        "without": Method("mass penalty, no inertia of bonds", without_inertia, (6, 8)),
        "penalty": Method("mass penalty", penalty, (8, 10, 12)),
    }

    def __init__(self, evaluations: int):
        self.evaluations = evaluations

    def start(self, geometry: str, seed: int) -> mm.Context:
        box = amoeba.build_droplet(27)
        context = begin(amoeba.build_system(box.topology, "mutual"), middle(TEMPERATURE, 20, 0.001),
                        box.positions, REFERENCE, seed)
        mm.LocalEnergyMinimizer.minimize(context, 10, 50)
        context.setVelocitiesToTemperature(TEMPERATURE, seed)
        context.getIntegrator().step(10000)
        return context

    def run(self, method: Method, step: float, time: float, seed: int, positions: np.ndarray) -> Found:
        system = amoeba.build_system(amoeba.build_droplet(27).topology, "mutual")
        integrator = method.make(TEMPERATURE, self.friction, step)
        context = begin(system, integrator, positions, REFERENCE, seed)
        integrator.step(round(5 / step))
        found, motions, slow = sample_water(context, 27, time, amoeba.ENERGIES)
        return collect(found, motions, {"reorientation": slow["reorientation"]})


SUBJECTS: dict[str, Subject] = {
    "ethanol": Molecule("ethanol", 50000), "methylacetamide": Molecule("methylacetamide", 40000),
    "amoeba": Amoeba(40000), "tip3p": Water(216, 15000), "tip3p-895": Water(895, 15000), "villin": Villin(5000)}


def begin(system: mm.System, integrator: mm.Integrator, positions, platform: str, seed: int) -> mm.Context:
    integrator.setRandomNumberSeed(seed)
    context = mm.Context(system, integrator, mm.Platform.getPlatform(platform))
    context.setPositions(positions)
    context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return context


def sample_timed(*arguments, **named) -> Samples:
    """What sample() finds, its seconds those of the processor: other work beside does not count."""
    begun = process_time()
    found = sample(*arguments, **named)
    return replace(found, seconds=process_time() - begun)


def sample_water(context: mm.Context, waters: int, time: float, groups: dict[str, set[int]], first: int = 0,
                 motions: bool = True) -> tuple[Samples, dict[str, np.ndarray], dict[str, tuple[float, float]]]:
    """What sample() finds; temperatures by kind of motion; times of independent samples. `first`: the first oxygen."""
    system = context.getSystem()
    step = context.getIntegrator().getStepSize().value_in_unit(unit.picosecond)
    masses = np.array([system.getParticleMass(first + i).value_in_unit(unit.dalton) for i in range(3)])
    burst = max(1, round(SAMPLE_INTERVAL / step))
    held = any(isinstance(force, mm.CMMotionRemover) for force in system.getForces())
    names = ("translation", "rotation", "vibration")

    def observe(state: mm.State) -> dict[str, float | np.ndarray]:
        molecules, velocities = (each[first:first + 3 * waters].reshape(waters, 3, 3) for each in (
            state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value))
        found: dict[str, float | np.ndarray] = dict(places_of_waters(molecules, masses))
        if motions:
            found |= dict(zip(names, temperatures_by_motion(
                molecules, velocities, masses, state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole),
                held)))
        return found

    found = sample_timed(context, burst, round(time / (burst * step)), groups=groups, observe=observe)
    speed, error = diffusion(found.observed["centres"], found.interval)     # 1e-5 cm^2/s, which is 1e-3 nm^2/ps
    across = DIAMETER**2 / (6e-3 * speed)
    tau, its_error = reorientation(found.observed["dipoles"], found.interval)
    slow = {"diffusion": (across, across * error / speed), "reorientation": (2 * tau, 2 * its_error)}
    return found, {name: found.observed[name] for name in names if motions}, slow


def collect(found: Samples, temperatures: dict[str, np.ndarray], slow: dict[str, tuple[float, float]],
            scale: dict[str, float] | None = None) -> Found:
    """Without kinds of energies and motions that are not there (of rigid molecules)."""
    return Found(found.step, found.seconds / found.steps,
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


def deviations(runs: list[Found], references: list[Found]) -> Iterator[tuple[str, float, float, float]]:
    """What is judged: its deviation, the standard error of that, and what is tolerated; as parts of the whole."""
    for name in runs[0].energies:
        (mean, error), (expected, other) = (pool([each.energies[name] for each in of]) for of in (runs, references))
        whole = abs(runs[0].scale.get(name, expected))
        yield name, (mean - expected) / whole, float(np.hypot(error, other)) / whole, ENERGY_TOLERANCE
    for name in runs[0].temperatures:
        mean, error = pool([each.temperatures[name] for each in runs])
        yield name, mean / TEMPERATURE - 1, error / TEMPERATURE, TEMPERATURE_TOLERANCE


def pool(series: list[np.ndarray]) -> tuple[float, float]:
    """The mean over seeds and its standard error."""
    return combine([float(np.mean(each)) for each in series], [blockedError(each) for each in series])


def combine(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """The mean of what seeds gave, and its standard error: by theirs, or by their scatter if that is more."""
    scatter = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(max(np.linalg.norm(errors) / len(values), scatter / len(values)**0.5))


def find_fault(runs: list[Found], references: list[Found]) -> str:
    """What does not meet the criterion, and by how much, or an empty text."""
    if not runs or not references:
        return "no reference" if runs else "fails"
    return ", ".join(f"{name} {'+' if deviation > 0 else ''}{with_error(100 * deviation, 100 * error, 1)} %"
                     for name, deviation, error, tolerated in deviations(runs, references)
                     if abs(deviation) > max(tolerated, ERRORS * error))


def average(runs: list[Found], name: str) -> tuple[float, float]:
    """Evaluations for an independent sample, and the standard error."""
    return combine(*zip(*(each.evaluations[name] for each in runs)))


def judge(subject: Subject, results: dict[tuple[str, float], list[Found]]) -> Iterator[dict]:
    """For each method the largest right step, or none, and what independent samples take there."""
    references: dict[str, list[Found]] = {}
    for name, method in subject.methods.items():
        made = {fs: results[name, fs] for fs in method.steps if (name, fs) in results}
        if not made:
            continue
        geometry = "flexible" if method.geometry == "distilled" else method.geometry
        reference = references.setdefault(geometry, made[min(made)])
        faults = {fs: find_fault(runs, reference) for fs, runs in made.items()}
        step = max((fs for fs in made if not faults[fs]), default=None)
        row = {"system": subject.label, "method": method.label, "ours": method.ours, "step": step,
               "wrong": {f"{fs:g}": fault for fs, fault in faults.items() if fault}}
        if step is not None:
            row |= {"seconds": float(np.mean([each.seconds for each in made[step]])),
                    "evaluations": {kind: average(made[step], kind) for kind in subject.slow}}
        yield row


def print_rows(rows: list[dict]):
    """Of each system; what stands beside evaluations compares with the best method that is OpenMM's own."""
    for label in dict.fromkeys(row["system"] for row in rows):
        found = [row for row in rows if row["system"] == label]
        kinds = next((list(row["evaluations"]) for row in found if row["step"]), [])
        best = {kind: min((row["evaluations"][kind][0] for row in found if row["step"] and not row["ours"]),
                          default=np.nan) for kind in kinds}

        def cell(row: dict, kind: str) -> str:
            if not row["step"]:
                return "-"
            value, error = row["evaluations"][kind]
            return f"{with_error(value, error, 0)}  {best[kind] / value:.2f}  {value * row['seconds']:.3g} s"

        print(f"\n{label}: evaluations of the forces for an independent sample, how many times fewer than the best of "
              "OpenMM's own, and processor seconds\n")
        print_table(["integrator", "step (fs)", *(f"{kind:26}" for kind in kinds), "wrong"], [
            [row["method"], f"{row['step']:g}" if row["step"] else "-", *(cell(row, kind) for kind in kinds),
             "; ".join(f"{fs} fs: {fault}" for fs, fault in row["wrong"].items())] for row in found])


def record(file: Path, rows: list[dict]) -> list[dict]:
    """Put rows into a file in place of those of their systems; all that it has then."""
    data = read(file)
    systems: dict[str, list[dict]] = {}
    for row in data["scoreboard"]:
        systems.setdefault(row["system"], []).append(row)
    systems |= {label: [row | origin() for row in rows if row["system"] == label]
                for label in {row["system"] for row in rows}}
    data["scoreboard"] = [row for of_system in systems.values() for row in of_system]
    write(file, data)
    return data["scoreboard"]


def draw(rows: list[dict], path: Path):
    """A panel for each system, a bar for each method: evaluations for an independent sample of its first observable."""
    labels = list(dict.fromkeys(row["system"] for row in rows if row["step"]))
    figure, panels = pyplot.subplots(len(labels), 1, figsize=(8, 0.6 + 1.9 * len(labels)), layout="constrained",
                                     squeeze=False)
    for label, panel in zip(labels, panels[:, 0]):
        shown = [row for row in reversed(rows) if row["system"] == label and row["step"]]
        kind = next(iter(shown[0]["evaluations"]))
        values, errors = np.transpose([row["evaluations"][kind] for row in shown])
        bars = panel.barh([f"{row['method']}, {row['step']:g} fs" for row in shown], values, xerr=errors,
                          color=["#99000d" if row["ours"] else "#9ecae1" for row in shown], error_kw={"capsize": 2})
        panel.bar_label(bars, [f"{value:.0f}" for value in values], padding=4, fontsize="small")
        panel.set_title(f"{label}: {kind}", loc="left", fontsize="medium")
        panel.set_xlim(0, 1.15 * max(values + errors))
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize="small")
    panels[-1, 0].set_xlabel("evaluations of the forces for an independent sample")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--systems", type=choice(SUBJECTS), nargs="+", default=list(SUBJECTS), metavar="NAME",
                        help=f"of {', '.join(SUBJECTS)} (default: all)")
    parser.add_argument("--scale", type=number(float, 0.001), default=1.0, metavar="FACTOR",
                        help="multiplies the lengths of all runs (default: %(default)s)")
    parser.add_argument("--seeds", type=number(int, 1, most=999), default=2, metavar="N",
                        help="how many times to make each run (default: %(default)s)")
    parser.add_argument("--processes", type=number(int, 1), default=2, metavar="N",
                        help="runs side by side (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="make no runs, report those of before")
    add_output_option(parser, "scoreboard.png")
    add_record_option(parser)
    options = parser.parse_args()
    settings = Settings((options.output / "scoreboard").absolute(), scale=options.scale)
    parser.make_folder(settings.folder)
    tasks = {name: {key: [Task(run, call, settings.folder / f"{run}.npz") for run, call in calls.items()]
                    for key, calls in runs_of(name, options.seeds, settings).items()} for name in options.systems}
    if not options.report:
        make_missing([task for of in tasks.values() for each in of.values() for task in each], options.processes)
    rows: list[dict] = []
    for name, of in tasks.items():
        rows += judge(SUBJECTS[name], {key: found_of([Result.load(task.path) for task in each])
                                       for key, each in of.items() if all(task.path.exists() for task in each)})
    print_rows(rows)
    if not any(row["step"] for row in rows):
        parser.error(f"argument --output: '{settings.folder}' has no runs that are right; make them without "
                     "--report, or longer ones by --scale")
    draw(record(options.record, rows) if options.record else rows, options.output / "scoreboard.png")
    print(f"\nThe picture: {options.output / 'scoreboard.png'}")


if __name__ == "__main__":
    run_program(main)
