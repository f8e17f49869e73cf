"""SpookIntegrator on rigid TIP3P water: what it samples, and the energy that it loses.

Sampling: with AndersenThermostat, against LangevinMiddle + SETTLE; Verlet + SETTLE with the same thermostat shows, in
the table, what comes from the thermostat. Loss: short runs without a thermostat, against the theory of source() and
follow(), which takes the motion from runs with a small step.
"""
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import SpookIntegrator
from openmmstiff.sampling import GAS_CONSTANT

from exam import Claim, Exam, Results, Settings, Table, by_name, each
from common.observables import RDF_PAIRS, mean_and_error
from common.runs import configured, get_positions, total_energy
from common.tables import with_error
from common.water_sampling import Samples, sample
from tip3p_water import TEMPERATURE, Run, make_simulation, spook
from common.water import EQUILIBRATION_FRICTION, EQUILIBRATION_STEP, advance, build_box, build_system, equilibrate
from water_runs import (COLUMNS, EQUILIBRATION_TIME, P_VALUE, WATERS, energy_claim, equilibrated, ignore, rdf_claims,
                        summary, temperature_claims)

KT = GAS_CONSTANT * TEMPERATURE
PER_DEGREE = KT * (6 * WATERS - 3) / 1000  # kT/ns per degree of freedom, in kJ/mol/ps
SAMPLED_TIME = 60.0        # ps
LONGER = {"spook-2fs": 150.0, "spook-2fs-quarter": 300.0}  # ps: few collisions for what they lose, slow fluctuations
FRICTION = 1.0             # 1/ps, and the frequency of collisions
SEGMENTS = 12              # of each run without a thermostat, from as many states
SEGMENT_SPACING = 1.0      # ps between those states
SETTLING = 3               # damping times (or LEAST_SETTLING), before they are observed
LEAST_SETTLING = 0.04      # ps
SEGMENT_TIME = 1.0         # ps, observed; where the box cools soon less, that it be by some 2 %
ENERGY_INTERVAL = 0.004    # ps
MOTION_STEP = 0.0005       # ps, of the run that the theory takes the motion from
MOTION_SETTLING = 40       # of its steps, until the kick of the start is over
LEAST_LOSS = 0.1           # kT/ns per degree of freedom, the least tolerance; the error is some 0.03


def verlet(temperature: float, friction: float, step: float) -> mm.VerletIntegrator:
    return mm.VerletIntegrator(step)


REFERENCE, CONTROL = "settle-2fs", "verlet-2fs"
OFTEN = {"spook-2fs-often": 5.0}  # 1/ps, where it is not FRICTION
SAMPLED = {name: Run(label, "rigid", fs / 1000, make, REFERENCE) for name, label, fs, make in (
    (REFERENCE, "LangevinMiddle + SETTLE", 2, mm.LangevinMiddleIntegrator),
    (CONTROL, "Andersen, Verlet + SETTLE", 2, verlet),
    ("spook-1fs", "Andersen, SPOOK", 1, spook(2)),
    ("spook-2fs", "Andersen, SPOOK", 2, spook(2)),
    ("spook-1fs-quarter", "Andersen, SPOOK, tau = h/4", 1, spook(0.25)),
    ("spook-2fs-quarter", "Andersen, SPOOK, tau = h/4", 2, spook(0.25)),
    ("spook-2fs-often", "Andersen 5/ps, SPOOK", 2, spook(2)))}


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
        return (mm.VerletIntegrator if self.damping is None else
                configured(SpookIntegrator, Damping=self.damping))(self.step)


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
NAMES = (*SAMPLED, MOTION, *LOSSES, *CONSERVED)


@dataclass
class Starts:
    """Equilibrated states, (SEGMENTS, atoms, 3)."""
    positions: np.ndarray   # nm
    velocities: np.ndarray  # nm/ps


class Constraints:
    """Of a System: the particles of each, and its length."""

    def __init__(self, system: mm.System):
        terms = [system.getConstraintParameters(i) for i in range(system.getNumConstraints())]
        self.first, self.second = (np.array([term[i] for term in terms]) for i in (0, 1))
        self.lengths = np.array([term[2].value_in_unit(unit.nanometer) for term in terms])

    def vectors(self, positions: np.ndarray) -> np.ndarray:
        return positions[self.first] - positions[self.second]


def seed_of(name: str, settings: Settings) -> int:
    return 1000 * settings.seed + NAMES.index(name)


def run_sampled(name: str, settings: Settings) -> dict:
    """Equilibrate and sample at constant temperature."""
    run, seed = SAMPLED[name], seed_of(name, settings)
    state = equilibrated("rigid", settings, seed)
    simulation = make_simulation(build_box(WATERS), run, OFTEN.get(name, FRICTION), seed, settings.platform)
    integrator, lengths, violations = simulation.integrator, Constraints(simulation.system).lengths, []
    simulation.context.setState(state)
    advance(integrator, round(settings.time(EQUILIBRATION_TIME) / run.step), ignore)

    def look(steps: int):
        if isinstance(integrator, SpookIntegrator):
            relative = np.abs(integrator.computeViolations()) / lengths
            violations.append((relative.mean(), relative.max()))

    found = sample(simulation, settings.time(LONGER.get(name, SAMPLED_TIME)), look)
    return vars(found) | {"violations": np.array(violations).reshape(-1, 2)}


