"""Formulas as MathML: browsers show it by themselves, also without a network."""

from docutils import nodes
from latex2mathml.converter import convert


def append(display):
    def visit(self, node):
        self.body.append(convert(node.astext(), display=display))
        raise nodes.SkipNode
    return visit


def setup(app):
    app.add_html_math_renderer("mathml", (append("inline"), None), (append("block"), None))
    return {"parallel_read_safe": True}
