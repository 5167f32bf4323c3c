"""Calls like the last one take a shortest way, and nobody can tell by the results."""

from __future__ import annotations

import threading

import pytest

import symgrad as sg
from symgrad.mode import watched
from symgrad.resident import is_resident

nn, optim = sg.nn, sg.optim


def on_device(*values):
    """A tensor that a kernel has left where it was computed."""
    return sg.compile(lambda x: x * 1)(sg.tensor(values))


def ready(f, *args):
    """A compiled function whose next call takes the shortest way."""
    fast = sg.compile(f)
    for _ in range(3):
        fast(*args)
    assert fast._direct is not None
    return fast


def test_tensors_on_the_device_go_straight_to_the_executable(monkeypatch):
    x, y = on_device(1.0, 2.0), on_device(3.0, 4.0)
    fast = ready(lambda x, y: x * y + 1, x, y)
    monkeypatch.setattr(fast, "_called", None)
    monkeypatch.setattr(fast, "_shortcut", None)
    result = fast(x, y)
    assert is_resident(result)
    assert result.tolist() == [4.0, 9.0]
    assert not result.requires_grad


def test_whoever_asks_for_gradients_gets_them():
    fast = ready(lambda x: (x * x).sum(), on_device(1.0, 2.0))
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = sg.compile(lambda x: x * 3)(x)
    assert is_resident(y)
    fast(y).backward()
    assert x.grad.tolist() == [18.0, 36.0]


@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0], [1, 2]])
def test_other_types_take_the_long_way(other):
    fast = ready(lambda x: x * 2, on_device(1.0, 2.0))
    assert fast(on_device(*other)).tolist() == [2 * v for v in other]
    assert len(fast.recompiles()) == 2
    with pytest.raises(TypeError, match="too many positional arguments"):
        fast(on_device(1.0, 2.0), on_device(1.0, 2.0))


def test_who_looks_for_nan_finds_it_in_a_call_and_in_a_derivative():
    x = on_device(-1.0, 2.0)
    fast = ready(lambda x: sg.log(x).sum(), x)
    for _ in range(2):
        fast.grad(x, wrt=0)
    with sg.debug.nans(), pytest.raises(FloatingPointError, match="log made a NaN"):
        fast(x)
    root = sg.compile(lambda x: sg.sqrt(x).sum())
    zero = on_device(-1.0, 0.0)
    for _ in range(2):
        root.grad(zero, wrt=0)
    with sg.debug.nans(), pytest.raises(FloatingPointError):
        root.grad(zero, wrt=0)


def test_inside_of_another_compiled_function_it_is_ordinary_code():
    w = on_device(1.0, 2.0)
    double = ready(lambda x: x * 2, w)
    outer = sg.compile(lambda x: x + double(w))
    for factor in (1, 3, 5):
        w.copy_(sg.tensor([1.0, 2.0]) * factor)
        assert outer(sg.ones(2)).tolist() == [1 + 2 * factor, 1 + 4 * factor]


def test_whoever_looked_on_is_counted_until_he_stops():
    before = watched.count
    seen = []

    def look():
        with sg.debug.nans():
            seen.append(watched.count)
            with sg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), sg.autograd.set_detect_anomaly(True):
                seen.append(watched.count)
            sg.compile(lambda x: x * 2)(sg.ones(2))
            seen.append(watched.count)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for t in threads:
        t.start()
        t.join()
    assert seen == [before + 1] * 6
    assert watched.count == before
    with pytest.raises(ZeroDivisionError):
        sg.compile(lambda x: 1 / 0)(sg.ones(2))
    assert watched.count == before


def test_a_variable_of_the_closure_that_was_deleted_is_missed_as_in_eager_code():
    def make():
        scale, weight = 2.0, sg.ones(2, requires_grad=True)
        optimizer = optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (scale * x * weight).sum()
            loss.backward()
            optimizer.step()
            return loss

        def forget():
            nonlocal scale
            del scale

        return step, lambda x: scale * x, forget

    step, plain, forget = make()
    steps, fast, x = sg.compile(step), sg.compile(plain), sg.ones(2)
    for _ in range(4):
        steps(x), fast(x)
    forget()
    for f in (steps, fast):
        with pytest.raises(NameError, match="scale"):
            f(x)


def test_a_function_may_delete_a_variable_of_its_closure_and_is_warned():
    def make():
        scale = 2.0

        def once(x):
            nonlocal scale
            y = scale * x
            del scale
            return y

        return once

    with pytest.warns(UserWarning, match="closure cell scale is changed while the function is traced"):
        assert sg.compile(make())(sg.ones(2)).tolist() == [2, 2]


def test_compiled_modules_have_what_the_module_has_and_functions_do_not():
    net = sg.compile(nn.Linear(2, 3))
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 2), (3,)]
    assert net.eval() is net
    assert net.in_features == 2
    with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
        net.unheard_of  # noqa: B018  (reading it is the test)
    with pytest.raises(AttributeError, match="has no attribute 'parameters'"):
        sg.compile(lambda x: x).parameters  # noqa: B018  (the same)
