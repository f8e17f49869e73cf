"""The scoreboard: what an independent sample costs, each method at its largest step that is right."""
import json
from collections.abc import Iterator
from functools import partial

from exam import Claim, Exam, Results, Settings, Table
from common.tables import with_error
from scoreboard import SUBJECTS, Found, judge

EXAMINED = ("ethanol", "methylacetamide", "amoeba", "tip3p")
SEEDS = 2


def name_of(subject: str, method: str, fs: float, seed: int) -> str:
    return f"{subject}-{method}-{fs:g}fs-{seed}"


def make(subject: str, method: str, fs: float, seed: int, settings: Settings) -> dict:
    of = SUBJECTS[subject]
    geometry = of.methods[method].geometry
    start = settings.shared(f"scoreboard-{subject}-{geometry}-{seed}",
                            lambda: of.start(geometry, seed).getState(positions=True))
    found = of.run(of.methods[method], fs / 1000, settings.time(of.time(method, fs)), seed,
                   start.getPositions(asNumpy=True)._value)
    return {"found": json.dumps(vars(found), default=list)}


def runs(settings: Settings) -> dict[str, partial]:
    return {name_of(subject, method, fs, seed): partial(make, subject, method, fs, seed, settings)
            for subject in EXAMINED for method, of in SUBJECTS[subject].methods.items() for fs in of.steps
            for seed in range(settings.seed, settings.seed + SEEDS)}


def load(results: Results, names: list[str]) -> list[Found]:
    """The runs of all seeds, or none if one has failed."""
    failed = any("failure" in results[name] for name in names)
    return [] if failed else [Found(**json.loads(results[name]["found"])) for name in names]


def report(results: Results) -> Iterator[Claim | Table]:
    for subject in EXAMINED:
        names: dict[tuple[str, float], list[str]] = {}
        for name in results:
            its, method, fs, _ = name.rsplit("-", 3)
            if its == subject:
                names.setdefault((method, float(fs.removesuffix("fs"))), []).append(name)
        of = SUBJECTS[subject]
        rows = list(judge(of, {key: load(results, each) for key, each in names.items()}))
        yield Table(of.label, ["method", "step, fs", *of.slow, "wrong"], [
            [row["method"], f"{row['step']:g}" if row["step"] else "-",
             *(with_error(*row["evaluations"][kind], 0) if row["step"] else "-" for kind in of.slow),
             "; ".join(f"{fs} fs: {fault}" for fs, fault in row["wrong"].items())] for row in rows])
        for kind in of.slow:
            best = {ours: min((row["evaluations"][kind] for row in rows if row["step"] and row["ours"] == ours))
                    for ours in (True, False)}
            ratio = best[False][0] / best[True][0]
            error = ratio * sum((error / value)**2 for value, error in best.values())**0.5
            yield Claim.between(f"{of.label}: the fewest evaluations for an independent sample of {kind}, OpenMM's own "
                                "over ours", ratio, 1.0, 100.0, error)


EXAM = Exam("scoreboard", "What an independent sample costs", runs, report)
