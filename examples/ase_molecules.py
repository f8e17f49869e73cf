#!/usr/bin/env python
"""Molecules in GFN2-xTB, SevenNet-0 or ANI-1ccx by ASE: MassPenaltyLangevin at the step that examine() recommends, or
at others, against ASE's Langevin at 0.5 fs.

Printed are the means of bond lengths and angles by their elements, and of the energy of a molecule, with blocked
errors; the temperature; how many evaluations of the forces there were, of how many copies at once, and how fast; at
the end how far the means are from those of 0.5 fs. All runs of a molecule begin with the same equilibrated copies, and
are kept in a file: what has been done is not done again.
pip install 'openmm-stiff[ase]' rdkit tblite; for tblite, sevenn or torchani==2.0, whose wheels have their weights.
"""
import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
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
from common.options import (OptionParser, add_name_option, add_names_option, add_output_option, add_processes_option,
                            add_record_option, add_run_options, add_seed_option, number, progress_bar, run_program)
from common.potentials import POTENTIALS
from common.runs import FAILURES, Result, results_of
from common.tables import mean_with_error, print_table

os.environ.setdefault("OMP_NUM_THREADS", "1")  # more do not pay for a small molecule

TEMPERATURE = 300               # K
SMALL_STEP = 0.5                # fs
REFERENCE_FRICTION = 20.0       # 1/ps, of ASE's Langevin: averages do not depend on it, and need fewer steps with it
PICOSECOND = 1000 * units.fs
SETTLING = 0.1                  # of the time of a run, before it
SAMPLE_INTERVAL = 8 * units.fs  # at least
STEPS = "step (fs), steps of one copy, steps/s"
ELSEWHERE = ("molecules", "processes", "report", "output", "record")    # options that change no run

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


def make_ani1ccx(network: int | None = None) -> Model:
    """ANI-1ccx, for H, C, N and O, or one of its eight networks; all molecules as one batch, with no atom (-1) where
    one has fewer; on a GPU if there is one."""
    import torch
    from torchani.models import ANI1ccx
    device = "cuda" if torch.cuda.is_available() else "cpu"
    whole = ANI1ccx(periodic_table_index=True)
    model = (whole if network is None else whole[network]).double().to(device)

    def evaluate(systems: list[Atoms]) -> dict[str, Any]:
        numbers, positions = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in of], True, fill).to(device)
            for of, fill in (([atoms.numbers for atoms in systems], -1), ([atoms.positions for atoms in systems], 0.0)))
        energies = model((numbers, positions.requires_grad_())).energies * units.Hartree
        gradients, = torch.autograd.grad(energies.sum(), positions)
        return {"energy": energies.detach().cpu().numpy(), "forces": -gradients[numbers >= 0].cpu().numpy()}

    return evaluate


MODELS: dict[str, Callable[[], Model]] = {
    "tblite": make_tblite, "sevennet": make_sevennet, "ani1ccx": make_ani1ccx,
    "ani1ccx-one": partial(make_ani1ccx, 0)}


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


def begin(model: Model, start: list[Atoms], make: type[Langevin] | type[MassPenaltyLangevin], step: float,
          friction: float, options: argparse.Namespace) -> tuple[Batch, list[Langevin | MassPenaltyLangevin]]:
    """Copies of the molecules in one batch, each with an integrator; step in fs, friction in 1/ps."""
    copies, rng = [atoms.copy() for atoms in start], np.random.default_rng(options.seed)
    batch = Batch(model, copies)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fixcm", category=FutureWarning)
        return batch, [make(copy, step * units.fs, temperature_K=TEMPERATURE, friction=friction / PICOSECOND,
                            fixcm=options.fixcm, rng=rng) for copy in copies]


