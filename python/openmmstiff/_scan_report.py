"""How a Scan is shown: as a table of text, as a picture, and as JSON. The functions take a Scan of scanning.py."""

import json
import math
import textwrap
from pathlib import Path

import numpy as np

from ._conversions import needing
from .sampling import LONG_ENOUGH, MIN_BLOCKS, Deviation

WIDTH = 120     # characters, of the table
MOST_APART = 3  # standard errors, of averages that are said to be the same
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")    # told apart by the colour-blind, too


def tabulate(scan):
    """The text of Scan.table()."""
    verdict = textwrap.wrap(judge(scan), WIDTH)
    return "\n".join([*_describe(scan), "", *_tabulate_runs(scan), *_tabulate_averages(scan), "", *verdict,
                      *_explain(scan)])


def judge(scan):
    """The text of Scan.verdict()."""
    if scan.reference is None:
        return "Every run has failed: check the positions, or give smaller steps."
    compared = {each: sorted((run for run in scan.runs if run.integrator == each and run is not scan.reference),
                             key=lambda run: run.step) for each in scan.integrators}
    sentences = [_judge_integrator(scan, each, runs) for each, runs in compared.items() if runs]
    return " ".join(sentences) or "There is nothing to compare: give a second step, or another integrator."


def _judge_integrator(scan, integrator, runs):
    """A sentence on how far the runs, at growing steps, reproduce the reference."""
    standard = f"{scan.reference.integrator} at {scan.reference.fs:g} fs"
    held, judged, end = None, {}, ""
    for run in runs:
        known = [name for name in scan.names if run.samples is not None and _is_known(scan, name, run)]
        found = {name: _compare(scan, name, run) for name in known}
        worst = max(found, key=lambda name: abs(found[name].errors), default="")
        if run.samples is None:
            end = f"{run.fs:g} fs fails"
        elif not {"temperature", "potential"} <= set(known):
            end = (f"the runs are too short for their errors at {run.fs:g} fs: give them "
                   f"{_count_times_too_short(scan, run)} (--minutes or --time)")
        elif abs(found[worst].errors) > MOST_APART:
            end = f"at {run.fs:g} fs {_title(worst)} differs by {abs(found[worst].errors):.1f} errors"
        if end:
            break
        held, judged = run, found
    if held is None:
        return f"No step of {integrator} is known to reproduce {standard}: {end}."
    energies = max(each.bound for name, each in judged.items() if name != "temperature")
    left = [_title(name) for name in scan.names if name not in judged]
    return (f"{integrator} at {held.fs:g} fs reproduces {standard} within the errors of these runs: temperature within "
            f"{100*judged['temperature'].bound:.2g} %, energies within {100*energies:.2g} %"
            + (f"; runs are too short to judge {', '.join(left)}" if left else "") + (f"; {end}" if end else "") + ".")


def _is_known(scan, name, run):
    """Whether the errors of an average, and of the reference, are known."""
    return all(scan.average(name, each).known for each in (run, scan.reference))


def _compare(scan, name, run):
    """The Deviation from the reference."""
    own, other = (scan.average(name, each) for each in (run, scan.reference))
    return Deviation.between((own.mean, own.error), (other.mean, other.error))


def _count_times_too_short(scan, run):
    """'7 times as long', for the error of the temperature or of the potential energy to be known."""
    longer = [max(LONG_ENOUGH*each.average(name).tau/(each.samples.steps*each.step) for each in (run, scan.reference))
              for name in ("temperature", "potential")]
    least = min((each for each in longer if math.isfinite(each)), default=None)
    return "much more time" if least is None else f"{max(2, math.ceil(least))} times as long"


def _title(name):
    return name.removesuffix("Force")


def _describe(scan):
    platforms = sorted({run.platform for run in scan.runs if run.platform})
    return [f"{scan.particles} particles, {scan.temperature:g} K, friction {scan.friction:g}/ps, "
            f"{' and '.join(platforms) or 'no'} platform, from the same state after {scan.equilibration:.3g} ps"]


def _tabulate_runs(scan):
    rows = [["integrator", "step (fs)", "forces/ps", "ns/day", "time (ps)", ""]]
    for run in scan.runs:
        rows.append([run.integrator, f"{run.fs:g}", f"{1/run.step:.0f}", *(
            ["", "", f"fails after {run.time:.3g} ps: {run.failure}"] if run.samples is None else
            [f"{run.samples.nsPerDay:.3g}", f"{run.samples.steps*run.step:.3g}",
             f"{run.pairs} distances are slowed down" if run.pairs else ""])])
    room = WIDTH - len(_align([row[:-1] + ["."] for row in rows])[0]) + 1
    return _align([[*row[:-1], textwrap.shorten(row[-1], room, placeholder="...")] for row in rows])


