"""What `python -m openmmstiff benchmark` measures on each platform of OpenMM, printed as Markdown."""

import copy
import functools
import os
import platform as machine
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm
from openmm import app, unit

from . import MassPenaltyIntegrator, MassPenaltyLangevinIntegrator
from ._forces import make_context
from ._installation import UNSUPPORTED
from .sampling import GAS_CONSTANT

TEMPERATURE, FRICTION = 300, 1              # K, 1/ps
SETTLING_FRICTION, SETTLING_STEPS = 20, 250     # of 4 fs or less
MINIMIZATION = 10, 30                       # kJ/mol/nm, iterations
COPIES = 1, 3, 5                            # of the small box along each edge of the others
HELICES = (12, 3.2), (36, 6.0)              # residues; edge of the box, nm
BILAYER = Path(app.__file__).parent/"data"/"POPC.pdb"
CHAINS, CHAIN = 100, 12                     # of molecules, and atoms of one, which a team of a device's threads moves
FAST = 0.005                                # s for a step in a box: what is slower leaves the larger ones out
ERRORS = 4                                  # of the distribution of velocities
MOLECULES = 10_000                          # whose integration is timed without nonbonded forces
WARMING, BURSTS = 50, 20                    # steps before a measurement, and its parts
# In single precision forces are right to some 1e-5 of themselves, and positions at 3 nm to 1e-7 nm.
FORCE_TOLERANCE, POSITION_TOLERANCE = 1e-4, 1e-5    # relative, root mean square; nm
IN_DOUBLE = 0.1, 0.01                               # times these, in double precision
OWN_STEP = 0.012                            # ps
OWN_COLUMNS = "MassPenaltyLangevin, 12 fs (ns/day)", "ratio", "steps (ms)"
KERNEL_STEP = 0.008                         # ps, of the steps without forces
HEAVY = 1.5*unit.dalton                     # of hydrogens, with which LangevinMiddle takes 5 fs


def benchmark(platforms, seconds, files=(), wrong_before=()):
    """
    Print tables of agreement, conduct and speed, that of the Systems in some PDB files among them, and a verdict;
    whether every platform does what Reference does, those too that were found wrong before.
    """
    platforms = platforms or find_platforms()
    wrong: dict[str, list[str]] = {name: [] for name in platforms} | {name: ["check"] for name in wrong_before}
    slow: dict[str, list[str]] = {name: [] for name in wrong}
    fast: list[str] = []
    for what, measure, heading, columns in (
            ("positions", _compare_with_reference,
             "Flexible TIP3P water, a helix of alanines with constraints in water, by PME, and chains of "
             f"{CHAIN} atoms: differences from Reference, relative of the forces (root mean square, "
             f"{FORCE_TOLERANCE:g} is allowed), and largest of the positions after a step of MassPenaltyIntegrator "
             f"of 4 fs ({POSITION_TOLERANCE:g} nm); {IN_DOUBLE[0]:g} and {IN_DOUBLE[1]:g} of these in double precision",
             ["device", "box", "forces", "positions (nm)", "agrees"]),
            ("conduct", _try_conduct,
             f"{MOLECULES:,} waters without nonbonded forces, MassPenaltyLangevinIntegrator at {TEMPERATURE} K: "
             f"temperature and kurtosis of the velocities (3 if they are normal), each within {ERRORS} standard "
             "errors; a step with forces that are not finite raises an error and changes nothing; a run goes on from a "
             "checkpoint to the last bit", ["temperature (K)", "kurtosis", "failed step", "checkpoint", "right"]),
            ("water", lambda name: _measure_speeds(name, seconds, slow[name], _water_box, COPIES, (0.004, 0.005), fast),
             f"TIP3P with PME, {TEMPERATURE} K, friction {FRICTION}/ps",
             ["box", "LangevinMiddle + SETTLE, 4 fs (ns/day)", "5 fs", *OWN_COLUMNS]),
            ("AMOEBA", lambda name: _measure_speeds(name, seconds, slow[name], _amoeba_box, COPIES[:1], (0.001,)),
             f"AMOEBA water with PME and mutual polarization, {TEMPERATURE} K, friction {FRICTION}/ps",
             ["box", "LangevinMiddle, 1 fs (ns/day)", *OWN_COLUMNS]),
            ("protein", lambda name: _measure_speeds(name, seconds, slow[name], _helix_box, HELICES, (0.004, 0.005)),
             f"A helix of alanines in TIP3P with PME, constraints=HBonds, {TEMPERATURE} K, friction {FRICTION}/ps",
             ["box", "LangevinMiddle, 4 fs (ns/day)", "5 fs, hydrogens of 1.5 dalton", *OWN_COLUMNS]),
            ("large", lambda name: all([_measure_speeds(name, seconds, slow[name], _pdb_box, [file], (0.004, 0.005))
                                        for file in [BILAYER]*(name in fast) + list(files)]),
             f"OpenMM's bilayer of 128 POPC, and what is given by --pdb, by amber14 with PME, constraints=HBonds, "
             f"{TEMPERATURE} K, friction {FRICTION}/ps",
             ["box", "LangevinMiddle, 4 fs (ns/day)", "5 fs, hydrogens of 1.5 dalton", *OWN_COLUMNS]),
            ("steps", lambda name: _measure_kernels(name, seconds),
             f"Step of {MOLECULES:,} waters without forces, relative to LangevinMiddle + SETTLE; what a step of "
             f"{CHAINS} chains of {CHAIN} atoms, blocks as those of proteins, takes longer than LangevinMiddle's",
             ["LangevinMiddle + SETTLE (ms)", "MassPenaltyLangevin", "chains (ms)"])):
        tried = fast if what == "AMOEBA" or what == "large" and not files else platforms
        if tried:
            _print_row("platform", *columns, heading=f"\n{heading}")
        for name in tried:
            if not _try(name, measure):
                wrong[name].append(what)
    print()
    for name in wrong:
        verdict = f"wrong: {', '.join(wrong[name])}" if wrong[name] else "right"
        print(f"- {name}: {'; '.join([verdict, *slow[name]])}")
    return not any(wrong.values())


