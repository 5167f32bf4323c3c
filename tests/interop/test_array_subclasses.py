"""Arrays that are more than their numbers (masks, another product, fields) are refused or mean what they do in NumPy, at every door."""

import warnings

import numpy as np
import pytest

import symgrad as sg

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")

T = sg.ones(2, 2, dtype=sg.float64)


def square(x):
    return (x * x).sum()


def warm(backend):
    """A function that has run with plain arrays of the same shape and type."""
    fast = sg.compile(square, backend=backend)
    fast(np.ones((2, 2)))
    return fast


def assigned(a):
    t = T.clone()
    t[...] = a
    return t


DATA = {
    "tensor": sg.tensor, "as_tensor": sg.as_tensor, "asarray": sg.asarray, "from_numpy": sg.from_numpy, "from_dlpack": sg.from_dlpack,
    "tensor of a list": lambda a: sg.tensor([a, a]), "new_tensor": lambda a: T.new_tensor(a), "sg.sin": sg.sin,
    "stack": lambda a: sg.stack([a, a]),
    "relu": sg.nn.functional.relu, "t[...] = a": assigned, "copy_": lambda a: T.clone().copy_(a),
}  # fmt: skip
"""Doors at which only the numbers matter."""
MEANING = {
    "t + a": lambda a: T + a, "t * a": lambda a: T * a, "t @ a": lambda a: T @ a, "a @ t": lambda a: np.matmul(a, T),
    "t += a": lambda a: T.clone().__iadd__(a), "t *= a": lambda a: T.clone().mul_(a), "np.add": lambda a: np.add(T, a),
    "np.where": lambda a: np.where(T > 0, a, 0.0), "np.concatenate": lambda a: np.concatenate([T, a]),
    "compile": lambda a: sg.compile(square, backend="numpy")(a), "compile for XLA": lambda a: sg.compile(square)(a),
    "compile, warm": lambda a: warm("numpy")(a), "compile for XLA, warm": lambda a: warm("xla")(a),
    "compile, in a dictionary": lambda a: sg.compile(lambda d: square(d["a"]), backend="numpy")({"a": a}),
    "compile, captured": lambda a: sg.compile(lambda x: (x * a).sum(), backend="numpy")(T),
    "grad": lambda a: sg.compile(square, backend="numpy").grad(a, wrt="x"), "derive": lambda a: sg.derive(square)(a),
    "derivation": lambda a: sg.derive(square)(np.ones((2, 2)))(a), "func.grad": lambda a: sg.func.grad(sg.sum)(a),
}  # fmt: skip
"""Doors at which operators run."""
MASKED = np.ma.array([[1.0, 100.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that nobody should use it
    MATRIX = np.asmatrix([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("door", [*DATA, *MEANING])
def test_a_mask_is_never_lost(door):
    with pytest.raises(TypeError, match=r"MaskedArray: a tensor has no mask; pass x\.filled\(value\)"):
        {**DATA, **MEANING}[door](MASKED)


@pytest.mark.parametrize("door", MEANING)
def test_a_matrix_has_another_product(door):
    with pytest.raises(TypeError, match=r"np\.matrix: its \* is the matrix product.*np\.asarray"):
        MEANING[door](MATRIX)


@pytest.mark.parametrize("door", DATA)
def test_numbers_of_a_matrix(door):
    found, wanted = (DATA[door](a) for a in (MATRIX, np.asarray(MATRIX)))
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert type(found.numpy()) is np.ndarray


def test_a_matrix_on_the_left():
    with pytest.raises(TypeError, match=r"np\.matrix"):
        MATRIX * T


@pytest.mark.parametrize("door", [*DATA, *MEANING])
@pytest.mark.parametrize("array", [
    np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]), np.rec.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]),
    np.array([[1.0, 2.0], [3.0, 4.0]], dtype=object), np.array([["a", "b"], ["c", "d"]]), np.array([["2020-01-01"]], dtype="M8[D]"),
], ids=["structured", "recarray", "objects", "text", "dates"])  # fmt: skip
def test_what_are_no_numbers(array, door):
    if array.dtype == object and door == "tensor of a list":
        assert sg.tensor([array]).tolist() == [array.tolist()]  # Python's numbers, read one by one
        return
    with pytest.raises((TypeError, RuntimeError, ValueError, BufferError)):
        {**DATA, **MEANING}[door](array)


class Plain(np.ndarray):
    pass


@pytest.mark.parametrize("door", [*DATA, *MEANING])
def test_other_subclasses_are_arrays(door):
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    if door == "derive":
        return
    found, wanted = ({**DATA, **MEANING}[door](x) for x in (a.view(Plain), a))
    for x, y in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, wanted)), strict=True):
        np.testing.assert_array_equal(np.asarray(x[0] if isinstance(x, tuple) else x), np.asarray(y[0] if isinstance(y, tuple) else y))
