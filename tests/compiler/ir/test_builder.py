"""The builder: the dispatcher's promotion written out as casts, and folding that is exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.printer import text
from symgrad.compiler.ir.verify import verify
from symgrad.errors import GraphError
from symgrad.tensor import wrap

X = input_value(0, (2, 3), np.float64)
Y = input_value(1, (3,), np.float64)
OPERANDS = [
    np.ones((2, 3), np.float32), np.ones((2, 3), np.int32), np.ones((2, 3), bool), np.ones((), np.float64), np.ones((), np.int64),
    2, 0.5, True, np.ones((3,), np.float16),
]  # fmt: skip


@pytest.mark.parametrize("op", ["add", "mul", "div", "maximum", "lt"])
def test_types_meet_as_in_eager_code(op):
    for a, b in itertools.product(OPERANDS, OPERANDS):
        if not isinstance(a, np.ndarray) or not isinstance(b, (np.ndarray, int, float)):
            continue
        wanted = getattr(sg.dispatch.tensors, op)(wrap(a), wrap(b) if isinstance(b, np.ndarray) else b)
        x = input_value(0, a.shape, a.dtype)
        y = input_value(1, b.shape, b.dtype) if isinstance(b, np.ndarray) else b
        value = getattr(xp, op)(x, y)
        assert (value.shape, value.dtype) == (wanted._array.shape, wanted._array.dtype), (op, a.dtype, b)
        verify(Graph([x, y] if isinstance(b, np.ndarray) else [x], [value]))


def test_a_cast_is_a_value():
    narrow = input_value(1, (2, 3), np.float32)
    assert "cast(%x1; dtype=float64) : float64[2, 3]" in text(Graph([X, narrow], [X + narrow]))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (lambda: X * 1, X),
        (lambda: 1 * X, X),
        (lambda: X + 0, X),
        (lambda: 0 + X, X),
        (lambda: X - 0, X),
        (lambda: 0 - X, -X),
        (lambda: X / 1, X),
        (lambda: X * (xp.expand(X * 0 + 3, shape=(2, 3)) / 2), X * 1.5),
        (lambda: xp.neg(-X), X),
        (lambda: X**1, X),
        (lambda: xp.where(X > 0, X, X), X),
        (lambda: xp.transpose(xp.transpose(X, dim0=0, dim1=1), dim0=1, dim1=0), X),
        (lambda: xp.transpose(X, dim0=1, dim1=1), X),
        (lambda: xp.reshape(xp.reshape(X, shape=(6,)), shape=(2, 3)), X),
        (lambda: xp.reshape(xp.reshape(X, shape=(6,)), shape=(3, -1)), xp.reshape(X, shape=(3, 2))),
        (lambda: xp.expand(X, shape=(2, 3)), X),
        (lambda: xp.expand(xp.expand(Y, shape=(2, 3)), shape=(4, 2, 3)), xp.expand(Y, shape=(4, 2, 3))),
        (lambda: xp.expand(Y, shape=(2, 3)) * X, Y * X),
        (lambda: xp.cast(X, dtype=np.dtype(np.float64)), X),
        (lambda: xp.sum(xp.reshape(X, shape=(2, 1, 3)), axis=(1,), keepdims=False), X),
        (lambda: xp.t(X), xp.transpose(X, dim0=0, dim1=1)),
        (lambda: xp.permute(X, axes=(1, 0)), xp.transpose(X, dim0=0, dim1=1)),
        (lambda: xp.detach(xp.detach(X)), xp.detach(X)),
    ],
)  # fmt: skip
def test_folds(written, meant):
    assert written() is meant


def test_a_fold_keeps_the_shape_of_the_result():
    assert (Y + X * 0).shape == (2, 3)
    assert (Y * xp.expand(X * 0 + 1, shape=(4, 2, 3))).shape == (4, 2, 3)


@pytest.mark.parametrize(
    "kept",
    [
        lambda: X * 1.5,
        lambda: X + 1e-300,
        lambda: X / 2,
        lambda: X * ((X * 0 + 1) / 3),
        lambda: xp.transpose(xp.reshape(X, shape=(3, 2)), dim0=0, dim1=1),
        lambda: xp.cast(xp.cast(X, dtype=np.dtype(np.float32)), dtype=np.dtype(np.float64)),
        lambda: xp.reshape(xp.expand(Y, shape=(2, 3)), shape=(6,)),
        lambda: xp.log(xp.exp(X)),
        lambda: (X + 1e16) - 1e16,
    ],
)  # fmt: skip
def test_what_is_not_exact_stays(kept):
    assert kept() is not X
    assert any(v.row is not None for v in Graph([X, Y], [kept()]).values)


def test_operands_that_are_no_values():
    with pytest.raises(GraphError, match="values and numbers, got list of 2"):
        xp.add(X, [1, 2])


def test_shape_errors_are_the_rows_own():
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        X + input_value(1, (2,), np.float64)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("zero", [0.0, -0.0, 0])
def test_zero_times_what_is_not_finite_is_nan_as_in_eager_code(backend, zero):
    x = sg.tensor([float("nan"), float("inf"), -1.0, 2.0])
    for scale in (lambda x: x * zero, lambda x: zero * x, lambda x: x * sg.full_like(x, zero)):
        found, wanted = sg.compile(scale, backend=backend)(x).numpy(), scale(x).numpy()
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[2:]), np.signbit(wanted[2:]))
