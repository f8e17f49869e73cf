"""Sphinx: `make docs` builds the handbook into build-docs/. Its pages load nothing from the network."""
import re
import shutil
import sys
from functools import partial
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import openmmstiff

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

project, author, copyright = "OpenMM-Stiff", "OpenMM-Stiff developers", "OpenMM-Stiff developers"
version = release = openmmstiff.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_copybutton",
              "headers"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"{project} {release}"
html_theme_options = {"light_css_variables": {      # the longest name of a class fits into one line
    "sidebar-item-font-size": "80%", "sidebar-item-spacing-horizontal": ".75rem"}}
html_static_path = ["_static"]
html_css_files = ["handbook.css"]
pygments_dark_style = "monokai"
html_math_renderer = "mathml"
highlight_language = "text"     # formulas in docstrings
default_role = "code"           # `name` in docstrings
toc_object_entries_show_parents = "hide"

# Pages are those that the code host shows: plain Markdown, in which links go to headings and to files.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
linkcheck_ignore = [r"https://doi\.org/10\.1021/"]        # this publisher refuses robots
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autoclass_content = "both"      # the class, then its constructor
autodoc_inherit_docstrings = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Pages of names that are no more would be warned of.
shutil.rmtree(ROOT / "docs" / "api" / "generated", ignore_errors=True)

# The C++ classes: by doxygen and breathe where there is a doxygen, as a list otherwise (headers.py).
if shutil.which("doxygen"):
    extensions.append("breathe")


def contents(app, name, source):
    """The lists of links on index.md are the contents of the handbook, in their order and with their titles."""
    if name == "index":
        for caption, links in re.findall(r"^## (.+)\n\n((?:- .+\n)+)", source[0], re.MULTILINE):
            entries = re.findall(r"^- \[(.+?)\]\((.+?)\.md\)", links, re.MULTILINE)
            pages = "\n".join(f"{title} <{page}>" for title, page in entries)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def dark_figures(app, name, source):
    """A figure of which there is a dark one has both, and the page shows that of its theme."""
    def both(match):
        text, path = match.groups()
        if not (ROOT / "docs" / f"{path}-dark.png").exists():
            return match[0]
        return "\n".join(f"```{{image}} {path}{suffix}.png\n:alt: {' '.join(text.split())}\n:class: {theme}\n```\n"
                         for suffix, theme in (("", "only-light"), ("-dark", "only-dark")))
    source[0] = re.sub(r"!\[([^]]+)\]\((\S+)\.png\)", both, source[0])


def plain_formulas(app, what, name, item, options, lines):
    """In docstrings code is indented after ::, formulas after an empty line, and |g| is no markup."""
    found, literal = [], False
    for before, line in zip(["-", *lines], lines):
        if line.startswith("  ") and not before:
            if found[-2:][0].endswith("::"):
                found[-2:] = [found[-2][:-1], "", ".. code-block:: python", ""]
            elif not literal:
                found += ["::", ""]
            literal = True
        elif line and not line.startswith("  "):
            literal = False
        found.append(line if literal else line.replace("|", r"\|"))
    lines[:] = found


def mathml(writer, node, display):
    """Formulas as browsers set them themselves."""
    writer.body.append(convert(node.astext(), display=display))
    raise SkipNode


def setup(app):
    app.connect("source-read", contents)
    app.connect("source-read", dark_figures)
    app.connect("autodoc-process-docstring", plain_formulas, priority=1)    # before numpydoc
    inline, block = partial(mathml, display="inline"), partial(mathml, display="block")
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
