"""Rows for gated recurrent layers: one direction of a layer, over whole sequences, is one node.

`x` is what the input gives to the gates of each step, the product with its weights taken before; steps stand one after another in the
first dimension, `sizes` rows each (a packed sequence, where later steps have fewer), and run from the last to the first if `reverse`.
Results are the outputs of all steps, and what the rules are written with; a derivative of a rule goes through these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops import kernels
from symgrad.ops.contraction import transposed
from symgrad.ops.kernels.recurrent import spans
from symgrad.ops.spec import Meta
from symgrad.ops.table import row

# --- what both share


def _rows(xp: Any, x: Any, start: int, stop: int) -> Any:
    """Some rows of a matrix; None of None."""
    if x is None or (start, stop) == (0, x.shape[0]):
        return x
    return xp.getitem(x, index=((start, stop, 1), (0, x.shape[1], 1)))


def _gates(xp: Any, x: Any, count: int) -> list[Any]:
    """The gates of a step, which stand side by side."""
    if x is None:
        return [None] * count
    size = x.shape[1] // count
    return [xp.getitem(x, index=((0, x.shape[0], 1), (i * size, (i + 1) * size, 1))) for i in range(count)]


def _sum(x: Any, y: Any) -> Any:
    """Of two cotangents, where None is one that did not come."""
    return x if y is None else y if x is None else x + y


def _joined(xp: Any, parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else xp.cat(*parts, axis=0)


def _previous(xp: Any, first: Any, out: Any, sizes: tuple[int, ...], reverse: bool) -> Any:
    """For each row of the sequence the state before it."""
    if out.__class__ is np.ndarray:
        return kernels.previous(first, out, sizes, reverse)
    found, before, count = {}, 0, 0
    for start, rows in spans(sizes, reverse):
        shared = min(rows, count)
        parts = [_rows(xp, out, before, before + shared)] if shared else []
        found[start] = _joined(xp, parts + ([_rows(xp, first, shared, rows)] if rows > shared else []))
        before, count = start, rows
    return _joined(xp, [found[start] for start in sorted(found)])


def _composed(xp: Any, x: Any, first: tuple[Any, ...], step: Callable[..., Any], sizes: tuple[int, ...], reverse: bool) -> tuple[Any, ...]:
    """The results of `step(x, *state)` for all steps, of which the first are the next state."""
    state, found = first, {}
    for start, rows in spans(sizes, reverse):
        count = state[0].shape[0]
        if rows <= count:
            state = tuple(_rows(xp, s, 0, rows) for s in state)
        else:
            state = tuple(_joined(xp, [s, _rows(xp, f, count, rows)]) for s, f in zip(state, first, strict=True))
        found[start] = step(_rows(xp, x, start, start + rows), *state)
        state = found[start][: len(first)]
    return tuple(_joined(xp, list(results)) for results in zip(*(found[start] for start in sorted(found)), strict=True))


def _type(name: str, count: int) -> Callable[..., tuple[Meta, ...]]:
    def check(x: Any, h: Any, *rest: Any, sizes: tuple[int, ...], reverse: bool) -> tuple[Meta, ...]:
        weight = rest[count - 3]  # an LSTM has four gates, and a memory before its weights
        rows, n = sum(sizes), h.shape[-1]
        if tuple(x.shape) != (rows, count * n) or tuple(weight.shape) != (count * n, n) or max(sizes) != h.shape[0]:
            raise RuntimeError(
                f"{name}: steps of {list(sizes)} rows and a state of shape {list(h.shape)} need an input of shape {[rows, count * n]} and"
                f" weights of shape {[count * n, n]}, got {list(x.shape)} and {list(weight.shape)}"
            )
        wide, narrow = Meta((rows, count * n), x.dtype), Meta((rows, n), x.dtype)
        return (narrow, narrow, wide) if count == 4 else (narrow, wide, narrow)

    return check


# --- lstm: i, f, g, o = x + weight h;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c').  Results: h', c', and σ(i), σ(f), tanh(g), σ(o)


def _lstm_compose(xp, x, h, c, weight, *, sizes, reverse):
    def step(x, h, c):
        i, f, g, o = _gates(xp, x + xp.matmul(h, transposed(xp, weight)), 4)
        i, f, g, o = xp.sigmoid(i), xp.sigmoid(f), xp.tanh(g), xp.sigmoid(o)
        new = f * c + i * g
        return o * xp.tanh(new), new, xp.cat(i, f, g, o, axis=1)

    return _composed(xp, x, (h, c), step, sizes, reverse)


def _lstm_prepare(xp, g, out, x, h, c, weight, *, sizes, reverse):
    """The cotangents of x, h and c: the chain rule from the last step to the first."""
    _, memory, active = out
    if active.__class__ is np.ndarray and g[2] is None:
        return kernels.lstm_back(g[0], g[1], memory, active, c, weight, sizes, reverse)
    before, found, dh, dc = _previous(xp, c, memory, sizes, reverse), {}, xp.zero(c), xp.zero(c)
    for start, rows in reversed(spans(sizes, reverse)):
        gh, gc, direct, cell, t, gates = (_rows(xp, part, start, start + rows) for part in (*g, before, memory, active))
        i, f, new, o = _gates(xp, gates, 4)
        t = xp.tanh(t)
        gh, gc = _sum(_rows(xp, dh, 0, rows), gh), _sum(_rows(xp, dc, 0, rows), gc)
        gc = gc + gh * o * (1 - t * t)
        terms = zip((gc * new, gc * cell, gc * i, gh * t), _gates(xp, direct, 4), strict=True)
        gi, gf, gg, go = (_sum(term, extra) for term, extra in terms)
        slopes = xp.cat(gi * (i - i * i), gf * (f - f * f), gg * (1 - new * new), go * (o - o * o), axis=1)
        found[start] = slopes
        dh, dc = (
            new if rows == full.shape[0] else xp.cat(new, _rows(xp, full, rows, full.shape[0]), axis=0)
            for new, full in ((xp.matmul(slopes, weight), dh), (gc * f, dc))
        )
    return _joined(xp, [found[start] for start in sorted(found)]), dh, dc


def _lstm_weight(xp, g, out, x, h, c, weight, *, sizes, reverse):
    return xp.matmul(transposed(xp, g[0]), _previous(xp, h, out[0], sizes, reverse))


row(
    "lstm", "x h c weight / sizes reverse", kernels.lstm,
    (
        lambda xp, g, out, x, h, c, weight, **attrs: g[0],
        lambda xp, g, out, x, h, c, weight, **attrs: g[1],
        lambda xp, g, out, x, h, c, weight, **attrs: g[2],
        _lstm_weight,
    ),
    saves=("c weight out1 out2", "c weight out1 out2", "c weight out1 out2", "h c weight out0 out1 out2"), prepare=_lstm_prepare,
    compose=_lstm_compose, outputs=3, policy="same", kinds="f", type=_type("lstm", 4), display="MkldnnRnnLayerBackward0",
)  # fmt: skip


# --- gru: r, z = σ(x + weight h + bias);  n = tanh(x + r q), q = weight h + bias;  h' = n + z (h - n).  Results: h', and r, z, n, and q


def _gru_compose(xp, x, h, weight, bias, *, sizes, reverse):
    def step(x, h):
        product = xp.matmul(h, transposed(xp, weight))
        (xr, xz, xn), (hr, hz, q) = _gates(xp, x, 3), _gates(xp, product if bias is None else product + bias, 3)
        r, z = xp.sigmoid(xr + hr), xp.sigmoid(xz + hz)
        n = xp.tanh(xn + r * q)
        return n + z * (h - n), xp.cat(r, z, n, axis=1), q

    return _composed(xp, x, (h,), step, sizes, reverse)


def _gru_prepare(xp, g, out, x, h, weight, bias, *, sizes, reverse):
    """The cotangents of the gates, as the input and as the state reach them, and of the first state."""
    _, active, hidden = out
    if active.__class__ is np.ndarray and g[1] is None and g[2] is None:
        return kernels.gru_back(g[0], out[0], active, hidden, h, weight, sizes, reverse)
    before, by_input, by_state, dh = _previous(xp, h, out[0], sizes, reverse), {}, {}, xp.zero(h)
    for start, rows in reversed(spans(sizes, reverse)):
        gh, direct, gq, old, gates, q = (_rows(xp, part, start, start + rows) for part in (*g, before, active, hidden))
        (r, z, n), (gr, gz, gn) = _gates(xp, gates, 3), _gates(xp, direct, 3)
        gh = _sum(_rows(xp, dh, 0, rows), gh)
        gn = _sum(gh * (1 - z), gn) * (1 - n * n)
        gr, gz = _sum(gn * q, gr) * (r - r * r), _sum(gh * (old - n), gz) * (z - z * z)
        by_input[start], by_state[start] = xp.cat(gr, gz, gn, axis=1), xp.cat(gr, gz, _sum(gn * r, gq), axis=1)
        new = gh * z + xp.matmul(by_state[start], weight)
        dh = new if rows == dh.shape[0] else xp.cat(new, _rows(xp, dh, rows, dh.shape[0]), axis=0)
    return (*(_joined(xp, [found[start] for start in sorted(found)]) for found in (by_input, by_state)), dh)


def _gru_weight(xp, g, out, x, h, weight, bias, *, sizes, reverse):
    return xp.matmul(transposed(xp, g[1]), _previous(xp, h, out[0], sizes, reverse))


row(
    "gru", "x h weight bias / sizes reverse", kernels.gru,
    (
        lambda xp, g, out, x, h, weight, bias, **attrs: g[0],
        lambda xp, g, out, x, h, weight, bias, **attrs: g[2],
        _gru_weight,
        lambda xp, g, out, x, h, weight, bias, **attrs: g[1],
    ),
    saves="h weight out0 out1 out2", prepare=_gru_prepare, compose=_gru_compose, outputs=3, policy="same", kinds="f", type=_type("gru", 3),
    display="GruBackward0",
)  # fmt: skip
