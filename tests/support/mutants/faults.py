"""One-line faults: a line of a file, and the ways in which it can be made wrong.

A fault replaces the text of one node of the syntax tree. Messages are left alone: no test should hold a library to its exact prose. So are
changes that change nothing: swapped arguments of a symmetric function, and None for False as a result.
"""

from __future__ import annotations

import ast
import copy
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_LEFT_ALONE = (
    ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal, ast.Raise, ast.Assert,
    ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef,
)  # fmt: skip
_SYMMETRIC = {
    "max", "min", "maximum", "minimum", "gcd", "lcm", "result_type", "promote_types", "broadcast_shapes", "array_equal", "shares_memory",
    "may_share_memory", "logical_and", "logical_or", "logical_xor", "Add", "Max", "Min", "delta", "suppress",
}  # fmt: skip
"""Functions whose result does not depend on the order of their arguments."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Fault(NamedTuple):
    """A line, and the text of the file in which something on it is wrong."""

    path: str
    line: int
    what: str
    text: str
    statement: int
    """The line on which the statement around it begins."""
    functions: frozenset[int]
    """The lines of the file that run in functions, and not at import."""


def executable_lines(path: Path) -> list[int]:
    """The lines that can be made wrong: no docstrings, imports, headers of definitions, messages or errors."""
    tree = ast.parse(path.read_text())
    return sorted({node.lineno for statement in _statements(tree) for _, node, _ in _changes(statement)})


def draw(root: Path, folders: tuple[str, ...], seed: int) -> Iterator[Fault]:
    """Faults without end, each on a line that is drawn uniformly over all executable lines of the folders."""
    chance = random.Random(seed)
    files = sorted(path for folder in folders for path in (root / folder).rglob("*.py") if not _linked(root, path))
    lines = [(path, line) for path in files for line in executable_lines(path)]
    while True:
        path, line = chance.choice(lines)
        yield chance.choice(list(faults(path, line, path.relative_to(root).as_posix())))


def faults(path: Path, line: int, name: str) -> Iterator[Fault]:
    """All faults that begin on a line."""
    text = path.read_text()
    tree = ast.parse(text)
    for statement in _statements(tree):
        for what, node, replacement in _changes(statement):
            if node.lineno == line:
                yield Fault(name, line, what, _replaced(text, node, replacement), statement.lineno, lines_of_functions(tree))


def lines_of_functions(tree: ast.AST) -> frozenset[int]:
    """The lines of the bodies of functions and lambdas."""
    bodies = [x.body if isinstance(x.body, list) else [x.body] for x in ast.walk(tree) if isinstance(x, _FUNCTIONS)]
    return frozenset(line for body in bodies for node in body for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _linked(root: Path, path: Path) -> bool:
    """Whether the file is reached through a link: symgrad/compiler is one."""
    return path.resolve() != root.resolve() / path.relative_to(root)


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not is_text and not isinstance(node, _LEFT_ALONE):
            yield node


def _changes(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt | ast.expr, str]]:
    """What is wrong, the node, and the text in its place."""
    if isinstance(statement, ast.Return) and statement.value is not None and not _is_constant(statement.value, None, False):
        yield "result dropped", statement, "return None"
    if isinstance(statement, (ast.AugAssign, ast.Expr, ast.Delete)):
        yield "statement removed", statement, "pass"
    if isinstance(statement, ast.Break):
        yield "break for continue", statement, "continue"
    if isinstance(statement, ast.Continue):
        yield "continue for break", statement, "break"
    if isinstance(statement, ast.AugAssign) and type(statement.op) in OPERATORS:
        changed = copy.deepcopy(statement)
        changed.op = OPERATORS[type(statement.op)]()
        yield "other operator", statement, ast.unparse(changed)
    for node in _expressions(statement):
        for what, changed in _variants(node):
            yield what, node, f"({ast.unparse(changed)})"


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without those of statements and lambdas' defaults inside of it, or of messages."""
    waiting: list[ast.AST] = [x for x in ast.iter_child_nodes(statement) if not isinstance(x, ast.stmt)]
    if isinstance(statement, ast.AnnAssign):
        waiting = [x for x in (statement.target, statement.value) if x is not None]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.JoinedStr, ast.ExceptHandler)) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue  # messages, and the lengths that zip asserts
        if isinstance(node, ast.expr):
            yield node
        waiting.extend(x for x in ast.iter_child_nodes(node) if not isinstance(x, ast.stmt))


def _variants(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[first, *_]) if type(first) in COMPARISONS:
            changed.ops[0] = COMPARISONS[type(first)]()
            yield "other comparison", changed
        case ast.BinOp(op=op) if type(op) in OPERATORS and not _is_text(changed):
            changed.op = OPERATORS[type(op)]()
            yield "other operator", changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield "and for or", changed
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield "sign dropped", changed.operand
        case ast.IfExp():
            changed.body, changed.orelse = changed.orelse, changed.body
            yield "branches swapped", changed
        case ast.Constant(value=bool()):
            yield "other constant", ast.Constant(not changed.value)
        case ast.Constant(value=int() | float()):
            yield "other constant", ast.Constant(changed.value + 1)
        case ast.Call(args=[one, other, *rest]) if _is_ordered(changed):
            changed.args = [other, one, *rest]
            yield "arguments swapped", changed
        case ast.Call(keywords=[_, *_]) if changed.keywords[-1].arg not in (None, "strict"):
            changed.keywords.pop()
            yield "keyword dropped", changed


def _is_ordered(call: ast.Call) -> bool:
    """Whether a call whose first two arguments are swapped may mean something else."""
    name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else None
    same = ast.dump(call.args[0]) == ast.dump(call.args[1])
    return name not in _SYMMETRIC and not same and not any(isinstance(x, ast.Starred) for x in call.args)


def _is_constant(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(x, ast.JoinedStr) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in (node.left, node.right))


def _replaced(text: str, node: ast.stmt | ast.expr, replacement: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    starts = [0, *itertools.accumulate(map(len, lines))]
    begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + (node.end_col_offset or 0)
    raw = text.encode()
    return (raw[:begin] + replacement.encode() + raw[end:]).decode()
