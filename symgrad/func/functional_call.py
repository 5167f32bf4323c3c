"""A module as a function of its parameters: the call runs with other tensors in their places."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from symgrad.coercion import stands_for_tensor, tensors_of
from symgrad.mode import local
from symgrad.ops.foreign import hint
from symgrad.tensor import Tensor

Places = dict[str, tuple[dict[str, Any], str]]
"""By its path, where each tensor of a module is kept: in which dictionary, under which name."""


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in place of its parameters and buffers, by their paths; afterwards it is as before.

    What is not given stays the module's own, unless `strict`. A tensor that the module has under several names is replaced under all of
    them, unless `tie_weights=False`.
    """
    given, places = _merged(parameter_and_buffer_dicts), _places(module)
    if strict:
        _require_all(module, given, places)
    if tie_weights:
        given = _tied(given, places)
    capture = local.mode.capture
    if capture is not None:  # as it is now, not with other tensors in their places
        for part in module.modules():
            capture.guard_module(part)
    with _in_their_places(given, places):
        return module(*(() if args is None else args if isinstance(args, tuple) else (args,)), **(kwargs or {}))


def _merged(given: Any) -> dict[str, Tensor]:
    if not isinstance(given, Mapping) and not (isinstance(given, (list, tuple)) and all(isinstance(d, Mapping) for d in given)):
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {given.__class__}")
    entries = [entry for d in ([given] if isinstance(given, Mapping) else given) for entry in d.items()]
    merged = dict(entries)
    if len(merged) < len(entries):
        names = [name for name, _ in entries]
        repeated = [name for name in merged if names.count(name) > 1]
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    for value in merged.values():
        if not stands_for_tensor(value):
            raise TypeError(f"{value} is not an instance of torch.Tensor{hint(value)}")
    return dict(zip(merged, tensors_of(list(merged.values())), strict=True))


def _places(module: Any) -> Places:
    places: Places = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for kept in (owner._parameters, owner._buffers):
            places.update({f"{path}.{name}" if path else name: (kept, name) for name, value in kept.items() if value is not None})
    return places


def _require_all(module: Any, given: dict[str, Tensor], places: Places) -> None:
    problems = {"Unexpected": sorted(given.keys() - places), "Missing": sorted(places.keys() - given)}
    lines = [f"{word} key(s): {', '.join(map(repr, names))}." for word, names in problems.items() if names]
    if lines:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module.__class__.__name__, "\n\t".join(lines)))


def _tied(given: dict[str, Tensor], places: Places) -> dict[str, Tensor]:
    """The given tensors under all names that their places have."""
    names: dict[Tensor, list[str]] = {}
    for path, (kept, name) in places.items():
        names.setdefault(kept[name], []).append(path)
    tied = dict(given)
    for path in (path for path in given if path in places):
        kept, name = places[path]
        group = names[kept[name]]
        several = [other for other in group if other in given]
        if any(given[other] is not given[path] for other in several):
            raise ValueError(f"functional_call got multiple values for keys {several}, which are tied. Consider using tie_weights=False")
        tied.update(dict.fromkeys(group, given[path]))
    return tied


@contextmanager
def _in_their_places(given: dict[str, Tensor], places: Places) -> Iterator[None]:
    own = [(*places[path], places[path][0][places[path][1]], value) for path, value in given.items() if path in places]
    put: Any = operator.setitem if local.mode.capture is None else dict.__setitem__  # a trace need not know: all is put back here
    try:
        for kept, name, _, value in own:
            put(kept, name, value)
        yield
    finally:
        for kept, name, before, _ in own:
            put(kept, name, before)
