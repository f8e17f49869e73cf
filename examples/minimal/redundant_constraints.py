"""More constraints than SHAKE can solve for: an octahedron of six atoms with all 15 distances fixed, at 20 fs."""
from itertools import combinations

import numpy
import openmm
from openmmstiff import MassPenaltyLangevinIntegrator
from scipy.spatial.distance import pdist

system, corners = openmm.System(), 0.15*numpy.vstack((numpy.eye(3), -numpy.eye(3)))  # nm
for _ in corners:
    system.addParticle(12)  # dalton
for (i, j), length in zip(combinations(range(6), 2), pdist(corners)):  # 12 of these would be enough
    system.addConstraint(i, j, length)
context = openmm.Context(system, MassPenaltyLangevinIntegrator(300, 1, 0.02))  # K, 1/ps, ps
context.setPositions(corners)
context.getIntegrator().step(10000)
lengths = pdist(context.getState(positions=True).getPositions(asNumpy=True)._value)
print(f"after {context.getTime()} distances are off by {abs(lengths/pdist(corners) - 1).max():.1e} at most")
