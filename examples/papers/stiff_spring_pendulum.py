#!/usr/bin/env python
"""Masses on stiff springs: three kicks of the impulse method against the limit of infinite stiffness.

The stiff-spring double pendulum of Lubich and Weiss (Numerical integrators for motion under a strong constraining
force, 2014) in consistent units (masses, lengths and gravity are 1):

    H(q, p) = 1/2 p^T M^-1 p + V(q) + eps^-2 U(q),  V = sum m_i g y_i,  U = 1/2 sum alpha_i^2 (r_i - l_i)^2,

r_i the length of spring i; the first spring hangs from the origin. However stiff the springs are, the energy of
their vibrations changes the slow motion. For eps -> 0 its Hamiltonian is

    1/2 p^T M^-1 p + V(q) + sum_j I_j omega_j(q)   on   r_i = l_i,

with omega_j^2 the eigenvalues of K^1/2 G M^-1 G^T K^1/2, G = dr/dq, K = diag(alpha_i^2) / eps^2, and with the
actions I_j = E_j / omega_j of the initial values. Printed are the errors against that limit in q and in P^T p
(P the projection on the tangent space), and their orders in h and eps; drawn, too, is what becomes of the actions.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, pi
from pathlib import Path
from typing import Any

import numpy as np
import openmm as mm
from openmmstiff import ImpulseIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, each, run_program  # noqa: E402
from common.papers import draw_slope, make_context, panels, parse, print_table, slope, solve  # noqa: E402

KICKS = {"Plain": ImpulseIntegrator.Plain, "Mollified": ImpulseIntegrator.Mollified,
         "Projected": ImpulseIntegrator.Projected}
GRAVITY = 1.0
STIFFNESS_RATIO = 2.5  # alpha_i = STIFFNESS_RATIO^(i-1); no omega_j is then near a sum of two others
MICRO_PHASE = 0.02     # omega_max times the micro-step: Verlet's frequencies are off by MICRO_PHASE^2/24, 2e-5

DURATION = 3.0         # errors are measured over half a period of one pendulum; later on, chaos would amplify them
STEP_COUNTS = (15, 21, 30, 42, 60, 85, 120, 300)  # in DURATION: h from 0.2 to 0.01
ERROR_EPS = (1e-3, 1e-4, 1e-5)
FLOOR = 50                                        # slopes in h are fitted where h^2 > FLOOR eps
SCALING_EPS, SCALING_STEP = np.geomspace(1e-2, 1e-5, 10), 0.005
ACTION_EPS, ACTION_STEP, ACTION_DURATION = 1e-3, 0.05, 30.0
# The resonances of the stiffest mode, at h omega / pi = ORDERS +- DISTANCES; in a small swing (angles of SWING)
# omega is nearly constant.
SWING, RESONANCE_EPS, ORDERS = 0.05, 1e-2, (1, 2, 3, 4)
DISTANCES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
RESONANCE_STEPS, SAMPLING = 20000, 100            # of a run, and from one look at the actions to the next


@dataclass
class State:
    """Positions and velocities of the masses, each an array (links, 2)."""
    q: np.ndarray
    v: np.ndarray


class Chain:
    """The chain with unit masses and lengths; frequencies, and with them actions, are those at eps = 1."""

    def __init__(self, links: int):
        self.links = links
        self.alpha = STIFFNESS_RATIO ** np.arange(links)
        self.difference = np.eye(links) - np.eye(links, k=-1)  # bond vectors from positions
        below = links - np.arange(links)
        self.carried = np.minimum.outer(below, below)          # masses that hang on both springs
        straight = hanging_chain(np.zeros(links), np.zeros(links))
        self.highest = self.modes(self.lengths(straight.q)[1])[0][-1]  # no configuration has a higher frequency

    def lengths(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Spring lengths r, and G = dr/dq (links, 2 links)."""
        bonds = self.difference @ q
        r = np.linalg.norm(bonds, axis=1)
        return r, (self.difference[:, :, None] * (bonds / r[:, None])[:, None]).reshape(self.links, -1)

    def modes(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """omega_j, ascending, and the eigenvectors of K^1/2 G M^-1 G^T K^1/2 in columns."""
        squares, vectors = np.linalg.eigh(self.alpha[:, None] * (g @ g.T) * self.alpha)
        return np.sqrt(squares), vectors

    def actions(self, g: np.ndarray, stretch: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """I_j = E_j / omega_j of springs stretched by eps `stretch`, which grows at this rate.

        E_j = 1/2 (y_j^2 + (y_j' / omega_j)^2), y = K^1/2 (r - l) in the basis of the modes.
        """
        omega, vectors = self.modes(g)
        y, y_rate = vectors.T @ (self.alpha * stretch), vectors.T @ (self.alpha * rate)
        return (y ** 2 + (y_rate / omega) ** 2) / (2 * omega)

    def tangential(self, state: State) -> np.ndarray:
        """P^T p; the masses are 1."""
        g, v = self.lengths(state.q)[1], state.v.ravel()
        return (v - g.T @ np.linalg.solve(g @ g.T, g @ v)).reshape(-1, 2)


def hanging_chain(angles: np.ndarray, rates: np.ndarray) -> State:
    """The rigid chain at these angles from the downward vertical."""
    return State(np.cumsum(np.stack((np.sin(angles), -np.cos(angles)), axis=1), axis=0),
                 np.cumsum(np.stack((np.cos(angles), np.sin(angles)), axis=1) * rates[:, None], axis=0))


@dataclass
class Start:
    """Initial values: a state of the rigid chain (q0, v0), and what the springs have on top of it.

    q = q0 + M^-1 G^T (G M^-1 G^T)^-1 s, s the stretch of the springs, and likewise v with the rate of s. Then
    q0, v0 are the M-orthogonal projections of q, v, and the limit starts from the same values whatever eps is.
    """
    angles: np.ndarray
    rates: np.ndarray
    stretch: np.ndarray  # s / eps
    stretch_rate: np.ndarray

    def state(self, chain: Chain, eps: float) -> State:
        rigid = hanging_chain(self.angles, self.rates)
        g = chain.lengths(rigid.q)[1]
        normal = np.linalg.solve(g @ g.T, g).T
        return State(rigid.q + eps * (normal @ self.stretch).reshape(-1, 2),
                     rigid.v + (normal @ self.stretch_rate).reshape(-1, 2))

    def actions(self, chain: Chain) -> np.ndarray:
        """Those of the limit."""
        g = chain.lengths(hanging_chain(self.angles, self.rates).q)[1]
        return chain.actions(g, self.stretch, self.stretch_rate)


def wide_swing(links: int = 2) -> Start:
    """Angles and rates of order 1, springs stretched by eps / alpha and their lengths growing at the rate 1."""
    return Start(np.array((0.8, -0.4)), np.array((0.0, 1.0)), 1 / Chain(links).alpha, np.ones(links))


def small_swing() -> Start:
    """Angles of SWING, without velocities; the springs stretched as in the wide swing."""
    return Start(np.array((SWING, -SWING)), np.zeros(2), 1 / Chain(2).alpha, np.zeros(2))


def limit_motion(chain: Chain, start: Start, correction: bool = True) -> Callable[[float], State]:
    """The state as a function of time, up to DURATION.

    A(phi) phi'' = -C(phi) phi'^2 - dW/dphi with A_kj = mu_kj cos(phi_k - phi_j), C_kj = mu_kj sin(phi_k - phi_j),
    mu_kj the masses that both springs carry, W = V + sum I_j omega_j; correction=False leaves out the last.
    """
    actions = start.actions(chain) if correction else np.zeros(chain.links)

    def derivative(_: float, values: np.ndarray) -> np.ndarray:
        angles, rates = np.split(values, 2)
        omega, vectors = chain.modes(chain.lengths(hanging_chain(angles, rates).q)[1])
        # d/dphi of sum I_j omega_j: only (G G^T)_k,k+1 = -cos(phi_k - phi_k+1) depends on the angles
        slope = np.sin(angles[:-1] - angles[1:]) * chain.alpha[:-1] * chain.alpha[1:] * (
            (vectors[:-1] * vectors[1:]) @ (actions / omega))
        turn = np.subtract.outer(angles, angles)
        torque = -GRAVITY * np.diag(chain.carried) * np.sin(angles) - (chain.carried * np.sin(turn)) @ rates ** 2
        torque[:-1] -= slope
        torque[1:] += slope
        return np.concatenate((rates, np.linalg.solve(chain.carried * np.cos(turn), torque)))

    angles = solve(derivative, np.concatenate((start.angles, start.rates)), DURATION)
    return lambda time: hanging_chain(*np.split(angles(time), 2))


class Run:
    """The chain in OpenMM under an ImpulseIntegrator with micro-steps of at most MICRO_PHASE / omega_max."""

    def __init__(self, chain: Chain, start: Start, eps: float, step: float, kick: str):
        self.chain, self.eps = chain, eps
        system = mm.System()
        springs = mm.HarmonicBondForce()                     # stiff
        gravity = mm.CustomExternalForce(f"{GRAVITY} * y")   # slow
        system.addParticle(0)                                # the origin: a particle without mass stays
        for i, alpha in enumerate(chain.alpha):              # particle i + 1 hangs on particle i
            system.addParticle(1)
            springs.addBond(i, i + 1, 1, (alpha / eps) ** 2)
            gravity.addParticle(i + 1)
        system.addForce(springs)
        system.addForce(gravity)
        integrator = ImpulseIntegrator(step)
        integrator.setKick(KICKS[kick])
        integrator.setProjectedPeriod(np.inf)  # every spring, whatever its period
        integrator.setNumMicroSteps(ceil(step * chain.highest / eps / MICRO_PHASE))
        state, origin_and_z = start.state(chain, eps), np.array(((1, 0), (0, 1)))
        self.context = make_context(system, integrator, np.pad(state.q, origin_and_z), np.pad(state.v, origin_and_z))

    def advance(self, steps: int) -> State:
        self.context.getIntegrator().step(steps)
        state = self.context.getState(getPositions=True, getVelocities=True)
        q, v = state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value
        return State(np.array(q[1:, :2]), np.array(v[1:, :2]))

    def actions(self, state: State) -> np.ndarray:
        r, g = self.chain.lengths(state.q)
        return self.chain.actions(g, (r - 1) / self.eps, g @ state.v.ravel())

    def sample_actions(self, samples: int, steps: int) -> np.ndarray:
        """The actions every `steps` steps, (samples, links)."""
        return np.array([self.actions(self.advance(steps)) for _ in range(samples)])


def largest_errors(run: Run, limit: Callable[[float], State], steps: int) -> tuple[float, float]:
    """In q and in P^T p: the largest component after any of the `steps` steps that fill DURATION."""
    q_error = p_error = 0.0
    for i in range(1, steps + 1):
        state, exact = run.advance(1), limit(i * DURATION / steps)
        q_error = max(q_error, np.abs(state.q - exact.q).max())
        p_error = max(p_error, np.abs(run.chain.tangential(state) - exact.v).max())
    return q_error, p_error


# Results

HEADINGS = [f"{what}, {kick}:.2g" for what in ("q", "P^T p") for kick in KICKS]  # of errors, arrays in this order


def study_errors(chain: Chain, start: Start, limit: Callable[[float], State]):
    """By eps and h, and by eps."""
    def errors(eps: float, count: int) -> np.ndarray:
        return np.array([largest_errors(Run(chain, start, eps, DURATION / count, kick), limit, count)
                         for kick in KICKS]).T.ravel()

    def fit(rows: dict[float, np.ndarray]) -> list[str]:
        return [f"{order:.2g}" for order in slope(rows, rows.values())]

    by_step = {(eps, DURATION / count): errors(eps, count)
               for eps, count in each("steps", [(eps, count) for eps in ERROR_EPS for count in STEP_COUNTS])}
    by_eps = {eps: errors(eps, round(DURATION / SCALING_STEP)) for eps in each("eps", SCALING_EPS)}
    least = min(ERROR_EPS)
    fitted = {step: row for (eps, step), row in by_step.items() if eps == least and step ** 2 > FLOOR * eps}
    print_table(f"Largest error against the limit over the step size; slopes are those at eps = {least:g}, "
                f"h >= {min(fitted):.3f}, where h^2 > {FLOOR} eps", ["eps:g", "h:.3f", *HEADINGS],
                [*((*key, *row) for key, row in by_step.items()), ("slope in h", "", *fit(fitted))])
    print_table(f"Largest error against the limit over eps, h = {SCALING_STEP:g}", ["eps:.2e", *HEADINGS],
                [*((eps, *row) for eps, row in by_eps.items()), ("slope in eps", *fit(by_eps))])
    return by_step, by_eps


def study_actions(chain: Chain, start: Start) -> dict[str, np.ndarray]:
    """Over those at the start, by kick."""
    return {kick: Run(chain, start, ACTION_EPS, ACTION_STEP, kick).sample_actions(
        round(ACTION_DURATION / ACTION_STEP), 1) / start.actions(chain) for kick in each("actions", KICKS)}


def study_resonances(chain: Chain, start: Start) -> dict[float, dict[str, float]]:
    """The largest change of the stiffest mode's action by h omega / pi."""
    found: dict[float, dict[str, float]] = {}
    for x in each("resonances", sorted({round(order + sign * distance, 6) for order in ORDERS
                                        for distance in DISTANCES for sign in (-1, 1)})):
        actions = {kick: Run(chain, start, RESONANCE_EPS, x * pi * RESONANCE_EPS / chain.highest, kick).sample_actions(
            RESONANCE_STEPS // SAMPLING, SAMPLING) for kick in KICKS}
        found[x] = {kick: np.abs(values / start.actions(chain) - 1)[:, -1].max() for kick, values in actions.items()}
    return found


def draw(by_step: dict[tuple[float, float], np.ndarray], by_eps: dict[float, np.ndarray],
         actions: dict[str, np.ndarray], resonance: dict[float, dict[str, float]], path: Path):
    """Mollified and Projected lie upon each other: the one is drawn wide and pale, the other thin."""
    styles: dict[str, dict[str, Any]] = {
        "Plain": {"color": "#d62728", "linewidth": 1}, "Mollified": {"color": "#9ecae1", "linewidth": 5},
        "Projected": {"color": "#08306b", "linewidth": 1.2}}
    with panels(path, 2, 2) as (over_step, over_eps, over_time, over_resonance):
        for i, (kick, style) in enumerate(styles.items()):
            for eps, marker in zip(ERROR_EPS, "os^"):
                points = [(step, row[i]) for (at, step), row in by_step.items() if at == eps]
                over_step.loglog(*zip(*points), marker=marker, markersize=5, **style)
            over_eps.loglog(list(by_eps), [row[i] for row in by_eps.values()], marker="o", markersize=5,
                            label=kick, **style)
            for change, line in zip(actions[kick].T, ("-", "--")):
                over_time.plot(ACTION_STEP * np.arange(1, len(change) + 1), change, line, **style)
            over_resonance.semilogy(list(resonance), [row[kick] for row in resonance.values()], **style)
        for eps, marker in zip(ERROR_EPS, "os^"):
            over_step.plot([], [], marker, color="0.4", label=f"eps = {eps:g}")
        draw_slope(over_step, (0.04, 0.2), 0.06, 2)
        draw_slope(over_eps, (1e-5, 1e-2), 0.6, 1)
        over_step.set(title="Error in q over the step size", xlabel="h", ylabel="largest error")
        over_eps.set(title=f"Error in q over eps, h = {SCALING_STEP:g}", xlabel="eps", ylabel="largest error")
        over_time.set(title=f"Actions, eps = {ACTION_EPS:g}, h = {ACTION_STEP:g} (solid: softest mode)",
                      xlabel="time", ylabel="I / I(0)")
        over_resonance.set(title=f"Action of the stiffest mode in a small swing, eps = {RESONANCE_EPS:g}",
                           xlabel="h omega / pi", ylabel="largest relative change")


def main():
    options = parse(OptionParser(__doc__))
    chain, start = Chain(2), wide_swing()
    by_step, by_eps = study_errors(chain, start, limit_motion(chain, start))
    draw(by_step, by_eps, study_actions(chain, start), study_resonances(chain, small_swing()), options.figure)


if __name__ == "__main__":
    run_program(main)
