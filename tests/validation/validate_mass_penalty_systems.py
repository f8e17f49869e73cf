#!/usr/bin/env python
"""MassPenaltyLangevinIntegrator samples other systems as LangevinMiddle does with a small step.

Flexible SPC/E, TIP4P-Ew (which has virtual sites) and TIP3P at constant pressure, methanol, and a protein in water,
none with constraints. Makes the runs that are missing in the output folder, one file each, then checks the claims:
an interrupted validation goes on where it was. The exit code is 0 if every claim holds and 1 if not.
"""
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import GAS_CONSTANT, blockedError

from runs import Claim, Report, add_file_options, locked, mean_claim, temperature_claim, validate
from options import OptionParser, choice, number, progress_bar, run_program
from sampling import SAMPLE_INTERVAL
from tip3p_water import TEMPERATURE
from villin import KT, read_villin
from water import (ANGLE_GROUP, BOND_GROUP, CUTOFF, EQUILIBRATION_FRICTION, GROUPS, HEAVY_HYDROGEN, NONBONDED_GROUP,
                   Progress, advance, build_box, build_system)

TORSION_GROUP, PROTEIN_BOND_GROUP, PROTEIN_ANGLE_GROUP = 4, 5, 6
PME = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer, "rigidWater": False}
PRESSURE = 1.0             # bar
BAROSTAT_INTERVAL = 0.024  # ps between two attempts to change the volume, with any step
EQUILIBRATION_STEP = 0.0025  # ps, of LangevinMiddle with heavy hydrogens, which change no average
MANY_ERRORS = 3            # means that differ by more combined errors are different
VILLIN_INTERVAL = 0.12     # ps, a whole number of steps of 0.5, 5, 6 or 8 fs
DALTONS_PER_NM3 = 1.66054e-3  # g/cm^3

# OPLS-AA: Jorgensen, Maxwell and Tirado-Rives, J. Am. Chem. Soc. 118, 11225 (1996); units as in OpenMM. Here unlike
# atoms have the mean sigma, as with every NonbondedForce, where OPLS-AA has the geometric mean.
METHANOL = """
<ForceField>
 <AtomTypes>
  <Type name="CT" class="CT" element="C" mass="12.011"/>
  <Type name="HC" class="HC" element="H" mass="1.008"/>
  <Type name="OH" class="OH" element="O" mass="15.9994"/>
  <Type name="HO" class="HO" element="H" mass="1.008"/>
 </AtomTypes>
 <Residues>
  <Residue name="MOH">
   <Atom name="C" type="CT"/>
   <Atom name="H1" type="HC"/>
   <Atom name="H2" type="HC"/>
   <Atom name="H3" type="HC"/>
   <Atom name="O" type="OH"/>
   <Atom name="HO" type="HO"/>
   <Bond atomName1="C" atomName2="H1"/>
   <Bond atomName1="C" atomName2="H2"/>
   <Bond atomName1="C" atomName2="H3"/>
   <Bond atomName1="C" atomName2="O"/>
   <Bond atomName1="O" atomName2="HO"/>
  </Residue>
 </Residues>
 <HarmonicBondForce>
  <Bond class1="CT" class2="HC" length="0.109" k="284512"/>
  <Bond class1="CT" class2="OH" length="0.141" k="267776"/>
  <Bond class1="HO" class2="OH" length="0.0945" k="462750.4"/>
 </HarmonicBondForce>
 <HarmonicAngleForce>
  <Angle class1="HC" class2="CT" class3="HC" angle="1.881464934" k="276.144"/>
  <Angle class1="HC" class2="CT" class3="OH" angle="1.911135531" k="292.88"/>
  <Angle class1="CT" class2="OH" class3="HO" angle="1.893682239" k="460.24"/>
 </HarmonicAngleForce>
 <PeriodicTorsionForce>
  <Proper class1="HC" class2="CT" class3="OH" class4="HO" periodicity1="3" phase1="0" k1="0.9414"/>
 </PeriodicTorsionForce>
 <NonbondedForce coulomb14scale="0.5" lj14scale="0.5">
  <Atom type="CT" charge="0.145" sigma="0.35" epsilon="0.276144"/>
  <Atom type="HC" charge="0.04" sigma="0.25" epsilon="0.12552"/>
  <Atom type="OH" charge="-0.683" sigma="0.312" epsilon="0.71128"/>
  <Atom type="HO" charge="0.418" sigma="1" epsilon="0"/>
 </NonbondedForce>
</ForceField>"""
# Its atoms, in nm; a tetrahedron about C.
METHANOL_SHAPE = np.array([[0, 0, 0], [-0.0363, 0.1028, 0], [-0.0363, -0.0514, 0.0890], [-0.0363, -0.0514, -0.0890],
                           [0.141, 0, 0], [0.171, -0.0896, 0]])
