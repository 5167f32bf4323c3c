"""How the leaves of a call are read from its arguments, if those have the same structure as in an earlier call.

A reader compares types of containers, their lengths and keys, and what is part of the program; the leaves themselves are not looked at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from symgrad.compiler.inputs.pytree import LEAF, DataclassNode, children

Reader = Callable[[tuple[Any, ...], dict[str, Any]], Iterable[Any] | None]
"""Returns the leaves in the order of the program's inputs, or None: the arguments have another structure."""
_Match = Callable[[Any, list[Any]], bool]
"""Appends the leaves of one argument to a list, or returns False."""
_BY_VALUE = (bool, int, str, bytes)


class Unreadable(Exception):
    """Arguments of this structure take the slow path."""


def read_positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The reader of positional arguments that are leaves themselves."""
    return args


def read_keywords(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any]:
    """The reader of keyword arguments that are leaves themselves."""
    return kwargs.values()


def make_reader(signature: inspect.Signature, structure: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reader | None:
    """The reader of calls with as many positional arguments and the same keywords; None if there is none."""
    try:
        positional, keywords = _sources(signature, structure, len(args), kwargs)
        if all(part is LEAF for _, part in (*positional, *keywords)):
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
    """Parts of the structure by their positions, and by their keywords, in the order of the leaves. Defaults are part of the program."""
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
    """The reader of one argument that is a dictionary, list or tuple of leaves."""
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
    """Whether all keys are strings. Of others the types count, too: True is equal to 1."""
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
    """What is part of the program: compared by value if it is a number or text, else by identity, if that is what its class does."""
    cls: Any = type(value)
    if cls in _BY_VALUE:
        return lambda x, leaves: x is value or (type(x) is cls and x == value)
    if value is None or (cls.__eq__ is object.__eq__ and cls.__hash__ is object.__hash__):
        return lambda x, leaves: x is value
    raise Unreadable
