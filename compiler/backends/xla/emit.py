"""A graph as readable Python source on jax.numpy.

The source is built as a syntax tree: names are generated, or labels that are plain identifiers; a row's own lowering is parsed with
placeholders for its operands, and may use no names but these, `jnp` and `jax`. No user text becomes code. A short value that is read once
is inlined; every other value has a line of its own.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backends import source as syntax
from symgrad.compiler.backends.source import COMPARE, INFIX, PLAIN, WIDTH, is_none, one_is_typed
from symgrad.compiler.backends.xla import loops
from symgrad.compiler.backends.xla.helpers import POWERS, ROWS, helpers, is_whole_power, takes_many_rows
from symgrad.compiler.ir.control_flow import CALL, is_control
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, row_of
from symgrad.errors import GraphError
from symgrad.ops.spec import Row

_JNP = "jnp"
_MODULES = {"jax", _JNP}
_LAYER = "layer"
_NON_FINITE = re.compile(r"\b(inf|nan)j?\b")


def source(graph: Graph, name: str = "forward") -> str:
    """Return the text of a module that defines the graph as the function `name`."""
    return syntax.text(module(graph, name))


def module(graph: Graph, name: str = "forward") -> ast.Module:
    """Return the syntax tree of a module that defines the graph as the function `name`."""
    return _Emitter(graph, _parameters(graph)).module(name)


def _parameters(graph: Graph) -> list[str]:
    return list(syntax.parameter_names(graph.labels, {*_MODULES, ROWS, POWERS}))


class _Emitter:
    def __init__(self, graph: Graph, parameters: Sequence[str], inputs: Sequence[ast.expr] = (), outer: _Emitter | None = None) -> None:
        """`inputs` are the expressions of the graph inputs; by default the parameters."""
        self.graph = graph
        self.uses = graph.uses()
        self.parameters = parameters
        self.taken: set[str] = set(parameters) if outer is None else outer.taken
        """Names in use, here or in enclosing or nested functions."""
        self.free: Iterator[str] = (f"v{i}" for i in range(10**9)) if outer is None else outer.free
        self.expression: dict[Value, ast.expr] = dict(zip(graph.inputs, inputs or map(syntax.name, parameters), strict=True))
        self.width: dict[Value, int] = {x: len(e.id) if isinstance(e, ast.Name) else 3 for x, e in self.expression.items()}
        self.results: dict[Value, list[ast.expr]] = {}
        """The expressions of the outputs of loops and branches."""
        self.body: list[ast.stmt] = []
        self.functions: dict[Graph, ast.FunctionDef] = {} if outer is None else outer.functions
        """Functions for the graphs that are called several times."""

    def lines(self) -> list[ast.expr]:
        """Emit all lines of the body; return the expressions of the results."""
        for v in self.graph.values:
            if is_control(v) or v.row is CALL:
                self.results[v] = loops.emit(self, v)
            elif v.op not in (INPUT, LITERAL):
                self.emit(v)
        return [self.operand(v, weak=False) for v in self.graph.outputs]

    def definition(self, name: str) -> ast.FunctionDef:
        """Return the graph as a function definition."""
        self.taken.add(name)
        results = self.lines()
        if len(results) > 1:
            results = [r if isinstance(r, ast.Name) else self.named(r) for r in results]
        self.body.append(ast.Return(results[0] if len(results) == 1 else syntax.tuple_of(results)))
        return syntax.function(name, self.parameters, [syntax.docstring(self.graph, self.parameters), *self.body])

    def module(self, name: str) -> ast.Module:
        function = self.definition(name)
        functions = [*self.functions.values(), function]  # complete after definition()
        used = set().union(*map(syntax.names_in, functions))
        more = helpers(used)
        imports = _imports(used.union(*map(syntax.names_in, more)))
        for line in imports:
            syntax.names_in(line)
        return ast.Module([*imports, *more, *functions], [])

    # used by the emitter of loops and branches

    def inner(self, graph: Graph, inputs: Sequence[ast.expr]) -> tuple[list[ast.stmt], list[ast.expr]]:
        """Return the lines and the results of a graph in a nested function, which may read every name that is defined here."""
        emitter = _Emitter(graph, (), inputs, self)
        results = emitter.lines()
        return emitter.body, results

    def define(self, stem: str, parameters: Sequence[str], lines: Sequence[ast.stmt], result: ast.expr) -> ast.Name:
        name = self.fresh(stem)
        self.body.append(syntax.function(name, parameters, [*lines, ast.Return(result)]))
        return syntax.name(name)

    def function(self, graph: Graph) -> ast.Name:
        """Return the name of a separate function for a graph: JAX traces and lowers it once, however often it is called."""
        if graph not in self.functions:
            name = self.fresh(_LAYER)
            self.functions[graph] = found = _Emitter(graph, _parameters(graph)).definition(name)
            found.decorator_list.append(syntax.dotted("jax.jit"))
        return syntax.name(self.functions[graph].name)

    def steady(self, v: Value) -> ast.expr:
        """Return an operand as a name or a number, which nested functions can read."""
        expression = self.operand(v, weak=False)
        return expression if isinstance(expression, ast.Name) or v.op == LITERAL else self.named(expression)

    def assign(self, targets: list[ast.expr], expression: ast.expr) -> None:
        target = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())
        self.body.append(ast.Assign([target], expression))

    def fresh(self, stem: str | None = None) -> str:
        """Return an unused name: from the stem, or numbered."""
        names = self.free if stem is None else (f"{stem}{i or ''}" for i in range(10**9))
        name = next(n for n in names if n not in self.taken)
        self.taken.add(name)
        return name

    def emit(self, v: Value) -> None:
        weak = v.row is not None and v.row.elementwise and not callable(v.row.jax) and one_is_typed(v)  # a row's text may use it alone
        if v.op == OUTPUT and v.args[0] in self.results:
            self.expression[v] = self.results[v.args[0]][v.attrs["index"]]
            return
        operands = [ast.Constant(None) if a is None else self.operand(a, weak) for a in v.args]
        if v.op in INFIX and not weak and v.args[1].op == LITERAL:
            operands[1] = self.operand(v.args[1], weak=True)  # the first operand determines the dtype
        expression = syntax.subscript(operands[0], v.attrs["index"]) if v.op == OUTPUT else self.lowered(v, operands)
        width = 2 + len(v.op) + sum([self.width.get(a, 3) for a in v.args if a is not None])
        if self.uses[v] > 1 or width > WIDTH or isinstance(v.dtype, tuple):
            expression = self.named(expression)
            width = len(expression.id)
        self.expression[v], self.width[v] = expression, width

    def named(self, expression: ast.expr) -> ast.Name:
        name = self.fresh()
        self.body.append(syntax.assign(name, expression))
        return syntax.name(name)

    def lowered(self, v: Value, operands: list[ast.expr]) -> ast.expr:
        row = row_of(v)
        if v.op == "transpose" and v.ndim == 2:
            result: ast.expr = syntax.attribute(operands[0], "T")
        elif takes_many_rows(v):
            result = ast.Call(syntax.name(ROWS), operands, [])
        elif is_whole_power(v):
            result = ast.Call(syntax.name(POWERS), operands, [])
        elif v.op in INFIX or v.op in COMPARE or row.jax is None:
            result = _by_name(v, operands)
        elif callable(row.jax):
            result = self.parsed(row, operands, _attributes(v))
        else:
            result = _call(row.jax, operands, _attributes(v))
        counted = not row.elementwise and not isinstance(v.dtype, tuple) and v.dtype.kind in "iu" and v.dtype != v.args[0].dtype
        return ast.Call(syntax.attribute(result, "astype"), [syntax.dtype(v.dtype, _JNP)], []) if counted else result

    def parsed(self, row: Row, operands: list[ast.expr], attrs: dict[str, Any]) -> ast.expr:
        """Parse the row's own text and substitute the operands as syntax trees; an operand that it mentions twice gets a name first."""
        names = [None if is_none(operand) else f"operand_{i}" for i, operand in enumerate(operands)]
        holes = {name: operand for name, operand in zip(names, operands, strict=True) if name is not None}
        text: str = row.jax(*names, **attrs)  # type: ignore[misc, operator]
        tree = _expression(text)
        mentions, own = _mentions(row.name, text, frozenset(holes))
        for hole, operand in holes.items():
            if mentions[hole] > 1 and not isinstance(operand, (ast.Name, ast.Constant)):
                holes[hole] = self.named(operand)
        renamed = {name: self.fresh(f"{name}_") for name in sorted(own & self.taken)}  # else `lambda t: ...` would hide an operand t
        return _Fill(holes, renamed).visit(tree)  # type: ignore[no-any-return]

    def operand(self, v: Value, weak: bool) -> ast.expr:
        if v.op != LITERAL:
            return self.expression[v]
        number = syntax.number(syntax.as_stored(v.value, v.dtype), _JNP)
        return number if weak else ast.Call(syntax.dtype(v.dtype, _JNP), [number], [])


