"""Types and shapes of two operands, drawn: what they meet in, and how a cotangent finds its way back."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import symgrad as sg
from symgrad.tensor import wrap

TYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_, np.complex64, np.complex128]
RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)


def ones(shape, dtype):
    return wrap(np.ones(shape, dtype))


@settings(max_examples=300, deadline=None)
@given(SHAPES, st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_where_two_tensors_meet(shapes, first, second):
    x, y = ones(shapes.input_shapes[0], first), ones(shapes.input_shapes[1], second)
    result = x * y
    assert tuple(result.shape) == shapes.result_shape
    assert result.dtype is (y * x).dtype is sg.result_type(x, y)
    kinds = [RANK[np.dtype(t).kind] for t in (first, second)]
    assert RANK[result.numpy().dtype.kind] == max(kinds)
    if x.dim() and not y.dim() and kinds[1] <= kinds[0]:
        assert result.dtype is x.dtype  # a tensor without dimensions brings its kind, not its width


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TYPES), st.sampled_from([True, 2, 2.5, 1j]))
def test_a_python_number_brings_its_kind_and_no_width(dtype, number):
    x = ones((2,), dtype)
    result = x * number
    kind = {bool: 0, int: 1, float: 2, complex: 3}[type(number)]
    if kind <= RANK[np.dtype(dtype).kind]:
        assert result.dtype is x.dtype
    elif kind == 1:
        assert result.dtype is sg.int64
    elif kind == 2:
        assert result.dtype is sg.float32
    else:
        assert result.dtype is (sg.complex128 if dtype is np.float64 else sg.complex64)


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.sampled_from([np.float32, np.float64]), st.sampled_from([np.float32, np.float64, np.int64]), st.integers(0, 10**6))
def test_a_gradient_has_the_shape_and_type_of_its_tensor(shapes, first, second, seed):
    rng = np.random.default_rng(seed)
    a, b = (np.asarray(rng.integers(-4, 5, shape)) for shape in shapes.input_shapes)
    x, y = wrap(a.astype(first), requires_grad=True), wrap(b.astype(second))
    (x * y).sum().backward()
    assert x.grad.dtype is x.dtype
    spread = np.broadcast_to(b, shapes.result_shape)
    lead = spread.ndim - a.ndim
    folded = tuple(i for i in range(spread.ndim) if i < lead or (a.shape[i - lead] == 1 and spread.shape[i] != 1))
    np.testing.assert_array_equal(x.grad.numpy(), spread.sum(axis=folded).reshape(a.shape))
