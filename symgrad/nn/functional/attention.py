"""Attention as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
from typing import Any

from symgrad.creation import ones, zeros
from symgrad.dispatch import tensors as ops
from symgrad.dtypes import bool as boolean
from symgrad.functional import cat
from symgrad.lines import warn
from symgrad.nn.functional.activation import softmax
from symgrad.nn.functional.dropout import dropout
from symgrad.nn.functional.linear import linear, pad
from symgrad.tensor import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ scale + mask) value. A boolean mask is True where attention is allowed; `enable_gqa` lets several heads of
    the query share one of key and value."""
    _check_operands(query, key, value, attn_mask)
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = _repeated(query, key), _repeated(query, value)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = ops.matmul(query * factor, ops.transpose(key, dim0=-2, dim1=-1))
    if is_causal:
        attn_mask = ones(query.shape[-2], key.shape[-2], dtype=boolean).tril()
    if attn_mask is not None:
        scores = _masked(scores, attn_mask)
    weights = dropout(_attention(scores, attn_mask is not None and not is_causal), dropout_p, dropout_p > 0)
    return _laid_out_as(query, ops.matmul(weights, value)) if not dropout_p else ops.matmul(weights, value)


def _laid_out_as(query: Tensor, out: Tensor) -> Tensor:
    """The result in the memory layout of the query: joining the heads again, `out.transpose(1, 2).view(...)`, then needs no copy."""
    if query.ndim != 4 or query._array.flags.c_contiguous or not query._array.swapaxes(1, 2).flags.c_contiguous:
        return out
    return out.transpose(1, 2).contiguous().transpose(1, 2)


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    masked: Tensor = ops.where(mask, scores, -math.inf) if mask.dtype == boolean else scores + mask
    if masked.shape != scores.shape:
        raise RuntimeError(f"output with shape {list(scores.shape)} doesn't match the broadcast shape {list(masked.shape)}")
    return masked


