"""What an optimizer changes: a tensor, an array, or nested containers of them, as one vector and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import describe
from symgrad.from_data import array_of, as_tensor
from symgrad.ops.foreign import hint, native, sympy_array
from symgrad.ops.promotion import kind
from symgrad.pytree import flatten, paths, structure_key, unflatten
from symgrad.tensor import Tensor, wrap


class Packing:
    """The form of `x0`. `start` is its vector, in float64; `tensors` gives what a function is called with, `form` what a user gets back."""

    def __init__(self, x0: Any, name: str = "x0") -> None:
        leaves, self.structure = flatten(_array_of(_without_sympy(x0)), _is_leaf)
        if not leaves:
            raise TypeError(f"{name} must be a tensor, an array, or containers of them, got {describe(x0)}")
        self.labels = paths(self.structure, name)
        self.kinds = [type(x) for x in leaves]
        tensors = [_floating(x, label) for x, label in zip(leaves, self.labels, strict=True)]
        self.shapes = [tuple(t.shape) for t in tensors]
        self.types = [t.dtype for t in tensors]
        self.key = structure_key(self.structure), tuple(self.shapes), tuple(self.types)
        """Of packings with equal keys `tensors` does the same."""
        sizes = [t.numel() for t in tensors]
        self.ends = np.cumsum(sizes).tolist()
        self.size = self.ends[-1]
        if not self.size:
            raise ValueError(f"{name} has no numbers: {', '.join(f'{x} {list(s)}' for x, s in zip(self.labels, self.shapes, strict=True))}")
        self.start = np.concatenate([np.asarray(t.detach().numpy(), np.float64).reshape(-1) for t in tensors])

    def _parts(self, vector: Any) -> list[Any]:
        return [vector[end - int(np.prod(shape)) : end] for end, shape in zip(self.ends, self.shapes, strict=True)]

    def tensors(self, vector: Tensor) -> Any:
        """In the form of x0, cut out of a tensor."""
        parts = zip(self._parts(vector), self.shapes, self.types, strict=True)
        return unflatten(self.structure, [part.reshape(shape).to(dtype) for part, shape, dtype in parts])

    def form(self, vector: Any) -> Any:
        """In the form of x0: tensors where there were tensors, arrays and numbers where there were these."""
        parts = [part.reshape(shape) for part, shape in zip(self._parts(np.asarray(vector)), self.shapes, strict=True)]
        return unflatten(self.structure, [_like(*x) for x in zip(parts, self.kinds, self.types, strict=True)])

    def name_of(self, index: int) -> str:
        """What an element of the vector is called: `x0.w[1, 2]`."""
        i = next(i for i, end in enumerate(self.ends) if index < end)
        start = self.ends[i] - int(np.prod(self.shapes[i]))
        place = ", ".join(str(k) for k in np.unravel_index(index - start, self.shapes[i])) if self.shapes[i] else ""
        return f"{self.labels[i]}[{place}]" if place else self.labels[i]

    def first(self, wrong: Any) -> str:
        """The name of the first element for which it is true."""
        return self.name_of(int(np.argmax(wrong)))

    def bounds(self, bounds: Any) -> Any:
        """As SciPy takes them."""
        plain = not self.is_tree and not (_is_pair(bounds) and all(end is None or np.ndim(end) == 0 for end in bounds))
        return bounds if bounds is None or plain else self.pairs(bounds)

    def pairs(self, bounds: Any) -> list[tuple[float, float]]:
        """Bounds in the form of x0, with None or (lower, upper) in place of each tensor, as one pair for each element."""
        found, structure = flatten(bounds, lambda x: x is None or _is_pair(x))
        if paths(structure, "x0") != self.labels:
            wanted = ", ".join(self.labels)
            raise ValueError(f"bounds must have the form of x0, with None or (lower, upper) for each of {wanted}; got {bounds!r}")
        low, high = [], []
        for pair, shape, label in zip(found, self.shapes, self.labels, strict=True):
            lower, upper = (None, None) if pair is None else pair
            low.append(_spread(-np.inf if lower is None else lower, shape, label))
            high.append(_spread(np.inf if upper is None else upper, shape, label))
        return list(zip(np.concatenate(low).tolist(), np.concatenate(high).tolist(), strict=True))

    @property
    def is_tree(self) -> bool:
        return self.labels != ["x0"]


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray, float, int, np.generic)) or hasattr(x, "__dlpack__")


def _without_sympy(x0: Any) -> Any:
    """The containers with Python floats and arrays in place of SymPy numbers and matrices."""
    leaves, structure = flatten(x0, lambda x: type(x).__module__.partition(".")[0] == "sympy")
    return unflatten(structure, [_of_sympy(x) for x in leaves]) if leaves else x0


def _of_sympy(x: Any) -> Any:
    if sympy_array(x) is not None:
        return array_of(x, np.dtype(np.float64))
    number = native(x)
    if number is None:
        raise TypeError(f"x0 must be a tensor, an array, or containers of them, got {describe(x)}{hint(x)}")
    return number if isinstance(number, complex) else float(number)


def _array_of(x0: Any) -> Any:
    """Lists of nothing but numbers are an array, as they are to SciPy."""
    if not isinstance(x0, (list, tuple)) or hasattr(x0, "_fields"):
        return x0
    leaves, _ = flatten(x0, lambda x: not isinstance(x, (list, tuple)))
    return np.array(x0) if leaves and all(isinstance(x, (float, int, np.generic)) for x in leaves) else x0


def _floating(x: Any, label: str) -> Tensor:
    t: Tensor = x if isinstance(x, Tensor) else as_tensor(np.asarray(x) if isinstance(x, (np.ndarray, np.generic, float, int)) else x)
    if kind(t._array.dtype) == "f":
        return t
    if isinstance(x, Tensor) or kind(t._array.dtype) not in "bi":
        raise TypeError(f"{label} is {describe(x)}: an optimizer changes floating-point numbers; pass x0.double()")
    return t.double()


def _like(part: Any, made: type, dtype: Any) -> Any:
    if issubclass(made, (float, int)) and not issubclass(made, np.generic):
        return float(part)
    return wrap(part.copy()).to(dtype) if issubclass(made, Tensor) else np.array(part, dtype.dtype)


def _is_pair(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and not any(isinstance(end, (tuple, list, dict)) for end in x)


def _spread(end: Any, shape: Sequence[int], label: str) -> Any:
    try:
        return np.broadcast_to(np.asarray(end, np.float64), shape).reshape(-1)
    except ValueError as error:
        raise ValueError(f"the bounds of {label} must broadcast to its shape {tuple(shape)}: {error}") from error


