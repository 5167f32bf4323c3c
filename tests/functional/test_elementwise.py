"""Public elementwise functions: operators, in-place forms, types, complex numbers, half precision, errors."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.kernels.select import select
from symgrad.tensor import wrap


def same(tensor, expected, dtype=None):
    np.testing.assert_array_equal(tensor._array, np.asarray(expected))
    assert dtype is None or tensor.dtype is dtype


# --- operators


def test_reflected_operators_with_numbers():
    x = sg.tensor([1.0, 2.0, 4.0])
    same(3 + x, [4, 5, 7])
    same(1 - x, [0, -1, -3])
    same(3 * x, [3, 6, 12])
    same(4 / x, [4, 2, 1])
    same(2**x, [2, 4, 16])
    same(5 // x, [5, 2, 1])
    same(5 % x, [0, 1, 1])
    same(3 & sg.tensor([1, 2, 4]), [1, 2, 0])
    same(1 << sg.tensor([1, 2]), [2, 4])
    same(16 >> sg.tensor([1, 2]), [8, 4])


def test_what_is_of_another_type_than_its_input_has_no_in_place_form():
    """As in PyTorch: the angle of a complex number is real."""
    for name in ("angle", "isnan", "isfinite", "signbit"):
        assert hasattr(sg.Tensor, name)
        assert not hasattr(sg.Tensor, f"{name}_")


def test_in_place_operators_keep_the_tensor():
    x = sg.tensor([4.0, 9.0])
    kept = x
    x += 1
    x -= 2
    x *= 3
    x /= 2
    same(x, [4.5, 12.0])
    x //= 1
    x **= 2
    x %= 10
    same(x, [6, 4])
    assert x is kept
    bits = sg.tensor([6, 3])
    kept = bits
    bits &= 5
    bits |= 8
    bits ^= 1
    bits <<= 2
    bits >>= 1
    same(bits, [26, 16])
    assert bits is kept


def test_in_place_on_a_recorded_tensor_has_the_derivative_of_the_plain_form():
    def plain(x):
        y = x * 2
        return y.add(y, alpha=3).sub(1).div(x).pow(2).clamp(max=30).sigmoid()

    def in_place(x):
        y = x * 2
        return y.add_(y.clone(), alpha=3).sub_(1).div_(x).pow_(2).clamp_(max=30).sigmoid_()

    grads = []
    for f in (plain, in_place):
        x = sg.tensor([0.5, -1.0, 2.0], dtype=sg.float64, requires_grad=True)
        f(x).sum().backward()
        grads.append(x.grad._array)
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-12)


def test_comparing_with_what_is_no_number_is_left_to_python():
    x = sg.tensor([1.0])
    assert (x == None) is False  # noqa: E711  (the operator itself is tested)
    assert (x != "a") is True
    with pytest.raises(TypeError, match="'<' not supported between instances of 'Tensor' and 'NoneType'"):
        x < None  # noqa: B015  (it raises)


def test_positive_is_the_tensor_itself():
    x = sg.tensor([1.0])
    assert +x is x
    assert sg.positive(x) is x


def test_a_small_exponent_needs_no_logarithm():
    x = sg.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    same(x.grad, [12, 0, 27])


# --- results and types


def test_out_receives_the_result():
    out = sg.tensor([0.0, 0.0])
    x = sg.tensor([1.0, 4.0])
    assert sg.sqrt(x, out=out) is out
    same(out, [1, 2])
    assert sg.add(x, x, alpha=2, out=out) is out
    same(out, [3, 12])
    assert sg.mul(x, 2, out=out) is out
    same(out, [2, 8])


@pytest.mark.parametrize(
    ("f", "dtype"),
    [
        (lambda i: i + 1, sg.int32), (lambda i: i + 1.5, sg.float32), (lambda i: i / 2, sg.float32), (lambda i: i // 2, sg.int32),
        (lambda i: i // 2.0, sg.float32), (lambda i: i.sqrt(), sg.float32), (lambda i: i**2, sg.int32), (lambda i: i**2.0, sg.float32),
        (lambda i: i.clamp(min=0), sg.int32), (lambda i: i.clamp(min=0.5), sg.float32),
        (lambda i: i > 1, sg.bool), (lambda i: i.floor(), sg.int32),
        (lambda i: i * sg.tensor(2.0, dtype=sg.float64), sg.float64),
        (lambda i: i.float_power(2), sg.float64), (lambda i: i * True, sg.int32),
        (lambda i: i * 1j, sg.complex64),
        (lambda i: i.maximum(sg.tensor([1], dtype=sg.int64)), sg.int64), (lambda i: i.nan_to_num(), sg.int32),
        (lambda i: sg.where(i > 1, i, 0.5), sg.float32), (lambda i: sg.where(i > 1, 1, 0), sg.int64),
    ],
)  # fmt: skip
def test_types_of_integers(f, dtype):
    assert f(sg.tensor([1, 2, 3], dtype=sg.int32)).dtype is dtype


def test_integer_division_rounds_down_and_truncation_towards_zero():
    x, y = sg.tensor([7, -7, 7, -7]), sg.tensor([2, 2, -2, -2])
    same(x // y, [3, -4, -4, 3], sg.int64)
    same(sg.div(x, y, rounding_mode="trunc"), [3, -3, -3, 3], sg.int64)
    same(x % y, [1, 1, -1, -1])
    same(sg.fmod(x, y), [1, -1, 1, -1])


def test_integers_to_negative_powers():
    same(sg.pow(sg.tensor([1, -1, 2, -1]), sg.tensor([-3, -3, -1, -2])), [1, -1, 0, 1])


def test_lerp_is_exact_at_both_ends():
    x, y = sg.tensor([0.1, 1e8]), sg.tensor([0.7, -3.0])
    same(sg.lerp(x, y, 0.0), x._array)
    same(sg.lerp(x, y, 1.0), y._array)
    same(sg.lerp(x, y, sg.tensor([1.0, 0.0])), [y._array[0], x._array[1]])


def test_nan_to_num_uses_the_largest_number_of_the_type():
    x = [math.nan, math.inf, -math.inf]
    same(sg.tensor(x, dtype=sg.float16).nan_to_num(), np.array([0, 65504, -65504], np.float16))
    same(sg.tensor(x).nan_to_num(nan=1, posinf=2, neginf=-2), [1, 2, -2])


def test_where_as_method_and_with_the_condition_alone():
    x = sg.tensor([1.0, -2.0, 3.0])
    same(x.where(x > 0, 0), [1, 0, 3])
    (index,) = sg.where(x > 0)
    same(index, [0, 2])


def test_comparing_with_a_tensor_of_no_dimensions_keeps_the_type():
    """0.1 is another number in double precision; as in PyTorch it is rounded first."""
    same(sg.tensor([0.1, 0.2]) == sg.tensor(0.1, dtype=sg.float64), [True, False])
    same(sg.tensor([0.1, 0.2]) == sg.tensor([0.1, 0.2], dtype=sg.float64), [False, False])


def test_isclose_allclose_equal():
    x, y = sg.tensor([1.0, math.inf, math.nan]), sg.tensor([1.0 + 1e-6, math.inf, math.nan])
    same(sg.isclose(x, y), [True, True, False])
    same(sg.isclose(x, y, equal_nan=True), [True, True, True])
    same(sg.isclose(x, sg.tensor([1.1, -math.inf, 0.0])), [False, False, False])
    assert sg.allclose(x[:2], y[:2]) is True
    assert sg.allclose(x, y) is False
    assert sg.equal(x[:2], x[:2]) is True
    assert sg.equal(x[:2], y[:2]) is False
    assert sg.equal(x[:2], x[:1]) is False


# --- kernels for large arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_selecting_in_large_arrays_equals_where(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(100, 200)).astype(dtype) for _ in range(2))
    x[0], y[1] = np.nan, np.inf
    c = rng.random((100, 200)) < 0.5
    scalar = dtype(2.5)
    for a, b in ((x, y), (x, 0), (0, x), (x, 2.5), (-1.5, y), (x.T.copy().T, y), (x, np.array(scalar))):
        np.testing.assert_array_equal(select(c, a, b), np.where(c, a, b))
        assert select(c, a, b).dtype == dtype
    for a, b in ((x, y[0]), (x[:, :1], y), (c[:, :1], x), (x.astype(np.float64), y)):
        np.testing.assert_array_equal(select(c, a, b), np.where(c, a, b))
    np.testing.assert_array_equal(select(c[:, :1], x, y), np.where(c[:, :1], x, y))


def test_a_kernel_of_a_function_leaves_its_input_alone():
    x = wrap(np.linspace(0.1, 0.9, 7))
    kept = x._array.copy()
    for name in ("sigmoid", "rsqrt", "erf", "logit", "round", "sign", "tanh", "nan_to_num", "relu", "conj_physical"):
        assert getattr(x, name)()._array is not x._array
        np.testing.assert_array_equal(x._array, kept)


# --- complex numbers


def test_complex_derivative_points_along_steepest_ascent():
    """In PyTorch's convention the gradient of a real f at a + ib is f_a + i f_b."""
    z = np.array([0.5 + 0.25j, -1.0 + 2.0j, 1.5 - 0.5j])

    def f(t):
        return ((t * t / (t + 3)).exp() * t.conj() + t.sin()).abs().sum() + t.angle().sum() + (t * 2j).imag.sum()

    leaf = wrap(z.copy(), requires_grad=True)
    f(leaf).backward()
    eps = 1e-6
    for i in range(3):
        for direction, part in ((1, "real"), (1j, "imag")):
            step = np.zeros(3, complex)
            step[i] = eps * direction
            slope = (f(wrap(z + step))._array - f(wrap(z - step))._array) / (2 * eps)
            np.testing.assert_allclose(getattr(leaf.grad._array[i], part), slope, rtol=1e-8, atol=1e-8)


