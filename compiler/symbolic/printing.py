"""Print formulas as text and as LaTeX. Labels come from the program's table and are escaped here: printed text is never parsed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.str import StrPrinter

from symgrad.compiler.ir.printer import attribute
from symgrad.compiler.symbolic.label_text import ACCENT, ACCENTS, clean, escaped, latex_label
from symgrad.compiler.symbolic.notations.index_algebra import is_bracket, is_index, relation
from symgrad.compiler.symbolic.notations.index_printing import IndexLatex, IndexText, function_name
from symgrad.compiler.symbolic.notations.matrix_algebra import Entry, Total, parted
from symgrad.compiler.symbolic.notations.matrix_printing import ELEMENTS, POWER, PRODUCT, MatrixPrinter, is_multiple_of_ones, says_sizes

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_OTHER_WORDS = {"I": ("Id",), "H": ("step",), "pi": (repr(math.pi),)}
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_HOLE = re.compile(f"\ue000([0-9]+)[_^{ACCENT}]*\ue001")


_BETWEEN = {
    "div": ("/", r"\frac{%s}{%s}"), "eq": (" = ", "%s = %s"), "ne": (" ≠ ", r"%s \neq %s"), "lt": (" < ", "%s < %s"),
    "le": (" <= ", r"%s \leq %s"), "gt": (" > ", "%s > %s"), "ge": (" >= ", r"%s \geq %s"),
}  # fmt: skip
"""Rows that are printed as infix operators, even if they are opaque functions to SymPy."""


def asks(e: Any) -> bool:
    """True if a relation states that a boolean row holds or does not: isnan(x) ≠ 0."""
    row = getattr(getattr(e.lhs.func, "application", None), "row", None)
    return e.rhs == 0 and e.rel_op in ("==", "!=") and row is not None and row.policy == "compare"


def _squared(e: Any) -> Any:
    """Return M if the expression is the sum of the squares of its elements, else None."""
    matrix = e.args[0]
    return matrix.base if isinstance(matrix, sp.HadamardPower) and matrix.exp == 2 else None


def _rooted(e: Any) -> Any:
    """Return M if the expression is an integer power, positive or negative, of the norm of M, else None: ‖x‖ is also the root of xᵀ x."""
    if not (2 * e.exp).is_Integer:
        return None
    if isinstance(e.base, Entry) and isinstance(e.base.args[0], sp.MatMul) and len(e.base.args[0].args) == 2:
        left, right = e.base.args[0].args
        return right if left == sp.Transpose(right) else None
    return _squared(e.base) if isinstance(e.base, Total) else None


class _Printer(MatrixPrinter):
    """Common to both printers: labels of symbols, and one text for all lines of a form."""

    def __init__(self, labels: Mapping[Any, str], function: str = "", **settings: Any) -> None:
        super().__init__(settings)  # type: ignore[call-arg]
        self.labels = labels
        self.taken = {function, *labels.values(), *map(self.label, labels.values())}
        """User names; words of the notation that clash with them are replaced."""
        self.words: dict[str, str] = {}
        """The words of the notation that were printed, with their replacements."""
        self.inserted: dict[Any, Any] = {}
        self.letters: dict[Any, str] = {}
        self.holes: dict[Any, str] = {}
        """Placeholders for names in the text that all lines of a form share."""
        self.texts: dict[Any, list[str]] = {}

    def doprint(self, e: Any) -> str:
        self.letters = {}  # each formula has its own indices
        return self.continued(e)

    def continued(self, e: Any) -> str:
        """Print what follows a left side, whose indices keep their letters."""
        if isinstance(e, sp.Basic):
            self.name_indices(e)  # type: ignore[attr-defined]
            self.sized = not says_sizes(e)
        return super().doprint(e)  # type: ignore[misc, no-any-return]

    def line(self, line: Any) -> str:
        """Print a line without its left side: the text of the first line of its form, with this line's own names."""
        own = [self.named(name) for name in line.names]
        marks = tuple("".join(c for c in "_^" if c in text) + ACCENT * text.startswith(ACCENTS) for text in own)  # they decide on brackets
        key = (line.first, marks, *self.letters.items())
        if key not in self.texts:
            self.holes = {name: f"\ue000{i}{mark}\ue001" for i, (name, mark) in enumerate(zip(line.first.names, marks, strict=True))}
            self.texts[key] = _HOLE.split(self.continued(line.first.expression))
            self.holes = {}
        text = self.texts[key]
        return "".join(own[int(part)] if n % 2 else part for n, part in enumerate(text))

    def word(self, name: str) -> str:
        """Return a word of the notation, or a replacement if the user has given that name to something."""
        if name not in self.words:
            others = chain((name,), _OTHER_WORDS.get(name, ()), (name + "′" * n for n in range(1, 99)))
            self.words[name] = next(text for text in others if text not in self.taken)
        return self.words[name]

    def named(self, e: Any) -> str:
        """Return the label of a symbol."""
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
        return super()._print(e, **options)

    def _as_ordered_terms(self, e: Any, order: Any = None) -> list[Any]:
        """Return the terms of a sum with a positive one first, if there is one: 1 - x."""
        terms: list[Any] = super()._as_ordered_terms(e, order)  # type: ignore[misc]
        first = next((i for i, term in enumerate(terms) if not term.could_extract_minus_sign()), 0)
        return [terms[first], *terms[:first], *terms[first + 1 :]]

    def parenthesize(self, item: Any, level: Any, *args: Any, **options: Any) -> str:
        """Add brackets in SymPy's own printing: a variable that stands for a matrix has the precedence of the matrix."""
        if item in self.inserted:
            return self.inside(item, ELEMENTS)
        return super().parenthesize(item, level, *args, **options)  # type: ignore[misc, no-any-return]

    def _print_Symbol(self, e: Any, style: str = "plain") -> str:
        if e in self.inserted:
            return self._print(self.inserted[e])
        return self.letter(e) if is_index(e) else self.named(e)  # type: ignore[attr-defined]

    def _print_MatrixSymbol(self, e: Any) -> str:
        return self.named(e)


