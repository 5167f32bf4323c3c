"""Small tensors of a training step share one buffer, and nobody notices."""

from __future__ import annotations

import copy
import pickle
import re
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.runtime import buffer_pool as lease_module
from symgrad.device_buffers import BufferSlice
from symgrad.device_tensor import storage_of

nn, optim = sg.nn, sg.optim


@pytest.fixture(autouse=True)
def _warm_soon(monkeypatch):
    """Steps are packed after their second run by a kernel."""
    monkeypatch.setattr(lease_module, "WARM_RUNS", 2)


class Two(nn.Module):
    """A layer that is large, and a small one with statistics."""

    def __init__(self):
        super().__init__()
        self.large, self.norm, self.small = nn.Linear(80, 60), nn.BatchNorm1d(60), nn.Linear(60, 2).double()

    def forward(self, x):
        return self.small(self.norm(self.large(x).tanh()).double())


def pair(make=lambda p: optim.Adam(p, lr=0.01)):
    """The same net twice, with a step for each; the first is compiled."""
    found = []
    for _ in range(2):
        sg.manual_seed(1)
        net = Two()
        found.append((net, step_of(net, make(net.parameters()), lambda out: out.square().mean())))
    (net, step), (other, eager) = found
    return net, sg.compile(step), other, eager


def step_of(net, optimizer, loss_of):
    def step(x):
        optimizer.zero_grad()
        loss = loss_of(net(x))
        loss.backward()
        optimizer.step()
        return loss

    return step


def same(net, other):
    mine, wanted = net.state_dict(), other.state_dict()
    for name, value in wanted.items():
        np.testing.assert_allclose(mine[name].numpy(), value.numpy(), rtol=2e-4, atol=2e-6, err_msg=name)
    for (name, p), q in zip(net.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-3, atol=2e-5, err_msg=f"{name}.grad")


def data(k=0):
    return sg.from_numpy(np.random.default_rng(k).normal(size=(16, 80)).astype(np.float32))


def test_small_tensors_of_one_type_share_a_buffer_and_large_ones_have_their_own():
    net, fast, _, _ = pair(lambda p: optim.SGD(p, lr=0.01))
    for k in range(3):
        fast(data(k))
    assert storage_of(net.large.bias).parent is not storage_of(net.norm.weight).parent  # not yet
    fast(data(3))
    packs = {name: storage_of(p).parent for name, p in (*net.named_parameters(), *net.named_buffers())}
    assert packs["large.bias"] is packs["norm.weight"] is packs["norm.running_mean"]
    assert packs["small.weight"] is packs["small.bias"]
    assert len({id(pack) for pack in packs.values()}) == 4  # and the counter of the norm's
    assert storage_of(net.large.weight).span is None
    assert storage_of(net.large.bias.grad).parent is storage_of(net.norm.bias.grad).parent


@pytest.mark.parametrize("between", range(9))
def test_whatever_is_done_between_steps_is_as_in_eager_code(between):
    net, fast, other, eager = pair()
    predict, kept = sg.compile(lambda x: net.large(x)), []

    def disturb(n, k):
        if between == 1:
            n.norm.weight.detach().mul_(0.5)  # written to
        elif between == 2:
            n.large.bias.numpy(force=True).sum()  # looked at
            n.large.weight.tolist()
        elif between == 3:
            kept.append([p.detach() for p in n.parameters()])  # memory is shared from now on
        elif between == 4:
            n.norm.weight.grad = None
            n.large.weight.grad *= 2
        elif between == 5:
            n.load_state_dict({name: value * 0.9 if value.is_floating_point() else value for name, value in n.state_dict().items()})
        elif between == 6:
            copy.deepcopy(n)
            pickle.dumps(n.state_dict())
        elif between == 7:
            n.norm.bias.data = sg.ones(60)
        elif between == 8:
            n.large.weight.requires_grad_(k % 2 == 1)

    for k in range(6):
        np.testing.assert_allclose(fast(data(k)).item(), eager(data(k)).item(), rtol=1e-4)
        for n in (net, other):
            disturb(n, k)
        np.testing.assert_allclose(predict(data(k)).numpy(force=True), other.large(data(k)).numpy(force=True), rtol=1e-4, atol=1e-5)
    fast(data(9))
    eager(data(9))
    same(net, other)


