"""backward() and grad(): PyTorch's two ways to run the engine."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.autograd.hooks import retain_grad
from symgrad.dispatch import tensors
from symgrad.engine import Backward, RawLane, key_of
from symgrad.errors import describe
from symgrad.graph import Constant, Node, Output
from symgrad.mode import local
from symgrad.ops.namespace import raw
from symgrad.tensor import Tensor, refresh, wrap
from symgrad.views import mark_written

_accumulating = threading.Lock()  # graphs in several threads may share leaves


class ArrayLane(RawLane):
    """Cotangents are ndarrays: the fast backward."""

    def tensor(self, g: Any) -> Tensor:
        return wrap(g)

    def value(self, g: Tensor) -> Any:
        return g._array

    def accumulate(self, leaf: Tensor, g: Any, owned: bool) -> None:
        with _accumulating:
            grad = leaf._grad
            if grad is None:
                leaf._grad = wrap(g if owned else np.array(g))
            elif grad._requires_grad:
                leaf._grad = tensors.add(grad, wrap(g))
            else:
                grad._array += g
                mark_written(grad)


class TensorLane:
    """Cotangents are recorded tensors: `create_graph=True`."""

    raw = False
    xp = tensors

    anomaly: Any = None

    def quietly(self, function: Any, *args: Any, **attrs: Any) -> Any:
        return function(*args, **attrs)  # ops on tensors are quiet themselves

    def arguments(self, node: Node) -> tuple[Any, Any]:
        assert node.saved is not None
        args = tuple(_attach(a, e) for a, e in zip(node.saved, node.inputs, strict=True))
        if node.out.__class__ is tuple:
            return args, tuple(_attach(o, Output(node, i)) for i, o in enumerate(node.out))
        return args, _attach(node.out, node)

    def fit(self, g: Any, dtype: Any) -> Any:
        return g if g._array.dtype == dtype else tensors.cast(g, dtype=dtype)

    def tensor(self, g: Any) -> Tensor:
        assert isinstance(g, Tensor)
        return g

    def value(self, g: Tensor) -> Any:
        return g

    def accumulate(self, leaf: Tensor, g: Any, owned: bool) -> None:
        with _accumulating:
            leaf._grad = tensors.cast(g, dtype=g._array.dtype) if leaf._grad is None else tensors.add(leaf._grad, g)


def _attach(value: Any, edge: Any) -> Any:
    """A saved array as a tensor that continues the history of its edge."""
    if value.__class__ is not np.ndarray:
        return value
    cls = edge.__class__
    if cls is Node or cls is Output:
        return wrap(value, value.dtype.kind not in "biu", edge)
    if cls is Constant or not isinstance(edge, Tensor):
        return wrap(value)
    return edge if edge._array is value else tensors.cast(edge, dtype=value.dtype)


_arrays = ArrayLane(raw)
_recorded = TensorLane()


def _edge(t: Tensor) -> Any:
    if t._base is not None:
        refresh(t)
    return t if t._node is None else t._node


def _seed(output: Tensor, gradient: Tensor | None, lane: Any) -> Any:
    if gradient is None:
        if output._array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return lane.value(wrap(np.ones_like(output._array)))
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {describe(gradient)}")
    if gradient._array.shape != output._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has a shape of {output.shape}."
        )
    return lane.value(gradient)


def _roots(outputs: Sequence[Tensor], gradients: Sequence[Tensor | None], lane: Any) -> list[tuple[Any, Any]]:
    for i, output in enumerate(outputs):
        if not output.requires_grad:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
    return [(_edge(t), _seed(t, g, lane)) for t, g in zip(outputs, gradients, strict=True)]


def _many(value: Any, count: int | None = None) -> list[Any]:
    if value is None and count is not None:
        return [None] * count
    return [value] if isinstance(value, Tensor) else list(value)


CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can cause a"
    " memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this function, make sure"
    " to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


class _grad_mode:
    """Recording on or off for the time of a backward pass."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        mode = local.mode
        self.before, mode.recording = mode.recording, self.enabled

    def __exit__(self, *exc: object) -> None:
        local.mode.recording = self.before


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the leaves' `.grad`; with `inputs`, into theirs only."""
    outputs = _many(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    lane: Any = _recorded if create_graph else _arrays
    roots = _roots(outputs, _many(grad_tensors, len(outputs)), lane)
    captures = None if inputs is None else _targets(inputs)
    if create_graph:
        warnings.warn(CYCLE, stacklevel=3)
    with _grad_mode(create_graph):
        Backward(lane, keep, captures, captures is not None).run(roots)


def _targets(inputs: Any) -> dict[Any, Any]:
    """The edges of the tensors whose `.grad` is asked for."""
    wanted = _many(inputs)
    if not wanted:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    for t in wanted:
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        retain_grad(t)
    return {key_of(_edge(t)): None for t in wanted}


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` in `inputs`, as a tuple; `.grad` is left alone."""
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched: use symgrad.func.vmap over grad_outputs instead")
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    sources, wanted = _many(outputs), _many(inputs)
    for t in wanted:
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    lane: Any = _recorded if create_graph else _arrays
    roots = _roots(sources, _many(grad_outputs, len(sources)), lane)
    captures: dict[Any, Any] = {key_of(_edge(t)): None for t in wanted}
    with _grad_mode(create_graph):
        Backward(lane, keep, captures).run(roots)
    found: list[Any] = [captures[key_of(_edge(t))] for t in wanted]
    if any(g is None for g in found):
        if materialize_grads:
            found = [lane.value(wrap(np.zeros_like(t._array))) if g is None else g for t, g in zip(wanted, found, strict=True)]
        elif not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the"
                " desired behavior."
            )
    return tuple(None if g is None else lane.tensor(g) for g in found)
