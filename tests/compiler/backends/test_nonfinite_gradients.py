"""Gradients of activations at NaN, infinities and ties, eager and compiled: the figures are PyTorch 2.13's for single numbers.

For long arrays PyTorch's vector instructions answer NaN otherwise than its code for single numbers; symgrad always has the latter.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.nn import functional as F

nan, inf = math.nan, math.inf
POINTS = {
    "hardtanh": [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "relu6": [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0],
    "hardshrink": [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0],
    "softshrink": [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0],
    "hardswish": [1.0, 1.0, 0.0, 0.5, 0.5, 0.8333333, 0.1666667, 0.6666667, 0.3333333, 1.0, 1.0, 0.0],
    "hardsigmoid": [0.0, 0.0, 0.0, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.0, 0.0, 0.0],
    "threshold": [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0],
    "elu": [1.0, 1.0, 0.0, 0.5, 0.5, 1.0, 0.1839397, 1.0, 0.3032653, 1.0, 1.0, 0.0248935],
    "selu": [1.050701, 1.050701, 0.0, 1.7580993, 1.7580993, 1.050701, 0.6467686, 1.050701, 1.0663412, 1.050701, 1.050701, 0.0875306],
    "celu": [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.3678794, 1.0, 0.6065307, 1.0, 1.0, 0.0497871],
    "softplus": [nan, 1.0, 0.0, 0.5, 0.5, 0.7310586, 0.2689414, 0.6224593, 0.3775407, 0.9975274, 0.9525741, 0.0474259],
    "relu": [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
    "leaky_relu": [0.01, 1.0, 0.01, 0.01, 0.01, 1.0, 0.01, 1.0, 0.01, 1.0, 1.0, 0.01],
    "clamp": [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "gelu": [nan, nan, nan, 0.5, 0.5, 1.0833155, -0.0833155, 0.8674951, 0.1325049, 1.0, 1.0119456, -0.0119456],
    "silu": [nan, nan, nan, 0.5, 0.5, 0.9276705, 0.0723295, 0.7399612, 0.2600388, 1.0123264, 1.0881041, -0.0881041],
    "mish": [nan, nan, nan, 0.6, 0.6, 1.0490362, 0.0592168, 0.8864244, 0.2895107, 1.0001341, 1.0211069, -0.0933931],
    "logsigmoid": [nan, 0.0, 1.0, 0.5, 0.5, 0.2689414, 0.7310586, 0.3775407, 0.6224593, 0.0024726, 0.0474259, 0.9525741],
    "softsign": [nan, nan, nan, 1.0, 1.0, 0.25, 0.25, 0.4444444, 0.4444444, 0.0204082, 0.0625, 0.0625],
    "tanhshrink": [nan, 1.0, 1.0, 0.0, 0.0, 0.5800257, 0.5800257, 0.2135523, 0.2135523, 0.9999754, 0.990134, 0.990134],
    "abs": [0.0, 1.0, -1.0, 0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0],
    "lgamma": [nan, inf, nan, -inf, inf, -0.5772157, nan, -1.96351, 0.03649, 1.7061177, 0.9227843, nan],
}
CALLS = {
    "hardtanh": F.hardtanh, "relu6": F.relu6, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "threshold": lambda x: F.threshold(x, 0.5, 2.0), "elu": lambda x: F.elu(x, 0.5), "selu": F.selu,
    "celu": F.celu, "softplus": F.softplus, "relu": F.relu, "leaky_relu": F.leaky_relu, "clamp": lambda x: x.clamp(-1, 1), "gelu": F.gelu,
    "silu": F.silu, "mish": F.mish, "logsigmoid": F.logsigmoid, "softsign": F.softsign, "tanhshrink": F.tanhshrink, "abs": sg.abs,
    "lgamma": sg.lgamma,
}  # fmt: skip
AT = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 6.0, 3.0, -3.0]


@pytest.mark.parametrize("how", ["eager", "numpy", "xla"])
def test_gradients_at_special_points(how):
    x = sg.tensor(AT, dtype=sg.float64)
    for name, call in CALLS.items():
        leaf = x.clone().requires_grad_()
        run = call if how == "eager" else sg.compile(lambda x, call=call: call(x).sum(), backend=how)
        if how != "eager":
            np.testing.assert_allclose(run.grad(x, wrt="x").numpy(), POINTS[name], rtol=3e-6, atol=1e-7, err_msg=f"{name} before a call")
        run(leaf).sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), POINTS[name], rtol=3e-6, atol=1e-7, err_msg=name)