def find_platforms():
    """The names of OpenMM's platforms but Reference, each in its mixed precision if it has one, or else in single."""
    platforms = [openmm.Platform.getPlatform(i) for i in range(openmm.Platform.getNumPlatforms())]
    return [platform.getName() + (_mixed_or_single(platform) if "Precision" in platform.getPropertyNames() else "")
            for platform in platforms if platform.getName() != "Reference"]


def _mixed_or_single(platform):
    system = openmm.System()
    system.addParticle(1)
    try:
        openmm.Context(system, openmm.VerletIntegrator(0.001), platform, {"Precision": "mixed"})
    except openmm.OpenMMException as error:
        if UNSUPPORTED in str(error):
            return ":single"
    return ":mixed"


def _print_row(*cells, heading=None):
    if heading is not None:
        print(f"{heading}\n")
    print("|", " | ".join(map(str, cells)), "|", flush=True)
    if heading is not None:
        print("|", " | ".join("---" for _ in cells), "|", flush=True)


def _try(name, measure):
    """Whether a measurement on a platform, which prints its rows, succeeds; else a row says what has happened."""
    try:
        return measure(name)
    except Exception as error:      # whatever a driver or its compiler comes up with is to be shown
        _print_row(name, "fails: " + " ".join(str(error).split()).replace("|", "/"))
        return False


def _compare_with_reference(name):
    """A row for each box, of which the small ones do: whether they agree."""
    right, sharper = True, IN_DOUBLE if name.endswith(":double") else (1, 1)
    for build, size in (_water_box, COPIES[0]), (_helix_box, HELICES[0]), (_chain_box, CHAIN):
        context, forces, positions = _step_once(name, build, size)
        _, expected, reference = _step_once("Reference", build, size)
        apart = np.sqrt(np.mean((forces - expected)**2)/np.mean(expected**2))
        moved = np.abs(positions - reference).max()
        agrees = bool(apart < sharper[0]*FORCE_TOLERANCE and moved < sharper[1]*POSITION_TOLERANCE)
        _print_row(name, _describe(context), build(size)[0], f"{apart:.1e}", f"{moved:.1e}", "yes" if agrees else "NO")
        right &= agrees
    return right


def _trap():
    """No force on the first particle if `broken` is 1, as it is, and one that is not a number if it is 2."""
    force = openmm.CustomExternalForce("sqrt(1-broken)*x")
    force.addGlobalParameter("broken", 1)
    force.addParticle(0)
    return force


