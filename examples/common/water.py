"""Periodic boxes of water (TIP3P, unless said) for the examples and the validation: topology, System, equilibration.

Units are OpenMM's: nm, ps, kJ/mol, K.
"""
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit

MODEL = "tip3p"          # the names of OpenMM's force field files and of Modeller's water models
PLACES = {"opc": "tip4pew"}  # models that Modeller does not know, and one with as many sites
CUTOFF = 0.9             # nm
DENSITY = 895 / 3.0**3   # molecules/nm^3, that of OpenMM's tip3p.pdb
MIN_WATERS = ceil(DENSITY * (2 * CUTOFF) ** 3)
NONBONDED_GROUP, BOND_GROUP, ANGLE_GROUP = 1, 2, 3
GROUPS = {"NonbondedForce": NONBONDED_GROUP, "HarmonicBondForce": BOND_GROUP, "HarmonicAngleForce": ANGLE_GROUP}
STIFFENING = 30          # penalty springs are so many times stiffer than the bonds and angles of tip3p.xml
HEAVY_HYDROGEN = 4.0     # dalton, a usual mass of hydrogens that allows larger steps
EQUILIBRATION_STEP = {"rigid": 0.004, "flexible": 0.002}  # ps
EQUILIBRATION_FRICTION = 5.0                              # 1/ps

Progress = Callable[[int], object]  # is told the number of steps just made


@dataclass
class WaterBox:
    """A cubic box; the atoms of each molecule in the order O, H, H, and further sites that the model may have."""
    topology: app.Topology
    positions: np.ndarray  # nm, shape (atoms, 3)
    model: str = MODEL

    @property
    def modeller(self) -> app.Modeller:
        return app.Modeller(self.topology, self.positions * unit.nanometer)


def build_box(waters: int = 895, model: str = MODEL) -> WaterBox:
    """The box of OpenMM's tip3p.pdb, or another number of waters, or another model, at the same density."""
    if waters < MIN_WATERS:
        raise ValueError(f"{waters} waters: give at least {MIN_WATERS}, for a box edge of twice the cutoff "
                         f"of {CUTOFF} nm")
    if waters == 895 and model == MODEL:
        pdb = app.PDBFile(str(Path(app.__file__).parent / "data" / "tip3p.pdb"))
        return WaterBox(pdb.topology, np.array(pdb.positions.value_in_unit(unit.nanometer)))
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    modeller.addSolvent(app.ForceField(f"{model}.xml"), model=PLACES.get(model, model), numAdded=waters)
    modeller = close_up(modeller, (waters / DENSITY) ** (1 / 3))
    return WaterBox(modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer)), model)


def close_up(modeller: app.Modeller, edge: float) -> app.Modeller:
    """The cube with an edge in nm: addSolvent() leaves gaps at its faces, so that the residues are moved together, each
    unchanged in shape."""
    topology, positions = modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer))
    first = [next(atom.residue.atoms()).index for atom in topology.atoms()]
    closer = edge / topology.getUnitCellDimensions()[0].value_in_unit(unit.nanometer)
    topology.setUnitCellDimensions(mm.Vec3(edge, edge, edge) * unit.nanometer)
    return app.Modeller(topology, (positions + (closer - 1) * positions[first]) * unit.nanometer)


def nearest_waters(box: WaterBox, count: int, centre: np.ndarray) -> app.Modeller:
    """The molecules whose oxygens are nearest to a point (nm), without the box."""
    distances = np.linalg.norm(box.positions[::3] - centre, axis=1)
    nearest = set(np.argsort(distances)[:count].tolist())
    modeller = box.modeller
    modeller.delete([residue for residue in box.topology.residues() if residue.index not in nearest])
    modeller.topology.setPeriodicBoxVectors(None)
    return modeller


def build_system(box: WaterBox, geometry: str, hydrogen_mass: float | None = None) -> mm.System:
    """A PME System with its forces in the groups of GROUPS and one of three geometries.

    rigid: constraints, which OpenMM solves with SETTLE. flexible: the harmonic bonds and angles of the force field.
    penalty: the same terms, STIFFENING times stiffer, which stand in for the constraints. A mass of the hydrogens
    (dalton) is taken from the oxygens, which leaves that of the molecules as it is.
    """
    system = app.ForceField(f"{box.model}.xml").createSystem(
        box.topology, nonbondedMethod=app.PME, nonbondedCutoff=CUTOFF * unit.nanometer, hydrogenMass=hydrogen_mass,
        rigidWater={"rigid": True, "flexible": False, "penalty": False}[geometry])
    for force in system.getForces():
        force.setForceGroup(GROUPS.get(force.getName(), 0))
        if geometry == "penalty" and isinstance(force, mm.HarmonicBondForce):
            for i in range(force.getNumBonds()):
                *bond, k = force.getBondParameters(i)
                force.setBondParameters(i, *bond, STIFFENING * k)
        elif geometry == "penalty" and isinstance(force, mm.HarmonicAngleForce):
            for i in range(force.getNumAngles()):
                *angle, k = force.getAngleParameters(i)
                force.setAngleParameters(i, *angle, STIFFENING * k)
    return system


def start_geometry(geometry: str) -> str:
    """The geometry whose equilibrated state a run of `geometry` starts from.

    Penalty springs start from the positions of the rigid box, where they are at rest. Its velocities, tangent
    to the constraints only to first order in the step, would excite them; draw new ones with
    setVelocitiesToTemperature().
    """
    return "rigid" if geometry == "penalty" else geometry


def equilibrate(box: WaterBox, geometry: str, ps: float, *, temperature: float, platform: str, seed: int,
                progress: Progress = lambda steps: None, start: mm.State | None = None) -> mm.State:
    """The state after `ps` of LangevinMiddle dynamics from `start`, or from the minimized box."""
    step = EQUILIBRATION_STEP[geometry]
    integrator = mm.LangevinMiddleIntegrator(temperature, EQUILIBRATION_FRICTION, step)
    integrator.setRandomNumberSeed(seed)
    context = mm.Context(build_system(box, geometry), integrator, mm.Platform.getPlatform(platform))
    if start is None:
        context.setPositions(box.positions)
        mm.LocalEnergyMinimizer.minimize(context, 10.0, 30)
        context.setVelocitiesToTemperature(temperature, seed)
    else:
        context.setState(start)
    advance(integrator, round(ps / step), progress)
    return context.getState(positions=True, velocities=True)


def advance(integrator: mm.Integrator, steps: int, progress: Progress, burst: int = 25):
    """Make `steps` steps, `burst` at a time, so that progress shows and Ctrl-C is heard."""
    while steps > 0:
        integrator.step(min(burst, steps))
        progress(min(burst, steps))
        steps -= burst
