"""Hooks: user code that runs when a gradient reaches a tensor or a node, in PyTorch's order.

    tensor hooks, in order of registration   ->  retain_grad  ->  prehooks of the node  ->  the rule  ->  hooks of the node
    on a leaf: tensor hooks  ->  accumulation in .grad  ->  post-accumulate hooks

A tensor's hooks live on the node that made it, so nothing here points back at the tensor: `retain_grad` holds it weakly.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.dispatch import tensors
from symgrad.dtypes import type_word
from symgrad.engine import is_leaf
from symgrad.escapes import PythonAction
from symgrad.graph import Node, Output, input_order, is_node, named
from symgrad.mode import guard_epoch, local
from symgrad.tensor import Tensor, is_leaf_tensor, refresh

_next_id = itertools.count().__next__


class _Calls(dict[int, Callable[..., Any]]):
    """Callables in order of registration, by id. A dictionary that can be referred to weakly."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Returned by every `register_...hook`: `remove()` takes the hook away, and so does leaving it as a context."""

    def __init__(self, calls: Any, *, extra_dict: Any = None) -> None:
        self.id = _next_id()
        self._calls = _reference(calls)
        self._extra = [_reference(extra) for extra in ([] if extra_dict is None else _listed(extra_dict))]

    def remove(self) -> None:
        for reference in (self._calls, *self._extra):
            calls = reference()
            if calls is not None:
                calls.pop(self.id, None)
        guard_epoch.count += 1

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _reference(calls: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(calls)
    except TypeError:  # a plain dict
        return lambda: calls


def add(calls: Any, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(calls)
    calls[handle.id] = hook
    guard_epoch.count += 1
    return handle


def registered(leaf: Tensor) -> tuple[int, ...]:
    """Which hooks a leaf has."""
    hooks = leaf._hooks
    if hooks is None:
        return ()
    return tuple(id for calls in (*hooks.tensor.values(), hooks.pre, hooks.accumulated, hooks.post) for id in calls)


def _tell(t: Tensor | None, hook: Callable[..., Any] | None, action: PythonAction) -> None:
    """A function that is being traced has a hook of its own for the gradient of a tensor."""
    capture = local.mode.capture
    if capture is not None:
        capture.on_hook(t, hook, action)


class Hooks:
    """The hooks of one node, or of one leaf."""

    __slots__ = ("accumulated", "metadata", "post", "pre", "refill", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, _Calls] = {}
        self.retained: dict[int, weakref.ref[Tensor]] = {}
        self.metadata: dict[Any, Any] = {}
        self.pre = _Calls()
        self.post = _Calls()
        self.accumulated = _Calls()
        self.refill: Callable[[], None] | None = None
        """Brings back saved values that were dropped or packed away; runs before the rule does."""

    def arrive(self, gs: list[Any], backend: Any) -> list[Any]:
        """Cotangents have reached the outputs of the node: what the hooks of those tensors make of them."""
        for index, calls in self.tensor.items():
            if gs[index] is not None:
                gs[index] = _through(calls, gs[index], backend)
        for index, reference in self.retained.items():
            retained = reference()
            if retained is not None and gs[index] is not None:
                retained._grad = _sum(retained._grad, backend.tensor(gs[index]))
        return gs

    def before(self, gs: list[Any], backend: Any) -> list[Any]:
        """The prehooks of the node: they see the gradients of all outputs."""
        for hook in tuple(self.pre.values()):
            given = _tensors(gs, backend)
            gs = _replaced(hook, given, hook(given), gs, backend)
        return gs

    def after(self, results: Sequence[Any], gs: Sequence[Any], backend: Any) -> Sequence[Any]:
        """The hooks of the node: they see what comes out of it, and what went in."""
        for hook in tuple(self.post.values()):
            given = _tensors(results, backend)
            results = _replaced(hook, given, hook(given, _tensors(gs, backend)), list(results), backend)
        return results


def _sum(total: Tensor | None, g: Tensor) -> Tensor:
    if total is not None:
        return total + g
    copied: Tensor = g if g._requires_grad else tensors.cast(g, dtype=g._array.dtype)
    return copied


def _tensors(gs: Sequence[Any], backend: Any) -> tuple[Any, ...]:
    return tuple(None if g is None else backend.tensor(g) for g in gs)


def _name(hook: Any) -> str:
    return str(getattr(hook, "__name__", hook.__class__.__name__))


def _through(calls: _Calls, g: Any, backend: Any) -> Any:
    value = backend.tensor(g)
    for hook in tuple(calls.values()):
        result = hook(value)
        if result is not None:
            check_replacement(hook, value, result)
            value = result
    return backend.value(value)


def _replaced(hook: Any, given: tuple[Any, ...], result: Any, gs: list[Any], backend: Any) -> list[Any]:
    """What a node's hook returned, in place of what it was given."""
    if result is None:
        return gs
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(given):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(results)}, but expected {len(given)})"
        )
    for before, value in zip(given, results, strict=True):
        if before is not None and value is not None:
            check_replacement(hook, before, value)
    return [None if value is None else backend.value(value) for value in results]