def _try_conduct(name):
    system, positions = _molecules("flexible")
    system = copy.deepcopy(system)
    system.addForce(_trap())
    integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, SETTLING_FRICTION, 0.004)
    context = _context(name, system, positions, integrator)
    integrator.step(SETTLING_STEPS)
    masses = np.array([system.getParticleMass(i)._value for i in range(system.getNumParticles())])
    velocities = context.getState(velocities=True).getVelocities(asNumpy=True)._value*np.sqrt(masses)[:, None]
    square = np.mean(velocities**2)
    temperature, kurtosis = square/GAS_CONSTANT, np.mean(velocities**4)/square**2
    error = ERRORS/np.sqrt(velocities.size)     # of a mean of normal numbers; with a variance of 2 that of squares
    normal = abs(temperature/TEMPERATURE - 1) < error*2**0.5 and abs(kurtosis - 3) < error*24**0.5

    def place():
        state = context.getState(positions=True, velocities=True)
        return [state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value]

    before, refused = place(), False
    context.setParameter("broken", 2)
    try:
        integrator.step(1)
    except openmm.OpenMMException:
        refused = np.array_equal(place(), before)
    context.setParameter("broken", 1)
    checkpoint = context.createCheckpoint()
    ends = []
    for _ in range(2):
        context.loadCheckpoint(checkpoint)
        integrator.step(WARMING)
        ends.append(place())
    same = bool(np.isfinite(ends[0]).all()) and np.array_equal(*ends)
    right = normal and refused and same
    _print_row(name, f"{temperature:.1f}", f"{kurtosis:.3f}",
               *("yes" if each else "NO" for each in (refused, same, right)))
    return right


@functools.cache
def _step_once(name, build, size):
    """A Context of a box, its forces [kJ/mol/nm] and its positions after a step [nm]."""
    _, positions, system, *_ = build(size)
    system = copy.deepcopy(system)
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setPMEParameters(3.3, 32, 32, 32)     # the same for all
    context = _context(name, system, positions, MassPenaltyIntegrator(0.004))
    context.applyConstraints(1e-8)
    forces = context.getState(forces=True).getForces(asNumpy=True)._value
    context.getIntegrator().step(1)
    return context, forces, context.getState(positions=True).getPositions(asNumpy=True)._value


def _describe(context):
    """The device of a Context: its name, or the number of threads and the processor's."""
    platform = context.getPlatform()
    for name in platform.getPropertyNames():
        if name in ("DeviceName", "Threads"):
            value = platform.getPropertyValue(context, name)
            return value if name == "DeviceName" else f"{value} threads of {_processor()}"
    return _processor()


def _processor():
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return machine.processor() or machine.machine()


def _measure_speeds(name, seconds, slow, build, sizes, rivals, fast=None):
    """
    Rows of ns/day at LangevinMiddle's steps and at ours, the ratio to the faster of the former, and what a step of each
    takes; `slow` gets those where ours is slower. Larger boxes are for devices that are fast, whose names `fast` gets.
    """
    for size in sizes:
        box, positions, flexible, *systems = build(size)
        contexts = []
        runs = [(openmm.LangevinMiddleIntegrator, *each) for each in zip(systems, rivals)]
        for cls, system, step in [*runs, (MassPenaltyLangevinIntegrator, flexible, OWN_STEP)]:
            integrator = cls(TEMPERATURE, SETTLING_FRICTION, min(step, 0.004))
            contexts.append(_context(name, system, positions, integrator))
            integrator.step(SETTLING_STEPS)
            integrator.setStepSize(step)
            integrator.setFriction(FRICTION)
        found = _time_steps(contexts, seconds)
        *speeds, ours = [86.4*step/each for step, each in zip((*rivals, OWN_STEP), found)]
        _print_row(name, box, *(f"{speed:.4g}" for speed in (*speeds, ours)), f"{ours/max(speeds):.2f}",
                   ", ".join(f"{1000*each:.3g}" for each in found))
        if ours < max(speeds):
            slow.append(f"slower than LangevinMiddle with constraints in {box}")
        if "Precision" not in contexts[0].getPlatform().getPropertyNames() or found[0] > FAST:
            break
        if fast is not None and name not in fast:
            fast.append(name)
    return True


def _measure_kernels(name, seconds):
    """
    A row of what integrators do beside forces. For ours the bonded forces are taken away by what these add to a step of
    LangevinMiddle; OpenMM's own is timed on rigid water, where there are none.
    """
    _, places, chains, _ = _chain_box(CHAIN)
    rigid, free, flexible = map(_molecules, ("rigid", "free", "flexible"))
    contexts = [_context(name, system, positions, openmm.LangevinMiddleIntegrator(TEMPERATURE, FRICTION, 0.001))
                for system, positions in (rigid, free, flexible, (chains, places))]
    contexts += [_context(name, system, positions, MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, KERNEL_STEP))
                 for system, positions in (flexible, (chains, places))]
    settle, free, flexible, chain, own, own_chain = _time_steps(contexts, seconds)
    _print_row(name, f"{1000*settle:.3g}", f"{(own - flexible + free)/settle:.2f}", f"{1000*(own_chain - chain):.3g}")
    return True


