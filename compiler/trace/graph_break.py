"""Errors for values that escape from the graph of a traced function, and for tensors that it rebinds, with what to write instead."""

from __future__ import annotations

from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import EffectError, TraceError
from symgrad.escapes import Escape, EscapeKind, Rebinding


def escape_error(escape: Escape) -> TraceError:
    """The error for an escape that can be neither recorded nor guarded."""
    kind = EffectError if escape.kind is EscapeKind.BACKWARD else TraceError
    return kind(
        f"{user_line()}: {escape.what} takes a value out of the graph of a traced function, and its formula and kernel cannot follow it"
        f" there;"
        f" {escape.instead}, or leave the function eager"
    )


def rebinding_error(how: Rebinding) -> TraceError:
    """The error for an operation that gives a tensor other storage or another shape."""
    return TraceError(
        f"{user_line()}: {how.text} makes another tensor of one that the program is to find again at every call; {how.instead}, or leave"
        " the function eager"
    )
