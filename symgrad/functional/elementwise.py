"""Public elementwise functions, with PyTorch's signatures: arithmetic, powers, elementary functions, rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, overload

import numpy as np

from symgrad.application import constant
from symgrad.coercion import NUMBERS, beside, tensor_argument
from symgrad.computed_options import fixed, is_computed
from symgrad.dispatch import tensors as ops
from symgrad.functional.names import METHODS, coerced, into, method, method_inplace, mistyped, public
from symgrad.ops.exact import is_exact, root
from symgrad.ops.foreign import python_number
from symgrad.ops.promotion import COMPLEX128, FLOAT64, kind, result_type, word
from symgrad.ops.shapes import integer
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor
from symgrad.typing import Operand, Scalar
from symgrad.views import added, inplace, inplace_ufunc

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "deg2rad", "digamma", "div", "divide",
    "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac",
    "heaviside", "hypot", "ldexp", "lerp", "lgamma", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logit", "maximum",
    "minimum", "mul", "multiply", "nan_to_num", "neg", "negative", "polygamma", "positive", "pow", "rad2deg", "reciprocal", "relu",
    "remainder", "round", "rsqrt", "rsub", "sgn", "sigmoid", "sign", "sin", "sinc", "sinh", "sqrt", "square", "sub", "subtract", "tan",
    "tanh", "true_divide", "trunc", "xlogy",
]  # fmt: skip


class Unary(Protocol):
    """What `unary` makes."""

    def __call__(self, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


class Binary(Protocol):
    """What `binary` makes."""

    def __call__(self, input: Any, other: Any, *, out: Tensor | None = None) -> Tensor: ...


def unary(name: str, row: str | None = None, in_place: bool = True) -> Unary:
    """The row as function and method, and as in-place method where PyTorch has one. The method is the recorded op itself."""
    op: Callable[..., Tensor] = getattr(ops, row or name)

    def function(input: Any, *, out: Tensor | None = None) -> Tensor:
        if input.__class__ is not Tensor and not isinstance(input, Tensor):
            input = tensor_argument(name, input)
        return op(input) if out is None else into(out, function, (input,), {})

    function.__name__ = name
    function.__doc__ = op.__doc__ = f"{name} of every element."
    METHODS[name] = op
    if in_place:
        METHODS[f"{name}_"] = inplace(function)
    return function


def binary(name: str, row: str | None = None, in_place: bool = True) -> Binary:
    """The row as function and method, and as in-place method where PyTorch has one."""
    op: Callable[..., Tensor] = getattr(ops, row or name)

    def function(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        try:
            return op(input, other) if out is None else into(out, function, (input, other), {})
        except TypeError as error:
            accepted = coerced(function, (input, other), {})
            if accepted is None:
                raise mistyped(function, (input, other), {}) or error from None
        return function(*accepted[0], out=out)

    function.__name__ = name
    function.__doc__ = f"{name} of every pair of elements."
    METHODS[name] = function
    if in_place:
        METHODS[f"{name}_"] = inplace(function)
    return function


def alias(name: str, of: str) -> None:
    """A second name for a method, plain and in place."""
    for ending in ("", "_"):
        if of + ending in METHODS:
            METHODS[name + ending] = METHODS[of + ending]


# --- functions of one tensor

abs, neg, reciprocal, square, rsqrt, _sqrt = map(unary, ("abs", "neg", "reciprocal", "square", "rsqrt", "sqrt"))


@overload
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def sqrt(input: int | Fraction) -> float: ...


def sqrt(input: Any, *, out: Tensor | None = None) -> Any:
    """sqrt of every element. That of a Python integer or Fraction is a number, which formulas show exactly."""
    return root(input) if is_exact(input) and out is None else _sqrt(input, out=out)


exp, exp2, expm1, log, log2, log10, log1p = map(unary, ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"))
sin, cos, tan, asin, acos, atan = map(unary, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(unary, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
relu, sigmoid, erf, erfc, erfinv, sinc = map(unary, ("relu", "sigmoid", "erf", "erfc", "erfinv", "sinc"))
lgamma, digamma, deg2rad, rad2deg = map(unary, ("lgamma", "digamma", "deg2rad", "rad2deg"))
floor, ceil, trunc, frac, sign, sgn = map(unary, ("floor", "ceil", "trunc", "frac", "sign", "sgn"))

absolute, negative, fix = abs, neg, trunc
arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh


@method
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    if kind(input._array.dtype) == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


METHODS["__pos__"] = positive


@method_inplace
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest integer, or to so many decimals; halves go to the even neighbour."""
    return ops.round_to(input, decimals=integer("decimals", decimals, "round")) if decimals else ops.round(input)


