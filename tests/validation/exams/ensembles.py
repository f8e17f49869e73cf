"""Distributions by PyPI's physical-validation: kinetic energy, equipartition, and pairs of temperatures or pressures.

Each integrator with a heat bath at its recommended step, on flexible water and on a protein; and the negative controls,
which have to fail.
"""
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import openmm as mm
import physical_validation
from openmm import unit
from openmmstiff import (ImpulseIntegrator, MassPenaltyLangevinIntegrator, ZhangSkeelIntegrator,
                         ZhangSkeelLangevinIntegrator)
from openmmstiff.sampling import blockedError, countFreedom

from exam import Claim, Exam, Results, Settings, Table, each
from physics import MOST, UNITS, apart, ensemble_claim, quietly, width_claim
from physical_validation.data import EnsembleData, ObservableData, SimulationData, SystemData, TrajectoryData
from common.observables import temperatures_by_motion
from common.runs import configured, remove_forces
from tip3p_water import impulse, spook
from common.tables import mean_with_error
from common.proteins import build_protein, read_villin
from common.water import build_box, build_system
from water_runs import WATERS, equilibrated

MOTIONS = ("translation", "rotation", "vibration")
TEMPERATURES = (300.0, 306.0)  # K
PRESSURES = (1.0, 351.0)       # bar
BAROSTAT_INTERVAL = 0.048      # ps
SAMPLE_INTERVAL = 0.048        # ps
FRAME_INTERVAL = 10            # samples; positions and velocities for equipartition
SETTLING = 6.0                 # ps
RESTRAINT = 500.0              # kJ/mol/nm^2, of the protein's CA atoms: one fold, sampled in a short time
LangevinMiddle = mm.LangevinMiddleIntegrator

Make = Callable[[float, float, float], mm.Integrator]   # of a temperature, a friction and a step


one_iteration = configured(ZhangSkeelLangevinIntegrator, Method=ZhangSkeelIntegrator.NewmarkOneIteration)
PROJECTED, PLAIN = impulse(ImpulseIntegrator.Projected), impulse(ImpulseIntegrator.Plain)


@dataclass(frozen=True)
class Trial:
    make: Make
    fs: float
    ps: float
    friction: float = 1.0       # 1/ps
    substance: str = "water"    # water, rigid-water, villin
    barostat: bool = False


TRIALS = {
    "middle-2fs": Trial(LangevinMiddle, 2, 80),
    "masspenalty-12fs": Trial(MassPenaltyLangevinIntegrator, 12, 300),
    "masspenalty-14fs": Trial(MassPenaltyLangevinIntegrator, 14, 300),
    "zhangskeel-2fs": Trial(ZhangSkeelLangevinIntegrator, 2, 80, 3.0),
    "zhangskeel-3fs": Trial(ZhangSkeelLangevinIntegrator, 3, 100, 3.0),
    "projected-4fs": Trial(PROJECTED, 4, 160),
    "spook-1fs": Trial(spook(0.25), 1, 150, substance="rigid-water"),
    "npt-settle-4fs": Trial(LangevinMiddle, 4, 160, substance="rigid-water", barostat=True),
    "npt-masspenalty-14fs": Trial(MassPenaltyLangevinIntegrator, 14, 400, barostat=True),
    "npt-zhangskeel-2fs": Trial(ZhangSkeelLangevinIntegrator, 2, 240, 3.0, barostat=True),
    "npt-projected-4fs": Trial(PROJECTED, 4, 160, barostat=True),
    "villin-middle-2fs": Trial(LangevinMiddle, 2, 30, 5.0, "villin"),
    "villin-masspenalty-10fs": Trial(MassPenaltyLangevinIntegrator, 10, 80, 5.0, "villin"),
    "villin-zhangskeel-2fs": Trial(ZhangSkeelLangevinIntegrator, 2, 30, 5.0, "villin"),
    "villin-projected-4fs": Trial(PROJECTED, 4, 60, 5.0, "villin"),
}
CONTROLS = {  # which have to fail, and in what
    "control-newmark-one-iteration-2fs": Trial(one_iteration, 2, 40, 3.0),
    "control-plain-2fs": Trial(PLAIN, 2, 40),
    "control-spook-paper-1fs": Trial(spook(2), 1, 30, substance="rigid-water"),
}
ALL = TRIALS | CONTROLS


def build_held_villin() -> tuple[mm.System, np.ndarray]:
    """The protein in vacuum, its CA atoms held near where they are."""
    modeller = read_villin("vacuum")
    system = build_protein(modeller, "vacuum", constraints=None)
    positions = np.array(modeller.positions.value_in_unit(unit.nanometer))
    restraint = mm.CustomExternalForce(f"{RESTRAINT / 2}*((x-x0)^2+(y-y0)^2+(z-z0)^2)")
    for name in ("x0", "y0", "z0"):
        restraint.addPerParticleParameter(name)
    for atom in modeller.topology.atoms():
        if atom.name == "CA":
            restraint.addParticle(atom.index, positions[atom.index])
    remove_forces(system, lambda force: isinstance(force, mm.CMMotionRemover))     # it is held in its place
    system.addForce(restraint)
    return system, positions


