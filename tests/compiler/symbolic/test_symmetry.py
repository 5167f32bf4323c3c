"""Second derivatives in both orders of differentiation: equal, or both derived if a backward that is no derivative comes between."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

A = sg.tensor([[1.0, 2.0, 0.5], [3.0, 4.0, -1.0], [0.25, 2.0, 3.0]], dtype=sg.float64)


class Wrong(sg.autograd.Function):
    """A product whose backward is no derivative."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * 3 * x * y, g * 7 * x * x


class Right(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * 2 * x * y, g * x * x


class Turning(sg.autograd.Function):
    """A backward whose Jacobian is not symmetric."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (A @ x)


def hooked(x, y):
    h = x * x * y
    if h.requires_grad:
        h.register_hook(lambda g: g * y.detach())
    return h.sum()


FUNCTIONS = {
    "a wrong backward": (lambda x, y: Wrong.apply(x, y).sum(), True),
    "a wrong backward beside others": (lambda x, y: (Wrong.apply(x.sin(), y) * y).sum() + (x * y).exp().sum(), True),
    "a right backward": (lambda x, y: Right.apply(x, y).sum(), False),
    "a product with detach": (lambda x, y: (x.detach() * x * y * y).sum(), False),
    "one side detached": (lambda x, y: (x.detach() * y).sum() + (x * x).sum(), False),
    "detach of a function of both": (lambda x, y: ((x * y).detach() * x * y).sum(), False),
    "detach of one of two": (lambda x, y: ((x * x).detach() * y * x).sum() + (y.detach() * x).sin().sum(), False),
    "a hook": (hooked, None),
    "a turning backward": (lambda x, y: Turning.apply(x) + (x * y).sum(), False),
    "a turning backward of both": (lambda x, y: Turning.apply(x * y) + (x - y).square().sum(), True),
    "no Function": (lambda x, y: (x * y).sin().sum() + (x @ A @ y) ** 2, False),
}


def by_autograd(f, points):
    """The blocks of the Hessian, one row at a time, by autograd.grad of autograd.grad."""
    leaves = [p.clone().requires_grad_() for p in points]
    first = sg.autograd.grad(f(*leaves), leaves, create_graph=True)
    rows = [[sg.autograd.grad(part[i], leaves, retain_graph=True, allow_unused=True, materialize_grads=True) if part.requires_grad
             else [sg.zeros_like(p) for p in points] for i in range(3)] for part in first]  # fmt: skip
    return [[np.stack([row[j].detach().numpy() for row in block]) for j in range(len(points))] for block in rows]


@pytest.mark.parametrize("notation", ["auto", "matrix", "index", "elements"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_agree_with_kernels_and_autograd(name, notation):
    f, both = FUNCTIONS[name]
    points = [sg.tensor([0.5, -1.25, 2.0], dtype=sg.float64), sg.tensor([1.5, 0.75, -0.5], dtype=sg.float64)]
    d = sg.derive(f, order=2, notation=notation)(*points)
    found, kernel = d(*points)[2], sg.compile(f, backend="numpy").hessian(*points)
    expected = by_autograd(f, points)
    for i in range(2):
        for j in range(2):
            np.testing.assert_allclose(found[i][j].numpy(), kernel[i][j].numpy(), rtol=1e-12, atol=1e-12)
            if name != "a hook":  # a hook sees the first gradient only
                np.testing.assert_allclose(found[i][j].numpy(), expected[i][j], rtol=1e-12, atol=1e-12)
    if both is not None:
        assert (("y", "x") in d.derivatives) is both


def test_third_derivatives_in_every_order():
    f = lambda x, y: (Wrong.apply(x, y) * x).sum()
    d = sg.derive(f, order=3)(sg.spec(1, dtype=sg.float64), sg.spec(1, dtype=sg.float64))
    x, y = (sg.tensor([v], dtype=sg.float64, requires_grad=True) for v in (1.5, 2.0))
    third = d(x.detach(), y.detach())[3]
    first = sg.autograd.grad(f(x, y), (x, y), create_graph=True)
    for i in range(2):
        second = sg.autograd.grad(first[i], (x, y), create_graph=True, allow_unused=True, materialize_grads=True)
        for j in range(2):
            last = (
                sg.autograd.grad(second[j], (x, y), retain_graph=True, allow_unused=True, materialize_grads=True)
                if second[j].requires_grad else (sg.zeros(1), sg.zeros(1))
            )
            for k in range(2):
                assert third[i][j][k].item() == pytest.approx(last[k].item(), rel=1e-12)


@pytest.mark.parametrize("notation", ["auto", "index"])
def test_a_hessian_that_is_no_symmetric_matrix_is_not_printed_transposed(notation):
    d = sg.derive(lambda x: Turning.apply(x), order=2, notation=notation)(sg.spec(3, dtype=sg.float64))
    assert d(sg.ones(3, dtype=sg.float64))[2][0][0].tolist() == A.tolist()
