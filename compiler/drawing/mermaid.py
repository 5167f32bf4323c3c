"""A graph as a Mermaid flowchart, for pages that render those, such as GitHub and Sphinx."""

from __future__ import annotations

from symgrad.compiler.drawing.boxes import Sketch
from symgrad.compiler.drawing.svg import COLOURS

_SHAPES = {"input": ('(["', '"])'), "output": ('(["', '"])')}
_SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,=()[]_-+%:×·")


def mermaid(sketch: Sketch) -> str:
    """Return the flowchart as text."""
    lines = ["flowchart TD"]
    for i, box in enumerate(sketch.boxes):
        start, end = _SHAPES.get(box.kind, ('["', '"]'))
        title = f"{box.number} {box.title}" if box.number else box.title
        lines.append(f"    n{i}{start}{'<br/>'.join(map(_escaped, (title, *box.lines)))}{end}:::{box.kind}")
    for edge in sketch.edges:
        mark = " ".join(x for x in (f"[{edge.output}]" if edge.output is not None else "", edge.enters) if x)
        label = f'|"{_escaped(mark)}"|' if mark else ""
        lines.append(f"    n{edge.source} -->{label} n{edge.target}")
    used = {box.kind for box in sketch.boxes}
    lines += [f"    classDef {kind} fill:{fill},stroke:{border},color:#1c2430" for kind, (fill, border) in COLOURS.items() if kind in used]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return the text with special characters as Mermaid's numeric codes, such as #35;. Two percent signs would begin a comment."""
    return "".join(c if c in _SAFE else f"#{ord(c)};" for c in text).replace("%%", "#37;#37;")
