"""derive(): a function and its derivatives as formulas that can be read, printed and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.compiler.capture import trace
from symgrad.compiler.differentiate import Derivative, derivatives
from symgrad.compiler.formula import Program, lower
from symgrad.compiler.formula.indices import free
from symgrad.compiler.formula.printing import FormulaLatexPrinter, TextPrinter, latex_label
from symgrad.compiler.ir import Graph, type_text
from symgrad.compiler.passes.stabilise import stabilise
from symgrad.compiler.signature import Call, Signature, array_of, positions
from symgrad.compiler.verify import verify
from symgrad.errors import FormulaError, TraceError
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor, wrap

_STEP = "H(t) is 1 for t > 0, else 0"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Plan:
    """What is asked for: derivatives in which inputs, up to which order, in which notation."""

    wrt: Any = None
    order: int = 1
    notation: str = "auto"


class Deriver:
    """Call it with arguments, tensors or specs, to get the derivation for their shapes."""

    def __init__(self, function: Callable[..., Any], plan: Plan) -> None:
        if plan.order < 1:
            raise ValueError(f"order must be 1 or more, got {plan.order!r}")
        self.signature = Signature(function)
        self.plan = plan

    def __repr__(self) -> str:
        return f"<derive {self.signature}: call it with tensors, or with spec(shape), to see the formula>"

    def __call__(self, *args: Any, **kwargs: Any) -> Derivation:
        call = self.signature.bind(_with_arrays(args), {k: _with_arrays((v,))[0] for k, v in kwargs.items()})
        traced = trace(self.signature.caller(call), call.leaves, call.labels, self.signature.names())
        if len(traced.graph.outputs) != 1:
            raise TraceError(f"derive needs a function with one result, this one returns {len(traced.graph.outputs)}")
        wrt = positions(self.plan.wrt, traced.graph.labels, (*call.leaves, *traced.captured))
        name = getattr(self.signature.function, "__name__", "f")
        formulas = derived(stabilise(traced.graph), wrt, self.plan)
        name = name if name.isidentifier() else "f"
        return Derivation(name, *formulas, wrt, isinstance(self.plan.wrt, (str, int)), self.signature, call, traced.captured)


def derived(graph: Graph, wrt: tuple[int, ...], plan: Plan) -> tuple[Program, tuple[Derivative, ...]]:
    """The formulas of a graph's value and of its derivatives, in that order."""
    (value,) = graph.outputs
    if kind(value.dtype) not in "fc":
        raise TraceError(f"only floating-point results have a derivative, got {type_text(value)}")
    for i in wrt:
        if kind(graph.inputs[i].dtype) not in "fc":
            raise TraceError(f"{graph.labels[i]} is {type_text(graph.inputs[i])}: only floating-point inputs have a derivative")
    found = tuple(derivatives(graph, wrt, plan.order))
    directions = sorted({x for d in found for x in d.directions}, key=lambda x: x.attrs["index"])
    labels = (*graph.labels, *(f"direction {i}" for i in range(len(directions))))
    whole = verify(Graph((*graph.inputs, *directions), (value, *(d.value for d in found)), labels))
    symmetric = frozenset(n for n, d in enumerate(found, start=1) if len(d.wrt) == 2 and d.wrt[0] == d.wrt[1] and len(d.directions) == 1)
    return lower(whole, plan.notation, ((), *(d.directions for d in found)), symmetric), found


