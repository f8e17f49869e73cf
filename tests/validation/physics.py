"""PyPI's physical-validation on what runs of OpenMM have shown. Units are OpenMM's; pressures in bar."""
import warnings
from collections.abc import Iterable

import numpy as np
import physical_validation
from openmmstiff.sampling import GAS_CONSTANT, blockedError
from physical_validation.data import SimulationData, UnitData
from physical_validation.util.error import InputError

from exam import Claim, RunFailed

UNITS = UnitData(kb=GAS_CONSTANT, energy_conversion=1, length_conversion=1, volume_conversion=1,
                 temperature_conversion=1, pressure_conversion=1, time_conversion=1)
MOST = 3.5      # standard errors that a right run may be off: once in 2000


def apart(series: Iterable[np.ndarray]) -> int:
    """How many samples two have to be apart to be independent, two correlation times, for each of these series.

    physical-validation finds that by itself, but first looks for where a run has come to equilibrium, and now and then
    leaves 2 % of one that has been there from its beginning. So it is told that its samples are independent.
    """
    return int(np.ceil(max(1, *(len(each) * blockedError(each)**2 / each.var() for each in series))))


def quietly(function, *arguments, **options):
    """Call a check of physical-validation with independent samples, without warnings; RunFailed if it can't tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments, data_is_uncorrelated=True, verbosity=0, bootstrap_seed=1, **options)
        except InputError as error:
            raise RunFailed(f"physical-validation: {' '.join(str(error).split())}") from error


def width_claim(data: SimulationData) -> Claim:
    """The kinetic energy has the width of Maxwell and Boltzmann's law."""
    width = quietly(physical_validation.kinetic_energy.distribution, data)[1]
    return Claim.within("kinetic energy, width off by (errors)", width, 0, 1, MOST)


def ensemble_claim(what: str, first: SimulationData, second: SimulationData) -> Claim:
    """The ratio of two distributions is that of the ensembles: the slope of its logarithm."""
    text = f"ensemble between {what}, off by (errors)"
    try:
        quantile = quietly(physical_validation.ensemble.check, first, second)[0]
    except RunFailed:   # too few samples where the distributions overlap
        return Claim(text, 0, 0, MOST, MOST)
    return Claim.within(text, quantile, 0, 1, MOST)
