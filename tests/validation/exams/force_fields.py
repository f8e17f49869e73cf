"""Force fields of OpenMM from a PDB file to a run: proteins, implicit solvents, waters with virtual sites, a membrane.

Each System is made by app.ForceField with the options that users choose, and run by the integrators that are for it
at their recommended steps, at constant volume and at constant pressure. The claims: a run ends, its kinetic
temperature is the bath's, and its density is LangevinMiddle's.
"""
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import blockedError, sample

from exam import Claim, Exam, Results, Settings, each
from common.observables import observe_density
from common.runs import FAILURES
from recommended import ERRORS, FRICTION, LABELS, TEMPERATURE, make_integrator, temperature_claim

PRESSURE = 1.0                  # bar
CUTOFF = 0.9                    # nm
WARMING, SETTLING = 4.0, 1.5    # ps: LangevinMiddle from the minimum; then each integrator
INTERVAL = 0.05                 # ps between samples
BAROSTAT_INTERVAL = 0.05        # ps
TOLERANCE = 0.015               # of the temperature
LARGEST_ERROR = 0.03            # of the temperature, that tells anything
DENSITY_TOLERANCE = 0.02        # of runs that are too short to tell densities better
RESIDUES = 4                    # of villin
DATA = Path(app.__file__).parent / "data"


@dataclass(frozen=True)
class Options:
    """What a user says of bonds and masses, and the steps that go with it [fs]."""
    steps: dict[str, float]
    constraints: str | None = None
    rigid: bool = False
    hydrogen: float | None = None   # dalton
    pressure: bool = False
    longer: float = 1.0             # how many times as long runs are, settling included: densities take their time


OPTIONS = {
    "flexible": Options({"masspenalty": 6, "zhangskeel": 2, "impulse": 4}),
    "HBonds": Options({"masspenalty": 6, "spook": 1}, "HBonds", True),
    "HBonds, H of 4 dalton": Options({"middle": 4, "masspenalty": 8}, "HBonds", True, 4.0, pressure=True, longer=4),
    "AllBonds, H of 1.5 dalton": Options({"middle": 2, "masspenalty": 6}, "AllBonds", True, 1.5),
    "rigid water": Options({"middle": 2, "masspenalty": 6}, None, True, None, pressure=True, longer=4),
    "rigid water, SPOOK": Options({"spook": 2}, None, True),
}
PROTEIN = ("flexible", "HBonds", "HBonds, H of 4 dalton", "AllBonds, H of 1.5 dalton")


@dataclass(frozen=True)
class Field:
    """Files of a force field, a model for the places of waters, and the options it is tried with."""
    files: tuple[str, ...]
    water: str | None       # None: no water
    ps: float
    options: tuple[str, ...]
    largest: float = 8.0    # fs, of the mass penalty

    def steps(self, option: str) -> dict[str, float]:
        """By the methods that are tried with an option."""
        steps = OPTIONS[option].steps
        return steps | ({"masspenalty": min(steps["masspenalty"], self.largest)} if "masspenalty" in steps else {})


def has_pressure(field: Field, options: Options) -> bool:
    return options.pressure and field.water is not None


def waters(file: str, model: str, **largest: float) -> Field:
    return Field((file,), model, 6.0, ("rigid water", "rigid water, SPOOK"), **largest)


FIELDS = {
    "amber14, TIP3P-FB": Field(("amber14-all.xml", "amber14/tip3pfb.xml"), "tip3p", 6.0, PROTEIN),
    "amber19, OPC": Field(("amber19-all.xml", "amber19/opc.xml"), "tip4pew", 6.0, PROTEIN[1:],
                          largest=4.0),    # at 6 fs 304.5(13) K, at 8 fs with H of 4 dalton 308.3(10) K
    "charmm36": Field(("charmm36.xml", "charmm36/water.xml"), "tip3p", 6.0, PROTEIN[:3]),
    "charmm36_2024": Field(("charmm36_2024.xml", "charmm36_2024/water.xml"), "tip3p", 6.0, PROTEIN[2:3]),
    "amber14, OBC2": Field(("amber14-all.xml", "implicit/obc2.xml"), None, 20.0, (*PROTEIN[:2], PROTEIN[3])),
    "amber14, GBn2": Field(("amber14-all.xml", "implicit/gbn2.xml"), None, 20.0, (*PROTEIN[:2], PROTEIN[3])),
    "TIP3P-FB": waters("amber14/tip3pfb.xml", "tip3p"),
    "SPC/E": waters("amber14/spce.xml", "spce"),
    "TIP4P-Ew": waters("amber14/tip4pew.xml", "tip4pew"),
    "OPC": waters("amber14/opc.xml", "tip4pew", largest=4.0),
    "TIP5P": waters("tip5p.xml", "tip5p"),
}
MEMBRANE, MEMBRANE_STEPS = "amber14, POPC membrane", 60


def read_peptide() -> tuple[app.Topology, unit.Quantity]:
    """The first residues of villin; the nitrogen that follows becomes the oxygen that ends the chain."""
    pdb = app.PDBFile(str(DATA / "test.pdb"))
    residues = list(pdb.topology.residues())
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete(residues[RESIDUES:])
    *_, last = modeller.topology.residues()
    oxygen = modeller.topology.addAtom("OXT", app.element.oxygen, last)
    modeller.topology.addBond(next(atom for atom in last.atoms() if atom.name == "C"), oxygen)
    nitrogen = next(atom for atom in residues[RESIDUES].atoms() if atom.name == "N")
    positions = [*modeller.positions.value_in_unit(unit.nanometer),
                 pdb.positions[nitrogen.index].value_in_unit(unit.nanometer)]
    return modeller.topology, positions * unit.nanometer


