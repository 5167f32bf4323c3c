"""What a tensor becomes: another type, another place, a Python number, a list, an array, a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from symgrad import devices, dtypes, legacy, views
from symgrad.coercion import tensor_argument
from symgrad.deep_copies import attributes, deep_copy
from symgrad.dispatch import tensors as ops
from symgrad.escapes import (
    BOOL,
    DLPACK,
    INDEX,
    INT,
    ITEM,
    NUMPY,
    PICKLE,
    TOLIST,
    before_escape,
    instead_of_scipy,
    redacted_text,
    to_array,
    with_user_line,
)
from symgrad.mode import guard_epoch, local
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor, fill, is_leaf_tensor

__all__ = ["detach", "detach_", "is_complex", "is_floating_point", "is_nonzero", "is_tensor", "numel", "typename"]

DETACHED_VIEW = (
    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and"
    " gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients."
    " To fix this error, please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
)
REQUIRES_GRAD = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
NOT_A_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. Use"
    " tensor.detach() or tensor.clone() to copy a tensor that was computed."
)


F = TypeVar("F", bound=Callable[..., Any])


def method(function: F) -> F:
    setattr(Tensor, function.__name__, function)
    return function


# Types and places


@method
def to(
    self: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """In another type or on another device: `to(dtype)`, `to(device, dtype)`, `to(other)`. Itself if nothing changes."""
    wanted, copy = parse_to(args if other is None else (other, *args), dtype, device, copy)
    return _cast(self, self._array.dtype if wanted is None else wanted, copy)


def parse_to(args: tuple[Any, ...], dtype: Any = None, device: Any = None, copy: bool = False) -> tuple[np.dtype[Any] | None, bool]:
    """The type that the arguments of `to` ask for, if any, and whether they ask for a copy."""
    flags: list[bool] = []
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg._array.dtype
        elif isinstance(arg, bool):
            flags.append(arg)
        elif isinstance(arg, (str, int, devices.device)):
            device = arg
        elif arg is not None:
            dtype = arg
    if device is not None:
        devices.check(device)
    return None if dtype is None else dtypes.numpy_type(dtype), flags[1] if len(flags) > 1 else copy


def _cast(x: Tensor, dtype: np.dtype[Any], copy: bool = False) -> Tensor:
    if x._array.dtype == dtype:
        return ops.clone(x) if copy else x
    return ops.cast(x, dtype=dtype)


def _caster(name: str, dtype: dtypes.dtype) -> Callable[..., Tensor]:
    def cast(self: Tensor, memory_format: Any = None) -> Tensor:
        return _cast(self, dtype.dtype)

    cast.__name__, cast.__doc__ = name, f"`to({dtype})`."
    return cast


for _name, _dtype in {
    "double": dtypes.float64, "float": dtypes.float32, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "long": dtypes.int64,
    "int": dtypes.int32, "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8, "bool": dtypes.bool,
    "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}.items():  # fmt: skip
    method(_caster(_name, _dtype))


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, as in 'torch.FloatTensor'; or the tensor in the type of that name."""
    if dtype is None:
        return f"torch.{self.dtype.word}Tensor"
    wanted = legacy.parse(dtype) if isinstance(dtype, str) else dtype
    if isinstance(wanted, legacy.tensor_type):
        devices.check(wanted.place)
        wanted = wanted.dtype
    if not isinstance(wanted, dtypes.dtype):
        raise ValueError(f"invalid type: '{getattr(dtype, '__name__', dtype)}'")
    return _cast(self, wanted.dtype)


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the type of another tensor."""
    return _cast(self, tensor_argument("type_as", other, "'other' (position 1)")._array.dtype)


@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """On the CPU, where it is."""
    return self


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """On the GPU: an error without one."""
    devices.check("cuda" if device is None else device)
    return self


# Copies, and cutting the history


@method
def detach(input: Any) -> Tensor:
    """The same memory without history."""
    if input.__class__ is not Tensor and not isinstance(input, Tensor):
        input = tensor_argument("detach", input)
    return views.detach(input)


@method
def detach_(input: Tensor) -> Tensor:
    """Forget the history: the tensor becomes a leaf."""
    if input._owner is not None:
        raise RuntimeError(DETACHED_VIEW)
    if local.mode.capture is not None:
        local.mode.capture.on_detach_in_place(input)
    if input._requires_grad:
        guard_epoch.count += 1
    if input._node is not None:
        views.forget(input)
    input._requires_grad = False
    return input


@method
def __copy__(self: Tensor) -> Tensor:
    cls = self.__class__
    return fill(cls.__new__(cls), self._array, self.requires_grad)


@method
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not is_leaf_tensor(self):
        raise RuntimeError(NOT_A_LEAF)
    return deep_copy(self, memo)


@method
def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    before_escape(self, PICKLE)
    return _rebuild, (self.__class__, self._array, self.requires_grad, attributes(self))


@method
def __getstate__(self: Tensor) -> Any:
    before_escape(self, PICKLE)
    return object.__getstate__(self)


def _rebuild(cls: Any, array: Any, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    t = fill(cls.__new__(cls), np.asarray(array), requires_grad)
    t.__dict__.update(attributes)
    return t


# Values that leave for Python and NumPy


@method
def item(self: Tensor) -> Any:
    """The value of a tensor of one element, as a Python number."""
    before_escape(self, ITEM)
    array = self._array
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    value = array.item()
    return float(value) if array.dtype.kind == "V" else value


@method
def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers."""
    before_escape(self, TOLIST)
    array = self._array
    return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()


