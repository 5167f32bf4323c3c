"""Instrumented code: every block of statements in a function, and every lambda, notes that it has run.

A block begins with its suite and after each compound statement. Noting it is one store into a byte array that is a constant of the code:
the names that a function reads stay the same, and a run takes little longer than without it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import CodeType

_PLACE = "\0mutants: the array of blocks that have run"


class Hits(bytearray):
    """One byte for each block. Code that holds it as a constant can be hashed and printed as before."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Hits()"


def instrumented(text: str, path: str, hits: Hits, first: int) -> tuple[CodeType, list[list[int]]]:
    """The code of a module whose blocks are numbered from `first`, and the lines of each block."""
    tree = ast.parse(text, path)
    blocks = _Blocks(first)
    blocks.visit(tree)
    code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
    return _with_constant(code, hits), blocks.lines


class _Blocks(ast.NodeTransformer):
    def __init__(self, first: int) -> None:
        self.first = first
        self.lines: list[list[int]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self._suite(node.body)
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        store = ast.Attribute(ast.Constant(_PLACE), "__setitem__", ast.Load())
        note = ast.Call(store, [self._number(_lines(node.body)), ast.Constant(1)], [])
        body = self.visit(node.body)
        node.body = ast.copy_location(ast.Subscript(ast.Tuple([note, body], ast.Load()), ast.Constant(1), ast.Load()), body)
        return node

    def _suite(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements with one that notes their block before each block."""
        found: list[ast.stmt] = []
        for group in _groups(body):
            number = self._number(line for statement in group for line in _header(statement))
            note = ast.Assign([ast.Subscript(ast.Constant(_PLACE), number, ast.Store())], ast.Constant(1))
            found += [ast.copy_location(note, group[0]), *group]
            for statement in group:
                self._inner(statement)
        return found

    def _inner(self, statement: ast.stmt) -> None:
        """Instrument the suites of a compound statement; functions and classes inside of it are visited by themselves."""
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            return
        for owner in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                if suite := getattr(owner, name, None):
                    setattr(owner, name, self._suite(suite))

    def _number(self, lines: Iterable[int]) -> ast.Constant:
        self.lines.append(sorted(set(lines)))
        return ast.Constant(self.first + len(self.lines) - 1)


def _groups(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    group: list[ast.stmt] = []
    for statement in body:
        group.append(statement)
        if hasattr(statement, "body") or hasattr(statement, "cases"):
            yield group
            group = []
    if group:
        yield group


def _lines(node: ast.AST) -> range:
    return range(node.lineno, node.end_lineno + 1)  # type: ignore[attr-defined]


def _header(statement: ast.stmt) -> range:
    """The lines of a simple statement, or of a compound one before its first suite."""
    inner = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not inner:
        return _lines(statement)
    start = inner[0].pattern if isinstance(inner[0], ast.match_case) else inner[0]
    return range(statement.lineno, max(start.lineno, statement.lineno + 1))


def _with_constant(code: CodeType, hits: Hits) -> CodeType:
    """The code with the array in place of its name."""
    consts = tuple(_with_constant(x, hits) if isinstance(x, CodeType) else hits if x == _PLACE else x for x in code.co_consts)
    return code.replace(co_consts=consts)
