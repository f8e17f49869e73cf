"""Molecular dynamics of ASE with the mass penalty: MassPenaltyLangevin; and the potential of a System as a calculator:
SystemCalculator. Units are ASE's: Angstrom, eV, dalton, and the time that follows from these.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import openmm

try:
    from ase import Atoms, units
except ImportError:
    raise ImportError("openmmstiff.ase needs ASE: pip install 'openmm-stiff[ase]'") from None
from ase.calculators.calculator import Calculator, all_changes
from ase.md import thermalize_momenta
from ase.md.md import MolecularDynamics

from ._atoms import ENERGY, NANOMETER, PICOSECOND, Guard, Molecules
from ._conversions import boolean, finite, instance
from .openmmstiff import MassPenaltyLangevinIntegrator

__all__ = ["MassPenaltyLangevin", "SystemCalculator"]

MOST_TIMESTEP, MOST_FRICTION = 30, 200      # fs, 1/ps: numbers beyond are in another unit
MEMORY = 3e-5       # eV/Angstrom: sums on a GPU differ by less, a field that begins with the last one by more


class _Integrator(MassPenaltyLangevinIntegrator):
    def _takeWarning(self) -> str:
        """None: if the step is so small that nothing is slowed down, OpenMM's users are told to add pairs."""
        super()._takeWarning()
        return ""


class MassPenaltyLangevin(MolecularDynamics):
    """
    Langevin dynamics of molecules at steps of 8 to 12 fs, with any calculator of ASE. It is used as ASE's Langevin.

    The steps are those of MassPenaltyLangevinIntegrator on OpenMM's Reference platform, in double precision: bonds, 1-3
    distances and the turning of hydrogens are slowed down. Averages over positions are those of a small step. The
    calculator is asked once a step, and twice more before its first, to find out whether it has a memory.

    Bonds are perceived when the object is made: atoms closer than 1.25 times the sum of their covalent radii (those of
    ASE, but 0.37 Angstrom for H and 0.64 for F), except those of Li, Na, K, Rb, Cs, Mg, Ca, Sr and Ba. Inertias are
    those of addPairsFromTopology(). Molecules may lie across periodic boundaries.

    If a bond or a slowed 1-3 distance becomes longer than 1.4 times what it was at the start, or another pair closer
    than 1.1 times the sum of its covalent radii, the run ends with a RuntimeError that names the atoms. A step that
    fails leaves the atoms as they were.

    The momenta of atoms have the distribution of the masses, and their kinetic energy is that of the motion with the
    inertias: temperatures and energies of logfiles are right, and integrators may take turns. They belong to half a
    step earlier, so that after another integrator, or with drawn momenta, the first steps are up to 10 % hot.

    Parameters
    ----------
    atoms : ase.Atoms
        the molecules, with a calculator. Atoms in a FixAtoms do not move; other constraints are a ValueError, and so
        are extended solids. Without momenta, these are drawn for temperature_K
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
    **kwargs
        trajectory, logfile, loginterval, append_trajectory, and what else ASE's MolecularDynamics takes
    """

    def __init__(self, atoms: Atoms, timestep: float, temperature: float | None = None, friction: float | None = None,
                 fixcm: bool = False, *, temperature_K: float | None = None, rng: Any = None,
                 bonds: Iterable[Sequence[SupportsIndex]] | None = None, **kwargs: Any) -> None:
        if friction is None:
            raise TypeError("Missing 'friction' argument.")
        self.temp = self._convert_temperature(temperature, temperature_K)
        self.fr, self.fix_com = _read_friction(friction), boolean("fixcm", fixcm)
        self.rng = np.random if rng is None else rng
        if not hasattr(self.rng, "standard_normal"):
            raise TypeError("rng must be a generator of random numbers, such as numpy.random.default_rng(1), not "
                            f"{rng!r}")
        self._molecules = Molecules(atoms, bonds, self.fix_com)
        has_momenta = atoms.has("momenta")
        super().__init__(atoms, _read_timestep(timestep), **kwargs)

        self._integrator = _Integrator(self.temp/units.kB, self.fr*PICOSECOND, self.dt/PICOSECOND)
        self._integrator.setRandomNumberSeed(self._draw_seed())
        self._molecules.set_inertias(self._integrator)
        self._guard = Guard(self._molecules, self._integrator)
        self._context = openmm.Context(self._molecules.system, self._integrator,
                                       openmm.Platform.getPlatform("Reference"))
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
        return {**super().todict(), "temperature_K": self.temp/units.kB, "friction": self.fr, "fixcm": self.fix_com}

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
        self._molecules.set_inertias(self._integrator)

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
        self._take_positions()
        self._take_momenta()

    def draw_momenta(self) -> None:
        """
        Draw momenta for the temperature of the thermostat, allowing for their belonging to half a step earlier: a run
        that goes on from them is not hot at its beginning. The calculator is asked for the forces.
        """
        self._follow()
        self._context.setVelocitiesToTemperature(self.temp/units.kB, self._draw_seed())
        self._give_momenta()

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
        potential = self._molecules.potential
        potential.error = None
        try:
            self._integrator.step(1)
        except openmm.OpenMMException as error:
            if potential.error is None:
                raise openmm.OpenMMException(self._molecules.name_all(str(error))) from None
        if potential.error is not None:
            raise potential.error   # of which OpenMM keeps the text alone
        self._give_positions()
        self._give_momenta()
        self._guard.check()

    def _convert_temperature(self, temperature, temperature_K):
        """In eV, as ASE keeps it."""
        return units.kB*finite("MassPenaltyLangevin: temperature_K",
                               self._process_temperature(temperature, temperature_K, "eV"), "")

    def _draw_seed(self):
        """From 1 on, the same in all processes."""
        seed = np.array([1 + int(1e9*abs(self.rng.standard_normal())) % (2**31 - 1)])
        self.comm.broadcast(seed, 0)
        return int(seed[0])

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


