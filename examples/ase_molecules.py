#!/usr/bin/env python
"""Molecules in GFN2-xTB, SevenNet-0 or ANI-1ccx by ASE: MassPenaltyLangevin at the step that examine() recommends, or
at others, against ASE's Langevin at 0.5 fs.

Printed are the means of bond lengths and angles by their elements, and of the energy of a molecule, with blocked
errors; the temperature; and how many evaluations of the forces there were, of how many copies at once, and how fast.
pip install 'openmm-stiff[ase]' rdkit tblite; for tblite, sevenn or torchani==2.0, whose wheels have their weights.
"""
import argparse
import os
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.md.langevin import Langevin
from ase.neighborlist import natural_cutoffs, neighbor_list
from ase.optimize import BFGS
from openmm import unit
from openmmstiff import examine
from openmmstiff.ase import Batch, MassPenaltyLangevin
from openmmstiff.sampling import blockedError

from common.molecules import DRUGS, SMILES, build_atoms
from common.observables import Geometry
from common.options import (OptionParser, add_name_option, add_names_option, add_record_option, add_run_options,
                            add_seed_option, number, progress_bar, run_program)
from common.potentials import POTENTIALS
from common.tables import mean_with_error, print_table

os.environ.setdefault("OMP_NUM_THREADS", "1")  # more do not pay for a small molecule

TEMPERATURE = 300               # K
SMALL_STEP = 0.5                # fs
REFERENCE_FRICTION = 20.0       # 1/ps, of ASE's Langevin: averages do not depend on it, and need fewer steps with it
PICOSECOND = 1000 * units.fs
SETTLING = 0.1                  # of the time of a run, before it
SAMPLE_INTERVAL = 8 * units.fs  # at least

Model = Callable[[list[Atoms]], dict[str, Any]]


def make_tblite() -> Model:
    """GFN2-xTB, one molecule after the other."""
    calculator = POTENTIALS["GFN2-xTB"]()

    def model(systems: list[Atoms]) -> dict[str, Any]:
        energies, forces = zip(*((calculator.get_potential_energy(atoms), calculator.get_forces(atoms))
                                 for atoms in systems))
        return {"energy": energies, "forces": np.concatenate(forces)}

    return model


def make_sevennet() -> Model:
    """SevenNet-0, all molecules as one graph; on a GPU if there is one."""
    from sevenn.atom_graph_data import AtomGraphData
    from sevenn.calculator import SevenNetCalculator
    from sevenn.train.dataload import unlabeled_atoms_to_graph
    from torch_geometric.loader.dataloader import Collater
    calculator, collate = SevenNetCalculator("7net-0"), Collater([])
    calculator.model.set_is_batch_data(True)

    def model(systems: list[Atoms]) -> dict[str, Any]:
        graphs = [unlabeled_atoms_to_graph(atoms, calculator.cutoff) for atoms in systems]
        batch = collate([AtomGraphData.from_numpy_dict(graph) for graph in graphs])
        found = calculator.model(batch.to(calculator.device))
        return {"energy": found["inferred_total_energy"].detach().cpu().numpy(),
                "forces": found["inferred_force"].detach().cpu().numpy()}

    return model


def make_ani1ccx() -> Model:
    """ANI-1ccx, for H, C, N and O; all molecules as one batch, with no atom (-1) where one has fewer; on a GPU if there
    is one."""
    import torch
    from torchani.models import ANI1ccx
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = ANI1ccx(periodic_table_index=True).double().to(device)

    def evaluate(systems: list[Atoms]) -> dict[str, Any]:
        numbers, positions = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in of], True, fill).to(device)
            for of, fill in (([atoms.numbers for atoms in systems], -1), ([atoms.positions for atoms in systems], 0.0)))
        energies = model((numbers, positions.requires_grad_())).energies * units.Hartree
        gradients, = torch.autograd.grad(energies.sum(), positions)
        return {"energy": energies.detach().cpu().numpy(), "forces": -gradients[numbers >= 0].cpu().numpy()}

    return evaluate


MODELS = {"tblite": make_tblite, "sevennet": make_sevennet, "ani1ccx": make_ani1ccx}


def geometry_of(atoms: Atoms) -> Geometry:
    """Its bonds and angles by their elements."""
    pairs = zip(*neighbor_list("ij", atoms, 1.25 * np.array(natural_cutoffs(atoms))))
    return Geometry(atoms.get_chemical_symbols(), [(i, j) for i, j in pairs if i < j])


