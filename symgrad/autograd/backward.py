"""backward() and grad(): PyTorch's two ways to run the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.application import constant, edge_of, make_node
from symgrad.autograd.hooks import retain_grad
from symgrad.coercion import stands_for_tensor, tensors_of
from symgrad.dispatch import tensors
from symgrad.engine import Backward, call, key_of, saved_arrays
from symgrad.errors import describe
from symgrad.escapes import AUTOGRAD_GRAD, BACKWARD, before_escape
from symgrad.graph import ARRAYS, Node, Output, is_node
from symgrad.lines import warn
from symgrad.mode import Mode, local
from symgrad.ops.namespace import raw
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, refresh, wrap
from symgrad.views import mark_written

_accumulating = threading.Lock()  # graphs in several threads may share leaves


class ArrayBackend:
    """Cotangents are ndarrays; rules run on NumPy's own kernels, without its floating-point warnings: the fast backward."""

    raw = True

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def quiet(self, mode: Mode) -> Callable[..., Any]:
        """What runs a function in the quiet context. Inside it, kernels run as they are: a context cannot be entered twice, and a
        finaliser that the collector calls there may compute with tensors."""
        run = mode.run

        def quietly(function: Callable[..., Any], *args: Any, **attrs: Any) -> Any:
            mode.run = call
            try:
                return run(function, *args, **attrs)
            finally:
                mode.run = run

        return quietly

    def arguments(self, node: Node) -> tuple[Any, Any]:
        return node.saved, node.out

    def fit(self, g: Any, dtype: Any) -> Any:
        if g.dtype == dtype:
            return g
        return (g.real if g.dtype.kind == "c" and dtype.kind != "c" else g).astype(dtype)

    def tensor(self, g: Any) -> Tensor:
        return wrap(g)

    def value(self, g: Tensor) -> Any:
        return g._array

    def accumulate(self, leaf: Tensor, g: Any, owned: bool) -> None:
        with _accumulating:
            grad = leaf._grad
            if grad is None:
                leaf._grad = wrap(g if owned else np.array(g))
            else:
                grad._array += g
                mark_written(grad)


class TensorBackend:
    """Cotangents are recorded tensors: `create_graph=True`."""

    raw = False
    xp = tensors

    def quiet(self, mode: Mode) -> Any:
        return call  # ops on tensors are quiet themselves

    def arguments(self, node: Node) -> tuple[Any, Any]:
        assert node.saved is not None
        cells = {} if node.cells is None else {id(array): cell for array, _, cell in saved_arrays(node)}
        args = tuple([attach(a, e, cells) for a, e in zip(node.saved, node.inputs, strict=True)])
        if node.out.__class__ is tuple:
            return args, tuple([attach(o, Output(node, i), cells) for i, o in enumerate(node.out)])
        return args, attach(node.out, node, cells)

    def fit(self, g: Any, dtype: Any) -> Any:
        return g if g._array.dtype == dtype else tensors.cast(g, dtype=dtype)

    def tie(self, g: Tensor, edge: Any) -> Tensor:
        """A cotangent that does not depend on its argument, recorded as if it did: asking for its derivative gives zeros."""
        if g._requires_grad or local.mode.capture is not None:
            return g
        inputs = (edge_of(g), edge)
        node = make_node(TABLE["tied"], inputs, {}, inputs, None, None)
        node.shape, node.dtype = g._array.shape, g._array.dtype
        return wrap(g._array, True, node)

    def tensor(self, g: Any) -> Tensor:
        assert isinstance(g, Tensor)
        return g

    def value(self, g: Tensor) -> Any:
        return g

    def accumulate(self, leaf: Tensor, g: Any, owned: bool) -> None:
        with _accumulating:
            if local.mode.capture is not None:
                local.mode.capture.before_grad_accumulate(leaf)
            if leaf._grad is None:
                leaf._grad = tensors.cast(g, dtype=g._array.dtype)
            elif local.mode.recording:
                leaf._grad = tensors.add(leaf._grad, g)
            else:  # it is traced or looked at, and does what ArrayBackend does
                leaf._grad.add_(g)


def attach(value: Any, edge: Any, cells: dict[int, list[Any]]) -> Any:
    """A saved array as a tensor that continues the history of its edge, and knows when the original is written to."""
    if value.__class__ not in ARRAYS:
        return value
    if value.__class__ is not np.ndarray:  # a buffer on a device
        return _attach_buffer(value, edge, cells)
    if isinstance(edge, Tensor):
        if edge._array is value:
            return edge
        t = wrap(value, True, _cast_of(edge, value.dtype))
    else:
        known = is_node(edge) or edge.__class__ is Output
        t = wrap(value, known and value.dtype.kind not in "biu", edge if known else None)
    cell = cells.get(id(value))
    if cell is not None:
        t._version_cell = cell
    return t


def _attach_buffer(value: Any, edge: Any, cells: dict[int, list[Any]]) -> Any:
    if isinstance(edge, Tensor) and edge._storage is value:
        return edge
    array = np.asarray(value)
    return attach(array, edge, {id(array): cells[id(value)]} if id(value) in cells else {})


def _cast_of(leaf: Tensor, dtype: Any) -> Node:
    """The history of a value that a leaf had: in another type, or before its `.data` was replaced."""
    node = make_node(TABLE["cast"], (leaf,), {"dtype": dtype}, (leaf,), None, None)
    node.shape, node.dtype = leaf._array.shape, dtype
    return node


_arrays = ArrayBackend(raw)
_recorded = TensorBackend()


def _backward_backend(create_graph: bool) -> Any:
    return _recorded if create_graph or local.mode.capture is not None else _arrays


