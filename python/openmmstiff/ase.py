"""Molecular dynamics of ASE with the mass penalty: MassPenaltyLangevin; runs side by side, whose model is called once a
step for all: Batch; and the potential of a System as a calculator: SystemCalculator. Units are ASE's: Angstrom, eV,
dalton, and the time that follows from these.
"""

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, SupportsIndex

import numpy as np
import openmm

from ._conversions import boolean, elements, finite, instance, needing

with needing("openmmstiff.ase needs ASE", "ase"):
    from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.md import thermalize_momenta
from ase.md.md import MolecularDynamics

from ._atoms import DISPLACEMENT, ENERGY, NANOMETER, PICOSECOND, Guard, Molecules, read_array
from ._forces import make_context
from .openmmstiff import MassPenaltyLangevinIntegrator

__all__ = ["Batch", "MassPenaltyLangevin", "SystemCalculator"]

MOST_TIMESTEP, MOST_FRICTION, MOST_TEMPERATURE = 30, 200, 1     # fs, 1/ps, eV: numbers beyond are in another unit
UNIT_OF = {"femtoseconds": ("ase.units.fs", 1), "picoseconds": ("1000*ase.units.fs", 1000)}     # and how many fs it has
MEMORY = 3e-5       # eV/Angstrom: sums on a GPU differ by less, a field that begins with the last one by more


class _Integrator(MassPenaltyLangevinIntegrator):
    molecules: Molecules

    def _takeWarning(self) -> str:
        """Without what OpenMM's users are told where a step is so small that nothing is slowed down: to add pairs."""
        lines = super()._takeWarning().splitlines()
        return "\n".join(self.molecules.translate(line) for line in lines if "addPair" not in line)


