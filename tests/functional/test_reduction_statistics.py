"""Medians, modes, quantiles, differences, covariances and counts. The figures are PyTorch's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import gradcheck
from symgrad.tensor import wrap

nan = float("nan")


def values(t):
    return t._array.tolist()


def test_medians_take_the_lower_middle():
    x = sg.tensor([[4.0, 1.0, 3.0, 2.0], [nan, 5.0, 7.0, 6.0]])
    assert values(x[0].median()) == 2
    assert np.isnan(x.median()._array)
    assert values(x.nanmedian()) == 4
    pair = x.median(1)
    np.testing.assert_array_equal(pair.values._array, [2, nan])
    assert values(pair.indices) == [3, 0]
    pair = x.nanmedian(1, keepdim=True)
    assert values(pair.values) == [[2], [6]]
    assert values(pair.indices) == [[3], [3]]
    assert np.isnan(sg.tensor([]).median()._array)


def test_median_of_everything_shares_the_gradient():
    x = sg.tensor([2.0, 1.0, 2.0], requires_grad=True)
    x.median().backward()
    assert values(x.grad) == [0.5, 0, 0.5]
    x.grad = None
    x.median(0).values.backward()
    assert values(x.grad) == [1, 0, 0]


def test_mode_is_the_smallest_of_the_most_frequent_at_its_last_place():
    pair = sg.tensor([[3, 1, 3, 1, 2], [0, 5, 5, 5, 0]]).mode()
    assert values(pair.values) == [1, 5]
    assert values(pair.indices) == [3, 3]


@pytest.mark.parametrize(
    ("interpolation", "want"), [("linear", 1.8), ("lower", 1), ("higher", 2), ("midpoint", 1.5), ("nearest", 2)]
)
def test_quantile_between_elements(interpolation, want):
    x = sg.tensor([3.0, 1.0, 2.0], dtype=sg.float64)
    np.testing.assert_allclose(x.quantile(0.4, interpolation=interpolation)._array, want)


def test_quantiles_of_lines():
    x = sg.tensor([[3.0, 1.0, 2.0], [nan, 5.0, 4.0]], dtype=sg.float64, requires_grad=True)
    q = sg.tensor([0.0, 0.4], dtype=sg.float64)
    np.testing.assert_allclose(x.quantile(q, 1)._array, [[1, nan], [1.8, nan]])
    np.testing.assert_allclose(x.nanquantile(q, 1, keepdim=True)._array, [[[1], [4]], [[1.8], [4.4]]])
    x.nanquantile(0.4, 1).sum().backward()
    np.testing.assert_allclose(x.grad._array, [[0, 0.2, 0.8], [0, 0.4, 0.6]])


def test_differences():
    x = sg.tensor([1.0, 4.0, 9.0, 16.0], requires_grad=True)
    assert values(x.diff()) == [3, 5, 7]
    assert values(x.diff(2)) == [2, 2]
    assert values(x.diff(prepend=sg.tensor([0.0]), append=sg.tensor([0.0]))) == [1, 3, 5, 7, -16]
    (x.diff() ** 2).sum().backward()
    assert values(x.grad) == [-6, -4, -4, 14]
    assert values(sg.tensor([True, False, False]).diff()) == [True, False]


def test_covariances_are_numpys():
    x = sg.tensor([[1.0, 2.0, 4.0, 3.0], [2.0, 1.0, 0.0, 5.0]], dtype=sg.float64, requires_grad=True)
    often, much = sg.tensor([1, 2, 0, 3]), sg.tensor([0.5, 0.25, 1.0, 2.0], dtype=sg.float64)
    for options in ({}, {"correction": 0}, {"fweights": often}, {"aweights": much}, {"fweights": often, "aweights": much}):
        plain = {name.replace("correction", "ddof"): getattr(value, "_array", value) for name, value in options.items()}
        np.testing.assert_allclose(sg.cov(x, **options).detach()._array, np.cov(x.detach()._array, **plain), rtol=1e-12)
        assert gradcheck(lambda x, options=options: x.cov(**options), (x,))
    np.testing.assert_allclose(x[0].cov().item(), 5 / 3)
    assert sg.cov(sg.tensor([[1, 2, 4]])).item() == pytest.approx(7 / 3)


def test_correlations_lie_between_minus_one_and_one():
    x = sg.tensor([[1.0, 2.0, 4.0], [-3.0, -6.0, -12.0], [1.0, 0.0, 2.0]])
    np.testing.assert_allclose(x.corrcoef()._array, np.corrcoef(x._array), rtol=1e-6)
    sg.manual_seed(0)
    row = sg.randn(1, 5)
    assert sg.cat((row, 3 * row, -7 * row)).corrcoef().abs().max() == 1  # where rounding alone would give 1.0000001
    assert values(sg.corrcoef(x[0])) == 1
    z = wrap(np.array([[1 + 1j, 2 - 1j, 3j], [1j, 2.0, -1 + 0j]]))
    np.testing.assert_allclose(z.corrcoef()._array, np.corrcoef(z._array), rtol=1e-12, atol=1e-15)


def test_covariance_without_freedom_warns():
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert np.isnan(sg.tensor([2.0]).cov().item())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fweights": [1.0, 1.0]}, "fweights to have integral dtype but got fweights with Float dtype"),
        ({"fweights": [[1, 1]]}, "fweights to have one or fewer dimensions but got fweights with 2 dimensions"),
        ({"fweights": [1, -1]}, "fweights cannot be negative"),
        ({"aweights": [1, 1]}, "aweights to have floating point dtype but got aweights with Long dtype"),
        ({"aweights": [1.0]}, "aweights to have the same numel as there are observations in the input but got 1 != 2"),
        ({"aweights": [0.0, 0.0]}, "weights sum to zero, can't be normalized"),
    ],
)
def test_covariance_refuses(options, words):
    with pytest.raises(RuntimeError, match=re.escape(words)):
        sg.cov(sg.ones(3, 2), **{name: sg.tensor(value) for name, value in options.items()})


def test_covariance_is_of_vectors_and_matrices():
    for function in (sg.cov, sg.corrcoef):
        with pytest.raises(RuntimeError, match=rf"{function.__name__}\(\): expected input to have two or fewer dim"):
            function(sg.ones(2, 2, 2))
    with pytest.raises(RuntimeError, match="bool dtype is not supported"):
        sg.cov(sg.tensor([True, False]))


def test_distinct_elements():
    x = sg.tensor([2, 1, 1, 2, 2])
    assert [values(t) for t in x.unique(return_inverse=True, return_counts=True)] == [[1, 2], [1, 0, 0, 1, 1], [2, 3]]
    assert [values(t) for t in x.unique_consecutive(return_inverse=True, return_counts=True)] == [[2, 1, 2], [0, 1, 1, 2, 2], [1, 2, 2]]
    assert len(values(sg.tensor([nan, nan, 1.0]).unique())) == 3
    assert values(sg.unique(sg.tensor([[1, 2], [1, 2], [0, 1]]), dim=0)) == [[0, 1], [1, 2]]


def test_bincount():
    x = sg.tensor([1, 3, 1])
    assert values(x.bincount()) == [0, 2, 0, 1]
    assert values(x.bincount(minlength=6)) == [0, 2, 0, 1, 0, 0]
    assert values(sg.bincount(x, weights=sg.tensor([0.5, 1.0, 0.25]))) == [0, 0.75, 0, 1]
    with pytest.raises(RuntimeError, match="1-d non-negative integral"):
        sg.tensor([-1]).bincount()
    with pytest.raises(RuntimeError, match=r"same length as input.*\[2\] for \[3\]"):
        x.bincount(sg.tensor([1.0, 2.0]))


def test_running_logsumexp_of_large_numbers_is_smooth_to_second_order():
    x = wrap(np.array([1000.0, 1000.0, -1000.0]), requires_grad=True)
    (g,) = sg.autograd.grad(x.logcumsumexp(0).sum(), x, create_graph=True)
    np.testing.assert_allclose(g._array, [2, 1, 0], rtol=1e-12)
    (h,) = sg.autograd.grad(g[0], x)
    np.testing.assert_allclose(h._array, [0.5, -0.5, 0], rtol=1e-12)