def run(batch: Batch, runs: list[Langevin | MassPenaltyLangevin], geometry: Geometry, time: float,
        label: str) -> dict[str, np.ndarray]:
    """Series of what Geometry tells, one copy after the other, of the energy in kJ/mol, and of the temperature; time in
    ASE's units."""
    samples, step = [], runs[0].dt
    interval = max(1, round(SAMPLE_INTERVAL / step))
    settling, steps = round(SETTLING * time / step), round(time / step)
    with progress_bar(label, settling + steps) as bar:
        for done in range(0, settling + steps, interval):
            batch.run(runs, interval)
            bar.update(interval)
            if done >= settling:
                copies = [each.atoms for each in runs]
                measured = geometry.measure(np.array([atoms.positions for atoms in copies]))
                energies = [atoms.get_potential_energy() / (units.kJ / units.mol) for atoms in copies]
                samples.append({**{kind: values.mean(axis=1) for kind, values in measured.items()}, "energy": energies,
                                "temperature": [atoms.get_temperature() for atoms in copies]})  # of 3N momenta
    return {name: np.array([each[name] for each in samples]).T.ravel() for name in samples[0]}


def difference(reference: np.ndarray, series: np.ndarray) -> float:
    """In combined errors."""
    return (series.mean() - reference.mean()) / np.hypot(blockedError(reference), blockedError(series))


def compare(name: str, model: Model, options: argparse.Namespace):
    """Run copies of a molecule with each step and print the averages."""
    atoms = build_atoms(name)
    Batch(model, [atoms])
    BFGS(atoms, logfile=None).run(fmax=0.03)
    geometry, count = geometry_of(atoms), options.copies
    steps = options.steps or [examine(atoms, TEMPERATURE).getStepSize().value_in_unit(unit.femtosecond)]
    titles, columns, counts = [], [], []
    for title, make, step, friction, time in (
            ("Langevin", Langevin, SMALL_STEP, REFERENCE_FRICTION, options.reference_time or options.time),
            *(("mass penalty", MassPenaltyLangevin, step, options.friction, options.time) for step in steps)):
        copies = [atoms.copy() for _ in range(count)]
        batch, rng = Batch(model, copies), np.random.default_rng(options.seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*fixcm", category=FutureWarning)
            runs = [make(copy, step * units.fs, temperature_K=TEMPERATURE, friction=friction / PICOSECOND,
                         fixcm=options.fixcm, rng=rng) for copy in copies]
        titles.append(f"{title}, {step:g} fs")
        start = perf_counter()
        columns.append(run(batch, runs, geometry, time * PICOSECOND, f"{name}, {titles[-1]}"))
        steps_made = runs[0].nsteps
        counts.append((f"{count} x {time:g}", steps_made, steps_made * count,
                       f"{steps_made / (perf_counter() - start):.3g}"))

    rows = []
    for kind, reference in columns[0].items():
        digits = (1, 4, 2)[kind.count("-")]
        rows.append([kind, mean_with_error(reference, digits),
                     *(f"{mean_with_error(column[kind], digits)} ({difference(reference, column[kind]):+.1f})"
                       for column in columns[1:])])
    rows += [[what, *map(str, numbers)] for what, numbers in zip(("ps", "steps", "steps of molecules", "steps/s"),
                                                                 zip(*counts))]
    print()
    print_table([name, *titles], rows, options.record, f"{options.calculator}-{name}")


def main():
    parser = OptionParser(__doc__)
    add_names_option(parser, "--molecules", [*SMILES, *DRUGS], ("ethanol", "benzene", "aspirin"))
    add_name_option(parser, "--calculator", MODELS, "tblite")
    parser.add_argument("--copies", type=number(int, 1), default=1, metavar="N",
                        help="of each molecule, run in one batch (default: %(default)s)")
    parser.add_argument("--fixcm", action="store_true",
                        help="hold the centre of mass, as ASE's Langevin does by default")
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", metavar="FS",
                        help="of the mass penalty, fs (default: the recommended one)")
    add_run_options(parser, time=50.0, friction=5.0)
    parser.add_argument("--reference-time", type=number(float, 1, "ps"), metavar="PS",
                        help="of the run at 0.5 fs, ps (default: as --time)")
    add_seed_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    print("Lengths in Angstrom, angles in degrees, energies in kJ/mol, temperatures in K; standard errors of the last "
          "digits; (differences in errors)")
    model = MODELS[options.calculator]()
    for name in options.molecules:
        compare(name, model, options)


if __name__ == "__main__":
    run_program(main)
