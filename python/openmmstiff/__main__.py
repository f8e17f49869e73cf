"""What `python -m openmmstiff` does: without arguments, it checks the installation."""

import argparse
import contextlib
import io
import os
import platform as machine
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import openmm
from openmm import unit

from . import (HMMIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyIntegrator,
               MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator,
               ZhangSkeelLangevinIntegrator)
from ._commands import examine_command, prefix_command, scan_command
from ._version import OPENMM_SERIES, __version__

# How far positions may be from Reference's [nm]; without a setting of precision, platforms compute some forces in
# single precision, and the rest in double, as "mixed" does.
#
# Coordinates up to 0.5 nm are rounded to 2^-26 nm = 1.5e-8 nm in single precision. Stiff bonds turn such errors around
# rather than let them grow, so that after 10 steps they are 1e-7 nm where each step rounds, up to 4e-8 nm where only
# forces come from rounded positions, and 1e-14 nm in double precision. The bounds leave a factor of 25 and more for
# GPUs with inexact functions, and are still sharp: if the charges of the oxygens or the force constants of the bonds
# are wrong by a thousandth, the largest difference is 1e-4 or 1e-5 nm.
BOUNDS = {"single": 1e-5, "mixed": 1e-6, "double": 1e-9}
NUM_STEPS = 10
UNSUPPORTED = "does not support double precision"  # OpenMM's words for a device with single precision only
FAILURE = re.compile(r"Error loading library (.+?): (.*)", re.DOTALL)
MISSING_LIBRARY = re.compile(r"(\S+): cannot open shared object file")
BLAMED_LIBRARY = re.compile(r"(?:.*/)?([^/\s]+): ")
REMEDIES = [
    ("libOpenCL", "OpenMM's OpenCL platform needs a driver: that of the GPU's maker, and an OpenCL loader (ocl-icd)."),
    ("libcuda.so", "OpenMM's CUDA platform needs NVIDIA's driver."),
    ("libnvrtc|libcufft|libcudart", "OpenMM's CUDA platform needs these libraries of CUDA; "
     "pip install 'openmm-stiff[cuda12]' or 'openmm-stiff[cuda13]' brings them."),
    ("libOpenMMCUDA", "pip install 'openmm-stiff[cuda12]' or 'openmm-stiff[cuda13]' brings it."),
    ("libOpenMMHIP", "pip install 'openmm-stiff[hip6]' brings it."),
    ("libamdhip|libhip|libroc", "OpenMM's HIP platform needs AMD's driver and ROCm.")]


def check_installation():
    """
    Print versions, what each platform of OpenMM has of this package, and whether it computes what Reference does; then
    hints on what is missing.

    Returns
    -------
    bool
        whether every platform that is there has kernels, runs and agrees
    """
    for name, value in [("OpenMM-Stiff", f"{__version__}, built for OpenMM {OPENMM_SERIES}"),
                        ("OpenMM", openmm.__version__), ("Python", machine.python_version()),
                        ("System", f"{machine.system()} {machine.release()}, {machine.machine()}")]:
        print(f"{name:14}{value}")
    print(f"\nPositions of 8 flexible waters after {NUM_STEPS} steps, with each integrator; the largest "
          "difference\nfrom those on Reference, in nm, and where it was found:\n")
    platforms = [openmm.Platform.getPlatform(i) for i in range(openmm.Platform.getNumPlatforms())]
    names = [platform.getName() for platform in platforms]
    kernels = [StiffIntegrator.describeKernels(platform.getName()) for platform in platforms]
    layout = f"{{:{max(map(len, names + ['Platform'])) + 2}}}{{:11}}{{:{max(map(len, kernels + ['Kernels'])) + 2}}}"
    layout += "{:14}{}"
    print(layout.format("Platform", "Precision", "Kernels", "Result", "Difference"))
    problems: list[str] = []
    notes: list[str] = []
    reference: dict[str, np.ndarray] = {}
    for name, platform, description in zip(names, platforms, kernels):
        results = []
        # A device may lack a precision, but not all of them.
        for precision in _precisions(platform) if description else [""]:
            result, difference, problem = _check(platform, precision, reference)
            if not description:  # what makes no Context says why
                result, difference, problem = "no kernels", "", problem or "it has no kernels."
            # At once, so that if a driver ends the process, what was found before is there to read.
            print(layout.format(name, precision or "-", description or "none", result, difference).rstrip(), flush=True)
            results.append(result)
            if problem:
                where = f"{name}, {precision} precision" if precision else name
                (notes if result == "unsupported" else problems).append(f"{where}: {problem}")
        if all(result == "unsupported" for result in results):
            problems.append(f"{name}: it runs in no precision.")
        elif "Precision" in platform.getPropertyNames() and description and not _minimizes(name):
            notes.append(f"{name}: OpenMM's own minimizer fails there or ends the process, which is a fault of OpenMM "
                         "or of the driver. Minimize on the CPU platform.")
    hints = (problems + _explain_failures(openmm.Platform.getPluginLoadFailures()) + notes
             + _explain_detours(names, kernels) + _explain_absence(names))
    if hints:
        print("\nHints:")
    for hint in hints:
        print(textwrap.fill(hint, 110, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                            break_on_hyphens=False))
    print("\nNot everything works: see the hints." if problems else
          "\nEvery platform that is there has kernels, runs and agrees.")
    return not problems


