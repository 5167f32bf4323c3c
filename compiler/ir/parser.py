"""Parse the text that `symgrad.compiler.ir.printer` writes: a tokenizer, and one method per production.

Nothing is evaluated. Each value is interned as written, so that parsing returns the graph that was printed, and is checked against its row
at once, so that an error names the line and column.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from symgrad import dtypes
from symgrad.compiler.ir.control_flow import CONTROL
from symgrad.compiler.ir.custom import CUSTOM, HOOKED
from symgrad.compiler.ir.graph import OUTPUT, Graph, Value, application, input_value, intern, literal
from symgrad.compiler.ir.verify import check, verify
from symgrad.errors import GraphError
from symgrad.ops.spec import Meta, Row

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<name>%[A-Za-z0-9_]+)
    | (?P<float>-?(?:inf\b|nan\b|[0-9]+(?:\.[0-9]+(?:e[+-]?[0-9]+)?|e[+-]?[0-9]+)))
    | (?P<integer>-?(?:0x[0-9a-f]+|[0-9]+))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<mark>\.\.\.|[(){}\[\],;:=])
    | (?P<end>\Z)
    | (?P<unknown>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_DTYPES = {d.name: d for d in dtypes.ALL}
_OURS = {**CONTROL, CUSTOM.name: CUSTOM, HOOKED.name: HOOKED}
"""Rows that are not in the op table."""
_MAX_DEPTH = 32
_MAX_DIGITS = 400
_LARGEST_SIZE = 2**63 - 1


def parse(text: str, rows: Mapping[str, Row]) -> Graph:
    """Return the graph of a text, whose applications may use any of `rows`."""
    if not isinstance(text, str):
        raise TypeError(f"a graph is parsed from text, got {text.__class__.__name__}")
    return _Program(text, rows).graph()


class _Tokens:
    """The text token by token; `kind`, `token` and `start` describe the current token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._matches = _TOKEN.finditer(text)
        self.token = ""
        self.advance()

    def advance(self) -> str:
        """Move to the next token and return the current one."""
        given = self.token
        match = next(self._matches)
        self.kind = str(match.lastgroup)
        self.token = match[self.kind]
        self.start = match.start(self.kind)
        return given

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.start if at is None else at
        line, column = self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)
        raise GraphError(f"line {line}, column {column}: {message}")

    def wrong(self, wanted: str) -> NoReturn:
        given = "the end of the text" if self.kind == "end" else repr(self.token[:40])
        self.fail(f"expected {wanted}, got {given}")

    def expect(self, token: str) -> None:
        if self.token != token or self.kind not in ("mark", "word"):
            self.wrong(repr(token))
        self.advance()

    def take(self, kind: str, wanted: str) -> str:
        if self.kind != kind:
            self.wrong(wanted)
        return self.advance()

    def has(self, token: str) -> bool:
        """Consume the mark `token` if it is the current token; True if it was."""
        found = self.kind == "mark" and self.token == token
        if found:
            self.advance()
        return found

    def listed(self, end: str, item: Callable[[], Any]) -> list[Any]:
        """Return the items up to the closing mark `end`, separated by commas; a trailing comma is allowed."""
        items: list[Any] = []
        while not self.has(end):
            items.append(item())
            if not self.has(","):
                self.expect(end)
                break
        return items


