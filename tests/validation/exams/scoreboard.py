"""The scoreboard: what an independent sample costs, each method at its steps below the first wrong one."""
from collections.abc import Iterator
from functools import partial

from exam import Claim, Exam, Results, Settings
from common import scores
from scoreboard import SUBJECTS, found_of, judge, runs_of

EXAMINED = ("ethanol", "methylacetamide", "amoeba", "tip3p")
SEEDS = 2


def runs(settings: Settings) -> dict[str, partial]:
    return {name: call for subject in EXAMINED for calls in runs_of(subject, SEEDS, settings).values()
            for name, call in calls.items()}


def report(results: Results) -> Iterator[Claim]:
    for subject in EXAMINED:
        names: dict[tuple[str, float], list[str]] = {}
        for name in results:
            its, method, fs, _ = name.rsplit("-", 3)
            if its == subject:
                names.setdefault((method, float(fs.removesuffix("fs"))), []).append(name)
        of = SUBJECTS[subject]
        rows = list(judge(of, {key: found_of([results[name] for name in each]) for key, each in names.items()}))
        for kind in of.slow:
            best = {ours: min(step["evaluations"][kind] for row in rows if row["ours"] == ours
                              for step in map(row["steps"].get, scores.usable(row["steps"])))
                    for ours in (True, False)}
            ratio = best[False][0] / best[True][0]
            error = ratio * sum((error / value)**2 for value, error in best.values())**0.5
            yield Claim.between(f"{of.label}: the fewest evaluations for an independent sample of {kind}, OpenMM's own "
                                "over ours", ratio, 1.0, 100.0, error)


EXAM = Exam("scoreboard", "What an independent sample costs", runs, report)