@method
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The tensor's own memory as an array; `force=True` detaches first."""
    before_escape(self, NUMPY)
    if not force and self.requires_grad and local.mode.recording:
        raise RuntimeError(with_user_line(REQUIRES_GRAD))
    return self._array.view()


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    before_escape(self, to_array())
    if self.requires_grad and local.mode.recording:
        raise RuntimeError(with_user_line(instead_of_scipy(REQUIRES_GRAD)))
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"a tensor of {self.dtype} cannot be seen as an array of {np.dtype(dtype)} without a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


@method
def __dlpack__(self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
    """Lend the memory to another library. What is not contiguous, or lent read-only to a library that cannot tell, goes as a copy."""
    before_escape(self, DLPACK)
    if self.requires_grad:
        raise BufferError(with_user_line("Can't export tensors that require gradient, use tensor.detach()"))
    array = self._array
    lendable = array.flags.c_contiguous and (array.flags.writeable or max_version is not None)
    if not lendable and copy is False:
        raise BufferError("only contiguous, writable memory is lent without a copy")
    if copy or not lendable:
        array = np.array(array, order="C")
    return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    return (1, 0)  # kDLCPU


def _one(x: Tensor) -> Any:
    if x._array.size != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars; functions of the module math take such: use sg.sin(t) in place of"
            " math.sin(t)"
        )
    return item(x)


@method
def __bool__(self: Tensor) -> bool:
    before_escape(self, BOOL)
    array = self._array
    if array.size != 1:
        raise RuntimeError(f"Boolean value of Tensor with {'more than one value' if array.size else 'no values'} is ambiguous")
    return bool(array.item())


@method
def __int__(self: Tensor) -> int:
    if self._array.size != 1:
        return int(_one(self))
    before_escape(self, INT)
    return int(self._array.item())


@method
def __float__(self: Tensor) -> float:
    value = _one(self)
    if isinstance(value, complex):
        raise RuntimeError(f"value cannot be converted to type double without overflow: {value}")
    return float(value)


@method
def __complex__(self: Tensor) -> Any:
    return complex(_one(self))


@method
def __index__(self: Tensor) -> int:
    array = self._array
    if array.size != 1 or kind(array.dtype) not in "bi":
        raise TypeError("only integer tensors of a single element can be converted to an index")
    before_escape(self, INDEX)
    return int(array.item())


@method
def __reversed__(self: Tensor) -> Tensor:
    """The first dimension in reverse order: a tensor, as in PyTorch, and no iterator."""
    return self.flip(0) if self._array.ndim else self


@method
def __format__(self: Tensor, spec: str) -> str:
    text = redacted_text(self)
    if text is not None:
        return text
    if self._array.ndim == 0 and self.__class__ is Tensor:
        return format(item(self), spec)
    return object.__format__(self, spec)


# Questions


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """How many elements there are."""
    return tensor_argument("numel", input)._array.size


@method
def is_floating_point(input: Any) -> bool:
    """Whether the elements are floats."""
    if input.__class__ is not Tensor and not isinstance(input, Tensor):
        input = tensor_argument("is_floating_point", input)
    return bool(kind(input._array.dtype) == "f")


@method
def is_complex(input: Any) -> bool:
    """Whether the elements are complex numbers."""
    if input.__class__ is not Tensor and not isinstance(input, Tensor):
        input = tensor_argument("is_complex", input)
    return bool(input._array.dtype.kind == "c")


@method
def is_signed(self: Tensor) -> bool:
    """Whether the type of the elements has negative numbers."""
    return bool(self.dtype.is_signed)


@method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return bool(self._array.shape == tensor_argument("is_same_size", other, "'other' (position 1)")._array.shape)


@method
def is_nonzero(input: Any) -> bool:
    """Whether the only element is not 0."""
    if input.__class__ is not Tensor and not isinstance(input, Tensor):
        input = tensor_argument("is_nonzero", input)
    return __bool__(input)


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of any other object's class."""
    if isinstance(obj, Tensor):
        return str(type_(obj))
    cls = obj if isinstance(obj, type) else obj.__class__
    return f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")


def _real(self: Tensor) -> Tensor:
    """A view of the real parts; a real tensor is its own."""
    return ops.real(self) if is_complex(self) else self


def _imag(self: Tensor) -> Tensor:
    """A view of the imaginary parts."""
    if not is_complex(self):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return ops.imag(self)


for _name, _attribute in {"type": type_, "real": property(_real), "imag": property(_imag)}.items():
    setattr(Tensor, _name, _attribute)
