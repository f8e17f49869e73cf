#!/usr/bin/env python
"""Pendula that stand on a shaking pivot: the heterogeneous multiscale method on the problems of its paper.

Calvo and Sanz-Serna (SIAM J. Sci. Comput. 32, 2029, 2010), in consistent units: nm, ps and dalton stand for m, s, kg.
The pivot has the vertical acceleration a = v_max omega cos(omega t), v_max = 4, which for large omega holds up pendula
that would fall. Angles are from the upward vertical. The pendula start at rest and are followed up to T = 1, with
n = T_macro/H micro-steps in a period. The averaged motion Q is known here; errors are the largest differences from it
at the ends of macro-steps.

- One pendulum, l = 0.2, g = 9.8, q(0) = 0.5, T_macro = 1:

      q'' = (g + a)/l sin q,   Q'' = (g/l - v_max^2/(2 l^2) cos Q) sin Q.

  For OpenMM the angle is the x coordinate of a particle of mass 1. The tables are the paper's 2.2 (exponential weights
  over 40 periods) and 2.3 (equal weights over half a period), with its numbers in brackets; its table 2.1 is of another
  algorithm, the synchronous one. Micro-steps are counted as there: the force at the end of the last one is not.
  "averaged" is velocity Verlet with the force of Q itself. At omega = 1e3 one sees what the averaged equation leaves
  out, which is O(1/omega).
- What it costs beside velocity Verlet for q over the whole of T, with micro-steps of the same size, or smaller by as
  much as it takes for them to divide H. The errors of both are against Q. From it q itself differs by up to 20/omega.
- A double pendulum: rods of 0.2 and 0.1, masses of 0.01 and 0.005 at their ends, angles of 0.5 and 0, T_macro = 0.4.
  In the frame of the pivot the forces are -m (g + a) along y, and the rods are constraints. As OpenMM has none for
  particles without mass, the pivot is a particle of a huge mass on which no force acts. The averaged motion is that
  with v_max^2/4 b^T M^-1 b added to the potential, M the mass matrix in terms of the angles and b the derivative of
  the sum of m y by them; for one pendulum this is the above. The motion is more sensitive than that of one pendulum,
  and what is O(1/omega) is large at omega = 1e4. Order 2 in H is therefore shown against a run with small steps too.
  SHAKE and RATTLE have the same positions; the velocities of RATTLE alone leave the lengths of rods as they are.

Drawn are the full motion at omega = 200 and the averaged one (the paper's figure 2.1), errors against H, and the angles
of the double pendulum (figure 4.1). --steps 10 20 takes a few seconds.
"""
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, log10, pi, sin
from pathlib import Path

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmmstiff import HMMIntegrator
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.options import OptionParser, add_output_option, number, progress_bar, run_program  # noqa: E402

GRAVITY, SPEED, DURATION = 9.8, 4.0, 1.0  # SPEED is v_max
LENGTH, ANGLE, MACRO_TIME = 0.2, 0.5, 1.0
TOLERANCE = 1e-12                         # of the averaged motions
PERIODS = 40                              # in the window of the exponential weights

STEPS = (10, 20, 40, 80)                  # in T
FREQUENCIES = {"HalfBump": (1e4, 1e6, 1e8), "Simple": (1e3, 1e4, 1e6, 1e8)}
TITLES = {"HalfBump": f"exponential weights, {PERIODS} periods (table 2.2)",
          "Simple": "equal weights, half a period (table 2.3)"}
PAPER_MICRO_STEPS = {"HalfBump": (2000, 8000, 32000, 128000), "Simple": (50, 200, 800, 3200)}
PAPER_ERRORS = {
    ("HalfBump", 1e4): (0.410, 0.110, 0.0295, 0.00911), ("HalfBump", 1e6): (0.408, 0.107, 0.0271, 0.00674),
    ("HalfBump", 1e8): (0.405, 0.105, 0.0251, 0.00481),
    ("Simple", 1e3): (0.386, 0.0911, 0.0115, 0.00867), ("Simple", 1e4): (0.405, 0.105, 0.0255, 0.00520),
    ("Simple", 1e6): (0.407, 0.107, 0.0270, 0.00670), ("Simple", 1e8): (0.407, 0.107, 0.0270, 0.00671)}
PAPER_AVERAGED = (0.274, 0.0743, 0.0190, 0.00472)
DIRECT_FREQUENCIES = (1e4, 1e5)
SLOW_FREQUENCY, SLOW_MICRO_STEPS = 200, 80  # of the full motion that is drawn

