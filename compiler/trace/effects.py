"""The side effects of a traced call: writes to tensors, new gradients, random draws, prints, and tensors that outlive the call."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import Value
from symgrad.compiler.trace.histories import ancestor_nodes, can_run_backward
from symgrad.compiler.trace.trace import Trace
from symgrad.compiler.trace.tracer import GraphTracer
from symgrad.debug import show
from symgrad.pytree import flatten
from symgrad.tensor import Tensor, wrap


class Effects:
    """The side effects of a traced call: writes to tensors, gradients, random draws, prints and changes of history."""

    def __init__(self, traced: Trace) -> None:
        tracer = traced.capture
        places = {id(t): i for i, t in enumerate(tracer.input_tensors)}
        written = [(places.get(id(t)), t, storage.current()) for t, storage in tracer.written_inputs.values()]
        self.writes = sorted([(i, v) for i, _, v in written if i is not None], key=_position)
        """(input position, new value), in the order of the inputs: XLA reuses the buffer of the first donated input of a type for the first
        result of that type, and copies a buffer that is still read."""
        reads_grads = self._find_gradients(tracer)
        self.draws, self.generators = [draw for _, draw in tracer.draws], list(tracer.generators.values())
        self.prints = [PrintEffect(*given) for given in tracer.prints]
        self.histories = tracer.history_changes
        self.any = self._has_any(tracer) or reads_grads
        self.values: list[Value] = [*(v for _, v in self.writes), *(v for _, v in self.grads if v is not None)]
        self.values += [v for p in self.prints for v in p.values]
        self.equal_scalars = self._add_values([(t, v) for i, t, v in written if i is None])
        """Tensors without an input of their own (see `symgrad.compiler.guards.equal_scalars`), with the index of their new value in
        `values`."""
        self.keeps_history = self.histories.keeps_history or _can_run_backward(traced.result)
        """True if backward() can run through a history that the call leaves on its results or on tensors that it wrote to."""
        self.recorded = self.keeps_history or bool(self.histories.written)

    def _find_gradients(self, tracer: GraphTracer) -> bool:
        """Set `grads`, the new gradients by input position, and `grad_presence`, whether inputs must have one before a run. Return True if
        the function read a gradient, which a program without effects does not support."""
        dropped = tracer.grad_overwrites  # here it makes no difference whether there was a gradient before
        changed = [(i, t) for i, t in enumerate(tracer.input_tensors) if t._grad is not tracer.initial_grads[id(t)] or id(t) in dropped]
        self.grads = [(i, None if t._grad is None else tracer.value(t._grad)) for i, t in changed]
        arguments = enumerate(tracer.input_tensors[: tracer.arguments])
        asked = [(i, t) for i, t in arguments if id(t) in tracer.grad_reads and (i, t) not in changed]
        self.grad_presence = [(i, tracer.initial_grads[id(t)] is not None) for i, t in (*changed, *asked) if id(t) not in dropped]
        return bool(asked or grad_inputs(tracer))

    def _has_any(self, tracer: GraphTracer) -> bool:
        """True if there is an effect other than a gradient that is only read."""
        changes = self.writes or self.grads or self.draws or self.prints
        return bool(changes or tracer.scalars or tracer.backward_ran or self.histories.any)

    def _add_values(self, written: Sequence[tuple[Tensor, Value]]) -> list[tuple[Tensor, int]]:
        """Add the new values of tensors without an input of their own to `values`, and return their indices there."""
        known = dict.fromkeys(self.values)
        self.values += dict.fromkeys([v for _, v in written if v not in known])
        index = {v: k for k, v in reversed([*enumerate(self.values)])}
        return [(t, index[v]) for t, v in written]


class PrintEffect:
    """One `debug.print()`, repeated at every run: tensors are outputs of the kernel, other arguments keep the value of the traced call."""

    def __init__(self, text: str, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.text, self.given, self.named = text, given, named
        self.values = [x for x in (*given, *named.values()) if isinstance(x, Value)]

    def show(self, values: Iterator[Any]) -> None:
        given = [next(values) if isinstance(x, Value) else x for x in self.given]
        named = {k: next(values) if isinstance(x, Value) else x for k, x in self.named.items()}
        show(self.text, given, named)


def grad_inputs(capture: GraphTracer) -> dict[int, int]:
    """The inputs, besides the arguments, that are the `.grad` of an input tensor from before the call, and that the function read as such:
    the position of each such gradient, mapped to the position of its tensor."""
    asked = [
        (i, t) for i, t in enumerate(capture.input_tensors) if id(t) in capture.grad_reads and capture.initial_grads[id(t)] is not None
    ]
    owners = {id(capture.initial_grads[id(t)]): i for i, t in asked}
    return {k: owners[id(t)] for k, t in enumerate(capture.input_tensors) if k >= capture.arguments and id(t) in owners}


def _position(write: tuple[int, Value]) -> int:
    return write[0]


def _can_run_backward(result: Any) -> bool:
    """True if backward() can run through the history of a tensor in `result`."""
    return any(t.requires_grad and can_run_backward(t) for t in _leaves(result))


def _leaves(result: Any) -> list[Tensor]:
    return flatten(result, lambda x: isinstance(x, Tensor))[0]


def has_escaped_tensors(traced: Trace) -> bool:
    """True if a tensor that the function created outlives the call elsewhere than in its results and gradients, such as a momentum buffer
    made at the first step. A program would create it anew at every run, so the next call is traced again, and then captures it.

    This clears the references of the capture, so that only those of the user's code count."""
    capture = traced.capture
    storages = capture.storages
    outside = [storage.external for storage in storages.values() if storage.external is not None]
    expected = {id(x) for t in _leaves(traced.result) for x in (t, t._owner, t._base)} | set(map(id, capture.captured))
    expected |= {id(x) for t in outside for x in (t, t._grad, *(() if t._grad is None else (t._grad._owner, t._grad._base)))}
    made = [weakref.ref(t) for k, t in {id(t): t for t in capture.keep_alive}.items() if isinstance(t, Tensor) and k not in expected]
    known = set(map(id, outside))
    # inputs that are random draws or constants are also tensors that the function created
    capture.input_tensors[:] = [t if id(t) in known else _placeholder_like(t) for t in capture.input_tensors]
    for held in (capture.keep_alive, capture.node_values, storages, capture.written_inputs, capture.cse_cache):
        held.clear()
    if all([ref() is None for ref in made]):
        return False
    gc.collect()  # an unreachable reference cycle may keep it alive
    return not _held_by_histories_only([t for t in (ref() for ref in made) if t is not None], [*_leaves(traced.result), *outside])


def _placeholder_like(t: Tensor) -> Tensor:
    """A tensor of the same shape and dtype that holds a single element of memory."""
    return wrap(np.broadcast_to(np.zeros((), t._array.dtype), t._array.shape))


def _held_by_histories_only(alive: list[Tensor], results: Sequence[Tensor]) -> bool:
    """True if only the histories of the results refer to the tensors in `alive`, which are leaves there, such as the input of a gradient
    penalty: the user can see neither them nor their gradients."""
    reached = [*results, *(t._grad for t in results if t._grad is not None)]
    edges = [edge for node in ancestor_nodes(reached) for edge in (*node.inputs, *(node.saved or ()))]
    held = Counter([id(edge) for edge in edges if isinstance(edge, Tensor)])
    del edges, reached
    ends = [i for i, t in enumerate(alive) if held[id(t)]]
    for i in ends:  # and the tensors that these refer to
        parts = [id(x) for x in (alive[i]._grad, alive[i]._base, alive[i]._owner) if x is not None]
        held.update(parts)
        ends += [k for k, t in enumerate(alive) if id(t) in parts and k not in ends]
    return all(getrefcount(t) == held[id(t)] + 3 for t in alive)  # 3: the list, `t`, and the argument of getrefcount
