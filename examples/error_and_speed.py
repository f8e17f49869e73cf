#!/usr/bin/env python
"""Error and speed over the step, for liquid TIP3P water: the picture of the README.

The error is that of the nonbonded energy against LangevinMiddleIntegrator's at a small step: on the same flexible
water, or, for projected impulses, on rigid water, whose physics they show. Speeds are relative to flexible water with
LangevinMiddleIntegrator at 2 fs, by the processor's time. All runs take turns, a round of 1 ps each, which begins with
the steps that are timed, so that other load on the machine meets all alike. What has been found is kept in a JSON file
beside the picture after each round: an interrupted measurement is not lost, and --draw draws anew from it.
"""
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import app, unit
from openmmstiff import ImpulseIntegrator, sampling
from openmmstiff.sampling import blockedError

from common.options import (OptionParser, add_box_options, add_output_option, add_run_options, choice, progress_bar,
                            run_program)
from common.water_sampling import steps_per_sample
from tip3p_water import (TEMPERATURE, Run, equilibrate_both, impulse, langevin_middle, make_simulation, mass_penalty,
                         zhang_skeel)
from common.water import NONBONDED_GROUP, Progress, advance, build_box

NAME = "error-and-speed"
EQUILIBRATION_TIME = 5.0  # ps, rigid and then flexible
SETTLING_TIME = 2.0       # ps, then with each run's own integrator
ROUND_TIME = 1.0          # ps
TIMED_STEPS = 50          # of each round
TOO_HOT = 0.02            # relative error of the temperature from which points are hollow
SHOWN_ERRORS = -1.5, 3.0  # %


@dataclass
class Series:
    """An integrator, at several steps."""
    label: str
    colour: str
    geometry: str                 # of water.build_system
    make: Callable[[float, float, float], mm.Integrator]
    steps: tuple[float, ...]      # fs
    reference: tuple[str, float]  # series and step whose average is taken to be right
    label_at: float               # fs, the point of the right panel that the label stands below


SERIES = {
    "middle": Series("LangevinMiddle, flexible", "#525252", "flexible", langevin_middle, (0.5, 1, 2, 3),
                     ("middle", 0.5), 2),
    "settle": Series("LangevinMiddle + SETTLE", "#9a8c7c", "rigid", langevin_middle, (2, 4, 6, 8), ("settle", 2), 8),
    "zhangskeel": Series("Zhang-Skeel", "#2e8b57", "flexible", zhang_skeel, (1, 2, 3, 4), ("middle", 0.5), 3),
    "projected": Series("projected impulse", "#c4631c", "flexible", impulse(ImpulseIntegrator.Projected),
                        (2, 4, 6, 8), ("settle", 2), 6),
    "masspenalty": Series("mass penalty", "#1f5fa8", "flexible", mass_penalty, (2, 4, 6, 8, 10, 12, 14, 16),
                          ("middle", 0.5), 12),
}
UNIT_OF_SPEED = ("middle", 2)
Key = tuple[str, float]  # the name of a series, and the step in fs


@dataclass
class Found:
    """What a run has shown so far; an entry a sample, and a speed a round."""
    nonbonded: list[float] = field(default_factory=list)    # kJ/mol per water
    temperature: list[float] = field(default_factory=list)  # K
    speed: list[float] = field(default_factory=list)        # fs in a second of the processor
    failed: float | None = None                             # ps from the start, settling included


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=60.0)
    parser.add_argument("--series", type=choice(SERIES), nargs="+", default=list(SERIES), metavar="NAME",
                        help=f"what to measure, of {', '.join(SERIES)}; others stay as they are in {NAME}.json "
                             "(default: all)")
    parser.add_argument("--draw", action="store_true", help=f"draw {NAME}.json in the folder anew, measure nothing")
    add_output_option(parser, f"{NAME}.svg")
    options = parser.parse_args()
    parser.make_folder(options.output)
    data = options.output / f"{NAME}.json"
    if options.draw and not data.exists():
        sys.exit(f"There is no {data}: measure first, without --draw")
    if not options.draw:
        measure(options, data)
    results = json.loads(data.read_text())
    print_table(results)
    draw(results, data.with_suffix(".svg"))
    print(f"\nError and speed: {data.with_suffix('.svg')}")


