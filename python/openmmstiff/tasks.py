"""Independent runs side by side: in processes of this machine, or on a cluster of Dask."""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from ._conversions import integer, needing

Argument = TypeVar("Argument")
Result = TypeVar("Result")
THREADS = ("OPENMM_CPU_THREADS", "OMP_NUM_THREADS")     # of OpenMM's CPU platform, and of libraries with OpenMP
DEATHS = 3      # of processes, without a result in between, end all


def runTasks(function: Callable[[Argument], Result], tasks: Iterable[Argument], processes: int = 1,
             scheduler: str | None = None, wait: Callable[[], object] | None = None) -> Iterator[tuple[int, Result]]:
    """
    Call a function with each of some tasks, and yield what it returns.

    Parameters
    ----------
    function : callable
        a function of a module (or of the script that runs), of one argument
    tasks : iterable
        the arguments; they, and what is returned, must be picklable: a TypeError with the remedy if not. Of what is not
        a list no more are taken than there are workers, and the next when one has ended: they may depend on results
    processes : int
        how many processes of this machine work at a time; its processors are divided between them. With 1 this process
        makes all by itself, one after the other. What a process that dies was at is given to another; if three die
        without a result in between, that is a RuntimeError
    scheduler : str
        the address of a Dask scheduler (such as tcp://host:8786), whose workers are given the tasks instead. They need
        the packages of this process and see the same files; a worker should have one thread (`dask worker --nthreads
        1`). An ImportError with the remedy if PyPI's `distributed` is not there
    wait : callable
        is called about once a second while nothing is ready, for a progress bar; not if this process makes all

    Yields
    ------
    tuple of int and object
        the index of a task and what the function has returned for it, in the order in which they end. An exception of
        the function ends all; one that cannot be pickled comes as a RuntimeError with its type and text
    """
    processes = integer("runTasks: processes", processes, least=1)
    size = len(tasks) if isinstance(tasks, Sequence) else None      # of a list
    if size == 0 or processes == 1 and not scheduler:
        yield from enumerate(map(function, tasks))
        return
    number = min(processes, size or processes)
    limit = size or (countWorkers(scheduler) if scheduler else number)
    waiting: Iterator[tuple[int, Argument]] = enumerate(tasks)
    deaths = 0
    while True:
        lost: list[tuple[int, Argument]] = []
        with _cluster(scheduler) if scheduler else _processes(number) as submit:
            pending: dict[concurrent.futures.Future, tuple[int, Argument]] = {}
            while True:
                for index, task in itertools.islice(waiting, 0 if lost else limit - len(pending)):
                    if index == 0 and not scheduler:
                        _require_picklable(function, task)
                    try:
                        pending[submit(partial(_call, function), task)] = index, task
                    except concurrent.futures.BrokenExecutor:
                        lost.append((index, task))
                        break
                if not pending:
                    break
                done, _ = concurrent.futures.wait(list(pending), 1, concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    index, task = pending.pop(future)
                    try:
                        result = future.result()
                    except concurrent.futures.BrokenExecutor:
                        lost.append((index, task))
                        continue
                    deaths = 0
                    yield index, result
                if not done and wait is not None:
                    wait()
        if not lost:
            return
        deaths += 1
        if deaths == DEATHS:
            raise RuntimeError(f"{DEATHS} processes have died, one after the other, at the tasks "
                               f"{sorted(index for index, _ in lost)}. Out of memory? Use fewer processes. Or is it "
                               "called by a script outside of `if __name__ == '__main__':`? Processes import it")
        waiting = itertools.chain(lost, waiting)


def _call(function, task):
    """In a process: an exception that does not get back through pickle would end the process, with its text."""
    try:
        return function(task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


def _require_picklable(function, task):
    """Say at once what a process could not be sent."""
    try:
        pickle.dumps((function, task))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"runs in several processes: {error}. Define functions in a module or at the top level of a "
                        "script, not as a lambda or inside another function; or make the runs with processes=1"
                        ) from error


def countWorkers(scheduler: str) -> int:
    """
    Count how many tasks the workers of a Dask scheduler do at a time.

    Parameters
    ----------
    scheduler : str
        the address of the scheduler. An OSError if nobody answers there, and an ImportError with the remedy if PyPI's
        `distributed` is not there

    Returns
    -------
    int
        the number of threads of all workers that are there now, at least 1
    """
    with _distributed().Client(scheduler) as client:
        return max(1, sum(client.nthreads().values()))


def _distributed() -> Any:
    """Dask's package for clusters."""
    with needing("runs on a Dask cluster need PyPI's `distributed`", "cluster"):
        import distributed
    return distributed


@contextlib.contextmanager
def _processes(number):
    """What submits to fresh processes, each with its share of the processors."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = str(max(1, available//number))
    before = {name: os.environ.get(name) for name in THREADS}
    executor = concurrent.futures.ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _end_with_parent)
    try:
        # They read it when they are started, which is when something is submitted.
        os.environ.update({name: share for name in THREADS if before[name] is None})
        yield executor.submit
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def _end_with_parent():
    """A process whose parent is killed would finish its task, and then wait for ever."""
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


@contextlib.contextmanager
def _cluster(address):
    """What submits to the workers of a Dask scheduler."""
    distributed = _distributed()
    import cloudpickle      # comes with it
    Plugin: Any = distributed.WorkerPlugin

    class Paths(Plugin):
        """A worker finds the modules that this process finds."""

        def __init__(self, paths):
            self.paths = paths

        def setup(self, worker):
            sys.path.extend(path for path in self.paths if path not in sys.path)

    def call(pickled):
        function, task = pickle.loads(pickled)
        return function(task)

    def submit(function, task):
        # As bytes, for the scheduler looks into what it passes on, and has not the modules that workers find.
        return executor.submit(call, cloudpickle.dumps((function, task)))

    with distributed.Client(address) as client:
        client.register_plugin(Paths([os.path.abspath(path) for path in sys.path]))
        executor = client.get_executor(pure=False)
        try:
            yield submit
        finally:
            executor.shutdown(wait=False)
