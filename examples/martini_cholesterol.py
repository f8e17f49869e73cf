#!/usr/bin/env python
"""Cholesterol of Martini 2 at 20 and 30 fs, whose ring is held by constraints that OpenMM's CCMA cannot solve.

Five constraints between four beads, two triangles with a common edge, and three virtual sites: the topology of M. N.
Melo (martini_v2.0_CHOL_02.itp; H. I. Ingolfsson et al., J. Am. Chem. Soc. 136, 14554, 2014), with the nonbonded levels
of S. J. Marrink et al. (J. Phys. Chem. B 111, 7812, 2007). Around it is butane, single C1 beads.

CCMA takes the coupling of two constraints that share a bead from a third one that closes the triangle, or from a
harmonic angle; where it finds none it leaves the coupling out. Then its iteration diverges here at every step size,
without an exception (OpenMM issue 3603). Told the angles of the flat ring, by harmonic angles of no strength, it
diverges as soon as a ring folds too far. Springs of 10^6 kJ/mol/nm^2 instead of the constraints, as the topology has
them for minimization, need a small step. MassPenaltyLangevinIntegrator takes both forms as they are: it solves
constraints with their full matrix, and makes springs heavy.

For production take the constraints: they are the model, exact, and no slower. Minimize with the springs, because
OpenMM's minimizer calls CCMA. Both forms differ a little by themselves: constraints favour folded rings, by the factor
sqrt(det(G M^-1 G^T)), which adds 0.11 kJ/mol per cholesterol to the mean energy of the fold.
"""
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import Samples, sample

from common.options import (OptionParser, add_names_option, add_platform_options, add_record_option, add_run_options,
                            number, progress_bar, run_program)
from common.tables import NOTE, mean_with_error, print_table
from common.water import advance

TEMPERATURE = 310.0         # K
CUTOFF = 1.1                # nm, at which the nonbonded energy is shifted to 0
SPRING = 1e6                # kJ/mol/nm^2, instead of a constraint
BUTANE_MASS = 72.0          # dalton
MIN_BUTANES = 100           # fewer leave a box of less than twice the cutoff
EQUILIBRATION_STEP = 0.02   # ps, with constraints
PRESSURES = 500.0, 1.0      # bar, in the first third of the equilibration, to close up, and then
SETTLING_TIME = 10.0        # ps, with each run's own integrator
SAMPLE_INTERVAL = 0.3       # ps, a whole number of steps of 2, 5, 10, 20 or 30 fs
BROKEN = 0.1                # a relative deviation of a length that is no vibration
NONBONDED, BONDED = 0, 1    # groups

BEADS = ("ROH", "R1", "R2", "R3", "R4", "R5", "C1", "C2")
TYPES = ("SP1", "SC1", "SC3", "SC1", "SC1", "SC1", "SC1", "C1")
MASSES = (77.22, 0.0, 38.69, 159.65, 0.0, 0.0, 39.44, 72.0)     # dalton; 0: a virtual site
ROH, R1, R2, R3, R4, R5, C1, C2 = range(len(BEADS))
MASSIVE = [ROH, R2, R3, C1, C2]
LENGTHS: dict[tuple[int, ...], float] = {
    (ROH, R2): 0.4904, (ROH, R3): 0.6019, (R2, R3): 0.2719, (R2, C1): 0.7237, (R3, C1): 0.5376}  # nm
TAIL = 0.425, 1250.0                        # nm and kJ/mol/nm^2, the bond C1-C2
ANGLE = "25/2*(cos(theta)+1)^2"             # R3-C1-C2
FOLD = "50/2*min(d, 2*pi-d)^2; d=abs(theta-flat); flat=-179.7*pi/180; pi=3.14159265359"     # of the two triangles
# Beads of rings are smaller, and bind each other less.
PAIRS = ("4*epsilon*(s^2-s-(c^2-c)); s=(sigma/r)^6; c=(sigma/cutoff)^6; sigma=0.47-0.04*ring1*ring2;"
         "epsilon=(1-0.25*ring1*ring2)*(3.5+polar1*polar2-0.8*(polar1*apolar2+apolar1*polar2))")
