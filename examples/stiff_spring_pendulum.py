#!/usr/bin/env python
"""Masses on stiff springs: three kicks of the impulse method against the limit of infinite stiffness.

The stiff-spring double pendulum of Lubich and Weiss (Numerical integrators for motion under a strong constraining
force, 2014), or a chain of more such pendula, in consistent units (masses, lengths and gravity are 1):

    H(q, p) = 1/2 p^T M^-1 p + V(q) + eps^-2 U(q),  V = sum m_i g y_i,  U = 1/2 sum alpha_i^2 (r_i - l_i)^2,

r_i the length of spring i; the first spring hangs from the origin. However stiff the springs are, the energy of
their vibrations changes the slow motion. For eps -> 0 its Hamiltonian is

    1/2 p^T M^-1 p + V(q) + sum_j I_j omega_j(q)   on   r_i = l_i,

with omega_j^2 the eigenvalues of K^1/2 G M^-1 G^T K^1/2, G = dr/dq, K = diag(alpha_i^2) / eps^2, and with the
actions I_j = E_j / omega_j of the initial values. Printed are the errors against that limit in q and in P^T p
(P the projection on the tangent space), their orders in h and eps, and what becomes of the actions.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, pi
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmmstiff import ImpulseIntegrator
from scipy.integrate import solve_ivp
from tqdm import tqdm

from options import OptionParser, number, run_program

KICKS = {"Plain": ImpulseIntegrator.Plain, "Mollified": ImpulseIntegrator.Mollified,
         "Projected": ImpulseIntegrator.Projected}
GRAVITY = 1.0
STIFFNESS_RATIO = 2.5  # alpha_i = STIFFNESS_RATIO^(i-1); no omega_j is then near a sum of two others
MICRO_PHASE = 0.02     # omega_max times the micro-step: Verlet's frequencies are off by MICRO_PHASE^2/24, 2e-5
MAX_LINKS = 4

# Errors are measured over about half a period of one pendulum; later on, chaos would amplify them.
DURATION = 3.0
STEP_COUNTS = (15, 20, 30, 42, 60, 85, 120, 170, 240, 300)  # in DURATION: h from 0.2 to 0.01
ERROR_EPS = (1e-3, 1e-4, 1e-5)
FLOOR = 100                                                  # slopes in h are fitted where h^2 > FLOOR eps
SCALING_EPS, SCALING_STEP = np.geomspace(1e-2, 1e-5, 10), 0.005
ACTION_EPS, ACTION_STEP, ACTION_DURATION = (1e-2, 1e-3, 1e-4), 0.05, 30.0
PLOTTED_EPS = 1e-3                                           # of the actions in the figure
# Resonances: h omega_N / pi at these distances from 1, 2, 3, 4; the swing is small, so that omega_N is nearly constant
RESONANCE_EPS, RESONANCE_ORDERS, SWING = 1e-2, (1, 2, 3, 4), 0.05
DISTANCES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5)
OFF_RESONANCE = 2.5                                          # h omega_N / pi of the long run
SAMPLING = 100                                               # steps between two looks at the actions
LONG_EPS, LONG_STEP, WINDOWS = 1e-2, 0.08, 50                # of the long run with the wide swing


@dataclass
class State:
    """Positions and velocities of the masses, each an array (links, 2)."""
    q: np.ndarray
    v: np.ndarray


class Chain:
    """The chain with unit masses and lengths; frequencies and actions are at eps = 1, so that E = I omega holds
    for every eps with the same I."""

    def __init__(self, links: int):
        self.links = links
        self.alpha = STIFFNESS_RATIO ** np.arange(links)
        below = links - np.arange(links)  # masses that hang on spring k
        self.hanging = np.minimum.outer(below, below)
        straight = hanging_chain(np.zeros(links), np.zeros(links))
        self.highest = self.frequencies(straight.q)[-1]  # no configuration has a higher frequency

    def jacobian(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Spring lengths, and their derivatives G (links, 2 links)."""
        bonds = np.diff(q, axis=0, prepend=np.zeros((1, 2)))
        lengths = np.linalg.norm(bonds, axis=1)
        g = np.zeros((self.links, self.links, 2))
        for i, unit in enumerate(bonds / lengths[:, None]):
            g[i, i] = unit
            if i > 0:
                g[i, i - 1] = -unit
        return lengths, g.reshape(self.links, -1)

    def modes(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """omega_j (eps = 1) and the eigenvectors of K^1/2 G M^-1 G^T K^1/2, in columns."""
        squares, vectors = np.linalg.eigh(self.alpha[:, None] * (g @ g.T) * self.alpha)
        return np.sqrt(squares), vectors

    def frequencies(self, q: np.ndarray) -> np.ndarray:
        return self.modes(self.jacobian(q)[1])[0]

    def actions(self, state: State, eps: float) -> np.ndarray:
        """I_j = E_j / omega_j, E_j = 1/2 (y_j^2 + (y_j' / omega_j)^2) with y = K^1/2 (r - l) in the modes."""
        lengths, g = self.jacobian(state.q)
        omega, vectors = self.modes(g)
        y = vectors.T @ (self.alpha * (lengths - 1)) / eps
        rate = vectors.T @ (self.alpha * (g @ state.v.ravel()))
        return (y ** 2 + (rate / omega) ** 2) / (2 * omega)

    def tangential(self, state: State) -> np.ndarray:
        """P^T p; the masses are 1."""
        _, g = self.jacobian(state.q)
        v = state.v.ravel()
        return (v - g.T @ np.linalg.solve(g @ g.T, g @ v)).reshape(-1, 2)

    def energy(self, state: State, eps: float) -> float:
        """H(q, p)."""
        lengths, _ = self.jacobian(state.q)
        return (0.5 * np.sum(state.v ** 2) + GRAVITY * np.sum(state.q[:, 1])
                + 0.5 * np.sum((self.alpha / eps * (lengths - 1)) ** 2))


def hanging_chain(angles: np.ndarray, rates: np.ndarray) -> State:
    """The rigid chain at these angles from the downward vertical."""
    return State(np.cumsum(np.stack((np.sin(angles), -np.cos(angles)), axis=1), axis=0),
                 np.cumsum(np.stack((np.cos(angles), np.sin(angles)), axis=1) * rates[:, None], axis=0))


@dataclass
class Start:
    """Initial values: a state of the rigid chain, and what the springs have on top of it.

    With s the stretch of the springs and s' its rate, q = q0 + M^-1 G^T (G M^-1 G^T)^-1 s: q0 is then the
    M-orthogonal projection of q, and likewise for v, so that the limit has the same initial values for every eps.
    """
    angles: np.ndarray
    rates: np.ndarray
    stretch: np.ndarray  # s / eps
    stretch_rate: np.ndarray

    def state(self, chain: Chain, eps: float) -> State:
        rigid = hanging_chain(self.angles, self.rates)
        _, g = chain.jacobian(rigid.q)
        normal = np.linalg.solve(g @ g.T, g).T
        return State(rigid.q + eps * (normal @ self.stretch).reshape(-1, 2),
                     rigid.v + (normal @ self.stretch_rate).reshape(-1, 2))

    def actions(self, chain: Chain) -> np.ndarray:
        """Of the limit."""
        _, g = chain.jacobian(hanging_chain(self.angles, self.rates).q)
        omega, vectors = chain.modes(g)
        y, rate = vectors.T @ (chain.alpha * self.stretch), vectors.T @ (chain.alpha * self.stretch_rate)
        return (y ** 2 + (rate / omega) ** 2) / (2 * omega)


def wide_swing(links: int) -> Start:
    """Angles and rates of order 1, springs stretched by eps / alpha and their lengths growing at the rate 1."""
    return Start(np.array((0.8, -0.4, 0.3, -0.2))[:links], np.array((0.0, 1.0, -0.5, 0.5))[:links],
                 1 / Chain(links).alpha, np.ones(links))


def small_swing(links: int) -> Start:
    """Angles of SWING, without velocities; the springs stretched as in the wide swing."""
    return Start(SWING * (-1.0) ** np.arange(links), np.zeros(links), 1 / Chain(links).alpha, np.zeros(links))


def limit_motion(chain: Chain, start: Start, correction: bool = True) -> Callable[[float], State]:
    """The state as a function of time, up to DURATION.

    A(phi) phi'' = -C(phi) phi'^2 - dW/dphi with A_kj = mu_kj cos(phi_k - phi_j), C_kj = mu_kj sin(phi_k - phi_j),
    mu_kj the masses that hang on both springs, W = V + sum I_j omega_j; correction=False leaves out the last.
    """
    actions = start.actions(chain) if correction else np.zeros(chain.links)
    alpha, weight = chain.alpha, np.diag(chain.hanging)

    def derivative(_: float, values: np.ndarray) -> np.ndarray:
        angles, rates = np.split(values, 2)
        _, g = chain.jacobian(hanging_chain(angles, rates).q)
        omega, vectors = chain.modes(g)
        # only (G G^T)_k,k+1 = -cos(phi_k - phi_k+1) depends on the angles
        slope = np.sin(angles[:-1] - angles[1:]) * alpha[:-1] * alpha[1:] * (
            (vectors[:-1] * vectors[1:]) @ (actions / omega))
        torque = -GRAVITY * weight * np.sin(angles)
        torque[:-1] -= slope
        torque[1:] += slope
        turn = np.subtract.outer(angles, angles)
        torque -= (chain.hanging * np.sin(turn)) @ rates ** 2
        return np.concatenate((rates, np.linalg.solve(chain.hanging * np.cos(turn), torque)))

    angles = solve_ivp(derivative, (0, DURATION), np.concatenate((start.angles, start.rates)), method="DOP853",
                       rtol=1e-12, atol=1e-12, dense_output=True).sol
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
        integrator.setNumMicroSteps(ceil(step * chain.highest / eps / MICRO_PHASE))
        self.context = mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))
        state = start.state(chain, eps)
        origin_and_z = ((1, 0), (0, 1))
        self.context.setPositions(np.pad(state.q, origin_and_z))
        self.context.setVelocities(np.pad(state.v, origin_and_z))

    def advance(self, steps: int) -> State:
        self.context.getIntegrator().step(steps)
        state = self.context.getState(getPositions=True, getVelocities=True)
        q, v = state.getPositions(asNumpy=True)._value, state.getVelocities(asNumpy=True)._value
        return State(np.array(q[1:, :2]), np.array(v[1:, :2]))

    def actions(self, samples: int, steps: int) -> np.ndarray:
        """The actions every `steps` steps, (samples, links)."""
        return np.array([self.chain.actions(self.advance(steps), self.eps) for _ in range(samples)])