def test_real_parts_are_views():
    z = sg.tensor([1 + 2j, 3 + 4j])
    z.real.mul_(10)
    sg.view_as_real(z)[0, 1] = 7.0
    same(z, [10 + 7j, 30 + 4j])
    x = sg.tensor([1.0])
    assert sg.real(x) is x
    assert x.conj() is x


def test_gradient_of_a_write_into_the_real_part():
    z = sg.tensor([1 + 2j, 3 + 4j], dtype=sg.complex128, requires_grad=True)
    w = z * 1
    w.real.mul_(3)
    (w.real.sum() + 5 * w.imag.sum()).backward()
    same(z.grad, [3 + 5j, 3 + 5j])


def test_a_real_operand_of_a_complex_product_gets_a_real_gradient():
    x = sg.tensor([2.0], dtype=sg.float64, requires_grad=True)
    z = sg.tensor([1 + 3j], dtype=sg.complex128)
    (x * z).imag.sum().backward()
    same(x.grad, [3.0], sg.float64)


def test_complex_comparisons_are_refused():
    z = sg.tensor([1j])
    with pytest.raises(NotImplementedError, match="\"lt_cpu\" not implemented for 'ComplexFloat'"):
        z < z  # noqa: B015  (it raises)
    with pytest.raises(NotImplementedError, match="maximum"):
        sg.maximum(z, z)
    assert z.is_complex()
    assert not z.is_floating_point()


