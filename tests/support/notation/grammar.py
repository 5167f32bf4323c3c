"""The grammar of printed formulas: a table of operators with their binding powers, and a Pratt parser that reads it.

New notation is a new entry in INFIX, POSTFIX or ENCLOSED, or a new function in `tests.support.notation.functions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

INFIX = {
    "|": 5, "&": 10,
    "=": 20, "≠": 20, "<": 20, "<=": 20, ">": 20, ">=": 20, "≤": 20, "≥": 20,
    "+": 30, "-": 30,
    "∘": 40, "⊘": 40,
    " ": 50,  # juxtaposition: a product of matrices, or of a number and a matrix
    "*": 60, "/": 60,
    "**": 80, "^∘": 80,
}  # fmt: skip
"""Binary operators by how tightly they bind."""
RELATIONS = {op for op, power in INFIX.items() if power == 20}
RIGHT = {"**", "^∘"}
PREFIX = {"-": 35, "~": 15}
POSTFIX = ("⁻ᵀ", "⁻¹", "ᵀ", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹")
ENCLOSED = {"(": ")", "‖": "‖", "⌊": "⌋", "[": "]"}
FOLDS = ("Σ", "Π", "max", "min", "logsumexp", "all", "any", "last")
_POSTFIX_POWER = 90

_SYMBOLS = sorted({*INFIX, *PREFIX, *POSTFIX, *ENCLOSED, *ENCLOSED.values(), ",", "∞", "δ"} - {" "}, key=len, reverse=True)
_LETTER = f"(?![{''.join({*''.join(POSTFIX)})}])\\w"
_FOLD = re.compile(rf"({'|'.join(FOLDS)})′*_(?:\{{([^}}]*)\}}|(\w))")
_QUOTED = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?j?|inf\b|nan\b")
_NAME = re.compile(rf"𝟏[₀-₉]*|(?![0-9])(?:{_LETTER})+(?:\.(?:{_LETTER})+)*′*")
_CONTINUED = re.compile(rf"{_LETTER}|\.|′")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    spaced: bool
    """Whether whitespace stands before it."""
    limits: str = ""


class NotationError(Exception):
    """Text that is no formula."""


def tokens(text: str, names: tuple[str, ...]) -> list[Token]:
    """The parts of a text. `names` are those of tensors, which may have dots in them."""
    own = sorted(names, key=len, reverse=True)
    found, at = [], 0
    while at < len(text):
        spaced = text[at] == " "
        at += len(text[at:]) - len(text[at:].lstrip(" "))
        if at == len(text):
            break
        token = _token(text, at, own, spaced)
        found.append(token[0])
        at = token[1]
    return found


def _token(text: str, at: int, names: list[str], spaced: bool) -> tuple[Token, int]:
    name = next((n for n in names if text.startswith(n, at) and not _CONTINUED.match(text, at + len(n))), None)
    fold = _FOLD.match(text, at)
    if fold is not None and name is None:
        return Token("fold", fold[1], spaced, fold[2] or fold[3]), fold.end()
    if name is not None:
        return Token("name", name, spaced), at + len(name)
    for kind, pattern in (("number", _NUMBER), ("name", _NAME), ("quoted", _QUOTED)):
        match = pattern.match(text, at)
        if match is not None:
            return Token(kind, match[0], spaced), match.end()
    symbol = next((s for s in _SYMBOLS if text.startswith(s, at)), None)
    if symbol is None:
        raise NotationError(f"no notation has {text[at]!r}, at {at} of {text!r}")
    return Token("symbol", symbol, spaced), at + len(symbol)


@dataclass(frozen=True)
class Node:
    """An operator or a leaf, with its parts."""

    kind: str
    """number, name, infix, prefix, postfix, call, at, if, relation, list, a fold, or an opening bracket."""
    text: str
    parts: tuple[Any, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


def parse(text: str, names: tuple[str, ...] = ()) -> Node:
    reader = _Reader(tokens(text, names), names)
    node = reader.expression(0)
    if reader.here is not None:
        raise NotationError(f"{reader.here.text!r} is left over in {text!r}")
    return node


class _Reader:
    def __init__(self, tokens: list[Token], names: tuple[str, ...]) -> None:
        self.tokens, self.names, self.at = tokens, names, 0

    @property
    def here(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *wanted: str) -> Token:
        token = self.here
        if token is None or (wanted and token.text not in wanted):
            raise NotationError(f"expected {' or '.join(wanted) or 'something'}, found {token and token.text!r}")
        self.at += 1
        return token

    def sees(self, *texts: str) -> bool:
        return self.here is not None and self.here.text in texts

    def expression(self, power: int) -> Node:
        left = self.operand()
        while True:
            op = self.operator()
            if op is None or INFIX[op] < power:
                return left
            left = self.infix(left, op)

    def operator(self) -> str | None:
        token = self.here
        if token is None or (token.text in ("if", "else", "where", ",", *ENCLOSED.values()) and not self.opens(token)):
            return None
        if token.kind == "symbol" and token.text in INFIX:
            return token.text
        return " " if token.spaced else None

    def opens(self, token: Token) -> bool:
        """‖ opens a norm if it stands apart from what comes before it."""
        return token.text == "‖" and token.spaced

    def infix(self, left: Node, op: str) -> Node:
        if op != " ":
            self.take(op)
        if op in RELATIONS:
            right = self.expression(INFIX[op] + 1)
            before = (*left.parts,) if left.kind == "relation" else (left,)
            return Node("relation", left.text + "," + op if left.kind == "relation" else op, (*before, right))
        right = self.expression(INFIX[op] + (op not in RIGHT))
        return Node("infix", op, (left, right))

    def operand(self) -> Node:
        token = self.take()
        if token.text in PREFIX:
            return Node("prefix", token.text, (self.expression(PREFIX[token.text]),))
        if token.kind == "fold":
            return self.fold(token)
        return self.postfix(self.leaf(token))

    def leaf(self, token: Token) -> Node:
        if token.kind == "number":
            return Node("number", token.text)
        if token.kind == "name" or token.text in ("∞", "δ"):
            adjacent = self.sees("(") and not self.here.spaced  # type: ignore[union-attr]
            return self.call(token.text) if adjacent else Node("name", token.text)
        if token.text not in ENCLOSED:
            raise NotationError(f"{token.text!r} begins nothing")
        return self.enclosed(token.text)

    def postfix(self, node: Node) -> Node:
        while self.here is not None and not self.here.spaced and (self.here.text in POSTFIX or self.here.text == "["):
            op = self.take().text
            node = Node("at", "", (node, *self.several("]"))) if op == "[" else Node("postfix", op, (node,))
        return node

    def several(self, end: str) -> list[Node]:
        found = []
        while not self.sees(end):
            found.append(self.expression(0))
            if self.sees(","):
                self.take(",")
        self.take(end)
        return found

    def call(self, name: str) -> Node:
        """`sort(x, axis=0)`: options have a name and a sign of equality without spaces."""
        self.take("(")
        parts, options = [], []
        while not self.sees(")"):
            following = self.tokens[self.at + 1 : self.at + 2]
            if self.here.kind == "name" and following and following[0].text == "=" and not following[0].spaced:  # type: ignore[union-attr]
                options.append((self.take().text, self.option()))
            else:
                parts.append(self.choice())
            if self.sees(","):
                self.take(",")
        self.take(")")
        return Node("call", name.rstrip("′"), tuple(parts), tuple(options))  # a prime marks a word of ours that is a name, too

    def option(self) -> str:
        """The text of a setting, up to the comma or the bracket after it."""
        self.take("=")
        text, depth = "", 0
        while depth or not self.sees(",", ")"):
            part = self.take().text
            depth += (part == "(") - (part == ")")
            text += part
        return text

    def enclosed(self, opening: str) -> Node:
        if opening == "[":
            parts = self.several("]")
            is_condition = len(parts) == 1 and parts[0].kind == "relation"
            return Node("bracket" if is_condition else "list", "", tuple(parts))
        node = self.last() if self.here is not None and self.here.text == "last" else self.choice()
        self.take(ENCLOSED[opening])
        return node if opening == "(" else Node(opening, "", (node,))

    def choice(self) -> Node:
        """`x if condition else y`"""
        value = self.expression(0)
        if not self.sees("if"):
            return value
        self.take("if")
        condition = self.expression(0)
        if not self.sees("else"):
            return Node("if", "", (value, condition, Node("number", "nan")))
        self.take("else")
        return Node("if", "", (value, condition, self.choice()))

    def last(self) -> Node:
        """`last_{i} value where hit = 1, else default`"""
        token = self.take()
        value = self.expression(0)
        self.take("where")
        hit = self.expression(0)
        self.take(",")
        self.take("else")
        return Node("last", token.limits, (value, hit, self.expression(0)))

    def fold(self, token: Token) -> Node:
        """A fold reaches to the end of the product."""
        return Node("fold", token.text, (token.limits, self.expression(INFIX["∘"])))
