"""The syntax of a formula: nodes in postorder, which no deep tree can overflow, and the text that they print as."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

BINARY = {"+": 1, "-": 1, "*": 2, "/": 2, ".*": 2, "./": 2}
"""How tightly the left-associative operators bind."""
NEGATION, POWER, PRIMARY = 3, 4, 5
"""A minus sign binds more tightly than a product, and less tightly than powers and transposes: -x^2 is -(x^2)."""
POWERS = ("^", ".^")


@dataclass(frozen=True, slots=True)
class Node:
    """One node: "number", "name", "call", "negation", "transpose", or an operator, applied to earlier nodes."""

    kind: str
    args: tuple[int, ...] = ()
    value: Any = None
    """The Fraction of a number; the name of a name or call."""
    at: int = 0
    """The position in the text, from 0: that of the operator, for an operator."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """A formula as it was written: the nodes in postorder, the last of which is the whole."""

    text: str
    nodes: tuple[Node, ...]

    @property
    def structure(self) -> tuple[tuple[str, tuple[int, ...], Any], ...]:
        """The nodes without their positions: equal for texts that differ in spaces and brackets only."""
        return tuple((n.kind, n.args, n.value) for n in self.nodes)

    def __str__(self) -> str:
        return printed(self.nodes)


def printed(nodes: tuple[Node, ...]) -> str:
    """Return the text of a formula, with no more brackets than it needs."""
    parts: list[str] = []
    waiting: list[str | tuple[int, int]] = [(len(nodes) - 1, 0)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts.append(item)
        else:
            node, least = nodes[item[0]], item[1]
            own = _parts(node)
            waiting.extend(reversed(["(", *own, ")"] if _binds(node) < least else own))
    return "".join(parts)


def _binds(node: Node) -> int:
    if node.kind == "number" and not decimal(node.value):
        return BINARY["/"]
    return {**BINARY, "negation": NEGATION, "transpose": POWER, "^": POWER, ".^": POWER}.get(node.kind, PRIMARY)


def _parts(node: Node) -> list[str | tuple[int, int]]:
    """Return texts, and nodes with how tightly they have to bind."""
    if node.kind == "number":
        return [decimal(node.value) or f"{node.value.numerator}/{node.value.denominator}"]
    if node.kind == "name":
        return [node.value]
    if node.kind == "call":
        listed: list[str | tuple[int, int]] = [part for a in node.args for part in (", ", (a, 0))]
        return [f"{node.value}(", *listed[1:], ")"]
    if node.kind == "negation":
        return ["-", (node.args[0], NEGATION)]
    if node.kind == "transpose":
        return [(node.args[0], POWER), "'"]
    first, second = node.args
    if node.kind in POWERS:
        return [(first, PRIMARY), node.kind, (second, PRIMARY)]
    binds = BINARY[node.kind]
    sign = f" {node.kind} " if binds == BINARY["+"] else node.kind
    return [(first, binds), sign, (second, binds + 1)]


def decimal(x: Fraction) -> str:
    """Return the decimal number that a fraction is, or "" if it has no finite one."""
    rest, twos, fives = x.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return ""
    places = max(twos, fives)
    digits = str(x.numerator * 10**places // x.denominator)
    return f"{digits[:-places].zfill(1)}.{digits.zfill(places)[-places:]}" if places else digits
