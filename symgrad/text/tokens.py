"""Tokens of a formula with their columns, and the errors that point at a column."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from symgrad.errors import TextError, describe

MAX_LENGTH = 10_000
"""Characters of a text."""
_MAX_DIGITS = 400
_AROUND = 60
"""Characters that an error shows on each side of the column."""
GREEK = "α-ξπ-ωΓΔΘΛΞΠΣΦΨΩ"
"""The Greek letters of names: those that no Latin letter looks like, and that Python's normal form of names keeps."""
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
    (?P<number>(?:[0-9]+(?:\.(?![*/^'])[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z{GREEK}][A-Za-z0-9_{GREEK}]*)
    | (?P<mark>\.\*\*|\*\*|\.[*/^']|[-+*/^'(),])
    | (?P<end>\Z)
    | (?P<unknown>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SYNONYMS = {"**": "^", ".**": ".^", ".'": "'"}
_WRITE = {
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "⊙": ".*", "∘": ".*", "⊘": "./", "ᵀ": "'", "⊤": "'",
    "’": "'", "‘": "'", "′": "'", "²": "^2 (.^2 for vectors)", "³": "^3 (.^3 for vectors)", "√": "sqrt(...)", "‖": "norm2(...)",
    "|": "abs(...) or norm2(...)", "{": "(", "}": ")", "@": "*", "\u00b5": "the Greek letter μ (U+03BC)", "∑": "sum(...)",
    "\N{FULLWIDTH LEFT PARENTHESIS}": "(", "\N{FULLWIDTH RIGHT PARENTHESIS}": ")",
}  # fmt: skip
_WRITE |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοϑϕϵ", "ABEZHIKMNOPTYXoθφε", strict=True))
"""Characters that people write, and their spelling in this language."""
_ADVICE = {
    "[": "elements, slices and lists are not part of the language; group with ( )",
    "]": "elements, slices and lists are not part of the language; group with ( )",
    "=": "write the right-hand side alone",
    "<": "comparisons are not part of the language", ">": "comparisons are not part of the language",
    "\\": "write inv(A)*b for A\\b",
    ".": "a point belongs to a number, or to one of .* ./ .^",
    "_": "names begin with a letter",
    ";": "write one formula, without a semicolon",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind ("number", "name", "mark", "end"), its text, and its position, from 0."""

    kind: str
    text: str
    at: int


def checked(text: object) -> str:
    """Return the text, or raise an error if it is no text or too long."""
    if not isinstance(text, str):
        raise TypeError(f"a formula is written as text, such as \"sum((X*w - y).^2)\", got {describe(text)}")
    if len(text) > MAX_LENGTH:
        raise failure(text, MAX_LENGTH, f"the text has {len(text):,} characters, and {MAX_LENGTH:,} are the most: divide it into parts")
    return str(text)


def tokens(text: str) -> Iterator[Token]:
    """Iterate over the tokens of a text, up to one of the kind "end"."""
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token, at = match[kind], match.start(kind)
        if kind == "unknown":
            raise failure(text, at, _advice(token))
        if kind == "number" and len(token) > _MAX_DIGITS:
            raise failure(text, at, f"the number has {len(token)} digits, and {_MAX_DIGITS} are the most: round it")
        yield Token(kind, _SYNONYMS.get(token, token), at)
        if kind == "end":
            return


def _advice(c: str) -> str:
    named = f"{_shown(c)!r} (U+{ord(c):04X})"
    if c in _WRITE:
        return f"{named} is not part of the language: write {_WRITE[c]}"
    if c in _ADVICE:
        return f"{c!r}: {_ADVICE[c]}"
    return f"{named} is not part of the language: names are of the letters a to z, A to Z and Greek ones, digits and _"


def failure(text: str, at: int, message: str) -> TextError:
    """Return an error that shows the text with a caret under the position `at`, which counts from 0."""
    start, end = max(at - _AROUND, 0), at + _AROUND
    before, after = "..." if start else "", "..." if end < len(text) else ""
    line = before + "".join(map(_shown, text[start:end])) + after
    error = TextError(f"column {at + 1}: {message}\n    {line}\n    {' ' * (len(before) + at - start)}^")
    error.column = at + 1
    return error


def _shown(c: str) -> str:
    """Return a character that takes one column and does not change the order of others: itself, a space, or a replacement."""
    if c in "\t\r\n":
        return " "
    plain = c.isprintable() and not unicodedata.combining(c) and unicodedata.east_asian_width(c) not in "WF"
    return c if plain and unicodedata.bidirectional(c) not in ("R", "AL", "AN") else "\N{REPLACEMENT CHARACTER}"
