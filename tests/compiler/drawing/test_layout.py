"""The geometry of pictures: text fits into its box, edges join the boxes that they are between, and margins are equal on all sides."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from row_graphs import row_graphs
from scipy.optimize import isotonic_regression

from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.drawing.boxes import sketch
from symgrad.compiler.drawing.layout import Node, _crossings, _settle, lay_out
from symgrad.compiler.drawing.svg import _title, svg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value

SVG = "{http://www.w3.org/2000/svg}"
ADVANCE = 0.6
"""The width of a character of the usual monospaced fonts, in font sizes."""
X = input_value(0, (2, 3), np.float64)


def chain(n):
    value = start = input_value(0, (), np.float64)
    for _ in range(n):
        value = value * xp.sin(value) + 1
    return Graph([start], [value])


def several_outputs():
    values, indices = xp.max_along(X, axis=1, keepdims=False)
    taken = xp.take_along(X, xp.reshape(indices, shape=(2, 1)), axis=1)
    return Graph([X], [values - 2, taken], ["a_label_of_a_certain_length"])


GRAPHS = {
    "outputs": several_outputs(), "tags": grad(chain(40)), "bends": grad(chain(3)),
    **{name: row_graphs()[name][0][0] for name in ("lstm", "convolution", "cat", "where")},
}  # fmt: skip


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


def pictured(graph):
    """The groups of boxes and tags as (left, top, right, bottom) with their texts, the paths of edges as points, and the arrows."""
    root = ElementTree.fromstring(graph.draw())
    boxes = []
    for group in root.iter(f"{SVG}g"):
        x, y, width, height = numbers(group.find(f"{SVG}rect"), "x", "y", "width", "height")
        boxes.append(((x, y, x + width, y + height), group.findall(f"{SVG}text"), group))
    arrows = [[tuple(map(float, p.split(","))) for p in a.get("points").split()] for a in root.iter(f"{SVG}polygon")]
    return root, boxes, [points(p.get("d")) for p in root.iter(f"{SVG}path")], arrows


def points(path):
    """The points of a path of the commands M, V and C, without the inner control points of curves."""
    found = []
    for command, text in re.findall("([MVC])([-0-9. ]+)", path):
        given = list(map(float, text.split()))
        found.append((found[-1][0], given[0]) if command == "V" else tuple(given[-2:]))
    return found


def span(text):
    """The left and right end of a text."""
    x, size = numbers(text, "x", "font-size")
    width = ADVANCE * size * len(text.text)
    left = {"middle": x - width / 2, "end": x - width}.get(text.get("text-anchor"), x)
    return left, left + width


@pytest.mark.parametrize("name", GRAPHS)
def test_texts_fit_into_their_boxes_and_do_not_overlap(name):
    _, boxes, _, _ = pictured(GRAPHS[name])
    for (left, top, right, bottom), texts, _ in boxes:
        for text in texts:
            y, size = numbers(text, "y", "font-size")
            begin, end = span(text)
            assert left + 5 < begin < end < right - 5
            assert top < y - 0.7 * size
            assert y + 0.2 * size < bottom
        for one, other in itertools.combinations(texts, 2):
            (a, b), (c, d) = span(one), span(other)
            apart = abs(float(one.get("y")) - float(other.get("y")))
            assert apart > 10 or b < c or d < a


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_lead_down_from_the_bottom_of_a_box_to_an_arrow_at_the_top_of_another(name):
    _, boxes, paths, arrows = pictured(GRAPHS[name])
    rects = [rect for rect, _, _ in boxes]
    for path, (left, right, tip) in zip(paths, arrows, strict=True):
        x, y = path[0]
        assert any(l0 < x < r0 and abs(y - b0) < 0.2 for l0, _, r0, b0 in rects)
        assert path[-1] == pytest.approx(((left[0] + right[0]) / 2, left[1]), abs=0.2)
        assert left[1] == right[1] < tip[1]
        assert tip[0] == pytest.approx((left[0] + right[0]) / 2, abs=0.1)
        assert right[0] > left[0]
        assert all(a[1] <= b[1] for a, b in itertools.pairwise(path))
        inside = [rect for rect in rects for a, b in itertools.pairwise(path) if _passes(rect, a, b)]
        assert not inside


def _passes(rect, a, b):
    """Whether a vertical part of an edge runs through the inside of a box."""
    left, top, right, bottom = rect
    return a[0] == b[0] and left < a[0] < right and a[1] < bottom - 1 and b[1] > top + 1


@pytest.mark.parametrize("name", GRAPHS)
def test_margins_are_equal_on_all_sides(name):
    root, boxes, paths, _ = pictured(GRAPHS[name])
    width, height = numbers(root, "width", "height")
    rects = np.array([rect for rect, _, _ in boxes])
    bends = [x for path in paths for x, _ in path]
    margins = [min(*rects[:, 0], *bends), rects[:, 1].min(), width - max(*rects[:, 2], *bends), height - rects[:, 3].max()]
    assert min(margins) > 10
    assert margins[1] == pytest.approx(margins[3], abs=1)
    if name != "tags":  # there bends may stand outermost
        assert margins == pytest.approx([margins[1]] * 4, abs=6)
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_ends_of_edges_stand_side_by_side_with_room_for_their_names():
    for graph in (GRAPHS["lstm"], GRAPHS["where"], GRAPHS["outputs"]):
        _, boxes, _, arrows = pictured(graph)
        for (left, top, right, _), _, _ in boxes:
            tips = sorted(tip[0] for *_, tip in arrows if left < tip[0] < right and abs(tip[1] - top) < 2)
            assert all(b - a >= 15.9 for a, b in itertools.pairwise(tips))
            if len(tips) == 1 and graph is not GRAPHS["where"]:
                assert left + 8 <= tips[0] <= right - 8


def test_the_only_argument_enters_in_the_middle():
    _, boxes, _, arrows = pictured(Graph([X], [xp.sin(X)]))
    middles = sorted((left + right) / 2 for (left, _, right, _), *_ in boxes)
    assert [tip[0] for *_, tip in arrows] == pytest.approx([middles[0]] * 2, abs=0.2)


def test_several_outputs_leave_evenly_about_the_middle():
    root, boxes, paths, _ = pictured(several_outputs())
    (rect,) = [rect for rect, texts, _ in boxes if texts[0].text == "max_along"]
    starts = sorted(path[0][0] for path in paths if abs(path[0][1] - rect[3]) < 0.2 and rect[0] < path[0][0] < rect[2])
    assert len(starts) == 2
    assert sum(starts) / 2 == pytest.approx((rect[0] + rect[2]) / 2, abs=0.1)
    marks = {t.text: float(t.get("x")) for t in root.iter(f"{SVG}text") if t.text in ("[0]", "[1]")}
    assert [marks["[0]"] - starts[0], marks["[1]"] - starts[1]] == pytest.approx([4, 4], abs=0.2)


def test_numbered_boxes_begin_at_the_left_and_others_are_centred():
    _, boxes, _, _ = pictured(GRAPHS["lstm"])
    for (left, _, right, _), texts, group in boxes:
        numbered = any((t.text or "").startswith("%") and t.get("text-anchor") == "end" for t in texts)
        for text in texts:
            x = float(text.get("x"))
            if not numbered:
                assert text.get("text-anchor") == "middle"
                assert x == pytest.approx((left + right) / 2, abs=0.2)
            elif text.get("text-anchor") == "end":
                assert right - x == pytest.approx(9, abs=0.2)
            else:
                assert x - left == pytest.approx(9, abs=0.2)
        assert group.find(f"{SVG}title").text


def test_inputs_and_outputs_have_round_ends_and_operations_do_not():
    _, boxes, _, _ = pictured(several_outputs())
    for (_, top, _, bottom), texts, group in boxes:
        radius = float(group.find(f"{SVG}rect").get("rx"))
        is_end = texts[0].text.startswith(("output", "a_label"))
        assert (radius > (bottom - top) / 3) is is_end


def test_long_edges_of_large_graphs_start_at_a_dashed_tag_with_the_name_of_its_source():
    _, boxes, _, _ = pictured(GRAPHS["tags"])
    tags = [(rect, texts, group) for rect, texts, group in boxes if group.find(f"{SVG}rect").get("stroke-dasharray")]
    whole = {texts[0].text: group for _, texts, group in boxes if not group.find(f"{SVG}rect").get("stroke-dasharray")}
    assert len(tags) > 1
    for (_, top, _, bottom), texts, group in tags:
        assert bottom - top == pytest.approx(20, abs=0.2)
        (text,) = texts
        assert text.text == "x0" or re.fullmatch(r"%\d+ \w+(\(.*\))?", text.text)
        if text.text == "x0":
            assert group.find(f"{SVG}title").text == whole["x0"].find(f"{SVG}title").text
            assert group.find(f"{SVG}rect").get("fill") == whole["x0"].find(f"{SVG}rect").get("fill")


def test_a_graph_of_up_to_sixty_boxes_has_tags_only_for_very_long_edges():
    """The input of a chain of 20 functions is read again at its end: over 21 layers, less than 25."""

    def again(n, extra=0):
        value = start = input_value(0, (), np.float64)
        for _ in range(n):
            value = xp.sin(value)
        others = [xp.cos(start) + k for k in range(extra)]
        return Graph([start], [value * start, *others])

    def tags(graph):
        return graph.draw().count("stroke-dasharray")

    assert tags(again(20)) == 0
    assert tags(again(23)) == 0
    assert tags(again(24)) == 1
    small, large = again(21, 18), again(20, 19)
    assert [len(sketch(g, 1000).boxes) for g in (small, large)] == [60, 61]
    assert tags(small) == 0
    assert tags(large) > 0


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_placed_by_isotonic_regression(seed):
    """Least squares to the wishes under minimal distances; SciPy solves it for positions less the distances."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    nodes = [Node(float(rng.uniform(20, 80)), 20.0, 0, float(rng.uniform(0.02, 6))) for _ in range(count)]
    wishes = rng.normal(scale=100, size=count)
    gaps = [0.0, *((a.width + b.width) / 2 + 26 for a, b in itertools.pairwise(nodes))]
    offsets = np.cumsum(gaps)
    _settle(nodes, list(range(count)), wishes.tolist())
    wanted = isotonic_regression(wishes - offsets, weights=[n.weight for n in nodes]).x + offsets
    np.testing.assert_allclose([n.x for n in nodes], wanted, rtol=1e-9, atol=1e-9)


