"""Build the wheels into a folder: `build_wheels.py FOLDER`.

One is the package itself. Each of the others has the library for a platform that OpenMM has in a package of its own;
those are the extras openmm-stiff-* in pyproject.toml. Everything is compiled once, in build-wheels/, with the Python
that runs this and the OpenMM that it has.
"""

import importlib.metadata
import json
import re
import shutil
import string
import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:     # Python 3.10
    from pip._vendor import tomli as tomllib

SOURCE = Path(__file__).resolve().parent.parent
BUILD = SOURCE/"build-wheels"


def run(module, *arguments):
    """Run a module of this Python; if it fails, with what it said, and this ends, too."""
    done = subprocess.run([sys.executable, "-m", module, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{module} {arguments[0]} has failed.")


def find_devices(settings):
    """The packages (extra, name) of the devices, such as ("cuda12", "openmm-stiff-cuda-12")."""
    for extra, requirements in settings["project"]["optional-dependencies"].items():
        if requirements[0].startswith("openmm-stiff-"):
            yield extra, requirements[0]


def write_project(settings, extra, package):
    """Write the project of a device's package; returns its folder, and that with OpenMM's platform for the device."""
    project, openmm = BUILD/package, BUILD/package.replace("openmm-stiff", "openmm")
    run("pip", "install", "--no-deps", "--upgrade", "--target", openmm,
        f"{openmm.name}=={importlib.metadata.version('openmm')}")
    required, = (text for text in settings["project"]["dependencies"] if text.startswith("openmm="))
    values = {"extra": extra, "package": package, "platform": re.search("-([a-z]+)-[0-9]+$", package)[1].upper(),
              "version": settings["project"]["version"], "openmm": required.replace("openmm", f"openmm[{extra}]"),
              "requires": json.dumps(settings["build-system"]["requires"]), "source": SOURCE}
    template = string.Template(Path(__file__).with_name("device.toml").read_text())
    project.mkdir(exist_ok=True)
    (project/"pyproject.toml").write_text(template.substitute(values))
    shutil.copy(SOURCE/"LICENSE", project)
    return project, openmm/"OpenMM.libs"


def build(project, device_folder=""):
    """Build a project's wheel. The build tree is that of all, and would keep the folder of the one before."""
    print(f"Building the wheel of {project.name if device_folder else 'openmm-stiff'}", flush=True)
    run("pip", "wheel", "--no-deps", "--no-build-isolation", f"--config-settings=build-dir={BUILD/'cmake'}",
        f"--config-settings=cmake.define.OPENMM_DEVICE_DIR={device_folder}", "--wheel-dir", BUILD/"built", project)


def main(folder):
    settings = tomllib.loads((SOURCE/"pyproject.toml").read_text())
    shutil.rmtree(BUILD/"built", ignore_errors=True)
    for wheel in folder.glob("openmm_stiff*.whl"):
        wheel.unlink()
    build(SOURCE)
    for extra, package in find_devices(settings):
        build(*write_project(settings, extra, package))
    # For the platform tag. OpenMM's libraries come with the packages that ours require, so none is to be copied.
    run("auditwheel", "repair", "--exclude", "libOpenMM*.so", "--wheel-dir", folder, *(BUILD/"built").iterdir())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
