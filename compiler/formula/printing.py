"""Formulas as text and as LaTeX. Labels come from the program's table, and are made harmless here: nothing printed is ever read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from symgrad.compiler.formula.index_printing import IndexLatex, IndexText, function_name
from symgrad.compiler.formula.indices import is_bracket, is_index, relation
from symgrad.compiler.formula.matrices import Elementwise, Entry, Total
from symgrad.compiler.graph.printer import attribute

BAR = "\N{COMBINING MACRON}"
_GREEK = frozenset(
    ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho",
     "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega")
)  # fmt: skip
_ESCAPES = {c: f"\\{c}" for c in "{}$&#_%"} | {"\\": r"\backslash ", "^": r"\hat{}", "~": r"\sim "}
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_HOLE = re.compile("\ue000([0-9]+)[_^]*\ue001")
_KINDS = ((sp.Add, sp.MatAdd), sp.HadamardProduct, (sp.Mul, sp.MatMul), (sp.Pow, sp.HadamardPower))


def _level(e: Any) -> int:
    """How tightly an expression holds together: sums 0, Hadamard products 1, products 2, powers 3, everything else 4."""
    if isinstance(e, Elementwise):
        return _level(e.function.expr)
    if isinstance(e, Entry):  # a number that is written as a product of matrices
        return 1
    if e.is_Rational:
        return 0 if e < 0 else 4 if e.is_Integer else 2
    return next((level for level, kinds in enumerate(_KINDS) if isinstance(e, kinds)), 4)


def _squared(e: Any) -> Any:
    """M, if the expression is the sum of the squares of its elements."""
    matrix = e.args[0]
    return matrix.base if isinstance(matrix, sp.HadamardPower) and matrix.exp == 2 else None


def _rooted(e: Any) -> Any:
    """M, if the expression is a whole power, positive or negative, of the norm of M."""
    return _squared(e.base) if isinstance(e.base, Total) and (2 * e.exp).is_Integer else None


class _Printer:
    """What both printers do: labels for symbols, brackets for matrices, and matrices in place of the variables of a function.

    How tightly a matrix must hold together there is `around`: not at all as the whole argument of a call, a little in a sum.
    """

    bracket: str
    circle: str

    def __init__(self, labels: Mapping[Any, str], **settings: Any) -> None:
        super().__init__(settings)  # type: ignore[call-arg]
        self.labels = labels
        self.inserted: dict[Any, Any] = {}
        self.letters: dict[Any, str] = {}
        self.around = 2
        self.holes: dict[Any, str] = {}
        """What stands in place of names in the text that is common to all lines of a form."""
        self.texts: dict[Any, list[str]] = {}

    def doprint(self, e: Any) -> str:
        self.letters = {}  # each formula has its own indices
        return self.continued(e)

    def continued(self, e: Any) -> str:
        """What comes after a left side: the indices there keep their letters."""
        if isinstance(e, sp.Basic):
            self.name_indices(e)  # type: ignore[attr-defined]
        return super().doprint(e)  # type: ignore[misc, no-any-return]

    def line(self, line: Any) -> str:
        """A line after its left side: the text of the first one of its form, with its own names."""
        own = [self.named(name) for name in line.names]
        marks = tuple("".join(c for c in "_^" if c in text) for text in own)  # what decides on brackets
        key = (line.first, marks, *self.letters.items())
        if key not in self.texts:
            self.holes = {name: f"\ue000{i}{mark}\ue001" for i, (name, mark) in enumerate(zip(line.first.names, marks, strict=True))}
            self.texts[key] = _HOLE.split(self.continued(line.first.expression))
            self.holes = {}
        text = self.texts[key]
        return "".join(own[int(part)] if n % 2 else part for n, part in enumerate(text))

    def named(self, e: Any) -> str:
        """The label of a symbol."""
        return self.holes[e] if e in self.holes else self.label(self.labels.get(e, str(e.name)))

    def label(self, text: str) -> str:
        raise NotImplementedError

    def array(self, e: Any) -> str:
        raise NotImplementedError

    def _print(self, e: Any, **options: Any) -> str:
        if isinstance(e, np.ndarray):
            return self.array(e)
        if isinstance(e, sp.IndexedBase):
            return self.named(e)
        before = self.around
        if isinstance(e, sp.Basic) and e.args:
            self.around = -1 if isinstance(e, (sp.Function, sp.Max, sp.Min)) else 0 if isinstance(e, sp.Add) else 2
        try:
            return super()._print(e, **options)  # type: ignore[misc, no-any-return]
        finally:
            self.around = before

    def inside(self, e: Any, level: int) -> str:
        """In brackets, unless it holds together more tightly than `level`."""
        text = self._print(e)
        return text if _level(e) > level else self.bracket % text

    def _print_Symbol(self, e: Any, style: str = "plain") -> str:
        if e not in self.inserted:
            return self.letter(e) if is_index(e) else self.named(e)  # type: ignore[attr-defined]
        return self.inside(self.inserted[e], self.around)

    def _print_MatrixSymbol(self, e: Any) -> str:
        return self.named(e)

    def _print_Elementwise(self, e: Any) -> str:
        self.inserted.update(zip(e.function.variables, e.matrices, strict=True))
        return self._print(e.function.expr)

    def _print_MatMul(self, e: Any) -> str:
        factors = [self._print(f) if f.is_Rational else self.inside(f, 1) for f in e.args]
        return " ".join([f"-{factors[1]}", *factors[2:]] if factors[0] == "-1" else factors)

    def _print_MatAdd(self, e: Any) -> str:
        terms = sorted(e.args, key=lambda t: (isinstance(t, sp.MatMul) and bool(t.args[0].is_negative), isinstance(t, sp.Transpose)))
        return " + ".join(self._print(term) for term in terms).replace("+ -", "- ")

    def _print_HadamardProduct(self, e: Any) -> str:
        return self.circle.join(self.inside(f, 2) for f in e.args)


class TextPrinter(_Printer, IndexText, StrPrinter):  # type: ignore[misc]
    """`2 xᵀ ((x w - y) ∘ H(x w))`"""

    bracket, circle = "(%s)", " ∘ "
    printmethod = "_no_text_of_its_own"  # SymPy's Indexed would print itself, without labels

    def label(self, text: str) -> str:
        return clean(text)

    def array(self, e: Any) -> str:
        return f"[{', '.join(self._print(part) for part in e)}]" if e.ndim else self._print(e[()])

    def _print_Float(self, e: Any) -> str:
        return repr(float(e))

    def _print_Heaviside(self, e: Any) -> str:
        shown = {0: "H({})", 1: "[{} >= 0]"}.get(e.args[1], f"H({{}}, {self._print(e.args[1])})")
        return shown.format(self._print(e.args[0]))

    def _print_Max(self, e: Any) -> str:
        return f"max({', '.join(self._print(a) for a in sorted(e.args, key=sp.default_sort_key))})"

    def _print_Min(self, e: Any) -> str:
        return f"min({', '.join(self._print(a) for a in sorted(e.args, key=sp.default_sort_key))})"

    def _print_Piecewise(self, e: Any) -> str:
        parts = [f"{self._print(x)} if {self._print(c)}" if c != sp.true else self._print(x) for x, c in e.args]
        return f"({' else '.join(parts)})"

    def _print_Same(self, e: Any) -> str:
        return " = ".join(map(self._print, e.args))

    def _print_ITE(self, e: Any) -> str:
        condition, x, y = map(self._print, e.args)
        return f"({x} if {condition} else {y})"

    def _print_Relational(self, e: Any) -> str:
        if is_bracket(e):
            return self._print(relation(e.lhs))
        word = {"==": "=", "!=": "≠"}.get(e.rel_op)  # SymPy's text would be Eq(...) and Ne(...)
        return f"{self._print(e.lhs)} {word} {self._print(e.rhs)}" if word else super()._print_Relational(e)

    def _print_HadamardPower(self, e: Any) -> str:
        return f"{self.inside(e.base, 3)}^∘{self._print(e.exp)}"

    def _print_MatMul(self, e: Any) -> str:
        scale, *rest = e.args
        if isinstance(scale, sp.MatrixExpr) or sp.fraction(scale)[1].is_Rational:
            return super()._print_MatMul(e)
        return f"({self._print(scale)}) {self._print(sp.MatMul(*rest))}"  # (m/‖x‖) x is not m/(‖x‖ x)

    def _print_Transpose(self, e: Any) -> str:
        return f"{self.inside(e.arg.arg, 3)}⁻ᵀ" if isinstance(e.arg, sp.Inverse) else f"{self.inside(e.arg, 3)}ᵀ"

    def _print_Inverse(self, e: Any) -> str:
        return f"{self.inside(e.arg, 3)}⁻¹"

    def _print_Trace(self, e: Any) -> str:
        return f"tr({self._print(e.arg)})"

    def _print_Identity(self, e: Any) -> str:
        return "I"

    def _print_OneMatrix(self, e: Any) -> str:
        return "1ᵀ" if e.shape[0] == 1 else "1"

    def _print_ZeroMatrix(self, e: Any) -> str:
        return "0"

    def _print_Det(self, e: Any) -> str:
        return f"det({self._print(e.args[0])})"

    def _print_DiagMatrix(self, e: Any) -> str:
        return f"diag({self._print(e.args[0])})"

    def _print_Rows(self, e: Any) -> str:
        return f"{e.name}({self._print(e.args[1])})"

    def _print_Total(self, e: Any) -> str:
        root = _squared(e)
        return f"sum({self._print(e.args[0])})" if root is None else f"‖{self._print(root)}‖²"

    def _print_Pow(self, e: Any, rational: bool = False) -> str:
        root = _rooted(e)
        if root is None:
            return super()._print_Pow(e, rational)  # type: ignore[no-any-return]
        power = abs(2 * e.exp)
        return f"{'1/' if e.exp < 0 else ''}‖{self._print(root)}‖{'' if power == 1 else str(power).translate(_RAISED)}"

    def _print_Entry(self, e: Any) -> str:
        return self._print(e.args[0])

    def _print_AppliedUndef(self, e: Any) -> str:
        if not hasattr(e.func, "application"):  # a word of a row's meaning
            return f"{e.func.__name__}({', '.join(map(self._print, e.args))})"
        details = [f"{k}={attribute(x)}" for k, x in e.func.application.shown]
        return f"{function_name(e.func.application)}({', '.join([*map(self._print, e.args), *details])})"


class FormulaLatexPrinter(_Printer, IndexLatex, LatexPrinter):  # type: ignore[misc]
    bracket, circle = r"\left(%s\right)", r" \circ "

    def label(self, text: str) -> str:
        return latex_label(text)

    def array(self, e: Any) -> str:
        if e.ndim > 2:
            return rf"\left[{', '.join(self.array(part) for part in e)}\right]"
        rows = e if e.ndim == 2 else e.reshape(-1, 1)
        return r"\begin{bmatrix}" + r" \\ ".join(" & ".join(self._print(x) for x in row) for row in rows) + r"\end{bmatrix}"

    def _print_Same(self, e: Any) -> str:
        return " = ".join(map(self._print, e.args))

    def _print_Relational(self, e: Any) -> str:
        return self._print(relation(e.lhs)) if is_bracket(e) else super()._print_Relational(e)

    def _print_Float(self, e: Any) -> str:
        mantissa, _, exponent = repr(float(e)).partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa

    def _print_Heaviside(self, e: Any, exp: Any = None) -> str:
        argument = self._print(e.args[0])
        shown = {0: rf"H\left({argument}\right)", 1: rf"\left[{argument} \ge 0\right]"}
        return _raised(shown.get(e.args[1], rf"H\left({argument}, {self._print(e.args[1])}\right)"), exp)

    def _print_HadamardPower(self, e: Any) -> str:
        return rf"{self.inside(e.base, 3)}^{{\circ {self._print(e.exp)}}}"

    def _print_Transpose(self, e: Any) -> str:
        return rf"{self.inside(e.arg.arg, 3)}^{{-\top}}" if isinstance(e.arg, sp.Inverse) else rf"{self.inside(e.arg, 3)}^{{\top}}"

    def _print_Inverse(self, e: Any) -> str:
        return rf"{self.inside(e.arg, 3)}^{{-1}}"

    def _print_Trace(self, e: Any, exp: Any = None) -> str:
        return _raised(rf"\operatorname{{tr}}\left({self._print(e.arg)}\right)", exp)

    def _print_Identity(self, e: Any) -> str:
        return "I"

    def _print_OneMatrix(self, e: Any) -> str:
        return r"\mathbf{1}^{\top}" if e.shape[0] == 1 else r"\mathbf{1}"

    def _print_ZeroMatrix(self, e: Any) -> str:
        return r"\mathbf{0}"

    def _print_Det(self, e: Any, exp: Any = None) -> str:
        return _raised(rf"\det\left({self._print(e.args[0])}\right)", exp)

    def _print_DiagMatrix(self, e: Any) -> str:
        return rf"\operatorname{{diag}}\left({self._print(e.args[0])}\right)"

    def _print_Rows(self, e: Any) -> str:
        return rf"\operatorname{{{_escaped(e.name)}}}\left({self._print(e.args[1])}\right)"

    def _print_Total(self, e: Any, exp: Any = None) -> str:
        root = _squared(e)
        if root is None:
            return _raised(rf"\operatorname{{sum}}\left({self._print(e.args[0])}\right)", exp)
        text = rf"\left\|{self._print(root)}\right\|^{{2}}"
        return text if exp is None else _raised(self.bracket % text, exp)

    def _print_Pow(self, e: Any) -> str:
        root = _rooted(e)
        if root is None:
            return super()._print_Pow(e)  # type: ignore[no-any-return]
        power = abs(2 * e.exp)
        text = rf"\left\|{self._print(root)}\right\|" + ("" if power == 1 else f"^{{{power}}}")
        return text if e.exp > 0 else rf"\frac{{1}}{{{text}}}"

    def _print_Entry(self, e: Any, exp: Any = None) -> str:
        text = self._print(e.args[0])
        return text if exp is None else _raised(self.bracket % text, exp)

    def _needs_mul_brackets(self, expr: Any, first: bool = False, last: bool = False) -> bool:
        return isinstance(expr, Entry) or super()._needs_mul_brackets(expr, first, last)

    def _print_Function(self, e: Any, exp: Any = None) -> str:
        if not hasattr(e.func, "application"):
            return super()._print_Function(e, exp)  # type: ignore[no-any-return]
        details = [rf"\mathrm{{{_escaped(f'{k}={attribute(x)}')}}}" for k, x in e.func.application.shown]
        arguments = ", ".join([*map(self._print, e.args), *details])
        return _raised(rf"\operatorname{{{_escaped(function_name(e.func.application))}}}\left({arguments}\right)", exp)


def _raised(text: str, exponent: Any) -> str:
    return text if exponent is None else f"{text}^{{{exponent}}}"


def clean(label: str) -> str:
    """A label without what would move the cursor."""
    return "".join(c if c.isprintable() else "?" for c in label)


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in clean(text))


def latex_label(label: str) -> str:
    """`w1` is w₁, `theta` is θ, words are upright, an element's index is a subscript; a bar stands over the letter before it."""
    if BAR in label:
        letter, _, rest = label.partition(BAR)
        return rf"\bar{{{_escaped(letter)}}}" + (f"_{{{_escaped(rest)}}}" if rest else "")
    found = re.fullmatch(r"([A-Za-z]+)_?([0-9]*)(?:\[([0-9, ]*)\])?", label)
    if found is None:
        return rf"\mathrm{{{_escaped(label)}}}"
    word, digits, index = found.groups()
    text = f"\\{word}" if word in _GREEK else word if len(word) == 1 else rf"\mathrm{{{word}}}"
    subscript = ", ".join(part for part in (digits, (index or "").replace(" ", "")) if part)
    return f"{text}_{{{subscript}}}" if subscript else text
