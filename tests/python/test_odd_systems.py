"""Odd Systems. A Context, its State and 20 steps: all stays finite, or an error says clearly what is wrong."""
import functools
import itertools

import numpy as np
import openmm
import pytest

from openmmstiff import penalizeConstraints
from systems import angles, bonds, custom_bond, force, periodic, system
from trials import ALL, INTEGRATORS, Refused, attempt, bind, create, judge, seeded, steps

NAN, PI = float("nan"), np.pi
STIFF = 3e5
BENT = [(0.1, 0, 0), (0, 0, 0), (-0.03, 0.095, 0)]
STRAIGHT = [(-0.1, 0, 0), (0, 0, 0), (0.1, 0, 0)]
SPREAD = [(0.4*i, 0.05*(i % 2), 0) for i in range(4)]
TETRAHEDRON = 0.05*np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)])


def line(count, angle=1.9):
    """A zigzag of particles at a distance of 0.1 nm."""
    return 0.1*np.array([(i*np.sin(angle/2), (i % 2)*np.cos(angle/2), 0) for i in range(count)])


def circle(count):
    turns = 2*PI*np.arange(count)/count
    return 0.1/(2*np.sin(PI/count))*np.column_stack([np.cos(turns), np.sin(turns), 0*turns])


def chain(count, k=STIFF, ring=False):
    return bonds(*((i, (i + 1) % count, 0.1, k) for i in range(count - (not ring))))


def charges(count, method=0, charge=0.3):
    return force("NonbondedForce", "addParticle", [(charge*(-1)**i, 0.2, 0.1) for i in range(count)],
                 setup=lambda made: (made.setNonbondedMethod(method), made.setCutoffDistance(0.6)))


def python_bond(state):
    """A bond between particles 0 and 1."""
    x = state.getPositions(asNumpy=True)._value
    d = x[1] - x[0]
    r = np.linalg.norm(d)
    forces = np.zeros(x.shape)
    forces[0], forces[1] = STIFF*(r - 0.1)*d/r, -STIFF*(r - 0.1)*d/r
    return 0.5*STIFF*(r - 0.1)**2, forces


drude = functools.partial(force, "DrudeForce", "addParticle", [(1, 0, -1, -1, -1, -1.0, 1e-3, 0, 0)])
CUBE = ((2, 0, 0), (0, 2, 0), (0, 0, 2))
TRICLINIC = ((2, 0, 0), (0.6, 2, 0), (-0.5, 0.7, 2))
SITE = {"masses": [12, 12, 0], "sites": [(2, (0, 1))]}
PAIR, TRIPLE = BENT[:2], BENT
MIDDLE = [BENT[0], BENT[1], (0.05, 0, 0)]
ONE_BOND, BEND = (0, 1, 0.1, STIFF), (0, 1, 2, 1.9, 300)

