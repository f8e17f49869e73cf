"""Bonds that are in no force which is recognized, as with machine-learned potentials: the Topology tells of them."""
from openmm import CustomCVForce, XmlSerializer, app, unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology

pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME, rigidWater=False)
potential = CustomCVForce("bonds")  # hides the HarmonicBondForce
potential.addCollectiveVariable("bonds", XmlSerializer.clone(system.getForce(0)))
system.removeForce(0)
system.addForce(potential)
integrator = MassPenaltyLangevinIntegrator(300*unit.kelvin, 1/unit.picosecond, 12*unit.femtoseconds)
addPairsFromTopology(integrator, pdb.topology, system, pdb.positions)
simulation = app.Simulation(pdb.topology, system, integrator)
simulation.context.setPositions(pdb.positions)
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.step(250)
print(integrator.describeStiffMotion())
