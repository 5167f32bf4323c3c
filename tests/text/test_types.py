"""Types of formulas: declarations, what undeclared names are, and sizes that are inferred."""

from __future__ import annotations

import unicodedata

import pytest

import symgrad as sg
from symgrad.errors import TextError
from symgrad.text.types import is_name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "scalar") for name in ("lam", "lambda", "alpha", "mu", "sigma", "eps", "sigma2", "beta_0", "mu_max", "α", "λ1", "μ_0")),
        *((name, "vector") for name in ("x", "w1", "lamb", "muddle", "alphabet", "a", "sigmas", "y_hat")),
        *((name, "matrix") for name in ("X", "W_q", "Sigma", "Σ", "Lambda", "A1", "Xs")),
    ],
)
def test_names_that_are_not_declared(name, kind):
    function = sg.parse(f"1*{name}")
    assert list(function.types.values()) == [kind]


def test_names_are_names_of_python_as_they_are():
    """Python replaces some letters in its source by others, such as ϕ by φ: an argument of that name could not be given by keyword."""
    letters = [chr(c) for c in range(0x370, 0x400) if is_name(chr(c))]
    assert len(letters) == 34
    assert all(c.isidentifier() and unicodedata.normalize("NFKC", c) == c for c in letters)


def test_declarations():
    function = sg.parse("X*w + s*z", X=("n", "p"), w="p", s=(), z=("n",))
    assert function.types == {"X": "n × p", "w": "p", "s": "scalar", "z": "n"}
    assert sg.parse("X*w", X=(3, "p")).types == {"X": "3 × p", "w": "p"}
    assert sg.parse("a^b*c", a="scalar", b="scalar", c="matrix").types == {"a": "scalar", "b": "scalar", "c": "matrix"}


def test_sizes_are_inferred():
    assert sg.parse("X*w - y", X=("n", "p")).types == {"X": "n × p", "w": "p", "y": "n"}
    assert sg.parse("x'*A*B*z + det(A)", x="n", z="k").types == {"x": "n", "A": "n × n", "B": "n × k", "z": "k"}
    assert sg.parse("diag(x) + Y", x="n").types == {"x": "n", "Y": "n × n"}


@pytest.mark.parametrize(
    ("text", "types", "column", "message"),
    [
        ("X*w", {"X": ("n", "p"), "w": "n"}, 2, "p and n differ"),
        ("A*x + B*x", {"A": ("n", "p"), "B": ("m", "p")}, 5, "n and m differ"),
        ("det(X)", {"X": ("n", "p")}, 5, "square"),
        ("X + X'", {"X": ("n", "p")}, 3, "n and p differ"),
        ("X^2", {"X": ("n", "p")}, 2, "square"),
        ("x'*y", {"x": 3, "y": 4}, 3, "3 and 4 differ"),
        ("x'*y", {"x": 3, "y": "n"}, 3, "3 and n differ"),
        ("x + ones(m)", {"x": "n"}, 10, "names of declared sizes (n)"),
        ("inv(X'*X)*X*y", {"X": ("n", "p"), "y": "p"}, 10, "p and n differ"),
        ("diag(X)", {"X": (2, 3)}, 1, "square"),
    ],
)
def test_sizes_that_do_not_fit(text, types, column, message):
    with pytest.raises(TextError, match=f"column {column}: ") as caught:
        sg.parse(text, **types)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("types", "error", "message"),
    [
        ({"x": (1, 2, 3)}, ValueError, "x is declared with 3 sizes"),
        ({"x": 2.5}, TypeError, 'write () for a scalar, "n" for a vector'),
        ({"x": True}, TypeError, "x is declared as bool True"),
        ({"x": -1}, TypeError, "x is declared as int -1"),
        ({"x": "a b"}, TypeError, "x is declared as str 'a b'"),
        ({"x": ("n", None)}, TypeError, "x is declared as NoneType"),
        ({"x": "__import__"}, TypeError, "x is declared as str '__import__'"),
        ({"y": ()}, ValueError, "y is declared, but the formula does not contain it; its names are x"),
        ({"sum": ()}, ValueError, "sum is a function of the language"),
        ({"_x": ()}, ValueError, "'_x' is no name of the language"),
        ({"x y": ()}, ValueError, "'x y' is no name of the language"),
    ],
)
def test_declarations_that_say_nothing(types, error, message):
    with pytest.raises(error) as caught:
        sg.parse("sum(x)", **types)
    assert message in str(caught.value)


def test_sizes_of_arguments_are_checked_at_the_call():
    f = sg.parse("X*w - y", X=("n", "p"))
    x, w, y = sg.ones(3, 2), sg.ones(2), sg.ones(3)
    assert f(x, w, y).shape == (3,)
    with pytest.raises(ValueError, match=r"the size of w \(p\) is 3, and has to be 2, as the number of columns of X"):
        f(x, sg.ones(3), y)
    with pytest.raises(ValueError, match=r"the size of y \(n\) is 1, and has to be 3, as the number of rows of X"):
        f(x, w, sg.ones(1))
    with pytest.raises(ValueError, match=r'X is a matrix \(n × p\) in this formula, got Tensor\(3,\) .*: declare .* X="n"\)'):
        f(y, w, y)
    with pytest.raises(ValueError, match="the size of x is 2, and has to be 3, as declared"):
        sg.parse("sum(x)", x=3)(w)
    with pytest.raises(ValueError, match="scalars, vectors and matrices only"):
        f(sg.ones(2, 3, 2), w, y)


def test_inferred_sizes_are_checked_at_the_call():
    f = sg.parse("A*x + y")
    with pytest.raises(ValueError, match="the size of x is 3, and has to be 2, as the number of columns of A"):
        f(sg.ones(3, 2), sg.ones(3), sg.ones(3))
    with pytest.raises(ValueError, match="the number of columns of A is 2, and has to be 3, as the number of rows of A"):
        sg.parse("det(A)")(sg.ones(3, 2))


def test_names_of_sizes_are_numbers():
    f = sg.parse("sum(x)/n + sqrt(n)*ones(n)'*x + tr(eye(n))", x="n")
    assert f(sg.tensor([1.0, 2, 3, 4], dtype=sg.float64)).item() == 2.5 + 2 * 10 + 4
