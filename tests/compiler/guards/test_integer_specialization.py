"""Whole numbers that become Python's inside a compiled function: lengths of sequences, sizes of parts. They specialise."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError
from symgrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, unpad_sequence


def _close(found, wanted):
    np.testing.assert_allclose(found.numpy(force=True), wanted.numpy(force=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "first", "backend"), [(sg.nn.RNN, True, "xla"), (sg.nn.GRU, False, "numpy"), (sg.nn.LSTM, True, "numpy")])
def test_a_recurrent_net_on_packed_sequences(kind, first, backend):
    sg.manual_seed(0)
    net = kind(3, 4, bidirectional=True, batch_first=first)
    x = sg.randn(*((3, 4) if first else (4, 3)), 3, requires_grad=True)

    def f(x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
        out, last = net(packed)
        padded, counts = pad_packed_sequence(out, batch_first=first, padding_value=-1.0, total_length=6)
        return padded, counts, last[0] if isinstance(last, tuple) else last

    fast = sg.compile(f, backend=backend)
    for lengths in ([2, 3, 1], [2, 3, 1], [4, 1, 1], [2, 3, 1]):
        lengths = sg.tensor(lengths)
        gradients = []
        for run in (fast, f):
            x.grad = None
            net.zero_grad()
            padded, counts, last = run(x, lengths)
            (padded.sin().sum() + last.cos().sum()).backward()
            gradients.append((padded, counts, last, x.grad, *(p.grad for p in net.parameters())))
        for found, wanted in zip(*gradients, strict=True):
            _close(found, wanted)
    assert len(fast.recompiles()) == 2  # the first lengths are known when they come back
    assert "whether tolist()" in str(fast.recompiles()[1])


def test_a_training_step_on_packed_sequences():
    def trained(compiled):
        sg.manual_seed(0)
        net, head = sg.nn.RNN(2, 3), sg.nn.Linear(3, 1)
        optimizer = sg.optim.Adam([*net.parameters(), *head.parameters()], lr=0.05)

        def step(x, lengths, y):
            optimizer.zero_grad()
            _, last = net(pack_padded_sequence(x, lengths, enforce_sorted=False))
            loss = (head(last[0]) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run, losses = sg.compile(step) if compiled else step, []
        for i in range(6):
            x = sg.tensor(np.random.default_rng(i).normal(size=(3, 3, 2)).astype(np.float32))
            losses.append(run(x, sg.tensor([[3, 2, 1], [1, 3, 3]][i % 2]), x.sum((0, 2)).unsqueeze(1)).item())
        return losses

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-4)


def test_lengths_in_a_list_are_no_condition():
    fast = sg.compile(lambda x: pad_packed_sequence(pack_padded_sequence(x, [3, 2, 1], enforce_sorted=False))[0] * 2)
    x = sg.randn(3, 3, 2)
    _close(fast(x), fast.signature.function(x))
    assert not any(program.checks_path for program in fast._program_cache.programs())
    _close(fast.vjp(x, wrt=0)(sg.ones(3, 3, 2))[:, 2], sg.tensor([[2.0, 2], [0, 0], [0, 0]]))


def test_whole_numbers_are_asked_for_and_others_refused():
    fast = sg.compile(lambda x, n: [part * 2 for part in unpad_sequence(x, n)])
    x = sg.arange(6.0).reshape(3, 2)
    for n in ([3, 1], [2, 2]):
        assert [part.tolist() for part in fast(x, sg.tensor(n))] == [(x[:k, i] * 2).tolist() for i, k in enumerate(n)]
    assert sg.compile(lambda x, n: x.tensor_split(n)[1] * 2)(x, sg.tensor([1, 2])).tolist() == [[4, 6]]
    with pytest.raises(TraceError, match=r"test_integer_specialization.py:\d+: tolist\(\) takes a value out"):
        sg.compile(lambda x: x * x.tolist()[0][0])(x)
    with pytest.raises(TraceError, match=r"tolist\(\) takes a value out"):  # data, not lengths
        sg.compile(lambda x: x * x.tolist()[0])(sg.arange(2000))


def test_a_step_whose_lengths_are_others_changes_nothing():
    w = sg.zeros(2)

    def step(n):
        w.add_(1.0)
        return w * n.tolist()[0]

    fast = sg.compile(step)
    for i, n in enumerate([2, 2, 3, 2, 3]):
        assert fast(sg.tensor([n])).tolist() == [(i + 1.0) * n] * 2
    assert w.tolist() == [5, 5]
