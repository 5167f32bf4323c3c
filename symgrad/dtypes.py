"""dtype objects under all their PyTorch names, and what is asked of them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from symgrad.mode import compiled_functions
from symgrad.ops import promotion


class dtype:
    """A number type: PyTorch's name around NumPy's type. `.dtype` lets NumPy take one wherever it wants its own."""

    __slots__ = ("_dtype", "name", "word")

    def __init__(self, name: str, word: str, numpy: Any) -> None:
        self.name = name
        self.word = word
        self._dtype = None if numpy is None else np.dtype(numpy)

    @property
    def dtype(self) -> Any:
        if self._dtype is None:
            import ml_dtypes  # bfloat16 only: not at import

            self._dtype = np.dtype(ml_dtypes.bfloat16)
            _OF_NUMPY[self._dtype] = self
        return self._dtype

    @property
    def is_floating_point(self) -> builtins.bool:
        return promotion.kind(self.dtype) == "f"

    @property
    def is_complex(self) -> builtins.bool:
        return builtins.bool(self.dtype.kind == "c")

    @property
    def is_signed(self) -> builtins.bool:
        return self.dtype.kind not in "ub"

    @property
    def itemsize(self) -> builtins.int:
        return builtins.int(self.dtype.itemsize)

    def to_real(self) -> Any:
        return of(np.empty(0, self.dtype).real.dtype)

    def to_complex(self) -> Any:
        return of(np.result_type(self.dtype, np.complex64))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


float64 = double = dtype("float64", "Double", np.float64)
float32 = float = dtype("float32", "Float", np.float32)
float16 = half = dtype("float16", "Half", np.float16)
bfloat16 = dtype("bfloat16", "BFloat16", None)
int64 = long = dtype("int64", "Long", np.int64)
int32 = int = dtype("int32", "Int", np.int32)
int16 = short = dtype("int16", "Short", np.int16)
int8 = dtype("int8", "Char", np.int8)
uint8 = dtype("uint8", "Byte", np.uint8)
bool = dtype("bool", "Bool", np.bool_)
complex64 = cfloat = dtype("complex64", "ComplexFloat", np.complex64)
complex128 = cdouble = dtype("complex128", "ComplexDouble", np.complex128)

ALL = (float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool, complex64, complex128)
_OF_NUMPY: dict[Any, dtype] = {d._dtype: d for d in ALL if d._dtype is not None}


_OF_PYTHON: dict[type, np.dtype[Any]] = {
    builtins.float: promotion.FLOAT64, builtins.int: promotion.INT64, builtins.bool: promotion.BOOL, complex: promotion.COMPLEX128,
}  # fmt: skip


def of(numpy: Any) -> dtype:
    """The dtype object of a NumPy type."""
    found = _OF_NUMPY.get(numpy)
    if found is not None:
        return found
    given = np.dtype(numpy)
    if given.name == "bfloat16" and bfloat16.dtype == given:  # asking for its type enters it into the dictionary
        return bfloat16
    native = given.newbyteorder("=")
    if native in _OF_NUMPY:
        return _OF_NUMPY[native]
    raise TypeError(
        f"can't convert np.ndarray of type numpy.{given.type.__name__}. The only supported types are: "
        + ", ".join(d.name for d in ALL)
        + "."
    )


def numpy_type(given: Any) -> np.dtype[Any]:
    """The NumPy type meant by a dtype object, a NumPy type or a Python type."""
    if isinstance(given, dtype):
        return given.dtype  # type: ignore[no-any-return]
    found = _OF_PYTHON.get(given) if isinstance(given, type) else None
    if found is not None:
        return found
    if isinstance(given, (np.dtype, type)):
        return of(np.dtype(given)).dtype  # type: ignore[no-any-return]
    raise TypeError(f"dtype must be a symgrad dtype such as float32, got {given!r}")


def type_word(numpy: Any) -> str:
    """`Float`, `Long`: how PyTorch's messages and tensor type names call a type."""
    return of(numpy).word


def get_default_dtype() -> dtype:
    """The type of new tensors of floats."""
    return of(promotion.default_float())


def set_default_dtype(d: Any) -> None:
    """The type of Python floats made into tensors, and of `rand`, `zeros`... when none is given."""
    d = of(numpy_type(d)) if isinstance(d, type) else d
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    promotion.set_default_float(d.dtype)
    for function in list(compiled_functions):
        function.forget_fast_paths()


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The type in which tensors of these two types meet."""
    for position, given in enumerate((type1, type2), 1):
        if not isinstance(given, dtype):
            raise TypeError(
                f"promote_types(): argument 'type{position}' (position {position}) must be torch.dtype, not {given.__class__.__name__}"
            )
    return of(promotion.promote_types(type1.dtype, type2.dtype))


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The type of an operation on two tensors or Python numbers."""
    operands = [getattr(given, "_array", given) for given in (tensor1, tensor2)]
    return of(promotion.result_type(*operands))


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether PyTorch would cast implicitly: never to a poorer kind (complex, float, integer, bool)."""
    order = "bifc"
    return order.index(promotion.kind(from_.dtype)) <= order.index(promotion.kind(to.dtype))


class finfo:
    """Limits of a floating-point type; of a complex type, those of its parts."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        given = get_default_dtype() if type is None else type
        if not isinstance(given, dtype) or not (given.is_floating_point or given.is_complex):
            raise TypeError("torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'")
        real = given.to_real()
        info = _float_limits(real)
        self.bits = real.itemsize * 8
        self.dtype = real.name
        self.eps, self.max, self.min = builtins.float(info.eps), builtins.float(info.max), builtins.float(info.min)
        self.smallest_normal = self.tiny = builtins.float(info.smallest_normal)
        self.resolution = builtins.float(f"1e-{info.precision}")

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in names)}, dtype={self.dtype})"


def _float_limits(real: dtype) -> Any:
    if real is bfloat16:
        import ml_dtypes

        return ml_dtypes.finfo(ml_dtypes.bfloat16)  # type: ignore[no-untyped-call]
    return np.finfo(real.dtype)


class iinfo:
    """Limits of an integer type."""

    __slots__ = ("bits", "dtype", "max", "min")

    bits: builtins.int
    dtype: str
    max: builtins.int
    min: builtins.int

    def __init__(self, type: Any) -> None:
        if not isinstance(type, dtype) or type.is_floating_point or type.is_complex:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        if type is bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        info = np.iinfo(type.dtype)
        self.bits, self.dtype, self.max, self.min = info.bits, type.name, builtins.int(info.max), builtins.int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