def _tabulate_averages(scan):
    """Tables of all averages, each with as many columns as there is room for; below a gap what leads to h = 0."""
    if scan.reference is None:
        return []
    done = _find_done(scan)
    extrapolated = [each for each in scan.integrators if any(scan.extrapolate(name, each) for name in scan.names)]
    left = [["", ""], ["integrator", "step (fs)"], *([run.integrator, f"{run.fs:g}"] for run in done),
            *([each, "h -> 0"] for each in extrapolated), *([each, "chi^2/dof"] for each in extrapolated)]
    columns = [_column(scan, name, extrapolated) for name in scan.names]
    result = []
    while columns:
        rows = _add_column(left, columns.pop(0))
        while columns and max(map(len, _align(_add_column(rows, columns[0])))) <= WIDTH:
            rows = _add_column(rows, columns.pop(0))
        text = _align(rows)
        result += ["", *text[:2 + len(done)], *(["", *text[2 + len(done):]] if extrapolated else [])]
    return result


def _column(scan, name, extrapolated):
    """The cells of one column of averages."""
    averages = [(run, scan.average(name, run)) for run in _find_done(scan)]
    cells = [_title(name), "(K)" if name == "temperature" else "(kJ/mol)"]
    for run, each in averages:
        deviation = _compare(scan, name, run)
        apart = f" ({deviation.errors:+.1f})" if run is not scan.reference and deviation.error > 0 else ""
        cells.append(_with_error(each.mean, each.error) + ("" if each.known else "*") + apart)
    lines = [scan.extrapolate(name, each) for each in extrapolated]
    for integrator, line in zip(extrapolated, lines):
        apart = scan.compare(name, integrator)
        mark = "" if all(each.known for run, each in averages if run.integrator == integrator) else "*"
        cells.append("-" if line is None else _with_error(line.intercept, line.error) + mark + (
            f" ({apart:+.1f})" if integrator != scan.reference.integrator and math.isfinite(apart) else ""))
    return cells + ["-" if line is None or math.isnan(line.chiSquared) else f"{line.chiSquared:.2g}" for line in lines]


def _explain(scan):
    """What the table means, as far as it applies."""
    averages = [scan.average(name, run) for run in _find_done(scan) for name in scan.names]
    if not averages:
        return []
    text = ["+-: one standard error by blocking, at least that which the longest run of the integrator lets expect "
            "of a run so short; in brackets: the difference from the first row, in errors.",
            "forces/ps: evaluations of the forces."]
    if any(scan.extrapolate(name, each) for name in scan.names for each in scan.integrators):
        text.append("h -> 0: where straight lines through the averages against h^2 lead"
                    + (f"; in brackets: the difference from {scan.reference.integrator}'s in errors, these times the "
                       "root of chi^2/dof where it is above 1" if len(scan.integrators) > 1 else "") +
                    ". A chi^2/dof far above 1 says that the largest steps are too large for a straight line, or "
                    "that the runs are too short to forget their start.")
    else:
        text.append("With one step of an integrator there is no line that leads to h = 0.")
    if any(math.isnan(each.error) for each in averages):
        text.append(f"?: with fewer than {MIN_BLOCKS} samples errors are not known. Give more time.")
    if any(not each.known and not math.isnan(each.error) for each in averages):
        text.append(f"*: even the longest run of the integrator is shorter than {LONG_ENOUGH} correlation times or "
                    "drifts, so that the error is a lower bound and differences may seem significant that are not. "
                    "Give more time.")
    return ["", *(line for each in (*text, *scan.notes) for line in textwrap.wrap(each, WIDTH, subsequent_indent="  "))]


def _find_done(scan):
    return [run for run in scan.runs if run.samples is not None]


def _add_column(rows, cells):
    return [[*row, cell] for row, cell in zip(rows, cells)]


