"""Tensor: an array, and how it came to be. Operators and methods are given to it where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad import dtypes
from symgrad.graph import Node, Output
from symgrad.typing import Array


class Size(tuple[int, ...]):
    """A shape, printed as PyTorch prints it."""

    __slots__ = ()

    def numel(self) -> int:
        n = 1
        for size in self:
            n *= size
        return n

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__


class Tensor:
    """The slots are what every op touches; what few tensors have lives in the instance's dictionary, with defaults here.

    Memory: a tensor that shares another's (a view, a detached tensor) has that one as `_base`. `_cell` is empty until the memory is
    written to (see `symgrad.graph.Node.cells`); whoever has a base uses the base's.
    History: a view has an `_owner` and the `_path` of rows that leads from it to the view. The view's `_node` belongs to the history
    that the owner had at `_epoch`; if the owner has been written to since, `refresh` replays the path.
    `_made` is "no_grad" or "several" for a view that may not be written to with recording on: PyTorch forbids it, too.
    `_undo` are the steps back from what `t_()` and the like did to an owner, the last first; a view knows how many there were when it
    was made (`_depth`).
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_base", "_cell", "_node", "_requires_grad")

    _array: Array
    _base: Tensor | None
    _cell: list[Any]
    _node: Any
    _requires_grad: bool

    _accumulator: Any = None
    _constant: Any = None
    _grad: Tensor | None = None
    _hooks: Any = None
    _owner: Tensor | None = None
    _path: tuple[Any, ...] = ()
    _epoch: int = 0
    _made: str | None = None
    _undo: tuple[Any, ...] = ()
    _depth: int = 0
    _writes: int = 0
    name: str | None = None

    __array_priority__ = 1000
    __hash__ = object.__hash__

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    @property
    def dtype(self) -> Any:
        return dtypes.of(self._array.dtype)

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def requires_grad(self) -> bool:
        if self._base is not None:
            refresh(self)
        return self._requires_grad

    @property
    def grad_fn(self) -> Node | None:
        if self._base is not None:
            refresh(self)
        return self._node.node if self._node.__class__ is Output else self._node

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def grad(self) -> Tensor | None:
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._grad = value

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
        """Accumulate the gradient of this tensor into the leaves' `.grad`."""
        from symgrad.autograd.backward import backward

        backward(self, gradient, retain_graph, create_graph, inputs)

    def __repr__(self) -> str:
        from symgrad.printing import tensor_str

        return tensor_str(
            self._array,
            dtype_name=repr(self.dtype),
            default_dtype_name=repr(dtypes.get_default_dtype()),
            requires_grad=self.requires_grad,
            grad_fn_name=None if self.grad_fn is None else self.grad_fn.name(),
        )

    if TYPE_CHECKING:  # operators and methods are attached by symgrad.functional

        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...


def version_cell(x: Tensor) -> list[Any]:
    """The cell that says whether this memory was written to: one for a base and all its views."""
    return x._cell if x._base is None else x._base._cell


def wrap(array: Any, requires_grad: bool = False, node: Any = None) -> Tensor:
    """A tensor around an array."""
    t = Tensor.__new__(Tensor)
    t._array = array if array.__class__ is np.ndarray else np.asarray(array)
    t._node = node
    t._requires_grad = requires_grad
    t._cell = []
    t._base = None
    return t


def refresh(view: Tensor) -> None:
    """Follow the owner: if its history has changed since this view was recorded, the view's is replayed from it."""
    owner = view._owner
    if owner is not None and view._epoch != owner._epoch:
        from symgrad.views import replay

        replay(view)
