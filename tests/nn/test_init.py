"""nn.init: PyTorch's numbers for the same seed, and what each filling promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.nn import init

# made with PyTorch: manual_seed(0), then the call on an empty tensor of size (2, 3)
DRAWN = [
    ("uniform_", (-1, 2), {}, [0.48876977, 1.30466533, -0.7345677, -0.60390854, -0.07773155, 0.90223604]),
    ("normal_", (1, 2), {}, [4.08199215, 0.41314217, -3.35757875, 2.13686252, -1.16904473, -1.79719079]),
    ("trunc_normal_", (0, 1, -0.5, 0.5), {}, [0.40334684, -0.2934289, 0.37039354, -0.40334353, -0.02087947, 0.18203649]),
    ("trunc_normal_", (0, 1, 1.5, 1.8), {}, [1.64887691, 1.55065763, 1.52654326, 1.53960919, 1.59222686, 1.69022357]),
    ("trunc_normal_", (0, 1, -0.3, 0.3), {}, [-0.00224605, 0.16093308, -0.24691355, -0.22078171, -0.11554632, 0.08044721]),
    ("xavier_uniform_", (2,), {}, [-0.0164028, 1.17528903, -1.80320156, -1.61236167, -0.84383094, 0.58750337]),
    ("xavier_normal_", (), {}, [0.97461152, -0.18558073, -1.37798738, 0.3595075, -0.68591213, -0.88454938]),
    ("kaiming_uniform_", (0.1,), {}, [-0.01053542, 0.75488079, -1.15818512, -1.03560984, -0.54198736, 0.37734973]),
    (
        "kaiming_normal_", (), {"mode": "FAN_OUT", "nonlinearity": "relu"},
        [1.54099607, -0.2934289, -2.17878938, 0.56843126, -1.08452237, -1.39859545],
    ),
    ("orthogonal_", (2,), {}, [1.14796185, -0.21858922, -1.62308431, -0.69083023, -1.86176538, -0.23787108]),
    ("sparse_", (0.5,), {}, [0.0, -0.00293429, 0.0, 0.00568431, 0.0, -0.01398595]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options", "values"), DRAWN, ids=lambda value: value if isinstance(value, str) else "")
def test_the_numbers_are_pytorchs(name, args, options, values):
    sg.manual_seed(0)
    parameter = nn.Parameter(sg.empty(2, 3))
    assert getattr(init, name)(parameter, *args, **options) is parameter
    np.testing.assert_allclose(parameter.detach().numpy().ravel(), values, rtol=2e-6, atol=1e-8)
    assert parameter.is_leaf


def test_a_generator_of_ones_own_leaves_the_default_one_alone():
    sg.manual_seed(0)
    t = init.xavier_uniform_(sg.empty(2, 3), generator=sg.Generator().manual_seed(9))
    values = [0.3413067162, -0.4337465465, -0.0440447256, 0.6076951623, 0.9157140255, 0.9443473816]
    np.testing.assert_allclose(t.numpy().ravel(), values, rtol=1e-6)
    assert sg.rand(1).item() == 0.49625658988952637


def test_constants():
    t = sg.empty(2, 3)
    assert init.constant_(t, 2.5).tolist() == [[2.5] * 3] * 2
    assert init.ones_(t).tolist() == [[1] * 3] * 2
    assert init.zeros_(t).tolist() == [[0] * 3] * 2
    assert init.eye_(t).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_truncated_numbers_stay_inside_and_look_normal():
    sg.manual_seed(1)
    for a, b in ((-0.5, 1.0), (1.5, 2.0)):
        t = init.trunc_normal_(sg.empty(20000, dtype=sg.float64), a=a, b=b)
        assert a <= t.min().item() <= t.max().item() <= b
        density, mass = lambda x: math.exp(-x * x / 2), math.sqrt(math.pi / 2) * (math.erf(b / 2**0.5) - math.erf(a / 2**0.5))
        assert t.mean().item() == pytest.approx((density(a) - density(b)) / mass, abs=0.01)
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(sg.empty(2), mean=5.0)


def test_a_dirac_convolution_hands_its_channels_on():
    weight = init.dirac_(sg.empty(4, 3, 3, 3), groups=2)
    x = sg.rand(1, 6, 5, 5)
    out = sg.nn.functional.conv2d(x, weight, padding=1, groups=2)
    np.testing.assert_array_equal(out.numpy(), x[:, [0, 1, 3, 4]].numpy())
    assert init.dirac_(sg.empty(1, 3, 3)).sum().item() == 1


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3)])
def test_orthogonal_rows_or_columns(shape):
    t = init.orthogonal_(sg.empty(*shape, dtype=sg.float64), gain=2).reshape(shape[0], -1)
    product = t @ t.T if t.shape[0] <= t.shape[1] else t.T @ t
    np.testing.assert_allclose(product.numpy(), 4 * np.eye(min(t.shape)), atol=1e-12)


def test_sparse_columns():
    t = init.sparse_(sg.empty(10, 4), sparsity=0.25, std=3.0)
    assert (t == 0).sum(0).tolist() == [3] * 4


@pytest.mark.parametrize(("shape", "mode", "deviation"), [
    ((200, 300), "fan_in", math.sqrt(2 / 300)), ((200, 300), "fan_out", math.sqrt(2 / 200)), ((80, 10, 3, 4), "fan_in", math.sqrt(2 / 120)),
])  # fmt: skip
def test_kaiming_deviation(shape, mode, deviation):
    sg.manual_seed(0)
    for fill in (init.kaiming_normal_, init.kaiming_uniform_):
        assert fill(sg.empty(*shape), mode=mode).std().item() == pytest.approx(deviation, rel=0.02)


def test_gains():
    assert [init.calculate_gain(name) for name in ("linear", "sigmoid", "conv2d", "conv_transpose3d")] == [1] * 4
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 0.5) == math.sqrt(1.6)
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / 1.0001)
    assert [init.calculate_gain("relu"), init.calculate_gain("selu")] == [math.sqrt(2), 0.75]


@pytest.mark.parametrize(("act", "words"), [
    (lambda: init.calculate_gain("zero"), "Unsupported nonlinearity zero"),
    (lambda: init.calculate_gain("leaky_relu", True), "negative_slope True not a valid number"),
    (lambda: init.xavier_normal_(sg.ones(3)), "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"),
    (lambda: init.kaiming_normal_(sg.ones(3, 3), mode="fan"), "Mode fan not supported, please use one of"),
    (lambda: init.eye_(sg.ones(3)), "Only tensors with 2 dimensions are supported"),
    (lambda: init.sparse_(sg.ones(3), 0.1), "Only tensors with 2 dimensions are supported"),
    (lambda: init.orthogonal_(sg.ones(3)), "Only tensors with 2 or more dimensions are supported"),
    (lambda: init.dirac_(sg.ones(3, 3)), "Only tensors with 3, 4, or 5 dimensions are supported"),
    (lambda: init.dirac_(sg.ones(3, 3, 3), groups=2), "dim 0 must be divisible by groups"),
])  # fmt: skip
def test_what_cannot_be_filled(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def test_without_elements_nothing_is_drawn():
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        assert init.kaiming_uniform_(sg.empty(0, 3)).shape == (0, 3)
    assert init.orthogonal_(sg.empty(0, 3)).shape == (0, 3)


def test_old_names_warn():
    for name in ("uniform", "normal", "eye", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal"):
        with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
            getattr(init, name)(sg.empty(2, 2))
    with pytest.warns(FutureWarning):
        assert init.constant(sg.empty(1), val=3).tolist() == [3]
