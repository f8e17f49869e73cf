#!/usr/bin/env python
"""Validate SpookIntegrator on rigid TIP3P water: what it samples, the energy that it loses, and starts far off.

Sampling: with AndersenThermostat, against LangevinMiddle + SETTLE; Verlet + SETTLE with the same thermostat shows, in
the table, what comes from the thermostat. Loss: short runs without a thermostat, against the theory of source() and
follow(), which takes the motion from runs with a small step. Relaxation: from molecules stretched by a tenth, against
the eigenvalue of a linear constraint. Makes the runs that are missing in the output folder, one file each, then checks
the claims: an interrupted validation goes on where it was. The exit code is 0 if every claim holds and 1 if not.
"""
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import SpookIntegrator
from openmmstiff.sampling import GAS_CONSTANT, computeTemperature
from tqdm import tqdm

from runs import (EQUILIBRATION_TIME, Claim, Report, add_file_options, locked, mean_claim, temperature_claim,
                  validate)
from observables import RDF_PAIRS, mean_and_error
from options import OptionParser, add_box_options, add_run_options, progress_bar, run_program
from sampling import Samples, number_of_steps, sample
from tip3p_water import TEMPERATURE, Run, langevin_middle, make_simulation, print_table, spook
from water import EQUILIBRATION_FRICTION, EQUILIBRATION_STEP, advance, build_box, build_system, equilibrate

KT = GAS_CONSTANT * TEMPERATURE
SEGMENTS = 12              # of each run without a thermostat, from as many states
SEGMENT_SPACING = 1.0      # ps between those states
SETTLING = 3               # damping times (or LEAST_SETTLING), before they are observed
LEAST_SETTLING = 0.04      # ps
SEGMENT_TIME = 1.0         # ps, observed; where the box cools soon less, that it be by some 2 %
ENERGY_INTERVAL = 0.004    # ps
MOTION_STEP = 0.0005       # ps, of the run that the theory takes the motion from
MOTION_SETTLING = 40       # of its steps, until the kick of the start is over
LEAST_LOSS = 0.1           # kT/ns per degree of freedom, the least tolerance; the error is some 0.03
STRETCH = 1.1
RELAXATION_STEP = 0.001    # ps
RELAXATION_TIME = 0.5      # ps
RELAXATION_BLOCKS = 8      # of molecules, for the error
FIT = (0.5, 2.0)           # the decay is fitted between these multiples of the damping time
SHOWN = (0, 1, 2, 5, 10, 20, 40, 80, 160, 320)  # steps


def verlet(temperature: float, friction: float, step: float) -> mm.VerletIntegrator:
    return mm.VerletIntegrator(step)


REFERENCE, CONTROL = "settle-2fs", "verlet-2fs"
FRICTION = {"spook-2fs-often": 5.0}  # 1/ps, where it is not the option's
SAMPLED = {
    REFERENCE: Run("LangevinMiddle + SETTLE", "rigid", 0.002, langevin_middle, REFERENCE),
    CONTROL: Run("Andersen, Verlet + SETTLE", "rigid", 0.002, verlet, REFERENCE),
    "spook-1fs": Run("Andersen, SPOOK", "rigid", 0.001, spook(2), REFERENCE),
    "spook-2fs": Run("Andersen, SPOOK", "rigid", 0.002, spook(2), REFERENCE),
    "spook-1fs-quarter": Run("Andersen, SPOOK, tau = h/4", "rigid", 0.001, spook(0.25), REFERENCE),
    "spook-2fs-quarter": Run("Andersen, SPOOK, tau = h/4", "rigid", 0.002, spook(0.25), REFERENCE),
    "spook-2fs-often": Run("Andersen 5/ps, SPOOK", "rigid", 0.002, spook(2), REFERENCE),
}


@dataclass
class Setting:
    step: float                   # ps
    damping: float | None = None  # ps; None stands for Verlet + SETTLE
    time: float = SEGMENT_TIME    # ps, observed

    @property
    def settling(self) -> float:
        """In ps, before that."""
        return max(LEAST_SETTLING, SETTLING * (self.damping or 0))

    def make(self) -> mm.Integrator:
        if self.damping is None:
            return mm.VerletIntegrator(self.step)
        integrator = SpookIntegrator(self.step)
        integrator.setDamping(self.damping)
        return integrator