METHANOL_LATTICE = 6       # molecules along each edge of the box
METHANOL_DENSITY = 14.85   # molecules/nm^3: 0.79 g/cm^3


@dataclass
class Model:
    """A periodic System with the start of its particles (nm); its forces have the groups of the constants above."""
    system: mm.System
    positions: np.ndarray
    molecules: int  # the residues of a protein included


@dataclass
class Substance:
    label: str
    build: Callable[[float | None], Model]  # of the mass of hydrogens (dalton), None for the force field's
    kinds: dict[str, int]                   # of energy, with their force groups
    # Of the means: absolute, in the unit of the energies, and relative. Kinds without have MANY_ERRORS.
    tolerances: dict[str, tuple[float, float]]
    barostat: bool = False
    per_molecule: bool = True               # energies are in kJ/mol per molecule, or in kT
    equilibration: float = 10.0             # ps, LangevinMiddle
    settling: float = 5.0                   # ps, with the run's own integrator
    interval: float = SAMPLE_INTERVAL       # ps between two samples

    @property
    def energy_unit(self) -> str:
        return "kJ/mol" if self.per_molecule else "kT"


@dataclass
class Run:
    substance: str
    step: float   # ps
    time: float   # ps, sampled
    make: Callable[[float, float, float], mm.Integrator] = MassPenaltyLangevinIntegrator
    friction: float = 1.0               # 1/ps
    hydrogen_mass: float | None = None  # dalton, if it is not the force field's


@dataclass
class Series:
    """What a run showed: time series with an entry every Substance.interval."""
    step: float        # ps
    ns_per_day: float  # of simulated time; only the steps are timed, not the sampling
    pairs: int         # distances slowed down
    columns: dict[str, np.ndarray]  # temperature, K; density, g/cm^3; each kind of energy

    def save(self, path: Path):
        """Write an .npz file; an interruption leaves none or the whole of it."""
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, step=self.step, ns_per_day=self.ns_per_day, pairs=self.pairs, **self.columns)
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Series":
        with np.load(path) as data:
            values = {name: data[name] for name in data}
        return cls(*(values.pop(name).item() for name in ("step", "ns_per_day", "pairs")), values)


def water(waters: int, model: str) -> Callable[[float | None], Model]:
    def build(hydrogen_mass: float | None) -> Model:
        box = build_box(waters, model)
        return Model(build_system(box, "flexible", hydrogen_mass), box.positions, waters)
    return build


def methanol(hydrogen_mass: float | None) -> Model:
    """A cubic lattice of molecules turned at random, which melts."""
    molecules = METHANOL_LATTICE**3
    edge = (molecules / METHANOL_DENSITY) ** (1 / 3)
    topology = app.Topology()
    topology.setUnitCellDimensions(mm.Vec3(edge, edge, edge) * unit.nanometer)
    chain = topology.addChain()
    for _ in range(molecules):
        residue = topology.addResidue("MOH", chain)
        carbon, *hydrogens, oxygen, hydroxyl = (
            topology.addAtom(name, app.Element.getBySymbol(name[0]), residue)
            for name in ("C", "H1", "H2", "H3", "O", "HO"))
        for pair in (*((carbon, hydrogen) for hydrogen in hydrogens), (carbon, oxygen), (oxygen, hydroxyl)):
            topology.addBond(*pair)
    axis = edge / METHANOL_LATTICE * (np.arange(METHANOL_LATTICE) + 0.5)
    centres = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 1, 3)
    turns, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(molecules, 3, 3)))  # some are reflections as well
    positions = centres + (METHANOL_SHAPE - METHANOL_SHAPE.mean(axis=0)) @ turns
    system = app.ForceField(StringIO(METHANOL)).createSystem(topology, hydrogenMass=hydrogen_mass, **PME)
    set_groups(system)
    return Model(system, positions.reshape(-1, 3), molecules)


