"""NumPy's functions on tensors: the values are NumPy's, the type is Tensor, and gradients flow."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import gradcheck

rng = np.random.default_rng(0)


def leaf(*shape: int) -> sg.Tensor:
    return sg.from_numpy(rng.uniform(0.2, 0.9, shape)).requires_grad_()


A = rng.uniform(0.2, 0.9, (2, 3))

CALLS = {
    "sin": lambda x: np.sin(x),
    "add": lambda x: np.add(x, 1),
    "array first": lambda x: np.exp(A * x),
    "number first": lambda x: np.float64(2) ** x - np.subtract(3, x),
    "numbers first": lambda x: np.maximum(0.5, x) + np.arctan2(np.float64(1), x) + np.hypot(2, x) + np.fmod(2.5, x) + np.logaddexp(1, x),
    "operators": lambda x: (A + x) / (A - 2 * x) ** 2,
    "arctan2": lambda x: np.arctan2(x, A),
    "maximum": lambda x: np.maximum(x, A),
    "where": lambda x: np.where(A > 0.5, x, 0),
    "matmul": lambda x: np.matmul(A.T, x),
    "array @ tensor": lambda x: A.T @ x,
    "sum": lambda x: np.sum(x, axis=0),
    "sum of all": lambda x: np.sum(x),
    "mean": lambda x: np.mean(x, axis=1, keepdims=True),
    "var": lambda x: np.var(x, axis=0),
    "std": lambda x: np.std(x, ddof=1),
    "max": lambda x: np.max(x, axis=1),
    "prod": lambda x: np.prod(x, axis=(0, 1)),
    "cumsum": lambda x: np.cumsum(x),
    "concatenate": lambda x: np.concatenate([x, A, x], axis=1),
    "flat concatenate": lambda x: np.concatenate([x, A], axis=None),
    "stack": lambda x: np.stack([x, x], axis=-1),
    "vstack": lambda x: np.vstack((x, A)),
    "reshape": lambda x: np.reshape(x, (3, -1)),
    "transpose": lambda x: np.transpose(x),
    "axes": lambda x: np.transpose(np.stack([x, x]), (2, 0, 1)),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(np.expand_dims(x, 1), axis=1),
    "clip": lambda x: np.clip(x, 0.3, 0.8),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "outer": lambda x: np.outer(np.ravel(x), np.ravel(A)),
    "dot": lambda x: np.dot(x, A.T),
    "vdot": lambda x: np.vdot(x, A),
    "tensordot": lambda x: np.tensordot(x, A, axes=([0, 1], [0, 1])),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, A),
    "trace": lambda x: np.trace(x),
    "tril": lambda x: np.tril(x, k=1),
    "diagonal": lambda x: np.diagonal(x, offset=1),
    "flip": lambda x: np.flip(x, axis=1),
    "roll": lambda x: np.roll(x, 2, axis=1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "split": lambda x: np.split(x, [1], axis=1)[1],
    "take": lambda x: np.take(x, [2, 0], axis=1),
    "sort": lambda x: np.sort(x, axis=1),
    "atleast_3d": lambda x: np.atleast_3d(x),
    "copy": lambda x: np.copy(x),
    "add.reduce": lambda x: np.add.reduce(x, axis=1),
    "multiply.reduce": lambda x: np.multiply.reduce(x),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1, keepdims=True),
    "add.accumulate": lambda x: np.add.accumulate(x, axis=1),
    "multiply.outer": lambda x: np.multiply.outer(x, A),
    "linalg.norm": lambda x: np.linalg.norm(x),
    "linalg.norm by rows": lambda x: np.linalg.norm(x, ord=2, axis=1, keepdims=True),
    "linalg.inv": lambda x: np.linalg.inv(np.matmul(x, A.T) + np.eye(2)),
    "linalg.det": lambda x: np.linalg.det(np.matmul(x, A.T) + np.eye(2)),
    "linalg.solve": lambda x: np.linalg.solve(np.matmul(x, A.T) + np.eye(2), A),
    "meshgrid": lambda x: np.meshgrid(np.ravel(x), A[0])[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_call_has_numpys_value_and_a_gradient(name):
    x = leaf(2, 3)
    call = CALLS[name]
    result = call(x)
    assert type(result) is sg.Tensor
    np.testing.assert_allclose(result.detach().numpy(), call(x.detach().numpy()), rtol=1e-12)
    assert gradcheck(call, (x,))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.argmax(x, axis=1), lambda x: x > A, lambda x: np.less(A, x), lambda x: np.isnan(x), lambda x: np.any(x > 0.5, axis=0),
        lambda x: np.argsort(x, axis=0), lambda x: np.zeros_like(x), lambda x: np.full_like(x, 3), lambda x: np.sign(x),
        lambda x: np.logical_and.reduce(x > 0.5), lambda x: np.floor(x * 3),
    ],
)  # fmt: skip
def test_call_without_gradient(call):
    x = leaf(2, 3)
    result = call(x)
    assert type(result) is sg.Tensor
    np.testing.assert_array_equal(result.detach().numpy(), call(x.detach().numpy()))


def test_questions_are_answered_in_python():
    x = leaf(2, 3)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert np.array_equal(x, x)
    assert np.allclose(x, x.detach().numpy())


def test_types_meet_as_in_pytorch():
    x = sg.ones(2, requires_grad=True)
    assert (np.float64(2) * x).dtype is sg.float32
    assert (np.ones(2) * x).dtype is sg.float64
    assert np.sin(sg.tensor([1, 2])).dtype is sg.float32
    assert np.add(x, 1, dtype=np.float64).dtype is sg.float64


def test_a_list_beside_a_tensor():
    assert np.add(sg.ones(2), [1, 2]).tolist() == [2, 3]


def test_writing_the_result_somewhere():
    array, target = np.zeros(2), sg.zeros(2)
    array += sg.ones(2)
    assert array.tolist() == [1, 1]
    assert np.multiply(sg.ones(2), 3, out=target) is target
    assert target.tolist() == [3, 3]
    assert np.sum(sg.ones(2, 2), axis=0, out=array) is array
    assert array.tolist() == [2, 2]
    with pytest.raises(TypeError, match="cannot keep its history"):
        array += sg.ones(2, requires_grad=True)
    assert array.tolist() == [2, 2]


def test_unsupported_functions_are_refused_only_where_a_derivative_is_lost():
    x = leaf(2, 3)
    for call in (np.spacing, np.i0, lambda t: np.add.at(t, 0, 1), lambda t: np.histogramdd(t), np.subtract.accumulate):
        with pytest.raises(TypeError, match=r"test_numpy.py:\d+: numpy\.[\w.]+ is not supported on tensors: "):
            call(x)
    constant = x.detach()
    assert type(np.spacing(constant)) is sg.Tensor
    np.testing.assert_array_equal(np.spacing(constant).numpy(), np.spacing(constant.numpy()))
    np.testing.assert_array_equal(np.i0(constant), np.i0(constant.numpy()))
    with pytest.raises(TypeError, match=r"numpy\.add on tensors does not take where"):
        np.add(x, 1, where=A > 0.5)


def test_other_classes_get_their_turn():
    class Other:
        def __array_function__(self, func, types, args, kwargs):
            return "other"

    assert np.concatenate([sg.ones(2), Other()]) == "other"


def test_objects_are_refused():
    with pytest.raises(TypeError, match=r"can.t convert np\.ndarray of type numpy\.object_"):
        np.array([None]) + sg.ones(1)
