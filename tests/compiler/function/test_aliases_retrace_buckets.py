"""Calls that share memory, whose structure changes at every call, or whose batches are of many lengths."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from interpreter_backend import interpret

import symgrad as sg
from symgrad.errors import TraceError

nn = sg.nn


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


# memory that is shared


def both(f, make):
    """A compiled and an eager run on tensors of their own: results and memory must agree at every call."""
    fast = sg.compile(f)
    (a, mine), (b, theirs) = make(), make()
    for _ in range(4):
        np.testing.assert_allclose(fast(*a).numpy(), f(*b).numpy())
        np.testing.assert_allclose(mine.numpy(), theirs.numpy())
    return fast


def test_the_same_tensor_twice_is_one_input():
    def f(x, y):
        x += 1
        y *= 2
        return x + y

    def same():
        x = sg.tensor([1.0, 2.0])
        return (x, x), x

    def different():
        x = sg.tensor([1.0, 2.0])
        return (x, sg.ones(2)), x

    assert len(both(f, same).recompiles()) == 1
    both(f, different)
    fast = sg.compile(f)
    x, y = sg.ones(2), sg.ones(2)
    fast(x, y), fast(x, x), fast(x, y)
    assert [str(r) for r in fast.recompiles()] == ["first call", "shared memory: none -> x and y"]


def test_gradients_of_the_same_tensor_twice():
    fast = sg.compile(lambda x, y: (x * y).sum())
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    for n in range(1, 4):
        fast(x, x).backward()
        assert x.grad.tolist() == [2 * n, 4 * n]
    assert fast.grad(x, x, wrt="y").tolist() == [1, 2]


def test_views_that_overlap_are_right_and_said_so_once():
    def f(x, y):
        x.add_(1)
        return y * 2

    def make():
        base = sg.arange(5.0)
        return (base[:3], base[1:]), base

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        both(f, make)
    assert [str(w.message) for w in found] == ["f(x, y): x and y share memory, and it is written to: such calls run as they are written"]

    def apart():
        base = sg.arange(6.0)
        return (base[:3], base[3:]), base

    assert len(both(f, apart).recompiles()) == 1
    assert len(sg.compile(lambda x, y: x + y)(sg.arange(5.0)[:3], sg.arange(5.0)[2:])) == 3


@pytest.mark.parametrize("late", [False, True])
def test_an_argument_that_the_function_also_brings_along(late):
    w = sg.ones(2)

    @sg.compile
    def f(x):
        w.add_(1)
        return x * 10

    if late:
        for _ in range(3):
            assert f(sg.ones(2)).tolist() == [10, 10]
    before = w[0].item()
    with pytest.warns(UserWarning, match="share memory"):
        assert f(w).tolist() == [10 * (before + 1)] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = f(w[:]).tolist()
    assert again == [10 * (before + 2)] * 2
    assert f(sg.ones(2)).tolist() == [10, 10]
    assert w.tolist() == [before + 3] * 2


@pytest.mark.parametrize("asks", [False, True])
def test_an_argument_that_is_also_brought_along_is_not_taken_for_it(asks):
    w = sg.full((2,), 3.0, requires_grad=asks)
    fast = sg.compile(lambda x: x * w)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert fast(w).tolist() == [9, 9]
        assert fast(sg.ones(2, requires_grad=asks)).tolist() == [3, 3]
        assert fast(w).tolist() == [9, 9]
    assert len(found) == int(asks)
    net = sg.nn.Linear(2, 2, bias=False)
    apply = sg.compile(lambda w: net(w))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apply(net.weight)
        x = sg.eye(2).requires_grad_()
        np.testing.assert_allclose(apply(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-6)


# structures that change


class DynamicNet(nn.Module):
    """Of PyTorch's tutorials: a polynomial of random order."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = (nn.Parameter(sg.randn(())) for _ in range(5))

    def forward(self, x):
        y = self.a + self.b * x + self.c * x**2 + self.d * x**3
        for exp in range(4, random.randint(4, 6)):
            y = y + self.e * x**exp
        return y


def trained(compiled):
    random.seed(0)
    sg.manual_seed(0)
    net = DynamicNet()
    run = sg.compile(net, retrace=True) if compiled else net
    optimizer = sg.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    x = sg.linspace(-1, 1, 20)
    losses = []
    for _ in range(12):
        loss = (run(x) - sg.sin(x)).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, random.random(), run


