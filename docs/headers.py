"""The Sphinx directive `headers`: the public C++ classes, first those that it names.

With doxygen and breathe each class with all its members; without doxygen a list of classes and methods, by what
bindings.py reads from the same comments.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "openmmapi" / "include"
sys.path.insert(0, str(ROOT / "python"))

from bindings import INTERNAL, Class, Method, one_line, parse, public_headers  # noqa: E402

DOXYGEN = shutil.which("doxygen")
SETTINGS = f"""
PROJECT_NAME = OpenMM-Stiff
INPUT = {INCLUDE / "openmmstiff"} {INCLUDE / "openmmstiff" / "internal"}
INLINE_INHERITED_MEMB = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
JAVADOC_AUTOBRIEF = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = OPENMM_EXPORT_STIFF=
QUIET = YES
WARNINGS = NO
WARN_IF_UNDOCUMENTED = NO
WARN_IF_INCOMPLETE_DOC = NO
WARN_IF_DOC_ERROR = NO
OUTPUT_DIRECTORY = """


def classes():
    """Each public class with its public methods, those of internal bases among them."""
    found = []
    for text in public_headers(INCLUDE).values():
        for item in parse(text):
            if isinstance(item, Class):
                found.append((item, []))
            elif isinstance(item, Method):
                found[-1][1].append(item)
    internal = {item.name: methods for item, methods in found if item.name in INTERNAL}
    return [(item, methods + [method for base in item.bases for method in internal.get(base, [])])
            for item, methods in found if item.name not in INTERNAL]


def in_full(found):
    for item, _ in found:
        yield f".. doxygenclass:: OpenMMStiff::{item.name}\n   :members:\n"


def as_list(found):
    yield "This page was built without doxygen: the comments themselves are in the headers.\n"
    for item, methods in found:
        yield f"**{item.name}**: {first_sentence(item.comment)}\n"
        for method in methods:
            arguments = ", ".join(f"{each.type} {each.name}" for each in method.arguments)
            yield f"- ``{method.name}({arguments})``: {first_sentence(method.comment)}"
        yield ""


def first_sentence(comment):
    return re.sub(r"([*_|])", r"\\\1", one_line(comment).split(". ")[0].rstrip("."))


class Headers(SphinxDirective):
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self):
        first = " ".join(self.arguments).split()
        found = sorted(classes(), key=lambda item: first.index(item[0].name) if item[0].name in first else len(first))
        return self.parse_text_to_nodes("\n".join((in_full if DOXYGEN else as_list)(found)))


def run_doxygen(app):
    folder = Path(app.outdir).parent / "doxygen"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([DOXYGEN, "-"], input=SETTINGS + str(folder), text=True, check=True)
    app.config.breathe_projects = {"OpenMM-Stiff": str(folder / "xml")}
    app.config.breathe_default_project = "OpenMM-Stiff"


def setup(app):
    app.add_directive("headers", Headers)
    if DOXYGEN:
        app.connect("builder-inited", run_doxygen, priority=1)
