"""Tables of figures: scripts print them row by row, and --record keeps them for the pages of the handbook."""
import json
import re
import shlex
import sys
from collections.abc import Iterable
from datetime import date
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import openmmstiff
from openmmstiff.sampling import blockedError

ROOT = Path(__file__).resolve().parents[2]
MEASUREMENTS = ROOT / "docs/measurements.json"
LONGEST_LINE = 400  # of a list in the file
NOTE = "\nIn brackets: standard errors of the last digits, by blocking; on runs of a few ps they are lower bounds."


def with_error(value: float, error: float, digits: int) -> str:
    """Such as 299.3(17): the standard error is in units of the last of so many digits."""
    return f"{value:.{digits}f}({error * 10**digits:.0f})"


def mean_with_error(series: np.ndarray, digits: int) -> str:
    """The mean of a series, with its blocked standard error."""
    return with_error(series.mean(), blockedError(series), digits)


def print_table(columns: list[str], rows: Iterable[list[str]], file: Path | None = None, name: str = ""):
    """Print rows as they come, short ones with empty cells; put them into a file, that of --record, as table `name`."""
    whole = isinstance(rows, list)
    known, shown = [columns, *rows] if whole else [columns], []
    widths = [max(0 if whole else 10 if i else 36, *map(len, cells)) for i, cells in enumerate(zip_longest(
        *known, fillvalue=""))]
    for row in chain([columns], rows):
        shown.append(row + [""] * (len(columns) - len(row)))
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip(), flush=True)
    if file is not None:
        record_table(file, name, columns, shown[1:], **origin())


def origin() -> dict[str, str]:
    """The command that this program was called by, without what changes no figure, and the date: of the
    report, as runs can be older."""
    command = shlex.join([str(Path(sys.argv[0]).resolve().relative_to(ROOT)), *sys.argv[1:]])
    return {"command": re.sub(r" --(record|output|processes)[ =]\S+| --report\b", "", command),
            "made": f"{date.today()}, {openmmstiff.__version__}"}


def read(path: Path) -> dict:
    """The sections of the file, empty ones if there is no file."""
    return json.loads(path.read_text()) if path.exists() else {"scoreboard": [], "tables": {}}


def record_table(path: Path, name: str, columns: list[str], rows: list[list[str]], command: str, made: str):
    data = read(path)
    data["tables"][name] = {"command": command, "made": made, "columns": columns, "rows": rows}
    write(path, data)


def write(path: Path, data: dict):
    """As JSON, in which a list without lists has one line, and so has a dict without dicts if it is short."""
    def shorten(match: re.Match) -> str:
        line = re.sub(r"\n\s*", " ", match[2])
        return f"{match[1]}{line}{match[3]}" if len(line) < LONGEST_LINE else match[0]

    text = json.dumps(data, indent=1, ensure_ascii=False)
    for brackets in r"(\[)\n\s*([^\[\]{}]*?)\n\s*(\])", r"(\{)\n\s*([^{}]*?)\n\s*(\})":
        text = re.sub(brackets, shorten, text)
    path.write_text(text + "\n")