def start_villin(settings: Settings) -> mm.State:
    system, positions = build_held_villin()
    integrator = LangevinMiddle(TEMPERATURES[0], 5, 0.001)
    context = settings.begin(system, integrator, positions, TEMPERATURES[0], settings.seed, 200)
    integrator.step(settings.steps(20.0, 0.001))
    return context.getState(positions=True)


def build(trial: Trial, settings: Settings) -> tuple[mm.System, mm.State]:
    """The System, and where a run of it starts."""
    if trial.substance == "villin":
        return build_held_villin()[0], settings.shared("ensembles-villin", partial(start_villin, settings))
    geometry = "rigid" if trial.substance == "rigid-water" else "flexible"
    state = settings.shared(f"ensembles-{geometry}", partial(equilibrated, geometry, settings, settings.seed))
    return build_system(build_box(WATERS), geometry), state


def run(name: str, temperature: float, pressure: float, settings: Settings) -> dict:
    """Energies (kJ/mol), volume (nm^3); of water the temperatures of each motion (K), and some frames."""
    trial = ALL[name]
    seed = 1000 * settings.seed + 10 * list(ALL).index(name) + (temperature != TEMPERATURES[0])
    step = trial.fs / 1000
    system, state = build(trial, settings)
    integrator = trial.make(temperature, trial.friction, step)
    baths = [] if hasattr(integrator, "setFriction") else [mm.AndersenThermostat(temperature, trial.friction)]
    if trial.barostat:
        baths.append(mm.MonteCarloBarostat(pressure, temperature, max(1, round(BAROSTAT_INTERVAL / step))))
    for bath in baths:
        bath.setRandomNumberSeed(seed)
        system.addForce(bath)
    context = settings.begin(system, integrator, state, temperature, seed)
    masses = np.array([system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())])
    seen, frames = 0, []

    def observe(state: mm.State) -> dict[str, float]:
        nonlocal seen
        seen += 1
        kinetic = state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
        found = {"kinetic": kinetic, "volume": state.getPeriodicBoxVolume().value_in_unit(unit.nanometer**3)}
        if trial.substance != "villin":
            both = (state.getPositions(asNumpy=True).value_in_unit(unit.nanometer),
                    state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond))
            parts = temperatures_by_motion(*(each.reshape(-1, 3, 3) for each in both), masses[:3], kinetic)
            found |= dict(zip(MOTIONS, parts))
            if seen % FRAME_INTERVAL == 0:
                frames.append(np.array(both, dtype=np.float32))
        return found

    found = settings.sample(context, SETTLING * (2 if trial.barostat else 1), trial.ps, SAMPLE_INTERVAL, 100,
                            observe=observe)
    return {"potential": found.potential, "temperature": found.temperature, "freedom": countFreedom(system),
            "frames": np.array(frames), "masses": masses, **found.observed}


def points(name: str) -> dict[str, tuple[float, float]]:
    """The state points of a trial by the names of their runs: temperature (K) and pressure (bar)."""
    if ALL[name].barostat:
        return {f"{name}-{pressure:g}bar": (TEMPERATURES[0], pressure) for pressure in PRESSURES}
    return {f"{name}-{temperature:g}K": (temperature, PRESSURES[0]) for temperature in TEMPERATURES}


def runs(settings: Settings) -> dict[str, partial]:
    return {run_name: partial(run, name, *point, settings) for name in ALL for run_name, point in points(name).items()}


