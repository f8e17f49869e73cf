"""The force fields that people bring, at the step that examine() advises.

Proteins, peptides, ligands, liquids and a membrane of app.ForceField, of files of Amber, CHARMM, GROMACS and Desmond, and
of OpenMMTools (GAFF), with constrained hydrogens and flexible, at two frictions. The claims: a run ends, each part of a
System (flat rings, water, the others) has the temperature of the bath, and bonded energies and densities are those of
LangevinMiddle at a small step. Files that OpenMM's package does not have are those of wrappers/python/tests/systems in
its sources: OPENMM_STIFF_SYSTEMS names that folder. Without it their rows are left out, and the table says so.
"""
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, examine
from openmmstiff._topology import find_neighbours
from openmmstiff.sampling import blockedError, separateForces

from exam import Claim, Exam, Results, Settings, Table, each
from common.observables import observe_density, observe_temperatures
from common.proteins import KT, build_alanine, cut_villin, read_villin
from common.runs import FAILURES
from common.tables import mean_with_error
from recommended import ERRORS, TEMPERATURE, temperature_claim

FOLDER = "OPENMM_STIFF_SYSTEMS"
FRICTIONS = (1, 5)                              # 1/ps
REFERENCE = "LangevinMiddle"
REFERENCE_FRICTION, WARMING_FRICTION = 5, 10    # 1/ps
STEPS = {"HBonds": 0.002, "flexible": 0.001}    # ps, of LangevinMiddle
LEAST_WARMING = 2.0     # ps from the minimum; else a fifth of the run, settling is a tenth
INTERVAL = 0.06         # ps between samples
SMALL = 150             # atoms: with fewer, Reference is faster than CPU
PARTS = ("rings", "water", "others")
KINDS = {"Bond": "bonds", "Angle": "angles", "Torsion": "torsions"}     # of forces, by the last that is in their names
TOLERANCE, LARGEST_ERROR = 0.015, 0.03          # of the temperature; the error that tells anything
TOLERANCES = {"bonds": 0.01, "angles": 0.01, "torsions": 0.02, "density": 0.02}     # where errors are smaller
COLUMNS = ["force field", "constraints", "integrator", "step (fs)", *(f"T of {part}" for part in PARTS),
           *KINDS.values(), "collisions"]
PRESSURE, BAROSTAT_STEPS = 1.0, 10              # bar
CUTOFF, PADDING = 0.9, 0.6                      # nm
RESIDUES = 10                                   # of villin, in water
RINGS = ("PHE", "TYR", "TRP", "HIS")
Source = tuple[app.Topology, Callable[..., mm.System], unit.Quantity]   # what makes the System, and positions


def by_field(topology: app.Topology, positions: unit.Quantity, *files: str) -> Source:
    return topology, partial(app.ForceField(*files).createSystem, topology), positions


def villin(*files: str) -> Source:
    modeller = read_villin("vacuum")
    return by_field(modeller.topology, modeller.positions, *files)


def alanine(*files: str) -> Source:
    modeller = build_alanine(app.ForceField("amber14-all.xml"))
    return by_field(modeller.topology, modeller.positions, *files)


def peptide(water: str, *files: str) -> Source:
    """The first residues of villin in water."""
    modeller = cut_villin(RESIDUES)
    # Places of waters do not depend on the force field of the protein, and CHARMM's takes minutes.
    modeller.addSolvent(app.ForceField("amber14-all.xml", f"amber14/{water}.xml"), model=water,
                        padding=PADDING * unit.nanometer)
    return by_field(modeller.topology, modeller.positions, *files)


def membrane(*files: str) -> Source:
    """OpenMM's patch of 128 lipids in water."""
    pdb = app.PDBFile(str(Path(app.__file__).parent / "data" / "POPC.pdb"))
    return by_field(pdb.topology, pdb.positions, *files)


