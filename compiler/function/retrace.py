"""compile(retrace=True): functions whose structure Python decides at every call, by random numbers or any other state.

The Python code runs at every call on types alone, without computing values. That yields the graph of this call; a graph that was seen
before already has its kernel. So each structure is compiled once, and selected before any value is read.
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.function.compiled import Compiled
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.trace.trace import trace
from symgrad.compiler.trace.tracer import is_tracing
from symgrad.graph import next_sequence
from symgrad.pytree import LEAF, unflatten


class Retraced(Compiled):
    """A compiled function that finds its program by running the Python code on types alone."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return self.signature.function(*args, **kwargs)
        call = self._bound(args, kwargs)
        function = self.signature.caller(call)
        known = self.signature.names(), tensor_names(self.signature.function)
        traced = trace(function, call.leaves, call.labels, *known, abstract=True, requires_grad=call.requires_grad)
        graph = traced.graph
        program = next(iter(self._program_cache.lookup(graph)), None)
        if program is None:
            self.traces.note(call, ["another structure"])
            program = Program(traced, call, self._name, self.options)
            self._program_cache.insert(graph, program)
        self._latest = program
        since = next_sequence()
        results = program.operation(*call.tensors(), *traced.captured)
        result = results[0] if traced.structure is LEAF else unflatten(traced.structure, results)
        self._protect(result, call, since)
        return self._convert_results(result, call, program.requires_grad)
