"""Names of captured tensors in source code and formulas, taken from the user's own names.

    w                       a closure variable or global, or an attribute of the object whose method is traced
    net_0_weight            a parameter or buffer of a module in such a variable; ws_0 for an element of a list, tuple or dictionary
    net_0_weight_exp_avg    the optimizer state of that parameter
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from symgrad.compiler.guards.compare import StateGuard
from symgrad.compiler.guards.names import find_state_guards
from symgrad.pytree import has_attribute, is_module
from symgrad.tensor import Tensor

_MAX_TENSORS = 10_000


def tensor_names(function: Any, state_guards: Iterable[StateGuard] | None = None) -> dict[int, str]:
    """The names of the tensors that `function` captures, by tensor id; the first name found is used."""
    if is_module(function):
        return {id(t): path for path, t in _module_tensors(function)}
    found: dict[int, str] = {}
    values = [
        *_attributes(function), *((name.title.rpartition(" ")[2], name.value) for name in state_guards or find_state_guards(function))
    ]
    for title, value in values:
        for path, t in _named_tensors(title, value):
            found.setdefault(id(t), re.sub(r"\W", "_", path))
    for _, value in values:
        for path, t in _optimizer_state_tensors(value, found):
            found.setdefault(id(t), path)
    return found


def _attributes(function: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of the attributes of the object whose method `function` is; a module is one entry, `self`."""
    owner = getattr(function, "__self__", None)
    if is_module(owner):
        yield "self", owner
    elif owner is not None:
        yield from getattr(owner, "__dict__", {}).items()


def _named_tensors(title: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield title, value
    elif is_module(value):
        yield from ((f"{title}.{path}", t) for path, t in _module_tensors(value))
    elif isinstance(value, (list, tuple, dict)) and len(value) <= _MAX_TENSORS:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(part, Tensor) or is_module(part):
                yield from _named_tensors(f"{title}.{key}", part)


def _module_tensors(module: Any) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _optimizer_state_tensors(optimizer: Any, known: Mapping[int, str]) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of the optimizer state of each parameter that has a name; nothing if `optimizer` is no optimizer."""
    state = getattr(optimizer, "state", None) if has_attribute(optimizer, "param_groups") else None
    for p, kept in state.items() if isinstance(state, Mapping) else ():
        if id(p) in known and isinstance(kept, Mapping):
            yield from ((f"{known[id(p)]}_{key}", t) for key, t in kept.items() if isinstance(t, Tensor) and str(key).isidentifier())