class MassPenaltyLangevin(MolecularDynamics):
    """
    Langevin dynamics of molecules at steps of 8 to 12 fs, with any calculator of ASE. It is used as ASE's Langevin.

    The steps are those of MassPenaltyLangevinIntegrator on OpenMM's Reference platform, in double precision: bonds, 1-3
    distances and the turning of hydrogens are slowed down. Averages over positions are those of a small step. The
    calculator is asked once a step, and twice more before its first, to find out whether it has a memory.

    Bonds are perceived when the object is made: atoms closer than 1.25 times the sum of their covalent radii (those of
    ASE, but 0.37 Angstrom for H and 0.64 for F), except those of Li, Na, K, Rb, Cs, Mg, Ca, Sr and Ba. Inertias are
    those of addPairsFromTopology(). Molecules may lie across periodic boundaries.

    If a bond becomes longer than 1.4 times what it was at the start, or another pair closer than 1.1 times the sum of
    its covalent radii, the run ends with a RuntimeError that names the atoms, which are left where that was found. A
    step that fails leaves them as they were; one whose new positions the calculator fails at has been made.

    The momenta of atoms have the distribution of the masses, and their kinetic energy is that of the motion with the
    inertias: temperatures and energies of logfiles are right, and integrators may take turns. They belong to half a
    step earlier, so that after another integrator, or with drawn momenta, the first steps are up to 10 % hot.

    Parameters
    ----------
    atoms : ase.Atoms
        the molecules, with a calculator. Atoms in a FixAtoms do not move, a FixCom is as fixcm=True, and a Hookean is
        a force; other constraints are a ValueError, and so are extended solids. Without momenta, these are drawn for
        temperature_K
    timestep : float
        the step size [ASE's time, such as 12*units.fs], up to 30 fs; examine(atoms) recommends one
    temperature : float
        the temperature [eV]; deprecated, as in ASE
    friction : float
        the friction coefficient [1/ASE's time, such as 0.005/units.fs], up to 200/ps
    fixcm : bool
        whether the centre of mass stays where it is, which no FixAtoms goes with. The default of ASE is True, and
        deprecated
    temperature_K : float
        the temperature [K]
    rng : object with standard_normal()
        what the seed of OpenMM's random numbers is drawn from; by default numpy.random. All runs of a process share one
        stream of these, which the last one that was made has seeded
    bonds : iterable of pairs of int
        the bonds, in place of perceived ones: those of molecules alone, if they are on a surface, say. What comes close
        to atoms that are in none of them is not looked at
    bond_inertia : float
        the inertia of the bonds' relative velocity [dalton], 0 for none, which samples small molecules faster at 8 fs;
        by default that of addPairsFromTopology(), which follows the step
    **kwargs
        trajectory, logfile, loginterval, append_trajectory, and what else ASE's MolecularDynamics takes
    """

    def __init__(self, atoms: Atoms, timestep: float, temperature: float | None = None, friction: float | None = None,
                 fixcm: bool = False, *, temperature_K: float | None = None, rng: Any = None,
                 bonds: Iterable[Sequence[SupportsIndex]] | None = None, bond_inertia: float | None = None,
                 **kwargs: Any) -> None:
        if friction is None:
            raise TypeError("Missing 'friction' argument.")
        self.temp = self._convert_temperature(temperature, temperature_K)
        self.fr = _read_friction(friction)
        self.rng = np.random if rng is None else rng
        if not hasattr(self.rng, "standard_normal"):
            raise TypeError("rng must be a generator of random numbers, such as numpy.random.default_rng(1), not "
                            f"{rng!r}")
        self.bond_inertia = None if bond_inertia is None else finite("MassPenaltyLangevin: bond_inertia", bond_inertia,
                                                                     "")
        self._molecules = Molecules(atoms, bonds, boolean("fixcm", fixcm))
        self.fix_com = self._molecules.fixcm
        has_momenta = atoms.has("momenta")
        super().__init__(atoms, _read_timestep(timestep), **kwargs)

        self._integrator = _Integrator(self.temp/units.kB, self.fr*PICOSECOND, self.dt/PICOSECOND)
        self._integrator.molecules = self._molecules
        self._integrator.setRandomNumberSeed(self._draw_seed())
        self._molecules.set_inertias(self._integrator, self.bond_inertia)
        self._guard = Guard(self._molecules)
        self._context = make_context(self._molecules.system, self._integrator, "Reference")
        self._checked = None    # the calculator that has been looked at for a memory
        self._take_positions()
        if not has_momenta:     # the Context would ask the calculator
            thermalize_momenta(atoms, self.temp/units.kB, rng=self.rng)
        self._take_momenta()
        if not has_momenta:
            self._give_momenta()

    def todict(self) -> dict[str, Any]:
        """
        Describe the run, as trajectories keep it.

        Returns
        -------
        dict
            the settings by name
        """
        return {**super().todict(), "temperature_K": self.temp/units.kB, "friction": self.fr, "fixcm": self.fix_com,
                "bond_inertia": self.bond_inertia}

    def set_temperature(self, temperature: float | None = None, temperature_K: float | None = None) -> None:
        """
        Set the temperature of the thermostat.

        Parameters
        ----------
        temperature : float
            the temperature [eV]; deprecated, as in ASE
        temperature_K : float
            the temperature [K]
        """
        self.temp = self._convert_temperature(temperature, temperature_K)
        self._integrator.setTemperature(self.temp/units.kB)

    def set_friction(self, friction: float) -> None:
        """
        Set the friction coefficient.

        Parameters
        ----------
        friction : float
            the friction coefficient [1/ASE's time]
        """
        self.fr = _read_friction(friction)
        self._integrator.setFriction(self.fr*PICOSECOND)

    def set_timestep(self, timestep: float) -> None:
        """
        Set the step size, which the inertias follow.

        Parameters
        ----------
        timestep : float
            the step size [ASE's time]
        """
        self.dt = _read_timestep(timestep)
        self._integrator.setStepSize(self.dt/PICOSECOND)
        self._molecules.set_inertias(self._integrator, self.bond_inertia)

    def set_rng(self, rng: Any) -> None:
        """
        Draw another seed of the random numbers.

        Parameters
        ----------
        rng : object with standard_normal()
            what it is drawn from
        """
        self.rng = rng
        self._integrator.setRandomNumberSeed(self._draw_seed())
        self._context.reinitialize()
        self._take_momenta()
        self._take_positions()

    def draw_momenta(self) -> None:
        """
        Draw momenta for the temperature of the thermostat, allowing for their belonging to half a step earlier: a run
        that goes on from them is not hot at its beginning. The calculator is asked for the forces.
        """
        self._follow()
        self._call(lambda: self._context.setVelocitiesToTemperature(self.temp/units.kB, self._draw_seed()))
        self._give_momenta()

    def get_number_of_collisions(self) -> int:
        """
        Count the steps that were undone since a molecule got more than 30 kT, or could not be solved for. Small steps
        follow, 32 of a quarter, which are not counted. The first is told by a warning.

        Returns
        -------
        int
            how many there were
        """
        return self._integrator.getNumCollisions()

    def step(self, forces: Any = None) -> None:
        """
        Make a step.

        Parameters
        ----------
        forces : array
            not used; other integrators of ASE have it
        """
        self._follow()
        if self.atoms.calc is not self._checked:
            self._check_calculator()
        self._call(lambda: self._integrator.step(1))
        self._give_positions()
        self._give_momenta()
        self._guard.check()

    def _convert_temperature(self, temperature, temperature_K):
        """In eV, as ASE keeps it; a ValueError if that must be another unit."""
        if temperature is not None and finite("MassPenaltyLangevin: temperature", temperature, "") > MOST_TEMPERATURE:
            raise ValueError(f"MassPenaltyLangevin: temperature={temperature:g} eV is "
                             f"{temperature/units.kB:.3g} K. Were kelvin meant? Give them by name: "
                             f"temperature_K={temperature:g}")
        return units.kB*finite("MassPenaltyLangevin: temperature_K",
                               self._process_temperature(temperature, temperature_K, "eV"), "")

    def _draw_seed(self):
        """From 1 on, the same in all processes."""
        seed = np.array([1 + int(1e9*abs(self.rng.standard_normal())) % (2**31 - 1)])
        self.comm.broadcast(seed, 0)
        return int(seed[0])

    def _call(self, function):
        """Call what asks the calculator: what that raises comes through, and OpenMM's errors in words of ASE."""
        potential = self._molecules.potential
        potential.error = None
        try:
            function()
        except openmm.OpenMMException as error:
            if potential.error is None:
                raise openmm.OpenMMException(self._molecules.translate(str(error))) from None
        if potential.error is not None:
            raise potential.error   # of which OpenMM keeps the text alone

    def _check_calculator(self):
        difference = self._molecules.potential.measure_memory()
        self._checked = self.atoms.calc
        if difference > MEMORY:
            warnings.warn(
                f"MassPenaltyLangevin: the forces of {type(self.atoms.calc).__name__} depend on what it was asked "
                f"before: at the same positions they differ by {difference:.1g} eV/Angstrom. They are no gradient of "
                "an energy then, and the run heats or cools. Make it begin each self-consistent field anew, or "
                "converge it further (TBLite: accuracy=0.01)", stacklevel=3)

    # ---- Atoms and Context ----

    def _follow(self):
        """Take over what has been done to the atoms since the last step."""
        self._molecules.require_same()
        now = self.atoms.positions, self.atoms.cell, self.atoms.pbc
        if not (self._left and all(map(np.array_equal, now, self._left))):
            self._take_positions()
        if not np.array_equal(self.atoms.get_momenta(), self._left_momenta):
            self._take_momenta()

    def _take_positions(self):
        self._left: tuple[np.ndarray, ...] = ()     # unless they can be taken
        self._molecules.make_whole()
        self._guard.find_others()
        self._guard.check()
        self._context.setPositions(self._molecules.get_positions())
        self._centre = self.atoms.get_center_of_mass()
        self._give_positions()      # which may differ in the last bit, for which the calculator would be asked again

    def _give_positions(self):
        potential, state = self._molecules.potential, self._context.getState(positions=True)
        self.atoms.positions[:] = potential.convert(state)
        if self.fix_com:
            potential.shift = potential.shift + (self.atoms.get_center_of_mass() - self._centre)
            self.atoms.positions[:] = potential.convert(state)
        self._left = self.atoms.get_positions(), self.atoms.cell.array.copy(), self.atoms.get_pbc()

    def _take_momenta(self):
        self._left_momenta = self.atoms.get_momenta()
        masses = self._molecules.masses[:, None]
        velocities = np.divide(self._left_momenta, masses, out=np.zeros_like(self._left_momenta), where=masses > 0)
        self._context.setVelocities(velocities*(PICOSECOND/NANOMETER))

    def _give_momenta(self):
        velocities = self._context.getState(velocities=True).getVelocities(asNumpy=True)._value
        if self.fix_com:    # what the noise has given to the centre is taken away by the next step
            velocities = velocities - np.average(velocities, axis=0, weights=self._molecules.masses)
        self._left_momenta = velocities*(NANOMETER/PICOSECOND)*self._molecules.masses[:, None]
        self.atoms.set_momenta(self._left_momenta, apply_constraint=False)