KINDS = {"SP1": (1, 1, 0), "SC1": (1, 0, 1), "SC3": (1, 0, 0), "C1": (0, 0, 1)}     # ring, polar, apolar


def build_shape() -> np.ndarray:
    """A flat cholesterol, nm; virtual sites are at the origin, until the Context places them."""
    shape, edge = np.zeros((len(BEADS), 3)), LENGTHS[R2, R3]
    shape[R3, 2] = edge
    for bead, side in ((ROH, 1), (C1, -1)):
        to_r2, to_r3 = (LENGTHS[tuple(sorted((bead, ring)))] for ring in (R2, R3))
        along = (to_r2**2 - to_r3**2 + edge**2) / (2 * edge)
        shape[bead] = 0, side * (to_r2**2 - along**2) ** 0.5, along
    shape[C2] = shape[C1] + TAIL[0] * (shape[C1] - shape[R3]) / LENGTHS[R3, C1]
    return shape


def make_forces() -> dict[str, mm.Force]:
    """Those of the model by name, without particles, in their groups."""
    pairs = mm.CustomNonbondedForce(PAIRS)
    pairs.addGlobalParameter("cutoff", CUTOFF)
    for name in ("ring", "polar", "apolar"):
        pairs.addPerParticleParameter(name)
    pairs.setNonbondedMethod(mm.CustomNonbondedForce.CutoffPeriodic)
    pairs.setCutoffDistance(CUTOFF)
    forces = {"pairs": pairs, "tails": mm.HarmonicBondForce(), "angles": mm.CustomAngleForce(ANGLE),
              "folds": mm.CustomTorsionForce(FOLD), "springs": mm.HarmonicBondForce()}
    for name, force in forces.items():
        force.setForceGroup(NONBONDED if name == "pairs" else BONDED)
    return forces


def add_cholesterol(system: mm.System, forces: dict[str, mm.Force], form: str):
    """One more molecule, its ring held by constraints or by springs."""
    first = system.getNumParticles()

    def indices(*beads: int) -> list[int]:
        return [first + bead for bead in beads]
    for mass, kind in zip(MASSES, TYPES):
        system.addParticle(mass)
        forces["pairs"].addParticle(KINDS[kind])
    for beads, length in LENGTHS.items():
        if form == "springs":
            forces["springs"].addBond(*indices(*beads), length, SPRING)
        else:
            system.addConstraint(*indices(*beads), length)
    system.setVirtualSite(first + R1, mm.OutOfPlaneSite(*indices(R2, ROH, R3), 0.5207, 0.2882, -0.83824))
    system.setVirtualSite(first + R4, mm.ThreeParticleAverageSite(*indices(R3, R2, C1), 1 - 0.9613 - 0.6320, 0.9613,
                                                                  0.6320))
    system.setVirtualSite(first + R5, mm.OutOfPlaneSite(*indices(R3, R2, C1), 0.2287, 0.4111, 1.1531))
    forces["tails"].addBond(*indices(C1, C2), *TAIL)
    forces["angles"].addAngle(*indices(R3, C1, C2))
    forces["folds"].addTorsion(*indices(ROH, R2, R3, C1))
    for beads in (*combinations(range(C2), 2), (C1, C2)):
        forces["pairs"].addExclusion(*indices(*beads))


def build_system(cholesterols: int, butanes: int, form: str) -> mm.System:
    """The cholesterols first, then the butanes."""
    system, forces = mm.System(), make_forces()
    for _ in range(cholesterols):
        add_cholesterol(system, forces, form)
    for _ in range(butanes):
        system.addParticle(BUTANE_MASS)
        forces["pairs"].addParticle(KINDS["C1"])
    for force in forces.values():
        system.addForce(force)
    return system