def villin(hydrogen_mass: float | None) -> Model:
    """The protein in water of OpenMM's test.pdb. Its bonds and angles are in forces of their own."""
    modeller = read_villin("water")
    topology = modeller.topology
    forcefield = app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")
    system = forcefield.createSystem(topology, hydrogenMass=hydrogen_mass, **PME)
    set_groups(system)
    waters = {atom.index for residue in topology.residues() if residue.name == "HOH" for atom in residue.atoms()}
    for i in reversed(range(system.getNumForces())):
        force = system.getForce(i)
        if isinstance(force, mm.HarmonicBondForce):
            group, add = PROTEIN_BOND_GROUP, mm.HarmonicBondForce.addBond
            terms = [force.getBondParameters(k) for k in range(force.getNumBonds())]
        elif isinstance(force, mm.HarmonicAngleForce):
            group, add = PROTEIN_ANGLE_GROUP, mm.HarmonicAngleForce.addAngle
            terms = [force.getAngleParameters(k) for k in range(force.getNumAngles())]
        else:
            continue
        of_water, of_protein = type(force)(), type(force)()
        of_water.setForceGroup(force.getForceGroup())
        of_protein.setForceGroup(group)
        for term in terms:
            add(of_water if term[0] in waters else of_protein, *term)
        system.removeForce(i)
        system.addForce(of_water)
        system.addForce(of_protein)
    return Model(system, np.array(modeller.positions.value_in_unit(unit.nanometer)), topology.getNumResidues())


def set_groups(system: mm.System):
    for force in system.getForces():
        force.setForceGroup((GROUPS | {"PeriodicTorsionForce": TORSION_GROUP}).get(force.getName(), 0))


WATER = {"kinds": {"nonbonded": NONBONDED_GROUP, "bonds": BOND_GROUP, "angles": ANGLE_GROUP},
         "tolerances": {"nonbonded": (0.15, 0), "bonds": (0, 0.01), "angles": (0, 0.01)}}
SUBSTANCES = {
    "spce": Substance("216 SPC/E waters", water(216, "spce"), **WATER),
    "tip4pew": Substance("216 TIP4P-Ew waters", water(216, "tip4pew"), **WATER),
    "methanol": Substance("216 OPLS-AA methanols", methanol, WATER["kinds"] | {"torsions": TORSION_GROUP}, {},
                          equilibration=30.0),
    "tip3p-npt": Substance("256 TIP3P waters, 1 bar", water(256, "tip3p"), barostat=True, settling=20.0, **WATER),
    "villin": Substance("villin in TIP3P-FB water", villin, {
        "nonbonded": NONBONDED_GROUP, "water bonds": BOND_GROUP, "water angles": ANGLE_GROUP,
        "protein bonds": PROTEIN_BOND_GROUP, "protein angles": PROTEIN_ANGLE_GROUP, "torsions": TORSION_GROUP},
        {}, per_molecule=False, equilibration=60.0, settling=3.0, interval=VILLIN_INTERVAL),
}
LangevinMiddle = mm.LangevinMiddleIntegrator
RUNS = {  # the first of each substance is the reference
    **{name: run for water in ("spce", "tip4pew") for name, run in {
        f"{water}-middle-1fs": Run(water, 0.001, 400.0, LangevinMiddle),
        f"{water}-penalty-6fs": Run(water, 0.006, 400.0),
        f"{water}-penalty-8fs-friction5": Run(water, 0.008, 400.0, friction=5.0)}.items()},
    "tip3p-npt-middle-1fs": Run("tip3p-npt", 0.001, 200.0, LangevinMiddle),
    "tip3p-npt-penalty-8fs": Run("tip3p-npt", 0.008, 200.0),
    "methanol-middle-1fs": Run("methanol", 0.001, 100.0, LangevinMiddle),
    "methanol-penalty-6fs": Run("methanol", 0.006, 100.0),
    "villin-middle-0.5fs": Run("villin", 0.0005, 20.0, LangevinMiddle),
    "villin-penalty-5fs": Run("villin", 0.005, 100.0),
    "villin-penalty-6fs": Run("villin", 0.006, 100.0),
    "villin-penalty-8fs-heavy": Run("villin", 0.008, 100.0, hydrogen_mass=HEAVY_HYDROGEN),
}