def _by_name(v: Value, operands: list[ast.expr]) -> ast.expr:
    return syntax.operator(v.op, operands) or _call(f"{_JNP}.{default_name(v)}", operands, _attributes(v))


def _attributes(v: Value) -> dict[str, Any]:
    """Return the attributes as JAX takes them: an integer that does not fit is a float, as in eager code."""
    result = v.dtype[0] if isinstance(v.dtype, tuple) else v.dtype
    return {k: syntax.within_64_bits(x, 64 if result.kind in "iu" else 32) for k, x in v.attrs.items()}


def default_name(v: Value) -> str | None:
    """Return the jax.numpy function that implements a row without a jax column; None if the row is emitted in another form."""
    if v.row is None or v.row.jax is not None or v.op in INFIX or v.op in COMPARE or v.op == "neg" or is_control(v):
        return None
    return v.row.numpy.__name__ if isinstance(v.row.numpy, np.ufunc) else v.op


def _expression(text: str) -> ast.expr:
    (statement,) = syntax.parsed(text)
    if not isinstance(statement, ast.Expr):
        raise GraphError(f"a jax column gives an expression, got {text!r}")
    return _NonFinite().visit(statement.value) if _NON_FINITE.search(text) else statement.value


@functools.lru_cache(1024)
def _mentions(name: str, text: str, holes: frozenset[str]) -> tuple[Counter[str], frozenset[str]]:
    """Count how often a row's own text mentions each name, and find the names that it binds itself; raise GraphError if it uses a name that
    it may not."""
    nodes = list(ast.walk(_expression(text)))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    allowed = {*holes, *own, *_MODULES, *PLAIN}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in allowed:
            raise GraphError(f"the jax column of row {name!r} uses the name {node.id!r}: it may use its operands, jnp and jax")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise GraphError(f"the jax column of row {name!r} reaches for the private name {node.attr!r}")
    return Counter(node.id for node in nodes if isinstance(node, ast.Name)), frozenset(own)


