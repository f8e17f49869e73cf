"""Independent runs, each kept in a file: what has been made is not made again. They are made side by side, by whichever
process or machine, in any order.
"""
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, TypeVar

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import sampling
from openmmstiff.tasks import runTasks

from common.options import progress_bar

T = TypeVar("T")
FAILURES = (mm.OpenMMException, FloatingPointError, ValueError)  # of a run; others end the whole


def begin(system: mm.System, integrator: mm.Integrator, start, platform: str, temperature: float, seed: int,
          minimize: int = 0, properties: dict[str, str] | None = None) -> mm.Context:
    """A Context with velocities drawn at a temperature, from positions or those of a State with its box, after as many
    iterations of a minimization. A platform may have a precision: CUDA:mixed."""
    platform, _, precision = platform.partition(":")
    properties = (properties or {}) | ({"Precision": precision} if precision else {})
    if hasattr(integrator, "setRandomNumberSeed"):
        integrator.setRandomNumberSeed(seed)
    context = mm.Context(system, integrator, mm.Platform.getPlatform(platform), properties)
    if isinstance(start, mm.State):
        context.setPeriodicBoxVectors(*start.getPeriodicBoxVectors())
        start = start.getPositions()
    context.setPositions(start)
    context.computeVirtualSites()
    if minimize:
        mm.LocalEnergyMinimizer.minimize(context, 10, minimize)
    context.setVelocitiesToTemperature(temperature, seed)
    return context


def configured(cls: Callable[..., Any], **settings) -> Callable[..., Any]:
    """Makes integrators of a class by its arguments, and calls their set...() with these values."""
    def make(*arguments) -> Any:
        integrator = cls(*arguments)
        for name, value in settings.items():
            getattr(integrator, f"set{name}")(value)
        return integrator
    return make


def remove_forces(system: mm.System, unwanted: Callable[[mm.Force], bool]):
    """Those of which this is true."""
    for i in reversed(range(system.getNumForces())):
        if unwanted(system.getForce(i)):
            system.removeForce(i)


def get_positions(context: mm.Context) -> np.ndarray:
    """nm"""
    return context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)


def total_energy(state: mm.State) -> float:
    """kJ/mol"""
    return (state.getPotentialEnergy() + state.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)


@dataclass(frozen=True)
class Settings:
    """Of all runs. Each settings' results lie in a folder of their own."""
    output: Path
    platform: str = "CPU"
    seed: int = 1
    scale: float = 1.0  # of simulated times

    @property
    def folder(self) -> Path:
        return self.output / f"{self.platform}_seed{self.seed}_scale{self.scale:g}"

    def time(self, ps: float) -> float:
        return self.scale * ps

    def steps(self, ps: float, step: float, least: int = 1) -> int:
        """How many steps of `step` ps a run of `ps` has."""
        return max(least, round(self.time(ps) / step))

    def begin(self, system: mm.System, integrator: mm.Integrator, start, temperature: float, seed: int,
              minimize: int = 0) -> mm.Context:
        return begin(system, integrator, start, self.platform, temperature, seed, minimize)

    def sample(self, context: mm.Context, settling: float, time: float, interval: float, least: int = 2,
               **observed) -> sampling.Samples:
        """Settle, then sample; all times in ps."""
        integrator = context.getIntegrator()
        step = integrator.getStepSize().value_in_unit(unit.picosecond)
        integrator.step(self.steps(settling, step))
        return sampling.sample(context, max(1, round(interval / step)), self.steps(time, interval, least), **observed)

    def shared(self, name: str, make: Callable[[], mm.State]) -> mm.State:
        """A State that several runs start from, made by the first of them."""
        path = self.folder / "starts" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            if not path.exists():
                part = path.with_suffix(".part")
                part.write_text(mm.XmlSerializer.serialize(make()))
                part.replace(path)
        return mm.XmlSerializer.deserialize(path.read_text())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Other processes that want to make the same file wait; the lock of one that dies is gone."""
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class RunFailed(ValueError):
    """A result was asked for what a failed run does not have."""


class Result(dict):
    """What a run has returned by name: arrays, numbers, texts, dicts of these; or "failure", why there is nothing."""

    def __missing__(self, key: str):
        if "failure" in self:
            raise RunFailed(self["failure"])
        raise KeyError(key)

    def into(self, kind: type[T]) -> T:
        """As the dataclass whose vars() the run has returned; what was an empty dict has its default."""
        fields: dict[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
        return kind(**{name: self[name] for name in fields if name in self or "failure" in self})

    def save(self, path: Path):
        """Write an .npz file; an interruption leaves none or the whole of it."""
        flat: dict[str, Any] = {}
        for name, value in self.items():
            flat |= {f"{name}/{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **flat)
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Result":
        found = cls()
        with np.load(path) as data:
            for name in data:
                value = data[name] if data[name].ndim else data[name].item()
                kind, _, key = name.partition("/")
                if key:
                    found.setdefault(kind, {})[key] = value
                else:
                    found[name] = value
        return found


@dataclass(frozen=True)
class Task:
    """A run that is to be made, in whichever process."""
    name: str
    call: partial
    path: Path

    def make(self) -> str:
        """Make the run and write its file; how it has failed, or an empty text."""
        before = process_time()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            result = Result(self.call())
        except FAILURES as error:
            result = Result(failure=str(error).strip().split("\n")[0])
        Result(result | {"made": date.today().isoformat(), "processor": process_time() - before}).save(self.path)
        return result.get("failure", "")


def results_of(calls: dict[str, partial], folder: Path, processes: int, report: bool = False) -> dict[str, Result]:
    """The results of runs by name, of those that have been made before if there is only a report."""
    tasks = [Task(name, call, (folder / f"{name}.npz").absolute()) for name, call in calls.items()]
    if not report:
        make_missing(tasks, processes)
    return {task.name: Result.load(task.path) for task in tasks if task.path.exists()}


def make_missing(tasks: list[Task], processes: int, scheduler: str | None = None):
    """Make the runs whose files are not there, side by side, and say which have failed."""
    missing = [task for task in tasks if not task.path.exists()]
    if len(missing) < len(tasks):
        print(f"{len(tasks) - len(missing)} of {len(tasks)} runs were made before", flush=True)
    with progress_bar("runs", len(missing), leave=True) as bar:
        os.environ["TQDM_DISABLE"] = "1"    # the bars of what runs inside
        for index, failure in runTasks(Task.make, missing, processes, scheduler, lambda: bar.update(0)):
            bar.update()
            if failure:
                bar.write(f"{missing[index].name}: {failure}", file=sys.stderr)
