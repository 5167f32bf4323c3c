"""Escapes of values from tensors to Python: each kind is an `Escape`, and code that needs one calls `before_escape` first.

While a function is traced there are three outcomes. The operation is *recorded*, if an op represents it, and no value escapes; the value
becomes a *guard*, a condition of the program that is checked at every call (`bool`, `int`, an index, `tolist()` of integers); or the escape
is *refused*, with an error that names the user's line and what to write instead. No value silently becomes part of a program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symgrad.lines import called_in, user_line, warn
from symgrad.mode import current_capture, local

_SPECIAL = str(Path("scipy", "special"))
COMPUTE = "compute with tensors instead"
NUMPY_INSTEAD = "call the function of symgrad, or of NumPy, on the tensor itself"
COPY_INSTEAD = "copy a tensor with clone(), which is recorded"


@dataclass(frozen=True, slots=True)
class Escape:
    """One way for values to escape from a tensor."""

    what: str
    """What the user wrote, as error messages name it."""
    instead: str = COMPUTE
    """What to write instead."""
    asks: Callable[[Any], Any] | None = None
    """The conversion whose result can be a guard; None if there is no such guard."""


BACKWARD = Escape("backward()", "use func.grad or func.value_and_grad")
AUTOGRAD_GRAD = Escape("autograd.grad()")
BOOL = Escape("bool(tensor), as in `if tensor:`,", "use where(condition, x, y) for a choice", bool)
INT = Escape("int(tensor)", asks=int)
INDEX = Escape("int(tensor), as of a tensor used as a Python index,", asks=int)
CLASSES = Escape("int(tensor), the number of classes of one_hot,", asks=int)
SCALAR_MASK = Escape("bool(tensor), of a mask without dimensions,", "use where(condition, x, y) for a choice", bool)
MASK = Escape("a mask used as an index, which decides the size of the result,", "use where(mask, x, 0) to keep the size")
REPEATS = Escape("a tensor of repeats, which decides the size of the result,")
INDICES = Escape("a list of tensors as an index", "stack them with symgrad.stack")
ITEM = Escape("item() or a conversion to a Python number", f"{COMPUTE} (sg.sin in place of math.sin), print with debug.print")
TOLIST = Escape("tolist()")
NUMPY = Escape("numpy()", NUMPY_INSTEAD)
ARRAY = Escape(
    "numpy.asarray(tensor), or a function that turns its arguments into arrays,",
    f"{NUMPY_INSTEAD}, or use the function of symgrad in place of one of another library",
)
SCIPY_REPLACEMENTS = {"logsumexp": "sg.logsumexp(x, dim)", "softmax": "sg.softmax(x, dim)", "log_softmax": "sg.log_softmax(x, dim)"}
"""Functions of scipy.special that convert their arguments to arrays, and their replacements."""
OUT = Escape("an array given to NumPy as out=, or changed in place,", "write y = x + tensor in place of array += tensor")
DLPACK = Escape("__dlpack__(), which lends memory without its history,", NUMPY_INSTEAD)
POINTER = Escape("data_ptr()")
PICKLE = Escape("pickling, which copies values without their history,", COPY_INSTEAD)
SAVE = Escape("save(), which writes values to a file,", "save what the function returns, after the call")
COPY = Escape("tensor(t), which copies values without their history,", COPY_INSTEAD)
SHARED = Escape(
    "copy.deepcopy() of tensors that share memory, of which none is made from another in the function,",
    "copy one of them, and take the others from the copy",
)
COPIES = Escape("tensor([t, ...]), which copies values without their history,", "join tensors with symgrad.stack")
BITS = Escape("view(dtype), which sees the same bytes as another type,", "convert numbers with to(dtype)")


def option(name: str, row: str) -> Escape:
    """Return the escape of a tensor that is passed where an op takes a Python number."""
    return Escape(f"a tensor as option {name} of {row}")


def sized(row: str) -> Escape:
    """Return the escape of an op whose result shape depends on values."""
    return Escape(f"{row}, whose result is as large as values say,")


def before_escape(tensor: Any, escape: Escape) -> None:
    """Announce that values of a tensor are about to become Python or NumPy values."""
    capture = local.mode.capture
    if capture is not None:
        capture.before_escape(tensor, escape)


def to_array() -> Escape:
    """Return the escape of a conversion to an array; if a known SciPy function converts it, the escape names that and its replacement."""
    name = _of_scipy() if local.mode.capture is not None else None
    return (
        ARRAY if name is None
        else Escape(f"scipy.special.{name}, which turns its arguments into arrays,", f"use {SCIPY_REPLACEMENTS[name]}")
    )


def _of_scipy() -> str | None:
    return next((name for name in reversed(called_in(_SPECIAL)) if name in SCIPY_REPLACEMENTS), None)


def instead_of_scipy(message: str) -> str:
    """Return the message, with the replacement for the SciPy function that converted a tensor to an array."""
    name = _of_scipy()
    return message if name is None else f"{message} scipy.special.{name} turns its arguments into arrays: use {SCIPY_REPLACEMENTS[name]}."


def with_user_line(message: str) -> str:
    """Return the message, with the user's line in front if a function is being differentiated or traced."""
    return f"{user_line()}: {message}" if local.mode.depth or local.mode.capture is not None else message


def redacted_text(tensor: Any) -> str | None:
    """Return the text of a tensor during a trace: without values, so that nothing can be computed from it. None outside of traces."""
    capture = current_capture()
    if capture is None:
        return None
    line = user_line()
    if line not in capture.redacted_lines:
        capture.redacted_lines.add(line)
        warn(
            f"{line}: the text of a tensor has no numbers while a function is traced, and is made then only; use"
            ' sg.debug.print("{}", tensor), which prints values at every call'
        )
    return f"tensor(<traced>, shape={tuple(tensor._array.shape)}, dtype={tensor.dtype!r})"
