"""The line of the user's code that is running, for messages and warnings."""

from __future__ import annotations

import functools
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parent)
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(functools.__file__).parent)})
_LIBRARIES = tuple(str(Path("-packages", name, "_"))[:-1] for name in ("jax", "numpy", "pandas", "scipy", "sklearn", "sympy", "torch"))
"""Libraries that call functions and methods of ours for a user."""


@functools.cache
def is_inner(file: str) -> bool:
    """True if a file belongs to symgrad, to the standard library, or to a library that calls symgrad on behalf of a user."""
    if file.startswith(_PACKAGE) or file.startswith("<frozen") or any([part in file for part in _LIBRARIES]):
        return True
    return file.startswith(_STANDARD) and "-packages" not in file


def is_ours(frame: Any) -> bool:
    """True if a frame is not the user's: it runs an inner file, or a method that `dataclass` made for a class of symgrad."""
    file = frame.f_code.co_filename
    return is_inner(file) or (file == "<string>" and frame.f_globals.get("__name__", "").startswith("symgrad."))


def user_line() -> str:
    """Return the line that the user's code is at: `model.py:12`."""
    frame: Any = sys._getframe()
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not is_inner(file) and (file != "<string>" or not is_ours(frame)):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def called_in(folder: str) -> list[str]:
    """Return the names of the running functions in files of a library's folder, innermost first, up to the user's code."""
    found = []
    frame: Any = sys._getframe()
    while frame is not None and is_inner(frame.f_code.co_filename):
        if folder in frame.f_code.co_filename:
            found.append(frame.f_code.co_name)
        frame = frame.f_back
    return found


def raised_at(error: BaseException) -> str:
    """Return the last line of the user's code that an error went through."""
    found, step = "", error.__traceback__
    while step is not None:
        if not is_inner(step.tb_frame.f_code.co_filename):
            found = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return found


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the user's line."""
    frame: Any = sys._getframe()
    level = 1
    while frame.f_back is not None and is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
