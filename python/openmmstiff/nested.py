"""Ensembles of a potential that is asked for a few hundred energies, and for no forces: NestedSampler. Units are ASE's:
Angstrom, eV, dalton, K; spreads are in kT.
"""

import fcntl
import hashlib
import json
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openmm

from ._conversions import choice, count, integer, needing

with needing("openmmstiff.nested needs ASE", "ase"):
    from ase import Atoms, units
from ase.calculators.calculator import BaseCalculator
from ase.calculators.mixing import SumCalculator
from ase.calculators.singlepoint import SinglePointCalculator
from ase.db import connect
from ase.md import thermalize_momenta
from ase.md.md import MolecularDynamics
from scipy.special import erfc

from ._atoms import ENERGY, NANOMETER, Molecules
from ._correction import Coordinates
from .ase import SystemCalculator
from .sampling import correlationTime
from .tasks import countWorkers, runTasks

__all__ = ["Average", "Correction", "NestedSampler", "Report"]

PILOT = 50              # energies that tell what a surrogate is worth
INTERVAL = 200          # steps between snapshots
SETTLING = 5            # intervals of the surrogate alone before the first snapshot
LADDER = 30, 60, 120, 250, 500      # numbers of steps that are tried for a proposal
TRIES = 8*len(LADDER)   # proposals for that
DECAY = 10              # times the most of these: a run that tells how fast the surrogate moves
MUCH, TOO_MUCH = 2, 4   # kT, of the spread: where nested moves pay, and where no move does
SAME = 0.01             # kT, for energies of the same surrogate
MOVES = "independent", "nested"


class Average(NamedTuple):
    """
    What NestedSampler.average() finds.

    Attributes
    ----------
    mean : float
        the average in the ensemble of the target
    error : float
        its standard error; infinite if the series never changes
    energies : float
        how many energies of the target an independent sample of this observable takes, of those that the average is
        made of
    """

    mean: float
    error: float
    energies: float


@dataclass
class Correction:
    """
    A surrogate with a correction, as NestedSampler.correct() fits it.

    Attributes
    ----------
    calculator : ase.calculators.mixing.SumCalculator
        the surrogate and the correction, for atoms.calc of the next run
    system : openmm.System
        the correction alone, a CustomBondForce, a CustomAngleForce and a CustomTorsionForce
    spread : float
        the spread of the difference of the energies without the correction [kT]
    left : float
        that with it, of snapshots that the fit has not seen [kT]
    """

    calculator: SumCalculator
    system: openmm.System
    spread: float
    left: float


@dataclass
class Report:
    """
    What a surrogate is worth, and what a run has given; as a text by str().

    Attributes
    ----------
    move : str
        "independent" or "nested"
    steps : int
        the steps of the surrogate from one snapshot to the next
    energies : int
        how many energies of the target there are
    failures : int
        how many times the target has failed, which is counted among the energies
    spread : float
        the standard deviation, in the ensemble of the surrogate, of the difference of both potentials [kT]
    acceptance : float
        the probability that a proposal is accepted
    expected : float
        that of the independent move, if the difference had a Gaussian distribution: erfc(spread/2)
    effective : float
        how many independent samples of the target's energy there are
    largestWeight : float
        the largest part that a single snapshot has in averages
    agreement : float
        the difference of the averages of the target's energy that both moves give, in standard errors; None if there is
        one move only
    """

    move: str
    steps: int
    energies: int
    failures: int
    spread: float
    acceptance: float
    expected: float
    effective: float
    largestWeight: float
    agreement: float | None

    @property
    def suffices(self) -> bool:
        """Whether the surrogate will do for this move."""
        return self.spread <= (MUCH if self.move == MOVES[0] else TOO_MUCH)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self.spread > TOO_MUCH:
            return (f"This surrogate will not do: a spread of {self.spread:.1f} kT is beyond {TOO_MUCH}. Take a better "
                    "one, or see what correct() leaves of the spread")
        if not self.suffices:
            return f"A spread of {self.spread:.1f} kT is much: try move='nested', or correct()"
        return f"This surrogate will do: its spread is {self.spread:.2f} kT"

    def __str__(self) -> str:
        rows = [("move", f"{self.move}, {self.steps} steps"),
                ("energies of the target", f"{self.energies}, of which {self.failures} failed"),
                ("acceptance", f"{self.acceptance:.2f}; {self.expected:.2f} of independent Gaussian differences"),
                ("independent energies", f"{self.effective:.0f}, one of {self.energies/max(self.effective, 1):.1f}"),
                ("largest weight", f"{100*self.largestWeight:.1f} %")]
        if self.agreement is not None:
            rows.append(("both moves differ by", f"{self.agreement:+.1f} standard errors of the energy"))
        return "\n".join([self.verdict + ".", *(f"  {name:24}{value}" for name, value in rows)])


