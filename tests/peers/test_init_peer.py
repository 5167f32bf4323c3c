"""Initial values and clipped gradients beside PyTorch's: the same numbers, and as many drawn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


# --- initial values, from the default generator and from one's own

INITIALS = [
    "uniform_(t, -1, 2{g})", "normal_(t, 1, 2{g})", "trunc_normal_(t{g})", "trunc_normal_(t, 0.5, 0.2, -0.1, 0.9{g})",
    "trunc_normal_(t, 0, 1, 1.5, 1.8{g})", "trunc_normal_(t, 0.0, 0.02{g})", "constant_(t, 3)", "ones_(t)", "zeros_(t)",
    "xavier_uniform_(t, 2{g})", "xavier_normal_(t, 2{g})", "kaiming_uniform_(t, 0.1{g})", "kaiming_uniform_(t, a=5**0.5{g})",
    "kaiming_normal_(t, mode='fan_out', nonlinearity='relu'{g})", "orthogonal_(t{g})", "orthogonal_(t, 2.5{g})",
]  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 5), (40, 30), (6, 2, 3, 3), (30, 40)], ids=str)
@pytest.mark.parametrize("own", [False, True], ids=["default", "own"])
@pytest.mark.parametrize("call", INITIALS)
def test_initial_values(call, own, shape):
    assert_same_draw(call, own, shape)


@pytest.mark.parametrize(("call", "shape"), [
    ("eye_(t)", (3, 5)), ("sparse_(t, 0.3{g})", (20, 7)), ("sparse_(t, 0.1, std=2{g})", (5, 3)), ("dirac_(t)", (4, 3, 3)),
    ("dirac_(t, 2)", (4, 3, 3, 5)), ("dirac_(t)", (2, 3, 3, 3, 3)), ("orthogonal_(t)", (0, 3)), ("kaiming_normal_(t)", (0, 3)),
    ("uniform(t, 2, 3)", (3,)), ("orthogonal(t)", (3, 3)), ("sparse(t, 0.5)", (4, 4)), ("constant(t, 2)", (3,)), ("eye(t)", (3, 3)),
])  # fmt: skip
def test_initial_values_of_their_own_shapes(call, shape):
    assert_same_draw(call, False, shape)


def assert_same_draw(call, own, shape):
    exact = not any(word in call for word in ("orthogonal", "normal"))
    for dtype in ("float32", "float64"):
        results = []
        for module in (sg, torch):
            module.manual_seed(3)
            t = module.nn.Parameter(module.zeros(*shape, dtype=getattr(module, dtype)))
            g = ", generator=g" if own else ""
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                names = {"init": module.nn.init, "t": t, "g": module.Generator().manual_seed(9)}
                eval(f"init.{call.format(g=g)}", names)
            results.append(t.detach().numpy())
            results.append(module.rand(3).numpy())
        if exact:
            np.testing.assert_array_equal(results[0], results[2])
        else:
            tolerance = 2e-6 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(results[0], results[2], rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(results[1], results[3])  # as much was drawn


@pytest.mark.parametrize("order", [1, 2, 3, 0.5, float("inf"), "inf", -1.0])
def test_clipping(order):
    results = []
    for module in (sg, torch):
        module.manual_seed(0)
        ps = [module.nn.Parameter(module.zeros(n, 3)) for n in (2, 5)]
        for p in ps:
            p.grad = module.randn(*p.shape) * 10
        norm = module.nn.utils.clip_grad_norm_(ps, 2.5, order)
        results.append([norm.numpy(), *(p.grad.numpy() for p in ps)])
        module.nn.utils.clip_grad_value_(ps, 0.1)
        results[-1] += [p.grad.numpy() for p in ps]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
