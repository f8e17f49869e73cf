"""Energy conservation of the deterministic integrators on flexible TIP3P water, against Verlet.

Every run starts from the same equilibrated positions, without friction. The energy of ZhangSkeelIntegrator is that of
the Context's positions; that of MassPenaltyIntegrator counts the penalized motion, whose velocities are drawn anew.
Several steps of each on a small cluster in double precision show that the fluctuations of the energy fall with the
square of the step (physical-validation's test). A million steps show that there is no drift but that of the tolerance,
to which the penalized motion is solved.
"""
from collections.abc import Iterator
from functools import partial

import numpy as np
import openmm as mm
import physical_validation
from openmm import app, unit
from openmmstiff import ImpulseIntegrator, MassPenaltyIntegrator, SpookIntegrator, ZhangSkeelIntegrator
from openmmstiff.sampling import GAS_CONSTANT
from physical_validation.data import ObservableData

from exam import Claim, Exam, Results, Settings, Table, each
from physics import simulation_data
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
CONVERGENCE_TIME, CONVERGENCE_INTERVAL = 0.6, 0.004  # ps, of each step on the cluster, while all go the same way
ORDER_TOLERANCE = 0.1    # of ratios of fluctuations, relative
CLUSTER_WELL = "20*((x-x0)^2+(y-y0)^2+(z-z0)^2)"  # kJ/mol, keeps the cluster together
KT = GAS_CONSTANT * TEMPERATURE
PERIOD = 0.064           # ps, of penalized distances at all steps, for the order


# As many micro-steps at each step, so that their error falls with it.
plain_impulse = configured(ImpulseIntegrator, Kick=ImpulseIntegrator.Plain, NumMicroSteps=8)
# Without the energy of its springs, whose compliance would be the same at each step.
tight_spook = configured(SpookIntegrator, Compliance=1e-13)
# The same extended system at each step.
slow_penalty = configured(MassPenaltyIntegrator, PenalizedPeriod=PERIOD)
symplectic, newmark, one_iteration = (configured(ZhangSkeelIntegrator, Method=method) for method in (
    ZhangSkeelIntegrator.ThirdDerivatives, ZhangSkeelIntegrator.Newmark, ZhangSkeelIntegrator.NewmarkOneIteration))
LIQUID = {f"{name}-{fs:g}fs": (make, fs / 1000, times) for name, make, steps, times in (
    ("verlet", mm.VerletIntegrator, (0.5, 1, 2), SHORT), ("zhangskeel", ZhangSkeelIntegrator, (1, 2, 3), SHORT),
    ("masspenalty", MassPenaltyIntegrator, (4, 6, 8, 10), LONG),
    ("newmark-one-iteration", one_iteration, (1,), SHORT)) for fs in steps}
ORDERS = {"verlet": mm.VerletIntegrator, "zhangskeel": ZhangSkeelIntegrator,      # on the cluster
          "zhangskeel-symplectic": symplectic, "newmark": newmark, "impulse-plain": plain_impulse,
          "masspenalty": slow_penalty, "spook": tight_spook}
ORDER_STEPS = {name: (1, 2, 4) if name == "masspenalty" else (0.125, 0.25, 0.5) for name in ORDERS}   # fs
CONVERGING = {f"{name}-{fs:g}fs": (name, fs / 1000) for name, steps in ORDER_STEPS.items() for fs in steps}


def advance_and_look(context: mm.Context, ps: float, interval: float) -> np.ndarray:
    """Total energies, one every `interval` ps."""
    integrator = context.getIntegrator()
    burst = round(interval / integrator.getStepSize().value_in_unit(unit.picosecond))
    energies = np.empty(max(2 * BLOCKS, round(ps / interval)))
    for i in range(len(energies)):
        integrator.step(burst)
        energies[i] = total_energy(context.getState(energy=True))
    return energies


def draw_velocities(context: mm.Context):
    """Anew, where those of other integrators are far too hot for the penalized motion."""
    if isinstance(context.getIntegrator(), MassPenaltyIntegrator):
        context.setVelocitiesToTemperature(TEMPERATURE, 1)


