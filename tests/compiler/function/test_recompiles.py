"""When a compiled function is traced again, what makes it, and how it says why."""

from __future__ import annotations

import functools
import itertools
import logging
import types
import warnings

import interpreter_backend
import numpy as np
import pytest
from interpreter_backend import interpret

import symgrad as sg

nn, optim = sg.nn, sg.optim
FACTOR = 2.0
WEIGHT = sg.ones(2)
CALL = interpreter_backend.Kernel.__call__


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


def why(fast):
    return [str(record) for record in fast.recompiles()]


# reasons


def test_reasons_for_arguments():
    fast = sg.compile(lambda x, n=3, word="a", cfg=None: x * n)
    assert repr(fast.recompiles()) == "not traced yet"
    fast(sg.ones(64, 10))
    fast(sg.ones(32, 10))
    fast(sg.ones(32, 10), 4)
    fast(sg.ones(32, 10, dtype=sg.float64), 4)
    fast(sg.ones(32, 10, dtype=sg.float64, requires_grad=True), 4)
    with sg.no_grad():
        fast(sg.ones(64, 10))
    fast(sg.ones(64, 10), word="b")
    fast(sg.ones(64, 10), cfg=sg.ones(2))
    fast(sg.ones(64, 10), 2.0)
    fast(sg.ones(64, 10), 3.0)
    assert why(fast) == [
        "first call",
        "argument x: shape (64, 10) -> (32, 10)",
        "argument n: 3 -> 4",
        "argument x: dtype float32 -> float64",
        "argument x: requires_grad False -> True",
        "grad mode: on -> off",
        "argument word: 'a' -> 'b'",
        "argument cfg: a setting -> an input",
        "argument n: a setting -> an input",
    ]
    assert repr(fast.recompiles()).splitlines()[1] == "2  argument x: shape (64, 10) -> (32, 10)"


def test_the_log_says_the_same(caplog):
    caplog.set_level(logging.INFO, "symgrad.compile")
    fast = sg.compile(lambda x: x * 2)
    fast(sg.ones(2))
    fast(sg.ones(3))
    assert [r.getMessage() for r in caplog.records if "traced" in r.getMessage()] == [
        "<lambda>(x) is traced (1): first call",
        "<lambda>(x) is traced (2): argument x: shape (2,) -> (3,)",
    ]


def test_a_reason_names_the_question_and_its_line():
    @sg.compile
    def f(x):
        return x * 2 if x.sum() > 0 else x

    f(sg.ones(2)), f(-sg.ones(2)), f(sg.ones(2))
    first, second = why(f)
    assert first == "first call"
    assert second.startswith("path: bool(tensor) at ")
    assert second.endswith(" was True, now False")
    assert "test_recompiles.py:" in second


def test_reasons_for_numbers_that_python_looked_at():
    f = sg.compile(lambda x, s: x * 2 if s > 0.5 else x)
    f(sg.ones(2), 1.0), f(sg.ones(2), 2.0), f(sg.ones(2), 0.0)
    assert why(f) == ["first call", "argument s > 0.5: True -> False"]


def test_what_makes_no_difference_to_the_graph_compiles_nothing(monkeypatch):
    made = []
    monkeypatch.setattr(interpreter_backend.Kernel, "__call__", lambda self, arrays, found=None: made.append(self) or CALL(self, arrays))
    monkeypatch.setattr(interpreter_backend.Kernel, "launch", interpreter_backend.Kernel.__call__)
    w, total = sg.ones(2), sg.zeros(2)

    def pure(x):
        return x * w

    def step(x):
        total.add_(x * w)
        return total * 1

    for f in (pure, step):
        made.clear()
        fast = sg.compile(f)
        for value in (1.0, 2.0):
            w = sg.full((2,), value)
            for x in (sg.ones(2), sg.ones(2, requires_grad=f is pure)):
                for _ in range(2):
                    fast(x)
                    with sg.no_grad():
                        fast(x)
        assert len(fast.recompiles()) >= 4
        assert len(set(map(id, made))) == 1


# what is guarded besides arguments


