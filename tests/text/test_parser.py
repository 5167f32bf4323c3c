"""The grammar: what binds how tightly, what is read as what, and texts that printing returns."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from symgrad.errors import TextError
from symgrad.text.parser import MAX_DEPTH, parsed
from symgrad.text.syntax import BINARY, POWERS, Node, printed

NAMES = ["x", "X", "lam", "α", "beta_1", "sin", "y2"]


def brackets(text):
    """The tree of a formula, with a bracket around every operation."""
    shown = []
    for n in parsed(text).nodes:
        of = [shown[a] for a in n.args]
        binary = f"({n.kind.join(of)})"
        shown.append({
            "number": str(n.value), "name": str(n.value), "call": f"{n.value}({','.join(of)})", "negation": f"(-{of[0] if of else ''})",
            "transpose": f"({of[0] if of else ''}')",
        }.get(n.kind, binary))  # fmt: skip
    return shown[-1]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b*c", "(a+(b*c))"),
        ("a - b - c", "((a-b)-c)"),
        ("a / b / c * d", "(((a/b)/c)*d)"),
        ("a .* b ./ c * d", "(((a.*b)./c)*d)"),
        ("-x^2", "(-(x^2))"),
        ("-x'*y", "((-(x'))*y)"),
        ("- - x", "(-(-x))"),
        ("+x - +y", "(x-y)"),
        ("a*-b^-c'", "(a*(-((b^(-c))')))"),
        ("x^2'", "((x^2)')"),
        ("x'^2", "((x')^2)"),
        ("x''", "((x')')"),
        ("x.'", "(x')"),
        ("2**3", "(2^3)"),
        ("2.*x", "(2.*x)"),
        ("2./x", "(2./x)"),
        ("2.^x", "(2.^x)"),
        ("2.'", "(2')"),
        ("2.5.*x", "(5/2.*x)"),
        ("2..*x", "(2.*x)"),
        (".5*1e-3", "(1/2*1/1000)"),
        ("1E2 + 0.1", "(100+1/10)"),
        ("sin(x)'*(y)", "((sin(x)')*y)"),
        ("f()", "f()"),
        ("max(a, b + c)", "max(a,(b+c))"),
        ("\tx\n+\r\ny ", "(x+y)"),
        ("a_1*β2", "(a_1*β2)"),
    ],
)
def test_what_binds_how(text, tree):
    assert brackets(text) == tree


def test_numbers_are_exact():
    assert [n.value for n in parsed("0.1 + 1e-30*123456789012345678901234567890").nodes if n.kind == "number"] == [
        Fraction(1, 10), Fraction(1, 10**30), Fraction(123456789012345678901234567890),
    ]  # fmt: skip


def test_nodes_know_where_they_are():
    text = "sin(x) + 2*y'"
    assert [text[n.at] for n in parsed(text).nodes] == ["x", "s", "2", "y", "'", "*", "+"]


def tree(rng, size):
    """Random syntax: nodes in postorder, each used once."""
    nodes, roots = [], []

    def add(kind, count=0, value=None):
        args = roots[len(roots) - count :]
        del roots[len(roots) - count :]
        nodes.append(Node(kind, tuple(args), value))
        roots.append(len(nodes) - 1)

    for _ in range(size):
        kind = rng.choice(["number", "name", "name", "negation", "transpose", "call", *BINARY, *POWERS])
        if kind == "number":
            add(kind, value=Fraction(rng.randrange(1000), 10 ** rng.randrange(4)))
        elif kind == "name" or not roots:
            add("name", value=rng.choice(NAMES))
        elif kind in ("negation", "transpose"):
            add(kind, 1)
        elif kind == "call":
            add(kind, rng.randrange(min(3, len(roots) + 1)), rng.choice(NAMES))
        elif len(roots) > 1:
            add(kind, 2)
    while len(roots) > 1:
        add("+", 2)
    return tuple(nodes)


def test_what_is_printed_is_read_back():
    rng = random.Random(5)
    texts = set()
    for _ in range(1000):
        nodes = tree(rng, rng.randrange(1, 40))
        text = printed(nodes)
        read = parsed(text)
        assert read.structure == tuple((n.kind, n.args, n.value) for n in nodes), text
        assert str(read) == text
        texts.add(text)
    assert len(texts) > 800
    assert set("+-*/^'(),.") <= set("".join(texts))


def test_brackets_that_are_not_needed_are_not_printed():
    assert str(parsed("((a)*(b))+(((c)))")) == "a*b + c"
    assert str(parsed("a-(b-c)")) == "a - (b - c)"
    assert str(parsed("(-x)'*(-y)")) == "(-x)'*-y"


def test_depth_is_bounded():
    parsed("(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH)
    with pytest.raises(TextError, match="nested more than") as caught:
        parsed("(" * (MAX_DEPTH + 1) + "x" + ")" * (MAX_DEPTH + 1))
    assert caught.value.column == MAX_DEPTH + 1