def test_two_steps_on_the_same_parameters_take_turns():
    net, fast, other, eager = pair()
    steps = []
    for n in (net, other):
        loss_of = lambda out, n=n: out.square().mean() + n.small.weight.square().sum()
        steps.append(step_of(n.large, optim.SGD(n.parameters(), lr=0.05), loss_of))
    second = sg.compile(steps[0])
    for k in range(8):
        fast(data(k))
        eager(data(k))
        if k % 3:
            second(data(k))
            steps[1](data(k))
    same_state = zip(net.parameters(), other.parameters(), strict=True)
    for p, q in same_state:
        np.testing.assert_allclose(p.numpy(force=True), q.numpy(force=True), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    "keep", [lambda p: p.grad, lambda p: p.grad.detach(), lambda p: p.grad.numpy(), lambda p: sg.compile(lambda g: g * 2)(p.grad)]
)
def test_a_gradient_that_somebody_keeps_does_not_change(keep):
    net, fast, _, _ = pair()
    for k in range(3):
        fast(data(k))
    kept = [keep(net.large.weight), keep(net.norm.bias)]
    before = [np.array(x) for x in kept]
    fast(data(5))
    assert all(np.array_equal(x, y) for x, y in zip(before, kept, strict=True))
    assert not np.array_equal(net.norm.bias.grad.numpy(), before[1])


@pytest.mark.parametrize("where", ["in its pack", "just out of it", "where others share its memory"])
def test_a_gradient_that_is_kept_and_looked_at_later_is_that_of_its_step(where):
    net, fast, other, eager = pair()
    shared = net.norm.bias.detach() if where == "where others share its memory" else None
    for k in range(6):
        fast(data(k))
        eager(data(k))
    if where == "just out of it":
        net.norm.bias.numpy(force=True)
    kept, wanted = net.norm.bias.grad, other.norm.bias.grad
    for k in range(6, 8):
        fast(data(k))
        eager(data(k))
    np.testing.assert_allclose(kept.numpy(), wanted.numpy(), rtol=2e-3, atol=2e-5)
    same(net, other)
    assert shared is None or sg.equal(shared, net.norm.bias)


