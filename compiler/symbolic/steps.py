"""steps(): the chain rule along a function, one line per value and per derivative, with the rule behind it.

Every value of the graph has a name, v1, v2, ...; a bar over it is the derivative of the result in it. Each rule is the row's own, applied
to names in place of values: the steps show what backward() does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.compiler.autodiff.pull import contributions, dependents, is_differentiable
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, input_value, output, row_of, toposort
from symgrad.compiler.symbolic.label_text import BAR
from symgrad.compiler.symbolic.lower import lower
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter, TextPrinter
from symgrad.compiler.symbolic.teaching.reasons import reason_of
from symgrad.compiler.symbolic.teaching.step import Section, Step, StepSequence
from symgrad.errors import FormulaError
from symgrad.ops.spec import Meta

_RULES = {
    "add": "sum rule", "sub": "sum rule", "neg": "sum rule", "mul": "product rule", "div": "quotient rule", "power": "power rule",
    "pow": "power rule", "matmul": "product of matrices", "sum": "every term has slope 1", "expand": "what is repeated adds up",
    "reshape": "the same elements", "transpose": "(Aᵀ)′ = (A′)ᵀ", "inv": "(A⁻¹)′ = -A⁻¹ A′ A⁻¹", "where": "the branch that is taken",
    "getitem": "an element that is not chosen has slope 0", "cat": "each part gets its own",
}  # fmt: skip


class Steps(StepSequence):
    """First the values, from the arguments to the result; then the derivatives, from the result back to the arguments."""

    def __init__(self, derivation: Any, explain: bool = False, note: str = "") -> None:
        self.function, self.note = derivation.name, note
        graph = derivation.program.differentiable or derivation.graph
        wrt = [graph.inputs[i] for i in derivation.wrt]
        self._walk = _Walk(graph, wrt, explain)
        self.derivatives = self._walk.backward() if wrt else []
        self.values = self._walk.forward()
        title = f"derivatives, from the result back: v{BAR} is ∂{self.function}/∂v"
        backward = (Section(title, tuple(self.derivatives)),) if self.derivatives else ()
        self.sections = (Section("values", tuple(self.values)), *backward)


_Contribution = tuple[Value, dict[Value, str], str, str]
"""A term of a derivative, the labels in it, its rule, and the row that the rule is of."""


class _Walk:
    def __init__(self, graph: Graph, wrt: list[Value], explain: bool) -> None:
        self.wrt, self.explain = wrt, explain
        self.result = graph.outputs[0]
        self.order = [v for v in toposort([self.result]) if v.op not in (INPUT, LITERAL)]
        self.names: dict[Value, str] = dict(zip(graph.inputs, graph.labels, strict=True))
        taken = set(graph.labels)
        self.fresh = (n for n in (f"v{i}" for i in range(1, 10**9)) if n not in taken)
        for v in self.order:
            if not isinstance(v.dtype, tuple):
                self.names[v] = next(self.fresh)

    def forward(self) -> list[Step]:
        return [self.step(self.names[v], *self.applied(v), _title(v)) for v in self.order if v in self.names]

    def applied(self, v: Value) -> tuple[Value, dict[Value, str]]:
        """Return the row of a value applied to placeholders of its arguments, and the labels of these."""
        whole = v.args[0] if v.op == OUTPUT else v
        stand_ins, labels = self.stand_ins([a for a in whole.args if a is not None])
        found = apply(row_of(whole), tuple(None if a is None else stand_ins.get(a, a) for a in whole.args), dict(whole.attrs))
        return (found[v.attrs["index"]] if v.op == OUTPUT else found), labels

    def stand_ins(self, values: Sequence[Value]) -> tuple[dict[Value, Value], dict[Value, str]]:
        """Return an input in place of each value that has a name, and the labels of these inputs."""
        named = [v for v in dict.fromkeys(values) if v in self.names]
        made = {v: input_value(i, v.shape, v.dtype) for i, v in enumerate(named)}
        return made, {made[v]: self.names[v] for v in named}

    def backward(self) -> list[Step]:
        on_the_way = dependents(toposort([self.result]), self.wrt, is_differentiable)
        arrived: dict[Value, list[_Contribution]] = {}
        seed = "∂f/∂f = 1" if self.result.size == 1 else "given: a weight for each result"
        steps = []
        for v in [*reversed(self.order), *self.wrt]:
            if v not in on_the_way or isinstance(v.dtype, tuple):
                continue
            if v is self.result:
                start = filled(xp, 1, Meta((), v.dtype)) if v.size == 1 else input_value(0, v.shape, v.dtype)
                steps.append(self.step(_barred(self.names[v]), start, {start: "g"} if start.op == INPUT else {}, seed))
            elif v in arrived:
                steps.append(self.collected(v, arrived[v]))
            if v.op != INPUT and (v is self.result or v in arrived):
                self.propagate(v, on_the_way, arrived)
        return steps

    def collected(self, v: Value, parts: list[_Contribution]) -> Step:
        """Return the sum of the contributions of all users of a value."""
        shown = [self.step("", e, labels, rule) for e, labels, rule, _ in parts]
        rules = "; ".join(dict.fromkeys(s.rule for s in shown))
        text, latex = (" + ".join(parts).replace("+ -", "- ") for parts in ([s.text for s in shown], [s.latex for s in shown]))
        reasons = dict.fromkeys(reason for *_, row in parts if (reason := reason_of(row))) if self.explain else ()
        return Step(_barred(self.names[v]), text, latex, rules, reason="; ".join(reasons))

    def propagate(self, v: Value, on_the_way: set[Value], arrived: dict[Value, Any]) -> None:
        """Record the contributions that the rules of one application make to its arguments."""
        whole = v.args[0] if v.op == OUTPUT else v
        row = row_of(whole)
        if row.pullback is not None:
            raise FormulaError(f"steps name the rule of each operation, and {row.name} is a loop of many: print the derivation instead")
        outs = [output(whole, i) for i in range(len(whole.dtype))] if v.op == OUTPUT else [v]
        stand_ins, labels = self.stand_ins([*(a for a in whole.args if a is not None), *outs])
        g = input_value(len(stand_ins), v.shape, v.dtype)
        labels[g] = _barred(self.names[v])
        args = tuple(a.value if a is not None and a.op == LITERAL else stand_ins.get(a) for a in whole.args)
        made = [stand_ins.get(o, o) for o in outs]
        given, out = (g, made[0]) if v.op != OUTPUT else (tuple(g if o is v else None for o in outs), tuple(made))
        parts = list(contributions(whole, row, args, given, out, on_the_way))
        if self.named_now([o for o in outs if o not in self.names], toposort([found for _, found in parts]), v):
            self.propagate(v, on_the_way, arrived)
            return
        for arg, found in parts:
            arrived.setdefault(arg, []).append((found, dict(labels), self.rule_of(whole), row.name))

    def named_now(self, others: list[Value], read: Sequence[Value], v: Value) -> bool:
        """Name the outputs that a rule reads but nothing else does, such as eigenvectors for eigenvalues; True if there were any."""
        found = [o for o in others if o in set(read)]
        for o in found:
            self.names[o] = next(self.fresh)
            self.order.insert(next(i for i, other in enumerate(self.order) if other is v), o)
        return bool(found)

    def rule_of(self, v: Value) -> str:
        """Return the name of a rule: `sin′(u) = cos(u)` for an elementwise function of one argument."""
        row = row_of(v)
        if row.name in _RULES or not row.elementwise or len(v.args) != 1:
            return _RULES.get(row.name, f"derivative of {row.name}")
        u = input_value(0, (), v.args[0].dtype)
        one = filled(xp, 1, Meta((), v.dtype))
        slope = row.rule(0)(xp, one, apply(row, (u,), dict(v.attrs)), u, **v.attrs)  # type: ignore[misc]
        return f"{row.name}′(u) = {self.step('', slope, {u: 'u'}, '').text}"

    def step(self, name: str, e: Value, labels: dict[Value, str], rule: str) -> Step:
        inputs = sorted(labels, key=lambda x: x.attrs["index"]) if e.op != LITERAL else []
        graph = Graph(inputs, [e], [labels[x] for x in inputs])
        try:
            program = lower(graph, "matrix")
        except FormulaError:
            program = lower(graph)
        text, latex = (printer(program.labels).doprint(program.outputs[0]) for printer in (TextPrinter, FormulaLatexPrinter))
        return Step(name, text, latex, rule)


def _barred(name: str) -> str:
    """Return x̄, or for v12 the bar over the letter."""
    return name[0] + BAR + name[1:] if name else name


def _title(v: Value) -> str:
    return (v.args[0] if v.op == OUTPUT else v).op.replace("_", " ")
