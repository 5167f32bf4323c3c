"""Run another graph in place of a function: its own graph after a transform, such as an expansion in a Taylor series."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.compiler.autodiff.closed import closed_coefficients
from symgrad.compiler.autodiff.forward import value_and_jvp
from symgrad.compiler.autodiff.jacobian import columns
from symgrad.compiler.autodiff.jets import taylor
from symgrad.compiler.autodiff.laplacian import laplacian
from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.ir.replay import replay_recorded
from symgrad.compiler.ir.subgraph import inline
from symgrad.compiler.trace.trace import trace
from symgrad.compiler.trace.tracer import GraphTracer
from symgrad.dispatch import tensors as ops
from symgrad.mode import control_flow_builder, local
from symgrad.tensor import Tensor

Function = Callable[[list[Tensor]], list[Tensor]]
Transform = Callable[[Graph], Graph]


def run_taylor(function: Function, tensors: list[Tensor], directions: Sequence[Tensor] | None, order: int) -> list[Tensor]:
    """Return the Taylor coefficients 0 to `order` of each result of `function` along the directions, one result after the other. Without
    directions they are ones."""
    places, closed = range(len(tensors)), dict[int, Value]()

    def transform(graph: Graph) -> Graph:
        if directions is None and len(tensors) == 1:
            closed.update(closed_coefficients(graph, order))
        return taylor(graph, places, order, along_ones=directions is None)

    found = run_transformed(function, tensors, directions or (), transform)
    capture = local.mode.capture
    if closed and isinstance(capture, GraphTracer):
        x = tensors[0]
        alone = Graph([input_value(0, x._array.shape, x._array.dtype)], list(closed.values()))
        capture.closed_forms.update(zip([capture.value(found[i]) for i in closed], inline(alone, [capture.value(x)]), strict=True))
    return found


def run_laplacian(function: Function, x: Tensor) -> list[Tensor]:
    """Return the Laplacian of each result of `function` in x."""
    return run_transformed(function, [x], (), lambda graph: laplacian(graph, 0))


def run_jvp(function: Function, tensors: list[Tensor], directions: Sequence[Tensor]) -> list[Tensor] | None:
    """Return the results of `function` and then their tangents, in a function that is being traced. None if Python depends on values."""
    alike = [t if t._array.dtype == x._array.dtype else ops.cast(t, dtype=x._array.dtype) for t, x in zip(directions, tensors, strict=True)]
    return _run_without_values(function, tensors, alike, lambda graph: value_and_jvp(graph, range(len(tensors))))


def run_jacobian(function: Function, tensors: list[Tensor]) -> list[Tensor] | None:
    """Return the Jacobian of each result in each of the tensors, by forward derivatives, in a function that is being traced. None if
    Python depends on values."""
    return _run_without_values(function, tensors, (), lambda graph: columns(graph, range(len(tensors))))


def _run_without_values(
    function: Function, tensors: list[Tensor], more: Sequence[Tensor], transform: Transform
) -> list[Tensor] | None:
    builder = control_flow_builder()
    return None if builder is None else builder.transformed(function, tensors, more, transform, optional=True)


def run_transformed(function: Function, tensors: list[Tensor], more: Sequence[Tensor], transform: Transform) -> list[Tensor]:
    """Return the outputs of `transform(graph)` as tensors computed by ordinary ops, where the graph is that of `function` on `tensors`.

    The transform may append inputs to the graph, whose values are `more`. In a function that is being traced, `function` runs without
    values, as the body of a loop does; otherwise Python may branch on them.
    """
    builder = control_flow_builder()
    if builder is not None:
        found = builder.transformed(function, tensors, more, transform)
        assert found is not None  # it is not optional
        return found
    labels = [f"x{i}" for i in range(len(tensors))]
    traced = trace(lambda given: function(list(given)), tensors, labels, allow_branches=True)
    return replay_recorded(transform(traced.graph), (*tensors, *traced.captured, *more))
