"""Checkpointing: the same gradients, fewer arrays; the second run must equal the first."""

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import Function, grad
from symgrad.autograd.graph import saved_tensors_hooks
from symgrad.tensor import wrap
from symgrad.utils.checkpoint import checkpoint, checkpoint_sequential


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return [wrap(rng.normal(size=(3, 3)), True) for _ in range(2)]


def body(x, w):
    h = (x @ w).tanh()
    return (h * h).exp() + h.sin()


def gradients(run, x, w, order=1):
    y = run(x, w).sum()
    found = grad(y, (x, w), create_graph=order == 2)
    if order == 2:
        found = grad(sum((g * g).sum() for g in found), (x, w))
    return [g._array for g in found]


@pytest.mark.parametrize("order", [1, 2])
def test_same_gradients(pair, order):
    plain = gradients(body, *pair, order)
    through = gradients(lambda x, w: checkpoint(body, x * 2, w, use_reentrant=False) - body(x * 2, w) + body(x, w), *pair, order)
    for a, b in zip(plain, through, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_parameters_that_are_not_arguments_and_nesting(pair, order):
    x, w = pair

    def nested(x, w):
        return checkpoint(lambda x: checkpoint(lambda h: body(h.sin(), w), x * x) * checkpoint(body, x, w), x)

    plain = gradients(lambda x, w: body((x * x).sin(), w) * body(x, w), x, w, order)
    for a, b in zip(plain, gradients(nested, x, w, order), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_a_function_inside(pair, order):
    class Exp(Function):
        @staticmethod
        def forward(ctx, a, b):
            out = a.exp() * b
            ctx.save_for_backward(a, b, out)
            return out

        @staticmethod
        def backward(ctx, g):
            a, _, out = ctx.saved_tensors
            return g * out, g * a.exp()

    run = lambda x, w: Exp.apply(x * w, w)
    plain = gradients(run, *pair, order)
    for a, b in zip(plain, gradients(lambda x, w: checkpoint(run, x, w), *pair, order), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10)


def test_what_was_saved_is_dropped_and_the_function_runs_again(pair):
    x, w = pair
    inner = []

    def run(x, w):
        h = (x @ w).exp()
        inner.append(weakref.ref(h._array))
        return h.sin()

    y = checkpoint(run, x, w)
    assert len(inner) == 1
    assert inner[0]() is None
    y.sum().backward()
    assert len(inner) == 2
    assert inner[1]() is None


def test_random_numbers_are_the_same_again(pair):
    x, _ = pair
    noise = []

    def run(x):
        noise.append(sg.rand(3, 3, dtype=sg.float64))
        return (x * noise[-1]).exp()

    y = checkpoint(run, x)
    after = sg.rand(2)
    y.sum().backward()
    np.testing.assert_array_equal(noise[0]._array, noise[1]._array)
    sg.manual_seed(3)
    first = sg.rand(2)
    sg.manual_seed(3)
    y = checkpoint(run, x)
    state = sg.get_rng_state()
    y.sum().backward()
    assert (sg.get_rng_state() == state)._array.all()
    assert not (first == after)._array.all()


def test_a_function_that_changes_its_mind_is_refused(pair):
    x, _ = pair
    calls = []

    def run(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.sin().exp()

    with pytest.raises(RuntimeError, match=r"did not do the same when it was run again .*1 operations were recorded before, 2 now"):
        checkpoint(run, x).sum().backward()
    with pytest.raises(RuntimeError, match=r"ExpBackward0 of shape .*SinBackward0"):
        checkpoint(lambda x: x.exp() if not calls.append(1) and len(calls) == 3 else x.sin(), x).sum().backward()


def test_writing_to_what_it_used_is_noticed(pair):
    x, w = pair
    y = checkpoint(body, x, w)
    with sg.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_without_recording_it_is_a_call(pair):
    with sg.no_grad():
        assert checkpoint(body, *pair).is_leaf
    assert checkpoint(body, *(t.detach() for t in pair)).is_leaf


def test_sequential(pair):
    x, w = pair
    layers = [lambda h: (h @ w).tanh(), lambda h: h.sin(), lambda h: h * h, lambda h: h.exp(), lambda h: h + 1]
    plain = gradients(lambda x, w: checkpoint_sequential(layers, 1, x), x, w)
    for segments in (2, 3, 5, 7):
        for a, b in zip(plain, gradients(lambda x, w, n=segments: checkpoint_sequential(layers, n, x), x, w), strict=True):
            np.testing.assert_allclose(b, a)


def test_no_cycles(pair):
    x, w = pair
    gc.collect()
    gc.disable()
    try:
        y = checkpoint(lambda x: checkpoint(body, x, w).sin(), x)
        dead = weakref.ref(y)
        node = weakref.ref(y.grad_fn)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        del y
        assert dead() is None
        assert node() is None
    finally:
        gc.enable()


def test_saved_tensors_hooks_pack_and_unpack(pair):
    x, w = pair
    packed, unpacked = [], []

    def pack(t):
        packed.append(t)
        return t._array.copy()

    def unpack(array):
        unpacked.append(array)
        return wrap(array)

    with saved_tensors_hooks(pack, unpack):
        y = body(x, w).sum()
    assert packed
    assert not unpacked
    expected = gradients(body, x, w)
    for a, b in zip(expected, grad(y, (x, w), create_graph=True), strict=True):
        np.testing.assert_allclose(b._array, a)
    assert len(unpacked) == len(packed)
    with saved_tensors_hooks(pack, lambda array: array):
        y = x.exp().sum()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        y.backward()


@pytest.mark.parametrize("choose", [lambda x: x.sort()[0][1:], lambda x: x.max(0)[0], lambda x: sg.linalg.qr(x.outer(x) + sg.diag(x))[1]])
def test_saved_tensors_hooks_pack_what_rows_of_several_outputs_save(choose):
    x = wrap(np.array([0.5, 2.0, -1.0]), requires_grad=True)
    (wanted,) = grad(choose(x).sum(), x)
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t._array * 1, wrap):
        y = choose(x)
    assert packed
    np.testing.assert_array_equal(grad(y.sum(), x)[0]._array, wanted._array)


def test_contexts_of_the_first_and_the_second_run(pair):
    entered = []

    @contextlib.contextmanager
    def noted(name):
        entered.append(name)
        yield
        entered.append(f"{name} left")

    y = checkpoint(body, *pair, context_fn=lambda: (noted("first"), noted("second")))
    assert entered == ["first", "first left"]
    y.sum().backward()
    assert entered == ["first", "first left", "second", "second left"]
    entered.clear()
    with sg.no_grad():
        checkpoint(body, *pair, context_fn=lambda: (noted("first"), noted("second")))
    assert entered == ["first", "first left"]


def test_random_numbers_are_others_if_they_are_not_to_be_preserved(pair):
    x, _ = pair
    noise = []

    def run(x):
        noise.append(sg.rand(3, 3, dtype=sg.float64))
        return (x * noise[-1]).exp()

    for preserved in (True, False):
        for call in (
            lambda p=preserved: checkpoint(run, x, preserve_rng_state=p),
            lambda p=preserved: checkpoint_sequential([run, lambda h: h + 1], 2, x, preserve_rng_state=p),
        ):
            noise.clear()
            call().sum().backward()
            assert len(noise) == 2
            assert np.array_equal(noise[0]._array, noise[1]._array) == preserved


@pytest.mark.parametrize(("segments", "again"), [(1, 0), (2, 2), (3, 2), (4, 3), (5, 4), (7, 4)])
def test_all_segments_but_the_last_run_again(pair, segments, again):
    """As in PyTorch: of 5 functions, each segment but the last has 5 // segments of them, or one."""
    calls = []
    layers = [lambda h, i=i: (calls.append(i), h.sin())[1] for i in range(5)]
    checkpoint_sequential(layers, segments, pair[0]).sum().backward()
    assert sorted(calls) == sorted([*range(5), *range(again)])
    assert calls[:5] == [0, 1, 2, 3, 4]


def test_a_sequential_module_is_the_chain_of_its_children(pair):
    x, _ = pair
    net = sg.nn.Sequential(sg.nn.Linear(3, 3), sg.nn.Tanh(), sg.nn.Linear(3, 2)).double()
    net(x).sum().backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    y = checkpoint_sequential(net, 2, x)
    np.testing.assert_array_equal(y.detach().numpy(), net(x).detach().numpy())
    y.sum().backward()
    for p, wanted in zip(net.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), wanted.numpy(), rtol=1e-12)


def test_arguments_by_name_and_results_in_containers(pair):
    """Gradients reach what stands before a tensor that is given by name."""
    x, w = pair
    inner = []

    def run(first, *, second, scale):
        h = first.exp() * second
        inner.append(weakref.ref(h._array))
        return {"a": [h.sin() * scale], "b": (h.cos(), None, "text")}

    def through(x, w):
        found = checkpoint(run, x, second=w * 2, scale=3.0)
        return found["a"][0] + found["b"][0]

    plain = gradients(lambda x, w: (x.exp() * w * 2).sin() * 3 + (x.exp() * w * 2).cos(), x, w)
    y = through(x, w)
    assert inner[-1]() is None
    assert y.requires_grad
    for a, b in zip(plain, gradients(through, x, w), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