class _Attributes(_Tokens):
    """Attributes of values: numbers, strings, dtypes, and containers of them."""

    depth = 0

    def attribute(self) -> Any:
        if self.kind == "mark":
            return self.container()
        if self.kind == "string":
            return self.string()
        if self.kind != "word" or self.token in ("True", "False", "complex"):
            return self.number()
        if self.token == "None":
            self.advance()
            return None
        if self.token == "slice":
            return self.section()
        if self.token == "graph":
            return self.nested()
        dtype = self.dtype()
        return self.array(dtype) if self.token == "[" else dtype

    def nested(self) -> Any:
        """Parse a graph among the attributes."""
        raise NotImplementedError

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail(f"attributes are nested more than {_MAX_DEPTH} deep")

    def container(self) -> Any:
        if self.has("..."):
            return ...
        self.deeper()
        if self.has("("):
            content: Any = self.sequence()
        elif self.has("{"):
            content = dict(self.listed("}", self.entry))
        else:
            self.wrong("an attribute")
        self.depth -= 1
        return content

    def sequence(self) -> tuple[Any, ...]:
        """Parse a tuple. A single item needs a trailing comma: the printer writes no parenthesized numbers."""
        items: list[Any] = []
        while not self.has(")"):
            items.append(self.attribute())
            if len(items) > 1 and self.has(")"):
                break
            self.expect(",")
        return tuple(items)

    def entry(self) -> tuple[str, Any]:
        key = self.string()
        self.expect(":")
        return key, self.attribute()

    def section(self) -> Any:
        self.advance()
        self.expect("(")
        at = self.start
        parts = self.listed(")", self.attribute)
        if len(parts) != 3:
            self.fail(f"a slice has start, stop and step, got {len(parts)} parts", at)
        return slice(*parts)

    def string(self) -> str:
        at, token = self.start, self.take("string", "a string in double quotes")
        try:
            return str(json.loads(token))
        except ValueError as error:
            self.fail(f"{token[:40]} is no string as JSON writes them: {error}", at)

    def integer(self) -> int:
        at, token = self.start, self.take("integer", "an integer")
        if len(token) > _MAX_DIGITS and "x" not in token:
            self.fail(f"an integer of {len(token)} digits is written in hexadecimal, as 0x...", at)
        return int(token, 0) if "x" in token else int(token)

    def real(self) -> float:
        token = self.take("float", "a float, such as 1.0")
        if token != "nan" or not self.has("("):
            return float(token)
        at, bits = self.start, self.take("integer", "the bits of a NaN, such as 0x7ff8000000000001")
        value: float = struct.unpack(">d", int(bits, 0).to_bytes(8, "big"))[0] if re.fullmatch("0x[0-9a-f]{16}", bits) else 0.0
        if value == value:
            self.fail(f"{bits} are not the bits of a NaN", at)
        self.expect(")")
        return value

    def number(self) -> Any:
        if self.kind == "word" and self.token in ("True", "False"):
            return self.advance() == "True"
        if self.kind == "word" and self.token == "complex":
            self.advance()
            self.expect("(")
            real = self.real()
            self.expect(",")
            imaginary = self.real()
            self.expect(")")
            return complex(real, imaginary)
        if self.kind not in ("integer", "float"):
            self.wrong("an attribute")
        return self.integer() if self.kind == "integer" else self.real()

    def dtype(self) -> Any:
        if self.kind != "word" or self.token not in _DTYPES:
            self.wrong("a type, such as float32")
        return _DTYPES[self.advance()].dtype

    def size(self) -> int:
        at, size = self.start, self.integer()
        if not 0 <= size <= _LARGEST_SIZE:
            self.fail(f"{size} is no size of a dimension", at)
        return size

    def meta(self) -> Meta:
        """Parse `float32[2, 3]`."""
        dtype = self.dtype()
        self.expect("[")
        return Meta(tuple(self.listed("]", self.size)), dtype)

    def array(self, dtype: Any) -> Any:
        """Parse `float32[2](0.5, 1.0)`, from the bracket on."""
        at = self.start
        self.expect("[")
        shape = tuple(self.listed("]", self.size))
        self.expect("(")
        numbers = self.listed(")", self.string if self.kind == "string" else self.number)
        try:
            if numbers and isinstance(numbers[0], str):
                return np.frombuffer(bytes.fromhex(*numbers), dtype).reshape(shape)
            with np.errstate(all="ignore"):
                return np.array(numbers, dtype).reshape(shape)
        except (ValueError, TypeError, OverflowError) as error:
            self.fail(f"the numbers do not make an array of type {dtype}{list(shape)}: {error}", at)


