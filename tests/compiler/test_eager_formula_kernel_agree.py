"""The promise: eager, formula and kernel give the same numbers, for values, gradients and gradients of gradients."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


def normal(*shape, dtype=np.float64, seed=0):
    values = np.random.default_rng(seed + 7 * len(shape) + sum(shape)).normal(size=shape)
    return sg.tensor(values.astype(dtype), requires_grad=True)


def network(x, w1, w2, y):
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


def smooth(x):
    return (x.sin() * x.exp() / (1 + x * x) - x.cos().tanh() + (x * x + 2).log() ** 3).sum()


def broadcast(x, b):
    return ((x + b).tanh() * x / 3 - b).sum()


def branches(x):
    return sg.where(x > 0, x.exp(), x * x * x).sum() + (-x).relu().sum()


def reshaped(x, y):
    return (x.reshape(6) @ y.reshape(6)).sin() + (x.t() @ y.t()).sum()


def powers(x, y):
    return ((x * x + 1) ** y).sum() + (x**3 - x**-2).sum() + (2**x).sum()


def reduced(x):
    return (x.sum(0) * x.sum(1, keepdim=True)).sum() + x.mean()


def vectors(x, a):
    return (a @ x) @ (x.t() @ a) + a @ a


def mixed(x, y):
    return (x * y * 0.1).sum() + y.sum()


CASES = {
    "network": (network, (normal(5, 4), normal(4, 3), normal(3, 2), normal(5, 2))),
    "scalar": (smooth, (normal(),)),
    "vector": (smooth, (normal(4),)),
    "broadcast": (broadcast, (normal(3, 4), normal(4))),
    "branches": (branches, (normal(3, 2),)),
    "reshaped": (reshaped, (normal(2, 3), normal(3, 2))),
    "powers": (powers, (normal(3), normal(3, seed=5))),
    "reduced": (reduced, (normal(4, 4),)),
    "vectors": (vectors, (normal(3, 3), normal(3))),
}


def eager(f, args):
    y = f(*args)
    return [y, *sg.autograd.grad(y, args)]


def penalty(f, count):
    """A scalar that depends on all first derivatives."""

    def of_gradients(*args):
        gradients = sg.autograd.grad(f(*args), args[:count], create_graph=True)
        total = (gradients[0] * gradients[0]).sum()
        for g in gradients[1:]:
            total = total + (g * g).sum()
        return total

    return of_gradients


def close(found, wanted, tolerance=1e-12):
    for a, b in zip(found, wanted, strict=True):
        assert a._array.dtype == b._array.dtype
        scale = max(1.0, float(np.abs(b._array).max()))
        np.testing.assert_allclose(a._array, b._array, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", CASES)
def test_formula_is_the_eager_gradient(name, notation):
    f, args = CASES[name]
    value, gradients = sg.derive(f, wrt=tuple(range(len(args))), notation=notation)(*args)(*args)
    close([value, *gradients], eager(f, args))


@pytest.mark.parametrize("name", ["broadcast", "reshaped", "branches", "powers", "vectors"])
def test_formula_in_elements(name):
    f, args = CASES[name]
    derivation = sg.derive(f, wrt=tuple(range(len(args))), notation="elements")(*args)
    value, gradients = derivation(*args)
    close([value, *gradients], eager(f, args))


@pytest.mark.parametrize("name", CASES)
def test_kernel_is_the_eager_gradient(name):
    f, args = CASES[name]
    value, gradients = sg.compile(f).value_and_grad(*args, wrt=tuple(range(len(args))))
    close([value, *gradients], eager(f, args))


@pytest.mark.parametrize("name", CASES)
def test_formula_at_second_order(name):
    f, args = CASES[name]
    f = penalty(f, len(args))
    value, gradients = sg.derive(f, wrt=tuple(range(len(args))))(*args)(*args)
    close([value, *gradients], eager(f, args), 1e-11)


@pytest.mark.parametrize("name", ["network", "powers"])
def test_kernel_at_second_order(name):
    f, args = CASES[name]
    f = penalty(f, len(args))
    value, gradients = sg.compile(f).value_and_grad(*args, wrt=tuple(range(len(args))))
    close([value, *gradients], eager(f, args), 1e-11)


@pytest.mark.parametrize("name", ["network", "branches", "broadcast"])
def test_float32(name):
    f, args = CASES[name]
    args = tuple(sg.tensor(a.detach().numpy().astype(np.float32), requires_grad=True) for a in args)
    wanted = eager(f, args)
    value, gradients = sg.compile(f).value_and_grad(*args, wrt=tuple(range(len(args))))
    close([value, *gradients], wanted, 2e-6)
    value, gradients = sg.derive(f, wrt=tuple(range(len(args))))(*args)(*args)
    close([value, *gradients], wanted, 2e-6)


def test_mixed_types_meet_as_in_eager_code():
    x, y = normal(3, dtype=np.float32), normal(3)
    wanted = eager(mixed, (x, y))
    value, gradients = sg.compile(mixed).value_and_grad(x, y, wrt=("x", "y"))
    close([value, *gradients], wanted, 1e-7)
    assert [g._array.dtype.name for g in gradients] == ["float32", "float64"]
