"""Read the public C++ headers, those that OpenMMStiff.h lists, and write what SWIG needs to know of them.

    bindings.py include-folder bindings.i

bindings.i includes each header, and lists the integrators that can be created, for SWIG to tell one from another. For
each class and public method it gets

- a docstring in NumPy's style, from the comment in the header, with types that stubs.py reads;
- if all types are known (below), the method in Python, with the arguments' names, and with conversions: a `double` has
  the unit that its comment names in brackets, such as [ps], or is a plain number if there is none; an `int` named
  `groups` holds the bit flags of force groups, for which Python takes a set, too, and one named `steps` is not
  negative; for strings whose comment says [expression] numbers will do; enumerations are integers, their values
  attributes of the class; what C++ returns through arguments, such as an `int&`, comes back in a list. step() issues the
  warning that it has left.

Static methods stay as SWIG makes them, but for conversions of their arguments, and others altogether; stiff.i may then
say more with %extend or %feature.
"""

import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

VECTORS, NUMBERS, INTEGERS = "std::vector<OpenMM::Vec3>", "std::vector<double>", "std::vector<int>"
# What C++ returns through arguments of these types comes back in a list; the values are the types in Python.
RESULTS = {"int&": "int", "double&": "float", "std::string&": "str", "OpenMM::Vec3&": "Vec3",
           "std::vector<int>&": "list of int", "std::vector<std::string>&": "list of str"}
WIDTH = 100
# What C++ has public for the classes and the wrappers here begins with an underscore in Python.
INTERNAL = {"LangevinThermostat", "StiffForceSelection", "takeWarning"}


@dataclass
class Class:
    name: str
    bases: list         # the names of this plugin's
    comment: str

    def directive(self, enumerations):
        text = fill(python_words(self.comment))
        if enumerations:
            text += "\n\nAttributes\n----------\n" + "\n".join(each.documentation() for each in enumerations)
        return (f'%feature("docstring") OpenMMStiff::{self.name} %{{{text}%}}\n'
                + renaming(f"OpenMMStiff::{self.name}", self.name))


@dataclass
class Enumeration:
    name: str
    values: list        # of (name, description)

    def documentation(self):
        return "\n".join(entry(f"{name} : int", description) for name, description in self.values)


@dataclass
class Argument:
    type: str           # as in C++; "enum" for an enumeration
    name: str
    default: str
    description: str

    @property
    def unit(self):
        return unit_in(self.description)

    def is_result(self):
        return self.type in RESULTS

    def is_groups(self):
        return self.type == "int" and self.name == "groups"

    def is_expression(self):
        return self.unit == "expression"

    def signature(self):
        default = {"true": "True", "false": "False"}.get(self.default, self.default)
        return f"{self.name}={default}" if default else self.name

    def conversion(self):
        """The Python expression for what C++ is passed."""
        if self.is_groups():
            remedy = python_words(re.search(r"call .* to restore the default", self.description)[0])
            return f'_conversions.group_mask("{self.name}", {self.name}, "{remedy}")'
        if self.type == "int" and self.name == "steps":
            return f'_conversions.count("{self.name}", {self.name})'
        text = "expression" if self.is_expression() else "string"
        return {
            "double": f'_conversions.number("{self.name}", {self.name}, "{self.unit}")',
            "int": f'_conversions.integer("{self.name}", {self.name})',
            "enum": f'_conversions.integer("{self.name}", {self.name})',
            "bool": f'_conversions.boolean("{self.name}", {self.name})',
            "const std::string&": f'_conversions.{text}("{self.name}", {self.name})',
            "const std::vector<int>&": f'_conversions.integers("{self.name}", {self.name})',
            "const std::vector<std::string>&": f'_conversions.{text}s("{self.name}", {self.name})',
            "const OpenMM::Vec3&": f'_conversions.vector("{self.name}", {self.name}, "{self.unit}")',
            "OpenMM::System&": f'_conversions.instance("{self.name}", {self.name}, openmm.System)',
            "const OpenMM::Context&": f'_conversions.instance("{self.name}", {self.name}, openmm.Context)',
        }.get(self.type)

    def result(self):
        """The Python expression for what C++ returned through this argument."""
        if self.type == "OpenMM::Vec3&":
            return f'_conversions.quantity(openmm.Vec3(*{self.name}), "{self.unit}")'
        if self.type.startswith("std::vector"):
            return f"list({self.name})"
        return f'_conversions.quantity({self.name}, "{self.unit}")' if self.unit else self.name

    def documentation(self):
        string = "str or float" if self.is_expression() else "str"
        kind = {"double": "float or Quantity" if self.unit else "float", "const std::string&": string, "enum": "int",
                "OpenMM::System&": "openmm.System", "const OpenMM::Context&": "openmm.Context",
                "const std::vector<int>&": "sequence of int", "const OpenMM::Vec3&": "Vec3 or Quantity",
                "const std::vector<std::string>&": f"sequence of {string}"}
        if self.is_result():
            kind = "Quantity" if self.unit else RESULTS[self.type]
        else:
            kind = "int or set of int" if self.is_groups() else kind.get(self.type, self.type)
        text = self.description
        if self.is_groups():
            text = text.replace(";", ", or the set of the groups' indices, from 0 to 31;", 1)
        return entry(f"{self.name} : {kind}", text)


