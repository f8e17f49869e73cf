"""What `python -m openmmstiff benchmark` measures on each platform of OpenMM, printed as Markdown."""

import copy
import functools
import os
import platform as machine
from time import perf_counter

import numpy as np
import openmm
from openmm import app, unit

from . import (ImpulseLangevinIntegrator, MassPenaltyIntegrator, MassPenaltyLangevinIntegrator,
               ZhangSkeelLangevinIntegrator)
from .sampling import GAS_CONSTANT

TEMPERATURE, FRICTION = 300, 1              # K, 1/ps
SETTLING_FRICTION, SETTLING_STEPS = 20, 250     # of 4 fs
MINIMIZATION = 10, 30                       # kJ/mol/nm, iterations
COPIES = 1, 3, 5                            # of the small box along each edge of the others
FAST = 0.005                                # s for a step in a box: what is slower leaves the larger ones out
ERRORS = 4                                  # of the distribution of velocities
MOLECULES = 10_000                          # whose integration is timed without nonbonded forces
WARMING, BURSTS = 50, 20                    # steps before a measurement, and its parts
# In single precision forces are right to some 1e-5 of themselves, and positions at 3 nm to 1e-7 nm.
FORCE_TOLERANCE, POSITION_TOLERANCE = 1e-4, 1e-5    # relative, root mean square; nm
INTEGRATORS = (MassPenaltyLangevinIntegrator, 0.008), (ImpulseLangevinIntegrator, 0.004), \
    (ZhangSkeelLangevinIntegrator, 0.002)


def benchmark(platforms, seconds):
    """Print tables of agreement, conduct and speed, and a verdict; whether every platform does what Reference does."""
    platforms = platforms or find_platforms()
    wrong: dict[str, list[str]] = {name: [] for name in platforms}
    slow: dict[str, list[str]] = {name: [] for name in platforms}
    for what, measure, heading, columns in (
            ("positions", _compare_with_reference,
             "895 flexible TIP3P waters with PME: differences from Reference, relative of the forces (root mean "
             f"square, {FORCE_TOLERANCE:g} is allowed), and largest of the positions after a step of "
             f"MassPenaltyIntegrator of 4 fs ({POSITION_TOLERANCE:g} nm)", ["device", "forces", "positions (nm)", "agrees"]),
            ("conduct", _try_conduct,
             f"{MOLECULES:,} waters without nonbonded forces, MassPenaltyLangevinIntegrator at {TEMPERATURE} K: "
             f"temperature and kurtosis of the velocities (3 if they are normal), each within {ERRORS} standard "
             "errors; a step with forces that are not finite raises an error and changes nothing; a run goes on from a "
             "checkpoint to the last bit", ["temperature (K)", "kurtosis", "failed step", "checkpoint", "right"]),
            ("water", lambda name: _measure_water(name, seconds, slow[name]),
             f"TIP3P with PME, {TEMPERATURE} K, friction {FRICTION}/ps",
             ["waters", "LangevinMiddle + SETTLE, 4 fs (ns/day)", "MassPenaltyLangevin, 12 fs (ns/day)", "ratio"]),
            ("steps", lambda name: _measure_kernels(name, seconds),
             f"Step of {MOLECULES:,} waters without forces, relative to LangevinMiddle + SETTLE",
             ["LangevinMiddle + SETTLE (ms)", *(cls.__name__ for cls, _ in INTEGRATORS)])):
        _print_row("platform", *columns, heading=f"\n{heading}")
        for name in platforms:
            if not _try(name, measure):
                wrong[name].append(what)
    print()
    for name in platforms:
        verdict = f"wrong: {', '.join(wrong[name])}" if wrong[name] else "right"
        print(f"- {name}: {'; '.join([verdict, *slow[name]])}")
    return not any(wrong.values())


def find_platforms():
    """The names of OpenMM's platforms but Reference, each in its mixed precision if it has one."""
    platforms = [openmm.Platform.getPlatform(i) for i in range(openmm.Platform.getNumPlatforms())]
    return [platform.getName() + (":mixed" if "Precision" in platform.getPropertyNames() else "")
            for platform in platforms if platform.getName() != "Reference"]


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
    context, forces, positions = _step_once(name)
    _, expected, reference = _step_once("Reference")
    apart = np.sqrt(np.mean((forces - expected)**2)/np.mean(expected**2))
    moved = np.abs(positions - reference).max()
    agrees = apart < FORCE_TOLERANCE and moved < POSITION_TOLERANCE
    _print_row(name, _describe(context), f"{apart:.1e}", f"{moved:.1e}", "yes" if agrees else "NO")
    return bool(agrees)


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
        return context.getState(positions=True).getPositions(asNumpy=True)._value

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
def _step_once(name):
    """A Context of flexible water, its forces [kJ/mol/nm] and its positions after a step [nm]."""
    topology, positions = _water(1)
    system = _water_system(topology, rigid=False)
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setPMEParameters(3.3, 32, 32, 32)     # the same for all
    context = _context(name, system, positions, MassPenaltyIntegrator(0.004))
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


