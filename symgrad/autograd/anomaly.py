"""Anomaly mode: every node remembers the line that made it; an error or a NaN in backward names that line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.engine import node_of
from symgrad.graph import Node
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.observer import Observer
from symgrad.ops.spec import Row
from symgrad.tracer import Tracer


def is_anomaly_enabled() -> bool:
    """Whether this thread is in anomaly mode."""
    return local.mode.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return local.mode.anomaly is not None and local.mode.anomaly.check_nan


class Watch(Observer):
    """What anomaly mode does: `on_op` looks at every op that is run, `pull` runs the rules of every node in backward."""

    def __init__(self, check_nan: bool, outer: Tracer | None) -> None:
        super().__init__(outer)
        self.check_nan = check_nan

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        super().on_op(row, args, attrs, result)
        for t in result if isinstance(result, tuple) else (result,):
            if t._node is not None:
                remember(node_of(t._node))

    def pull(self, pull: Callable[..., Any], node: Node, g: Any, needs: list[bool]) -> Any:
        try:
            results = pull(node, g, needs)
            if self.check_nan:
                _refuse_nan(node, results)
        except Exception:
            _explain(node)
            raise
        return results


def remember(node: Node) -> None:
    """Note where in the user's code we are; our own frames are of no interest."""
    import traceback

    ours = __file__.rpartition("autograd")[0]
    frames = traceback.extract_stack()
    while frames and frames[-1].filename.startswith(ours):
        frames.pop()
    node.origin = "".join(traceback.format_list(frames))


def _refuse_nan(node: Node, results: Any) -> None:
    for i, result in enumerate(results):
        array = getattr(result, "_array", result)
        if isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "fc" and np.isnan(array).any():
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


def _explain(node: Node) -> None:
    origin = getattr(node, "origin", None)
    if origin is None:
        text = "No forward pass information available. Enable detect anomaly during forward pass for more information."
    else:
        text = f"Traceback of forward call that caused the error:\n{origin}"
    warn(f"Error detected in {node.name()}. {text}")


class set_detect_anomaly:
    """Anomaly mode on or off, from the call on; used as a context, until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        here = local.mode
        self._before = here.anomaly, here.capture
        watch = here.anomaly
        if watch is not None:  # never two at once
            here.swap_capture(watch.outer)
        here.anomaly = Watch(check_nan, here.capture) if mode else None
        if mode:
            here.swap_capture(here.anomaly)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        local.mode.anomaly, capture = self._before
        local.mode.swap_capture(capture)


class detect_anomaly:
    """`with detect_anomaly():` a NaN or an error in backward is explained by the line of the forward pass that it comes from."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.")

    def __enter__(self) -> None:
        self._switch = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        self._switch.__exit__()
