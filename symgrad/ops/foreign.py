"""Numbers and arrays of other libraries, recognised without importing them: SymPy's numbers, JAX's arrays, PyTorch's tensors."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad.ops.exact import Exact, exact
from symgrad.ops.symbolic_scalar import is_symbolic_scalar


def native(x: Any) -> Any:
    """A SymPy number as a Python number (a rational as a Fraction), a jax array as a NumPy array; None for anything else."""
    if type(x).__module__.partition(".")[0] == "sympy":
        return _number_of_sympy(x)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        return np.asarray(x)
    return None


def sympy_array(x: Any) -> Any:
    """A SymPy matrix or N-dimensional array of numbers as nested lists of SymPy numbers; None for anything else, and if it has symbols."""
    if not is_sympy_array(x):
        return None
    rows = x.tolist()
    return rows if all(_number_of_sympy(entry) is not None for entry in sys.modules["sympy"].flatten(rows)) else None


def is_sympy_array(x: Any) -> bool:
    """True for a SymPy matrix or N-dimensional array, also one with symbols."""
    if type(x).__module__.partition(".")[0] != "sympy":
        return False
    sympy: Any = sys.modules["sympy"]
    return isinstance(x, sympy.MatrixBase) or (isinstance(x, sympy.NDimArray) and x.rank() > 0)


def python_number(x: Any) -> Any:
    """One number of NumPy's, SymPy's or JAX's, or a Fraction, as a Python number; anything else as it is."""
    if x.__class__ in (bool, int, float, complex, str):
        return x
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.size == 1):
        return x.item()
    if isinstance(x, Fraction):
        return exact(x)
    if isinstance(x, (int, float, complex)):
        return builtin_number(x)
    plain = native(x)
    return x if plain is None else python_number(plain)


def builtin_number(x: Any) -> Any:
    """A number of a subclass (an IntEnum, a class Meters(float)) as its int, float or complex, since NumPy would take the subclass for an
    array; Exact and symbolic scalars, which graphs know, as they are."""
    if x.__class__ in (bool, int, float, complex, Exact) or is_symbolic_scalar(x):
        return x
    cls: Any = next(c for c in (int, float, complex) if isinstance(x, c))
    return cls.__pos__(x)


def without_mask(array: Any) -> Any:
    """The array itself, which must not be a masked one: a tensor would lose the mask."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("MaskedArray: a tensor has no mask; pass x.filled(value)")
    return array


def elementwise_array(array: Any) -> Any:
    """The array itself, whose operators must mean what those of tensors do."""
    if isinstance(array, np.matrix):
        raise TypeError("np.matrix: its * is the matrix product, and that of a tensor is not; pass np.asarray(x), and write x @ y")
    if array.__class__.__module__.startswith("sympy.") and isinstance(array, sys.modules["sympy"].MatrixBase):
        name = array.__class__.__name__
        raise TypeError(f"SymPy {name}: its * and ** are matrix products, unlike those of a tensor; pass sg.tensor(matrix) and write x @ y")
    return without_mask(array)


def _number_of_sympy(x: Any) -> Any:
    """None for what has no value: symbols and expressions of them, relations, sets."""
    sympy: Any = sys.modules["sympy"]
    if x is sympy.true or x is sympy.false:
        return bool(x)
    if not isinstance(x, sympy.Expr) or not x.is_number:
        return None
    if x.is_Integer:
        return int(x)
    if x.is_Rational:
        return Fraction(int(x.p), int(x.q))
    return float(x) if x.is_extended_real or x is sympy.nan else complex(x)


def hint(x: Any) -> str:
    """What to pass in place of a value that is taken for no tensor, as the end of an error message."""
    if sympy_array(x) is not None:
        return ": pass sg.tensor(x)"
    library = type(x).__module__.partition(".")[0]
    if library == "sympy":
        return ": only numbers of SymPy's have a value; substitute the symbols first"
    if library in ("jax", "jaxlib"):
        return ": JAX traces it, and it has no value; use compile(f).as_jax() under jax.jit, grad or vmap"
    if hasattr(type(x), "__dlpack__"):
        return ": pass sg.from_dlpack(x), which shares its memory"
    if isinstance(x, tuple):
        return ": tuples are never data; pass sg.tensor(x), or a list"
    return ""


def class_name(x: Any) -> str:
    """How a message calls the class of a value: as a user knows it, with the library if that is another one."""
    cls = x.__class__  # what it is for everybody, which internal classes answer with the public one
    library = cls.__module__.partition(".")[0]
    return str(cls.__name__) if library in ("builtins", "symgrad", "numpy", "__main__") else f"{library}.{cls.__name__}"
