"""Attention and transformers beside PyTorch: initial weights, values, gradients, masks, dropout, printed forms and refusals."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")]


def pair(make, seed=3):
    modules = []
    for lib in (sg, torch):
        lib.manual_seed(seed)
        modules.append(make(lib))
    return modules


def both(array):
    return sg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def agree(mine, theirs, leaves, nets):
    """All results, then the gradients of a sum of them in leaves and parameters."""
    pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if b is not None]
    assert [a is None for a in mine] == [b is None for b in theirs]
    total = [0, 0]
    for a, b in pairs:
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)
        total = [total[0] + a.cos().sum(), total[1] + b.cos().sum()]
    for t in total:
        t.backward()
    for a, b in (*leaves, *zip(*(net.parameters() for net in nets), strict=True)):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-7, atol=1e-11)


def same_start(mine, theirs):
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert repr(mine) == repr(theirs)
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


MAKES = {
    "plain": {},
    "without bias": {"bias": False},
    "other widths": {"kdim": 3, "vdim": 5},
    "other width of values": {"vdim": 5, "bias": False},
    "bias of keys": {"add_bias_kv": True},
    "zero": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 3},
}
CALLS = {
    "plain": {},
    "no weights": {"need_weights": False},
    "heads": {"average_attn_weights": False},
    "mask": {"attn_mask": (5, 4)},
    "mask, no weights": {"attn_mask": (5, 4), "need_weights": False},
    "float mask": {"attn_mask": "float"},
    "mask for each": {"attn_mask": (4, 5, 4)},
    "padding": {"key_padding_mask": (2, 4)},
    "padding, no weights": {"key_padding_mask": (2, 4), "need_weights": False},
    "masks": {"attn_mask": (5, 4), "key_padding_mask": (2, 4)},
    "masks, no weights": {"attn_mask": (4, 5, 4), "key_padding_mask": (2, 4), "need_weights": False},
}


def masks(lib, call):
    """The arguments, where a shape stands for a boolean mask that leaves something in each row."""

    def made(value):
        if value == "float":
            return lib.tensor(numbers(5, 4, seed=9))
        mask = np.random.default_rng(4).random(value) < 0.4
        mask[..., 0] = False
        return lib.tensor(mask)

    return {name: made(value) if isinstance(value, (tuple, str)) else value for name, value in call.items()}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make", MAKES)
def test_multihead_attention(make, call, batch_first):
    options = MAKES[make]
    nets = mine, theirs = pair(lambda lib: lib.nn.MultiheadAttention(6, 2, batch_first=batch_first, dtype=lib.float64, **options))
    same_start(mine, theirs)
    shapes = ((5, 2, 6), (4, 2, options.get("kdim", 6)), (4, 2, options.get("vdim", 6)))
    leaves = [both(numbers(*((s[1], s[0], s[2]) if batch_first else s), seed=i)) for i, s in enumerate(shapes)]
    libraries = enumerate(zip((sg, torch), nets, strict=True))
    results = [net(*(leaf[i] for leaf in leaves), **masks(lib, CALLS[call])) for i, (lib, net) in libraries]
    agree(*results, leaves, nets)


@pytest.mark.parametrize("need_weights", [False, True])
def test_self_attention_without_a_batch_and_by_a_hint(need_weights):
    nets = pair(lambda lib: lib.nn.MultiheadAttention(6, 2, dtype=lib.float64))
    x = both(numbers(5, 6))
    results = []
    for net, leaf, lib in zip(nets, x, (sg, torch), strict=True):
        mask = lib.nn.Transformer.generate_square_subsequent_mask(5, dtype=lib.float64)
        results.append(net(leaf, leaf, leaf, need_weights=need_weights, attn_mask=mask, is_causal=True))
    agree(*results, [x], nets)


def test_a_row_that_attends_to_nothing():
    nets = pair(lambda lib: lib.nn.MultiheadAttention(6, 2, dtype=lib.float64))
    x = numbers(5, 2, 6)
    for need_weights in (False, True):
        results = []
        for lib, net in zip((sg, torch), nets, strict=True):
            mask = lib.zeros(5, 5, dtype=lib.bool)
            mask[2] = True
            out, weights = net(*(lib.tensor(x),) * 3, attn_mask=mask, need_weights=need_weights)
            results.append([out.detach().numpy()] + ([weights.detach().numpy()] if need_weights else []))
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


def test_float32_initial_weights_and_dropout():
    nets = mine, theirs = pair(lambda lib: lib.nn.MultiheadAttention(20, 4, dropout=0.3, add_bias_kv=True))
    same_start(mine, theirs)
    x = numbers(7, 3, 20).astype(np.float32)
    for training, need_weights in itertools.product((True, False), (True, False)):
        results = []
        for lib, net in zip((sg, torch), nets, strict=True):
            lib.manual_seed(5)
            results.append(net.train(training)(*(lib.tensor(x),) * 3, need_weights=need_weights)[0].detach().numpy())
        np.testing.assert_allclose(*results, atol=1e-5)


LAYERS = [
    {"norm_first": first, "batch_first": batch, "bias": bias, "activation": activation}
    for first, batch, bias, activation in itertools.product((False, True), (False, True), (False, True), ("relu", "gelu"))
]


@pytest.mark.parametrize("options", LAYERS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("part", ["Encoder", "Decoder"])
def test_stacks(part, options):
    def make(lib):
        layer = getattr(lib.nn, f"Transformer{part}Layer")(6, 2, 8, dropout=0.0, dtype=lib.float64, **options)
        return getattr(lib.nn, f"Transformer{part}")(layer, 2, lib.nn.LayerNorm(6, dtype=lib.float64))

    nets = mine, theirs = pair(make)
    same_start(mine, theirs)
    turn = (lambda s: (s[1], s[0], s[2])) if options["batch_first"] else (lambda s: s)
    leaves = [both(numbers(*turn(s), seed=i)) for i, s in enumerate(((5, 2, 6), (4, 2, 6))[: 1 if part == "Encoder" else 2])]
    results = []
    for i, (lib, net) in enumerate(zip((sg, torch), nets, strict=True)):
        causal = lib.nn.Transformer.generate_square_subsequent_mask(5, dtype=lib.float64)
        padding = lib.zeros(2, 5, dtype=lib.float64)
        padding[1, -1] = -float("inf")
        if part == "Encoder":
            named = {"mask": causal, "src_key_padding_mask": padding}
        else:
            named = {"tgt_mask": causal, "tgt_key_padding_mask": padding, "memory_key_padding_mask": lib.zeros(2, 4, dtype=lib.bool)}
        results.append([net(*(leaf[i] for leaf in leaves), **named), net(*(leaf[i] for leaf in leaves))])
    agree(*results, leaves, nets)


@pytest.mark.parametrize("training", [True, False])
def test_a_transformer_with_dropout(training):
    nets = mine, theirs = pair(lambda lib: lib.nn.Transformer(8, 2, 2, 1, 16, dropout=0.2).train(training))
    same_start(mine, theirs)
    source, target = numbers(5, 2, 8).astype(np.float32), numbers(4, 2, 8, seed=1).astype(np.float32)
    results = []
    for lib, net in zip((sg, torch), nets, strict=True):
        lib.manual_seed(5)
        mask = net.generate_square_subsequent_mask(4)
        results.append(net(lib.tensor(source), lib.tensor(target), tgt_mask=mask, tgt_is_causal=True).detach().numpy())
    np.testing.assert_allclose(*results, atol=2e-5)


def test_eval_without_gradients():
    """PyTorch then takes other kernels."""
    nets = pair(lambda lib: lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval())
    x = numbers(2, 5, 8).astype(np.float32)
    results = []
    for lib, net in zip((sg, torch), nets, strict=True):
        with lib.no_grad():
            results.append(net(lib.tensor(x)).numpy())
    np.testing.assert_allclose(*results, atol=1e-5)


SCRIPTS = {
    "mask": "nn.Transformer.generate_square_subsequent_mask(3), nn.Transformer.generate_square_subsequent_mask(2, dtype=torch.float64)",
    "repr": "nn.Transformer(4, 2, 1, 2, 8, activation='gelu', norm_first=True)",
    "repr of a layer": "nn.TransformerDecoderLayer(4, 2, 8, bias=False, activation=nn.Tanh())",
    "activation": "nn.TransformerEncoderLayer(4, 2, activation='tanh')",
    "heads": "nn.MultiheadAttention(5, 2)",
    "no heads": "nn.MultiheadAttention(4, 0)",
    "rank": "attention(x[0, 0], x, x)",
    "ranks": "attention(x, x[0], x[0])",
    "ranks without a batch": "attention(x[0], x, x)",
    "padding rank": "attention(x, x, x, key_padding_mask=torch.zeros(3))",
    "padding rank without a batch": "attention(x[0], x[0], x[0], key_padding_mask=torch.zeros(3, 3))",
    "mask rank": "attention(x, x, x, attn_mask=torch.zeros(3))",
    "mask of each head": "attention(x[0], x[0], x[0], attn_mask=torch.zeros(3, 3, 3))",
    "mask shape": "attention(x, x, x, attn_mask=torch.zeros(3, 3))",
    "masks shape": "attention(x, x, x, attn_mask=torch.zeros(3, 2, 2))",
    "mask of integers": "attention(x, x, x, attn_mask=torch.zeros(2, 2, dtype=torch.int64))",
    "padding of integers": "attention(x, x, x, key_padding_mask=torch.zeros(3, 2, dtype=torch.int64))",
    "padding shape": "attention(x, x, x, key_padding_mask=torch.zeros(3, 3))",
    "padding batch": "attention(x, x, x, key_padding_mask=torch.zeros(2, 2))",
    "width": "attention(x[..., :2], x, x)",
    "keys and values": "attention(x, x, x[:1])",
    "hint without a mask": "attention(x, x, x, is_causal=True)",
    "mismatched masks": "attention(x, x, x, attn_mask=torch.zeros(2, 2), key_padding_mask=torch.zeros(3, 2, dtype=torch.bool))",
    "mismatched masks of an encoder": "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1)"
    "(x, mask=torch.zeros(2, 2), src_key_padding_mask=torch.zeros(3, 2, dtype=torch.bool)).shape",
    "batches": "nn.Transformer(4, 2, 1, 1, 8)(x, x[:, :1])",
    "batches first": "nn.Transformer(4, 2, 1, 1, 8, batch_first=True)(x, x[:1])",
    "widths": "nn.Transformer(4, 2, 1, 1, 8)(x, x[..., :2])",
    "custom": "nn.Transformer(4, 2, custom_encoder=nn.Identity(), custom_decoder=nn.Tanh())",
    "attention over nothing": "sdpa(x, x, x, torch.zeros(3, 3, dtype=torch.bool)).sum(), sdpa(x, x, x, torch.full((3, 3), -inf)).sum()",
    "attention mask and hint": "sdpa(x, x, x, torch.ones(2, 2), is_causal=True)",
    "attention dtypes": "sdpa(x.double(), x, x)",
    "attention mask dtype": "sdpa(x, x, x, torch.ones(2, 2, dtype=torch.float64))",
    "attention mask too large": "sdpa(x, x, x, torch.ones(1, 2, 3, 3))",
    "attention keywords": "sdpa(x, x, x, None, 0.0, True, 0.5)",
    "shared heads": "sdpa(y, y[:, :1], y[:, :1], enable_gqa=True).sum(), sdpa(y, y[:, :2], y[:, :1], enable_gqa=True).sum()",
    "attention dropout": "sdpa(x, x, x, None, 0.5, True).sum(), sdpa(x, x, x, torch.ones(3, 3).tril(), 0.5, scale=0.3).sum()",
}


def outcome(lib, script):
    lib.manual_seed(0)
    x = lib.arange(24.0).reshape(2, 3, 4).sin()
    names = {
        "torch": lib, "nn": lib.nn, "x": x, "y": lib.arange(64.0).reshape(2, 4, 2, 4).sin(), "attention": lib.nn.MultiheadAttention(4, 2),
        "sdpa": lib.nn.functional.scaled_dot_product_attention, "inf": float("inf"),
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = repr(eval(script, names))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    return result, [str(w.message) for w in caught if "nested" not in str(w.message)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name):
    assert outcome(sg, SCRIPTS[name]) == outcome(torch, SCRIPTS[name])
