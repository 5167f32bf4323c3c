"""The rows that rearrange, join, cut, index and write: rules against central differences to second order, lowerings and types against
kernels, views that share memory."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.application import apply
from symgrad.autograd import gradcheck, gradgradcheck
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.shape_samples import shape_samples

CASES = [(name, *sample) for name, some in shape_samples().items() for sample in some]


def cases(keep=lambda row: True):
    chosen = [case for case in CASES if keep(TABLE[case[0]])]
    return pytest.mark.parametrize(("name", "args", "attrs"), chosen, ids=lambda v: v if isinstance(v, str) else "")


@cases(lambda row: row.differentiable)
def test_rules(name, args, attrs):
    row = TABLE[name]
    inputs = [wrap(a.copy(), requires_grad=a.dtype.kind == "f") for a in args]

    def f(*given):
        result = apply(row, given, attrs)
        return tuple(r * r for r in result) if isinstance(result, tuple) else result * result

    assert gradcheck(f, inputs, rtol=1e-6, atol=1e-8)
    assert gradgradcheck(f, inputs, rtol=1e-5, atol=1e-7)


@cases(lambda row: row.outputs == 0)
def test_rules_when_some_pieces_are_unused(name, args, attrs):
    x = wrap(args[0], requires_grad=True)
    pieces = apply(TABLE[name], (x,), attrs)
    (pieces[-1] * pieces[-1]).sum().backward()
    expected = np.zeros(x.shape)
    TABLE[name].numpy(expected, **attrs)[-1][...] = 2 * pieces[-1]._array
    np.testing.assert_allclose(x.grad._array, expected)


@cases()
def test_types_tell_the_truth(name, args, attrs):
    row = TABLE[name]
    results, types = row.numpy(*args, **attrs), row.type(*args, **attrs)
    for result, meta in zip(*((v if isinstance(v, tuple) else (v,)) for v in (results, types)), strict=True):
        assert (tuple(meta.shape), meta.dtype) == (np.asarray(result).shape, np.asarray(result).dtype)


@cases()
def test_lowerings_agree_with_kernels(name, args, attrs):
    jax = pytest.importorskip("jax")
    row, names = TABLE[name], [f"v{i}" for i in range(len(args))]
    keywords = "".join(f", {key}={value!r}" for key, value in attrs.items())
    text = row.jax(*names, **attrs) if callable(row.jax) else f"{row.jax}({', '.join(names)}{keywords})"
    with jax.enable_x64(True):
        got = eval(text, {"jax": jax, "jnp": jax.numpy, **dict(zip(names, map(jax.numpy.asarray, args), strict=True))})
    wanted = row.numpy(*args, **attrs)
    for w, g in zip(*((v if isinstance(v, (tuple, list)) else (v,)) for v in (wanted, got)), strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-12)


@cases()
def test_views_share_memory_and_nothing_else_does(name, args, attrs):
    row = TABLE[name]
    results = row.numpy(*args, **attrs)
    for result in results if isinstance(results, tuple) else (results,):
        shares = any(np.shares_memory(result, a) for a in args)
        assert shares == (row.view and np.asarray(result).size > 0)


@cases(lambda row: row.view)
def test_attributes_are_hashable_and_make_the_view_again(name, args, attrs):
    row = TABLE[name]
    hash(tuple(attrs.items()))
    first, again = row.numpy(*args, **attrs), row.numpy(args[0].copy(), **attrs)
    for x, y in zip(*((v if isinstance(v, tuple) else (v,)) for v in (first, again)), strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.flags.writeable
