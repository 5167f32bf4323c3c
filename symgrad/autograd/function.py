"""Function: an operation whose gradient the user writes.

Each call records one node, to which all outputs point with Output edges. The node holds `ctx`; `ctx` knows its node weakly, and an
output that was saved is kept as an array, so that a Function leaves no reference cycle behind.
"""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.application import constant, edge_of
from symgrad.autograd.anomaly import remember
from symgrad.graph import Node, Output, next_sequence
from symgrad.mode import local
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Row
from symgrad.saved import FREED, first_write, write_error
from symgrad.tensor import Tensor, is_leaf_tensor, refresh, version_cell, wrap
from symgrad.views import detach, mark_written, set_history, tracked

LEGACY = (
    "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static"
    " forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
)


class FunctionNode(Node):
    """The recorded call of a Function. What the user put on `ctx` can be read from it, as from PyTorch's."""

    __slots__ = ("ctx",)

    ctx: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("ctx", "origin"):
            raise AttributeError(name)
        return getattr(self.ctx, name)


class FunctionCtx:
    """What forward and backward of one call share."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _to_save: tuple[Any, ...] = ()
    _dirty: tuple[Any, ...] = ()
    _constant_outputs: tuple[Any, ...] = ()
    _node: Any = None
    _given: tuple[Any, ...] = ()
    """What was passed, without tensors: a formula may depend on it."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, where they are `ctx.saved_tensors`. Writing to one in between is an error."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument {i} is of type {t.__class__.__name__}")
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accepted for PyTorch's forward mode, which is not built on Functions here."""

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward has changed in place. Each must be an output."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._constant_outputs = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward receives None for an output that nobody used; otherwise zeros."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward was given."""
        node = None if self._node is None else self._node()
        if node is None:
            return self._to_save
        if node.saved is None:
            raise RuntimeError(FREED)
        return tuple(None if entry is None else entry.unpack(node) for entry in node.saved)


class _Saved:
    """A tensor that was saved: its array, and the way back into the graph that does not hold the tensor itself."""

    __slots__ = ("array", "cell", "edge")

    def __init__(self, array: Any, cell: list[Any], edge: Any) -> None:
        self.array = array
        self.cell = cell
        self.edge = edge

    def moved(self, edge: Any) -> _Saved:
        return _Saved(self.array, self.cell, edge)

    def unpack(self, node: Node) -> Tensor:
        edge = Output(node, self.edge) if self.edge.__class__ is int else self.edge
        if self.cell and first_write(self.cell):
            raise write_error(self.array, edge, first_write(self.cell))
        if isinstance(edge, Tensor):
            return edge
        t = wrap(self.array, edge is not None, edge)
        t._version_cell = self.cell
        return t


class Function(FunctionCtx):
    """Subclass it, write `forward(ctx, *args)` and `backward(ctx, *grad_outputs)` as static methods, call `apply`.

    With a static `symbolic(*args)` that gives its meaning as an expression of SymPy's, for a symbol in place of each tensor (elementwise;
    other arguments are passed as they are; a tuple for several results), it has a formula and compiles.
    With a static `setup_context(ctx, inputs, output)`, forward has no ctx. In the oldest style, forward and backward are ordinary methods,
    the instance is its own ctx, and it is the instance that is called.
    """

    _row: Row
    symbolic: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._row = _row_of(cls)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record the call if an argument requires grad."""
        ctx = FunctionCtx()
        if cls.setup_context is Function.setup_context:
            forward = functools.partial(cls.forward, ctx)
            return _call(cls._row, ctx, _bound(forward, args, kwargs) if kwargs else args, forward)
        return _call(cls._row, ctx, _bound(cls.forward, args, kwargs), cls.forward, cls.setup_context)

    def __call__(self, *args: Any) -> Any:
        if isinstance(inspect.getattr_static(type(self), "forward"), staticmethod):
            raise RuntimeError(LEGACY)
        ctx = copy.copy(self)
        return _call(self._row, ctx, args, ctx.forward)


