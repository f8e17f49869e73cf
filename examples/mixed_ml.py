#!/usr/bin/env python
"""A mixed system at large steps: a ligand by an expensive potential, flexible water by a force field, or with --residues a
peptide and rigid water. Alanine dipeptide stands for the ligand.

As one writes it with OpenMM-ML for MACE, AIMNet2 or ANI; here the potential is GFN2-xTB or ANI-1ccx by its ASE
calculator, which downloads nothing: pip install openmmml ase, and tblite or torchani==2.0. The mass penalty finds the
bonds and angles of the water in the force field, and is told those of the solute by addPairsFromTopology().
LangevinMiddleIntegrator at 1 fs is the reference.
"""
import os
from collections.abc import Iterator

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import sample

from common.options import (OptionParser, add_name_option, add_platform_options, add_record_option, add_run_options,
                            number, progress_bar, run_program)
from common.potentials import POTENTIALS
from common.proteins import ALANINE, VILLIN, build_alanine, cut_villin
from common.tables import NOTE, mean_with_error, print_table
from common.water import advance
from tip3p_water import TEMPERATURE

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of tblite: more do not pay for a small molecule
EDGE, LARGE_EDGE = 2.2, 3.6 # nm, of the box: 320 waters or so; with a peptide, which is so far from the ligand
APART = 1.3                 # nm
CUTOFF = 0.9                # nm
EQUILIBRATION = (20.0, 0.001, 5.0)      # friction (1/ps), step and time (ps), by the force field alone
RELAXATION = (20.0, 0.001, 0.5)         # then with the potential
SETTLING_TIME = 0.5         # ps, with each run's own integrator
SAMPLE_INTERVAL = 0.024     # ps
# Groups of forces: between molecules, the potential within the solute, the bonded ones of a peptide.
GROUPS = {"NonbondedForce": 1, "PythonForce": 2, "HarmonicBondForce": 3, "HarmonicAngleForce": 4,
          "PeriodicTorsionForce": 5}
ENERGIES = {"within": {2}, "between": {1}}
OF_PEPTIDE = {"bonds": {3}, "angles": {4}, "torsions": {5}}


def build_mixed_system(topology: app.Topology, system: mm.System, solute: list[int], potential: str) -> mm.System:
    """The System with all bonds, angles, torsions and nonbonded forces within the solute replaced by the potential."""
    from openmmml import MLPotential
    # With machine-learned potentials these lines are all, of which the first names the model:
    #     potential = MLPotential("mace-off23-small")     # or "aimnet2", or "ani2x"
    #     return potential.createMixedSystem(topology, system, solute)
    import ase
    numbers = [atom.element.atomic_number for atom in topology.atoms()]
    molecule = ase.Atoms([numbers[i] for i in solute], calculator=POTENTIALS[potential]())
    mixed = MLPotential("ase").createMixedSystem(topology, system, solute, aseAtoms=molecule, mlLongRange=False)
    for force in mixed.getForces():
        force.setForceGroup(GROUPS.get(force.getName(), 0))
    return mixed


class Lengths:
    """The bond lengths of the ligand in a State [nm], by kind."""

    def __init__(self, topology: app.Topology, solute: list[int]):
        self.kinds: dict[str, list[tuple[int, int]]] = {"X-H": [], "X-Y": []}
        for one, other in topology.bonds():
            if one.index in solute:
                kind = "X-H" if app.element.hydrogen in (one.element, other.element) else "X-Y"
                self.kinds[kind].append((one.index, other.index))

    def __call__(self, state: mm.State) -> dict[str, np.ndarray]:
        x = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
        return {kind: np.linalg.norm(x[np.array(bonds)[:, 0]] - x[np.array(bonds)[:, 1]], axis=1)
                for kind, bonds in self.kinds.items()}


def mean_and_deviation(lengths: np.ndarray) -> str:
    """Of bond lengths, an array of shape (samples, bonds): their mean and the deviation of each from its own mean."""
    return f"{mean_with_error(lengths.mean(axis=1), 5)}, {np.sqrt(lengths.var(axis=0).mean()):.5f}"