def _edge(t: Tensor) -> Any:
    if t._base is not None:
        refresh(t)
    return t._node or t


def _seed(i: int, output: Tensor, gradient: Any, backend: Any) -> Any:
    if gradient is None:
        if output._array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if output._array.dtype.kind == "c":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
        one = wrap(np.array(1, output._array.dtype, ndmin=output._array.ndim))  # a third of the time of np.ones
        if local.mode.capture is not None:
            local.mode.capture.on_fill(one, 1)
        return backend.value(one)
    if not isinstance(gradient, Tensor):
        if not stands_for_tensor(gradient):
            raise TypeError(f"gradients can be either Tensors or None, but got {gradient.__class__.__name__}")
        gradient = tensors_of((gradient, output))[0]
        if not gradient._array.ndim and output._array.size == 1:
            gradient = tensors.reshape(gradient, shape=output._array.shape)
    if gradient._array.shape != output._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {gradient.shape} and output[{i}] has a shape of {output.shape}."
        )
    return backend.fit(backend.value(gradient), output._array.dtype)


def _roots(outputs: list[Any], gradients: list[Any], backend: Any) -> list[tuple[Any, Any]]:
    if len(gradients) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(gradients)} gradients")
    roots = []
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise TypeError(f"element {i} of tensors must be a Tensor, got {describe(output)}")
        edge = _edge(output)
        if not output._requires_grad:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        roots.append((edge, _seed(i, output, gradients[i], backend)))
    return roots


def _many(value: Any, count: int | None = None) -> list[Any]:
    if value is None and count is not None:
        return [None] * count
    if isinstance(value, Tensor) or (not isinstance(value, list) and stands_for_tensor(value)):
        return [value]
    return list(value)


CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can cause a"
    " memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this function, make sure"
    " to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def _run(roots: list[tuple[Any, Any]], keep_graph: bool, create_graph: bool, captures: Any = None, accumulates: bool = True) -> None:
    """A backward pass, recorded if it is to be differentiated itself; what is traced computes with tensors, too."""
    mode = local.mode
    recording, mode.recording = mode.recording, create_graph
    try:
        Backward(_backward_backend(create_graph), keep_graph, captures, accumulates, mode).run(roots)
    finally:
        mode.recording = recording


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the leaves' `.grad`; with `inputs`, into theirs only."""
    before_escape(tensors, BACKWARD)
    outputs = _many(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(outputs, _many(grad_tensors, len(outputs)), _backward_backend(create_graph))
    captures = None if inputs is None else _targets(inputs)
    if create_graph:
        warn(CYCLE)
    _run(roots, keep, create_graph, captures)


def _method(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Accumulate the gradient of this tensor into the leaves' `.grad`; with `inputs`, into theirs only."""
    backward(self, gradient, retain_graph, create_graph, inputs)


_method.__name__ = "backward"
Tensor.backward = _method  # type: ignore[method-assign]


def _targets(inputs: Any) -> dict[Any, Any]:
    """The edges of the tensors whose `.grad` is asked for."""
    wanted = _many(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
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
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    before_escape(outputs, AUTOGRAD_GRAD)
    sources, wanted = _many(outputs), _many(inputs)
    _check_inputs(wanted)
    keep = create_graph if retain_graph is None else retain_graph
    seeds = _many(grad_outputs, len(sources))
    if is_grads_batched:
        return _batched(sources, wanted, seeds, keep, create_graph, allow_unused, materialize_grads)
    backend = _backward_backend(create_graph)
    roots = _roots(sources, seeds, backend)
    keys = [key_of(_edge(t)) for t in wanted]
    captures: dict[Any, Any] = dict.fromkeys(keys)
    _run(roots, keep, create_graph, captures, accumulates=False)
    found = [captures[key] for key in keys]
    if materialize_grads:
        found = [backend.value(zero_gradient(t)) if g is None else g for t, g in zip(wanted, found, strict=True)]
    elif not allow_unused and any(g is None for g in found):
        unused = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(
            f"The differentiated Tensor at index {unused} appears to not have been used in the graph. Set"
            " allow_unused=True if this is the desired behavior."
        )
    return tuple(None if g is None else backend.tensor(g) for g in found)


def _check_inputs(wanted: list[Any]) -> None:
    """Raise RuntimeError unless there are tensors to differentiate in, all of which require grad."""
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for t in wanted:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {t.__class__.__name__}")
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")


def zero_gradient(t: Tensor) -> Tensor:
    """The derivative in a tensor of what does not depend on it."""
    return constant(np.zeros_like(t._array), 0)


def _batched(
    sources: list[Any], wanted: list[Any], seeds: list[Any], keep: bool, create_graph: bool, allow_unused: Any, materialize: bool
) -> tuple[Any, ...]:
    """One pass for each entry of the first dimension of `grad_outputs`; the results are stacked."""
    seeds = [seed if seed is None else tensors_of((seed, source))[0] for seed, source in zip(seeds, sources, strict=True)]
    sizes = {seed.shape[0] for seed in seeds if seed is not None}
    if len(sizes) != 1:
        raise ValueError("is_grads_batched=True needs grad_outputs with one common size in their first dimension")
    (size,) = sizes
    rows = []
    for i in range(size):
        chosen = [None if seed is None else seed[i] for seed in seeds]
        last = i == size - 1
        rows.append(grad(sources, wanted, chosen, keep or not last, create_graph, allow_unused, materialize_grads=materialize))
    return tuple(None if column[0] is None else tensors.stack(*column, axis=0) for column in zip(*rows, strict=True))
