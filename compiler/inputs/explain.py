"""Messages for errors that a user's function raises when tensors take the place of its arguments."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from symgrad.errors import describe
from symgrad.lines import raised_at
from symgrad.tensor import Tensor


def explain_missing(error: AttributeError, arguments: Mapping[str, Any]) -> None:
    """Extend an AttributeError: suggest methods of Tensor with a similar name, and note which argument is no tensor, such as 2 or a list,
    and was passed on unchanged."""
    if isinstance(error.obj, Tensor) and (close := difflib.get_close_matches(error.name or "", dir(Tensor), 3)):
        error.args = (f"{error}; did you mean {' or '.join(map(repr, close))}?",)
        error.name = None  # Python would suggest it again
    for name, x in arguments.items():
        if x is error.obj and not isinstance(x, Tensor):
            error.add_note(f"{name} is {describe(x)}: only tensors and arrays become inputs of the graph; pass tensor(...)")


def jax_refusal(error: TypeError) -> str | None:
    """Return the message for an error that JAX raised since it was given a tensor; None for any other error."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    library = "" if step is None else str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    said = "\n".join((str(error), *getattr(error, "__notes__", ())))  # JAX may have removed its frames from the traceback
    if not (library == "jax" or "JAX" in said) or "symgrad.tensor.Tensor" not in said:
        return None
    return (
        f"{raised_at(error)}: a function of JAX takes no tensor: call it through g = sg.from_jax(jax_function), or use that of symgrad"
    )
