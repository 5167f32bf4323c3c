"""Pictures of graphs: every value and argument is in them, boxes do not overlap, edges end at their boxes, and any text is only text."""

from __future__ import annotations

import pathlib
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from row_graphs import row_graphs

import symgrad as sg
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.drawing.boxes import _says_something, _setting, sketch
from symgrad.compiler.drawing.layout import _crossings, lay_out
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value, literal
from symgrad.errors import GraphError

X = input_value(0, (2, 3), np.float64)
W = input_value(1, (3,), np.float64)
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    '"]; click n0 "x"', "</text><script>alert(1)</script>", "a&b<c>", "`md`", "\u202eevil", "\x00", "\ud800", "#quot;", "a" * 500,
    "数" * 50, "", "%%{init: {}}%%",
]  # fmt: skip


def net():
    def loss(x, w1, w2, y):
        return ((x @ w1).relu() @ w2 - y).pow(2).sum()

    return sg.derive(loss, wrt=("w1", "w2"))(*map(sg.spec, [(64, 1000), (1000, 100), (100, 10), (64, 10)])).graph


def chain(n):
    value = start = input_value(0, (), np.float64)
    for _ in range(n):
        value = value * xp.sin(value) + 1
    return Graph([start], [value])


def parts(picture):
    """Boxes as (left, top, right, bottom), the tips of arrows, and texts with what they say."""
    root = ElementTree.fromstring(picture)
    boxes = []
    for r in root.iter(f"{SVG}rect"):
        x, y, width, height = (float(r.get(k)) for k in ("x", "y", "width", "height"))
        boxes.append((x, y, x + width, y + height))
    tips = [tuple(map(float, p.get("points").split()[-1].split(","))) for p in root.iter(f"{SVG}polygon")]
    return boxes, tips, [t.text or "" for t in root.iter(f"{SVG}text")], root


ROWS = [row_graphs()[name][0][0] for name in ("lstm", "convolution", "cat", "split")]


@pytest.mark.parametrize("graph", [net(), Graph([X, W], [X @ W]), grad(chain(40)), *ROWS])
def test_boxes_stand_apart_and_edges_end_at_them(graph):
    boxes, tips, _, root = parts(graph.draw())
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert all(right < x0 or x1 < left or bottom < y0 or y1 < top for x0, y0, x1, y1 in boxes[i + 1 :])
    assert all(any(abs(y - top) < 2 and left < x < right for left, top, right, _ in boxes) for x, y in tips)
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(left > 0 and right < width and top > 0 and bottom < height for left, top, right, bottom in boxes)
    assert len(tips) == len(sketch(graph, 10**6).edges)


def test_what_a_picture_shows():
    _, _, texts, root = parts(net().draw())
    for text in ("x", "w1", "float32[64, 1000]", "matmul", "mul(·, 2)", "axis=(0, 1)", "condition", "output 0", "output 2", "%4"):
        assert text in texts
    assert "%9 = sum(%8; axis=(0, 1), keepdims=False) : float32[]" in [t.text for t in root.iter(f"{SVG}title")]


def test_boxes_and_edges():
    values, indices = xp.max_along(X, axis=1, keepdims=False)
    y = xp.take_along(X, xp.reshape(indices, shape=(2, 1)), axis=1)
    graph = Graph([X, W], [values * values, y - 2, xp.sum(X, axis=(0,), keepdims=False) - W], ["x", "w"])
    found = sketch(graph, 100)
    titles = [b.title for b in found.boxes]
    named = {(titles[e.source], titles[e.target], e.output, e.enters) for e in found.edges}
    assert ("x", "max_along", None, "") in named
    assert ("max_along", "mul", 0, "×2") in named
    assert ("max_along", "reshape", 1, "") in named
    assert ("x", "take_along", None, "x") in named
    assert ("w", "sub", None, "y") in named
    assert "sub(·, 2)" in titles
    kinds = {b.title: b.kind for b in found.boxes}
    assert [kinds[t] for t in ("x", "max_along", "mul", "reshape", "output 1")] == ["input", "operation", "elementwise", "shape", "output"]


