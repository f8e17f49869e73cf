"""Constraints on velocities: a bond is stretched at 0.01 nm/ps, and the force that this takes is measured."""
import openmm
from openmmstiff import SpookIntegrator

system, bond = openmm.System(), openmm.HarmonicBondForce()
for mass in (12, 12):
    system.addParticle(mass)
bond.addBond(0, 1, 0.15, 1000)  # nm, kJ/mol/nm^2
system.addForce(bond)
integrator = SpookIntegrator(0.001)  # ps
integrator.addVelocityConstraint([0, 1], [-1, 0, 0, 1, 0, 0], "0.01")  # the difference of the velocities along x
context = openmm.Context(system, integrator)
context.setPositions([(0, 0, 0), (0.15, 0, 0)])
for _ in range(5):
    integrator.step(1000)
    print(f"{context.getTime()._value:.0f} ps: {integrator.getMultipliers()[0]:.2f} kJ/mol/nm")