def test_random_depth_is_a_program_for_each_structure():
    losses, after, run = trained(True)
    wanted, then, _ = trained(False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert after == then  # as many numbers were drawn
    assert [str(r) for r in run.recompiles()] == ["first call", *["another structure"] * (len(run.recompiles()) - 1)]
    assert 2 <= len(run.recompiles()) <= 3


def test_any_state_may_decide_when_the_code_runs_at_every_call():
    state = {"n": 1}
    fast = sg.compile(lambda x, s: x * state["n"] * s, retrace=True)
    for n in (1, 2, 1, 2):
        state["n"] = n
        assert fast(sg.ones(2), 0.5).tolist() == [n * 0.5] * 2
    assert len(fast.recompiles()) == 2
    with pytest.raises(TraceError, match=r"test_aliases_retrace_buckets\.py:\d+: bool\(tensor\)"):
        sg.compile(lambda x: x if x.sum() > 0 else -x, retrace=True)(sg.ones(2))
    total = sg.zeros(2)
    with pytest.raises(TraceError, match="from outside is written to"):
        sg.compile(lambda x: total.add_(x), retrace=True)(sg.ones(2))
    assert total.tolist() == [0, 0]


# batches of many lengths


def test_batches_are_filled_up_to_a_few_lengths():
    w = sg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    calls = []

    def rows(x, y, scale=1.0):
        calls.append(len(x))
        return {"out": (x @ w).relu() * y[:, None] * scale, "w": w * 2}

    fast = sg.compile(rows, buckets={"x": (4, 8), "y": (4, 8)})
    for n in (8, 8, 3, 5, 7, 1, 6, 2, 4):
        x = sg.tensor(np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32), requires_grad=True)
        y = sg.arange(n).float()
        found, wanted = fast(x, y), rows(x, y)
        calls.pop()
        assert found["out"].shape == (n, 2)
        np.testing.assert_allclose(found["out"].detach().numpy(), wanted["out"].detach().numpy(), rtol=1e-6)
        for given, right in zip(sg.autograd.grad(found["out"].sum(), (x, w)), sg.autograd.grad(wanted["out"].sum(), (x, w)), strict=True):
            np.testing.assert_allclose(given.numpy(), right.numpy(), rtol=1e-5)
    assert [n for n in calls if n in (4, 8)] == [8, 4]
    assert len(fast.recompiles()) == 2
    assert fast(np.ones((9, 2), np.float32), np.ones(9, np.float32))["out"].shape == (9, 2)  # longer than all: a program of its own


MIXED = [lambda x: x.mean(), lambda x: x - x.mean(0), lambda x: x * len(x), lambda x: x.softmax(0), lambda x: x.cumsum(0)[-1]]


@pytest.mark.parametrize("f", MIXED)
def test_rows_that_depend_on_each_other_are_an_error(f):
    fast = sg.compile(f, buckets={"x": 8})
    fast(sg.ones(8, 2))
    with pytest.raises(TraceError, match="depend on each other: filled up to 8 rows"):
        fast(sg.tensor([[1.0, 2.0], [4.0, 3.0], [5.0, 7.0]]))


HIDDEN = [
    lambda x: x * (5 / x.norm()).clamp(max=1.0),
    lambda x: x / x.abs().max().clamp(min=10.0),
    lambda x: x + x.min().clamp(max=0),
    lambda x: sg.where((x > 100).any(), x * 2, x),
    lambda x: x.flip(0).flip(1),
    lambda x: x + x.sum().relu().isnan(),
]


@pytest.mark.parametrize("backend", ["xla", "numpy"])
@pytest.mark.parametrize("f", HIDDEN)
def test_rows_that_depend_on_each_other_for_other_numbers_only(f, backend):
    """With copies of the last row the results are right by chance."""
    with pytest.raises(TraceError, match="depend on each other: filled up to 4 rows"):
        sg.compile(f, buckets={"x": 4}, backend=backend)(sg.tensor([[1.0], [2.0], [1.5]]))


def test_rows_one_by_one_pass_every_try():
    def f(x, k):
        assert bool(x.isfinite().all())
        return sg.eye(4)[k] * x.log_softmax(1) + x.cumsum(0) / x.norm(dim=1, keepdim=True)

    x, k = sg.randn(3, 4), sg.tensor([0, 3, 1])
    found = sg.compile(f, buckets={"x": 8, "k": 8})(x, k)
    np.testing.assert_allclose(found.numpy(), f(x, k).numpy(), rtol=1e-5, atol=1e-6)


def test_what_buckets_are_not_for():
    total = sg.zeros(2)

    def effects(x):
        total.add_(x.sum(0))
        return x

    with pytest.raises(TraceError, match="has effects"):
        sg.compile(effects, buckets={"x": 4})(sg.ones(3, 2))
    assert total.tolist() == [0, 0]
    with pytest.raises(ValueError, match="no such argument"):
        sg.compile(lambda x: x, buckets={"y": 4})
    with pytest.raises(TypeError, match="buckets="):
        sg.compile(lambda x: x, buckets=(4, 8))
    with pytest.raises(ValueError, match="no lengths"):
        sg.compile(lambda x: x, buckets={"x": (0,)})
    with pytest.raises(ValueError, match="x has 3 rows and y has 2"):
        sg.compile(lambda x, y: x, buckets={"x": 4, "y": 4})(sg.ones(3), sg.ones(2))
    with pytest.raises(TypeError, match="no option 'bucket': did you mean 'buckets'"):
        sg.compile(lambda x: x, bucket={"x": 4})


def counted(f, lengths, **options):
    """A bucketed function, and the numbers of rows of the calls of its Python code."""
    calls = []

    def rows(x):
        calls.append(len(x))
        return f(x)

    return sg.compile(rows, buckets={"x": lengths}, **options), calls


