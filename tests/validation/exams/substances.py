"""MassPenaltyLangevinIntegrator samples other systems as LangevinMiddle does with a small step.

Flexible SPC/E, TIP4P-Ew (which has virtual sites) and TIP3P at constant pressure, methanol, and a protein in water,
none with constraints.
"""
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import StringIO

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator

from exam import Claim, Exam, Results, Settings, Table, bath_claim, by_name, each, mean_claim, mean_within
from common.observables import observe_density
from common.tables import mean_with_error
from common.water_sampling import SAMPLE_INTERVAL
from tip3p_water import TEMPERATURE
from common.proteins import KT, read_villin
from common.water import (ANGLE_GROUP, BOND_GROUP, CUTOFF, EQUILIBRATION_FRICTION, GROUPS, HEAVY_HYDROGEN,
                          NONBONDED_GROUP, build_box, build_system)

TORSION_GROUP, PROTEIN_BOND_GROUP, PROTEIN_ANGLE_GROUP = 4, 5, 6
PME = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer, "rigidWater": False}
PRESSURE = 1.0             # bar
BAROSTAT_INTERVAL = 0.024  # ps between two attempts to change the volume, with any step
EQUILIBRATION_STEP = 0.0025  # ps, of LangevinMiddle with heavy hydrogens, which change no average
VILLIN_INTERVAL = 0.12     # ps, a whole number of steps of 0.5, 5, 6 or 8 fs

