#!/usr/bin/env python
"""A sweep of what users run into: bad values for each argument, odd Systems, saved states, changes in mid-run.

The claim on each case: it works and stays finite, or it is refused by an error that says what is wrong and leaves the
Context as it was. Cases run in worker processes, so that a crash or a hang is a fault of one case. Prints a table and
each fault with the call that repeats it. The exit code is 0 if there are no faults and 1 if there are.
"""
import argparse
import collections
import faulthandler
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openmmstiff

import bad_values
import lives
import odd_systems
import workflows
from trial import INTEGRATORS, Fault, Refused

PARTS = {  # letter: (what it is, module, names of the classes and functions it is for)
    "A": ("bad values", bad_values, openmmstiff.__all__),
    "B": ("odd Systems", odd_systems, INTEGRATORS),
    "C": ("saved states and life cycles", lives, INTEGRATORS),
    "D": ("workflows", workflows, INTEGRATORS),
}
PLATFORMS = ["Reference", "CPU"]
# The fraction of the cases that a quick sweep takes, of each part: about a minute in all.
QUICK = {"A": 0.15, "B": 1.0, "C": 1.0, "D": 0.5}
LIMIT = 30                  # seconds a case may take, far more than any should on a busy machine
WORKER = __file__
MEMORY = 8 << 30            # bytes a worker may take: a case that wants more is refused, and the machine lives on

Case = collections.namedtuple("Case", "part name platform what run")


def cases(part, name, fraction=1.0):
    """The cases of a part for a class or function; a fraction of them is always the same one."""
    found = []
    for what, run in PARTS[part][1].cases(name):
        for platform in PLATFORMS:
            case = Case(part, name, platform, what, run)
            if zlib.crc32(f"{what} {platform}".encode()) < fraction*2**32:
                found.append(case)
    return found


def outcome(case):
    """(accepted, refused or fault; what the error says)."""
    try:
        case.run(case.platform)
        return "accepted", ""
    except Refused as error:
        return "refused", str(error)
    except Fault as error:
        return "fault", str(error)
    except BaseException as error:
        return "fault", f"the trial itself failed: {type(error).__name__}: {error}"


def serve():
    """The worker: reads which cases to run, writes what they gave."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(tempfile.mkdtemp())    # some cases write files
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)       # what the cases print must not get between the answers
    for line in sys.stdin:
        part, name, fraction, numbers = json.loads(line)
        chosen = cases(part, name, fraction)
        for number in numbers:
            print(json.dumps(outcome(chosen[number])), file=answers, flush=True)


class Worker:
    """A process that runs cases; a new one takes over after a crash or a hang."""

    process = None

    def ask(self, part, name, fraction, numbers):
        """The outcome of each numbered case of cases(part, name, fraction)."""
        outcomes = []
        while len(outcomes) < len(numbers):
            if self.process is None:
                self.process = subprocess.Popen([sys.executable, WORKER, "--worker"], bufsize=0,
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                stderr=subprocess.DEVNULL)
            self.process.stdin.write(json.dumps([part, name, fraction, numbers[len(outcomes):]]).encode() + b"\n")
            answer = True
            while answer and len(outcomes) < len(numbers):
                ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
                answer = self.process.stdout.readline() if ready else b""
                outcomes.append(tuple(json.loads(answer)) if answer else ("fault", self.end(hung=not ready)))
        return outcomes

    def end(self, hung=False):
        """End the process; how it came to that."""
        if self.process is None:
            return ""
        if hung:
            self.process.kill()
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        self.process = None
        return f"no end within {LIMIT} s" if hung else f"crash: exit code {code}"


class Sweep:
    """Runs cases in as many processes as there are processors."""

    def __init__(self):
        self.workers = [Worker() for _ in range(min(len(os.sched_getaffinity(0)), 8))]

    def run(self, part, name, fraction=1.0):
        """[(case, outcome, what the error says)] of the cases of a part for a class or function."""
        try:
            chosen = cases(part, name, fraction)
        except Fault as error:
            return [(Case(part, name, "", name, None), "fault", str(error))]
        # Neighbours cost about the same: each process gets every n-th case.
        shares = [list(range(first, len(chosen), len(self.workers))) for first in range(len(self.workers))]
        with ThreadPoolExecutor(len(shares)) as pool:
            answers = pool.map(lambda worker, share: worker.ask(part, name, fraction, share), self.workers, shares)
            outcomes = {number: each for share, answer in zip(shares, answers) for number, each in zip(share, answer)}
        return [(case, *outcomes[number]) for number, case in enumerate(chosen)]

    def end(self):
        for worker in self.workers:
            worker.end()


def report(results):
    """Lines for faults."""
    return [f"{case.part} {case.platform} {case.what}\n    {text}" for case, kind, text in results if kind == "fault"]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all cases, not those of a quick sweep only")
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--class", dest="names", choices=openmmstiff.__all__, nargs="+", metavar="NAME",
                        default=openmmstiff.__all__, help="of openmmstiff: a class or a function")
    parser.add_argument("--outcomes", type=Path, metavar="FILE", help="where to write what each case gave")
    options = parser.parse_args(arguments)
    sweep, faults, lines, count, start = Sweep(), [], [], collections.Counter(), time.monotonic()
    print(f"{'part':30}{'class':32}{'cases':>7}{'refused':>9}{'accepted':>10}{'faults':>8}{'time, s':>9}")
    for part in options.part:
        title, _, names = PARTS[part]
        for name in (each for each in names if each in options.names):
            began = time.monotonic()
            results = sweep.run(part, name, 1.0 if options.full else QUICK[part])
            kinds = collections.Counter(kind for _, kind, _ in results)
            print(f"{f'{part} {title}':30}{name:32}{len(results):7}{kinds['refused']:9}{kinds['accepted']:10}"
                  f"{kinds['fault']:8}{time.monotonic() - began:9.1f}", flush=True)
            count += kinds
            faults += report(results)
            lines += [f"{kind}: {case.part} {case.platform} {case.what}: {text}\n" for case, kind, text in results]
    sweep.end()
    print(f"{'all':62}{count.total():7}{count['refused']:9}{count['accepted']:10}{count['fault']:8}"
          f"{time.monotonic() - start:9.1f}\n")
    print("\n".join(faults) or "no faults")
    if options.outcomes:
        options.outcomes.write_text("".join(lines))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["--worker"] else main())