def tripeptides(*files: str, folder: Path) -> Source:
    """Those with rings, of a file with one of each amino acid."""
    pdb = app.PDBFile(str(folder / "test_charmm_20aa.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([residue for residue in pdb.topology.residues() if residue.name not in RINGS])
    return by_field(modeller.topology, modeller.positions, *files)


def charmm(psf: str, positions: str, *parameters: str, edge: float | None = None, folder: Path) -> Source:
    read = app.CharmmPsfFile(str(folder / psf))
    if edge:
        read.setBox(*[edge * unit.nanometer] * 3)
    reader = app.PDBFile if positions.endswith("pdb") else app.CharmmCrdFile
    found = app.CharmmParameterSet(*(str(folder / file) for file in parameters))
    return read.topology, partial(read.createSystem, found), reader(str(folder / positions)).positions


def amber(name: str, folder: Path) -> Source:
    coordinates = app.AmberInpcrdFile(str(folder / f"{name}.rst7"))
    read = app.AmberPrmtopFile(str(folder / f"{name}.parm7"), periodicBoxVectors=coordinates.boxVectors)
    return read.topology, read.createSystem, coordinates.positions


def gromacs(name: str, folder: Path) -> Source:
    coordinates = app.GromacsGroFile(str(folder / f"{name}.gro"))
    box = coordinates.getPeriodicBoxVectors()
    read = app.GromacsTopFile(str(folder / f"{name}.top"), periodicBoxVectors=box if box[0].x > 0 else None)
    return read.topology, read.createSystem, coordinates.positions


def desmond(name: str, folder: Path) -> Source:
    """The file itself says what is constrained."""
    read = app.DesmondDMSFile(str(folder / name))
    return read.topology, lambda constraints, rigidWater: read.createSystem(OPLS=True), read.positions


def openmmtools(name: str) -> Source:
    from openmmtools import testsystems
    cls = getattr(testsystems, name)
    built = cls()
    return built.topology, lambda constraints, rigidWater: cls(constraints=constraints).system, built.positions


@dataclass(frozen=True)
class Case:
    """How to read it, from the folder if it takes one, and how long its runs are; the reference is half as long."""
    read: Callable[..., Source]
    ps: float
    folder: bool = False
    periodic: bool = False
    constraints: tuple[str, ...] = tuple(STEPS)
    barostat: Callable[[], mm.Force] | None = None


BAROSTAT = partial(mm.MonteCarloBarostat, PRESSURE, TEMPERATURE, BAROSTAT_STEPS)
OF_MEMBRANES = partial(mm.MonteCarloMembraneBarostat, PRESSURE, 0, TEMPERATURE,
                       mm.MonteCarloMembraneBarostat.XYIsotropic, mm.MonteCarloMembraneBarostat.ZFree, BAROSTAT_STEPS)
HELD = ("HBonds",)      # alone: where the file says so, and of what is large
DHFR = "5dhfr_cube.psf", "5dhfr_cube.pdb", "par_all22_prot_with_mass.inp"
ALANINES = "ala_ala_ala.psf", "ala_ala_ala.crd", "charmm22.rtf", "charmm22.par"
CASES = {
    "amber14, villin": Case(partial(villin, "amber14-all.xml"), 60),
    "amber14, POPC membrane": Case(partial(membrane, "amber14-all.xml", "amber14/tip3p.xml"), 2, periodic=True,
                                   constraints=HELD, barostat=OF_MEMBRANES),
    "ff19SB, villin": Case(partial(villin, "amber19-all.xml"), 60),
    "ff19SB, peptide in OPC water": Case(partial(peptide, "tip4pew", "amber19-all.xml", "amber19/opc.xml"), 30,
                                         periodic=True, barostat=BAROSTAT),
    "CHARMM36, villin": Case(partial(villin, "charmm36.xml"), 40),
    "CHARMM36, peptide in water": Case(partial(peptide, "tip3p", "charmm36.xml", "charmm36/water.xml"), 30,
                                       periodic=True, barostat=BAROSTAT),
    "CHARMM36, tripeptides": Case(partial(tripeptides, "charmm36.xml"), 100, folder=True),
    "CHARMM22, psf, tripeptide": Case(partial(charmm, *ALANINES), 600, folder=True),
    "CHARMM22, psf, DHFR in water": Case(partial(charmm, *DHFR, edge=6.223), 4, folder=True, periodic=True,
                                         constraints=HELD),
    "CGenFF, GROMACS, benzenes": Case(partial(gromacs, "bnz"), 600, folder=True),
    "OPLS, GROMACS, ionic liquid": Case(partial(gromacs, "ionic"), 6, folder=True, periodic=True,
                                        constraints=HELD),
    "OPLS, Desmond, nabumetone": Case(partial(desmond, "bcd-nabumetone_lig.dms"), 600, folder=True, constraints=HELD),
    "OPLS, Desmond, cyclodextrin": Case(partial(desmond, "bcd-nabumetone_rcpt.dms"), 200, folder=True,
                                        constraints=HELD),
    "GAFF, toluene": Case(partial(openmmtools, "TolueneVacuum"), 1200),
    "GAFF, host and guest": Case(partial(openmmtools, "HostGuestVacuum"), 200),
    "AMOEBA, alanine dipeptide": Case(partial(alanine, "amoeba2018.xml"), 200),
    "Amber, prmtop, trp-zipper in water": Case(partial(amber, "tz2.truncoct"), 30, folder=True, periodic=True,
                                               constraints=HELD),
}


def find_parts(topology: app.Topology, system: mm.System) -> dict[str, list[int]]:
    """The atoms of flat rings with their hydrogens, of water, and all others."""
    atoms = list(topology.atoms())
    bonds = {frozenset(atom.index for atom in bond) for bond in topology.bonds()}
    bonds |= {frozenset(system.getConstraintParameters(i)[:2]) for i in range(system.getNumConstraints())}  # GROMACS's
    neighbours = find_neighbours(bonds, len(atoms))
    flat = {i for i, bound in enumerate(neighbours) if len(bound) in (2, 3)}

    def in_ring(start: int) -> bool:
        paths = [(start,)]
        for length in range(1, 7):
            paths = [(*path, j) for path in paths for j in neighbours[path[-1]]
                     if j in flat and (j not in path or j == start and length > 2)]
            if any(path[-1] == start for path in paths):
                return True
        return False

    rings = {i for i in flat if in_ring(i)}
    rings |= {j for i in rings for j in neighbours[i] if len(neighbours[j]) == 1}
    parts: dict[str, list[int]] = {part: [] for part in PARTS}
    for i, atom in enumerate(atoms):
        parts["water" if atom.residue.name == "HOH" else "rings" if i in rings else "others"].append(i)
    return parts


def group_kinds(system: mm.System) -> dict[str, set[int]]:
    """The groups of the bonded forces by their kinds."""
    found: dict[str, set[int]] = {}
    for name, groups in separateForces(system).items():
        for kind in [KINDS[part] for part in KINDS if part in name][-1:]:
            found[kind] = found.get(kind, set()) | groups
    return found


def warm(topology: app.Topology, system: mm.System, positions, step: float, ps: float, seed: int,
         settings: Settings) -> app.Simulation:
    """From the minimum, by LangevinMiddle with a large friction and a small step."""
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, WARMING_FRICTION, step)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(topology, system, integrator, mm.Platform.getPlatform(settings.platform))
    simulation.context.setPositions(positions)
    simulation.context.computeVirtualSites()
    simulation.minimizeEnergy(maxIterations=200)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    simulation.step(settings.steps(max(LEAST_WARMING, ps / 5), step))
    return simulation


def follow(integrator: mm.Integrator, system: mm.System, start: mm.State, ps: float, seed: int, settings: Settings,
           **observed) -> dict:
    """What is observed in time; or how the run is lost, and when."""
    context = settings.begin(system, integrator, start, TEMPERATURE, seed)
    try:
        samples = settings.sample(context, ps / 10, ps, INTERVAL, **observed)
    except FAILURES as error:
        return {"failure": str(error).split("\n")[0], "lost": context.getTime().value_in_unit(unit.picosecond)}
    return {**samples.observed, **samples.energies}


def make(name: str, constraints: str, folder: Path | None, settings: Settings) -> dict:
    """All runs of a System, which may take longer to make than to run."""
    case, step, held = CASES[name], STEPS[constraints], constraints in HELD
    seed = 100 * settings.seed + list(CASES).index(name)
    topology, create, positions = case.read(folder=folder) if case.folder else case.read()
    options = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer} if case.periodic else {}
    system = create(constraints=app.HBonds if held else None, rigidWater=held, **options)
    observers = [observe_temperatures(system, find_parts(topology, system))]
    if case.barostat:
        system.addForce(case.barostat())
        observers.append(observe_density(system))
    groups = group_kinds(system)
    if system.getNumParticles() < SMALL:
        settings = replace(settings, platform="Reference")
    simulation = warm(topology, system, positions, step, case.ps, seed, settings)
    run = partial(follow, system=system, start=simulation.context.getState(positions=True), seed=seed,
                  settings=settings, groups=groups,
                  observe=lambda state: {key: value for one in observers for key, value in one(state).items()})
    advised = examine(simulation, TEMPERATURE).getStepSize().value_in_unit(unit.picosecond)
    found = {"step": 1000 * advised,
             REFERENCE: run(mm.LangevinMiddleIntegrator(TEMPERATURE, REFERENCE_FRICTION, step), ps=case.ps / 2)}
    for friction in FRICTIONS:
        integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, friction, advised)
        found[str(friction)] = run(integrator, ps=case.ps) | {"collisions": integrator.getNumCollisions()}
    return found