# --- half precision


@pytest.mark.parametrize("dtype", [sg.float16, sg.bfloat16])
def test_half_precision_is_computed_in_single_and_rounded_once(dtype):
    x = sg.tensor([0.1, 0.7, 3.0], dtype=dtype, requires_grad=True)
    wide = wrap(x._array.astype(np.float32), requires_grad=True)
    for f in (lambda t: t.sigmoid(), lambda t: t.erf(), lambda t: t.lgamma(), lambda t: t * 300.5, lambda t: t**2.5, lambda t: t.logit()):
        out, reference = f(x), f(wide)
        assert out.dtype is dtype
        rounded = reference._array.astype(out._array.dtype)
        np.testing.assert_array_equal(out._array.astype(np.float32), rounded.astype(np.float32))
        ones = sg.tensor([1.0, 1.0, 1.0])
        (g,) = sg.autograd.grad(out, [x], ones.to(dtype))
        (h,) = sg.autograd.grad(reference, [wide], ones)
        assert g.dtype is dtype
        # sigmoid's rule reads its result, which was rounded to 8 bits, and subtracts it from 1
        np.testing.assert_allclose(g._array.astype(np.float64), h._array, rtol=1.2e-2, equal_nan=True)


@pytest.mark.parametrize("dtype", [sg.float16, sg.bfloat16])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv"])
def test_half_precision_in_place_rounds_as_the_plain_form(op, dtype):
    for number in (0.1, 1 / 3, 2049, -1e5):
        kept = x = sg.tensor([0.5, 0.1, 3.0, 250.0], dtype=dtype)
        plain, x = getattr(operator, op)(x, number), getattr(operator, f"i{op}")(x, number)
        assert x is kept
        np.testing.assert_array_equal(x.tolist(), plain.tolist(), err_msg=str(number))