RODS, MASSES, ANGLES = np.array((0.2, 0.1)), np.array((0.01, 0.005)), np.array((0.5, 0.0))
PIVOT_MASS = 1e9
DOUBLE_MACRO_TIME, DOUBLE_STEPS, DOUBLE_FREQUENCIES = 0.4, (80, 160, 320), (1e4, 1e6, 1e8)
DOUBLE_PAPER = {80: 1280, 160: 5120}      # micro-steps
FINE = (1280, 256)                        # steps, and micro-steps in a period, of the run with small steps
DOUBLE_DIRECT = (1e4, 64)                 # omega, and micro-steps in a period, of a direct integration
CONSTRAINT_TOLERANCE = 1e-10
METHODS = {"SHAKE": HMMIntegrator.SHAKE, "RATTLE": HMMIntegrator.RATTLE}

Motion = Callable[[float | np.ndarray], np.ndarray]    # angles, and rates or momenta, as a function of time


# Systems

def vibration(energy: str, omega: float) -> mm.CustomExternalForce:
    """A force with the phase theta; vw is the amplitude of the acceleration."""
    force = mm.CustomExternalForce(energy)
    for name, value in (("g", GRAVITY), ("vw", SPEED * omega), ("theta", 0)):
        force.addGlobalParameter(name, value)
    return force


def pendulum_system(omega: float) -> mm.System:
    """The angle is the x coordinate."""
    system = mm.System()
    force = vibration(f"(g+vw*cos(theta))/{LENGTH}*cos(x)", omega)
    force.addParticle(system.addParticle(1))
    system.addForce(force)
    return system


def double_system(omega: float) -> mm.System:
    system = mm.System()
    system.addParticle(PIVOT_MASS)
    force = vibration("mass*(g+vw*cos(theta))*y", omega)
    force.addPerParticleParameter("mass")
    for i, (mass, rod) in enumerate(zip(MASSES, RODS)):  # particle i + 1 stands on particle i
        system.addConstraint(i, system.addParticle(mass), rod)
        force.addParticle(i + 1, (mass,))
    system.addForce(force)
    return system


def standing(angles: np.ndarray) -> np.ndarray:
    """Positions of pivot and masses with the rods at these angles."""
    ends = np.cumsum(RODS[:, None] * np.stack((np.sin(angles), np.cos(angles), 0 * angles), axis=1), axis=0)
    return np.vstack((np.zeros(3), ends))


def rod_angles(positions: np.ndarray) -> np.ndarray:
    """From frames of positions, (frames, rods)."""
    rods = np.diff(positions, axis=1)
    return np.arctan2(rods[:, :, 0], rods[:, :, 1])


# Averaged motions

def averaged_force(angle: float) -> float:
    return (GRAVITY / LENGTH - SPEED ** 2 / (2 * LENGTH ** 2) * cos(angle)) * sin(angle)


def solved(derivative: Callable[[float, np.ndarray], Sequence[float] | np.ndarray], start: Sequence[float]) -> Motion:
    return solve_ivp(derivative, (0, DURATION), start, method="DOP853", rtol=TOLERANCE, atol=TOLERANCE,
                     dense_output=True).sol


def averaged_pendulum() -> Motion:
    """Angle and rate."""
    return solved(lambda _, state: (state[1], averaged_force(state[0])), (ANGLE, 0))


def averaged_double() -> Motion:
    """Angles and momenta, by Hamilton's equations of p^T M^-1 p/2 + g sum m y + v_max^2/4 b^T M^-1 b."""
    carried = np.array((MASSES.sum(), MASSES[1])) * RODS  # the sum of m y is carried @ cos(angles)
    diagonal, coupling = carried * RODS, MASSES[1] * RODS.prod()

    def derivative(_: float, state: np.ndarray) -> np.ndarray:
        angles, momenta = np.split(state, 2)
        turn = angles[0] - angles[1]
        mass = np.diag(diagonal) + coupling * np.cos(turn) * np.eye(2)[::-1]
        b = -carried * np.sin(angles)
        rates, pushed = np.linalg.solve(mass, np.stack((momenta, b), axis=1)).T
        # The derivative of M is that of the coupling, with opposite signs for the two angles.
        by_mass = coupling * np.sin(turn) * np.array((1, -1)) * (
            rates[0] * rates[1] + SPEED ** 2 / 2 * pushed[0] * pushed[1])
        by_b = GRAVITY * b - SPEED ** 2 / 2 * carried * np.cos(angles) * pushed
        return np.concatenate((rates, -by_mass - by_b))

    return solved(derivative, (*ANGLES, 0, 0))


