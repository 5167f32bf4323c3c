"""The rows of reductions, scans and sorting: rules against central differences to second order, and lowerings against kernels."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import gradcheck, gradgradcheck
from symgrad.dispatch import tensors as ops
from symgrad.ops.reduction import Everything
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap

ALL = Everything((0, 1, 2))
CASES = [
    *((name, {"axis": axis, "keepdims": keepdims}) for name in ("sum", "mean", "amax", "amin", "nansum", "logsumexp", "aminmax")
      for axis, keepdims in (((1,), False), ((0, 2), True), (ALL, False))),
    *(("prod", {"axis": axis, "keepdims": keepdims}) for axis, keepdims in (((1,), False), ((0,), True), (ALL, False))),
    ("max_all", {"axis": ALL, "keepdims": False}),
    ("min_all", {"axis": ALL, "keepdims": False}),
    ("median_all", {"axis": ALL, "keepdims": False}),
    ("nanmedian_all", {"axis": ALL, "keepdims": False}),
    *((name, {"axis": axis, "correction": correction, "keepdims": keepdims}) for name in ("var", "std", "var_mean", "std_mean")
      for axis, correction, keepdims in (((1,), 1, False), ((0, 2), 0, True), (ALL, 0.5, False))),
    *((name, {"axis": axis, "reverse": reverse}) for name in ("cumsum", "cumprod", "logcumsumexp") for axis in (0, 1, 2)
      for reverse in (False, True)),
    *(("shift", {"axis": axis, "by": by, "fill": 1}) for axis, by in ((0, 1), (1, -1), (2, 2), (2, -3))),
    *((name, {"axis": axis}) for name in ("cummax", "cummin", "prod_rest") for axis in (0, 2)),
    *(("sort", {"axis": axis, "descending": descending}) for axis, descending in ((0, False), (1, True))),
    *(("topk", {"k": 2, "axis": axis, "largest": largest}) for axis, largest in ((1, True), (2, False))),
    *((name, {"axis": axis, "keepdims": keepdims}) for name in ("max_along", "min_along", "median_along", "nanmedian_along", "mode")
      for axis, keepdims in ((0, False), (2, True))),
    *(("kthvalue", {"k": 2, "axis": axis, "keepdims": keepdims}) for axis, keepdims in ((1, False), (2, True))),
    *(("vector_norm", {"ord": p, "axis": axis, "keepdims": keepdims}) for p in (1, 2, 3, 1.5, -1, np.inf, -np.inf)
      for axis, keepdims in (((1,), False), (ALL, True))),
]  # fmt: skip
UNSMOOTH = [
    *((name, {"axis": axis, "keepdims": keepdims}) for name in ("argmax", "argmin") for axis, keepdims in (((1,), False), (ALL, True))),
    *((name, {"axis": (0, 1), "keepdims": True}) for name in ("all", "any", "count_nonzero")),
    ("argsort", {"axis": 1, "descending": True}),
    *(("vector_norm", {"ord": p, "axis": (0, 2), "keepdims": False}) for p in (0, 0.5)),
]  # fmt: skip


def leaf(shape=(2, 3, 4), seed=0):
    """Elements that are far apart, so that differences do not cross a tie."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    return wrap(rng.permutation(np.linspace(-1.7, 1.9, n)).reshape(shape), requires_grad=True)


def label(value):
    return value if isinstance(value, str) else " ".join(map(str, value.values()))


