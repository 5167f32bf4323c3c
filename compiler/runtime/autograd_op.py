"""A graph as an operation on tensors that takes part in eager autograd; its backward is a compiled kernel too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.application import apply, make_node
from symgrad.compiler.autodiff import pull as differentiate
from symgrad.compiler.backends.base import BACKENDS, Kernel, make_kernel
from symgrad.compiler.inputs.sources import launch
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.nan_origin import Lines, check_nans
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.rewrite.drop_hooks import drop_hooks
from symgrad.compiler.rewrite.pipeline import DERIVED
from symgrad.compiler.support.progress import compiling, stage
from symgrad.compiler.support.source_lines import at_lines
from symgrad.device_tensor import tensor_from_storage
from symgrad.engine import check_saved
from symgrad.graph import Constant, Node, Output
from symgrad.mode import local
from symgrad.ops.spec import Meta, Row
from symgrad.tensor import Tensor, version_cell, wrap


class AutogradOp:
    """A graph as an operation on tensors, recorded as one node whose backward is an operation of the same kind."""

    def __init__(
        self, graph: Graph, name: str, options: Options = DEFAULT, donated: Sequence[int] = (), lines: Lines = MappingProxyType({})
    ) -> None:
        self.graph, self.options = graph, options
        self.lines = lines
        """Maps values to the lines of user code that made them."""
        given = donatable_inputs(graph, donated) if BACKENDS[options.backend].donates else ()
        self.donates = make_kernel(graph, options=options, donated=given) if given else None
        """The kernel for calls that are not recorded: it may reuse the memory of donated arguments."""
        self.single = len(graph.outputs) == 1
        self.row = row_of_autograd_op(self, name)
        self._transposes: dict[tuple[bool, tuple[int, ...]], AutogradOp] = {}
        self._differentiable_inputs: set[int] | None = None
        self._histories: dict[tuple[bool, ...], tuple[bool, ...]] = {}
        self.resident_inputs: Sequence[int] = ()
        """Inputs that are the same tensors at every call: they are kept on the device."""

    @cached_property
    def kernel(self) -> Kernel:
        return make_kernel(self.graph, options=self.options, resident_inputs=self.resident_inputs)

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        mode = local.mode
        if mode.capture is not None:  # under an outer trace or transform
            results = apply(self.row, tensors, {})
            return (results,) if self.single else results
        recorded = mode.recording and _any_requires_grad(tensors)
        kernel = self.kernel
        if self.donates is not None and not recorded and len({id(t._storage) for t in tensors}) == len(tensors):
            kernel = self.donates
        operands, found = launch(kernel, tensors)
        results = tuple([tensor_from_storage(r) for r in found])
        if recorded:
            self.record(tensors, operands, results)
        return results

    def record(
        self, tensors: Sequence[Tensor], operands: Sequence[Any], results: Sequence[Tensor], copied: Sequence[int] = (), sure: int = 0
    ) -> Node | None:
        """Record one node for the results, as the dispatcher does, and return it; None if nothing is recorded.

        The last `sure` results are always recorded. All inputs are saved; those in `copied` are private copies, so their versions need no
        check.
        """
        if not sure and not _any_requires_grad(tensors):
            return None
        recorded = self._recorded(tensors)
        recorded = (*recorded[: len(recorded) - sure], *(True,) * sure)
        if not any(recorded):
            return None
        edges = tuple([_edge(t, m) for t, m in zip(tensors, operands, strict=True)])
        cells = tuple([version_cell(t) if i not in copied else [] for i, t in enumerate(tensors)])
        node = make_node(self.row, edges, {}, tuple(operands), None, cells)
        metas = [Meta(v.shape, v.dtype) for v in self.graph.outputs]
        if self.single:
            node.shape, node.dtype = metas[0].shape, metas[0].dtype
        else:
            node.shape, node.dtype = tuple(m.shape for m in metas), tuple(m.dtype for m in metas)
        for i, (t, asked) in enumerate(zip(results, recorded, strict=True)):
            if asked:
                t._requires_grad, t._node = True, node if self.single else Output(node, i)
        return node

    def _recorded(self, tensors: Sequence[Tensor]) -> tuple[bool, ...]:
        """Return which results are differentiable in an input that requires grad: the others are as if made under no_grad."""
        requires_grad = tuple([t._requires_grad for t in tensors])
        if requires_grad not in self._histories:
            differentiable = [differentiate.differentiable_inputs(Graph(self.graph.inputs, [v])) for v in self.graph.outputs]
            self._histories[requires_grad] = tuple(any(requires_grad[i] for i in inputs) for inputs in differentiable)
        return self._histories[requires_grad]

    def run(self, *arrays: Any) -> Any:
        results = self.kernel(arrays)
        return results[0] if self.single else tuple(results)

    def check_nans(self, watch: Any, arrays: Sequence[Any]) -> None:
        """Report under a NaN watch which operation inside the graph made the first NaN."""
        check_nans(watch, self.graph, arrays, self.lines, self.row.name)

    def type(self, *metas: Any) -> Any:
        metas = tuple(Meta(v.shape, v.dtype) for v in self.graph.outputs)
        return metas[0] if self.single else metas

    def pullback(self, backend: Any, node: Any, g: Any, needs: Sequence[bool]) -> list[Any]:
        check_saved(node)
        wanted = self.wanted(needs)
        if not wanted:
            return [None] * len(needs)
        if (local.mode.hooks, wanted) not in self._transposes:
            with compiling(f"{self.row.name}, backward", self.options.verbose):
                return self._pulled(backend, node, g, needs, wanted)
        return self._pulled(backend, node, g, needs, wanted)

    def _pulled(self, backend: Any, node: Any, g: Any, needs: Sequence[bool], wanted: tuple[int, ...]) -> list[Any]:
        args, _ = backend.arguments(node)
        gs = [self._zeros(i, backend) if g is None else g for i, g in enumerate((g,) if self.single else g)]
        transpose = self.transpose(wanted)
        # a cotangent of no dimensions may be a NumPy scalar, which kernels do not recognize as a host array
        results = transpose.kernel((*args, *map(np.asarray, gs))) if backend.raw else transpose(*args, *gs)
        found = dict(zip(wanted, results, strict=True))
        return [found.get(i) for i in range(len(needs))]

    def wanted(self, needs: Sequence[bool]) -> tuple[int, ...]:
        """Return the inputs that need a gradient and have one; the others get None, not zeros, as in eager code."""
        if self._differentiable_inputs is None:
            self._differentiable_inputs = differentiate.differentiable_inputs(self.graph)
        return tuple(i for i, need in enumerate(needs) if need and i in self._differentiable_inputs)

    def transpose(self, wanted: tuple[int, ...]) -> AutogradOp:
        """Return the VJP as an operation: it takes the inputs and a cotangent for each output, and returns the cotangents of the `wanted`
        inputs."""
        key = local.mode.hooks, wanted
        if key not in self._transposes:
            with stage("differentiate"), at_lines(self.lines):
                graph = differentiate.vjp(self.graph if local.mode.hooks else drop_hooks(self.graph), wanted)
                graph = DERIVED.run(graph, self.options.without)
            self._transposes[key] = AutogradOp(graph, f"{self.row.name}_vjp", self.options, (), self.lines)
        return self._transposes[key]

    def _zeros(self, i: int, backend: Any) -> Any:
        v = self.graph.outputs[i]
        return backend.value(wrap(np.zeros(v.shape, v.dtype)))


def _any_requires_grad(tensors: Sequence[Tensor]) -> bool:
    for t in tensors:  # noqa: SIM110  (a generator costs more)
        if t.requires_grad:
            return True
    return False


def donatable_inputs(graph: Graph, positions: Iterable[int]) -> tuple[int, ...]:
    """Return the inputs whose memory can hold a result of the same type: back ends can reuse no other. Scalars are skipped: they are not
    worth it, and their buffers may be shared."""
    free = Counter((v.shape, v.dtype) for v in graph.outputs)
    found = []
    for i in positions:
        of = graph.inputs[i].shape, graph.inputs[i].dtype
        if free[of] and graph.inputs[i].shape:
            free[of] -= 1
            found.append(i)
    return tuple(found)


def _edge(t: Tensor, operands: Any) -> Any:
    return t._node or (t if t._requires_grad else Constant(operands.shape, operands.dtype, t.name))


def _never(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a row with a pullback has no rules to call")


def row_of_autograd_op(operation: AutogradOp, name: str) -> Row:
    """Return the op-table row for the nodes that record this operation."""
    args = tuple([f"x{i}" for i in range(len(operation.graph.inputs))])
    return Row(
        name, args, operation.run, (_never,) * len(args), (frozenset(args),) * len(args), "each", operation.type,
        pullback=operation.pullback, outputs=len(operation.graph.outputs), display="CompiledFunctionBackward",
    )  # fmt: skip
