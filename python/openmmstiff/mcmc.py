"""Moves of OpenMMTools' samplers with the mass penalty: MassPenaltyMove."""

import copy
import warnings
from typing import Any, SupportsFloat

import openmm
from openmm import unit

from ._conversions import Quantity, boolean, count, needing, number
from .openmmstiff import MassPenaltyLangevinIntegrator

with needing("openmmstiff.mcmc needs OpenMMTools", "openmmtools"):
    from openmmtools import mcmc, states

__all__ = ["MassPenaltyMove"]

MOST_TIMESTEP = 0.1         # ps: plain numbers beyond are femtoseconds
FEWEST_STEPS = 30           # with velocities that are drawn


class MassPenaltyMove(mcmc.BaseIntegratorMove):
    """
    Steps of MassPenaltyLangevinIntegrator at the temperature of the thermodynamic state. It is used as OpenMMTools'
    LangevinDynamicsMove: in MCMCSampler, ReplicaExchangeSampler, ParallelTemperingSampler and SAMSSampler.

    Other settings are those of the attribute integrator: move.integrator.setBondInertia(0), or
    addPairsFromTopology(move.integrator, topology, system, positions). Samplers copy the move, so settings come first.
    Copies, pickles and the files of reporters have them.

    Parameters
    ----------
    timestep : float or Quantity
        the step size [ps]; a plain number is up to 0.1. examine() recommends one
    collision_rate : float or Quantity
        the friction coefficient [1/ps]
    n_steps : int
        the number of steps that the move consists of
    reassign_velocities : bool
        whether each move begins with velocities that are drawn for the temperature, and not with the replica's. Short
        moves bias averages then: let them be of 100 steps or more. Below 30 steps there is a warning
    constraint_tolerance : float
        the relative tolerance of constraints
    **kwargs
        n_restart_attempts, and what else OpenMMTools' BaseIntegratorMove takes

    Attributes
    ----------
    integrator : MassPenaltyLangevinIntegrator
        the integrator with all settings but the temperature; each move takes steps with a copy
    """

    def __init__(self, timestep: SupportsFloat | Quantity = 10*unit.femtosecond,
                 collision_rate: SupportsFloat | Quantity = 5/unit.picosecond, n_steps: int = 1000,
                 reassign_velocities: bool = False, constraint_tolerance: SupportsFloat = 1e-8, **kwargs: Any) -> None:
        super().__init__(count("n_steps", n_steps), boolean("reassign_velocities", reassign_velocities), **kwargs)
        self.integrator = MassPenaltyLangevinIntegrator(0, collision_rate, _read_timestep(timestep))
        self.constraint_tolerance = constraint_tolerance
        if self.reassign_velocities and self.n_steps < FEWEST_STEPS:
            warnings.warn(f"MassPenaltyMove: velocities that are drawn every {n_steps} steps bias averages. Take "
                          "n_steps=100 or more, or reassign_velocities=False", stacklevel=2)

    @property
    def timestep(self) -> unit.Quantity:
        """The step size [ps]. Pairs of addPairsFromTopology() are for the one at which they were added."""
        return self.integrator.getStepSize()

    @timestep.setter
    def timestep(self, value: SupportsFloat | Quantity) -> None:
        self.integrator.setStepSize(_read_timestep(value))

    @property
    def collision_rate(self) -> unit.Quantity:
        """The friction coefficient [1/ps]."""
        return self.integrator.getFriction()

    @collision_rate.setter
    def collision_rate(self, value: SupportsFloat | Quantity) -> None:
        self.integrator.setFriction(value)

    @property
    def constraint_tolerance(self) -> float:
        """The relative tolerance of constraints."""
        return self.integrator.getConstraintTolerance()

    @constraint_tolerance.setter
    def constraint_tolerance(self, value: SupportsFloat) -> None:
        self.integrator.setConstraintTolerance(value)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"integrator": openmm.XmlSerializer.serialize(self.integrator)}

    def __setstate__(self, serialization: dict[str, Any]) -> None:
        super().__setstate__(serialization)
        self.integrator = openmm.XmlSerializer.deserialize(serialization["integrator"])

    def _get_integrator(self, thermodynamic_state: states.ThermodynamicState) -> MassPenaltyLangevinIntegrator:
        integrator = copy.copy(self.integrator)
        integrator.setTemperature(thermodynamic_state.temperature)
        return integrator


def _read_timestep(value):
    """In picoseconds; a ValueError for a plain number that must be in femtoseconds."""
    step = number("timestep", value, "ps")
    if step > MOST_TIMESTEP and not unit.is_quantity(value):
        raise ValueError(f"MassPenaltyMove: a timestep of {step:g} ps is beyond {MOST_TIMESTEP} ps. Were femtoseconds "
                         f"meant? Numbers are picoseconds: {step:g}*unit.femtoseconds")
    return step