class SystemCalculator(Calculator):
    """
    The potential of an OpenMM System for ASE's Atoms, such as a force field, or what MLPotential makes.

    Parameters
    ----------
    system : openmm.System
        the System, without constraints, whose particles are the atoms in their order; a ValueError if not. If it is
        periodic it has the cell of the atoms
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
            platform = [] if self.platform is None else [openmm.Platform.getPlatform(self.platform)]
            self._context = openmm.Context(self.system, openmm.VerletIntegrator(0.001), *platform)
        if self.system.usesPeriodicBoundaryConditions():
            self._context.setPeriodicBoxVectors(*(here.cell.array/NANOMETER))
        self._context.setPositions(here.positions/NANOMETER)
        state = self._context.getState(energy=True, forces=True)
        self.results = {"energy": state.getPotentialEnergy()._value*ENERGY,
                        "forces": state.getForces(asNumpy=True)._value*(ENERGY/NANOMETER)}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_context": None}


def _read_timestep(timestep):
    """In ASE's time; a ValueError if it must be in another unit."""
    timestep = finite("MassPenaltyLangevin: timestep", timestep, "", positive=True)
    found = round(timestep/units.fs, 6)
    if found > MOST_TIMESTEP:
        raise ValueError(f"MassPenaltyLangevin: a timestep of {found:.3g} fs is beyond {MOST_TIMESTEP} fs. Were "
                         f"femtoseconds meant? timestep={timestep:g}*units.fs")
    return timestep


def _read_friction(friction):
    """In 1/ASE's time; a ValueError if it must be in another unit."""
    friction = finite("MassPenaltyLangevin: friction", friction, "")
    found = round(friction*PICOSECOND, 6)
    if found > MOST_FRICTION:
        raise ValueError(f"MassPenaltyLangevin: a friction of {found:.3g}/ps is beyond {MOST_FRICTION}/ps. Were 1/ps "
                         f"meant? friction={friction:g}/(1000*units.fs)")
    return friction
