"""Loops and branches as plain Python: nested functions, which read shared values from the enclosing scope.

    def body(carry, x):
        ...
        return (carry * w, y)
    v1 = x0
    v2 = np.empty((10, 3), np.float32)
    for t in range(10):
        v1, v2[t] = body(v1, xs[t])
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from symgrad.compiler.backends import source as syntax
from symgrad.compiler.ir.graph import Graph, Value


def write(emitter: Any, v: Value) -> list[ast.expr]:
    """Emit a loop or a branch; return a name for each of its outputs."""
    operands = [emitter.atom(emitter.operand(a)) for a in v.args]
    return {"scan": _scan, "while_loop": _while, "cond": _cond}[v.op](emitter, v, operands)


def _scan(emitter: Any, v: Value, operands: list[ast.expr]) -> list[ast.expr]:
    attrs = v.attrs
    n, m, length = attrs["carries"], attrs["slices"], attrs["length"]
    carries, items = _names(emitter, "carry", n), _names(emitter, "x", m)
    body = _define(emitter, "body", attrs["body"], [*carries, *items], operands[n + m :], n)
    now = [_begun(emitter, x) for x in operands[:n]]
    shapes = zip(v.shape[n:], v.dtype[n:], strict=True)
    stacked = [emitter.named(emitter.empty(shape, dtype)).id for shape, dtype in shapes]
    t = emitter.fresh("t")
    places = [ast.Subscript(syntax.name(s), syntax.name(t), ast.Store()) for s in stacked]
    taken = [ast.Subscript(x, syntax.name(t), ast.Load()) for x in operands[n : n + m]]
    call = ast.Call(body, [*map(syntax.name, now), *taken], [])
    turns: ast.expr = ast.Call(syntax.name("range"), [ast.Constant(length)], [])
    if attrs["reverse"]:
        turns = ast.Call(syntax.name("reversed"), [turns], [])
    emitter.body.append(ast.For(ast.Name(t, ast.Store()), turns, [_assigned([*_stored(now), *places], call)], []))
    return [syntax.name(word) for word in (*now, *stacked)]


def _while(emitter: Any, v: Value, operands: list[ast.expr]) -> list[ast.expr]:
    n = v.attrs["carries"]
    functions = []
    for what in ("condition", "body"):
        carries = _names(emitter, "carry", n)
        functions.append(_define(emitter, what, v.attrs[what], carries, operands[n:], n))
    now = [_begun(emitter, x) for x in operands[:n]]
    condition, body = (ast.Call(f, list(map(syntax.name, now)), []) for f in functions)
    emitter.body.append(ast.While(condition, [_assigned(_stored(now), body)], []))
    return list(map(syntax.name, now))


def _cond(emitter: Any, v: Value, operands: list[ast.expr]) -> list[ast.expr]:
    truth, *others = operands
    true, false = (_define(emitter, f"if_{what}", v.attrs[what], [], others, len(v.dtype)) for what in ("true", "false"))
    names = [emitter.fresh() for _ in v.dtype]
    choice = ast.IfExp(truth, ast.Call(true, [], []), ast.Call(false, [], []))
    emitter.body.append(_assigned(_stored(names), choice))
    return list(map(syntax.name, names))


def _define(emitter: Any, stem: str, graph: Graph, parameters: Sequence[str], shared: Sequence[ast.expr], carried: int) -> ast.expr:
    """Emit a nested function of the first inputs of a graph and return its name; it reads the other inputs from the enclosing scope."""
    lines = emitter.inner(graph, [*map(syntax.name, parameters), *shared], carried)
    name = emitter.fresh(stem)
    emitter.body.append(syntax.function(name, parameters, lines))
    return syntax.name(name)


def _names(emitter: Any, stem: str, count: int) -> list[str]:
    return [emitter.fresh(stem) for _ in range(count)]


def _begun(emitter: Any, x: ast.expr) -> str:
    name: str = emitter.named(x).id
    return name


def _stored(names: Sequence[str]) -> list[ast.expr]:
    return [ast.Name(name, ast.Store()) for name in names]


def _assigned(targets: Sequence[ast.expr], call: ast.expr) -> ast.stmt:
    if not targets:
        return ast.Expr(call)
    return ast.Assign([targets[0] if len(targets) == 1 else ast.Tuple(list(targets), ast.Store())], call)