def make_runs(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Series of copies of a molecule with each step, and STEPS, by its title."""
    model, atoms = MODELS[options.calculator](), build_atoms(name)
    Batch(model, [atoms])
    BFGS(atoms, logfile=None).run(fmax=0.03)
    geometry = geometry_of(atoms)
    steps = options.steps or [examine(atoms, TEMPERATURE).getStepSize().value_in_unit(unit.femtosecond)]
    batch, runs = begin(model, [atoms] * options.copies, MassPenaltyLangevin, steps[0], options.friction, options)
    batch.run(runs, round(options.equilibration / (steps[0] / 1000)))
    start, found = [each.atoms for each in runs], {}
    for title, make, step, friction, time in (
            ("Langevin", Langevin, SMALL_STEP, REFERENCE_FRICTION, options.reference_time or options.time),
            *(("mass penalty", MassPenaltyLangevin, step, options.friction, options.time) for step in steps)):
        batch, runs = begin(model, start, make, step, friction, options)
        title, begun = f"{title}, {step:g} fs", perf_counter()
        series = run(batch, runs, geometry, time * PICOSECOND, f"{name}, {title}")
        made = runs[0].nsteps
        found[title] = {**series, STEPS: np.array([step, made, made / (perf_counter() - begun)])}
    return found


def try_runs(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Those of make_runs(), or how one of them has lost its molecule."""
    try:
        return make_runs(name, options)
    except RuntimeError as error:
        if not isinstance(error.__cause__, (RuntimeError, *FAILURES)):  # what its Batch has raised this from
            raise
        return {"failure": str(error)}


def compare(name: str, result: Result, options: argparse.Namespace) -> list[list[str]]:
    """Print the averages of a molecule; returned are rows of the last table, one for each step."""
    columns = {title: dict(found) for title, found in result.items() if isinstance(found, dict)}
    counts = [[f"{step:g}", f"{made:.0f}", f"{made * options.copies:.0f}", f"{rate:.3g}"]
              for step, made, rate in (column.pop(STEPS) for column in columns.values())]
    reference, *others = columns.values()
    off = [{kind: difference(reference[kind], column[kind]) for kind in reference} for column in others]
    rows = []
    for kind in reference:
        digits = (1, 4, 2)[kind.count("-")]
        rows.append([kind, mean_with_error(reference[kind], digits),
                     *(f"{mean_with_error(column[kind], digits)} ({errors[kind]:+.1f})"
                       for column, errors in zip(others, off))])
    _, *numbers = zip(*counts)
    rows += [[what, *each] for what, each in zip(("steps", "steps of molecules", "steps/s"), numbers)]
    print()
    print_table([name, *columns], rows, None if len(options.molecules) > 1 else options.record,
                f"{options.calculator}-{name}")
    found = []
    for (step, _, steps, _), column, errors in zip(counts[1:], others, off):
        most = max(errors, key=lambda kind: abs(errors[kind]))
        found.append([name, step, steps, *(mean_with_error(each["temperature"], 1) for each in (column, reference)),
                      str(len(errors)), f"{np.sqrt(np.mean(np.square(list(errors.values())))):.2f}",
                      f"{most} {errors[most]:+.1f}"])
    return found


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
    parser.add_argument("--equilibration", type=number(float, 0, "ps"), default=1.0, metavar="PS",
                        help="of the copies that all runs begin with, by the mass penalty (default: %(default)s)")
    add_seed_option(parser)
    add_processes_option(parser)
    parser.add_argument("--report", action="store_true", help="make no runs, report those of before")
    add_output_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    settings = {name: value for name, value in sorted(vars(options).items()) if name not in ELSEWHERE}
    folder = options.output / "_".join(f"{name}={value}" for name, value in settings.items()).replace(" ", "")
    parser.make_folder(folder)
    made = results_of({name: partial(try_runs, name, options) for name in options.molecules}, folder,
                      options.processes, options.report)
    print("Lengths in Angstrom, angles in degrees, energies in kJ/mol, temperatures in K; standard errors of the last "
          "digits; (differences in errors)")
    rows: list[list[str]] = []
    for name, result in made.items():
        if "failure" in result:
            print(f"{name}: {result['failure']}")
            rows.append([name, "", "lost"])
        else:
            rows += compare(name, result, options)
    print()
    print_table(["molecule", "step (fs)", "steps of molecules", "T (K)", f"T at {SMALL_STEP:g} fs (K)", "means",
                 "off by (errors), r.m.s.", "most"], rows, options.record if len(options.molecules) > 1 else None,
                f"{options.calculator}-molecules-{options.equilibration:g}ps")


if __name__ == "__main__":
    run_program(main)