class TextPrinter(_Printer, IndexText, StrPrinter):
    """Plain text: `2 xᵀ ((x w - y) ∘ H(x w))`."""

    bracket, circle, slash, ones = "(%s)", " ∘ ", " ⊘ ", "𝟏"
    printmethod = "_no_text_of_its_own"  # SymPy's Indexed would print itself, without labels

    def label(self, text: str) -> str:
        return clean(text)

    def array(self, e: Any) -> str:
        return f"[{', '.join(self._print(part) for part in e)}]" if e.ndim else self._print(e[()])

    def _print_Float(self, e: Any) -> str:
        return repr(float(e))

    def _print_Heaviside(self, e: Any) -> str:
        argument = self._print(e.args[0])
        if e.args[1] == 1:
            return f"[{argument} >= 0]"
        return f"{self.word('H')}({argument})" if e.args[1] == 0 else f"{self.word('H')}({argument}, {self._print(e.args[1])})"

    def _print_Max(self, e: Any) -> str:
        return self.call("max", sorted(e.args, key=sp.default_sort_key))

    def _print_Min(self, e: Any) -> str:
        return self.call("min", sorted(e.args, key=sp.default_sort_key))

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
        if asks(e):
            return f"{'~' if e.rel_op == '==' else ''}{self._print(e.lhs)}"
        word = {"==": "=", "!=": "≠"}.get(e.rel_op)  # SymPy would print Eq(...) and Ne(...)
        return f"{self._print(e.lhs)} {word} {self._print(e.rhs)}" if word else super()._print_Relational(e)

    def raised_elements(self, base: str, exponent: str) -> str:
        return f"{base}^∘{exponent}"

    def transposed_text(self, text: str) -> str:
        return f"{text}ᵀ"

    def root(self, e: Any) -> str:
        return self.call("sqrt", [e])

    def call(self, name: str, args: Any) -> str:
        return f"{self.word(name)}({', '.join(map(self._print, args))})"

    def _print_Function(self, e: Any) -> str:
        return self.call(e.func.__name__, e.args)

    def _print_Exp1(self, e: Any) -> str:
        return self.call("exp", [sp.Integer(1)])

    def _print_Pi(self, e: Any) -> str:
        return self.word("pi")

    def _print_ImaginaryUnit(self, e: Any) -> str:
        return "1j"

    def subscript(self, n: Any) -> str:
        return str(n).translate(_LOWERED)

    def _print_Mul(self, e: Any) -> str:
        """After a minus sign SymPy would omit the brackets around (xᵀ y) in a product of several factors."""
        number, rest = e.as_coeff_Mul()
        if number.is_negative and isinstance(rest, sp.Mul) and any(isinstance(f, Entry) for f in rest.args):
            return f"-{self._print(-e)}"
        return super()._print_Mul(e)

    def _print_Infinity(self, e: Any) -> str:
        return "∞"

    def _print_NegativeInfinity(self, e: Any) -> str:
        return "-∞"

    def term(self, e: Any) -> str:
        """Print `y - 1`, not `y - 𝟏`: a number in a sum is added to every element."""
        return self._print(parted(e)[0]) if is_multiple_of_ones(e) else super().term(e)

    def scaled_text(self, scale: Any, text: str) -> str:
        """Print `m x/‖x‖`, which is m (x/‖x‖): a divisor stands behind the last factor."""
        if scale.could_extract_minus_sign() and scale != -1:
            return f"-{self.scaled_text(-scale, text)}"
        above, below = sp.fraction(scale)
        if below == 1 or (scale.is_Rational and abs(above) != 1):
            return super().scaled_text(scale, text)
        divisor = self._print(1 / below)[2:] if isinstance(below, Entry) and _rooted(1 / below) else self.inside(below, PRODUCT)
        return f"{super().scaled_text(above, text)}/{divisor}"

    def _print_Transpose(self, e: Any) -> str:
        return f"{self.inside(e.arg.arg, POWER)}⁻ᵀ" if isinstance(e.arg, sp.Inverse) else f"{self.inside(e.arg, POWER)}ᵀ"

    def _print_Inverse(self, e: Any) -> str:
        return f"{self.inside(e.arg, POWER)}⁻¹"

    def _print_Trace(self, e: Any) -> str:
        return self.call("tr", [e.arg])

    def _print_Identity(self, e: Any) -> str:
        return self.sized_text(self.word("I"), e.shape[0])

    def _print_OneMatrix(self, e: Any) -> str:
        return "1ᵀ" if e.shape[0] == 1 else "1"

    def _print_ZeroMatrix(self, e: Any) -> str:
        return "0"

    def _print_Det(self, e: Any) -> str:
        return self.call("det", e.args)

    def _print_DiagMatrix(self, e: Any) -> str:
        return self.call("diag", e.args)

    def _print_Rows(self, e: Any) -> str:
        return self.call(e.name, e.args[1:])

    def _print_Total(self, e: Any) -> str:
        root = _squared(e)
        return self.call("sum", e.args) if root is None else f"‖{self._print(root)}‖²"

    def _print_Pow(self, e: Any, *, rational: bool = False, **options: Any) -> str:
        root = _rooted(e)
        if root is None and abs(e.exp) == sp.Rational(1, 2) and not rational and not self.is_matrix(e):
            return f"{'1/' if e.exp < 0 else ''}{self.root(e.base)}"
        if root is None:
            return super()._print_Pow(e, rational=rational)
        power = abs(2 * e.exp)
        return f"{'1/' if e.exp < 0 else ''}‖{self._print(root)}‖{'' if power == 1 else str(power).translate(_RAISED)}"

    def _print_Entry(self, e: Any) -> str:
        return self._print(e.args[0])

    def _print_AppliedUndef(self, e: Any) -> str:
        if not hasattr(e.func, "application"):  # a function in a row's meaning
            return self.call(e.func.__name__, e.args)
        if e.func.application.row.name in _BETWEEN:
            return f"({self.operand(e.args[0])}{_BETWEEN[e.func.application.row.name][0]}{self.operand(e.args[1])})"
        details = [f"{k}={attribute(x)}" for k, x in e.func.application.shown]
        return f"{self.word(function_name(e.func.application))}({', '.join([*map(self._print, e.args), *details])})"


    def operand(self, e: Any) -> str:
        return self._print(e) if precedence(e) > PRECEDENCE["Mul"] else f"({self._print(e)})"


