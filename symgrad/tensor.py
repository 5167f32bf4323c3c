"""Tensor: an array, and how it came to be. Operators and methods are given to it where they are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad import devices, dtypes, layouts
from symgrad.escapes import POINTER, Metadata, Rebinding, redacted_text
from symgrad.graph import Node, Output, named
from symgrad.lines import warn
from symgrad.mode import guard_epoch, local
from symgrad.ops.foreign import without_mask
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import normalize_axis
from symgrad.printing import tensor_str
from symgrad.typing import Array

if TYPE_CHECKING:
    from symgrad.tensor_methods import TensorMethods
else:  # methods and operators are attached where they are made
    TensorMethods = object


class Size(tuple[int, ...]):
    """A shape, printed as PyTorch prints it."""

    __slots__ = ()

    def numel(self) -> int:
        n = 1
        for size in self:
            n *= size
        return n

    def __add__(self, other: tuple[Any, ...]) -> Size:
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[Any, ...]) -> Size:
        return Size(tuple.__add__(other, tuple(self)))

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__


class Tensor(TensorMethods):
    """An array of numbers of one type, with PyTorch's names for what can be done with it, and a memory of how it was computed.

    Make one with `symgrad.tensor(data)`, `zeros`, `randn`, ... With `requires_grad=True` everything computed from it is recorded;
    `result.backward()` then leaves the derivative of a one-number result in `.grad`.
    """

    # The slots are what every op touches; what few tensors have lives in the instance's dictionary, with defaults here.
    #
    # Memory: a tensor that shares another's (a view, a detached tensor) has that one as `_base`. `_version_cell` is empty until the memory
    # is written to (see `symgrad.graph.Node.cells`); whoever has a base uses the base's.
    # History: a view has an `_owner` and the `_path` of rows that leads from it to the view. The view's `_node` belongs to the history
    # that the owner had at `_epoch`; if the owner has been written to since, `refresh` replays the path.
    # `_made` is "no_grad" or "several" for a view that may not be written to with recording on: PyTorch forbids it, too.
    # `_undo` are the steps back from what `t_()` and the like did to an owner, the last first; a view knows how many there were when it
    # was made (`_depth`).

    __slots__ = ("__dict__", "__weakref__", "_array", "_base", "_node", "_requires_grad", "_version_cell")

    _array: Array
    _storage: Any
    """The slot of `_array` under another name: what a tensor holds, wherever that is. See `symgrad.device_tensor`."""
    _base: Tensor | None
    _version_cell: list[Any]
    _node: Any
    _requires_grad: bool

    _accumulator: Any = None
    _constant: Any = None
    _grad: Tensor | None = None
    _hooks: Any = None
    _retains: bool = False
    _owner: Tensor | None = None
    _path: tuple[Any, ...] = ()
    _epoch: int = 0
    _made: str | None = None
    _undo: tuple[Any, ...] = ()
    _depth: int = 0
    _writes: int = 0
    _forgot: Any = None
    """A weak reference to the owner that has lost its history by `detach_()`, until the next write cuts its views off, too."""
    name: str | None = None

    __array_priority__ = 1000
    _op_priority = 1000.0
    """SymPy leaves `number * tensor` to the tensor, where it would take a 0-d one for its number."""
    __hash__ = object.__hash__

    def __init__(self, *args: Any, device: Any = None) -> None:
        """The old constructor: `Tensor(3, 4)` has these sizes and no values yet, `Tensor([3, 4])` these values."""
        from symgrad.legacy import construct

        devices.check(device)
        fill(self, construct(args, None))

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or that of one dimension."""
        shape = self._array.shape
        return Size(shape) if dim is None else shape[normalize_axis(dim, len(shape))]

    @property
    def dtype(self) -> Any:
        return dtypes.of(self._array.dtype)

    @property
    def device(self) -> devices.device:
        return devices.CPU

    @property
    def layout(self) -> layouts.layout:
        return layouts.strided

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """How many elements there are."""
        return self._array.size

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._array.itemsize

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def stride(self, dim: int | None = None) -> Any:
        """Elements from one index to the next, in every dimension or in one."""
        steps = strides_of(laid_out(self))
        return steps if dim is None else steps[normalize_axis(dim, len(steps))]

    def data_ptr(self) -> int:
        """The address of the first element."""
        if local.mode.capture is not None:
            local.mode.capture.before_escape(self, POINTER)
        return self._array.ctypes.data

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    is_cpu = True
    is_cuda = is_meta = is_mps = is_sparse = is_quantized = is_nested = False

    def is_pinned(self) -> bool:
        """Always False."""
        return False

    @property
    def _version(self) -> int:
        return root_of(self)._writes

    @property
    def requires_grad(self) -> bool:
        if self._base is not None and self._made is None:
            refresh(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not is_leaf_tensor(self):
            raise RuntimeError(f"{NOT_A_LEAF}{'' if value else DETACH_INSTEAD}")
        if value and kind(self._storage.dtype) not in "fc":
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        self._requires_grad = bool(value)
        guard_epoch.count += 1

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say that operations on this tensor are to be recorded, or are not."""
        if not requires_grad or is_leaf_tensor(self):
            self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Node | None:
        if self.is_leaf:
            return None
        return named(self._node.node if self._node.__class__ is Output else self._node)

    @property
    def output_nr(self) -> int:
        return self._node.index if self._node.__class__ is Output else 0

    @property
    def is_leaf(self) -> bool:
        if local.mode.capture is not None:
            local.mode.capture.on_metadata_read(self, Metadata.HISTORY)
        return is_leaf_tensor(self)

    @property
    def grad(self) -> Tensor | None:
        """What `backward` accumulates: for leaves that require grad, and for other tensors after `retain_grad()`."""
        if self._grad is None and self._node is not None and not getattr(self, "retains_grad", False):
            warn(NO_GRAD_HERE)
        if local.mode.capture is not None:
            local.mode.capture.before_grad_read(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            check_gradient(self, value)
        if local.mode.capture is not None:
            local.mode.capture.before_grad_replace(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> Tensor:
        """The same memory without history, and without telling anybody when it is written to."""
        if local.mode.capture is not None:
            local.mode.capture.before_alias(self)
        return wrap(self._array)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {value.__class__.__name__}")
        if self._requires_grad and kind(value._array.dtype) not in "fc":
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        if local.mode.capture is not None and value._array is not self._array:  # w.data -= x gives it what it has
            local.mode.capture.before_rebind(self, Rebinding.DATA)
        if self._base is not None:
            self._version_cell, self._base, self._owner = [], None, None
            self._path, self._made, self._depth = (), None, 0
        self._array = value._array
        self._constant = None
        guard_epoch.count += 1

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Tensor:
        """A tensor of a subclass around the memory of `data`."""
        return fill(cls.__new__(cls), data._array, require_grad)

    def as_subclass(self, cls: type[Tensor]) -> Tensor:
        """The same tensor, history included, as an instance of a subclass."""
        t = fill(cls.__new__(cls), self._array, self.requires_grad, self._node)
        t._base = self if self._base is None else self._base
        return t

    def __repr__(self) -> str:
        text = redacted_text(self)
        if text is not None:
            return text
        return tensor_str(
            self._array,
            dtype_name=repr(self.dtype),
            default_dtype_name=repr(dtypes.get_default_dtype()),
            requires_grad=self.requires_grad,
            grad_fn_name=None if self.grad_fn is None else self.grad_fn.name(),
        )

    if TYPE_CHECKING:  # operators and methods are attached where they are made

        def formula(self, wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Any: ...
        def backward(
            self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
        ) -> None: ...
        def __iadd__(self, other: Any) -> Tensor: ...
        def __isub__(self, other: Any) -> Tensor: ...
        def __imul__(self, other: Any) -> Tensor: ...
        def __itruediv__(self, other: Any) -> Tensor: ...
        def __ipow__(self, other: Any) -> Tensor: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Tensor]: ...
        def __contains__(self, element: object) -> bool: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...


Tensor._storage = Tensor.__dict__["_array"]

NOT_A_LEAF = "you can only change requires_grad flags of leaf variables."
DETACH_INSTEAD = (
    " If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
)
NO_GRAD_HERE = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during"
    " autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the"
    " non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
)


def check_gradient(x: Tensor, grad: Any) -> None:
    """Refuse what cannot be the gradient of `x`."""
    if not isinstance(grad, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {grad.__class__.__name__}")
    if grad is x:
        raise RuntimeError("can't assign Variable as its own grad")
    if grad._array.dtype != x._array.dtype:
        given, wanted = dtypes.of(grad._array.dtype).word.lower(), dtypes.of(x._array.dtype).word
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{given}' to a tensor with grad_dtype '{wanted}'. The gradient must match"
            " the tensor's dtype."
        )
    if grad._array.shape != x._array.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(grad._array.shape)}' to a tensor of size '{list(x._array.shape)}'."
            " Please ensure that the gradient and the tensor are the same size"
        )


def fill(t: Tensor, array: Array, requires_grad: bool = False, node: Any = None) -> Tensor:
    """Give a bare instance of any class of tensors its slots."""
    t._array, t._node, t._requires_grad, t._version_cell, t._base = array, node, requires_grad, [], None
    return t


def version_cell(x: Tensor) -> list[Any]:
    """The cell that says whether this memory was written to: one for a base and all its views."""
    return root_of(x)._version_cell


def root_of(x: Tensor) -> Tensor:
    """The tensor that counts the writes to this memory: x itself, its base, or the base's stand-in (see `views.detach`)."""
    while x._base is not None:
        x = x._base
    return x


def is_leaf_tensor(x: Tensor) -> bool:
    """True if no recorded op made the tensor. The property `is_leaf` tells a tracer, too, that the user's code asks."""
    if x._base is not None:
        refresh(x)
    return x._node is None


def laid_out(x: Tensor) -> Any:
    """The array that tells the layout of a tensor. Traces without values give tensors the layout of new ones."""
    capture = local.mode.capture
    if capture is None:
        return x._array
    capture.on_metadata_read(x, Metadata.LAYOUT)
    return np.empty(x._array.shape, x._array.dtype) if capture.abstract else x._array


def strides_of(array: Array) -> tuple[int, ...]:
    """Elements from one index to the next, in every dimension."""
    steps = [step // array.itemsize for step in array.strides]
    for i in range(len(steps) - 1, -1, -1):
        if not steps[i] and array.shape[i] <= 1:  # what NumPy says of a new dimension, or of one without elements
            steps[i] = steps[i + 1] * max(array.shape[i + 1], 1) if i + 1 < len(steps) else 1
    return tuple(steps)


def offset_of(x: Tensor) -> int:
    """Elements between the start of the memory that a tensor shares with its base and its first element."""
    begin, root = (a.__array_interface__["data"][0] for a in (x._array, root_of(x)._array))
    return int(begin - root) // x._array.itemsize


def added_attributes(x: Tensor) -> dict[str, Any]:
    """The attributes that the user's code added to a tensor: those that the class does not declare."""
    return {name: value for name, value in x.__dict__.items() if name not in Tensor.__annotations__}


def wrap(array: Any, requires_grad: bool = False, node: Any = None) -> Tensor:
    """A tensor around an array."""
    t = Tensor.__new__(Tensor)
    t._array = array if array.__class__ is np.ndarray else np.asarray(without_mask(array))
    t._node = node
    t._requires_grad = requires_grad
    t._version_cell = []
    t._base = None
    return t


def refresh(view: Tensor) -> None:
    """Follow the owner: if its history has changed since this view was recorded, the view's is replayed from it."""
    owner = view._owner
    if owner is not None and view._epoch != owner._epoch:
        from symgrad.views import replay

        replay(view)
