"""Files: where the libraries are, and those of a System that commands read."""

from pathlib import Path

import openmm
from openmm import app

from . import openmmstiff as _wrapped

# OpenMM's folder in a Python environment, with lib/ and include/; pip installs our libraries and headers there, too.
LIBRARIES = Path(_wrapped.__file__).absolute().parents[1]/"OpenMM.libs"


def readSystem(path):
    """The System in a file (a Path) that XmlSerializer has written; a ValueError if there is none in it."""
    try:
        system = openmm.XmlSerializer.deserialize(path.read_text())
    except (openmm.OpenMMException, ValueError) as error:
        raise ValueError(f"'{path}' is not what XmlSerializer writes of a System: {error}") from error
    if not isinstance(system, openmm.System):
        raise ValueError(f"'{path}' has a {type(system).__name__}, not a System")
    return system


def readStructure(path):
    """
    The PDBFile or PDBxFile, with topology and positions, of a file (a Path): PDBx/mmCIF if its name ends in .cif,
    .mmcif or .pdbx, else PDB. A ValueError if it is something else.
    """
    read = app.PDBxFile if path.suffix.lower() in (".cif", ".mmcif", ".pdbx") else app.PDBFile
    try:
        return read(str(path))
    except OSError:
        raise
    except Exception as error:      # whatever a reader meets in a file of another kind
        raise ValueError(f"'{path}' cannot be read as a structure: {error}") from error