class _Fill(ast.NodeTransformer):
    """Substitutes the operands, and renames what the text binds itself: parameters of lambdas and variables of comprehensions."""

    def __init__(self, holes: dict[str, ast.expr], renamed: dict[str, str]) -> None:
        self.holes, self.renamed = holes, renamed

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.renamed:
            return ast.Name(self.renamed[node.id], node.ctx)
        return self.holes.get(node.id, node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.renamed.get(node.arg, node.arg))


class _NonFinite(ast.NodeTransformer):
    """Turns `inf` and `nan`, which attributes write into a row's text, into numbers of jax.numpy."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("infj", "nanj"):
            return ast.Call(syntax.name("complex"), [ast.Constant(0), syntax.dotted(f"{_JNP}.{node.id[:3]}")], [])
        return syntax.dotted(f"{_JNP}.{node.id}") if node.id in ("inf", "nan") else node


def _call(dotted: str, operands: list[ast.expr], attrs: Any) -> ast.expr:
    return syntax.call(dotted.replace("jax.numpy", _JNP), operands, attrs, _JNP)


def _imports(used: set[str]) -> list[ast.stmt]:
    names = [ast.alias("jax")] if "jax" in used else []
    names += [ast.alias("jax.numpy", _JNP)] if _JNP in used else []
    return [ast.Import([name]) for name in names]
