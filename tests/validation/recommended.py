"""The integrators as their pages recommend them, for Systems of other people's making. Units are OpenMM's."""
import numpy as np
import openmm as mm
from openmmstiff import (ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator, SpookIntegrator,
                         ZhangSkeelLangevinIntegrator)
from openmmstiff.sampling import blockedError

from exam import Claim
from common.runs import remove_forces

TEMPERATURE, FRICTION = 300.0, 3.0  # K, 1/ps
COLLISIONS = 5.0                    # 1/ps, of the AndersenThermostat that SPOOK needs
ERRORS = 3                          # of a mean that it may be off
LABELS = {"middle": "LangevinMiddle", "masspenalty": "mass penalty", "zhangskeel": "Zhang-Skeel",
          "impulse": "projected impulse", "spook": "SPOOK"}
CLASSES = {"middle": mm.LangevinMiddleIntegrator, "masspenalty": MassPenaltyLangevinIntegrator,
           "zhangskeel": ZhangSkeelLangevinIntegrator, "impulse": ImpulseLangevinIntegrator}


def temperature_claim(text: str, series: np.ndarray, tolerance: float, most_error: float) -> Claim:
    """Of a run that may be short: the bath's, within ERRORS or a part of it; both limits are relative."""
    error = blockedError(series)
    return Claim(text, series.mean(), TEMPERATURE, error, max(ERRORS * error, tolerance * TEMPERATURE),
                 most_error=most_error * TEMPERATURE)


def make_integrator(method: str, system: mm.System, step: float, seed: int) -> mm.Integrator:
    """One of LABELS for a System, to which it may add its thermostat.

    What AndersenThermostat gives to the motion of everything, a CMMotionRemover takes out: it goes, for small molecules
    get cold by that (toluene with VerletIntegrator 281(3) K).
    """
    if method == "spook":
        remove_forces(system, lambda force: isinstance(force, mm.CMMotionRemover))
        thermostat = mm.AndersenThermostat(TEMPERATURE, COLLISIONS)
        thermostat.setRandomNumberSeed(seed)
        system.addForce(thermostat)
        return SpookIntegrator(step)
    integrator = CLASSES[method](TEMPERATURE, FRICTION, step)
    integrator.setRandomNumberSeed(seed)
    return integrator