def verlet_averaged(steps: int) -> np.ndarray:
    """Angles after each step of velocity Verlet with the averaged force."""
    step, angle, rate, angles = DURATION / steps, ANGLE, 0.0, []
    force = averaged_force(angle)
    for _ in range(steps):
        rate += step / 2 * force
        angle += step * rate
        force = averaged_force(angle)
        rate += step / 2 * force
        angles.append(angle)
    return np.array(angles)


# Runs

@dataclass
class Run:
    steps: int
    positions: np.ndarray   # after each of the macro-steps, (steps, particles, 3)
    velocities: np.ndarray
    micro_steps: int        # the paper's count, in all macro-steps
    evaluations: int        # of the vibrated force

    def errors(self, angles: np.ndarray, motion: Motion) -> np.ndarray:
        """The largest of each angle, given after each step, (steps, angles)."""
        exact = motion(DURATION / self.steps * np.arange(1, self.steps + 1))[:angles.shape[1]].T
        return np.abs(angles - exact).max(axis=0)

    def pendulum_error(self, motion: Motion) -> float:
        return self.errors(self.positions[:, :, 0], motion)[0]

    def double_errors(self, motion: Motion) -> np.ndarray:
        return self.errors(rod_angles(self.positions), motion)


def follow(system: mm.System, integrator: mm.Integrator, start: np.ndarray, frames: int,
           every: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities, from rest, after each `every` steps."""
    context = mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))
    context.setPositions(start)
    positions, velocities = [], []
    for _ in range(frames):
        integrator.step(every)
        state = context.getState(positions=True, velocities=True)
        positions.append(state.getPositions(asNumpy=True)._value)
        velocities.append(state.getVelocities(asNumpy=True)._value)
    return np.array(positions), np.array(velocities)


def multiscale(system: mm.System, start: np.ndarray, omega: float, steps: int, micro_steps: int,
               filter: str = "Simple", method: str = "RATTLE") -> Run:
    integrator = HMMIntegrator(DURATION / steps, omega)
    integrator.setFilter(getattr(HMMIntegrator, filter))
    integrator.setMacroMethod(METHODS[method])
    integrator.setNumMicroStepsPerPeriod(micro_steps)
    integrator.setNumPeriods(PERIODS)
    integrator.setConstraintTolerance(CONSTRAINT_TOLERANCE)
    found = follow(system, integrator, start, steps)
    each = integrator.computeNumMicroEvaluations()
    counted = each - 1 if filter == "Simple" else each
    return Run(steps, *found, steps * counted, (steps + 1) * each)  # the first macro-step has two averages


def multiscale_pendulum(filter: str, omega: float, steps: int) -> Run:
    start = np.array(((ANGLE, 0, 0),))
    return multiscale(pendulum_system(omega), start, omega, steps, round(MACRO_TIME * steps), filter)


def direct(system: mm.System, start: np.ndarray, omega: float, frames: int, micro_steps: int) -> Run:
    """The full motion by velocity Verlet (RATTLE), seen after each frame, which is divided into micro-steps."""
    every = int(np.ceil(DURATION / frames * omega * micro_steps / (2 * pi)))
    integrator = mm.CustomIntegrator(DURATION / frames / every)
    integrator.addGlobalVariable("omega", omega)
    integrator.addPerDofVariable("before", 0)
    integrator.addComputePerDof("v", "v+dt/2*f/m")
    integrator.addComputePerDof("x", "x+dt*v")
    integrator.addComputePerDof("before", "x")
    integrator.addConstrainPositions()
    integrator.addComputePerDof("v", "v+(x-before)/dt")
    integrator.addComputeGlobal("theta", "theta+omega*dt")
    integrator.addComputePerDof("v", "v+dt/2*f/m")
    integrator.addConstrainVelocities()
    integrator.setConstraintTolerance(CONSTRAINT_TOLERANCE)
    return Run(frames, *follow(system, integrator, start, frames, every), frames * every, frames * every + 1)


def direct_pendulum(omega: float, frames: int, micro_steps: int) -> Run:
    return direct(pendulum_system(omega), np.array(((ANGLE, 0, 0),)), omega, frames, micro_steps)


def run_pendulum(steps: Sequence[int]) -> dict[tuple[str, float], list[Run]]:
    """By filter and frequency."""
    found: dict[tuple[str, float], list[Run]] = {}
    for filter, frequencies in FREQUENCIES.items():
        with progress_bar(filter, len(frequencies) * sum(steps)) as bar:
            for omega in frequencies:
                found[filter, omega] = []
                for count in steps:
                    found[filter, omega].append(multiscale_pendulum(filter, omega, count))
                    bar.update(count)
    return found


Costs = list[tuple[float, Run, Run]]  # omega, by the multiscale method and direct


def run_costs(steps: Sequence[int]) -> Costs:
    found = []
    with progress_bar("direct", len(DIRECT_FREQUENCIES) * sum(steps)) as bar:
        for omega in DIRECT_FREQUENCIES:
            for count in steps:
                found.append((omega, multiscale_pendulum("Simple", omega, count),
                              direct_pendulum(omega, count, round(MACRO_TIME * count))))
                bar.update(count)
    return found


@dataclass
class DoublePendulum:
    runs: dict[tuple[float, int, str], Run]  # by frequency, steps and method
    fine: dict[float, Run]                   # with small steps, by frequency
    resolved: Run                            # by direct integration


def run_double() -> DoublePendulum:
    def run(omega: float, steps: int, micro_steps: int, method: str) -> Run:
        found = multiscale(double_system(omega), standing(ANGLES), omega, steps, micro_steps, method=method)
        bar.update(steps)
        return found

    total = len(DOUBLE_FREQUENCIES) * (len(METHODS) * sum(DOUBLE_STEPS) + FINE[0]) + DOUBLE_STEPS[0]
    with progress_bar("double pendulum", total) as bar:
        runs = {(omega, steps, method): run(omega, steps, round(DOUBLE_MACRO_TIME * steps), method)
                for omega in DOUBLE_FREQUENCIES for steps in DOUBLE_STEPS for method in METHODS}
        fine = {omega: run(omega, *FINE, "SHAKE") for omega in DOUBLE_FREQUENCIES}
        omega, micro_steps = DOUBLE_DIRECT
        resolved = direct(double_system(omega), standing(ANGLES), omega, DOUBLE_STEPS[0], micro_steps)
        bar.update(DOUBLE_STEPS[0])
    return DoublePendulum(runs, fine, resolved)


# Results

def power(omega: float) -> str:
    """A power of 10."""
    return f"1e{round(log10(omega))}"


def beside(value: str, paper: Sequence[float] | None, steps: int, form: str) -> str:
    """A value and the paper's in brackets, where it has one."""
    known = f"({paper[STEPS.index(steps)]:{form}})" if paper is not None and steps in STEPS else ""
    return f"{value} {known:10}"


def print_pendulum(found: dict[tuple[str, float], list[Run]], motion: Motion):
    print("Errors of the averaged angle Q of the inverted pendulum, with the paper's in brackets")
    for filter, frequencies in FREQUENCIES.items():
        print(f"\n{filter}: {TITLES[filter]}\n\n{'H':7}{'micro-steps':>18}  "
              + "".join(f"{f'omega {power(omega)}':>20}" for omega in frequencies) + f"{'averaged':>20}")
        for i, run in enumerate(found[filter, frequencies[0]]):
            row = beside(f"{run.micro_steps:8}", PAPER_MICRO_STEPS[filter], run.steps, "d")
            for omega in frequencies:
                error = found[filter, omega][i].pendulum_error(motion)
                row += " " + beside(f"{error:8.2e}", PAPER_ERRORS[filter, omega], run.steps, ".2e")
            exact = motion(DURATION / run.steps * np.arange(1, run.steps + 1))[0]
            averaged = np.abs(verlet_averaged(run.steps) - exact).max()
            row += " " + beside(f"{averaged:8.2e}", PAPER_AVERAGED, run.steps, ".2e")
            print(f"1/{run.steps:<5}{row}".rstrip())


def print_costs(costs: Costs, motion: Motion):
    print("\nThe same micro-steps over the whole of T: errors against Q, and evaluations of the vibrated force\n\n"
          f"{'':16}{'Simple':>21}{'direct':>22}{'evaluations,':>15}\n"
          f"{'omega':9}{'H':7}{'error':>9}{'evaluations':>12}{'error':>10}{'evaluations':>12}{'ratio':>15}")
    for omega, averaging, resolving in costs:
        print(f"{power(omega):9}{f'1/{averaging.steps}':7}{averaging.pendulum_error(motion):9.2e}"
              f"{averaging.evaluations:12}{resolving.pendulum_error(motion):10.2e}{resolving.evaluations:12}"
              f"{resolving.evaluations / averaging.evaluations:15.0f}")


def constraint_violation(run: Run) -> float:
    lengths = np.linalg.norm(np.diff(run.positions, axis=1), axis=2)
    return np.abs(lengths / RODS - 1).max()


def stretching(run: Run) -> float:
    """The largest rate at which a rod would change its length."""
    rods, rates = np.diff(run.positions, axis=1), np.diff(run.velocities, axis=1)
    return np.abs(np.sum(rods * rates, axis=2) / RODS).max()


def difference(run: Run, other: Run) -> np.ndarray:
    """The largest of each angle, at the ends of the steps of `run`, of which the other's are a part."""
    every = other.steps // run.steps
    return np.abs(rod_angles(run.positions) - rod_angles(other.positions)[every - 1::every]).max(axis=0)


def print_double(found: DoublePendulum, motion: Motion):
    print("\nErrors of the angles of the double pendulum, SHAKE, against the averaged motion, and against a run with\n"
          f"H = 1/{FINE[0]} and {FINE[1]} micro-steps in a period for the same omega; ratios are to the H before\n\n"
          f"{'':33}{'averaged motion':>20}{'ratio':>14}{f'H = 1/{FINE[0]}':>20}{'ratio':>16}\n"
          f"{'omega':9}{'H':7}{'micro-steps':>15}"
          + 2 * f"{'q1':>12}{'q2':>10}{'q1':>7}{'q2':>7}")
    for omega in DOUBLE_FREQUENCIES:
        before = np.full((2, len(RODS)), np.nan)
        for steps in DOUBLE_STEPS:
            run = found.runs[omega, steps, "SHAKE"]
            paper = f"({DOUBLE_PAPER[steps]})" if steps in DOUBLE_PAPER else ""
            row = f"{power(omega):9}{f'1/{steps}':7}{run.micro_steps:8} {paper:6}"
            errors = np.array((run.double_errors(motion), difference(run, found.fine[omega])))
            for each, ratios in zip(errors, before / errors):
                row += f"{each[0]:12.2e}{each[1]:10.2e}" + "".join(
                    f"{'' if np.isnan(ratio) else f'{ratio:.2f}':>7}" for ratio in ratios)
            print(row.rstrip())
            before = errors
        q1, q2 = found.fine[omega].double_errors(motion)
        print(f"{power(omega):9}{f'1/{FINE[0]}':7}{found.fine[omega].micro_steps:8} {'':6}{q1:12.2e}{q2:10.2e}")
    q1, q2 = found.resolved.double_errors(motion)
    print(f"{power(DOUBLE_DIRECT[0]):9}{'direct':7}{found.resolved.micro_steps:8} {'':6}{q1:12.2e}{q2:10.2e}"
          f"   {DOUBLE_DIRECT[1]} micro-steps in a period")
    print("\nLargest differences of an angle between\n"
          "  SHAKE and RATTLE: " + apart([((omega, steps, "SHAKE"), (omega, steps, "RATTLE"))
                                          for omega in DOUBLE_FREQUENCIES for steps in DOUBLE_STEPS], found))
    for omega, other in zip(DOUBLE_FREQUENCIES, DOUBLE_FREQUENCIES[1:]):
        print(f"  omega = {power(omega)} and {power(other)}: " + ", ".join(
            f"{apart([((omega, steps, 'SHAKE'), (other, steps, 'SHAKE'))], found)} (H = 1/{steps})"
            for steps in DOUBLE_STEPS))
    print(f"\n{'':9}{'violation of lengths':>22}{'rates of lengths':>20}{'drift of the pivot':>22}")
    for method in METHODS:
        runs = [run for (_, _, name), run in found.runs.items() if name == method]
        print(f"{method:9}{max(map(constraint_violation, runs)):22.1e}{max(map(stretching, runs)):20.1e}"
              f"{max(np.abs(run.positions[:, 0]).max() for run in runs):22.1e}")


def apart(pairs: list[tuple[tuple[float, int, str], tuple[float, int, str]]], found: DoublePendulum) -> str:
    """The largest difference of an angle between two runs."""
    return f"{max(difference(found.runs[a], found.runs[b]).max() for a, b in pairs):.1e}"


def draw(found: dict[tuple[str, float], list[Run]], motion: Motion, full: Run,
         doubles: DoublePendulum, double_motion: Motion, path: Path):
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
    angle, rate, errors, double = panels.flat
    times = DURATION / full.steps * np.arange(1, full.steps + 1)
    exact = motion(times)
    points = found["Simple", 1e4][-1]
    point_times = DURATION / points.steps * np.arange(1, points.steps + 1)
    for panel, vibrated, averaged, macro in (
            (angle, full.positions, exact[0], points.positions), (rate, full.velocities, exact[1], points.velocities)):
        panel.plot(times, vibrated[:, 0, 0], color="#9ecae1", linewidth=1, label=f"full, omega = {SLOW_FREQUENCY}")
        panel.plot(times, averaged, color="#08306b", linewidth=1.5, label="averaged")
        panel.plot(point_times, macro[:, 0, 0], ".", color="#d62728", markersize=5,
                   label=f"Simple, omega = 1e4, H = 1/{points.steps}")
    for (filter, omega), runs in found.items():
        color = {1e3: "#2ca02c", 1e4: "#ff7f0e", 1e6: "#d62728", 1e8: "#08306b"}[omega]
        errors.loglog([1 / run.steps for run in runs], [run.pendulum_error(motion) for run in runs],
                      "o-" if filter == "Simple" else "s--", color=color, markersize=4, linewidth=1,
                      label=f"{filter}, omega = {power(omega)}")
    sizes = np.array([1 / run.steps for run in runs])
    errors.loglog(sizes, 20 * sizes ** 2, "k:", linewidth=0.8, label="slope 2")
    fine = np.linspace(0, DURATION, 401)
    for i, color in enumerate(("#08306b", "#d62728")):
        double.plot(fine, double_motion(fine)[i], color=color, linewidth=1, label=f"q{i + 1}, averaged")
        for steps, marker in zip(DOUBLE_STEPS, "o."):
            run = doubles.runs[DOUBLE_FREQUENCIES[0], steps, "SHAKE"]
            double.plot(DURATION / steps * np.arange(1, steps + 1), rod_angles(run.positions)[:, i], marker,
                        color=color, markersize=4, fillstyle="none", label=f"q{i + 1}, H = 1/{steps}")
    for panel in panels.flat:
        panel.legend(frameon=False, fontsize="small", ncols=2 if panel is double else 1,
                     loc="lower right" if panel is errors else "upper right")
    angle.set(title="Angle of the pendulum", xlabel="time", ylabel="q", ylim=(-0.7, 1))
    rate.set(title="Its rate", xlabel="time", ylabel="q'", ylim=(-14, 21))
    errors.set_xticks(sizes, [f"1/{run.steps}" for run in runs])
    errors.set_xticks((), minor=True)
    errors.set(title="Error of the averaged angle", xlabel="H", ylabel="largest error")
    double.set(title=f"Angles of the double pendulum, omega = {power(DOUBLE_FREQUENCIES[0])}", xlabel="time",
               ylabel="q", ylim=(-1.5, 2.1))
    figure.savefig(path, dpi=150)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--steps", type=number(int, 4, most=1000), nargs="+", default=list(STEPS), metavar="N",
                        help="even numbers of macro-steps for the single pendulum (default: 10 20 40 80)")
    add_output_option(parser, "inverted_pendulum.png")
    options = parser.parse_args()
    if any(steps % 2 for steps in options.steps):
        parser.error("argument --steps: give even numbers; a period has as many micro-steps")
    parser.make_folder(options.output)

    motion, double_motion = averaged_pendulum(), averaged_double()
    steps = sorted(set(options.steps))
    found = run_pendulum(steps)
    print_pendulum(found, motion)
    print_costs(run_costs(steps), motion)
    doubles = run_double()
    print_double(doubles, double_motion)
    frames = round(SLOW_FREQUENCY * SLOW_MICRO_STEPS * DURATION / (2 * pi))
    full = direct_pendulum(SLOW_FREQUENCY, frames, SLOW_MICRO_STEPS)
    draw(found, motion, full, doubles, double_motion, options.output / "inverted_pendulum.png")
    print(f"\nMotions and errors: {options.output / 'inverted_pendulum.png'}")


if __name__ == "__main__":
    run_program(main)
