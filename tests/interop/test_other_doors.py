"""Gradients, loops, datasets, optimizers and files take numbers and arrays of NumPy, SymPy and JAX, as functions of tensors do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import sympy

import symgrad as sg
from symgrad.errors import FormulaError

ARRAYS = {
    "array": lambda: np.array([1.0, 3.0]), "jax array": lambda: jnp.array([1.0, 3.0]), "SymPy array": lambda: sympy.Array([1, 3]),
    "in a list": lambda: [[1.0, 3.0]],
}  # fmt: skip
"""JAX starts with its first array: not when tests are collected, since processes could not be forked from then on."""
NUMBERS = {
    "float": lambda: 0.5, "NumPy scalar": lambda: np.float64(0.5), "0-d array": lambda: np.array(0.5),
    "SymPy number": lambda: sympy.Rational(1, 2), "jax": lambda: jnp.array(0.5),
}  # fmt: skip


@pytest.mark.parametrize("kind", ARRAYS)
def test_gradients_of_results_may_be_arrays(kind):
    x = sg.ones(2, requires_grad=True)
    (x * 2).backward(ARRAYS[kind]())
    assert x.grad.tolist() == [2.0, 6.0]
    assert x.grad.dtype is sg.float32
    assert sg.autograd.grad(x * 2, x, ARRAYS[kind]())[0].tolist() == [2.0, 6.0]
    assert sg.autograd.grad((x * 2, x * 3), x, [ARRAYS["array"](), ARRAYS["jax array"]()])[0].tolist() == [5.0, 15.0]


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_gradient_of_one_number_may_be_a_number(kind):
    for shape in ((), (1,)):
        x = sg.ones(2, requires_grad=True)
        (x * 2).sum().reshape(shape).backward(NUMBERS[kind]())
        assert x.grad.tolist() == [1.0, 1.0]


def test_gradients_that_do_not_fit_are_refused():
    x = sg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(2.0)
    with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
        (x * 2).backward([1.0, 2.0])  # a list has one gradient for each tensor
    with pytest.raises(TypeError, match="either Tensors or None, but got str"):
        (x * 2).backward(["a"])


def test_batched_gradients_may_be_arrays():
    x = sg.ones(2, requires_grad=True)
    assert sg.autograd.grad(x * 2, x, np.eye(2), is_grads_batched=True)[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize("kind", NUMBERS)
def test_loops_carry_numbers(kind):
    start = NUMBERS[kind]()
    assert float(sg.fori_loop(sympy.Integer(0), sympy.Integer(3), lambda i, c: c * 2, start)) == 4.0
    assert float(sg.while_loop(lambda c: c < 3, lambda c: c * 2, start)) == 4.0
    assert float(sg.scan(lambda c, x: (c * x, c), start, np.array([2.0, 4.0], np.float32))[0]) == 4.0
    for truth in (True, sg.tensor(True)):
        found = sg.cond(truth, lambda a: a * 2, lambda a: a, start)
        assert found.item() == 1.0
        assert found.dtype.is_floating_point
    assert sg.compile(lambda x: sg.cond(x.sum() > 0, lambda a: a * 2, lambda a: a, start) + x)(sg.ones(1)).tolist() == [2.0]


@pytest.mark.parametrize("make", [np.array, jnp.array, sympy.Array])
def test_loops_go_over_arrays(make):
    xs = make([2.0, 4.0])
    last, carries = sg.scan(lambda c, x: (c * x, c), sg.ones((), dtype=sg.float64), xs)
    assert (last.item(), carries.tolist()) == (8.0, [1.0, 2.0])


@pytest.mark.parametrize("make", [np.ones, jnp.ones, lambda shape: [[1.0, 1.0]] * 3, lambda shape: sympy.ones(*shape)])
def test_a_dataset_takes_arrays(make):
    samples = sg.utils.data.TensorDataset(make((3, 2)), sg.arange(3))
    assert len(samples) == 3
    assert [x.tolist() for x in samples[1]] == [[1.0, 1.0], 1]


@pytest.mark.parametrize(("data", "message"), [("abc", "must be a tensor, array or nested list, got str"), (3, "has no dimensions")])
def test_a_dataset_says_what_it_takes(data, message):
    with pytest.raises(TypeError, match=message):
        sg.utils.data.TensorDataset(data)


@pytest.mark.parametrize("start", [sympy.Rational(1, 2), sympy.Integer(3), sympy.Matrix([[1, 3]]), [sympy.Integer(2), 4.0]])
def test_optimizers_start_at_sympy_numbers(start):
    found = [
        sg.optimize.minimize(lambda x: ((x - 1) ** 2).sum(), start).x, sg.optimize.root(lambda x: x - 1, start).x,
        sg.optimize.least_squares(lambda x: x - 1, start).x,
    ]  # fmt: skip
    for x in found:
        np.testing.assert_allclose(x, np.ones(np.shape(x)), rtol=1e-5)
    with pytest.raises(TypeError, match="substitute the symbols first"):
        sg.optimize.minimize(lambda x: x, sympy.Symbol("x"))


def test_files_store_values_of_sympy_and_jax(tmp_path):
    given = {"jax": jnp.ones(2), "integer": sympy.Integer(2), "rational": sympy.Rational(1, 4), "matrix": sympy.Matrix([[1, 2]])}
    sg.save(given, tmp_path / "values")
    found = sg.load(tmp_path / "values")
    assert (found["integer"], found["rational"]) == (2, 0.25)
    assert (found["jax"].tolist(), found["matrix"].tolist()) == ([1.0, 1.0], [[1, 2]])
    with pytest.raises(TypeError, match="cannot store a Symbol"):
        sg.save(sympy.Symbol("x"), tmp_path / "symbol")


def test_loaded_functions_take_sympy_numbers(tmp_path):
    sg.compile(lambda x, s: x * s).export(tmp_path / "f.sgx", sg.ones(2), 3.0)
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    assert loaded(sg.ones(2), sympy.Rational(1, 2)).tolist() == [0.5, 0.5]
    assert loaded(sympy.Array([1, 2]), sympy.Integer(2)).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (sg.ones(2, dtype=sg.float64), r"derived for y of type float32\[2\], got float64\[2\]: cast it, or call derive"),
        (sg.ones(3), r"derived for y of type float32\[2\], got float32\[3\]: pass that shape, or call derive"),
    ],
)
def test_a_formula_names_the_argument_of_another_type(given, message):
    formula = sg.derive(lambda x, y: (x.sum() * y).sum())(sg.ones(2), sg.ones(2))
    with pytest.raises(FormulaError, match=message):
        formula(sg.ones(2), given)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (np.sin, "NumPy's sin: compile symgrad's function"), (scipy.special.expit, "SciPy's expit: compile sg.special.expit"),
        (scipy.special.kelvin, "SciPy's kelvin: compile a function that calls"), (np.frompyfunc(abs, 1, 1), "the ufunc abs"),
    ],
)  # fmt: skip
def test_a_ufunc_is_named_with_its_library(function, message):
    with pytest.raises(TypeError, match=message):
        sg.compile(function)(sg.ones(1))


def test_jax_functions_take_sympy_numbers():
    double = sg.from_jax(lambda x, y: x * y)
    assert double(sympy.Rational(1, 2), sg.ones(2)).tolist() == [0.5, 0.5]
    assert double(sympy.Integer(2), sg.ones(2)).tolist() == [2.0, 2.0]
    assert double(sympy.Array([1, 2]), sympy.Integer(2)).tolist() == [2, 4]


@pytest.mark.parametrize("call", [jnp.sin, lambda x: jnp.add(x, 1), lambda x: jax.lax.sin(x), lambda x: jax.nn.relu(x)])
@pytest.mark.filterwarnings("ignore:.*the text of a tensor")
def test_a_function_of_jax_in_a_traced_one_is_an_error_with_advice(call):
    for transformed in (sg.compile(lambda x: call(x)), sg.derive(lambda x: call(x).sum())):
        with pytest.raises(TypeError, match=r"test_other_doors.*sg\.from_jax"):
            transformed(sg.ones(2))
