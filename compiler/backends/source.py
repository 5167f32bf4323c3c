"""Building blocks of emitted source: Python syntax trees made from names, numbers and calls.

Names are generated, or labels that are plain identifiers; attributes become constants. No user text becomes code. `module` is the name of
the array library in the source: `np` or `jnp`.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import LITERAL, Graph, Value, type_text
from symgrad.errors import GraphError

INFIX: dict[str, Any] = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "matmul": ast.MatMult}
COMPARE: dict[str, Any] = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}
PLAIN = frozenset(("tuple", "slice", "range", "len", "int", "max", "min", "complex"))
"""Built-in names that the source may use."""
WIDTH = 60
"""Approximate number of characters of an expression before it gets a line of its own."""

MAX_LINE = 120
"""Maximal length of lines that can be broken."""
_LIST = re.compile(r"( *)(def \w+|return )\(([\w, =]+)\)(:?)")
_parsing = threading.Lock()


def parsed(text: str) -> list[ast.stmt]:
    """Parse source that the compiler generated. One thread at a time: Python 3.11 shares one recursion counter for syntax trees between
    threads."""
    with _parsing:
        return ast.parse(text).body


def text(module: ast.Module) -> str:
    """Return the source text of a module of functions."""
    source = ast.unparse(module).replace("\n\ndef ", "\n\n\ndef ").replace("\n\n@", "\n\n\n@").replace("\n\n    ", "\n    ")
    return folded(source) + "\n"


def folded(source: str) -> str:
    """Return the source with long parameter lists and return tuples, which contain names only, broken into several lines."""
    return "\n".join(map(_folded, source.split("\n")))


def _folded(line: str) -> str:
    found = _LIST.fullmatch(line) if len(line) > MAX_LINE else None
    if found is None:
        return line
    indent, start, names, end = found.groups()
    return f"{indent}{start}(\n{_filled(names.split(', '), f'{indent}    ')}\n{indent}){end}"


def _filled(words: Sequence[str], indent: str) -> str:
    """Join words with commas, in lines of at most MAX_LINE characters."""
    lines = [indent]
    for i, word in enumerate(words):
        piece = word if i == len(words) - 1 else f"{word}, "
        if len(lines[-1]) > len(indent) and len(lines[-1]) + len(piece.rstrip()) > MAX_LINE:
            lines.append(indent)
        lines[-1] += piece
    return "\n".join([line.rstrip() for line in lines])


def function(title: str, parameters: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
    """Return `def title(parameters): body`."""
    args = ast.arguments([], [ast.arg(n) for n in parameters], None, [], [], None, [])
    result = ast.FunctionDef(title, args, list(body), [])
    vars(result).setdefault("type_params", [])  # required since Python 3.12
    return result


def name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def assign(target: str, expression: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(target, ast.Store())], expression)


def attribute(x: ast.expr, word: str) -> ast.expr:
    return ast.Attribute(x, word, ast.Load())


def dotted(text: str) -> ast.expr:
    """Return the expression `a.b.c`."""
    first, *rest = text.split(".")
    result: ast.expr = name(first)
    for word in rest:
        result = attribute(result, word)
    return result


def subscript(x: ast.expr, index: int) -> ast.expr:
    return ast.Subscript(x, ast.Constant(index), ast.Load())


def tuple_of(items: Iterable[ast.expr]) -> ast.expr:
    return ast.Tuple(list(items), ast.Load())


def call(what: str | ast.expr, operands: Sequence[ast.expr], attrs: Mapping[str, Any], module: str) -> ast.expr:
    """Return the call `what(*operands, **attrs)`."""
    called = dotted(what) if isinstance(what, str) else what
    return ast.Call(called, list(operands), [ast.keyword(k, constant(x, module)) for k, x in attrs.items()])


def operator(op: str, operands: Sequence[ast.expr]) -> ast.expr | None:
    """Return the row as a Python operator; None if there is no such operator."""
    if op in INFIX:
        return ast.BinOp(operands[0], INFIX[op](), operands[1])
    if op in COMPARE:
        return ast.Compare(operands[0], [COMPARE[op]()], [operands[1]])
    return ast.UnaryOp(ast.USub(), operands[0]) if op == "neg" else None


def constant(x: Any, module: str) -> ast.expr:
    """Return an attribute as an expression."""
    if isinstance(x, (tuple, list)):
        return tuple_of(constant(item, module) for item in x)
    if isinstance(x, slice):
        return ast.Call(name("slice"), [constant(end, module) for end in (x.start, x.stop, x.step)], [])
    if isinstance(x, np.dtype):
        return dtype(x, module)
    if isinstance(x, (bool, int, float, complex)):
        return number(x, module)
    if x is None or x is ... or isinstance(x, str):
        return ast.Constant(x)
    raise GraphError(f"an attribute of type {x.__class__.__name__} has no form in source text: {x!r}")


def number(x: Any, module: str) -> ast.expr:
    x = within_64_bits(x) if module == "jnp" else x
    if isinstance(x, float) and not math.isfinite(x):
        word = dotted(f"{module}.nan" if math.isnan(x) else f"{module}.inf")
        return ast.UnaryOp(ast.USub(), word) if x < 0 else word
    if isinstance(x, (int, float)) and not isinstance(x, bool) and math.copysign(1, x) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-x))
    return ast.Constant(x)


def within_64_bits(x: Any, bits: int = 64) -> Any:
    """Return a number unchanged, but an integer beyond 64 bits, or `bits`, as the float that eager code converts it to."""
    if not isinstance(x, int) or -(1 << (bits - 1)) <= x < 1 << (bits - 1):
        return x
    return float(x) if abs(x) <= sys.float_info.max else math.copysign(math.inf, x)


def as_stored(x: Any, dtype: Any) -> Any:
    """Return a number as it is stored in a dtype: infinity if it is too large. Beside floats an integer beyond 32 bits is a float, as JAX
    would take it for an int32."""
    x = x if dtype.kind in "biu" else within_64_bits(x, 32)
    if dtype.kind == "f" and isinstance(x, (int, float)) and abs(x) > float(np.finfo(dtype).max):
        return math.copysign(math.inf, x)
    return x


def dtype(dtype: Any, module: str) -> ast.expr:
    return dotted(f"{module}.bool_" if dtype.kind == "b" else f"{module}.{dtype.name}")


def one_is_typed(v: Value) -> bool:
    """True if an operand already has the dtype of the result, so that a Python scalar adopts it."""
    return any([a is not None and a.op != LITERAL and a.dtype.kind != "b" for a in v.args])


def is_none(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and e.value is None


def parameter_names(labels: Sequence[str], reserved: Iterable[str]) -> Iterator[str]:
    """Yield a unique parameter name for each label: the label with underscores for dots if that is a plain identifier and not reserved,
    else x0, x1, ..."""
    taken: set[str] = set()
    kept = {*reserved, *PLAIN}
    for i, label in enumerate(_underscored(label) for label in labels):
        plain = label.isascii() and label.isidentifier() and not keyword.iskeyword(label) and not label.startswith("_")
        found = label if plain and len(label) <= 80 and label not in kept else f"x{i}"
        while found in taken:
            found += "_"
        taken.add(found)
        yield found


def _underscored(label: str) -> str:
    """Return a path as an identifier: a layer of a Sequential has a number for a name, and gets a prefix."""
    path = label.replace(".", "_")
    return f"module_{path}" if path[:1].isdigit() and "_" in path else path


def docstring(graph: Graph, names: Sequence[str]) -> ast.stmt:
    """Return a docstring with the types of inputs and outputs."""
    inputs = [f"{n}: {type_text(x)}" for n, x in zip(names, graph.inputs, strict=True)]
    outputs = [*map(type_text, graph.outputs)]
    if len(", ".join(inputs + outputs)) < MAX_LINE - 20:
        return ast.Expr(ast.Constant(f"({', '.join(inputs)}) -> {', '.join(outputs)}"))
    given, found = (_filled(types, "    ").strip() for types in (inputs, outputs))
    return ast.Expr(ast.Constant(f"({given})\n    -> {found}"))


def names_in(tree: ast.AST) -> set[str]:
    """Return the names that a tree mentions. Also sets a source location on every node, which Python requires before compiling."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        node: Any = waiting.pop()
        if node.__class__ is ast.Name:
            found.add(node.id)
        elif node.__class__ is not ast.Constant:
            for field in node._fields:
                part = getattr(node, field, None)
                if part.__class__ is list:
                    waiting += [x for x in part if isinstance(x, ast.AST)]
                elif isinstance(part, ast.AST) and part._fields:
                    waiting.append(part)
        if node._attributes:
            node.lineno, node.col_offset = 1, 0
    return found