def largest_errors(run: Run, limit: Callable[[float], State], steps: int) -> tuple[float, float]:
    """In q and in P^T p, the largest component at the end of any of `steps` steps that fill DURATION."""
    q_error = p_error = 0.0
    for i in range(1, steps + 1):
        state, exact = run.advance(1), limit(i * DURATION / steps)
        q_error = max(q_error, np.abs(state.q - exact.q).max())
        p_error = max(p_error, np.abs(run.chain.tangential(state) - exact.v).max())
    return q_error, p_error


def print_frequencies(chain: Chain, limit: Callable[[float], State]):
    omega = np.array([chain.frequencies(limit(time).q) for time in np.linspace(0, DURATION, 301)])
    print("eps omega_j along the limit motion: "
          + ", ".join(f"{low:.3f}-{high:.3f}" for low, high in zip(omega.min(axis=0), omega.max(axis=0))))
    links = range(chain.links)
    apart = [np.abs(omega[:, i] - omega[:, j]).min() for i in links for j in range(i)]
    sums = [np.abs(omega[:, i] - omega[:, j] - omega[:, k]).min()
            for i in links for j in links for k in range(j + 1) if i not in (j, k)]
    print(f"  least eps |omega_i - omega_j| {min(apart):.2f}, least eps |omega_i - omega_j - omega_k| {min(sums):.2f}")