def test_half_precision_backward_does_not_overflow_on_the_way():
    x = sg.tensor([200.0], dtype=sg.float16, requires_grad=True)
    (x**3).backward(sg.tensor([2.0**-10], dtype=sg.float16))
    np.testing.assert_allclose(x.grad._array.astype(np.float64), 3 * 200.0**2 / 2**10, rtol=1e-3)


def test_half_precision_second_derivative():
    x = sg.tensor([0.5, 0.75], dtype=sg.float16, requires_grad=True)
    (g,) = sg.autograd.grad((x**3).sum(), [x], create_graph=True)
    (h,) = sg.autograd.grad(g.sum(), [x])
    same(h, np.array([3.0, 4.5], np.float16), sg.float16)


# --- errors


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda: -sg.tensor([True]), RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported"),
        (lambda: sg.tensor([True]) - sg.tensor([True]), RuntimeError, "with two bool tensors is not supported"),
        (lambda: 1 - sg.tensor([True]), RuntimeError, "with a bool tensor is not supported"),
        (lambda: ~sg.tensor([1.0]), TypeError, "only implemented on integer and Boolean-type tensors"),
        (lambda: sg.tensor([1.0]) & 1, NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
        (lambda: sg.tensor([1]) // 0, RuntimeError, "ZeroDivisionError"),
        (lambda: sg.tensor([1]) % 0, RuntimeError, "ZeroDivisionError"),
        (lambda: sg.tensor([2]) ** -1, RuntimeError, "Integers to negative integer powers are not allowed"),
        (lambda: sg.clamp(sg.tensor([1.0])), RuntimeError, "At least one of 'min' or 'max' must not be None"),
        (
            lambda: sg.where(sg.tensor([1]), 1, 2),
            RuntimeError, "where expected condition to be a boolean tensor, but got a tensor with dtype Long",
        ),
        (lambda: sg.tensor([1.0]) + None, TypeError, "add"),
        (lambda: sg.div(1, sg.tensor([1.0]), rounding_mode="up"), RuntimeError, "but found 'up'"),
        (
            lambda: sg.add(sg.tensor([1]), 1, alpha=0.5),
            RuntimeError, "For integral input tensors, argument alpha must not be a floating point",
        ),
        (lambda: sg.add(sg.ones(1), sg.ones(1), alpha=True), RuntimeError, "Boolean alpha only supported for Boolean results"),
        (lambda: sg.sub(sg.ones(1), sg.ones(1) > 0, alpha=2), RuntimeError, "with a bool tensor is not supported"),
        (lambda: sg.addcdiv(sg.ones(1), sg.tensor([1]), sg.tensor([2])), RuntimeError, "Integer division with addcdiv"),
        (lambda: sg.tensor([1]).sqrt_(), RuntimeError, "result type Float can't be cast to the desired output type Long"),
        (
            lambda: sg.maximum(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 2.0, 3.0])),
            RuntimeError, r"size of tensor a \(2\) must match .* b \(3\)",
        ),
        (lambda: sg.isclose(sg.tensor([1.0]), sg.tensor([1])), RuntimeError, "Float did not match Long"),
        (
            lambda: (sg.tensor([1.0], requires_grad=True) // 2).backward(),
            RuntimeError, "derivative for aten::floor_divide is not implemented",
        ),
        (lambda: sg.polygamma(-1, sg.tensor([1.0])), RuntimeError, "negative n"),
        (lambda: sg.imag(sg.tensor([1.0])), RuntimeError, "imag is not implemented for tensors with non-complex dtypes"),
        (lambda: sg.view_as_complex(sg.tensor([1.0, 2.0, 3.0])), RuntimeError, "last dimension of size 2"),
        (lambda: sg.tensor([1.0], dtype=sg.float64).float().float_power_(2), RuntimeError, "requires dtype Double"),
    ],
)  # fmt: skip
def test_errors_say_what_was_given(f, error, words):
    with pytest.raises(error, match=words):
        f()


def test_alpha_multiplies_in_the_type_of_the_result():
    x = sg.tensor([1.0], dtype=sg.float64)
    assert sg.add(x, sg.tensor([3]), alpha=0.1).item() == 1 + 3 * 0.1  # not 0.1 in the default type, float32
    assert sg.add(x, sg.ones(1), alpha=0.1).item() == 1.1
    assert sg.add(sg.tensor([1], dtype=sg.int8), sg.tensor([True]), alpha=2).dtype is sg.int8
    assert sg.add(sg.tensor([False]), sg.tensor([True]), alpha=2).dtype is sg.bool