@pytest.mark.parametrize(("name", "attrs"), CASES, ids=label)
def test_rule(name, attrs):
    def f(x):
        result = getattr(ops, name)(x, **attrs)
        return tuple(t for t in result if t.requires_grad) if isinstance(result, tuple) else result

    x = leaf()
    assert gradcheck(f, (x,), rtol=1e-6, atol=1e-8)
    assert gradgradcheck(f, (x,), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence_rule(axis, reverse):
    def f(x, y):
        return ops.recurrence(x, y, axis=axis, reverse=reverse)

    args = leaf((4, 3)), leaf((4, 3), 1)
    assert gradcheck(f, args, rtol=1e-6, atol=1e-8)
    assert gradgradcheck(f, args, rtol=1e-5, atol=1e-7)


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


def test_carrying_along_rules():
    indices = wrap(np.array([[[0, 2, 2, 0]], [[1, 1, 0, 2]]]))
    assert gradgradcheck(lambda x: ops.take_along(x, indices, axis=1) ** 2, (leaf(),))
    assert gradcheck(lambda g: ops.scatter_along(g, indices, axis=1, size=3), (leaf((2, 1, 4)),))
    assert gradgradcheck(lambda g: ops.scatter_along(g, indices, axis=1, size=3) ** 2, (leaf((2, 1, 4)),))


def test_scatter_along_adds_what_meets():
    g, indices = np.arange(1.0, 7).reshape(2, 3), np.array([[1, 1, -1], [0, 3, 0]])
    got = TABLE["scatter_along"].numpy(g, indices, axis=1, size=4)
    np.testing.assert_array_equal(got, [[0, 3, 0, 3], [10, 0, 0, 5]])
    with pytest.raises(IndexError, match="dimension 1 with size 3"):
        TABLE["scatter_along"].numpy(g, indices, axis=1, size=3)


def test_take_along_refuses_other_shapes():
    x, indices = leaf((2, 3)), wrap(np.zeros((5, 1), np.int64))
    with pytest.raises(RuntimeError, match=r"take_along: apart from dimension 1.*\[5, 1\].*\[2, 3\]"):
        ops.take_along(x, indices, axis=1)
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        ops.take_along(x, wrap(np.zeros(3, np.int64)), axis=0)


@pytest.mark.parametrize(("name", "attrs"), CASES + UNSMOOTH, ids=label)
def test_lowering_and_type_agree_with_the_kernel(name, attrs):
    jax = pytest.importorskip("jax")
    x = leaf()._array
    row = TABLE[name]
    want = row.numpy(x, **attrs)
    with jax.enable_x64(True):
        text = row.jax("x", **attrs)
        got = eval(text, {"jax": jax, "jnp": jax.numpy, "x": jax.numpy.asarray(x)})
    wants, gots, types = (v if isinstance(v, tuple) else (v,) for v in (want, got, row.type(x, **attrs)))
    for w, g, t in zip(wants, gots, types, strict=True):
        w, g = np.asarray(w), np.asarray(g)
        assert g.shape == w.shape == tuple(t.shape)
        assert w.dtype == t.dtype
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["mode", "median_along", "nanmedian_along", "max_along", "cummax"])
def test_lowering_agrees_at_ties_and_nan(name):
    jax = pytest.importorskip("jax")
    x = np.array([[3, 1, 1, 3, 2], [np.nan, 2, 2, 1, 1], [0, 0, 0, 0, 0]])[: 1 if name == "mode" else 3]
    attrs = {"axis": 1} if name == "cummax" else {"axis": 1, "keepdims": False}
    with jax.enable_x64(True):
        got = eval(TABLE[name].jax("x", **attrs), {"jax": jax, "jnp": jax.numpy, "x": jax.numpy.asarray(x)})
    for g, w in zip(got, TABLE[name].numpy(x, **attrs), strict=True):
        np.testing.assert_array_equal(np.asarray(g), w)


def test_lowering_of_rows_with_indices():
    jax = pytest.importorskip("jax")
    x, y, indices = leaf((2, 3))._array, leaf((2, 3), 1)._array, np.array([[0, 2, 2], [1, 0, 1]])
    for name, args, attrs in (
        ("take_along", (x, indices), {"axis": 1}), ("scatter_along", (x, indices), {"axis": 1, "size": 5}),
        ("recurrence", (x, y), {"axis": 1, "reverse": True}), ("recurrence", (x, y), {"axis": 0, "reverse": False}),
    ):  # fmt: skip
        with jax.enable_x64(True):
            values = dict(zip("ab", map(jax.numpy.asarray, args), strict=True))
            got = eval(TABLE[name].jax("a", "b", **attrs), {"jax": jax, "jnp": jax.numpy, **values})
        np.testing.assert_allclose(np.asarray(got), TABLE[name].numpy(*args, **attrs), rtol=1e-12)


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
