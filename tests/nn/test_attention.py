"""Attention and transformers: against their equations, masks that hide and masks that leave alone, derivatives to order 2, compiled."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F
from symgrad.testing import gradcheck, gradgradcheck


def values(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- scaled_dot_product_attention


@pytest.mark.parametrize("mask", ["none", "bool", "float", "causal"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_scaled_dot_product(mask, scale):
    q, k, v = values(2, 4, 3), values(2, 5, 3, seed=1), values(2, 5, 2, seed=2)
    scores = q.numpy() @ k.numpy().swapaxes(-1, -2) * (scale or 1 / math.sqrt(3))
    options = {}
    if mask == "bool":
        allowed = np.random.default_rng(3).random((4, 5)) < 0.6
        allowed[:, 2] = True
        scores, options = np.where(allowed, scores, -np.inf), {"attn_mask": sg.tensor(allowed)}
    elif mask == "float":
        options = {"attn_mask": values(4, 5, seed=3)}
        scores = scores + options["attn_mask"].numpy()
    elif mask == "causal":
        scores, options = np.where(np.tri(4, 5, dtype=bool), scores, -np.inf), {"is_causal": True}
    out = F.scaled_dot_product_attention(q, k, v, scale=scale, **options)
    np.testing.assert_allclose(out.numpy(), softmax(scores) @ v.numpy(), rtol=1e-12)


def test_grouped_queries_share_keys_and_values():
    q, k, v = values(2, 6, 4, 3), values(2, 2, 5, 3, seed=1), values(2, 2, 5, 3, seed=2)
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for head in range(6):
        sg.testing.assert_close(out[:, head], F.scaled_dot_product_attention(q[:, head], k[:, head // 3], v[:, head // 3]))


def test_what_may_attend_to_nothing_is_zero():
    x = values(3, 2).requires_grad_()
    mask = sg.tensor([[True, False, False], [False, False, False], [True, True, True]])
    for given in (mask, sg.where(mask, 0.0, -math.inf).double()):
        x.grad = None
        out = F.scaled_dot_product_attention(x, x, x, given)
        out.sum().backward()
        assert out[1].tolist() == [0, 0]
        assert out[0].tolist() == x[0].tolist()
        assert x.grad.isfinite().all()


def test_derivatives_to_order_two():
    args = [values(2, 3, seed=i).requires_grad_() for i in range(3)]
    for options in ({"is_causal": True}, {"attn_mask": values(2, 2, seed=5)}):
        function = lambda q, k, v, options=options: F.scaled_dot_product_attention(q, k, v, **options)
        assert gradcheck(function, args)
        assert gradgradcheck(function, args)


# --- MultiheadAttention


def by_hand(net, query, key, value, mask=0.0):
    """Output and weights of each head for (length, features)."""
    w = {name: p.detach().numpy() for name, p in net.named_parameters()}
    n = net.embed_dim
    weights = np.split(w["in_proj_weight"], 3) if "in_proj_weight" in w else [w[f"{c}_proj_weight"] for c in "qkv"]
    q, k, v = (x.numpy() @ m.T + b for x, m, b in zip((query, key, value), weights, np.split(w["in_proj_bias"], 3), strict=True))
    if net.bias_k is not None:
        k, v = np.concatenate([k, w["bias_k"][0]]), np.concatenate([v, w["bias_v"][0]])
    if net.add_zero_attn:
        k, v = np.concatenate([k, np.zeros((1, n))]), np.concatenate([v, np.zeros((1, n))])
    cut = lambda x: x.reshape(len(x), net.num_heads, -1).swapaxes(0, 1)
    found = softmax(cut(q) @ cut(k).swapaxes(1, 2) / math.sqrt(n // net.num_heads) + mask)
    joined = (found @ cut(v)).swapaxes(0, 1).reshape(len(q), n)
    return joined @ w["out_proj.weight"].T + w["out_proj.bias"], found


OPTIONS = [{}, {"kdim": 3, "vdim": 5}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(o) or "plain")
def test_heads_by_hand(options):
    net = nn.MultiheadAttention(6, 2, dtype=sg.float64, **options)
    with sg.no_grad():
        net.in_proj_bias.copy_(values(18, seed=7))
    q, k, v = values(4, 6), values(5, net.kdim, seed=1), values(5, net.vdim, seed=2)
    wanted, weights = by_hand(net, q, k, v)
    out, found = net(q, k, v, average_attn_weights=False)
    np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(found.detach().numpy(), weights, rtol=1e-12)
    np.testing.assert_allclose(net(q, k, v)[1].detach().numpy(), weights.mean(0), rtol=1e-12)
    alone, nothing = net(q, k, v, need_weights=False)
    np.testing.assert_allclose(alone.detach().numpy(), wanted, rtol=1e-12)
    assert nothing is None
    mask = values(4, 5, seed=3)
    wanted, weights = by_hand(net, q, k, v, np.pad(mask.numpy(), ((0, 0), (0, weights.shape[-1] - 5))))
    for padding in (None, sg.zeros(5, dtype=sg.float64)):
        out, found = net(q, k, v, padding, attn_mask=mask, average_attn_weights=False)
        np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-12)
        np.testing.assert_allclose(found.detach().numpy(), weights, rtol=1e-12)


def test_batches_stand_first_or_second():
    net = nn.MultiheadAttention(6, 2, dtype=sg.float64)
    first = nn.MultiheadAttention(6, 2, batch_first=True, dtype=sg.float64)
    first.load_state_dict(net.state_dict())
    q, k = values(4, 3, 6), values(5, 3, 6, seed=1)
    out, weights = net(q, k, k)
    turned, same = first(q.transpose(0, 1), k.transpose(0, 1), k.transpose(0, 1))
    sg.testing.assert_close(turned.transpose(0, 1), out)
    sg.testing.assert_close(same, weights)
    for i in range(3):
        alone, own = net(q[:, i], k[:, i], k[:, i])
        sg.testing.assert_close(alone, out[:, i])
        sg.testing.assert_close(own, weights[i])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_hide(kind, need_weights):
    """What is masked has no influence; a mask can differ for each example and head, and padding for each example."""
    net = nn.MultiheadAttention(4, 2, dtype=sg.float64)
    x = values(3, 2, 4).requires_grad_()
    typed = (lambda m: m) if kind == "bool" else (lambda m: sg.where(m, -math.inf, 0.0).double())
    causal = sg.ones(3, 3, dtype=sg.bool).triu(1)
    out, _ = net(x, x, x, attn_mask=typed(causal), need_weights=need_weights)
    (gradient,) = sg.autograd.grad(out[0].square().sum(), x)
    assert gradient[0].any()
    assert not gradient[1:].any()
    many, _ = net(x, x, x, attn_mask=typed(causal.expand(4, 3, 3)), need_weights=need_weights)
    sg.testing.assert_close(many, out)
    padding = sg.tensor([[False, False, True], [False, False, False]])
    padded, _ = net(x, x, x, key_padding_mask=typed(padding), need_weights=need_weights)
    sg.testing.assert_close(padded[:2, 0], net(x[:2, 0], x[:2, 0], x[:2, 0])[0])
    sg.testing.assert_close(padded[:, 1], net(x[:, 1], x[:, 1], x[:, 1])[0])
    joint, _ = net(x, x, x, key_padding_mask=typed(padding), attn_mask=typed(causal), need_weights=need_weights)
    sg.testing.assert_close(joint[:, 1], out[:, 1])
    sg.testing.assert_close(joint[:2, 0], out[:2, 0])
    hinted, _ = net(x, x, x, attn_mask=typed(causal), is_causal=True, need_weights=need_weights)
    sg.testing.assert_close(hinted, out)
    both = {"attn_mask": typed(causal), "key_padding_mask": typed(padding), "is_causal": True}
    sg.testing.assert_close(net(x, x, x, need_weights=need_weights, **both)[0], joint)


def test_dropout_of_weights_in_training_only():
    net = nn.MultiheadAttention(8, 2, dropout=0.5)
    x = sg.randn(6, 1, 8)
    _, weights = net(x, x, x, average_attn_weights=False)
    assert 0 < (weights == 0).sum() < weights.numel()
    still = net.eval()(x, x, x)[1]
    assert (still > 0).all()
    sg.testing.assert_close(still.sum(-1), sg.ones(1, 6))


def test_static_keys_take_the_place_of_computed_ones():
    net = nn.MultiheadAttention(4, 2, dtype=sg.float64)
    x, k = values(3, 2, 4), values(4, 5, 2, seed=1)
    arguments = (x, x, x, 4, 2, net.in_proj_weight, net.in_proj_bias, None, None, False, 0.0, net.out_proj.weight, net.out_proj.bias)
    out, weights = F.multi_head_attention_forward(*arguments, static_k=k, static_v=k * 2)
    q = F.linear(x, net.in_proj_weight[:4], net.in_proj_bias[:4]).reshape(3, 2, 2, 2).permute(1, 2, 0, 3)
    heads = F.scaled_dot_product_attention(q, k.reshape(2, 2, 5, 2), 2 * k.reshape(2, 2, 5, 2))
    sg.testing.assert_close(out, net.out_proj(heads.permute(2, 0, 1, 3).reshape(3, 2, 4)))
    assert weights.shape == (2, 3, 5)
    with pytest.raises(AssertionError, match=r"expecting static_k.size\(0\) of 4, but got 3"):
        F.multi_head_attention_forward(*arguments, static_k=k[:3])


def test_attention_module_to_order_two():
    net = nn.MultiheadAttention(2, 1, dtype=sg.float64)
    x = values(2, 1, 2).requires_grad_()
    assert gradcheck(lambda x, w: net(x, x, x)[0] * w, (x, values(1, seed=1).requires_grad_()))
    assert gradgradcheck(lambda x: net(x, x, x, need_weights=False)[0], (x,))


def test_initial_weights_are_those_of_pytorch():
    sg.manual_seed(0)
    net = nn.MultiheadAttention(2, 1, add_bias_kv=True)
    assert [round(x, 4) for x in net.in_proj_weight[:2].flatten().tolist()] == [-0.0172, 0.6867, -0.0769, 0.2292]
    assert [round(x, 4) for x in net.bias_k.flatten().tolist()] == [-0.1848, 0.7543]
    assert list(net.state_dict()) == ["in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"]
    assert not net.in_proj_bias.any()
    assert not net.out_proj.bias.any()


# --- transformers


def options(norm_first):
    return {"dim_feedforward": 8, "dropout": 0.0, "norm_first": norm_first, "dtype": sg.float64}


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_by_its_parts(norm_first):
    layer = nn.TransformerEncoderLayer(4, 2, activation="gelu", **options(norm_first))
    x = values(3, 2, 4)
    attend = lambda x: layer.self_attn(x, x, x)[0]
    feed = lambda x: layer.linear2(F.gelu(layer.linear1(x)))
    if norm_first:
        wanted = x + attend(layer.norm1(x))
        wanted = wanted + feed(layer.norm2(wanted))
    else:
        wanted = layer.norm1(x + attend(x))
        wanted = layer.norm2(wanted + feed(wanted))
    sg.testing.assert_close(layer(x), wanted)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_by_its_parts(norm_first):
    layer = nn.TransformerDecoderLayer(4, 2, **options(norm_first))
    x, memory = values(3, 2, 4), values(5, 2, 4, seed=1)
    blocks = [
        lambda x: layer.self_attn(x, x, x)[0],
        lambda x: layer.multihead_attn(x, memory, memory)[0],
        lambda x: layer.linear2(F.relu(layer.linear1(x))),
    ]
    wanted = x
    for block, norm in zip(blocks, (layer.norm1, layer.norm2, layer.norm3), strict=True):
        wanted = wanted + block(norm(wanted)) if norm_first else norm(wanted + block(wanted))
    sg.testing.assert_close(layer(x, memory), wanted)


def test_stacks_are_copies_in_a_row():
    layer = nn.TransformerEncoderLayer(4, 2, **options(False))
    norm = nn.LayerNorm(4, dtype=sg.float64)
    encoder = nn.TransformerEncoder(layer, 2, norm)
    x = values(3, 2, 4)
    sg.testing.assert_close(encoder(x), norm(layer(layer(x))))
    assert encoder.layers[0].linear1.weight is not encoder.layers[1].linear1.weight
    assert nn.TransformerEncoder(layer, 1).norm is None


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_transformer_sees_no_future_and_no_padding(batch_first):
    net = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=batch_first, dtype=sg.float64)
    turn = (lambda t: t.transpose(0, 1)) if batch_first else (lambda t: t)
    source, target = values(5, 2, 4).requires_grad_(), values(3, 2, 4, seed=1).requires_grad_()
    padding = sg.zeros(2, 5, dtype=sg.bool)
    padding[0, 3:] = True
    masks = {"tgt_mask": sg.ones(3, 3, dtype=sg.bool).triu(1), "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    out = turn(net(turn(source), turn(target), **masks))
    by_source, by_target = sg.autograd.grad(out[1, 0].square().sum(), (source, target))
    assert by_source[:3, 0].any(-1).all()
    assert not by_source[3:, 0].any()
    assert by_target[:2, 0].any(-1).all()
    assert not by_target[2, 0].any()
    assert not by_source[:, 1].any()
    hinted = turn(net(turn(source), turn(target), **{**masks, "tgt_is_causal": True}))
    sg.testing.assert_close(hinted, out)


def test_square_subsequent_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0, -math.inf, -math.inf], [0, 0, -math.inf], [0, 0, 0]]
    assert mask.dtype == sg.float32


def test_a_transformer_starts_with_glorots_weights():
    net = nn.Transformer(16, 2, 1, 1, 64)
    bound = math.sqrt(6 / (16 + 64))
    largest = net.encoder.layers[0].linear1.weight.abs().max().item()
    assert 0.97 * bound < largest <= bound


def test_printed_form():
    text = repr(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2))
    assert "(0-1): 2 x TransformerEncoderLayer(" in text
    assert "(out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)" in text


def test_a_copied_layer_is_another_one():
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    other = copy.deepcopy(layer)
    with sg.no_grad():
        other.linear1.weight.zero_()
    assert layer.linear1.weight.any()


def test_compiled():
    layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, dtype=sg.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=sg.float64)

    def loss(x):
        return (layer(x, mask) * x).sum()

    x = values(3, 2, 4).requires_grad_()
    expected = loss(x)
    expected.backward()
    value, (gradient, *others) = sg.compile(loss).value_and_grad(x)
    np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-10)
    np.testing.assert_allclose(gradient.numpy(), x.grad.numpy(), rtol=1e-8, atol=1e-10)
    norms = [sorted(g.norm().item() for g in many) for many in (others, [p.grad for p in layer.parameters()])]
    np.testing.assert_allclose(*norms, rtol=1e-8, atol=1e-12)


X = sg.zeros(2, 3, 4)
REFUSALS = {
    "heads": (AssertionError, "embed_dim must be divisible by num_heads", lambda net: nn.MultiheadAttention(5, 2)),
    "no heads": (ValueError, "embed_dim=4 and num_heads=0", lambda net: nn.MultiheadAttention(4, 0)),
    "rank": (AssertionError, "received 1-D query tensor", lambda net: net(X[0, 0], X, X)),
    "ranks": (AssertionError, "expected `key` and `value` to be 3-D but found 2-D and 2-D", lambda net: net(X, X[0], X[0])),
    "padding rank": (AssertionError, "`None` or 2-D but found 1-D", lambda net: net(X, X, X, sg.zeros(3))),
    "mask rank": (AssertionError, "2-D or 3-D but found 1-D", lambda net: net(X, X, X, attn_mask=sg.zeros(3))),
    "mask": (RuntimeError, r"2D attn_mask is torch.Size\(\[3, 3\]\), but should be \(2, 2\)",
             lambda net: net(X, X, X, attn_mask=sg.zeros(3, 3))),
    "mask type": (AssertionError, "only bool and floating types of attn_mask",
                  lambda net: net(X, X, X, attn_mask=sg.zeros(2, 2, dtype=sg.int64))),
    "padding": (AssertionError, r"key_padded_mask.shape\[1\] to be 2, but got 3", lambda net: net(X, X, X, sg.zeros(3, 3))),
    "width": (AssertionError, "expecting embedding dimension of 4, but got 2", lambda net: net(X[..., :2], X, X)),
    "values": (AssertionError, "does not match value shape", lambda net: net(X, X, X[:1])),
    "hint": (RuntimeError, "Need attn_mask if specifying the is_causal hint", lambda net: net(X, X, X, is_causal=True)),
    "activation": (RuntimeError, "activation should be relu/gelu, not tanh",
                   lambda net: nn.TransformerEncoderLayer(4, 2, activation="tanh")),
    "batch": (RuntimeError, "batch number of src and tgt must be equal", lambda net: nn.Transformer(4, 2, 1, 1, 8)(X, X[:, :1])),
    "features": (RuntimeError, "must be equal to d_model", lambda net: nn.Transformer(4, 2, 1, 1, 8)(X, X[..., :2])),
    "operands": (RuntimeError, "key.dtype: double and value.dtype: float", lambda net: F.scaled_dot_product_attention(X, X.double(), X)),
    "mask of attention": (RuntimeError, "doesn't match the broadcast shape",
                          lambda net: F.scaled_dot_product_attention(X, X, X, sg.zeros(1, 2, 3, 3))),
    "groups": (RuntimeError, "must divide the number of heads in query, got 2 and 3",
               lambda net: F.scaled_dot_product_attention(X.new_zeros(3, 2, 4), X, X, enable_gqa=True)),
    "both masks": (RuntimeError, "Explicit attn_mask should not be set when is_causal=True",
                   lambda net: F.scaled_dot_product_attention(X, X, X, sg.zeros(3, 3), is_causal=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    kind, words, call = REFUSALS[name]
    with pytest.raises(kind, match=words):
        call(nn.MultiheadAttention(4, 2))


def test_masks_of_two_types_are_warned_about():
    net = nn.MultiheadAttention(4, 2)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
        net(X, X, X, key_padding_mask=sg.zeros(3, 2, dtype=sg.bool), attn_mask=sg.zeros(2, 2))
