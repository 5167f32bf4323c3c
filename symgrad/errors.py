"""Every exception that symgrad raises on its own account; the rest are Python's own types, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np


class SymgradError(RuntimeError):
    """Base of the errors that only symgrad knows."""


class TraceError(SymgradError):
    """A recorded function did something that no graph can hold; the text names the user's line and the way out."""


class UnknownSize(SymgradError):
    """The size of a result is known only from values, and there are none."""


class EffectError(TraceError):
    """A function that must not change anything does: it writes to a tensor from outside, or calls backward()."""


class LinAlgError(SymgradError, np.linalg.LinAlgError):
    """A matrix is singular or not positive-definite where it must not be; `symgrad.linalg.LinAlgError`, which is also NumPy's."""


class AssumptionError(SymgradError, ValueError):
    """A tensor does not have a property that `assume` or a spec says it has; the text names the line, the word and by how much it fails."""


class GraphError(SymgradError):
    """A frozen graph is not well formed, or holds what no graph can hold."""

    value: Any = None
    """The value that it is about."""


class FormulaError(SymgradError):
    """A graph has no formula in the notation asked for; the text names the operation and what to do."""


class TextError(SymgradError, ValueError):
    """A formula written as text is malformed, or the types of its parts do not fit: `parse("x^2")` for a vector x. The message shows the
    text with a caret under the column, and says what to do: `parse("x.^2")`."""

    column: int = 0
    """Where it is wrong: 1 for the first character."""


class FileError(SymgradError, ValueError):
    """A file is damaged or hostile, or of a kind that is not read; the text names the file and says why. Nothing of it is loaded."""


def describe(value: object) -> str:
    """How an argument is named in an error: `Tensor(2, 3) float32`, `list of 3`, `int 5`."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{value.__class__.__name__}{tuple(shape)} {getattr(value, 'dtype', '')}".rstrip()
    if isinstance(value, (list, tuple)):
        return f"{value.__class__.__name__} of {len(value)}"
    return f"{value.__class__.__name__} {value!r}" if isinstance(value, (bool, int, float, str)) else value.__class__.__name__


def require(holds: object, message: str, error: type[Exception] = RuntimeError) -> None:
    """Refuse a call in one line; where calls are many, an `if` spares the making of a message that nobody reads."""
    if not holds:
        raise error(message)
