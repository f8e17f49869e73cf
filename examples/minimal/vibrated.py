"""The slow motion in a field that vibrates fast: an ion in a Paul trap, in steps of 31 periods of the field."""
from math import pi

import openmm
from openmmstiff import HMMIntegrator

system, frequency = openmm.System(), 2*pi*1000  # 1/ps
system.addParticle(40)  # dalton
trap = openmm.CustomExternalForce(f"{40*frequency/2**0.5}*cos(theta)*(x^2+y^2-2*z^2)")
trap.addGlobalParameter("theta", 0)  # the phase, which the integrator moves
trap.addParticle(0)
system.addForce(trap)
context = openmm.Context(system, HMMIntegrator(pi/100, frequency), openmm.Platform.getPlatform("Reference"))
context.setPositions([(0.1, 0, 0)])
for _ in range(4):  # x = 0.1 cos(t): no field holds an ion that does not vibrate
    context.getIntegrator().step(50)
    x = context.getState(positions=True).getPositions()[0].x
    print(f"{context.getTime()._value:.3f} ps: {x:.4f} nm")
