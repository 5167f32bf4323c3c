"""Trace a call for a derivative: with the inputs that it is taken in requiring grad, as in eager code that is differentiated.

A Function, `no_grad`, `detach()`, hooks and `if h.requires_grad` then behave as in eager code. The trace of a plain call lacks all of that,
so it is never differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from symgrad.compiler.inputs.signature import Call
from symgrad.compiler.inputs.wrt import NamedArgument, WrtSelection, guess_wrt
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import TraceError
from symgrad.tensor import Tensor

_MAX_TRACES = 4


class Traced(Protocol):
    """A trace, or a program built from one."""

    @property
    def graph(self) -> Graph: ...

    @property
    def captured(self) -> Sequence[Tensor]: ...


T = TypeVar("T", bound=Traced)


def trace_for_derivatives(
    call: Call, wrt: Any, places: Sequence[NamedArgument], make: Callable[[Call], T], choose: Callable[[T], WrtSelection],
    trains: bool = False
) -> tuple[T, WrtSelection]:
    """The result of `make` for the call with the inputs in `wrt` requiring grad, and the selection of these inputs. `choose` makes the
    selection after the trace, since `wrt` may name captured tensors, which only a trace finds: then the call is traced again. `trains`: the
    function is a module whose parameters require grad, so with `wrt=None` no argument needs to."""
    wanted = call.differentiated(() if trains and wrt is None else guess_wrt(wrt, places, call.labels, call.leaves, call.scalar_types))
    for _ in range(_MAX_TRACES):
        made = make(wanted)
        choice = choose(made)
        found = call.differentiated(choice.inputs, made.captured)
        if found.mode_override == wanted.mode_override:
            return made, choice
        wanted = found
    raise TraceError(f"{user_line()}: which tensors the function reads depends on which of them require grad: say wrt=... by position")
