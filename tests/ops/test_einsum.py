"""einsum: values against np.einsum, gradients to order 2, PyTorch's grammar and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symgrad as sg
from symgrad.tensor import wrap
from symgrad.testing import gradcheck, gradgradcheck


def leaf(*shape):
    return wrap(np.random.default_rng(sum(shape)).normal(size=shape), requires_grad=True)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)), ("bij,bjk->bik", (2, 3, 2), (2, 2, 3)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)), ("i,j->ji", (2,), (3,)), ("ij,ij->", (2, 3), (2, 3)), ("ij->ji", (2, 3)), ("ij->j", (2, 3)),
    ("ij->", (2, 3)), ("ii->", (3, 3)), ("ii->i", (3, 3)), ("iij->j", (3, 3, 2)), ("iij->ij", (3, 3, 2)), ("iii->i", (2, 2, 2)),
    ("ii,i->i", (3, 3), (3,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ij,ij,i->j", (2, 3), (2, 3), (2,)),
    ("ijk,k->i", (2, 3, 2), (2,)), ("ij,k->i", (2, 3), (2,)), ("bn,anm,bm->ba", (2, 3), (4, 3, 2), (2, 2)), ("ii,jj->ij", (2, 2), (3, 3)),
    ("ij,jk->ik", (2, 1), (3, 4)), ("ij,ij->ij", (1, 3), (2, 3)), ("ij,jk->ikj", (2, 3), (3, 4)), ("a,b,c,d->", (2,), (3,), (2,), (2,)),
    ("ij,i->i", (2, 0), (2,)),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), [(e, s) for e, *s in EQUATIONS])
def test_value_and_gradients(equation, shapes):
    operands = [leaf(*shape) for shape in shapes]
    full = np.einsum(equation, *(x._array for x in _broadcast(equation, operands)))
    np.testing.assert_allclose(sg.einsum(equation, *operands)._array, full, rtol=1e-12, atol=1e-14)
    if all(x._array.size for x in operands):
        assert gradcheck(lambda *a: sg.einsum(equation, *a), operands)
        assert gradgradcheck(lambda *a: sg.einsum(equation, *a), operands)


def _broadcast(equation, operands):
    """np.einsum does not stretch contracted dimensions of size 1: do so before."""
    inputs = equation.split("->")[0].split(",")
    sizes = {}
    for letters, x in zip(inputs, operands, strict=True):
        for letter, size in zip(letters, x.shape, strict=True):
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    return [
        wrap(np.broadcast_to(x._array, [sizes[c] for c in letters])) if len(set(letters)) == len(letters) else x
        for letters, x in zip(inputs, operands, strict=True)
    ]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_pair_agrees_with_numpy(data):
    letters = st.text("abcd", min_size=0, max_size=4)
    xs, ys = data.draw(letters), data.draw(letters)
    output = "".join(data.draw(st.permutations(sorted(set(xs + ys)))))[: data.draw(st.integers(0, 4))]
    sizes = {"a": 2, "b": 3, "c": 1, "d": 0 if data.draw(st.booleans()) else 4}
    x, y = (leaf(*(sizes[c] for c in s)) for s in (xs, ys))
    equation = f"{xs},{ys}->{output}"
    np.testing.assert_allclose(sg.einsum(equation, x, y)._array, np.einsum(equation, x._array, y._array), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("x", ["ij", "ji", "bij", "bji"])
@pytest.mark.parametrize("y", ["jk", "kj"])
@pytest.mark.parametrize("out", ["ik", "ki"])
def test_products_of_matrices_are_recorded_as_such(x, y, out):
    batch = x[:-2]
    sizes = {"b": 2, "i": 3, "j": 4, "k": 2}
    equation = f"{x},{batch}{y}->{batch}{out}"
    operands = [leaf(*(sizes[c] for c in letters)) for letters in equation.split("->")[0].split(",")]
    product = sg.einsum(equation, *operands)
    np.testing.assert_allclose(product._array, np.einsum(equation, *(a._array for a in operands)), rtol=1e-12)
    assert product.grad_fn.name() == ("BmmBackward0" if batch else "MmBackward0")
    assert gradcheck(lambda *a: sg.einsum(equation, *a), operands)


def test_only_the_other_operands_are_saved():
    x, y, constant = leaf(2, 3), leaf(2, 3), wrap(np.ones((2, 3)))
    kept = [[isinstance(a, np.ndarray) for a in sg.einsum("ij,ij->i", x, other).grad_fn.saved] for other in (y, constant)]
    assert kept == [[True, True], [False, True]]
    assert not isinstance(sg.einsum("ij->i", x).grad_fn.saved[0], np.ndarray)


def test_the_result_shares_no_memory_with_the_operand():
    x = leaf(2, 3)
    for equation in ("ij->ij", "ij->ji"):
        assert not np.shares_memory(sg.einsum(equation, x)._array, x._array)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("...ij,...jk->...ik", ((5, 2, 3), (5, 3, 4)), (5, 2, 4)),
        ("...ij,...jk", ((5, 2, 3), (3, 4)), (5, 2, 4)),
        ("i...,i->...", ((2, 3, 4), (2,)), (3, 4)),
        ("...,...", ((2, 3), (3,)), (2, 3)),
        ("b...a->a", ((2, 3, 4),), (4,)),
        ("ba", ((2, 3),), (3, 2)),
        ("ij , jk", ((2, 3), (3, 4)), (2, 4)),
        ("ii", ((3, 3),), ()),
        ("...ii->...i", ((2, 3, 3),), (2, 3)),
        ("aB", ((2, 3),), (3, 2)),
    ],
)
def test_ellipsis_and_implicit_output(equation, shapes, expected):
    assert tuple(sg.einsum(equation, *(leaf(*s) for s in shapes)).shape) == expected


def test_sublists():
    x, y = leaf(2, 3), leaf(3, 4)
    np.testing.assert_allclose(sg.einsum(x, [0, 1], y, [1, 2], [0, 2])._array, x._array @ y._array)
    np.testing.assert_allclose(sg.einsum(x, [0, 1], y, [1, 2])._array, x._array @ y._array)
    np.testing.assert_allclose(sg.einsum(x, [..., 1], [1, ...])._array, x._array.T)


def test_operands_as_a_list():
    x, y = leaf(2, 3), leaf(3, 4)
    np.testing.assert_allclose(sg.einsum("ij,jk", [x, y])._array, x._array @ y._array)


@pytest.mark.parametrize(
    ("equation", "shapes", "text"),
    [
        ("ij,jk->ik", ((2, 3), (4, 5)), "subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3"),
        ("ij,jk->ik", ((2, 3),), "fewer operands were provided than specified in the equation"),
        ("ij->i", ((2, 3), (2, 3)), "more operands were provided"),
        ("ij->ik", ((2, 3),), "output subscript k does not appear in the equation for any input operand"),
        ("ijk->i", ((2, 3),), r"the number of subscripts in the equation \(3\) does not match the number of dimensions \(2\)"),
        ("ij->ii", ((2, 3),), "output subscript i appears more than once in the output"),
        ("i1->i", ((2, 3),), r"invalid subscript given at index 1 in the equation string, subscripts must be in \[a-zA-Z\]"),
        ("ii->i", ((2, 3),), "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("i.j->i", ((2, 3),), "found '.' for operand 0 that is not part of any ellipsis"),
        ("ijk...->i", ((2, 3),), "more than the number of dimensions"),
        ("aij,bij->ab", ((1, 2, 3), (1, 3, 2)), "does not broadcast"),
    ],
)
def test_refusal(equation, shapes, text):
    with pytest.raises(RuntimeError, match=text):
        sg.einsum(equation, *(leaf(*s) for s in shapes))


def test_refusal_of_types():
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        sg.einsum("ij,jk", leaf(2, 3), sg.tensor([[1.0]], dtype=sg.float32))
    with pytest.raises(TypeError, match="expected Tensor as element 0 in argument 1, but got tuple"):
        sg.einsum("ij,jk", (2, 3), leaf(3, 4))
    with pytest.raises(ValueError, match="must specify the equation string and at least one operand"):
        sg.einsum("ij")
