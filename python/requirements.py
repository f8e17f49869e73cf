"""Print what pyproject.toml asks for, one requirement a line: `requirements.py build run test examples`.

`build` is for pip's --no-build-isolation, `run` for the package itself; other words name its extras.
"""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:     # Python 3.10
    from pip._vendor import tomli as tomllib

settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
groups = {
    # scikit-build-core asks pip for the last two if the system lacks them; without isolation nobody does.
    "build": settings["build-system"]["requires"] + ["cmake", "ninja"],
    "run": settings["project"]["dependencies"],
    **settings["project"]["optional-dependencies"],
}
print("\n".join(requirement for group in sys.argv[1:] for requirement in groups[group]))