def _time_steps(contexts, seconds):
    """Seconds of a step of each Context, the least of some bursts. They take turns, so that all meet the same load."""
    def burst(context, steps):
        begin = perf_counter()
        context.getIntegrator().step(steps)
        velocities = context.getState(velocities=True).getVelocities(asNumpy=True)     # waits for the device
        taken = (perf_counter() - begin)/steps
        if not np.isfinite(velocities._value).all():
            raise FloatingPointError("velocities are not finite")
        return taken

    for context in contexts:
        burst(context, WARMING)
    steps = [max(1, int(seconds/BURSTS/burst(context, WARMING))) for context in contexts]
    return np.min([[burst(*each) for each in zip(contexts, steps)] for _ in range(BURSTS)], axis=0)


def _context(name, system, positions, integrator):
    """On a platform such as CUDA:mixed, at 300 K."""
    name, _, precision = name.partition(":")
    if hasattr(integrator, "setRandomNumberSeed"):
        integrator.setRandomNumberSeed(1)
    context = make_context(system, integrator, name, {"Precision": precision} if precision else {}, None, positions)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    return context


# Boxes: what they are, positions [nm], the System that ours is to move, and that of each step of OpenMM's integrator.

@functools.cache
def _water_box(copies):
    """OpenMM's box of 895 TIP3P waters, 3 nm wide, or so many along each edge: rigid, and flexible."""
    pdb = _read_water()
    force_field, topology = app.ForceField("tip3p.xml"), _water_topology(copies)
    rigid = _build_system(force_field, topology)
    positions = _minimize(_build_system(force_field, pdb.topology), pdb.positions)
    edge = pdb.topology.getUnitCellDimensions()[0].value_in_unit(unit.nanometer)
    return (f"{topology.getNumResidues()} waters",
            np.concatenate([positions + edge*np.array(place) for place in np.ndindex(3*(copies,))]),
            _build_system(force_field, topology, rigidWater=False), rigid, rigid)


def _read_water():
    return app.PDBFile(os.path.join(app.__path__[0], "data", "tip3p.pdb"))


def _water_topology(copies):
    one, topology = _read_water().topology, app.Topology()
    chain = topology.addChain()
    for _ in range(copies**3*one.getNumResidues()):
        residue = topology.addResidue("HOH", chain)
        oxygen, *hydrogens = (topology.addAtom(name, app.Element.getBySymbol(name[0]), residue)
                              for name in ("O", "H1", "H2"))
        for hydrogen in hydrogens:
            topology.addBond(oxygen, hydrogen)
    topology.setUnitCellDimensions(copies*one.getUnitCellDimensions())
    return topology


@functools.cache
def _amoeba_box(copies):
    """The same box in AMOEBA, flexible for both."""
    box, positions, *_ = _water_box(copies)
    system = app.ForceField("amoeba2018.xml").createSystem(
        _water_topology(copies), nonbondedMethod=app.PME, nonbondedCutoff=0.7*unit.nanometer, polarization="mutual",
        rigidWater=False)
    return box, positions, system, system


@functools.cache
def _helix_box(size):
    """A helix of alanines in a box of TIP3P water, with constraints=HBonds for both; `size`: residues, edge [nm]."""
    residues, edge = size
    force_field = app.ForceField("amber14/protein.ff14SB.xml", "amber14/tip3p.xml")
    modeller = app.Modeller(*_helix(residues))
    modeller.addHydrogens(force_field, platform=openmm.Platform.getPlatform("CPU"))
    modeller.addSolvent(force_field, boxSize=edge*openmm.Vec3(1, 1, 1)*unit.nanometer)
    system = _build_system(force_field, modeller.topology, constraints=app.HBonds)
    return (f"helix in water, {system.getNumParticles()} atoms", _minimize(system, modeller.positions), system, system,
            _build_system(force_field, modeller.topology, constraints=app.HBonds, hydrogenMass=HEAVY))


@functools.cache
def _pdb_box(file):
    """What is in a file, with its water, hydrogens and box, by amber14, with constraints=HBonds for both."""
    pdb, force_field = app.PDBFile(str(file)), app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    system = _build_system(force_field, pdb.topology, constraints=app.HBonds)
    return (f"{Path(file).stem}, {system.getNumParticles()} atoms", _minimize(system, pdb.positions), system, system,
            _build_system(force_field, pdb.topology, constraints=app.HBonds, hydrogenMass=HEAVY))


