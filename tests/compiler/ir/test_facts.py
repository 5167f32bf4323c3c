"""Facts about values: what each row's transfer function says, and that random programs have what is said of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.facts import NAMES, TRANSFER, facts
from symgrad.compiler.ir.graph import Graph, _table, input_value, literal, output, toposort
from symgrad.compiler.ir.interpret import evaluate
from symgrad.errors import SymgradError
from symgrad.ops.table import TABLE

F64 = np.dtype(np.float64)
A, B = (input_value(i, (3, 3), F64) for i in range(2))
X = input_value(2, (5, 3), F64)
d = input_value(3, (3,), F64)
EYE = xp.eye(rows=3, columns=3, dtype=F64)


def t(x):
    return xp.transpose(x, dim0=x.ndim - 2, dim1=x.ndim - 1)


def diag(x):
    return xp.diag_embed(x, axis1=0, axis2=1, offset=0, shape=(3, 3))


GRAM = xp.matmul(t(X), X)
LOWER = xp.tril(A, diagonal=0)
DIAGONAL = {"diagonal", "symmetric", "lower_triangular", "upper_triangular", "triangular"}
Q = output(xp.qr(A, mode="reduced")[0].args[0], 0)
CASES = {
    "gram": (GRAM, {"symmetric", "positive_semidefinite"}),
    "ridge": (GRAM + EYE * literal(0.1, F64), {"symmetric", "positive_semidefinite", "positive_definite"}),
    "negative ridge": (GRAM + EYE * literal(-0.1, F64), {"symmetric"}),
    "difference": (GRAM - EYE, {"symmetric"}),
    "inverse of ridge": (xp.inv(GRAM + EYE, check=True), {"symmetric", "positive_semidefinite", "positive_definite"}),
    "symmetrised": ((A + t(A)) / literal(2, F64), {"symmetric"}),
    "product of two": (xp.matmul(A, B), set()),
    "diagonal": (diag(d), DIAGONAL),
    "diagonal of exponentials": (
        diag(xp.exp(d)),
        DIAGONAL | {"positive_definite", "positive_semidefinite", "nonnegative"},
    ),
    "lower": (LOWER, {"lower_triangular", "triangular"}),
    "transpose of lower": (t(LOWER), {"upper_triangular", "triangular"}),
    "product of lower": (xp.matmul(LOWER, xp.inv(LOWER, check=True)), {"lower_triangular", "triangular"}),
    "scaled rows": (xp.mul(GRAM, d), set()),
    "cholesky": (xp.cholesky(GRAM), {"lower_triangular", "triangular"}),
    "above the diagonal": (xp.tril(A, diagonal=1), set()),
    "q": (Q, {"orthogonal"}),
    "no square": (X, set()),
    "tall q": (output(xp.qr(X, mode="reduced")[0].args[0], 0), set()),
    "exp": (xp.exp(d), {"positive", "nonnegative"}),
    "integers": (xp.square(input_value(4, (3,), np.int64)), {"integer"}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_known(name):
    value, expected = CASES[name]
    assert facts(value) == expected


def test_every_transfer_function_is_of_a_row_and_makes_known_names():
    assert TRANSFER.keys() - TABLE.keys() == {"literal", "output"}
    assert {name for value, _ in CASES.values() for name in facts(value)} <= NAMES


def holds(name, x):
    """Whether an array has a fact, up to rounding."""
    near = lambda y, z: bool(np.allclose(y, z, atol=1e-8, rtol=1e-8))
    other = x.swapaxes(-1, -2) if x.ndim > 1 else x
    checks = {
        "zeros": lambda: near(x, 0),
        "ones": lambda: near(x, 1),
        "identity": lambda: near(x, np.eye(x.shape[-1])),
        "diagonal": lambda: near(x, x * np.eye(x.shape[-1])),
        "lower_triangular": lambda: near(x, np.tril(x)),
        "upper_triangular": lambda: near(x, np.triu(x)),
        "triangular": lambda: near(x, np.tril(x)) or near(x, np.triu(x)),
        "symmetric": lambda: near(x, other),
        "orthogonal": lambda: near(x @ other, np.eye(x.shape[-1])),
        "positive_semidefinite": lambda: np.linalg.eigvalsh(x).min() > -1e-8 * max(1, abs(x).max()),
        "positive_definite": lambda: np.linalg.eigvalsh(x).min() > -1e-8 * max(1, abs(x).max()),
        "nonnegative": lambda: (x >= -1e-12).all(),
        "positive": lambda: (x >= 0).all(),
        "integer": lambda: near(x, np.round(x)),
    }
    return bool(checks[name]())


SHAPES = {0: (3, 3), 1: (3, 3), 2: (5, 3), 3: (3,), 4: (2, 3, 3), 5: (2, 1, 1)}
PLACES = {6: (3,), 7: (3, 3)}
"""The shapes of index tensors, of numbers below 3."""


def _in_part(x):
    """Return nine elements that follow each other, as a matrix."""
    return xp.reshape(xp.getitem(xp.reshape(x, shape=(x.size,)), index=((0, 9, 1),)), shape=(3, 3))


MOVES = (
    lambda x: _in_part(xp.tile(x, reps=(3,) * x.ndim)),
    lambda x: xp.getitem(x, index=(*((0, n, 1) for n in x.shape[:-1]), (x.shape[-1] - 1, -1, -1))),
    lambda x: xp.getitem(x, index=(*((0, n, 1) for n in x.shape[:-2]), (0, 2, 1), (1, 3, 1))),
    lambda x: xp.diagonal(x, offset=0, axis1=0, axis2=1),
    lambda x: xp.flip(x, axes=(x.ndim - 1,)),
    lambda x: xp.tile(x, reps=(1, 3, 1)),
    lambda x: xp.take_along(x, input_value(7, PLACES[7], np.int64), axis=1) if x.shape == (3, 3) else x,
    lambda x: xp.index_select(x, input_value(6, PLACES[6], np.int64), axis=0) if x.shape[0] == 3 else x,
    lambda x: xp.permute(x, axes=(*range(1, x.ndim), 0)),
)
FUNCTIONS = (
    *(lambda x, op=op: getattr(xp, op)(x) for op in ("sqrt", "relu", "cosh", "exp2", "clone", "detach", "trace")),
    lambda x: xp.cast(xp.cast(x, dtype=np.dtype(np.int64)), dtype=F64),
    lambda x: xp.assume(xp.abs(x), words=("nonnegative",)),
    lambda x: xp.softplus(x, beta=1, threshold=20),
    lambda x: xp.softmax(x, axis=x.ndim - 1),
    lambda x: xp.cumsum(x, axis=x.ndim - 1, reverse=False),
    lambda x: xp.mean(x, axis=(x.ndim - 1,), keepdims=True),
)


def random_value(r):
    """Return a random matrix of sums, products and functions of matrices with facts, and of their elements in other places."""
    batch = input_value(4, (2, 3, 3), F64)
    pool = [A, B, GRAM, EYE, LOWER, diag(d), diag(xp.exp(d)), batch, d, xp.exp(d), literal(2.0, F64), literal(-1, F64)]
    pool += [xp.matmul(batch, t(batch)), Q, input_value(5, (2, 1, 1), F64), xp.expand(literal(1, F64), shape=(3, 3))]
    steps = (
        *(lambda a, b, op=op: getattr(xp, op)(a, b) for op in ("add", "sub", "mul", "matmul", "div")),
        *(lambda a, b, op=op: getattr(xp, op)(a) for op in ("neg", "exp", "abs", "square", "sigmoid", "cholesky")),
        lambda a, b: xp.inv(a, check=True),
        lambda a, b: t(a),
        lambda a, b: xp.matmul(a, t(a)),
        lambda a, b: a + t(a),
        lambda a, b: xp.tril(a, diagonal=r.choice([0, -1, 1])),
        lambda a, b: xp.triu(a, diagonal=r.choice([0, -1, 1])),
        lambda a, b: xp.diag_embed(a, axis1=a.ndim - 1, axis2=a.ndim, offset=r.choice([0, 1, -1]), shape=(*a.shape, a.shape[-1])),
        lambda a, b: xp.sum(a, axis=(a.ndim - 1,), keepdims=True),
        lambda a, b: xp.expand(a, shape=(3, 3)),
        lambda a, b: r.choice(MOVES)(a) if a.ndim > 1 else a,
        lambda a, b: r.choice(MOVES)(a) if a.ndim > 1 else a,
        lambda a, b: r.choice(FUNCTIONS)(a) if a.ndim else a,
    )
    for _ in range(r.randint(1, 7)):
        try:
            v = r.choice(steps)(r.choice(pool), r.choice(pool))
        except (SymgradError, ValueError, TypeError, IndexError, RuntimeError):  # shapes that do not fit
            continue
        if v.size:
            pool.append(v)
    return pool[-1]


def wrong_facts(seed):
    """Return the facts of a random value that its numbers do not have."""
    r = random.Random(seed)
    rng = np.random.default_rng(seed)
    value = random_value(r)
    arrays = [*map(rng.standard_normal, SHAPES.values()), *(rng.integers(3, size=s) for s in PLACES.values())]
    inputs = [*(input_value(i, s, F64) for i, s in SHAPES.items()), *(input_value(i, s, np.int64) for i, s in PLACES.items())]
    graph = Graph(inputs, [value])
    try:
        with np.errstate(all="ignore"):
            (found,) = evaluate(graph, arrays)
    except SymgradError:  # a matrix that has no inverse, or is not definite
        return []
    if not np.isfinite(found).all() or abs(found).max() > 1e6:
        return []
    return [name for name in facts(value) if not holds(name, found)]


def test_random_values_are_made_by_every_row_that_has_a_transfer_function():
    drawn = {v.op for seed in range(1000) for v in toposort((random_value(random.Random(seed)),), ())}
    written_as_others = {"squeeze", "unsqueeze", "t"}  # the builder makes reshape and transpose of them
    assert TRANSFER.keys() - drawn == written_as_others


def test_random_values_have_the_facts_that_are_said_of_them():
    found = {seed: wrong_facts(seed) for seed in range(1000)}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


def forget_all():
    """Forget what is known of all values that are alive."""
    for v in tuple(_table.values()):
        object.__setattr__(v, "known", None)


@pytest.mark.parametrize("op", ["sub", "mul", "matmul", "transpose", "tril", "diag_embed", "flip", "reshape"])
def test_the_random_check_finds_a_wrong_transfer_function(op, monkeypatch):
    monkeypatch.setitem(TRANSFER, op, lambda v, of: {name for a in v.args for name in of(a)} or {"symmetric"})
    forget_all()
    try:
        assert any(map(wrong_facts, range(1000)))
    finally:
        forget_all()
