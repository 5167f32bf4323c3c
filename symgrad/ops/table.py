"""The table itself: rows are entered with `row(...)`, once each, and looked up by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from symgrad.ops.shapes import elementwise_type
from symgrad.ops.spec import Row, Rule

TABLE: dict[str, Row] = {}


def row(
    name: str,
    args: str,
    numpy: Callable[..., Any],
    vjp: Iterable[Rule | None] = (),
    saves: str | tuple[str, ...] = "",
    *,
    policy: str = "promote",
    type: Callable[..., Any] | None = None,
    elementwise: bool = False,
    **columns: Any,
) -> Row:
    """Enter a primitive.

    `args` are the names of data arguments, then of attributes: "x / axis keepdims". `saves` is one string for all rules, or one
    for each: `saves=("y", "x")`.
    """
    if name in TABLE:
        raise ValueError(f"row {name!r} stands in the table already")
    data, _, keywords = args.partition("/")
    names, attrs = tuple(data.split()), tuple(keywords.split())
    rules = tuple(vjp) or (None,) * len(names)
    per_rule = saves if isinstance(saves, tuple) else (saves,) * len(rules)
    reads = tuple(frozenset(text.split()) for text in per_rule)
    _check(name, names, rules, reads)
    type = type or (elementwise_type(name, policy) if elementwise else None)
    if type is None:
        raise ValueError(f"row {name!r} needs a type rule")
    TABLE[name] = Row(name, names, numpy, rules, reads, policy, type, attrs=attrs, elementwise=elementwise, **columns)
    return TABLE[name]


def _check(name: str, names: tuple[str, ...], rules: tuple[Any, ...], reads: tuple[frozenset[str], ...]) -> None:
    if len(rules) != len(names) or len(reads) != len(rules):
        raise ValueError(f"row {name!r}: {len(names)} arguments, {len(rules)} rules, {len(reads)} lists of saved values")
    known = {n.lstrip("*") for n in names} | {"out", "out0", "out1", "out2"}
    if names and names[0].startswith("*"):
        known.add("others")
    for read in reads:
        if not read <= known:
            raise ValueError(f"row {name!r} saves {sorted(read - known)}, which it does not have")


def elementwise(name: str, args: str, numpy: Callable[..., Any], vjp: Iterable[Rule | None] = (), saves: Any = "", **columns: Any) -> Row:
    """Enter a row that works element by element and broadcasts; its type rule follows from the policy."""
    return row(name, args, numpy, vjp, saves, elementwise=True, **columns)
