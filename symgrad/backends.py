"""What programs ask of `backends`: whether a library of PyTorch's is there, and switches that change nothing here."""

from __future__ import annotations

from typing import Any


class _Backend:
    """A library that is not there. Its switches can be set and read, and have no effect."""

    def __init__(self, doc: str, **switches: Any) -> None:
        self.__doc__ = doc
        self.__dict__.update(switches)

    def is_available(self) -> bool:
        """Whether it can be used: False."""
        return False

    def is_built(self) -> bool:
        """Whether it was built in: False."""
        return False

    def version(self) -> None:
        """Its version: None, since it is not there."""


cudnn = _Backend("NVIDIA's library for deep networks.", enabled=True, benchmark=False, deterministic=False, allow_tf32=True)
cuda = _Backend("NVIDIA's GPUs.", matmul=_Backend("Products of matrices on a GPU.", allow_tf32=False))
mps = _Backend("Apple's GPUs.")
mkl = _Backend("Intel's library for linear algebra; NumPy brings its own.")
mkldnn = _Backend("Intel's library for deep networks.", enabled=True)
openmp = _Backend("Threads inside operations.")
