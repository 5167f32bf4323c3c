"""Select the inputs that a derivative is taken in, and the structure of the derivative.

`wrt` is a name (`"x"`, `"params"`, `"params.w"`), a position among the arguments, or several of these. The derivative in a container has
the structure of that container; the derivative in several arguments is a tuple.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from symgrad.compiler.support.source_lines import user_line
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError
from symgrad.ops.promotion import kind
from symgrad.pytree import LEAF, children, leaf_count, leaves_like, without_static_values
from symgrad.tensor import Tensor

NamedArgument = tuple[str, Any]
"""The name of an argument, and its structure."""
SelectedInputs = tuple[tuple[int, ...], Any]
"""Positions of inputs, and the structure of a derivative in them."""


class WrtSelection(NamedTuple):
    """Positions of the selected inputs, and the structure of a derivative in them: LEAF for one tensor, or a container with LEAF in it."""

    inputs: tuple[int, ...]
    structure: Any
    is_tuple: bool
    """True if `wrt` was a tuple, a list or None: the derivative is then a tuple."""


def named_arguments(parameters: Iterable[tuple[str, Any, Any]]) -> list[NamedArgument]:
    """The arguments one by one, with *args and **kwargs expanded. A parameter is its name, its kind and the structure of its argument."""
    found: list[NamedArgument] = []
    for name, form, part in parameters:
        if form is inspect.Parameter.VAR_POSITIONAL:
            found += [(f"{name}.{i}", item) for i, item in enumerate(part)]
        elif form is inspect.Parameter.VAR_KEYWORD:
            found += part.items()
        else:
            found.append((name, part))
    return found


def select_wrt(
    wrt: Any, given: Sequence[NamedArgument], labels: Sequence[str], leaves: Sequence[Any], arguments: int,
    numbers: Sequence[type | None] = ()
) -> WrtSelection:
    """The inputs that `wrt` selects among `leaves`, of which the first `arguments` are arguments and the others captured tensors.

    If `wrt` is None: the floating-point inputs that require grad; if there are none, the floating-point arguments that were not given as
    Python numbers (see `numbers`); if there are none, the Python numbers.
    """
    if wrt is None:
        chosen = _default_wrt(leaves, arguments, numbers)
        return WrtSelection(chosen, (LEAF,) * len(chosen), True)
    if not isinstance(wrt, (tuple, list)):
        return WrtSelection(*_select(wrt, given, labels, arguments), False)
    each = [_select(item, given, labels, arguments) for item in wrt]
    return WrtSelection(tuple(i for inputs, _ in each for i in inputs), tuple(form for _, form in each), True)


def guess_wrt(
    wrt: Any, given: Sequence[NamedArgument], labels: Sequence[str], leaves: Sequence[Any], numbers: Sequence[type | None]
) -> set[int]:
    """The positions of the arguments that `wrt` selects, before a trace has found the tensors that the function captures."""
    found: set[int] = set()
    for item in wrt if isinstance(wrt, (tuple, list)) else (wrt,):
        with contextlib.suppress(ValueError, TraceError):  # the item may name a captured tensor
            found |= {*select_wrt(item, given, labels, leaves, len(leaves), numbers).inputs}
    return found


def _default_wrt(leaves: Sequence[Any], arguments: int, numbers: Sequence[type | None]) -> tuple[int, ...]:
    plain = {i for i, cls in enumerate(numbers) if cls is not None}
    floats = [i for i, x in enumerate(leaves) if kind((storage_of(x) if isinstance(x, Tensor) else x).dtype) in "fc"]
    asked = [i for i in floats if isinstance(leaves[i], Tensor) and leaves[i].requires_grad]
    given = [i for i in floats if i < arguments]
    chosen = asked or [i for i in given if i not in plain] or given
    if not chosen:
        raise TraceError(f"{user_line()}: no argument is a floating-point tensor or number: there is nothing to differentiate in")
    return tuple(chosen)


def selected_tangents(choice: WrtSelection, given: Sequence[Any], labels: Sequence[str], name: str) -> list[Any]:
    """The tangents of the selected inputs in order. `given` has one tree for each selected argument, in its structure; several may also
    come in a single tuple or list."""
    form = choice.structure if choice.is_tuple else (choice.structure,)
    if len(given) == 1 and isinstance(given[0], (tuple, list)) and choice.is_tuple and not _is_data(given[0], form):
        (given,) = given
    if len(given) != len(form):
        wanted = f"one is needed for each of {', '.join(labels)}" if choice.is_tuple else "one is needed, in the form of the argument"
        raise ValueError(f"{name}: {wanted}, got {len(given)}")
    return [x for part, tree in zip(form, given, strict=True) for x, _ in leaves_like(part, tree, name, "the argument")]


def _is_data(given: tuple[Any, ...] | list[Any], form: Sequence[Any]) -> bool:
    """True if the list `given` is the data of the tangent of a single tensor; False if it lists the tangents."""
    return isinstance(given, list) and len(form) == 1 and form[0] is LEAF and len(given) != 1


def _select(item: Any, given: Sequence[NamedArgument], labels: Sequence[str], arguments: int) -> SelectedInputs:
    if isinstance(item, bool):
        raise ValueError(f"{user_line()}: wrt={item}: a truth value is no position; give a name or a number of {', '.join(labels)}")
    found = _by_number(item, given, labels, arguments) if isinstance(item, int) else None
    if isinstance(item, str):
        found = _by_name(item, given) or _by_label(item, labels)
    if found is None:
        raise ValueError(f"{user_line()}: wrt={item!r}: {_listed(labels)}")
    if not found[0]:
        raise ValueError(f"{user_line()}: wrt={item!r} has no tensor in it: {_listed(labels)}")
    return found


def _listed(labels: Sequence[str]) -> str:
    return f"the tensor arguments are {', '.join(labels)}" if labels else "no argument is a tensor, an array or a float"


def _inside(part: Any, start: int) -> SelectedInputs:
    """All inputs in an argument or in a part of one; its first input is at position `start`."""
    return tuple(range(start, start + leaf_count(part))), without_static_values(part)


def _by_number(item: int, given: Sequence[NamedArgument], labels: Sequence[str], arguments: int) -> SelectedInputs:
    """The inputs of the argument with number `item`; numbers after the arguments select captured tensors."""
    count = len(given) + len(labels) - arguments
    if not -count <= item < count:
        names = ", ".join([*(name for name, _ in given), *labels[arguments:]])
        raise ValueError(f"{user_line()}: wrt={item}: there are {count} arguments ({names})")
    item %= count
    if item >= len(given):
        return (arguments + item - len(given),), LEAF
    return _inside(given[item][1], sum(leaf_count(part) for _, part in given[:item]))


def _by_name(item: str, given: Iterable[NamedArgument], start: int = 0) -> SelectedInputs | None:
    """The inputs of the argument, or of the part of one, with the path `item`; None if there is none."""
    for path, part in given:
        if item == path:
            return _inside(part, start)
        if item.startswith(f"{path}."):
            found = _by_name(item, [(f"{path}.{k}", v) for k, v in children(part) or ()], start)
            if found is not None:
                return found
        start += leaf_count(part)
    return None


def _by_label(item: str, labels: Sequence[str]) -> SelectedInputs | None:
    """The input with the label `item`, such as a captured tensor, or all inputs below that name: those of *args, or of a layer."""
    if item in labels:
        return (labels.index(item),), LEAF
    found = tuple(i for i, label in enumerate(labels) if label.startswith(f"{item}."))
    return (found, (LEAF,) * len(found)) if found else None
