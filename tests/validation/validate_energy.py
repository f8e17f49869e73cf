#!/usr/bin/env python
"""Validate the energy conservation of ZhangSkeelIntegrator and MassPenaltyIntegrator on flexible TIP3P water, against
Verlet.

Every run starts from the same equilibrated positions, without friction. The energy of ZhangSkeelIntegrator is that of
the Context's positions; that of MassPenaltyIntegrator counts the penalized motion, whose velocities are drawn anew. A
small cluster in double precision shows over a million steps whether there is a drift. The exit code is 0 if every
claim holds and 1 if not.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyIntegrator, ZhangSkeelIntegrator
from openmmstiff.sampling import GAS_CONSTANT

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from options import OptionParser, add_box_options, number, progress_bar, run_program  # noqa: E402
from water import MODEL, Progress, advance, build_box, build_system, equilibrate  # noqa: E402

TEMPERATURE = 300.0      # K
EQUILIBRATION_TIME = 5.0  # ps, rigid; then twice as long flexible
SAMPLE_INTERVAL = 0.024  # ps
BLOCKS = 8               # for the error of the drift
MOST_DEVIATION = 1.5     # of Z&Ss at 1 fs, as a multiple of Verlet's at 0.5 fs
CLUSTER_WATERS, CLUSTER_STEP, CLUSTER_STEPS, CLUSTER_INTERVAL = 8, 0.004, 1_000_000, 50
CLUSTER_WELL = "20*((x-x0)^2+(y-y0)^2+(z-z0)^2)"  # kJ/mol, keeps the cluster together
KT = GAS_CONSTANT * TEMPERATURE

RUNS = [("Verlet", mm.VerletIntegrator, 0.0005), ("Verlet", mm.VerletIntegrator, 0.001),
        ("Verlet", mm.VerletIntegrator, 0.002), ("Z&Ss", ZhangSkeelIntegrator, 0.001),
        ("Z&Ss", ZhangSkeelIntegrator, 0.002), ("Z&Ss", ZhangSkeelIntegrator, 0.003),
        ("Mass penalty", MassPenaltyIntegrator, 0.004), ("Mass penalty", MassPenaltyIntegrator, 0.006),
        ("Mass penalty", MassPenaltyIntegrator, 0.008)]


@dataclass
class Energy:
    """Total energies (kJ/mol) of a run."""
    series: np.ndarray
    degrees_of_freedom: int
    interval: float = SAMPLE_INTERVAL  # ps

    @property
    def deviation(self) -> float:
        return float(self.series.std())

    def drift(self) -> tuple[float, float]:
        """Slope of a line through the energies, and its error from the blocks' scatter; kT/ns per degree of freedom."""
        means = np.array([block.mean() for block in np.array_split(self.series, BLOCKS)])
        nanoseconds = self.interval * len(self.series) / 1000
        times = (np.arange(BLOCKS) + 0.5) / BLOCKS * nanoseconds
        slope, offset = np.polyfit(times, means, 1)
        scatter = np.sum((means - slope * times - offset) ** 2) / (BLOCKS - 2)
        error = np.sqrt(scatter / np.sum((times - times.mean()) ** 2))
        scale = KT * self.degrees_of_freedom
        return slope / scale, error / scale


def sample(context: mm.Context, samples: int, burst: int, progress: Progress) -> np.ndarray:
    """Total energies, one every `burst` steps."""
    energies = np.empty(samples)
    for i in range(samples):
        advance(context.getIntegrator(), burst, progress, burst=burst)
        found = context.getState(energy=True)
        energies[i] = (found.getPotentialEnergy() + found.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)
    return energies


def run(box, state: mm.State, integrator: mm.Integrator, time: float, platform: str, progress) -> Energy:
    system = build_system(box, "flexible")
    simulation = app.Simulation(box.topology, system, integrator, mm.Platform.getPlatform(platform))
    context = simulation.context
    context.setState(state)
    if isinstance(integrator, MassPenaltyIntegrator):
        context.setVelocitiesToTemperature(TEMPERATURE, 1)
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    advance(integrator, round(0.5 / step), progress)
    energies = sample(context, round(time / SAMPLE_INTERVAL), round(SAMPLE_INTERVAL / step), progress)
    return Energy(energies, 3 * system.getNumParticles() - 3)