def test_each_length_is_tried_once_and_full_batches_never():
    fast, calls = counted(lambda x: x * 2, (4, 8))
    fast(sg.ones(4))
    assert calls == [4]  # traced; nothing is compared, since nothing was added
    fast(sg.ones(3))
    assert calls == [4, 3]  # the eager call that the result is compared with
    fast(sg.ones(2))
    assert calls == [4, 3]
    fast(sg.ones(5))
    assert calls == [4, 3, 8, 5]
    fast(sg.ones(3, dtype=sg.float64))
    assert calls == [4, 3, 8, 5, 4, 3]


def test_a_failed_try_is_tried_again():
    fast, _ = counted(lambda x: x - x.mean(0), 4)
    for _ in range(2):
        with pytest.raises(TraceError, match="depend on each other"):
            fast(sg.tensor([1.0, 2.0]))


def test_the_shortest_length_that_is_long_enough_is_taken():
    fast, calls = counted(lambda x: x * 2, (8, 2, 4))
    for n in (1, 2, 3, 4, 7):
        assert fast(sg.ones(n)).tolist() == [2] * n
    assert [n for n in calls if n in (2, 4, 8)] == [2, 4, 8]
    fast(sg.ones(0))
    assert calls[-1] == 0  # no row that could be repeated


def test_the_eager_call_records_no_history():
    recording = []
    fast, _ = counted(lambda x: recording.append(sg.is_grad_enabled()) or x * 2, 4)
    fast(sg.ones(3, requires_grad=True))
    assert recording[-1] is False


def test_arrays_and_parts_of_containers_are_filled_up():
    fast = sg.compile(lambda batch: {"sum": batch["x"] + batch["y"], "n": 3}, buckets={"batch": 4})
    batch = {"x": np.arange(3.0), "y": np.array([1.0, 2.0, 4.0])}
    found = fast(batch)
    assert isinstance(found["sum"], np.ndarray)
    assert found["sum"].tolist() == [1, 3, 6]
    assert found["n"] == 3
    assert batch["x"].tolist() == [0, 1, 2]


def test_indices_are_tried_with_the_largest_and_the_smallest_only():
    """Other integers may be no indices."""
    table = sg.tensor([0.0, 10.0, 20.0, 30.0])
    fast = sg.compile(lambda k: table[k], buckets={"k": 4})
    assert fast(sg.tensor([3, 1])).tolist() == [30, 10]
    for reversed_sum in (lambda k: k + (k.flip(0)[0] == 3), lambda k: k + (k.flip(0)[0] == 0)):
        with pytest.raises(TraceError, match="depend on each other"):
            sg.compile(reversed_sum, buckets={"k": 4})(sg.tensor([3, 0, 2]))


def test_an_argument_without_rows_is_refused():
    with pytest.raises(ValueError, match="argument x has no dimensions"):
        sg.compile(lambda x: x, buckets={"x": 4})(sg.ones(()))


def test_inside_a_trace_nothing_is_filled_up():
    fast, calls = counted(lambda x: x * 2, 4)
    assert sg.compile(lambda x: fast(x) + 1)(sg.ones(3)).tolist() == [3, 3, 3]
    assert calls == [3]


def test_a_function_that_raises_for_the_tried_rows_is_taken_at_its_result():
    fast = sg.compile(lambda x: x.sqrt() if float(x.min()) >= 0 and float(x.max()) < 100 else 1 / 0, buckets={"x": 4}, fallback="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fast(sg.tensor([1.0, 4.0, 9.0])).tolist() == [1, 2, 3]


@pytest.mark.parametrize(("dtype", "error"), [(sg.float32, 1e-2), (sg.float64, 1e-6)])
def test_small_differences_between_rows_are_noticed(dtype, error):
    with pytest.raises(TraceError, match="depend on each other"):
        sg.compile(lambda x: x * (1 + error * len(x)), buckets={"x": 4})(sg.tensor([1.0, 2.0], dtype=dtype))


def test_structures_that_change_still_take_options_and_arrays():
    fast = sg.compile(lambda x: {"y": x * 2}, retrace=True)
    found = fast(np.ones(2, np.float32))
    assert isinstance(found["y"], np.ndarray)
    assert found["y"].tolist() == [2, 2]
    assert "mul(" in fast.source()
    assert sg.compile(lambda x: fast(x)["y"] + 1)(sg.ones(2)).tolist() == [3, 3]


def test_history_keeps_its_own_copy_of_an_array():
    w = sg.tensor([1.0, 2.0], requires_grad=True)
    for options in ({}, {"retrace": True}, {"fallback": "eager"}):
        x = np.array([3.0, 4.0], np.float32)
        w.grad = None
        loss = sg.compile(lambda x: (x * w * w).sum(), returns="tensor", **options)(x)
        x[:] = 100
        loss.backward()
        assert w.grad.tolist() == [6, 16]


def test_retraced_code_sees_which_arguments_require_grad():
    fast = sg.compile(lambda x: x * 2 if x.requires_grad else x * 3, retrace=True)
    for _ in range(2):
        assert fast(sg.ones(2, requires_grad=True)).tolist() == [2, 2]
        assert fast(sg.ones(2)).tolist() == [3, 3]