Errors = dict[str, tuple[float, float]]  # of every kick, in q and in P^T p


@dataclass
class Results:
    by_step: dict[tuple[float, float], Errors] = field(default_factory=dict)        # eps, h
    by_eps: dict[float, Errors] = field(default_factory=dict)
    actions: dict[tuple[float, str], np.ndarray] = field(default_factory=dict)      # eps, kick: I_j / I_j(0) of each step
    resonance: dict[float, dict[str, float]] = field(default_factory=dict)          # h omega / pi


def print_errors(first: str, rows: list[tuple[str, Errors]]):
    """Rows of errors (or of their slopes) in q and in P^T p for every kick."""
    columns = "{:17}" + 2 * "  {:>9} {:>9} {:>9}"
    print(columns.format("", "q", "", "", "P^T p", "", "").rstrip())
    print(columns.format(first, *KICKS, *KICKS))
    for label, values in rows:
        print(columns.format(label, *(f"{values[kick][i]:.2g}" for i in (0, 1) for kick in KICKS)))


def slopes(x: list[float], rows: list[Errors]) -> Errors:
    """Of log error over log x."""
    return {kick: tuple(np.polyfit(np.log(x), np.log([row[kick] for row in rows]), 1)[0]) for kick in KICKS}


def print_tables(found: Results):
    print("\nLargest error against the limit over the step size\n")
    print_errors("eps    h", [(f"{eps:<6g} {step:.3f}", row) for (eps, step), row in found.by_step.items()])
    eps = min(ERROR_EPS)
    fitted = {step: row for (at, step), row in found.by_step.items() if at == eps and step ** 2 > FLOOR * eps}
    print_errors("", [("slope in h", slopes(list(fitted), list(fitted.values())))])
    print(f"Slope: at eps = {eps:g}, h >= {min(fitted):.3f}; there h^2 > {FLOOR} eps.")

    print(f"\nLargest error against the limit over eps, h = {SCALING_STEP:g}\n")
    print_errors("eps", [(f"{eps:.2e}", row) for eps, row in found.by_eps.items()])
    print_errors("", [("slope in eps", slopes(list(found.by_eps), list(found.by_eps.values())))])

    print(f"\nLargest relative change of an action, h = {ACTION_STEP:g}, over a time of {ACTION_DURATION:g}\n")
    print(f"{'eps':24}" + "".join(f"{kick:>11}" for kick in KICKS))
    for eps in ACTION_EPS:
        print(f"{eps:<24g}" + "".join(f"{np.abs(found.actions[eps, kick] - 1).max():11.2g}" for kick in KICKS))

    if found.resonance:
        print(f"\nLargest relative change of the stiffest mode's action, swing of {SWING:g}, eps = {RESONANCE_EPS:g}\n")
        print(f"{'h omega / pi':24}" + "".join(f"{kick:>11}" for kick in KICKS))
        for order in RESONANCE_ORDERS:
            for name, least, most in ((f"{order} +- 0.03", 0, 0.03), ("0.3 to 0.5 away", 0.3, 0.5)):
                near = [row for x, row in found.resonance.items() if least <= round(abs(x - order), 6) <= most]
                print(f"{name:24}" + "".join(f"{max(row[kick] for row in near):11.2g}" for kick in KICKS))