def test_arguments_that_are_left_out_numbers_and_usual_settings_are_not_drawn():
    row = sg.compile(lambda x, w: sg.nn.functional.conv2d(x, w, stride=2))
    row(sg.ones(1, 1, 4, 4), sg.ones(1, 1, 2, 2))
    (box,) = [b for b in sketch(row.graph(), 100).boxes if b.title == "convolution"]
    assert box.lines == ("stride=(2, 2)", "float32[1, 1, 2, 2]")
    assert {b.kind for b in sketch(grad(Graph([W], [xp.sum(W, axis=(0,), keepdims=False)])), 9).boxes} >= {"constant", "output"}


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_are_only_text(label):
    graph = Graph([X, W], [X @ W], [label, "w"])
    boxes, _, texts, root = parts(graph.draw())
    assert len(boxes) == 4
    assert {e.tag.removeprefix(SVG) for e in root.iter()} == {"svg", "g", "title", "rect", "text", "path", "polygon"}
    assert all(t.isprintable() for t in texts)
    graph.draw().encode()
    lines = graph.draw(format="mermaid").splitlines()
    assert re.fullmatch(r'    n0\(\["[\w #:;.,()\[\]%<>/…�-]*"\]\):::input', lines[1])
    assert not re.search(r"<(?!br/>)|%%", lines[1])
    assert len(lines) == len(Graph([X, W], [X @ W]).draw(format="mermaid").splitlines())


def test_mermaid():
    x = input_value(0, (3,), np.float64)
    assert Graph([x], [xp.sin(x) - x], ["x"]).draw(format="mermaid") == (
        "flowchart TD\n"
        '    n0(["x<br/>float64[3]"]):::input\n'
        '    n1["%1 sin<br/>float64[3]"]:::elementwise\n'
        '    n2["%2 sub<br/>float64[3]"]:::elementwise\n'
        '    n3(["output<br/>float64[3]"]):::output\n'
        "    n0 --> n1\n"
        '    n1 -->|"x"| n2\n'
        '    n0 -->|"y"| n2\n'
        "    n2 --> n3\n"
        "    classDef input fill:#d9f2e3,stroke:#3f9c6b,color:#1c2430\n"
        "    classDef elementwise fill:#dfeafc,stroke:#5b8def,color:#1c2430\n"
        "    classDef output fill:#fbdfe4,stroke:#d3566f,color:#1c2430\n"
    )


def test_files_and_notebooks(tmp_path):
    graph = net()
    picture = graph.draw(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text(encoding="utf-8") == picture == graph.draw()
    assert picture._repr_mimebundle_() == {"image/svg+xml": str(picture)}
    assert graph._repr_svg_() == picture
    flowchart = graph.draw(str(tmp_path / "net.mmd"))
    assert (tmp_path / "net.mmd").read_text(encoding="utf-8") == flowchart == graph.draw(format="mermaid")
    assert flowchart._repr_mimebundle_()["text/vnd.mermaid"] == flowchart
    with pytest.raises(ValueError, match="drawn as svg or mermaid, not as 'png'"):
        graph.draw(format="png")


def test_large_graphs_are_drawn_in_runs_or_refused():
    graph = grad(chain(60))
    boxes = sketch(graph, 10**6).boxes
    fewer = sketch(graph, len(boxes) - 1)
    assert len(fewer.boxes) < len(boxes)
    assert any(b.title.endswith("elementwise") for b in fewer.boxes)
    assert all(e.source < e.target for e in fewer.edges)
    with pytest.raises(GraphError, match=r"boxes to draw, more than limit=9: draw a part of it"):
        graph.draw(limit=9)
    with pytest.raises(GraphError, match="more than limit=300"):
        chain(400).draw(format="mermaid")
    assert chain(10_000)._repr_svg_() is None


def test_long_edges_start_at_a_tag():
    boxes, _, texts, _ = parts(grad(chain(40)).draw())
    assert len(boxes) > len(sketch(grad(chain(40)), 10**6).boxes)
    assert texts.count("x0") > 1


def test_layers():
    """A diamond with a long side, and a source that stands just above its reader."""
    found = lay_out([(50, 20)] * 6, [(0, 1), (1, 2), (0, 3), (2, 3), (4, 3), (3, 5)], [30] * 6, far=2)
    assert [n.layer for n in found.nodes[:6]] == [0, 1, 2, 3, 2, 4]
    assert list(found.tags) == [2]
    assert [len(route) for route in found.routes] == [2, 2, 2, 2, 2, 2]
    straight = lay_out([(50, 20)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)], [30] * 4, far=9)
    assert len(straight.routes[3]) == 4
    x = [straight.nodes[n].x for n in straight.routes[3][1:-1]]
    assert abs(x[0] - x[1]) < 1


def test_what_many_edges_hold_up_stays_up():
    found = lay_out([(50, 20)] * 7, [(0, 2), (1, 2), (0, 3), (1, 3), (3, 4), (4, 5), (2, 6), (5, 6)], [30] * 7, far=9)
    assert [n.layer for n in found.nodes[:7]] == [0, 0, 1, 1, 2, 3, 4]


