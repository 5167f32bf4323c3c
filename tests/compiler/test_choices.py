"""What derivatives are taken in by default, and options and calls that go wrong."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError

X = sg.tensor([1.0, 2.0, 3.0])


def test_without_wrt_derivatives_are_those_of_arguments():
    w = sg.tensor([2.0, 3.0, 4.0])
    fast = sg.compile(lambda x: (x * sg.tensor([1.0, 2.0, 3.0]) * w).sum())
    for _ in range(2):
        (found,) = fast.grad(X)
        assert found.tolist() == [2, 6, 12]
        _, (found,) = fast.value_and_grad(X)
        assert found.tolist() == [2, 6, 12]
    (found,) = fast.jacobian(X)
    assert found.tolist() == [2, 6, 12]
    w.requires_grad_()
    (found,) = fast.grad(X)  # that which requires grad
    assert found.tolist() == [1, 4, 9]
    whole = sg.compile(lambda n: (n * sg.tensor([1.0, 2.0])).sum())
    with pytest.raises(TraceError, match="no argument is a floating-point tensor"):
        whole.grad(sg.tensor([1, 2]))


def test_the_default_is_the_same_in_a_file(tmp_path):
    fast = sg.compile(lambda x: (x * sg.tensor([1.0, 2.0, 3.0])).sum())
    fast.export(tmp_path / "f.sgx", X)
    assert [g.tolist() for g in sg.load_compiled(tmp_path / "f.sgx").grad(X)] == [[1, 2, 3]]


def test_a_truth_value_is_no_position():
    fast = sg.compile(lambda x, y: (x * x * y).sum())
    for _ in range(2):
        assert fast.grad(X, X, wrt=1).tolist() == [1, 4, 9]
        assert fast.vjp(X, X, wrt=1)(sg.tensor(1.0)).tolist() == [1, 4, 9]
        for wrt in (True, (0, True)):
            with pytest.raises(ValueError, match=r"test_choices.py:\d+: wrt=True: a truth value is no position; .* number of x, y"):
                fast.grad(X, X, wrt=wrt)
            with pytest.raises(ValueError, match="a truth value is no position"):
                fast.vjp(X, X, wrt=wrt)


def test_what_is_remembered_of_gradients_has_a_limit():
    fast = sg.compile(lambda x: (x * x).sum())
    for i in range(300):
        fast._keep(("x", i), fast._point("grad", (X,), {}, 0))
        assert len(fast._points) <= 256
    assert fast.grad(X, wrt=0).tolist() == [2, 4, 6]


def test_pinv_with_a_bound_that_depends_on_values_is_refused():
    a = sg.tensor([[2.0, 0.0], [0.0, 0.1]])
    wanted = [[0.5, 0], [0, 0]]
    assert sg.linalg.pinv(a, atol=0.5).tolist() == wanted
    assert sg.linalg.pinv(a, atol=sg.tensor(0.5)).tolist() == wanted
    for atol in (0.5, sg.tensor(0.5)):
        with pytest.raises(TraceError, match=r"test_choices.py:\d+: pinv\(\) with atol"):
            sg.compile(lambda a, atol=atol: sg.linalg.pinv(a, atol=atol))(a)
    np.testing.assert_allclose(sg.compile(lambda a: sg.linalg.pinv(a, rtol=0.2))(a).numpy(), wanted, atol=1e-6)


def layers(x):
    x = x.expand(3, 3)
    for i in range(40):
        x = sg.sin(x) @ x / 10 + sg.tanh(x + i)
    return x.sum(0)


def test_layers_are_rolled_up_unless_it_is_switched_off():
    flat, rolled = sg.compile(layers, roll=False), sg.compile(layers)
    np.testing.assert_allclose(flat(X).numpy(), rolled(X).numpy(), rtol=1e-5)
    np.testing.assert_allclose(flat.vjp(X, wrt=0)(X).numpy(), rolled.vjp(X, wrt=0)(X).numpy(), rtol=1e-4)
    assert "scan" in rolled.source()
    assert "scan" not in flat.source()


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_a_run_that_raises_puts_the_generator_back(backend, monkeypatch):
    w = sg.zeros(3)

    def step(x):
        w.add_(x * sg.rand(3))
        return w.sum()

    def fails(self, held, found=None):
        raise RuntimeError("no memory")

    fast = sg.compile(step, backend=backend)
    sg.manual_seed(4)
    fast(X)
    fast(X)
    before = w.tolist()
    kernel = fast._latest.kernel
    with monkeypatch.context() as patch:
        patch.setattr(type(kernel), "launch", fails)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no memory"):
                fast(X)
    assert w.tolist() == before
    found = fast(X)
    sg.manual_seed(4)
    w.zero_()
    for _ in range(3):
        wanted = step(X)
    np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-6)