def long_run(run: Run, steps: int, update: Callable[[int], None]) -> tuple[np.ndarray, np.ndarray]:
    """Averages over WINDOWS windows of the actions, relative to the first, and of the energy, minus the initial one."""
    samples = max(1, steps // (WINDOWS * SAMPLING))
    actions, energies = [], []
    for _ in range(WINDOWS):
        states = []
        for _ in range(samples):
            states.append(run.advance(SAMPLING))
            update(SAMPLING)
        actions.append(np.mean([run.chain.actions(state, run.eps) for state in states], axis=0))
        energies.append(np.mean([run.chain.energy(state, run.eps) for state in states]))
    return np.array(actions) / actions[0] - 1, np.array(energies) - energies[0]


def print_long_runs(chain: Chain, steps: int):
    """The small swing off resonance, and the wide one, whose frequencies cross resonances and whose motion is chaotic."""
    print(f"\n{steps} steps in {WINDOWS} windows: relative change of the averages of the actions, change of the "
          "average energy\n")
    print(f"{'':34}{'actions':>20}{'energy':>20}\n{'':34}" + 2 * f"{'largest':>10}{'last':>10}")
    off_resonance = OFF_RESONANCE * pi * RESONANCE_EPS / chain.highest
    with tqdm(total=2 * len(KICKS) * steps, unit="step", leave=False,
              mininterval=0.5 if sys.stderr.isatty() else 10) as bar:
        for name, start, eps, step in (("small", small_swing(chain.links), RESONANCE_EPS, off_resonance),
                                       ("wide", wide_swing(chain.links), LONG_EPS, LONG_STEP)):
            for kick in KICKS:
                bar.set_description(f"{name} swing, {kick}")
                actions, energies = long_run(Run(chain, start, eps, step, kick), steps, bar.update)
                tqdm.write(f"{name:6} h = {step:.4f}   {kick:14}"
                           + "".join(f"{np.abs(values).max():10.2g}{np.abs(values[-1]).max():10.2g}"
                                     for values in (actions, energies)), file=sys.stdout)


def draw(found: Results, path: Path):
    """Mollified and Projected lie upon each other: the one is drawn wide and pale, the other thin."""
    styles = {"Plain": {"color": "#d62728", "linewidth": 1}, "Mollified": {"color": "#9ecae1", "linewidth": 5},
              "Projected": {"color": "#08306b", "linewidth": 1.2}}
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
    over_step, over_eps, over_time, over_resonance = panels.flat
    for kick, style in styles.items():
        for eps, marker in zip(ERROR_EPS, "os^"):
            points = [(step, row[kick][0]) for (at, step), row in found.by_step.items() if at == eps]
            over_step.loglog(*zip(*points), marker=marker, markersize=5, **style)
        over_eps.loglog(list(found.by_eps), [row[kick][0] for row in found.by_eps.values()], marker="o",
                        markersize=5, label=kick, **style)
        actions = found.actions[PLOTTED_EPS, kick]
        for change, line in zip(actions.T, ("-", "--", ":", "-.")):
            over_time.plot(ACTION_STEP * np.arange(1, len(actions) + 1), change, line, **style)
        if found.resonance:
            over_resonance.semilogy(list(found.resonance), [row[kick] for row in found.resonance.values()], **style)
    for eps, marker in zip(ERROR_EPS, "os^"):
        over_step.plot([], [], marker, color="0.4", label=f"eps = {eps:g}")
    steps, scales = np.array((0.03, 0.2)), np.array((1e-5, 1e-2))
    over_step.plot(steps, 0.06 * steps ** 2, "k-.", linewidth=0.8, label="slope 2")
    over_eps.plot(scales, 0.6 * scales, "k-.", linewidth=0.8, label="slope 1")
    over_step.set(title="Error in q over the step size", xlabel="h", ylabel="largest error")
    over_eps.set(title=f"Error in q over eps, h = {SCALING_STEP:g}", xlabel="eps", ylabel="largest error")
    over_time.set(title=f"Actions, eps = {PLOTTED_EPS:g}, h = {ACTION_STEP:g} (dashed: the second mode)",
                  xlabel="time", ylabel="I / I(0)")
    over_resonance.set(title=f"Stiffest mode, {RESONANCE_EPS:g}", xlabel="h omega / pi",
                       ylabel="largest relative change of the action")
    for panel in (over_step, over_eps):
        panel.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--links", type=number(int, 2, most=MAX_LINKS), default=2, metavar="N",
                        help="number of springs and masses (default: %(default)s)")
    parser.add_argument("--resonance-steps", type=number(int, 0), default=20000, metavar="STEPS",
                        help="steps of each run of the resonance scan, 0 for none (default: %(default)s)")
    parser.add_argument("--long", type=number(int, 0), default=0, metavar="STEPS",
                        help="steps of a long run, 0 for none (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("demo"), metavar="FOLDER",
                        help="folder for the figure, pendulum.png (default: %(default)s)")
    options = parser.parse_args()
    parser.make_folder(options.output)

    chain, start = Chain(options.links), wide_swing(options.links)
    limit, uncorrected = limit_motion(chain, start), limit_motion(chain, start, correction=False)
    print(f"{options.links} masses on springs, alpha = {', '.join(f'{alpha:g}' for alpha in chain.alpha)}; "
          f"initial angles {start.angles}, rates {start.rates},\nsprings stretched by eps / alpha, their lengths "
          f"growing at the rate 1; fast energies E_j = {start.actions(chain) * chain.frequencies(limit(0).q)}")
    print(f"Micro-steps: {MICRO_PHASE:g} / omega_max, omega_max the highest frequency of the straight chain")
    print_frequencies(chain, limit)
    times = np.linspace(0, DURATION, 301)
    print("Without the correcting potential the limit would be off, until the time "
          f"{DURATION:g}, by {max(np.abs(limit(t).q - uncorrected(t).q).max() for t in times):.2g} in q and "
          f"{max(np.abs(limit(t).v - uncorrected(t).v).max() for t in times):.2g} in P^T p")

    found = Results()
    # near 2.5, say, the neighbours 2 and 3 have one point in common
    scan = sorted({round(order + sign * distance, 6) for order in RESONANCE_ORDERS for distance in DISTANCES
                   for sign in (-1, 1)}) if options.resonance_steps else []
    jobs = [(found.by_step, (eps, DURATION / count), eps, count) for eps in ERROR_EPS for count in STEP_COUNTS]
    jobs += [(found.by_eps, eps, eps, round(DURATION / SCALING_STEP)) for eps in SCALING_EPS]
    runs = len(KICKS) * (len(jobs) + len(ACTION_EPS) + len(scan))
    with tqdm(total=runs, unit="run", leave=False, mininterval=0.5 if sys.stderr.isatty() else 10) as bar:
        for kick in KICKS:
            bar.set_description(f"{kick}, errors")
            for table, key, eps, count in jobs:
                run = Run(chain, start, eps, DURATION / count, kick)
                table.setdefault(key, {})[kick] = largest_errors(run, limit, count)
                bar.update()
            bar.set_description(f"{kick}, actions")
            for eps in ACTION_EPS:
                run = Run(chain, start, eps, ACTION_STEP, kick)
                found.actions[eps, kick] = run.actions(round(ACTION_DURATION / ACTION_STEP), 1) / start.actions(chain)
                bar.update()
            bar.set_description(f"{kick}, resonances")
            swing = small_swing(options.links)
            for x in scan:
                run = Run(chain, swing, RESONANCE_EPS, x * pi * RESONANCE_EPS / chain.highest, kick)
                actions = run.actions(ceil(options.resonance_steps / SAMPLING), SAMPLING) / swing.actions(chain)
                found.resonance.setdefault(x, {})[kick] = np.abs(actions[:, -1] - 1).max()
                bar.update()
    print_tables(found)
    if options.long:
        print_long_runs(chain, options.long)
    draw(found, options.output / "pendulum.png")
    print(f"\nErrors, actions and resonances: {options.output / 'pendulum.png'}")


if __name__ == "__main__":
    run_program(main)