def reference_of(name: str) -> str:
    return next(other for other, run in RUNS.items() if run.substance == RUNS[name].substance)


def build_context(substance: Substance, integrator: mm.Integrator, hydrogen_mass: float | None, platform: str,
                  seed: int) -> tuple[mm.Context, Model]:
    """With the barostat that the substance may have; a Model with constraints or no bonds is refused."""
    model = substance.build(hydrogen_mass)
    bonds = sum(force.getNumBonds() for force in model.system.getForces()
                if isinstance(force, mm.HarmonicBondForce))
    if model.system.getNumConstraints() or bonds < 2 * model.molecules:
        raise ValueError(f"{substance.label}: the molecules are not flexible")
    if substance.barostat:
        attempt = round(BAROSTAT_INTERVAL / integrator.getStepSize().value_in_unit(unit.picosecond))
        barostat = mm.MonteCarloBarostat(PRESSURE, TEMPERATURE, attempt)
        barostat.setRandomNumberSeed(seed)
        model.system.addForce(barostat)
    integrator.setRandomNumberSeed(seed)
    context = mm.Context(model.system, integrator, mm.Platform.getPlatform(platform))
    context.setPositions(model.positions)
    return context, model


def equilibrate(substance: Substance, options, seed: int) -> mm.State:
    """Minimize and run LangevinMiddle: the start of all runs of a substance."""
    steps = round(options.time_scale * substance.equilibration / EQUILIBRATION_STEP)
    integrator = LangevinMiddle(TEMPERATURE, EQUILIBRATION_FRICTION, EQUILIBRATION_STEP)
    context, _ = build_context(substance, integrator, HEAVY_HYDROGEN, options.platform, seed)
    mm.LocalEnergyMinimizer.minimize(context, 10, 200)
    context.setVelocitiesToTemperature(TEMPERATURE, seed)
    with progress_bar(f"{substance.label}: equilibration", steps) as bar:
        advance(integrator, steps, bar.update)
    return context.getState(positions=True)


def seed_of(name: str, options) -> int:
    return 1000 * options.seed + list(RUNS).index(name)


def make_run(name: str, folder: Path, options) -> Series:
    """Settle from the State kept in a file, which is made if it is missing, and sample."""
    run, seed = RUNS[name], seed_of(name, options)
    substance, start = SUBSTANCES[run.substance], folder / f"{run.substance}-start.xml"
    with locked(start):
        if not start.exists():
            state = equilibrate(substance, options, seed_of(reference_of(name), options))
            start.write_text(mm.XmlSerializer.serialize(state))
    state = mm.XmlSerializer.deserialize(start.read_text())
    settling = round(options.time_scale * substance.settling / run.step)
    samples = max(2, round(options.time_scale * run.time / substance.interval))
    burst = round(substance.interval / run.step)
    integrator = run.make(TEMPERATURE, run.friction, run.step)
    context, model = build_context(substance, integrator, run.hydrogen_mass, options.platform, seed)
    context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
    context.setPositions(state.getPositions())
    context.setVelocitiesToTemperature(TEMPERATURE, seed)
    with progress_bar(name, settling + samples * burst) as bar:
        advance(integrator, settling, bar.update)
        return sample(context, substance, model.molecules, samples, burst, bar.update)


