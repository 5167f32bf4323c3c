"""Texts that are meant to do harm: nothing is executed, and time and memory stay bounded."""

from __future__ import annotations

import builtins
import sys
import time

import pytest

import symgrad as sg
from symgrad.errors import TextError
from symgrad.text.tokens import MAX_LENGTH

N = 100_000
LONG = [
    "x" * 10**6, "x+" * 10**6, " " * 10**6, "(" * N, "(" * N + "x" + ")" * N, "sin(" * N, "-" * N + "x", "x" + "'" * N, "'" * N, "9" * N,
    "x^" * N + "x", "x^-" * N + "x", "\u0301" * N, ")" * N, "a," * N, "." * N, "\x00" * N, "\n" * N, "1e" + "9" * N,
]  # fmt: skip


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_long_texts_are_refused_at_once(text):
    start = time.perf_counter()
    with pytest.raises(TextError) as caught:
        sg.parse(text)
    assert time.perf_counter() - start < 1
    assert len(str(caught.value)) < 500


SHORTENED = [
    "(" * 5000, "(" * 5000 + "x" + ")" * 4999, "sin(" * 2400, "x^" * 4999 + "x", "x^-" * 3300 + "x", "f(x," * 2400, "-" * 5000,
    "2^(" * 3000, "((((x)+" * 1000, "9" * 9999, "1e" + "9" * 9000, "x*" * 4999 + "x",
]  # fmt: skip


@pytest.mark.parametrize("text", SHORTENED, ids=range(len(SHORTENED)))
def test_deep_texts_are_refused_without_recursion(text):
    with pytest.raises(TextError):
        sg.parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-" * (MAX_LENGTH - 1) + "x", -2.0),
        ("x" + "'" * (MAX_LENGTH - 1), 2.0),
        ("+".join(["x"] * 5000), 10000.0),
        ("*".join(["1"] * 4999) + "*x", 2.0),
    ],
    ids=["signs", "transposes", "sum", "product"],
)
def test_long_chains_are_read_and_computed_without_recursion(text, value):
    f = sg.parse(text, x=())
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_depth() + 150)
    try:
        assert sg.parse(text, x=())(2.0).item() == f(2.0).item() == value
        assert str(f)
    finally:
        sys.setrecursionlimit(limit)


def _depth():
    frame, n = sys._getframe(), 0
    while frame:
        frame, n = frame.f_back, n + 1
    return n


def calls(text):
    """How many functions parsing calls, ours and built-in ones."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        sg.parse(text, x=())
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("part", ["sin(x)*(2 - x)", "-x^2", "x'", "max(x, 1)"])
def test_work_is_linear_in_the_length(part):
    small, large = (calls("+".join([part] * n)) for n in (60, 600))
    assert large < 11 * small


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "__import__(x)", "x.__class__", "eval(x)", "exec(x)", "open(x)", "lambda: x", "x if x else y",
        "[x for x in y]", "print(x)", "os.system(x)", "().__class__", "f'{x}'", "x;y", "x:=y", "x\\\ny", "# x", "x # y", "'''x'''", "`x`",
        "$(x)", "%s", "{0}", "\u202ex", "x\u200by", "x\ufeff", "\ud800", "x\x00", "x\x1b[31m", "\u0430", "ｅval(x)", "ﬁ(x)", "ℵ", "x̂", "𝑥",
        "x\u2028y", "٣", "²", "∞", "x\u00a0y", "ΐ", "א", "漢",
    ],
)  # fmt: skip
def test_nothing_is_executed_and_no_other_letters_are_read(text, monkeypatch):
    for name in ("eval", "exec", "open", "__import__"):
        monkeypatch.setattr(builtins, name, lambda *args, name=name: pytest.fail(f"{name} was called"))
    try:
        sg.parse(text)
    except TextError as error:
        caught = error
    else:
        pytest.fail("the text was read")
    finally:
        monkeypatch.undo()
    assert all(c.isprintable() or c == "\n" for c in str(caught))
    assert not set(str(caught)) & set("\u202eא")


@pytest.mark.parametrize(
    "text", ["9^(9^(9^9))", "2^(2^1000)", "10^300*10^300", "1e400", "exp(1e300)", "(1/3)^5000", "1e-401", "0." + "0" * 340 + "1"]
)
def test_numbers_have_bounded_digits(text):
    start = time.perf_counter()
    with pytest.raises(TextError):
        sg.parse(text)
    assert time.perf_counter() - start < 1


def test_names_of_python_are_only_names():
    f = sg.parse("import'*class + None*self'*args", **{"import": "n", "class": "n", "None": "scalar"})
    assert list(f.types) == ["import_", "class_", "None_", "self", "args"]
    assert f([1.0], [2.0], 3.0, [1.0], [1.0]).item() == 5


@pytest.mark.parametrize("text", [None, 3, b"x", ["x"], sg])
def test_what_is_no_text(text):
    with pytest.raises(TypeError, match="a formula is written as text"):
        sg.parse(text)
