"""One direction of a recurrent layer, step by step; in a traced function as a loop, if it is long enough."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.control import is_traced, scan
from symgrad.from_data import tensor
from symgrad.functional import addmm, cat
from symgrad.nn import functional as F
from symgrad.tensor import Tensor

State = tuple[Tensor, ...]
LOOP = 8
"""From so many steps on, of the same rows, a layer of a traced function is a loop in the graph; fewer are written out."""


def after_last(states: Tensor, sizes: list[int], reverse: bool) -> Tensor:
    """The state of each sequence after its last step, out of the states after all steps."""
    if reverse:
        return states[: sizes[0]]
    if sizes[0] == sizes[-1]:
        return states[-sizes[0] :] if sizes[0] else states
    ends = [(sum(sizes[:step]), size, after) for step, (size, after) in enumerate(zip(sizes, [*sizes[1:], 0], strict=True))]
    return states.index_select(0, tensor([start + i for start, size, after in reversed(ends) for i in range(after, size)]))


def is_loop(sizes: list[int]) -> bool:
    """Whether these steps are to be a loop in the graph of a traced function."""
    return len(sizes) >= LOOP and sizes[0] == sizes[-1] and is_traced()


def stepwise(
    step: Callable[[Tensor, State], State], data: Tensor, sizes: list[int], start: State, reverse: bool
) -> tuple[Tensor, State]:
    """One direction of a layer, given a step as a function of what it takes from the input and the state before it."""
    if is_loop(sizes):
        return looped(step, data, sizes, start, reverse)
    inputs = data.split(sizes)
    inputs = inputs[::-1] if reverse else inputs
    count = inputs[0].shape[0]
    state = start if count == start[0].shape[0] else tuple(s[:count] for s in start)
    outs: list[Tensor] = []
    ended: list[State] = []
    for x in inputs:
        rows = x.shape[0]
        if rows < count:  # sequences have ended: the last ones
            ended.append(tuple(s[rows:] for s in state))
            state = tuple(s[:rows] for s in state)
        elif rows > count:  # backwards, shorter sequences begin later
            state = tuple(cat([s, first[count:rows]]) for s, first in zip(state, start, strict=True))
        count = rows
        state = step(x, state)
        outs.append(state[0])
    if ended:
        state = tuple(cat(parts) for parts in zip(state, *reversed(ended), strict=True))
    return cat(outs[::-1] if reverse else outs), state


def looped(
    step: Callable[[Tensor, State], State], data: Tensor, sizes: list[int], start: State, reverse: bool
) -> tuple[Tensor, State]:
    """The same as one loop, for steps that have the same rows."""

    def one(state: State, x: Tensor) -> tuple[State, Tensor]:
        state = step(x, state)
        return state, state[0]

    last, out = scan(one, start, data.reshape(len(sizes), sizes[0], data.shape[1]), reverse=reverse)
    return out.reshape(data.shape[0], out.shape[2]), last


def long_short_term(hidden: Tensor, projection: Tensor | None) -> Callable[[Tensor, State], State]:
    """A step of an LSTM whose output may be projected."""

    def step(x: Tensor, state: State) -> State:
        i, f, g, o = addmm(x, state[0], hidden).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h if projection is None else F.linear(h, projection), c

    return step


def gated(hidden: Tensor, bias: Tensor | None) -> Callable[[Tensor, State], State]:
    """A step of a GRU."""

    def step(x: Tensor, state: State) -> State:
        (h,) = state
        (r, z, n), (hr, hz, hn) = x.chunk(3, 1), F.linear(h, hidden, bias).chunk(3, 1)
        z = (z + hz).sigmoid()
        return ((1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * h,)

    return step
