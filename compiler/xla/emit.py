"""A graph as readable Python source on jax.numpy.

The source is built as a syntax tree: names are generated, or labels that are plain identifiers; a row's own lowering is parsed with
placeholders for its operands and may name nothing but them, `jnp` and `jax`. No text of a user's becomes code.
A value that is read once, and short, stands where it is read; everything else is a line of its own.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir import INPUT, LITERAL, OUTPUT, Graph, Value, row_of, type_text
from symgrad.errors import GraphError
from symgrad.ops.spec import Row

_INFIX: dict[str, Any] = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "matmul": ast.MatMult}
_COMPARE: dict[str, Any] = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}
_MODULES = {"jax", "jnp"}
_PLAIN = {"tuple", "slice", "range", "len", "int", "max", "min"}
_WIDTH = 60
"""About how many characters an expression may have before it gets a line of its own."""


def source(graph: Graph, name: str = "forward") -> str:
    """The text of a module that defines the graph as the function `name`."""
    return ast.unparse(module(graph, name)).replace("\n\ndef ", "\n\n\ndef ", 1) + "\n"


def module(graph: Graph, name: str = "forward") -> ast.Module:
    """The syntax tree of a module that defines the graph as the function `name`."""
    return ast.fix_missing_locations(_Emitter(graph).module(name))


class _Emitter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = graph.uses()
        self.parameters = list(_parameter_names(graph.labels))
        self.free = (n for n in (f"v{i}" for i in range(10**9)) if n not in set(self.parameters))
        self.expression: dict[Value, ast.expr] = {x: _name(n) for x, n in zip(graph.inputs, self.parameters, strict=True)}
        self.width: dict[Value, int] = {x: len(n) for x, n in zip(graph.inputs, self.parameters, strict=True)}
        self.body: list[ast.stmt] = []

    def module(self, name: str) -> ast.Module:
        for v in self.graph.values:
            if v.op not in (INPUT, LITERAL):
                self.emit(v)
        results = [self.operand(v, weak=False) for v in self.graph.outputs]
        if len(results) > 1:
            results = [r if isinstance(r, ast.Name) else self.named(r) for r in results]
        self.body.append(ast.Return(results[0] if len(results) == 1 else ast.Tuple(results, ast.Load())))
        args = ast.arguments([], [ast.arg(n) for n in self.parameters], None, [], [], None, [])
        function = ast.FunctionDef(name, args, [_docstring(self.graph, self.parameters), *self.body], [])
        vars(function).setdefault("type_params", [])  # Python 3.12 wants it
        return ast.Module([*_imports(function), function], [])

    def emit(self, v: Value) -> None:
        weak = v.row is not None and v.row.elementwise and _one_is_typed(v)
        operands = [_constant(None) if a is None else self.operand(a, weak) for a in v.args]
        if v.op in _INFIX and not weak and v.args[1].op == LITERAL:
            operands[1] = self.operand(v.args[1], weak=True)  # the first operand has the type
        expression = _subscript(operands[0], v.attrs["index"]) if v.op == OUTPUT else self.lowered(v, operands)
        width = 2 + len(v.op) + sum(self.width.get(a, 3) for a in v.args if a is not None)
        if self.uses[v] > 1 or width > _WIDTH or isinstance(v.dtype, tuple):
            expression = self.named(expression)
            width = len(expression.id)
        self.expression[v], self.width[v] = expression, width

    def named(self, expression: ast.expr) -> ast.Name:
        name = next(self.free)
        self.body.append(ast.Assign([ast.Name(name, ast.Store())], expression))
        return _name(name)

    def lowered(self, v: Value, operands: list[ast.expr]) -> ast.expr:
        row = row_of(v)
        if v.op == "transpose" and v.ndim == 2:
            result: ast.expr = ast.Attribute(operands[0], "T", ast.Load())
        elif v.op in _INFIX or v.op in _COMPARE or row.jax is None:
            result = _by_name(v, operands)
        elif callable(row.jax):
            result = self.parsed(row, operands, dict(v.attrs))
        else:
            result = _call(row.jax, operands, v.attrs)
        counted = not row.elementwise and not isinstance(v.dtype, tuple) and v.dtype.kind in "iu" and v.dtype != v.args[0].dtype
        return ast.Call(ast.Attribute(result, "astype", ast.Load()), [_dtype(v.dtype)], []) if counted else result

    def parsed(self, row: Row, operands: list[ast.expr], attrs: dict[str, Any]) -> ast.expr:
        """The row's own text with the operands put in as syntax trees; one that it mentions twice gets a name first."""
        names = [None if _is_none(operand) else f"operand_{i}" for i, operand in enumerate(operands)]
        holes = {name: operand for name, operand in zip(names, operands, strict=True) if name is not None}
        tree = ast.parse(row.jax(*names, **attrs), mode="eval").body  # type: ignore[misc, operator]
        mentions = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        _refuse_foreign(row.name, tree, holes)
        for hole, operand in holes.items():
            if mentions.count(hole) > 1 and not isinstance(operand, (ast.Name, ast.Constant)):
                holes[hole] = self.named(operand)
        return _Fill(holes).visit(tree)  # type: ignore[no-any-return]

    def operand(self, v: Value, weak: bool) -> ast.expr:
        if v.op != LITERAL:
            return self.expression[v]
        number = _number(_held(v.value, v.dtype))
        return number if weak else ast.Call(_dtype(v.dtype), [number], [])