def _check_operands(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    named = {"query": query, "key": key, "value": value}
    if min(t.ndim for t in named.values()) < 2:
        given = _listed([f"{name}.dim: {t.ndim}" for name, t in named.items()])
        raise RuntimeError(
            f"scaled_dot_product_attention: Expected query, key, and value to all be at least 2 dimensional, but got {given} instead."
        )
    if len({t.dtype for t in named.values()}) > 1:
        given = _listed([f"{name}.dtype: {t.dtype.word.lower()}" for name, t in named.items()])
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got {given} instead.")
    if mask is not None and mask.dtype not in (boolean, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype:"
            f" {mask.dtype.word.lower()} and  query.dtype: {query.dtype.word.lower()} instead."
        )


def _listed(words: list[str]) -> str:
    return f"{words[0]} {words[1]} and {words[2]}"


def _repeated(query: Tensor, t: Tensor) -> Tensor:
    """Key or value with each head as often as heads of the query share it."""
    if min(query.ndim, t.ndim) < 3:
        raise IndexError(f"scaled_dot_product_attention: heads stand in dimension -3, got {list(query.shape)} and {list(t.shape)}")
    heads, own = query.shape[-3], t.shape[-3]
    if heads % own:
        raise RuntimeError(f"Number of heads in key and value must divide the number of heads in query, got {own} and {heads}")
    return t.repeat_interleave(heads // own, -3)


def _attention(scores: Tensor, masked: bool) -> Tensor:
    """The softmax of each row; a row that may attend to nothing is 0, not NaN."""
    if not masked:
        return softmax(scores, -1)
    nothing = (scores.detach() == -math.inf).all(-1, keepdim=True)
    return ops.where(nothing, 0, softmax(ops.where(nothing, 0, scores), -1))


# --- several heads


def additive_mask(mask: Tensor | None, name: str, like: Tensor, other: Tensor | None = None, other_name: str = "") -> Tensor | None:
    """A mask to be added to scores, of the type of `like`: -inf where a boolean one is True."""
    if mask is None:
        return None
    if mask.dtype != boolean and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warn(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.")
    return zeros(mask.shape, dtype=like.dtype).masked_fill(mask, -math.inf) if mask.dtype == boolean else mask


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads on tensors (length, batch, features) or (length, features): what `nn.MultiheadAttention` computes."""
    _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method"
            " `generate_square_subsequent_mask` to create this mask."
        )
    batched = query.ndim == 3
    padding = additive_mask(key_padding_mask, "key_padding_mask", query, attn_mask, "attn_mask")
    hinted = is_causal and padding is None and not need_weights  # then the mask is known without looking at it
    mask = None if hinted else additive_mask(attn_mask, "attn_mask", query)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        padding = None if padding is None else padding.unsqueeze(0)
    length, batch, width = query.shape
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected((query, key, value), weights, in_proj_bias)
    if mask is not None:
        mask = _spread(mask, batch, num_heads, length, key.shape[0])
    if bias_k is not None and bias_v is not None:
        k, v = cat([k, bias_k.expand(1, batch, width)]), cat([v, bias_v.expand(1, batch, width)])
    q, k, v = _heads(q, num_heads), _heads(k, num_heads, static_k, "static_k"), _heads(v, num_heads, static_v, "static_v")
    if add_zero_attn:
        nothing = zeros(batch, num_heads, 1, width // num_heads, dtype=k.dtype)
        k, v = cat([k, nothing], 2), cat([v, nothing], 2)
    extra = (bias_k is not None) + add_zero_attn
    out, found = _attend(q, k, v, _joined(mask, padding, batch, k.shape[2], extra), dropout_p if training else 0.0, hinted, need_weights)
    out = linear(out.permute(2, 0, 1, 3).reshape(length, batch, width), out_proj_weight, out_proj_bias)
    found = found.mean(1) if found is not None and average_attn_weights else found
    return (out, found) if batched else (out.squeeze(1), None if found is None else found.squeeze(0))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The output of each head, and its weights if they are needed: then a row that may attend to nothing is NaN, as in PyTorch."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores: Tensor = ops.matmul(q * math.sqrt(1 / q.shape[-1]), k.transpose(-2, -1))
    weights = dropout(softmax(scores if mask is None else scores + mask, -1), dropout_p, dropout_p > 0)
    return ops.matmul(weights, v), weights


def _joined(mask: Tensor | None, padding: Tensor | None, batch: int, source: int, extra: int) -> Tensor | None:
    """Both masks in one; keys that were added at the end may always be attended to."""
    if extra:
        mask, padding = (None if m is None else pad(m, (0, extra)) for m in (mask, padding))
    if padding is None:
        return mask
    for dim, wanted in ((0, batch), (1, source)):
        if padding.shape[dim] != wanted:
            raise AssertionError(f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {padding.shape[dim]}")
    columns: Tensor = padding.reshape(batch, 1, 1, source)
    return columns if mask is None else mask + columns


def _projected(inputs: tuple[Tensor, Tensor, Tensor], weights: Any, bias: Tensor | None) -> list[Tensor]:
    """Queries, keys and values: each input times its own weights, or its third of them."""
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if isinstance(weights, Tensor):
        if inputs[0] is inputs[1] is inputs[2]:
            return list(linear(inputs[0], weights, bias).chunk(3, -1))
        weights = weights.chunk(3)
    if weights is None or any(w is None for w in weights):
        raise AssertionError("multi_head_attention_forward: the weights of queries, keys and values are missing")
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


def _heads(t: Tensor, heads: int, given: Tensor | None = None, name: str = "") -> Tensor:
    """(length, batch, features) as (batch, heads, length, features of a head); or what is given, (batch * heads, length, features of a
    head), in its place."""
    length, batch, width = t.shape
    if given is None:
        return t.reshape(length, batch, heads, width // heads).permute(1, 2, 0, 3)
    for dim, wanted in ((0, batch * heads), (2, width // heads)):
        if given.shape[dim] != wanted:
            raise AssertionError(f"expecting {name}.size({dim}) of {wanted}, but got {given.shape[dim]}")
    return given.reshape(batch, heads, given.shape[1], width // heads)


def _spread(mask: Tensor, batch: int, heads: int, length: int, source: int) -> Tensor:
    """A mask for all, or for each of batch and heads, ready to be added to scores."""
    wanted = (length, source) if mask.ndim == 2 else (batch * heads, length, source)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {wanted}.")
    return mask if mask.ndim == 2 else mask.reshape(batch, heads, length, source)


def _check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int) -> None:
    rank = query.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    kind = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.ndim != rank or value.ndim != rank:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != rank - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead")
    if mask is not None and rank == 2 and mask.ndim == 3 and tuple(mask.shape) != (heads, query.shape[0], key.shape[0]):
        wanted = heads, query.shape[0], key.shape[0]
        raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {mask.shape}")


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, separate: bool) -> None:
    if query.shape[-1] != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {query.shape[-1]}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
