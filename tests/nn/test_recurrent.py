"""Recurrent layers: against their equations written out, over layers, directions and lengths; derivatives to order 2; compiled."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.dispatch import tensors as ops
from symgrad.nn.utils import rnn
from symgrad.testing import gradcheck, gradgradcheck

KINDS = {
    "tanh": lambda *args, **options: nn.RNN(*args, dtype=sg.float64, **options),
    "relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", dtype=sg.float64, **options),
    "lstm": lambda *args, **options: nn.LSTM(*args, dtype=sg.float64, **options),
    "projected": lambda *args, **options: nn.LSTM(*args, proj_size=2, dtype=sg.float64, **options),
    "gru": lambda *args, **options: nn.GRU(*args, dtype=sg.float64, **options),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind, *args, **options):
    sg.manual_seed(7)
    return KINDS[kind](*args, **options)


def values(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape))


def start(net, batch, seed=1):
    """A state to begin with."""
    sizes = (net.proj_size or net.hidden_size, net.hidden_size) if isinstance(net, nn.LSTM) else (net.hidden_size,)
    count = net.num_layers * (2 if net.bidirectional else 1)
    states = tuple(values(count, batch, n, seed=seed + i) for i, n in enumerate(sizes))
    return states if isinstance(net, nn.LSTM) else states[0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(net, x, state, suffix):
    """One layer in one direction, step by step, by the equations of the documentation."""
    weights = {name: getattr(net, f"{name}_{suffix}").detach().numpy() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    h, *c = state
    outs = []
    for step in x[::-1] if suffix.endswith("reverse") else x:
        a, b = step @ weights["weight_ih"].T + weights["bias_ih"], h @ weights["weight_hh"].T + weights["bias_hh"]
        if isinstance(net, nn.RNN):
            h = np.tanh(a + b) if net.nonlinearity == "tanh" else np.maximum(a + b, 0)
        elif isinstance(net, nn.GRU):
            (ar, az, an), (br, bz, bn) = np.split(a, 3, 1), np.split(b, 3, 1)
            n, z = np.tanh(an + sigmoid(ar + br) * bn), sigmoid(az + bz)
            h = (1 - z) * n + z * h
        else:
            i, f, g, o = np.split(a + b, 4, 1)
            c = [sigmoid(f) * c[0] + sigmoid(i) * np.tanh(g)]
            h = sigmoid(o) * np.tanh(c[0])
            if net.proj_size:
                h = h @ getattr(net, f"weight_hr_{suffix}").detach().numpy().T
        outs.append(h)
    return np.stack(outs[::-1] if suffix.endswith("reverse") else outs), [h, *c]


def arrays(state):
    return [s.detach().numpy() for s in (state if isinstance(state, tuple) else (state,))]


@every_kind
def test_layers_and_directions_by_hand(kind):
    net = made(kind, 3, 4, 2, bidirectional=True)
    x, first = values(5, 2, 3), start(net, 2)
    data, ends = x.numpy(), []
    for layer in range(2):
        outs = []
        for direction, suffix in enumerate((f"l{layer}", f"l{layer}_reverse")):
            out, end = by_hand(net, data, [s[2 * layer + direction] for s in arrays(first)], suffix)
            outs.append(out)
            ends.append(end)
        data = np.concatenate(outs, 2)
    out, last = net(x, first)
    np.testing.assert_allclose(out.detach().numpy(), data, rtol=1e-12)
    for mine, wanted in zip(arrays(last), zip(*ends, strict=True), strict=True):
        np.testing.assert_allclose(mine, np.stack(wanted), rtol=1e-12)


@every_kind
def test_batch_first_and_no_batch(kind):
    net, other = made(kind, 3, 4, 2), made(kind, 3, 4, 2, batch_first=True)
    x, first = values(5, 2, 3), start(net, 2)
    out, last = net(x, first)
    turned, same = other(x.transpose(0, 1), first)
    sg.testing.assert_close(turned, out.transpose(0, 1))
    sg.testing.assert_close(same, last)
    single = tuple(s[:, 1] for s in first) if isinstance(first, tuple) else first[:, 1]
    for layer in (net, other):
        alone, end = layer(x[:, 1], single)
        sg.testing.assert_close(alone, out[:, 1])
        np.testing.assert_allclose(arrays(end)[0], arrays(last)[0][:, 1], rtol=1e-12)


@every_kind
def test_state_goes_on_where_it_stopped(kind):
    net = made(kind, 3, 4, 2)
    x = values(6, 2, 3)
    whole, end = net(x)
    first, middle = net(x[:4])
    second, same = net(x[4:], middle)
    sg.testing.assert_close(sg.cat([first, second]), whole)
    sg.testing.assert_close(same, end)


@every_kind
def test_without_bias(kind):
    net, plain = made(kind, 3, 4), made(kind, 3, 4, bias=False)
    assert [n for n, _ in plain.named_parameters()] == [n for n, _ in net.named_parameters() if "bias" not in n]
    with sg.no_grad():
        for name, p in plain.named_parameters():
            net.get_parameter(name).copy_(p)
        for name in ("bias_ih_l0", "bias_hh_l0"):
            net.get_parameter(name).zero_()
    x = values(5, 2, 3)
    sg.testing.assert_close(plain(x), net(x))


@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "unsorted"])
@every_kind
def test_packed_is_each_sequence_alone(kind, sort):
    net = made(kind, 3, 4, 2, bidirectional=True)
    lengths = [5, 3, 3, 1] if sort else [3, 1, 5, 3]
    x, first = values(5, 4, 3).requires_grad_(), start(net, 4)
    packed, last = net(rnn.pack_padded_sequence(x, lengths, enforce_sorted=sort), first)
    out, counts = rnn.pad_packed_sequence(packed)
    assert counts.tolist() == lengths
    gradient = sg.autograd.grad(out.square().sum(), x)[0]
    for i, length in enumerate(lengths):
        state = tuple(s[:, i : i + 1] for s in first) if isinstance(first, tuple) else first[:, i : i + 1]
        alone, end = net(x[:length, i : i + 1], state)
        sg.testing.assert_close(out[:length, i], alone[:, 0])
        assert not out[length:, i].any()
        for mine, wanted in zip(arrays(last), arrays(end), strict=True):
            np.testing.assert_allclose(mine[:, i], wanted[:, 0], rtol=1e-12)
        sg.testing.assert_close(gradient[:length, i], sg.autograd.grad(alone.square().sum(), x)[0][:length, i])
        assert not gradient[length:, i].any()


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@every_kind
def test_derivatives_along_a_direction_to_order_two(kind, packed):
    """The gradient in input, state and all weights, and its change along a direction, against differences."""
    net = made(kind, 2, 3, 2, bidirectional=True)
    leaves = [values(4, 3, 2).requires_grad_(), *net.parameters()]
    moves = [values(*leaf.shape, seed=i) for i, leaf in enumerate(leaves)]

    def loss():
        out, last = net(rnn.pack_padded_sequence(leaves[0], [4, 2, 1]) if packed else leaves[0])
        states = last if isinstance(last, tuple) else (last,)
        return (out.data if packed else out).cos().sum() + sum((s + i).sin().sum() for i, s in enumerate(states))

    def moved(amount):
        with sg.no_grad():
            for leaf, move in zip(leaves, moves, strict=True):
                leaf.add_(amount * move)

    def slope(create_graph=False):
        return sum((g * m).sum() for g, m in zip(sg.autograd.grad(loss(), leaves, create_graph=create_graph), moves, strict=True))

    def difference(f, step=1e-5):
        moved(step)
        high = f().item()
        moved(-2 * step)
        low = f().item()
        moved(step)
        return (high - low) / (2 * step)

    np.testing.assert_allclose(slope().item(), difference(loss), rtol=1e-6)
    curve = sum((g * m).sum().item() for g, m in zip(sg.autograd.grad(slope(True), leaves), moves, strict=True))
    np.testing.assert_allclose(curve, difference(slope), rtol=1e-6)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_the_rows(name):
    """All results are differentiated, also through each other; each for itself, as some cotangents may not come."""
    sizes, n, count = (2, 1), 1, 4 if name == "lstm" else 3
    shapes = {"lstm": [(2, n), (2, n), (count * n, n)], "gru": [(2, n), (count * n, n), (count * n,)]}[name]
    args = [values(*shape, seed=i).requires_grad_() for i, shape in enumerate([(sum(sizes), count * n), *shapes])]
    for reverse in (False, True):
        function = lambda *args, reverse=reverse: getattr(ops, name)(*args, sizes=sizes, reverse=reverse)
        assert gradcheck(function, args)
        for i in range(3):
            assert gradcheck(lambda *args, i=i, function=function: function(*args)[i], args)
    assert gradgradcheck(function, args)


def test_dropout_stands_between_layers_and_in_training_only():
    net = nn.LSTM(3, 50, 2, dropout=0.5, dtype=sg.float64)
    x = values(5, 2, 3)
    sg.manual_seed(0)
    one, two = net(x)[0], net(x)[0]
    assert (one != two).any()
    lower = nn.LSTM(3, 50, dtype=sg.float64)
    lower.load_state_dict({name: p for name, p in net.state_dict().items() if "l0" in name})
    upper = nn.LSTM(50, 50, dtype=sg.float64)
    upper.load_state_dict({name.replace("l1", "l0"): p for name, p in net.state_dict().items() if "l1" in name})
    sg.manual_seed(0)
    sg.testing.assert_close(upper(nn.functional.dropout(lower(x)[0], 0.5))[0], one)
    sg.testing.assert_close(net.eval()(x)[0], upper(lower(x)[0])[0])
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        nn.GRU(3, 4, dropout=0.5)


def test_cells_are_steps():
    x, h, c = values(2, 3), values(2, 4, seed=1), values(2, 4, seed=2)
    for kind, cell, states in (("tanh", nn.RNNCell, h), ("lstm", nn.LSTMCell, (h, c)), ("gru", nn.GRUCell, h)):
        net, one = made(kind, 3, 4), cell(3, 4, dtype=sg.float64)
        one.load_state_dict({name.removesuffix("_l0"): p for name, p in net.state_dict().items()})
        lifted = (h[None], c[None]) if kind == "lstm" else h[None]
        out, last = net(x[None], lifted)
        mine = one(x, states)
        sg.testing.assert_close(mine[0] if kind == "lstm" else mine, out[0])
        if kind == "lstm":
            sg.testing.assert_close(mine[1], last[1][0])
            alone = one(x[0], (h[0], c[0]))
            sg.testing.assert_close(alone, (out[0, 0], last[1][0, 0]))
        else:
            sg.testing.assert_close(one(x[0], h[0]), out[0, 0])
        sg.testing.assert_close(one(x)[0] if kind == "lstm" else one(x), net(x[None])[0][0])


def test_a_relu_cell():
    cell = nn.RNNCell(3, 4, nonlinearity="relu", dtype=sg.float64)
    x, h = values(2, 3), values(2, 4, seed=1)
    wanted = x @ cell.weight_ih.mT + cell.bias_ih + h @ cell.weight_hh.mT + cell.bias_hh
    sg.testing.assert_close(cell(x, h), wanted.relu())
    assert repr(cell) == "RNNCell(3, 4, nonlinearity=relu)"


def test_initial_weights_are_those_of_pytorch():
    sg.manual_seed(0)
    net = nn.LSTM(1, 1)
    assert [round(p.item(), 4) for p in (net.weight_ih_l0[0], net.weight_hh_l0[0], net.bias_ih_l0[0], net.bias_hh_l0[0])] == [
        -0.0075, -0.3852, -0.0887, -0.9553
    ]  # fmt: skip


def test_names_and_printed_form():
    net = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2)
    assert repr(net) == "LSTM(3, 4, proj_size=2, num_layers=2, batch_first=True, bidirectional=True)"
    assert list(net.state_dict())[:6] == [
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0", "weight_ih_l0_reverse",
    ]  # fmt: skip
    assert [tuple(w.shape) for w in net.all_weights[2]] == [(16, 4), (16, 2), (16,), (16,), (2, 4)]


def test_saturated_gates_stay_finite():
    net = nn.LSTM(1, 1)
    with sg.no_grad():
        net.weight_ih_l0.fill_(1e4)
    x = sg.tensor([[[1.0]], [[-1.0]]], requires_grad=True)
    out, _ = net(x)
    out.sum().backward()
    np.testing.assert_allclose(out.detach().numpy().ravel(), [np.tanh(1.0), 0.0], rtol=1e-6)
    assert x.grad.isfinite().all()


def test_half_precision():
    single = nn.LSTM(3, 4)
    half = nn.LSTM(3, 4, dtype=sg.float16)
    half.load_state_dict(single.state_dict())
    x = values(5, 2, 3).float()
    out, wanted = half(x.half())[0], single(x)[0]
    assert out.dtype == sg.float16
    np.testing.assert_allclose(out.detach().float().numpy(), wanted.detach().numpy(), atol=2e-3)
    for loss in (out.float(), wanted):
        loss.square().sum().backward()
    np.testing.assert_allclose(half.weight_hh_l0.grad.float().numpy(), single.weight_hh_l0.grad.numpy(), atol=2e-2)


@pytest.mark.parametrize("kind", ["tanh", "lstm", "gru"])
def test_compiled(kind):
    net = made(kind, 2, 3, bidirectional=True)

    def loss(x):
        out, last = net(x)
        return out.square().sum() + (last[1] if isinstance(last, tuple) else last).sum()

    x = values(2, 2, 2).requires_grad_()
    expected = loss(x)
    expected.backward()
    value, (gradient, *others) = sg.compile(loss).value_and_grad(x)
    np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-10)
    np.testing.assert_allclose(gradient.numpy(), x.grad.numpy(), rtol=1e-8, atol=1e-10)
    norms = [sorted(g.norm().item() for g in many) for many in (others, [p.grad for p in net.parameters()])]
    np.testing.assert_allclose(*norms, rtol=1e-8)


def test_one_layer_is_one_node():
    net = nn.LSTM(3, 4)
    names, stack = set(), [net(sg.randn(30, 2, 3))[0].grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in names:
            names.add(node)
            stack += [edge for edge, _ in node.next_functions]
    assert len(names) < 15


REFUSALS = {
    "rank": (ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead", lambda: nn.LSTM(3, 2)(sg.zeros(3))),
    "width": (RuntimeError, "Expected 3, got 4", lambda: nn.GRU(3, 2)(sg.zeros(2, 2, 4))),
    "type": (ValueError, "does not match weight dtype", lambda: nn.RNN(3, 2)(sg.zeros(2, 2, 3).double())),
    "state": (RuntimeError, r"Expected hidden\[1\] size \(1, 2, 2\), got \[1, 2, 3\]",
              lambda: nn.LSTM(3, 2)(sg.zeros(2, 2, 3), (sg.zeros(1, 2, 2), sg.zeros(1, 2, 3)))),
    "packed state": (RuntimeError, r"Expected hidden size \(1, 2, 2\)",
                     lambda: nn.GRU(3, 2)(rnn.pack_padded_sequence(sg.zeros(2, 2, 3), [2, 1]), sg.zeros(1, 1, 2))),
    "no steps": (RuntimeError, "sequence length to be larger than 0", lambda: nn.LSTM(3, 2)(sg.zeros(0, 2, 3))),
    "projection": (ValueError, "only supported for LSTM", lambda: nn.GRU(3, 2, proj_size=1)),
    "wide projection": (ValueError, "smaller than hidden_size", lambda: nn.LSTM(3, 2, proj_size=2)),
    "nonlinearity": (ValueError, "Select from 'tanh' or 'relu'", lambda: nn.RNN(3, 2, nonlinearity="x")),
    "size": (TypeError, "hidden_size should be of type int, got: float", lambda: nn.RNN(3, 2.0)),
    "dropout": (ValueError, r"dropout should be a number in range \[0, 1\]", lambda: nn.RNN(3, 2, 2, dropout=2)),
    "mode": (ValueError, "Unrecognized RNN mode: X", lambda: nn.RNNBase("X", 3, 2)),
    "cell": (RuntimeError, "input has inconsistent input_size: got 4 expected 3", lambda: nn.LSTMCell(3, 2)(sg.zeros(2, 4))),
    "cell batch": (RuntimeError, "Input batch size 2 doesn't match hidden0 batch size 3",
                   lambda: nn.GRUCell(3, 2)(sg.zeros(2, 3), sg.zeros(3, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    kind, words, call = REFUSALS[name]
    with pytest.raises(kind, match=words):
        call()
