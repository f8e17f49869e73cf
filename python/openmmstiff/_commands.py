"""
What `python -m openmmstiff examine`, `scan` and `prefix` do with their options, an argparse.Namespace.

They return whether all is well. If options or files are wrong they call `fail` with a text, which does not return.
"""

import contextlib
import sys
import tempfile

import openmm
from openmm import app

from ._examination import examine
from ._files import LIBRARIES, readStructure, readSystem
from .scanning import DEFAULT, scan


def examine_command(options, fail):
    """Print which step a System can take."""
    try:
        system, structure = readSystem(options.system), readStructure(options.structure)
        integrator = openmm.LangevinMiddleIntegrator(options.temperature, 1, 0.001)
        platform, properties = _read_platform(options)
        chosen = [openmm.Platform.getPlatform(platform), properties] if platform else []
        simulation = app.Simulation(structure.topology, system, integrator, *chosen)
        positions = structure.getPositions(asNumpy=True)
        simulation.context.setPositions(positions)
        try:
            simulation.minimizeEnergy()
        except openmm.OpenMMException as error:     # a potential may not be defined where the first step leads
            print(f"The minimization has failed ({error}): examined are the positions of the file.\n")
            simulation.context.setPositions(positions)
        print(examine(simulation, options.temperature))
    except BrokenPipeError:
        raise
    except (OSError, ValueError, openmm.OpenMMException) as error:
        fail(str(error))
    return True


def scan_command(options, fail):
    """Print the table of a scan, and write its files; all is well if any run has succeeded."""
    try:
        integrators, steps = _read_integrators(options)
        system, structure = readSystem(options.system), readStructure(options.structure)
        options.output.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=options.output).close()      # else an error now, not after the runs
        with _bar() as progress:
            result = scan(system, structure.topology, structure.getPositions(asNumpy=True), integrators,
                          options.temperature, options.friction, steps, options.minutes, options.time,
                          *_read_platform(options), options.processes, options.scheduler, options.seed, progress)
    except (ImportError, OSError, ValueError) as error:
        fail(str(error))
    except (RuntimeError, openmm.OpenMMException) as error:
        print(f"scan: {str(error).removeprefix('scan: ')}", file=sys.stderr)
        return False
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return False
    result.printTable()
    print()
    result.save(options.output/"scan.json")
    print(f"All numbers: {options.output/'scan.json'}")
    if result.reference is None:
        return False
    try:
        result.draw(options.output/"scan.png")
        print(f"Averages against the step: {options.output/'scan.png'}")
    except ImportError as error:
        print(f"No picture: {error}")
    return True


def prefix_command(fail):
    """Print the folder that CMake needs to know."""
    if not (LIBRARIES/"lib"/"cmake"/"OpenMMStiff").is_dir():
        fail(f"the C++ files of this package are not in {LIBRARIES}: install it by pip")
    print(LIBRARIES)
    return True


def _read_platform(options) -> tuple[str | None, dict[str, str]]:
    """The name of the platform, None for the fastest, and its properties."""
    name, _, precision = (options.platform or "").partition(":")
    if precision and not name:
        raise ValueError(f"argument --platform: '{options.platform}' names none. Give one, as in CUDA:{precision}")
    return name or None, {"Precision": precision} if precision else {}


def _read_integrators(options):
    """The names, and their steps if these are given."""
    if options.integrators is None:
        return DEFAULT, options.steps
    steps = {}
    for text in options.integrators:
        name, colon, given = text.partition(":")
        name = name.removesuffix("Integrator")
        if name in steps:
            raise ValueError(f"argument --integrators: {name} is there twice. Give all its steps at once, as in "
                             f"{name}:2,4")
        try:
            steps[name] = [float(each) for each in given.split(",")] if colon else options.steps
        except ValueError:
            raise ValueError(f"argument --integrators: '{text}': give steps in fs as in {name}:2,4") from None
    if options.steps and all(":" in text for text in options.integrators):
        raise ValueError("argument --steps: each of --integrators has steps of its own. Leave --steps out")
    return list(steps), steps


@contextlib.contextmanager
def _bar():
    """What shows progress: a bar, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=1.0, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}", leave=False,
              mininterval=0.5 if sys.stderr.isatty() else 30) as bar:
        def show(done, label):
            bar.set_description_str(label, refresh=False)
            bar.update(done - bar.n)
        yield show
