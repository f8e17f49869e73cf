"""Constant pressure: OpenMM's barostat works as with any other integrator."""
import sys

import openmm
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator

pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME, rigidWater=False)
system.addForce(openmm.MonteCarloBarostat(1*unit.bar, 300*unit.kelvin))
integrator = MassPenaltyLangevinIntegrator(300*unit.kelvin, 1/unit.picosecond, 12*unit.femtoseconds)
simulation = app.Simulation(pdb.topology, system, integrator)
simulation.context.setPositions(pdb.positions)
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.reporters.append(app.StateDataReporter(sys.stdout, 100, temperature=True, volume=True, density=True))
simulation.step(500)
