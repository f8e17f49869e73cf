"""Which step your System takes with each integrator, and why."""
from openmm import LangevinMiddleIntegrator, app
from openmmstiff import examine

pdb = app.PDBFile(app.__path__[0] + "/data/test.pdb")
villin = app.Modeller(pdb.topology, pdb.positions)
villin.deleteWater()
system = app.ForceField("amber14-all.xml", "amber14/tip3p.xml").createSystem(villin.topology)
simulation = app.Simulation(villin.topology, system, LangevinMiddleIntegrator(300, 1, 0.001))  # any integrator
simulation.context.setPositions(villin.positions)
simulation.minimizeEnergy()
print(examine(simulation))
