"""A bias along a stiff coordinate: which integrators let it act, as docs/impulse.md says."""

import numpy as np
import openmm
import pytest

from conftest import positions_of
from openmmstiff import ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator
from systems import bonds, custom_bond, system_of

LENGTH, PULL, SHIFT = 0.1, 1000.0, 0.01    # nm, kJ/mol/nm, nm


def impulse(kick, period):
    integrator = ImpulseLangevinIntegrator(300, 5, 0.002)
    integrator.setKick(kick)
    integrator.setProjectedPeriod(period)
    return integrator


def mean_length(integrator, platform):
    """That of an O-H bond with a period of 19 fs, which a bias of constant force pulls; and its standard error."""
    pairs = [(2*i, 2*i + 1) for i in range(50)]
    system = system_of(50*[16, 1], bonds(*((*pair, LENGTH, PULL/SHIFT) for pair in pairs)),
                       custom_bond(f"-{PULL}*r", *pairs))
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(system, integrator, platform, {"Threads": "1"} if platform.getName() == "CPU" else {})
    positions = np.zeros((100, 3))
    positions[:, 1] = np.arange(100)//2
    positions[1::2, 0] = LENGTH
    context.setPositions(positions)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(500)
    means = []
    for _ in range(200):
        integrator.step(25)
        x = positions_of(context)
        means.append(np.linalg.norm(x[1::2] - x[::2], axis=1).mean())
    blocks = np.reshape(means, (10, -1)).mean(axis=1)
    return blocks.mean(), blocks.std(ddof=1)/10**0.5


# exp(-V/kT) r^2 has its mean 2 kT / (k r) farther out than the minimum of V.
WIDENING = 2*0.00831446*300/(PULL/SHIFT*LENGTH)


@pytest.mark.parametrize("make, shift", [
    (lambda: impulse(ImpulseLangevinIntegrator.Projected, 0.02), 0),
    (lambda: impulse(ImpulseLangevinIntegrator.Mollified, 0.02), 0),
    (lambda: impulse(ImpulseLangevinIntegrator.Projected, 0.01), SHIFT),
    (lambda: MassPenaltyLangevinIntegrator(300, 5, 0.004), SHIFT)],
    ids=["projected", "mollified", "not projected", "mass penalty"])
def test_a_bias_acts_unless_its_coordinate_is_projected(make, shift, platform):
    mean, error = mean_length(make(), platform)
    assert error < 0.1*SHIFT
    # Kicks pull the mean by (omega h)^2/24 = 2 % of the shift less, or more, than the force does.
    assert abs(mean - LENGTH - WIDENING - shift) < 4*error + 0.03*SHIFT