def _bound(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of forward in order, defaults included: setup_context receives them all."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _row_of(cls: type[Function]) -> Row:
    """The row that the nodes of a Function have: no kernel, and one pullback in place of rules."""
    return Row(
        cls.__name__, ("*args",), _no_kernel, (_no_kernel,), (frozenset(),), "each", _no_kernel,
        pullback=functools.partial(_pullback, cls), outputs=0, display=f"{cls.__name__}Backward",
        sympy=None if cls.symbolic is None else lambda sp, *args: cls.symbolic(*args),
    )  # fmt: skip


def _no_kernel(*args: Any, **attrs: Any) -> Any:
    raise NotImplementedError("a Function runs by its own forward")


def _call(row: Row, ctx: Any, args: tuple[Any, ...], forward: Callable[..., Any], setup: Any = None) -> Any:
    for arg in args:
        if isinstance(arg, Tensor) and arg._base is not None:
            refresh(arg)
    ctx.needs_input_grad = tuple(isinstance(arg, Tensor) and arg._requires_grad for arg in args)
    mode = local.mode
    if mode.capture is not None and row.sympy is not None:
        meant = mode.capture.symbolic_call(row, args)
        if meant is not None:
            return meant
    recording, mode.recording = mode.recording, False
    try:
        result = forward(*args)
        if setup is not None:
            setup(ctx, args, result)
    finally:
        mode.recording = recording
    single = not isinstance(result, tuple)
    outputs = (result,) if single else result
    _check_dirty(ctx, args, outputs)
    node = _node(row, ctx, args, outputs) if recording and any(ctx.needs_input_grad) else None
    finished = _finish(ctx, args, outputs, node)
    if node is not None:
        _save(ctx, node, finished)
    ctx._dirty = ctx._constant_outputs = ()
    if mode.capture is not None:
        mode.capture.on_custom_function(node, args, finished)
    return finished[0] if single else finished


def _check_dirty(ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    for t in ctx._dirty:
        if not _among(t, outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are"
                " modified inplace must all be outputs of the Function."
            )
        if t._requires_grad and is_leaf_tensor(t) and local.mode.recording:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        tracked(t, *args)
        mark_written(t)


def _node(row: Row, ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> FunctionNode:
    node = FunctionNode.__new__(FunctionNode)
    node.row, node.attrs, node.ctx = row, {}, ctx
    node.inputs = tuple(edge_of(arg) if isinstance(arg, Tensor) else None for arg in args)
    node.saved, node.out, node.cells, node.hooks = (), None, None, None
    node.sequence = next_sequence()
    node.shape = tuple(o._array.shape if isinstance(o, Tensor) else None for o in outputs)
    node.dtype = tuple(o._array.dtype if isinstance(o, Tensor) else None for o in outputs)
    ctx._node = weakref.ref(node)
    if row.sympy is not None:
        ctx._given = tuple(None if isinstance(arg, Tensor) else arg for arg in args)
    if local.mode.anomaly is not None:
        remember(node)
    return node


def _finish(ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], node: FunctionNode | None) -> tuple[Any, ...]:
    """The outputs, with their history. What existed before the call is returned as an alias, unless it was changed in place."""
    finished: list[Any] = []
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            finished.append(output)
            continue
        edge = None if node is None or _constant(ctx, output) else Output(node, i)
        if _among(output, ctx._dirty):
            if edge is not None:
                set_history(output, edge)
            finished.append(output)
            continue
        given = output._requires_grad or _among(output, args) or _among(output, finished)
        t = detach(output) if given else output
        t._owner, t._node, t._requires_grad = None, edge, edge is not None
        finished.append(t)
    return tuple(finished)


def _constant(ctx: Any, output: Tensor) -> bool:
    return kind(output._array.dtype) not in "fc" or _among(output, ctx._constant_outputs)


def _among(x: Any, others: Sequence[Any]) -> bool:
    """Whether x itself is there: tensors that are equal are not meant."""
    for other in others:  # noqa: SIM110  (a generator would cost more than the comparisons)
        if other is x:
            return True
    return False


def _save(ctx: Any, node: FunctionNode, finished: tuple[Any, ...]) -> None:
    """Turn the tensors to be saved into entries that the node holds."""
    entries: list[_Saved | None] = []
    for t in ctx._to_save:
        index = next((i for i, output in enumerate(finished) if output is t), None)
        if t is None:
            entries.append(None)
        elif index is None:
            entries.append(_Saved(t._array, version_cell(t), _way_back(t)))
        else:
            entries.append(_Saved(t._array, version_cell(t), index if t._requires_grad else None))
    ctx._to_save = ()
    if entries:
        node.saved, node.cells = tuple(entries), ()


def _way_back(t: Tensor) -> Any:
    if t._base is not None:
        refresh(t)
    return t._node if t._node is not None else t if t._requires_grad else None


def _pullback(cls: type[Function], backend: Any, node: FunctionNode, g: tuple[Any, ...], needs: list[bool]) -> Sequence[Any]:
    """Run the user's backward, and check what it returns."""
    ctx = node.ctx
    grads = tuple(_given(ctx, backend, node, i, value) for i, value in enumerate(g))
    results = _backward_of(cls, ctx)(*grads)
    results = results if isinstance(results, tuple) else (results,)
    return _checked(cls, backend, node, results)


def _given(ctx: Any, backend: Any, node: FunctionNode, i: int, g: Any) -> Any:
    if g is not None:
        return backend.tensor(g)
    if not ctx.materialize_grads or node.shape[i] is None:
        return None
    return constant(np.zeros(node.shape[i], node.dtype[i]), 0)


def _backward_of(cls: type[Function], ctx: Any) -> Callable[..., Any]:
    if isinstance(ctx, Function):
        return ctx.backward
    backward = cls.backward if cls.backward is not Function.backward else cls.vjp
    return functools.partial(backward, ctx)


def _checked(cls: type[Function], backend: Any, node: FunctionNode, results: tuple[Any, ...]) -> list[Any]:
    name, wanted = node.name(), len(node.inputs)
    extra = results[wanted:]
    if len(results) < wanted or any(r is not None for r in extra):
        raise RuntimeError(f"function {name} returned an incorrect number of gradients (expected {wanted}, got {len(results)})")
    checked: list[Any] = []
    for i, (edge, result) in enumerate(zip(node.inputs, results, strict=False)):
        if result is None:
            checked.append(None)
            continue
        if not isinstance(result, Tensor):
            raise RuntimeError(f"expected Variable or None (got {result.__class__.__name__})")
        if edge is None:
            raise RuntimeError(
                f"function {name} returned a gradient different than None at position {i + 1}, but the corresponding forward"
                " input was not a Variable"
            )
        if result._array.shape != edge.shape:
            _check_shape(name, i, result._array.shape, tuple(edge.shape))
        checked.append(backend.value(result))
    return checked


def _check_shape(name: str, i: int, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """A gradient may be larger than the input where the input would broadcast to it: it is summed."""
    lead = len(given) - len(wanted)
    if lead < 0 or any(n not in (1, m) for n, m in zip(wanted, given[lead:], strict=True)):
        raise RuntimeError(
            f"Function {name} returned an invalid gradient at index {i} - got {list(given)} but expected shape compatible with"
            f" {list(wanted)}"
        )


Function._row = _row_of(Function)


class OnceDifferentiable(Function):
    """Passes gradients on, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> Any:
        return tuple(None if t is None else detach(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """For a backward that is not itself made of differentiable operations: differentiating it again is an error, not a wrong result."""

    @functools.wraps(backward)
    def call(ctx: Any, *args: Any) -> Any:
        mode = local.mode
        recording, mode.recording = mode.recording, False
        try:
            results = backward(ctx, *args)
        finally:
            mode.recording = recording
        if not recording or not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            return results
        several = results if isinstance(results, tuple) else (results,)
        refusing = OnceDifferentiable.apply(len(several), *several, *args)
        return refusing if isinstance(results, tuple) else refusing[0]

    return call
