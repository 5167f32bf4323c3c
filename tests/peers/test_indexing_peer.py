"""Indexing against PyTorch: values, gradients, the name of the backward node, and errors, reading and writing."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, array

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

RNG = np.random.default_rng(0)
ARRAYS = {
    "x" : RNG.normal(size=(3, 4)), "c" : RNG.normal(size=(2, 3, 4)), "v" : RNG.normal(size=5), "w" : RNG.normal(size=(3, 4)), "s" :
    RNG.normal(size=()),
}  # fmt: skip


def scope(lib, requires_grad=True):
    given = {name: lib.tensor(value, requires_grad=requires_grad) for name, value in ARRAYS.items()}
    return {"torch": lib, "L": lib.tensor, "np": np, "m": given["x"] > 0, **given}


def gradients(names):
    return [None if names[n].grad is None else array(names[n].grad) for n in ARRAYS]


def read(lib, text):
    names = scope(lib)
    result = eval(text, names)
    results = list(result) if isinstance(result, tuple) else [result]
    if results[0].requires_grad:
        weights = np.arange(1.0, results[0].numel() + 1 if lib is torch else results[0]._array.size + 1).reshape(tuple(results[0].shape))
        (results[0] * lib.tensor(weights)).pow(2).sum().backward()
    return results, gradients(names)


READING = [
    "x[0]", "x[-1]", "x[1:]", "x[:]", "x[...]", "x[None]", "x[::2]", "x[0:3]", "x[5:]", "x[2:1]", "x[-2:]", "x[0, 1]", "x[0, 1:]",
    "x[1:, 0]",
    "x[:, None, :2]", "x[..., 0]", "x[..., None]", "x[0, ...]", "c[..., 1:, ::3]", "c[1, ..., 2]", "c[None, 0, None]",
    "x[torch.tensor(1)]",
    "x[np.int64(1)]", "x[L(0):L(2)]", "x[[0, 1]]", "x[[0, 0, 2]]", "x[[-1, 0]]", "x[[]]", "x[L([[0, 1], [2, 0]])]", "x[np.array([0, 2])]",
    "x[:, [0, 3]]",
    "x[[0, 1], [1, 2]]", "x[[[0], [1]], [1, 2]]", "x[[0, 1], 1:]", "x[0, [1, 2]]", "c[0, :, [1, 2]]", "c[:, 0, [1, 2]]",
    "c[[0, 1], :, [1, 2]]",
    "c[[0, 1], None, [1, 2]]", "c[None, [0, 1], :, [1, 2]]", "c[..., [1, 2]]", "c[:, [0, 1], [1, 2]]", "c[1:, [0, 1], :2]", "c[[1]][0]",
    "x[m]",
    "x[x > 9]", "x[L([True, False, True])]", "x[[True, False, True]]", "x[:, L([True, False, True, True])]",
    "x[np.array([True, False, True])]",
    "c[:, m]", "c[L([True, False])]", "c[L([True, False]), 1]", "c[L([True, True]), [0, 1]]", "x[True]", "x[False]",
    "x[torch.tensor(True)]", "x[None, True]",
    "x[[0, 1], True]", "s[None]", "s[...]", "s[True]", "v[L([0, 1], dtype=torch.int32)]", "x[L([[0]])]",
    "x.index_select(0, L([0, 0, 2]))", "x.index_select(-1, L([3]))", "x.index_select(0, L(1))",
    "x.gather(0, L([[0, 1], [2, 0]]))", "x.gather(1, L([[0], [1], [3]]))", "x.gather(-1, L([[0, 0]]))",
    "torch.gather(c, 1, L([[[0, 1]]]))",
    "x.take_along_dim(L([[0, 1, 2, 0]]), 0)", "torch.take_along_dim(x, L([[0]]), 1)",
    "x.scatter(0, L([[0, 1], [2, 0]]), w[:2, :2])", "x.scatter(1, L([[0], [3]]), 5.0)", "x.scatter_add(0, L([[0, 0, 1]]), w[:1, :3])",
    "x.scatter_add(1, L([[0, 0], [1, 1], [2, 2]]), w[:, :2])", "c.scatter(2, L([[[0, 1]]]), c[:1, :1, :2])",
    "x.index_add(0, L([0, 2, 0]), w)", "x.index_add(1, L([1]), w[:, :1], alpha=3)", "x.index_copy(0, L([2, 0]), w[:2])",
    "x.index_fill(1, L([0, 2]), 7.0)",
    "x.index_fill(0, L([1]), s)", "x.index_put((L([0, 2]), L([1, 1])), v[:2])", "x.index_put((L([0, 0]),), w[:2], accumulate=True)",
    "x.index_put((m,), s)",
    "x.index_put([L([1])], w[0])", "x.masked_fill(m, 3.0)", "x.masked_fill(m, s)", "c.masked_fill(m, 0)",
    "x.masked_fill(L([True, False, True, False]), 1)",
    "torch.argwhere(m)", "m.nonzero()", "x.nonzero(as_tuple=True)", "torch.nonzero(s)", "torch.nonzero(s, as_tuple=True)",
    "x.diagonal_scatter(v[:3])", "x.select_scatter(w[0], 0, 1)", "x.slice_scatter(w[:, 1:3], 1, 1, 3)",
]  # fmt: skip
OTHERWISE_NAMED = [
    "s.gather(0, L(0))", "x.masked_select(m)", "c.masked_select(m)", "x.masked_scatter(m, w)", "c.masked_scatter(m, c * 2)",
    "x.take(L([0, 11, -1]))", "x.take(L([[0, 0]]))",
    "torch.take_along_dim(x, L([5, 0]))", "x.diagonal_scatter(v[:3])", "x.select_scatter(w[0], 0, 1)",
    "x.slice_scatter(w[:, 1:3], 1, 1, 3)",
]  # fmt: skip


@pytest.mark.parametrize("text", READING)
def test_reading(text):
    (ours, our_grads), (theirs, their_grads) = read(sg, text), read(torch, text)
    agree(ours, theirs, our_grads, their_grads)
    if theirs[0].grad_fn is not None and text not in OTHERWISE_NAMED:
        assert ours[0].grad_fn.name() == theirs[0].grad_fn.name()


@pytest.mark.parametrize("text", OTHERWISE_NAMED)
def test_reading_what_is_named_otherwise(text):
    (ours, our_grads), (theirs, their_grads) = read(sg, text), read(torch, text)
    agree(ours, theirs, our_grads, their_grads)


WRITING = [
    "y[0] = 1", "y[0] = s", "y[0] = v[:4]", "y[:, 1] = v[:3]", "y[1:, 2:] = w[1:, 2:]", "y[...] = w", "y[:] = 2.5",
    "y[0] = w[None, None, 0]", "y[0, 0] = s * 2",
    "y[[0, 2]] = w[:2]", "y[[0, 1], [1, 2]] = v[:2]", "y[:, [0, 3]] = s", "y[m] = 0", "y[m] = s", "y[m] = w[m]",
    "y[L([True, False, True])] = v[:4]",
    "y[L([True, False, True])] = 3", "y[0][1] = s", "y.t()[0] = v[:3]", "y[:, 1:][0, 0] = s", "y[1:][:, [0, 1]] = w[1:, :2]",
    "y.diagonal()[:] = v[:3]",
    "y.view(-1)[3] = s", "y[True] = w", "y[None] = w[None]", "y[L(1)] = 4", "y[::2] = w[::2]", "y[0] += v[:4]", "y[:, 0] *= 3",
    "y[m] -= 1", "y[[0, 1]] /= 2",
    "y.fill_diagonal_(2)", "z = y[:, :1]; z.fill_diagonal_(3.0, wrap=True)", "z = y.t(); z.fill_diagonal_(3.0, True)", "y.copy_(w)",
    "y.copy_(s)", "y.copy_(v[:4])", "y.fill_(2)", "y.fill_(s)", "y.zero_()", "y[0].zero_()", "y[:, 1].fill_(s)",
    "y[0].copy_(w[1])",
    "y.index_put_((L([0]),), w[0])", "y.index_put_((L([0, 0]), L([1, 1])), v[:2], accumulate=True)", "y.index_add_(0, L([0]), w[:1])",
    "y.index_copy_(0, L([0]), w[:1])",
    "y.index_fill_(0, L([0]), 3.0)", "y.masked_fill_(m, s)", "y.masked_fill_(m, 2)", "y.masked_scatter_(m, w)",
    "y.scatter_(0, L([[0, 1]]), w[:1, :2])", "y.scatter_(1, L([[0]]), 2.0)",
    "y.scatter_add_(0, L([[0, 0]]), w[:1, :2])", "y.tril_()", "y.t_()", "y.transpose_(0, 1)", "y.unsqueeze_(0)",
    "y.unsqueeze_(1); y.squeeze_()", "y.t_(); y[0] = v[:3]",
    "z = y[0]; y.t_(); z.mul_(3)", "z = y[0]; z.unsqueeze_(0); z.mul_(s)", "y.t_(); z = y[0]; y.t_(); z.copy_(v[:3]); y[:, 0].mul_(2)",
]  # fmt: skip


def written(lib, text):
    names = scope(lib)
    names["y"] = y = names["x"] * 2
    before = y.pow(1) if lib is torch else y * 1
    exec(text, names)
    (names["y"] * names["y"] * 0.5 + names["y"]).sum().backward()
    del before
    return [names["y"]], gradients(names)


@pytest.mark.parametrize("text", WRITING)
def test_writing(text):
    (ours, our_grads), (theirs, their_grads) = written(sg, text), written(torch, text)
    agree(ours, theirs, our_grads, their_grads)


ERRORS = [
    "x[1.5]", "x[5]", "x[-4]", "x[0, 9]", "x[0, 0, 0]", "x[:, :, 0]", "x[L(1.0)]", "x[::-1]", "x[[0, 5]]", "x[L([0, 7])]",
    "x[L([True, False])]",
    "s[0]", "s[:]", "x[[0, 1], [0, 1, 2]]", "x[object()]", "x[{}]", "x['a']", "x.gather(0, L([[5]]))", "x.gather(0, L([0]))",
    "x.gather(0, L([[0, 0, 0, 0, 0]]))", "x.gather(0, L([[0.0]]))", "x.gather(3, L([[0]]))", "x.gather(0, L([[-1]]))",
    "x.scatter(0, L([[7]]), 1.0)",
    "x.scatter(0, L([0]), 1.0)", "x.scatter(0, L([[0, 1]]), L([[1]]))", "x.scatter(0, L([[0, 1]]), x[:1, :1])",
    "x.index_select(0, L([5]))",
    "x.index_select(0, L([-1]))", "x.index_select(0, L([[0]]))", "x.index_select(0, L([0.0]))", "x.index_add(0, L([0]), x[:2])",
    "x.index_add(0, L([9]), x[:1])",
    "x.index_fill(0, L([0]), L([1.0, 2]))", "x.masked_fill(L([1]), 0.0)", "x.masked_fill(L([True] * 4), v[:2])",
    "x.masked_select(L([1, 0, 1, 1]))",
    "x.masked_scatter(x > -9, v)", "x.take(L([20]))", "x.take(L([0.0]))", "torch.take_along_dim(x, L([0]), 1)",
    "x.index_put((L([0]),), L([1]))",
    "y.__setitem__(0, [1, 2, 3, 4])", "y.__setitem__(L([0, 1]), v[:3])", "y.__setitem__(9, 1.0)", "y.__setitem__(m, v[:2])",
    "y.__setitem__(0, 'a')",
    "y.copy_(v[:2])", "y.copy_(L(np.ones((2, 3, 4))))", "y.fill_(v)", "[1.0] in x", "x.__setitem__(0, 1.0)", "x.fill_(1)",
    "x[0].fill_(1)", "x.zero_()", "x.t_()",
    "y.expand(2, 3, 4).copy_(y)",
]  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    raised = []
    for lib in (sg, torch):
        names = scope(lib)
        names["y"] = names["x"] * 2
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as info:
            eval(text, names)
        raised.append(info)
    ours, theirs = raised
    assert ours.type is theirs.type
    words = str(theirs.value)
    if "'a'" not in text and "1.5" not in text:
        assert words[:22] in str(ours.value)
