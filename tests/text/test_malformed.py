"""Malformed formulas: each error points at the right column, and says what to do."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.errors import TextError

MALFORMED = """
▶ || is empty
▶(a || not closed
a▶) || no bracket is open
a + b▶) * c || no bracket is open
▶(a + (b) || not closed
(▶) || brackets have something in them
a*(▶)*b || expected a number, a name or (
a +▶ || ends too early
a *▶ || ends too early
-▶ || ends too early
a + ▶* b || before '*'
▶/a || before '/'
▶*a || before '*'
▶^2 || before '^'
a^▶ || ends too early
a^▶*b || before '*'
a^b▶^c || (a^b)^c
a.^b▶.^c || (a.^b).^c
a^b▶.^c || read in two ways
2▶x || a product is written 2*x
2▶(x) || a product is written 2*x
x ▶y || a product is written 2*x
(a)▶(b) || a product is written 2*x
x ▶2 || a product is written 2*x
3.5▶alpha || a product is written 2*x
▶.x || a point belongs to a number
x▶. || a point belongs to a number
x ▶. y || a point belongs to a number
▶'x || behind its operand
▶' || behind its operand
▶sin() || sin takes 1 argument, got 0
▶sin(x, y) || sin takes 1 argument, got 2
▶sin || write sin(...)
▶sin + 1 || write sin(...)
x*▶inv || write inv(...)
sin(x,▶) || missing after the comma
max▶(x || not closed
max(▶, x) || commas are between
max(x,▶, x) || before ','
▶max() || max takes 1 or 2 arguments
▶max(x, x, x) || max takes 1 or 2 arguments
a▶, b || decimal numbers have a point
1▶,5 || decimal numbers have a point
sin(x ▶y) || a product is written 2*x
▶foo(x) || there is no function 'foo'
▶Sin(x) || did you mean sin?
2 + ▶nrom2(x) || did you mean norm2?
x + ▶__import__(x) || names begin with a letter
▶_x || names begin with a letter
x ▶= 2 || right-hand side
x▶; y || one formula
x▶[0] || not part of the language
▶[1, 2] || not part of the language
▶{x} || write (
A ▶@ x || write *
▶|x| || write abs(...)
▶‖x‖ || write norm2(...)
x ▶< y || comparisons
x ▶>= y || comparisons
A▶\\b || write inv(A)*b
x▶! || not part of the language
x ▶% 2 || not part of the language
x ▶& y || not part of the language
▶"x" || not part of the language
▶$x$ || not part of the language
x▶² || write ^2
A▶ᵀ || write '
x ▶− y || write -
x ▶× y || write *
x▶’*x || write '
▶µ + 1 || U+03BC
A*▶Α || U+0391) is not part of the language: write A
x + ▶ο || write o
β*▶ϕ || write φ
▶√2 || write sqrt(...)
▶х || U+0445
x + ▶ｘ || U+FF58
α▶́ || U+0301
▶１ || U+FF11
▶∑(x) || write sum(...)
▶1e999 || the exponent of 1e999
▶1e-9999999999 || the exponent of
x▶^2 || write .^
x▶^y || write .^
2▶^x || write .^
x'▶^2 || write .^
A▶^x || no integer
A▶^0.5 || no integer
A▶^1001 || no integer
A▶^T || A'
x▶*y || x'*y
x▶*x*x || x'*y
x'▶*y' || transpose one of them
x▶*A || write A*x or x'*A
A▶*x' || write A*x' or x*A
x▶/y || write ./
2▶/x || write ./
A▶/x || divisors are scalars
A▶/B || write A*inv(B)
x + 1 ▶+ x' || transpose one of them
x ▶- A || operands of one kind
A ▶+ 1 || write matrix(a)
1 ▶- A || write matrix(a)
lam ▶+ X'*X || write matrix(a)
x▶.*A || operands of one kind
x'▶./x || transpose one of them
det(▶x) || det takes a matrix
inv(▶2) || inv takes a matrix
tr(x'▶*x) || tr takes a matrix
diag(▶2) || diag takes a vector or matrix
softmax(▶A) || softmax takes a vector or row
vector(▶x) || vector takes a scalar
▶vector(1) || no argument tells
▶eye || no argument tells
x + ▶pi(2) || there is no function 'pi'
ones(▶x) || ones takes sizes
ones(▶2.5) || ones takes sizes
eye(▶-1) || eye takes sizes
1▶/0 || division by zero
x*(1▶/(2 - 2)) || division by zero
0▶^-1 || division by zero
▶log(-1) || no real number
(-1)▶^0.5 || no real number
10▶^400 || too large
2^(3▶^9999) || too large
""".strip().splitlines()
"""The text with ▶ before the column of the error, and a part of the message."""
CASES = [line.partition(" || ")[::2] for line in MALFORMED]


@pytest.mark.parametrize(("marked", "message"), CASES, ids=[text for text, _ in CASES])
def test_errors_point_at_the_column(marked, message):
    before, _, after = marked.partition("▶")
    with pytest.raises(TextError) as caught:
        sg.parse(before + after)
    first, shown, caret = str(caught.value).splitlines()
    assert caught.value.column == len(before) + 1, str(caught.value)
    assert first.startswith(f"column {len(before) + 1}: ")
    assert message in first
    assert len(caret) - 1 - 4 == len(before)
    assert shown[4 : 4 + len(before)] == before


def test_there_are_a_hundred():
    assert len({text for text, _ in CASES}) >= 100


def test_an_error_in_a_long_text_shows_the_part_around_it():
    text = "+".join(["alpha"] * 1000) + "+)" + "+alpha" * 500
    with pytest.raises(TextError) as caught:
        sg.parse(text)
    _, shown, caret = str(caught.value).splitlines()
    assert caught.value.column == 6001
    assert len(shown) < 150
    assert shown[caret.index("^")] == ")"