def _with_arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python floats are numbers to differentiate in, too."""
    return tuple(np.asarray(a) if isinstance(a, float) else a for a in args)


class Derivation:
    """The formula of a value and of its derivatives: `d.value`, `d["w"]`, `d["w", "w"]` are SymPy's objects, `d(...)` runs them."""

    def __init__(
        self,
        name: str,
        program: Program,
        derivatives: tuple[Derivative, ...],
        wrt: tuple[int, ...],
        single: bool,
        signature: Signature,
        call: Call,
        captured: tuple[Tensor, ...],
    ) -> None:
        self.name = name
        self.program = program
        self.wrt = wrt
        self._derivatives = derivatives
        self._single = single
        self._signature = signature
        self._call = call
        self._captured = captured

    @property
    def graph(self) -> Graph:
        return self.program.graph

    @property
    def value(self) -> Any:
        return self.program.outputs[0]

    @property
    def derivatives(self) -> Mapping[tuple[str, ...], Any]:
        """Every derivative by the names of the inputs that it is taken in, one after the other."""
        pairs = zip(self._derivatives, self.program.outputs[1:], strict=True)
        return {tuple(self.graph.labels[i] for i in d.wrt): e for d, e in pairs}

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The first derivatives by the names of the inputs."""
        return {names[0]: e for names, e in self.derivatives.items() if len(names) == 1}

    def __getitem__(self, names: str | tuple[str, ...]) -> Any:
        wanted = (names,) if isinstance(names, str) else names
        found = self.derivatives
        if wanted not in found:
            known = "; ".join(", ".join(names) for names in found)
            raise KeyError(f"{names!r}: this derivation has the derivatives in {known}")
        return found[wanted]

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The value, the gradients, and the higher derivatives, computed by the formula: as tensors if `wrt` was one name, else as tuples
        with one entry for each name; a Hessian in several is a tuple of tuples."""
        call = self._signature.bind(_with_arrays(args), kwargs)
        if call.key() != self._call.key():
            raise FormulaError("this formula was derived for arguments of other shapes, dtypes or settings: derive it again for these")
        arrays = [array_of(x) for x in (*call.leaves, *self._captured)]
        if not all(isinstance(a, np.ndarray) for a in arrays):
            raise TypeError("a formula runs on tensors: a spec has no values")
        value, *rest = self.program.evaluate(arrays)
        found = {d.wrt: a.reshape(self._shape(d)) for d, a in zip(self._derivatives, rest, strict=True)}
        order = max(len(wrt) for wrt in found)
        return wrap(value), *(self._nested(found, value.ndim, n, ()) for n in range(1, order + 1))

    def _shape(self, d: Derivative) -> tuple[int, ...]:
        return (*self.graph.outputs[0].shape, *(n for i in d.wrt for n in self.graph.inputs[i].shape))

    def _nested(self, found: dict[tuple[int, ...], Any], lead: int, order: int, wrt: tuple[int, ...]) -> Any:
        if order == 0:
            return wrap(self._by_symmetry(found, lead, wrt))
        parts = tuple(self._nested(found, lead, order - 1, (*wrt, i)) for i in self.wrt)
        return parts[0] if self._single and len(parts) == 1 else parts

    def _by_symmetry(self, found: dict[tuple[int, ...], Any], lead: int, wrt: tuple[int, ...]) -> Any:
        """∂²f/∂y∂x is ∂²f/∂x∂y with its dimensions in the other order."""
        order = sorted(range(len(wrt)), key=lambda p: self.wrt.index(wrt[p]))
        known = found[tuple(wrt[p] for p in order)]
        sizes = [len(self.graph.inputs[wrt[p]].shape) for p in order]
        starts = [lead + sum(sizes[:k]) for k in range(len(order))]
        axes = [axis for p in range(len(wrt)) for axis in range(starts[order.index(p)], starts[order.index(p)] + sizes[order.index(p)])]
        return known.transpose([*range(lead), *axes]).copy()

    def _heads(self) -> list[tuple[tuple[Any, ...], list[Any]]]:
        """For each output the indices of the function, and the inputs below the line: in index notation as elements."""
        outer = self.graph.outputs[0]
        if self.program.notation != "index":
            return [((), [self.program.symbol(i) for i in d.wrt]) for d in (Derivative((), outer, ()), *self._derivatives)]
        heads: list[tuple[tuple[Any, ...], list[Any]]] = [(tuple(map(free, range(outer.ndim), outer.shape)), [])]
        for d in self._derivatives:
            tensors = [outer, *(self.graph.inputs[i] for i in d.wrt)]
            places: list[tuple[Any, ...]] = []
            for t in tensors:
                start = sum(map(len, places))
                has_own = t is tensors[-1] or t.size != 1
                places.append(tuple(free(start + p, n) for p, n in enumerate(t.shape)) if has_own else ())
            below = zip(d.wrt, places[1:], strict=True)
            heads.append((places[0], [self.program.symbol(i)[at] if at else self.program.symbol(i) for i, at in below]))
        return heads

    def __str__(self) -> str:
        show = TextPrinter(self.program.labels)
        (at, _), *heads = self._heads()
        at_text: Callable[[Any], str] = lambda at: f"[{show.places(at)}]" if at else ""
        arguments = ", ".join(self.graph.labels[: len(self._call.leaves)])
        lines = [f"{self.name}({arguments}){at_text(at)} = {show.doprint(self.value)}"]
        for (at, below), e in zip(heads, self.program.outputs[1:], strict=True):
            show.letters = {}
            power = "" if len(below) == 1 else str(len(below)).translate(_RAISED)
            head = f"∂{power}{self.name}{at_text(at)}/{''.join(f'∂{show._print(x)}' for x in below)}"
            lines.append(f"{head} = {show.doprint(e)}")
        lines += ["where"] if self.program.bindings else []
        lines += [f"    {show.doprint(name)} = {show.doprint(e)}" for name, e in self.program.bindings]
        text = "\n".join(lines)
        return f"{text}\n({_STEP})" if "H(" in text else text

    __repr__ = __str__

    def latex(self) -> str:
        """An `aligned` block, one line for each formula."""
        show = FormulaLatexPrinter(self.program.labels)
        name = latex_label(self.name)
        (at, _), *heads = self._heads()
        named: Callable[[Any], str] = lambda at: f"{name}_{{{show.places(at)}}}" if at else name
        lines = [rf"{named(at)} &= {show.doprint(self.value)}"]
        for (at, below), e in zip(heads, self.program.outputs[1:], strict=True):
            show.letters = {}
            power = "" if len(below) == 1 else f"^{{{len(below)}}}"
            under = " ".join(rf"\partial {show._print(x)}" for x in below)
            lines.append(rf"\frac{{\partial{power} {named(at)}}}{{{under}}} &= {show.doprint(e)}")
        lines += [rf"{show.doprint(x)} &= {show.doprint(e)}" for x, e in self.program.bindings]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"