def _is_none(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and e.value is None


def _one_is_typed(v: Value) -> bool:
    """Another operand has the type already, so that a Python number takes it on."""
    return any(a is not None and a.op != LITERAL and a.dtype.kind != "b" for a in v.args)


def _by_name(v: Value, operands: list[ast.expr]) -> ast.expr:
    if v.op in _INFIX:
        return ast.BinOp(operands[0], _INFIX[v.op](), operands[1])
    if v.op in _COMPARE:
        return ast.Compare(operands[0], [_COMPARE[v.op]()], [operands[1]])
    if v.op == "neg":
        return ast.UnaryOp(ast.USub(), operands[0])
    return _call(f"jnp.{default_name(v)}", operands, v.attrs)


def default_name(v: Value) -> str | None:
    """The function of jax.numpy that serves a row without a jax column; None where there is a better form."""
    if v.row is None or v.row.jax is not None or v.op in _INFIX or v.op in _COMPARE or v.op == "neg":
        return None
    return v.row.numpy.__name__ if isinstance(v.row.numpy, np.ufunc) else v.op


def _call(dotted: str, operands: list[ast.expr], attrs: Any) -> ast.expr:
    return ast.Call(_dotted(dotted), operands, [ast.keyword(k, _constant(x)) for k, x in attrs.items()])


def _refuse_foreign(name: str, tree: ast.expr, holes: dict[str, ast.expr]) -> None:
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {*holes, *own, *_MODULES, *_PLAIN}:
            raise GraphError(f"the jax column of row {name!r} uses the name {node.id!r}: it may use its operands, jnp and jax")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise GraphError(f"the jax column of row {name!r} reaches for the private name {node.attr!r}")


class _Fill(ast.NodeTransformer):
    def __init__(self, holes: dict[str, ast.expr]) -> None:
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.holes.get(node.id, node)


def _constant(x: Any) -> ast.expr:
    """An attribute as an expression."""
    if isinstance(x, (tuple, list)):
        return ast.Tuple([_constant(item) for item in x], ast.Load())
    if isinstance(x, slice):
        return ast.Call(_name("slice"), [_constant(x.start), _constant(x.stop), _constant(x.step)], [])
    if isinstance(x, np.dtype):
        return _dtype(x)
    if isinstance(x, (bool, int, float, complex)):
        return _number(x)
    if x is None or x is ... or isinstance(x, str):
        return ast.Constant(x)
    raise GraphError(f"an attribute of type {type(x).__name__} has no form in source text: {x!r}")


def _number(x: Any) -> ast.expr:
    if isinstance(x, float) and not math.isfinite(x):
        word = _dotted("jnp.nan" if math.isnan(x) else "jnp.inf")
        return ast.UnaryOp(ast.USub(), word) if x < 0 else word
    if isinstance(x, (int, float)) and not isinstance(x, bool) and math.copysign(1, x) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-x))
    return ast.Constant(x)


def _held(x: Any, dtype: Any) -> Any:
    """What a number becomes in a narrow type: too large is infinite."""
    if dtype.kind == "f" and isinstance(x, (int, float)) and abs(x) > float(np.finfo(dtype).max):
        return math.copysign(math.inf, x)
    return x


def _dtype(dtype: Any) -> ast.expr:
    return _dotted("jnp.bool_" if dtype.kind == "b" else f"jnp.{dtype.name}")


def _dotted(text: str) -> ast.expr:
    first, *rest = text.replace("jax.numpy", "jnp").split(".")
    result: ast.expr = _name(first)
    for word in rest:
        result = ast.Attribute(result, word, ast.Load())
    return result


def _subscript(x: ast.expr, index: int) -> ast.expr:
    return ast.Subscript(x, ast.Constant(index), ast.Load())


def _name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def _parameter_names(labels: Sequence[str]) -> Iterator[str]:
    """Labels that are plain identifiers, and x0, x1... for the others; each once."""
    taken: set[str] = set()
    for i, label in enumerate(labels):
        plain = label.isascii() and label.isidentifier() and not keyword.iskeyword(label) and not label.startswith("_")
        name = label if plain and len(label) <= 40 and label not in _MODULES | _PLAIN else f"x{i}"
        while name in taken:
            name += "_"
        taken.add(name)
        yield name


def _docstring(graph: Graph, names: Sequence[str]) -> ast.stmt:
    inputs = ", ".join(f"{n}: {type_text(x)}" for n, x in zip(names, graph.inputs, strict=True))
    outputs = ", ".join(map(type_text, graph.outputs))
    gap = " " if len(inputs) + len(outputs) < 100 else "\n    "
    return ast.Expr(ast.Constant(f"({inputs}){gap}-> {outputs}"))


def _imports(function: ast.FunctionDef) -> list[ast.stmt]:
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    names = [ast.alias("jax")] if "jax" in used else []
    names += [ast.alias("jax.numpy", "jnp")] if "jnp" in used else []
    return [ast.Import([name]) for name in names]
