"""The types of the package: stubs that agree with the classes, and checkers that know right uses from wrong ones."""

import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import openmmstiff
import pytest
from conftest import CLASSES

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT/"pyproject.toml"
PACKAGE = Path(openmmstiff.__file__).parent
STUBS = {node.name: node for node in ast.parse((PACKAGE/"openmmstiff.pyi").read_text()).body
         if isinstance(node, ast.ClassDef)}
# SWIG's machinery, a class inside of a function, the metaclass of a base without types, and functions behind a cache, of
# which stubtest asks.
LEFT_OUT = (r"openmmstiff\.openmmstiff\.\w+\.(thisown|__swig_destroy__)", r"openmmstiff\.tasks\.Paths@\d+",
            r"openmmstiff\.mcmc\.MassPenaltyMove",
            r"openmmstiff\._benchmark\._(amoeba_box|chain_box|helix_box|molecules|pdb_box|step_once|water_box)")

# What mypy and pyright are to find, and nothing else. Both take the classes of OpenMM from its own code.
USES = """
import numpy
from openmm import unit
from openmmstiff import MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator
from openmmstiff import examine, no_such_name  # wrong


def use(temperature: unit.Quantity, vector: numpy.ndarray) -> None:
    integrator = MassPenaltyLangevinIntegrator(temperature, 1, 0.008)
    MassPenaltyLangevinIntegrator(vector.max(), 1, stepSize=numpy.float32(0.008))
    MassPenaltyLangevinIntegrator("300", 1, 0.008)  # wrong
    MassPenaltyLangevinIntegrator(300, 1)  # wrong
    MassPenaltyLangevinIntegrator(300, 1, 0.008, step=1)  # wrong
    StiffIntegrator(300)  # wrong
    integrator.setTemperature(integrator.getTemperature())
    integrator.setTemprature(300)  # wrong
    integrator.setIntegrationForceGroups({0, 1})
    integrator.setIntegrationForceGroups([0, 1])  # wrong
    integrator.addPair(numpy.argmax(vector), 1, 2.5)
    integrator.addPair(0.5, 1, 2.5)  # wrong
    integrator.step(len(vector))
    integrator.getNumPairs() + "1"  # wrong
    method: int = ZhangSkeelIntegrator.Newmark
    method = ZhangSkeelIntegrator.Newmrak  # wrong
    ZhangSkeelIntegrator.cast(integrator).setMethod(method)
    SpookIntegrator(0.001).addVelocityConstraint([0], ["1", 0, 0])
    SpookIntegrator(0.001).addVelocityConstraint([0], 1)  # wrong
    examine("simulation", temperature=300)[0]  # wrong
"""


def run_tool(name, *arguments, folder=ROOT):
    """The exit code of a module that is a program, and what it says."""
    result = subprocess.run([sys.executable, "-m", name, *map(str, arguments)], cwd=folder, capture_output=True,
                            text=True, timeout=600, env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    return result.returncode, result.stdout + result.stderr


def finds_no_fault(result):
    status, text = result
    assert status == 0, text


@pytest.fixture
def mypy(cache, worker_id):
    """Runs mypy in a folder; what it has learnt of NumPy and OpenMM is kept for its next run."""
    settings = "--config-file", SETTINGS, "--cache-dir", cache.mkdir(f"mypy-{worker_id}")
    return lambda folder, *arguments: run_tool("mypy", *settings, *(arguments or ["."]), folder=folder)


@pytest.fixture
def pyright():
    """Runs pyright in a folder, with its settings and the packages of this Python."""
    status, text = run_tool("pyright", "--version")
    if status != 0:
        pytest.skip(f"pyright does not start: {text.strip()}")
    return lambda folder: run_tool("pyright", "--pythonpath", sys.executable, folder=folder)


# ---- Stubs and classes ----

def test_stubs_agree_with_the_package(tmp_path):
    """Classes, methods, names and defaults of arguments, and values of enumerations, in both directions."""
    (tmp_path/"left-out").write_text("\n".join(LEFT_OUT))
    finds_no_fault(run_tool("mypy.stubtest", "openmmstiff", "--mypy-config-file", SETTINGS, "--concise",
                            "--allowlist", tmp_path/"left-out"))


def test_stubs_have_the_docstrings():
    for cls in CLASSES:
        stub = STUBS[cls.__name__]
        methods = [node for node in stub.body if isinstance(node, ast.FunctionDef) and not node.args.vararg]
        for node, item in [(stub, cls), *((method, vars(cls)[method.name]) for method in methods)]:
            found = ast.get_docstring(node) or ""
            assert found == inspect.cleandoc(item.__doc__ or ""), (cls, node.name)
            assert found or (node.name.startswith("__") and node.name != "__init__"), (cls, node.name)


def test_whatever_is_public_in_python_has_types():
    modules = [importlib.import_module(f"openmmstiff.{found.name}") for found in pkgutil.iter_modules([str(PACKAGE)])
               if not found.name.startswith("_") and found.name != "openmmstiff"]
    items = [item for module in modules for name, item in vars(module).items()
             if getattr(item, "__module__", "") == module.__name__ and not name.startswith("_")]
    items += [getattr(openmmstiff, name) for name in openmmstiff.__all__ if name not in STUBS]
    assert len(items) > len(modules) > 1
    for item in items:
        members = vars(item) if inspect.isclass(item) else {item.__name__: item}
        for name, member in members.items():
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
                arguments = set(inspect.signature(function).parameters) - {"self", "cls"}
                assert function.__annotations__.keys() == arguments | {"return"}, function.__qualname__


# ---- Checkers ----

@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_tell_right_uses_from_wrong_ones(checker, request, tmp_path):
    (tmp_path/"uses.py").write_text(USES)
    _, text = request.getfixturevalue(checker)(tmp_path)
    found = {int(number) for number in re.findall(r"uses\.py:(\d+)\b.* error: ", text)}
    assert found == {number for number, line in enumerate(USES.splitlines(), 1) if line.endswith("# wrong")}, text


def test_mypy_passes_the_examples_and_the_package(mypy):
    finds_no_fault(mypy(ROOT, "examples"))
    finds_no_fault(mypy(ROOT, "--package", "openmmstiff"))


def test_pyright_passes_the_examples_and_the_package(pyright, tmp_path):
    """Of this a copy, for pyright leaves out what is in a virtual environment; and no Python that has a stub."""
    finds_no_fault(pyright(ROOT))
    shutil.copytree(PACKAGE, tmp_path/"openmmstiff", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    settings = {"extends": str(SETTINGS), "include": ["openmmstiff"],
                "ignore": [f"openmmstiff/{stub.stem}.py" for stub in PACKAGE.glob("*.pyi")]}
    (tmp_path/"pyrightconfig.json").write_text(json.dumps(settings))
    finds_no_fault(pyright(tmp_path))
