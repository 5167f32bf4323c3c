"""derive(): a function and its gradients as formulas that can be read, printed and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.compiler import differentiate
from symgrad.compiler.capture import trace
from symgrad.compiler.formula import Program, lower
from symgrad.compiler.formula.printing import FormulaLatexPrinter, TextPrinter, latex_label
from symgrad.compiler.ir import Graph
from symgrad.compiler.signature import Call, Signature, array_of, positions
from symgrad.compiler.verify import verify
from symgrad.errors import FormulaError, TraceError
from symgrad.tensor import Tensor, wrap

_STEP = "H(t) is 1 for t > 0, else 0"


class Deriver:
    """Call it with arguments, tensors or specs, to get the derivation for their shapes."""

    def __init__(self, function: Callable[..., Any], wrt: Any, notation: str) -> None:
        self.signature = Signature(function)
        self.wrt = wrt
        self.notation = notation

    def __repr__(self) -> str:
        return f"<derive {self.signature}: call it with tensors, or with spec(shape), to see the formula>"

    def __call__(self, *args: Any, **kwargs: Any) -> Derivation:
        call = self.signature.bind(_with_arrays(args), {k: _with_arrays((v,))[0] for k, v in kwargs.items()})
        traced = trace(self.signature.caller(call), call.leaves, call.labels, self.signature.names())
        if len(traced.graph.outputs) != 1:
            raise TraceError(f"derive needs a function with one result, this one returns {len(traced.graph.outputs)}")
        wrt = positions(self.wrt, traced.graph.labels, (*call.leaves, *traced.captured))
        gradient = differentiate.grad(traced.graph, wrt)
        graph = verify(Graph(gradient.inputs, (*traced.graph.outputs, *gradient.outputs), gradient.labels))
        name = getattr(self.signature.function, "__name__", "f")
        single = len(wrt) == 1 and isinstance(self.wrt, (str, int))
        return Derivation(
            name if name.isidentifier() else "f", lower(graph, self.notation), wrt, single, self.signature, call, traced.captured
        )


def _with_arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python floats are numbers to differentiate in, too."""
    return tuple(np.asarray(a) if isinstance(a, float) else a for a in args)


class Derivation:
    """The formula of a value and of its gradients. `d.value` and `d["w"]` are SymPy's objects; `print(d)`; `d(...)` runs it."""

    def __init__(
        self,
        name: str,
        program: Program,
        wrt: tuple[int, ...],
        single: bool,
        signature: Signature,
        call: Call,
        captured: tuple[Tensor, ...],
    ) -> None:
        self.name = name
        self.program = program
        self.wrt = wrt
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
    def gradients(self) -> Mapping[str, Any]:
        """The gradients by the names of the inputs."""
        return {self.graph.labels[i]: e for i, e in zip(self.wrt, self.program.outputs[1:], strict=True)}

    def _lines(self) -> list[tuple[Any, Any]]:
        """Each gradient with what it is the derivative in: a symbol, in index notation with its indices."""
        return [(self.program.element(i), e) for i, e in zip(self.wrt, self.program.outputs[1:], strict=True)]

    def __getitem__(self, name: str) -> Any:
        found = self.gradients.get(name)
        if found is None:
            raise KeyError(f"{name!r}: this derivation has the gradients in {', '.join(self.gradients)}")
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        """The value and the gradients, computed by the formula: one tensor if `wrt` was one name, else a tuple."""
        call = self._signature.bind(_with_arrays(args), kwargs)
        if call.key() != self._call.key():
            raise FormulaError("this formula was derived for arguments of other shapes, dtypes or settings: derive it again for these")
        arrays = [array_of(x) for x in (*call.leaves, *self._captured)]
        if not all(isinstance(a, np.ndarray) for a in arrays):
            raise TypeError("a formula runs on tensors: a spec has no values")
        value, *gradients = (wrap(a) for a in self.program.evaluate(arrays))
        return value, gradients[0] if self._single else tuple(gradients)

    def __str__(self) -> str:
        show = TextPrinter(self.program.labels).doprint
        arguments = ", ".join(self.graph.labels[: len(self._call.leaves)])
        lines = [f"{self.name}({arguments}) = {show(self.value)}"]
        lines += [f"∂{self.name}/∂{show(x)} = {show(e)}" for x, e in self._lines()]
        lines += ["where"] if self.program.bindings else []
        lines += [f"    {show(name)} = {show(e)}" for name, e in self.program.bindings]
        text = "\n".join(lines)
        return f"{text}\n({_STEP})" if "H(" in text else text

    __repr__ = __str__

    def latex(self) -> str:
        """An `aligned` block, one line for each formula."""
        show = FormulaLatexPrinter(self.program.labels).doprint
        name = latex_label(self.name)
        lines = [rf"{name} &= {show(self.value)}"]
        lines += [rf"\frac{{\partial {name}}}{{\partial {show(x)}}} &= {show(e)}" for x, e in self._lines()]
        lines += [rf"{show(x)} &= {show(e)}" for x, e in self.program.bindings]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"
