"""A graph as readable Python source on NumPy.

Small arrays are computed with plain operators; large ones by functions that write into existing memory: `v3 = np.tanh(v2, out=b0)`, where
`b0` is a buffer of the workspace, or the array of another value that is dead. A row without a NumPy function is called as its own kernel,
`kernels.softmax(x, axis=(1,))`.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backends import source as syntax
from symgrad.compiler.backends.numpy import loops
from symgrad.compiler.backends.numpy.buffers import MemoryPlan, Storage, unshaped
from symgrad.compiler.backends.numpy.ufuncs import LETTERS, is_column_sum, is_fresh, is_masked, is_plain_sum, is_zero
from symgrad.compiler.backends.source import one_is_typed
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, row_of
from symgrad.errors import GraphError
from symgrad.ops.kernels import select
from symgrad.ops.namespace import raw

_RESERVED = frozenset(("np", "kernels", "masked", "select", "ml_dtypes", "workspace", "buffers", "reversed"))
_WEAK = frozenset(("promote", "float", "compare", "where"))
"""Promotion policies of rows whose ufuncs take Python scalars."""


_OPERATORS: dict[str, str] = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
"""Ufuncs that have a Python operator, besides `add`, with the names of their rows."""


def source(graph: Graph, name: str = "forward") -> str:
    """Return the text of a module that defines the graph as the function `name`."""
    return Emitter(graph).text(name)


class Emitter:
    """Emits one function and its workspace. An emitter for a nested function gets expressions for its inputs, and shares everything else
    with the outer one."""

    def __init__(self, graph: Graph, inputs: Sequence[ast.expr] = (), outer: Emitter | None = None, carried: int = 0) -> None:
        self.graph = graph
        self.plan = MemoryPlan(graph, None if outer is None else graph.outputs[:carried])
        self.carried = None if outer is None else carried
        self.parameters = list(syntax.parameter_names(graph.labels, _RESERVED)) if outer is None else []
        self.taken: set[str] = set(self.parameters) if outer is None else outer.taken
        self.bound: dict[str, Any] = {} if outer is None else outer.bound
        """Objects that the source refers to besides modules: kernels of rows that are not in the table, and kernels with attributes that
        have no text form."""
        self.ones: dict[tuple[int, Any], str] = {} if outer is None else outer.ones
        self.buffer: dict[Storage, str] = {} if outer is None else outer.buffer
        self.buffer.update({storage: self.fresh("b", first=0) for storage in self.plan.buffers})
        given = list(map(syntax.name, self.parameters)) if outer is None else inputs
        self.expression: dict[Value, Any] = dict(zip(graph.inputs, given, strict=True))
        """The expression of each value; for a loop or a branch a list of expressions."""
        self.body: list[ast.stmt] = []

    def text(self, name: str) -> str:
        text = syntax.folded(ast.unparse(self.module(name)).replace("\n\ndef ", "\n\n\ndef ")) + "\n"
        return text.replace("\nones", "\n\nones", 1) if self.ones else text

    def module(self, name: str) -> ast.Module:
        """Return the syntax tree: imports, constants, the workspace if there is one, the function."""
        lines = self.lines()
        start = [syntax.docstring(self.graph, self.parameters)]
        if self.buffer:
            start.append(_unpacked(list(self.buffer.values())))
        parameters = [*self.parameters, "buffers"] if self.buffer else self.parameters
        function = syntax.function(name, parameters, [*start, *lines])
        function.args.defaults = [ast.Constant(None)] if self.buffer else []
        functions = [*([self._workspace()] if self.buffer else []), function]
        constants = [syntax.assign(name, _call("np.ones", [ast.Constant(n), _dtype(dtype)], {})) for (n, dtype), name in self.ones.items()]
        return ast.fix_missing_locations(ast.Module([*_imports([*constants, *functions]), *constants, *functions], []))

    def lines(self) -> list[ast.stmt]:
        """Emit and return the statements of the function, including the return."""
        self._numbers()
        for v in self.plan.order:
            self.emit(v)
        self.body.append(self._return())
        return self.body

    def inner(self, graph: Graph, inputs: Sequence[ast.expr], carried: int) -> list[ast.stmt]:
        """Return the lines of a nested function; its buffers are in the same workspace. The first `carried` results must survive the next
        call, the others are copied at once."""
        return Emitter(graph, inputs, self, carried).lines()

    def _numbers(self) -> None:
        """Emit the conversion of inputs of no dimensions to NumPy scalars: arithmetic is five times as fast as with arrays."""
        read = {a for v in self.plan.order for a in v.args if a is not None and a.op == INPUT and not a.shape}
        for x, n in zip(self.graph.inputs, self.parameters, strict=False):
            if x in read:
                self.body.append(syntax.assign(n, ast.Subscript(syntax.name(n), syntax.tuple_of(()), ast.Load())))

    def _workspace(self) -> ast.FunctionDef:
        arrays = [self.empty(s.shape, s.dtype) for s in self.buffer]
        words = "Memory for what is computed on the way; of calls at the same time each needs its own."
        return syntax.function("workspace", [], [ast.Expr(ast.Constant(words)), ast.Return(syntax.tuple_of(arrays))])

    def _return(self) -> ast.stmt:
        results = [self._result(v, i) for i, v in enumerate(self.graph.outputs)]
        return ast.Return(results[0] if len(results) == 1 else syntax.tuple_of(results))

    def _result(self, v: Value, i: int) -> ast.expr:
        """Return an output as an array of its own; in a nested function as an array that is not a buffer."""
        base = unshaped(v)
        if self.carried is None:
            kept = base in self.plan.returned and is_fresh(base)
        else:
            kept = i >= self.carried or base.op == INPUT or is_fresh(base)
        result = self.operand(v, weak=False)
        return result if kept or base.op == LITERAL else _method(result, "copy")

    # one value

    def emit(self, v: Value) -> None:
        if is_control(v):
            self.expression[v] = loops.write(self, v)
            return
        if self.plan.written(v):
            self.expression[v] = self._written(v)
            return
        expression = self._plain(v)
        self.expression[v] = expression if v in self.plan.inline or isinstance(expression, ast.Name) else self.named(expression)

    def named(self, expression: ast.expr) -> ast.Name:
        name = self.fresh()
        self.body.append(syntax.assign(name, expression))
        return syntax.name(name)

    def fresh(self, stem: str = "v", first: Any = None) -> str:
        """Return an unused name: numbered, or a word."""
        begin = 0 if stem == "v" else first
        numbers = itertools.count() if begin is not None else itertools.chain(("",), itertools.count(1))
        name = next(n for n in (f"{stem}{i}" for i in numbers) if n not in self.taken)
        self.taken.add(name)
        return name

    def empty(self, shape: Any, dtype: Any) -> ast.expr:
        return ast.Call(syntax.dotted("np.empty"), [syntax.constant(shape, "np"), _dtype(dtype)], [])

    def atom(self, expression: ast.expr) -> ast.expr:
        """Return an expression that may be mentioned twice: a name or a constant."""
        return expression if isinstance(expression, (ast.Name, ast.Constant)) else self.named(expression)

    def _target(self, v: Value) -> ast.expr | None:
        """Return the array that a large value is written into; None if it makes its own."""
        storage, before = self.plan.storage[v], self.plan.before[v]
        if before is not None:
            return self.operand(before)
        if not storage.fresh:
            return syntax.name(self.buffer[storage])
        return self.named(self.empty(storage.shape, storage.dtype)) if storage.rows and v.op != "matmul" else None

    def _written(self, v: Value) -> ast.expr:
        """Emit the statements that write a large value; return its name."""
        form = self.plan.forms[v]
        target = self._target(v)
        if not form:
            return self.named(_with_out(self._plain(v, function=target is not None), target))
        if target is None and len(form) == 1:
            return self.named(self._plain(v))
        operands = dict(zip(LETTERS, map(self.atom, self._operands(v, one_is_typed(v))), strict=False))
        shapes = {letter: a.shape for letter, a in zip(LETTERS, v.args, strict=False)}
        if target is None and np.broadcast_shapes(*(shapes[o] for o in form[0][1:] if o in shapes)) != v.shape:
            target = self.named(self.empty(v.shape, v.dtype))
        result = self.named(_with_out(_step(form[0], operands), target))
        for step in form[1:]:
            call = _with_out(_step(step, {**operands, "o": result}), result)
            self.body.append(ast.Expr(call))
        return result

    def _plain(self, v: Value, function: bool = False) -> ast.expr:
        """Return one expression for a new array or a view; as a function call if an `out` is to follow."""
        if v.op == OUTPUT:
            whole, index = self.expression[v.args[0]], v.attrs["index"]
            part: ast.expr = whole[index] if isinstance(whole, list) else syntax.subscript(whole, index)
            return part
        if v.op == "matmul":
            return _matmul(v, self._operands(v, weak=False), function)
        if self.plan.forms[v]:
            return self._nested(v)
        shaped = self._shaped(v)
        return shaped if shaped is not None else self._kernel(v)

    def _nested(self, v: Value) -> ast.expr:
        """Return all steps of a form as one expression."""
        form = self.plan.forms[v]
        operands = dict(zip(LETTERS, self._operands(v, one_is_typed(v)), strict=False))
        mentioned = [o for step in form for o in step[1:]]
        for letter, operand in operands.items():
            if mentioned.count(letter) > 1:
                operands[letter] = self.atom(operand)
        result = ast.expr()
        for name, *rest in form:
            given = [result if o == "o" else operands[o] if isinstance(o, str) else syntax.number(o, "np") for o in rest]
            result = syntax.operator(_OPERATORS.get(name, str(name)), given) or _call(f"np.{name}", given, {})
        return result

    def _shaped(self, v: Value) -> ast.expr | None:
        """Return views, casts, sums and choices by their NumPy names; None for any other row."""
        x: Any = v.args[0] if v.args else None
        if v.op == "transpose" and v.ndim == 2:
            return syntax.attribute(self.operand(x), "T")
        if v.op == "reshape":
            return _method(self.operand(x), "reshape", v.shape)
        if v.op == "cast" and not (x.dtype.kind == "c" and v.dtype.kind not in "bc"):
            number = not v.shape and v.dtype.kind == "f"
            return ast.Call(_dtype(v.dtype), [self.operand(x)], []) if number else _method(self.operand(x), "astype", v.dtype)
        if v.op == "sum" and is_column_sum(v):
            return _call("np.dot", [self._ones(x), self.operand(x)], {})
        if v.op == "sum" and is_plain_sum(v):
            return _sum(self.operand(x), **v.attrs)
        return self._chosen(v) if v.op == "where" else None

    def _chosen(self, v: Value) -> ast.expr:
        condition, x, y = v.args
        if is_zero(y) and is_masked(condition, x):
            return _call("masked", [self.operand(x), self.operand(condition)], {})
        operands = [self._array(a) if a.op != LITERAL else self._choice(v, a) for a in v.args]
        return _call("select" if v.size >= select.LARGE or self.plan.written(v) else "np.where", operands, {})

    def _ones(self, x: Value) -> ast.expr:
        """Return a constant vector of ones, one for each row of a matrix."""
        key = x.shape[0], x.dtype
        if key not in self.ones:
            self.ones[key] = self.fresh("ones")
        return syntax.name(self.ones[key])

    def _choice(self, v: Value, a: Value) -> ast.expr:
        other = v.args[1] if a is v.args[2] else v.args[2]
        return self.operand(a, weak=other.op != LITERAL and other is not a)

    def _kernel(self, v: Value) -> ast.expr:
        row = row_of(v)
        weak = isinstance(row.numpy, np.ufunc) and row.policy in _WEAK and one_is_typed(v)  # other kernels may use the number alone
        operands = [ast.Constant(None) if a is None else self._array(a, weak) for a in v.args]
        ours = getattr(raw, v.op, None) is row.numpy and v.op.isidentifier()
        try:
            call = _call(f"kernels.{v.op}", operands, v.attrs)
        except GraphError:  # an attribute without a text form
            attrs, kernel = dict(v.attrs), row.numpy
            return _call(self._bind(lambda *arrays: kernel(*arrays, **attrs)), operands, {})
        return call if ours else _call(self._bind(row.numpy), operands, v.attrs)

    def _bind(self, function: Any) -> str:
        name = self.fresh("call")
        self.bound[name] = function
        return name

    # operands

    def _operands(self, v: Value, weak: bool) -> list[ast.expr]:
        return [ast.Constant(None) if a is None else self.operand(a, weak) for a in v.args]

    def operand(self, v: Any, weak: bool = False) -> ast.expr:
        if v.op != LITERAL:
            return self.expression[v]  # type: ignore[no-any-return]
        number = syntax.number(syntax.as_stored(v.value, v.dtype), "np")
        return number if weak else ast.Call(_dtype(v.dtype), [number], [])

    def _array(self, v: Value, weak: bool = False) -> ast.expr:
        """Return an operand for a kernel, which takes arrays: a scalar becomes an array of no dimensions."""
        result = self.operand(v, weak)
        if v.shape or isinstance(v.dtype, tuple) or (weak and v.op == LITERAL):
            return result
        return _call("np.asarray", [result], {})


def _sum(x: ast.expr, axis: tuple[int, ...], keepdims: bool) -> ast.expr:
    return _call("np.add.reduce", [x], {"axis": axis[0] if len(axis) == 1 else axis, **({"keepdims": True} if keepdims else {})})


def _matmul(v: Value, operands: list[ast.expr], function: bool) -> ast.expr:
    """Return a matrix product: `@` for small ones, `np.dot` for large matrices. np.dot copies operands that BLAS cannot read, whereas
    np.matmul multiplies these without BLAS."""
    flat = v.args[0].ndim == 2 == v.args[1].ndim
    large = function or v.size * v.args[0].shape[-1] >= 1000
    return _call("np.dot" if flat else "np.matmul", operands, {}) if large else ast.BinOp(operands[0], ast.MatMult(), operands[1])


def _step(step: Sequence[Any], operands: dict[str, ast.expr]) -> ast.Call:
    name, *rest = step
    given = [operands[o] if isinstance(o, str) else syntax.number(o, "np") for o in rest]
    return ast.Call(syntax.dotted(f"np.{name}"), given, [])


def _with_out(call: ast.expr, target: ast.expr | None) -> ast.expr:
    if target is not None and isinstance(call, ast.Call):
        call.keywords.append(ast.keyword("out", target))
    return call


def _call(what: str, operands: Sequence[ast.expr], attrs: Any) -> ast.expr:
    return syntax.call(what, operands, attrs, "np")


def _method(x: ast.expr, name: str, *args: Any) -> ast.expr:
    given = [_dtype(a) if isinstance(a, np.dtype) else syntax.constant(a, "np") for a in args]
    return ast.Call(syntax.attribute(x, name), given, [])


def _dtype(dtype: Any) -> ast.expr:
    return syntax.dtype(dtype, "np" if dtype.kind != "V" else "ml_dtypes")


def _unpacked(names: list[str]) -> ast.stmt:
    target = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
    given = ast.BoolOp(ast.Or(), [syntax.name("buffers"), ast.Call(syntax.name("workspace"), [], [])])
    return ast.Assign([target], given)


def _imports(functions: Sequence[ast.stmt]) -> list[ast.stmt]:
    used = set().union(*map(syntax.names_in, functions))
    found: list[ast.stmt] = []
    if "ml_dtypes" in used:
        found.append(ast.Import([ast.alias("ml_dtypes")]))
    if "np" in used:
        found.append(ast.Import([ast.alias("numpy", "np")]))
    if chosen := [ast.alias(name) for name in ("masked", "select") if name in used]:
        found.append(ast.ImportFrom("symgrad.ops.kernels.select", chosen, 0))
    if "kernels" in used:
        found.append(ast.ImportFrom("symgrad.ops.namespace", [ast.alias("raw", "kernels")], 0))
    return found
