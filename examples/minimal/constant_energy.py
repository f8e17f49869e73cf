"""Constant energy: flexible water at 4 fs by a symplectic method, without a thermostat."""
import sys

from openmm import app, unit
from openmmstiff import MassPenaltyIntegrator

pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME, rigidWater=False)
simulation = app.Simulation(pdb.topology, system, MassPenaltyIntegrator(4*unit.femtoseconds))
simulation.context.setPositions(pdb.positions)
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.step(50)
simulation.reporters.append(app.StateDataReporter(sys.stdout, 50, time=True, potentialEnergy=True, totalEnergy=True))
simulation.step(250)
