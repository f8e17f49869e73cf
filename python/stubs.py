"""Write the stubs from which editors and type checkers know the SWIG module, and the package that it is in.

    stubs.py __init__.py openmmstiff.py output-folder

Both modules are parsed, not imported. openmmstiff.pyi has the classes of the SWIG module with their methods, defaults
and docstrings. Types are those that the docstrings name, such as "float or Quantity" or "list of int", unless the code
has annotations. SWIG's own machinery is left out. __init__.pyi has what __init__.py imports by a public name: checkers
cannot read its __all__, which is computed.
"""

import ast
import re
import sys
from pathlib import Path

HEADER = '''\
"""The types of the SWIG module. Written by stubs.py."""

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, SupportsFloat, SupportsIndex

import openmm.openmm as openmm  # which mypy may be told to read; what it sees of openmm itself is nothing
from numpy import float64
from numpy.typing import NDArray
from openmm import unit
from typing_extensions import Self

from ._conversions import Quantity
'''
# By their names in docstrings, what arguments may be and what results are. Numbers of NumPy's are good arguments, too.
ARGUMENTS = {"bool": "bool", "int": "SupportsIndex", "float": "SupportsFloat", "str": "str", "Quantity": "Quantity",
             "Vec3": "Sequence[SupportsFloat] | NDArray[Any]", "set of int": "set[int] | frozenset[int]"}
RESULTS = {"bool": "bool", "int": "int", "float": "float", "str": "str", "Quantity": "unit.Quantity", "Self": "Self",
           "array": "NDArray[float64]", "list of int": "list[int]"}


def annotation(kind, known):
    """The expression for a type that a docstring names."""
    if kind in known:
        return known[kind]
    if kind.startswith("openmm."):
        return kind
    if kind.startswith("sequence of "):
        return f"Sequence[{annotation(kind.removeprefix('sequence of '), known)}] | NDArray[Any]"
    if " or " in kind:
        return " | ".join(annotation(each, known) for each in kind.split(" or "))
    sys.exit(f"stubs.py: there is no type for '{kind}', which a docstring names")


def entries(node, section):
    """The (name, type) of each entry in a section of a NumPy-style docstring; the name may be empty."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n|\Z)", ast.get_docstring(node) or "", re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^\S.*", found[1], re.MULTILINE) if found else []
    return [head.rpartition(" : ")[::2] for head in heads]


def parsed(expression):
    return ast.parse(expression, mode="eval").body


def declare_method(method):
    """Give a method its types, and take its body."""
    parameters, results = dict(entries(method, "Parameters")), entries(method, "Returns")
    arguments = method.args
    if arguments.vararg:    # SWIG's, of an abstract class: whatever it is called with, it raises an error
        arguments.vararg.annotation = arguments.kwarg.annotation = parsed("NoReturn")
    for argument in arguments.args:
        if argument.annotation is None and argument.arg not in ("self", "cls"):
            if argument.arg not in parameters:
                sys.exit(f"stubs.py: the docstring of {method.name}() does not name the type of {argument.arg}")
            argument.annotation = parsed(annotation(parameters[argument.arg], ARGUMENTS))
    if method.returns is None:
        # What C++ returns through arguments comes as a list, whose elements are of different types.
        method.returns = parsed("None" if not results else "list[Any]" if results[0][0] else
                                annotation(results[0][1], RESULTS))
    method.body = [*method.body[:bool(ast.get_docstring(method))], ast.Expr(ast.Constant(...))]
    return method


def declare_class(item):
    """The stub of a class."""
    values = [f"{name}: ClassVar[{kind}]" for name, kind in entries(item, "Attributes")]
    methods = [declare_method(each) for each in item.body if isinstance(each, ast.FunctionDef)]
    item.body = [item.body[0], *ast.parse("\n".join(values)).body, *methods]
    return ast.unparse(item)


def declare_package(module, classes):
    """The stub of the package: what it imports by public names, as its own."""
    imports = [item for item in module.body if isinstance(item, ast.ImportFrom) and item.module]
    names = classes
    for item in imports:
        public = [each.name for each in item.names if not re.match("_[^_]", each.asname or each.name)]
        item.names = [ast.alias(name, None if name == "*" else name) for name in public]
        names = names + public
    exported = sorted(name for name in names if name[0].isalpha())
    module.body = [module.body[0], *(item for item in imports if item.names),
                   *ast.parse(f"__all__ = {exported}").body]
    return ast.unparse(module)


def main(package, module, folder):
    """Write both stubs."""
    package, module = (ast.parse(Path(path).read_text()) for path in (package, module))
    classes = [item for item in module.body if isinstance(item, ast.ClassDef)]
    public = [each.name for each in classes if not each.name.startswith("_")]
    bases = {ast.unparse(base) for each in classes if each.name in public for base in each.bases}
    classes = [each for each in classes if each.name in {*public, *bases}]
    texts = {"openmmstiff.pyi": "\n\n".join([HEADER, *map(declare_class, classes)]),
             "__init__.pyi": declare_package(package, public)}
    for name, text in texts.items():
        (Path(folder)/name).write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
