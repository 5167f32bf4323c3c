"""Readers: functions that extract the leaves of a call from its arguments, if those have the same structure as in an earlier call.

A reader compares the types, lengths and keys of containers, and the values that are part of the program; it does not inspect the leaves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from symgrad.pytree import LEAF, DataclassNode, children

Reader = Callable[[tuple[Any, ...], dict[str, Any]], Iterable[Any] | None]
"""Return the leaves in the order of the program's inputs, or None if the arguments have another structure."""
_Match = Callable[[Any, list[Any]], bool]
"""Append the leaves of one argument to the list and return True; return False if the argument has another structure."""
_BY_VALUE = (bool, int, str, bytes)


class Unreadable(Exception):
    """Raised if no reader can be made for this structure: such calls take the slow path."""


def read_positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the positional arguments, each of which is a leaf."""
    return args


def read_keywords(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any]:
    """Return the keyword arguments, each of which is a leaf."""
    return kwargs.values()


def make_reader(signature: inspect.Signature, structure: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reader | None:
    """Return a reader for calls with the same number of positional arguments and the same keywords as this one; None if they need the slow
    path."""
    try:
        positional, keywords = _sources(signature, structure, len(args), kwargs)
        if all([part is LEAF for _, part in (*positional, *keywords)]):
            if not kwargs and [i for i, _ in positional] == list(range(len(args))):
                return read_positional
            if not args and [name for name, _ in keywords] == list(kwargs):
                return read_keywords
        if len(positional) == 1 and not keywords and (read := _container(positional[0][1])) is not None:
            return read
        return _general([(i, _match(part)) for i, part in positional], [(name, _match(part)) for name, part in keywords])
    except Unreadable:
        return None


def _sources(
    signature: inspect.Signature, structure: Mapping[str, Any], count: int, given: Mapping[str, Any]
) -> tuple[list[tuple[int, Any]], list[tuple[str, Any]]]:
    """Return the parts of the structure by position and by keyword, in the order of the leaves. Defaults are part of the program and left
    out."""
    positional: list[tuple[int, Any]] = []
    keywords: list[tuple[str, Any]] = []
    for name, part in structure.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional += enumerate(part, len(positional))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            keywords += part.items()
        elif kind is not inspect.Parameter.KEYWORD_ONLY and len(positional) < count:
            positional.append((len(positional), part))
        elif name in given:
            keywords.append((name, part))
    return positional, keywords


def _container(part: Any) -> Reader | None:
    """Return a reader for a call whose only argument is a dictionary, list or tuple of leaves; None if it is anything else."""
    if isinstance(part, DataclassNode) or not all(v is LEAF for _, v in children(part) or ((None, None),)):
        return None
    if isinstance(part, dict) and not _has_names(part):
        return None
    cls, keys, count = type(part), tuple(part), len(part)

    def read_dictionary(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any] | None:
        x = args[0]
        return x.values() if type(x) is cls and tuple(x) == keys else None

    def read_sequence(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any] | None:
        x = args[0]
        return x if type(x) is cls and len(x) == count else None

    return read_dictionary if isinstance(part, dict) else read_sequence


def _general(positional: list[tuple[int, _Match]], keywords: list[tuple[str, _Match]]) -> Reader:
    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any] | None:
        leaves: list[Any] = []
        for i, match in positional:
            if not match(args[i], leaves):
                return None
        for name, match in keywords:
            if not match(kwargs[name], leaves):
                return None
        return leaves

    return read


def _match(part: Any) -> _Match:
    if part is LEAF:
        return _leaf
    if isinstance(part, DataclassNode):
        return _record(part)
    if isinstance(part, dict):
        return _dictionary(part)
    if isinstance(part, (list, tuple)):
        return _sequence(part)
    return _static_value(part)


def _leaf(x: Any, leaves: list[Any]) -> bool:
    leaves.append(x)
    return True


def _has_names(part: dict[Any, Any]) -> bool:
    """True if all keys are strings. For other keys the type must be compared as well, because True == 1."""
    return all(type(k) is str for k in part)


def _dictionary(part: dict[Any, Any]) -> _Match:
    cls, keys = type(part), tuple(part)
    if not _has_names(part):
        types, each = [*map(type, keys)], _each(part)
        return lambda x, leaves: type(x) is cls and tuple(x) == keys and [*map(type, x)] == types and each(x.values(), leaves)
    if all(v is LEAF for v in part.values()):

        def match_leaves(x: Any, leaves: list[Any]) -> bool:
            if type(x) is not cls or tuple(x) != keys:
                return False
            leaves.extend(x.values())
            return True

        return match_leaves
    inner = _each(part)
    return lambda x, leaves: type(x) is cls and tuple(x) == keys and inner(x.values(), leaves)


def _sequence(part: Any) -> _Match:
    cls, count = type(part), len(part)
    if all(v is LEAF for v in part):

        def match_leaves(x: Any, leaves: list[Any]) -> bool:
            if type(x) is not cls or len(x) != count:
                return False
            leaves.extend(x)
            return True

        return match_leaves
    inner = _each(part)
    return lambda x, leaves: type(x) is cls and len(x) == count and inner(x, leaves)


def _record(part: DataclassNode) -> _Match:
    if part.original is not None:
        return _static_value(part.original)
    cls, inner, names = part.cls, _each(part), list(part.parts)
    values = attrgetter(*names) if len(names) > 1 else lambda x: (getattr(x, names[0]),)
    return lambda x, leaves: type(x) is cls and inner(values(x), leaves)


def _each(part: Any) -> Callable[[Iterable[Any], list[Any]], bool]:
    matches = [_match(v) for _, v in children(part) or ()]

    def match(xs: Iterable[Any], leaves: list[Any]) -> bool:
        for matched, x in zip(matches, xs):  # noqa: B905, SIM110  (the lengths were compared; a generator costs more)
            if not matched(x, leaves):
                return False
        return True

    return match


def _static_value(value: Any) -> _Match:
    """Match a value that is part of the program: a bool, int, str or bytes by value; None, and objects with the default __eq__, by
    identity."""
    cls: Any = type(value)
    if cls in _BY_VALUE:
        return lambda x, leaves: x is value or (type(x) is cls and x == value)
    if value is None or (cls.__eq__ is object.__eq__ and cls.__hash__ is object.__hash__):
        return lambda x, leaves: x is value
    raise Unreadable