def measure(options, data: Path):
    """Settle all runs, then let them step in turn; write the results after each round."""
    box = build_box(options.waters)
    states = equilibrate_both(box, EQUILIBRATION_TIME, options)
    simulations = {}
    for name, series in SERIES.items():
        for fs in series.steps:
            if name not in options.series and (name, fs) != UNIT_OF_SPEED:
                continue
            run = Run(series.label, series.geometry, fs / 1000, series.make)
            simulations[name, fs] = make_simulation(box, run, options.friction, options.seed, options.platform)
            simulations[name, fs].context.setPositions(states[series.geometry].getPositions())
            simulations[name, fs].context.setVelocitiesToTemperature(TEMPERATURE, options.seed)

    results = {key: Found() for key in simulations}
    rounds = round(options.time / ROUND_TIME)
    steps = sum(round(SETTLING_TIME / fs * 1000)
                + rounds * (TIMED_STEPS + samples_per_round(fs) * steps_per_sample(fs / 1000)) for _, fs in simulations)
    with progress_bar("", steps) as bar:
        for i in range(rounds + 1):
            bar.set_description(f"round {i} of {rounds}" if i else "settling")
            for key in list(results) if i % 2 == 0 else reversed(results):  # none is always first
                if results[key].failed is None:
                    go_on(simulations[key], key[1], options.waters, results[key], i == 0, bar.update)
            if i:
                write(results, i * ROUND_TIME, options, data)


def samples_per_round(fs: float) -> int:
    return round(ROUND_TIME / (steps_per_sample(fs / 1000) * fs / 1000))


def go_on(simulation: app.Simulation, fs: float, waters: int, found: Found, settling: bool, progress: Progress):
    """One round of one run, or its settling; a failure is a result."""
    try:
        if settling:
            advance(simulation.integrator, round(SETTLING_TIME / fs * 1000), progress)
            return
        begin = process_time()
        simulation.integrator.step(TIMED_STEPS)
        seconds = process_time() - begin
        progress(TIMED_STEPS)
        samples = sampling.sample(simulation.context, steps_per_sample(fs / 1000), samples_per_round(fs),
                                  groups={"nonbonded": {NONBONDED_GROUP}}, progress=progress)
        found.nonbonded += (samples.energies["nonbonded"] / waters).tolist()
        found.temperature += samples.temperature.tolist()
        found.speed.append(TIMED_STEPS * fs / seconds)
    except (FloatingPointError, mm.OpenMMException):
        found.failed = simulation.context.getTime().value_in_unit(unit.picosecond)


def write(results: dict[Key, Found], ps: float, options, path: Path):
    """Means with their errors, and speeds as median and quartiles of the ratios in each round."""
    def described(key: Key, found: Found) -> dict:
        one = {"integrator": key[0], "step": key[1]}
        if found.failed is not None:
            return one | {"failed": round(found.failed, 3)}
        speeds = np.array(found.speed) / results[UNIT_OF_SPEED].speed
        averages = {name: [round(float(np.mean(series)), 4), round(blockedError(series), 4)]
                    for name, series in (("nonbonded", found.nonbonded), ("temperature", found.temperature))}
        return one | averages | {"speed": np.percentile(speeds, (50, 25, 75)).round(3).tolist()}

    settings = {"waters": options.waters, "friction": options.friction, "time": ps, "platform": options.platform}
    runs = {(run["integrator"], run["step"]): run for run in json.loads(path.read_text())["runs"]
            if run["integrator"] not in options.series} if path.exists() else {}
    runs = {key: described(key, found) for key, found in results.items()} | runs
    rows = ",\n".join("  " + json.dumps(run) for run in runs.values())
    part = path.with_suffix(".part")
    part.write_text(json.dumps(settings)[:-1] + ', "runs": [\n' + rows + "\n]}\n")
    part.replace(path)


def runs_by_series(results: dict) -> dict[str, list[dict]]:
    """The runs of each series, by rising step; those that hold get their relative "error" and its "noise", in %."""
    runs = {(run["integrator"], run["step"]): dict(run) for run in results["runs"]}
    for (name, _), run in runs.items():
        if "failed" not in run:
            right = abs(runs[SERIES[name].reference]["nonbonded"][0])
            run["error"] = 100 * (run["nonbonded"][0] + right) / right
            run["noise"] = 100 * run["nonbonded"][1] / right
    return {name: [runs[name, fs] for fs in series.steps if (name, fs) in runs] for name, series in SERIES.items()}


