"""The length of a formula: the number of its operators and symbols, counted on the tree of what was read."""

from __future__ import annotations

from tests.support.notation.grammar import Node, parse


def measure(text: str, names: tuple[str, ...] = ()) -> int:
    """Count the operators and symbols of a formula: brackets are free, a product counts as an operator, `sum(x)` has two."""
    return _count(parse(text, names))


def _count(node: Node) -> int:
    own = _OWN.get(node.kind, 1) + 2 * len(node.options)
    if node.kind == "relation":
        own = len(node.parts) - 1
    limits, parts = "", node.parts
    if node.kind == "fold":
        limits, parts = parts[0], parts[1:]
    elif node.kind == "last":
        limits = node.text
    return own + sum(map(_count, parts)) + sum(_count(parse(limit)) for limit in limits.split(", ") if limit)


_OWN = {"at": 0, "list": 0, "bracket": 0, "last": 2}
"""Operators of a node by its kind, where it is not one: indices and brackets are no operators, the relation in a bracket is."""