@dataclass
class _Snapshot:
    """A row of the file. Energies in eV."""
    id: int
    atoms: Atoms
    surrogate: float
    steps: int
    walker: int = -1            # that of the nested move; -1: of the run of the surrogate
    parent: int = -1            # the id of the snapshot from which this one was proposed
    target: float = np.nan
    accepted: bool = False
    failure: str = ""

    @property
    def paid(self) -> bool:
        return np.isfinite(self.target) or bool(self.failure)

    def copy_atoms(self) -> Atoms:
        """For users, with the energy of the target."""
        atoms = self.atoms.copy()
        atoms.calc = SinglePointCalculator(atoms, energy=self.target)
        return atoms


class _Target:
    """What is asked for energies. Each process unpickles it once."""

    def __init__(self, what):
        self.what, self.calculator = what, None

    def __reduce__(self):
        return _unpickle, (pickle.dumps(self.what),)

    def __call__(self, atoms: Atoms) -> float | str:
        """An energy [eV], or why there is none."""
        try:
            if self.calculator is None:
                self.calculator = _read_potential("target", self.what)
            atoms.calc = self.calculator
            energy = np.asarray(atoms.get_potential_energy(), dtype=float).item()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return energy if np.isfinite(energy) else f"the energy is {energy}"


_load = lru_cache(1)(lambda pickled: _Target(pickle.loads(pickled)))


def _unpickle(pickled):
    return _load(pickled)


def _evaluate(task):
    target, atoms = task
    return target(atoms)


def _read_potential(name, value):
    """The calculator for what a user gives."""
    if not isinstance(value, (BaseCalculator, openmm.System)) and callable(value):
        value = value()
    if isinstance(value, openmm.System):
        return SystemCalculator(value)
    if not hasattr(value, "get_potential_energy"):
        raise TypeError(f"NestedSampler: {name} must be a calculator of ASE, an openmm.System, or a function that "
                        f"returns one, not {value!r}")
    return value


def _describe(target):
    """What tells a target from others, as a text: its class and parameters, its forces, or the name of a function."""
    if isinstance(target, SystemCalculator):
        target = target.system
    if isinstance(target, openmm.System):
        forces = "".join(map(_serialize, target.getForces()))
        return f"System {hashlib.sha256(forces.encode()).hexdigest()[:16]}"
    if isinstance(target, BaseCalculator):
        parameters = {str(name): value for name, value in getattr(target, "parameters", {}).items()}
        text = json.dumps(parameters, sort_keys=True, skipkeys=True, default=lambda value: type(value).__name__)
        return f"{type(target).__name__} {text}"
    return getattr(target, "__qualname__", type(target).__qualname__)


def _serialize(force):
    """As XML, which is that of any version of OpenMM; of what is not the same each time the name of the class."""
    try:
        text = "" if isinstance(force, openmm.PythonForce) else openmm.XmlSerializer.serialize(force)
    except openmm.OpenMMException:      # there is no XML
        text = ""
    return re.sub(' openmmVersion="[^"]*"', "", text) or type(force).__name__


