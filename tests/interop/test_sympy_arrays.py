"""SymPy matrices and N-dimensional arrays of numbers stand for tensors of their shape; symbols are refused with advice."""

import operator

import numpy as np
import pytest
import sympy

import symgrad as sg

ROWS = [[1, 2, 3], [4, 5, 6]]
MATRICES = {
    "Matrix": sympy.Matrix, "ImmutableMatrix": sympy.ImmutableMatrix, "SparseMatrix": sympy.SparseMatrix,
    "ImmutableSparseMatrix": sympy.ImmutableSparseMatrix, "Array": sympy.Array, "MutableDenseNDimArray": sympy.MutableDenseNDimArray,
    "ImmutableSparseNDimArray": sympy.ImmutableSparseNDimArray,
}  # fmt: skip
ENTRIES = {
    "integers": (lambda n: sympy.Integer(n), np.int64), "rationals": (lambda n: sympy.Rational(n, 4), np.float32),
    "floats": (lambda n: sympy.Float(n) / 2, np.float32), "roots": (lambda n: sympy.sqrt(n), np.float32),
    "complex": (lambda n: n + sympy.I, np.complex64),
}  # fmt: skip


def filled(cls, entry):
    return cls([[entry(n) for n in row] for row in ROWS])


def numbers(entry, dtype):
    found = np.array([[complex(entry(n)) for n in row] for row in ROWS])
    return (found if dtype is np.complex64 else found.real).astype(dtype)


@pytest.mark.parametrize("entries", ENTRIES)
@pytest.mark.parametrize("cls", MATRICES)
@pytest.mark.parametrize("make", [sg.tensor, sg.as_tensor, sg.asarray])
def test_a_matrix_becomes_a_tensor_of_its_shape(make, cls, entries):
    entry, dtype = ENTRIES[entries]
    found, wanted = make(filled(MATRICES[cls], entry)).numpy(), numbers(entry, dtype)
    assert (found.shape, found.dtype) == ((2, 3), wanted.dtype)
    np.testing.assert_array_equal(found, wanted)


def quarter(n):
    return sympy.Rational(n, 4)


