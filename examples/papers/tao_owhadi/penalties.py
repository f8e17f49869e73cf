"""What the examples of Tao and Owhadi (2014) share: penalties, SHAKE's anchors, pendula.

The numbers are the paper's, in units that it leaves open: 1 stands for OpenMM's nm, ps and dalton.
"""
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import ZhangSkeelIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from common.options import each  # noqa: E402
from common.papers import Trajectory, print_table, simulate, verlet  # noqa: E402
from common.runs import configured  # noqa: E402

STIFF_GROUP = 1       # the force group of penalties
ANCHOR_MASS = 1e12    # OpenMM refuses constraints to massless particles: a very heavy one hardly moves


def penalty_force(pairs: Sequence[tuple[int, int]], lengths: np.ndarray, omega: float) -> mm.CustomBondForce:
    """V1 = omega^2/2 sum (r^2 - d^2)^2 in STIFF_GROUP; omega is a parameter of the Context."""
    force = mm.CustomBondForce("0.5*omega^2*(r^2-d^2)^2")
    force.addGlobalParameter("omega", omega)
    force.addPerBondParameter("d")
    for (i, j), length in zip(pairs, lengths):
        force.addBond(i, j, [length])
    force.setForceGroup(STIFF_GROUP)
    return force


def zhang_skeel(method: str, step: float, beta: float) -> ZhangSkeelIntegrator:
    """A method of the family by its name; ThirdDerivatives and FullHessian use the Hessian of the whole potential."""
    stiff = {} if method in ("ThirdDerivatives", "FullHessian") else {"StiffForceGroups": 1 << STIFF_GROUP}
    return configured(ZhangSkeelIntegrator, Method=getattr(ZhangSkeelIntegrator, method), Beta=beta, **stiff)(step)


def simulate_both(system: mm.System, integrator: ZhangSkeelIntegrator, positions: np.ndarray, steps: int,
                  velocities: np.ndarray | None = None) -> tuple[Trajectory, np.ndarray]:
    """A run, whose frames have positions q, and the positions x that it propagates."""
    found = simulate(system, integrator, positions, steps, 1, velocities,
                     lambda: integrator.getPropagatedPositions().value_in_unit(unit.nanometer))
    return found, np.array([positions, *found.observed])


# Pendula

GRAVITY = 1.0                 # along -y
OMEGA, BETA = 20.0, 0.4       # of the penalties and the methods, unless others are given


@dataclass
class Method:
    """A row of the paper's comparisons."""
    label: str
    name: str                    # SHAKE, Verlet on penalties, or one of zhang_skeel() on penalties
    step: float
    color: str

    @property
    def whole_label(self) -> str:
        return f"{self.label}, h = {self.step:g}"


def pendulum_system(lengths: np.ndarray, omega: float | None = None) -> mm.System:
    """Unit masses 1, 2, ..., each on a link to the particle before it; particle 0 is the pin.

    Links are penalties, and the pin has no mass; without omega they are constraints, and its mass is ANCHOR_MASS.
    """
    links = [(i, i + 1) for i in range(len(lengths))]
    system = mm.System()
    system.addParticle(ANCHOR_MASS if omega is None else 0)
    gravity = mm.CustomExternalForce(f"{GRAVITY}*y")
    for _, mass in links:
        system.addParticle(1)
        gravity.addParticle(mass)
    system.addForce(gravity)
    if omega is None:
        for link, length in zip(links, lengths):
            system.addConstraint(*link, length)
    else:
        system.addForce(penalty_force(links, lengths, omega))
    return system


def swing(method: str, lengths: np.ndarray, positions: np.ndarray, step: float, steps: int, every: int = 1,
          omega: float = OMEGA) -> Trajectory:
    """The pendulum from rest at these positions, at which the links have their lengths."""
    rigid = method == "SHAKE"
    integrator = (verlet(step, constrained=rigid) if rigid or method == "Verlet" else zhang_skeel(method, step, BETA))
    return simulate(pendulum_system(lengths, None if rigid else omega), integrator, positions, steps, every)


def swing_all(methods: Sequence[Method], lengths: np.ndarray, positions: np.ndarray, frame: float,
              time: float) -> list[Trajectory]:
    """With a frame every `frame`, up to where the energy is off by more than its initial size."""
    runs = []
    for method in each("methods", methods):
        every = round(frame / method.step)
        found = swing(method.name, lengths, positions, method.step, every * round(time / frame), every)
        failed = ~(np.abs(found.energies - found.energies[0]) <= np.abs(found.energies[0]))
        kept = slice(np.argmax(failed) if failed.any() else None)
        runs.append(Trajectory(found.times[kept], found.positions[kept], found.velocities[kept], found.energies[kept],
                               found.observed, found.seconds))
    return runs


def print_comparison(title: str, methods: Sequence[Method], runs: Sequence[Trajectory], apart: Sequence[np.ndarray],
                     times: Sequence[float]):
    """`apart`: of each run its distance from what it is compared with; the largest up to these times is shown."""
    rows = []
    for method, run, distance in zip(methods, runs, apart):
        half = method.step / 2
        rows.append((method.label, method.step, *(
            f"{distance[run.times < time + half].max():.2g}" if run.times[-1] > time - half
            else f"fails at {run.times[-1]:.3g}" for time in times), np.abs(run.energies - run.energies[0]).max()))
    print_table(f"{title}; largest change of the energy, which is {runs[0].energies[0]:g}",
                ["method", "h:g", *(f"t <= {time:g}" for time in times), "energy:.1e"], rows)