def test_closure_cells_and_globals_are_read_again(monkeypatch):
    scale, word = 2.0, "a"

    def helper(x):
        return x * scale

    def f(x):
        return helper(x) * (FACTOR if word == "a" else 0)

    fast = sg.compile(f)
    x = sg.ones(2)
    for _ in range(2):
        assert fast(x).tolist() == [4, 4]
    scale = 3.0
    assert fast(x).tolist() == [6, 6]
    monkeypatch.setitem(globals(), "FACTOR", 10)
    assert fast(x).tolist() == [30, 30]
    word = "b"
    assert fast(x).tolist() == [0, 0]
    word, scale = "a", 2.0
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert fast(x).tolist() == [4, 4]  # the first program holds again
    assert why(fast) == ["first call", "closure cell scale: 2.0 -> 3.0", "global FACTOR: 2.0 -> 10", "closure cell word: 'a' -> 'b'"]


def test_a_name_that_stands_for_another_tensor_function_or_module(monkeypatch):
    net = nn.Linear(2, 2)

    act = lambda x: x * 2
    fast = sg.compile(lambda x: act(net(x) * 0 + WEIGHT))
    x = sg.ones(2)
    assert fast(x).tolist() == [2, 2]
    monkeypatch.setitem(globals(), "WEIGHT", sg.full((2,), 5.0))
    assert fast(x).tolist() == [10, 10]

    act = lambda x: x * 3
    assert fast(x).tolist() == [15, 15]
    net = nn.Linear(2, 2)
    fast(x)
    assert why(fast)[1:] == ["global WEIGHT: another Tensor", "closure cell act: another function", "closure cell net: another Linear"]


def test_what_a_module_consists_of():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.scale, self.mode = nn.Linear(2, 2), 2.0, "plain"
            self.register_buffer("shift", sg.zeros(2))

        def forward(self, x):
            return self.first(x) * self.scale + self.shift if self.mode == "plain" else x

    net = Net()
    fast = sg.compile(lambda x: net(x))
    x = sg.ones(3, 2)
    changes = {
        "training: True -> False": lambda: net.eval(),
        "Net.scale: 2.0 -> 3.0": lambda: setattr(net, "scale", 3.0),
        "Net.mode: 'plain' -> 'other'": lambda: setattr(net, "mode", "other"),
        "Net.mode: 'other' -> 'plain'": lambda: setattr(net, "mode", "plain"),
        "Linear.weight: another Parameter": lambda: setattr(net.first, "weight", nn.Parameter(sg.ones(2, 2))),
        "Net.first: another Linear": lambda: setattr(net, "first", nn.Linear(2, 2)),
        "Net.shift: another Tensor": lambda: setattr(net, "shift", sg.ones(2)),
        "Net: other forward hooks": lambda: net.register_forward_hook(lambda module, args, out: out * 10),
        "Linear: other forward pre hooks": lambda: net.first.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
        "c1, which the function captures: float32[2, 2] that requires grad -> float64[2, 2] that requires grad": lambda: net.double(),
    }
    fast(x)
    for reason, change in changes.items():
        change()
        wanted = net(x.double() if reason.startswith("c1") else x)
        for _ in range(2):
            found = fast(x.double() if reason.startswith("c1") else x)
            np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-6, err_msg=reason)
        if "hooks" not in reason and "Net.mode: 'other'" not in reason and not reason.startswith("c1"):
            assert why(fast)[-1] == reason
    net.train()


def test_modes_that_come_again_are_not_traced_again():
    net = nn.Dropout(0.0)
    fast = sg.compile(lambda x: net(x) * 2)
    for _ in range(3):
        net.train(), fast(sg.ones(2)), net.eval(), fast(sg.ones(2))
    assert len(fast.recompiles()) <= 3


def test_a_hook_that_is_taken_away():
    net = nn.Linear(2, 2)
    handle = net.register_forward_hook(lambda module, args, out: out * 0)
    fast = sg.compile(net)
    assert fast(sg.ones(2)).abs().sum().item() == 0
    handle.remove()
    assert fast(sg.ones(2)).abs().sum().item() > 0


def test_which_parameters_ask_for_gradients():
    net = nn.Linear(2, 1, bias=False)
    optimizer = optim.SGD(net.parameters(), lr=0.5)
    other = nn.Linear(2, 1, bias=False)

    @sg.compile
    def step(x):
        optimizer.zero_grad()
        loss = (net(x) + other(x)).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = sg.ones(1, 2)
    step(x), step(x)
    assert other.weight.grad is not None
    other.weight.requires_grad_(False)
    other.weight.grad = None
    before = net.weight.detach().clone()
    step(x)
    assert other.weight.grad is None
    np.testing.assert_allclose((net.weight - before).detach().numpy(), [[-0.5, -0.5]], rtol=1e-6)


