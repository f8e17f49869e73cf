"""The commands of `python -m openmmstiff`; without one, it checks the installation."""

import argparse
import contextlib
import io
import os
import re
import sys
import textwrap
from pathlib import Path

from ._commands import examine_command, prefix_command, scan_command
from ._conversions import find_platform
from ._installation import check_installation


def add_check(commands):
    """The command that checks the installation, which is done without a command, too."""
    commands.add_parser("check", help="check the installation: versions, platforms and whether they agree",
                        description=textwrap.dedent(check_installation.__doc__ or "").strip().split("\n\n")[0])


def add_examine(commands):
    """The command that says which step a System can take."""
    parser = commands.add_parser(
        "examine", help="say which step each integrator can take with your System, and why",
        description="Find the fastest motions of a System and the step that each integrator can take, from some 600 "
                    "evaluations of the forces. The energy is minimized first.")
    add_files(parser)
    parser.add_argument("--temperature", type=_positive, default=300, metavar="K", help="default: %(default)s K")
    parser.add_argument("--platform", metavar="NAME[:PRECISION]",
                        help="OpenMM's platform, such as CUDA:mixed (default: the fastest)")

    parser.set_defaults(run=lambda options: examine_command(options, parser.error))


def add_files(parser):
    """The two files of a System that commands read."""
    parser.add_argument("system", type=Path, help="the System, as XmlSerializer writes it (XML)")
    parser.add_argument("structure", type=Path,
                        help="positions, bonds and the box: a PDB file, or PDBx/mmCIF if its name ends in .cif")


def add_scan(commands):
    """The command that runs a System at growing steps."""
    parser = commands.add_parser(
        "scan", formatter_class=argparse.RawDescriptionHelpFormatter,
        help="run your System at growing steps: a table and a picture of what each step costs and does to averages",
        description=textwrap.fill(
            "Run a System at growing steps with several integrators, in the time that is given, all from the same "
            "equilibrated state. Printed are the speed, the temperature and each kind of energy with errors, and what "
            "straight lines through these against the square of the step lead to at a step of zero.", 110),
        epilog="integrators: LangevinMiddle (OpenMM's), MassPenaltyLangevin, ZhangSkeelLangevin, ImpulseLangevin\n\n"
               "In a script of yours, the files are written by\n"
               "    open('system.xml', 'w').write(openmm.XmlSerializer.serialize(system))\n"
               "    app.PDBFile.writeFile(topology, positions, open('structure.pdb', 'w'))")
    add_files(parser)
    parser.add_argument("--integrators", nargs="+", metavar="NAME[:FS,...]",
                        help="integrators, each with its steps if they are not the default ones, such as "
                             "MassPenaltyLangevin:4,6,8; the first is the reference (default: LangevinMiddle "
                             "MassPenaltyLangevin)")
    parser.add_argument("--steps", nargs="+", type=_positive, metavar="FS",
                        help="the steps of integrators that are given without, fs (default: up to what examine "
                             "recommends)")
    parser.add_argument("--temperature", type=_positive, default=300, metavar="K", help="default: %(default)s K")
    parser.add_argument("--friction", type=_positive, metavar="GAMMA",
                        help="default: 1/ps, or 5/ps without a periodic box")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=_positive, default=10, metavar="M",
                        help="the real time of all, divided between the runs (default: %(default)s)")
    length.add_argument("--time", type=_positive, metavar="PS",
                        help="the simulated time of each run, ps, instead of --minutes")
    parser.add_argument("--platform", metavar="NAME[:PRECISION]",
                        help="OpenMM's platform, such as CUDA:mixed (default: the fastest)")
    parser.add_argument("--processes", type=_count, default=1, metavar="N",
                        help="runs side by side, which then share the processors (default: %(default)s)")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="make the runs on the workers of this Dask scheduler, such as tcp://host:8786")
    parser.add_argument("--seed", type=_count, default=1, metavar="N", help="of random numbers (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("scan"), metavar="FOLDER",
                        help="for scan.png and scan.json (default: %(default)s)")

    parser.set_defaults(run=lambda options: scan_command(options, parser.error))


