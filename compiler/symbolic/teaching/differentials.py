"""Forward steps of functions of vectors and matrices: differentials, one rule a line, down to the differential of the variable.

    dL = 2 (X w - y)ᵀ d(X w - y)        d‖u‖² = 2 uᵀ du
       = 2 (X w - y)ᵀ X dw              linear in w
    ∂L/∂w = 2 Xᵀ (X w - y)              read off from dL = (∂L/∂w)ᵀ dw

A line is a graph with an input for every differential that is still to be taken. A rule replaces one of these inputs by the forward
derivative of its operation, in which the differentials of the arguments are inputs; so every line can be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp

from symgrad.compiler.autodiff.forward import forward_derivative
from symgrad.compiler.autodiff.pull import dependents, is_differentiable
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, input_value, row_of, toposort
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import inline, rebuild
from symgrad.compiler.symbolic.label_text import clean
from symgrad.compiler.symbolic.lower import lower
from symgrad.compiler.symbolic.notations.matrix_algebra import Entry
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter, TextPrinter
from symgrad.compiler.symbolic.teaching.limits import MAX_CHARACTERS, MAX_STEPS, NoRule, TooLong
from symgrad.compiler.symbolic.teaching.reasons import reason_of
from symgrad.compiler.symbolic.teaching.step import Step
from symgrad.ops.spec import Meta

_SILENT = frozenset(("reshape", "transpose", "expand", "cast", "permute", "unsqueeze", "squeeze", "neg"))
"""Rows that move or repeat elements, and signs: no line of their own."""
_LINEAR = _SILENT | {"add", "sub", "sum", "mean", "getitem", "diagonal", "trace", "diag"}
_BILINEAR = frozenset(("mul", "matmul", "einsum"))
"""Linear if only one factor moves."""


def _factor_of_number(e: Any) -> tuple[Any, Any] | None:
    """Return a number and what it multiplies, if that is a product or trace of matrices: it needs no brackets."""
    number, rest = e.as_coeff_Mul()
    is_number_of_matrices = isinstance(rest, sp.Trace) or (isinstance(rest, Entry) and isinstance(rest.args[0], sp.MatMul))
    return (number, rest) if is_number_of_matrices and number.is_Integer and number not in (1, -1) else None


def _pulled_out(e: Any) -> Any:
    """Return 2 (xᵀ y) for the number that (2 x)ᵀ y is."""
    (matrix,) = e.args
    number, rest = matrix.as_coeff_mmul() if isinstance(matrix, sp.MatMul) else (1, matrix)
    return number * Entry(rest)


class _StepText(TextPrinter):
    """Text in which a number stands before a product without brackets: `2 uᵀ du`."""

    def _print_Mul(self, e: Any) -> str:
        found = _factor_of_number(e)
        return super()._print_Mul(e) if found is None else " ".join(map(self._print, found))


class _StepLatex(FormulaLatexPrinter):
    """LaTeX in which the labels of differentials are formulas."""

    def _print_Mul(self, e: Any) -> str:
        found = _factor_of_number(e)
        return super()._print_Mul(e) if found is None else r" \, ".join(map(self._print, found))

    def __init__(self, labels: Mapping[Any, str], formulas: Mapping[str, str]) -> None:
        self.formulas = formulas
        super().__init__(labels)

    def label(self, text: str) -> str:
        return self.formulas[text] if text in self.formulas else super().label(text)


class Differentials:
    """The lines of the differential of one value in one input."""

    def __init__(self, graph: Graph, result: Value, wrt: Value) -> None:
        self.graph, self.result, self.wrt = graph, result, wrt
        self.order = toposort([result])
        self.active = dependents(self.order, [wrt], is_differentiable)
        self.places = {v: n for n, v in enumerate(self.order)}
        self.inputs = list(graph.inputs)
        self.labels = list(graph.labels)
        self.formulas: dict[str, str] = {}
        """The differentials in LaTeX, by their labels."""
        self.pending: dict[Value, Value] = {}
        """The inputs that stand for differentials, by their values."""
        self.lines: list[Value] = []

    def differential(self, v: Value) -> Value:
        """Return the input that stands for the differential of a value."""
        if v not in self.pending:
            text, latex = self.shown(v)
            made = input_value(len(self.inputs), v.shape, v.dtype)
            label = f"d{text}" if v.op == INPUT else f"d({text})"
            self.formulas[label] = rf"\mathrm{{d}}{latex}" if v.op == INPUT else rf"\mathrm{{d}}\left({latex}\right)"
            self.inputs.append(made)
            self.labels.append(label)
            self.pending[v] = made
        return self.pending[v]

    def shown(self, v: Value) -> tuple[str, str]:
        """Return a value as text and as LaTeX."""
        program = lower(Graph(self.inputs, [v], self.labels), "matrix")
        e = program.outputs[0]
        for line in reversed(program.lines):
            e = e.xreplace({line.symbol: line.expression})
        e = e.xreplace({n: _pulled_out(n) for n in e.atoms(Entry)})
        return _StepText(program.labels).doprint(e), _StepLatex(program.labels, self.formulas).doprint(e)

    def steps(self, function: tuple[str, str], explain: bool) -> list[Step]:
        """Return the lines from df to what is linear in the differential of the variable, none for a constant. Raise NoRule or TooLong
        where there are none."""
        if self.result not in self.active:
            return []
        current = self.differential(self.result)
        found: list[Step] = []
        name, name_latex = f"d{function[0]}", rf"\mathrm{{d}}{function[1]}"
        while (v := self.next(current)) is not None:
            current, rule, op = self.applied(current, v)
            if (v.op in _SILENT or not rule) and self.next(current) is not None:
                continue
            text, latex = self.written(current)
            if found and found[-1].text == text:
                continue
            first = not found
            reason = reason_of(op) if explain else ""
            found.append(Step(name if first else "", text, latex, rule, "", reason, name_latex if first else ""))
            self.lines.append(current)
            if len(found) > MAX_STEPS:
                raise TooLong
        return found

    def collected(self, gradient: Value, before: str) -> list[Step]:
        """Return the line (∂f/∂x)ᵀ dx, unless it is the line before."""
        dx = self.differential(self.wrt)
        line = _inner(gradient, dx) if dx.shape else xp.mul(gradient, dx)
        text, latex = self.written(line)
        if text == before:
            return []
        self.lines.append(line)
        return [Step("", text, latex, f"collect the terms in {clean(self.labels[dx.attrs['index']])}")]

    def written(self, current: Value) -> tuple[str, str]:
        text, latex = self.shown(current)
        if len(text) > MAX_CHARACTERS:
            raise TooLong
        return text, latex

    def next(self, current: Value) -> Value | None:
        """Return the value whose differential is taken next: the last one in the order of computation."""
        used = set(toposort([current]))
        open_ones = [v for v, d in self.pending.items() if d in used and v is not self.wrt]
        return max(open_ones, key=self.places.__getitem__, default=None)

    def applied(self, current: Value, v: Value) -> tuple[Value, str, str]:
        """Return the line after the rule of one operation, the name of the rule, and the operation."""
        if self.is_linear(v):
            made, rule, op = self.pushed(v), f"linear in {clean(self.labels[self.wrt.attrs['index']])}", ""
        else:
            made, rule, op = self.by_rule(v)
        values = [made if x is self.pending[v] else x for x in self.inputs]
        (line,) = inline(Graph(self.inputs, [current], self.labels), values)
        return tidy(line), rule, op

    def by_rule(self, v: Value) -> tuple[Value, str, str]:
        for rule in _RULES.get(v.op, ()):
            if (found := rule(self, v)) is not None:
                return (*found, v.op)
        whole = v.args[0] if v.op == OUTPUT else v
        if is_control(whole) or row_of(whole).pullback is not None:
            raise NoRule(whole.op)
        moving = {a: self.differential(a) for a in whole.args if a is not None and a in self.active}
        found = forward_derivative(whole, moving)[v.attrs["index"] if v.op == OUTPUT else 0]
        return found, name_of_rule(whole), whole.op

    def is_linear(self, v: Value) -> bool:
        """True if a value is linear in the variable, plus a constant."""
        if v is self.wrt:
            return True
        moving = [a for a in v.args if a is not None and a in self.active]
        alone = len(moving) == 1
        fits = v.op in _LINEAR or (alone and (v.op in _BILINEAR or (v.op == "div" and moving[0] is v.args[0])))
        return fits and all(self.is_linear(a) for a in moving)

    def pushed(self, v: Value) -> Value:
        """Return the differential of a linear value."""
        if v is self.wrt:
            return self.differential(v)
        moving = {a: self.pushed(a) for a in v.args if a is not None and a in self.active}
        if v.op == "matmul":
            return _product(v, *(moving.get(a) for a in v.args))
        found: Value = forward_derivative(v, moving)[0]
        return found

    def moving(self, v: Value) -> Value | None:
        """Return the differential of a value, for the variable moved or transposed that of the variable; None if it is constant."""
        if v in self.active and v.op in _SILENT and self.is_linear(v):
            return self.pushed(v)
        return self.differential(v) if v in self.active else None

    # rules that read better than those of the operations

    def squares(self, v: Value) -> tuple[Value, str] | None:
        """d‖u‖² = 2 uᵀ du, and d‖U‖² = 2 tr(Uᵀ dU)"""
        (x,) = v.args
        if v.shape or not 1 <= len(x.shape) <= 2 or not is_square(x):
            return None
        u = x.args[0]
        name = "d‖u‖² = 2 uᵀ du" if len(u.shape) == 1 else "d‖U‖² = 2 tr(Uᵀ dU)"
        return _inner(xp.mul(u, 2), self.differential(u)), f"sum of squares: {name}"

    def dot(self, v: Value) -> tuple[Value, str] | None:
        """d(aᵀ b) = bᵀ da + aᵀ db"""
        (x,) = v.args
        if v.shape or x.op != "mul" or any(a.op == LITERAL or a.shape != x.shape or len(a.shape) != 1 for a in x.args):
            return None
        a, b = x.args
        parts = [xp.matmul(other, t) for u, other in ((a, b), (b, a)) if (t := self.moving(u)) is not None]
        return _sum(parts), "dot product: d(aᵀ b) = bᵀ da + aᵀ db"

    def total(self, v: Value) -> tuple[Value, str] | None:
        (x,) = v.args
        return forward_derivative(v, {x: self.differential(x)})[0], ""

    def scaled(self, v: Value) -> tuple[Value, str] | None:
        """A constant number as a factor or divisor."""
        moving = [a for a in v.args if a is not None and a in self.active]
        if len(moving) != 1 or any(a is not moving[0] and a.shape for a in v.args) or (v.op == "div" and moving[0] is v.args[1]):
            return None
        return forward_derivative(v, {moving[0]: self.differential(moving[0])})[0], ""

    def trace(self, v: Value) -> tuple[Value, str] | None:
        return xp.trace(self.differential(v.args[0])), ""

    def product(self, v: Value) -> tuple[Value, str] | None:
        """d(A B) = dA B + A dB"""
        return _product(v, *map(self.moving, v.args)), "product rule: d(A B) = dA B + A dB"

    def softplus(self, v: Value) -> tuple[Value, str] | None:
        """Without the threshold of the kernel."""
        u = v.args[0]
        if v.attrs["beta"] != 1:
            return None
        return xp.mul(xp.sigmoid(u), self.differential(u)), "element by element: softplus′(u) = sigmoid(u)"

    def determinant(self, v: Value) -> tuple[Value, str] | None:
        """d det A = det A tr(A⁻¹ dA)"""
        (a,) = v.args
        if len(a.shape) != 2:
            return None
        inner = xp.matmul(xp.inv(a, check=False), self.differential(a))
        return xp.mul(v, xp.trace(inner)), "Jacobi: d det(A) = det(A) tr(A⁻¹ dA)"

    def log_softmax(self, v: Value) -> tuple[Value, str] | None:
        """d log_softmax(z) = dz - (softmax(z)ᵀ dz) 1"""
        (z,) = v.args
        if len(z.shape) != 1:
            return None
        dz = self.differential(z)
        shared = xp.matmul(xp.softmax(z, axis=v.attrs["axis"]), dz)
        return xp.sub(dz, xp.expand(shared, shape=z.shape)), "d log_softmax(z) = dz - (softmax(z)ᵀ dz) 𝟏"

    def softmax(self, v: Value) -> tuple[Value, str] | None:
        """dp = p ∘ (dz - (pᵀ dz) 1)"""
        (z,) = v.args
        if len(z.shape) != 1:
            return None
        dz = self.differential(z)
        shared = xp.expand(xp.matmul(v, dz), shape=z.shape)
        return xp.mul(v, xp.sub(dz, shared)), "d softmax(z) = p ∘ (dz - pᵀ dz), with p = softmax(z)"


def is_square(v: Value) -> bool:
    """True for the squares of all elements of something."""
    if v.op == "mul":
        return v.args[0] is v.args[1]
    return v.op == "square" or (v.op == "power" and v.attrs["exponent"] == 2)


def _sum(parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else xp.add(*parts)


def _product(v: Value, da: Value | None, db: Value | None) -> Value:
    """Return dA B + A dB, without what is constant."""
    a, b = v.args
    return _sum([*([] if da is None else [xp.matmul(da, b)]), *([] if db is None else [xp.matmul(a, db)])])


def _inner(a: Value, b: Value) -> Value:
    """Return the sum of the products of the elements: aᵀ b, or tr(Aᵀ B)."""
    return xp.matmul(a, b) if len(a.shape) == 1 else xp.trace(xp.matmul(xp.transpose(a, dim0=0, dim1=1), b))


def tidy(line: Value) -> Value:
    """Return a line with sum(a ∘ b) as aᵀ b, or tr(Aᵀ B)."""

    def made(v: Value, args: tuple[Any, ...]) -> Any:
        x = args[0] if v.op == "sum" and args else None
        if x is not None and x.op == "mul" and 1 <= len(x.shape) <= 2 and len(v.attrs["axis"]) == len(x.shape):
            a, b = x.args
            if a.op != LITERAL and b.op != LITERAL and a.shape == b.shape == x.shape:
                return xp.reshape(_inner(a, b), shape=v.shape)
        return rebuild(v, args)

    (found,) = interpret([line], {}, made)
    return found  # type: ignore[no-any-return]


def name_of_rule(v: Value) -> str:
    """Return the name of the rule of an operation: for a function of elements with its derivative."""
    row = row_of(v)
    if not v.shape and row.name in _OF_NUMBERS:
        return _OF_NUMBERS[row.name]
    if row.name in _NAMES or not row.elementwise or len(v.args) != 1:
        return _NAMES.get(row.name, f"differential of {row.name}")
    u = input_value(0, (), v.args[0].dtype)
    (slope,) = forward_derivative(apply(row, (u,), dict(v.attrs)), {u: filled(xp, 1, Meta((), v.dtype))})
    program = lower(Graph([u], [slope], ["u"]))
    text = f"{row.name}′(u) = {TextPrinter(program.labels).doprint(program.outputs[0])}"
    return f"element by element: {text}" if v.shape else f"chain rule, {text}"


_RULES: dict[str, tuple[Callable[[Differentials, Value], tuple[Value, str] | None], ...]] = {
    "sum": (Differentials.squares, Differentials.dot, Differentials.total),
    "mul": (Differentials.scaled,),
    "div": (Differentials.scaled,),
    "det": (Differentials.determinant,),
    "matmul": (Differentials.product,),
    "trace": (Differentials.trace,),
    "softplus": (Differentials.softplus,),
    "softmax": (Differentials.softmax,),
    "log_softmax": (Differentials.log_softmax,),
}
_OF_NUMBERS = {"mul": "product rule: d(a b) = da b + a db", "square": "power rule: d(u²) = 2 u du", "sqrt": "chain rule: d√u = du/(2 √u)"}
_NAMES = {
    "add": "sum rule", "sub": "sum rule", "mul": "product rule, element by element: d(a ∘ b) = da ∘ b + a ∘ db",
    "div": "quotient rule", "square": "power rule, element by element: d(u^∘2) = 2 u ∘ du", "power": "power rule",
    "inv": "d(A⁻¹) = -A⁻¹ dA A⁻¹",
    "solve": "d(A⁻¹ b) = A⁻¹ (db - dA A⁻¹ b)", "softmax": "d softmax(z) = p ∘ (dz - pᵀ dz), with p = softmax(z)",
    "log_softmax": "d log_softmax(z) = dz - (pᵀ dz) 𝟏 for each row z, with p = softmax(z)",
    "logsumexp": "d logsumexp(z) = softmax(z)ᵀ dz", "sqrt": "d√u = du/(2 √u)", "norm": "d‖u‖ = uᵀ du/‖u‖",
    "cholesky": "d L = L Φ(L⁻¹ dA L⁻ᵀ), where Φ takes the lower half", "eigh": "dλ = vᵀ dA v for each eigenvalue",
}  # fmt: skip


def reading(result: Value, wrt: Value, function: str, name: str) -> str:
    """Return how the derivative is read off from the last line."""
    name = clean(name)
    head = f"∂{function}/∂{name}"
    if result not in dependents(toposort([result]), [wrt], is_differentiable):
        return f"{function} does not depend on {name}"
    if not wrt.shape:
        return f"read off from d{function} = {head} d{name}"
    if result.size != 1:
        return f"read off: the factor of d{name} in d{function}"
    inner = f"({head})ᵀ d{name}"
    return f"read off from d{function} = {inner if len(wrt.shape) == 1 else f'tr({inner})'}"