def load_starts(settings: Settings) -> Starts:
    """The states that all runs without a thermostat start from, made once: each by the one before."""
    box, seed = build_box(WATERS), 1000 * settings.seed + len(NAMES)
    step = EQUILIBRATION_STEP["rigid"] / 2

    def make(before: mm.State | None) -> mm.State:
        if before is None:
            before = equilibrate(box, "rigid", 2 * settings.time(EQUILIBRATION_TIME), temperature=TEMPERATURE,
                                 platform=settings.platform, seed=seed)
        integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, EQUILIBRATION_FRICTION, step)
        integrator.setRandomNumberSeed(seed)
        context = mm.Context(build_system(box, "rigid"), integrator, mm.Platform.getPlatform(settings.platform))
        context.setState(before)
        integrator.step(round(SEGMENT_SPACING / step))
        return context.getState(positions=True, velocities=True)

    state, positions, velocities = None, [], []
    for k in range(SEGMENTS):
        state = settings.shared(f"spook-{k}", partial(make, state))
        positions.append(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
        velocities.append(state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond))
    return Starts(np.array(positions), np.array(velocities))


def segments(setting: Setting, starts: Starts, settings: Settings) -> Iterator[tuple[mm.Context, Constraints]]:
    """A Context in each of the states of `starts`, and the constraints."""
    system = build_system(build_box(WATERS), "rigid")
    constraints = Constraints(system)
    context = mm.Context(system, setting.make(), mm.Platform.getPlatform(settings.platform))
    for positions, velocities in zip(starts.positions, starts.velocities):
        context.setPositions(positions)
        context.setVelocities(velocities)
        yield context, constraints


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


def slope(values: np.ndarray, interval: float) -> float:
    return np.polyfit(interval * np.arange(len(values)), values, 1)[0]


def predict(directions: np.ndarray, multipliers: np.ndarray, lengths: np.ndarray, compliance: float,
            setting: Setting) -> tuple[float, ...]:
    """Of one segment, from a motion recorded every MOTION_STEP, after MOTION_SETTLING: the slope of the box's energy
    (kJ/mol/ps), the same for slow motion, which is the mean power of the constraint forces, and the mean of g (nm)."""
    h, tau, every = setting.step, setting.damping, round(setting.step / MOTION_STEP)
    settled = round(setting.settling / MOTION_STEP) - MOTION_SETTLING
    last = settled + round(setting.time / MOTION_STEP)
    n, forces = directions[:last + 1:every], multipliers[:last + 1:every]
    first = settled // every
    violations = follow(source(n, lengths, h, tau) - compliance * forces[1:-1], h, tau)
    # The work of the constraint forces, the sum of lambda g' over time.
    energies = np.cumsum(np.sum(forces[2:-1] * (violations[2:] - violations[:-2]), axis=1)[first - 2:] / 2)
    bent = lengths * np.sum((directions[1:] - directions[:-1]) ** 2, axis=2) / MOTION_STEP**2
    curvatures = (bent[1:] + bent[:-1]) / 2
    rates = [(series[2:] - series[:-2]) / (2 * MOTION_STEP) for series in (multipliers[1:-1], curvatures)]
    leading = np.sum(h * tau**2 / 2 * rates[0] * rates[1] - compliance * tau * rates[0] ** 2, axis=1)
    return slope(energies, h), leading.mean(), violations[first - 1:].mean()


def run_theory(starts: Starts, settings: Settings) -> dict:
    """The predictions for each of LOSSES and each segment, of the motion with a small step and little damping."""
    setting = Setting(MOTION_STEP, MOTION_STEP / 4)
    time = max(loss.settling + loss.time for loss in LOSSES.values())
    frames = round(time / MOTION_STEP) - MOTION_SETTLING
    found = []
    for context, constraints in segments(setting, starts, settings):
        integrator = context.getIntegrator()
        integrator.step(MOTION_SETTLING)
        directions = np.empty((frames, len(constraints.lengths), 3))
        multipliers = np.empty(directions.shape[:2])
        for k in range(frames):
            vectors = constraints.vectors(get_positions(context))
            directions[k] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            integrator.step(1)
            multipliers[k] = integrator.getMultipliers()
        compliance = integrator.getCompliance().value_in_unit(unit.nanometer**2 / unit.kilojoule_per_mole)
        found.append([predict(directions, multipliers, constraints.lengths, compliance, loss)
                      for loss in LOSSES.values()])
    return {"names": np.array(list(LOSSES)),
            **dict(zip(("slopes", "leading", "violations"), np.moveaxis(np.array(found), (2, 1), (0, 1))))}


