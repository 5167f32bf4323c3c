"""The rows under nn.functional: first and second derivatives against central differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.dispatch import tensors as ops
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing import gradcheck, gradgradcheck


def leaf(*shape, low=-2.0, high=2.0, seed=0):
    return wrap(np.random.default_rng(seed).uniform(low, high, shape), requires_grad=True)


ACTIVATIONS = {
    "leaky_relu": {"negative_slope": 0.1}, "celu": {"alpha": 0.7}, "elu": {"alpha": 1.5, "scale": 1.2, "rate": 0.7},
    "gelu": {"approximate": "none"}, "silu": {},
    "mish": {}, "softplus": {"beta": 2, "threshold": 20}, "log_sigmoid": {}, "hardtanh": {"low": -1.0, "high": 1.0}, "hardsigmoid": {},
    "hardswish": {}, "softshrink": {"lambd": 0.5}, "hardshrink": {"lambd": 0.5}, "threshold": {"threshold": 0.3, "value": 7.0},
    "softmax": {"axis": (1,)}, "log_softmax": {"axis": (0,)}, "glu": {"axis": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    function = lambda x: getattr(ops, name)(x, **ACTIVATIONS[name])
    x = leaf(3, 4)
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_gelu_by_tanh():
    assert gradcheck(lambda x: ops.gelu(x, approximate="tanh"), (leaf(5),))
    assert gradgradcheck(lambda x: ops.gelu(x, approximate="tanh"), (leaf(5),))


def test_gelu_far_from_zero_in_single_precision():
    """Nothing of x is left on one side, and all on the other: erf(x) was 6e-8 short of 1, and gelu(-1e8) was -3."""
    x = np.array([-1e30, -1e8, -100, -10, 10, 100, 1e8, 1e30, np.inf], np.float32)
    np.testing.assert_array_equal(ops.normal_cdf(wrap(x))._array, (x > 0).astype(np.float32))
    np.testing.assert_array_equal(ops.gelu(wrap(x), approximate="none")._array, x * (x > 0))


def test_prelu():
    assert gradcheck(ops.prelu, (leaf(3, 4), leaf(1, 4, seed=1)))
    assert gradgradcheck(ops.prelu, (leaf(3, 4), leaf(1, 4, seed=1)))


LOSSES = {
    "mse_loss": {}, "huber_loss": {"delta": 0.7}, "smooth_l1_loss": {"beta": 0.6}, "binary_cross_entropy": {},
    "binary_cross_entropy_with_logits": {}, "soft_margin_loss": {},
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name, reduction):
    low, high = (0.1, 0.9) if name == "binary_cross_entropy" else (-2.0, 2.0)
    x, y = leaf(3, 4, low=low, high=high), leaf(3, 4, low=low, high=high, seed=1)
    weights = (None,) * (len(TABLE[name].args) - 2)
    function = lambda x, y: getattr(ops, name)(x, y, *weights, reduction=reduction, **LOSSES[name])
    assert gradcheck(function, (x, y))
    assert gradgradcheck(function, (x, y))


def test_affine_norm_with_its_statistics():
    """All three results are differentiated, also through each other."""

    def function(x, w, b):
        y, mean, scale = ops.affine_norm(x, w, b, axes=(0, 2), eps=1e-3, shape=None, title="NativeBatchNormBackward0")
        return y, mean, scale

    args = leaf(3, 2, 4), leaf(1, 2, 1, seed=1), leaf(1, 2, 1, seed=2)
    assert gradcheck(function, args)
    assert gradgradcheck(function, args)


def test_affine_norm_without_parameters():
    function = lambda x: ops.affine_norm(x, 1, 0, axes=(1,), eps=1e-3, shape=None, title="NativeLayerNormBackward0")[0]
    assert gradcheck(function, (leaf(3, 5),))
    np.testing.assert_allclose(function(leaf(3, 5))._array.mean(1), 0, atol=1e-12)


GEOMETRIES = [
    {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolution(geometry):
    x, w, b = leaf(2, 4, 5, 6), leaf(2, 4 // geometry["groups"], 3, 2, seed=1), leaf(2, seed=2)
    function = lambda x, w, b: ops.convolution(x, w, b, **geometry)
    assert gradcheck(function, (x, w, b))
    assert gradgradcheck(function, (x, w, b))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_transposed_convolution(geometry):
    x, w = leaf(2, 4, 3, 4), leaf(4, 2, 3, 2, seed=1)
    sizes = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + 1
        for n, s, p, d, k in zip((3, 4), geometry["stride"], geometry["padding"], geometry["dilation"], (3, 2), strict=True)
    )
    function = lambda x, w: ops.convolution_transpose(x, w, None, output_shape=sizes, **geometry)
    assert gradcheck(function, (x, w))
    assert gradgradcheck(function, (x, w))


def test_max_pool_is_linear_where_it_is_smooth():
    geometry = {"kernel": (2, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 1), "ceil_mode": False}
    function = lambda x: ops.max_pool(x, **geometry)[0]
    assert gradcheck(function, (leaf(2, 3, 5, 4),))
    assert gradgradcheck(function, (leaf(2, 3, 5, 4),))


def test_average_pools():
    geometry = {
        "kernel": (2, 3),
        "stride": (2, 2),
        "padding": (1, 1),
        "ceil_mode": True,
        "count_include_pad": False,
        "divisor_override": None,
    }
    for function in (lambda x: ops.avg_pool(x, **geometry), lambda x: ops.adaptive_avg_pool(x, output_size=(2, 3))):
        assert gradcheck(function, (leaf(2, 3, 5, 7),))
        assert gradgradcheck(function, (leaf(2, 3, 5, 7),))


def test_linear():
    for x in (leaf(3, 4), leaf(2, 3, 4), leaf(4)):
        args = x, leaf(5, 4, seed=1), leaf(5, seed=2)
        assert gradcheck(ops.linear, args)
        assert gradgradcheck(ops.linear, args)


def test_pad_and_crop():
    widths = ((1, 0), (0, 2))
    assert gradcheck(lambda x: ops.pad(x, widths=widths, value=3.0), (leaf(3, 4),))
    assert gradgradcheck(lambda x: ops.crop(x, widths=widths) ** 2, (leaf(3, 4),))


def test_extreme_arguments_stay_finite():
    x = wrap(np.array([-1000.0, -40.0, 0.0, 40.0, 1000.0]), requires_grad=True)
    for name in ("silu", "mish", "log_sigmoid"):
        x.grad = None
        out = getattr(ops, name)(x)
        ops.sum(out, axis=(0,), keepdims=False).backward()
        assert np.isfinite(out._array).all(), name
        assert np.isfinite(x.grad._array).all(), name
    out = ops.softplus(x, beta=1, threshold=math.inf)
    np.testing.assert_allclose(out._array, [0.0, math.exp(-40.0), math.log(2), 40.0, 1000.0], rtol=1e-12)


@pytest.mark.parametrize(("name", "loss"), [("mse_loss", np.square), ("l1_loss", np.abs)])
def test_weighted_losses(name, loss):
    rng = np.random.default_rng(0)
    x, y, w = (rng.uniform(0.5, 2.0, (3, 4)) for _ in range(3))
    each = w * loss(x - y)
    for reduction, wanted in (("none", each), ("sum", each.sum()), ("mean", each.sum() / w.sum())):
        found = getattr(sg.nn.functional, name)(sg.tensor(x), sg.tensor(y), weight=sg.tensor(w), reduction=reduction)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
