"""Shape functions against PyTorch: values, gradients, the name of the backward node, layout, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, array

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

A = np.random.default_rng(0).normal(size=(3, 4))
B = np.random.default_rng(1).normal(size=(2, 1, 3, 4))
V = np.random.default_rng(2).normal(size=5)


def leaves(lib):
    return {name: lib.tensor(value, requires_grad=True) for name, value in {"x": A, "b": B, "v": V}.items()}


def run(lib, text):
    """The results of an expression as a list, and the gradients of a weighted sum of them."""
    given = leaves(lib)
    results = eval(text, {"torch": lib, "L": lib.tensor, "np": np, **given})
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    total = sum((r * (i + 1)).sum() for i, r in enumerate(results)) ** 2
    total.backward()
    return results, [None if t.grad is None else array(t.grad) for t in given.values()]


EXPRESSIONS = [
    "x.reshape(4, 3)", "x.reshape(-1)", "x.reshape((2, -1))", "x.t().reshape(-1)", "x.view(2, 6)", "x.view(-1)", "x.view((12,))",
    "x.view_as(x)",
    "x.reshape_as(x.t())", "x.flatten()", "b.flatten(1)", "b.flatten(0, 2)", "b.flatten(-2)", "x.ravel()", "x.t().ravel()",
    "x.unflatten(1, (2, 2))", "x.unflatten(-1, (2, -1))", "x.transpose(0, 1)", "b.transpose(-1, 0)", "x.swapaxes(0, 1)", "x.t()", "v.t()",
    "b.permute(3, 1, 0, 2)", "b.permute((0, -1, 1, 2))", "torch.permute(x, (1, 0))", "b.movedim(0, 2)", "b.movedim((0, 1), (-1, 0))",
    "b.squeeze()", "b.squeeze(1)", "x.squeeze(0)", "x.unsqueeze(0)", "x.unsqueeze(-1)", "b.expand(2, 5, 3, 4)",
    "b.expand(-1, 2, -1, -1)", "v.expand(2, 5)", "x.expand_as(b)", "torch.broadcast_to(v, (3, 5))", "x.diagonal()", "x.diagonal(1)",
    "b.diagonal(-1, 2, 3)", "b.diagonal(0, 0, -1)", "x.narrow(1, 1, 2)", "x.narrow(0, -2, 1)", "x.select(1, -1)", "v.unfold(0, 2, 1)",
    "v.unfold(0, 3, 2)", "b.unfold(3, 2, 2)", "torch.atleast_1d(v[0])", "torch.atleast_2d(v)", "torch.atleast_3d(v)",
    "torch.atleast_3d(x)",
    "torch.atleast_2d(v, x)", "torch.meshgrid(v, x[0], indexing='ij')", "torch.meshgrid(v, x[0], v[:2], indexing='xy')",
    "torch.broadcast_tensors(v[:4], x)", "x.split(2)", "x.split(3, 1)", "x.split([1, 2])", "x.split((1, 3), dim=1)", "x.chunk(2)",
    "v.chunk(3)",
    "x.tensor_split(2)", "v.tensor_split(3)", "v.tensor_split((1, 4))", "v.tensor_split((3, 1))", "x.unbind()", "x.unbind(1)", "list(x)",
    "x.hsplit(2)", "b.dsplit(3)", "x.vsplit(3)", "torch.cat([x, x * 2])", "torch.cat((x, x), dim=1)", "torch.cat([x, x[:1]], -2)",
    "torch.cat([L(np.zeros(0)), x])", "torch.concat([v, v])", "torch.stack([v, v])", "torch.stack([x, x], dim=1)",
    "torch.stack([x, x], -1)",
    "torch.hstack([v, v])", "torch.hstack([x, x])", "torch.vstack([v, v])", "torch.dstack([x, x])", "torch.dstack([v, v])",
    "torch.column_stack([v, v])", "torch.column_stack([x, x[:, :1]])", "x.flip(0)", "x.flip(0, 1)", "x.flip((-1,))", "x.fliplr()",
    "x.flipud()", "reversed(x)",
    "x.roll(1)", "x.roll(1, 0)", "x.roll((1, -1), (0, 1))", "x.tile((2, 2))", "v.tile((2, 1))", "x.repeat(2, 1)", "x.repeat(2, 1, 3)",
    "x.repeat_interleave(2, 0)", "x.repeat_interleave(2)", "x.tril()", "x.triu(1)", "b.tril(-1)", "v.diag()", "v.diag(1)",
    "v.diag_embed()", "torch.diag_embed(x, 1, 0, 2)", "torch.diag_embed(x, -1)", "x.diagflat()", "x.clone()", "x.t().contiguous()",
    "torch.cat([x, L(np.ones((1, 4), np.float32))])", "torch.stack([v, L(np.arange(5))])",
]  # fmt: skip
OTHERWISE_NAMED = [  # PyTorch has one node of its own for these
    "b.squeeze((0, 1))", "x.rot90()", "x.rot90(2)", "x.rot90(-1)", "b.rot90(1, (2, 3))",
    "x.repeat_interleave(torch.tensor([1, 0, 3]), 0)", "x.diag()",
    "x.diag(-1)",
]  # fmt: skip


def compare(text):
    (ours, our_grads), (theirs, their_grads) = run(sg, text), run(torch, text)
    agree(ours, theirs, our_grads, their_grads)
    return ours, theirs


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_values_gradients_and_names(text):
    for mine, other in zip(*compare(text), strict=True):
        name = None if other.grad_fn is None else other.grad_fn.name()
        if name != "UnsafeViewBackward0":  # a reshape that copies
            assert (None if mine.grad_fn is None else mine.grad_fn.name()) == name
        assert mine.is_contiguous() == other.is_contiguous()
        if all(n > 1 for n in mine.shape):
            assert mine.stride() == other.stride()
        if 0 not in mine.shape:
            assert mine.storage_offset() == other.storage_offset()


@pytest.mark.parametrize("text", OTHERWISE_NAMED)
def test_values_and_gradients(text):
    compare(text)


ERRORS = [
    "x.view(5)", "x.t().view(-1)", "x.reshape(-1, -1)", "x.reshape(5, -1)", "x.reshape(-2)", "L(np.zeros((0, 3))).reshape(0, -1)",
    "x.expand(2, 2)", "x.expand(4)", "x.expand(-1, 3, 4)", "x.permute(0)", "x.permute(0, 0)", "x.transpose(0, 5)", "x.unsqueeze(4)",
    "x.squeeze(4)",
    "x.squeeze((0, 0))", "x.flatten(1, 0)", "x.unflatten(1, (3, 2))", "x.movedim((0, 1), (0,))", "x.movedim((0, 0), (0, 1))",
    "x.narrow(0, 2, 2)",
    "x.narrow(0, 0, -1)", "x.narrow(0, 9, 1)", "x.select(0, 5)", "x.split([1, 1])", "x.split(0)", "x.split(-1)", "x.chunk(0)",
    "x.unbind(3)", "torch.cat([])",
    "torch.cat([x, v])", "torch.cat([x, x[:, :2]])", "torch.cat(x)", "torch.stack([x, v])", "torch.cat([x, None])",
    "torch.cat([x[0, 0], v])", "x.repeat(2)",
    "x.repeat(-1, 1)", "x.repeat_interleave(L([1, 2]), 0)", "v.tril()", "x.diagonal(0, 0, 0)", "x.unfold(0, 4, 1)", "x.unfold(0, 2, 0)",
    "x.roll((1, 2))",
    "x.roll(1, (0, 1))", "x.flip(0, 0)", "x.rot90(1, (0, 0))", "v.rot90()", "len(v[0])", "iter(v[0])", "v[0].unbind()", "b.t()",
    "b.diag()", "v.fliplr()",
    "torch.meshgrid(x, indexing='ij')", "torch.meshgrid(v, indexing='up')", "v.hsplit(2)", "torch.tensor(1.0).split(1)",
    "x.tensor_split(0)",
    "v[0].expand(3).add_(1)", "L([1.0]).expand(3).copy_(v[:3])",
]  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    raised = []
    for lib in (sg, torch):
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as info:
            eval(text, {"torch": lib, "L": lib.tensor, "np": np, **leaves(lib)})
        raised.append(info)
    ours, theirs = raised
    assert ours.type is theirs.type
    words = str(theirs.value).split("\n")[0].replace("torch.FloatTensor", "").replace("torch.DoubleTensor", "")
    head = words[:30] if "{" not in words else words.split("): ")[-1][:30]
    assert head in str(ours.value)
