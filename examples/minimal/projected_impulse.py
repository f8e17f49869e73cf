"""A flexible protein at 4 fs: bonds vibrate by micro-steps, and slow forces do not disturb them."""
import sys

from openmm import app, unit
from openmmstiff import ImpulseLangevinIntegrator

pdb = app.PDBFile(app.__path__[0] + "/data/test.pdb")
villin = app.Modeller(pdb.topology, pdb.positions)
villin.deleteWater()
system = app.ForceField("amber14-all.xml", "amber14/tip3p.xml").createSystem(villin.topology)
integrator = ImpulseLangevinIntegrator(300*unit.kelvin, 5/unit.picosecond, 4*unit.femtoseconds)
simulation = app.Simulation(villin.topology, system, integrator)
simulation.context.setPositions(villin.positions)
simulation.minimizeEnergy()
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.reporters.append(app.StateDataReporter(sys.stdout, 100, time=True, temperature=True, speed=True))
simulation.step(500)
