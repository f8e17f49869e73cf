"""Sphinx: `make docs` builds the handbook into build-docs/."""
import shutil
import sys
from pathlib import Path

import openmmstiff

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

project, author, copyright = "OpenMM-Stiff", "OpenMM-Stiff developers", "OpenMM-Stiff developers"
version = release = openmmstiff.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinxcontrib.mermaid", "headers",
              "mathml"]
html_theme = "furo"
html_title = f"{project} {release}"
highlight_language = "text"     # formulas in docstrings

# Pages are those that the code host shows: plain Markdown, in which links go to headings and to files.
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autoclass_content = "both"      # the class, then its constructor
autodoc_inherit_docstrings = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Old names, which only warn.
for class_name, names in openmmstiff._wrapped._OLD_NAMES.items():
    for name in names:
        delattr(getattr(openmmstiff, class_name), name)

# The C++ classes: by doxygen and breathe where there is a doxygen, as a list otherwise (headers.py).
if shutil.which("doxygen"):
    extensions.append("breathe")


def plain_formulas(app, what, name, item, options, lines):
    """In docstrings formulas stand indented after an empty line, and |g| is no markup."""
    found, literal = [], False
    for before, line in zip(["-", *lines], lines):
        if line.startswith("  ") and not before:
            found += [] if literal else ["::", ""]
            literal = True
        elif line and not line.startswith("  "):
            literal = False
        found.append(line if literal else line.replace("|", r"\|"))
    lines[:] = found


def setup(app):
    app.connect("autodoc-process-docstring", plain_formulas, priority=1)    # before numpydoc
