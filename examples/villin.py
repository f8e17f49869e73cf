#!/usr/bin/env python
"""A protein with all its bonds and angles flexible, at the steps of a constrained one.

The villin headpiece of OpenMM's test.pdb in vacuum or in water, with ImpulseLangevinIntegrator at growing steps. The
references are LangevinMiddle without constraints at 1 fs, and with constrained bonds to hydrogen at 4 fs.
Energies are those of the protein's bonds, angles and torsions, and of all other forces, in kT.
"""
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import ImpulseLangevinIntegrator
from openmmstiff.sampling import GAS_CONSTANT, sample

from common.options import (OptionParser, add_record_option, add_run_options, choice, number, progress_bar,
                            run_program)
from common.tables import mean_with_error, print_table
from common.water import advance

TEMPERATURE = 300.0      # K
KT = GAS_CONSTANT * TEMPERATURE
SAMPLE_INTERVAL = 0.1    # ps
SETTLING_TIME = 5.0      # ps
GROUPS = {"HarmonicBondForce": 1, "HarmonicAngleForce": 2, "PeriodicTorsionForce": 3}  # 0: everything else
ENERGIES = {"bonds": {1}, "angles": {2}, "torsions": {3}, "other": {0}}
IONS = ("CL", "NA")

# Label, constraints, integrator, steps in fs.
SERIES = {
    "middle": ("LangevinMiddle, flexible", None, mm.LangevinMiddleIntegrator, (1.0,)),
    "constrained": ("LangevinMiddle, HBonds", app.HBonds, mm.LangevinMiddleIntegrator, (4.0,)),
    "impulse": ("Projected impulse, flexible", None, ImpulseLangevinIntegrator, (2.0, 4.0, 5.0, 6.0)),
}
COLUMNS = ["integrator, step (fs)", "T (K)", "bonds", "angles", "torsions", "all else", "ns/day"]


def read_villin(solvent: str) -> app.Modeller:
    """The protein with its water and ions, or alone."""
    pdb = app.PDBFile(str(Path(app.__file__).parent / "data" / "test.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    if solvent == "vacuum":
        modeller.deleteWater()
        modeller.delete([residue for residue in modeller.topology.residues() if residue.name.upper() in IONS])
    return modeller


def build_villin(modeller: app.Modeller, solvent: str, constraints, rigid_water: bool = True,
                 hydrogen_mass: float | None = None) -> mm.System:
    """A System with its forces in the groups of GROUPS.

    Molecules of rigid water are no blocks, OpenMM's SETTLE holds them; the bonds and angles of flexible water are
    in the groups of the protein's. A mass of the hydrogens (dalton) is taken from the atoms they are bonded to.
    """
    method = {"nonbondedMethod": app.NoCutoff} if solvent == "vacuum" else {
        "nonbondedMethod": app.PME, "nonbondedCutoff": 0.9 * unit.nanometer}
    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")
    system = forcefield.createSystem(modeller.topology, constraints=constraints, rigidWater=rigid_water,
                                     hydrogenMass=hydrogen_mass, **method)
    for force in system.getForces():
        force.setForceGroup(GROUPS.get(force.getName(), 0))
    return system


def main():
    parser = OptionParser(__doc__)
    add_villin_options(parser)
    parser.add_argument("--integrators", type=choice(SERIES), nargs="+", default=list(SERIES), metavar="NAME",
                        help=f"the integrators to run, of {', '.join(SERIES)} (default: all)")
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", metavar="FS",
                        help="step sizes for every integrator, fs (default: each has its own)")
    options = parser.parse_args()
    modeller = read_villin(options.solvent)
    print_heading(modeller, options)

    def rows() -> Iterator[list[str]]:
        for name in options.integrators:
            label, constraints, make, steps = SERIES[name]
            for step in (fs / 1000 for fs in options.steps or steps):
                yield make_run(modeller, build_villin(modeller, options.solvent, constraints),
                               make(TEMPERATURE, options.friction, step), label, options)[0]

    print_table(COLUMNS, rows(), options.record, f"villin-{options.solvent}")


def add_villin_options(parser: OptionParser):
    """--solvent, --time, --friction, --seed, --record."""
    parser.add_argument("--solvent", type=choice(("vacuum", "water")), default="vacuum", metavar="NAME",
                        help="vacuum or water (default: %(default)s)")
    add_run_options(parser, time=20.0, friction=5.0)
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed (default: %(default)s)")
    add_record_option(parser)


def print_heading(modeller: app.Modeller, options):
    print(f"Villin in {options.solvent}, {modeller.topology.getNumAtoms()} atoms, {TEMPERATURE:g} K, friction "
          f"{options.friction:g}/ps, {options.time:g} ps each, energies in kT\n", flush=True)


def make_run(modeller: app.Modeller, system: mm.System, integrator: mm.Integrator, label: str,
             options) -> tuple[list[str], np.ndarray | None]:
    """Make a run; its row of the table and its series, those of run(), or None if it fails."""
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    integrator.setRandomNumberSeed(options.seed)
    context = mm.Context(system, integrator, mm.Platform.getPlatform("CPU"))
    context.setPositions(modeller.positions)
    mm.LocalEnergyMinimizer.minimize(context, 10, 200)
    context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    title = f"{options.solvent}: {label}, {1000 * step:g}"
    try:
        speed, series = run(context, integrator, step, options.time, label)
    except (FloatingPointError, mm.OpenMMException):
        return [title, f"fails after {context.getTime()}"], None
    return [title, *(mean_with_error(column, 0) for column in series), f"{speed:.2f}"], series


def run(context: mm.Context, integrator: mm.Integrator, step: float, ps: float, label: str):
    """ns/day, and the series of temperatures (K) and of the energies of each kind (kT)."""
    burst = max(1, round(SAMPLE_INTERVAL / step))
    samples, settling = round(ps / (burst * step)), round(SETTLING_TIME / step)
    with progress_bar(f"{label}, {1000 * step:g} fs", settling + samples * burst) as bar:
        advance(integrator, settling, bar.update)
        found = sample(context, burst, samples, groups=ENERGIES, progress=bar.update)
    return found.nsPerDay, np.array([found.temperature, *(energy / KT for energy in found.energies.values())])


if __name__ == "__main__":
    run_program(main)
