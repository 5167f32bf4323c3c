"""Graph layout: layers from top to bottom, each ordered so that few edges cross, and each box close to its neighbours.

    layer      the longest path from a source; a box that may move down stands just above its first reader
    far        an edge over many layers is not drawn: a tag with the source's name stands above its target
    bend       an edge over a few layers has a point in each layer between
    order      by the mean position of the neighbours (barycentre), down and up; the order with the fewest crossings is kept
    place      least squares to the mean of the neighbours, with minimal distances between boxes: pool adjacent violators

Apart from sorting, all of it is linear in boxes and bends, with a fixed number of rounds.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_ROUNDS = 12
_GAP, _LAYER_GAP, _MARGIN = 26.0, 44.0, 14.0
_BEND = 10.0, 0.0
_TAG_WEIGHT, _SOURCE_WEIGHT, _BEND_WEIGHT = 0.02, 0.3, 6.0
"""Tags and sources make way for boxes, and long edges tend to be straight."""
TAG_HEIGHT = 20.0


@dataclass
class Node:
    """A box, a tag or a bend of an edge; `weight` is the weight of its preferred position."""

    width: float
    height: float
    layer: int
    weight: float = 1.0
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0

    @property
    def is_bend(self) -> bool:
        return self.height == 0


@dataclass(frozen=True)
class Layout:
    """The nodes, boxes first, and for each edge the nodes that it passes through, beginning with its source or the tag that replaces it."""

    nodes: list[Node]
    routes: list[list[int]]
    tags: dict[int, int]
    """For each edge that starts at a tag, the node of the tag."""
    tops: list[float]
    bottoms: list[float]
    width: float
    height: float


def lay_out(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], tag_widths: Sequence[float], far: int) -> Layout:
    """Return the layout of boxes of these sizes, in topological order, with edges between them; an edge over more than `far` layers starts
    at a tag."""
    layers = _layers(len(sizes), edges)
    nodes = [Node(w, h, layer) for (w, h), layer in zip(sizes, layers, strict=True)]
    routes, tags = _routes(nodes, edges, tag_widths, far)
    for node in nodes[: len(sizes)]:
        node.weight = 1.0 if node.above else _SOURCE_WEIGHT
    rows = _rows(nodes)
    _order(nodes, rows)
    _place(nodes, rows)
    return _measured(nodes, rows, routes, tags)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for s, t in edges:
        above[t].append(s)
        below[s].append(t)
    layers = [0] * count
    for n in range(count):  # in topological order
        layers[n] = max((layers[s] + 1 for s in above[n]), default=0)
    for n in reversed(range(count)):
        held = sum(1 for s in above[n] if above[s] or len(below[s]) > 1)  # a source with no other reader moves, too
        if below[n] and held <= len(below[n]):
            layers[n] = max(layers[n], min(layers[t] for t in below[n]) - 1)
    return layers


def _routes(
    nodes: list[Node], edges: Sequence[tuple[int, int]], tag_widths: Sequence[float], far: int
) -> tuple[list[list[int]], dict[int, int]]:
    routes: list[list[int]] = []
    tags: dict[int, int] = {}
    for e, (s, t) in enumerate(edges):
        route = [s]
        if nodes[t].layer - nodes[s].layer > far:
            tags[e] = len(nodes)
            route = [len(nodes)]
            nodes.append(Node(tag_widths[s], TAG_HEIGHT, nodes[t].layer - 1, _TAG_WEIGHT))
        for layer in range(nodes[route[0]].layer + 1, nodes[t].layer):
            route.append(len(nodes))
            nodes.append(Node(*_BEND, layer, _BEND_WEIGHT))
        route.append(t)
        for a, b in pairwise(route):
            nodes[a].below.append(b)
            nodes[b].above.append(a)
        routes.append(route)
    return routes, tags


def _rows(nodes: list[Node]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(1 + max((n.layer for n in nodes), default=0))]
    for i, n in enumerate(nodes):
        rows[n.layer].append(i)
    return rows


def _order(nodes: list[Node], rows: list[list[int]]) -> None:
    """Sort the rows so that few edges cross."""
    place = {i: float(p) for row in rows for p, i in enumerate(row)}
    ports = {(i, j): k / (len(n.above) + 1) for j, n in enumerate(nodes) for k, i in enumerate(n.above)}
    best, fewest = [list(row) for row in rows], _crossings(nodes, rows, place, ports)
    for turn in range(_ROUNDS):
        down = turn % 2 == 0
        for row in rows if down else rows[::-1]:
            mean = {i: _mean(_neighbours(nodes, i, place, ports, down), place[i]) for i in row}
            row.sort(key=mean.__getitem__)
            place.update({i: float(p) for p, i in enumerate(row)})
        crossings = _crossings(nodes, rows, place, ports)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
        if not fewest:
            break
    rows[:] = best


def _neighbours(nodes: list[Node], i: int, place: dict[int, float], ports: dict[tuple[int, int], float], down: bool) -> list[float]:
    """Return the positions of the neighbours above, or of the ports of those below: arguments enter from left to right."""
    return [place[j] for j in nodes[i].above] if down else [place[j] + ports[i, j] for j in nodes[i].below]


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(nodes: list[Node], rows: list[list[int]], place: dict[int, float], ports: dict[tuple[int, int], float]) -> int:
    """Return the number of crossings between adjacent rows: each edge crosses those before it that end further right."""
    total = 0
    for row in rows:
        ends: list[float] = []
        for i in row:
            below = sorted(_neighbours(nodes, i, place, ports, down=False))
            total += sum(len(ends) - bisect_right(ends, end) for end in below)
            for end in below:
                insort(ends, end)
    return total


def _place(nodes: list[Node], rows: list[list[int]]) -> None:
    for row in rows:
        x = 0.0
        for i in row:
            nodes[i].x = x + nodes[i].width / 2
            x += nodes[i].width + _GAP
    for turn in range(2 * _ROUNDS):
        last = turn >= 2 * _ROUNDS - 2
        for row in rows if turn % 2 == 0 else rows[::-1]:
            _settle(nodes, row, [_wish(nodes, i, both=last, down=turn % 2 == 0) for i in row])


def _wish(nodes: list[Node], i: int, both: bool, down: bool) -> float:
    node = nodes[i]
    near = [nodes[j] for j in (node.above + node.below if both else node.above if down else node.below)]
    weight = sum(n.weight for n in near)  # the weights of `_settle`; otherwise long chains would lean to one side
    return sum(n.weight * n.x for n in near) / weight if near else node.x


def _settle(nodes: list[Node], row: list[int], wishes: list[float]) -> None:
    """Set the positions nearest to the wishes that keep the order and the gaps: isotonic regression, by pooling adjacent violators."""
    offsets = [0.0] if row else []
    for a, b in pairwise(row):
        gap = _GAP / 2 if nodes[a].is_bend or nodes[b].is_bend else _GAP
        offsets.append(offsets[-1] + (nodes[a].width + nodes[b].width) / 2 + gap)
    pools: list[tuple[float, float, int]] = []  # weighted sum of wishes, weight, number of nodes
    for i, wish, offset in zip(row, wishes, offsets, strict=True):
        weight = nodes[i].weight
        pool = (weight * (wish - offset), weight, 1)
        while pools and pools[-1][0] / pools[-1][1] >= pool[0] / pool[1]:
            pool = (pools[-1][0] + pool[0], pools[-1][1] + pool[1], pools.pop()[2] + pool[2])
        pools.append(pool)
    places = [total / weight for total, weight, count in pools for _ in range(count)]
    for i, place, offset in zip(row, places, offsets, strict=True):
        nodes[i].x = place + offset


def _measured(nodes: list[Node], rows: list[list[int]], routes: list[list[int]], tags: dict[int, int]) -> Layout:
    left = min((n.x - n.width / 2 for n in nodes), default=0.0)
    tops, bottoms, y = [], [], _MARGIN
    for row in rows:
        height = max((nodes[i].height for i in row), default=0.0)
        for i in row:
            nodes[i].x += _MARGIN - left
            nodes[i].y = y + height / 2
        tops.append(y)
        bottoms.append(y + height)
        y += height + _LAYER_GAP
    right = max((n.x + n.width / 2 for n in nodes), default=_MARGIN)
    return Layout(nodes, routes, tags, tops, bottoms, right + _MARGIN, y - _LAYER_GAP + _MARGIN)
