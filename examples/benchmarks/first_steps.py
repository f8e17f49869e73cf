#!/usr/bin/env python
"""What happens in the first steps after velocities have been drawn, or the step has been changed.

Velocities of methods in the order of LangevinMiddle belong to half a step earlier. Drawn ones belong to the present, so
that the first kick is too long by half a step: the kinetic temperature of a drop of flexible TIP3P water swings, and if
velocities are drawn every few steps, averages are biased. Means over independent starts, or over a run, with standard
errors.
"""
import sys
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import GAS_CONSTANT

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.options import OptionParser, add_record_option, each, number, run_program  # noqa: E402
from common.tables import mean_with_error, print_table, with_error  # noqa: E402
from common.water import build_box, nearest_waters  # noqa: E402

TEMPERATURE, FRICTION, WATERS, RADIUS = 300.0, 5.0, 60, 0.85     # K, 1/ps, number, nm
SHOWN = 6                       # steps
REDRAWN = 3, 10, 30, 100        # steps
LARGE, SMALL = "mass penalty, 12 fs", "LangevinMiddle, 2 fs"


def build_drop() -> tuple[mm.System, np.ndarray]:
    """The waters in the middle of OpenMM's box, in vacuum, held together by a wall."""
    box = build_box()
    centre = box.positions.mean(axis=0)
    modeller = nearest_waters(box, WATERS, centre)
    system = app.ForceField("tip3p.xml").createSystem(modeller.topology, rigidWater=False, removeCMMotion=False)
    wall = mm.CustomExternalForce(f"1000*max(0, r-{RADIUS})^2; r=sqrt((x-{centre[0]})^2+(y-{centre[1]})^2"
                                  f"+(z-{centre[2]})^2)")
    for oxygen in range(0, system.getNumParticles(), 3):
        wall.addParticle(oxygen)
    system.addForce(wall)
    return system, np.array(modeller.getPositions().value_in_unit(unit.nanometer))


class Drop:
    """A run of the drop with an integrator."""

    def __init__(self, system: mm.System, integrator: mm.Integrator, seed: int) -> None:
        integrator.setRandomNumberSeed(seed)
        self.integrator = integrator
        self.context = mm.Context(system, integrator, mm.Platform.getPlatform("CPU"), {"Threads": "1"})
        masses = [system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())]
        self.weights = np.array(masses)[:, None] / (3 * len(masses) * GAS_CONSTANT)

    def get_temperature(self, steps: int = 0) -> float:
        """Of the velocities as they are after some steps, K: LangevinMiddle shifts them for its kinetic energy."""
        self.integrator.step(steps)
        velocities = self.context.getState(velocities=True).getVelocities(asNumpy=True)._value
        return float(np.sum(self.weights * velocities**2))

    def follow(self, state: mm.State, seed: int = 0) -> list[float]:
        """Temperatures from a State on, with velocities drawn by a seed or those of the State."""
        self.context.setState(state)
        if seed:
            self.context.setVelocitiesToTemperature(TEMPERATURE, seed)
        return [self.get_temperature(), *(self.get_temperature(1) for _ in range(SHOWN))]

    def redraw(self, state: mm.State, every: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Temperatures, and potential energies of a water in kJ/mol, before velocities are drawn again."""
        self.context.setState(state)
        series = []
        for index in range(steps // every):
            self.context.setVelocitiesToTemperature(TEMPERATURE, index + 1)
            self.integrator.step(every)
            energy = self.context.getState(energy=True).getPotentialEnergy()
            series.append((self.get_temperature(), energy.value_in_unit(unit.kilojoule_per_mole) / WATERS))
        temperatures, energies = np.array(series)[len(series) // 4:].T
        return temperatures, energies


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--starts", type=number(int, 2), default=100, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--steps", type=number(int, 1000), default=60000, metavar="N",
                        help="of the runs in which velocities are drawn again (default: %(default)s)")
    add_record_option(parser)
    options = parser.parse_args()
    system, positions = build_drop()
    langevin = MassPenaltyLangevinIntegrator
    source = Drop(system, langevin(TEMPERATURE, FRICTION, 0.004), 1)
    runs = {LARGE: Drop(system, langevin(TEMPERATURE, FRICTION, 0.012), 2),
            SMALL: Drop(system, mm.LangevinMiddleIntegrator(TEMPERATURE, FRICTION, 0.002), 3)}
    source.context.setPositions(positions)
    mm.LocalEnergyMinimizer.minimize(source.context, 10, 100)
    source.context.setVelocitiesToTemperature(TEMPERATURE, 1)
    source.integrator.step(5000)
    ways = {f"{LARGE}, after 4 fs": (LARGE, False), f"{LARGE}, drawn": (LARGE, True), f"{SMALL}, drawn": (SMALL, True)}
    found: dict[str, list[list[float]]] = {way: [] for way in ways}
    for start in each("starts", range(options.starts)):
        source.integrator.step(250)
        state = source.context.getState(positions=True, velocities=True)
        for way, (name, drawn) in ways.items():
            found[way].append(runs[name].follow(state, start + 1 if drawn else 0))
    rows = [[way, *(with_error(mean, error, 0) for mean, error in zip(
        np.mean(series, axis=0), np.std(series, axis=0) / np.sqrt(len(series))))] for way, series in found.items()]
    print_table(["start", *(f"T after {step} (K)" for step in range(SHOWN + 1))], rows, options.record, "first-steps")
    rows = []
    for name, every in each("redrawn", [(name, every) for name in runs for every in REDRAWN]):
        temperatures, energies = runs[name].redraw(state, every, options.steps)
        rows.append([f"{name}, every {every}", name, str(every), mean_with_error(temperatures, 1),
                     mean_with_error(energies, 2)])
    print_table(["run", "integrator", "velocities drawn every (steps)", "T (K)", "potential energy (kJ/mol)"], rows,
                options.record, "redrawn")


if __name__ == "__main__":
    run_program(main)
