#!/usr/bin/env python
"""AMOEBA water: the mass penalty at large steps, against what OpenMM itself offers.

A droplet of 27 molecules in a container, without a cutoff, or a periodic box of 216 with PME. An ordinary script, in
which the line of the integrator is changed: LangevinMiddleIntegrator at a small step is the reference, and
MTSLangevinIntegrator, which evaluates the bonded forces more often than the others, the alternative. The waters of
AMOEBA are flexible, and a step costs so much that what an integrator does in the host's memory does not count.
"""
from collections.abc import Iterator

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff._benchmark import find_platforms
from openmmstiff.sampling import Samples, blockedError, sample

from common.options import (OptionParser, add_record_option, add_run_options, choice, number, progress_bar,
                            run_program)
from common.tables import NOTE, mean_with_error, print_table, with_error
from tip3p_water import TEMPERATURE
from common.water import WaterBox, advance, build_box

CUTOFF = 0.7               # nm, of PME and of the van der Waals forces
CONTAINER = 0.6, 1000.0    # nm and kJ/mol/nm^2: oxygens outside of a sphere are drawn back by a spring
POLARIZATION_TOLERANCE = 1e-5
NONBONDED, BONDED, OUTSIDE = 0, 1, 2  # groups: polarizable and van der Waals forces; bonds, angles; the container
ENERGIES = {"nonbonded": {NONBONDED}, "bonded": {BONDED}}
EQUILIBRATION = {27: (0.001, 10.0), 216: (0.001, 1.0)}  # step and time, ps
SETTLING_TIME = {27: 10.0, 216: 0.5}  # ps, with each run's own integrator
REFERENCE_STEP = {27: 0.5, 216: 1.0}  # fs
SAMPLE_INTERVAL = 0.024    # ps, a whole number of steps of 0.5, 1, 2, 3, 4, 6 or 8 fs
INNER_STEP = 0.5           # fs, of the bonded forces of MTSLangevinIntegrator


def simulate(box, system: mm.System, positions, integrator: mm.Integrator, platform: str, seed: int) -> app.Simulation:
    """A Simulation on a platform such as OpenCL:mixed."""
    name, _, precision = platform.partition(":")
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(box.topology, system, integrator, mm.Platform.getPlatform(name),
                                {"Precision": precision} if precision else {})
    simulation.context.setPositions(positions)
    simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return simulation


def build_droplet(waters: int) -> WaterBox:
    """The molecules nearest to the centre of a box of TIP3P, without the box and around the origin."""
    box = build_box(895)
    molecules = box.positions.reshape(-1, 3, 3)
    molecules = molecules - molecules[:, 0].mean(axis=0)
    nearest = set(np.argsort(np.linalg.norm(molecules[:, 0], axis=1))[:waters].tolist())
    modeller = app.Modeller(box.topology, molecules.reshape(-1, 3) * unit.nanometer)
    modeller.delete([residue for residue in box.topology.residues() if residue.index not in nearest])
    modeller.topology.setPeriodicBoxVectors(None)
    return WaterBox(modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer)))


def build_system(topology: app.Topology, polarization: str) -> mm.System:
    """In a periodic box with PME, else with a container and without a cutoff."""
    periodic = topology.getPeriodicBoxVectors() is not None
    method = {"nonbondedMethod": app.PME, "nonbondedCutoff": CUTOFF * unit.nanometer,
              "vdwCutoff": CUTOFF * unit.nanometer} if periodic else {"nonbondedMethod": app.NoCutoff}
    system = app.ForceField("amoeba2018.xml").createSystem(
        topology, constraints=None, rigidWater=False, polarization=polarization,
        mutualInducedTargetEpsilon=POLARIZATION_TOLERANCE, removeCMMotion=periodic, **method)
    for index in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(index), mm.CustomCompoundBondForce):  # has no terms, and takes seconds to compile
            system.removeForce(index)
    for force in system.getForces():
        nonbonded = isinstance(force, (mm.AmoebaMultipoleForce, mm.AmoebaVdwForce))
        force.setForceGroup(NONBONDED if nonbonded else BONDED)
    if not periodic:
        container = mm.CustomExternalForce("k/2*max(0, sqrt(x^2+y^2+z^2)-radius)^2")
        for name, value in zip(("radius", "k"), CONTAINER):
            container.addGlobalParameter(name, value)
        for atom in topology.atoms():
            if atom.element is app.element.oxygen:
                container.addParticle(atom.index)
        container.setForceGroup(OUTSIDE)
        system.addForce(container)
    return system


def mts_langevin(temperature: float, friction: float, step: float) -> mm.Integrator:
    """OpenMM's r-RESPA: the expensive forces once a step, the others in inner steps."""
    inner = round(1000 * step / INNER_STEP)
    return mm.MTSLangevinIntegrator(temperature, friction, step, [(NONBONDED, 1), (BONDED, inner), (OUTSIDE, inner)])