@dataclass
class Method:
    class_name: str
    name: str
    type: str           # of the result, as an Argument's; empty for a constructor
    arguments: list
    comment: str
    static: bool

    def result_unit(self):
        return unit_in(self.result_description())

    def result_description(self):
        """What @return says, or else what the first sentence says that the method gets."""
        match = re.search(r"@return\s+(.*)", self.comment, re.DOTALL)
        if match:
            return one_line(match[1])
        sentence = re.match(r"Get (.*?)\.(\s|$)", one_line(self.comment))
        return sentence[1] if sentence else ""

    def result_kind(self):
        kinds = {"double": "Quantity" if self.result_unit() else "float", "std::string": "str",
                 "enum": "int", NUMBERS: "array", INTEGERS: "list of int", VECTORS: "Quantity"}
        return kinds.get(self.type, self.type)

    def documentation(self):
        paragraphs = [fill(python_words(re.split(r"^@", self.comment, flags=re.MULTILINE)[0]))]
        parameters = [argument.documentation() for argument in self.arguments if not argument.is_result()]
        results = [argument.documentation() for argument in self.arguments if argument.is_result()]
        if self.type == VECTORS:
            parameters.append(entry("asNumpy : bool",
                                    "whether to return an array of shape (particles, 3) instead of a list of Vec3"))
        if parameters:
            paragraphs.append("Parameters\n----------\n" + "\n".join(parameters))
        if results:
            paragraphs.append("Returns\n-------\n" + "\n".join(results))
        elif self.type not in ("", "void"):
            paragraphs.append("Returns\n-------\n" + entry(self.result_kind(), self.result_description()))
        return "\n\n".join(paragraphs)

    def python(self):
        """The method in Python, or None if it has types that are not known here."""
        given = [argument for argument in self.arguments if not argument.is_result()]
        results = [argument for argument in self.arguments if argument.is_result()]
        values = [argument.conversion() for argument in given]
        known = ("", "void", "int", "enum", "bool", "double", "std::string", VECTORS, NUMBERS, INTEGERS)
        if self.static or None in values or self.type not in known:
            return None
        parameters = ["self"] + [argument.signature() for argument in given]
        call = f"$action({', '.join((['self'] if self.type else []) + values)})"
        if self.type == "":
            body = f"_openmmstiff.{self.class_name}_swiginit(self, {call})"
        elif results:
            names = ", ".join(argument.name for argument in results)
            converted = ", ".join(argument.result() for argument in results)
            body = f"{names} = {call}\n    return [{converted}]"
        elif self.type == "double" and self.result_unit():
            body = f'return _conversions.quantity({call}, "{self.result_unit()}")'
        elif self.type == VECTORS:
            parameters.append("asNumpy=False")
            body = f'return _conversions.vectors({call}, "{self.result_unit()}", asNumpy)'
        elif self.type == NUMBERS:
            body = f"return _conversions.array({call})"
        elif self.type == INTEGERS:
            body = f"return list({call})"
        elif self.name == "step":
            body = f"{call}\n    _conversions.warn(self._takeWarning())"
        else:
            body = f"return {call}"
        name = python_name(self.name) if self.type else "__init__"
        docstring = textwrap.indent(f'r"""\n{self.documentation()}\n"""', "    ")
        return f"def {name}({', '.join(parameters)}):\n{docstring}\n    {body}\n"

    def directive(self):
        target = f"OpenMMStiff::{self.class_name}::{self.name}"
        python = self.python()
        if python is None:
            converted = [f"{each.name} = {each.conversion()}" for each in self.arguments if self.static]
            return (f"%feature(\"docstring\") {target} %{{{self.documentation()}%}}\n"
                    + (f"%feature(\"pythonprepend\") {target} %{{\n" + "\n".join(converted) + "\n%}\n"
                       if converted else ""))
        return f"%feature(\"shadow\") {target} %{{\n{python}%}}\n" + renaming(target, self.name)


def python_name(name):
    return "_" + name if name in INTERNAL else name


def renaming(target, name):
    return f"%rename({python_name(name)}) {target};\n" if name in INTERNAL else ""


def one_line(text):
    return " ".join(text.split())


def unit_in(description):
    match = re.search(r"\[([^\]]+)\]", description)
    return match[1] if match else ""


def python_words(text):
    """C++ names and values as they are written in Python."""
    text = text.replace("OpenMM::", "openmm.").replace("::", ".")
    return re.sub(r"\b(true|false)\b", lambda word: word[0].capitalize(), text)


