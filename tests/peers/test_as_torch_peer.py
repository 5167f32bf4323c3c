"""as_torch(): compiled functions among PyTorch's own operations."""

from __future__ import annotations

import copy
import sys
import typing

import numpy as np
import pytest
import torch

import symgrad as sg
from symgrad.errors import TraceError

pytestmark = pytest.mark.peer


def layer(x, w, b=None):
    y = (x @ w).tanh() * x.sum()
    return y if b is None else y + b


def same(x, w, b=None):
    y = torch.tanh(x @ w) * x.sum()
    return y if b is None else y + b


def random(*shape, dtype=torch.float64, **options):
    return torch.randn(*shape, dtype=dtype, requires_grad=True, generator=torch.Generator().manual_seed(len(shape)), **options)


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_gradcheck_to_second_order(backend):
    f = sg.compile(layer, backend=backend).as_torch()
    args = random(4, 3), random(3, 2), random(2)
    assert torch.autograd.gradcheck(f, args)
    assert torch.autograd.gradgradcheck(f, args)
    torch.testing.assert_close(f(*args), same(*args))
    assert torch.autograd.gradcheck(lambda x, w: f(x, w), args[:2])


def test_it_is_one_function_among_others():
    f = sg.compile(layer).as_torch()
    x, w = random(4, 3, dtype=torch.float32), random(3, 2, dtype=torch.float32)
    optimizer = torch.optim.SGD([w], lr=0.1)
    results = []
    for g in (f, same):
        w.data = torch.ones(3, 2)
        for _ in range(3):
            optimizer.zero_grad()
            g(x.sin(), w * 2).square().mean().backward()
            optimizer.step()
        results.append(w.detach().clone())
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    assert f.__name__ == "layer"


def test_layouts():
    f = sg.compile(lambda x: x * 2 + x.sum()).as_torch()
    base = torch.arange(24.0).reshape(2, 3, 4)
    views = [
        base.permute(2, 0, 1), base[:, ::2], base[..., 1:3], base.flip(0), base[0, 0].expand(5, 4), base[1, 2, 3], torch.empty(0, 3),
        base.to(memory_format=torch.contiguous_format).unsqueeze(0).to(memory_format=torch.channels_last),
    ]  # fmt: skip
    for view in views:
        torch.testing.assert_close(f(view), view * 2 + view.sum())
        x = view.detach().requires_grad_()
        (ours,) = torch.autograd.grad(f(x).sum(), x)
        (theirs,) = torch.autograd.grad((x * 2 + x.sum()).sum(), x)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "complex64", "complex128"])
def test_types_with_gradients(name):
    f = sg.compile(lambda x: (x * x * 3).sum()).as_torch()
    x = torch.tensor([1.0, -2.0, 0.5]).to(getattr(torch, name)).requires_grad_()
    x = (x * (1 + 1j)).detach().requires_grad_() if "complex" in name else x
    grads = [torch.autograd.grad(abs(y), x)[0] for y in (f(x), (x * x * 3).sum())]
    assert grads[0].dtype == x.dtype
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_whole_numbers(name):
    f = sg.compile(lambda x, i: (x[i.long()], i, i.argmax() if i.dtype is not sg.bool else i)).as_torch()
    x, i = random(3), torch.tensor([1, 0, 1]).to(getattr(torch, name))
    y, same_i, _ = f(x, i)
    torch.testing.assert_close(same_i, i)
    assert not same_i.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1, 2, 0]


class Pair(typing.NamedTuple):
    a: typing.Any
    b: typing.Any


def test_containers_settings_and_numbers():
    def f(pair, scales, *, n):
        return {"sum": pair.a * scales[0] + pair.b * n, "parts": [pair.a, scales[1]]}

    fast = sg.compile(f).as_torch()
    a, b = random(2), random(2)
    got = fast(Pair(a, b), [2.0, torch.ones(())], n=3)
    torch.testing.assert_close(got["sum"], a * 2 + b * 3)
    got["sum"].sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2, 2], [3, 3])
    assert got["parts"][1].item() == 1