MOTION = "loss-theory"
LOSSES = {
    "loss-0.5fs": Setting(0.0005, 0.001),
    "loss-1fs": Setting(0.001, 0.002),
    "loss-2fs": Setting(0.002, 0.004, 0.2),
    "loss-0.5fs-quarter": Setting(0.0005, 0.000125, 2.0),
    "loss-1fs-quarter": Setting(0.001, 0.00025, 2.0),
    "loss-2fs-quarter": Setting(0.002, 0.0005, 2.0),
    "loss-0.5fs-long": Setting(0.0005, 0.02, 0.1),
    "loss-1fs-long": Setting(0.001, 0.02, 0.1),
    "loss-2fs-long": Setting(0.002, 0.02, 0.06),
}
CONSERVED = {f"loss-{fs:g}fs-settle": Setting(fs / 1000, time=2.0) for fs in (0.5, 1, 2)}
RELAXATIONS = {**{f"relaxation-{fs}fs": Setting(RELAXATION_STEP, fs / 1000) for fs in (10, 20)},
               "relaxation-settle": Setting(RELAXATION_STEP)}
NAMES = (*SAMPLED, MOTION, *LOSSES, *CONSERVED, *RELAXATIONS)


@dataclass
class Watched(Samples):
    """Samples, and for each of them the relative violation of the constraints, mean and largest."""
    violations: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))


@dataclass
class Starts:
    """Equilibrated states, (SEGMENTS, atoms, 3)."""
    positions: np.ndarray   # nm
    velocities: np.ndarray  # nm/ps

    save = Samples.save
    load = classmethod(Samples.load.__func__)


@dataclass
class Theory:
    """Of each of LOSSES and each segment. Powers in kJ/mol/ps, for the whole box."""
    names: np.ndarray
    slopes: np.ndarray      # of the energy
    powers: np.ndarray      # of the constraint forces, mean
    leading: np.ndarray     # the same for slow motion
    violations: np.ndarray  # mean of g, nm
    steady: np.ndarray      # mean of (h^2/4 + h tau/2) v^T (Hess g) v, nm

    save = Samples.save
    load = classmethod(Samples.load.__func__)


@dataclass
class Loss:
    """Of each segment."""
    slopes: np.ndarray      # of the total energy, kJ/mol/ps
    powers: np.ndarray      # of the constraint forces, mean, kJ/mol/ps
    violations: np.ndarray  # mean of g, nm

    save = Samples.save
    load = classmethod(Samples.load.__func__)


@dataclass
class Relaxation:
    """One entry for each step, the start first."""
    violations: np.ndarray   # mean of g over blocks of molecules, nm, (steps, RELAXATION_BLOCKS)
    sizes: np.ndarray        # mean of |g|, nm
    temperatures: np.ndarray  # K

    save = Samples.save
    load = classmethod(Samples.load.__func__)


class Constraints:
    """Of a System: the particles of each, and its length."""

    def __init__(self, system: mm.System):
        terms = [system.getConstraintParameters(i) for i in range(system.getNumConstraints())]
        self.first, self.second = (np.array([term[i] for term in terms]) for i in (0, 1))
        self.lengths = np.array([term[2].value_in_unit(unit.nanometer) for term in terms])

    def vectors(self, positions: np.ndarray) -> np.ndarray:
        return positions[self.first] - positions[self.second]

    def violations(self, positions: np.ndarray) -> np.ndarray:
        return np.linalg.norm(self.vectors(positions), axis=1) - self.lengths


def read_positions(context: mm.Context) -> np.ndarray:
    return context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)


def seed_of(name: str, options) -> int:
    return 1000 * options.seed + NAMES.index(name)


