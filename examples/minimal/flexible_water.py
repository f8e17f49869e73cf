"""Flexible water at 12 fs: a script with LangevinMiddleIntegrator and SETTLE, in which two lines have changed."""
import sys

from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator

pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME, rigidWater=False)  # was True
integrator = MassPenaltyLangevinIntegrator(300*unit.kelvin, 1/unit.picosecond, 12*unit.femtoseconds)  # the other line
simulation = app.Simulation(pdb.topology, system, integrator)
simulation.context.setPositions(pdb.positions)
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.reporters.append(app.StateDataReporter(sys.stdout, 50, time=True, temperature=True, speed=True))
simulation.step(250)