SYSTEMS = {
    "no particles": lambda: system([(0, 0, 0)][:0]),
    "one particle": lambda: system([(0, 0, 0)]),
    "free particles": lambda: system(SPREAD),
    "empty bond and angle forces": lambda: system(SPREAD, bonds(), angles()),
    "all massless": lambda: system(TRIPLE, masses=0),
    "massless particles with a bond": lambda: system(TRIPLE, chain(3), angles(BEND), masses=0),
    "bond of a massless particle": lambda: system(PAIR, bonds(ONE_BOND), masses=[0, 12]),
    "angle about a massless particle": lambda: system(TRIPLE, angles(BEND), masses=[12, 0, 12]),
    "constraint of massless particles": lambda: system(PAIR, masses=0, constraints=[(0, 1, 0.1)]),
    "constraint of massless ones and a bond": lambda: system(
        SPREAD, bonds((2, 3, 0.4, STIFF)), masses=[0, 0, 12, 12], constraints=[(0, 1, 0.4)]),
    "constraint of massless ones in a bonded molecule": lambda: system(
        line(4), bonds((1, 2, 0.1, STIFF), (2, 3, 0.1, STIFF)), masses=[0, 0, 12, 12], constraints=[(0, 1, 0.1)]),
    "constraint of a massless and a massive one": lambda: system(PAIR, masses=[0, 12], constraints=[(0, 1, 0.1)]),
    "bond to a virtual site": lambda: system(MIDDLE, bonds(ONE_BOND, (0, 2, 0.05, STIFF)), **SITE),
    "bond to a virtual site alone": lambda: system(MIDDLE, bonds((0, 2, 0.05, STIFF)), **SITE),
    "angle at a virtual site": lambda: system(MIDDLE, bonds(ONE_BOND), angles((0, 2, 1, PI, 300)), **SITE),
    "virtual site beside a bond": lambda: system(MIDDLE, bonds(ONE_BOND), **SITE),
    "virtual site of other sites": lambda: system(
        [*MIDDLE, (0.025, 0, 0)], bonds(ONE_BOND), masses=[12, 12, 0, 0], sites=[(2, (0, 1)), (3, (1, 2))]),
    "bond of length 0": lambda: system([(0, 0, 0), (0.01, 0, 0)], bonds((0, 1, 0, STIFF))),
    "bond of length 0, particles in one place": lambda: system([(0, 0, 0)]*2, bonds((0, 1, 0, STIFF))),
    "bond with k = 0": lambda: system(PAIR, bonds((0, 1, 0.1, 0))),
    "bond with k < 0": lambda: system(PAIR, bonds((0, 1, 0.1, -1e3))),
    "bond with k = 1e300": lambda: system(PAIR, bonds((0, 1, 0.1, 1e300))),
    "bond with k = 1e12": lambda: system(PAIR, bonds((0, 1, 0.1, 1e12))),
    "bond with k = nan": lambda: system(PAIR, bonds((0, 1, 0.1, NAN))),
    "bond with r0 = nan": lambda: system(PAIR, bonds((0, 1, NAN, STIFF))),
    "bond with r0 < 0": lambda: system(PAIR, bonds((0, 1, -0.1, STIFF))),
    "bond stretched 50-fold": lambda: system(BENT, bonds((0, 1, 0.002, STIFF))),
    "straight angle": lambda: system(STRAIGHT, chain(3), angles((0, 1, 2, PI, 300))),
    "straight angle, bent a little": lambda: system(
        [*STRAIGHT[:2], (0.1, 0.003, 0)], chain(3), angles((0, 1, 2, PI, 500))),
    "straight angle and another in a chain of 5": lambda: system(
        [*STRAIGHT, (0.14, 0.09, 0), (0.24, 0.09, 0)], chain(5),
        angles((0, 1, 2, PI, 500), (1, 2, 3, 2, 500), (2, 3, 4, 2, 500))),
    "linear molecule without angles": lambda: system(STRAIGHT, chain(3)),
    "straight angle that wants to bend": lambda: system(STRAIGHT, chain(3), angles(BEND)),
    "angle with theta0 = 0": lambda: system(TRIPLE, chain(3), angles((0, 1, 2, 0, 300))),
    "angle with theta0 = nan": lambda: system(TRIPLE, chain(3), angles((0, 1, 2, NAN, 300))),
    "angle with k < 0": lambda: system(TRIPLE, chain(3), angles((0, 1, 2, 1.9, -300))),
    "angle folded to 0": lambda: system([BENT[0], BENT[1], BENT[0]], chain(3), angles(BEND)),
    "angle without bonds": lambda: system(TRIPLE, angles(BEND)),
    "bonded particles in one place": lambda: system([(0, 0, 0)]*2, bonds(ONE_BOND)),
    "charges in one place": lambda: system([(0, 0, 0)]*2, charges(2)),
    "same bond twice": lambda: system(PAIR, bonds(ONE_BOND, ONE_BOND, (1, 0, 0.12, STIFF))),
    "bond of a particle with itself": lambda: system(PAIR, bonds((0, 0, 0.1, STIFF))),
    "angle with a particle twice": lambda: system(TRIPLE, angles((0, 1, 0, 1.9, 300))),
    "bond of a particle that is not there": lambda: system(PAIR, bonds((0, 7, 0.1, STIFF))),
    "chain of 300": lambda: system(line(300), chain(300), angles(*((i, i+1, i+2, 1.9, 300) for i in range(298)))),
    "ring of 3": lambda: system(circle(3), chain(3, ring=True)),
    "ring of 6": lambda: system(circle(6), chain(6, ring=True), angles(
        *((i, (i+1) % 6, (i+2) % 6, 2*PI/3, 300) for i in range(6)))),
    "complete graph of 4": lambda: system(TETRAHEDRON, bonds(
        *((i, j, 0.15, STIFF) for i, j in itertools.combinations(range(4), 2)))),
    "periodic bond through a triclinic box": lambda: system(
        [(0.05, 0.05, 0.05), (1.96, 0.05, 0.05)], periodic(bonds(ONE_BOND)), box=TRICLINIC),
    "periodic angle through a triclinic box": lambda: system(
        [(0.05, 0.05, 0.05), (1.96, 0.05, 0.05), (0.05, 0.15, 0.05)], periodic(bonds(ONE_BOND, (0, 2, 0.1, STIFF))),
        periodic(angles((1, 0, 2, 1.9, 300))), box=TRICLINIC),
    "CustomBondForce": lambda: system(PAIR, custom_bond("1e5*(r - 0.1)^2")),
    "CustomBondForce without curvature": lambda: system(PAIR, custom_bond("1e8*(r - 0.1)^4")),
    "CustomBondForce, log of a negative": lambda: system(PAIR, custom_bond("log(r - 1)")),
    "CustomBondForce, AMOEBA's": lambda: system(PAIR, custom_bond(
        "2e5*d^2*(1 - 25.5*d + 379.3*d^2); d = r - 0.1")),
    "CustomAngleForce": lambda: system(TRIPLE, chain(3), force("CustomAngleForce", "addAngle", [(0, 1, 2, [])],
                                                               "200*(theta - 1.9)^2")),
    "CustomCompoundBondForce": lambda: system(TRIPLE, force(
        "CustomCompoundBondForce", "addBond", [((0, 1, 2), [])], 3,
        "1e5*(distance(p1, p2) - 0.1)^2 + angle(p1, p2, p3)")),
    "PythonForce": lambda: system(PAIR, openmm.PythonForce(python_bond)),
    "torsions": lambda: system(line(4) + [(0, 0, 0.03*(i == 3)) for i in range(4)], chain(4), force(
        "PeriodicTorsionForce", "addTorsion", [(0, 1, 2, 3, 3, 0.5, 40)])),
    "torsion of a straight chain": lambda: system([(0.1*i, 0, 0) for i in range(4)], chain(4), force(
        "RBTorsionForce", "addTorsion", [(0, 1, 2, 3, 1, 2, 3, 4, 5, 6)])),
    "CMAP": lambda: system(line(5), chain(5), force(
        "CMAPTorsionForce", "addTorsion", [(0, 0, 1, 2, 3, 1, 2, 3, 4)], setup=lambda made: made.addMap(4, [0.0]*16))),
    "Drude particle": lambda: system(PAIR, drude(), masses=[12, 0.4]),
    "massless Drude particle": lambda: system(PAIR, drude(), masses=[12, 0]),
    "GBSA": lambda: system(SPREAD, charges(4), force("GBSAOBCForce", "addParticle", [(0.3*(-1)**i, 0.15, 0.8)
                                                                                   for i in range(4)])),
    "PME": lambda: system(SPREAD, bonds((0, 1, 0.4, STIFF)), charges(4, openmm.NonbondedForce.PME), box=CUBE),
    "barostat": lambda: system(SPREAD, bonds((0, 1, 0.4, STIFF)), charges(4, openmm.NonbondedForce.CutoffPeriodic),
                               seeded(openmm.MonteCarloBarostat(1, 300, 2)), box=CUBE),
    "Andersen thermostat": lambda: system(TRIPLE, chain(3), seeded(openmm.AndersenThermostat(300, 100))),
    "centre-of-mass motion remover": lambda: system(TRIPLE, chain(3), openmm.CMMotionRemover(1)),
    "constraints alone": lambda: system(TRIPLE, constraints=[(0, 1, 0.1), (1, 2, 0.0996)]),
    "constraint violated at the start": lambda: system(PAIR, constraints=[(0, 1, 0.3)]),
    "constraint of length 0": lambda: system(PAIR, constraints=[(0, 1, 0)]),
    "constraint of length nan": lambda: system(PAIR, constraints=[(0, 1, NAN)]),
    "constraints that contradict": lambda: system(circle(3), constraints=[(0, 1, 0.1), (1, 2, 0.1), (0, 2, 0.9)]),
    "more constraints than freedom": lambda: system(circle(6), constraints=[
        (i, j, np.linalg.norm(circle(6)[i] - circle(6)[j])) for i, j in itertools.combinations(range(6), 2)]),
    "bond and constraint of one pair": lambda: system(PAIR, bonds(ONE_BOND), constraints=[(0, 1, 0.1)]),
    "bonds and constraints in one molecule": lambda: system(line(4), chain(4), constraints=[(0, 1, 0.1)]),
    "bonds and constraints apart": lambda: system(SPREAD, bonds((0, 1, 0.4, STIFF)), constraints=[(2, 3, 0.403)]),
    "masses of 1e-6": lambda: system(TRIPLE, chain(3), angles(BEND), masses=1e-6),
    "masses of 1e6": lambda: system(TRIPLE, chain(3), angles(BEND), masses=1e6),
    "masses of 1e-6 and 1e6": lambda: system(TRIPLE, chain(3), angles(BEND), masses=[1e-6, 1e6]),
    "mass of 1e-300": lambda: system(PAIR, bonds(ONE_BOND), masses=[1e-300, 12]),
    "mass of nan": lambda: system(PAIR, bonds(ONE_BOND), masses=[NAN, 12]),
    "negative mass": lambda: system(PAIR, bonds(ONE_BOND), masses=[-1, 12]),
    "position of nan": lambda: system([(NAN, 0, 0), (0, 0, 0)], bonds(ONE_BOND)),
    "position of 1e300": lambda: system([(1e300, 0, 0), (0, 0, 0)], bonds(ONE_BOND)),
    "position of 1e8": lambda: system([(1e8, 0, 0), (1e8 + 0.1, 0, 0)], bonds(ONE_BOND)),
}


