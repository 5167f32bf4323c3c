"""Escapes of values from tensors to Python, and other things that a function does and only Python can do again.

Each way for values to escape is an `Escape`; code that needs one calls `before_escape` first. A tracer decides by its `kind`; texts are for
messages only. `Rebinding` and `PythonAction` list what else a tracer is told of, with the text that names it in messages.

While a function is traced there are three outcomes. The operation is *recorded*, if an op represents it, and no value escapes; the value
becomes a *guard*, a condition of the program that is checked at every call (`bool`, `int`, an index, `tolist()` of integers); or the escape
is *refused*, with an error that names the user's line and what to write instead. No value silently becomes part of a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from symgrad.lines import called_in, user_line, warn
from symgrad.mode import current_capture, local

_SPECIAL = str(Path("scipy", "special"))
COMPUTE = "compute with tensors instead"
NUMPY_INSTEAD = "call the function of symgrad, or of NumPy, on the tensor itself"
COPY_INSTEAD = "copy a tensor with clone(), which is recorded"


class EscapeKind(Enum):
    """What a trace can do with an escape."""

    VALUE = "refuse it"
    CONDITION = "guard the number that Python gets by a path condition"
    LIST = "guard all elements of a small list of integers or booleans"
    MASK = "guard the size of the result"
    BACKWARD = "record the gradients that backward() leaves"
    GRADIENT = "record the ops of autograd.grad()"


@dataclass(frozen=True, slots=True)
class Escape:
    """One way for values to escape from a tensor."""

    what: str
    """What the user wrote, as error messages name it."""
    instead: str = COMPUTE
    """What to write instead."""
    asks: type[bool] | type[int] | None = None
    """The conversion whose result can be a guard; None if there is no such guard."""
    kind: EscapeKind = EscapeKind.VALUE


def _condition(what: str, asks: type[bool] | type[int], instead: str = COMPUTE) -> Escape:
    return Escape(what, instead, asks, EscapeKind.CONDITION)


BACKWARD = Escape("backward()", "use func.grad or func.value_and_grad", kind=EscapeKind.BACKWARD)
AUTOGRAD_GRAD = Escape("autograd.grad()", kind=EscapeKind.GRADIENT)
BOOL = _condition("bool(tensor), as in `if tensor:`,", bool, "use where(condition, x, y) for a choice")
INT = _condition("int(tensor)", int)
INDEX = _condition("int(tensor), as of a tensor used as a Python index,", int)
CLASSES = _condition("int(tensor), the number of classes of one_hot,", int)
SCALAR_MASK = _condition("bool(tensor), of a mask without dimensions,", bool, "use where(condition, x, y) for a choice")
MASK = Escape(
    "a mask used as an index, which decides the size of the result,", "use where(mask, x, 0) to keep the size", kind=EscapeKind.MASK
)
REPEATS = Escape("a tensor of repeats, which decides the size of the result,")
INDICES = Escape("a list of tensors as an index", "stack them with symgrad.stack")
ITEM = Escape("item() or a conversion to a Python number", f"{COMPUTE} (sg.sin in place of math.sin), print with debug.print")
TOLIST = Escape("tolist()", kind=EscapeKind.LIST)
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


class Rebinding(Enum):
    """A way to give a tensor other memory or another shape in place: its text, and what to write instead in a traced function."""

    DATA = ".data = tensor", "write into the memory that is there, as w.data.copy_(new) or w.data -= step do"
    RESIZE = "resize_()", "make a new tensor"
    T = "t_()", "write y = x.t()"
    TRANSPOSE = "transpose_()", "write y = x.transpose()"
    SQUEEZE = "squeeze_()", "write y = x.squeeze()"
    UNSQUEEZE = "unsqueeze_()", "write y = x.unsqueeze()"

    def __init__(self, text: str, instead: str) -> None:
        self.text, self.instead = text, instead

    @property
    def keeps_memory(self) -> bool:
        """True if only the shape changes: a traced function may do that to a tensor that it created."""
        return self not in (Rebinding.DATA, Rebinding.RESIZE)


class Metadata(Enum):
    """What Python reads of a tensor besides its shape, dtype and values, and may differ between arguments of the same type."""

    LAYOUT = "the layout in memory"
    HISTORY = "whether it is a leaf"
    ATTRIBUTES = "attributes that were added to it"


class PythonAction(Enum):
    """Something that a function does to Python objects and that no program repeats, with the text that names it in messages."""

    SCHEDULER_STEP = "scheduler.step()"
    TENSOR_HOOK = "register_hook()"
    ACCUMULATE_HOOK = "register_post_accumulate_grad_hook()"
    NODE_HOOK = "register_hook() of a node"
    NODE_PREHOOK = "register_prehook() of a node"
    SAVED_TENSORS_HOOKS = "saved_tensors_hooks()"
    MODULE_BACKWARD_HOOK = "a full backward hook"

    def text(self, owner: str = "") -> str:
        """Return the text, with the class of the object whose hook it is, if given."""
        return f"{self.value} of {owner}" if owner else self.value


def option(name: str, row: str) -> Escape:
    """Return the escape of a tensor that is passed where an op takes a Python number."""
    return Escape(f"a tensor as option {name} of {row}")


def sized(row: str) -> Escape:
    """Return the escape of an op whose result shape depends on values."""
    return Escape(f"{row}, whose result is as large as values say,")


def before_escape(source: Any, escape: Escape) -> None:
    """Announce that values of a tensor, or of a sequence of tensors, are about to become Python or NumPy values."""
    capture = local.mode.capture
    if capture is not None:
        capture.before_escape(source, escape)


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
    if capture.first_redaction(line):
        warn(
            f"{line}: the text of a tensor has no numbers while a function is traced, and is made then only; use"
            ' sg.debug.print("{}", tensor), which prints values at every call'
        )
    return f"tensor(<traced>, shape={tuple(tensor._array.shape)}, dtype={tensor.dtype!r})"
