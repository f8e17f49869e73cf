#!/usr/bin/env python
"""What the handbook keeps of a validation: tables, and of a whole one counts, stated limits and a picture.

Reads the validation.json that `make validate` has written, and puts its tables that have a name into measurements.json,
and, if the parts that are drawn were all examined, its counts; these parts are in figures/validation.png.
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from common.tables import read, record_table, write  # noqa: E402

DRAWN = ("ensembles", "liquid-water", "force-fields", "openmmtools", "substances", "spook")
MOST = 3.0      # tolerances, beyond which a deviation is drawn at the edge


def is_limit(claim: dict) -> bool:
    return "limit" in claim["verdict"]


def summarize(record: dict) -> dict:
    """Per exam how many claims hold, and what is known not to."""
    exams = []
    for exam in record["exams"]:
        claims = [claim for claim in exam["claims"] if not is_limit(claim)]
        exams.append({"exam": exam["exam"], "title": exam["title"], "made": exam["made"], "claims": len(claims),
                      "hold": sum(claim["verdict"] == "pass" for claim in claims),
                      "limits": [f"{claim['run']}: {claim['claim']}: {claim['found']:.4g}, not {claim['expected']:.4g}"
                                 for claim in exam["claims"] if is_limit(claim)]})
    return {"date": record["date"], "made with": record["made with"], "exams": exams}


def draw(record: dict, path: Path):
    """What was found less what is expected, over the tolerance, in order; stated limits in red."""
    figure, panels = pyplot.subplots(2, 3, figsize=(11, 5.5), sharey=True, layout="constrained")
    exams = {exam["exam"]: exam for exam in record["exams"]}
    for name, panel in zip(DRAWN, panels.flat):
        claims = [claim for claim in exams[name]["claims"] if claim["tolerance"] > 0]
        deviations = np.array([(claim["found"] - claim["expected"]) / claim["tolerance"] for claim in claims])
        errors = np.array([claim["error"] / claim["tolerance"] for claim in claims])
        limits = np.array([is_limit(claim) for claim in claims])
        order = np.argsort(deviations)
        panel.axhspan(-1, 1, color="#e5f5e0")
        for chosen, colour, label in ((~limits, "#238b45", "claims"), (limits, "#cb181d", "stated limits")):
            places = np.flatnonzero(chosen[order])
            panel.errorbar(places, np.clip(deviations[order][places], -MOST, MOST), errors[order][places], color=colour,
                           fmt=".", markersize=4, linewidth=0.6, label=label)
        panel.set(title=f"{name}, {len(claims)} claims", xticks=[], ylim=(-1.1 * MOST, 1.1 * MOST))
    panels[0, 0].legend(frameon=False, fontsize="small")
    for panel in panels[:, 0]:
        panel.set_ylabel("deviation / tolerance")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path, nargs="?", default=Path("validation/validation.json"))
    parser.add_argument("docs", type=Path, nargs="?", default=Path("docs"))
    options = parser.parse_args()
    record, file = json.loads(options.record.read_text()), options.docs / "measurements.json"
    version = record["made with"].split()[1].strip(",")
    for exam in record["exams"]:
        for table in exam["tables"]:
            if table["name"]:
                record_table(file, table["name"], table["columns"], table["rows"],
                             f"make validate EXAMS={exam['exam']}", f"{exam['made']}, {version}")
    if {exam["exam"] for exam in record["exams"]} >= set(DRAWN):
        write(file, read(file) | {"validation": summarize(record)})
        draw(record, options.docs / "figures" / "validation.png")


if __name__ == "__main__":
    main()
