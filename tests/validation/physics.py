"""PyPI's physical-validation on what runs of OpenMM have shown. Units are OpenMM's; pressures in bar."""
import warnings
from collections.abc import Iterator

import physical_validation
from openmmstiff.sampling import GAS_CONSTANT
from physical_validation.data import SimulationData, UnitData
from physical_validation.util.error import InputError

from exam import Claim, RunFailed

UNITS = UnitData(kb=GAS_CONSTANT, energy_conversion=1, length_conversion=1, volume_conversion=1,
                 temperature_conversion=1, pressure_conversion=1, time_conversion=1)
MOST = 3.5      # standard errors that a right run may be off: once in 2000


def simulation_data(**parts) -> SimulationData:
    return SimulationData(units=UNITS, **parts)


def quietly(function, *arguments, **options):
    """Call one of physical-validation's checks without its warnings; RunFailed if it can't tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments, **options)
        except InputError as error:
            raise RunFailed(f"physical-validation: {' '.join(str(error).split())}") from error


def kinetic_claims(data: SimulationData) -> Iterator[Claim]:
    """The kinetic energy has the mean and the width of Maxwell and Boltzmann's law."""
    mean, width = quietly(physical_validation.kinetic_energy.distribution, data, verbosity=0, bootstrap_seed=1)
    yield Claim.within("kinetic energy, mean off by (errors)", mean, 0, 1, MOST)
    yield Claim.within("kinetic energy, width off by (errors)", width, 0, 1, MOST)


def ensemble_claim(what: str, first: SimulationData, second: SimulationData) -> Claim:
    """The ratio of two distributions is that of the ensembles: the slope of its logarithm."""
    text = f"ensemble between {what}, off by (errors)"
    try:
        quantile = quietly(physical_validation.ensemble.check, first, second, verbosity=0, bootstrap_seed=1)[0]
    except RunFailed:   # too few samples where the distributions overlap
        return Claim(text, 0, 0, MOST, MOST)
    return Claim.within(text, quantile, 0, 1, MOST)
