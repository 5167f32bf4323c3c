"""Parse a formula by precedence climbing: expression, power, primary. Nothing is evaluated, and brackets nest to a bounded depth."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NoReturn

from symgrad.text.syntax import BINARY, POWERS, Node, Syntax
from symgrad.text.tokens import Token, checked, failure, tokens

MAX_DEPTH = 50
"""Brackets inside brackets."""
_LARGEST_EXPONENT = 400
_SMALLEST, _LARGEST = Fraction(1, 10**307), Fraction(10**308)
_RANGE = "numbers are between 1e-307 and 1e308"


def parsed(text: str) -> Syntax:
    """Return the syntax of a text, or raise TextError, which points at the column that is wrong."""
    reader = _Parser(checked(text))
    if reader.current.kind == "end":
        reader.fail('the text is empty: write a formula, such as "sum((X*w - y).^2)"')
    reader.expression(0)
    reader.expect_end()
    return Syntax(reader.text, tuple(reader.nodes))


class _Parser:
    """The current token, and the nodes so far. Each method reads one production and returns the number of its node."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rest: Iterator[Token] = tokens(text)
        self.current = next(self.rest)
        self.open: list[int] = []
        self.nodes: list[Node] = []

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise failure(self.text, self.current.at if at is None else at, message)

    def advance(self) -> Token:
        """Move to the next token and return the current one."""
        given = self.current
        if given.kind != "end":
            self.current = next(self.rest)
        return given

    def has(self, *marks: str) -> bool:
        return self.current.kind == "mark" and self.current.text in marks

    def add(self, kind: str, args: tuple[int, ...] = (), value: object = None, at: int = 0) -> int:
        self.nodes.append(Node(kind, args, value, at))
        return len(self.nodes) - 1

    def expression(self, least: int) -> int:
        """Read operators that bind at least that tightly, with their operands."""
        signs = self.signs()
        result = self.negated(self.power(), signs)
        while self.has(*BINARY) and BINARY[self.current.text] >= least:
            sign = self.advance()
            right = self.expression(BINARY[sign.text] + 1)
            result = self.add(sign.text, (result, right), at=sign.at)
        return result

    def signs(self) -> list[Token]:
        """Read signs, and return the minus signs among them."""
        found = []
        while self.has("-", "+"):
            found.append(self.advance())
        return [sign for sign in found if sign.text == "-"]

    def negated(self, operand: int, signs: list[Token]) -> int:
        for sign in reversed(signs):
            operand = self.add("negation", (operand,), at=sign.at)
        return operand

    def power(self) -> int:
        """Read a primary with its transposes and its power. A second power needs brackets, since 2^3^2 is read in two ways."""
        result, chained = self.primary(), False
        while self.has("'", *POWERS):
            sign = self.advance()
            if sign.text == "'":
                result = self.add("transpose", (result,), at=sign.at)
                continue
            if chained:
                self.fail("a^b^c is read in two ways: write (a^b)^c or a^(b^c)".replace("^", sign.text), sign.at)
            signs = self.signs()
            exponent = self.negated(self.primary(), signs)
            result, chained = self.add(sign.text, (result, exponent), at=sign.at), True
        return result

    def primary(self) -> int:
        """Read a number, a name, a call, or an expression in brackets."""
        token = self.current
        if token.kind == "number":
            self.advance()
            result = self.add("number", value=self.number(token), at=token.at)
        elif token.kind == "name":
            self.advance()
            result = self.call(token) if self.has("(") else self.add("name", value=token.text, at=token.at)
        elif self.has("("):
            self.enter()
            result = self.expression(0)
            self.leave()
        else:
            self.fail(self.missing_operand())
        self.refuse_adjacent()
        return result

    def number(self, token: Token) -> Fraction:
        _, _, exponent = token.text.lower().partition("e")
        digits = exponent.lstrip("+-").lstrip("0")
        if len(digits) > 3 or int(digits or "0") > _LARGEST_EXPONENT:
            self.fail(f"the exponent of {token.text[:20]} is too large: {_RANGE}", token.at)
        found = Fraction(token.text)
        if found and not _SMALLEST <= found <= _LARGEST:
            self.fail(f"{token.text[:20]} is too large or too small: {_RANGE}", token.at)
        return found

    def call(self, name: Token) -> int:
        self.enter()
        args = []
        while not self.has(")"):
            args.append(self.expression(0))
            if not self.has(","):
                break
            self.advance()
            if self.has(")"):
                self.fail("an argument is missing after the comma")
        self.leave()
        return self.add("call", tuple(args), name.text, name.at)

    def enter(self) -> None:
        self.open.append(self.current.at)
        if len(self.open) > MAX_DEPTH:
            self.fail(f"brackets are nested more than {MAX_DEPTH} deep")
        self.advance()

    def leave(self) -> None:
        if not self.has(")"):
            if self.current.kind == "end":
                self.fail("this bracket is not closed: write )", self.open[-1])
            self.fail(f"{self.current.text!r} does not belong here: expected an operator, a comma between arguments, or )")
        self.advance()
        self.open.pop()

    def missing_operand(self) -> str:
        if self.current.kind == "end":
            return "the formula ends too early: expected a number, a name or ("
        advice = {
            ")": ": brackets have something in them, and an operator has two operands",
            ",": ": commas are between the arguments of functions",
            "'": ": the transpose is written behind its operand, as in x'",
        }.get(self.current.text, "")
        return f"expected a number, a name or ( before {self.current.text!r}{advice}"

    def refuse_adjacent(self) -> None:
        """Raise an error for 2x, x y and (x)(y), which lack an operator."""
        if self.current.kind in ("number", "name") or self.has("("):
            self.fail(f"an operator is missing before {self.current.text[:20]!r}: a product is written 2*x")

    def expect_end(self) -> None:
        if self.has(")"):
            self.fail("no bracket is open here: remove ), or add ( before it")
        if self.has(","):
            self.fail("commas are between the arguments of functions: decimal numbers have a point")
        if self.current.kind != "end":
            self.fail(f"{self.current.text!r} does not belong here")
