"""A whole sequence through a gated recurrent layer, step by step, and back.

The steps stand one after another in the first dimension; `spans` says where each begins and how many rows it has, in the order in which
they run. Rows beyond those of the step before begin there, with their own first state.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def spans(sizes: Sizes, reverse: bool) -> list[tuple[int, int]]:
    """Where each step begins and its number of rows, in the order in which the steps run."""
    starts = accumulate(sizes, initial=0)
    found = list(zip(starts, sizes, strict=False))
    return found[::-1] if reverse else found


def previous(first: Array, out: Array, sizes: Sizes, reverse: bool) -> Array:
    """For each row of the sequence the state before it: that of the step before, or the first one."""
    result = np.empty((sum(sizes), *first.shape[1:]), out.dtype)
    order = spans(sizes, reverse)
    start, rows = order[0]
    result[start : start + rows] = first[:rows]
    for (before, count), (start, rows) in pairwise(order):
        shared = min(rows, count)
        result[start : start + shared] = out[before : before + shared]
        result[start + shared : start + rows] = first[shared:rows]
    return result


def _resized(state: Array, first: Array, rows: int) -> Array:
    """The state before a step, of as many rows as it has."""
    count = len(state)
    return state[:rows] if rows <= count else np.concatenate([state, first[count:rows]])


def _sigmoid_(x: Array) -> None:
    """1 / (1 + exp(-x)) in place; exp may overflow to infinity, whose reciprocal is 0."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def lstm(x: Array, h: Array, c: Array, weight: Array, *, sizes: Sizes, reverse: bool) -> tuple[Array, Array, Array]:
    """Outputs, memories, and gates after their nonlinearities."""
    n = h.shape[-1]
    active, out, memory = np.empty(x.shape, x.dtype), np.empty((len(x), n), x.dtype), np.empty((len(x), n), x.dtype)
    state, cell, turned = h, c, weight.T
    for start, rows in spans(sizes, reverse):
        part = slice(start, start + rows)
        state, cell = _resized(state, h, rows), _resized(cell, c, rows)
        gates = active[part]
        np.dot(state, turned, out=gates)
        gates += x[part]
        candidate = np.tanh(gates[:, 2 * n : 3 * n])
        _sigmoid_(gates)
        gates[:, 2 * n : 3 * n] = candidate
        candidate *= gates[:, :n]
        cell = np.multiply(gates[:, n : 2 * n], cell, out=memory[part])
        cell += candidate
        state = np.tanh(cell, out=out[part])
        state *= gates[:, 3 * n :]
    return out, memory, active


def lstm_back(
    gh: Array | None, gc: Array | None, memory: Array, active: Array, c: Array, weight: Array, sizes: Sizes, reverse: bool
) -> tuple[Array, Array, Array]:
    """The cotangents of the gates before their nonlinearities, and of the first state."""
    n = c.shape[-1]
    result = np.empty(active.shape, active.dtype)
    before = previous(c, memory, sizes, reverse)
    dh, dc = np.zeros(c.shape, c.dtype), np.zeros(c.shape, c.dtype)
    for start, rows in reversed(spans(sizes, reverse)):
        part = slice(start, start + rows)
        gates, slopes, t = active[part], result[part], np.tanh(memory[part])
        i, g, o = gates[:, :n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
        state, cell = dh[:rows], dc[:rows]
        if gh is not None:
            state += gh[part]
        if gc is not None:
            cell += gc[part]
        np.multiply(gates, gates, out=slopes)
        np.subtract(gates, slopes, out=slopes)
        slopes[:, 3 * n :] *= t
        slopes[:, 3 * n :] *= state
        t *= t
        np.subtract(1, t, out=t)
        t *= o
        t *= state
        cell += t
        slopes[:, :n] *= g
        slopes[:, n : 2 * n] *= before[part]
        np.multiply(g, g, out=t)
        np.subtract(1, t, out=t)
        np.multiply(t, i, out=slopes[:, 2 * n : 3 * n])
        slopes[:, : 3 * n].reshape(rows, 3, n)[...] *= cell[:, None]
        cell *= gates[:, n : 2 * n]
        np.dot(slopes, weight, out=state)
    return result, dh, dc


def gru(x: Array, h: Array, weight: Array, bias: Array | None, *, sizes: Sizes, reverse: bool) -> tuple[Array, Array, Array]:
    """Outputs, gates after their nonlinearities, and what the state gives to the candidate before it is gated."""
    n = h.shape[-1]
    active, out, hidden = np.empty(x.shape, x.dtype), np.empty((len(x), n), x.dtype), np.empty((len(x), n), x.dtype)
    state, turned = h, weight.T
    for start, rows in spans(sizes, reverse):
        part = slice(start, start + rows)
        state = _resized(state, h, rows)
        gates = active[part]
        np.dot(state, turned, out=gates)
        if bias is not None:
            gates += bias
        both, new = gates[:, : 2 * n], gates[:, 2 * n :]
        hidden[part] = new
        both += x[part, : 2 * n]
        _sigmoid_(both)
        new *= gates[:, :n]
        new += x[part, 2 * n :]
        np.tanh(new, out=new)
        state = np.subtract(state, new, out=out[part])
        state *= gates[:, n : 2 * n]
        state += new
    return out, active, hidden


def gru_back(
    gh: Array, out: Array, active: Array, hidden: Array, h: Array, weight: Array, sizes: Sizes, reverse: bool
) -> tuple[Array, Array, Array]:
    """The cotangents of the gates, as the input and as the state reach them, and of the first state."""
    n = h.shape[-1]
    by_input, by_state = np.empty(active.shape, active.dtype), np.empty(active.shape, active.dtype)
    before = previous(h, out, sizes, reverse)
    dh = np.zeros(h.shape, h.dtype)
    for start, rows in reversed(spans(sizes, reverse)):
        part = slice(start, start + rows)
        gates, slopes, state = active[part], by_input[part], dh[:rows]
        state += gh[part]
        r, z, new = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n :]
        np.multiply(gates, gates, out=slopes)
        np.subtract(gates[:, : 2 * n], slopes[:, : 2 * n], out=slopes[:, : 2 * n])
        candidate = np.subtract(1, slopes[:, 2 * n :], out=slopes[:, 2 * n :])
        candidate *= state
        candidate *= 1 - z
        slopes[:, :n] *= candidate
        slopes[:, :n] *= hidden[part]
        change = before[part] - new
        change *= state
        slopes[:, n : 2 * n] *= change
        reached = by_state[part]
        reached[...] = slopes
        reached[:, 2 * n :] *= r
        state *= z
        state += np.dot(reached, weight)
    return by_input, by_state, dh