VALUES = np.array(ROWS) / 4
LEFT = sg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=sg.float64)
DOORS = {
    "sin": (lambda m: sg.sin(m), np.sin(VALUES)),
    "mul": (lambda m: sg.mul(sg.full((2, 3), 3.0), m), 3 * VALUES),
    "matmul": (lambda m: sg.matmul(LEFT, m), LEFT.numpy() @ VALUES),
    "method": (lambda m: LEFT.matmul(m), LEFT.numpy() @ VALUES),
    "where": (lambda m: sg.where(sg.ones(2, 3, dtype=sg.bool), m, sg.zeros(2, 3)), VALUES),
    "ufunc": (lambda m: np.add(sg.ones(2, 3), m), 1 + VALUES),
    "stack": (lambda m: sg.stack([m, m]), np.stack([VALUES, VALUES])),
    "list": (lambda m: sg.sin([m, m]), np.sin([VALUES, VALUES])),
    "tensor of a list": (lambda m: sg.tensor([m, m]), np.stack([VALUES, VALUES])),
    "inside a compiled function": (lambda m: sg.compile(lambda x: sg.matmul(x, m))(LEFT), LEFT.numpy() @ VALUES),
    "vmap": (lambda m: sg.func.vmap(lambda row: row.sum())(m), VALUES.sum(1)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("cls", ["Matrix", "ImmutableMatrix", "Array"])
def test_a_matrix_is_taken_wherever_a_nested_list_is(cls, door):
    call, wanted = DOORS[door]
    found = call(filled(MATRICES[cls], quarter))
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


ARGUMENTS = {
    "compile": (lambda m: sg.compile(lambda x: x * 2)(m), 2 * VALUES),
    "compile, in a list": (lambda m: sg.compile(lambda x: x[0] * 2)([m]), 2 * VALUES),
    "compiled gradient": (lambda m: sg.compile(lambda x: (x * x).sum()).grad(m, wrt=0), 2 * VALUES),
    "derive": (lambda m: sg.derive(lambda x: (x * x).sum())(m)(m)[0], (VALUES * VALUES).sum()),
    "func.grad": (lambda m: sg.func.grad(lambda x: (x * x).sum())(m), 2 * VALUES),
    "func.vjp": (lambda m: sg.func.vjp(lambda x: x * x, m)[0], VALUES * VALUES),
    "func.jvp": (lambda m: sg.func.jvp(lambda x: x * x, (m,), (sg.ones(2, 3),))[1], 2 * VALUES),
    "func.jacrev": (lambda m: sg.func.jacrev(lambda x: (x * x).sum())(m), 2 * VALUES),
    "func.jacfwd": (lambda m: sg.func.jacfwd(lambda x: (x * x).sum())(m), 2 * VALUES),
    "func.hessian": (lambda m: sg.func.hessian(lambda x: x.sum() ** 2)(m).sum((2, 3)), np.full((2, 3), 12.0)),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_function_gets_no_matrix_in_the_form_of_a_tensor(argument):
    """The eager function would compute matrix products with `*` and `**`."""
    call, wanted = ARGUMENTS[argument]
    np.testing.assert_allclose(np.asarray(call(filled(sympy.Array, quarter))), wanted, rtol=1e-6)
    for cls in ("Matrix", "ImmutableMatrix", "SparseMatrix"):
        with pytest.raises(TypeError, match=r"pass sg\.tensor\(matrix\)"):
            call(filled(MATRICES[cls], quarter))
    with pytest.raises(TypeError, match=r"pass np\.asarray\(x\)"):
        call(np.matrix(VALUES))


def test_arrays_of_any_number_of_dimensions():
    cube = sympy.Array(range(24), (2, 3, 4))
    np.testing.assert_array_equal(sg.tensor(cube).numpy(), np.arange(24).reshape(2, 3, 4))
    np.testing.assert_array_equal(sg.tensor(sympy.Array([1, 2, 3])).numpy(), [1, 2, 3])
    assert sg.tensor(sympy.Matrix(0, 3, [])).shape == (0, 3)
    assert sg.tensor(sympy.Matrix(3, 0, [])).shape == (3, 0)
    assert sg.tensor(sympy.Matrix([[1, 2]]), dtype=sg.float16).dtype is sg.float16


x = sympy.Symbol("x")


@pytest.mark.parametrize("given", [x, sympy.Matrix([[x, 1]]), sympy.Array([[1], [x]]), [1, x], [sympy.Matrix([x])], x + 1])
@pytest.mark.parametrize("door", [sg.tensor, sg.as_tensor, sg.asarray, sg.sin])
def test_symbols_are_refused_with_advice(door, given):
    with pytest.raises((TypeError, RuntimeError), match="substitute the symbols first"):
        door(given)


@pytest.mark.parametrize("cls", ["Matrix", "Array"])
def test_operators_take_no_matrix_and_say_what_to_pass(cls):
    with pytest.raises(TypeError, match=r"pass sg\.tensor"):
        sg.ones(2, 3) * filled(MATRICES[cls], quarter)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("cls", MATRICES)
def test_comparisons_are_those_with_a_numpy_array(cls, name):
    compare, matrix = getattr(operator, name), filled(MATRICES[cls], quarter)
    x = sg.tensor([[0.25, 0.75, 0.5], [1.0, 1.0, 2.0]])
    for f in (lambda x: compare(x, matrix), sg.compile(lambda x: compare(x, matrix), backend="numpy")):
        assert f(x).tolist() == compare(x, VALUES.astype(np.float32)).tolist()


@pytest.mark.parametrize("name", ["eq", "ne", "lt"])
def test_comparisons_with_symbols_are_refused(name):
    with pytest.raises(TypeError, match="substitute the symbols first"):
        getattr(operator, name)(sg.ones(2, 2), sympy.Matrix([[sympy.Symbol("a"), 1], [2, 3]]))
