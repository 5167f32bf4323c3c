"""Derivation: the formulas of a value and of its derivatives, to be read, printed and run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy as sp

from symgrad.compiler.autodiff.pull import Derivative
from symgrad.compiler.ir.graph import Graph, type_text
from symgrad.compiler.symbolic import FormulaProgram
from symgrad.compiler.symbolic.boundary import Boundary
from symgrad.compiler.symbolic.certify import certify
from symgrad.compiler.symbolic.check import check
from symgrad.compiler.symbolic.label_text import escaped, latex_label
from symgrad.compiler.symbolic.notations.index_algebra import free
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter, TextPrinter
from symgrad.compiler.symbolic.program import Line
from symgrad.compiler.symbolic.steps import Steps
from symgrad.compiler.symbolic.teaching.fallback import STYLES, forward_or_backward
from symgrad.compiler.symbolic.teaching.step import StepSequence
from symgrad.compiler.symbolic.to_sympy import condition_of
from symgrad.compiler.symbolic.verdict import Verdict
from symgrad.errors import FormulaError
from symgrad.ops.assumptions import text as words_text
from symgrad.tensor import wrap

_LEGENDS = {"H": "{}(t) is 1 for t > 0, else 0", "I": "{} is the identity matrix"}
"""Meanings of words of the notation: H is always explained, other words only if they were renamed."""
_FEW = 6
_NUMBER = re.compile("(.*?)([0-9]{1,9})")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Derivation:
    """The formulas of a value and its derivatives: `d.value`, `d["w"]`, `d["w", "w"]` are SymPy objects, `d(...)` evaluates them."""

    def __init__(
        self,
        name: str,
        program: FormulaProgram,
        derivatives: tuple[Derivative, ...],
        wrt: tuple[int, ...],
        single: bool,
        source: Any,
        path: tuple[Any, ...],
    ) -> None:
        self.name = name
        self.program = program
        self.wrt = wrt
        self._derivatives = derivatives
        self._single = single
        self._source = source
        self._asked = len(path)
        self._outcomes = (*path, *(True for _ in program.ends[1 + len(derivatives) + len(path) :]))
        """Expected outcomes of the path conditions, and True for those of the domain."""
        self._boundaries: dict[tuple[str, bool], Boundary] = {}
        self._results: dict[Any, Any] = {}

    @property
    def graph(self) -> Graph:
        return self.program.graph

    def sympy(self, *names: str, functions: str = "standard", real: bool = False) -> Any:
        """Return the value, or the derivative in these inputs, as a SymPy expression in the arguments' own names: `d.sympy("x", "x")`.

        Symbols have no assumptions, so that `.subs("x", 1)` finds them; with `real`, those of real inputs are real. Functions that SymPy
        lacks (sigmoid, softplus, ...) are SymPy functions of these names; `functions="elementary"` writes them with those that SymPy has.
        """
        key = (names, functions, real)
        if key not in self._results:
            line, shape = self._line(names) if names else (self.program.ends[0], self.graph.outputs[0].shape)
            self._results[key] = self._boundary(functions, real).result(line, shape)
        return self._results[key]

    def _boundary(self, functions: str = "standard", real: bool = False) -> Boundary:
        if (functions, real) not in self._boundaries:
            inputs = tuple(zip(self.graph.labels, self.graph.inputs, strict=True))[: len(self.program.inputs)]  # directions follow
            self._boundaries[functions, real] = Boundary(self.program, inputs, functions, real)
        return self._boundaries[functions, real]

    @property
    def symbols(self) -> Mapping[str, Any]:
        """The SymPy symbols of the inputs, by name: a Symbol, MatrixSymbol or IndexedBase, in elements notation a matrix of Symbols. A name
        that SymPy would read as something else (`E`, `lambda`, `0.weight`) has a symbol with a similar name."""
        return dict(self._boundary().symbols)

    @property
    def value(self) -> Any:
        """The value as a SymPy expression."""
        return self.sympy()

    @property
    def _derivative_lines(self) -> tuple[Line, ...]:
        return self.program.ends[1 : 1 + len(self._derivatives)]

    @property
    def conditions(self) -> tuple[Any, ...]:
        """The path conditions and the domain: the formulas are valid for arguments that satisfy them."""
        return tuple([condition for condition in self._conditions if condition != sp.true])

    @property
    def _conditions(self) -> tuple[Any, ...]:
        """The conditions, also those that are known to hold."""
        asked = self.program.ends[1 + len(self._derivatives) :]
        return tuple([condition_of(e.expression, outcome) for e, outcome in zip(asked, self._outcomes, strict=True)])

    @property
    def _names(self) -> list[tuple[str, ...]]:
        return [tuple(self.graph.labels[i] for i in d.wrt) for d in self._derivatives]

    @property
    def derivatives(self) -> Mapping[tuple[str, ...], Any]:
        """All derivatives, by the names of the inputs in which they are taken, in order."""
        return {names: self.sympy(*names) for names in self._names}

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The first derivatives, by the names of the inputs."""
        return {names[0]: e for names, e in self.derivatives.items() if len(names) == 1}

    def __getitem__(self, names: str | tuple[str, ...]) -> Any:
        return self.sympy(*(names if isinstance(names, (tuple, list)) else (names,)))

    def _line(self, names: tuple[str, ...]) -> tuple[Line, tuple[int, ...]]:
        """Return the line of a derivative, and its shape."""
        found = self._names
        if names not in found:
            known = "; ".join(", ".join(names) for names in found) or "nothing: ask for wrt"
            wanted = names[0] if len(names) == 1 else names
            raise KeyError(f"{wanted!r}: this derivation has the derivatives in {known}")
        n = found.index(names)
        return self._derivative_lines[n], self._shape(self._derivatives[n])

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the value, the gradients and the higher derivatives, evaluated by the formulas: as tensors if `wrt` is one name, else as
        tuples with one entry per name; a Hessian in several names is a tuple of tuples. Without derivatives, return the value alone."""
        value, *rest = self.evaluate(self._source.arrays(args, kwargs))
        if not self._derivatives:
            return wrap(value)
        found = {d.wrt: a for d, a in zip(self._derivatives, rest, strict=True)}
        order = max(len(wrt) for wrt in found)
        return wrap(value), *(self._nested(found, value.ndim, n, ()) for n in range(1, order + 1))

    def evaluate(self, arrays: Any, wide: bool = False) -> list[Any]:
        """Return the arrays of value and derivatives, given one for each input of the function; with `wide`, not rounded to their
        dtypes."""
        value, *rest = self.program.evaluate(arrays, wide)
        asked = rest[len(self._derivatives) :]
        for n, (found, outcome, condition) in enumerate(zip(asked, self._outcomes, self._conditions, strict=True)):
            if found.item() != outcome:
                shown = TextPrinter(self.program.labels).doprint(condition)
                advice = "derive it again for them" if n < self._asked else "they are outside of its domain"
                raise FormulaError(f"this formula is for {shown}, which does not hold for these arguments: {advice}")
        return [value, *(a.reshape(self._shape(d)) for d, a in zip(self._derivatives, rest, strict=False))]

    def _shape(self, d: Derivative) -> tuple[int, ...]:
        return (*self.graph.outputs[0].shape, *(n for i in d.wrt for n in self.graph.inputs[i].shape))

    def _nested(self, found: dict[tuple[int, ...], Any], lead: int, order: int, wrt: tuple[int, ...]) -> Any:
        if order == 0:
            return wrap(self._by_symmetry(found, lead, wrt))
        parts = tuple(self._nested(found, lead, order - 1, (*wrt, i)) for i in self.wrt)
        return parts[0] if self._single and len(parts) == 1 else parts

    def _by_symmetry(self, found: dict[tuple[int, ...], Any], lead: int, wrt: tuple[int, ...]) -> Any:
        """Return the derivative in these inputs; ∂²f/∂y∂x is ∂²f/∂x∂y with its dimensions in the other order, unless both were derived."""
        if wrt in found:
            return found[wrt].copy()
        order = sorted(range(len(wrt)), key=lambda p: self.wrt.index(wrt[p]))
        sizes = [len(self.graph.inputs[wrt[p]].shape) for p in order]
        starts = [lead + sum(sizes[:k]) for k in range(len(order))]
        places = [order.index(p) for p in range(len(wrt))]
        axes = [axis for k in places for axis in range(starts[k], starts[k] + sizes[k])]
        return found[tuple(wrt[p] for p in order)].transpose([*range(lead), *axes]).copy()

    def check(self, text: str, wrt: str | tuple[str, ...] | None = None) -> Verdict:
        """Return whether an answer equals the derivative in `wrt`: equal, equal up to a factor, the sign, a constant or the layout, or
        where they differ. The answer is written in the language of `sg.parse`, with the names of the arguments: `d.check("2*x*cos(x^2)")`.
        Both are computed at random points inside the domain, in double precision. `wrt=()` is the value itself."""
        return check(self, self._source, text, wrt)

    def certify(self, *args: Any, **kwargs: Any) -> Any:
        """Return how much the formula differs from eager execution and numerical derivatives: at the arguments of the derivation, or at
        others."""
        return certify(self, self._source, self._source.arrays(args, kwargs) if args or kwargs else self._source.given())

    def steps(self, style: str = "backward", *, explain: bool = False) -> StepSequence:
        """Return the derivation step by step: as text, LaTeX (`.latex()`), and HTML in notebooks.

        `style="backward"` is the chain rule as backward() applies it, one line per operation. `style="forward"` has the rules in the order
        in which a person applies them: quotient, product and chain rule for scalars, differentials for vectors and matrices; each line is
        the derivative as far as it is worked out, the last one is the printed result. With `explain`, rules that are not elementary, such
        as those of softmax or the determinant, come with a short proof.
        """
        if style not in STYLES:
            raise ValueError(f"style must be one of {', '.join(map(repr, STYLES))}, got {style!r}")
        return forward_or_backward(self, explain) if style == "forward" else Steps(self, explain)

    def _heads(self) -> list[tuple[tuple[Any, ...], list[Any]]]:
        """Return, for the value and each derivative, the indices of the function and the inputs of the denominator; in index notation as
        elements."""
        outer = self.graph.outputs[0]
        if self.program.notation != "index":
            return [((), [self.program.symbol(i) for i in d.wrt]) for d in (Derivative((), outer, ()), *self._derivatives)]
        heads: list[tuple[tuple[Any, ...], list[Any]]] = [(tuple(map(free, range(outer.ndim), outer.shape)), [])]
        for d in self._derivatives:
            tensors = [outer, *(self.graph.inputs[i] for i in d.wrt)]
            places: list[tuple[Any, ...]] = []
            for n, t in enumerate(tensors):
                start = sum(map(len, places))
                has_own = n == len(tensors) - 1 or t.size != 1
                places.append(tuple(free(start + p, size) for p, size in enumerate(t.shape)) if has_own else ())
            below = zip(d.wrt, places[1:], strict=True)
            heads.append((places[0], [self.program.symbol(i)[at] if at else self.program.symbol(i) for i, at in below]))
        return heads

    @property
    def assumptions(self) -> dict[str, tuple[str, ...]]:
        """What is assumed of arguments and of other values, in the words of `assume`."""
        return {self.graph.labels[x] if isinstance(x, int) else x: words for x, words in self.program.assumed}

    def _assumed(self, show: Any) -> list[str]:
        """Return the assumptions as text: `A symmetric, positive definite`."""
        return [f"{show.label(self.graph.labels[x]) if isinstance(x, int) else x} {words_text(words)}" for x, words in self.program.assumed]

    def _assumed_in_latex(self, show: Any) -> list[str]:
        heads = [show.label(self.graph.labels[x]) if isinstance(x, int) else rf"\text{{{escaped(x)}}}" for x, _ in self.program.assumed]
        return [rf"{head} \text{{ {words_text(words)}}}" for head, (_, words) in zip(heads, self.program.assumed, strict=True)]

    def _constants(self, show: Any) -> list[tuple[str, str]]:
        """Return labels and types of captured tensors: `c1` and `float64[3, 3]`."""
        used = set(self.graph.values)
        shown = [i for i in self._source.constants if self.graph.inputs[i] in used]
        return [(show.label(self.graph.labels[i]), type_text(self.graph.inputs[i])) for i in shown]

    def derivative_texts(self, show: TextPrinter) -> Iterator[tuple[str, str]]:
        """Iterate over the left and right sides of the derivatives as text."""
        _, *heads = self._heads()
        for (at, below), line in zip(heads, self._derivative_lines, strict=True):
            show.letters = {}
            power = "" if len(below) == 1 else str(len(below)).translate(_RAISED)
            above = f"{self.name}[{show.places(at)}]" if at else self.name
            head = f"∂{power}{above}/{''.join(f'∂{show._print(x)}' for x in below)}"
            yield head, show.line(line)

    def derivative_latex(self, show: FormulaLatexPrinter) -> Iterator[tuple[str, str]]:
        """Iterate over the left and right sides of the derivatives as LaTeX."""
        name = latex_label(self.name)
        _, *heads = self._heads()
        for (at, below), line in zip(heads, self._derivative_lines, strict=True):
            show.letters = {}
            power = "" if len(below) == 1 else f"^{{{len(below)}}}"
            under = " ".join(rf"\partial {show._print(x)}" for x in below)
            above = f"{name}_{{{show.places(at)}}}" if at else name
            yield rf"\frac{{\partial{power} {above}}}{{{under}}}", show.line(line)

    def __str__(self) -> str:
        show = TextPrinter(self.program.labels, self.name)
        (at, _), *_ = self._heads()
        arguments = ", ".join(shortened([show.label(label) for label in self._source.labels[: self._source.arguments]]))
        lines = [f"{self.name}({arguments}){f'[{show.places(at)}]' if at else ''} = {show.line(self.program.ends[0])}"]
        lines += [f"{head} = {text}" for head, text in self.derivative_texts(show)]
        lines += [f"assuming {'; '.join(self._assumed(show))}"] if self.program.assumed else []
        lines += ["for " + " and ".join(map(show.doprint, self.conditions))] if self.conditions else []
        constants = self._constants(show)
        lines += [f"with {', '.join(f'{label}: {kind}' for label, kind in constants)}"] if constants else []
        lines += ["where"] if self.program.lines else []
        lines += [f"    {show.doprint(line.name)} = {show.line(line)}" for line in self.program.lines]
        return "\n".join([*lines, *_legends(show.words)])

    __repr__ = __str__

    def latex(self) -> str:
        """Return the formulas as an `aligned` block, one line each."""
        show = FormulaLatexPrinter(self.program.labels, self.name)
        name = latex_label(self.name)
        (at, _), *_ = self._heads()
        lines = [rf"{f'{name}_{{{show.places(at)}}}' if at else name} &= {show.line(self.program.ends[0])}"]
        lines += [f"{head} &= {text}" for head, text in self.derivative_latex(show)]
        lines += [rf"&\text{{assuming }} {assumed}" for assumed in self._assumed_in_latex(show)]
        lines += [rf"&\text{{for }} {show.doprint(condition)}" for condition in self.conditions]
        lines += [rf"&\text{{with }} {label} \text{{: {kind}}}" for label, kind in self._constants(show)]
        lines += [rf"{show.doprint(line.name)} &= {show.line(line)}" for line in self.program.lines]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/latex": self._repr_latex_()}


def _legends(words: Mapping[str, str]) -> list[str]:
    """Return the legends: `(H(t) is 1 for t > 0, else 0)`, and replacements of words that clash with user names."""
    shown = {word: text for word, text in words.items() if word == "H" or (text != word and word != "pi")}
    other = "{} is our notation for {}, which is the name of something else here"
    return [f"({_LEGENDS.get(word, other).format(text, word)})" for word, text in shown.items()]


def shortened(labels: Sequence[str]) -> list[str]:
    """Return the labels with long runs of consecutive numbers abbreviated: `ws.0, ..., ws.99`."""
    runs: list[list[str]] = []
    for label in labels:
        if runs and _follows(runs[-1][-1], label):
            runs[-1].append(label)
        else:
            runs.append([label])
    return [part for run in runs for part in (run if len(run) <= _FEW else [run[0], "...", run[-1]])]


def _follows(before: str, label: str) -> bool:
    first, second = (_NUMBER.fullmatch(text) for text in (before, label))
    return bool(first and second and first[1] == second[1] and int(second[2]) == int(first[2]) + 1)