def _precisions(platform):
    """The precisions that a platform can be set to; an empty one if it has no choice."""
    return list(BOUNDS) if "Precision" in platform.getPropertyNames() else [""]


def _minimizes(name):
    """Whether OpenMM's minimizer works on a platform: tried in a process of its own, which it may end."""
    call = [sys.executable, "-c", f"from openmmstiff.__main__ import _minimize; _minimize({name!r})"]
    return subprocess.run(call, capture_output=True).returncode == 0


def _minimize(name):
    system, start = _waters()
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform(name))
    context.setPositions(start)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 10)


def _check(platform, precision, reference):
    """
    Run the waters with each integrator. Returns (result, difference, problem), as text. `reference` has the positions
    on Reference by the names of the integrators; it is filled by Reference itself, OpenMM's first platform.
    """
    system, start = _waters()
    names, differences = [], []
    for integrator in _integrators(system):
        name = type(integrator).__name__
        try:
            context = openmm.Context(system, integrator, platform, {"Precision": precision} if precision else {})
            context.setPositions(start)
            context.setVelocitiesToTemperature(300, 1)  # each method its own: not all take those of others
            integrator.step(NUM_STEPS)
            state = context.getState(positions=True)
        except Exception as error:  # whatever a driver or its compiler comes up with is to be shown
            text = str(error) if name in str(error) else f"with {name}: {error}"
            return ("unsupported" if UNSUPPORTED in text else "fails"), "", text
        positions = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
        if platform.getName() == "Reference":
            reference[name] = positions
        elif name not in reference:
            return "not compared", "", f"there is nothing to compare {name} with, as Reference fails."
        names.append(name)
        differences.append(np.abs(positions - reference[name]).max())
    if platform.getName() == "Reference":
        return "runs", "", ""
    name, difference = names[np.argmax(differences)], np.max(differences)  # to both NaN is the largest
    bound = BOUNDS[precision or "mixed"]
    shown = f"{difference:.1e}  {name}"
    if difference <= bound:
        return "agrees", shown, ""
    return "differs", shown, (f"with {name}, positions are {difference:.1e} nm from those on Reference; rounding "
                              f"explains {bound:.0e} nm at most. Do not use this platform, and report this output.")


def _integrators(system):
    """One of each class, at small steps; heat baths of 0 K, which draw no noise."""
    spook = SpookIntegrator(0.0005)
    bonds = system.getForce(0)
    for i in range(bonds.getNumBonds()):
        spook.addDistanceConstraint(*bonds.getBondParameters(i)[:3])
    return [ZhangSkeelIntegrator(0.001), ZhangSkeelLangevinIntegrator(0, 1, 0.001), ImpulseIntegrator(0.001),
            ImpulseLangevinIntegrator(0, 1, 0.001), MassPenaltyIntegrator(0.002),
            MassPenaltyLangevinIntegrator(0, 1, 0.002), spook, HMMIntegrator(0.0005, 1e5)]


def _waters():
    """The (System, positions [nm]) of 2 x 2 x 2 flexible TIP3P waters in vacuum, one in a field."""
    # Rounded to single precision, in which platforms for GPUs keep parameters even where they compute in double.
    length, angle, bond_stiffness, angle_stiffness = np.array(
        [0.09572, 1.82421813, 462750.4, 836.8], np.float32).tolist()
    oxygen, hydrogen = np.array([[-0.834, 0.315075, 0.635968], [0.417, 1, 0]], np.float32).tolist()
    system, positions = openmm.System(), []
    bonds, angles, nonbonded = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.NonbondedForce()
    for place in np.ndindex(2, 2, 2):
        o = system.getNumParticles()
        for mass, parameters in (15.99943, oxygen), (1.007947, hydrogen), (1.007947, hydrogen):
            system.addParticle(mass)
            nonbonded.addParticle(*parameters)
        bonds.addBond(o, o + 1, length, bond_stiffness)
        bonds.addBond(o, o + 2, length, bond_stiffness)
        angles.addAngle(o + 1, o, o + 2, angle, angle_stiffness)
        for i, j in (o, o + 1), (o, o + 2), (o + 1, o + 2):
            nonbonded.addException(i, j, 0, 1, 0)
        first, second = [length, 0, 0], [length*np.cos(angle), length*np.sin(angle), 0]
        positions += [0.31*np.array(place) + offset for offset in ([0, 0, 0], first, second)]
    vibration = openmm.CustomExternalForce("20*cos(theta)*x")   # what HMMIntegrator averages
    vibration.addGlobalParameter("theta", 0)
    vibration.addParticle(0)
    for force in bonds, angles, nonbonded, vibration:
        system.addForce(force)
    return system, np.array(positions)


