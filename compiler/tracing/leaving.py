"""The error for a value that leaves the graph of a traced function, with what to write instead."""

from __future__ import annotations

from symgrad.compiler.lines import user_line
from symgrad.errors import EffectError, TraceError
from symgrad.escapes import BACKWARD, Escape


def refusal(way: Escape) -> TraceError:
    """The error for an escape that can be neither recorded nor guarded."""
    kind = EffectError if way is BACKWARD else TraceError
    return kind(
        f"{user_line()}: {way.what} takes a value out of the graph of a traced function, and its formula and kernel cannot follow it there;"
        f" {way.instead}, or leave the function eager"
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
