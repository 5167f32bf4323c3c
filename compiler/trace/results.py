"""The results of a traced function: tensors, containers of them, and Python values that are the same at every call."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.coercion import tensors_of
from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import TraceError, describe
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.pytree import LEAF, children, flatten, replace_leaves, unflatten
from symgrad.tensor import Tensor

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type, np.dtype, np.generic, enum.Enum, slice)


def flatten_results(result: Any, effects: bool = False) -> tuple[list[Tensor], Any]:
    """The tensors in `result`, and its structure. Raises TraceError for results that a program cannot return; with `effects` the function
    may return None."""
    leaves, structure = flatten(result, lambda x: isinstance(x, Tensor) or is_symbolic_scalar(x))
    tensors = [x for x in leaves if not is_symbolic_scalar(x)]
    if not tensors and not (effects and result is None):
        raise no_tensor_error(result)
    _check(structure, "the result")
    if len(tensors) < len(leaves):  # a Python number that depends on the arguments becomes a constant of the program, with a guard
        structure = replace_leaves(structure, [x.specialize() if is_symbolic_scalar(x) else LEAF for x in leaves])
    return tensors, structure


def numbers_to_tensors(result: Any, alone: bool) -> Any:
    """`result` with its symbolic Python scalars turned into tensors, if it has no tensors; call this while the function is traced. Next to
    tensors such scalars stay Python numbers, as in eager code. If all arguments are Python numbers (`alone`), a result of plain numbers is
    turned into tensors too: integer arguments are part of the program, not symbolic."""
    leaves, structure = flatten(result, lambda x: isinstance(x, Tensor) or is_symbolic_scalar(x))
    if not leaves and alone:
        leaves, structure = flatten(result, lambda x: isinstance(x, (bool, int, float, complex)))
    if not leaves or any(isinstance(x, Tensor) for x in leaves):
        return result
    return unflatten(structure, tensors_of(leaves))


def no_tensor_error(result: Any) -> TraceError:
    got = describe(result)
    way = "return a tensor" if isinstance(result, np.ndarray) else "return what is in it as a tuple, dict or dataclass"
    if isinstance(result, (bool, int, float, complex)):
        way = "return tensor(...) of a comparison or a size, or return it beside a tensor"
    elif isinstance(result, _CONSTANTS):
        way = "return tensors, or this beside one"
    return TraceError(f"{user_line()}: the function must return a tensor or tensors, got {got}; {way}, or leave the function eager")


def _check(structure: Any, where: str) -> None:
    parts = children(structure)
    if parts is not None:
        for k, part in parts:
            _check(part, f"{where}[{k!r}]")
    elif structure is not LEAF and not isinstance(structure, (*_CONSTANTS, dtypes.dtype)):
        way = "return a tensor" if isinstance(structure, np.ndarray) else "return what is in it as a tuple, dict or dataclass"
        raise TraceError(
            f"{user_line()}: {where} is {describe(structure)}, which a program cannot make anew at every call; {way}, or leave the function"
            " eager"
        )