def _explain_failures(failures):
    """Hints on the libraries that OpenMM could not load, those of this plugin first: one for each cause."""
    causes = {}
    for failure in failures:
        match = FAILURE.fullmatch(failure.strip())
        file, cause = match.groups() if match else ("", failure)
        causes[os.path.basename(file)] = cause.removeprefix(f"{file}: ")
    libraries: dict[str, list[str]] = {}
    for name, cause in causes.items():
        followed = {name}
        while (blamed := BLAMED_LIBRARY.match(cause)) and blamed[1] in causes.keys() - followed:
            followed.add(blamed[1])  # it failed, too, and what it lacked is the cause
            cause = causes[blamed[1]]
        libraries.setdefault(cause, []).append(name)
    hints = []
    for cause, names in libraries.items():
        names.sort(key=lambda name: "Stiff" not in name)
        missing = MISSING_LIBRARY.match(cause)
        text = f"{', '.join(names)}: not loaded, as {missing[1]} is missing." if missing else \
            f"{', '.join(names)}: not loaded: {cause.rstrip('.')}."
        remedies = [remedy for pattern, remedy in REMEDIES if missing and re.match(pattern, missing[1])]
        if not remedies and all("Stiff" in name for name in names):  # else it is OpenMM's that is wrong
            remedies = [f"Install openmm-stiff again, for OpenMM {OPENMM_SERIES}."]
        hints.append(" ".join([text, *remedies]))
    return sorted(hints, key=lambda hint: "Stiff" not in hint)


def _explain_detours(names, kernels):
    """Hints on devices whose own kernels are in a package that is not installed."""
    packages = {"CUDA": "openmm-stiff[cuda12]' or 'openmm-stiff[cuda13]", "HIP": "openmm-stiff[hip6]"}
    return [f"{name}: all steps go through the host's memory, as libOpenMMStiff{name} is not there. pip install "
            f"'{packages[name]}' brings it." for name, description in zip(names, kernels)
            if name in packages and description.startswith("through the host's memory")]


def _explain_absence(names):
    """Hints on fast platforms that are not among those there, and on the folder that was searched for them."""
    hints = []
    if "CPU" not in names:
        hints.append("OpenMM's CPU platform is not there, which is much faster than Reference.")
    if not {"CUDA", "HIP", "OpenCL"}.intersection(names):
        hints.append("OpenMM has no platform for a GPU here (CUDA, HIP, OpenCL). Each needs the driver of the GPU, and "
                     "CUDA and HIP packages of their own: pip install 'openmm-stiff[cuda12]' (or cuda13, hip6; for "
                     "ROCm 7, of OpenMM's alone, 'openmm[hip7]').")
    if "OPENMM_PLUGIN_DIR" in os.environ:
        usual = os.path.join(openmm.version.openmm_library_path, "plugins")
        hints.append(f"OPENMM_PLUGIN_DIR is set to '{os.environ['OPENMM_PLUGIN_DIR']}': OpenMM looks for platforms "
                     f"there and nowhere else. Without it, it looks in '{usual}'.")
    return hints


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
                    "Reference's, velocities, failed steps and checkpoints, ns/day of water by LangevinMiddle with "
                    "SETTLE at 4 fs and by MassPenaltyLangevin at 12 fs, and what integrators take without forces; at "
                    "the end, what is right, wrong and slow. All of it is in a file, too, to attach to an issue. It "
                    "takes a few minutes.")
    parser.add_argument("--platforms", nargs="+", metavar="NAME[:PRECISION]",
                        help="such as CUDA:single CUDA:mixed (default: those that are there, in mixed precision)")
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
        file = options.output.open("w")
    except OSError as error:
        return fail(f"argument --output: {error}")
    with file, contextlib.redirect_stdout(_Copied(sys.stdout, file)):
        print("```text")
        right = check_installation()
        print("```", flush=True)
        right = benchmark(options.platforms, options.seconds) and right
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
    parser.set_defaults(run=lambda options: check_installation())
    commands = parser.add_subparsers(title="commands", metavar="command")
    for add in add_check, add_examine, add_scan, add_benchmark, add_prefix:
        add(commands)
    options = parser.parse_args(arguments)
    try:
        return 0 if options.run(options) else 1
    except KeyboardInterrupt:
        print("\nInterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
