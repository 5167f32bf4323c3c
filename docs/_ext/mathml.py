"""Mathematics as MathML, which browsers show by themselves: no script, and nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

_NAME = re.compile(r"\\operatorname\*?\{([\w\\]+)\}")
"""A function's name, in which underscores are escaped."""


def mathml(tex: str, block: bool = False) -> str:
    """LaTeX as SymPy's printers write it: docutils does not know names with underscores, nor quotation marks."""
    names = _NAME.sub(lambda found: r"\text{" + found[1].replace("\\", "") + "}", tex)
    return tex2mathml(names.replace('"', r'\text{"}'), as_block=block)


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
