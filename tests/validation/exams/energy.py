"""Energy conservation of the deterministic integrators on flexible TIP3P water, against Verlet.

Every run starts from the same equilibrated positions, without friction. The energy of ZhangSkeelIntegrator is that of
the Context's positions; that of MassPenaltyIntegrator counts the penalized motion, whose velocities are drawn anew.
A million steps on a small cluster in double precision show that there is no drift but that of the tolerance, to which
the penalized motion is solved. That energies are kept to second order claims tests/python/test_properties.py.
"""
from collections.abc import Iterator
from functools import partial

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyIntegrator, ZhangSkeelIntegrator
from openmmstiff.sampling import GAS_CONSTANT

from exam import Claim, Exam, Results, Settings, Table
from common.runs import configured, total_energy
from common.tables import with_error
from common.water import MODEL, build_box, build_system, nearest_waters
from water_runs import WATERS, equilibrated

TEMPERATURE = 300.0      # K
EQUILIBRATION = 10.0     # ps, flexible
SHORT, LONG = (20.0, 0.024), (200.0, 0.12)      # ps: runs, and between samples; long where the drift is small
BLOCKS = 8               # for the error of the drift
DRIFT = "drift, kT/ns per degree of freedom"
MOST_DRIFT = {"zhangskeel-1fs": 0.02, "masspenalty-4fs": 0.01, "masspenalty-6fs": 0.01, "masspenalty-8fs": 0.01}
MOST_DEVIATION = 1.5     # of Z&Ss at 1 fs, as a multiple of Verlet's at 0.5 fs
CLUSTER_WATERS = 8
CLUSTER_STEP, CLUSTER_TIME, CLUSTER_INTERVAL = 0.004, 4000.0, 0.2   # ps
TIGHT = 1e-8             # constraint tolerance, relative
# Such is the drift of the default tolerance.
LIMITS = {("cluster-drift", DRIFT): (-1.45e-4, 6e-5)}
CLUSTER_WELL = "20*((x-x0)^2+(y-y0)^2+(z-z0)^2)"  # kJ/mol, keeps the cluster together
KT = GAS_CONSTANT * TEMPERATURE

one_iteration = configured(ZhangSkeelIntegrator, Method=ZhangSkeelIntegrator.NewmarkOneIteration)
LIQUID = {f"{name}-{fs:g}fs": (make, fs / 1000, times) for name, make, steps, times in (
    ("verlet", mm.VerletIntegrator, (0.5, 1, 2), SHORT), ("zhangskeel", ZhangSkeelIntegrator, (1, 2, 3), SHORT),
    ("masspenalty", MassPenaltyIntegrator, (4, 6, 8, 10), LONG),
    ("newmark-one-iteration", one_iteration, (1,), SHORT)) for fs in steps}


def advance_and_look(context: mm.Context, ps: float, interval: float) -> np.ndarray:
    """Total energies, one every `interval` ps."""
    integrator = context.getIntegrator()
    burst = round(interval / integrator.getStepSize().value_in_unit(unit.picosecond))
    energies = np.empty(max(2 * BLOCKS, round(ps / interval)))
    for i in range(len(energies)):
        integrator.step(burst)
        energies[i] = total_energy(context.getState(energy=True))
    return energies


def run_liquid(name: str, settings: Settings) -> dict:
    make, step, (time, interval) = LIQUID[name]
    box = build_box(WATERS)
    state = settings.shared("energy", partial(equilibrated, "flexible", settings, settings.seed, TEMPERATURE,
                                              EQUILIBRATION))
    context = mm.Context(build_system(box, "flexible"), make(step), mm.Platform.getPlatform(settings.platform))
    context.setState(state)
    if isinstance(context.getIntegrator(), MassPenaltyIntegrator):     # others' are far too hot for what is penalized
        context.setVelocitiesToTemperature(TEMPERATURE, 1)
    context.getIntegrator().step(round(0.5 / step))
    return {"energy": advance_and_look(context, settings.time(time), interval), "interval": interval,
            "freedom": 9 * WATERS - 3}


def build_cluster(integrator: mm.Integrator) -> mm.Context:
    """A few waters in a well, on the Reference platform, at a minimum."""
    box = build_box(WATERS)
    centre = box.positions.mean(axis=0)
    modeller = nearest_waters(box, CLUSTER_WATERS, centre)
    system = app.ForceField(f"{MODEL}.xml").createSystem(modeller.topology, rigidWater=False, removeCMMotion=False)
    well = mm.CustomExternalForce(CLUSTER_WELL)
    for name, value in zip(("x0", "y0", "z0"), centre):
        well.addGlobalParameter(name, value)
    for i in range(system.getNumParticles()):
        well.addParticle(i)
    system.addForce(well)
    context = mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))
    context.setPositions(modeller.positions)
    mm.LocalEnergyMinimizer.minimize(context)
    return context


def run_drift(settings: Settings, **values: float) -> dict:
    context = build_cluster(configured(MassPenaltyIntegrator, **values)(CLUSTER_STEP))
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    context.getIntegrator().step(10000)
    energies = advance_and_look(context, settings.time(CLUSTER_TIME), CLUSTER_INTERVAL)
    return {"energy": energies, "interval": CLUSTER_INTERVAL, "freedom": 9 * CLUSTER_WATERS}


def runs(settings: Settings) -> dict[str, partial]:
    return {"cluster-drift": partial(run_drift, settings),
            "cluster-drift-tight": partial(run_drift, settings, ConstraintTolerance=TIGHT),
            **{name: partial(run_liquid, name, settings) for name in LIQUID}}


def drift(result: dict) -> tuple[float, float]:
    """Slope of a line through the energies, and its error from the blocks' scatter; kT/ns per degree of freedom."""
    energies = result["energy"]
    means = np.array([block.mean() for block in np.array_split(energies, BLOCKS)])
    times = (np.arange(BLOCKS) + 0.5) / BLOCKS * result["interval"] * len(energies) / 1000
    (slope, _), covariance = np.polyfit(times, means, 1, cov=True)
    scale = KT * result["freedom"]
    return slope / scale, np.sqrt(covariance[0, 0]) / scale


def report(results: Results) -> Iterator[Claim | Table]:
    deviations = {name: float(results[name]["energy"].std()) for name in LIQUID}
    columns = ["run", "step (fs)", "deviation of the total energy (kJ/mol)", "drift (kT/ns per degree of freedom)"]
    yield Table(f"{WATERS} flexible waters, {SHORT[0]:g} ps, mass penalty {LONG[0]:g} ps, no friction", columns, [
        [name, f"{1000 * step:g}", f"{deviations[name]:.3g}", with_error(*drift(results[name]), 4)]
        for name, (_, step, _) in LIQUID.items()], "energy")
    yield Claim.between("deviation over Verlet's at 0.5 fs", deviations["zhangskeel-1fs"] / deviations["verlet-0.5fs"],
                        0, MOST_DEVIATION, run="zhangskeel-1fs")
    yield Claim.between("deviation over Verlet's at 2 fs", deviations["masspenalty-4fs"] / deviations["verlet-2fs"],
                        0, 1, run="masspenalty-4fs")
    for name in ("cluster-drift-tight", "cluster-drift"):
        slope, error = drift(results[name])
        yield Claim.within(DRIFT, slope, 0, error, run=name)
    for name, most in MOST_DRIFT.items():
        slope, error = drift(results[name])
        yield Claim(DRIFT, slope, 0, error, most, name)


EXAM = Exam("energy", "Energy without a thermostat, against Verlet", runs, report, LIMITS)