class Batch:
    """
    Runs of ASE side by side, such as those of replicas of a molecule, whose model is called once a step for all.

    Each of the Atoms stays an object by itself, with its own cell and constraints, and each run has its own settings,
    trajectory and logfile: it is the run that it would be alone, but runs of MassPenaltyLangevin share a stream of noise,
    so that they are so statistically. Any other dynamics or optimizer of ASE that needs no stress will do, too. Runs
    take turns in one process, each in a thread that waits while another goes on. ::

        batch = Batch(model, copies)
        runs = [MassPenaltyLangevin(atoms, 12*units.fs, friction=0.005/units.fs,
                                    temperature_K=300) for atoms in copies]
        batch.run(runs, 1000)

    Before its first batch the model is asked twice more, with atoms displaced, the second time without the first of the
    Atoms and in reverse order: a warning says if the forces on the others differ. Outside of run() it is called for one
    of the Atoms at a time, as by examine(copies[0]).

    Parameters
    ----------
    model : callable
        takes a list of Atoms, and returns a dict as models of TorchSim do: "energy", the energy of each of the Atoms
        [eV], of shape (Atoms,); and "forces", those on all atoms of the first, then of the second and so on
        [eV/Angstrom], of shape (all atoms, 3)
    systems : list of Atoms
        what it will be called for, each of which gets a calculator. A ValueError if one is there twice: [atoms]*8 is
        one object; take [atoms.copy() for _ in range(8)]
    """

    def __init__(self, model: Callable[[list[Atoms]], Mapping[str, Any]], systems: Iterable[Atoms]) -> None:
        systems = elements("Batch: systems", systems, "Atoms")
        if not all(isinstance(atoms, Atoms) for atoms in systems):
            raise TypeError(f"Batch: systems must be a list of ASE's Atoms, not {systems!r}")
        _require_different("systems", systems, "take atoms.copy() for each")
        self.model = model
        self._checked = False
        for atoms in systems:
            atoms.calc = BatchCalculator(self)

    def run(self, runs: Iterable[Any], *arguments: Any, **keywords: Any) -> None:
        """
        Let runs go on side by side until all have ended.

        An error in one of them ends all, and a RuntimeError says in which it was. What the model raises comes through
        as it is. Each MassPenaltyLangevin has then made its last step whole, or not at all; trajectories and logfiles
        of those that were waiting for their new forces lack that step.

        Parameters
        ----------
        runs : list of MassPenaltyLangevin, or of other dynamics or optimizers of ASE
            the runs, each of other Atoms; a ValueError if not
        *arguments, **keywords
            what the method run() of each takes, such as the number of steps
        """
        runs = elements("Batch: runs", runs, "runs")
        _require_different("the Atoms of runs", [run.atoms for run in runs], "make one run of each")
        waiting = every = [_Run(self, f"run {i}", lambda run=run: run.run(*arguments, **keywords))
                           for i, run in enumerate(runs)]
        results: list[dict[str, Any]] = [{} for _ in runs]
        try:
            while waiting:
                for run, found in zip(waiting, results):
                    run.go_on(found)
                waiting = [run for run in waiting if run.asked is not None]
                asked = [run.asked for run in waiting]
                if len(asked) > 1 and not self._checked:
                    self._check(asked)
                results = self._evaluate(asked) if asked else []
        finally:
            for run in every:
                run.stop()

    def _evaluate(self, systems):
        """The results of each, as calculators of ASE have them."""
        found = self.model(systems)
        if not (isinstance(found, Mapping) and {"energy", "forces"} <= found.keys()):
            raise TypeError(f"Batch: the model must return a dict with 'energy' and 'forces', not {found!r}")
        ends = np.cumsum([len(atoms) for atoms in systems])
        energies = read_array("Batch: the model's energy", found["energy"], (len(systems),))
        forces = read_array("Batch: the model's forces", found["forces"], (int(ends[-1]), 3))
        return [{"energy": energy, "forces": each} for energy, each in zip(energies.tolist(), np.split(forces, ends))]

    def _check(self, systems):
        """Warn if all but the first have other forces without it, in reverse order."""
        displaced, random = [atoms.copy() for atoms in systems], np.random.default_rng(1)
        for atoms in displaced:
            atoms.positions += DISPLACEMENT*random.normal(size=(len(atoms), 3))
        among, without = self._evaluate(displaced)[1:], self._evaluate(displaced[:0:-1])[::-1]
        self._checked = True
        difference = max(abs(one["forces"] - other["forces"]).max() for one, other in zip(among, without))
        if difference > MEMORY:
            warnings.warn(f"Batch: the model's forces on Atoms depend on the others of the batch: they differ by "
                          f"{difference:.1g} eV/Angstrom from those without the first Atoms, in reverse order, and the "
                          "runs are not independent. It must keep the order of the Atoms, and take each by itself",
                          stacklevel=3)