def penalized(make):
    made, positions = make()
    penalizeConstraints(made, 0.02, "linear")
    return made, positions


SYSTEMS |= {f"{what}, penalized": functools.partial(penalized, make) for what, make in SYSTEMS.items()
            if "constraint" in what}
# What cannot be, is stiffer than any step allows, or is refused on purpose by some classes. All others must work.
REFUSABLE = {
    "no particles", "constraint of a massless and a massive one", "bond with k = 1e300", "bond with k = 1e12",
    "Drude particle", "massless Drude particle",
    "bond with k = nan", "bond with r0 = nan", "bond with r0 < 0", "bond stretched 50-fold",
    "straight angle that wants to bend", "angle with theta0 = nan", "angle folded to 0",
    "bonded particles in one place", "charges in one place", "bond of a particle that is not there",
    "torsion of a straight chain",
    "constraint of length 0", "constraint of length nan", "constraints that contradict",
    "more constraints than freedom", "masses of 1e-6", "masses of 1e-6 and 1e6", "mass of 1e-300", "mass of nan",
    "negative mass", "position of nan", "position of 1e300",
    "MassPenaltyIntegrator, chain of 300",  # the velocities are set by hand, and hot for so many pairs
    *(f"{name}, bonds and constraints in one molecule" for name in INTEGRATORS
      if name.startswith(("ZhangSkeel", "Impulse"))),
}


