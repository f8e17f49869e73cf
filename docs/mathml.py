"""Formulas as MathML: browsers show it by themselves, also without a network."""

from docutils import nodes
from latex2mathml.converter import convert


def append(display, around="{}"):
    def visit(self, node):
        self.body.append(around.format(convert(node.astext(), display=display)))
        raise nodes.SkipNode
    return visit


def setup(app):
    block = append("block", '<div style="padding: 0.5em 0">{}</div>')  # room, or browsers draw a scroll bar
    app.add_html_math_renderer("mathml", (append("inline"), None), (block, None))
    return {"parallel_read_safe": True}