class BatchCalculator(Calculator):
    """What each of the Atoms of a Batch has: it waits for the others of run(), or calls the model for these alone."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.batch = batch

    def check_state(self, atoms: Atoms, tol: float = 0) -> list[str]:
        """What has changed since the last calculation. ASE's own takes a third of a step."""
        return [] if self.atoms is not None and _same(self.atoms, atoms) else list(all_changes)

    def calculate(self, atoms: Atoms | None = None, properties: Sequence[str] = ("energy",),
                  system_changes: Sequence[str] = tuple(all_changes)) -> None:
        """Compute energy and forces; ASE calls it."""
        super().calculate(atoms, properties, system_changes)
        run = threading.current_thread()
        if isinstance(run, _Run) and run.batch is self.batch:
            self.results = run.ask(self.atoms)      # which is a copy
        else:
            self.results, = self.batch._evaluate([self.atoms])


class _Run(threading.Thread):
    """A run that goes on until it asks its calculator or ends, while nothing else of the process does."""

    def __init__(self, batch, name, function):
        super().__init__(name=name, daemon=True)
        self.batch, self.function = batch, function
        self.asked: Any = None      # the Atoms, until it has ended
        self.error: BaseException | None = None
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self.start()

    def run(self):
        try:
            self._wait()
            self.function()
        except _Stopped:
            pass
        except BaseException as error:
            self.error = error
        self._questions.put(None)

    def go_on(self, results):
        self._answers.put(results)
        self.asked = self._questions.get()
        if self.error is not None:
            raise RuntimeError(f"Batch: {self.name}: {self.error}") from self.error

    def ask(self, atoms):
        self._questions.put(atoms)
        return self._wait()

    def stop(self):
        self._answers.put(None)
        self.join()

    def _wait(self):
        if (results := self._answers.get()) is None:
            self._answers.put(None)     # should it ask again
            raise _Stopped
        return results


