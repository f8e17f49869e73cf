#!/usr/bin/env python
"""Validate the energy conservation of ZhangSkeelIntegrator on flexible TIP3P water, against Verlet.

Every run starts from the same equilibrated state, without friction. The energy of ZhangSkeelIntegrator is that of
the Context's positions. The exit code is 0 if every claim holds and 1 if not.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import ZhangSkeelIntegrator
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from options import OptionParser, add_box_options, number, run_program  # noqa: E402
from water import advance, build_box, build_system, equilibrate  # noqa: E402

TEMPERATURE = 300.0      # K
EQUILIBRATION_TIME = 5.0  # ps, rigid; then twice as long flexible
SAMPLE_INTERVAL = 0.006  # ps
BLOCKS = 8               # for the error of the drift
MOST_DEVIATION = 1.5     # of Z&Ss at 1 fs, as a multiple of Verlet's at 0.5 fs
KT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole / unit.kelvin) * TEMPERATURE

RUNS = [("Verlet", mm.VerletIntegrator, 0.0005), ("Verlet", mm.VerletIntegrator, 0.001),
        ("Z&Ss", ZhangSkeelIntegrator, 0.001), ("Z&Ss", ZhangSkeelIntegrator, 0.002),
        ("Z&Ss", ZhangSkeelIntegrator, 0.003)]


@dataclass
class Energy:
    """Total energies (kJ/mol) of a run, one every SAMPLE_INTERVAL."""
    series: np.ndarray
    degrees_of_freedom: int

    @property
    def deviation(self) -> float:
        return float(self.series.std())

    def drift(self) -> tuple[float, float]:
        """Slope of a line through the energies, and its error from the blocks' scatter; kT/ns per degree of freedom."""
        means = np.array([block.mean() for block in np.array_split(self.series, BLOCKS)])
        nanoseconds = SAMPLE_INTERVAL * len(self.series) / 1000
        times = (np.arange(BLOCKS) + 0.5) / BLOCKS * nanoseconds
        slope, offset = np.polyfit(times, means, 1)
        scatter = np.sum((means - slope * times - offset) ** 2) / (BLOCKS - 2)
        error = np.sqrt(scatter / np.sum((times - times.mean()) ** 2))
        scale = KT * self.degrees_of_freedom
        return slope / scale, error / scale


def run(box, state: mm.State, integrator: mm.Integrator, time: float, platform: str, progress) -> Energy:
    system = build_system(box, "flexible")
    simulation = app.Simulation(box.topology, system, integrator, mm.Platform.getPlatform(platform))
    context = simulation.context
    context.setState(state)
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    advance(integrator, round(0.5 / step), progress)
    energies = np.empty(round(time / SAMPLE_INTERVAL))
    for i in range(len(energies)):
        advance(integrator, round(SAMPLE_INTERVAL / step), progress)
        found = context.getState(energy=True)
        energies[i] = (found.getPotentialEnergy() + found.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)
    return Energy(energies, 3 * system.getNumParticles() - 3)


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
        with tqdm(total=total, desc=label, unit="step", leave=False,
                  mininterval=0.5 if sys.stderr.isatty() else 30) as bar:
            energy = run(box, state, make(step), options.time, options.platform, bar.update)
        drift, error = energy.drift()
        print(f"{name:11} {1000 * step:9g}  {energy.deviation:38.2f}  {drift:24.3f} +- {error:.3f}", flush=True)
        results[label] = energy
    ratio = results["Z&Ss 1 fs"].deviation / results["Verlet 0.5 fs"].deviation
    holds = ratio <= MOST_DEVIATION
    print(f"\nZ&Ss at 1 fs deviates {ratio:.2f} times as much as Verlet at 0.5 fs, tolerance {MOST_DEVIATION:g}: "
          f"{'pass' if holds else 'FAIL'}")
    return 0 if holds else 1


if __name__ == "__main__":
    run_program(main)
