#!/usr/bin/env python
"""AMOEBA water (216 molecules, PME): the mass penalty at large steps, on any platform of OpenMM.

An ordinary script, in which the line of the integrator is changed: LangevinMiddleIntegrator at 1 fs is the reference.
The waters of AMOEBA are flexible, and a step costs so much that what an integrator does in the host's memory does not
count.
"""
from time import perf_counter

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator

from any_platform import find_platforms, simulate
from options import OptionParser, add_run_options, choice, number, progress_bar, run_program
from sampling import system_temperature
from tip3p_water import TEMPERATURE, with_error
from water import advance, build_box

CUTOFF = 0.7               # nm, of PME and of the van der Waals forces
POLARIZATION_TOLERANCE = 1e-5
EQUILIBRATION = (0.001, 1.0)  # step and time, ps
SETTLING_TIME = 0.5        # ps, with each run's own integrator
SAMPLE_INTERVAL = 0.012    # ps


def build_system(topology: app.Topology, polarization: str) -> mm.System:
    """Bonds, angles and the like are in group 1, the van der Waals and polarizable forces in 0."""
    forcefield = app.ForceField("amoeba2018.xml")
    system = forcefield.createSystem(topology, nonbondedMethod=app.PME, nonbondedCutoff=CUTOFF * unit.nanometer,
                                     vdwCutoff=CUTOFF * unit.nanometer, constraints=None, rigidWater=False,
                                     polarization=polarization, mutualInducedTargetEpsilon=POLARIZATION_TOLERANCE)
    for force in system.getForces():
        if not isinstance(force, (mm.AmoebaMultipoleForce, mm.AmoebaVdwForce)):
            force.setForceGroup(1)
    return system


def run(simulation: app.Simulation, ps: float, label: str):
    """Settle, then sample: energies per water (kJ/mol), temperatures (K), O-H lengths (nm); and ms per step."""
    context, integrator = simulation.context, simulation.integrator
    waters = context.getSystem().getNumParticles() // 3
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    burst, samples = round(SAMPLE_INTERVAL / step), round(ps / SAMPLE_INTERVAL)
    series = np.empty((5, samples))
    seconds = 0.0
    with progress_bar(label, samples) as bar:
        for _ in range(round(SETTLING_TIME / step / burst)):
            integrator.step(burst)
        for i in range(samples):
            begin = perf_counter()
            integrator.step(burst)
            state = context.getState(positions=True)  # waits for the device
            seconds += perf_counter() - begin
            molecules = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer).reshape(waters, 3, 3)
            state = context.getState(energy=True)
            bonded = context.getState(energy=True, groups={1}).getPotentialEnergy()
            bonded = bonded.value_in_unit(unit.kilojoule_per_mole) / waters
            whole = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole) / waters
            lengths = np.linalg.norm(molecules[:, 1:] - molecules[:, :1], axis=2)
            series[:, i] = whole - bonded, bonded, system_temperature(context, state), lengths.mean(), lengths.var()
            bar.update()
    return series, 1e3 * seconds / (samples * burst)


def main():
    parser = OptionParser(__doc__)
    add_run_options(parser, time=3.0, friction=5.0)
    parser.add_argument("--platform", default=find_platforms()[-1], metavar="NAME[:PRECISION]",
                        help="default: %(default)s")
    parser.add_argument("--polarization", type=choice(("mutual", "extrapolated", "direct")), default="mutual",
                        metavar="KIND", help="mutual, extrapolated or direct (default: %(default)s)")
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", default=[4.0, 6.0], metavar="FS",
                        help="step sizes of MassPenaltyLangevin, fs (default: 4 6)")
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed (default: %(default)s)")
    options = parser.parse_args()
    box = build_box(216)
    system = build_system(box.topology, options.polarization)
    step, time = EQUILIBRATION
    start = simulate(box, system, box.positions, mm.LangevinMiddleIntegrator(TEMPERATURE, 20, step), options.platform,
                     options.seed)
    steps = round(time / step)
    with progress_bar("equilibration", steps) as bar:
        advance(start.integrator, steps, bar.update)
    positions = start.context.getState(positions=True).getPositions()
    del start

    print(f"216 AMOEBA waters, {options.polarization} polarization, {TEMPERATURE:g} K, "
          f"friction {options.friction:g}/ps, {options.time:g} ps each, {options.platform}\n")
    columns = "{:20}{:>4}{:>9}{:>11}  {:13} {:15} {:15} {:>8} {:>8}"
    print(columns.format("", "step", "", "evaluations", "", "energies (kJ/", "mol per water)", "O-H (nm)", ""))
    print(columns.format("integrator", "fs", "ms/step", "per ps", "T (K)", "nonbonded", "bonded", "mean", "s.d."),
          flush=True)
    runs = [(mm.LangevinMiddleIntegrator, 1.0)] + [(MassPenaltyLangevinIntegrator, fs) for fs in options.steps]
    for make, fs in runs:
        integrator = make(TEMPERATURE, options.friction, fs / 1000)
        simulation = simulate(box, system, positions, integrator, options.platform, options.seed)
        label = make.__name__.removesuffix("Integrator")
        (nonbonded, bonded, temperature, length, variance), milliseconds = run(simulation, options.time, label)
        print(columns.format(label, f"{fs:g}", f"{milliseconds:.1f}", f"{1000 / fs:.0f}", with_error(temperature, 1),
                             with_error(nonbonded, 2), with_error(bonded, 3), f"{length.mean():.5f}",
                             f"{variance.mean() ** 0.5:.5f}"), flush=True)
    print("\n+-: one standard error by blocking; on runs of a few ps it is a lower bound.")


if __name__ == "__main__":
    run_program(main)
