"""Checkpointing: keep the graph of a part of a model, drop what it saved, compute it again when backward gets there.

Only arrays are dropped. The nodes, their edges and hooks stay, so gradients flow to whatever the function used (also to parameters that
are not among its arguments), to any order, and `autograd.grad` works as without a checkpoint.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from symgrad.application import edge_of
from symgrad.autograd.function import FunctionNode
from symgrad.autograd.grad_mode import enable_grad
from symgrad.autograd.hooks import hooks_of
from symgrad.conversion import is_tensor
from symgrad.engine import is_leaf, node_of
from symgrad.graph import Node, Output, next_sequence
from symgrad.mode import local
from symgrad.pytree import flatten
from symgrad.random import default_generator
from symgrad.saved import first_write
from symgrad.tensor import Tensor, is_leaf_tensor
from symgrad.views import detach

DIFFERS = (
    "checkpoint: the function did not do the same when it was run again during backward ({}). It must depend only on its arguments"
    " and on the random numbers of symgrad's generator."
)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, which keeps no intermediate results for backward: they are computed again there.

    `use_reentrant` is accepted; both settings behave as PyTorch's `use_reentrant=False`.
    """
    first, again = (nullcontext(), nullcontext()) if context_fn is None else context_fn()
    if not local.mode.recording:
        with first:
            return function(*args, **kwargs)
    state = default_generator.get_state() if preserve_rng_state else None
    start = next_sequence()
    with first:
        result = function(*args, **kwargs)
    nodes = _recorded_since(start, result)
    if nodes:
        _Segment(function, args, kwargs, state, again, nodes)
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Any:
    """A chain of functions in `segments` parts, each but the last of them checkpointed."""
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(len(chain) // segments, 1)
    cuts = [size * i for i in range(segments) if size * i < len(chain)]
    for start, end in itertools.pairwise(cuts):
        input = checkpoint(_in_turn(chain[start:end]), input, preserve_rng_state=preserve_rng_state)
    return _in_turn(chain[cuts[-1] :])(input)


def _in_turn(functions: list[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


def _recorded_since(start: int, result: Any) -> list[Node]:
    """The nodes behind the result that are newer than `start`, oldest first."""
    stack = [node_of(t._node) for t in flatten(result, is_tensor)[0] if not is_leaf_tensor(t)]
    found: dict[Node, None] = {}
    while stack:
        node = stack.pop()
        if node.sequence <= start or node in found:
            continue
        found[node] = None
        stack += [node_of(e) for e in node.inputs if not is_leaf(e) and isinstance(node_of(e), Node)]
    return sorted(found, key=lambda node: node.sequence)


class _Segment:
    """A part of the graph without its arrays, and how to bring them back. The nodes refer to it; it refers to them weakly."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, state: Any, context: Any, nodes: list[Node]) -> None:
        self.function = function
        self.origins: dict[Tensor, Any] = {}
        self.args = tuple(self._cut(a) for a in args)
        self.kwargs = {key: self._cut(a) for key, a in kwargs.items()}
        self.state = state
        self.context = context
        self.nodes = [weakref.ref(node) for node in nodes]
        self.cells = [cell for node in nodes for cell in node.cells or ()]
        for node in nodes:
            if node.cells is not None:
                node.saved = node.out = node.cells = None
                hooks_of(node).refill = self

    def _cut(self, value: Any) -> Any:
        """An argument without its history, so that the second run records only itself; `origins` remembers where it came from."""
        if not isinstance(value, Tensor):
            return value
        t = detach(value)
        if value.requires_grad:
            t._requires_grad = True
            self.origins[t] = edge_of(value)
        return t

    def __call__(self) -> None:
        """Run the function again and hand what it saves to the nodes of the first run."""
        if any(map(first_write, self.cells)):
            raise RuntimeError(DIFFERS.format("a tensor that it used has been modified by an inplace operation since"))
        olds, news = [reference() for reference in self.nodes], self._run_again()
        if len(news) != len(olds):
            raise RuntimeError(DIFFERS.format(f"{len(olds)} operations were recorded before, {len(news)} now"))
        pairs = [(old, new) for old, new in zip(olds, news, strict=True) if old is not None]
        for old, new in pairs:
            if old.row is not new.row or old.shape != new.shape:
                before, now = (f"{node.name()} of shape {node.shape}" for node in (old, new))
                raise RuntimeError(DIFFERS.format(f"{before} before, {now} now"))
        edges = {new: old for old, new in pairs} | self.origins
        for old, new in pairs:
            _take_over(old, new, edges)

    def _run_again(self) -> list[Node]:
        now = default_generator.get_state()
        if self.state is not None:
            default_generator.set_state(self.state)
        try:
            with enable_grad(), self.context:
                start = next_sequence()
                return _recorded_since(start, self.function(*self.args, **self.kwargs))
        finally:
            default_generator.set_state(now)

    def adopt(self, edges: dict[Any, Any]) -> None:
        """A segment within one that is being run again works for the nodes of the first run."""
        nodes = [reference() for reference in self.nodes]
        self.nodes = [weakref.ref(edges.get(node, node)) for node in nodes if node is not None]
        self.origins = {t: _first(edge, edges) for t, edge in self.origins.items()}


def _first(edge: Any, edges: dict[Any, Any]) -> Any:
    """The edge of the first run that an edge of the second stands for."""
    if edge.__class__ is Output:
        return Output(edges.get(edge.node, edge.node), edge.index)
    return edges.get(edge, edge) if isinstance(edge, (Node, Tensor)) else edge


def _take_over(old: Node, new: Node, edges: dict[Any, Any]) -> None:
    """`old` gets the values that `new` saved, and keeps its own edges."""
    if old.hooks is None or old.hooks.refill is None:
        return
    inner = None if new.hooks is None else new.hooks.refill
    if isinstance(inner, _Segment):
        inner.adopt(edges)
        old.hooks.refill = inner
        return
    if inner is not None:
        inner()
    old.hooks.refill = None
    assert new.saved is not None
    if isinstance(old, FunctionNode):
        old.saved = tuple(None if entry is None else entry.moved(_first(entry.edge, edges)) for entry in new.saved)
    else:
        own = zip(new.saved, old.inputs, strict=True)
        old.saved = tuple(value if value.__class__ is np.ndarray else edge for value, edge in own)
    old.out, old.cells = new.out, new.cells
