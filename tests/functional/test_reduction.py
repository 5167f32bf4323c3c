"""Public reductions: call forms, types, printed pairs, and what happens at ties, zeros and NaN. The figures are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

nan, inf = float("nan"), float("inf")


def gradient(f, data):
    x = wrap(np.array(data, np.float64), requires_grad=True)
    result = f(x)
    total = sum((t.sum() for t in result if t.requires_grad), start=sg.tensor(0.0)) if isinstance(result, tuple) else result.sum()
    (g,) = sg.autograd.grad(total, x, create_graph=True)
    if not g.requires_grad:
        return g._array, np.zeros_like(g._array)
    weights = wrap(np.arange(1.0, g._array.size + 1).reshape(g._array.shape))
    (h,) = sg.autograd.grad((g * weights).sum(), x, allow_unused=True)
    return g._array, np.zeros_like(g._array) if h is None else h._array


@pytest.mark.parametrize(
    ("f", "data", "first", "second"),
    [
        (lambda x: x.max(), [1, 1], [0.5, 0.5], [0, 0]),
        (lambda x: x.max(), [2, 1, 2], [0.5, 0, 0.5], [0, 0, 0]),
        (lambda x: x.max(), [1, nan, nan], [0, 0.5, 0.5], [0, 0, 0]),
        (lambda x: x.amin(), [3, 3, 3, 4], [1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0, 0]),
        (lambda x: x.max(0), [1, 1], [1, 0], [0, 0]),
        (lambda x: x.aminmax(), [2, 1, 2], [0.5, 1, 0.5], [0, 0, 0]),
        (lambda x: x.prod(), [0, 3, 2], [6, 0, 0], [13, 2, 3]),
        (lambda x: x.prod(0), [0, 0, 2], [0, 0, 0], [4, 2, 0]),
        (lambda x: x.prod(), [5], [1], [0]),
        (lambda x: x.cumprod(0), [0, 3, 2], [10, 0, 0], [15, 3, 3]),
        (lambda x: x.cumprod(0), [0, 0, 2], [1, 0, 0], [6, 3, 0]),
        (lambda x: x.std(), [1, 1], [0, 0], [0, 0]),
        (lambda x: x.var(), [1, 1], [0, 0], [-1, 1]),
        (lambda x: x.norm(), [3, -4], [0.6, -0.8], [0.32, 0.24]),
        (lambda x: x.norm(), [0, 0], [0, 0], [0, 0]),  # to second order PyTorch has NaN
        (lambda x: x.norm(1), [0, -2], [0, -1], [0, 0]),
        (lambda x: x.norm(inf), [2, -2, 1], [0.5, -0.5, 0], [0, 0, 0]),
        (lambda x: x.norm(0), [2, 0], [0, 0], [0, 0]),
        (lambda x: x.logsumexp(0), [-inf, 1], [0, 1], [0, 0]),
        (lambda x: x.logsumexp(0), [-inf, -inf], [nan, nan], [nan, nan]),
        (lambda x: x.logsumexp(0), [1000, 1000], [0.5, 0.5], [-0.25, 0.25]),
        (lambda x: x.nansum(), [nan, 1], [0, 1], [0, 0]),
        (lambda x: x.nanmean(), [nan, 1, 2], [0, 0.5, 0.5], [0, 0, 0]),
        (lambda x: x.sort(descending=True), [1, 1, 2], [1, 1, 1], [0, 0, 0]),
        (lambda x: x.cummax(0), [3, 1, nan, 2], [2, 0, 2, 0], [0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_derivatives_at_special_points(f, data, first, second):
    g, h = gradient(f, data)
    np.testing.assert_allclose(g, first, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(h, second, rtol=1e-9, atol=1e-12)


def test_one_element_has_no_variance():
    assert np.isnan(sg.tensor([1.0]).var()._array)
    assert sg.tensor([1.0]).var(correction=0)._array == 0
    assert np.isinf(sg.tensor([1.0, 2.0]).var(correction=3)._array)


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda x: x.var(), 143 / 11),
        (lambda x: x.var(False), 143 / 12),
        (lambda x: x.var(unbiased=False), 143 / 12),
        (lambda x: x.var(correction=2), 143 / 10),
        (lambda x: x.var(1)[0], 1),
        (lambda x: x.var(1, False)[0], 2 / 3),
        (lambda x: x.var(1, False, True)[0, 0], 2 / 3),
        (lambda x: x.var((0, 1), correction=0, keepdim=True)[0, 0], 143 / 12),
        (lambda x: x.var(dim=[0], keepdim=True)[0, 0], 45 / 3),
        (lambda x: sg.var(x, axis=1, keepdims=True)[0, 0], 1),
        (lambda x: sg.var_mean(x, False)[0], 143 / 12),
        (lambda x: sg.std_mean(x, dim=1, unbiased=False)[0][1] ** 2, 2 / 3),
    ],
)  # fmt: skip
def test_call_forms_of_variance(call, want):
    x = wrap(np.arange(12.0).reshape(4, 3))
    np.testing.assert_allclose(call(x)._array, want, rtol=1e-12)


def test_dims_are_given_in_any_form():
    x = wrap(np.arange(24.0).reshape(2, 3, 4))
    want = x._array.sum((0, 2))
    for dim in ((0, 2), [2, 0], (-3, -1), (np.int64(0), 2)):
        np.testing.assert_array_equal(x.sum(dim)._array, want)
    np.testing.assert_array_equal(sg.sum(x, axis=(0, 2), keepdims=True)._array, want.reshape(1, 3, 1))
    np.testing.assert_array_equal(x.amax(())._array, 23)
    np.testing.assert_array_equal(x.sum(np.int64(1))._array, x._array.sum(1))


@pytest.mark.parametrize(
    ("given", "function", "wanted"),
    [
        (np.bool_, "sum", np.int64), (np.uint8, "sum", np.int64), (np.int32, "prod", np.int64), (np.bool_, "cumsum", np.int64),
        (np.float16, "sum", np.float16), (np.float16, "mean", np.float16), (np.int64, "logsumexp", np.float32),
        (np.int32, "amax", np.int32),
        (np.uint8, "all", np.uint8), (np.float32, "any", np.bool_), (np.float32, "argmax", np.int64), (np.complex64, "var", np.float32),
        (np.complex128, "norm", np.float64), (np.bool_, "max", np.bool_), (np.float32, "count_nonzero", np.int64),
    ],
)  # fmt: skip
def test_types(given, function, wanted):
    x = wrap(np.array([1, 0, 1]).astype(given))
    args = (0,) if function in ("cumsum", "logsumexp") else ()
    assert getattr(x, function)(*args)._array.dtype == wanted


def test_half_precision_is_summed_in_single():
    x = wrap(np.ones(5000, np.float16))
    assert x.sum()._array == 5000
    assert x.mean()._array == 1
    assert x.cumsum(0)._array[-1] == 5000


def test_mean_of_integers_needs_a_dtype():
    x = sg.tensor([1, 2, 4])
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype.*Got: Long"):
        x.mean()
    assert x.mean(dtype=sg.float64)._array == 7 / 3


def test_two_tensors_are_compared_elementwise():
    x, y = sg.tensor([1.0, 5.0]), sg.tensor([2.0, 3.0])
    for call in (lambda: sg.max(x, y), lambda: x.max(y), lambda: sg.max(x, other=y)):
        np.testing.assert_array_equal(call()._array, [2, 5])
    np.testing.assert_array_equal(x.min(y)._array, [1, 3])


def test_pairs_are_named_and_printed():
    x = sg.tensor([[1.0, 2.0], [3.0, 0.0]])
    pair = x.max(1)
    values, indices = pair
    assert pair.values is values
    assert pair[1] is indices is pair.indices
    assert isinstance(pair, sg.return_types.max)
    assert repr(pair) == "torch.return_types.max(\nvalues=tensor([2., 3.]),\nindices=tensor([1, 0]))"


def test_integer_outputs_carry_no_gradient():
    x = sg.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)
    for pair in (x.max(1), x.sort(), x.topk(1), x.kthvalue(1), x.cummin(0)):
        assert pair[0].requires_grad
        assert not pair[1].requires_grad
    assert not x.argmax().requires_grad


def test_out_takes_the_results():
    x = sg.tensor([[1.0, 2.0], [3.0, 0.0]])
    values, indices = sg.tensor([0.0, 0.0]), sg.tensor([0, 0])
    sg.max(x, 1, out=(values, indices))
    np.testing.assert_array_equal(values._array, [2, 3])
    np.testing.assert_array_equal(indices._array, [1, 0])
    total = sg.tensor([0.0, 0.0])
    sg.sum(x, 0, out=total)
    np.testing.assert_array_equal(total._array, [4, 2])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(7,), (600,), (3, 1000), (1000, 3)])
def test_topk_takes_the_first_of_equal_elements(shape, largest):
    axis = shape.index(max(shape))
    x = np.random.default_rng(0).integers(0, 20, shape).astype(np.float64)
    values, indices = wrap(x).topk(5, axis, largest)
    want = np.argsort(-x if largest else x, axis, kind="stable")
    np.testing.assert_array_equal(indices._array, np.take(want, range(5), axis))
    np.testing.assert_array_equal(values._array, np.take_along_axis(x, indices._array, axis))


def test_sort_puts_nan_at_the_large_end():
    x = sg.tensor([3.0, nan, 1.0, nan, 3.0])
    assert x.argsort()._array.tolist() == [2, 0, 4, 1, 3]
    assert x.argsort(descending=True)._array.tolist() == [1, 3, 0, 4, 2]
    assert x.topk(3).indices._array.tolist() == [1, 3, 0]


def test_running_sums_in_place():
    x = sg.tensor([1.0, 2.0, 3.0])
    x.cumsum_(0)
    assert x._array.tolist() == [1, 3, 6]
    x.cumprod_(0)
    assert x._array.tolist() == [1, 3, 18]


def test_complex_numbers():
    z = wrap(np.array([1 + 2j, 3 - 1j]), requires_grad=True)
    (g,) = sg.autograd.grad(z.norm(), z)
    np.testing.assert_allclose(g._array, z._array / np.linalg.norm(z._array), rtol=1e-12)
    (g,) = sg.autograd.grad(z.var(), z)
    np.testing.assert_allclose(g._array, 2 * (z._array - z._array.mean()), rtol=1e-12)
    (g,) = sg.autograd.grad(z.prod(), z, grad_outputs=wrap(np.array(1 + 0j)))
    np.testing.assert_allclose(g._array, z._array[::-1].conj(), rtol=1e-12)
    with pytest.raises(RuntimeError, match="complex"):
        z.argmax()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.sum(2), IndexError, r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
        (lambda x: x.sum((0, -2)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (lambda x: x.sum("a"), TypeError, r"sum\(\) received an invalid combination of arguments.*not str"),
        (lambda x: x.sum((0, 1.5)), TypeError, r"sum\(\): argument 'dim' must be tuple of ints.*float"),
        (lambda x: x.max((0, 1)), TypeError, r"max\(\) received an invalid combination of arguments"),
        (lambda x: x.topk(4), RuntimeError, "selected index k out of range"),
        (lambda x: x.kthvalue(9), RuntimeError, "selected number k out of range for dimension 1"),
        (lambda x: x.logsumexp(None), TypeError, "logsumexp.*'dim' must be tuple of ints, not NoneType"),
        (lambda x: x[:0].max(), RuntimeError, r"max\(\): Expected reduction dim to be specified for input.numel\(\) == 0"),
        (lambda x: x[:0].amin(0), IndexError, r"amin\(\): Expected reduction dim 0 to have non-zero size"),
        (lambda x: x[:0].argmax(), IndexError, r"argmax\(\): Expected reduction dim to be specified"),
        (lambda x: x[:0].norm(-1), RuntimeError, "cannot compute the -1 norm on an empty tensor"),
        (lambda x: x.norm("bad"), RuntimeError, "Order bad not supported"),
        (lambda x: sg.sum((1, 2)), TypeError, r"sum\(\): argument 'input' \(position 1\) must be Tensor, not tuple"),
        (lambda x: sg.sort("3"), TypeError, r"sort\(\): argument 'input' \(position 1\) must be Tensor, not str"),
        (lambda x: x.cumsum(None), TypeError, r"cumsum\(\): argument 'dim' \(position 2\) must be int, not NoneType"),
        (lambda x: x.max("a"), TypeError, r"max\(\) received an invalid combination of arguments.*str"),
        (lambda x: x.median(1.5), TypeError, r"median\(\): argument 'dim' must be int, not float"),
        (lambda x: x.topk(1.5), TypeError, r"topk\(\): argument 'k' \(position 2\) must be int, not float"),
        (lambda x: x.norm([1]), TypeError, r"norm\(\): argument 'p' must be Number, not list"),
        (lambda x: x.var(0, correction="a"), TypeError, r"var\(\) received an invalid combination.*Number, not str"),
        (lambda x: x.var(0, True, correction=1), TypeError, r"var\(\) received an invalid combination"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call(sg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
