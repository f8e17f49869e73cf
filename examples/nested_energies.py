#!/usr/bin/env python
"""Ensembles of a potential from a few hundred of its energies: NestedSampler with a cheap potential as the surrogate.

Printed are what the surrogate is worth, how many energies of the target an independent sample of the slowest torsion
takes, and populations of that torsion. With --direct averages are compared with runs of the target itself: the mass
penalty at 12 fs, and ASE's Langevin at 0.5 fs.

Results are kept in files: what has been done is not done again.
"""
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.calculators.calculator import Calculator
from ase.md.langevin import Langevin
from ase.optimize import BFGS
from openmmstiff.ase import MassPenaltyLangevin
from openmmstiff.nested import NestedSampler
from openmmstiff.sampling import blockedError

from ase_molecules import geometry_of
from common.molecules import DRUGS, SMILES, build_atoms, find_torsions
from common.observables import Geometry
from common.options import (OptionParser, add_name_option, add_names_option, add_output_option, add_processes_option,
                            add_record_option, add_seed_option, number, progress_bar, run_program)
from common.potentials import POTENTIALS
from common.runs import results_of
from common.tables import mean_with_error, print_table, with_error
from common.xtb import MOLECULES as SMALL

TEMPERATURE = 300                   # K
STEP = 12 * units.fs
FRICTION = 0.005 / units.fs
TRANS = 120                         # degrees, from here on
KILOJOULES = units.kJ / units.mol
RUNS = {"mass penalty, 12 fs": (MassPenaltyLangevin, STEP, FRICTION),
        "Langevin, 0.5 fs": (Langevin, 0.5 * units.fs, 4 * FRICTION)}
SAMPLE_INTERVAL = 24 * units.fs
SETTLING = 3000 * units.fs


def build(name: str) -> tuple[Atoms, dict[str, tuple[int, ...]]]:
    """A molecule, and its torsions."""
    if name in SMALL:
        molecule = SMALL[name]
        return (Atoms([element.symbol for element in molecule.elements], 10 * np.array(molecule.positions)),
                {"torsion": molecule.torsion})
    return build_atoms(name), {f"torsion {'-'.join(map(str, each))}": each for each in find_torsions(name)}


class Observables:
    """Of a molecule: lengths (Angstrom) and angles (degrees) by kind, torsions, and the energy (kJ/mol)."""

    def __init__(self, atoms: Atoms, torsions: dict[str, tuple[int, ...]]):
        self.geometry: Geometry = geometry_of(atoms)
        self.torsions = torsions

    def __call__(self, atoms: Atoms) -> dict[str, float]:
        found = {kind: float(values.mean()) for kind, values in self.geometry.measure(atoms.positions).items()}
        for name, torsion in self.torsions.items():
            first, second, third, fourth = torsion
            angle = atoms.get_dihedral(first, second, third, fourth)
            found |= {f"{name}, cos": np.cos(np.radians(angle)), f"{name}, sin": np.sin(np.radians(angle)),
                      f"{name}, trans": float(abs((angle + 180) % 360 - 180) > TRANS)}
        return found

    def see(self, kind: str, atoms: Atoms) -> float:
        return atoms.get_potential_energy() / KILOJOULES if kind == "energy" else self(atoms)[kind]


def start(name: str, make: Callable[[], Calculator], run: str, seed: int):
    """Dynamics of a molecule, at a minimum."""
    atoms, torsions = build(name)
    atoms.calc = make()
    BFGS(atoms, logfile=None).run(fmax=0.05)
    dynamics, step, friction = RUNS[run]
    return dynamics(atoms, step, temperature_K=TEMPERATURE, friction=friction, fixcm=False,
                    rng=np.random.default_rng(seed)), Observables(atoms, torsions)


def run_directly(name: str, target: str, run: str, time: float, seed: int) -> dict[str, np.ndarray]:
    """Series of observables in the target itself; time in ps."""
    dynamics, observe = start(name, POTENTIALS[target], run, seed)
    dynamics.run(round(SETTLING / dynamics.dt))
    burst = round(SAMPLE_INTERVAL / dynamics.dt)
    found = []
    for _ in range(round(1000 * units.fs * time / SAMPLE_INTERVAL)):
        dynamics.run(burst)
        found.append({**observe(dynamics.atoms), "energy": dynamics.atoms.get_potential_energy() / KILOJOULES})
    return {kind: np.array([each[kind] for each in found]) for kind in found[0]}


def sample(name: str, options, folder: Path) -> tuple[NestedSampler, Observables, str]:
    """A sampler with all energies, and what the surrogate is called."""
    dynamics, observe = start(name, POTENTIALS[options.surrogate], "mass penalty, 12 fs", options.seed)
    settings = {"move": options.move, "steps": options.steps, "processes": options.processes,
                "rng": np.random.default_rng(options.seed)}
    label = options.surrogate
    path = folder / f"{name}-{label}-{options.target}"
    if options.corrected:
        sampler = NestedSampler(dynamics, POTENTIALS[options.target], f"{path}-fit-{options.seed}.db", **settings)
        sampler.run(options.corrected)
        correction = sampler.correct()
        print(f"{name}: of a spread of {correction.spread:.2f} kT the correction leaves {correction.left:.2f}",
              flush=True)
        dynamics.atoms.calc = correction.calculator
        label, path = f"{label}, corrected", Path(f"{path}-corrected-{options.corrected}")
    sampler = NestedSampler(dynamics, POTENTIALS[options.target],
                            f"{path}-{options.move}-{options.steps or 0}-{options.seed}.db", **settings)
    with progress_bar(f"{name}, energies", options.energies) as bar:
        sampler.attach(bar.update)
        sampler.run(options.energies)
    return sampler, observe, label


