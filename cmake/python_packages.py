"""Print where a package of this Python environment keeps its C++ files: `python_packages.py openmm|eigen`.

Prints nothing if the package is missing. Nothing is imported: the package might not load while pip builds in isolation.
"""

import importlib.util
import os
import runpy
import sys


def openmm():
    """The folder with OpenMM's include/ and lib/."""
    spec = importlib.util.find_spec("openmm")
    if spec is None or spec.origin is None:
        return ""
    version = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
    return os.path.dirname(version["openmm_library_path"])


def eigen():
    """The folder of Eigen's headers, in the package cmeel-eigen."""
    for folder in sys.path:
        headers = os.path.join(folder, "cmeel.prefix", "include", "eigen3")
        if os.path.isdir(headers):
            return headers
    return ""


print({"openmm": openmm, "eigen": eigen}[sys.argv[1]]().replace(os.sep, "/"), end="")
