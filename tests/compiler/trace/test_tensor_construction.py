"""Tensors that are made of others inside a traced function by other ways than ops: they follow at every run, or are refused by name."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.trace.trace import trace
from symgrad.errors import TraceError

nn = sg.nn
W = sg.tensor([[1.0, 0.5, -1.0], [0.25, 2.0, 1.0], [1.0, -1.0, 0.5]], requires_grad=True)


def retains(x):
    hidden = x @ W
    hidden.retain_grad()
    (hidden.tanh() * x).sum().backward()
    W.grad = None
    return hidden.grad


def retains_twice(x):
    hidden = x @ W
    hidden.retain_grad()
    for _ in range(2):
        hidden.tanh().sum().backward(retain_graph=True)
    W.grad = None
    return hidden.grad


def copies_a_module(x):
    layer = nn.Linear(3, 3, bias=False)
    layer.weight = nn.Parameter(W.detach() * x)
    return copy.deepcopy(layer)(x).detach()


def copies_a_view_and_its_base(x):
    whole = x.detach() * 2
    part, other = copy.deepcopy([whole[1:], whole])
    part.mul_(10)  # they share the memory of the copy, and not that of the tensors
    return other + whole


MADE = {
    "retain_grad": retains,
    "retain_grad, twice": retains_twice,
    "deepcopy": lambda x: copy.deepcopy(x.detach() * 2),
    "deepcopy of a leaf": lambda x: copy.deepcopy((x * 2).requires_grad_()).detach(),
    "deepcopy of a parameter": lambda x: copy.deepcopy(nn.Parameter(x * 2)).detach() + 1,
    "deepcopy of a view": lambda x: copy.deepcopy((x.detach() * 2)[1:]),
    "deepcopy of a view and its base": copies_a_view_and_its_base,
    "a mask of bytes": lambda x: sg.where(x > 1, x, 0)[(x > -9).to(sg.uint8)],
    "a list of indices": lambda x: x[None][0, [x.argmax(), 0, x.argmin()]],
    "lists of indices": lambda x: W.detach()[[x.argmax(), 0], [1, x.argmin()]],
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_what_is_made_follows_at_every_run(name, backend):
    fast = sg.compile(MADE[name], backend=backend)
    for numbers in ([1.0, 2.0, 3.0], [3.0, -1.0, 2.0], [0.5, 2.0, -2.0]):
        np.testing.assert_allclose(fast(sg.tensor(numbers)), MADE[name](sg.tensor(numbers)), rtol=1e-5, atol=1e-6)
    assert len(fast.recompiles()) == 1


def test_the_copy_of_a_module():
    fast = sg.compile(copies_a_module)
    for numbers in ([1.0, 2.0, 3.0], [3.0, -1.0, 2.0]):
        np.testing.assert_allclose(fast(sg.tensor(numbers)), copies_a_module(sg.tensor(numbers)), rtol=1e-5)


def test_a_mask_of_bytes_decides_the_size():
    fast = sg.compile(lambda x: x[(x > 0).to(sg.uint8)])
    for numbers in ([1.0, 2.0], [-1.0, 2.0], [1.0, -2.0]):
        assert fast(sg.tensor(numbers)).tolist() == [n for n in numbers if n > 0]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: pickle.loads(pickle.dumps(x * 2)), "pickling"),
        (lambda x: pickle.loads(pickle.dumps(nn.Parameter(x * 2))), "pickling"),
        (lambda x: (x * 2).view(sg.int32), r"view\(dtype\)"),
        (lambda x: sg.from_dlpack(x * 2), r"__dlpack__\(\)"),
        (lambda x: x[None][0, [x.argmax()[None], x.argmin()[None]]], "a list of tensors as an index"),
    ],
)
def test_what_no_program_follows_is_refused_by_name(function, words):
    with pytest.raises(TraceError, match=rf"test_tensor_construction\.py:\d+: {words}.* takes a value out of the graph"):
        sg.compile(function)(sg.ones(3))


@pytest.mark.parametrize("dtype", [sg.float64, sg.float32, sg.complex64, sg.int64, sg.bool])
def test_an_identity_matrix_is_no_input(dtype):
    graph = trace(lambda given: sg.eye(3, 4, dtype=dtype) * given[0], [np.full((), 2.0)], ["x"]).graph
    assert (len(graph.inputs), "eye" in graph.ops) == (1, True)
    for other in (-np.eye(3), 2 * np.eye(3), np.eye(3) + np.eye(3, k=1), np.eye(3)[[1, 0, 2]], np.eye(0, 3)):
        graph = trace(lambda given, other=other: sg.tensor(other) * given[0], [np.full((), 2.0)], ["x"]).graph
        assert (len(graph.inputs), "eye" in graph.ops) == (2, False)


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_an_identity_matrix_that_is_written_to(backend):
    def rotation(angle):
        made = sg.eye(3, dtype=sg.float64)
        made[0, 0] = angle.cos()
        made[1:, 1].mul_(angle)
        return made, sg.eye(3, dtype=sg.float64)

    fast = sg.compile(rotation, backend=backend)
    for angle in (0.5, 2.0):
        for found, expected in zip(fast(sg.tensor(angle)), rotation(sg.tensor(angle)), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    a = sg.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0], [0.0, 1.0, 5.0]], dtype=sg.float64)
    fast = sg.compile(lambda a: ((a + 2 * sg.eye(3, dtype=sg.float64)) ** 2).sum(), backend=backend)
    fast(a)
    assert "2 I" in str(fast.formula()).replace("·", " ")
