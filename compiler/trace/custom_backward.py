"""Trace the backward of a user's Function, and hooks that replace gradients, while the function around them is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.autograd.backward import TensorBackend
from symgrad.autograd.hooks import check_replacement
from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.custom import custom, holes, hooked, result_holes, undifferentiable
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.engine import key_of
from symgrad.errors import TraceError
from symgrad.mode import local
from symgrad.tensor import Tensor, wrap

if TYPE_CHECKING:
    from symgrad.compiler.trace.tracer import GraphTracer


def trace_backward(capture: GraphTracer, node: Any, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Give the results of a Function, whose forward has been traced, the derivatives that its own backward computes. A backward that cannot
    be traced is no error until a derivative is taken."""
    found = {i: t for i, t in enumerate(results) if isinstance(t, Tensor) and t._requires_grad}
    if not found:
        return
    values = [capture.value(t) for t in found.values()]
    needs = [isinstance(a, Tensor) and a._requires_grad for a in args]
    operands = [capture.value(a) for a, need in zip(args, needs, strict=True) if need]
    try:
        with _placeholders_for(capture, list(found.values()), args):
            cotangents = _traced_cotangents(capture, node, dict(zip(found, holes(values), strict=True)), needs)
    except Exception as error:  # raised again only if a derivative is taken
        line = str(error) if isinstance(error, TraceError) else f"{user_line()}: {error}"
        new: Any = tuple(apply(undifferentiable(node.row), (v, *operands), {"line": line}) for v in values)
    else:
        new = custom(values, operands, cotangents)
    for t, value in zip(found.values(), new, strict=True):
        capture.lines.setdefault(value, user_line())
        _bind_result(capture, t, args, value)


@contextmanager
def _placeholders_for(capture: GraphTracer, results: Sequence[Tensor], args: Sequence[Any] = ()) -> Iterator[None]:
    """Context in which placeholders stand for `results`, which a backward may read. A result in the array of another argument is left out:
    it counts as that argument."""
    before = {}
    for t, value in zip(results, result_holes([capture.value(t) for t in results]), strict=True):
        if not any(isinstance(a, Tensor) and a is not t and a._array is t._array for a in args):
            before[id(t._array)] = capture.storages[id(t._array)]
            storage = capture.storages[id(t._array)] = TracedStorage(value)
            storage.node_key = None if t._node is None else key_of(t._node)
    try:
        yield
    finally:
        capture.storages.update(before)


def _bind_result(capture: GraphTracer, t: Tensor, args: tuple[Any, ...], value: Value) -> None:
    """Let `value` stand for the result `t`: an argument that forward wrote to, a tensor that forward created, or another tensor around
    storage that is known already."""
    if any(t is a for a in args):
        capture.write_value(t, value)
    elif id(t) in capture.known_ids and capture.storages[id(t._array)].parent is None:
        capture.bind(t, value)
    else:
        capture.known_ids.discard(id(t))
        capture.detached_histories.add_result(t, value)


def _traced_cotangents(capture: GraphTracer, node: Any, unknown: dict[int, Value], needs: Sequence[bool]) -> list[Value | None]:
    """The cotangents of the arguments that need one, computed by the Function's own backward from placeholder cotangents of its results
    (`unknown`, by result position); None where the backward returns None."""
    gs: list[Any] = [None] * len(node.shape)
    for i, value in unknown.items():
        g = gs[i] = wrap(np.zeros(value.shape, value.dtype), True)
        capture.bind(g, value)
    found = _run_without_values(capture, lambda: node.row.pullback(TensorBackend(), node, tuple(gs), list(needs)))
    return [None if g is None else capture.value(g) for g, need in zip(found, needs, strict=True) if need]


def _run_without_values(capture: GraphTracer, run: Callable[[], Any]) -> Any:
    """Run the user's code on gradients that have no values yet: with recording on, and without path conditions on values."""
    mode = local.mode
    recording, mode.recording = mode.recording, True
    followed, capture.allow_branches = capture.allow_branches, False  # the zeros are placeholders: no branch may depend on them
    try:
        return run()
    finally:
        mode.recording, capture.allow_branches = recording, followed


def trace_hook(capture: GraphTracer, t: Tensor, hook: Callable[[Tensor], Any], title: str) -> None:
    """Record a gradient hook of `t`, a tensor that the function created, as an identity op whose backward is the hook."""
    value = capture.value(t)
    if any(value is a for v in capture.lines for a in v.args):
        capture.refuse_gradients(f"{title} comes after a use of its tensor, in which derivatives would not see it; register it before")
        return
    (unknown,) = holes([value])
    g = wrap(np.zeros(value.shape, value.dtype), True)
    capture.bind(g, unknown)
    try:
        with _placeholders_for(capture, [t]):
            found = _run_without_values(capture, lambda: hook(g))
        if found is not None:
            check_replacement(hook, g, found)
    except TraceError as error:
        capture.refuse_gradients(f"no graph can follow a hook: {error}")
        return
    except (TypeError, RuntimeError) as error:  # the hook itself fails, as it will when it is called
        capture.refuse_gradients(str(error))
        return
    new = hooked(value, capture.value(g if found is None else found))
    storage = capture.storages[id(t._array)]
    storage.value = new
    if storage.node_key is not None:
        capture.node_values[storage.node_key] = new