def main():
    parser = OptionParser(__doc__)
    add_run_options(parser, time=12.0, friction=5.0)
    add_name_option(parser, "--potential", POTENTIALS, "GFN2-xTB")      # of the solute
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", default=[8.0, 12.0], metavar="FS",
                        help="step sizes of MassPenaltyLangevin, fs (default: 8 12)")
    parser.add_argument("--residues", type=number(int, 0, most=VILLIN - 1), default=0, metavar="N",
                        help="of villin, beside the ligand, with constraints=HBonds and rigid water (default: 0)")
    add_platform_options(parser, ("CPU", "Reference", "OpenCL", "CUDA", "HIP"))
    add_record_option(parser)
    options = parser.parse_args()
    platform = mm.Platform.getPlatform(options.platform)

    def simulate(system: mm.System, positions, integrator: mm.Integrator) -> app.Simulation:
        integrator.setRandomNumberSeed(options.seed)
        simulation = app.Simulation(topology, system, integrator, platform)
        simulation.context.setPositions(positions)
        return simulation

    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    modeller = build_alanine(forcefield)
    solute = list(range(modeller.topology.getNumAtoms()))
    if options.residues:
        peptide = cut_villin(options.residues)
        x = np.array(peptide.positions.value_in_unit(unit.nanometer))
        modeller.add(peptide.topology, (x - x.mean(axis=0) + [0.3, 0.3, APART]) * unit.nanometer)
    edge = LARGE_EDGE if options.residues else EDGE
    modeller.addSolvent(forcefield, model="tip3p", boxSize=mm.Vec3(edge, edge, edge) * unit.nanometer,
                        neutralize=False)
    topology, positions = modeller.topology, modeller.positions
    mm_system = forcefield.createSystem(topology, nonbondedMethod=app.PME, nonbondedCutoff=CUTOFF * unit.nanometer,
                                        constraints=app.HBonds if options.residues else None,
                                        rigidWater=bool(options.residues))
    system = build_mixed_system(topology, mm_system, solute, options.potential)
    # The first step of a minimization is so long that an SCF may fail, so the force field makes it.
    for each, (friction, step, time), minimize in ((mm_system, EQUILIBRATION, True), (system, RELAXATION, False)):
        simulation = simulate(each, positions, mm.LangevinMiddleIntegrator(TEMPERATURE, friction, step))
        if minimize:
            simulation.minimizeEnergy()
        simulation.context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
        steps = round(time / step)
        with progress_bar("equilibration", steps) as bar:
            advance(simulation.integrator, steps, bar.update, 100)
        positions = simulation.context.getState(positions=True).getPositions()

    waters = topology.getNumResidues() - len(ALANINE) - options.residues
    beside = (f"{options.residues} residues of villin with HBonds, {waters} rigid" if options.residues
              else f"{waters} flexible")
    print(f"Alanine dipeptide in {options.potential}, {beside} TIP3P waters, {TEMPERATURE:g} K, friction "
          f"{options.friction:g}/ps, {options.time:g} ps each, {options.platform}\n")
    energies = ENERGIES | (OF_PEPTIDE if options.residues else {})

    def rows() -> Iterator[list[str]]:
        for label, make, fs in (("LangevinMiddle", mm.LangevinMiddleIntegrator, 1.0),
                                *(("mass penalty", MassPenaltyLangevinIntegrator, fs) for fs in options.steps)):
            integrator = make(TEMPERATURE, options.friction, fs / 1000)
            if make is MassPenaltyLangevinIntegrator:
                # The potential has no bonds that the integrator could recognize: those of the Topology are stiff.
                addPairsFromTopology(integrator, topology, system, positions, atoms=solute)
            simulation = simulate(system, positions, integrator)
            simulation.context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
            burst = max(1, round(1000 * SAMPLE_INTERVAL / fs))
            samples = round(options.time / (burst * fs / 1000))
            integrator.step(round(1000 * SETTLING_TIME / fs))
            with progress_bar(label, burst * samples) as bar:
                found = sample(simulation.context, burst, samples, observe=Lengths(topology, solute),
                               progress=bar.update, groups=energies)
            yield [label, f"{fs:g}", mean_with_error(found.temperature, 1),
                   *map(mean_and_deviation, found.observed.values()),
                   *(mean_with_error(series, 1) for series in found.energies.values()),
                   f"{1000 * found.seconds / found.steps:.1f}"]

    print_table(["integrator", "step (fs)", "T (K)", "X-H mean, s.d. (nm)", "heavy atoms (nm)", "solute (kJ/mol)",
                 "between molecules (kJ/mol)", *(f"{kind} of the peptide (kJ/mol)" for kind in energies if kind in
                                                 OF_PEPTIDE), "ms/step"], rows(), options.record,
                f"mixed-{options.potential}" + ("-peptide" if options.residues else ""))
    print(NOTE)


if __name__ == "__main__":
    run_program(main)
