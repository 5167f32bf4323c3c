"""What each thread is doing: recording or not, capturing or not; and the context in which kernels run quietly."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import numpy as np


class Mode:
    """`run(kernel, *args)` calls a kernel with NumPy's floating-point warnings off, as PyTorch has them.

    It does so in a context of its own, so that the user's `np.errstate` is never touched: this costs nothing measurable,
    where entering `np.errstate` costs a microsecond.
    """

    __slots__ = ("anomaly", "capture", "inference", "recording", "run")

    def __init__(self) -> None:
        self.recording = True
        self.inference = False
        self.capture: Any = None
        self.anomaly: Any = None
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = Mode()


local = _Local()