def test_a_gradient_of_a_parameter_that_is_not_trained_is_kept_as_well():
    steps = []
    for _ in range(2):
        sg.manual_seed(1)
        net = nn.Sequential(nn.Linear(80, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = optim.SGD(net[2].parameters(), lr=0.1)

        def step(x, net=net, optimizer=optimizer):
            net.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        steps.append((net, step))
    (net, mine), (other, eager) = steps
    fast = sg.compile(mine)
    for k in range(6):
        fast(data(k))
        eager(data(k))
    kept, wanted = net[0].weight.grad, other[0].weight.grad
    fast(data(6))
    eager(data(6))
    np.testing.assert_allclose(kept.numpy(), wanted.numpy(), rtol=2e-3, atol=2e-5)
    same(net, other)


def growing():
    a, b = sg.ones(3), sg.ones(3)

    def grow(x):
        a.add_(x)
        b.add_(a)
        return x * 3

    return a, b, grow


def test_a_state_in_a_pack_as_an_argument_is_read_as_it_is_now():
    (a, b, grow), (c, d, eager) = growing(), growing()
    fast = sg.compile(grow)
    for _ in range(6):
        fast(sg.ones(3))
        eager(sg.ones(3))
    assert storage_of(a).span is not None
    with pytest.warns(UserWarning, match="x and a share memory"):
        assert fast(a).tolist() == eager(c).tolist()
    assert [a.tolist(), b.tolist()] == [c.tolist(), d.tolist()]


def test_a_gradient_that_was_removed_is_there_after_the_next_step():
    net, fast, other, eager = pair()
    for k in range(6):
        fast(data(k))
        eager(data(k))
    net.norm.weight.grad = None
    fast(data(6))
    eager(data(6))
    assert net.norm.weight.grad is not None
    same(net, other)


def test_a_result_recorded_before_a_step_is_not_differentiated_with_what_was_written_since():
    net, fast, _, _ = pair()
    predict = sg.compile(lambda x: net.large(x).square())
    for k in range(3):
        fast(data(k))
    for _ in range(2):
        result = predict(data())
        fast(data())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()
    predict(data()).sum().backward()


def test_versions_count_steps():
    net, fast, _, _ = pair()
    for _ in range(3):
        fast(data())
    before = [p._version for p in net.parameters()]
    for _ in range(4):
        fast(data())
    assert [p._version for p in net.parameters()] == [n + 4 for n in before]
    net.norm.bias.tolist()
    assert net.norm.bias._version == before[3] + 4
    assert isinstance(storage_of(net.norm.weight), BufferSlice)


def test_a_parameter_whose_memory_is_gone_is_an_error_and_nothing_else_changes():
    net, fast, _, _ = pair()
    for _ in range(3):
        fast(data())
    give = sg.compile(lambda w: w * 2, donate=True)
    give(sg.ones(60, 80))
    with sg.no_grad():
        give(net.large.weight)
    before = net.norm.bias.detach().clone()
    with pytest.raises(RuntimeError, match="donated to a compiled function"):
        fast(data())
    assert sg.equal(net.norm.bias, before)


def test_who_outlives_the_step_has_its_numbers():
    net, fast, other, eager = pair()
    for k in range(3):
        fast(data(k))
        eager(data(k))
    del fast
    same(net, other)


def test_new_values_take_the_memory_of_the_old_ones():
    """XLA matches given memory with results by type and order: another tensor's it would have to copy first."""
    _, fast, _, _ = pair()
    for _ in range(2):
        fast(data())
    (aliases,) = re.findall(r"input_output_alias=\{(.*?)\}, entry", fast.hlo())
    found = {(int(out), int(given)) for out, given in re.findall(r"\{(\d+)\}: \((\d+),", aliases)}
    assert found == {(j, k) for k, _, j in fast._latest.runner.pool._pooled_buffers}
    assert len(found) >= 5


def test_counters_that_are_alike_are_one_part_of_a_pack():
    made = []
    net, fast, other, eager = pair(lambda p: made.append(optim.Adam(p, lr=0.01)) or made[-1])
    for k in range(3):
        fast(data(k))
        eager(data(k))
    counters = [[state["step"] for state in o.state.values()] for o in made]
    parts = {id(storage_of(t)) for t in counters[0]}
    assert len(parts) == 1
    counters[0][2].add_(5)  # it leaves, and is no longer alike
    counters[1][2].add_(5)
    for k in range(3, 6):
        fast(data(k))
        eager(data(k))
    same(net, other)
    assert [t.item() for t in counters[0]] == [t.item() for t in counters[1]] == [6, 6, 11, 6, 6, 6]


def test_explain_tells_how_many_buffers_there_are():
    _, fast, _, _ = pair(lambda p: optim.SGD(p, lr=0.1))
    fast(data())
    assert "buffers" not in str(fast.explain())
    for _ in range(4):
        fast(data())
    assert "buffers     6 for 11 tensors that go in, 8 for 16 that come out" in str(fast.explain())


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_steps_with_random_numbers_take_the_fast_path_too(dtype):
    states = []
    for run in (lambda f: f, sg.compile):
        sg.manual_seed(3)
        net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2)).to(dtype)
        step = run(step_of(net, optim.SGD(net.parameters(), lr=0.1), lambda out: (out + 0.1 * sg.randn(2).to(out.dtype)).square().sum()))
        losses = [step(sg.ones(4, 6, dtype=dtype)).item() for _ in range(4)]
        losses += [step(sg.ones(n, 6, dtype=dtype)).item() for n in (4, 3, 4, 3, 4)]  # the executable refuses other shapes
        states.append((losses, sg.rand(3).tolist(), [p.detach().numpy().copy() for p in net.parameters()]))
    (losses, after, weights), (found, later, mine) = states
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    assert later == after
    for x, y in zip(mine, weights, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5)
    assert (1 in step._fast_entries) == (dtype == sg.float32)


def test_random_numbers_that_were_drawn_in_vain_are_drawn_again(monkeypatch):
    noise = sg.zeros(3)

    @sg.compile
    def step(x):
        noise.add_(sg.rand(3) * x)

    sg.manual_seed(0)
    for _ in range(3):
        step(sg.ones(3))
    state, before = sg.get_rng_state().tolist(), noise.tolist()
    lease = step._latest.runner.pool
    with monkeypatch.context() as patch:
        patch.setattr(lease, "launch", lambda *args: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            step(sg.ones(3))
    assert sg.get_rng_state().tolist() == state
    assert noise.tolist() == before


def test_a_step_that_leaves_no_gradients_leaves_none():
    net = nn.Linear(3, 2)
    optimizer = optim.SGD(net.parameters(), lr=0.01)

    @sg.compile
    def step(x):
        net(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(4):
        net.weight.grad, before = sg.ones(2, 3), net.weight.detach().clone()
        step(sg.ones(4, 3))
        assert net.weight.grad is None
        assert not sg.equal(net.weight, before)
    assert len(step.recompiles()) == 1


def test_threads_run_a_step_while_it_is_packed():
    many, few = sg.zeros(3), sg.zeros(2)

    @sg.compile
    def count(x):
        many.add_(x)
        few.add_(1)

    count(sg.ones(3))
    failures = []

    def repeat():
        try:
            for _ in range(50):
                count(sg.ones(3))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=repeat) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert many.tolist() == [201.0] * 3
    assert few.tolist() == [201.0] * 2