def test_branches_and_what_is_brought_along():
    w = sg.tensor([1.0, 2.0])
    f = sg.compile(lambda x: (x * w).sum() if x.sum() > 0 else -x.sum()).as_torch()
    x = torch.ones(2, requires_grad=True)
    y = f(x)
    w *= 10  # the gradient is that of the call
    y.backward()
    assert (y.item(), x.grad.tolist(), f(x).item(), f(-x).item()) == (3, [1, 2], 30, 2)


def test_only_what_is_asked_for_is_computed():
    f = sg.compile(layer).as_torch()
    x, w = random(4, 3), random(3, 2).detach()
    f(x, w).sum().backward()
    assert x.grad is not None
    with torch.no_grad():
        assert not f(x, w).requires_grad
    unused = sg.compile(lambda x, y: x * 2).as_torch()
    y = random(2)
    assert torch.autograd.grad(unused(random(2), y).sum(), y, allow_unused=True) == (None,)


def test_memory_may_be_written_to_right_after_a_call():
    f = sg.compile(lambda x: (x @ x).cos() + x).as_torch()
    for n in (8, 64, 256):
        x = torch.rand(n, n)
        expected = (x @ x).cos() + x
        for _ in range(10):
            kept = x.clone()
            y = f(kept)
            kept.fill_(7)
            y2 = y.clone()
            torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)
            y.add_(1)  # the result's memory is PyTorch's own
            torch.testing.assert_close(f(x), y2)


def test_saved_tensors_are_watched():
    f = sg.compile(layer).as_torch()
    x, w = random(4, 3), random(3, 2)
    y = f(x, w)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap, torch.func.jacrev])
def test_transforms_of_torch_func_are_refused(transform):
    with pytest.raises(TypeError, match=r"test_as_torch_peer.py:\d+: torch.func's transformations do not go through"):
        transform(sg.compile(lambda x: x.sin().sum()).as_torch())(torch.ones(3))
    f, w = sg.compile(lambda w, x: (w * x).sum()).as_torch(), torch.ones(3)
    with pytest.raises(TypeError, match=r"torch.func's transformations do not go through"):  # the first argument is none of the transform's
        transform(lambda x: f(w, x))(torch.ones(3))


def test_a_module_that_has_one_is_copied():
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.f = torch.nn.Parameter(torch.ones(2)), sg.compile(lambda w, x: w * x).as_torch()

        def forward(self, x):
            return self.f(self.weight, x)

    copied = copy.deepcopy(Gate())
    copied(torch.tensor([2.0, 3.0])).sum().backward()
    assert copied.weight.grad.tolist() == [2, 3]


def test_refusals(monkeypatch):
    f = sg.compile(lambda x: x * 2).as_torch()
    with pytest.raises(TypeError, match=r"test_as_torch_peer.py:\d+: as_torch\(\) takes dense tensors on the CPU, got float32 on meta"):
        f(torch.ones(2, device="meta"))
    with pytest.raises(TypeError, match=r"torch\.sparse_coo"):
        f(torch.eye(2).to_sparse())
    with pytest.raises(TypeError, match=r"got a tensor of uint16, which symgrad does not have; convert it to one of float64, "):
        f(torch.ones(2, dtype=torch.uint16))
    state = sg.zeros(2)
    with pytest.raises(TraceError, match=r"as_torch\(\) is for functions without effects"):
        sg.compile(lambda x: state.add_(x)).as_torch()(torch.ones(2, dtype=torch.float32))
    assert state.tolist() == [0, 0]
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"as_torch\(\) needs PyTorch, which is not installed: pip install torch"):
        sg.compile(lambda x: x).as_torch()


def test_numpy_and_tensors_beside_pytorchs():
    f = sg.compile(lambda x, y, z: x + y + z).as_torch()
    got = f(torch.ones(2), np.ones(2, "float32"), sg.ones(2))
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [3, 3]


class Tripled(sg.autograd.Function):
    """x², whose backward is not that of its forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 6 * x


def test_a_function_that_was_called_before_keeps_the_backward_of_its_functions():
    fast = sg.compile(lambda x: Tripled.apply(x).sum())
    fast(sg.tensor([1.0, 2.0]))
    with torch.no_grad():
        fast.as_torch()(torch.tensor([1.0, 2.0]))
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    fast.as_torch()(x).backward()
    assert x.grad.tolist() == [6, 12]
