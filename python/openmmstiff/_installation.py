"""What `python -m openmmstiff` does without a command: it checks the installation."""

import os
import platform as machine
import re
import subprocess
import sys
import textwrap

import numpy as np
import openmm
from openmm import unit

from . import (HMMIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyIntegrator,
               MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator,
               ZhangSkeelLangevinIntegrator)
from ._forces import make_context
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
MINIMIZER_TIMEOUT = 600  # s; a driver may have to compile first
UNSUPPORTED = "does not support double precision"  # OpenMM's words for a device with single precision only
FAILURE = re.compile(r"Error loading library (.+?): (.*)", re.DOTALL)
LIBRARY = re.compile(r"libOpenMM(Stiff)?(\w+)\.\w+")
MISSING_LIBRARY = re.compile(r"(\S+): cannot open shared object file")
BLAMED_LIBRARY = re.compile(r"(?:.*/)?([^/\s]+): ")
PACKAGES = {"CUDA": "openmm-stiff[cuda12] or [cuda13]", "HIP": "openmm-stiff[hip6], for ROCm 6 alone,"}
REMEDIES = [
    ("libOpenCL", "OpenMM's OpenCL platform needs a driver: that of the GPU's maker, and an OpenCL loader (ocl-icd)."),
    ("libcuda.so", "OpenMM's CUDA platform needs NVIDIA's driver."),
    ("libnvrtc|libcufft|libcudart", "OpenMM's CUDA platform needs these libraries of CUDA; "
     f"{PACKAGES['CUDA']} brings them."),
    *((f"libOpenMM{name}", f"{package} brings it.") for name, package in PACKAGES.items()),
    ("libamdhip|libhip|libroc", "OpenMM's HIP platform needs AMD's driver and ROCm.")]


def check_installation(chosen=None):
    """
    Print versions, what each platform of OpenMM has of this package, and whether it computes what Reference does; then
    hints on what is missing.

    Parameters
    ----------
    chosen : container of str, optional
        the platforms to try beside Reference (default: all that are there)

    Returns
    -------
    list of str
        those that are wrong, such as CUDA:mixed; none if every platform has kernels, runs and agrees
    """
    for name, value in [("OpenMM-Stiff", f"{__version__}, built for OpenMM {OPENMM_SERIES}"),
                        ("OpenMM", openmm.__version__), ("Python", machine.python_version()),
                        ("System", f"{machine.system()} {machine.release()}, {machine.machine()}")]:
        print(f"{name:14}{value}")
    print(f"\nPositions of 8 flexible waters after {NUM_STEPS} steps, with each integrator; the largest "
          "difference\nfrom those on Reference, in nm, and where it was found:\n")
    there = [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]
    names = [name for name in there if chosen is None or name == "Reference" or name in chosen]
    kernels = {name: StiffIntegrator.describeKernels(name) for name in names}
    widths = [2 + max(map(len, column)) for column in ([*kernels, "Platform"], [*kernels.values(), "Kernels"])]
    layout = f"{{:{widths[0]}}}{{:11}}{{:{widths[1]}}}{{:14}}{{}}"
    print(layout.format("Platform", "Precision", "Kernels", "Result", "Difference"))
    failures = openmm.Platform.getPluginLoadFailures()
    broken = _find_broken(failures, there)
    wrong = list(broken)
    problems: list[str] = []
    notes: list[str] = []
    devices: dict[str, str] = {}
    reference: dict[str, np.ndarray] = {}
    for name, description in kernels.items():
        platform, results = openmm.Platform.getPlatform(name), []
        # A device may lack a precision, but not all of them.
        for precision in _precisions(platform) if description else [""]:
            result, difference, problem = _check(platform, precision, reference, devices)
            if not description:  # what makes no Context says why
                result, difference, problem = "no kernels", "", problem or "it has no kernels."
            # At once, so that if a driver ends the process, what was found before is there to read.
            print(layout.format(name, precision or "-", description or "none", result, difference).rstrip(), flush=True)
            results.append(result)
            if problem:
                where = f"{name}, {precision} precision" if precision else name
                (notes if result == "unsupported" else problems).append(f"{where}: {problem}")
                if result != "unsupported":
                    wrong.append(f"{name}:{precision}" if precision else name)
        if all(result == "unsupported" for result in results):
            problems.append(f"{name}: it runs in no precision.")
            wrong.append(name)
        elif "Precision" in platform.getPropertyNames() and description and not _minimizes(name):
            notes.append(f"{name}: OpenMM's own minimizer fails there, hangs or ends the process, which is a fault of "
                         "OpenMM or of the driver. Minimize on the CPU platform.")
    for name, device in devices.items():
        print(f"\n{name} ran on {device}.")
    hints = (problems + _explain_failures(failures) + notes
             + _explain_detours({name: kernels[name] for name in names if name not in broken})
             + _explain_absence(there))
    if hints:
        print("\nHints:")
    for hint in hints:
        print(textwrap.fill(hint, 110, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                            break_on_hyphens=False))
    print("\nNot everything works: see the hints." if wrong else
          "\nEvery platform that is there has kernels, runs and agrees.")
    return wrong