def build(name: str, options: Options) -> tuple[mm.System, unit.Quantity]:
    """Waters alone, or the peptide with or without them."""
    field = FIELDS[name]
    alone = "rigid water" in field.options
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer) if alone else app.Modeller(*read_peptide())
    arguments = {}
    if field.water:
        # Places of waters do not depend on the force field of the protein, and CHARMM's takes minutes.
        places = app.ForceField("amber14-all.xml", "amber14/tip4pew.xml" if field.water == "tip4pew" else
                                "tip5p.xml" if field.water == "tip5p" else "amber14/tip3p.xml")
        modeller.addSolvent(places, model=field.water, boxSize=[2.0 if alone else 2.3] * 3 * unit.nanometer)
        arguments = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer}
    constraints = getattr(app, options.constraints) if options.constraints else None
    system = app.ForceField(*field.files).createSystem(
        modeller.topology, constraints=constraints, rigidWater=options.rigid, hydrogenMass=options.hydrogen,
        **arguments)
    return system, modeller.positions


def warm(system: mm.System, positions, seed: int, settings: Settings) -> mm.State:
    """From the minimum, by LangevinMiddle with a large friction and a small step."""
    integrator = mm.LangevinMiddleIntegrator(TEMPERATURE, 10, 0.001)
    context = settings.begin(system, integrator, positions, TEMPERATURE, seed, 100)
    integrator.step(settings.steps(WARMING, 0.001))
    return context.getState(positions=True)


def follow(method: str, system: mm.System, start: mm.State, step: float, field: Field, options: Options, seed: int,
           settings: Settings) -> dict:
    """Temperatures and densities in time."""
    system = deepcopy(system)
    if has_pressure(field, options):
        system.addForce(mm.MonteCarloBarostat(PRESSURE, TEMPERATURE, max(1, round(BAROSTAT_INTERVAL / step))))
    integrator = make_integrator(method, system, step, seed)
    context = settings.begin(system, integrator, start, TEMPERATURE, seed)
    integrator.step(settings.steps(options.longer * SETTLING, step))
    interval = max(1, round(INTERVAL / step))
    count = settings.steps(options.longer * field.ps, interval * step)
    samples = sample(context, interval, count, observe=observe_density(system))
    return {"temperature": samples.temperature, **samples.observed}


def make(name: str, option: str, settings: Settings) -> dict:
    """All methods on a System, which may take longer to make than to run."""
    options = OPTIONS[option]
    seed = 100 * settings.seed + list(FIELDS).index(name)
    system, positions = build(name, options)
    start = warm(system, positions, seed, settings)
    found = {"atoms": system.getNumParticles()}
    for method, step in FIELDS[name].steps(option).items():
        try:
            series = follow(method, system, start, step / 1000, FIELDS[name], options, seed, settings)
        except FAILURES as error:
            series = {"failure": str(error).split("\n")[0]}
        found |= {f"{method} {key}": value for key, value in series.items()}
    return found


def make_membrane(settings: Settings) -> dict:
    """OpenMM's patch of 128 lipids in water: a few steps with the barostat of membranes."""
    pdb = app.PDBFile(str(DATA / "POPC.pdb"))
    system = app.ForceField("amber14-all.xml", "amber14/tip3p.xml").createSystem(
        pdb.topology, nonbondedMethod=app.PME, nonbondedCutoff=CUTOFF * unit.nanometer, constraints=app.HBonds)
    barostat = mm.MonteCarloMembraneBarostat(
        PRESSURE, 0, TEMPERATURE, mm.MonteCarloMembraneBarostat.XYIsotropic, mm.MonteCarloMembraneBarostat.ZFree, 10)
    system.addForce(barostat)
    integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, 0.006)
    context = settings.begin(system, integrator, pdb.positions, TEMPERATURE, settings.seed, 20)
    samples = sample(context, 10, MEMBRANE_STEPS // 10)
    return {"atoms": system.getNumParticles(), "masspenalty temperature": samples.temperature}


def run_name(name: str, option: str) -> str:
    return f"{name}-{option}".replace(", ", "-").replace(" ", "_").replace("/", "")


def runs(settings: Settings) -> dict[str, partial]:
    return {run_name(name, option): partial(make, name, option, settings)
            for name, field in FIELDS.items() for option in field.options} | {
        "membrane": partial(make_membrane, settings)}


def claims(results: Results, run: str, steps: dict[str, float], pressure: bool) -> Iterator[Claim]:
    found = results[run]
    for method, step in steps.items():
        text = f"{LABELS[method]} {step:g} fs"
        if f"{method} failure" in found:
            yield Claim.true(f"{text}: runs to its end", False, found[f"{method} failure"])
            continue
        yield temperature_claim(f"{text}: temperature, K", found[f"{method} temperature"], TOLERANCE, LARGEST_ERROR)
        if pressure and method != "middle" and "middle failure" not in found:
            of, reference = found[f"{method} density"], found["middle density"]
            error = float(np.hypot(blockedError(of), blockedError(reference)))
            yield Claim(f"{text}: density, g/cm^3", of.mean(), reference.mean(), error,
                        max(ERRORS * error, DENSITY_TOLERANCE * reference.mean()), most_error=np.inf)


def report(results: Results) -> Iterator[Claim]:
    for name, field in FIELDS.items():
        for option in field.options:
            yield from each([run_name(name, option)], partial(
                claims, results, steps=field.steps(option), pressure=has_pressure(field, OPTIONS[option])))
    membrane = results["membrane"]
    yield Claim.true(f"{MEMBRANE}: runs with its barostat", "failure" not in membrane and
                     bool(np.isfinite(membrane["masspenalty temperature"]).all()), membrane.get("failure", ""))


EXAM = Exam("force-fields", "OpenMM's force fields, from a PDB file to a run", runs, report)
