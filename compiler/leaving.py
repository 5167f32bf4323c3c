"""The error for a value that leaves the graph of a traced function, with what to write instead."""

from __future__ import annotations

from symgrad.compiler.lines import user_line
from symgrad.errors import EffectError, TraceError

_WAYS = {  # what to write in place of what takes a value out of the graph
    "backward()": "use func.grad or func.value_and_grad",
    "autograd.grad()": "pass create_graph=True, or use func.grad",
    "bool(tensor)": "use where(condition, x, y) for a choice",
    "a mask": "use where(mask, x, 0) to keep the size",
    "item()": "compute with tensors instead, print with debug.print",
}


def refusal(how: str) -> TraceError:
    """`how` is what the user wrote: "bool(tensor)"."""
    way = next((way for start, way in _WAYS.items() if how.startswith(start)), "compute with tensors instead")
    kind = EffectError if how.startswith("backward()") else TraceError
    return kind(
        f"{user_line()}: {how} takes a value out of the graph of a traced function, and its formula and kernel cannot follow it there;"
        f" {way}, or leave the function eager"
    )