def measure(state: mm.State) -> dict[str, np.ndarray]:
    """O-H lengths (nm) and H-O-H angles (degrees) of each molecule."""
    molecules = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer).reshape(-1, 3, 3)
    bonds = molecules[:, 1:] - molecules[:, :1]
    lengths = np.linalg.norm(bonds, axis=2)
    angles = np.degrees(np.arccos((bonds[:, 0] * bonds[:, 1]).sum(axis=1) / lengths.prod(axis=1)))
    return {"lengths": lengths.ravel(), "angles": angles}


def run(simulation: app.Simulation, ps: float, settling: float, label: str) -> Samples:
    """Settle, then sample."""
    step = simulation.integrator.getStepSize().value_in_unit(unit.picosecond)
    burst, samples = max(1, round(SAMPLE_INTERVAL / step)), round(ps / SAMPLE_INTERVAL)
    settling_steps = burst * round(settling / step / burst)
    with progress_bar(label, settling_steps + burst * samples) as bar:
        advance(simulation.integrator, settling_steps, bar.update)
        return sample(simulation.context, burst, samples, groups=ENERGIES, observe=measure, progress=bar.update)


def mean_and_deviation(values: np.ndarray, digits: int) -> str:
    """Over molecules and time, with standard errors."""
    squares = ((values - values.mean()) ** 2).mean(axis=1)
    deviation = squares.mean() ** 0.5
    return (f"{mean_with_error(values.mean(axis=1), digits)}, "
            f"{with_error(deviation, blockedError(squares) / (2 * deviation), digits)}")


def main():
    parser = OptionParser(__doc__)
    add_run_options(parser, time=3.0, friction=5.0)
    parser.add_argument("--waters", type=choice(("27", "216")), default="27", metavar="N",
                        help="27, in a container, or 216, in a periodic box (default: %(default)s)")
    parser.add_argument("--platform", metavar="NAME[:PRECISION]",
                        help=f"default: Reference for 27 waters, {find_platforms()[-1]} for 216")
    parser.add_argument("--polarization", type=choice(("mutual", "extrapolated", "direct")), default="mutual",
                        metavar="KIND", help="mutual, extrapolated or direct (default: %(default)s)")
    parser.add_argument("--steps", type=number(float, 0.1, "fs"), nargs="+", default=[4.0, 8.0, 12.0], metavar="FS",
                        help="step sizes of MassPenaltyLangevin, fs (default: 4 8 12)")
    parser.add_argument("--mts-steps", type=number(float, 2 * INNER_STEP, "fs"), nargs="*", default=[2.0],
                        metavar="FS", help="step sizes of MTSLangevin, fs; none: leave these runs out (default: 2)")
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed of the first run, the next have the next (default: %(default)s)")
    add_record_option(parser)
    options = parser.parse_args()
    waters = int(options.waters)
    platform = options.platform or ("Reference" if waters == 27 else find_platforms()[-1])
    box = build_droplet(waters) if waters == 27 else build_box(waters)
    system = build_system(box.topology, options.polarization)
    step, time = EQUILIBRATION[waters]
    start = simulate(box, system, box.positions, mm.LangevinMiddleIntegrator(TEMPERATURE, 20, step), platform,
                     options.seed)
    if waters == 27:  # not at rest at the surface of the droplet
        start.minimizeEnergy(maxIterations=50)
        start.context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    steps = round(time / step)
    with progress_bar("equilibration", steps) as bar:
        advance(start.integrator, steps, bar.update)
    positions = start.context.getState(positions=True).getPositions()
    del start

    print(f"{waters} AMOEBA waters, {options.polarization} polarization, {TEMPERATURE:g} K, "
          f"friction {options.friction:g}/ps, {options.time:g} ps each, {platform}\n")
    runs = [("LangevinMiddle", mm.LangevinMiddleIntegrator, REFERENCE_STEP[waters])]
    runs += [("MTSLangevin", mts_langevin, fs) for fs in options.mts_steps]
    runs += [("mass penalty", MassPenaltyLangevinIntegrator, fs) for fs in options.steps]

    def rows() -> Iterator[list[str]]:
        for i, (label, make, fs) in enumerate(runs):
            integrator = make(TEMPERATURE, options.friction, fs / 1000)
            simulation = simulate(box, system, positions, integrator, platform, options.seed + i)
            found = run(simulation, options.time, SETTLING_TIME[waters], label)
            yield [f"{label}, {fs:g}", mean_with_error(found.temperature, 1),
                   mean_with_error(found.energies["nonbonded"] / waters, 2),
                   mean_with_error(found.energies["bonded"] / waters, 3),
                   mean_and_deviation(1000 * found.observed["lengths"], 3),
                   mean_and_deviation(found.observed["angles"], 3), f"{1000 * found.seconds / found.steps:.2f}"]

    print_table(["integrator, step (fs)", "T (K)", "nonbonded", "bonded", "O-H mean, s.d. (pm)",
                 "H-O-H mean, s.d. (degrees)", "ms/step"], rows(), options.record,
                "amoeba-water" if waters == 27 else "amoeba-box")
    print(f"\nEnergies in kJ/mol per water.{NOTE}")


if __name__ == "__main__":
    run_program(main)
