"""When a compiled function is traced again, and how it says why; what a call that fails leaves behind, and what runs eagerly."""

from __future__ import annotations

import logging
import random
import warnings

import interpreted
import numpy as np
import pytest
from interpreted import interpret

import symgrad as sg
from symgrad.errors import TraceError

nn, optim = sg.nn, sg.optim
FACTOR = 2.0
WEIGHT = sg.ones(2)
CALL = interpreted.Kernel.__call__


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
    monkeypatch.setattr(interpreted.Kernel, "__call__", lambda self, arrays: made.append(self) or CALL(self, arrays))
    monkeypatch.setattr(interpreted.Kernel, "launch", interpreted.Kernel.__call__)
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
        "c1, which the function brings along: float32[2, 2] that requires grad -> float64[2, 2] that requires grad": lambda: net.double(),
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


# what cannot be done again


def test_python_state_that_the_function_changes_is_a_warning():
    count = 0

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * 2

    net = Counting()

    def f(x):
        nonlocal count
        count += 1
        return net(x)

    fast = sg.compile(f)
    with pytest.warns(UserWarning, match="changed while the function is traced") as found:
        fast(sg.ones(2))
    assert sorted(str(w.message).split(" is changed")[0] for w in found) == ["Counting.calls", "closure cell count"]
    fast(sg.ones(2))
    assert (count, net.calls) == (1, 1)


@pytest.mark.parametrize("effects", [False, True])
def test_tensors_kept_outside_are_kept_at_every_call_with_one_warning(effects):
    kept, total = [], sg.zeros(())

    @sg.compile
    def f(x):
        kept.append(x * 2)
        if effects:
            total.add_(1)
        return x + 1

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n in range(5):
            assert f(sg.tensor(float(n))).item() == n + 1
    assert [t.item() for t in kept] == [0, 2, 4, 6, 8]
    assert len([w for w in found if "leaves tensors that it made behind" in str(w.message)]) == 1


@pytest.mark.parametrize("draw", [lambda: random.random(), lambda: np.random.rand()])
def test_random_numbers_of_python_and_numpy_are_refused(draw):
    total = sg.zeros(())

    @sg.compile
    def f(x):
        total.add_(1)
        return x * draw()

    states = random.getstate(), np.random.get_state()[1].tolist()
    with pytest.raises(TraceError, match=r"draws from (numpy\.)?random while it is traced.*retrace=True"):
        f(sg.ones(2))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    assert total.item() == 0


def returning(bad):
    return sg.compile(lambda x: {"a": x * 2, "b": bad})


def test_results_that_are_no_tensors():
    class Thing:
        pass

    x = sg.ones(2)
    f = sg.compile(lambda x, s: {"loss": x * s, "rate": s, "name": "a", "none": None, "shape": x.shape, "dtype": x.dtype})
    for s in (0.5, 0.25):
        found = f(x, s)
        assert (found["rate"], found["name"], found["none"], found["shape"], found["dtype"]) == (s, "a", None, (2,), sg.float32)
        assert type(found["rate"]) is float
    for bad, word in ((np.ones(2), "ndarray"), (Thing(), "Thing"), (iter([1]), "list_iterator")):
        with pytest.raises(TraceError, match=rf"the result\['b'\] is {word}"):
            returning(bad)(x)


def test_values_that_leave_through_numpy():
    for f in (lambda x: x * float(np.sin(x).sum()), lambda x: x + sg.tensor(x.numpy()), lambda x: x * np.asarray(x).sum()):
        with pytest.raises(TraceError, match=r"test_recompiles\.py:\d+: .*leave the function eager"):
            sg.compile(f)(sg.ones(2))


# a call that raises changes nothing


def world():
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    return net, optimizer


def picture(net, optimizer, x):
    tensors = [*net.state_dict().values(), *(p.grad for p in net.parameters()), x]
    values = [None if t is None else t.detach().tolist() for t in tensors]
    state = {i: {k: v.tolist() for k, v in s.items()} for i, s in enumerate(optimizer.state.values())}
    return values, state, sg.get_rng_state().tolist(), len(optimizer.state)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("error", ["item", "own", "result", "outside"])
def test_a_call_that_raises_changes_nothing(warm, error):
    net, optimizer = world()
    x = sg.randn(4, 2)
    holder = nn.Module()
    holder.seen = 0
    holder.register_buffer("last", sg.zeros(2))

    def step(x, fails):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        x.add_(1)
        x[0].mul_(2)
        if fails:
            holder.seen, holder.last = 1, x[0] * 2
        if fails == "item":
            loss.item()
        if fails == "own":
            raise KeyError("mine")
        return (loss, object()) if fails == "result" else loss if fails != "outside" else (loss, np.ones(2))

    fast = sg.compile(step)
    if warm:
        for _ in range(3):
            fast(x, "")
    before = picture(net, optimizer, x)
    with pytest.raises(KeyError if error == "own" else TraceError):
        fast(x, error)
    assert picture(net, optimizer, x) == before
    assert (holder.seen, holder.last.tolist()) == (0, [0, 0])
    fast(x, "")  # and goes on


def test_views_and_histories_are_put_back():
    base = sg.arange(4.0)
    w = sg.ones(2, requires_grad=True)
    made = w * 2

    @sg.compile
    def f(x):
        base[1:3].mul_(10)
        base[0] = 7
        made.add_(x)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        f(sg.ones(2))
    assert base.tolist() == [0, 1, 2, 3]
    assert made.tolist() == [2, 2]
    made.sum().backward()
    assert w.grad.tolist() == [2, 2]


# ways out


def test_what_cannot_be_traced_runs_eagerly_if_asked():
    total, calls = sg.zeros(()), []

    def f(x):
        calls.append(1)
        total.add_(1)
        return x * x.sum().item()

    fast = sg.compile(f, fallback="eager")
    with pytest.warns(UserWarning, match=r"f\(x\) runs eagerly from now on: .*test_recompiles\.py:\d+: item\(\)"):
        assert fast(sg.ones(2)).tolist() == [2, 2]
    assert total.item() == 1  # not twice
    assert fast(sg.ones(2)).tolist() == [2, 2]
    assert (total.item(), len(calls)) == (2, 3)
    x = sg.ones(2, requires_grad=True)
    fast(x * 1).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_an_error_of_the_function_itself_is_no_reason_to_run_it_again():
    calls = []

    def f(x):
        calls.append(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        sg.compile(f, fallback="eager")(sg.ones(2))
    assert len(calls) == 1


def test_disabled_functions():
    @sg.compile.disable
    def shown(x):
        """Doc."""
        return x.sum().item()

    assert shown(sg.ones(2)) == 2
    assert (shown.__name__, shown.__doc__) == ("shown", "Doc.")
    assert sg.compile(shown) is shown

    def f(x):
        return x * shown(x)

    with pytest.raises(TraceError, match=r"test_recompiles\.py:\d+: shown is kept out of programs"):
        sg.compile(f)(sg.ones(2))
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert sg.compile(f, fallback="eager")(sg.ones(2)).tolist() == [2, 2]


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
