"""Loops and branches as source: nested functions, which read shared values from the enclosing scope.

    def body(carry, x):
        ...
        return (carry * w, y)
    v1, v2 = jax.lax.scan(body, x0, xs, length=10)

A graph that is called several times is a separate function of everything that it reads. JAX traces and lowers it once.

    @jax.jit
    def layer(x, w):
        ...
    v2 = layer(v1, w1)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from symgrad.compiler.ir.graph import Value


def emit(emitter: Any, v: Value) -> list[ast.expr]:
    """Emit a loop, a branch or a call; return a name for each of its outputs."""
    if v.op == "call":
        given = [emitter.operand(a, weak=False) for a in v.args]
        return _assigned(emitter, len(v.dtype), ast.Call(emitter.function(v.attrs["body"]), given, []))
    operands = [emitter.steady(a) for a in v.args]
    return {"scan": _scan, "while_loop": _while, "cond": _cond}[v.op](emitter, v, operands)


def _scan(emitter: Any, v: Value, operands: list[ast.expr]) -> list[ast.expr]:
    body, n, m = v.attrs["body"], v.attrs["carries"], v.attrs["slices"]
    inits, slices, shared = operands[:n], operands[n : n + m], operands[n + m :]
    carry, x = emitter.fresh("carry"), emitter.fresh("x")
    start, carried = _unpacked(emitter, carry, n)
    more, taken = _unpacked(emitter, x, m)
    lines, results = emitter.inner(body, [*carried, *taken, *shared])
    name = emitter.define("body", [carry, x], [*start, *more, *lines], _tuple([_bundle(results[:n]), _bundle(results[n:])]))
    settings = [ast.keyword("length", ast.Constant(v.attrs["length"]))]
    settings += [ast.keyword("reverse", ast.Constant(True))] if v.attrs["reverse"] else []
    call = ast.Call(_jax("scan"), [name, _bundle(inits), _bundle(slices)], settings)
    last, stacked = [emitter.fresh() for _ in range(n)], [emitter.fresh() for _ in results[n:]]
    emitter.assign([_targets(last, emitter), _targets(stacked, emitter)], call)
    return [_name(word) for word in (*last, *stacked)]


def _while(emitter: Any, v: Value, operands: list[ast.expr]) -> list[ast.expr]:
    n = v.attrs["carries"]
    names = []
    for what in ("condition", "body"):
        carry = emitter.fresh("carry")
        start, carried = _unpacked(emitter, carry, n)
        lines, results = emitter.inner(v.attrs[what], [*carried, *operands[n:]])
        names.append(emitter.define(what, [carry], [*start, *lines], _bundle(results)))
    return _assigned(emitter, n, ast.Call(_jax("while_loop"), [*names, _bundle(operands[:n])], []))


def _cond(emitter: Any, v: Value, operands: list[ast.expr]) -> list[ast.expr]:
    truth, *others = operands
    names = []
    for what in ("true", "false"):
        lines, results = emitter.inner(v.attrs[what], others)
        names.append(emitter.define(f"if_{what}", [], lines, _bundle(results)))
    return _assigned(emitter, len(v.dtype), ast.Call(_jax("cond"), [truth, *names], []))


def _assigned(emitter: Any, count: int, call: ast.expr) -> list[ast.expr]:
    names = [emitter.fresh() for _ in range(count)]
    if names:
        emitter.assign([_targets([name], emitter) for name in names], call)
    return [_name(name) for name in names]


def _unpacked(emitter: Any, name: str, count: int) -> tuple[list[ast.stmt], list[ast.expr]]:
    """Return the statements that unpack a bundle, and the names of its parts."""
    if count < 2:
        return [], [_name(name)] * count
    parts = [emitter.fresh(f"{name}_{i}") for i in range(count)]
    return [ast.Assign([_stored(parts)], _name(name))], [_name(part) for part in parts]


def _bundle(parts: Sequence[ast.expr]) -> ast.expr:
    """Return None, the only part, or a tuple of the parts."""
    return ast.Constant(None) if not parts else parts[0] if len(parts) == 1 else _tuple(parts)


def _targets(names: Sequence[str], emitter: Any) -> ast.expr:
    """Return the assignment target of a bundle."""
    if len(names) < 2:
        return ast.Name(names[0] if names else emitter.fresh(), ast.Store())
    return _stored(names)


def _stored(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())


def _tuple(parts: Sequence[ast.expr]) -> ast.expr:
    return ast.Tuple(list(parts), ast.Load())


def _name(text: str) -> ast.expr:
    return ast.Name(text, ast.Load())


def _jax(name: str) -> ast.expr:
    return ast.Attribute(ast.Attribute(_name("jax"), "lax", ast.Load()), name, ast.Load())
