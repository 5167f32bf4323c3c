"""Indices that count from the end: a formula reads the elements that the eager function reads, whatever the indices select from."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F

BACK = [0, -1, 1, -1]
SOURCES = {
    "an argument": lambda x: x,
    "a slice": lambda x: x[1:],
    "a slice with a step": lambda x: x[::2],
    "flipped": lambda x: x.flip(0),
    "joined": lambda x: sg.cat([x, x * 2]),
    "padded": lambda x: F.pad(x, (0, 0, 1, 2)),
    "transposed": lambda x: x.T,
    "reshaped": lambda x: x.reshape(-1, 3),
    "rolled": lambda x: x.roll(1, 0),
    "a scan": lambda x: x.cumsum(0),
    "a triangle": lambda x: x.triu(1),
    "another triangle": lambda x: x.tril(),
    "diagonal": lambda x: x.diagonal(1),
    "windows": lambda x: x.unfold(0, 2, 1),
    "a Kronecker product": lambda x: sg.kron(x, x[:2]),
    "a sum": lambda x: x.sum(1),
    "a product": lambda x: x @ x.T,
    "softmax": lambda x: x.softmax(0),
    "sorted": lambda x: x.sort(0)[0],
    "sorted and cut": lambda x: x.sort(0)[0][:4],
    "indexed": lambda x: x[BACK],
    "embedded": lambda x: F.embedding(sg.tensor([3, 0, 1]), x),
    "stacked": lambda x: sg.stack([x, x.cos()]).flatten(0, 1),
}
READS = {
    "a list": lambda y, i: y[BACK],
    "a tensor": lambda y, i: y[i],
    "a scalar": lambda y, i: y[i[1]],
    "the last dimension": lambda y, i: y[..., i % 2 - 2],
    "pairs": lambda y, i: y.reshape(len(y), -1)[i, i % 2 - 1],
    "take": lambda y, i: y.take(i),
    "take_along_dim": lambda y, i: sg.take_along_dim(y.flatten(), i, 0),
    "numpy's take": lambda y, i: np.take(y, i, 0),
}


def written(y, index, value, accumulate=False):
    return y.clone().index_put((index,), value, accumulate=accumulate)


def assigned(y, i):
    y = y.clone()
    y[1:][i] = y[0] * 3
    return y


def assigned_backwards(y, i):
    y = y.clone()
    y[i] = (y[0] * 2).cos()
    return y.flip(0)


WRITES = {
    "index_put": lambda y, i: written(y, i, y[i].cos()),
    "index_put, added": lambda y, i: written(y, i, y[i].cos(), accumulate=True),
    "a written view": assigned,
    "a written copy": assigned_backwards,
}


def assert_formula_agrees(f, *args):
    leaf = args[0].clone().requires_grad_()
    value = f(leaf, *args[1:])
    value.backward()
    derivation = sg.derive(f, wrt=0, notation="index")(*args)
    found, gradient = derivation(*args)
    np.testing.assert_allclose(found, value.detach(), rtol=1e-12)
    np.testing.assert_allclose(gradient[0] if isinstance(gradient, tuple) else gradient, leaf.grad, rtol=1e-11, atol=1e-13)


X = sg.tensor(np.random.default_rng(3).normal(size=(5, 3)))


SOME = ("an argument", "a slice", "a scan", "sorted and cut")
CASES = [(source, read) for source in SOURCES for read in READS if read in ("a tensor", "pairs") or source in SOME]


@pytest.mark.parametrize(("source", "read"), CASES)
def test_reads(source, read):
    assert_formula_agrees(lambda x, i: (READS[read](SOURCES[source](x), i) ** 3).sum(), X, sg.tensor([0, -1, 1, -2]))


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("source", ["an argument", "a slice", "flipped", "a scan", "joined", "transposed"])
def test_writes(source, write):
    assert_formula_agrees(lambda x, i: (WRITES[write](SOURCES[source](x), i) ** 3).sum(), X, sg.tensor([0, -1]))


def test_text():
    """Only an index into something other than a named tensor is written with its remainder."""
    i, x = sg.tensor([0, -1]), sg.ones(5)
    assert str(sg.derive(lambda x, i: x.square()[i].sum(), wrt="x")(x, i)).startswith("f(x, i) = Σ_j x[i[j]]**2\n")
    assert str(sg.derive(lambda x, i: x[1:][i].sum(), wrt="x")(x, i)).startswith("f(x, i) = Σ_j x[Mod(i[j], 4) + 1]\n")
