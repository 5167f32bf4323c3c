"""Products: values against NumPy, gradients to order 2 against central differences, what is saved, and every refusal."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap
from symgrad.testing import gradcheck, gradgradcheck


def leaf(*shape, dtype=np.float64):
    return wrap(np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(dtype), requires_grad=True)


def check(function, *args):
    assert gradcheck(function, args)
    assert gradgradcheck(function, args)


SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (3, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y"), SHAPES)
def test_matmul(x, y):
    x, y = leaf(*x), leaf(*y)
    np.testing.assert_allclose((x @ y)._array, np.matmul(x._array, y._array))
    if x._array.size and y._array.size:
        check(sg.matmul, x, y)


@pytest.mark.parametrize(("x", "y"), SHAPES)
def test_every_pair_of_shapes_gets_gradients_of_its_own_shape(x, y):
    x, y = leaf(*x), leaf(*y)
    (x @ y).sum().backward()
    assert x.grad.shape == x.shape
    assert y.grad.shape == y.shape


@pytest.mark.parametrize("dtype", [sg.float16, sg.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    x = sg.tensor(np.full((2, 4096), 0.1), dtype=dtype)
    product = x @ x.t()
    assert product.dtype == dtype
    exact = 4096 * float(x._array[0, 0]) ** 2
    assert abs(float(product._array[0, 0]) - exact) < 0.01 * exact


def test_only_the_other_operand_is_saved():
    x, w = leaf(2, 3), leaf(3, 4)
    constant = wrap(np.ones((3, 4)))
    node = (x @ constant).grad_fn
    assert node.saved[1] is constant._array
    assert not isinstance(node.saved[0], np.ndarray)
    node = sg.addmm(leaf(4), x, w).grad_fn
    assert not isinstance(node.saved[0], np.ndarray)


@pytest.mark.parametrize("beta", [1, 0.5, 0])
@pytest.mark.parametrize("alpha", [1, -2.0])
def test_sums_with_a_product(beta, alpha):
    m, x, y, v, w = leaf(4), leaf(2, 3), leaf(3, 4), leaf(3), leaf(2)
    batch = leaf(5, 2, 3), leaf(5, 3, 4)
    scale = {"beta": beta, "alpha": alpha}
    cases = [
        (sg.addmm, (m, x, y), x._array @ y._array),
        (sg.addmv, (w, x, v), x._array @ v._array),
        (sg.baddbmm, (m, *batch), batch[0]._array @ batch[1]._array),
        (sg.addbmm, (m, *batch), (batch[0]._array @ batch[1]._array).sum(0)),
        (sg.addr, (m, v, m), np.outer(v._array, m._array)),
    ]
    for function, args, product in cases:
        expected = beta * args[0]._array + alpha * product
        np.testing.assert_allclose(function(*args, **scale)._array, expected, rtol=1e-12)
        check(lambda *a, f=function: f(*a, **scale), *args)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3), (0, 3), (2, 0, 3), (2, 2, 0)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(shape, with_bias):
    x, weight, bias = leaf(*shape), leaf(4, shape[-1]), leaf(4)
    linear = sg.nn.functional.linear
    args = (x, weight, bias) if with_bias else (x, weight)
    np.testing.assert_allclose(linear(*args)._array, x._array @ weight._array.T + (bias._array if with_bias else 0))
    linear(*args).sum().backward()
    assert (x.grad.shape, weight.grad.shape) == (x.shape, weight.shape)
    if x._array.size:
        check(linear, *args)


def test_a_nan_input_times_beta_zero_does_not_count():
    nan = wrap(np.full(4, np.nan))
    assert np.isfinite(sg.addmm(nan, leaf(2, 3), leaf(3, 4), beta=0)._array).all()


def test_addmm_in_place_continues_the_history():
    m, x, y = leaf(2, 4), leaf(2, 3), leaf(3, 4)
    result = m * 2
    result.addmm_(x, y, alpha=3)
    result.sum().backward()
    np.testing.assert_allclose(m.grad._array, 2 * np.ones((2, 4)))
    np.testing.assert_allclose(x.grad._array, 3 * np.tile(y._array.sum(1), (2, 1)))


def test_vectors_and_kron():
    x, y, m = leaf(3), leaf(4), leaf(2, 3)
    for function, args, expected in [
        (sg.outer, (x, y), np.outer(x._array, y._array)),
        (sg.ger, (x, y), np.outer(x._array, y._array)),
        (sg.dot, (x, x), x._array @ x._array),
        (sg.mv, (m, x), m._array @ x._array),
        (sg.inner, (m, x), np.inner(m._array, x._array)),
        (sg.inner, (m, m), np.inner(m._array, m._array)),
        (sg.kron, (m, y), np.kron(m._array, y._array)),
        (sg.kron, (x, m), np.kron(x._array, m._array)),
    ]:
        np.testing.assert_allclose(function(*args)._array, expected)
        check(function, *args)


@pytest.mark.parametrize("dims", [0, 1, 2, ([0, 2], [1, 2]), ([-1], [0])])
def test_tensordot(dims):
    x, y = leaf(2, 3, 2), leaf(2, 2, 2) if dims != 2 else leaf(3, 2, 4)
    np.testing.assert_allclose(sg.tensordot(x, y, dims)._array, np.tensordot(x._array, y._array, dims))
    if dims != 0:
        check(lambda a, b: sg.tensordot(a, b, dims), x, y)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_trace(shape):
    x = leaf(*shape)
    np.testing.assert_allclose(sg.trace(x)._array, np.trace(x._array))
    check(sg.trace, x)


def test_trace_of_integers_is_int64():
    assert sg.trace(sg.tensor([[1, 2], [3, 4]], dtype=sg.int32)).dtype == sg.int64


@pytest.mark.parametrize(("x", "y", "dim"), [((3,), (3,), 0), ((2, 3), (1, 3), 1), ((3, 2), (3, 2), 0), ((2, 3, 2), (1, 3, 1), -2)])
def test_cross(x, y, dim):
    x, y = leaf(*x), leaf(*y)
    np.testing.assert_allclose(sg.cross(x, y, dim)._array, np.cross(*np.broadcast_arrays(x._array, y._array), axis=dim))
    check(lambda a, b: sg.cross(a, b, dim), x, y)


@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 1), ((3, 3), 0), ((2, 3, 3), 1), ((3, 2, 3), 0)])
def test_cross_without_a_dimension_is_along_the_first_of_size_3(shape, dim):
    x, y = leaf(*shape), leaf(*shape)
    np.testing.assert_array_equal(sg.cross(x, y)._array, np.cross(x._array, y._array, axis=dim))


def test_transposes():
    x, batch = leaf(2, 3), leaf(4, 2, 3)
    for view in (x.T, x.mT, x.H, x.mH, x.adjoint()):
        np.testing.assert_array_equal(view._array, x._array.T)
    np.testing.assert_array_equal(batch.mT._array, batch._array.swapaxes(1, 2))
    assert np.shares_memory(x.mT._array, x._array)
    check(lambda a: a.mT @ a, batch)


REFUSALS = [
    (lambda: leaf(2, 3) @ leaf(4, 5), RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
    (lambda: leaf(3) @ leaf(4), RuntimeError, r"inconsistent tensor size, expected tensor \[3\] and src \[4\]"),
    (lambda: leaf(2, 3) @ leaf(4), RuntimeError, r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)"),
    (lambda: leaf(2, 3, 4) @ leaf(2, 5, 6), RuntimeError, r"Expected size for first two dimensions of batch2 tensor to be: \[2, 4\]"),
    (lambda: leaf(2, 3, 4) @ leaf(3, 4, 6), RuntimeError, r"The size of tensor a \(2\) must match the size of tensor b \(3\)"),
    (lambda: leaf(2, 3) @ leaf(), RuntimeError, "both arguments to matmul need to be at least 1D, but they are 2D and 0D"),
    (lambda: leaf(2, 3) @ leaf(3, 4, dtype=np.float32), RuntimeError, "expected m1 and m2 to have the same dtype, .*double != float"),
    (lambda: leaf(3) @ leaf(3, dtype=np.float32), RuntimeError, "expected both vectors to have same dtype, but found Double and Float"),
    (lambda: leaf(2, 3) @ 2, TypeError, "argument 'other' .position 2. must be Tensor, not int"),
    (lambda: sg.mm(leaf(2), leaf(2, 3)), RuntimeError, "self must be a matrix"),
    (lambda: sg.mm(leaf(2, 3), leaf(3)), RuntimeError, "mat2 must be a matrix"),
    (lambda: sg.mm(leaf(2, 3), 3), RuntimeError, "mat2 must be a matrix"),
    (lambda: sg.mm(leaf(2, 3), (3,)), TypeError, r"mm\(\): argument 'mat2' \(position 2\) must be Tensor, not tuple"),
    (lambda: sg.bmm(leaf(2, 3), leaf(2, 3)), RuntimeError, "batch1 must be a 3D tensor"),
    (lambda: sg.bmm(leaf(2, 3, 4), leaf(3, 4, 5)), RuntimeError, r"to be: \[2, 4\] but got: \[3, 4\]"),
    (lambda: sg.bmm(leaf(2, 3, 4), leaf(2, 4, 5, dtype=np.float32)), RuntimeError, "expected scalar type Double but found Float"),
    (lambda: sg.mv(leaf(2), leaf(2)), RuntimeError, r"vector \+ matrix @ vector expected, got 1, 1, 1"),
    (lambda: sg.dot(leaf(2, 2), leaf(2)), RuntimeError, "1D tensors expected, but got 2D and 1D tensors"),
    (lambda: sg.outer(leaf(2), leaf(2, 2)), RuntimeError, "outer: Expected 1-D argument vec2, but got 2-D"),
    (lambda: sg.inner(leaf(2, 3), leaf(2, 4)), RuntimeError, "the last dimension must match"),
    (lambda: sg.tensordot(leaf(2, 3), leaf(4, 5), 1), RuntimeError, "contracted dimensions need to match, but first has size 3"),
    (lambda: sg.tensordot(leaf(2, 3), leaf(2, 3), ([0, 1], [0])), RuntimeError, "both dimension lists should have same length"),
    (lambda: sg.tensordot(leaf(2, 3), leaf(2, 3), -1), RuntimeError, "tensordot expects dims >= 0, but got dims=-1"),
    (lambda: sg.addmm(leaf(3, 3), leaf(2, 3), leaf(3, 4)), RuntimeError, r"The size of tensor a \(3\) must match"),
    (lambda: sg.addmm(leaf(2, 2, 4), leaf(2, 3), leaf(3, 4)), RuntimeError, "cannot be expanded to the shape"),
    (lambda: sg.addmm(leaf(3, 3), leaf(2, 3), leaf(3, 4), beta=0), RuntimeError, "must match"),
    (lambda: sg.addmm(leaf(4), leaf(2, 3), leaf(3)), RuntimeError, "mat2 must be a matrix, got 1-D tensor"),
    (lambda: sg.addmm(leaf(4, dtype=np.float32), leaf(2, 3), leaf(3, 4)), RuntimeError, "must have the same dtype"),
    (lambda: sg.addmv(leaf(3), leaf(2, 3), leaf(3)), RuntimeError, r"size mismatch, got input \(3\), mat \(2x3\), vec \(3\)"),
    (lambda: sg.addr(leaf(4), leaf(2), leaf(3)), RuntimeError, r"Target sizes: \[2, 3\].  Tensor sizes: \[4\]"),
    (lambda: sg.trace(leaf(3)), RuntimeError, "trace: expected a matrix, but got tensor with dim 1"),
    (lambda: sg.cross(leaf(4), leaf(4)), RuntimeError, "no dimension of size 3 in input"),
    (lambda: sg.cross(leaf(3), leaf(4), 0), RuntimeError, "inputs dimension 0 must have length 3. Got 3 and 4"),
    (lambda: leaf(3).mT, RuntimeError, r"tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."),
    (lambda: leaf(2, 3, 4).H, RuntimeError, "consider using tensor.mH"),
]


@pytest.mark.parametrize("index", range(len(REFUSALS)))
def test_refusal(index):
    call, error, text = REFUSALS[index]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: leaf(2, 3) @ leaf(3, 4), "MmBackward0"),
        (lambda: leaf(2, 3) @ leaf(3), "MvBackward0"),
        (lambda: leaf(3) @ leaf(3), "DotBackward0"),
        (lambda: leaf(2, 3, 4) @ leaf(2, 4, 3), "BmmBackward0"),
        (lambda: sg.addmm(leaf(4), leaf(2, 3), leaf(3, 4)), "AddmmBackward0"),
        (lambda: sg.addmv(leaf(2), leaf(2, 3), leaf(3)), "AddmvBackward0"),
        (lambda: sg.baddbmm(leaf(4), leaf(5, 2, 3), leaf(5, 3, 4)), "BaddbmmBackward0"),
        (lambda: sg.trace(leaf(3, 3)), "TraceBackward0"),
    ],
)
def test_node_names(make, name):
    assert make().grad_fn.name() == name
