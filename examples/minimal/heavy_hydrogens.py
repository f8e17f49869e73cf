"""A protein with hydrogens of 4 dalton, which are not needed, runs as it is: the step is that of ordinary masses."""
import sys

from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator

pdb = app.PDBFile(app.__path__[0] + "/data/test.pdb")
villin = app.Modeller(pdb.topology, pdb.positions)
villin.deleteWater()
forcefield = app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
system = forcefield.createSystem(villin.topology, constraints=app.HBonds, hydrogenMass=4*unit.dalton)
integrator = MassPenaltyLangevinIntegrator(300*unit.kelvin, 5/unit.picosecond, 12*unit.femtoseconds)
simulation = app.Simulation(villin.topology, system, integrator)
simulation.context.setPositions(villin.positions)
simulation.minimizeEnergy()
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.reporters.append(app.StateDataReporter(sys.stdout, 200, time=True, temperature=True, speed=True))
simulation.step(1000)