def _align(rows):
    """Rows of cells as lines, the columns two spaces apart; texts are flush left, but the second column, of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.rjust(width) if i == 1 else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def _with_error(value, error):
    """Both numbers as text, to two digits of the error."""
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:.{digits}f}+-" + (f"{error:.{digits}f}" if error >= 0 else "?")


def draw(scan, path):
    """The picture of Scan.draw()."""
    if scan.reference is None:
        raise ValueError("there is nothing to draw: every run has failed")
    with needing("the picture needs Matplotlib", "scan"):
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    done = {run.integrator for run in _find_done(scan)}
    colours = {each: COLOURS[i % len(COLOURS)] for i, each in enumerate(scan.integrators) if each in done}
    across = min(3, len(scan.names))
    down = -(-len(scan.names)//across)
    figure = Figure(figsize=(max(6.5, 4.6*across), 3.1*down + 0.9), layout="constrained")
    parts = figure.subfigures(down, across, squeeze=False, wspace=0.03, hspace=0.04).ravel()
    for name, part in zip(scan.names, parts):
        _draw_quantity(scan, name, part, colours)
    handles = [Line2D([], [], color=colour, marker="o", label=each) for each, colour in colours.items()]
    handles.append(Line2D([], [], color="0.4", marker="D", markerfacecolor="white", linestyle="none",
                          label="extrapolated to h = 0"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=150)


def _draw_quantity(scan, name, part, colours):
    """A pair of axes for each integrator, whose steps differ, with the same scale of values."""
    panels = part.subplots(1, len(colours), sharey=True, squeeze=False, gridspec_kw={"wspace": 0.0})[0]
    first, *_ = colours
    band = scan.extrapolate(name, first)
    for panel, (integrator, colour) in zip(panels, colours.items()):
        if band is not None:
            panel.axhspan(band.intercept - band.error, band.intercept + band.error, linewidth=0, alpha=0.18,
                          color=colours[first], zorder=0)
        _draw_averages(scan, name, panel, integrator, colour)
        if panel is not panels[0]:
            panel.spines["left"].set_visible(False)
            panel.tick_params(axis="y", left=False)
    panels[0].ticklabel_format(axis="y", useOffset=False)
    panels[0].set_ylabel("K" if name == "temperature" else "kJ/mol", fontsize="small")
    part.suptitle(_title(name), fontsize="medium")
    part.supxlabel("h (fs), on a scale of h$^2$", fontsize="small")


def _draw_averages(scan, name, panel, integrator, colour):
    """The averages of an integrator with their line, and which steps have failed."""
    runs = [run for run in _find_done(scan) if run.integrator == integrator]
    squares = np.array([run.fs**2 for run in runs])
    averages = [scan.average(name, run) for run in runs]
    failed = [run.fs**2 for run in scan.runs if run.integrator == integrator and run.samples is None]
    largest = max([*squares, *failed])
    panel.axvline(0, color="0.75", linewidth=0.8, zorder=0)
    panel.errorbar(squares, [each.mean for each in averages], np.nan_to_num([each.error for each in averages]),
                   color=colour, fmt="o", markersize=5, capsize=3, linewidth=1.2)
    line = scan.extrapolate(name, integrator)
    if line is not None:
        ends = np.array([0, squares.max()])
        panel.plot(ends, line.intercept + line.slope*ends, color=colour, linewidth=1.2, zorder=1)
        panel.errorbar([0], [line.intercept], [line.error], color=colour, fmt="D", markersize=6, capsize=3,
                       markerfacecolor="white", linewidth=1.2)
    for square in failed:
        panel.text(square, 0.02, "fails", color=colour, fontsize="small", rotation=90, ha="center", va="bottom",
                   transform=panel.get_xaxis_transform())
    panel.set_xlim(-0.1*largest, 1.1*largest)
    # The smallest steps are close to 0: not each of them has room for a label.
    shown = [0.0]
    for square in sorted([*squares, *failed], reverse=True):
        if all(abs(square - other) > 0.09*largest for other in shown):
            shown.append(square)
    panel.set_xticks(shown, [f"{math.sqrt(square):g}" for square in shown])
    panel.set_xticks([*squares, *failed], minor=True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize="small")


def save(scan, path):
    """The file of Scan.save()."""
    runs = [{"integrator": run.integrator, "step": run.step, "failure": run.failure, "reached": run.time,
             "pairs": run.pairs, "platform": run.platform, **({} if run.samples is None else {
                 "nsPerDay": run.samples.nsPerDay, "steps": run.samples.steps, "interval": run.samples.interval,
                 "averages": {name: vars(scan.average(name, run)) for name in scan.names}})} for run in scan.runs]
    lines = {each: {name: None if line is None else {**vars(line), "apart": scan.compare(name, each)}
                    for name in scan.names for line in [scan.extrapolate(name, each)]}
             for each in scan.integrators}
    settings = {name: getattr(scan, name) for name in ("temperature", "friction", "particles", "equilibration",
                                                       "notes")}
    Path(path).write_text(json.dumps(_plain({**settings, "verdict": judge(scan), "runs": runs, "extrapolated": lines}),
                                     indent=1) + "\n")


def _plain(value):
    """What JSON can say: there is no NaN nor infinity in it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
