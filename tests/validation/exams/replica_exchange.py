"""Replica exchange with OpenMMTools: MassPenaltyMove against LangevinDynamicsMove at a small step.

Alanine dipeptide in vacuum, all of it flexible. At each temperature the mean potential energies are the same, and the
kinetic energy is the bath's; exchanges are accepted as often.
"""
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff.sampling import GAS_CONSTANT, countFreedom

from exam import Claim, Exam, Results, Settings, bath_claim, by_name, each, mean_within
from physics import MOST

TEMPERATURES = (300.0, 350.0, 410.0, 480.0)     # K
FRICTION = 5.0                                  # 1/ps
MOVE = 1.0                                      # ps
TIME, SETTLING = 1000.0, 50.0                   # ps, of each replica
REFERENCE, PENALTY = "LangevinDynamicsMove", "MassPenaltyMove"
STEPS = {REFERENCE: 1.0, PENALTY: 8.0}          # fs
TOLERANCE = 0.02                                # of the temperature


def make(name: str, settings: Settings) -> dict:
    """By temperature, a sample a move: potential energies (kJ/mol) and kinetic temperatures (K). Of exchanges between
    neighbouring temperatures the accepted part, in time."""
    from openmmstiff.mcmc import MassPenaltyMove
    from openmmtools import cache, mcmc, multistate, states, testsystems
    cls = {REFERENCE: mcmc.LangevinDynamicsMove, PENALTY: MassPenaltyMove}[name]
    move = cls(STEPS[name] * unit.femtosecond, FRICTION / unit.picosecond, round(1000 * MOVE / STEPS[name]))
    settling, moves = settings.steps(SETTLING, MOVE), settings.steps(TIME, MOVE)
    np.random.seed(settings.seed)       # exchanges
    built = testsystems.AlanineDipeptideVacuum(constraints=None)
    sampler = multistate.ParallelTemperingSampler(mcmc_moves=move, number_of_iterations=settling + moves)
    sampler.sampler_context_cache = sampler.energy_context_cache = cache.ContextCache(
        platform=mm.Platform.getPlatform("Reference"))
    energies = []
    with TemporaryDirectory() as folder:
        reporter = multistate.MultiStateReporter(str(Path(folder) / "exchange.nc"), checkpoint_interval=moves)
        sampler.create(states.ThermodynamicState(built.system, TEMPERATURES[0] * unit.kelvin),
                       states.SamplerState(built.positions), reporter, n_temperatures=len(TEMPERATURES),
                       temperatures=[temperature * unit.kelvin for temperature in TEMPERATURES])
        sampler.minimize()
        sampler.run(settling)
        for _ in range(moves):
            sampler.run(1)
            energies.append([(state.potential_energy._value, state.kinetic_energy._value)
                             for state in sampler.sampler_states])
        places = reporter.read_replica_thermodynamic_states()[-moves:]
        accepted, proposed = (np.diagonal(matrices[-moves:], 1, 1, 2).sum(axis=1)
                              for matrices in reporter.read_mixing_statistics())
        reporter.close()
    potential, kinetic = np.take_along_axis(np.array(energies), np.argsort(places)[..., None], axis=1).T
    return {"potential": potential, "temperature": 2 * kinetic / (countFreedom(built.system) * GAS_CONSTANT),
            "accepted": accepted / proposed}


def claims(results: Results, name: str) -> Iterator[Claim]:
    found, reference = results[name], results[REFERENCE]
    for i, temperature in enumerate(TEMPERATURES):
        yield bath_claim(f"temperature, bath of {temperature:g} K", found["temperature"][i], temperature, TOLERANCE)
        if name == PENALTY:
            yield mean_within(f"potential energy at {temperature:g} K, kJ/mol", found["potential"][i],
                              reference["potential"][i], MOST)
    if name == PENALTY:
        yield mean_within("part of exchanges that is accepted", found["accepted"], reference["accepted"], MOST)


def report(results: Results) -> Iterator[Claim]:
    return each(STEPS, partial(claims, results))


EXAM = Exam("replica-exchange", "Replica exchange of OpenMMTools, moves at a large and a small step",
            by_name(make, STEPS), report)
