"""Try the wheels in a folder, each in a fresh environment, and print a table: `try_wheels.py FOLDER [PYTHON ...]`.

The package itself is for all Pythons: it is tried with that which runs this, and with those that are named. Each
environment gets it with all that it requires. For a device there come its wheel and OpenMM's library for it, without
what that requires: the vendor's libraries are large, and of no use where there is no driver.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
FAILURE = re.compile(r"Error loading library \S*/(\S+): (\S+): cannot open shared object file")


class Failure(Exception):
    """What is wrong with a wheel."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def run(*command, environment=()):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env={**os.environ, **dict(environment)})
    check(done.returncode == 0, f"{' '.join(map(str, command[1:]))}: {done.stderr or done.stdout}")
    return done.stdout


def create_integrators(openmmstiff):
    """One of each class, for a bond with a period of 7 fs."""
    names = [name for name in openmmstiff.__all__ if name.endswith("Integrator") and name != "StiffIntegrator"]
    for cls in (getattr(openmmstiff, name) for name in names):
        if hasattr(cls, "setFriction"):
            yield cls(300, 1, 0.004 if issubclass(cls, openmmstiff.MassPenaltyIntegrator) else 0.001)
        elif cls is openmmstiff.HMMIntegrator:
            yield cls(0.001, 1e5)
        else:
            yield cls(0.001)


def take_steps():
    """The trial, in an environment: steps of each integrator on each platform. Prints what OpenMM has loaded."""
    import openmm
    import openmmstiff
    system = openmm.System()
    bond = openmm.HarmonicBondForce()
    bond.addBond(0, 1, 0.1, 4e5)
    phase = openmm.CustomExternalForce("cos(theta)*x")
    phase.addGlobalParameter("theta", 0)
    phase.addParticle(0)
    for force in (bond, phase):
        system.addForce(force)
    for _ in range(2):
        system.addParticle(1)
    names = [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]
    for name in names:
        for integrator in create_integrators(openmmstiff):
            context = openmm.Context(system, integrator, openmm.Platform.getPlatform(name))
            context.setPositions([(0, 0, 0), (0.1, 0, 0)])
            integrator.step(100)
            ends = context.getState(positions=True).getPositions()
            length = openmm.unit.norm(ends[1] - ends[0])/openmm.unit.nanometer
            if not abs(length - 0.1) < 0.03:  # ten standard deviations; NaN fails
                sys.exit(f"{type(integrator).__name__} on {name}: a bond of 0.1 nm becomes {length} nm long")
    print(json.dumps({"version": openmm.__version__, "library": openmm.version.openmm_library_path, "platforms": names,
                      "failures": openmm.Platform.getPluginLoadFailures()}))


def find_opencl():
    """Returns the environment variables with which OpenMM computes on an OpenCL, or None."""
    try:
        lines = run(sys.executable, SOURCE/"tests"/"support"/"opencl.py", Path(sys.prefix, "opencl")).splitlines()
    except Failure as failure:
        print(failure)
        return None
    return dict(line.split("=", 1) for line in lines)


