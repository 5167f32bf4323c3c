"""x.add_(y, alpha=a) and sub_ write straight into the memory where they can: the same numbers, errors and marks as the slow path."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

LARGE = 1 << 15  # above what BLAS is called for


def numbers(shape, dtype=sg.float64, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape), dtype=dtype)


@pytest.mark.parametrize("size", [1, 100, LARGE])
@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_values(size, dtype):
    x, y = numbers(size, dtype), numbers(size, dtype, 1)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype is sg.float32 else {"rtol": 1e-14, "atol": 1e-15}
    np.testing.assert_allclose(x.clone().add_(y, alpha=0.3).numpy(), (x + y * 0.3).numpy(), **tolerance)
    np.testing.assert_allclose(x.clone().sub_(y, alpha=0.3).numpy(), (x - y * 0.3).numpy(), **tolerance)


@pytest.mark.parametrize(
    ("target", "other"),
    [
        (lambda t: t, lambda t: t.t()),
        (lambda t: t.t(), lambda t: t),
        (lambda t: t[:, ::2], lambda t: t[:, 1::2]),
        (lambda t: t, lambda t: t[:1]),
        (lambda t: t[1:], lambda t: t[:-1]),  # in one memory, and shifted
        (lambda t: t, lambda t: t),
    ],
)
def test_layouts(target, other):
    t = numbers((256, 256))
    source = t if target(t).shape[0] == 255 else numbers((256, 256), seed=1)
    wanted = target(t).numpy() + other(source).numpy().copy() * 0.25
    x = target(t)
    assert x.add_(other(source), alpha=0.25) is x
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-14, atol=1e-14)


def test_with_itself():
    x = numbers(LARGE)
    wanted = x.numpy() * 1.5
    np.testing.assert_allclose(x.add_(x, alpha=0.5).numpy(), wanted, rtol=1e-14)


def test_nothing_times_infinity_is_not_a_number():
    x = sg.zeros(LARGE).add_(sg.full((LARGE,), float("inf")), alpha=0.0)
    assert x.isnan().all()


def test_other_types_meet_as_ever():
    x = sg.zeros(2, dtype=sg.float32).add_(sg.ones(2, dtype=sg.float64), alpha=0.5)
    assert (x.dtype, x.tolist()) == (sg.float32, [0.5, 0.5])
    assert sg.zeros(2, dtype=sg.float16).add_(sg.ones(2, dtype=sg.float16), alpha=0.5).tolist() == [0.5, 0.5]
    assert sg.zeros(2).add_(3, alpha=0.5).tolist() == [1.5, 1.5]
    with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be a floating point number"):
        sg.zeros(2, dtype=sg.int64).add_(sg.ones(2, dtype=sg.int64), alpha=0.5)


@pytest.mark.parametrize("size", [4, LARGE])
def test_a_write_is_noticed(size):
    x = sg.ones(size, requires_grad=True)
    y = x * 2
    z = y * y
    with sg.no_grad():
        y.add_(sg.ones(size), alpha=0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_derivatives():
    x, y = (sg.ones(3, dtype=sg.float64, requires_grad=True) for _ in range(2))
    x.clone().sub_(y, alpha=0.5).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0] * 3, [-0.5] * 3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(y, alpha=0.5)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(sg.ones(3, dtype=sg.float64), alpha=0.5)


def test_refused():
    with pytest.raises(RuntimeError, match="broadcast shape"):
        sg.zeros(1).add_(sg.ones(3), alpha=0.5)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        sg.zeros(1).expand(3).add_(sg.ones(3), alpha=0.5)
    array = np.zeros(LARGE)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = sg.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(sg.ones(LARGE, dtype=sg.float64), alpha=0.5)
    assert not array.any()
