"""Deep copies of tensors: copies of tensors that share memory share memory, as in PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from symgrad.application import apply
from symgrad.escapes import SHARED, before_escape
from symgrad.mode import local
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, fill
from symgrad.typing import Array
from symgrad.views import detach, path_of


def deep_copy(x: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A leaf like `x`, with copies of its memory, gradient and attributes."""
    cls = x.__class__
    if local.mode.capture is None:
        new = memo[id(x)] = fill(cls.__new__(cls), _copied(x._array, memo), x._requires_grad)
        new._grad = copy.deepcopy(x._grad, memo)
    else:
        clone = _recorded(x, memo)
        new = clone if cls is Tensor else fill(cls.__new__(cls), clone._array)
        memo[id(x)] = new.requires_grad_(x._requires_grad)
        new.grad = copy.deepcopy(x.grad, memo)
    new.__dict__.update(copy.deepcopy(attributes(x), memo))
    return new


def attributes(x: Tensor) -> dict[str, Any]:
    """What the user has attached: the name, attributes of subclasses, and what a tensor is marked as (`_is_param`)."""
    return {name: value for name, value in x.__dict__.items() if not name.startswith("_") or name.startswith("_is_")}


def _copied(array: Array, memo: dict[Any, Any]) -> Array:
    """A copy in which what shares memory goes on sharing it: the memory is copied once, as a whole."""
    memory: Any = array
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    if memory is not array and not memory.flags.c_contiguous:
        return array.copy(order="K")
    key = (id(memory), "memory")
    if key not in memo:
        memo[key] = memory.copy(order="K")
    if memory is array:
        return memo[key]  # type: ignore[no-any-return]
    return np.ndarray(array.shape, array.dtype, memo[key], array.ctypes.data - memory.ctypes.data, array.strides)


def _recorded(x: Tensor, memo: dict[Any, Any]) -> Tensor:
    """The same by recorded ops, for a program that copies at every run: the owner of the memory is cloned once, and views are taken of it.

    Tensors that share memory which neither of them owns are refused: no op says where in that memory they are.
    """
    owner = x if x._owner is None else x._owner
    clones: dict[int, tuple[Array, Tensor]] = memo.setdefault("clones", {})
    first = id(owner._array) not in clones
    if first:
        if any(np.may_share_memory(array, owner._array) for array, _ in clones.values()):
            before_escape(x, SHARED)
        clones[id(owner._array)] = owner._array, detach(owner).clone()
    t = clones[id(owner._array)][1]
    if first and owner is x:
        return t
    for name, attrs in () if owner is x else path_of(x):
        t = apply(TABLE[name], (t,), attrs)
    return detach(t)
