"""The fallback of batching: rows without a batching rule run their own kernel on each slice.

    solve_batched(a, b)  ->  stack(solve(a₀, b₀), solve(a₁, b₁), ...)        in JAX, `jax.vmap` of the row

Their derivatives are those of the row for one slice, batched in turn, so that derivatives of every order exist.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.autodiff.batch import batched
from symgrad.compiler.autodiff.pull import pull
from symgrad.compiler.ir.builder import apply, xp as graphs
from symgrad.compiler.ir.graph import Graph, Value, input_value, row_of
from symgrad.compiler.ir.replay import replay
from symgrad.ops.spec import Meta, Row

BatchedArgs = tuple[bool, ...]
"""For each argument, True if it has the batch dimension."""


def map_slices(v: Value, args: Sequence[tuple[Any, bool]], size: int) -> Any:
    """Apply the row of `v` to each slice of its batched arguments."""
    row, has = row_of(v), tuple(has for _, has in args)
    row = _mapped_row(row, has) if row.foreign is None else row.foreign.batched(has, size).row
    return apply(row, tuple(a for a, _ in args), dict(v.attrs))


@functools.cache
def _mapped_row(row: Row, has: BatchedArgs) -> Row:
    """Return a row that runs `row` for each slice of the arguments that have the batch dimension."""

    def slices(args: Sequence[Any], i: int) -> list[Any]:
        return [a[i] if one else a for a, one in zip(args, has, strict=True)]

    def numpy(*args: Any, **attrs: Any) -> Any:
        results = [row.numpy(*slices(args, i), **attrs) for i in range(_size(args, has))]
        return tuple(map(np.stack, zip(*results, strict=True))) if isinstance(results[0], tuple) else np.stack(results)

    def type(*metas: Any, **attrs: Any) -> Any:
        size = _size(metas, has)
        found = row.type(*(None if m is None else _slice(m, one) for m, one in zip(metas, has, strict=True)), **attrs)
        grown = tuple(Meta((size, *m.shape), m.dtype) for m in (found if isinstance(found, tuple) else (found,)))
        return grown if isinstance(found, tuple) else grown[0]

    def jax(*operands: str | None, **attrs: Any) -> str:
        names = [None if x is None else f"a{i}" for i, x in enumerate(operands)]
        given = ", ".join(x for x in operands if x is not None)
        axes = ", ".join("0" if one else "None" for x, one in zip(operands, has, strict=True) if x is not None)
        heads = ", ".join(n for n in names if n is not None)
        return f"jax.vmap(lambda {heads}: {_text(row, names, attrs)}, in_axes=({axes},))({given})"

    def compose(xp: Any, *args: Any, **attrs: Any) -> Any:
        assert row.compose is not None
        inner: Any = row.compose
        return _lifted(xp, args, has, lambda *slots: inner(graphs, *slots, **attrs))

    args = tuple(f"x{i}" for i in range(len(has)))
    rules = tuple(None if row.rule(i) is None else _rule(row, has, i) for i in range(len(has)))
    name = f"{row.name}_batched" + ("" if all(has) else "_" + "".join("01"[one] for one in has))
    whole = row.jax is None and row.compose is not None  # its lowering is that of its composition
    return Row(
        name, args, numpy, rules, (frozenset(args),) * len(has), row.policy, type, jax=None if whole else jax,
        compose=compose if whole else None, attrs=row.attrs, outputs=row.outputs, complex="own",
    )  # fmt: skip


def _size(args: Sequence[Any], has: BatchedArgs) -> int:
    return int(next(a.shape[0] for a, one in zip(args, has, strict=True) if one))


def _slice(x: Any, has: bool) -> Meta:
    """Return the type of one slice."""
    return Meta(tuple(x.shape[1:] if has else x.shape), np.dtype(x.dtype))


def _rule(row: Row, has: BatchedArgs, i: int) -> Callable[..., Any]:
    """Return the rule of argument i: the cotangents that `row` has for each slice, stacked. An argument without the batch dimension was
    broadcast over the slices; the caller sums its cotangent."""

    def rule(xp: Any, g: Any, out: Any, *args: Any, **attrs: Any) -> Any:
        gs = [(k, one) for k, one in enumerate(g if isinstance(g, tuple) else (g,)) if one is not None]

        def pulled(*slots: Any) -> Any:
            operands, cotangents = slots[: len(args)], slots[len(args) :]
            result = apply(row, operands, attrs)
            results = result if isinstance(result, tuple) else (result,)
            return pull({results[k]: c for (k, _), c in zip(gs, cotangents, strict=True)}, operands[i : i + 1])[0]

        return _lifted(xp, (*args, *(one for _, one in gs)), (*has, *(True for _ in gs)), pulled)

    return rule


def _lifted(xp: Any, args: Sequence[Any], has: BatchedArgs, function: Callable[..., Any]) -> Any:
    """Apply `function` to graph values for one slice, batch the result, and run it on `args` in any `xp`."""
    size, given = _size(args, has), [(a, one) for a, one in zip(args, has, strict=True) if a is not None]
    types = [_slice(a, one) for a, one in given]
    slots = [input_value(k, m.shape, m.dtype) for k, m in enumerate(types)]
    wholes = [input_value(k, (size, *slot.shape), slot.dtype) if given[k][1] else slot for k, slot in enumerate(slots)]
    filled = iter(slots)
    found = function(*(None if a is None else next(filled) for a in args))
    several = found if isinstance(found, tuple) else (found,)
    outputs = batched(several, {slots[k]: wholes[k] for k, (_, one) in enumerate(given) if one}, size, last=False)
    results = tuple(replay(xp, Graph(wholes, outputs), [a for a, _ in given]))
    return results if isinstance(found, tuple) else results[0]


def _text(row: Row, names: Sequence[str | None], attrs: dict[str, Any]) -> str:
    """Return the call that lowers a row, as the emitter writes it."""
    if callable(row.jax):
        return row.jax(*names, **attrs)
    call = row.jax or f"jnp.{row.numpy.__name__ if isinstance(row.numpy, np.ufunc) else row.name}"
    keywords = (f"{k}={f'jnp.{x.name}' if isinstance(x, np.dtype) else repr(x)}" for k, x in attrs.items())
    return f"{call}({', '.join((*(str(n) for n in names), *keywords))})"
