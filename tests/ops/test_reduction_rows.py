"""The rows of reductions, scans and sorting: rules against central differences to second order, and lowerings against kernels."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import gradcheck, gradgradcheck
from symgrad.dispatch import tensors as ops
from symgrad.ops.namespace import raw
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.reduction_samples import REDUCTIONS, spaced

CASES = [(name, args, attrs) for name, make in REDUCTIONS.items() for args, attrs in make()]
SMOOTH = [case for case in CASES if TABLE[case[0]].differentiable and case[2].get("ord") != 0]


def leaf(*shape, seed=0):
    return wrap(spaced(*shape, seed=seed), requires_grad=True)


def label(value):
    return value if isinstance(value, str) else "" if isinstance(value, tuple) else " ".join(map(str, value.values()))


@pytest.mark.parametrize(("name", "args", "attrs"), SMOOTH, ids=label)
def test_rule(name, args, attrs):
    def f(*args):
        result = getattr(ops, name)(*args, **attrs)
        return tuple(t for t in result if t.requires_grad) if isinstance(result, tuple) else result

    leaves = tuple(wrap(np.array(a), requires_grad=a.dtype.kind == "f") for a in args)
    assert gradcheck(f, leaves, rtol=1e-6, atol=1e-8)
    assert gradgradcheck(f, leaves, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", [(1,), (7,), (33,), (100,), (1000,), (257, 3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence_of_any_length(shape, reverse):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape), rng.normal(size=shape)
    turn = slice(None, None, -1 if reverse else 1)
    want = np.empty(shape)
    state = 0
    for k in range(shape[0])[turn]:
        state = want[k] = x[k] * state + y[k]
    np.testing.assert_allclose(TABLE["recurrence"].numpy(x, y, axis=0, reverse=reverse), want, rtol=1e-9)


def test_scatter_along_adds_what_meets():
    g, indices = np.arange(1.0, 7).reshape(2, 3), np.array([[1, 1, -1], [0, 3, 0]])
    got = TABLE["scatter_along"].numpy(g, indices, axis=1, size=4)
    np.testing.assert_array_equal(got, [[0, 3, 0, 3], [10, 0, 0, 5]])
    with pytest.raises(IndexError, match="dimension 1 with size 3"):
        TABLE["scatter_along"].numpy(g, indices, axis=1, size=3)


def test_take_along_refuses_other_shapes():
    x, indices = leaf(2, 3), wrap(np.zeros((5, 1), np.int64))
    with pytest.raises(RuntimeError, match=r"take_along: apart from dimension 1.*\[5, 1\].*\[2, 3\]"):
        ops.take_along(x, indices, axis=1)
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        ops.take_along(x, wrap(np.zeros(3, np.int64)), axis=0)


@pytest.mark.parametrize(("name", "args", "attrs"), [case for case in CASES if TABLE[case[0]].compose], ids=label)
def test_composition_agrees_with_the_kernel(name, args, attrs):
    np.testing.assert_allclose(TABLE[name].compose(raw, *args, **attrs), TABLE[name].numpy(*args, **attrs), rtol=1e-12)


@pytest.mark.parametrize(("name", "args", "attrs"), CASES, ids=label)
def test_lowering_agrees_with_the_kernel(name, args, attrs):
    jax = pytest.importorskip("jax")
    want = TABLE[name].numpy(*args, **attrs)
    with jax.enable_x64(True):
        values = dict(zip("xy", map(jax.numpy.asarray, args), strict=False))
        got = eval(TABLE[name].jax(*values, **attrs), {"jax": jax, "jnp": jax.numpy, **values})
    for w, g in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, got)), strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["mode", "median_along", "nanmedian_along", "max_along", "cummax"])
def test_lowering_agrees_at_ties_and_nan(name):
    jax = pytest.importorskip("jax")
    x = np.array([[3, 1, 1, 3, 2], [np.nan, 2, 2, 1, 1], [0, 0, 0, 0, 0]])[: 1 if name == "mode" else 3]
    attrs = {"axis": 1} if name == "cummax" else {"axis": 1, "keepdims": False}
    with jax.enable_x64(True):
        got = eval(TABLE[name].jax("x", **attrs), {"jax": jax, "jnp": jax.numpy, "x": jax.numpy.asarray(x)})
    for g, w in zip(got, TABLE[name].numpy(x, **attrs), strict=True):
        np.testing.assert_array_equal(np.asarray(g), w)


@pytest.mark.parametrize("shape", [(100_000, 10), (5000, 3, 7), (1_000_003,), (1000, 1000)])
def test_sums_of_float32_are_accurate_along_every_dimension(shape):
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    for axis in [(i,) for i in range(x.ndim)] + [tuple(range(x.ndim - 1)), tuple(range(x.ndim))]:
        for name, keepdims in (("sum", False), ("mean", True)):
            got = TABLE[name].numpy(x, axis=axis, keepdims=keepdims)
            want = getattr(np, name)(x, axis=axis, keepdims=keepdims, dtype=np.float64)
            assert got.dtype == np.float32
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1.2e-6)


@pytest.mark.parametrize("shape", [(70, 50), (3000,), (40, 7, 11), (2049,)])
def test_squares_of_float32_are_summed_accurately_and_leave_their_input_alone(shape):
    x = np.random.default_rng(0).normal(3.0, 2.0, shape).astype(np.float32)
    kept = x.copy()
    everything = tuple(range(x.ndim))
    for axis in {(0,), everything}:
        for keepdims in (False, True):
            got = TABLE["vector_norm"].numpy(x, ord=2, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(got, np.sqrt((x.astype(np.float64) ** 2).sum(axis, keepdims=keepdims)), rtol=5e-7)
            got = TABLE["var"].numpy(x, axis=axis, correction=1, keepdims=keepdims)
            np.testing.assert_allclose(got, x.astype(np.float64).var(axis, ddof=1, keepdims=keepdims), rtol=2e-6)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_running_sums_in_both_directions(dtype, axis, reverse):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    turned = np.flip(x, axis) if reverse else x
    want = np.flip(np.cumsum(turned, axis), axis) if reverse else np.cumsum(turned, axis)
    got = TABLE["cumsum"].numpy(x, axis=axis, reverse=reverse)
    np.testing.assert_array_equal(got, want)
    assert got.flags.c_contiguous


def test_running_sum_of_float32_keeps_its_digits():
    x = wrap(np.full(1_000_000, 0.1, np.float32))
    np.testing.assert_allclose(sg.cumsum(x, 0)._array[-1], 1e5, rtol=1e-6)


def test_saved_values_are_only_those_read():
    x = wrap(np.ones((50, 4)), requires_grad=True)
    assert x.sum().grad_fn.saved[0] is x  # an edge, no array
    assert x.mean(0).grad_fn.saved[0] is x
    assert x.cumsum(0).grad_fn.saved[0] is x
    node = x.sort(0).values.grad_fn
    assert node.saved[0] is x
    assert node.out[0] is None
    assert node.out[1].dtype == np.int64