def read_libraries(wheel):
    """The paths in a wheel but for its dist-info and Python's files."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if not re.search(r"/$|\.dist-info/|^openmmstiff/|/include/|/cmake/", name)}


def audit(wheel):
    """Returns auditwheel's verdict in words; a library that is neither in the wheel nor in OpenMM's is wrong."""
    found = json.loads(run(sys.executable, "-m", "auditwheel", "show", "--json", wheel))
    outside = sorted(found["external_libs"])
    check(all(name.startswith("libOpenMM") for name in outside), f"these are not in the wheel: {', '.join(outside)}")
    check(found["sym_tag"] in wheel.name, f"its symbols are those of {found['sym_tag']}")
    return f"{found['sym_tag']} but for {', '.join(outside)}"


def make_environment(folder, wheel, interpreter):
    """Returns the Python of a new environment with the package itself."""
    run(interpreter, "-m", "venv", folder)
    python = folder/"bin"/"python"
    run(python, "-m", "pip", "install", wheel)
    return python


def run_trial(python, environment=()):
    """Returns what take_steps() has printed, and what `python -m openmmstiff` does."""
    found = json.loads(run(python, __file__, "--trial", environment=environment).splitlines()[-1])
    check({"Reference", "CPU"} <= set(found["platforms"]), f"there are only {found['platforms']}")
    return found, run(python, "-m", "openmmstiff", environment=environment)


def run_program(python):
    """Build and run the C++ program of the examples, as a user of the environment does."""
    prefix = run(python, "-m", "openmmstiff", "prefix").strip()
    with tempfile.TemporaryDirectory() as folder:
        run("cmake", "-S", SOURCE/"examples"/"minimal"/"cpp", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", folder)
        run(Path(folder, "flexible_water"))


def try_package(python, wheel, opencl):
    """Try the package itself. Returns what was done, in words."""
    plugins = {Path(name).stem for name in read_libraries(wheel) if "/plugins/" in name}
    expected = {f"libOpenMMStiff{name}" for name in ["Reference", "CPU", "Generic", "OpenCL"]}
    check(plugins == expected, f"its plugins are {plugins}")
    found, _ = run_trial(python, opencl or ())
    check(opencl is None or "OpenCL" in found["platforms"], "there is no OpenCL platform")
    run_program(python)
    return f"steps on {', '.join(found['platforms'])}; python -m openmmstiff; find_package(OpenMMStiff)"


def try_device(python, wheel, package):
    """Try the wheel of a device. Returns what was done, in words."""
    platform = re.search("-([a-z]+)-[0-9]+$", package)[1].upper()
    theirs, ours = f"libOpenMM{platform}.so", f"libOpenMMStiff{platform}.so"
    check(read_libraries(wheel) == {f"OpenMM.libs/lib/plugins/{ours}"}, f"it has {read_libraries(wheel)}")
    without, _ = run_trial(python)
    run(python, "-m", "pip", "install", "--no-deps", wheel,
        f"{package.replace('openmm-stiff', 'openmm')}=={without['version']}")
    found, report = run_trial(python)
    library = Path(found["library"])
    check((library/"plugins"/ours).exists() and (library/"plugins"/theirs).exists(), f"{ours} is not beside {theirs}")

    # The libraries of OpenMM and of ours are found where they are installed, and have all that this one calls.
    resolved = run("ldd", "-r", library/"plugins"/ours)
    needed = dict(re.findall(r"(libOpenMM\S+) => (.+?)(?: \(0x.*)?$", resolved, re.MULTILINE))
    for name, path in needed.items():
        check(Path(path).is_relative_to(library), f"{name}: {path}")
    undefined = re.findall(rf"undefined symbol: (\S+)\s+\(\S*{re.escape(ours)}\)", resolved)
    check(not undefined, f"it lacks {', '.join(undefined)}")
    done = [f"steps on {', '.join(found['platforms'])}", f"{'needs' if theirs in needed else 'does not need'} {theirs}"]

    # Without a driver both say so, and nothing else; the report has one hint on it.
    reasons = {FAILURE.match(text) for text in found["failures"] if f"{platform}.so" in text.split(": ")[0]}
    if platform not in found["platforms"]:
        check(reasons and None not in reasons, f"it cannot be loaded: {found['failures']}")
        missing = {reason[2] for reason in reasons if "libOpenMM" not in reason[2]}
        hints = [hint for hint in " ".join(report.split()).split(" - ") if f"{platform}.so: not loaded" in hint]
        check(missing and len(hints) == 1, f"these are not the hints on {missing}: {hints}")
        done.append(f"{', '.join(sorted(missing))} missing, and said so")
    return "; ".join(done)


def main(folder, interpreters):
    base, = folder.glob("openmm_stiff-*.whl")
    opencl = find_opencl()
    rows = [("wheel", "Python", "size", "platform tag", "auditwheel show", "tried")]
    good = True
    trials = [(base, interpreter) for interpreter in [sys.executable, *interpreters]]
    trials += [(wheel, sys.executable) for wheel in sorted(folder.glob("openmm_stiff_*.whl"))]
    for wheel, interpreter in trials:
        package = wheel.name.split("-")[0].replace("_", "-")
        print(f"Trying {package} with {interpreter}", flush=True)
        version = verdict = ""
        try:
            version = run(interpreter, "--version").split()[1]
            verdict = audit(wheel)
            with tempfile.TemporaryDirectory() as scratch:
                python = make_environment(Path(scratch), base, interpreter)
                tried = try_package(python, wheel, opencl) if wheel == base else try_device(python, wheel, package)
        except Failure as failure:
            good, tried = False, f"FAILED: {failure}"
        size, tag = f"{wheel.stat().st_size/1e3:.0f} kB", wheel.stem.split("-", 2)[2]
        rows.append((package, version, size, tag, verdict, tried))
    widths = [max(map(len, column)) for column in list(zip(*rows))[:-1]] + [0]
    print()
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)))
    return good


if __name__ == "__main__":
    if sys.argv[1] == "--trial":
        take_steps()
    else:
        sys.exit(0 if main(Path(sys.argv[1]), sys.argv[2:]) else 1)