def check_replacement(hook: Any, before: Tensor, result: Any) -> None:
    """A hook may return another gradient of the same type."""
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{result.__class__.__name__}' ({_name(hook)})")
    if result._array.shape != before._array.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    if result._array.dtype != before._array.dtype:
        was, got = (f"torch.{type_word(t._array.dtype)}Tensor" for t in (before, result))
        raise RuntimeError(f"hook '{_name(hook)}' has changed the type of value (was {was} got {got})")


def hooks_of(owner: Any) -> Hooks:
    """The hooks of a node or of a leaf, made on first use."""
    slot = "hooks" if isinstance(owner, Node) else "_hooks"
    hooks = getattr(owner, slot)
    if hooks is None:
        hooks = Hooks()
        setattr(owner, slot, hooks)
    return hooks  # type: ignore[no-any-return]


def _place(t: Tensor) -> tuple[Hooks, int]:
    """Where the hooks of a tensor live: with which of the outputs of which node, or with itself."""
    if t._base is not None:
        refresh(t)
    edge = t if t._node is None else t._node
    if edge.__class__ is Output:
        return hooks_of(edge.node), edge.index
    return hooks_of(edge), 0


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` each time a gradient of this tensor is computed. What it returns, if not None, replaces the gradient."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    _tell(self, hook, PythonAction.TENSOR_HOOK)
    hooks, index = _place(self)
    return add(hooks.tensor.setdefault(index, _Calls()), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(leaf)` each time its `.grad` has been accumulated."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not is_leaf_tensor(self):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    _tell(self, None, PythonAction.ACCUMULATE_HOOK)
    return add(hooks_of(self).accumulated, hook)


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf tensor in its `.grad`."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if is_leaf_tensor(self) or retains_grad(self):
        return
    hooks, index = _place(self)
    hooks.retained[index] = weakref.ref(self)
    self._retains = True


def retain_from(self: Tensor, before: Any, after: Any) -> None:
    """A tensor that was written to keeps its gradient at its new place in the graph."""
    old, new = (hooks_of(edge.node if edge.__class__ is Output else edge) for edge in (before, after))
    new.retained[getattr(after, "index", 0)] = old.retained.pop(getattr(before, "index", 0))


def retains_grad(self: Tensor) -> bool:
    """Whether `.grad` of this non-leaf tensor will be kept."""
    if is_leaf_tensor(self):
        return False
    hooks, index = _place(self)
    reference = hooks.retained.get(index)
    return reference is not None and reference() is self


class AccumulateGrad:
    """Where a graph ends: the end of an edge that leads to a leaf, as `grad_fn.next_functions` shows it."""

    __slots__ = ("__weakref__", "variable")

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    @property
    def next_functions(self) -> tuple[Any, ...]:
        return ()

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add(hooks_of(self.variable).pre, hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook((), gradients)` after the accumulation."""
        return add(hooks_of(self.variable).post, hook)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The one AccumulateGrad of a leaf, as long as anybody holds it."""
    reference = leaf._accumulator
    found = None if reference is None else reference()
    if found is None:
        found = AccumulateGrad(leaf)
        leaf._accumulator = weakref.ref(found)
    return found


def next_functions(self: Node) -> tuple[tuple[Any, int], ...]:
    """Where the gradients of this node go: a node and which of its outputs, where a leaf accumulates, or nowhere."""
    return tuple(_function(self.inputs[i]) for i in input_order(self))


def _function(edge: Any) -> tuple[Any, int]:
    if edge.__class__ is Output:
        return named(edge.node), edge.index
    if is_node(edge):
        return named(edge), 0
    return (accumulator(edge) if is_leaf(edge) else None), 0


def metadata(self: Node) -> dict[Any, Any]:
    """A dictionary for the user's own notes."""
    return hooks_of(self).metadata


def register_node_hook(self: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)` each time this node has run; a tuple that it returns replaces grad_inputs."""
    _tell(None, None, PythonAction.NODE_HOOK)
    return add(hooks_of(self).post, hook)


def register_node_prehook(self: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_outputs)` each time before this node runs; a tuple that it returns replaces them."""
    _tell(None, None, PythonAction.NODE_PREHOOK)
    return add(hooks_of(self).pre, hook)


def install() -> None:
    """Give Tensor and Node their methods."""
    for owner, names in (
        (Tensor, {f.__name__: f for f in (register_hook, register_post_accumulate_grad_hook, retain_grad)}),
        (Tensor, {"retains_grad": property(retains_grad), "_retain_from": retain_from}),
        (Node, {"next_functions": property(next_functions), "metadata": property(metadata)}),
        (Node, {"register_hook": register_node_hook, "register_prehook": register_node_prehook}),
    ):
        for name, value in names.items():
            setattr(owner, name, value)
