"""The row for what the user knows of a tensor, and the words for it.

`assume` returns its argument: the same elements in the same memory. Its words are facts that the compiler uses, see
`symgrad/compiler/ir/facts.py`. Derivatives are those of the argument, since a derivative also depends on values beside the assumed ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np

from symgrad.errors import AssumptionError
from symgrad.lines import user_line
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta
from symgrad.ops.table import row
from symgrad.ops.variants import is_half
from symgrad.typing import Array

MATRIX_WORDS = ("symmetric", "positive_definite", "orthogonal", "diagonal", "lower_triangular", "upper_triangular")
"""Words about the last two dimensions, for every matrix of a batch."""
WORDS = (*MATRIX_WORDS, "triangular", "positive", "integer")
"""All words that `assume` and `spec` take; "triangular" is short for "lower_triangular"."""
_TRIANGLES = {True: "lower_triangular", "lower": "lower_triangular", "upper": "upper_triangular"}


def normal_words(given: Iterable[Any], caller: str = "assume") -> tuple[str, ...]:
    """Return words in their normal order, each once. Raise TypeError or ValueError for a word that there is not."""
    found = set()
    for word in given:
        if not isinstance(word, str):
            raise TypeError(f"{caller}: what is assumed is said in words, such as \"symmetric\", got {word!r}")
        if word not in WORDS:
            raise ValueError(f"{caller}: {_unknown(word)}")
        found.add("lower_triangular" if word == "triangular" else word)
    return tuple([word for word in WORDS if word in found])


def keyword_words(given: Mapping[str, Any], caller: str = "spec") -> tuple[str, ...]:
    """Return the words of keywords such as `symmetric=True` and `triangular="upper"`; those that are False do not count."""
    found = []
    for word, value in given.items():
        if word not in WORDS:
            raise TypeError(f"{caller}: {_unknown(word)}")
        if word == "triangular" and not isinstance(value, (bool, np.bool_)):
            if value not in ("lower", "upper"):
                raise ValueError(f'{caller}: triangular={value!r}: it is "lower", "upper", or True for "lower"')
            found.append(_TRIANGLES[value])
        elif not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{caller}: {word}={value!r}: write {word}=True")
        elif value:
            found.append(word)
    return normal_words(found, caller)


def _unknown(word: str) -> str:
    close = get_close_matches(word, WORDS, 1)
    hint = f"did you mean {close[0]!r}? There are" if close else "there are"
    return f"nothing is known by the word {word!r}: {hint} {', '.join(WORDS)}"


def check_shape(shape: Iterable[int], words: Iterable[str], caller: str = "assume") -> None:
    """Raise ValueError if matrices are assumed to have a structure that only square ones have."""
    sizes = tuple(shape)
    wrong = [word for word in words if word in MATRIX_WORDS]
    if wrong and (len(sizes) < 2 or sizes[-1] != sizes[-2]):
        raise ValueError(f"{caller}: only square matrices are {text(wrong[:1])}, got the shape {sizes}")


def text(words: Iterable[str]) -> str:
    """Return words as they are printed: "symmetric, positive definite"."""
    return ", ".join([word.replace("_", " ") for word in words])


# --- the check


class _Checking(threading.local):
    """Whether this thread checks what it assumes."""

    is_on = False


_checking = _Checking()


@contextmanager
def checked(on: bool = True) -> Iterator[None]:
    """Context manager in which `assume` checks the values of this thread's tensors."""
    before, _checking.is_on = _checking.is_on, on
    try:
        yield
    finally:
        _checking.is_on = before


def check(x: Array, words: Iterable[str], where: str | None = None) -> None:
    """Raise AssumptionError if an array does not have the assumed properties.

    Elements may differ by the square root of the machine precision, relative to the largest one: 1.5e-8 for float64, 3.5e-4 for float32.
    Whether numbers are positive, or integers, is checked without tolerance.
    """
    if not x.size:
        return
    precision = np.finfo(np.float64) if kind(x.dtype) in "bi" else np.finfo(np.float32) if is_half(x.dtype) else np.finfo(x.dtype)
    tolerance = float(precision.eps) ** 0.5
    wide = x.astype(np.complex128 if kind(x.dtype) == "c" else np.float64)
    for word in words:
        with np.errstate(all="ignore"):
            problem = _CHECKS[word](wide, tolerance)
        if problem is not None:
            raise AssumptionError(f"{where or user_line()}: a tensor of shape {tuple(x.shape)} is assumed to be {text((word,))}: {problem}")


def checking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function during which `assume` checks."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with checked():
            return function(*args, **kwargs)

    return run


def _apart(difference: Array, scale: Array, tolerance: float, what: str) -> str | None:
    """Say how far elements are from what they must be, relative to the largest element of `scale`; None if that is within the tolerance.
    NaN is never within it."""
    largest = float(np.abs(scale).max()) or 1.0
    found = float(np.abs(difference).max()) / largest
    return None if found <= tolerance else f"{what} by {found:.2g} times the largest element, the tolerance is {tolerance:.2g}"


def _transposed(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _symmetric(x: Array, tolerance: float) -> str | None:
    return _apart(x - _transposed(x), x, tolerance, "it differs from its transpose")


def _definite(x: Array, tolerance: float) -> str | None:
    other = _transposed(x).conj()
    problem = _apart(x - other, x, tolerance, "it differs from its transpose")
    if problem is not None:
        return problem
    values = np.linalg.eigvalsh((x + other) / 2)
    smallest, largest = float(values.min()), float(np.abs(values).max())
    if largest and smallest >= -tolerance * largest:
        return None
    return f"its smallest eigenvalue is {smallest:.3g}, the largest {largest:.3g}"


def _orthogonal(x: Array, tolerance: float) -> str | None:
    found = float(np.abs(_transposed(x) @ x - np.eye(x.shape[-1])).max())
    return None if found <= tolerance else f"A'A differs from the identity by {found:.2g}, the tolerance is {tolerance:.2g}"


def _diagonal(x: Array, tolerance: float) -> str | None:
    return _apart(x * (1 - np.eye(x.shape[-1])), x, tolerance, "elements beside the diagonal differ from 0")


def _positive(x: Array, tolerance: float) -> str | None:
    smallest = float(x.real.min())
    return None if smallest > 0 and not x.imag.any() else f"its smallest element is {smallest:.6g}"


def _integer(x: Array, tolerance: float) -> str | None:
    found = float(np.abs(x - np.round(x)).max())
    return None if found == 0 else f"an element differs from the next integer by {found:.2g}"


_CHECKS: dict[str, Callable[[Array, float], str | None]] = {
    "symmetric": _symmetric,
    "positive_definite": _definite,
    "orthogonal": _orthogonal,
    "diagonal": _diagonal,
    "lower_triangular": lambda x, tolerance: _apart(np.triu(x, 1), x, tolerance, "elements above the diagonal differ from 0"),
    "upper_triangular": lambda x, tolerance: _apart(np.tril(x, -1), x, tolerance, "elements below the diagonal differ from 0"),
    "positive": _positive,
    "integer": _integer,
}


# --- the row


def assume_type(x: Any, *, words: tuple[str, ...]) -> Meta:
    check_shape(x.shape, words)
    return Meta(x.shape, x.dtype)


def _assume(x: Array, *, words: tuple[str, ...]) -> Array:
    if _checking.is_on:
        check(x, words)
    return x.view()


row(
    "assume", "x / words", _assume, (lambda xp, g, out, x, *, words: g,), policy="each", type=assume_type, view=True,
    jax=lambda x, *, words: x,
)  # fmt: skip
