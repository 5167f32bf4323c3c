"""Writes to arguments and captured tensors between a compiled call and backward(): tracked ones are refused, others as documented."""

from __future__ import annotations

import pytest

import symgrad as sg

FUNCTIONS = {
    "x * w": (lambda x, w: (x * w).sum(), lambda x, w: (w, x)),
    "x * x * w": (lambda x, w: (x * x * w).sum(), lambda x, w: (2 * x * w, x * x)),
    "exp(x) * w": (lambda x, w: (x.exp() * w).sum(), lambda x, w: (x.exp() * w, x.exp())),
    "sin(x) + w * w": (lambda x, w: (x.sin() + w * w).sum(), lambda x, w: (x.cos(), 2 * w)),
}


def under_no_grad(t):
    with sg.no_grad():
        t.mul_(2.0)


def replaced(t):
    t.data = sg.full((3,), 7.0)


TRACKED = {"no_grad": under_no_grad, "detach": lambda t: t.detach().fill_(7.0)}
UNTRACKED = {".data": lambda t: t.data.fill_(7.0), "numpy": lambda t: t.detach().numpy().fill(7.0)}


def setting(name, captured, backend):
    """Two leaves, a compiled call, and the gradients that belong to given values."""
    f, slopes = FUNCTIONS[name]
    x, w = sg.tensor([1.0, 2.0, 3.0], requires_grad=True), sg.tensor([0.5, -1.0, 2.0], requires_grad=True)
    fast = sg.compile((lambda x: f(x, w)) if captured else f, backend=backend)
    return x, w, (lambda: fast(x)) if captured else (lambda: fast(x, w)), slopes


def backward(x, w, y):
    y.backward()
    return x.grad, w.grad


def assert_close(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert one.tolist() == pytest.approx(other.tolist(), rel=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("write", TRACKED)
def test_a_tracked_write_is_an_error(write, calls, which, captured, backend):
    x, w, call, _ = setting("x * x * w", captured, backend)
    for _ in range(calls):
        call().backward()
    y = call()
    TRACKED[write]((x, w)[which])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("write", UNTRACKED)
def test_an_untracked_write_gives_the_gradient_at_one_point(write, name, which, captured, backend):
    """At the new values, or at those of the call if a captured tensor is on the device: never a mixture."""
    x, w, call, slopes = setting(name, captured, backend)
    before = [t.detach().clone() for t in (x, w)]
    y = call()
    UNTRACKED[write]((x, w)[which])
    on_device = backend == "xla" and captured and which == 1
    assert_close(backward(x, w, y), slopes(*(before if on_device else (x.detach(), w.detach()))))


@pytest.mark.parametrize("backend", [None, "numpy", "xla"])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_memory_leaves_the_gradient_as_it_is(name, which, captured, backend):
    x, w, call, slopes = setting(name, captured, backend or "numpy")
    before = [t.detach().clone() for t in (x, w)]
    y = FUNCTIONS[name][0](x, w) if backend is None else call()
    replaced((x, w)[which])
    assert_close(backward(x, w, y), slopes(*before))
