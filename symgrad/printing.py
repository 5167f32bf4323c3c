"""How a tensor reads when printed: PyTorch's text, made from a NumPy array.

Only the items that are shown are ever read, so a large tensor prints as fast as a small one:

    array --edges--> shown items --cells--> one text per item --nest--> rows and blocks --wrap--> suffixes

Requirements, all measured against PyTorch 2.13:
  1. A part (real numbers, or the real or imaginary half of complex ones) is written in one notation.
     Its finite nonzero items alone choose the notation and the width; nan, inf and 0 follow.
  2. Decisions and digits are those of Python floats, whatever the precision of the array.
  3. A row breaks by counting cells of the chosen width, not by measuring what was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """What `set_printoptions` can change; `sci_mode=None` lets the values decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print, from now on.

    What is not given stays as it was, except `sci_mode`, which goes back to None, as in PyTorch.

    Args:
        precision: digits after the decimal point.
        threshold: a tensor with more items than this is summarised with `...`.
        edgeitems: items kept at each end of a summarised axis.
        linewidth: columns after which a row, or a suffix, goes to a new line.
        profile: "default", "short" or "full"; the other arguments then change that profile.
        sci_mode: True or False to always or never write floats as `1.0000e+00`.
    """
    global _options
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options = replace(_options if profile is None else _profile(profile), sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """The options in force, in a form that `set_printoptions(**options)` takes back."""
    return asdict(_options)


@contextmanager
def printoptions(**changes: Any) -> Iterator[None]:
    """Change how tensors print inside a `with` block; takes what `set_printoptions` takes."""
    before = get_printoptions()
    set_printoptions(**changes)
    try:
        yield
    finally:
        set_printoptions(**before)


def tensor_str(
    array: NDArray[Any],
    *,
    dtype_name: str,
    default_dtype_name: str,
    requires_grad: bool,
    grad_fn_name: str | None,
    device: str | None = None,
    is_parameter: bool = False,
    prefix: str = "tensor(",
) -> str:
    """The text of a tensor that holds `array`; says only what a reader could not guess.

    `device` is None for the default device. `dtype_name` and `default_dtype_name` are the full words, as
    in "torch.float64"; what comes before the last dot does not matter to the decision.
    """
    suffixes = [f"device='{device}'"] if device is not None else []
    if _needs_size(array):
        suffixes.append(f"size={array.shape}")
    if _needs_dtype(array, dtype_name, default_dtype_name):
        suffixes.append(f"dtype={dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    text = format_array(array, suffixes=suffixes, prefix=prefix)
    return f"Parameter containing:\n{text}" if is_parameter else text


def format_array(array: NDArray[Any], *, suffixes: Sequence[str] = (), prefix: str = "tensor(") -> str:
    """`prefix`, the values, then the `suffixes`, each on a new line where the last one is full."""
    text = prefix + _contents(np.asarray(array), indent=len(prefix))
    # PyTorch counts two columns more than the line has, for the ", " that would follow the values.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * len(prefix) + suffix
            column = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def _profile(name: str) -> PrintOptions:
    if name not in _PROFILES:
        raise ValueError(f"set_printoptions: got {name!r} as profile, expected one of {', '.join(_PROFILES)}")
    return _PROFILES[name]


def _needs_size(array: NDArray[Any]) -> bool:
    # `[]` alone reads as shape (0,); with no edge items the values never tell the shape.
    return array.ndim != 1 if array.size == 0 else _options.edgeitems == 0


def _needs_dtype(array: NDArray[Any], dtype_name: str, default_dtype_name: str) -> bool:
    dtype, default = (name.rpartition(".")[2] for name in (dtype_name, default_dtype_name))
    if array.size == 0:  # there is no item to read the dtype from
        return dtype != default
    default_complex = "complex128" if default == "float64" else "complex64"
    return dtype not in (default, default_complex, "int64", "bool")


def _contents(array: NDArray[Any], indent: int) -> str:
    if array.size == 0:
        return "[]"
    summarised = array.size > _options.threshold
    if summarised and array.ndim > 0 and _options.edgeitems == 0:
        return "[...]"
    cut = tuple(summarised and length > 2 * _options.edgeitems for length in array.shape)
    shown = _edges(array, cut)
    texts, width = _cells(shown)
    return _nest(texts, width, shown.shape, cut, indent)


def _edges(array: NDArray[Any], cut: tuple[bool, ...]) -> NDArray[Any]:
    """`array` with only the first and last items of each axis that is cut."""
    if not any(cut):
        return array
    ends = [*range(_options.edgeitems), *range(-_options.edgeitems, 0)]
    kept = (ends if is_cut else range(length) for is_cut, length in zip(cut, array.shape, strict=True))
    edges: NDArray[Any] = array[np.ix_(*kept)]
    return edges


def _cells(shown: NDArray[Any]) -> tuple[list[str], int]:
    """One text per item, in row-major order, and the width that a row counts for each."""
    if shown.dtype.kind == "c":
        return _complex_cells(shown)
    if shown.dtype.kind in "biu":
        return _aligned([str(item) for item in shown.ravel().tolist()])
    return _float_cells(shown)


def _complex_cells(shown: NDArray[Any]) -> tuple[list[str], int]:
    real_texts, real_width = _float_cells(shown.real)
    imag_texts, imag_width = _float_cells(shown.imag)
    imag_texts = [text.lstrip() for text in imag_texts]
    signed = [text if text.startswith("-") else f"+{text}" for text in imag_texts]
    texts = [f"{real}{imag}j" for real, imag in zip(real_texts, signed, strict=True)]
    return texts, real_width + imag_width + 1  # 1 for the j; PyTorch does not count the sign


def _float_cells(shown: NDArray[Any]) -> tuple[list[str], int]:
    if shown.dtype.kind != "f":  # bfloat16 and its like, which NumPy does not know as floats
        shown = shown.astype(np.float32)
    items: list[float] = shown.ravel().tolist()
    deciding = [item != 0 and math.isfinite(item) for item in items]
    texts = _float_texts(items, [abs(item) for item, decides in zip(items, deciding, strict=True) if decides])
    return _aligned(texts, [text for text, decides in zip(texts, deciding, strict=True) if decides])


def _float_texts(items: list[float], magnitudes: list[float]) -> list[str]:
    """The items in the notation that the finite nonzero `magnitudes` call for."""
    if _is_scientific(magnitudes):
        return [f"{item:.{_options.precision}e}" for item in items]
    if all(magnitude.is_integer() for magnitude in magnitudes):
        return [f"{item:.0f}." if math.isfinite(item) else f"{item:.0f}" for item in items]
    return [f"{item:.{_options.precision}f}" for item in items]


def _is_scientific(magnitudes: list[float]) -> bool:
    if not magnitudes:
        return False
    if _options.sci_mode is not None:
        return _options.sci_mode
    least, greatest = min(magnitudes), max(magnitudes)
    return greatest / least > 1000 or greatest > 1e8 or least < 1e-4


def _aligned(texts: list[str], deciding: list[str] | None = None) -> tuple[list[str], int]:
    """The texts, padded on the left to the widest of the `deciding` ones (of all, when None)."""
    width = max(map(len, texts if deciding is None else deciding), default=1)
    return [text.rjust(width) for text in texts], width


def _nest(texts: list[str], width: int, shape: tuple[int, ...], cut: tuple[bool, ...], indent: int) -> str:
    """The texts in brackets, one pair per axis, with an ellipsis where an axis is cut."""
    if not shape:
        return texts[0]
    if len(shape) == 1:
        return _row(texts, width, cut[0], indent)
    size = len(texts) // shape[0]
    pieces = (texts[start : start + size] for start in range(0, len(texts), size))
    blocks = [_nest(piece, width, shape[1:], cut[1:], indent + 1) for piece in pieces]
    if cut[0]:
        blocks.insert(_options.edgeitems, "...")
    separator = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return f"[{separator.join(blocks)}]"


def _row(texts: list[str], width: int, is_cut: bool, indent: int) -> str:
    if is_cut:
        edge = _options.edgeitems
        texts = [*texts[:edge], " ...", *texts[edge:]]
    per_line = max(1, math.floor((_options.linewidth - indent) / (width + 2)))  # 2 for ", "
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    separator = ",\n" + " " * (indent + 1)
    return f"[{separator.join(lines)}]"
