"""Large arrays are computed block by block: the results are those of the same function on small pieces."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.nn import functional as F
from symgrad.ops.kernels.blocks import BLOCK, LARGE
from symgrad.ops.namespace import raw
from symgrad.ops.table import TABLE

ROWS = {
    "elu": {"alpha": 1.5, "scale": 1.2, "rate": 0.7}, "gelu": {"approximate": "none"}, "mish": {}, "normal_cdf": {}, "silu": {},
    "softplus": {"beta": 2.0, "threshold": 20.0},
}  # fmt: skip
SIZE = LARGE + BLOCK + 17


def values(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ROWS)
def test_elementwise(name, dtype):
    row, x, g = TABLE[name], values(SIZE, dtype=dtype), values(SIZE, dtype=dtype, seed=1)
    pieces = [slice(start, start + 1000) for start in range(0, SIZE, 1000)]
    kernel, rule = row.numpy(x, **ROWS[name]), row.vjp[0](raw, g, None, x, **ROWS[name])
    np.testing.assert_allclose(kernel, np.concatenate([row.numpy(x[p], **ROWS[name]) for p in pieces]), rtol=1e-6)
    np.testing.assert_allclose(
        rule, np.concatenate([row.vjp[0](raw, g[p], None, x[p], **ROWS[name]) for p in pieces]), rtol=1e-5, atol=1e-6
    )
    assert kernel.dtype == rule.dtype == dtype
    turned = x[: SIZE // 17 * 17].reshape(-1, 17).T
    np.testing.assert_allclose(row.numpy(turned, **ROWS[name]), kernel[: turned.size].reshape(-1, 17).T, rtol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_an_axis(name, axis):
    row, x, g = TABLE[name], values(50, 30, 60, dtype=np.float64), values(50, 30, 60, dtype=np.float64, seed=1)
    shifted = np.exp(x - x.max(axis, keepdims=True))
    expected = shifted / shifted.sum(axis, keepdims=True)
    out = row.numpy(x, axis=(axis,))
    np.testing.assert_allclose(np.exp(out) if name == "log_softmax" else out, expected, rtol=1e-12)
    slope = row.vjp[0](raw, g, out, None, axis=(axis,))
    wanted = expected * (g - (g * expected).sum(axis, keepdims=True)) if name == "softmax" else g - expected * g.sum(axis, keepdims=True)
    np.testing.assert_allclose(slope, wanted, rtol=1e-10, atol=1e-14)


def gradients(function, *arrays):
    leaves = [sg.tensor(a, requires_grad=True) for a in arrays]
    out = function(*leaves)
    (out * sg.tensor(values(*out.shape, dtype=np.float64, seed=9))).sum().backward()
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


def by_steps(x, w, b, axes):
    centred = x - x.mean(axes, keepdim=True)
    return centred * ((centred**2).mean(axes, keepdim=True) + 1e-5).rsqrt() * w + b


def test_norms_are_their_composition():
    x, w, b = values(40, 64, 50, dtype=np.float64), values(50, dtype=np.float64), values(50, dtype=np.float64, seed=2)
    for mine, wanted in zip(
        gradients(lambda *t: F.layer_norm(t[0], (50,), *t[1:]), x, w, b), gradients(lambda *t: by_steps(*t, -1), x, w, b), strict=True
    ):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-10)
    w, b = values(64, dtype=np.float64), values(64, dtype=np.float64, seed=2)

    def groups(x, w, b):
        shape = (40, 8, 8, 50)
        return by_steps(x.reshape(shape), w.reshape(1, 8, 8, 1), b.reshape(1, 8, 8, 1), (2, 3)).reshape(40, 64, 50)

    for mine, wanted in zip(gradients(lambda *t: F.group_norm(t[0], 8, *t[1:]), x, w, b), gradients(groups, x, w, b), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("rows", [3, 1000])
def test_embeddings_that_are_picked_often_and_rarely(rows):
    """Of 3 rows each is picked many times, of 1000 mostly once."""
    picks = np.random.default_rng(0).integers(0, rows, (20, 15))
    _, slope = gradients(lambda w: F.embedding(sg.tensor(picks), w), values(rows, 4, dtype=np.float64))
    expected = np.zeros((rows, 4))
    np.add.at(expected, picks, values(20, 15, 4, dtype=np.float64, seed=9))
    np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-13)


def test_the_normal_distribution_in_single_precision():
    from scipy.special import ndtr

    x = np.concatenate([np.linspace(-12, 12, 20001), [-1e30, 1e30, -np.inf, np.inf, 0.0]]).astype(np.float32)
    np.testing.assert_allclose(TABLE["normal_cdf"].numpy(x), ndtr(x.astype(np.float64)), rtol=0, atol=1.5e-7)
    assert np.isnan(TABLE["normal_cdf"].numpy(np.array([np.nan], np.float32))).all()
