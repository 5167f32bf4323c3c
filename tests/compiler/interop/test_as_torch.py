"""as_torch() on a stand-in for PyTorch that is made of NumPy arrays: what is passed, what is refused, and what backward is given.

The tests beside PyTorch itself are in tests/peers; these run without it.
"""

from __future__ import annotations

import copy
import sys
import types
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.interop import as_torch


class FakeTensor:
    """As much of torch.Tensor as as_torch() uses."""

    def __init__(self, array, requires_grad=False, device="cpu", layout="strided", wrapped=False):
        self.array, self.requires_grad, self.wrapped = np.asarray(array), requires_grad, wrapped
        self.dtype, self.layout = f"torch.{self.array.dtype.name}", layout
        self.device = types.SimpleNamespace(type=device)
        self.calls: list[str] = []

    def _like(self, array, call):
        made = FakeTensor(array, wrapped=self.wrapped)
        made.calls = [*self.calls, call]
        return made

    def detach(self):
        return self._like(self.array, "detach")

    def resolve_conj(self):
        return self._like(self.array, "conj")

    def resolve_neg(self):
        return self._like(self.array, "neg")

    def contiguous(self):
        return self._like(np.ascontiguousarray(self.array).reshape(self.array.shape), "contiguous")

    def view(self, dtype):
        return self._like(self.array.view(dtype), "view")

    def numpy(self):
        assert {"conj", "neg", "contiguous"} <= set(self.calls)
        return self.array


class Context:
    """What torch.autograd passes from forward to backward."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        self.marked = tensors


class FakeFunction:
    contexts: list[Any] = []  # noqa: RUF012

    @classmethod
    def apply(cls, *inputs):
        results, context = cls.forward(*inputs), Context()
        cls.setup_context(context, inputs, results)
        FakeFunction.contexts.append(context)
        return results


@pytest.fixture
def torch(monkeypatch):
    import ml_dtypes

    fake: Any = types.ModuleType("torch")
    fake.Tensor, fake.strided, fake.int16, fake.bfloat16 = FakeTensor, "strided", np.int16, ml_dtypes.bfloat16
    fake.from_dlpack = lambda array: FakeTensor(np.from_dlpack(array))
    fake.from_numpy = FakeTensor
    fake.autograd = types.SimpleNamespace(Function=FakeFunction)
    fake.func = types.SimpleNamespace(debug_unwrap=lambda x: object() if x.wrapped else x)
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(FakeFunction, "contexts", [])
    as_torch._function.cache_clear()
    yield fake
    as_torch._function.cache_clear()


def on_torch(function):
    return sg.compile(function, backend="numpy").as_torch()


def model(x, batch):
    return {"y": (x * batch["w"]).sin(), "k": (batch["n"] + 1, 3)}


X, W = np.array([0.5, 1.0, 2.0], np.float32), np.array([1.0, -1.0, 2.0], np.float32)


def test_containers_go_in_and_out(torch):
    fast = on_torch(model)
    found = fast(FakeTensor(X), batch={"w": FakeTensor(W), "n": FakeTensor(np.arange(3))})
    assert isinstance(found["y"], FakeTensor)
    np.testing.assert_allclose(found["y"].array, np.sin(X * W), rtol=1e-6)
    assert found["k"][0].array.tolist() == [1, 2, 3]
    assert found["k"][1] == 3
    (context,) = FakeFunction.contexts
    assert [x.array.dtype.name for x in context.marked] == ["int64"]  # the result without a derivative
    assert isinstance(on_torch(lambda x: x * 2)(FakeTensor(X)), FakeTensor)


def test_captured_tensors_are_read_at_each_call(torch):
    w = sg.tensor(W, requires_grad=True)
    fast = on_torch(lambda x: x * w)
    assert fast(FakeTensor(X)).array.tolist() == (X * W).tolist()
    with sg.no_grad():
        w.mul_(2)
    assert fast(FakeTensor(X)).array.tolist() == (2 * X * W).tolist()


@pytest.mark.parametrize("dtype", [sg.bool, sg.bfloat16, sg.float64, sg.int8, sg.complex64])
def test_every_dtype_goes_in_and_out(torch, dtype):
    x = FakeTensor(sg.tensor([1, 0, 1]).to(dtype)._array)
    kept = sg.tensor([0, 0, 1]).to(dtype)
    found = on_torch(lambda x: (x.flip(0), kept + 0 if dtype is not sg.bool else kept.logical_not()))(x)
    assert [str(t.array.dtype) for t in found] == [str(x.array.dtype)] * 2
    assert found[0].array.astype(complex).tolist() == [1, 0, 1]
    assert found[1].array.astype(complex).tolist() == ([1, 1, 0] if dtype is sg.bool else [0, 0, 1])


def test_arrays_that_are_not_contiguous_are_copied(torch):
    whole = np.arange(6.0).reshape(2, 3)
    found = on_torch(lambda x: x * 2)(FakeTensor(whole.T))
    assert found.array.tolist() == (2 * whole.T).tolist()


def backward(context, needs, *gs):
    context.needs_input_grad = (False, *needs)
    return as_torch._function().backward(context, *gs)


def test_backward_returns_a_gradient_for_each_input_that_needs_one(torch):
    on_torch(lambda x, w: (x * w * w).sum())(FakeTensor(X, True), FakeTensor(W, True))
    (context,) = FakeFunction.contexts
    one = FakeTensor(np.float32(1))
    operation, x, w = backward(context, (True, True), one)
    assert operation is None
    np.testing.assert_allclose(x.array, W * W)
    np.testing.assert_allclose(w.array, 2 * X * W)
    none, x, w = backward(context, (False, True), one)
    assert (none, x) == (None, None)
    np.testing.assert_allclose(w.array, 2 * X * W)
    assert backward(context, (False, False), one) == (None, None, None)


def test_backward_is_differentiable_itself(torch):
    on_torch(lambda x: (x * x * x).sum())(FakeTensor(X, True))
    backward(FakeFunction.contexts[0], (True,), FakeTensor(np.float32(1)))
    _, second, _ = backward(FakeFunction.contexts[1], (True, True), FakeTensor(np.ones(3, np.float32)))
    np.testing.assert_allclose(second.array, 6 * X, rtol=1e-6)


REFUSED = {
    "device": (FakeTensor(X, device="cuda"), "dense tensors on the CPU"),
    "layout": (FakeTensor(X, layout="sparse"), "dense tensors on the CPU"),
    "dtype": (FakeTensor(np.ones(2, np.uint16)), "got a tensor of uint16, which symgrad does not have"),
    "transform": (FakeTensor(X, wrapped=True), "torch.func's transformations do not go through"),
}


@pytest.mark.parametrize(("x", "text"), REFUSED.values(), ids=REFUSED)
def test_other_tensors_are_refused_at_the_line_of_the_call(torch, x, text):
    with pytest.raises(TypeError, match=rf"test_as_torch.py:\d+: .*{text}"):
        on_torch(lambda x: x * 2)(x)


def test_it_looks_like_the_function_and_is_copied_with_it(torch):
    fast = on_torch(model)
    assert repr(fast) == "<model on PyTorch's tensors>"
    assert fast.__wrapped__ is model
    again = copy.copy(fast)
    assert type(again) is type(fast)
    assert again is not fast
    assert again.compiled is fast.compiled


def test_without_pytorch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        on_torch(model)
