"""JAX errors in user functions, rewritten with the user's line and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.errors

from symgrad import errors
from symgrad.compiler.trace.tracer import user_line
from symgrad.errors import TraceError

_OTHERS = tuple(str(Path(str(module.__file__)).parent) for module in (jax, errors))
_WAYS = {  # the most specific first
    jax.errors.TracerBoolConversionError: "use jnp.where or jax.lax.cond for a choice, or name the argument in static=",
    jax.errors.TracerArrayConversionError: "use jax.numpy in place of NumPy",
    jax.errors.TracerIntegerConversionError: "name the argument in static=",
    jax.errors.NonConcreteBooleanIndexError: "use jnp.where(mask, x, 0) to keep the size",
    jax.errors.ConcretizationTypeError: "compute with jax.numpy, or name the argument in static=",
    jax.errors.UnexpectedTracerError: "let the function return what it computes, and keep nothing of it elsewhere",
}


class explained:
    """Context manager that turns JAX errors into TraceErrors. While the function is traced, other errors are its own: they get a note and
    are passed on."""

    def __init__(self, name: str, done: str = "traced") -> None:
        self.name, self.done = name, done

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, Exception) or isinstance(error, TraceError):
            return
        way = next((way for known, way in _WAYS.items() if isinstance(error, known)), None)
        if way is None and self.done == "traced":
            error.add_note(f"{_line(trace)}: inside of {self.name}, which JAX traces for tensors given at {user_line()}")
            return
        words = " ".join(str(error).partition("\n")[0].split())
        way = "" if way is None else f"; {way}"
        words = words.rstrip(".") if way else words
        raise TraceError(f"{_line(trace)}: {self.name} cannot be {self.done} by JAX: {words}{way}") from error


def line_of(equation: Any) -> str:
    """Return the user's line that an equation of a jaxpr comes from."""
    frames = getattr(getattr(equation.source_info, "traceback", None), "frames", ())
    mine = next((f for f in frames if not f.file_name.startswith(_OTHERS)), None)
    return user_line() if mine is None else f"{mine.file_name}:{mine.line_num}"


def _line(trace: Any) -> str:
    """Return the innermost user line of a traceback."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        found = found if code.co_filename.startswith((*_OTHERS, "<")) else f"{code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found or user_line()
