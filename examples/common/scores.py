"""What the scoreboard knows of steps: how far they may be off, which are wrong, and what a sample takes.

A step, as the record has it, has deviations by name, each with its standard error, as parts of the whole, or None where
these are not on record; or a failure. It may have evaluations of the forces for an independent sample, by observable.
"""
from collections.abc import Iterator, Sequence
from math import ceil

from openmmstiff.sampling import Deviation

BETWEEN_MOLECULES, OTHERWISE = 0.003, 0.01  # tolerances: of that potential energy; of bonded energies and temperatures
KINDS = "energy between molecules", "bonded energies", "temperatures"
TEMPERATURES = {"temperature", "translation", "rotation", "vibration"}
OF_WATER, OF_PROTEINS = ("reorientation", "diffusion"), {"psi", "chi1", "methyl"}   # what is counted


def tolerance(name: str) -> float:
    return BETWEEN_MOLECULES if name == "nonbonded" else OTHERWISE


def is_off(name: str, deviation: Sequence[float] | None) -> bool:
    """Whether it is known to be beyond its tolerance."""
    return deviation is not None and Deviation(*deviation).exceeds(tolerance(name))


def is_wrong(step: dict) -> bool:
    return "failure" in step or any(is_off(*each) for each in step["deviations"].items())


def is_within(step: dict) -> bool:
    """Whether no deviation can be beyond its tolerance."""
    return "failure" not in step and all(each is not None and Deviation(*each).bound <= tolerance(name)
                                         for name, each in step["deviations"].items())


def usable(steps: dict[str, dict]) -> Iterator[str]:
    """Those below the first that is wrong, from the smallest."""
    for fs in sorted(steps, key=float):
        if is_wrong(steps[fs]):
            return
        yield fs


def largest(steps: dict[str, dict]) -> str | None:
    """The largest step to take: of those known to be within the tolerances, else of those below the first wrong one."""
    found = list(usable(steps))
    return next(reversed([fs for fs in found if is_within(steps[fs])] or found), None)


def bounds(step: dict) -> dict[str, str]:
    """For each kind of deviation the largest bound, in per cent and rounded up, and the deviation that it is of."""
    kinds: dict[str, dict[str, Sequence[float] | None]] = {kind: {} for kind in KINDS}
    for name, each in step.get("deviations", {}).items():
        kinds[KINDS[0 if name == "nonbonded" else 2 if name in TEMPERATURES else 1]][name] = each
    texts: dict[str, str] = {kind: "" for kind in KINDS}
    for kind, deviations in kinds.items():
        known = {name: Deviation(*each) for name, each in deviations.items() if each is not None}
        if known:
            name = max(known, key=lambda name: (is_off(name, known[name]), known[name].bound))
            value, error = (100 * each for each in known[name])
            digits = 2 if error < 0.95 else 1
            texts[kind] = (f"{ceil(1000 * known[name].bound) / 10:.1f}: {'' if name == 'nonbonded' else name + ' '}"
                           f"{value:+.{digits}f}({error * 10**digits:.0f})")
        if len(known) < len(deviations):
            texts[kind] += "; others not recorded" if known else "not recorded"
    return texts


def samples(step: dict, seconds: float | None) -> str:
    """What they take, where there were five or more; a protein's own motion first."""
    texts = {kind: f"{kind} {value:.0f}({error:.0f})" + (f", {float(format(value * seconds, '.2g')):g} s" if seconds
                                                         else "")
             for kind, (value, error) in step.get("evaluations", {}).items() if error < value / 2}
    if OF_PROTEINS.isdisjoint(step.get("evaluations", {})):
        return "; ".join(texts.values())
    own, waters = ("; ".join(text for kind, text in texts.items() if (kind in OF_WATER) == of_water)
                   for of_water in (False, True))
    return "; ".join(filter(None, (own, waters and f"of its water: {waters}")))


def table(rows: list[dict], seconds: dict[tuple[str, str, str], float]) -> dict:
    """Columns and rows of a table: of each method the steps up to its first wrong one. `seconds`: of a step, by system,
    method and step, where these were measured."""
    found = []
    for row in rows:
        steps, held, method = row["steps"], list(usable(row["steps"])), row["method"]
        for fs in sorted(steps, key=float)[:len(held) + 1]:
            mark = "" if fs in held else ": fails" if "failure" in steps[fs] else ": wrong"
            found.append([row["system"], method, fs + mark, *bounds(steps[fs]).values(),
                          samples(steps[fs], seconds.get((row["system"], row["method"], fs)))])
            method = ""
    return {"columns": ["system", "integrator", "step (fs)", *(f"{kind} (%)" for kind in KINDS),
                        "evaluations for a sample, seconds"], "rows": found}


def step_seconds(tables: dict[str, dict]) -> dict[tuple[str, str, str], float]:
    """Seconds of a step, from the recorded ratios: those of the rival's step, times the ratio."""
    return {(system, method, fs): float(milliseconds) / 1000 * float(ratio.split()[0]) for system, method, fs,
            milliseconds, ratio, *_ in tables.get("paired-steps", {"rows": []})["rows"]}