def test_bends_need_half_the_distance():
    box, bend = Node(50, 20, 0), Node(10, 0, 0)
    for pair in ((box, bend), (bend, box)):
        _settle(list(pair), [0, 1], [0.0, 0.0])
        assert pair[1].x - pair[0].x == pytest.approx(30 + 13)


@pytest.mark.parametrize("seed", range(5))
def test_crossings_are_counted_as_pairs_of_edges_that_change_sides(seed):
    rng = np.random.default_rng(seed)
    edges = sorted({(int(s), int(5 + t)) for s, t in rng.integers(0, 5, size=(12, 2))})
    nodes = [Node(50, 20, int(i >= 5)) for i in range(10)]
    for s, t in edges:
        nodes[s].below.append(t)
        nodes[t].above.append(s)
    place = {i: float(i % 5) for i in range(10)}
    ports = {(i, j): k / (len(n.above) + 1) for j, n in enumerate(nodes) for k, i in enumerate(n.above)}
    ends = [(place[s], place[t] + ports[s, t]) for s, t in edges]
    wanted = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(ends, 2))
    assert _crossings(nodes, [list(range(5)), list(range(5, 10))], place, ports) == wanted


def test_each_layer_is_as_high_as_its_highest_box_and_boxes_stand_in_its_middle():
    found = lay_out([(50, 20), (50, 60), (50, 30)], [(0, 2), (1, 2)], [30] * 3, far=9)
    assert [b - t for t, b in zip(found.tops, found.bottoms, strict=True)] == [60, 30]
    assert found.tops[1] - found.bottoms[0] == 44
    assert [n.y for n in found.nodes] == [found.tops[0] + 30, found.tops[0] + 30, found.tops[1] + 15]
    assert found.height == found.bottoms[1] + found.tops[0]
    left, right = (min(n.x - n.width / 2 for n in found.nodes), max(n.x + n.width / 2 for n in found.nodes))
    assert found.width - right == left == found.tops[0]
    assert found.nodes[1].x - found.nodes[0].x >= 50 + 26
    assert found.nodes[2].x == pytest.approx((found.nodes[0].x + found.nodes[1].x) / 2)


def test_an_empty_picture_has_only_margins():
    found = lay_out([], [], [], far=9)
    assert (found.nodes, found.routes, found.tags, found.width, found.height) == ([], [], {}, 28, 28)
    root = ElementTree.fromstring(Graph([], []).draw())
    assert (root.get("width"), root.get("height"), len(root)) == ("28", "28", 0)


def test_wide_characters_take_the_room_of_two():
    narrow, wide = (sketch(Graph([X], [xp.sin(X)], [label]), 9) for label in ("x" * 20, "数" * 10))
    widths = [float(ElementTree.fromstring(svg(s)).find(f"{SVG}g/{SVG}rect").get("width")) for s in (narrow, wide)]
    assert widths[0] == widths[1]


def test_notes_keep_their_lines_and_lose_control_characters():
    graph = Graph([X], [xp.exp(xp.sin(X))], ["a\x07b"])
    titles = [t.text for t in ElementTree.fromstring(svg(sketch(graph, 3))).iter(f"{SVG}title")]
    assert titles[1] == "%1 = sin(%0) : float64[2, 3]\n%2 = exp(%1) : float64[2, 3]"
    assert _title("a\x07b\n") == "<title>a\N{REPLACEMENT CHARACTER}b\n</title>"