def build_lattice(cholesterols: int, butanes: int) -> tuple[np.ndarray, float]:
    """Positions with much room, and the edge of their cubic box, nm: cells of 1 x 1 x 2 nm with one cholesterol or
    three butanes each, in random order."""
    column = np.array([(0, 0, z) for z in (-0.67, 0, 0.67)])
    edge = 4
    while edge**3 // 2 < cholesterols + -(-butanes // len(column)):
        edge += 2
    cells = np.random.default_rng(1).permutation(
        np.array([(x, y, 2 * z) for x, y, z in np.ndindex(edge, edge, edge // 2)]))
    shape = build_shape() - build_shape()[MASSIVE].mean(axis=0)
    axes = np.linalg.svd(shape[MASSIVE])[2]     # the longest first, which is to be z
    upright = shape @ (axes * np.linalg.det(axes))[[1, 2, 0]].T     # a rotation, not a reflection
    solute, solvent = (cells[:cholesterols, None] + upright, cells[cholesterols:, None] + column)
    return np.concatenate([solute.reshape(-1, 3), solvent.reshape(-1, 3)[:butanes]]), float(edge)


def start(system: mm.System, integrator: mm.Integrator, positions, options) -> mm.Context:
    """A Context with positions, virtual sites included, but no velocities."""
    integrator.setRandomNumberSeed(options.seed)
    context = mm.Context(system, integrator, mm.Platform.getPlatform(options.platform))
    context.setPositions(positions)
    context.computeVirtualSites()
    return context


def equilibrate(options) -> mm.State:
    """From the lattice to a liquid at 1 bar, with a barostat."""
    system = build_system(options.cholesterols, options.butanes, "constraints")
    positions, edge = build_lattice(options.cholesterols, options.butanes)
    system.setDefaultPeriodicBoxVectors(*np.diag([edge] * 3))
    barostat = mm.MonteCarloBarostat(PRESSURES[0] * unit.bar, TEMPERATURE, 10)
    barostat.setRandomNumberSeed(options.seed)
    system.addForce(barostat)
    integrator = MassPenaltyLangevinIntegrator(TEMPERATURE, options.friction, EQUILIBRATION_STEP)
    context = start(system, integrator, positions, options)
    context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    steps = round(options.equilibration / EQUILIBRATION_STEP)
    with progress_bar("equilibration", steps) as bar:
        advance(integrator, steps // 3, bar.update)
        context.setParameter(mm.MonteCarloBarostat.Pressure(), PRESSURES[1] * unit.bar)
        advance(integrator, steps - steps // 3, bar.update)
    return context.getState(positions=True, velocities=True)


def deviation(state: mm.State, cholesterols: int) -> float:
    """The largest relative deviation of a length that is to be held; a FloatingPointError if they are lost."""
    beads = state.getPositions(asNumpy=True)[:cholesterols * len(BEADS)]._value.reshape(-1, len(BEADS), 3)
    first, second = np.array(list(LENGTHS)).T
    with np.errstate(all="ignore"):     # positions may be anything
        found = np.linalg.norm(beads[:, first] - beads[:, second], axis=2) / list(LENGTHS.values())
    largest = float(np.nan_to_num(np.abs(found - 1), nan=np.inf).max())
    if largest > BROKEN:
        raise FloatingPointError(f"a length is off by {largest:.1g} of itself")
    return largest


@dataclass
class Run:
    label: str
    form: str
    make: Callable[[float, float, float], mm.Integrator]
    steps: tuple[float, ...]    # fs


HELD = {"constraints": "constraints", "springs": "springs of 10⁶ kJ/mol/nm²"}     # the ring, by form
RUNS = {
    "ccma": Run("LangevinMiddle", "constraints", mm.LangevinMiddleIntegrator, (20.0, 2.0)),
    "springs": Run("LangevinMiddle", "springs", mm.LangevinMiddleIntegrator, (5.0, 10.0)),
    "penalty": Run("mass penalty", "constraints", MassPenaltyLangevinIntegrator, (10.0, 20.0, 30.0)),
    "slow": Run("mass penalty", "springs", MassPenaltyLangevinIntegrator, (20.0, 30.0)),
}


def settle(context: mm.Context, cholesterols: int, steps: int, progress: Callable[[int], object]):
    """Make steps, the first of them one by one: OpenMM does not say when constraints are lost."""
    done = 0
    while done < steps:
        burst = 1 if done < 100 else min(25, steps - done)
        context.getIntegrator().step(burst)
        done += burst
        progress(burst)
        deviation(context.getState(positions=True), cholesterols)


def begin_run(run: Run, fs: float, liquid: mm.State, options) -> mm.Context:
    """A run at its start: the equilibrated positions, and new velocities if they can be drawn."""
    system = build_system(options.cholesterols, options.butanes, run.form)
    system.setDefaultPeriodicBoxVectors(*liquid.getPeriodicBoxVectors())
    integrator = run.make(TEMPERATURE, options.friction, fs / 1000)
    context = start(system, integrator, liquid.getPositions(), options)
    if run.make is mm.LangevinMiddleIntegrator and system.getNumConstraints() > 0:
        context.setVelocities(liquid.getVelocities())  # to draw them is to call CCMA, which leaves NaN
    else:
        context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    return context


def make_run(context: mm.Context, label: str, options) -> Samples:
    """Settle, then sample."""
    step = context.getIntegrator().getStepSize().value_in_unit(unit.picosecond)
    burst, settling = round(SAMPLE_INTERVAL / step), round(SETTLING_TIME / step)
    samples = max(1, round(options.time / SAMPLE_INTERVAL))
    with progress_bar(f"{label}, {1000 * step:g} fs", settling + burst * samples) as bar:
        settle(context, options.cholesterols, settling, bar.update)
        return sample(context, burst, samples, groups={"nonbonded": {NONBONDED}}, progress=bar.update,
                      observe=lambda state: {"deviation": deviation(state, options.cholesterols)})


def main():
    parser = OptionParser(__doc__)
    add_run_options(parser, time=60.0)
    parser.add_argument("--cholesterols", type=number(int, 1), default=32, metavar="N",
                        help="number of cholesterols (default: %(default)s)")
    parser.add_argument("--butanes", default=500, metavar="N", help="number of butanes (default: %(default)s)",
                        type=number(int, MIN_BUTANES, "(the box edge must exceed twice the cutoff)"))
    parser.add_argument("--equilibration", type=number(float, 1, "ps"), default=300.0, metavar="PS",
                        help="time of the equilibration, ps (default: %(default)s)")
    add_names_option(parser, "--runs", RUNS)
    parser.add_argument("--steps", type=number(float, 1, "fs", most=100), nargs="+", metavar="FS",
                        help="step sizes for every run, fs (default: each has its own)")
    add_platform_options(parser)
    add_record_option(parser)
    options = parser.parse_args()
    liquid = equilibrate(options)
    edge = liquid.getPeriodicBoxVectors()[0][0].value_in_unit(unit.nanometer)
    print(f"{options.cholesterols} cholesterols and {options.butanes} butanes, {edge:.2f} nm, {TEMPERATURE:g} K, "
          f"friction {options.friction:g}/ps, {options.time:g} ps each, {options.platform}\n")

    def rows() -> Iterator[list[str]]:
        for run in (RUNS[name] for name in options.runs):
            for fs in options.steps or run.steps:
                label, context = [run.label, HELD[run.form], f"{fs:g}"], begin_run(run, fs, liquid, options)
                try:
                    found = make_run(context, run.label, options)
                except (FloatingPointError, mm.OpenMMException) as error:
                    time = context.getTime().value_in_unit(unit.picosecond)
                    yield [*label, f"fails after {time:.3g} ps: {str(error).split('. ')[0]}"]
                    continue
                yield [*label, mean_with_error(found.temperature, 1), mean_with_error(found.energies["nonbonded"], 0),
                       f"{found.observed['deviation'].max():.0e}"]

    print_table(["integrator", "ring held by", "step (fs)", "T (K)", "nonbonded (kJ/mol)", "deviation"], rows(),
                options.record, "martini-cholesterol")
    print(f"\nDeviation: the largest, relative, of a length that is held; springs vibrate.{NOTE}")


if __name__ == "__main__":
    run_program(main)
