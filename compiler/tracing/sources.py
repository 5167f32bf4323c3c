"""Where a program finds its inputs besides the arguments, at every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.buffers import Donated, giving
from symgrad.resident import MOST_MOVES, is_alone, is_gone, is_resident, move
from symgrad.tensor import Tensor

if TYPE_CHECKING:
    from symgrad.compiler.backend import Kernel


def settle(t: Tensor, kernel: Kernel) -> Any:
    """What a tensor holds. It moves to the device if kernels read it at every run, unless its memory is shared or it always comes back."""
    if kernel.on_device and not is_resident(t):
        moves = t.__dict__.get("_moves", 0)
        if moves < MOST_MOVES and is_alone(t):
            t.__dict__["_moves"] = moves + 1
            move(t, kernel.buffer(native_order(t._array)))
    return native_order(t._held)


def native_order(held: Any) -> Any:
    """What a kernel reads for memory of the host: an array in another byte order is converted at every run, since it may change."""
    return held.astype(held.dtype.newbyteorder("=")) if held.__class__ is np.ndarray and not held.dtype.isnative else held


def launch(kernel: Kernel, tensors: Sequence[Tensor]) -> tuple[list[Any], Sequence[Any]]:
    """What tensors hold, and what a kernel makes of it. What another thread gives away meanwhile is read again."""
    while True:
        held = [m if (m := t._held).__class__ is not np.ndarray or m.dtype.isnative else native_order(m) for t in tensors]
        try:
            return held, kernel.launch(held, [] if kernel.donated else None)
        except Donated:
            giving.wait()
            if any(map(is_gone, tensors)):
                raise


@dataclass(frozen=True)
class Captured:
    """A tensor that the function brings along."""

    tensor: Tensor

    def find(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return settle(self.tensor, kernel)


@dataclass(frozen=True)
class Gradient:
    """What is in the `.grad` of a tensor, or of an argument, given by its position."""

    owner: Tensor | int

    def now(self, arguments: Sequence[Tensor]) -> Any:
        return (arguments[self.owner] if isinstance(self.owner, int) else self.owner)._grad

    def find(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return self.now(arguments)._held


@dataclass(frozen=True)
class Draw:
    """The number of a draw of random numbers."""

    number: int

    def find(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return draws[self.number]


class Scalar:
    """A number that Python code may change, such as a learning rate; its buffer is kept as long as it does not."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read
        self.latest: tuple[Any, Any] = (None, None)

    def find(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        value = self.read()
        known, held = self.latest
        if value != known or held is None:  # NaN is never known
            held = kernel.buffer(np.asarray(value, np.float64))
            self.latest = value, held
        return held