def _precisions(platform):
    """The precisions that a platform can be set to; an empty one if it has no choice."""
    return list(BOUNDS) if "Precision" in platform.getPropertyNames() else [""]


def _minimizes(name):
    """Whether OpenMM's minimizer works on a platform: tried in a process of its own, which it may end."""
    call = [sys.executable, "-c", f"from openmmstiff._installation import _minimize; _minimize({name!r})"]
    try:
        return subprocess.run(call, capture_output=True, timeout=MINIMIZER_TIMEOUT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _minimize(name):
    system, start = _waters()
    context = make_context(system, openmm.VerletIntegrator(0.001), name, positions=start)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 10)


def _check(platform, precision, reference, devices):
    """
    Run the waters with each integrator. Returns (result, difference, problem), as text. `reference` has the positions
    on Reference by the names of the integrators; it is filled by Reference itself, OpenMM's first platform. `devices`
    gets the device of the platform, if it has one.
    """
    system, start = _waters()
    names, differences = [], []
    for integrator in _integrators(system):
        name = type(integrator).__name__
        try:
            properties = {"Precision": precision} if precision else {}
            context = make_context(system, integrator, platform.getName(), properties, positions=start)
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
        if "DeviceName" in platform.getPropertyNames():
            devices[platform.getName()] = platform.getPropertyValue(context, "DeviceName")
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


def _find_broken(failures, names):
    """The platforms with a library that could not be loaded though it should: ours for one of those that are there, or
    OpenMM's for CUDA and HIP, which have been installed in order to use them."""
    broken = []
    for failure in failures:
        match = FAILURE.fullmatch(failure.strip())
        library = LIBRARY.fullmatch(os.path.basename(match[1])) if match else None
        if library and library[2] in (names if library[1] else PACKAGES):
            broken.append(library[2])
    return broken


def _explain_detours(kernels):
    """Hints on devices whose own kernels are in a package that is not installed; `kernels` has what platforms have."""
    return [f"{name}: all steps go through the host's memory, as libOpenMMStiff{name} is not there. "
            f"{PACKAGES[name]} brings it." for name, description in kernels.items()
            if name in PACKAGES and description.startswith("through the host's memory")]


def _explain_absence(names):
    """Hints on fast platforms that are not among those there, and on the folder that was searched for them."""
    hints = []
    if "CPU" not in names:
        hints.append("OpenMM's CPU platform is not there, which is much faster than Reference.")
    if not {"CUDA", "HIP", "OpenCL"}.intersection(names):
        hints.append("OpenMM has no platform for a GPU here (CUDA, HIP, OpenCL). Each needs the driver of the GPU, and "
                     "CUDA and HIP packages of their own: openmm-stiff[cuda12] (or cuda13, hip6; for ROCm 7 there is "
                     "openmm[hip7] alone, without kernels of ours).")
    if "OPENMM_PLUGIN_DIR" in os.environ:
        usual = os.path.join(openmm.version.openmm_library_path, "plugins")
        hints.append(f"OPENMM_PLUGIN_DIR is set to '{os.environ['OPENMM_PLUGIN_DIR']}': OpenMM looks for platforms "
                     f"there and nowhere else. Without it, it looks in '{usual}'.")
    return hints
