#!/usr/bin/env python
"""Examine the integrators: long runs against known physics, other methods and other people's tools.

Makes the runs that are missing in the output folder, one file each, then checks what is claimed of them: an
interrupted validation goes on where it was. Prints the claims and writes them, dated, to validation.md and
validation.json there. The exit code is 0 if every claim holds and every limit is what it is stated to be, and 1 if not.
"""
import json
import os
import platform
from datetime import date
from pathlib import Path

import openmm as mm
import openmmstiff

from exam import Claim, Findings, Limit, load_exams
from common.options import (OptionParser, add_platform_options, add_processes_option, add_scale_option, choice,
                            run_program)
from common.runs import Result, Settings, Task, make_missing


def make_parser(exams: dict) -> OptionParser:
    parser = OptionParser(__doc__)
    parser.add_argument("exams", type=choice(exams), nargs="*", metavar="EXAM",
                        help=f"of {', '.join(exams)} (default: all)")
    parser.add_argument("--runs", nargs="+", metavar="NAME", help="make these runs only, without a report")
    parser.add_argument("--report", action="store_true", help="make no runs, report those of before")
    parser.add_argument("--output", type=Path, default=Path("validation"), metavar="FOLDER",
                        help="folder of the results; delete it to begin anew (default: %(default)s)")
    add_platform_options(parser)
    add_scale_option(parser)
    add_processes_option(parser, os.cpu_count() or 1)
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="make the runs on the workers of this Dask scheduler, such as tcp://host:8786, which see "
                             "the same files")
    return parser


LINK = "../tests/validation/exams"   # from docs/
HOW_TO_READ = """\
Made by `make validate`, from `tests/validation`. A claim holds if what was found is within the tolerance of what is
expected; with an error (one standard error of the difference, by blocking) of more than half the tolerance it is
undecided. A limit is a claim that is known not to hold, stated with its figure: it fails when the figure moves, and
when the claim begins to hold, each by more than two errors."""


def markdown(found: list[Findings], incomplete: list[str], settings: Settings) -> str:
    lines = [f"# Validation of {date.today().isoformat()}", "", where(settings), "", HOW_TO_READ, "",
             *table(["exam", "claims", "hold", "limits, as stated", "fail", "undecided", "processor minutes", "made"],
                    [summary(each) for each in found])]
    lines += [f"\nNot run: {', '.join(incomplete)}."] if incomplete else []
    for each in found:
        lines += ["", f"## {each.exam.title}", "",
                  f"By [{each.exam.script.name}]({LINK}/{each.exam.script.name}), made {each.made}."]
        for shown in each.tables:
            lines += ["", *([shown.heading, ""] if shown.heading else []), *table(shown.columns, shown.rows)]
        lines += ["", *table(["run", "claim", "found", "expected", "error", "tolerance", "verdict"],
                             [row(claim) for claim in each.claims])]
    return "\n".join(lines) + "\n"


def where(settings: Settings) -> str:
    """What the runs were made with."""
    return (f"openmmstiff {openmmstiff.__version__}, OpenMM {mm.version.version}, Python {platform.python_version()}, "
            f"{platform.system()} {platform.machine()}, platform {settings.platform}, seed {settings.seed}, times "
            f"x {settings.scale:g}.")


def summary(found: Findings) -> list[str]:
    limits = [claim for claim in found.claims if isinstance(claim, Limit)]
    claims = [claim for claim in found.claims if not isinstance(claim, Limit)]
    undecided = sum("UNDECIDED" in claim.verdict for claim in found.claims)
    failed = sum(not claim.stands for claim in found.claims) - undecided
    return [found.exam.name, str(len(claims)), str(sum(claim.stands for claim in claims)),
            f"{sum(claim.stands for claim in limits)} of {len(limits)}", str(failed), str(undecided),
            f"{found.minutes:.1f}", found.made]


def row(claim: Claim) -> list[str]:
    return [claim.run, claim.text, f"{claim.value:.5g}", f"{claim.expected:.5g}", f"{claim.error:.2g}",
            f"{claim.tolerance:.2g}", claim.verdict]


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows)]


def record(found: list[Findings], settings: Settings) -> dict:
    return {"date": date.today().isoformat(), "made with": where(settings), "exams": [
        {"exam": each.exam.name, "title": each.exam.title, "made": each.made, "processor minutes": each.minutes,
         "claims": [{"run": claim.run, "claim": claim.text, "found": float(claim.value),
                     "expected": float(claim.expected), "error": float(claim.error),
                     "tolerance": float(claim.tolerance), "verdict": claim.verdict} for claim in each.claims],
         "tables": [vars(shown) for shown in each.tables]} for each in found]}


def main() -> int:
    exams = load_exams()
    parser = make_parser(exams)
    options = parser.parse_args()
    if options.runs and options.report:
        parser.error("--runs and --report: give one of them")
    parser.make_folder(options.output)
    settings = Settings(options.output.absolute(), options.platform, options.seed, options.scale)
    tasks = {name: {run: Task(f"{name}: {run}", call, settings.folder / name / f"{run}.npz")
                    for run, call in exams[name].runs(settings).items()} for name in options.exams or exams}
    known = {run: task for of in tasks.values() for run, task in of.items()}
    unknown = set(options.runs or ()).difference(known)
    if unknown:
        parser.error(f"argument --runs: '{unknown.pop()}': choose from {', '.join(known)}")
    if not options.report:
        make_missing([task for of in tasks.values() for run, task in of.items() if run in (options.runs or of)],
                     options.processes, options.scheduler)
    if options.runs:
        return 0
    incomplete = [name for name, of in tasks.items() if not all(task.path.exists() for task in of.values())]
    found = [Findings.of(exams[name], {run: Result.load(task.path) for run, task in of.items()})
             for name, of in tasks.items() if name not in incomplete]
    text = markdown(found, incomplete, settings)
    print(text)
    (options.output / "validation.md").write_text(text)
    (options.output / "validation.json").write_text(json.dumps(record(found, settings), indent=1))
    return 0 if not incomplete and all(claim.stands for each in found for claim in each.claims) else 1


if __name__ == "__main__":
    run_program(main)