def fill(text):
    """Wrap paragraphs anew; lines that stand indented (formulas) stay as they are."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(paragraph if paragraph.startswith("  ") else textwrap.fill(one_line(paragraph), WIDTH)
                       for paragraph in paragraphs)


def entry(head, description):
    """An item of a NumPy-style list."""
    body = textwrap.fill(python_words(one_line(description)), WIDTH - 4, initial_indent="    ",
                         subsequent_indent="    ")
    return f"{head}\n{body}" if description else head


def comment_text(comment):
    """The text of a /** comment */."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.splitlines()]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def parse_arguments(declaration, comment, enumerations):
    descriptions = dict(re.findall(r"^@param\s+(\w+)\s+(.*?)(?=^@|\Z)", comment, re.DOTALL | re.MULTILINE))
    arguments = []
    for text in filter(None, (part.strip() for part in declaration.split(","))):
        text, _, default = (part.strip() for part in text.partition("="))
        kind, name = re.fullmatch(r"(.*?)\s*(\w+)", text).groups()
        kind = "enum" if kind in enumerations else kind
        arguments.append(Argument(kind, name, default, one_line(descriptions.get(name, ""))))
    return arguments


def parse_enumeration(name, body):
    values = re.findall(r"/\*\*(.*?)\*/\s*(\w+)", body, re.DOTALL)
    return Enumeration(name, [(value, one_line(comment_text(comment))) for comment, value in values])


def parse(header):
    """Yield Class, Enumeration and Method for what is public in each class and has a comment."""
    class_name, public, enumerations = None, False, set()
    pattern = r"""/\*\*(?:[^*]|\*(?!/))*\*/\s*enum\s(?P<enumeration>\w+)\s\{(?P<values>.*?)\};
                | /\*\*(?P<comment>.*?)\*/\s*(?P<declaration>[^;{]*)[;{]
                | ^(?P<access>public|protected|private):"""
    for match in re.finditer(pattern, header, re.DOTALL | re.MULTILINE | re.VERBOSE):
        if match["access"]:
            public = match["access"] == "public"
            continue
        if match["enumeration"]:
            enumerations.add(match["enumeration"])
            yield parse_enumeration(match["enumeration"], match["values"])
            continue
        comment, declaration = comment_text(match["comment"]), one_line(match["declaration"])
        new_class = re.match(r"class OPENMM_EXPORT_STIFF (\w+)(.*)", declaration)
        if new_class:
            class_name, public, enumerations = new_class[1], False, set()
            yield Class(class_name, re.findall(r"public (\w+)", new_class[2]), comment)
            continue
        # A comment may be followed by an access label and then by the declaration.
        method = re.match(r"(?:explicit |virtual )?(?P<type>.*?)\s*\b(?P<name>\w+)\((?P<arguments>.*?)\)", declaration)
        if public and method:
            kind = method["type"].removeprefix("static ")
            yield Method(class_name, method["name"], "enum" if kind in enumerations else kind,
                         parse_arguments(method["arguments"], comment, enumerations), comment,
                         declaration.startswith("static "))


def public_headers(folder):
    """The headers in OpenMMStiff.h and those of internal base classes, each after those that it includes itself."""
    listed = re.findall(r'^#include "openmmstiff/(\w+\.h)"', (folder/"OpenMMStiff.h").read_text(), re.MULTILINE)
    ordered = {}

    def add(name):
        text = (folder/"openmmstiff"/name).read_text()
        for included in re.findall(r'^#include "((?:internal/)?(\w+)\.h)"', text, re.MULTILINE):
            if (included[0] in listed or included[1] in INTERNAL) and included[0] not in ordered:
                add(included[0])
        ordered[name] = text

    for name in listed:
        if name not in ordered:
            add(name)
    return ordered


def main(include_folder, output):
    directives, includes, classes, created = [], [], [], set()
    for header, text in public_headers(Path(include_folder)).items():
        methods = set()
        for item in parse(text):
            if isinstance(item, Class):
                classes.append((item, []))
            elif isinstance(item, Enumeration):
                classes[-1][1].append(item)
            else:
                if (item.class_name, item.name) in methods:
                    sys.exit(f"{header}: {item.class_name}.{item.name}() is overloaded: bindings.py cannot tell which")
                methods.add((item.class_name, item.name))
                if item.type == "":
                    created.add(item.class_name)
                directives.append(item.directive())
        includes.append(f'%include "openmmstiff/{header}"')
    directives += [each.directive(enumerations) for each, enumerations in classes]
    integrators = ["StiffIntegrator"]
    for each, _ in classes:
        if set(each.bases) & set(integrators):
            integrators.append(each.name)
    derived_first = ", ".join(f"OpenMMStiff::{name}" for name in reversed(integrators) if name in created)
    factory = f"%factory(OpenMM::Integrator* _downcast, {derived_first});"
    Path(output).write_text("\n".join([*directives, *includes, factory, ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
