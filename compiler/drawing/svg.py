"""A graph as SVG: light boxes with dark text and grey edges, legible on light and dark pages. It has no scripts, style sheets, ids or
links, so that it cannot clash with anything in a page, and all text is escaped."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from html import escape

from symgrad.compiler.drawing.boxes import Box, Edge, Sketch
from symgrad.compiler.drawing.layout import TAG_HEIGHT, Layout, lay_out

COLOURS = {  # fill, border
    "input": ("#d9f2e3", "#3f9c6b"),
    "constant": ("#eceff3", "#8b95a5"),
    "elementwise": ("#dfeafc", "#5b8def"),
    "shape": ("#f3effa", "#9a86c8"),
    "operation": ("#fdeccf", "#d9982f"),
    "output": ("#fbdfe4", "#d3566f"),
}
_TEXT, _SOFT, _EDGE = "#1c2430", "#5c6778", "#8792a3"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_TITLE, _LINE, _SMALL = 12.5, 10.5, 9.5
_CHARACTER = 0.61
"""The width of a character of a monospaced font, relative to the font size."""
_MIDDLE = ' text-anchor="middle"'
_PADDING, _ARROW, _OUTPUT_ROOM = 9.0, 7.0, 28.0
_SMALL_GRAPH, _FAR_IN_SMALL, _FAR = 60, 24, 6


def svg(sketch: Sketch) -> str:
    """Return the picture as SVG text."""
    entering: dict[int, list[int]] = defaultdict(list)
    for e, edge in enumerate(sketch.edges):
        entering[edge.target].append(e)
    sizes = [_size(box, [sketch.edges[e] for e in entering[i]]) for i, box in enumerate(sketch.boxes)]
    tags = [_tag_text(box) for box in sketch.boxes]
    far = _FAR_IN_SMALL if len(sizes) <= _SMALL_GRAPH else _FAR
    layout = lay_out(sizes, [(e.source, e.target) for e in sketch.edges], [_width(t, _LINE) + 2 * _PADDING for t in tags], far)
    ports = _ports(sketch, layout, entering)
    parts = [_edge(edge, layout, e, ports[e], sketch.boxes[edge.source].outputs) for e, edge in enumerate(sketch.edges)]
    parts += [_tag(sketch.boxes[sketch.edges[e].source], tags[sketch.edges[e].source], layout, n) for e, n in layout.tags.items()]
    parts += [_box(box, layout, i) for i, box in enumerate(sketch.boxes)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width:.0f}" height="{layout.height:.0f}"'
        f' viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" style="max-width: 100%; height: auto" font-family="{_FONT}">'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _width(text: str, size: float) -> float:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return (len(text) + wide) * _CHARACTER * size


def _size(box: Box, entering: list[Edge]) -> tuple[float, float]:
    title = _width(box.title, _TITLE) + (_width(box.number, _SMALL) + 8 if box.number else 0)
    lines = max((_width(line, _LINE) for line in box.lines), default=0.0)
    labels = sum(_room(edge) for edge in entering)
    return max(title + 2 * _PADDING, lines + 2 * _PADDING, labels, 56.0), 24.0 + 14.0 * len(box.lines)


def _room(edge: Edge) -> float:
    """Return the width of the end of an edge, with its name."""
    return 16.0 + _width(edge.enters, _SMALL)


def _tag_text(box: Box) -> str:
    return box.title if box.kind == "input" else f"{box.number} {box.title}"


def _ports(sketch: Sketch, layout: Layout, entering: dict[int, list[int]]) -> dict[int, float]:
    """Return where each edge enters its box: side by side, in the order of their previous nodes."""
    ports: dict[int, float] = {}
    for target, edges in entering.items():
        ordered = sorted(edges, key=lambda e: (layout.nodes[layout.routes[e][-2]].x, e))
        rooms = [_room(sketch.edges[e]) for e in ordered]
        x = layout.nodes[target].x - sum(rooms) / 2
        for e, room in zip(ordered, rooms, strict=True):
            ports[e] = x + 8 if sketch.edges[e].enters else x + room / 2
            x += room
    return ports


def _edge(edge: Edge, layout: Layout, e: int, port: float, outputs: int) -> str:
    first, *bends, last = (layout.nodes[n] for n in layout.routes[e])
    x, y = first.x, first.y + first.height / 2
    if edge.output is not None and e not in layout.tags:  # each of several outputs has a position of its own
        x += (edge.output - (outputs - 1) / 2) * min(_OUTPUT_ROOM, (first.width - 2 * _PADDING) / outputs)
    path = [f"M{x:.1f} {y:.1f}V{layout.bottoms[first.layer]:.1f}"]
    labels = [_text(x + 4, y + 10, f"[{edge.output}]", _SMALL, _EDGE)] if edge.output is not None else []
    y = layout.bottoms[first.layer]
    end = last.y - last.height / 2 - _ARROW + 1
    for next_x, top, bottom in [*((n.x, layout.tops[n.layer], layout.bottoms[n.layer]) for n in bends), (port, end, end)]:
        middle = (y + min(top, layout.tops[last.layer] - _ARROW)) / 2
        path.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {top:.1f}V{bottom:.1f}")
        x, y = next_x, bottom
    arrow = f"{x - 3.5:.1f},{y:.1f} {x + 3.5:.1f},{y:.1f} {x:.1f},{y + _ARROW:.1f}"
    labels += [_text(port + 6, end + 3, edge.enters, _SMALL, _EDGE)] if edge.enters else []
    line = f'<path d="{"".join(path)}" fill="none" stroke="{_EDGE}" stroke-width="1.3"/>'
    return f'{line}<polygon points="{arrow}" fill="{_EDGE}"/>{"".join(labels)}'


def _tag(source: Box, text: str, layout: Layout, n: int) -> str:
    """Return the tag that replaces the start of a long edge."""
    node = layout.nodes[n]
    fill, border = COLOURS[source.kind]
    rect = _rect(node.x, node.y, node.width, TAG_HEIGHT, fill, border, TAG_HEIGHT / 2, ' stroke-dasharray="3 2"')
    return f"<g>{_title(source.note)}{rect}{_text(node.x, node.y + 3.5, text, _LINE, _SOFT, _MIDDLE)}</g>"


def _box(box: Box, layout: Layout, i: int) -> str:
    node = layout.nodes[i]
    fill, border = COLOURS[box.kind]
    left, top = node.x - node.width / 2, node.y - node.height / 2
    round_ends = box.kind in ("input", "output")
    parts = [_title(box.note), _rect(node.x, node.y, node.width, node.height, fill, border, node.height / 2.6 if round_ends else 5.0)]
    if box.number:
        parts.append(_text(left + _PADDING, top + 17, box.title, _TITLE, _TEXT, ' font-weight="bold"'))
        parts.append(_text(left + node.width - _PADDING, top + 16, box.number, _SMALL, _SOFT, ' text-anchor="end"'))
    else:
        parts.append(_text(node.x, top + 17, box.title, _TITLE, _TEXT, f' font-weight="bold"{_MIDDLE}'))
    for k, line in enumerate(box.lines):
        x, how = (left + _PADDING, "") if box.number else (node.x, _MIDDLE)
        parts.append(_text(x, top + 31 + 14 * k, line, _LINE, _SOFT, how))
    return f"<g>{''.join(parts)}</g>"


def _rect(x: float, y: float, width: float, height: float, fill: str, border: str, radius: float, more: str = "") -> str:
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}"'
        f' fill="{fill}" stroke="{border}" stroke-width="1.2"{more}/>'
    )


def _text(x: float, y: float, text: str, size: float, colour: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>{escape(text)}</text>'


def _title(note: str) -> str:
    clean = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in note)
    return f"<title>{escape(clean)}</title>"