def test_outputs_leave_from_places_of_their_own():
    root = ElementTree.fromstring(Graph([X], xp.max_along(X, axis=1, keepdims=False)).draw())
    places = {t.text: float(t.get("x")) for t in root.iter(f"{SVG}text")}
    assert places["[1]"] - places["[0]"] > 15


def test_no_order_is_taken_that_crosses_more_edges():
    rng = np.random.default_rng(2)
    better = 0
    for _ in range(40):
        edges = sorted({(int(s), int(t)) for s, t in rng.integers(0, 30, size=(40, 2)) if s < t})
        nodes = lay_out([(50, 20)] * 30, edges, [30] * 30, far=9).nodes
        ports = {(i, j): k / (len(n.above) + 1) for j, n in enumerate(nodes) for k, i in enumerate(n.above)}
        crossings = []
        for key in (lambda i: i, lambda i, nodes=nodes: nodes[i].x):
            rows = [sorted((i for i, n in enumerate(nodes) if n.layer == layer), key=key) for layer in range(30)]
            crossings.append(_crossings(nodes, rows, {i: float(p) for row in rows for p, i in enumerate(row)}, ports))
        assert crossings[1] <= crossings[0]
        better += crossings[1] < crossings[0]
    assert better > 20


def test_edges_that_need_not_cross_do_not():
    """Two ladders, given in an order that would cross."""
    found = lay_out([(50, 20)] * 6, [(0, 3), (1, 2), (2, 5), (3, 4)], [30] * 6, far=9)
    x = [n.x for n in found.nodes]
    assert (x[0] < x[1]) == (x[3] < x[2]) == (x[4] < x[5])


def test_a_chain_is_straight():
    found = lay_out([(50 + i % 3 * 20, 20) for i in range(200)], [(i, i + 1) for i in range(199)], [30] * 200, far=9)
    x = [n.x for n in found.nodes]
    assert max(x) - min(x) < 1


def test_the_picture_in_the_documentation_is_of_this_graph():
    def loss(x, w, y):
        return ((x @ w).tanh() - y).square().sum()

    graph = sg.derive(loss, wrt="w")(sg.spec((4, 3)), sg.spec((3, 2)), sg.spec((4, 2))).graph
    shown = (pathlib.Path(__file__).parents[3] / "docs/_static/loss.svg").read_text(encoding="utf-8")
    assert parts(shown)[2] == parts(graph.draw())[2]


# limits, at their boundaries


def test_a_graph_with_exactly_as_many_boxes_as_allowed_is_drawn_in_full():
    graph = chain(4)
    count = len(sketch(graph, 10**6).boxes)
    assert len(sketch(graph, count).boxes) == count
    runs = sketch(graph, count - 1)
    assert len(sketch(graph, len(runs.boxes)).boxes) == len(runs.boxes)
    with pytest.raises(GraphError, match=f"{len(runs.boxes)} boxes to draw, more than limit={len(runs.boxes) - 1}"):
        sketch(graph, len(runs.boxes) - 1)


@pytest.mark.parametrize(("format", "limit"), [("svg", 1000), ("mermaid", 300)])
def test_default_limits(format, limit):
    """Each input has a box, whether or not it is read."""

    def boxes(n):
        return Graph([input_value(i, (), np.float64) for i in range(n)], [])

    assert boxes(limit).draw(format=format)
    with pytest.raises(GraphError, match=f"{limit + 1} boxes to draw, more than limit={limit}:"):
        boxes(limit + 1).draw(format=format)


def test_runs_hold_only_values_that_nothing_else_reads():
    x = input_value(0, (3,), np.float64)
    shared = xp.sin(x)
    graph = Graph([x], [xp.exp(xp.cos(shared) + xp.cos(xp.cos(shared))), xp.sum(shared, axis=(0,), keepdims=False)])
    found = sketch(graph, len(sketch(graph, 99).boxes) - 1)
    assert [(b.title, b.lines) for b in found.boxes if b.kind == "elementwise"] == [
        ("sin", ("float64[3]",)), ("cos", ("float64[3]",)), ("3 elementwise", ("cos, add, exp", "float64[3]")),
    ]  # fmt: skip
    (run,) = [b for b in found.boxes if b.title == "3 elementwise"]
    assert [line.partition(" = ")[2] for line in run.note.splitlines()] == [
        "cos(%2) : float64[3]", "add(%2, %3) : float64[3]", "exp(%4) : float64[3]",
    ]  # fmt: skip
    assert run.number == "%5"
    titles = [b.title for b in found.boxes]
    assert {(titles[e.source], e.enters) for e in found.edges if titles[e.target] == "3 elementwise"} == {("cos", "×2")}