class _Program(_Attributes):
    """The lines of a graph."""

    def __init__(self, text: str, rows: Mapping[str, Row]) -> None:
        super().__init__(text)
        self.rows = rows
        self.known: dict[str, Value] = {}

    def graph(self) -> Graph:
        graph = self.block()
        if self.kind != "end":
            self.wrong("the end of the text")
        return graph

    def nested(self) -> Graph:
        """Parse a nested graph, which has its own names."""
        self.deeper()
        outer, self.known = self.known, {}
        graph = self.block()
        self.known = outer
        self.depth -= 1
        return graph

    def block(self) -> Graph:
        at = self.start
        self.expect("graph")
        self.expect("(")
        labels = self.listed(")", self.input)
        inputs = tuple(self.known.values())
        self.expect("{")
        while self.kind == "name":
            self.line()
        self.expect("return")
        outputs = self.listed("}", self.result)
        return self.legal(Graph(inputs, outputs, labels), at)

    def legal(self, graph: Graph, at: int) -> Graph:
        try:
            return verify(graph)
        except GraphError as error:
            self.fail(str(error), at)

    def input(self) -> str:
        """Parse `%x: float64[3]` and return the label."""
        name = self.new_name()
        label = self.string() if self.kind == "string" else name[1:]
        self.expect(":")
        meta = self.meta()
        self.known[name] = input_value(len(self.known), meta.shape, meta.dtype)
        return label

    def line(self) -> None:
        """Parse `%3 = sum(%2; axis=(0,), keepdims=False) : float64[]`."""
        name = self.new_name()
        self.expect("=")
        at = self.start
        self.known[name] = self.checked(self.chosen() if self.kind == "name" else self.application(), at)

    def checked(self, value: Value, at: int) -> Value:
        try:
            check(value)
        except GraphError as error:
            self.fail(str(error), at)
        return value

    def new_name(self) -> str:
        at, name = self.start, self.take("name", "a name, such as %1")
        if name in self.known:
            self.fail(f"{name} has a value already", at)
        return name

    def value(self) -> Value:
        at, name = self.start, self.take("name", "a value, such as %1")
        if name not in self.known:
            self.fail(f"{name} has no value yet", at)
        return self.known[name]

    def operand(self) -> Value | None:
        if self.kind == "word" and self.token == "none":
            self.advance()
            return None
        return self.literal() if self.kind == "word" else self.value()

    def literal(self) -> Value:
        """Parse `float64(2)`."""
        at, dtype = self.start, self.dtype()
        self.expect("(")
        value = literal(self.number(), dtype)
        self.expect(")")
        return self.checked(value, at)

    def result(self) -> Value:
        at, value = self.start, self.literal() if self.kind == "word" else self.value()
        if isinstance(value.dtype, tuple):
            self.fail(f"{value.op} has {len(value.dtype)} outputs: one of them must be chosen, as in %1[0]", at)
        return value

    def chosen(self) -> Value:
        """Parse `%3[0] : float64[2]`."""
        whole = self.value()
        self.expect("[")
        index = self.size()
        self.expect("]")
        self.expect(":")
        meta = self.meta()
        return intern(OUTPUT, None, (whole,), {"index": index}, meta.shape, meta.dtype)

    def application(self) -> Value:
        """Parse `sum(%2; axis=(0,), keepdims=False) : float64[]`; the types of several outputs are in parentheses."""
        row = self.row()
        self.expect("(")
        args: list[Any] = []
        while self.token not in (")", ";"):
            args.append(self.operand())
            if not self.has(","):
                break
        attrs: dict[str, Any] = {}
        if not self.has(")"):
            self.expect(";")
            self.listed(")", lambda: self.setting(row, attrs))
        self.expect(":")
        at = self.start
        meta = tuple(self.listed(")", self.meta)) if self.has("(") else self.meta()
        if row.name == "unbind" and args and args[0] is not None and len(meta if isinstance(meta, tuple) else ()) not in args[0].shape:
            self.fail("unbind gives one output for each place along its axis", at)  # its row would list them all, however many
        return application(row, tuple(args), attrs, meta)

    def row(self) -> Row:
        at = self.start
        name = self.string() if self.kind == "string" else self.take("word", "the name of an operation")
        row = self.rows.get(name, _OURS.get(name))
        if row is None:
            self.fail(f"there is no operation {name[:40]!r}; operations of your own are given as Graph.parse(text, rows={{...}})", at)
        return row

    def setting(self, row: Row, attrs: dict[str, Any]) -> None:
        """Parse `axis=(0,)`."""
        at, name = self.start, self.take("float" if self.token in ("nan", "inf") else "word", "the name of an attribute")
        if name in attrs or name not in row.attrs:
            known = f"has {', '.join(row.attrs)}" if row.attrs else "has none"
            self.fail(f"the attribute {name[:40]!r} is given twice" if name in attrs else f"{row.name} {known}, and no {name[:40]!r}", at)
        self.expect("=")
        attrs[name] = self.attribute()
