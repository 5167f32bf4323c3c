"""assume() in eager code: the same tensor, and the words."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import AssumptionError
from symgrad.ops.assumptions import WORDS, check


def matrix(requires_grad=False):
    return sg.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=sg.float64, requires_grad=requires_grad)


def test_it_returns_the_same_elements_in_the_same_memory():
    a = matrix()
    b = sg.assume(a, "symmetric")
    b[0, 0] = 5
    assert a[0, 0].item() == 5
    assert b.numpy().base is a.numpy() or np.shares_memory(a.numpy(), b.numpy())


def test_it_is_recorded_with_the_derivatives_of_its_argument():
    a = matrix(requires_grad=True)
    x, y = sg.tensor([1.0, 2.0], dtype=sg.float64), sg.tensor([3.0, 4.0], dtype=sg.float64)
    (x @ sg.assume(a, "symmetric").T @ y).backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.outer([3, 4], [1, 2]))  # those of a matrix of any kind
    assert sg.autograd.gradgradcheck(lambda a: sg.assume(a, "positive").log().sum(), (a,))


def test_writing_afterwards_is_right_in_value_and_gradient():
    a, c = matrix(requires_grad=True), sg.tensor(4.0, dtype=sg.float64, requires_grad=True)
    b = a * 1
    known = sg.assume(b, "symmetric")
    known[0, 1] = c
    b[1, 0] = 2 * c
    (known * sg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=sg.float64)).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [[1, 0], [0, 4]])
    assert c.grad.item() == 2 + 6


@pytest.mark.parametrize(("words", "error", "text"), [
    (("symetric",), ValueError, "nothing is known by the word 'symetric': did you mean 'symmetric'\\? There are symmetric, positive_def"),
    (("sparse",), ValueError, "nothing is known by the word 'sparse': there are symmetric"),
    ((), ValueError, 'say what is known of the tensor, such as assume\\(A, "symmetric"\\)'),
    ((1,), TypeError, 'what is assumed is said in words, such as "symmetric", got 1'),
])  # fmt: skip
def test_words_that_there_are_not(words, error, text):
    with pytest.raises(error, match=text):
        sg.assume(matrix(), *words)


@pytest.mark.parametrize("word", ["symmetric", "positive_definite", "orthogonal", "diagonal", "triangular", "upper_triangular"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3)])
def test_matrices_of_a_structure_are_square(word, shape):
    name = "lower triangular" if word == "triangular" else word.replace("_", " ")
    with pytest.raises(ValueError, match=rf"assume: only square matrices are {name}, got the shape \({', '.join(map(str, shape))}"):
        sg.assume(sg.zeros(shape), word)
    with pytest.raises(ValueError, match="spec: only square matrices are"):
        sg.spec(shape, **{word: True})


def test_specs_take_the_words_as_keywords():
    assert sg.spec((3, 3), symmetric=True, diagonal=False).words == ("symmetric",)
    assert sg.spec((3, 3), triangular=True).words == sg.spec((3, 3), triangular="lower").words == ("lower_triangular",)
    assert sg.spec((3, 3), triangular="upper", positive=True).words == ("upper_triangular", "positive")
    assert repr(sg.spec((3, 3), positive_definite=True)) == "spec((3, 3), dtype=float32, positive_definite=True)"
    for wrong, error, text in (
        ({"symetric": True}, TypeError, "spec: nothing is known by the word 'symetric': did you mean 'symmetric'"),
        ({"triangular": "left"}, ValueError, 'spec: triangular=\'left\': it is "lower", "upper", or True for "lower"'),
        ({"symmetric": 1}, TypeError, "spec: symmetric=1: write symmetric=True"),
    ):
        with pytest.raises(error, match=text):
            sg.spec((3, 3), **wrong)


HOLDS = {
    "symmetric": [[2, 1], [1, 3]], "positive_definite": [[2, 1], [1, 3]], "orthogonal": [[0, 1], [-1, 0]], "diagonal": [[2, 0], [0, -1]],
    "lower_triangular": [[2, 0], [1, 3]], "upper_triangular": [[2, 1], [0, 3]], "positive": [[1, 2], [0.5, 3]],
    "integer": [[1, -2], [0, 3]],
}  # fmt: skip
FAILS = {
    "symmetric": ([[2, 1], [1.5, 4]], "it differs from its transpose by 0.12 times the largest element, the tolerance is 1.5e-08"),
    "positive_definite": ([[1, 2], [2, 1]], "its smallest eigenvalue is -1, the largest 3"),
    "orthogonal": ([[1, 1], [-1, 1]], "A'A differs from the identity by 1, the tolerance is 1.5e-08"),
    "diagonal": ([[2, 0], [0.5, -1]], "elements beside the diagonal differ from 0 by 0.25 times the largest element"),
    "lower_triangular": ([[2, 1], [0, 3]], "elements above the diagonal differ from 0 by 0.33 times"),
    "upper_triangular": ([[2, 0], [1, 3]], "elements below the diagonal differ from 0 by 0.33 times"),
    "positive": ([[1, 0], [2, 3]], "its smallest element is 0"),
    "integer": ([[1, 2], [2.25, 3]], "an element differs from the next integer by 0.25"),
}  # fmt: skip


@pytest.mark.parametrize("word", HOLDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_check_of_each_word(word, dtype):
    check(np.array(HOLDS[word], dtype), (word,))
    check(np.array([HOLDS[word]] * 3, dtype), (word,))  # a batch
    rounded = np.array(HOLDS[word], dtype)
    if word not in ("positive", "integer"):  # these are exact
        check((rounded * (1 + np.array([[0, 1], [2, 3]]) * np.finfo(dtype).eps)).astype(dtype), (word,))
    given, text = FAILS[word]
    with pytest.raises(AssumptionError) as raised:
        check(np.array([HOLDS[word], given], np.float64), (word,), "model.py:3")
    assert str(raised.value).startswith(f"model.py:3: a tensor of shape (2, 2, 2) is assumed to be {word.replace('_', ' ')}: {text}")
    check(np.zeros((0, 2, 2)), (word,))
    with pytest.raises(AssumptionError):
        check(np.full((2, 2), np.nan), (word,))


def test_every_word_has_a_test():
    assert {*HOLDS} == {*FAILS} == {*WORDS} - {"triangular"}