# OPLS-AA: Jorgensen, Maxwell and Tirado-Rives, J. Am. Chem. Soc. 118, 11225 (1996); units as in OpenMM. Here unlike
# atoms have the mean sigma, as with every NonbondedForce, where OPLS-AA has the geometric mean.
ATOMS = {"C": "CT", "H1": "HC", "H2": "HC", "H3": "HC", "O": "OH", "HO": "HO"}      # their types
BONDS = (("C", "H1"), ("C", "H2"), ("C", "H3"), ("C", "O"), ("O", "HO"))
METHANOL = """
<ForceField>
 <AtomTypes>
  <Type name="CT" class="CT" element="C" mass="12.011"/>
  <Type name="HC" class="HC" element="H" mass="1.008"/>
  <Type name="OH" class="OH" element="O" mass="15.9994"/>
  <Type name="HO" class="HO" element="H" mass="1.008"/>
 </AtomTypes>
 <Residues>
  <Residue name="MOH">{residue}</Residue>
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
    # Of the means: absolute, in the unit of the energies, and relative. Kinds without have three errors.
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
        atoms = {name: topology.addAtom(name, app.Element.getBySymbol(name[0]), residue) for name in ATOMS}
        for first, second in BONDS:
            topology.addBond(atoms[first], atoms[second])
    axis = edge / METHANOL_LATTICE * (np.arange(METHANOL_LATTICE) + 0.5)
    centres = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 1, 3)
    turns, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(molecules, 3, 3)))  # some are reflections as well
    positions = centres + (METHANOL_SHAPE - METHANOL_SHAPE.mean(axis=0)) @ turns
    atom_lines = (f'<Atom name="{name}" type="{kind}"/>' for name, kind in ATOMS.items())
    bond_lines = (f'<Bond atomName1="{first}" atomName2="{second}"/>' for first, second in BONDS)
    forcefield = app.ForceField(StringIO(METHANOL.format(residue="".join((*atom_lines, *bond_lines)))))
    system = forcefield.createSystem(topology, hydrogenMass=hydrogen_mass, **PME)
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
        if not isinstance(force, (mm.HarmonicBondForce, mm.HarmonicAngleForce)):
            continue
        kind, group = (("Bond", PROTEIN_BOND_GROUP) if isinstance(force, mm.HarmonicBondForce) else
                       ("Angle", PROTEIN_ANGLE_GROUP))
        of_water, of_protein = type(force)(), type(force)()
        of_water.setForceGroup(force.getForceGroup())
        of_protein.setForceGroup(group)
        for k in range(getattr(force, f"getNum{kind}s")()):
            term = getattr(force, f"get{kind}Parameters")(k)
            getattr(of_water if term[0] in waters else of_protein, f"add{kind}")(*term)
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
        {}, per_molecule=False, equilibration=8.0, interval=VILLIN_INTERVAL),
}
LangevinMiddle = mm.LangevinMiddleIntegrator
RUNS = {  # the first of each substance is the reference
    "spce-middle-1fs": Run("spce", 0.001, 280.0, LangevinMiddle),
    "spce-penalty-12fs": Run("spce", 0.012, 1200.0),
    "tip4pew-middle-1fs": Run("tip4pew", 0.001, 350.0, LangevinMiddle),
    "tip4pew-penalty-10fs": Run("tip4pew", 0.010, 1600.0),
    "tip3p-npt-middle-1fs": Run("tip3p-npt", 0.001, 120.0, LangevinMiddle),
    "tip3p-npt-penalty-12fs": Run("tip3p-npt", 0.012, 300.0),
    "methanol-middle-1fs": Run("methanol", 0.001, 40.0, LangevinMiddle),
    "methanol-penalty-10fs": Run("methanol", 0.010, 100.0),
    # Masses change no average; hydrogens of 4 dalton at 2 fs are sampled as those of 1 dalton at 1 fs.
    "villin-middle-2fs-heavy": Run("villin", 0.002, 45.0, LangevinMiddle, hydrogen_mass=HEAVY_HYDROGEN),
    "villin-penalty-11fs": Run("villin", 0.011, 100.0),
    "villin-penalty-8fs-heavy": Run("villin", 0.008, 60.0, hydrogen_mass=HEAVY_HYDROGEN),
}


def reference_of(name: str) -> str:
    return next(other for other, run in RUNS.items() if run.substance == RUNS[name].substance)


def build(substance: Substance, integrator: mm.Integrator, hydrogen_mass: float | None, seed: int) -> Model:
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
    return model


def equilibrate(substance: Substance, settings: Settings, seed: int) -> mm.State:
    """Minimize and run LangevinMiddle: the start of all runs of a substance."""
    integrator = LangevinMiddle(TEMPERATURE, EQUILIBRATION_FRICTION, EQUILIBRATION_STEP)
    model = build(substance, integrator, HEAVY_HYDROGEN, seed)
    context = settings.begin(model.system, integrator, model.positions, TEMPERATURE, seed, 200)
    integrator.step(settings.steps(substance.equilibration, EQUILIBRATION_STEP))
    return context.getState(positions=True)


def seed_of(name: str, settings: Settings) -> int:
    return 1000 * settings.seed + list(RUNS).index(name)


def make(name: str, settings: Settings) -> dict:
    """Settle from the State that all runs of the substance start from, and sample."""
    run, seed = RUNS[name], seed_of(name, settings)
    substance = SUBSTANCES[run.substance]
    state = settings.shared(run.substance, partial(equilibrate, substance, settings,
                                                   seed_of(reference_of(name), settings)))
    integrator = run.make(TEMPERATURE, run.friction, run.step)
    model = build(substance, integrator, run.hydrogen_mass, seed)
    context = settings.begin(model.system, integrator, state, TEMPERATURE, seed)
    found = settings.sample(context, substance.settling, run.time, substance.interval,
                            groups={kind: {group} for kind, group in substance.kinds.items()},
                            observe=observe_density(model.system))
    scale = model.molecules if substance.per_molecule else KT
    return {"temperature": found.temperature, **found.observed,
            **{kind: energy / scale for kind, energy in found.energies.items()}}


def claims(results: Results, name: str) -> Iterator[Claim]:
    substance, found, reference = SUBSTANCES[RUNS[name].substance], results[name], results[reference_of(name)]
    for kind in substance.kinds:
        text = f"{kind}, {substance.energy_unit}"
        if kind in substance.tolerances:
            absolute, relative = substance.tolerances[kind]
            yield mean_claim(text, found[kind], reference[kind], absolute + abs(relative * reference[kind].mean()))
        else:
            yield mean_within(text, found[kind], reference[kind])
    if substance.barostat:
        yield mean_within("density, g/cm^3", found["density"], reference["density"])
    yield bath_claim("temperature, K", found["temperature"], TEMPERATURE, 0.01)


def row(name: str, result: dict) -> list[str]:
    run = RUNS[name]
    substance = SUBSTANCES[run.substance]
    energies = (result[kind if kind in substance.kinds else f"protein {kind}"] for kind in
                ("nonbonded", "bonds", "angles"))
    label = "LangevinMiddle" if run.make is LangevinMiddle else "mass penalty"
    heavy = f", H of {run.hydrogen_mass:g} dalton" if run.hydrogen_mass else ""
    return [name, substance.label, f"{label}, {1000 * run.step:g}{heavy}",
            *(mean_with_error(series, 3 if substance.per_molecule else 0) for series in energies),
            mean_with_error(result["temperature"], 1), mean_with_error(result["density"], 4)]


def report(results: Results) -> Iterator[Claim | Table]:
    yield Table(f"{TEMPERATURE:g} K; energies in kJ/mol per molecule, of villin in kT",
                ["run", "system", "integrator, step (fs)", "nonbonded", "bonds", "angles", "T (K)", "density (g/cm³)"],
                [row(name, result) for name, result in results.items() if "failure" not in result], "substances")
    yield from each([name for name in RUNS if name != reference_of(name)], partial(claims, results))


# Large steps lower the nonbonded energy by some 0.3 %, that of water.
LIMITS = {("spce-penalty-12fs", "nonbonded, kJ/mol"): (-53.25, 0.15),
          ("villin-penalty-8fs-heavy", "nonbonded, kT"): (-65540, 150),
          ("villin-penalty-11fs", "nonbonded, kT"): (-65570, 150)}
EXAM = Exam("substances", "Mass penalty on other substances, against LangevinMiddle", by_name(make, RUNS), report,
            LIMITS)
