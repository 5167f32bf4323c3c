"""Errors for values that escape from the graph of a traced function, and for tensors that it rebinds, with what to write instead."""

from __future__ import annotations

from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import EffectError, TraceError
from symgrad.escapes import BACKWARD, Escape


def escape_error(escape: Escape) -> TraceError:
    """The error for an escape that can be neither recorded nor guarded."""
    kind = EffectError if escape is BACKWARD else TraceError
    return kind(
        f"{user_line()}: {escape.what} takes a value out of the graph of a traced function, and its formula and kernel cannot follow it"
        f" there;"
        f" {escape.instead}, or leave the function eager"
    )


REBINDING = {
    ".data = tensor": "write into the memory that is there, as w.data.copy_(new) or w.data -= step do",
    "resize_()": "make a new tensor",
}
"""Operations that give a tensor other storage, each with what to write instead."""


def rebinding_error(how: str) -> TraceError:
    """The error for `how`, an operation that gives a tensor other storage or another shape."""
    escape = REBINDING.get(how, f"write y = x.{how.replace('_(', '(')}")
    return TraceError(
        f"{user_line()}: {how} makes another tensor of one that the program is to find again at every call; {escape}, or leave the function"
        " eager"
    )