@method_inplace
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), with x clamped to [eps, 1 - eps] if eps is given."""
    return ops.logit(input, eps=eps)


@public
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    n = integer("n", n, "polygamma")
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}")
    return ops.polygamma(input, n=n) if n else ops.digamma(input)


METHODS["polygamma"] = lambda self, n: polygamma(n, self)
METHODS["polygamma"].__doc__ = polygamma.__doc__
METHODS["polygamma_"] = inplace(METHODS["polygamma"])

_HALF_MAX = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}


@method_inplace
def nan_to_num(input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN becomes 0, infinities become the largest finite numbers, or what is given."""
    largest = _HALF_MAX.get(input._array.dtype.name)
    if largest is not None:
        posinf, neginf = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return ops.nan_to_num(input, nan=nan or 0, posinf=posinf, neginf=neginf)


# --- arithmetic


def _scaled(name: str, input: Any, other: Any, alpha: Scalar) -> Any:
    """alpha * other, in the dtype of the result."""
    if alpha.__class__ is int and alpha == 1:
        return other
    alpha = python_number(alpha)
    operands = [x for x in (input, other) if isinstance(x, Tensor)]
    dtype = result_type(*(x._array if isinstance(x, Tensor) else x for x in (input, other)))
    if "sub" in name and any([kind(x._array.dtype) == "b" for x in operands]):
        return other  # whose subtraction is refused
    if isinstance(alpha, bool) and kind(dtype) != "b":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind(dtype) in "bi" and not isinstance(alpha, int):
        raise RuntimeError(f"{name}(): For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and not any([kind(x._array.dtype) == "c" for x in operands]):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if isinstance(other, Tensor) and other._array.dtype != dtype:
        other = ops.cast(other, dtype=dtype)
    return ops.mul(other, bool(alpha) if kind(dtype) == "b" else alpha)


@method
def add(input: Operand, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """input + alpha * other"""
    return ops.add(input, _scaled("add", input, other, alpha))


@method
def sub(input: Operand, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """input - alpha * other"""
    return ops.sub(input, _scaled("sub", input, other, alpha))


@public
def rsub(input: Operand, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """other - alpha * input"""
    return ops.rsub(_scaled("rsub", other, input, alpha), other)


mul = binary("mul")


@method
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """input / other, rounded towards zero ("trunc") or down ("floor") if asked."""
    if rounding_mode is None:
        return ops.div(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    return ops.div_rounded(input, other, rounding_mode=rounding_mode)


_add_, _sub_, _mul_, _div_ = (inplace_ufunc(TABLE[name]) for name in ("add", "sub", "mul", "div"))
_div_rounded_ = inplace(div)


def add_(self: Tensor, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """self += alpha * other"""
    if alpha.__class__ is float and added(self, other, alpha):
        return self
    try:
        return _add_(self, _scaled("add_", self, other, alpha))
    except TypeError as error:
        accepted = _accepted(add_, self, other, error)
    return add_(self, accepted, alpha=alpha)


def sub_(self: Tensor, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """self -= alpha * other"""
    if alpha.__class__ is float and added(self, other, -alpha):
        return self
    try:
        return _sub_(self, _scaled("sub_", self, other, alpha))
    except TypeError as error:
        accepted = _accepted(sub_, self, other, error)
    return sub_(self, accepted, alpha=alpha)


def mul_(self: Tensor, other: Operand) -> Tensor:
    """self *= other"""
    try:
        return _mul_(self, other)
    except TypeError as error:
        accepted = _accepted(mul_, self, other, error)
    return mul_(self, accepted)


def div_(self: Tensor, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """self /= other"""
    try:
        return _div_(self, other) if rounding_mode is None else _div_rounded_(self, other, rounding_mode=rounding_mode)
    except TypeError as error:
        accepted = _accepted(div_, self, other, error)
    return div_(self, accepted, rounding_mode=rounding_mode)


def _accepted(function: Any, self: Tensor, other: Any, error: TypeError) -> Any:
    """The other operand as a tensor, if it stands for one, or the error."""
    accepted = coerced(function, (self, other), {})
    if accepted is None:
        raise mistyped(function, (self, other), {}) or error from None
    return accepted[0][1]


for _inplace in (add_, sub_, mul_, div_):
    METHODS[_inplace.__name__] = _inplace
METHODS |= {"__iadd__": _add_, "__isub__": _sub_, "__imul__": _mul_, "__itruediv__": _div_}


@method_inplace
def true_divide(input: Operand, other: Operand) -> Tensor:
    """Another name for `div` without rounding."""
    return ops.div(input, other)


subtract, multiply, divide = sub, mul, div
floor_divide, remainder, fmod = map(binary, ("floor_divide", "remainder", "fmod"))


@method_inplace
def addcmul(input: Tensor, tensor1: Operand, tensor2: Operand, *, value: Scalar | Tensor = 1) -> Tensor:
    """input + value * tensor1 * tensor2"""
    value = beside(value, input, tensor1, tensor2)
    if is_computed(value):
        whole = all(isinstance(t, Tensor) and kind(t._array.dtype) in "bi" for t in (input, tensor1, tensor2))
        number: Any = value
        factor = int(number) if whole else fixed(value)  # integers stay integers
        return ops.add(input, ops.mul(ops.mul(tensor1, tensor2), factor))
    return ops.addcmul(input, tensor1, tensor2, value=value)


@method_inplace
def addcdiv(input: Tensor, tensor1: Operand, tensor2: Operand, *, value: Scalar | Tensor = 1) -> Tensor:
    """input + value * tensor1 / tensor2"""
    if all(isinstance(x, Tensor) and kind(x._array.dtype) in "bi" for x in (tensor1, tensor2)):
        raise RuntimeError("Integer division with addcdiv is no longer supported: cast tensor1 or tensor2 to a floating-point type")
    value = beside(value, input, tensor1, tensor2)
    if is_computed(value):
        return ops.add(input, ops.mul(ops.div(tensor1, tensor2), fixed(value)))
    return ops.addcdiv(input, tensor1, tensor2, value=value)


@method_inplace
def lerp(input: Tensor, end: Operand, weight: Operand) -> Tensor:
    """input + weight * (end - input)"""
    for name, other in (("end", end), ("weight", weight)):
        if isinstance(other, Tensor) and other._array.dtype != input._array.dtype:
            raise RuntimeError(f"lerp: expected dtype {input.dtype.name} for `{name}` but got dtype {other.dtype.name}")
    if kind(input._array.dtype) in "bi":
        raise NotImplementedError(f"\"lerp\" not implemented for '{word(input._array.dtype)}'")
    return ops.lerp(input, end, beside(weight, input, end))


# --- powers


@method_inplace
def pow(input: Operand, exponent: Operand) -> Tensor:
    """input ** exponent; a Python number as exponent is part of the operation, so x ** 2 has the derivative 2 x."""
    if isinstance(input, Tensor):
        power: Tensor = input**exponent
        return power
    return ops.pow(input, exponent)


@method
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """input ** exponent in double precision."""
    given = [x if isinstance(x, NUMBERS) else tensor_argument("float_power", x) for x in (input, exponent)]
    arrays = (x._array if isinstance(x, Tensor) else x for x in given)
    wide = COMPLEX128 if kind(result_type(*arrays)) == "c" else FLOAT64
    base, power = (ops.cast(x, dtype=wide) if isinstance(x, Tensor) else x for x in given)
    return pow(base if isinstance(base, Tensor) or isinstance(power, Tensor) else constant(np.asarray(base, wide), base), power)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """In place only where the result has this tensor's type: double precision."""
    if self._array.dtype not in (FLOAT64, COMPLEX128):
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype.name} but the operation's result requires dtype Double")
    return METHODS["pow_"](self, exponent)  # type: ignore[no-any-return]


METHODS["float_power_"] = float_power_


@method_inplace
def ldexp(input: Tensor, other: Operand) -> Tensor:
    """input * 2 ** other"""
    if isinstance(other, Tensor) and kind(other._array.dtype) == "i" and kind(input._array.dtype) == "f":
        other = ops.cast(other, dtype=input._array.dtype)
    return ops.mul(input, ops.exp2(other))


# --- functions of two tensors

atan2, hypot, xlogy, copysign = map(binary, ("atan2", "hypot", "xlogy", "copysign"))
arctan2 = atan2


@method_inplace
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 left of 0, 1 right of it, the given values at 0."""
    if input._array.dtype != values._array.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return ops.heaviside(input, values)


maximum, minimum, fmax, fmin, logaddexp, logaddexp2 = (
    binary(name, in_place=False) for name in ("maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2")
)


for _name, _of in {
    "absolute": "abs", "negative": "neg", "fix": "trunc", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "subtract": "sub", "multiply": "mul", "divide": "div",
}.items():  # fmt: skip
    alias(_name, _of)