def _measure_water(name, seconds, slow):
    """Rows of ns/day, of which `slow` gets those where ours is slower; larger boxes are for devices that are fast."""
    for copies in COPIES:
        topology, positions = _water(copies)
        contexts, steps = [], (0.004, 0.012)
        for cls, step in zip((openmm.LangevinMiddleIntegrator, MassPenaltyLangevinIntegrator), steps):
            integrator = cls(TEMPERATURE, SETTLING_FRICTION, 0.004)
            rigid = cls is openmm.LangevinMiddleIntegrator
            contexts.append(_context(name, _water_system(topology, rigid), positions, integrator))
            integrator.step(SETTLING_STEPS)
            integrator.setStepSize(step)
            integrator.setFriction(FRICTION)
        found = _time_steps(contexts, seconds)
        speeds = [86.4*step/each for step, each in zip(steps, found)]
        _print_row(name, topology.getNumResidues(), *(f"{speed:.4g}" for speed in speeds),
                   f"{speeds[1]/speeds[0]:.2f}")
        if speeds[1] < speeds[0]:
            slow.append(f"slower than LangevinMiddle with SETTLE in {topology.getNumResidues()} waters")
        if "Precision" not in contexts[0].getPlatform().getPropertyNames() or found[0] > FAST:
            break
    return True


def _measure_kernels(name, seconds):
    """
    A row of what integrators do beside forces. For ours the bonded forces are taken away by what these add to a step of
    LangevinMiddle; OpenMM's own is timed on rigid water, where there are none.
    """
    runs = [(kind, openmm.LangevinMiddleIntegrator, 0.001) for kind in ("rigid", "free", "flexible")]
    runs += [("flexible", cls, step) for cls, step in INTEGRATORS]
    contexts = []
    for kind, cls, step in runs:
        system, positions = _molecules(kind)
        contexts.append(_context(name, system, positions, cls(TEMPERATURE, FRICTION, step)))
    settle, free, flexible, *own = _time_steps(contexts, seconds)
    _print_row(name, f"{1000*settle:.3g}", *(f"{(each - flexible + free)/settle:.2f}" for each in own))
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
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform(name),
                             {"Precision": precision} if precision else {})
    context.setPositions(positions)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    return context


@functools.cache
def _water(copies):
    """Topology and positions [nm] of OpenMM's box of 895 TIP3P waters, 3 nm wide, or so many along each edge."""
    pdb = app.PDBFile(os.path.join(app.__path__[0], "data", "tip3p.pdb"))
    integrator = openmm.VerletIntegrator(0.001)
    context = openmm.Context(_water_system(pdb.topology, rigid=True), integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(pdb.positions)
    openmm.LocalEnergyMinimizer.minimize(context, *MINIMIZATION)
    positions = context.getState(positions=True).getPositions(asNumpy=True)._value
    edge = pdb.topology.getUnitCellDimensions()[0].value_in_unit(unit.nanometer)
    topology, waters = app.Topology(), pdb.topology.getNumResidues()
    chain = topology.addChain()
    for _ in range(copies**3*waters):
        residue = topology.addResidue("HOH", chain)
        oxygen, *hydrogens = (topology.addAtom(name, app.Element.getBySymbol(name[0]), residue)
                              for name in ("O", "H1", "H2"))
        for hydrogen in hydrogens:
            topology.addBond(oxygen, hydrogen)
    topology.setUnitCellDimensions(copies*edge*openmm.Vec3(1, 1, 1))
    return topology, np.concatenate([positions + edge*np.array(place) for place in np.ndindex(3*(copies,))])


@functools.cache
def _water_system(topology, rigid):
    return app.ForceField("tip3p.xml").createSystem(topology, nonbondedMethod=app.PME, rigidWater=rigid,
                                                    nonbondedCutoff=0.9*unit.nanometer)


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
