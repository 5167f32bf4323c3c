"""What a compiled function cannot do: how it says so, that a call which raises changes nothing, and what runs eagerly instead."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from interpreter_backend import interpret

import symgrad as sg
from symgrad.errors import TraceError

nn, optim = sg.nn, sg.optim


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


# what cannot be done again


@pytest.mark.parametrize("how", [
    lambda w, x: setattr(w, "data", w.data - x), lambda w, x: w.unsqueeze_(0), lambda w, x: w.resize_(1), lambda w, x: x.unsqueeze_(0),
    lambda w, x: setattr(x, "data", w),
])  # fmt: skip
def test_a_tensor_that_gets_other_memory_or_another_shape_is_refused(how):
    w, x = sg.zeros(2), sg.ones(2)

    def f(x):
        w.add_(1)
        how(w, x)
        return w + x

    with pytest.raises(TraceError, match=r"test_refused_calls.py:\d+: .* makes another tensor of one that the program is to find again"):
        sg.compile(f)(x)
    assert (w.tolist(), x.tolist()) == ([0, 0], [1, 1])


def test_what_the_function_makes_may_change_its_shape():
    def f(x):
        y = x * 2
        return y.unsqueeze_(0).t_()

    assert sg.compile(f)(sg.ones(2)).tolist() == [[2], [2]]


def test_numbers_are_written_into_data():
    w = sg.ones(2, requires_grad=True)

    def step(x):
        w.grad = None
        loss = (w * x).pow(2).sum()
        loss.backward()
        w.data -= 0.25 * w.grad
        return loss

    fast = sg.compile(step)
    assert [fast(sg.ones(2)).item() for _ in range(4)] == [2, 0.5, 0.125, 0.03125]
    assert len(fast.recompiles()) == 1


def test_the_truth_of_many_elements_is_refused_in_the_same_words():
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        sg.compile(lambda x: x * 2 if x else x)(sg.ones(2))


def test_warnings_stand_at_the_line_of_the_caller():
    count = 0

    @sg.compile
    def f(x):
        nonlocal count
        count += 1
        return x * count

    with pytest.warns(UserWarning, match="closure cell count is changed") as caught:
        f(sg.ones(2))
    assert caught[0].filename == __file__


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
        with pytest.raises(TraceError, match=r"refused_calls.py:\d+: .*leave the function eager"):
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
    with pytest.warns(UserWarning, match=r"f\(x\) runs eagerly from now on: .*refused_calls.py:\d+: item\(\)"):
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

    with pytest.raises(TraceError, match=r"refused_calls.py:\d+: shown is kept out of programs"):
        sg.compile(f)(sg.ones(2))
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert sg.compile(f, fallback="eager")(sg.ones(2)).tolist() == [2, 2]