def run_liquid(name: str, settings: Settings) -> dict:
    make, step, (time, interval) = LIQUID[name]
    box = build_box(WATERS)
    state = settings.shared("energy", partial(equilibrated, "flexible", settings, settings.seed, TEMPERATURE,
                                              EQUILIBRATION))
    context = mm.Context(build_system(box, "flexible"), make(step), mm.Platform.getPlatform(settings.platform))
    context.setState(state)
    draw_velocities(context)
    context.getIntegrator().step(round(0.5 / step))
    return {"energy": advance_and_look(context, settings.time(time), interval), "interval": interval,
            "freedom": 9 * WATERS - 3}


def build_cluster(integrator: mm.Integrator, rigid: bool) -> mm.Context:
    """A few waters in a well, on the Reference platform, at a minimum."""
    box = build_box(WATERS)
    centre = box.positions.mean(axis=0)
    modeller = nearest_waters(box, CLUSTER_WATERS, centre)
    system = app.ForceField(f"{MODEL}.xml").createSystem(modeller.topology, rigidWater=rigid, removeCMMotion=False)
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


def equilibrate_cluster(rigid: bool) -> mm.State:
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, 5, 0.0005)
    integrator.setRandomNumberSeed(1)
    context = build_cluster(integrator, rigid)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    integrator.step(20000)
    return context.getState(positions=True, velocities=True)


def run_cluster(name: str, settings: Settings) -> dict:
    """For the order: each step from the same state."""
    which, step = CONVERGING[name]
    rigid = which == "spook"
    state = settings.shared(f"energy-cluster-{'rigid' if rigid else 'flexible'}", partial(equilibrate_cluster, rigid))
    context = build_cluster(ORDERS[which](step), rigid)
    context.setState(state)
    draw_velocities(context)
    context.getIntegrator().step(round(0.1 / step))
    return {"energy": advance_and_look(context, CONVERGENCE_TIME, CONVERGENCE_INTERVAL),
            "interval": CONVERGENCE_INTERVAL, "freedom": (6 if rigid else 9) * CLUSTER_WATERS}


def run_drift(settings: Settings, **values: float) -> dict:
    context = build_cluster(configured(MassPenaltyIntegrator, **values)(CLUSTER_STEP), rigid=False)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    context.getIntegrator().step(10000)
    energies = advance_and_look(context, settings.time(CLUSTER_TIME), CLUSTER_INTERVAL)
    return {"energy": energies, "interval": CLUSTER_INTERVAL, "freedom": 9 * CLUSTER_WATERS}


def runs(settings: Settings) -> dict[str, partial]:
    return {"cluster-drift": partial(run_drift, settings),
            "cluster-drift-tight": partial(run_drift, settings, ConstraintTolerance=TIGHT),
            **{name: partial(run_liquid, name, settings) for name in LIQUID},
            **{f"cluster-{name}": partial(run_cluster, name, settings) for name in CONVERGING}}


def drift(result: dict) -> tuple[float, float]:
    """Slope of a line through the energies, and its error from the blocks' scatter; kT/ns per degree of freedom."""
    energies = result["energy"]
    means = np.array([block.mean() for block in np.array_split(energies, BLOCKS)])
    times = (np.arange(BLOCKS) + 0.5) / BLOCKS * result["interval"] * len(energies) / 1000
    slope, offset = np.polyfit(times, means, 1)
    scatter = np.sum((means - slope * times - offset) ** 2) / (BLOCKS - 2)
    error = np.sqrt(scatter / np.sum((times - times.mean()) ** 2))
    scale = KT * result["freedom"]
    return slope / scale, error / scale


def deviation_from_order(results: Results, name: str) -> float:
    """Largest relative deviation of a ratio of fluctuations from that of the squared steps: physical-validation's."""
    energies = {fs: results[f"cluster-{name}-{fs:g}fs"]["energy"] for fs in ORDER_STEPS[name]}
    return physical_validation.integrator.convergence([
        simulation_data(dt=fs / 1000, observables=ObservableData(constant_of_motion=series))
        for fs, series in energies.items()], verbose=False)


def order_claims(results: Results, name: str) -> Iterator[Claim]:
    """The fluctuations fall with the square of the step."""
    yield Claim.between("fluctuations over the squared step, largest deviation", deviation_from_order(results, name),
                        0, ORDER_TOLERANCE)


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
    yield from each(ORDERS, partial(order_claims, results))


EXAM = Exam("energy", "Energy without a thermostat, against Verlet", runs, report, LIMITS)