class _Stopped(BaseException):
    """What a run ends by that is not to go on."""


class SystemCalculator(Calculator):
    """
    The potential of an OpenMM System for ASE's Atoms, such as a force field, or what MLPotential makes.

    Parameters
    ----------
    system : openmm.System
        the System, without constraints, whose particles are the atoms in their order; a ValueError if there are more
        or fewer. Virtual sites are atoms whose positions are not looked at. If it is periodic it has the cell of the
        atoms: a ValueError if its first vector is not along x, or the second not in the plane of x and y
    platform : str
        the name of OpenMM's platform; by default the fastest
    """

    implemented_properties = ["energy", "forces"]

    def __init__(self, system: openmm.System, platform: str | None = None) -> None:
        super().__init__()
        if instance("system", system, openmm.System).getNumConstraints() > 0:
            raise ValueError(f"SystemCalculator: the System has {system.getNumConstraints()} constraints, which atoms "
                             "of ASE do not have. Make it with constraints=None and rigidWater=False")
        self.system, self.platform = system, platform
        self._context: Any = None

    def calculate(self, atoms: Atoms | None = None, properties: Sequence[str] = ("energy",),
                  system_changes: Sequence[str] = tuple(all_changes)) -> None:
        """
        Compute energy and forces; ASE calls it.

        Parameters
        ----------
        atoms : ase.Atoms
            the atoms
        properties : list of str
            not used: energy and forces come together
        system_changes : list of str
            what has changed, as other calculators of ASE have it
        """
        super().calculate(atoms, properties, system_changes)
        here: Any = self.atoms      # a copy
        if len(here) != self.system.getNumParticles():
            raise ValueError(f"SystemCalculator: the System has {self.system.getNumParticles()} particles, but there "
                             f"are {len(here)} atoms")
        if self._context is None:
            self._context = make_context(self.system, openmm.VerletIntegrator(0.001), self.platform)
        if self.system.usesPeriodicBoundaryConditions():
            self._context.setPeriodicBoxVectors(*_reduce(here.cell.array)/NANOMETER)
        self._context.setPositions(here.positions/NANOMETER)
        self._context.computeVirtualSites()
        state = self._context.getState(energy=True, forces=True)
        self.results = {"energy": state.getPotentialEnergy()._value*ENERGY,
                        "forces": state.getForces(asNumpy=True)._value*(ENERGY/NANOMETER)}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_context": None}