@functools.cache
def _chain_box(length):
    """Chains of so many atoms, without nonbonded forces."""
    system, bonds, angles = openmm.System(), openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
    positions = [_add_chain(length, system, bonds, angles) + [0, 0, 0.3*number] for number in range(CHAINS)]
    for force in bonds, angles:
        system.addForce(force)
    return f"{CHAINS} chains of {length} atoms", np.concatenate(positions), system, system


def _add_chain(length, system, bonds, angles):
    """A chain of so many atoms, a zigzag; its positions, nm."""
    first = system.getNumParticles()
    for atom in range(first, first + length):
        system.addParticle(12)
        if atom > first:
            bonds.addBond(atom - 1, atom, 0.15, 2e5)
        if atom > first + 1:
            angles.addAngle(atom - 2, atom - 1, atom, 2, 400)
    return np.array([(0.13*i, 0.075*(i % 2), 0) for i in range(length)])


def _helix(residues):
    """Topology and positions of the heavy atoms of so many alanines in an alpha helix, by bond lengths [nm], angles and
    torsions [degrees] of proteins."""
    backbone = (0.1329, 116, -47), (0.1458, 122, 180), (0.1525, 111, -57)   # N after psi, CA after omega, C after phi

    def place(before, length, angle, torsion):
        (a, b, c), angle, torsion = before, np.radians(angle), np.radians(torsion)
        along, normal = c - b, np.cross(b - a, c - b)
        along, normal = along/np.linalg.norm(along), normal/np.linalg.norm(normal)
        across = np.cos(torsion)*np.cross(normal, along) + np.sin(torsion)*normal
        return c + length*(np.sin(angle)*across - np.cos(angle)*along)

    chain = [np.array(start) for start in ((0, 0.15, 0.1), (0, 0, 0), (0.15, 0, 0))]
    for _ in range(residues + 1):
        for internal in backbone:
            chain.append(place(chain[-3:], *internal))
    topology, positions = app.Topology(), []
    peptide = topology.addChain()
    for k in range(1, residues + 1):
        n, alpha, c, following = chain[3*k:3*k + 4]
        atoms = {"N": n, "CA": alpha, "C": c, "O": place((n, alpha, c), 0.1231, 121, 133),
                 "CB": place((c, n, alpha), 0.153, 110, -122)} | ({"OXT": following} if k == residues else {})
        residue = topology.addResidue("ALA", peptide)
        for name, position in atoms.items():
            topology.addAtom(name, app.Element.getBySymbol(name[0]), residue)
            positions.append(position)
    topology.createStandardBonds()
    return topology, np.array(positions)*unit.nanometer


def _build_system(force_field, topology, **options):
    return force_field.createSystem(topology, nonbondedMethod=app.PME, nonbondedCutoff=0.9*unit.nanometer, **options)


def _minimize(system, positions):
    """On the CPU platform: some devices crash."""
    context = make_context(system, openmm.VerletIntegrator(0.001), "CPU", positions=positions)
    openmm.LocalEnergyMinimizer.minimize(context, *MINIMIZATION)
    return context.getState(positions=True).getPositions(asNumpy=True)._value


@functools.cache
def _molecules(kind):
    """A System of waters without nonbonded forces, rigid, flexible, or of atoms that are free; positions [nm]."""
    length, angle = 0.09572, 1.82421813
    shape = length*np.array([[0, 0, 0], [1, 0, 0], [np.cos(angle), np.sin(angle), 0]])
    system, bonds, angles = openmm.System(), openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
    for _ in range(MOLECULES):
        o, *hydrogens = (system.addParticle(mass) for mass in (15.99943, 1.007947, 1.007947))
        for hydrogen in hydrogens:
            bonds.addBond(o, hydrogen, length, 462750.4)
        angles.addAngle(hydrogens[0], o, hydrogens[1], angle, 836.8)
        if kind == "rigid":
            for i, j in (0, 1), (0, 2), (1, 2):
                system.addConstraint(o + i, o + j, np.linalg.norm(shape[i] - shape[j]))
    if kind == "flexible":
        system.addForce(bonds)
        system.addForce(angles)
    places = 0.31*np.array(list(np.ndindex(MOLECULES//400, 20, 20)))
    return system, (places[:, None] + shape).reshape(-1, 3)
