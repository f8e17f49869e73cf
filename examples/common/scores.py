"""Verdicts of the scoreboard: whether a step is right, wrong or undecided, and how far the steps of a method are right.

A step, as the record has it, has deviations by name, each with its standard error, as parts of the whole, or None where
these are not on record; or a failure. It may have evaluations of the forces for an independent sample, by observable.
"""
from collections.abc import Sequence
from dataclasses import dataclass

BETWEEN_MOLECULES, OTHERWISE = 0.003, 0.01  # tolerances: of that potential energy; of bonded energies and temperatures
ERRORS = 2
RIGHT, WRONG, UNDECIDED = "right", "wrong", "undecided"


def tolerance(name: str) -> float:
    return BETWEEN_MOLECULES if name == "nonbonded" else OTHERWISE


def decide(name: str, deviation: Sequence[float] | None) -> str:
    """Right and wrong are those that two standard errors cannot change."""
    if deviation is None:
        return UNDECIDED
    value, error = deviation
    if abs(value) - ERRORS * error > tolerance(name):
        return WRONG
    return RIGHT if abs(value) + ERRORS * error <= tolerance(name) else UNDECIDED


def verdict(step: dict) -> str:
    if "failure" in step:
        return WRONG
    found = {decide(name, deviation) for name, deviation in step["deviations"].items()}
    return WRONG if WRONG in found else RIGHT if found == {RIGHT} else UNDECIDED


def faults(step: dict) -> str:
    """What is wrong with a step, and by how much, or an empty text."""
    return step.get("failure") or ", ".join(
        f"{name} {100 * value:+.1f}({1000 * error:.0f}) %" for name, (value, error) in
        ((name, each) for name, each in step["deviations"].items() if each and decide(name, each) == WRONG))


@dataclass(frozen=True)
class Reach:
    """Steps in fs: the largest that is right, as all smaller ones are; those undecided; the first that is wrong."""
    right: float | None
    undecided: list[float]
    wrong: float | None

    @classmethod
    def of(cls, steps: dict[str, dict]) -> "Reach":
        right: float | None = None
        undecided: list[float] = []
        for fs in sorted(map(float, steps)):
            match verdict(steps[f"{fs:g}"]):
                case "wrong":
                    return cls(right, undecided, fs)
                case "right" if not undecided:
                    right = fs
                case _:     # right above one that is undecided is no more than that
                    undecided.append(fs)
        return cls(right, undecided, None)

    def verdict(self, fs: float) -> str:
        return RIGHT if fs <= (self.right or 0) else WRONG if fs >= (self.wrong or fs + 1) else UNDECIDED


def table(rows: list[dict], seconds: dict[tuple[str, str, str], float]) -> dict:
    """Columns and rows of a table. `seconds`: of a step, by system, method and step, where these were measured."""
    def cells(row: dict) -> list[str]:
        steps, reach = row["steps"], Reach.of(row["steps"])
        shown = max((fs for fs in steps if steps[fs].get("evaluations") and reach.verdict(float(fs)) != WRONG),
                    key=float, default="")
        samples = []
        for kind, (value, error) in steps[shown]["evaluations"].items() if shown else ():
            if error >= value / 2:
                continue    # fewer than five samples
            samples.append(f"{kind} {value:.0f}({error:.0f})")
            if cost := seconds.get((row["system"], row["method"], shown)):
                samples[-1] += f", {float(format(value * cost, '.2g')):g} s"
        return [row["system"], row["method"], f"{reach.right:g}" if reach.right else "none",
                ", ".join(f"{fs:g}" for fs in reach.undecided),
                f"{reach.wrong:g}: {faults(steps[f'{reach.wrong:g}'])}" if reach.wrong else
                f"none up to {max(map(float, steps)):g}, the last that was run",
                f"at {shown} fs: {'; '.join(samples)}" if samples else ""]

    return {"columns": ["system", "integrator", "right up to (fs)", "undecided (fs)", "first wrong step (fs)",
                        "evaluations for a sample, seconds"],
            "rows": [cells(row) for row in rows]}


def step_seconds(tables: dict[str, dict]) -> dict[tuple[str, str, str], float]:
    """Seconds of a step, from the recorded ratios: those of the rival's step, times the ratio."""
    return {(system, method, fs): float(milliseconds) / 1000 * float(ratio.split()[0]) for system, method, fs,
            milliseconds, ratio, *_ in tables.get("paired-steps", {"rows": []})["rows"]}
