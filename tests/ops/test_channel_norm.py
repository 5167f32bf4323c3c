"""Batch norm by the rows of images: the kernels against plain NumPy in double precision, the rules against the general ones."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.ops.kernels.channels import by_channel, channel_norm, channel_norm_weight, channel_norm_x
from symgrad.ops.namespace import raw
from symgrad.ops.table import TABLE

rng = np.random.default_rng(0)
SHAPES = [(4, 3), (5, 3, 2), (6, 2, 3, 4), (300, 3, 2, 2), (4, 2, 2, 3, 2)]


def drawn(shape, dtype=np.float64):
    statistics = (1, shape[1], *(1,) * (len(shape) - 2))
    x, g = (rng.normal(3, 2, size=shape).astype(dtype) for _ in range(2))
    weight, bias = (rng.normal(size=statistics).astype(dtype) for _ in range(2))
    return x, g, weight, bias, (0, *range(2, len(shape)))


@pytest.mark.parametrize("shape", SHAPES)
def test_value(shape):
    x, _, weight, bias, axes = drawn(shape)
    y, mean, scale = channel_norm(x, weight, bias, 0.1)
    expected = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 0.1)
    np.testing.assert_allclose(y, expected * weight + bias, atol=1e-12)
    np.testing.assert_allclose(mean, x.mean(axes, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(scale, 1 / np.sqrt(x.var(axes, keepdims=True) + 0.1), rtol=1e-12)
    np.testing.assert_allclose(channel_norm(x, 1, 0, 0.1)[0], expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_the_general_rules(shape, weighted):
    x, g, weight, bias, axes = drawn(shape)
    weight, bias = (weight, bias) if weighted else (1, 0)
    _, mean, scale = channel_norm(x, weight, bias, 0.1)
    attrs = {"axes": axes, "eps": 0.1, "shape": None, "title": "NativeBatchNormBackward0"}
    in_x, in_weight, _ = (rule.__wrapped__ if hasattr(rule, "__wrapped__") else rule for rule in TABLE["affine_norm"].vjp)
    general = in_x(raw, (g, None, None), (None, mean, scale), x, weight, bias, **attrs)
    np.testing.assert_allclose(channel_norm_x(g, x, mean, scale, weight), general, atol=1e-12)
    general = in_weight(raw, (g, None, None), (None, mean, scale), x, weight, bias, **attrs).sum(axes, keepdims=True)
    np.testing.assert_allclose(channel_norm_weight(g, x, mean, scale, weight), general, rtol=1e-10)


def test_long_batches_keep_single_precision():
    x = rng.normal(100, 1, size=(5000, 2, 3)).astype(np.float32)
    _, mean, scale = channel_norm(x, 1, 0, 0.0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean[0, :, 0], wide.mean((0, 2)), rtol=2e-7)
    np.testing.assert_allclose(scale[0, :, 0], 1 / wide.std((0, 2)), rtol=2e-5)


def test_what_is_left_to_the_general_kernel():
    x, _, weight, bias, axes = drawn((6, 2, 3, 4))
    assert by_channel(x, axes, weight, bias)
    assert not by_channel(x, (2, 3), 1, 0)
    assert not by_channel(x[:3], axes, 1, 0)
    assert not by_channel(np.ones(4), (0,), 1, 0)
    assert not by_channel(x.swapaxes(2, 3), axes, 1, 0)
    assert not by_channel(x, axes, np.ones((1, 2, 3, 4)), 0)
    assert not by_channel(x.astype(np.float16), axes, 1, 0)
    assert not by_channel(np.empty((6, 2, 0, 4)), axes, 1, 0)
