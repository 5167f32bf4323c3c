"""Looking into running code, eager or compiled: print values from inside a kernel, and find out where a NaN comes from."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

import numpy as np

from symgrad.autograd.anomaly import set_detect_anomaly
from symgrad.lines import user_line
from symgrad.mode import local
from symgrad.observer import Observer
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor, wrap
from symgrad.tracer import Tracer


def print(text: str, /, *tensors: Any, **named: Any) -> None:
    """Print `text.format(*tensors, **named)`, with the values of this run: eagerly at once, in a compiled function whenever its kernel has
    run, in the order in which the function prints. Derivatives of compiled functions do not print."""
    capture = local.mode.capture
    if capture is None or capture.on_print(text, tensors, named):
        show(text, tensors, named)


def show(text: str, values: Any, named: Any) -> None:
    """Print values that are there, unseen by whoever looks on."""
    mode = local.mode
    capture = mode.swap_capture(None)
    try:
        builtins.print(text.format(*map(_plain, values), **{k: _plain(v) for k, v in named.items()}))
    finally:
        mode.swap_capture(capture)


def _plain(x: Any) -> Any:
    return wrap(x._array) if isinstance(x, Tensor) else wrap(np.asarray(x)) if hasattr(x, "shape") else x


class nans(contextlib.ContextDecorator):
    """`with nans():` the operation that makes the first NaN is an error that names it, its inputs and the line: also inside a compiled
    kernel, and in backward. With `infinities=True` infinite values are found, too. Code runs much slower meanwhile."""

    def __init__(self, infinities: bool = False) -> None:
        self.infinities = infinities

    def __enter__(self) -> nans:
        self._anomaly = set_detect_anomaly(True, check_nan=False)  # it knows the lines of the forward pass
        self._before = local.mode.capture
        local.mode.swap_capture(NanWatch(self._before, self.infinities))
        return self

    def __exit__(self, *exc: object) -> None:
        local.mode.swap_capture(self._before)
        self._anomaly.__exit__()


class NanWatch(Observer):
    """Looks at the result of every op."""

    def __init__(self, outer: Tracer | None, infinities: bool) -> None:
        super().__init__(outer)
        self.infinities = infinities

    def around(self, tracer: Tracer) -> NanWatch:
        """Return a watch in front of the tracer of a function that is traced: NaNs are found during the trace, too."""
        return NanWatch(tracer, self.infinities)

    def bad(self, x: Any) -> bool:
        """Whether there is what we look for among the numbers of an array."""
        if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in "fcV":
            return False
        x = x.astype(np.float32) if x.dtype.kind == "V" or x.dtype.itemsize == 2 else x
        return bool((~np.isfinite(x) if self.infinities else np.isnan(x)).any())

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        super().on_op(row, args, attrs, result)
        if self.abstract:
            return
        found = result if isinstance(result, tuple) else (result,)
        if not any(self.bad(t._array) for t in found if isinstance(t, Tensor)):
            return
        arrays = [a._array if isinstance(a, Tensor) else a for a in args]
        if not any(map(self.bad, arrays)):
            compiled: Any = getattr(row.numpy, "__self__", None)
            if hasattr(compiled, "check_nans"):  # a compiled function: it knows what it is made of
                compiled.check_nans(self, arrays)
            self.check_loop_nans(self, row.name, arrays, attrs)  # the tracer of a function knows what loops are made of
            raise FloatingPointError(self.message(row.name, arrays, user_line()))

    def message(self, name: str, arrays: Any, line: str) -> str:
        """What is said of the operation that did it."""
        inputs = ", ".join(_range(a) for a in arrays if a is not None)
        what = "a NaN or an infinite value" if self.infinities else "a NaN"
        return f"{line}: {name} made {what}" + (f" of {inputs}" if inputs else "")


def _range(x: Any) -> str:
    """`float32[3] between -1 and 2`."""
    if not isinstance(x, np.ndarray):
        return repr(x)
    kind = f"{x.dtype}{list(x.shape)}"
    if x.size == 1:
        return f"{kind} = {x.item():.6g}" if x.dtype.kind in "fiu" else kind
    if not x.size or x.dtype.kind not in "fiu":
        return kind
    return f"{kind} between {x.min():.6g} and {x.max():.6g}"
