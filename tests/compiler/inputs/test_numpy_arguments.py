"""NumPy arrays and numbers as arguments of compiled functions, and captured by them: byte orders, memory that is used again, types."""

from __future__ import annotations

import statistics
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import symgrad as sg

BACKENDS = ["xla", "numpy"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


DTYPES = [">f8", ">f4", ">i8", ">c16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_in_another_byte_order_are_converted_after_native_ones(backend, dtype):
    swapped = np.arange(3).astype(dtype)
    native = swapped.astype(swapped.dtype.newbyteorder("="))
    double = sg.compile(lambda x: x * 2, backend=backend)
    both = sg.compile(lambda d, t: d["a"] * t, backend=backend)
    ones = sg.ones(3)
    for _ in range(2):
        for x in (native, swapped):
            assert double(x).tolist() == [0, 2, 4]
            assert both({"a": x}, ones).tolist() == [0, 1, 2]


def test_derivatives_convert_other_byte_orders(backend):
    native = np.arange(3.0)
    square = sg.compile(lambda x: (x * x).sum(), backend=backend)
    for x in (native, native.astype(">f8"), native):
        assert square.grad(x, wrt="x").tolist() == [0, 2, 4]
        value, gradient = square.value_and_grad(x, wrt="x")
        assert (value.item(), gradient.tolist()) == (5, [0, 2, 4])
        assert square.hvp(x, v=np.ones(3, ">f8"), wrt="x").tolist() == [2, 2, 2]


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize(
    "function",
    [lambda x, c: x * c, sg.maximum, lambda x, c: sg.cat([x, c]), lambda x, c: sg.where(x < 0, x, c), lambda x, c: sg.randn(()) * 0 + c],
    ids=["mul", "maximum", "cat", "where", "with a draw"],
)
def test_captured_arrays_in_another_byte_order_are_read_at_every_call(backend, function, size):
    captured = np.arange(float(size)).astype(">f8")
    compiled = sg.compile(lambda x: function(x, captured), backend=backend)
    x = sg.ones(size, dtype=sg.float64)
    for number in (None, 7.0, 8.0, 9.0):
        captured[:] = captured if number is None else number
        assert compiled(x).tolist() == function(x, captured).tolist()


def test_gradients_beside_a_captured_array_in_another_byte_order(backend):
    captured = np.arange(3.0).astype(">f8")
    compiled = sg.compile(lambda x: (x * x * captured).sum(), backend=backend)
    x = sg.ones(3, dtype=sg.float64).requires_grad_()
    compiled(x).backward()
    assert x.grad.tolist() == compiled.grad(x.detach(), wrt="x").tolist() == [0, 2, 4]


def reused(compiled, w):
    """The sum of calls with one buffer that holds 1, 2 and 3."""
    buffer, total = np.zeros(2), 0.0
    for number in (1.0, 2.0, 3.0):
        buffer[:] = number
        total = total + compiled(buffer, w)
    return total


FUNCTIONS = {
    "plain": lambda x, w: (x * w * w).sum(),
    "with a draw": lambda x, w: (x * w * w).sum() + sg.randn(()) * 0,
    "with a branch": lambda x, w: (x * w * w).sum() if x[0] > 0 else w.sum(),
    "escaping": lambda x, w: (x * w * w).sum() * (1.0 if w.tolist() else 0.0),
}


CASES = [("plain", {}), ("with a draw", {}), ("with a branch", {}), ("plain", {"retrace": True}), ("escaping", {"fallback": "eager"})]


@pytest.mark.filterwarnings("ignore:.*runs eagerly from now on")
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_a_buffer_that_is_used_again_does_not_change_gradients(backend, name, options):
    w = sg.ones(2, dtype=sg.float64).requires_grad_()
    compiled = sg.compile(FUNCTIONS[name], backend=backend, **options)
    for _ in range(2):  # traced, and known
        w.grad = None
        reused(compiled, w).backward()
        assert w.grad.tolist() == [12.0, 12.0]


def test_a_buffer_that_is_used_again_beside_a_captured_parameter(backend):
    w = sg.ones(2, dtype=sg.float64).requires_grad_()
    compiled = sg.compile(lambda x, scale: (x * w * w * scale).sum(), backend=backend)
    (gradient,) = sg.autograd.grad(reused(compiled, sg.ones(2, dtype=sg.float64)), [w])
    assert gradient.tolist() == [12.0, 12.0]


def test_a_buffer_that_is_used_again_and_a_tensor_that_keeps_its_history(backend):
    w = sg.ones(2, dtype=sg.float64).requires_grad_()
    total = sg.zeros(2, dtype=sg.float64)

    @sg.compile(backend=backend)
    def add(x, w):
        total.add_(x * w * w)

    buffer = np.zeros(2)
    for number in (1.0, 2.0, 3.0):
        buffer[:] = number
        add(buffer, w)
    total.sum().backward()
    assert w.grad.tolist() == [12.0, 12.0]


INTEGERS = [2, np.int64(2), np.int32(2), sympy.Integer(2)]


@pytest.mark.parametrize("x", [*INTEGERS, True], ids=repr)
def test_integers_alone_give_tensors(backend, x):
    square = sg.compile(lambda x: x * x, backend=backend)
    for _ in range(2):
        found = square(x)
        assert isinstance(found, sg.Tensor)
        assert (found.item(), found.dtype) == (int(x) ** 2, sg.int64)
    assert square(3).item() == 9
    assert sg.compile(lambda x: {"n": x}, backend=backend)(x)["n"].item() == int(x)


def test_integers_beside_tensors_and_sizes_of_tensors_are_no_results():
    assert sg.compile(lambda x, n: (x, n))(sg.ones(1), 2)[1] == 2
    for function, argument in ((lambda x: x.shape[0], sg.ones(3)), (lambda x: 3, "text")):
        with pytest.raises(sg.errors.TraceError, match="must return a tensor"):
            sg.compile(function)(argument)


@pytest.mark.parametrize("x", [*INTEGERS, Fraction(4, 2), sympy.Rational(5, 2), Fraction(5, 2)], ids=repr)
def test_derivatives_in_integers_and_fractions(backend, x):
    square = sg.compile(lambda x: x * x, backend=backend)
    for _ in range(2):  # before a call, and after it
        assert square.grad(x, wrt="x").item() == square.grad(x)[0].item() == 2 * float(x)
        assert square(x).item() == float(x) ** 2
    assert sg.func.grad(lambda x: x * x)(x).item() == 2 * float(x)
    assert "x**2" in str(sg.derive(lambda x: x * x)(x))


def test_an_argument_without_data_is_said_to_be_none():
    with pytest.raises(ValueError, match=r"wrt='x' has no tensor in it: no argument is a tensor, an array or a float$"):
        sg.compile(lambda x: x * x).grad(True, wrt="x")


@pytest.mark.parametrize("x", [np.float64(100), np.float32(1.5), np.complex128(1j)], ids=repr)
def test_numpy_numbers_alone_keep_their_type(backend, x):
    compiled = sg.compile(lambda x: sg.exp(x), backend=backend)
    for _ in range(3):  # by the fast path, too
        found, expected = compiled(x), sg.exp(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-6)
        assert compiled(2.5).dtype == sg.float32


@pytest.mark.parametrize("x", [2, 2.5, np.float32(2.5), np.float64(2.5), Fraction(5, 2)], ids=repr)
def test_value_and_derivatives_in_numbers_have_one_type(backend, x):
    square = sg.compile(lambda x: x * x, backend=backend)
    expected = sg.func.grad(lambda x: x * x)(x)
    for _ in range(2):
        value, gradient = square.value_and_grad(x, wrt="x")
        assert {value.dtype, gradient.dtype, square.grad(x)[0].dtype, square.hessian(x, wrt="x").dtype} == {expected.dtype}
        assert (value.item(), gradient.item(), square.jacobian(x, wrt="x").item()) == (float(x) ** 2, expected.item(), expected.item())
        square(x)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_derivatives_in_numbers_beside_tensors_have_the_type_of_the_result(backend, dtype):
    scaled = sg.compile(lambda x, r: (x * r).sum(), backend=backend)
    for r in (2.5, np.float64(2.5)):
        value, (by_x, by_r) = scaled.value_and_grad(sg.ones(2, dtype=dtype), r, wrt=("x", "r"))
        assert value.dtype == by_x.dtype == by_r.dtype == dtype
        assert (value.item(), by_x.tolist(), by_r.item()) == (5.0, [2.5, 2.5], 2.0)


def test_directions_may_be_lists_of_any_numbers(backend):
    x = sg.tensor([1.0, 2.0], dtype=sg.float64)
    cube = sg.compile(lambda x: (x**3).sum(), backend=backend)
    half_and_pi = [sympy.Rational(1, 2), sympy.pi]
    assert cube.jvp(x)([1, 2]).item() == cube.jvp(x, wrt="x")([1, 2]).item() == cube.jvp(x)(x.clone()).item() == 27.0
    np.testing.assert_allclose(cube.hvp(x, v=half_and_pi, wrt="x").tolist(), [3, 12 * np.pi])
    np.testing.assert_allclose(cube.jvp(x)([Fraction(1, 2), 1]).item(), 13.5)
    with pytest.raises(ValueError, match="the tangent"):
        cube.jvp(x)([sympy.Symbol("s"), 1])


def test_files_take_lists_and_tensors_of_one_number(tmp_path):
    x = sg.ones(2)
    sg.compile(lambda x, r: x * r).export(tmp_path / "f.sgx", x, 2.0)
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    assert loaded([1.0, 2], 3.0).tolist() == loaded(sg.tensor([1.0, 2.0]), sg.tensor(3.0)).tolist() == [3.0, 6.0]
    with pytest.raises(TypeError, match="expected float32"):
        loaded([1.0, 2.0, 3.0], 3.0)


def test_libraries_take_a_number_for_a_float():
    assert sg.compile(lambda x, r: x * statistics.mean([r, r]))(sg.ones(1), 2.0).tolist() == [2.0]
    assert sg.compile(lambda x, r: x * type(r)(3))(sg.ones(1), 2.0).tolist() == [3.0]
    with pytest.raises(TypeError, match="<class 'float'>"):  # JAX wants float(r)
        sg.compile(lambda x, r: x * float(jnp.sin(r)))(sg.ones(1), 2.0)
    assert sg.compile(lambda x, r: x * float(jnp.cos(float(r))))(sg.ones(1), 0.0).tolist() == [1.0]
    seen = []
    sg.compile(lambda x, r: x * r * len(seen.append(repr(type(r))) or "1"))(sg.ones(1), 2.0)
    assert set(seen) == {"<class 'float'>"}


class Settings(dict):
    __getattr__ = dict.__getitem__


def test_dictionaries_with_attributes_are_captured():
    settings = Settings(r=2.0)
    scaled = sg.compile(lambda x: x * settings.r)
    assert scaled(sg.ones(1)).tolist() == [2.0]
    settings["r"] = 3.0
    assert scaled(sg.ones(1)).tolist() == [3.0]
    assert sg.compile(lambda x, s: x * s.r)(sg.ones(1), settings).tolist() == [3.0]