def run_sampled(name: str, options) -> Watched:
    """Equilibrate and sample at constant temperature."""
    run, seed = SAMPLED[name], seed_of(name, options)
    box = build_box(options.waters)
    settling = round(EQUILIBRATION_TIME / run.step)
    steps = round(EQUILIBRATION_TIME / EQUILIBRATION_STEP["rigid"]) + settling
    with progress_bar(name, steps + number_of_steps(options.time, run.step), leave=True) as bar:
        state = equilibrate(box, "rigid", EQUILIBRATION_TIME, temperature=TEMPERATURE, platform=options.platform,
                            seed=seed, progress=bar.update)
        simulation = make_simulation(box, run, FRICTION.get(name, options.friction), seed, options.platform)
        integrator, lengths, violations = simulation.integrator, Constraints(simulation.system).lengths, []
        simulation.context.setState(state)
        advance(integrator, settling, bar.update)

        def look(steps: int):
            bar.update(steps)
            if isinstance(integrator, SpookIntegrator):
                relative = np.abs(integrator.computeViolations()) / lengths
                violations.append((relative.mean(), relative.max()))

        found = sample(simulation, options.time, look)
        return Watched(**vars(found), violations=np.array(violations).reshape(-1, 2))


def load_starts(file: Path, options) -> Starts:
    """The states that all runs without a thermostat start from, made once."""
    if file.exists():
        return Starts.load(file)
    box, seed = build_box(options.waters), 1000 * options.seed + len(NAMES)
    step = EQUILIBRATION_STEP["rigid"] / 2
    spacing = round(SEGMENT_SPACING / step)
    with progress_bar("starts", SEGMENTS * spacing) as bar:
        state = equilibrate(box, "rigid", 2 * EQUILIBRATION_TIME, temperature=TEMPERATURE, platform=options.platform,
                            seed=seed)
        integrator = langevin_middle(TEMPERATURE, EQUILIBRATION_FRICTION, step)
        integrator.setRandomNumberSeed(seed)
        context = mm.Context(build_system(box, "rigid"), integrator, mm.Platform.getPlatform(options.platform))
        context.setState(state)
        positions, velocities = [], []
        for _ in range(SEGMENTS):
            advance(integrator, spacing, bar.update)
            state = context.getState(positions=True, velocities=True)
            positions.append(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
            velocities.append(state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond))
    starts = Starts(np.array(positions), np.array(velocities))
    starts.save(file)
    return starts


def segments(name: str, setting: Setting, starts: Starts, time: float,
             options) -> Iterator[tuple[mm.Context, Constraints, tqdm]]:
    """A Context in each of the states of `starts`, the constraints, and a progress bar; for runs of `time` ps each."""
    system = build_system(build_box(options.waters), "rigid")
    constraints = Constraints(system)
    context = mm.Context(system, setting.make(), mm.Platform.getPlatform(options.platform))
    with progress_bar(name, len(starts.positions) * round(time / setting.step), leave=True) as bar:
        for positions, velocities in zip(starts.positions, starts.velocities):
            context.setPositions(positions)
            context.setVelocities(velocities)
            yield context, constraints, bar


def source(directions: np.ndarray, lengths: np.ndarray, step: float, damping: float) -> np.ndarray:
    """What drives the violations of distance constraints in a motion of rigid molecules, see follow().

    The constraints' equation of a step is, with x+ and x- the positions a step later and earlier,

        g + G (x+ - 2x + x-)/4 + tau/h G (x+ - x) + epsilon lambda = 0.

    To first order in the violations the g of a motion near a rigid one obey g + (g+ - 2g + g-)/4 + tau/h (g+ - g)
    = s - epsilon lambda, with -s the same sum over the rigid motion. There G (x+ - x) is r (n . n+ - 1), of
    the length r and the direction n of a constraint. For small steps s = (h^2/4 + h tau/2) c + h^2 tau/4 c', with
    c = r |n'|^2 = v^T (Hess g) v, so that g = (h^2/4 + h tau/2) c - h tau^2/2 c'.

    directions: after each step, (steps, constraints, 3). The result lacks the first and the last of them.
    """
    bent = 1 - np.einsum("kij,kij->ki", directions[1:], directions[:-1])
    return lengths * (damping / step * bent[1:] + (bent[1:] + bent[:-1]) / 4)


def follow(driving: np.ndarray, step: float, damping: float) -> np.ndarray:
    """The violations g at each entry of `driving` and one more, by the recursion of source() from a steady state."""
    ratio = damping / step
    violations = np.empty((len(driving) + 1, *driving.shape[1:]))
    violations[:2] = driving[0]
    for k in range(1, len(driving)):
        violations[k + 1] = ((driving[k] + (ratio - 0.5) * violations[k] - 0.25 * violations[k - 1])
                             / (0.25 + ratio))
    return violations


