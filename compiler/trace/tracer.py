"""The tracer: run a function under the dispatcher's capture, which sees every op (also under no_grad), and build a graph of the ops.

The arguments are inputs, and so is every tensor that the function captures: each run of the graph reads it again. A value that escapes to
Python becomes a path condition if it can be guarded (a boolean, an integer), else it raises a TraceError that names the user's line. With
`effects`, in-place writes and backward() are part of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.guards.conditions import PathConditions as PathConditions
from symgrad.compiler.support.source_lines import user_line as user_line
from symgrad.compiler.trace.custom_backward import trace_backward, trace_hook
from symgrad.compiler.trace.dependencies import GuardRecorder
from symgrad.compiler.trace.escapes import EscapeRecorder
from symgrad.compiler.trace.gradients import GradRecorder
from symgrad.compiler.trace.ops import OpRecorder
from symgrad.compiler.trace.rng import RngRecorder
from symgrad.compiler.trace.writes import WriteRecorder
from symgrad.escapes import PythonAction
from symgrad.graph import Node
from symgrad.mode import is_tracing as is_tracing
from symgrad.tensor import Tensor
from symgrad.tracer import ControlFlowBuilder


class GraphTracer(OpRecorder, WriteRecorder, GradRecorder, RngRecorder, EscapeRecorder, GuardRecorder):
    """The tracer that builds a graph of what a function does: see `symgrad.tracer` for its events.

    With `allow_branches`, Python may branch on tensor values: the graph is that of the path taken, and `path` holds its conditions. With
    `effects`, the function may write to tensors that it captures, call backward(), and draw random numbers: all of it is part of the
    program. If `abstract`, kernels do not run, so neither is possible. Each base class records one group of events; what needs the whole
    tracer, because it traces code of the user or runs a part of the function, is here.
    """

    def control_flow(self) -> ControlFlowBuilder | None:
        """The tracer that turns loops and branches into values of the graph."""
        from symgrad.compiler.trace.control_flow import ControlFlowTracer
        return ControlFlowTracer(self)

    def on_custom_function(self, node: Node | None, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """Trace the backward of a Function without a symbolic definition, if the call was recorded; its forward has been traced already."""
        if node is not None:
            trace_backward(self, node, args, results)

    def on_hook(
        self, t: Tensor | None, hook: Callable[[Tensor], Tensor | None] | None, action: PythonAction, owner: str = ""
    ) -> None:
        """Record a gradient hook: backward() inside the function calls it, and derivatives taken outside have its ops in their graph. A
        hook of a tensor from outside, or of a leaf, stays registered after the call, which no program can repeat."""
        storage = None if t is None else self.storages.get(id(t._array))
        if t is not None and (t._node is None or storage is None):
            self.refuse_replay(action, owner)
        elif t is None or hook is None:
            self.refuse_gradients(f"{action.text(owner)} changes derivatives in ways that no graph can follow")
        else:
            self.hooks = True
            trace_hook(self, t, hook, action.text(owner))
