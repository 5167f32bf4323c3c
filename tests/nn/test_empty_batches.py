"""Empty batches: the figures are PyTorch 2.13's."""

from __future__ import annotations

import numpy as np
import pytest
from empty_calls import CALLS, shown

import symgrad as sg

FLOAT = "torch.float32"
FIGURES = {
    "F.unfold(x4,2)": [[[[0, 16, 9], FLOAT, True, None]], [None, None, [0, 4, 4, 4], None]],
    "F.fold(torch.zeros(0,16,9),(4,4),2)": [[[[0, 4, 4, 4], FLOAT, False, None]], [None] * 4],
    "F.batch_norm(x2,None,None,training=True)": [[[[0, 4], FLOAT, True, None]], [[0, 4], None, None, None]],
    "F.instance_norm(x4)": [[[[0, 4, 4, 4], FLOAT, True, None]], [None, None, [0, 4, 4, 4], None]],
    "F.cross_entropy(x2,x2)": [[[[], FLOAT, True, "nan"]], [[0, 4], None, None, None]],
    "F.cross_entropy(x2,i)": [[[[], FLOAT, True, "nan"]], [[0, 4], None, None, None]],
    "x2.topk(2,1)": [[[[0, 2], FLOAT, True, None], [[0, 2], "torch.int64", False, None]], [[0, 4], None, None, None]],
    "nn.MaxUnpool2d(2)(*nn.MaxPool2d(2,return_indices=True)(x4))": [
        [[[0, 4, 4, 4], FLOAT, True, None]], [None, None, [0, 4, 4, 4], None],
    ],
    "x2.max()": "RuntimeError",
    "x2.view(0,-1)": "RuntimeError",
}  # fmt: skip


@pytest.mark.parametrize("text", FIGURES)
def test_an_empty_batch(text):
    assert text in CALLS
    assert shown(sg, text) == FIGURES[text]


def test_parameters_get_zeros_and_statistics_stay():
    norm = sg.nn.BatchNorm1d(3)
    norm(sg.zeros(0, 3)).sum().backward()
    assert norm.weight.grad.tolist() == norm.bias.grad.tolist() == [0.0] * 3
    assert norm.running_mean.tolist() == [0.0] * 3
    assert norm.running_var.tolist() == [1.0] * 3


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_compiled(backend):
    fast = sg.compile(lambda x, w: (sg.nn.functional.batch_norm(x, None, None, w, training=True) * 2).sum(), backend=backend)
    assert fast.grad(sg.zeros(0, 3), sg.ones(3), wrt="w").tolist() == [0.0] * 3
    assert fast(sg.zeros(0, 3), sg.ones(3)).item() == 0


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_unpooling_is_compiled(backend):
    def f(x):
        y = sg.nn.MaxUnpool2d(2)(*sg.nn.MaxPool2d(2, return_indices=True)(x))
        (g,) = sg.autograd.grad((y * y).sum(), x, create_graph=True)
        return y, g, sg.autograd.grad((g * y).sum(), x)[0]

    for size in (0, 1):
        x = sg.tensor(np.arange(64.0 * size).reshape(size, 4, 4, 4), requires_grad=True)
        for found, wanted in zip(sg.compile(f, backend=backend)(x), f(x), strict=True):
            np.testing.assert_array_equal(found.detach().numpy(), wanted.detach().numpy(), strict=True)