class FormulaLatexPrinter(_Printer, IndexLatex, LatexPrinter):
    bracket, circle, slash, ones = r"\left(%s\right)", r" \circ ", r" \oslash ", r"\mathbf{1}"

    def label(self, text: str) -> str:
        """Return the label in LaTeX: x1 is x₁; a second label that would look the same is upright: x_1."""
        if text not in self.shown:
            others = (rf"\mathrm{{{escaped(text)}{n}}}" for n in ("", *(f".{n}" for n in range(2, 99))))
            self.shown[text] = next(found for found in (latex_label(text), *others) if found not in self.shown.values())
        return self.shown[text]

    @cached_property
    def shown(self) -> dict[str, str]:
        """The LaTeX of each label so far."""
        return {}

    def array(self, e: Any) -> str:
        if e.ndim > 2:
            return rf"\left[{', '.join(self.array(part) for part in e)}\right]"
        rows = e if e.ndim == 2 else e.reshape(-1, 1)
        return r"\begin{bmatrix}" + r" \\ ".join(" & ".join(self._print(x) for x in row) for row in rows) + r"\end{bmatrix}"

    def _print_Same(self, e: Any) -> str:
        return " = ".join(map(self._print, e.args))

    def _print_Relational(self, e: Any) -> str:
        if asks(e):
            return (r"\neg " if e.rel_op == "==" else "") + self._print(e.lhs)
        return self._print(relation(e.lhs)) if is_bracket(e) else super()._print_Relational(e)

    def _print_Float(self, e: Any) -> str:
        mantissa, _, exponent = repr(float(e)).partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa

    def _print_Heaviside(self, e: Any, exp: Any = None) -> str:
        argument = self._print(e.args[0])
        name = {"H": "H"}.get(self.word("H"), r"\operatorname{step}")
        shown = {0: rf"{name}\left({argument}\right)", 1: rf"\left[{argument} \ge 0\right]"}
        return _raised(shown.get(e.args[1], rf"{name}\left({argument}, {self._print(e.args[1])}\right)"), exp)

    def _print_ExpBase(self, e: Any, exp: Any = None) -> str:
        """Print e^x, unless an input is called e."""
        if "e" not in self.taken:
            return super()._print_ExpBase(e, exp)  # type: ignore[no-any-return]
        return _raised(rf"\exp\left({self._print(e.args[0])}\right)", exp)

    def _print_Exp1(self, e: Any, exp: Any = None) -> str:
        return "e" if "e" not in self.taken else r"\exp\left(1\right)"

    def _print_Pi(self, e: Any, exp: Any = None) -> str:
        return _raised(r"\pi" if r"\pi" not in self.taken else repr(math.pi), exp)

    def _print(self, e: Any, **options: Any) -> str:
        """SymPy's π prints itself, without a check whether the name is taken."""
        return self._print_Pi(e) if e is sp.pi else super()._print(e, **options)

    def raised_elements(self, base: str, exponent: str) -> str:
        return rf"{base}^{{\circ {exponent}}}"

    def transposed_text(self, text: str) -> str:
        return rf"{text}^{{\top}}"

    def root(self, e: Any) -> str:
        return rf"\sqrt{{{self._print(e)}}}"

    def subscript(self, n: Any) -> str:
        return f"_{{{n}}}"

    def level(self, e: Any) -> int:
        """e^x prints as a power in LaTeX."""
        return min(super().level(e), POWER) if isinstance(e, sp.exp) else super().level(e)

    def _print_Transpose(self, e: Any) -> str:
        return rf"{self.inside(e.arg.arg, POWER)}^{{-\top}}" if isinstance(e.arg, sp.Inverse) else rf"{self.inside(e.arg, POWER)}^{{\top}}"

    def _print_Inverse(self, e: Any) -> str:
        return rf"{self.inside(e.arg, POWER)}^{{-1}}"

    def _print_Trace(self, e: Any, exp: Any = None) -> str:
        return _raised(rf"\operatorname{{tr}}\left({self._print(e.arg)}\right)", exp)

    def _print_Identity(self, e: Any) -> str:
        return self.sized_text({"I": "I"}.get(self.word("I"), r"\mathrm{Id}"), e.shape[0])

    def _print_OneMatrix(self, e: Any) -> str:
        return r"\mathbf{1}^{\top}" if e.shape[0] == 1 else r"\mathbf{1}"

    def _print_ZeroMatrix(self, e: Any) -> str:
        return r"\mathbf{0}"

    def _print_Det(self, e: Any, exp: Any = None) -> str:
        return _raised(rf"\det\left({self._print(e.args[0])}\right)", exp)

    def _print_DiagMatrix(self, e: Any) -> str:
        return rf"\operatorname{{diag}}\left({self._print(e.args[0])}\right)"

    def _print_Rows(self, e: Any) -> str:
        return rf"\operatorname{{{escaped(e.name)}}}\left({self._print(e.args[1])}\right)"

    def _print_Total(self, e: Any, exp: Any = None) -> str:
        root = _squared(e)
        if root is None:
            return _raised(rf"\operatorname{{sum}}\left({self._print(e.args[0])}\right)", exp)
        text = rf"\left\|{self._print(root)}\right\|^{{2}}"
        return text if exp is None else _raised(self.bracket % text, exp)

    def _print_Pow(self, e: Any, **options: Any) -> str:
        root = _rooted(e)
        if root is None:
            return super()._print_Pow(e)
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
        if e.func.application.row.name in _BETWEEN:
            text = _BETWEEN[e.func.application.row.name][1] % tuple(map(self._print, e.args))
            return text if exp is None else _raised(self.bracket % text, exp)
        details = [rf"\mathrm{{{escaped(f'{k}={attribute(x)}')}}}" for k, x in e.func.application.shown]
        arguments = ", ".join([*map(self._print, e.args), *details])
        return _raised(rf"\operatorname{{{escaped(function_name(e.func.application))}}}\left({arguments}\right)", exp)


def _raised(text: str, exponent: Any) -> str:
    return text if exponent is None else f"{text}^{{{exponent}}}"
