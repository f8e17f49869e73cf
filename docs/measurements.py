#!/usr/bin/env python
"""Write the tables of the handbook's pages from measurements.json.

A block of a page is a comment, the table, and another comment:

    <!-- table: NAME + NAME; COLUMN; COLUMN
    rows: CELL; CELL -->

    <!-- end -->

It has the rows of these tables in the given columns, or in all; `rows` chooses them by their first cells. On the page a
first cell like the one above it is left empty. The tables "scoreboard" and "validation" are made of these sections.
"""
import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "examples"))

from common import scores  # noqa: E402

BLOCK = re.compile(r"(<!-- table: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def validation(exams: list[dict]) -> dict:
    return {"columns": ["part", "what it examines", "claims", "limits"],
            "rows": [[exam["exam"], exam["title"], str(exam["claims"]), str(len(exam["limits"]))] for exam in exams]}


def load() -> dict:
    """The file, with the tables that are made of its other sections."""
    data = json.loads((FOLDER / "measurements.json").read_text())
    data["tables"] |= {"scoreboard": scores.table(data["scoreboard"], scores.step_seconds(data["tables"])),
                       "validation": validation(data["validation"]["exams"])}
    return data


def show(block: str, tables: dict) -> str:
    """The Markdown table that a comment asks for."""
    what, _, chosen = " ".join(block.split()).partition(" rows: ")
    names, *columns = what.split("; ")
    parts = [tables[name] for name in names.split(" + ")]
    columns = columns or parts[0]["columns"]
    rows = [dict(zip(part["columns"], row)) for part in parts for row in part["rows"]]
    if chosen:
        known: dict[str, list[dict]] = {cell: [] for cell in chosen.split("; ")}
        for row in rows:
            known.get(next(iter(row.values())), []).append(row)
        assert all(known.values()), f"no row begins with one of: {chosen}"
        rows = sum(known.values(), [])
    lines, above = [columns, ["---"] * len(columns)], ""
    for row in rows:
        first, *others = (row[column] for column in columns)
        lines.append(["" if first == above else first, *others])
        above = first
    return "\n".join(re.sub(" +", " ", f"| {' | '.join(line)} |") for line in lines)


def rewrite(text: str, tables: dict) -> str:
    """A page with its tables as they are in the file."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{show(match[2], tables)}\n\n{match[3]}", text)


def main():
    tables = load()["tables"]
    for page in FOLDER.glob("*.md"):
        page.write_text(rewrite(page.read_text(), tables))


if __name__ == "__main__":
    main()
