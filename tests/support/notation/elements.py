"""Formulas of numbers computed: scalars, elements spelled out, and index notation, one element after the other."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
from scipy import special

from tests.support.notation.functions import ELEMENTWISE, of_whole
from tests.support.notation.grammar import Node, NotationError, parse

COMPARE = {
    "=": operator.eq, "≠": operator.ne, "<": operator.lt, "<=": operator.le, "≤": operator.le, ">": operator.gt, ">=": operator.ge,
    "≥": operator.ge,
}  # fmt: skip
LOGIC = {"&": np.logical_and, "|": np.logical_or}
_OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": np.true_divide, "**": lambda x, y: _power(x, y), **LOGIC,
}  # fmt: skip
_FOLDS = {
    "Σ": np.sum, "Π": np.prod, "max": np.max, "min": np.min, "all": np.all, "any": np.any, "logsumexp": special.logsumexp,
}  # fmt: skip

_EMPTY = {"Σ": 0, "Π": 1, "max": -np.inf, "min": np.inf, "all": True, "any": False, "logsumexp": -np.inf}
CONSTANTS = {"pi": np.pi, "∞": np.inf, "True": True, "False": False}


def literal(text: str) -> Any:
    return complex(text) if text.endswith("j") else float(text) if {*text} & {*".en"} else int(text)


def _power(x: Any, y: Any) -> Any:
    return np.power(x if np.iscomplexobj(x) else np.asarray(x, float), y)


class Elements:
    """The value of a formula, given arrays by name and numbers for its indices."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.limits: dict[str, list[Node]] = {}

    def value(self, node: Node, indices: dict[str, int]) -> Any:
        return getattr(self, f"value_{_WORD.get(node.kind, node.kind)}")(node, indices)

    def value_number(self, node: Node, at: dict[str, int]) -> Any:
        return literal(node.text)

    def value_name(self, node: Node, at: dict[str, int]) -> Any:
        if node.text in at:
            return at[node.text]
        if node.text not in self.given:
            if node.text in CONSTANTS:
                return CONSTANTS[node.text]
            raise NotationError(f"{node.text} is nothing that was given")
        return self.given[node.text]

    def is_bracket(self, node: Node) -> bool:
        """Whether a factor is 1 or 0 by a condition on indices: where it is 0 the others are not looked at."""
        if node.kind == "infix" and node.text == "**":
            return self.is_bracket(node.parts[0])
        return node.kind == "bracket" or self.is_delta(node)

    def is_delta(self, node: Node) -> bool:
        return node.kind == "at" and node.parts[0].text == "δ" and "δ" not in self.given

    def value_at(self, node: Node, at: dict[str, int]) -> Any:
        """An element; of one outside of the tensor nothing is read: a bracket beside it is 0."""
        places = [self.value(part, at) for part in node.parts[1:]]
        if self.is_delta(node):
            return int(places[0] == places[1])
        whole = np.asarray(self.value(node.parts[0], at))
        if len(places) != whole.ndim:
            raise NotationError(f"{node.parts[0].text} has {whole.ndim} dimensions, {len(places)} indices")
        inside = all(0 <= p < n for p, n in zip(places, whole.shape, strict=True))
        return whole[tuple(int(p) for p in places)] if inside else np.nan

    def value_infix(self, node: Node, at: dict[str, int]) -> Any:
        if node.text == "*":
            factors = _factors(node)
            if any(self.is_bracket(f) and np.ndim(v := self.value(f, at)) == 0 and v == 0 for f in factors):
                return 0
        left, right = (self.value(part, at) for part in node.parts)
        if node.text not in _OPERATORS:
            raise NotationError(f"{node.text!r} is for matrices")
        return _OPERATORS[node.text](left, right)

    def value_prefix(self, node: Node, at: dict[str, int]) -> Any:
        value = self.value(node.parts[0], at)
        return np.logical_not(value) if node.text == "~" else -value

    def value_call(self, node: Node, at: dict[str, int]) -> Any:
        values = [self.value(part, at) for part in node.parts]
        if node.text in ELEMENTWISE and not node.options:
            return ELEMENTWISE[node.text](*values)
        return of_whole(node.text, values, node.options)

    def value_if(self, node: Node, at: dict[str, int]) -> Any:
        value, condition, other = node.parts
        chosen = np.asarray(self.value(condition, at))
        if chosen.ndim == 0:
            return self.value(value if chosen else other, at)
        return np.where(chosen, self.value(value, at), self.value(other, at))

    def value_relation(self, node: Node, at: dict[str, int]) -> Any:
        values = [self.value(part, at) for part in node.parts]
        pairs = zip(node.text.split(","), values[:-1], values[1:], strict=True)
        return np.logical_and.reduce([COMPARE[op](a, b) for op, a, b in pairs])

    def value_bracket(self, node: Node, at: dict[str, int]) -> Any:
        return np.asarray(self.value(node.parts[0], at)).astype(int)[()]

    def value_floor(self, node: Node, at: dict[str, int]) -> Any:
        return int(np.floor(self.value(node.parts[0], at)))

    def value_list(self, node: Node, at: dict[str, int]) -> Any:
        return np.array([self.value(part, at) for part in node.parts])

    def value_fold(self, node: Node, at: dict[str, int]) -> Any:
        limits, body = node.parts
        found = [self.value(body, inner) for inner in self.places(limits, (body,), at)]
        return _FOLDS[node.text](found) if found else _EMPTY[node.text]

    def value_last(self, node: Node, at: dict[str, int]) -> Any:
        value, hit, default = node.parts
        for inner in reversed(list(self.places(node.text, (value, hit), at))):
            if self.value(hit, inner) == 1:
                return self.value(value, inner)
        return self.value(default, at)

    def places(self, text: str, bodies: tuple[Node, ...], at: dict[str, int]) -> Any:
        """Every choice of the bound indices that the limits allow."""
        if text not in self.limits:
            self.limits[text] = [parse(part) for part in text.split(", ")]
        limits = self.limits[text]
        names = [_bound(limit, at) for limit in limits]
        ranges = [range(self.size(name, limit, bodies, at)) for name, limit in zip(names, limits, strict=True)]
        for chosen in itertools.product(*ranges):
            inner = at | dict(zip(names, chosen, strict=True))
            if all(limit.kind == "name" or self.value(limit, inner) for limit in limits):
                yield inner

    def size(self, name: str, limit: Node, bodies: tuple[Node, ...], at: dict[str, int]) -> int:
        """How many values an index has: its limit says so, or the tensors that it is an index of."""
        if limit.kind == "relation":
            where = [n.text for n in limit.parts].index(name)
            if where < len(limit.parts) - 1 and limit.text.split(",")[where] in "≤<":
                return int(self.value(limit.parts[where + 1], at)) + (limit.text.split(",")[where] == "≤")
        sizes = {n for body in bodies for n in self.sizes(body, name)}
        if len(sizes) != 1:
            raise NotationError(f"the range of {name} is not said, or said twice: {sorted(sizes)}")
        return sizes.pop()

    def sizes(self, node: Any, name: str) -> Any:
        """The sizes of the dimensions of which an index is the place."""
        if not isinstance(node, Node):
            return
        if node.kind == "at" and not self.is_delta(node):
            shape = np.shape(self.value(node.parts[0], {}))
            yield from (n for n, place in zip(shape, node.parts[1:], strict=True) if place.kind == "name" and place.text == name)
        hidden = node.kind == "fold" and name in _bound_names(node)
        if not hidden:
            for part in node.parts:
                yield from self.sizes(part, name)


def _bound(limit: Node, at: dict[str, int]) -> str:
    """The index that a limit binds: the only name, or the one that is not bound yet."""
    if limit.kind == "name":
        return limit.text
    return next(part.text for part in limit.parts if part.kind == "name" and part.text not in at)


def _bound_names(fold: Node) -> list[str]:
    return [_bound(parse(part), {}) for part in fold.parts[0].split(", ")]


def _factors(node: Node) -> list[Node]:
    return [f for part in node.parts for f in _factors(part)] if node.kind == "infix" and node.text == "*" else [node]


_WORD = {"⌊": "floor"}
