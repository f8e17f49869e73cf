"""What the examples and the validation share as command-line programs: options, errors, interruption."""
import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from common.water import MIN_WATERS

T = TypeVar("T")


class OptionParser(argparse.ArgumentParser):
    """An ArgumentParser that answers a wrong option with one line and exit code 2."""

    def __init__(self, description: str | None):
        super().__init__(description=description, allow_abbrev=False)

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message} (see --help)\n")

    def make_folder(self, path: Path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"argument --output: '{path}': {error.strerror}; give a folder that can be written")


def number(kind: type, least: float, remark: str = "", most: float = float("inf")) -> Callable[[str], float]:
    """An argparse type: a finite int or float from `least` to `most`; `remark` is a unit or a reason."""
    what = "a whole number" if kind is int else "a number"
    bounds = f"of at least {least:g}" if most == float("inf") else f"from {least:g} to {most:g}"

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most or value == float("inf"):
            raise argparse.ArgumentTypeError(f"'{text}': give {what} {bounds} {remark}".rstrip())
        return value

    return convert


def choice(names: Iterable[str]) -> Callable[[str], str]:
    """An argparse type: one of `names`, which the error message lists."""

    def convert(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"'{text}': choose from {', '.join(names)}")
        return text

    return convert


def add_names_option(parser: OptionParser, option: str, names: Collection[str], default: Sequence[str] = ()):
    """One or more of the names, all of them by default."""
    parser.add_argument(option, type=choice(names), nargs="+", default=list(default or names), metavar="NAME",
                        help=f"of {', '.join(names)} (default: {' '.join(default) or 'all'})")


def add_name_option(parser: OptionParser, option: str, names: Collection[str], default: str):
    parser.add_argument(option, type=choice(names), default=default, metavar="NAME",
                        help=f"of {', '.join(names)} (default: %(default)s)")


def add_box_options(parser: OptionParser, waters: int):
    """--waters (with its default), --platform, --seed."""
    parser.add_argument("--waters", default=waters, metavar="N",
                        help="number of water molecules (default: %(default)s)",
                        type=number(int, MIN_WATERS, "(the box edge must exceed twice the cutoff)"))
    add_platform_options(parser)


def add_platform_options(parser: OptionParser, platforms: tuple[str, ...] = ("CPU", "Reference")):
    """--platform, --seed."""
    add_name_option(parser, "--platform", platforms, platforms[0])
    add_seed_option(parser)


def add_seed_option(parser: OptionParser):
    parser.add_argument("--seed", type=number(int, 1, most=999999), default=1, metavar="N",
                        help="random number seed (default: %(default)s)")


def add_run_options(parser: OptionParser, time: float, friction: float = 1.0):
    """--time (ps) and --friction (1/ps), with their defaults."""
    parser.add_argument("--time", type=number(float, 1, "ps"), default=time, metavar="PS",
                        help="simulated time of each run, ps (default: %(default)s)")
    parser.add_argument("--friction", type=number(float, 0.01, "1/ps"), default=friction, metavar="GAMMA",
                        help="Langevin friction, 1/ps (default: %(default)s)")


def add_repeat_options(parser: OptionParser):
    """--seeds, --processes, --report: of runs that are kept in files."""
    parser.add_argument("--seeds", type=number(int, 1, most=999), default=2, metavar="N",
                        help="how many times to make each run (default: %(default)s)")
    add_processes_option(parser, 2)
    parser.add_argument("--report", action="store_true", help="make no runs, report those of before")


def add_processes_option(parser: OptionParser, default: int = 1):
    parser.add_argument("--processes", type=number(int, 1), default=default, metavar="N",
                        help="runs side by side (default: %(default)s)")


def add_scale_option(parser: OptionParser):
    """--scale, of the lengths of runs."""
    parser.add_argument("--scale", type=number(float, 0.0001, most=1000), default=1.0, metavar="FACTOR",
                        help="multiplies the lengths of all runs (default: %(default)s)")


def add_output_option(parser: OptionParser, figure: str = ""):
    """options.output, the folder for a script's figure or results; make it with parser.make_folder()."""
    parser.add_argument("--output", type=Path, default=Path("demo"), metavar="FOLDER",
                        help=f"folder for {f'the figure, {figure}' if figure else 'results'} (default: %(default)s)")


def add_record_option(parser: OptionParser):
    """options.record, the file in which print_table() of common.tables keeps what is printed, or None."""
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="put the table into this file, that of the handbook's figures: docs/measurements.json")


def progress_bar(label: str, steps: int, leave: bool = False) -> tqdm:
    """A bar that counts steps; one that is not looked at writes little."""
    return tqdm(total=steps, desc=label, unit="step", leave=leave, mininterval=0.5 if sys.stderr.isatty() else 30)


def each(label: str, items: Collection[T]) -> Iterator[T]:
    """The items, with a bar that counts those that are done."""
    with progress_bar(label, len(items)) as bar:
        for item in items:
            yield item
            bar.update()


def run_program(main: Callable[[], int | None]):
    """Call main() and exit with what it returns; Ctrl-C ends the program with a word in place of a traceback."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
