"""OpenMM-Stiff: OpenMM integrators that take long steps through stiff bonds, angles and constraints.

The integrators are used as OpenMM's own::

    from openmmstiff import MassPenaltyLangevinIntegrator
    integrator = MassPenaltyLangevinIntegrator(300*kelvin, 1/picosecond, 12*femtoseconds)
    simulation = Simulation(topology, system, integrator)

XmlSerializer and CompoundIntegrator.getIntegrator() return them with their classes, too. An object that was made before
openmmstiff was imported is an openmm.Integrator without the methods of its class; `StiffIntegrator.cast(integrator)`
brings them back.
"""

import os
import warnings

import openmm

from ._version import OPENMM_SERIES as _OPENMM_SERIES, __version__


def _check_openmm():
    """Refuse another minor series of OpenMM, before its libraries and ours meet: that would end in a crash."""
    loaded = openmm.__version__
    if loaded.split(".")[:2] != _OPENMM_SERIES.split("."):
        raise ImportError(
            f"openmmstiff {__version__} was built for OpenMM {_OPENMM_SERIES}, but this is OpenMM {loaded}. Install "
            f"that series (pip install 'openmm=={_OPENMM_SERIES}.*'), or a version of openmm-stiff for this OpenMM.")


_check_openmm()

from . import openmmstiff as _wrapped  # noqa: E402
from .openmmstiff import *  # noqa: E402, F403
from . import _classes  # noqa: E402
from ._examination import examine  # noqa: E402
from ._files import LIBRARIES as _LIBRARIES  # noqa: E402
from ._penalties import MultiplierReporter, penalizeConstraints  # noqa: E402
from ._topology import addPairsFromTopology  # noqa: E402

# The classes of C++, and what is written in Python.
__all__ = sorted([name for name, item in vars(_wrapped).items() if isinstance(item, type) and not name.startswith("_")]
                 + ["MultiplierReporter", "addPairsFromTopology", "examine", "penalizeConstraints"])

for _name in __all__:
    # The public name: what pickles refer to and what help() shows.
    globals()[_name].__module__ = __name__
_classes.install()


def _load_plugins():
    """Load the kernels that `import openmm` has not: it does not look here if OPENMM_PLUGIN_DIR is set."""
    platforms = {openmm.Platform.getPlatform(index).getName() for index in range(openmm.Platform.getNumPlatforms())}
    loaded = {os.path.basename(path) for path in openmm.pluginLoadedLibNames}
    for name in sorted(platforms & {"Reference", "CPU", "OpenCL", "CUDA", "HIP"}) + ["Generic"]:
        library = _LIBRARIES/"lib"/"plugins"/f"libOpenMMStiff{name}.so"
        if library.name in loaded or not library.exists():
            continue
        try:
            openmm.Platform.loadPluginLibrary(str(library))
        except Exception as error:
            warnings.warn(f"{error}. Platforms that need it have no kernels; `python -m openmmstiff` says more",
                          stacklevel=3)


_load_plugins()