def run_name(name: str, constraints: str) -> str:
    return f"{name}-{constraints}".replace(", ", "-").replace(" ", "_")


def runs(settings: Settings) -> dict[str, partial]:
    folder = Path(os.environ[FOLDER]).absolute() if FOLDER in os.environ else None
    return {run_name(name, constraints): partial(make, name, constraints, folder, settings)
            for name, case in CASES.items() if folder or not case.folder for constraints in case.constraints}


def claims(results: Results, run: str) -> Iterator[Claim]:
    reference = results[run][REFERENCE]
    for friction in FRICTIONS:
        found, text = results[run][str(friction)], f"{friction}/ps"
        yield Claim.true(f"{text}: runs to its end", "failure" not in found, found.get("failure", ""))
        for part in [part for part in PARTS if part in found]:
            yield temperature_claim(f"{text}: temperature of {part}, K", found[part], TOLERANCE, LARGEST_ERROR)
        for kind in [kind for kind in TOLERANCES if kind in found.keys() & reference.keys()]:
            expected = reference[kind].mean()
            error = float(np.hypot(blockedError(found[kind]), blockedError(reference[kind])))
            yield Claim(f"{text}: {kind}", found[kind].mean(), expected, error,
                        max(ERRORS * error, TOLERANCES[kind] * abs(expected)), most_error=np.inf)


