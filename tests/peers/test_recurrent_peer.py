"""Recurrent layers beside PyTorch: initial weights, values, gradients, packed sequences, printed forms and refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")]

OPTIONS = [
    {"num_layers": layers, "bidirectional": both, "batch_first": first, "bias": bias}
    for layers, both, first, bias in itertools.product((1, 2), (False, True), (False, True), (False, True))
]
KINDS = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("LSTM", {"proj_size": 2}), ("GRU", {})]


def pair(make, seed=3):
    """The same module in both, with the same seed."""
    modules = []
    for lib in (sg, torch):
        lib.manual_seed(seed)
        modules.append(make(lib))
    return modules


def both(array):
    return sg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)


def flat(result):
    """All tensors of a nested result, in order."""
    if isinstance(result, tuple):
        return [t for part in result for t in flat(part)]
    return [] if result is None or not result.is_floating_point() else [result]


def agree(mine, theirs, leaves, parameters, rtol=1e-10):
    """Values of all results, then the gradients of a sum of them all in leaves and parameters."""
    mine, theirs = flat(mine), flat(theirs)
    assert len(mine) == len(theirs)
    total = [0, 0]
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=1e-12)
        total = [total[0] + (a * (i + 1)).cos().sum(), total[1] + (b * (i + 1)).cos().sum()]
    for t in total:
        t.backward()
    for a, b in (*leaves, *parameters):
        if b.grad is None:
            assert a.grad is None
        else:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-8, atol=1e-12)


def parameters(mine, theirs):
    return list(zip(mine.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, map(int, o.values()))))
@pytest.mark.parametrize(("kind", "more"), KINDS, ids=["tanh", "relu", "lstm", "projected", "gru"])
def test_layers(kind, more, options):
    mine, theirs = pair(lambda lib: getattr(lib.nn, kind)(3, 4, dtype=lib.float64, **options, **more))
    assert list(mine.state_dict()) == list(theirs.state_dict())
    for a, b in parameters(mine, theirs):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert repr(mine) == repr(theirs)
    rng = np.random.default_rng(0)
    x = both(rng.normal(size=(2, 5, 3) if options["batch_first"] else (5, 2, 3)))
    count = options["num_layers"] * (2 if options["bidirectional"] else 1)
    states = [both(rng.normal(size=(count, 2, n))) for n in ((more.get("proj_size", 4), 4) if kind == "LSTM" else (4,))]
    hx = [tuple(s[i] for s in states) if kind == "LSTM" else states[0][i] for i in (0, 1)]
    agree(mine(x[0], hx[0]), theirs(x[1], hx[1]), [x, *states], parameters(mine, theirs))
    agree(mine(x[0]), theirs(x[1]), [x], parameters(mine, theirs))


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=["tanh", "relu", "lstm", "projected", "gru"])
def test_float32_initial_weights_and_values(kind, more):
    mine, theirs = pair(lambda lib: getattr(lib.nn, kind)(7, 20, 2, bidirectional=True, **more))
    for a, b in parameters(mine, theirs):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    x = np.random.default_rng(0).normal(size=(6, 3, 7)).astype(np.float32)
    np.testing.assert_allclose(mine(sg.tensor(x))[0].detach().numpy(), theirs(torch.tensor(x))[0].detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=["tanh", "relu", "lstm", "projected", "gru"])
def test_one_sequence_without_a_batch(kind, more):
    mine, theirs = pair(lambda lib: getattr(lib.nn, kind)(3, 4, 2, bidirectional=True, batch_first=True, dtype=lib.float64, **more))
    x = both(np.random.default_rng(0).normal(size=(5, 3)))
    agree(mine(x[0]), theirs(x[1]), [x], parameters(mine, theirs))


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize(("kind", "more"), KINDS, ids=["tanh", "relu", "lstm", "projected", "gru"])
def test_packed(kind, more, sort):
    mine, theirs = pair(lambda lib: getattr(lib.nn, kind)(3, 4, 2, bidirectional=True, dtype=lib.float64, **more))
    rng = np.random.default_rng(0)
    x, lengths = both(rng.normal(size=(6, 4, 3))), [6, 4, 4, 1] if sort else [4, 1, 6, 4]
    states = [both(rng.normal(size=(4, 4, n))) for n in ((more.get("proj_size", 4), 4) if kind == "LSTM" else (4,))]
    results = []
    for lib, net, data, i in ((sg, mine, x[0], 0), (torch, theirs, x[1], 1)):
        packing = lib.nn.utils.rnn
        hx = tuple(s[i] for s in states) if kind == "LSTM" else states[0][i]
        out, last = net(packing.pack_padded_sequence(data, lengths, enforce_sorted=sort), hx)
        padded, counts = packing.pad_packed_sequence(out, batch_first=True, padding_value=-1.0)
        assert counts.tolist() == lengths
        results.append((tuple(t for t in out if t is not None), padded, last))
    agree(*results, [x, *states], parameters(mine, theirs))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_dropout_between_layers_draws_the_same_numbers(kind):
    mine, theirs = pair(lambda lib: getattr(lib.nn, kind)(3, 8, 3, dropout=0.4, batch_first=True))
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    for training in (True, False):
        results = []
        for lib, net in ((sg, mine), (torch, theirs)):
            lib.manual_seed(11)
            results.append(net.train(training)(lib.tensor(x))[0].detach().numpy())
        np.testing.assert_allclose(*results, atol=2e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kind", "more"), [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"}), ("LSTMCell", {}), ("GRUCell", {})],
    ids=["tanh", "relu", "lstm", "gru"],
)  # fmt: skip
def test_cells(kind, more, bias):
    mine, theirs = pair(lambda lib: getattr(lib.nn, kind)(3, 4, bias, dtype=lib.float64, **more))
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    rng = np.random.default_rng(0)
    for shape, hidden in (((2, 3), (2, 4)), ((3,), (4,))):
        x, h, c = both(rng.normal(size=shape)), both(rng.normal(size=hidden)), both(rng.normal(size=hidden))
        hx = [(h[i], c[i]) if kind == "LSTMCell" else h[i] for i in (0, 1)]
        agree(mine(x[0], hx[0]), theirs(x[1], hx[1]), [x, h, c], parameters(mine, theirs))
        agree(mine(x[0]), theirs(x[1]), [x], parameters(mine, theirs))


SCRIPTS = {
    "packed": "R.pack_padded_sequence(x, [3, 2, 1])",
    "packed and sorted": "R.pack_padded_sequence(x, [1, 3, 3], enforce_sorted=False)",
    "packed by rows": "R.pack_padded_sequence(x, torch.tensor([3, 2, 1, 1]), batch_first=True)",
    "double": "R.pack_padded_sequence(x, [3, 2, 1]).double()",
    "types": "[R.pack_padded_sequence(x, [3, 2, 1]).to(t).data.dtype == t for t in (torch.float64, torch.int64)]",
    "same": "[p for p in [R.pack_padded_sequence(x, [3, 2, 1])] if p.to(torch.float32) is p][0].is_cuda",
    "by hand": "R.PackedSequence(x[0], torch.tensor([2, 1]), torch.tensor([1, 0])), R.PackedSequence((x[0], torch.tensor([2, 1])))",
    "by hand, from what is no pair": "R.PackedSequence(x)",
    "sequences": "R.pack_sequence([x[:3, 0], x[:2, 1], x[:1, 2]])",
    "unsorted sequences": "R.pack_sequence([x[:1, 0], x[:2, 1], x[:2, 2]], enforce_sorted=False)",
    "unpacked": "R.unpack_sequence(R.pack_sequence([x[:1, 0], x[:2, 1]], enforce_sorted=False))",
    "padded": "R.pad_packed_sequence(R.pack_padded_sequence(x, [3, 2, 1]), total_length=5, padding_value=-1)",
    "padded rows": "R.pad_packed_sequence(R.pack_padded_sequence(x, [1, 2, 3], enforce_sorted=False), batch_first=True)",
    "pad": "R.pad_sequence([x[:2], x[:1], x[:3]], padding_value=9), R.pad_sequence([x[:2], x[:1]], batch_first=True)",
    "pad left": "R.pad_sequence([x[:2, 0], x[:1, 0]], padding_side='left')",
    "unpad": "R.unpad_sequence(x, torch.tensor([3, 2, 1])), R.unpad_sequence(y, torch.tensor([3, 2, 1, 2]), batch_first=True)",
    "inverse": "R.invert_permutation(torch.tensor([2, 0, 1])), R.invert_permutation(None)",
    "other number of lengths": "R.pack_padded_sequence(x, [4, 2])",
    "lengths that grow": "R.pack_padded_sequence(x, [2, 4, 1])",
    "length zero": "R.pack_padded_sequence(x, [4, 2, 0])",
    "nothing to pack": "R.pack_padded_sequence(x[:0], [1, 1, 1])",
    "lengths in rows": "R.pack_padded_sequence(x, torch.tensor([[3, 2, 1]]))",
    "nothing to pad": "R.pad_sequence([])",
    "no sequences": "R.pad_sequence(3)",
    "unknown side": "R.pad_sequence([x], padding_side='top')",
    "too short": "R.pad_packed_sequence(R.pack_padded_sequence(x, [3, 2, 1]), total_length=2)",
    "no steps": "nn.LSTM(3, 2)(torch.zeros(0, 2, 3))",
    "no sequences in the batch": "nn.LSTM(3, 2)(torch.zeros(2, 0, 3))[0].shape",
    **{f"{kind} of rank 4": f"nn.{kind}(3, 2)(torch.zeros(2, 2, 3, 3))" for kind in ("RNN", "LSTM", "GRU")},
    "other width": "nn.GRU(3, 2)(torch.zeros(2, 2, 4))",
    "other type": "nn.GRU(3, 2)(torch.zeros(2, 2, 3).double())",
    "other state": "nn.GRU(3, 2)(torch.zeros(2, 2, 3), torch.zeros(1, 3, 2))",
    "other first state": "nn.LSTM(3, 2)(torch.zeros(2, 2, 3), (torch.zeros(1, 2, 3), torch.zeros(1, 2, 2)))",
    "other second state": "nn.LSTM(3, 2)(torch.zeros(2, 2, 3), (torch.zeros(1, 2, 2), torch.zeros(1, 2, 3)))",
    "state with a batch": "nn.GRU(3, 2)(torch.zeros(2, 3), torch.zeros(1, 3, 2))",
    "states with a batch": "nn.LSTM(3, 2)(torch.zeros(2, 3), (torch.zeros(1, 3, 2), torch.zeros(1, 2)))",
    "state without a batch": "nn.RNN(3, 2)(torch.zeros(2, 2, 3), torch.zeros(1, 2))",
    "packed of rank 3": "nn.GRU(1, 2)(R.pack_padded_sequence(x[..., None, None], [3, 2, 1]))",
    "projected GRU": "nn.GRU(3, 2, proj_size=1)",
    "projected RNN": "nn.RNN(3, 2, proj_size=1)",
    "wide projection": "nn.LSTM(3, 2, proj_size=2)",
    "negative projection": "nn.LSTM(3, 2, proj_size=-1)",
    "nonlinearity": "nn.RNN(3, 2, nonlinearity='x')",
    "positions": "nn.RNN(3, 2, 1, 'relu', False), nn.LSTM(3, 4, 2, False, True, 0.5, True, 1), nn.GRU(3, 4, 2, True, False, 0.25, True)",
    "size that is no integer": "nn.RNN(3, 2.0)",
    "no hidden units": "nn.RNN(3, 0)",
    "no layers": "nn.LSTM(3, 2, 0)",
    "no inputs": "nn.LSTM(0, 2)",
    "bias that is no bool": "nn.LSTM(3, 2, 1, 3)",
    "dropout": "nn.LSTM(3, 2, 2, dropout=1.5)",
    "dropout that is a bool": "nn.LSTM(3, 2, 2, dropout=True)",
    "dropout of one layer": "nn.LSTM(3, 2, dropout=0.5)",
    "weights": "[[tuple(w.shape) for w in ws] for ws in nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2).all_weights]",
    "cell width": "nn.LSTMCell(3, 2)(torch.zeros(2, 4))",
    "cell batch": "nn.GRUCell(3, 2)(torch.zeros(2, 3), torch.zeros(3, 2))",
    "cell state": "nn.LSTMCell(3, 2)(torch.zeros(2, 3), (torch.zeros(2, 3), torch.zeros(2, 3)))",
    "cell rank": "nn.LSTMCell(3, 2)(torch.zeros(2, 2, 3))",
    "cell state rank": "nn.LSTMCell(3, 2)(torch.zeros(2, 3), (torch.zeros(2, 2), torch.zeros(1, 2, 3)))",
    "state rank of an RNN": "nn.RNNCell(3, 2)(torch.zeros(2, 3), torch.zeros(1, 2, 3))",
    "unknown nonlinearity": "nn.RNNCell(3, 2, nonlinearity='x')(torch.zeros(2, 3))",
    "cells": "nn.RNNCell(3, 2, False, 'relu'), nn.GRUCell(3, 2, bias=False)",
}


def outcome(lib, script):
    x = lib.arange(12.0).reshape(4, 3)
    try:
        return repr(eval(script, {"torch": lib, "nn": lib.nn, "R": lib.nn.utils.rnn, "x": x, "y": x.clone()}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("default:dropout option")
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name):
    assert outcome(sg, SCRIPTS[name]) == outcome(torch, SCRIPTS[name])


def test_a_state_dict_goes_both_ways():
    mine, theirs = sg.nn.LSTM(3, 4, 2, bidirectional=True), torch.nn.LSTM(3, 4, 2, bidirectional=True)
    mine.load_state_dict({name: sg.from_numpy(value.numpy()) for name, value in theirs.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(6, 3, 3)).astype(np.float32)
    np.testing.assert_allclose(mine(sg.tensor(x))[0].detach().numpy(), theirs(torch.tensor(x))[0].detach().numpy(), atol=1e-6)