def start(name, make, platform):
    """A Context with velocities of about 300 K."""
    made, positions = make()
    context = bind(made, create(name), platform, positions)
    context.setVelocities(0.4*np.sin(np.arange(3*len(positions))).reshape(-1, 3)
                          * np.array([[made.getParticleMass(i)._value > 0] for i in range(len(positions))]))
    context.computeVirtualSites()
    return context


def native(make, platform):
    """What VerletIntegrator makes of the System: (the error or "", whether energies are finite after a step)."""
    try:
        context = start("VerletIntegrator", make, platform)
        context.getState(**ALL)
        context.getIntegrator().step(1)
        state = context.getState(energy=True)
    except openmm.OpenMMException as error:
        return str(error), False
    return "", bool(np.isfinite(state.getPotentialEnergy()._value + state.getKineticEnergy()._value))


def trial(name, make, platform):
    natives_error, finite = native(make, platform)
    ends = []
    for _ in range(2):
        try:
            context = start(name, make, platform)
            context.getState(**ALL)
        except openmm.OpenMMException as error:
            if str(error) == natives_error:     # OpenMM's own, in its words
                raise Refused(natives_error) from None
        context = attempt(start, name, make, platform)
        try:
            attempt(context.getState, **ALL)
        except Refused as error:
            raise AssertionError(f"no State, unlike with VerletIntegrator: {error}") from None
        steps(context, 20, [name], finite)
        ends.append(context.getState(positions=True).getPositions(asNumpy=True)._value)
    assert np.array_equal(ends[0], ends[-1]), "a run does not repeat itself"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", INTEGRATORS)
def test_odd_systems(name, platform):
    judge((f"{name} on {what!r}, {platform.getName()}",
           functools.partial(trial, name, make, platform.getName()),
           not REFUSABLE & {what, what.removesuffix(", penalized"), f"{name}, {what}"})
          for what, make in SYSTEMS.items())