def add_benchmark(commands):
    """The command that measures what each platform does."""
    parser = commands.add_parser(
        "benchmark", help="compare each platform with Reference, and measure its speed: for reports from GPUs",
        description="Check the installation, then print tables in Markdown: how far forces and positions are from "
                    "Reference's; velocities, failed steps and checkpoints; ns/day by LangevinMiddle and "
                    "MassPenaltyLangevin of water, AMOEBA water, a helix in water and a bilayer; and what integrators "
                    "take without forces; at the end, what is right, wrong and slow. What is printed is in a file, too, to "
                    "attach to an issue. It takes a few minutes.")
    parser.add_argument("--platforms", nargs="+", metavar="NAME[:PRECISION]",
                        help="such as CUDA:single CUDA:mixed (default: those that are there, in mixed precision, or in "
                             "single if a device has no other)")
    parser.add_argument("--pdb", nargs="+", type=Path, default=[], metavar="FILE",
                        help="systems of amber14, with hydrogens, water and a box, to be timed beside them")
    parser.add_argument("--seconds", type=_positive, default=2, metavar="S",
                        help="of each measurement (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("openmmstiff-benchmark.md"), metavar="FILE",
                        help="for what is printed (default: %(default)s)")
    parser.set_defaults(run=lambda options: benchmark_command(options, parser.error))


class _Copied(io.TextIOBase):
    """What is written goes to the terminal and, at once, into a file."""

    def __init__(self, *files):
        self.files = files

    def write(self, text):
        for file in self.files:
            file.write(text)
            file.flush()
        return len(text)


def benchmark_command(options, fail):
    """Print the check of the installation as a block of Markdown, then the tables."""
    from ._benchmark import benchmark
    try:
        for name in options.platforms or []:
            find_platform("argument --platforms: a name", name.partition(":")[0])
    except ValueError as error:
        return fail(f"{error}; `python -m openmmstiff` says why one is not there")
    try:
        file = options.output.open("w")
    except OSError as error:
        return fail(f"argument --output: {error}")
    with file, contextlib.redirect_stdout(_Copied(sys.stdout, file)):
        print("```text")
        wrong = check_installation(options.platforms and [name.partition(":")[0] for name in options.platforms])
        print("```", flush=True)
        right = benchmark(options.platforms, options.seconds, options.pdb, wrong)
    print(f"\nThe file for an issue: {options.output}")
    return right


def add_prefix(commands):
    """The command that tells CMake where the C++ files are."""
    parser = commands.add_parser(
        "prefix", help="print the folder of the C++ library, for CMake's CMAKE_PREFIX_PATH",
        description="Print the folder with the include/ and lib/ of this package and of OpenMM. With it in "
                    "CMAKE_PREFIX_PATH, find_package(OpenMMStiff) finds both.")
    parser.set_defaults(run=lambda options: prefix_command(parser.error))


def _positive(text):
    """An argparse type: a positive number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}': give a positive number")
    return value


def _count(text):
    """An argparse type: a whole number from 1."""
    if not re.fullmatch("0*[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number from 1 to 999999")
    return int(text)


def main(arguments=None):
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m openmmstiff", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="OpenMM-Stiff: OpenMM integrators that take long steps through stiff bonds, angles and constraints."
                    "\n\nWithout a command, the installation is checked.",
        epilog="The exit code is 0 if all is well, 1 if not.")
    parser.set_defaults(run=lambda options: not check_installation())
    commands = parser.add_subparsers(title="commands", metavar="command")
    for add in add_check, add_examine, add_scan, add_benchmark, add_prefix:
        add(commands)
    options = parser.parse_args(arguments)
    try:
        code = 0 if options.run(options) else 1
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("\nInterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:     # as by `| head`: nothing more can be printed, nor is to be tried at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