def work_rates(violations: np.ndarray, multipliers: np.ndarray, step: float) -> np.ndarray:
    """Power of the constraint forces at each step but the first and last: the sum of lambda g'."""
    return np.sum(multipliers[1:-1] * (violations[2:] - violations[:-2]), axis=1) / (2 * step)


def slope(values: np.ndarray, interval: float) -> float:
    return np.polyfit(interval * np.arange(len(values)), values, 1)[0]


def predict(directions: np.ndarray, multipliers: np.ndarray, lengths: np.ndarray, compliance: float,
            setting: Setting) -> tuple[float, ...]:
    """What Theory has for one segment, from a motion that was recorded every MOTION_STEP, after MOTION_SETTLING."""
    h, tau, every = setting.step, setting.damping, round(setting.step / MOTION_STEP)
    settled = round(setting.settling / MOTION_STEP) - MOTION_SETTLING
    last = settled + round(setting.time / MOTION_STEP)
    n, forces = directions[:last + 1:every], multipliers[:last + 1:every]
    first = settled // every
    violations = follow(source(n, lengths, h, tau) - compliance * forces[1:-1], h, tau)
    powers = work_rates(violations, forces[1:], h)[first - 2:]
    energies = h * np.cumsum(powers)
    bent = lengths * np.sum((directions[1:] - directions[:-1]) ** 2, axis=2) / MOTION_STEP**2
    curvatures = (bent[1:] + bent[:-1]) / 2
    rates = [(series[2:] - series[:-2]) / (2 * MOTION_STEP) for series in (multipliers[1:-1], curvatures)]
    leading = np.sum(h * tau**2 / 2 * rates[0] * rates[1] - compliance * tau * rates[0] ** 2, axis=1)
    coefficient = h**2 / 4 + h * tau / 2
    return (slope(energies, h), powers.mean(), leading.mean(), violations[first - 1:].mean(),
            coefficient * curvatures.mean() - compliance * multipliers.mean())


def run_theory(starts: Starts, options) -> Theory:
    """The predictions for each segment, of the motion with a small step and little damping."""
    setting = Setting(MOTION_STEP, MOTION_STEP / 4)
    time = max(loss.settling + loss.time for loss in LOSSES.values())
    frames = round(time / MOTION_STEP) - MOTION_SETTLING
    found = []
    for context, constraints, bar in segments(MOTION, setting, starts, time, options):
        integrator = context.getIntegrator()
        advance(integrator, MOTION_SETTLING, bar.update)
        directions = np.empty((frames, len(constraints.lengths), 3))
        multipliers = np.empty(directions.shape[:2])
        for k in range(frames):
            vectors = constraints.vectors(read_positions(context))
            directions[k] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            integrator.step(1)
            multipliers[k] = integrator.getMultipliers()
            bar.update(1)
        compliance = integrator.getCompliance().value_in_unit(unit.nanometer**2 / unit.kilojoule_per_mole)
        found.append([predict(directions, multipliers, constraints.lengths, compliance, loss)
                      for loss in LOSSES.values()])
    return Theory(np.array(list(LOSSES)), *np.moveaxis(np.array(found), (2, 1), (0, 1)))


def run_loss(name: str, setting: Setting, starts: Starts, options) -> Loss:
    """Energies, and the work of the constraint forces unless OpenMM does not tell them."""
    steps, every = round(setting.time / setting.step), round(ENERGY_INTERVAL / setting.step)
    slopes, powers, means = [], [], []
    for context, constraints, bar in segments(name, setting, starts, setting.settling + setting.time, options):
        integrator = context.getIntegrator()
        advance(integrator, round(setting.settling / setting.step), bar.update)
        energies, violations, multipliers = [], [], []
        for k in range(steps + 1):
            if k % every == 0:
                state = context.getState(energy=True)
                energies.append((state.getPotentialEnergy() + state.getKineticEnergy())
                                .value_in_unit(unit.kilojoule_per_mole))
            if setting.damping is not None:
                violations.append(integrator.computeViolations())
            integrator.step(1)
            bar.update(1)
            if setting.damping is not None:
                multipliers.append(integrator.getMultipliers())
        slopes.append(slope(np.array(energies), ENERGY_INTERVAL))
        if setting.damping is not None:
            powers.append(work_rates(np.array(violations), np.array(multipliers), setting.step).mean())
            means.append(np.mean(violations))
    return Loss(np.array(slopes), np.array(powers), np.array(means))


