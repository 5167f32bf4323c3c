"""A whole sequence through a gated recurrent layer, step by step, and back.

The steps stand one after another in the first dimension; `spans` says where each begins and how many rows it has, in the order in which
they run. Rows beyond those of the step before begin there, with their own first state.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from ...typing import Array, Shape


def spans(sizes: Shape, reverse: bool) -> list[tuple[int, int]]:
    """Where each step begins and its number of rows, in the order in which the steps run."""
    starts = accumulate(sizes, initial=0)
    found = list(zip(starts, sizes, strict=False))
    return found[::-1] if reverse else found


def previous(first: Array, out: Array, sizes: Shape, reverse: bool) -> Array:
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


def _turned(weight: Array, sizes: Shape) -> Array:
    """The weights as a product from the right wants them: their copy pays for itself in two steps."""
    return weight.T if len(sizes) < 2 else np.ascontiguousarray(weight.T)


def _sigmoid_(x: Array) -> None:
    """1 / (1 + exp(-x)) in place; exp may overflow to infinity, whose reciprocal is 0."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def _columns(x: Array, count: int) -> list[Array]:
    """The gates, which stand side by side."""
    n = x.shape[1] // count
    return [x[:, i * n : (i + 1) * n] for i in range(count)]


def _slopes(x: Array) -> Array:
    """x - x², the slope of a sigmoid whose values are x."""
    square: Array = x * x
    np.subtract(x, square, out=square)
    return square


def _tanh_slopes(x: Array) -> Array:
    """1 - x², the slope of a tanh whose values are x."""
    square: Array = x * x
    np.subtract(1, square, out=square)
    return square


def lstm(x: Array, h: Array, c: Array, weight: Array, *, sizes: Shape, reverse: bool) -> tuple[Array, Array, Array]:
    """Outputs, memories, and gates after their nonlinearities."""
    n = h.shape[-1]
    active, out, memory = np.empty(x.shape, x.dtype), np.empty((len(x), n), x.dtype), np.empty((len(x), n), x.dtype)
    state, cell, turned = h, c, _turned(weight, sizes)
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
    gh: Array | None, gc: Array | None, memory: Array, active: Array, c: Array, weight: Array, sizes: Shape, reverse: bool
) -> tuple[Array, Array, Array]:
    """The cotangents of the gates before their nonlinearities, and of the first state. Slopes are taken for all steps at once: at a step
    they are multiplied by what arrives there."""
    n, before = c.shape[1], previous(c, memory, sizes, reverse)
    result, t = _slopes(active), np.tanh(memory)
    (i, f, g, o), (gi, gf, gg, go) = _columns(active, 4), _columns(result, 4)
    gi *= g
    gf *= before
    np.multiply(_tanh_slopes(g), i, out=gg)
    go *= t
    by_output = _tanh_slopes(t)  # of the memory
    by_output *= o
    by_memory = result[:, : 3 * n].reshape(len(result), 3, n)
    dh, dc = np.zeros(c.shape, c.dtype), np.zeros(c.shape, c.dtype)
    for start, rows in reversed(spans(sizes, reverse)):
        part, state, cell = slice(start, start + rows), dh[:rows], dc[:rows]
        if gh is not None:
            state += gh[part]
        if gc is not None:
            cell += gc[part]
        go[part] *= state
        cell += np.multiply(by_output[part], state, out=state)
        by_memory[part] *= cell[:, None]
        cell *= f[part]
        np.dot(result[part], weight, out=state)
    return result, dh, dc


def gru(x: Array, h: Array, weight: Array, bias: Array | None, *, sizes: Shape, reverse: bool) -> tuple[Array, Array, Array]:
    """Outputs, gates after their nonlinearities, and what the state gives to the candidate before it is gated."""
    n = h.shape[-1]
    active, out, hidden = np.empty(x.shape, x.dtype), np.empty((len(x), n), x.dtype), np.empty((len(x), n), x.dtype)
    state, turned = h, _turned(weight, sizes)
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
    gh: Array, out: Array, active: Array, hidden: Array, h: Array, weight: Array, sizes: Shape, reverse: bool
) -> tuple[Array, Array, Array]:
    """The cotangents of the gates, as the input and as the state reach them, and of the first state."""
    n, before = h.shape[1], previous(h, out, sizes, reverse)
    by_input = _slopes(active)
    (r, z, new), (gr, gz, gn) = _columns(active, 3), _columns(by_input, 3)
    np.multiply(_tanh_slopes(new), 1 - z, out=gn)
    gr *= hidden
    gr *= gn
    before -= new
    gz *= before
    by_state = by_input.copy()
    by_state[:, 2 * n :] *= r
    all_gates, dh = by_state.reshape(len(out), 3, n), np.zeros(h.shape, h.dtype)
    for start, rows in reversed(spans(sizes, reverse)):
        part, state = slice(start, start + rows), dh[:rows]
        state += gh[part]
        all_gates[part] *= state[:, None]
        gn[part] *= state
        state *= z[part]
        state += np.dot(by_state[part], weight)
    by_input[:, : 2 * n] = by_state[:, : 2 * n]
    return by_input, by_state, dh