def test_parameters_that_an_optimizer_gets_later():
    v, w = (sg.ones(2, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([v], lr=1.0)

    @sg.compile
    def step(x):
        optimizer.zero_grad()
        loss = (v * w * x).sum()
        loss.backward()
        optimizer.step()
        w.grad = None
        return loss

    x = sg.full((2,), 0.25)
    step(x)
    optimizer.param_groups[0]["params"].append(w)
    step(x)
    assert w.tolist() != [1, 1]


# too much of it


def test_many_shapes_are_one_warning_that_names_the_argument():
    fast = sg.compile(lambda x, batch: x * batch["y"].sum())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n in range(1, 15):
            fast(sg.ones(2), {"y": sg.ones(n)})
    (warning,) = found
    assert str(warning.message).startswith("argument batch.y has come in 9 shapes")
    assert "buckets" in str(warning.message)
    fast = sg.compile(lambda x, n: x * n)
    for n in range(8):
        fast(sg.ones(2), n)
    with pytest.warns(UserWarning, match=r'argument n has come in 9 values.*dynamic="n"'):
        fast(sg.ones(2), 8)


def test_a_last_short_batch_is_a_second_program_and_no_warning():
    calls = []
    fast = sg.compile(lambda x: calls.append(1) or (x * x).mean())
    for _ in range(3):
        for n in (8, 8, 3):
            assert fast(sg.full((n, 2), 3.0)).item() == 9
    assert len(calls) == 2


def test_what_results_bring_along_is_not_left_behind():
    """The memory of a view, and the history of a result."""
    fast = sg.compile(lambda x: ((x * 2)[0], sg.func.grad(lambda y: (y * y).sum())(x), (x * sg.ones(2, requires_grad=True)).view(1, 2)))
    for _ in range(4):
        assert fast(sg.ones(2))[0].item() == 2
    assert len(fast.recompiles()) == 1


def _through(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


class _Counting:
    """A decorator that is an object, and remembers something."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.calls = 0

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args):
        self.calls += 1
        return self.__wrapped__(*args)


class _Decorated(nn.Module):
    @_Counting
    def forward(self, x):
        return x * FACTOR


@pytest.mark.parametrize(("wrap", "number"), [
    (_through, float), (functools.lru_cache, float), (lambda f: _through(functools.lru_cache(f)), float), (sg.compile, sg.tensor),
], ids=["wraps", "cache", "both", "compiled"])  # fmt: skip
def test_what_a_wrapped_function_reads(monkeypatch, wrap, number):
    """A decorator leads to the function itself, wherever it stands: that which is compiled, or one that it calls."""
    scale, keys = 2.0, itertools.count()

    @wrap
    def factor(key):
        return number(FACTOR * scale)

    @_through
    def f(x):
        return x * factor(next(keys))

    fast = sg.compile(f)
    x = sg.ones(2)
    with pytest.warns(UserWarning, match="closure cell keys is an iterator"):
        assert fast(x).tolist() == [4, 4]
    scale = 3.0
    with pytest.warns(UserWarning, match="closure cell keys is an iterator"):
        assert fast(x).tolist() == [6, 6]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    with pytest.warns(UserWarning, match="closure cell keys is an iterator"):
        assert fast(x).tolist() == [15, 15]
    assert why(fast)[1:] == ["closure cell scale: 2.0 -> 3.0", "global FACTOR: 2.0 -> 5.0"]


def test_what_the_wrapped_forward_of_a_module_reads(monkeypatch):
    net = _Decorated()
    fast = sg.compile(lambda x: net(x))
    assert fast(sg.ones(2)).tolist() == [2, 2]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert fast(sg.ones(2)).tolist() == [5, 5]


def test_what_a_decorator_remembers_decides_nothing(monkeypatch):
    f = _Counting(lambda x: x * FACTOR)
    fast = sg.compile(f)
    for _ in range(3):
        assert fast(sg.ones(2)).tolist() == [2, 2]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert fast(sg.ones(2)).tolist() == [5, 5]
    assert why(fast) == ["first call", "global FACTOR: 2.0 -> 5.0"]