def data(name: str, result: dict, temperature: float, pressure: float,
         tested: tuple[str, ...]) -> SimulationData:
    """As physical-validation takes it; samples are independent in the series that are tested."""
    interval = apart(result[each] for each in tested)
    kinetic, potential, volume = (result[each][::interval] for each in ("kinetic", "potential", "volume"))
    frames = result["frames"][::-(-interval // FRAME_INTERVAL)]
    atoms, trial = len(result["masses"]), ALL[name]
    per_molecule = 3 if trial.substance == "rigid-water" else 0
    freedom = {"nconstraints": 3 * atoms - result["freedom"], "ndof_reduction_tra": 0}
    if trial.substance != "villin":
        freedom = {"nconstraints": per_molecule * atoms // 3, "ndof_reduction_tra": 3,
                   "molecule_idx": np.arange(0, atoms, 3),
                   "nconstraints_per_molecule": np.full(atoms // 3, per_molecule)}
    system = SystemData(natoms=atoms, ndof_reduction_rot=0, mass=result["masses"], **freedom)
    kept = {"pressure": pressure} if trial.barostat else {"volume": float(volume.mean())}
    ensemble = EnsembleData("NPT" if trial.barostat else "NVT", natoms=atoms, temperature=temperature, **kept)
    observables = ObservableData(kinetic_energy=kinetic, potential_energy=potential, total_energy=kinetic + potential,
                                 volume=volume)
    trajectory = TrajectoryData(frames[:, 0].astype(float), frames[:, 1].astype(float)) if len(frames) else None
    return SimulationData(units=UNITS, system=system, ensemble=ensemble, observables=observables, trajectory=trajectory)


def temperatures(result: dict) -> dict[str, np.ndarray]:
    """That of all motion together and, of water, those of each kind that there is."""
    return {kind: result[kind] for kind in ("temperature", *MOTIONS)
            if kind in result and np.isfinite(result[kind]).all()}


def temperature_claims(result: dict, temperature: float) -> Iterator[Claim]:
    for kind, series in temperatures(result).items():
        text = kind if kind == "temperature" else f"temperature of {kind}"
        yield Claim.within(f"{text}, K", series.mean(), temperature, blockedError(series), MOST)


def equipartition_claims(name: str, simulation: SimulationData) -> Iterator[Claim]:
    """The widths of translation, rotation and, if there is any, vibration, of all molecules and of random halves; of
    these the means, too: those of all molecules are temperatures."""
    kinds = ["total", "translation", "rotation and vibration", "rotation", "vibration"]
    tested = {"translation", "rotation"} | ({"vibration"} if ALL[name].substance == "water" else set())
    found = quietly(physical_validation.kinetic_energy.equipartition, simulation, random_divisions=1,
                    random_groups=2, random_division_seed=1)
    groups = ["all molecules", "one half", "the other half"]
    for (group, kind), (mean, width) in zip(((group, kind) for group in groups for kind in kinds), found):
        if kind in tested:
            if group != groups[0]:
                yield Claim.within(f"equipartition: {kind} of {group}, mean off by (errors)", mean, 0, 1, MOST)
            yield Claim.within(f"equipartition: {kind} of {group}, width off by (errors)", width, 0, 1, MOST)


def claims(results: Results, name: str) -> Iterator[Claim]:
    trial = ALL[name]
    tested = ("potential", "volume") if trial.barostat else ("potential",)
    what = "{:g} and {:g} bar".format(*PRESSURES) if trial.barostat else "{:g} and {:g} K".format(*TEMPERATURES)
    yield ensemble_claim(what, *(data(name, results[run], *point, tested) for run, point in points(name).items()))
    first, point = next(iter(points(name).items()))
    yield from temperature_claims(results[first], point[0])
    moving = data(name, results[first], *point, ("kinetic",))
    yield width_claim(moving)
    if trial.substance != "villin" and not trial.barostat:
        yield from equipartition_claims(name, moving)


def control_claims(results: Results, name: str) -> Iterator[Claim]:
    """The negative controls are found out, by far."""
    off, worst = max((abs(claim.value - claim.expected) / claim.error, claim.text) for claim in claims(results, name))
    yield Claim.true("a check fails, as it must", off > 2 * MOST, f"{worst}: {off:.1f} errors")


def row(results: Results, name: str) -> list[str]:
    """Means over the first of the state points."""
    found = temperatures(results[next(iter(points(name)))])
    return [name, f"{ALL[name].friction:g}", *(mean_with_error(found[kind], 1) if kind in found else ""
                                               for kind in ("temperature", *MOTIONS))]


def report(results: Results) -> Iterator[Claim | Table]:
    yield Table(f"Temperatures, K, at {TEMPERATURES[0]:g} K and {PRESSURES[0]:g} bar",
                ["run", "friction, 1/ps", "all", *MOTIONS],
                [row(results, name) for name in ALL if not any("failure" in results[each] for each in points(name))])
    yield from each(TRIALS, partial(claims, results))
    yield from each(CONTROLS, partial(control_claims, results))


LIMITS = {  # what large steps do to translation and rotation
    ("masspenalty-14fs", "temperature, K"): (302.8, 1),
    ("masspenalty-14fs", "temperature of translation, K"): (302.8, 1),
    ("zhangskeel-3fs", "temperature of translation, K"): (304.9, 1.5),
    ("zhangskeel-3fs", "temperature of rotation, K"): (304.5, 1.5),
    # The standard deviation is 0.91(2) of what it should be at 300 K, 0.98(2) at 306 K.
    ("spook-1fs", "kinetic energy, width off by (errors)"): (4.5, 1.2),
}
EXAM = Exam("ensembles", "Distributions, by physical-validation", runs, report, LIMITS)