def _reduce(cell):
    """The vectors of the same lattice that OpenMM takes, of a cell that is turned as it wants it."""
    if np.abs(np.triu(cell, 1)).max() > 1e-9 or not np.diag(cell).all():
        raise ValueError("SystemCalculator: OpenMM takes cells whose first vector is along x and whose second is in "
                         f"the plane of x and y, not {cell.tolist()}. Turn cell and atoms first: "
                         "atoms.set_cell(atoms.cell.standard_form()[0], scale_atoms=True)")
    reduced = np.tril(cell)*np.sign(np.diag(cell))[:, None]
    for i, j in (2, 1), (2, 0), (1, 0):
        reduced[i] -= reduced[j]*np.round(reduced[i, j]/reduced[j, j])
    return reduced


def _same(first, second):
    """Whether a calculator finds the same for them."""
    names = [name for name in all_changes if name in first.arrays or name in second.arrays]
    return (np.array_equal(first.cell.array, second.cell.array) and np.array_equal(first.pbc, second.pbc)
            and all(np.array_equal(first.arrays.get(name), second.arrays.get(name)) for name in names))


def _require_different(what, objects, remedy):
    """A ValueError if one of them is there twice."""
    first: dict[int, int] = {}
    for i, each in enumerate(objects):
        if (before := first.setdefault(id(each), i)) != i:
            raise ValueError(f"Batch: {what} must be different objects, but {before} and {i} are the same: {remedy}")


def _read_timestep(timestep):
    """In ASE's time; a ValueError if it must be in another unit."""
    timestep = finite("MassPenaltyLangevin: timestep", timestep, "", positive=True)
    found = round(timestep/units.fs, 6)
    for unit, (name, size) in UNIT_OF.items():
        meant = timestep*size
        if _is_round(meant) and (size == 1 or meant <= MOST_TIMESTEP):
            raise ValueError(f"MassPenaltyLangevin: timestep={timestep:g} is a step of {found:.3g} fs. Were {unit} "
                             f"meant? Multiply by {name}: timestep={timestep:g}*{name}")
    if found > MOST_TIMESTEP:
        raise ValueError(f"MassPenaltyLangevin: a timestep of {found:.3g} fs is beyond {MOST_TIMESTEP} fs. Take a "
                         "smaller one, such as timestep=12*ase.units.fs; examine(atoms) recommends one")
    return timestep


def _read_friction(friction):
    """In 1/ASE's time; a ValueError if it must be in another unit."""
    friction = finite("MassPenaltyLangevin: friction", friction, "")
    found = round(friction*PICOSECOND, 6)
    if _is_round(friction) or found > MOST_FRICTION:
        raise ValueError(f"MassPenaltyLangevin: friction={friction:g} is one of {found:.3g}/ps"
                         f"{f', beyond {MOST_FRICTION}/ps' if found > MOST_FRICTION else ''}. Were 1/ps meant? Divide "
                         "by 1000*ase.units.fs, as in friction=5/(1000*ase.units.fs)")
    return friction


def _is_round(number):
    """Whether this is a multiple of 1/4, as people type it, and as no number with ASE's units is."""
    return number > 0.2 and abs(4*number - round(4*number)) < 1e-9