def run_relaxation(name: str, setting: Setting, starts: Starts, options) -> Relaxation:
    """From the first of the states, each molecule stretched about its oxygen."""
    molecules = starts.positions[0].reshape(-1, 3, 3)
    stretched = molecules[:, :1] + STRETCH * (molecules - molecules[:, :1])
    start = Starts(stretched.reshape(1, -1, 3), starts.velocities[:1])
    for context, constraints, bar in segments(name, setting, start, RELAXATION_TIME, options):
        blocks, sizes, temperatures = [], [], []
        for k in range(round(RELAXATION_TIME / setting.step) + 1):
            if k:
                context.getIntegrator().step(1)
                bar.update(1)
            violations = constraints.violations(read_positions(context))
            blocks.append([block.mean() for block in np.array_split(violations, RELAXATION_BLOCKS)])
            sizes.append(np.abs(violations).mean())
            temperatures.append(computeTemperature(context, context.getState(energy=True)))
    return Relaxation(np.array(blocks), np.array(sizes), np.array(temperatures))


def decay_rate(setting: Setting) -> float:
    """Of a linear constraint by the slower of the method's two eigenvalues, 1/ps."""
    ratio = setting.damping / setting.step
    psi = 1 / (1 + 4 * ratio)
    eigenvalue = 1 - 2 * psi * (ratio + 1) + 2 * np.sqrt((psi * (1 + ratio)) ** 2 - psi)
    return -np.log(eigenvalue) / setting.step