def row(name: str, constraints: str, integrator: str, step: float, found: dict) -> list[str]:
    cells = [mean_with_error(found[part], 1) if part in found else "" for part in PARTS]
    cells += [mean_with_error(found[kind] / KT, 1) if kind in found else "" for kind in KINDS.values()]
    end = f"lost after {found['lost']:.3g} ps" if "failure" in found else str(found.get("collisions", ""))
    return [name, constraints, integrator, f"{step:g}", *cells, end]


def rows(results: Results) -> Iterator[list[str]]:
    for name, case in CASES.items():
        for constraints in case.constraints:
            found = results.get(run_name(name, constraints), {"failure": f"not run, without {FOLDER}"})
            if "failure" in found:
                yield [name, constraints, found["failure"], *[""] * (len(COLUMNS) - 3)]
                continue
            yield row(name, constraints, REFERENCE, 1000 * STEPS[constraints], found[REFERENCE])
            for friction in FRICTIONS:
                yield row(name, constraints, f"mass penalty, {friction}/ps", found["step"], found[str(friction)])


def report(results: Results) -> Iterator[Claim | Table]:
    yield Table(f"Temperatures in K, bonded energies in kT; {REFERENCE} has a friction of {REFERENCE_FRICTION}/ps",
                COLUMNS, list(rows(results)), "force-fields")
    yield from each(results, partial(claims, results))


EXAM = Exam("force-fields", "The force fields that people bring, at the advised step", runs, report)
