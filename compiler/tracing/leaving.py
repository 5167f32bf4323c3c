"""The error for a value that leaves the graph of a traced function, with what to write instead."""

from __future__ import annotations

from symgrad.compiler.lines import user_line
from symgrad.errors import EffectError, TraceError

_WAYS = {  # what to write in place of what takes a value out of the graph
    "backward()": "use func.grad or func.value_and_grad",
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


REBINDING = {
    ".data = tensor": "write into the memory that is there, as w.data.copy_(new) or w.data -= step do",
    "resize_()": "make a new tensor",
}
"""What gives a tensor other memory, and what to write instead."""


def unrepeatable(how: str) -> TraceError:
    """`how` a tensor gets other memory, or another shape."""
    way = REBINDING.get(how, f"write y = x.{how.replace('_(', '(')}")
    return TraceError(
        f"{user_line()}: {how} makes another tensor of one that the program is to find again at every call; {way}, or leave the function"
        " eager"
    )
