"""Public functions that take complex numbers apart and put them together, with PyTorch's signatures."""

from __future__ import annotations

from symgrad.dispatch import tensors as ops
from symgrad.functional.elementwise import unary
from symgrad.functional.names import method, public
from symgrad.ops.promotion import kind, word
from symgrad.tensor import Tensor

__all__ = ["angle", "complex", "conj", "conj_physical", "imag", "polar", "real", "resolve_conj", "view_as_complex", "view_as_real"]

angle = unary("angle", in_place=False)
conj_physical = unary("conj_physical", "conj")


@method
def conj(input: Tensor) -> Tensor:
    """The conjugate; a real tensor is its own."""
    return ops.conj(input) if input._array.dtype.kind == "c" else input


@method
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are always computed."""
    return input


@public
def real(input: Tensor) -> Tensor:
    """A view of the real parts; a real tensor is its own."""
    return ops.real(input) if input._array.dtype.kind == "c" else input


@public
def imag(input: Tensor) -> Tensor:
    """A view of the imaginary parts."""
    if input._array.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return ops.imag(input)


@public
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag"""
    return ops.complex(real, imag)


@public
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs · (cos angle + i sin angle)"""
    return ops.complex(ops.mul(abs, ops.cos(angle)), ops.mul(abs, ops.sin(angle)))


@public
def view_as_real(input: Tensor) -> Tensor:
    """The same memory as pairs of real numbers."""
    if kind(input._array.dtype) != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return ops.view_as_real(input)


@public
def view_as_complex(input: Tensor) -> Tensor:
    """The same memory, pairs of real numbers read as complex ones."""
    array = input._array
    if kind(array.dtype) != "f":
        raise RuntimeError(f"view_as_complex is only supported for tensors of floats, but got a tensor of scalar type: {word(array.dtype)}")
    if array.size and array.ndim and array.shape[-1] == 2 and array.strides[-1] != array.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return ops.view_as_complex(input)