def test_operations_in_a_run_are_counted_most_frequent_first():
    x = input_value(0, (3,), np.float64)
    graph = Graph([x], [xp.exp(xp.sin(xp.cos(xp.cos(xp.cos(x)))))])
    (run,) = [b for b in sketch(graph, 3).boxes if b.kind == "elementwise"]
    assert (run.title, run.lines[0]) == ("5 elementwise", "cos ×3, sin, exp")
    assert run.note.startswith("%1 = cos(%x0) : float64[3]\n%2 = cos(%1)")


@pytest.mark.parametrize(
    ("label", "shown"),
    [("a" * 34, "a" * 34), ("a" * 35, "a" * 33 + "…"), ("a" * 500, "a" * 33 + "…"), ("tab\there", "tab�here"), ("数", "数")],
)
def test_labels_of_up_to_34_characters_are_shown_in_full(label, shown):
    graph = Graph([X], [xp.sin(X)], [label])
    assert sketch(graph, 9).boxes[0].title == shown
    assert shown in parts(graph.draw())[2]


@pytest.mark.parametrize(
    ("number", "shown"),
    [(2, "2"), (0.1234567891, "0.123457"), (10**12 - 1, "999999999999"), (10**12, "1e+12"), (-(10**12), "-1e+12"), (1e20, "1e+20")],
)
def test_numbers_are_shown_with_six_digits_or_as_short_integers(number, shown):
    box = next(b for b in sketch(Graph([X], [X - number]), 9).boxes if b.kind == "elementwise")
    assert box.title in (f"sub(·, {shown})", f"add(·, {shown.removeprefix('-') if number < 0 else '-' + shown})")


@pytest.mark.parametrize(("count", "shown"), [(2, ["[0]", "[1]"]), (3, ["[0]", "[1]", "[2]"]), (4, ["[0]", "[1]", "and 2 more"])])
def test_types_of_up_to_three_outputs_are_listed(count, shown):
    x = input_value(0, (2 * count,), np.float64)
    outs = xp.split(x, sizes=(2,) * count, axis=0)
    box = next(b for b in sketch(Graph([x], outs), 99).boxes if b.title == "split")
    types = list(box.lines[-len(shown) :])
    assert types == [f"{s} float64[2]" if s[0] == "[" else s for s in shown]
    assert box.outputs == count


def test_one_output_has_no_number_and_a_number_that_is_an_output_is_written_in_its_box():
    one = sketch(Graph([X], [xp.sin(X)]), 9).boxes[-1]
    assert (one.title, one.lines, one.note) == ("output", ("float64[2, 3]",), "return %1")
    found = sketch(Graph([X], [xp.sin(X), literal(3, np.int64)]), 9)
    assert [(b.title, b.lines) for b in found.boxes[-2:]] == [("output 0", ("float64[2, 3]",)), ("output 1", ("int64(3)",))]
    assert [e.target for e in found.edges] == [1, 2]


def test_nested_graphs_are_shown_by_their_number_of_operations():
    assert _setting("body", Graph([X], [xp.sin(X) + xp.cos(X)])) == "body of 3"
    assert _setting("axis", (0, 1)) == "axis=(0, 1)"
    assert [_says_something("stride", n) for n in (1, 2, (1, 1), (1, 2))] == [False, True, False, True]
    assert [_says_something("padding", n) for n in (0, 1)] == [False, True]
    assert [_says_something("reverse", x) for x in (True, False, None)] == [True, False, False]
    assert not _says_something("dtype", "float32")


def test_a_notebook_draws_up_to_two_hundred_boxes():
    def boxes(n):
        return Graph([input_value(i, (), np.float64) for i in range(n)], [])

    assert boxes(200)._repr_svg_() is not None
    assert boxes(201)._repr_svg_() is None


def test_suffixes_choose_the_format_unless_it_is_named(tmp_path):
    graph = Graph([X], [xp.sin(X)])
    flowchart = graph.draw(format="mermaid")
    assert graph.draw(tmp_path / "a.mermaid") == flowchart
    assert graph.draw(tmp_path / "a.txt").startswith("<svg")
    assert graph.draw(tmp_path / "b.svg", format="mermaid") == flowchart
    assert flowchart._repr_mimebundle_() == {"text/vnd.mermaid": flowchart, "text/plain": flowchart}
