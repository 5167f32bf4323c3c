"""Wherever a tensor is expected, numbers, NumPy scalars and arrays, nested lists, SymPy numbers and jax arrays work as the tensor does."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from public_calls import RECIPES, call_of, called, fresh, public_functions, public_methods, scalar_recipes

import symgrad as sg

F = sg.nn.functional
NAMES = dict([*public_functions(), *public_methods()])
SCALARS = scalar_recipes()


def of_jax(t):
    with jax.enable_x64(True):
        return jnp.asarray(t.numpy())


def of_sympy(t):
    x = t.item()
    return sympy.sympify(x) if isinstance(x, bool) else sympy.Integer(x) if isinstance(x, int) else sympy.Rational(x)


ARRAYS = {"array": lambda t: t.numpy().copy(), "list": lambda t: t.tolist(), "jax array": of_jax}
NUMBERS = {"number": lambda t: t.item(), "NumPy scalar": lambda t: t.numpy()[()], "SymPy number": of_sympy}
SEQUENCES = ("einsum", "broadcast_tensors", "chain_matmul", "cartesian_prod", "block_diag")


def in_place_of(args, first, kind):
    """The arguments with other values in place of tensors."""
    return [kind(x) if isinstance(x, sg.Tensor) and i >= first else x for i, x in enumerate(fresh(args))]


def leaves(result):
    return [x for part in result for x in leaves(part)] if isinstance(result, (tuple, list)) else [result]


def assert_same(found, wanted):
    found, wanted = leaves(found), leaves(wanted)
    assert [type(x) for x in found] == [type(x) for x in wanted]
    for x, y in zip(found, wanted, strict=True):
        if isinstance(x, sg.Tensor):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-6)
        else:
            assert x == y or (x != x and y != y)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_function_takes_what_stands_for_a_tensor(name):
    f = NAMES[name]
    call = call_of(name, f, RECIPES)
    assert call is not None, "no recipe fits: write a call into WRITTEN of tests/support/public_calls.py, or the name into NO_TENSORS"
    first = 1 if name.startswith("Tensor.") or name.endswith("_") else 0  # what is written to, or has the method, stays a tensor
    tried = 0
    for (args, wanted), kinds in ((call, ARRAYS), (call_of(name, f, SCALARS) or (None, None), NUMBERS)):
        if args is None or (kinds is NUMBERS and any(isinstance(x, sg.Tensor) and x.ndim for x in args)):
            continue
        for kind in kinds.values():
            given = in_place_of(args, first, kind)
            tried += given != args
            assert_same(called(name, f, given), wanted)
    assert tried or first or not any(isinstance(x, sg.Tensor) for x in call[0])


def f(x):
    return sg.exp(sg.sin(x**2))


def total(x):
    return sg.sin(x).sum()


VALUES = {
    "float": 1.5, "int": 2, "NumPy scalar": np.float64(1.5), "0-d array": np.array(1.5), "array": np.array([1.5, 0.5]),
    "rational": sympy.Rational(3, 2), "SymPy number": sympy.sqrt(2), "SymPy integer": sympy.Integer(2),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*VALUES, "jax array"])
def test_one_value_three_lives(kind):
    value = jnp.array([1.5, 0.5]) if kind == "jax array" else VALUES[kind]
    number = np.asarray(value if not isinstance(value, sympy.Basic) else float(value), float)
    wanted, slope = np.exp(np.sin(number**2)), np.exp(np.sin(number**2)) * np.cos(number**2) * 2 * number

    def close(found, wanted):
        np.testing.assert_allclose(np.asarray(found.numpy() if isinstance(found, sg.Tensor) else found), wanted, rtol=1e-5)

    close(f(value) if not isinstance(value, sympy.Basic) else f(float(value)), wanted)
    for backend in ("xla", "numpy"):
        fast = sg.compile(f, backend=backend)
        scalar = sg.compile(lambda x: sg.sum(f(x)), backend=backend)
        close(scalar.grad(value, wrt="x"), slope)  # before a call, and after one
        close(fast(value), wanted)
        close(fast(value), wanted)
        close(scalar.grad(value)[0], slope)
    close(sg.func.grad(lambda x: sg.sum(f(x)))(value), slope)
    close(sg.func.jvp(f, (value,), (value,))[1], slope * number)
    close(sg.derive(f)(value)(value)[0], wanted)


def test_python_numbers_are_weak_and_numpy_values_keep_their_dtype():
    assert sg.sin(1.0).dtype is sg.float32
    assert sg.sin(1.0).shape == ()
    assert sg.sin(np.float64(1)).dtype is sg.float64
    assert sg.sin(np.ones(2, np.float16)).dtype is sg.float16
    assert sg.sin([1.0, 2.0]).dtype is sg.float32
    wide = sg.tensor([0.5], dtype=sg.float64)
    assert F.l1_loss(wide, [0.1]).item() == 0.4  # 0.1 does not pass through float32
    assert F.l1_loss(wide[0], 0.1).item() == 0.4
    assert sg.mul(wide, [0.1]).item() == 0.05
    half = sg.tensor(0.5, dtype=sg.float16)
    assert sg.heaviside(half, 0.25).dtype is sg.float16
    assert sg.add(np.float64(1), np.float64(2)).dtype is sg.float64
    assert sg.add(sg.ones(2), np.float64(2)).dtype is sg.float32  # weak beside a tensor, as in PyTorch
    assert sg.add(1, 2).dtype is sg.int64
    assert sg.add(sg.ones(2, dtype=sg.int32), 1).dtype is sg.int32
    sg.set_default_dtype(sg.float64)
    try:
        assert sg.sin(1.0).dtype is sg.float64
    finally:
        sg.set_default_dtype(sg.float32)


def test_sequences_keep_their_meaning():
    assert sg.stack([sg.tensor(1.0), 2.0, np.float32(3)]).tolist() == [1, 2, 3]
    assert sg.cat([sg.ones(2), [2.0, 3.0], np.zeros(1, np.float32)]).tolist() == [1, 1, 2, 3, 0]
    assert sg.stack([1.0, 2.0]).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="zero-dimensional tensor"):
        sg.cat([1.0, 2.0])
    with pytest.raises(TypeError, match="must be tuple of Tensors, not ndarray"):
        sg.stack(np.ones((2, 2)))
    assert sg.split(sg.arange(3), [1, 2])[1].tolist() == [1, 2]


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<", "<=", ">", ">=", "+=", "*=", "&=", "//="]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_take_no_lists(operator):
    scope = {"t": sg.ones(2, dtype=sg.int64), "l": [1, 2]}
    with pytest.raises(TypeError, match=r"sg\.tensor\(list\)"):
        exec(f"t {operator} l", scope)
    if "=" not in operator[1:] and operator not in ("<", ">"):
        with pytest.raises(TypeError, match=r"sg\.tensor\(list\)"):
            exec(f"l {operator} t", scope)
    assert scope["t"].tolist() == [1, 1]


def test_methods_take_lists_where_operators_do_not():
    t = sg.ones(2)
    assert t.add([1.0, 2.0]).tolist() == [2, 3]
    assert t.add_([1.0, 2.0]).tolist() == [2, 3]
    assert t.dot(np.ones(2, np.float32)).item() == 5
    assert t.clamp([0.0, 4.0], [1.0, 5.0]).dtype is sg.float32
    assert sg.where([True, False], t, 0.0).tolist() == [2, 0]


def test_tuples_are_never_data():
    pair = (1.0, 2.0)
    for call in (lambda: sg.sin(pair), lambda: sg.add(sg.ones(2), pair), lambda: sg.ones(2) + pair, lambda: sg.sin([pair])):
        with pytest.raises(TypeError, match="tuples are never data"):
            call()


def test_lists_with_tensors_keep_their_history():
    x = sg.tensor(2.0, requires_grad=True)
    sg.prod([x, 3.0, x]).backward()
    assert x.grad.item() == 12
    with pytest.raises(TypeError, match=r"stack them with sg\.stack"):
        sg.sin([sg.ones(2), sg.ones(2)])
    found = sg.func.grad(total)([1.0, 2.0])
    np.testing.assert_allclose([g.item() for g in found], np.cos([1, 2]), rtol=1e-6)
    fast = sg.compile(total)
    for values in ([1.0, 2.0], [3.0, 4.0]):
        np.testing.assert_allclose(fast(values).item(), np.sin(values).sum(), rtol=1e-6)
        np.testing.assert_allclose([g.item() for g in fast.grad(values, wrt="x")], np.cos(values), rtol=1e-6)
    assert len(fast.recompiles()) == 2  # of values, and of derivatives


def test_dictionaries_of_floats():
    def g(p):
        return sg.sin(p["a"]) * p["b"]

    p = {"a": 1.0, "b": 2.0}
    wanted = {"a": 2 * np.cos(1), "b": np.sin(1)}
    assert g(p).item() == pytest.approx(2 * np.sin(1))
    assert sg.compile(g)(p).item() == pytest.approx(2 * np.sin(1))
    for found in (sg.func.grad(g)(p), sg.compile(g).grad(p, wrt="p")):
        assert {name: x.item() for name, x in found.items()} == pytest.approx(wanted, rel=1e-6)
    assert "sin(p.a)" in str(sg.derive(g)(p))
    assert "sin(p.a)" in str(sg.derive(g)({"a": 1, "b": 2}))


def test_results_of_numbers_alone():
    fast = sg.compile(lambda x: x * 2)
    for x in (1.0, 2.0):
        assert fast(x).item() == 2 * x
        assert fast.grad(x)[0].item() == 2
    assert isinstance(fast(1.0), sg.Tensor)
    assert fast(1.0).dtype is sg.float32
    assert len(fast.recompiles()) == 2  # of values, and of derivatives


def test_numbers_of_sympy_on_both_sides_of_operators():
    t = sg.tensor(2.0, requires_grad=True)
    for found in (sympy.Rational(1, 2) * t, t * sympy.Rational(1, 2), sympy.Integer(3) - t, t ** sympy.Integer(2), sympy.pi + t):
        assert isinstance(found, sg.Tensor)
        assert found.requires_grad
    with pytest.raises(TypeError, match="substitute the symbols"):
        t * sympy.Symbol("x")


def test_derivatives_of_autograd_functional():
    x, wanted = np.array([1.0, 2.0]), np.cos([1.0, 2.0])
    functional = sg.autograd.functional
    np.testing.assert_allclose(functional.jacobian(sg.sin, x).numpy(), np.diag(wanted))
    np.testing.assert_allclose(functional.vjp(sg.sin, x, x)[1].numpy(), wanted * x)
    np.testing.assert_allclose(functional.jvp(sg.sin, x, x)[1].numpy(), wanted * x)
    np.testing.assert_allclose(functional.hessian(lambda a: sg.sin(a).sum(), x).numpy(), np.diag(-np.sin(x)), atol=1e-12)
    assert functional.jacobian(sg.sin, 1).item() == pytest.approx(np.cos(1))
    first, second = functional.jacobian(lambda a, b: (a * b).sum(), (x, 0.1))
    assert (first.dtype, second.dtype, second.item()) == (sg.float64, sg.float64, 3.0)


def test_parameters_are_copies():
    array = np.ones(2)
    parameter = sg.nn.Parameter(array)
    with sg.no_grad():
        parameter += 1
    assert array.tolist() == [1, 1]
    assert parameter.dtype is sg.float64
    assert sg.nn.Parameter([1.0]).requires_grad
    net = sg.nn.Linear(2, 1)
    assert net(np.ones((3, 2), np.float32)).shape == (3, 1)
    assert sg.nn.CrossEntropyLoss()([[0.1, 0.2]], [1]).item() == pytest.approx(-np.log(np.exp(0.2) / np.exp([0.1, 0.2]).sum()))


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda t: t + t, 1), (lambda t: t.sin(), 1), (sg.sin, 2), (lambda t: sg.mul(t, t), 2), (lambda t: sg.add(t, t), 4),
        (lambda t: sg.matmul(t, t), 4),
    ],
)
def test_tensors_pass_the_door_without_further_calls(call, most):
    """Functions of ours that run for a call with tensors, the public one included."""
    t, seen = sg.ones(2, 2), []

    def look(frame, event, _):
        if event == "call" and "symgrad" in frame.f_code.co_filename and "/tests/" not in frame.f_code.co_filename:
            seen.append(frame.f_code.co_name)

    sys.setprofile(look)
    try:
        call(t)
    finally:
        sys.setprofile(None)
    assert len(seen) <= most, seen