def sample(context: mm.Context, substance: Substance, molecules: int, samples: int, burst: int,
           progress: Progress) -> Series:
    """Look at a simulation every `burst` steps."""
    integrator, system = context.getIntegrator(), context.getSystem()
    step = integrator.getStepSize().value_in_unit(unit.picosecond)
    masses = [system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())]
    degrees = 3 * np.count_nonzero(masses) - system.getNumConstraints() - 3
    scale = molecules if substance.per_molecule else KT
    columns = {name: np.empty(samples) for name in ("temperature", "density", *substance.kinds)}
    seconds = 0.0
    for i in range(samples):
        begin = perf_counter()
        advance(integrator, burst, progress)
        seconds += perf_counter() - begin
        for kind, group in substance.kinds.items():
            state = context.getState(energy=True, groups={group})
            columns[kind][i] = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole) / scale
        kinetic = state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
        columns["temperature"][i] = 2 * kinetic / (degrees * GAS_CONSTANT)
        volume = state.getPeriodicBoxVolume().value_in_unit(unit.nanometer**3)
        columns["density"][i] = DALTONS_PER_NM3 * sum(masses) / volume
        if not all(np.isfinite(column[i]) for column in columns.values()):
            raise FloatingPointError(f"energy not finite after {(i + 1) * burst * step:.2f} ps; use a smaller step")
    pairs = integrator.computeNumPenalizedPairs() if isinstance(integrator, MassPenaltyLangevinIntegrator) else 0
    return Series(step, 86.4 * samples * burst * step / seconds, pairs, columns)


class WithinErrors(Claim):
    """|value - expected| is at most the tolerance, which is so many errors: never undecided."""

    @property
    def verdict(self) -> str:
        return "pass" if abs(self.value - self.expected) <= self.tolerance else "FAIL"


def within_errors(text: str, series: np.ndarray, reference: np.ndarray) -> Claim:
    """Two runs have the same mean of a time series, for all that their errors tell."""
    error = np.hypot(blockedError(series), blockedError(reference))
    return WithinErrors(text, series.mean(), reference.mean(), error, MANY_ERRORS * error)


def sampling_claims(substance: Substance, run: Series, reference: Series) -> Iterator[Claim]:
    for kind in substance.kinds:
        text, series, expected = f"{kind}, {substance.energy_unit}", run.columns[kind], reference.columns[kind]
        if kind in substance.tolerances:
            absolute, relative = substance.tolerances[kind]
            yield mean_claim(text, series, expected, absolute + relative * expected.mean())
        else:
            yield within_errors(text, series, expected)
    if substance.barostat:
        yield within_errors("density, g/cm^3", run.columns["density"], reference.columns["density"])
    yield temperature_claim("temperature, K", run.columns["temperature"], 0.01)


def check_claims(results: dict[str, Series]) -> bool:
    row = "{:32}{:28}{:>5}{:>9}{:>10}{:>10}{:>10}  {}"
    print(row.format("run", "system", "fs", "1/ps", "ns/day", "steps/s", "T (K)", "distances slowed down"))
    for name, found in results.items():
        run = RUNS[name]
        print(row.format(name, SUBSTANCES[run.substance].label, f"{1000 * found.step:g}", f"{run.friction:g}",
                         f"{found.ns_per_day:.3f}", f"{found.ns_per_day / found.step / 86.4:.1f}",
                         f"{found.columns['temperature'].mean():.1f}", found.pairs))
    print(f"\nEnergies in kJ/mol per molecule, for villin in kT; +-: one standard error by blocking.\nThe "
          f"tolerance is {MANY_ERRORS} errors where no other is set.")
    report = Report()
    for name, run in RUNS.items():
        reference = reference_of(name)
        if name != reference and report.heading(name, reference, results):
            report.check(sampling_claims(SUBSTANCES[run.substance], results[name], results[reference]))
    return report.finish()


def main() -> int:
    parser = OptionParser(__doc__)
    parser.add_argument("--platform", type=choice(("CPU", "Reference")), default="CPU", metavar="NAME",
                        help="OpenMM platform, CPU or Reference (default: %(default)s)")
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed (default: %(default)s)")
    parser.add_argument("--time-scale", type=number(float, 0.0001, most=1000), default=1.0, metavar="FACTOR",
                        help="multiplies all times, for trials (default: %(default)s)")
    add_file_options(parser, RUNS)
    options = parser.parse_args()
    folder = f"masspenaltysystems_timescale{options.time_scale:g}_{options.platform}_seed{options.seed}"

    return validate(parser, options, folder, f"Flexible molecules, {TEMPERATURE:g} K", RUNS,
                    partial(make_run, options=options), Series.load, check_claims)


if __name__ == "__main__":
    run_program(main)