def print_table(results: dict):
    print(f"{results['waters']} TIP3P waters, {TEMPERATURE:g} K, friction {results['friction']:g}/ps, "
          f"{results['time']:g} ps each, {results['platform']} platform\n")
    row = "{:25}{:>9}  {:14}{:17}{:14}{}"
    print(row.format("integrator", "step (fs)", "T (K)", "U (kJ/mol)", "error (%)", "speed"))
    for name, runs in runs_by_series(results).items():
        for run in runs:
            if "failed" in run:
                cells = [f"fails at {run['failed']:g} ps", "", "", ""]
            else:
                (t, dt), (u, du), (speed, low, high) = run["temperature"], run["nonbonded"], run["speed"]
                cells = [f"{t:.1f}+-{dt:.1f}", f"{u:.2f}+-{du:.2f}", f"{run['error']:.2f}+-{run['noise']:.2f}",
                         f"{speed:.2f} ({low:.2f} .. {high:.2f})"]
            print(row.format(SERIES[name].label, f"{run['step']:g}", *cells).rstrip())
    print("\n+-: one standard error by blocking. Error: of U, the nonbonded energy per water. Speed: simulated\n"
          "time by processor time, relative to flexible water with LangevinMiddle at 2 fs, median (quartiles).")


def draw(results: dict, path: Path):
    """Labels stand in the right panel, in the colours of both; see the note below the panels for the marks."""
    pyplot.rcParams |= {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": NAME, "axes.edgecolor": "0.75",
                        "axes.labelcolor": "0.3", "xtick.color": "0.5", "ytick.color": "0.5", "axes.titlesize": 10,
                        "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False}
    figure, (errors, speeds) = pyplot.subplots(1, 2, figsize=(9, 4.1), facecolor="white")
    figure.subplots_adjust(left=0.05, right=0.98, top=0.84, bottom=0.24, wspace=0.12)
    low, high = SHOWN_ERRORS
    lane = high + 0.07 * (high - low)  # of what does not fit into the panel
    for name, runs in runs_by_series(results).items():
        series, held = SERIES[name], [run for run in runs if "failed" not in run]
        shown = [run for run in held if run["error"] < high]
        draw_series(errors, shown, series.colour, [run["error"] for run in shown], [run["noise"] for run in shown])
        median, *quartiles = np.transpose([run["speed"] for run in held])
        draw_series(speeds, held, series.colour, median, np.abs(quartiles - median))
        for run in runs:
            if run in shown:
                continue
            mark, text = ("x", "fails") if "failed" in run else ("^", f"+{run['error']:.0f}")
            errors.plot(run["step"], lane, mark, color=series.colour, markersize=6, clip_on=False,
                        markerfacecolor="white")
            errors.annotate(text, (run["step"], lane), (0, 6), textcoords="offset points", ha="left",
                            rotation=45, color=series.colour, fontsize=8, annotation_clip=False)
        # All lines rise to the upper right, the mass penalty's on top.
        at = next((run for run in held if run["step"] == series.label_at), held[-1])
        above = name == "masspenalty"
        speeds.annotate(series.label, (at["step"], at["speed"][0]), (-8, 3) if above else (9, -12),
                        textcoords="offset points", ha="right" if above else "left", color=series.colour)
    errors.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    for run in runs_by_series(results)["middle"]:
        if run["step"] == SERIES["middle"].reference[1]:  # what all errors have in common
            errors.axhspan(-run["noise"], run["noise"], color="0.93", zorder=-1)
    errors.set(xlim=(0, 17), ylim=(low, lane), xlabel="step (fs)")
    errors.set_title("Error of the nonbonded energy (%)", pad=22)
    speeds.set(xlim=(0, 17), ylim=(0, None), xlabel="step (fs)")
    speeds.set_title("Speed (LangevinMiddle, flexible, at 2 fs: 1)", pad=22)
    figure.text(0.05, 0.02, f"Liquid TIP3P water, {results['waters']} molecules, friction {results['friction']:g}/ps, "
                f"{results['time']:g} ps each, {results['platform']} platform. Bars: one standard error; quartiles. "
                f"Hollow: more than {100 * TOO_HOT:g} % too hot or cold.\nErrors are those against LangevinMiddle, "
                "flexible, at 0.5 fs (grey: its noise); of projected impulse and SETTLE against SETTLE at 2 fs.",
                color="0.4", fontsize=8, linespacing=1.5)
    figure.savefig(path, metadata={"Date": None, "Title": "Error and speed over the step, liquid TIP3P water"})


def draw_series(panel, runs: list[dict], colour: str, values, noise):
    steps = [run["step"] for run in runs]
    panel.errorbar(steps, values, noise, color=colour, linewidth=1.2, elinewidth=0.9)
    panel.scatter(steps, values, 22, ["white" if too_hot(run) else colour for run in runs], edgecolors=colour,
                  linewidths=1.2, zorder=3)


def too_hot(run: dict) -> bool:
    return abs(run["temperature"][0] / TEMPERATURE - 1) > TOO_HOT


if __name__ == "__main__":
    run_program(main)
