"""Springs instead of constraints, and the forces of the constraints, which are the averages of the springs'."""
from openmm import app, unit
from openmmstiff import MultiplierReporter, ZhangSkeelLangevinIntegrator, penalizeConstraints

pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME)  # rigid water
reporter = MultiplierReporter(penalizeConstraints(system, 4*unit.femtoseconds), 100)
integrator = ZhangSkeelLangevinIntegrator(300*unit.kelvin, 5/unit.picosecond, 2*unit.femtoseconds)
integrator.setThermalizeStiffModes(False)  # springs are to be as cold as constraints
simulation = app.Simulation(pdb.topology, system, integrator)
simulation.context.setPositions(pdb.positions)
simulation.context.setVelocitiesToTemperature(300*unit.kelvin)
simulation.reporters.append(reporter)
simulation.step(300)
for time, multipliers, violations in zip(reporter.times, reporter.multipliers, reporter.violations):
    print(f"{time:.1f} ps: mean multiplier {multipliers.mean():.0f} kJ/mol/nm^2, violation {violations.max():.1e} nm^2")