def run_cluster(progress) -> Energy:
    """MassPenaltyIntegrator on a few waters, on the Reference platform."""
    box = build_box(216)
    centre = box.positions.mean(axis=0)
    distances = np.linalg.norm(box.positions[::3] - centre, axis=1)
    kept = set(np.argsort(distances)[:CLUSTER_WATERS].tolist())
    modeller = app.Modeller(box.topology, box.positions * unit.nanometer)
    modeller.delete([residue for residue in box.topology.residues() if residue.index not in kept])
    modeller.topology.setPeriodicBoxVectors(None)
    system = app.ForceField(f"{MODEL}.xml").createSystem(modeller.topology, rigidWater=False, removeCMMotion=False)
    well = mm.CustomExternalForce(CLUSTER_WELL)
    for name, value in zip(("x0", "y0", "z0"), centre):
        well.addGlobalParameter(name, value)
    for i in range(system.getNumParticles()):
        well.addParticle(i)
    system.addForce(well)
    integrator = MassPenaltyIntegrator(CLUSTER_STEP)
    context = mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))
    context.setPositions(modeller.positions)
    mm.LocalEnergyMinimizer.minimize(context)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    advance(integrator, 10000, lambda steps: None, burst=1000)
    energies = sample(context, CLUSTER_STEPS // CLUSTER_INTERVAL, CLUSTER_INTERVAL, progress)
    return Energy(energies, 3 * system.getNumParticles(), CLUSTER_INTERVAL * CLUSTER_STEP)


def main() -> int:
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    parser.add_argument("--time", type=number(float, 1, "ps"), default=40.0, metavar="PS",
                        help="simulated time of each run, ps (default: %(default)s)")
    options = parser.parse_args()

    box = build_box(options.waters)
    common = {"temperature": TEMPERATURE, "platform": options.platform, "seed": options.seed}
    state = equilibrate(box, "rigid", EQUILIBRATION_TIME, **common)
    state = equilibrate(box, "flexible", 2 * EQUILIBRATION_TIME, start=state, **common)
    print(f"{options.waters} flexible TIP3P waters, {options.time:g} ps each, without friction, "
          f"{options.platform} platform")
    print("integrator  step (fs)  deviation of the total energy (kJ/mol)  drift (kT/ns per degree of freedom)")
    results = {}
    for name, make, step in RUNS:
        label = f"{name} {1000 * step:g} fs"
        total = round((options.time + 0.5) / step)
        with progress_bar(label, total) as bar:
            energy = run(box, state, make(step), options.time, options.platform, bar.update)
        drift, error = energy.drift()
        print(f"{name:11} {1000 * step:9g}  {energy.deviation:38.2f}  {drift:24.3f} +- {error:.3f}", flush=True)
        results[label] = energy
    with progress_bar("cluster", CLUSTER_STEPS) as bar:
        cluster = run_cluster(bar.update)
    drift, error = cluster.drift()
    ratio = results["Z&Ss 1 fs"].deviation / results["Verlet 0.5 fs"].deviation
    penalty_ratio = results["Mass penalty 4 fs"].deviation / results["Verlet 2 fs"].deviation
    claims = {
        f"Z&Ss at 1 fs deviates {ratio:.2f} times as much as Verlet at 0.5 fs, tolerance {MOST_DEVIATION:g}":
            ratio <= MOST_DEVIATION,
        f"Mass penalty at 4 fs deviates {penalty_ratio:.2f} times as much as Verlet at 2 fs, less than 1":
            penalty_ratio < 1,
        f"Mass penalty, {CLUSTER_WATERS} waters, {CLUSTER_STEPS} steps of {1000 * CLUSTER_STEP:g} fs: deviation "
        f"{cluster.deviation:.3f} kJ/mol, drift {drift:.5f} +- {error:.5f} kT/ns per degree of freedom, "
        "within 3 errors":
            abs(drift) <= 3 * error,
    }
    print()
    for text, holds in claims.items():
        print(f"{text}: {'pass' if holds else 'FAIL'}")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    run_program(main)
