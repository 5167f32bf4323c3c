"""A graph as a function that runs on NumPy.

Temporaries live in workspaces that are kept between calls. A call takes an idle workspace, so that threads never share one, and runs in the
workspace's own context, in which NumPy's floating-point warnings are off; the user's settings are never touched.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import KernelRequest
from symgrad.compiler.backends.numpy.emit import Emitter
from symgrad.compiler.backends.packing import Packing
from symgrad.compiler.ir.graph import Graph, type_text
from symgrad.compiler.rewrite.pipeline import NUMPY, Off
from symgrad.compiler.support.progress import stage
from symgrad.errors import GraphError
from symgrad.ops.spec import Meta
from symgrad.typing import Array

ndarray = np.ndarray


def make_kernel(request: KernelRequest) -> HostKernel:
    return HostKernel(request.graph, request.name, request.options.without)


class HostKernel:
    """A kernel that NumPy runs: call it with one array for each input of the graph; it returns one new array for each output."""

    on_device, x64 = False, None
    donated: tuple[int, ...] = ()
    packing: Packing | None = None

    def __init__(self, graph: Graph, name: str = "forward", off: Off = ()) -> None:
        self.times: dict[str, float] = {}
        """Seconds that each stage of compilation took."""
        with stage("simplify", self.times):
            self.graph = graph = NUMPY.run(graph, off)
        self.name = name
        with stage("emit", self.times):
            emitter = Emitter(graph)
            tree = emitter.module(name)
            scope: dict[str, Any] = dict(emitter.bound)
            exec(compile(tree, f"<symgrad {graph.hash[:12]}>", "exec"), scope)  # a syntax tree that the emitter built, never text
        self.function: Callable[..., Any] = scope[name]
        self._buffers: Callable[[], Any] | None = scope.get("workspace")
        self._idle: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._inputs = [(x.shape, x.dtype) for x in graph.inputs]
        self._checked = False
        self._single = len(graph.outputs) == 1
        self._numbers = [i for i, v in enumerate(graph.outputs) if not v.shape]
        """Results that NumPy returns as scalars, not as arrays."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        if [(a.shape, a.dtype) for a in arrays] != self._inputs:
            raise GraphError(self._refusal(arrays))
        return self._run(arrays)

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> list[Array]:
        """Run the kernel; inputs may be arrays or device buffers."""
        return self([x if x.__class__ is ndarray else np.asarray(x) for x in operands])

    def executable(self, *operands: Any) -> Any:
        """Return the result, or a list of results, for arrays, buffers and Python scalars; raise TypeError for wrong types."""
        arrays = [x if x.__class__ is ndarray else np.asarray(x) for x in operands]
        if [(x.shape, x.dtype) for x in arrays] != self._inputs:
            raise TypeError(self._refusal(arrays))
        found = self._run(arrays)
        return found[0] if self._single else found

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = self._workspace()
        run, buffers = workspace
        try:
            results = run(self.function, *arrays, *buffers)
        finally:
            self._idle.append(workspace)
        found = [results] if self._single else [*results]
        for i in self._numbers:
            found[i] = np.asarray(found[i])
        if not self._checked:
            self._check(found)
        return found

    def _check(self, found: Sequence[Array]) -> None:
        """Check the types of the first results; they do not change from run to run."""
        if [(a.shape, a.dtype) for a in found] != [(v.shape, v.dtype) for v in self.graph.outputs]:
            given = ", ".join(map(type_text, found))
            raise GraphError(f"the kernel gave {given} where its graph says {', '.join(map(type_text, self.graph.outputs))}")
        self._checked = True

    def buffer(self, array: Array, /) -> Any:
        """Return a copy."""
        return np.array(array)

    def source(self) -> str:
        return Emitter(self.graph).text(self.name)

    def _workspace(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        return context.run, () if self._buffers is None else (self._buffers(),)

    def _refusal(self, arrays: Sequence[Array]) -> str:
        given = [Meta(a.shape, a.dtype) for a in arrays]
        wanted = zip(self.graph.labels, self.graph.inputs, strict=True)
        return f"the kernel takes ({', '.join(f'{n}: {type_text(x)}' for n, x in wanted)}), got ({', '.join(map(type_text, given))})"