class NestedSampler:
    """
    Samples of the canonical ensemble of a target potential, from dynamics in a surrogate (Iftimie et al., J. Chem.
    Phys. 113, 4852, 2000; Gelb, J. Chem. Phys. 118, 7747, 2003; Coe, Sewell and Shaw, J. Chem. Phys. 130, 164104,
    2009).

    The surrogate makes snapshots, and the target decides on them, by the difference D of both energies: it is asked for
    an energy a snapshot, for no forces, and for many snapshots side by side. There are two moves:

    - "independent": snapshots x' of a free run of the surrogate are proposals in place of the present x, accepted with
      min(1, exp(-(D' - D)/kT)). As x' has the density p(x') of the surrogate, whatever x is, the target's density
      p(x) exp(-D/kT) is in detailed balance: p(x) e(-D) p(x') min(1, e(D - D')) is symmetric in x and x'. Snapshots
      that are correlated would break this, so that the proposals are made in random order. Averages need no chain: they
      are those of all snapshots with the weights exp(-D/kT), right for correlated ones, too.
    - "nested": proposals come from the present x by some steps of the surrogate with momenta that are drawn, and are
      accepted with the same probability. Langevin dynamics from x to x' is as probable as that from x' to x with all
      momenta reversed; drawn momenta are as probable as reversed ones, so that p(x) K(x, x') = p(x') K(x', x) for the
      positions, and the target's density is in detailed balance as above. It is for spreads beyond 2 kT that change
      slowly. The first proposals have 30 to 500 steps each, by turns, unless steps are given; then the number is taken
      for which an independent sample of the slowest torsion takes the fewest energies.

    What is assumed of the surrogate's dynamics is that positions have its canonical distribution and that it is
    reversible as said. What its time step biases is biased here: MassPenaltyLangevin at 12 fs has the averages of small
    steps within errors. ASE's Langevin must have fixcm=False, with which alone it has the right temperature.

    The first 50 snapshots are always of the free run, and tell what the surrogate is worth; a warning says if it will
    not do. Each snapshot is in the file before the target is asked, and the energy when it has come. A run that is
    killed goes on when the same script is called again: nothing that has been paid for is lost, or paid for twice.

    Parameters
    ----------
    dynamics : ase.md.md.MolecularDynamics
        MassPenaltyLangevin, or another one with a heat bath, whose atoms have the surrogate as their calculator: any of
        ASE, or SystemCalculator(system). Its temperature is that of the ensemble
    target : calculator of ASE, openmm.System, or callable
        the target, or a function of no arguments that returns it. With processes it must be picklable; each process
        makes it once
    path : str or path
        the file, an SQLite database of ASE, whose name ends in .db. Another temperature, other elements or another
        target than those of the run that has written it are a ValueError. Targets are told by the class and parameters
        of a calculator, the forces of a System, or the name of a function
    move : str
        "independent" or "nested"
    steps : int
        the steps of the surrogate between snapshots, by default 200: let these be independent, for the surrogate is
        cheap. In a nested move those of a proposal, from 30 on; by default they are found
    processes : int
        how many energies are computed side by side, and how many chains the nested move has
    scheduler : str
        the address of a Dask scheduler, whose workers are asked instead, see openmmstiff.tasks.runTasks()
    failures : str
        what a failure of the target does, by an error or an energy that is not finite: "raise" ends the run with a
        RuntimeError, and asks again when it goes on; "reject" counts it as rejected
    rng : numpy.random.Generator
        what decides; by default numpy.random
    """

    def __init__(self, dynamics: MolecularDynamics, target: Any, path: str | os.PathLike[str], *,
                 move: str = "independent", steps: int | None = None, processes: int = 1, scheduler: str | None = None,
                 failures: str = "raise", rng: Any = None) -> None:
        if not isinstance(dynamics, MolecularDynamics) or not hasattr(dynamics, "temp"):
            raise TypeError("NestedSampler: dynamics must be a MassPenaltyLangevin, or another MolecularDynamics of "
                            f"ASE with a heat bath, not {dynamics!r}")
        choice("NestedSampler: move", move, MOVES)
        choice("NestedSampler: failures", failures, ("raise", "reject"))
        least = min(LADDER) if move == MOVES[1] else 1
        steps = None if steps is None else integer(f"NestedSampler: steps of the {move} move", steps, least)
        processes = integer("NestedSampler: processes", processes, least=1)
        if Path(path).suffix != ".db":
            raise ValueError(f"NestedSampler: the name of the file must end in .db, by which ASE knows it: {path}")
        if not callable(target) or isinstance(target, (BaseCalculator, openmm.System)):
            _read_potential("target", target)
        self.dynamics: Any = dynamics
        self.atoms, self.path = dynamics.atoms, Path(path)
        self.move, self.steps, self.failures = move, steps, failures
        self.processes, self.scheduler = processes, scheduler
        self.rng: Any = np.random if rng is None else rng
        self._target = _Target(target)
        self._observers: list[tuple[Callable[..., object], int, tuple, dict[str, Any]]] = []
        self._description = _describe(target)
        self._snapshots: dict[int, _Snapshot] = {}
        self._read()

    # ---- A run ----

    def attach(self, function: Callable[..., object], interval: int = 1, *arguments: Any, **named: Any) -> None:
        """
        Call a function each time that so many energies have come.

        Parameters
        ----------
        function : callable
            the function
        interval : int
            the number of energies
        *arguments, **named
            what it is called with
        """
        self._observers.append((function, interval, arguments, named))

    def run(self, energies: int) -> None:
        """
        Go on until there are so many energies of the target in the file, those of earlier runs included.

        Parameters
        ----------
        energies : int
            their number; failures that are counted as rejected are among them
        """
        energies = count("NestedSampler: energies", energies)
        with self._alone():
            self._ask_for(min(PILOT, energies))
            if energies > 0 and not self._free():
                raise RuntimeError("NestedSampler: the target has failed at all snapshots, the last time by "
                                   f"{self._of_walker(-1)[-1].failure}")
            if len(self._free()) >= PILOT//2 and not self.report().suffices:
                warnings.warn(f"NestedSampler: {self.report().verdict}", stacklevel=2)
            self._ask_for(energies)

    def _ask_for(self, energies):
        """Propose and pay until there are so many energies; several at a time are under way."""
        asked: list[_Snapshot] = []

        def tasks() -> Iterator[tuple[_Target, Atoms]]:
            unpaid = [each for each in self._snapshots.values() if not each.paid]
            while unpaid or len(self._snapshots) < energies:
                asked.append(unpaid.pop(0) if unpaid else self._propose())
                atoms = self.atoms.copy()
                atoms.set_constraint()
                atoms.positions[:] = asked[-1].atoms.positions
                yield self._target, atoms

        for index, result in runTasks(_evaluate, tasks(), self.processes, self.scheduler):
            self._take(asked[index], result)

    def _propose(self):
        """The next snapshot, which is in the file."""
        walker, parent = -1, -1
        if self.move == MOVES[1] and len(self._snapshots) >= PILOT:
            walker, steps = self._next_walker(), self._choose_steps()
            parent = self._find_state(walker)
            self._begin_at(self._snapshots[parent].atoms.positions)
        else:
            steps, before = self.steps or INTERVAL, self._of_walker(-1)
            if before:
                self._begin_at(before[-1].atoms.positions, before[-1].atoms.get_momenta())
            else:
                self.dynamics.run(SETTLING*steps)
        self.dynamics.run(steps)
        atoms, surrogate = self.atoms.copy(), float(self.atoms.get_potential_energy())
        if not np.isfinite(surrogate):
            raise ValueError(f"NestedSampler: the energy of the surrogate is {surrogate}")
        id = self._database.write(atoms, surrogate=surrogate, steps=steps, walker=walker, parent=parent)
        self._snapshots[id] = _Snapshot(id, atoms, surrogate, steps, walker, parent)
        return self._snapshots[id]

    def _begin_at(self, positions, momenta=None):
        """Without momenta: with those that are drawn."""
        if not np.array_equal(self.atoms.positions, positions):
            self.atoms.positions[:] = positions
        if momenta is not None:
            self.atoms.set_momenta(momenta, apply_constraint=False)
        elif hasattr(self.dynamics, "draw_momenta"):
            self.dynamics.draw_momenta()
        else:
            thermalize_momenta(self.atoms, self.dynamics.temp/units.kB, rng=self.rng)

    def _take(self, snapshot, result):
        """What the target has answered, into the file."""
        if isinstance(result, str):
            snapshot.failure = result
            self._database.update(snapshot.id, failure=result)
            if self.failures == "raise":
                snapshot.failure = ""
                raise RuntimeError(f"NestedSampler: the target has failed at snapshot {snapshot.id} of {self.path}: "
                                   f"{result}. ase.db.connect('{self.path}').get_atoms({snapshot.id}) has its atoms. "
                                   "When the run goes on it is asked again; failures='reject' counts it as rejected")
        else:
            snapshot.target = result
            snapshot.atoms.calc = SinglePointCalculator(snapshot.atoms, energy=result)
            if snapshot.walker >= 0:
                snapshot.accepted = bool(self.rng.random() < np.exp(-max(0.0, self._rises([snapshot])[0])))
            self._database.update(snapshot.id, snapshot.atoms, ["failure"], accepted=snapshot.accepted)
        paid = sum(each.paid for each in self._snapshots.values())
        for function, interval, arguments, named in self._observers:
            if paid % interval == 0:
                function(*arguments, **named)

    # ---- Chains of the nested move ----

    def _of_walker(self, walker):
        """The snapshots of a chain, or of the free run (-1), in their order."""
        return [each for each in self._snapshots.values() if each.walker == walker]

    def _proposals(self):
        return [each for each in self._snapshots.values() if each.walker >= 0]

    def _next_walker(self):
        """A chain that waits for no energy, of those that have fewest proposals."""
        workers = countWorkers(self.scheduler) if self.scheduler else self.processes
        chains = {walker: self._of_walker(walker) for walker in
                  {*range(workers), *(each.walker for each in self._proposals())}}
        return min((walker for walker, chain in chains.items() if all(each.paid for each in chain)),
                   key=lambda walker: len(chains[walker]))

    def _find_state(self, walker):
        """The id of its present snapshot; a chain begins at one of the free run, drawn with its weight."""
        chain = self._of_walker(walker)
        if chain:
            return chain[-1].id if chain[-1].accepted else chain[-1].parent
        free = self._free()
        return free[self.rng.choice(len(free), p=_weigh(self._differences(free)))].id

    def _choose_steps(self):
        """Those of the next proposal."""
        nested = self._proposals()
        if self.steps is not None or len(nested) > TRIES:
            return self.steps or nested[-1].steps
        if len(nested) < TRIES:
            return LADDER[len(nested) % len(LADDER)]
        decay, costs = self._measure_decay(), []
        for steps in LADDER:
            rises = self._rises([each for each in nested if each.steps == steps and np.isfinite(each.target)])
            moved = np.mean(np.exp(-np.maximum(0, rises)))*(1 - decay[steps]) if len(rises) else np.zeros(1)
            costs.append(np.max((2 - moved)/np.maximum(moved, 1e-9)))   # (1 + r)/(1 - r), r = 1 - moved
        return LADDER[int(np.argmin(costs))]

    def _measure_decay(self):
        """The autocorrelation of slow coordinates in a run of the surrogate, by the steps of LADDER."""
        every, frames = min(LADDER), []
        for _ in range(DECAY*max(LADDER)//every):
            self.dynamics.run(every)
            frames.append(self.atoms.get_positions())
        molecules, coordinates = self._find_coordinates()
        slow = coordinates.find_slow(np.array(frames) + molecules.potential.shift)
        slow = (slow - slow.mean(axis=0))[:, slow.std(axis=0) > 0]
        return {steps: np.clip(np.mean(slow[steps//every:]*slow[:-(steps//every)], axis=0)/np.mean(slow**2, axis=0),
                               0, 1) for steps in LADDER}

    def _find_coordinates(self):
        molecules = getattr(self.dynamics, "_molecules", None) or Molecules(self.atoms)
        return molecules, Coordinates(self.atoms.numbers.tolist(), molecules.bonds, molecules.neighbours)

    # ---- What has been found ----

    def _free(self):
        """The snapshots of the free run that have energies."""
        return [each for each in self._of_walker(-1) if np.isfinite(each.target)]

    def _differences(self, snapshots):
        """D [kT]."""
        return np.array([each.target - each.surrogate for each in snapshots])/self.dynamics.temp

    def _rises(self, proposals):
        """D' - D [kT]."""
        return self._differences(proposals) - self._differences([self._snapshots[each.parent] for each in proposals])

    def _chains(self):
        """What each chain was at after each proposal, without those that were tried for the number of steps."""
        tried = {each.id for each in self._proposals()[:0 if self.steps else TRIES]}
        chains: dict[int, list[_Snapshot]] = {}
        for each in self._proposals():
            if each.paid and each.id not in tried:
                chains.setdefault(each.walker, []).append(each if each.accepted else self._snapshots[each.parent])
        return [chain for _, chain in sorted(chains.items())]

    def _series(self, nested):
        """Snapshots and weights, which add up to 1, of each chain or of the free run."""
        chains = self._chains() if nested else []
        if chains:
            whole = sum(map(len, chains))
            return [(chain, np.full(len(chain), 1/whole)) for chain in chains]
        free = self._free()
        if not free:
            raise ValueError(f"NestedSampler: there are no energies in {self.path}; call run()")
        return [(free, _weigh(self._differences(free)))]

    def _average(self, observe, nested):
        series = self._series(nested)
        values = [np.array([observe(each) for each in snapshots], dtype=float) for snapshots, _ in series]
        if not all(each.ndim == 1 and np.isfinite(each).all() for each in values):
            raise ValueError("NestedSampler: what is observed must be a finite number for each snapshot")
        mean = sum(weights @ each for (_, weights), each in zip(series, values))
        variance = squared = 0.0
        for (_, weights), each in zip(series, values):
            variance += weights @ (each - mean)**2
            parts = weights*(each - mean)
            squared += len(each)*parts.var()*2*correlationTime(parts)[0] if np.ptp(parts) > 0 else np.inf
        energies = sum(map(len, values))*squared/variance if variance > 0 else np.inf
        return Average(float(mean), float(np.sqrt(squared)), float(energies))

    def average(self, observe: Callable[[Atoms], float]) -> Average:
        """
        Compute an average in the ensemble of the target.

        Of the independent move it is that of all snapshots with their weights, whose error is smaller than that of the
        chain; of the nested move that of the chains, after the proposals that have found the steps.

        Parameters
        ----------
        observe : callable
            is called with the Atoms of a snapshot and returns a number

        Returns
        -------
        Average
            mean, standard error, and energies of the target for an independent sample
        """
        return self._average(lambda snapshot: observe(snapshot.copy_atoms()), self.move == MOVES[1])

    def snapshots(self) -> tuple[list[Atoms], np.ndarray]:
        """
        Get what averages are made of.

        Returns
        -------
        tuple of list of ase.Atoms and array of shape (snapshots,)
            copies of the snapshots with the energies of the target, and their weights, whose sum is 1
        """
        series = self._series(self.move == MOVES[1])
        atoms = [each.copy_atoms() for snapshots, _ in series for each in snapshots]
        return atoms, np.concatenate([weights for _, weights in series])

    def samples(self) -> list[Atoms]:
        """
        Get the ensemble of the target, without weights: the chain of Metropolis, in which those that were not left
        occur again. ase.io.write("run.xyz", sampler.samples()) writes what ASE and MDTraj read.

        Returns
        -------
        list of ase.Atoms
            the samples, with the energies of the target; those of the independent move are in random order
        """
        series = self._series(self.move == MOVES[1])
        chain = [each for snapshots, _ in series for each in snapshots]
        if self.move == MOVES[1] and self._chains():
            return [each.copy_atoms() for each in chain]
        (free, weights), = series
        now, order = self.rng.choice(len(free), p=weights), []
        for other in self.rng.permutation(len(free)):
            if self.rng.random()*weights[now] < weights[other]:
                now = other
            order.append(chain[now].copy_atoms())
        return order

    def report(self) -> Report:
        """
        Say what the surrogate is worth, and what the run has given.

        Returns
        -------
        Report
            the figures, and a text by str()
        """
        def energy(each):
            return each.target - free[0].target

        free, chains = self._free(), self._chains() if self.move == MOVES[1] else []
        series = self._series(bool(chains))
        found, alone = self._average(energy, bool(chains)), self._average(energy, False)
        weights, spread = np.concatenate([each for _, each in series]), float(self._differences(free).std())
        if chains:
            made = self._proposals()[0 if self.steps else TRIES:]
            acceptance = np.mean([each.accepted for each in made if each.paid])
            weights = np.bincount(np.unique([each.id for chain in chains for each in chain], return_inverse=True)[1],
                                  weights)
        else:
            acceptance = _accept(weights)
        agreement = (found.mean - alone.mean)/np.hypot(found.error, alone.error) if chains else None
        return Report(self.move, (self._proposals() or free)[-1].steps,
                      sum(each.paid for each in self._snapshots.values()),
                      sum(bool(each.failure) for each in self._snapshots.values()), spread, float(acceptance),
                      float(erfc(spread/2)), sum(len(each) for each, _ in series)/found.energies,
                      float(weights.max()), agreement)

    def correct(self) -> Correction:
        """
        Correct the surrogate by what the energies tell: a sum of terms in bonds, angles and torsions (1, 2 and 3
        periods), equal for those that cannot be told apart, is fitted to the difference D by ridge regression. It is
        for a run of its own, in another file.

        Returns
        -------
        Correction
            the corrected surrogate, and the spread that is left
        """
        paid = [each for each in self._snapshots.values() if np.isfinite(each.target)]
        if len(paid) < PILOT:
            raise ValueError(f"NestedSampler: correct() needs {PILOT} energies, but there are {len(paid)}")
        molecules, coordinates = self._find_coordinates()
        positions = np.array([each.atoms.positions for each in paid]) + molecules.potential.shift
        differences = self._differences(paid)
        system, left = coordinates.fit(positions/NANOMETER, differences*(self.dynamics.temp/ENERGY))
        return Correction(SumCalculator([self.atoms.calc, SystemCalculator(system, "Reference")]), system,
                          float(differences.std()), left*ENERGY/self.dynamics.temp)

    # ---- The file ----

    def _read(self):
        """What is in the file, or a new one."""
        self._database: Any = connect(str(self.path), type="db", use_lock_file=False)
        settings = {"temperature_K": float(self.dynamics.temp/units.kB), "symbols": str(self.atoms.symbols),
                    "target": self._description}
        if not self._database.metadata:     # a new one
            self._database.metadata = settings
        found = {"target": self._description} | self._database.metadata     # older files have no target
        if found != settings:
            raise ValueError(f"NestedSampler: {self.path} is of another run, with {found}, not {settings}")
        self._snapshots = {}
        for row in self._database.select(sort="id"):
            self._snapshots[row.id] = _Snapshot(
                row.id, row.toatoms(), row.surrogate, row.steps, row.walker, row.parent, row.get("energy", np.nan),
                row.get("accepted", False), row.get("failure", "") if self.failures == "reject" else "")

    @contextmanager
    def _alone(self):
        """No other process works with the file, which is read again; and the surrogate is the one that has made it."""
        with open(self.path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(f"NestedSampler: another run works with {self.path}") from None
            self._read()
            if self._snapshots:
                last = self._snapshots[max(self._snapshots)]
                self._begin_at(last.atoms.positions, last.atoms.get_momenta())
                change = (self.atoms.get_potential_energy() - last.surrogate)/self.dynamics.temp
                if not abs(change) < SAME:
                    raise ValueError(f"NestedSampler: {self.path} was made with another surrogate: at snapshot "
                                     f"{last.id} this one's energy differs by {change:.3g} kT")
                # The numbers that a script begins with are used up, and the same noise would lead to the same places.
                self.rng = np.random.default_rng(np.frombuffer(last.atoms.positions.tobytes(), dtype=np.uint32))
                getattr(self.dynamics, "set_rng", partial(setattr, self.dynamics, "rng"))(self.rng)
            yield


def _weigh(differences):
    """exp(-D), which add up to 1."""
    weights = np.exp(differences.min() - differences)
    return weights/weights.sum()


def _accept(weights):
    """The probability that the independent move is accepted: the mean of min(1, w'/w), where w' is of another one."""
    if len(weights) < 2:
        return 1.0
    return (np.minimum.outer(weights, weights).sum() - weights.sum())/(len(weights) - 1)
