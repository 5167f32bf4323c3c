"""What a graph keeps, when it lets go, and how deep it may be; all without the garbage collector."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import Function, grad


@pytest.fixture(autouse=True)
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def x():
    return sg.tensor([0.5, 1.5], requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, a):
        out = a * a * a
        ctx.save_for_backward(a, out)
        return out

    @staticmethod
    def backward(ctx, g):
        a, _ = ctx.saved_tensors
        return 3 * g * a * a


@pytest.mark.parametrize(
    ("op", "kept"),
    [
        (lambda t: t + 1, False),  # reads nothing
        (lambda t: t * 2, False),  # reads the 2
        (lambda t: t.sin(), True),  # reads its input
        (lambda t: t.exp(), False),  # reads its output
        (lambda t: t * t, True),
        (lambda t: t.sum(), False),
    ],
)
def test_an_input_is_kept_only_if_a_rule_reads_it(x, op, kept):
    inner = x * 1
    y = op(inner)
    array = weakref.ref(inner._array)
    del inner
    assert (array() is not None) is kept
    y.sum().backward()
    assert array() is None


def test_an_output_is_kept_only_if_a_rule_reads_it(x):
    y = (x * 1).exp()
    array, z = weakref.ref(y._array), y + 1
    del y
    assert array() is not None
    z.sum().backward()
    assert array() is None
    assert z.grad_fn is not None  # the skeleton stays


def test_only_what_the_wanted_argument_reads_is_kept(x):
    constant = sg.tensor([1.0, 2.0])
    y = (x * 1) * constant
    held = [a for a in y.grad_fn.saved if isinstance(a, np.ndarray)]
    assert [a is constant._array for a in held] == [True]


def test_retained_graphs_keep_and_the_last_backward_frees(x):
    inner = x * 1
    array, y = weakref.ref(inner._array), inner.sin().sum()
    del inner
    y.backward(retain_graph=True)
    assert array() is not None
    y.backward()
    assert array() is None


def uses(kind, x):
    """One iteration of each way to use a graph; what should die is returned."""
    y = (x * x).sin()
    dead = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(y._array)]
    if kind == "function":
        y = Cube.apply(y)
        dead += [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.ctx)]
    if kind == "hooks":
        y.register_hook(lambda g: g * 2)
        handle = x.register_hook(lambda g: None)
        y.grad_fn.register_hook(lambda gi, go: None)
        y.grad_fn.register_prehook(lambda go: None)
    if kind == "retain":
        y.retain_grad()
    if kind == "inplace":
        y = y * 1
        y[0].mul_(3)
        y.add_(x)
        dead.append(weakref.ref(y))
    if kind == "create_graph":
        (g,) = grad(y.sum(), x, create_graph=True)
        (h,) = grad((g * g).sum(), x, retain_graph=True)
        dead += [weakref.ref(g), weakref.ref(g.grad_fn), weakref.ref(h)]
    if kind == "backward_create_graph":
        with pytest.warns(UserWarning, match="reference cycle"):
            y.sum().backward(create_graph=True)
        dead += [weakref.ref(x.grad), weakref.ref(x.grad.grad_fn)]
        x.grad = None
    elif kind == "abandoned":
        pass
    else:
        y.sum().backward()
    if kind == "hooks":
        handle.remove()
    x.grad = None
    return dead


@pytest.mark.parametrize(
    "kind",
    ["plain", "function", "hooks", "retain", "inplace", "create_graph", "backward_create_graph", "abandoned"],
)
def test_nothing_survives_an_iteration(x, kind):
    assert [reference() for reference in uses(kind, x)] == [None] * len(uses(kind, x))


def test_memory_is_flat_over_a_thousand_iterations():
    """Arrays are large beside the free lists of the interpreter; the objects are counted."""
    x = sg.tensor([0.5] * 2000, requires_grad=True)
    kinds = ["plain", "function", "hooks", "retain", "inplace", "create_graph"]

    def iterations(count):
        for i in range(count):
            uses(kinds[i % len(kinds)], x)

    iterations(60)
    tracemalloc.start()
    try:
        iterations(60)
        objects, (memory, _) = len(gc.get_objects()), tracemalloc.get_traced_memory()
        iterations(1000)
        assert len(gc.get_objects()) - objects < 50
        assert tracemalloc.get_traced_memory()[0] - memory < 400_000  # a leak of one array in twenty iterations
    finally:
        tracemalloc.stop()


def test_an_error_in_backward_leaves_nothing_behind(x):
    y = (x * x).sin()
    y.register_hook(lambda g: 1 / 0)
    dead = weakref.ref(y.grad_fn)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    del y
    assert dead() is None
    assert x.grad is None
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad._array, 2 * x._array)


def deep(x, depth):
    y = x
    for _ in range(depth):
        y = y + x
    return y


def test_a_hundred_thousand_ops_deep(x):
    y = deep(x, 100_000)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad._array, [100_001, 100_001])
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_release_in_a_thread_with_a_small_stack(x):
    """A destructor that recurses shows there first."""
    holder = [deep(x * x, 100_000)]
    size = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    assert holder == []


def test_ten_thousand_ops_deep_differentiated_twice(x):
    y = x
    for _ in range(10_000):
        y = y * 0.999 + x * 0.001
    y = y * y
    (g,) = grad(y.sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    np.testing.assert_allclose(g._array, 2 * x._array, rtol=2e-3)
    np.testing.assert_allclose(h._array, [2, 2], rtol=2e-3)


def test_wide_graphs(x):
    total = sum((x * float(i) for i in range(5_000)), start=sg.tensor([0.0, 0.0]))
    total.sum().backward()
    np.testing.assert_allclose(x.grad._array, [12_497_500] * 2, rtol=1e-5)


def test_a_finaliser_may_compute_while_a_backward_pass_runs(monkeypatch):
    """The collector may run anywhere, also inside the quiet context, which cannot be entered twice."""
    seen = []

    class Held:
        def __init__(self):
            self.itself = self

        def __del__(self):
            seen.append(float((sg.ones(3) * 2).sum()))

    from symgrad.ops.namespace import raw

    cosine = raw.cos
    monkeypatch.setattr(raw, "cos", lambda x: (gc.collect(), cosine(x))[1])
    x = sg.ones(3, requires_grad=True)
    y = sg.sin(x).sum()
    Held()
    y.backward()
    assert seen == [6.0]
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.ones(3)), rtol=1e-6)