def measured_rate(setting: Setting, found: Relaxation) -> tuple[float, float]:
    """Of the decay towards the violation of the motion, which is that of the last fifth; and its error."""
    excess = found.violations - found.violations[4 * len(found.violations) // 5:].mean()
    first, last = (round(multiple * setting.damping / setting.step) for multiple in FIT)
    return mean_and_error(np.array([-slope(np.log(block), setting.step) for block in excess[first:last + 1].T]))


def check_sampling(report: Report, results: dict):
    runs = {name: found for name, found in results.items() if name in SAMPLED}
    print_table(SAMPLED, runs)
    print("\nviolation of the constraints, relative      mean       largest")
    for name, found in runs.items():
        if len(found.violations):
            print(f"{name:36}{found.violations[:, 0].mean():14.2e}{found.violations[:, 1].max():14.2e}")
    for name in SAMPLED:
        if name not in (REFERENCE, CONTROL) and report.heading(name, REFERENCE, results):
            found, reference = results[name], results[REFERENCE]
            report.check([mean_claim("nonbonded energy, kJ/mol per water", found.nonbonded, reference.nonbonded, 0.2),
                          temperature_claim("temperature, K", found.temperature, 0.01),
                          temperature_claim("temperature of the centres, K", found.centre_temperature, 0.01),
                          temperature_claim("temperature of rotation, K", found.rotation_temperature, 0.01)])
            report.check_rdf("function", RDF_PAIRS, found.rdf, reference.rdf)


def loss_claims(found: Loss, slopes: np.ndarray, violations: np.ndarray, per_degree: float) -> Iterator[Claim]:
    """Segments start from the same states in theory and run: the error is that of their differences."""
    loss = Claim("slope of the energy, kT/ns", found.slopes.mean() / per_degree, slopes.mean() / per_degree,
                 mean_and_error(found.slopes - slopes)[1] / per_degree, 0)
    loss.tolerance = max(0.2 * abs(loss.expected), LEAST_LOSS)
    yield loss
    expected = violations.mean()
    yield Claim("violation, mean, nm", found.violations.mean(), expected,
                mean_and_error(found.violations - violations)[1], 0.1 * expected)


def check_losses(report: Report, results: dict, per_degree: float):
    print("\nEnergy without a thermostat: change in kT/ns per degree of freedom; violation in nm")
    columns = "{:21}{:>6}{:>7}{:>19}{:>19}{:>11}{:>11}{:>12}{:>12}{:>12}"
    print(columns.format("run", "h (fs)", "tau", "energy", "work", "theory", "slow limit", "violation", "theory",
                         "slow limit"))
    theory = results.get(MOTION)
    for name, setting in (LOSSES | CONSERVED).items():
        if name not in results:
            continue
        found, powers, violations = results[name], 2 * ["-"], 3 * ["-"]
        if setting.damping is not None:
            violations[0] = f"{found.violations.mean():.4e}"
        if setting.damping is not None and theory:
            i = list(theory.names).index(name)
            powers = [f"{series[i].mean() / per_degree:.3f}" for series in (theory.powers, theory.leading)]
            violations[1:] = (f"{series[i].mean():.4e}" for series in (theory.violations, theory.steady))
        measured = ("{:.3f}+-{:.3f}".format(*mean_and_error(series / per_degree)) if len(series) else "-"
                    for series in (found.slopes, found.powers))
        print(columns.format(name, f"{1000 * setting.step:g}",
                             f"{1000 * setting.damping:g}" if setting.damping else "-",
                             *measured, *powers, *violations))
    for name in LOSSES:
        if report.heading(name, MOTION, results):
            i = list(theory.names).index(name)
            report.check(loss_claims(results[name], theory.slopes[i], theory.violations[i], per_degree))


def check_relaxations(report: Report, results: dict):
    runs = {name: found for name, found in results.items() if name in RELAXATIONS}
    if runs:
        print(f"\nMolecules stretched by a factor of {STRETCH:g}, steps of {1000 * RELAXATION_STEP:g} fs: mean |g| "
              "(nm), temperature (K)")
        print(f"{'steps':>7}" + "".join(f"{name:>26}" for name in runs))
        for k in SHOWN:
            cells = "".join(f"{found.sizes[k]:16.3e}{found.temperatures[k]:10.1f}" for found in runs.values())
            print(f"{k:7}{cells}")
    for name, setting in RELAXATIONS.items():
        if setting.damping is None:
            continue
        if name not in results:
            print(f"\n{name}: NOT RUN")
            report.verdicts.append("NOT RUN")
            continue
        print(f"\n{name} against the linear constraint")
        (rate, error), expected = measured_rate(setting, results[name]), decay_rate(setting)
        report.check([Claim("rate of decay, 1/ps", rate, expected, error, 0.05 * expected)])


def make(name: str, folder: Path, options):
    """A run's result."""
    if name in SAMPLED:
        return run_sampled(name, options)
    with locked(folder / "starts.npz"):
        starts = load_starts(folder / "starts.npz", options)
    if name == MOTION:
        return run_theory(starts, options)
    if name in RELAXATIONS:
        return run_relaxation(name, RELAXATIONS[name], starts, options)
    return run_loss(name, (LOSSES | CONSERVED)[name], starts, options)


def main() -> int:
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=100.0)
    add_file_options(parser, NAMES)
    options = parser.parse_args()
    folder = (f"spook_{options.waters}waters_{options.time:g}ps_friction{options.friction:g}_"
              f"{options.platform}_seed{options.seed}")
    title = (f"{options.waters} rigid TIP3P waters, {TEMPERATURE:g} K, sampled for {options.time:g} ps, friction and "
             f"frequency of collisions {options.friction:g}/ps, where no other is said")
    per_degree = KT * (6 * options.waters - 3) / 1000  # kT/ns per degree of freedom, in kJ/mol/ps

    def load(file: Path):
        if file.stem in SAMPLED:
            return Watched.load(file)
        if file.stem == MOTION:
            return Theory.load(file)
        return (Relaxation if file.stem in RELAXATIONS else Loss).load(file)

    def check(results: dict) -> bool:
        report = Report()
        check_sampling(report, results)
        check_losses(report, results, per_degree)
        check_relaxations(report, results)
        return report.finish()

    return validate(parser, options, folder, title, NAMES, partial(make, options=options), load, check)


if __name__ == "__main__":
    run_program(main)