def main():
    parser = OptionParser(__doc__)
    names = list(dict.fromkeys([*SMALL, *SMILES, *DRUGS]))
    add_names_option(parser, "--molecules", names, names[:2])
    add_name_option(parser, "--surrogate", POTENTIALS, "GFN1-xTB")
    add_name_option(parser, "--target", POTENTIALS, "GFN2-xTB")
    parser.add_argument("--corrected", type=number(int, 50), metavar="N",
                        help="correct the surrogate by N energies of the target first")
    parser.add_argument("--energies", type=number(int, 50), default=300, metavar="N",
                        help="of the target (default: %(default)s)")
    add_name_option(parser, "--move", ("independent", "nested"), "independent")
    parser.add_argument("--steps", type=number(int, 1), metavar="N", help="of the surrogate between snapshots")
    parser.add_argument("--direct", type=number(float, 1, "ps"), metavar="PS",
                        help="compare with runs of the target itself, ps at 12 fs, and a quarter of it at 0.5 fs")
    add_processes_option(parser)
    add_seed_option(parser)
    add_output_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    folder = options.output / "nested"
    parser.make_folder(folder)
    rows = []
    for name in options.molecules:
        sampler, observe, label = sample(name, options, folder)
        print(f"{name}: {sampler.report()}", flush=True)
        rows += worth(name, label, options.target, sampler, observe)
        if options.direct:
            compare(name, options, folder, sampler, observe)
    print()
    print_table(["molecule", "surrogate", "target", "move, steps", "spread (kT)", "acceptance", "energies",
                 "observable", "energies for a sample", "average", "surrogate alone", "chain"], rows, options.record,
                table_name(options, "-".join(options.molecules)))


def table_name(options, name: str) -> str:
    surrogate = f"{options.surrogate}{'-corrected' if options.corrected else ''}"
    return f"nested-{name}-{surrogate}-{options.target}-{options.move}"


def worth(name: str, label: str, target: str, sampler: NestedSampler, observe: Observables) -> list[list[str]]:
    """A row for each torsion that turns and one for the energy."""
    report = sampler.report()
    samples = [observe(atoms) for atoms in sampler.samples()]
    snapshots = [observe(atoms) for atoms in sampler.snapshots()[0]]
    rows = []
    for torsion in observe.torsions:
        trans = [np.array([each[f"{torsion}, trans"] for each in of]) for of in (snapshots, samples)]
        if not trans[0].std():
            continue
        found = [sampler.average(partial(observe.see, f"{torsion}, {kind}")) for kind in ("cos", "sin", "trans")]
        alone = mean_with_error(trans[0], 3) if report.move == "independent" else ""
        rows.append([torsion, f"{(found[0].energies + found[1].energies) / 2:.1f}",
                     f"trans {with_error(*found[2][:2], 3)}", alone, f"{trans[1].mean():.3f}"])
    energy = sampler.average(partial(observe.see, "energy"))
    rows.append(["energy", f"{energy.energies:.1f}", f"{with_error(*energy[:2], 2)} kJ/mol", "", ""])
    return [[name, label, target, f"{report.move}, {report.steps}", f"{report.spread:.2f}",
             f"{report.acceptance:.2f}", str(report.energies), *row] for row in rows]


def in_errors(difference: float, error: float) -> float:
    """0 for what has never changed."""
    return difference / error if error > 0 else 0.0


def compare(name: str, options, folder: Path, sampler: NestedSampler, observe: Observables):
    """Averages beside those of runs of the target; differences in errors."""
    times = dict(zip(RUNS, (options.direct, options.direct / 4)))
    direct = results_of({f"{name}-{options.target}-{run.split(',')[0]}-{time:g}ps": partial(
        run_directly, name, options.target, run, time, options.seed) for run, time in times.items()},
        folder, options.processes)
    alone = [observe(atoms) for atoms in sampler.snapshots()[0]]
    rows = []
    for kind in [*alone[0], "energy"]:
        found = sampler.average(partial(observe.see, kind))
        digits = 2 if kind == "energy" or kind.count("-") == 2 and "torsion" not in kind else 4

        def beside(series: np.ndarray, error: float) -> str:
            shift = in_errors(series.mean() - found.mean, float(np.hypot(found.error, error)))
            return f"{mean_with_error(series, digits)} ({shift:+.1f})"

        surrogate = "" if kind == "energy" else beside(np.array([each[kind] for each in alone]), 0)
        rows.append([kind, with_error(*found[:2], digits), surrogate,
                     *(beside(run[kind], blockedError(run[kind])) for run in direct.values())])
    print(f"\n{name}; in brackets: differences from the nested average in errors\n")
    print_table(["observable", f"nested, {sampler.report().energies} energies", "surrogate alone",
                 *(f"{run}, {time:g} ps" for run, time in times.items())], rows, options.record,
                f"nested-right-{name}")


if __name__ == "__main__":
    run_program(main)
