"""assert_close: tensors, arrays, numbers, and sequences and mappings of them, within tolerances that follow the dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.ops.promotion import kind, promote_types
from symgrad.tensor import Size, Tensor

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
_NUMBERS = (bool, int, float, complex)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError that says where and by how much, unless |actual - expected| <= atol + rtol |expected| everywhere.

    Without tolerances: PyTorch's for the dtype. Shapes and, with check_dtype, dtypes must be equal.
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    try:
        _compare(actual, expected, (rtol, atol), equal_nan, check_dtype, "")
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


def _compare(actual: Any, expected: Any, tolerances: Any, equal_nan: bool, check_dtype: bool, where: str) -> None:
    rest = (tolerances, equal_nan, check_dtype)
    if isinstance(actual, (Tensor, np.ndarray)) and isinstance(expected, (Tensor, np.ndarray)):
        _compare_arrays(_array(actual), _array(expected), *rest, where)
    elif isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS):
        _compare_arrays(np.asarray(actual), np.asarray(expected), tolerances, equal_nan, False, where)
    elif actual is None and expected is None:
        return
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _same_keys(actual, expected)
        for key in expected:
            _compare(actual[key], expected[key], *rest, f"{where}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for i, (x, y) in enumerate(zip(actual, expected, strict=True)):
            _compare(x, y, *rest, f"{where}[{i}]")
    else:
        raise TypeError(f"No comparison pair was able to handle inputs of type {actual.__class__} and {expected.__class__}.")


def _array(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _same_keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    missing, more = (sorted(set(a) - set(b), key=str) for a, b in ((expected, actual), (actual, expected)))
    if missing or more:
        raise AssertionError(
            f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\n"
            f"Additional keys in the actual mapping: {more}"
        )


def _tolerances(actual: Any, expected: Any, given: tuple[float | None, float | None]) -> tuple[float, float]:
    if given[0] is not None and given[1] is not None:
        return given[0], given[1]
    both = [_TOLERANCES.get(str(a.dtype), (0.0, 0.0)) for a in (actual, expected)]
    return max(both[0][0], both[1][0]), max(both[0][1], both[1][1])


def _compare_arrays(actual: Any, expected: Any, given: Any, equal_nan: bool, check_dtype: bool, where: str) -> None:
    place = f"\n\nThe failure occurred for item {where}" if where else ""
    if actual.shape != expected.shape:
        raise AssertionError(f"The values for attribute 'shape' do not match: {Size(actual.shape)} != {Size(expected.shape)}.{place}")
    if check_dtype and actual.dtype != expected.dtype:
        names = f"{dtypes.of(actual.dtype)} != {dtypes.of(expected.dtype)}"
        raise AssertionError(f"The values for attribute 'dtype' do not match: {names}.{place}")
    rtol, atol = _tolerances(actual, expected, given)
    dtype = promote_types(actual.dtype, expected.dtype)
    a, e = actual.astype(dtype), expected.astype(dtype)
    close = np.isclose(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan) if rtol or atol else _equal(a, e, equal_nan)
    if not close.all():
        raise AssertionError(_difference(a, e, close, rtol, atol) + place)


def _equal(a: Any, e: Any, equal_nan: bool) -> Any:
    same = a == e
    return same | ((a != a) & (e != e)) if equal_nan else same


def _difference(a: Any, e: Any, close: Any, rtol: float, atol: float) -> str:
    if kind(a.dtype) not in "fc":  # so that differences of booleans and of small integers do not wrap
        a, e = a.astype(np.int64), e.astype(np.int64)
    if a.ndim == 0:  # reckoned as Python's numbers are
        a, e = np.asarray(a.item()), np.asarray(e.item())
    with np.errstate(all="ignore"):
        absolute = np.abs(a - e)
        relative = absolute / np.abs(e) if kind(a.dtype) in "fc" else (absolute / np.abs(e)).astype(np.float32)
    word, limits = ("close", (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")) if rtol or atol else ("equal", ("", ""))
    if a.ndim == 0:
        return (
            f"Scalars are not {word}!\n\nExpected {e.item()} but got {a.item()}.\nAbsolute difference: {absolute.item()}{limits[0]}\n"
            f"Relative difference: {relative.item()}{limits[1]}"
        )
    wrong = int(close.size - np.count_nonzero(close))
    lines = [f"Tensor-likes are not {word}!\n", f"Mismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})"]
    for name, difference, limit in (("absolute", absolute, limits[0]), ("relative", relative, limits[1])):
        worst = np.where(close, 0, np.where(np.isnan(difference), np.inf, difference))
        index = tuple(int(i) for i in np.unravel_index(np.argmax(worst), worst.shape))
        lines.append(f"Greatest {name} difference: {difference[index].item()} at index {index}{limit}")
    return "\n".join(lines)