def run_loss(setting: Setting, starts: Starts, settings: Settings) -> dict:
    """Of each segment the slope of the total energy, kJ/mol/ps, and of SPOOK's the mean of g, nm."""
    steps, every = round(setting.time / setting.step), round(ENERGY_INTERVAL / setting.step)
    slopes, means = [], []
    for context, _ in segments(setting, starts, settings):
        integrator = context.getIntegrator()
        integrator.step(round(setting.settling / setting.step))
        energies, violations = [], []
        for k in range(steps + 1):
            if k % every == 0:
                energies.append(total_energy(context.getState(energy=True)))
            if isinstance(integrator, SpookIntegrator):
                violations.append(np.mean(integrator.computeViolations()))
            integrator.step(1)
        slopes.append(slope(np.array(energies), ENERGY_INTERVAL))
        means.append(np.mean(violations or [0]))
    return {"slopes": np.array(slopes), "violations": np.array(means)}


def sampling_claims(results: Results, name: str) -> Iterator[Claim]:
    found, reference = results[name].into(Samples), results[REFERENCE].into(Samples)
    yield energy_claim(found, reference, 0.2)
    yield from temperature_claims(found, 0.01)
    yield from rdf_claims("function", found.rdf, reference.rdf)


def loss_claims(results: Results, name: str) -> Iterator[Claim]:
    """Segments start from the same states in theory and run: the error is that of their differences."""
    found, theory = results[name], results[MOTION]
    i = list(theory["names"]).index(name)
    slopes, violations = theory["slopes"][i], theory["violations"][i]
    expected = slopes.mean() / PER_DEGREE
    yield Claim("slope of the energy, kT/ns", found["slopes"].mean() / PER_DEGREE, expected,
                mean_and_error(found["slopes"] - slopes)[1] / PER_DEGREE, max(0.2 * abs(expected), LEAST_LOSS))
    yield Claim("violation, mean, nm", found["violations"].mean(), violations.mean(),
                mean_and_error(found["violations"] - violations)[1], 0.1 * violations.mean())


def loss_row(results: Results, name: str, setting: Setting) -> list[str]:
    found, theory, expected = results[name], results[MOTION], ["", "", ""]
    if setting.damping is not None:
        i = list(theory["names"]).index(name)
        expected = [*(f"{theory[kind][i].mean() / PER_DEGREE:.3f}" for kind in ("slopes", "leading")),
                    f"{theory['violations'][i].mean():.4e}"]
    return [name, f"{1000 * setting.step:g}", f"{1000 * setting.damping:g}" if setting.damping else "",
            with_error(*mean_and_error(found["slopes"] / PER_DEGREE), 3), *expected[:2],
            f"{found['violations'].mean():.4e}", expected[2]]


def report(results: Results) -> Iterator[Claim | Table]:
    rows = [summary(name, run, OFTEN.get(name, FRICTION), results[name].into(Samples)) for name, run in SAMPLED.items()]
    relative = [results[name]["violations"] for name in SAMPLED]
    yield Table(f"{WATERS} rigid waters, {TEMPERATURE:g} K", [*COLUMNS, "violations: mean, largest"], [
        [*row, f"{seen[:, 0].mean():.1e}, {seen[:, 1].max():.1e}" if len(seen) else ""]
        for row, seen in zip(rows, relative)])
    yield Table("Energy without a thermostat: change in kT/ns per degree of freedom; violation in nm",
                ["run", "h (fs)", "tau (fs)", "energy", "theory", "slow limit", "violation", "theory"],
                [loss_row(results, name, setting) for name, setting in (LOSSES | CONSERVED).items()])
    yield from each([name for name in SAMPLED if name not in (REFERENCE, CONTROL)], partial(sampling_claims, results))
    yield from each(LOSSES, partial(loss_claims, results))


def make(name: str, settings: Settings) -> dict:
    if name in SAMPLED:
        return run_sampled(name, settings)
    starts = load_starts(settings)
    if name == MOTION:
        return run_theory(starts, settings)
    return run_loss((LOSSES | CONSERVED)[name], starts, settings)


def cold(run: str, energy: float, whole: float, translation: float, rotation: float) -> dict:
    """The limits of a run whose damping takes more than the thermostat gives: kJ/mol per water, and temperatures, K."""
    return {(run, "nonbonded energy, kJ/mol per water"): (energy, 0.4),
            (run, "temperature, K"): (whole, 5), (run, "temperature of translation, K"): (translation, 6),
            (run, "temperature of rotation, K"): (rotation, 6),
            **{(run, f"{pair} function, chance to differ so"): (0, P_VALUE) for pair in RDF_PAIRS}}


# The paper's damping of two steps, at every step size and at five times as many collisions.
LIMITS = (cold("spook-1fs", -41.0, 284, 285, 283) | cold("spook-2fs", -43.5, 238, 249, 230)
          | cold("spook-2fs-often", -41.3, 283, 289, 281)
          # 2 fs want five collisions per ps; with one it is a little cold.
          | {("spook-2fs-quarter", "nonbonded energy, kJ/mol per water"): (-40.3, 0.2)})
EXAM = Exam("spook", "SpookIntegrator on rigid TIP3P water, against SETTLE and theory", by_name(make, NAMES),
            report, LIMITS)
