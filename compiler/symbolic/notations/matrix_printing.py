"""Matrix notation as text and as LaTeX: products, transposes and sums of matrices, and arithmetic on their elements.

The precedence of an expression determines its brackets:

    0   sums, and products with a minus sign     A x - b
    1   products and quotients of elements       x ∘ y, x ⊘ y
    2   products of matrices, and with scalars   2 A x
    3   powers                                   x^∘2, Aᵀ
    4   everything else                          x, exp(A x)

This table is all that a reader needs to parse the text: tests parse every formula back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.notations.matrix_algebra import Det, Elementwise, Entry, Rows, Total, parted

SUM, ELEMENTS, PRODUCT, POWER, ATOM = range(5)
_KINDS = ((sp.Add, sp.MatAdd), sp.HadamardProduct, (sp.Mul, sp.MatMul), (sp.Pow, sp.HadamardPower, sp.Transpose, sp.Inverse))


class MatrixPrinter:
    """Common to the text and the LaTeX of matrix notation.

    The variables of an elementwise function stand for matrices (`inserted`). An expression of such variables is a matrix, too: its
    products, quotients and powers are elementwise.
    """

    bracket: str
    circle: str
    slash: str
    ones: str
    inserted: dict[Any, Any]
    _print: Callable[..., str]
    sized = False
    """True if 𝟏 and I are printed with their sizes, since nothing else in the formula determines them."""

    def raised_elements(self, base: str, exponent: str) -> str:
        """Return the elementwise power as text."""
        raise NotImplementedError

    def level(self, e: Any) -> int:
        """Return the precedence of an expression, from the table above."""
        if isinstance(e, Elementwise):
            return self.level(self.opened(e))
        if e in self.inserted:
            return self.level(self.inserted[e])
        if isinstance(e, Entry):  # a scalar that is printed as a product of matrices
            return ELEMENTS
        if isinstance(e, sp.OneMatrix) and 1 not in e.shape:
            return PRODUCT
        if e.is_Rational:
            return SUM if e < 0 else ATOM if e.is_Integer else PRODUCT
        if isinstance(e, (sp.Mul, sp.Pow)) and self.is_matrix(e):
            return self.level_of_elements(e)
        return next((level for level, kinds in enumerate(_KINDS) if isinstance(e, kinds)), ATOM)

    def level_of_elements(self, e: Any) -> int:
        if isinstance(e, sp.Mul):
            return SUM if e.could_extract_minus_sign() else ELEMENTS
        return ELEMENTS if _divides(e) else ATOM if e.exp == sp.Rational(1, 2) else POWER

    def inside(self, e: Any, level: int) -> str:
        """Print an expression, in brackets unless its precedence is above `level`."""
        text = self._print(e)
        return text if self.level(e) > level else self.bracket % text

    def opened(self, e: Any) -> Any:
        """Return the body of an elementwise function, whose variables are printed as its matrices from now on."""
        self.inserted.update(zip(e.function.variables, e.matrices, strict=True))
        return e.function.expr

    def is_matrix(self, e: Any) -> bool:
        return bool(self.inserted) and not self.inserted.keys().isdisjoint(e.free_symbols)

    def _print_Elementwise(self, e: Any) -> str:
        return self._print(self.opened(e))

    def _print_MatMul(self, e: Any) -> str:
        scale, factors = parted(e)
        shown = [self._one_factor(f) for f in factors]
        return self.scaled_text(scale, " ".join(shown))

    def scaled_text(self, scale: Any, text: str) -> str:
        """Print a product with a scalar."""
        return text if scale == 1 else f"-{text}" if scale == -1 else f"{self.scale(scale)} {text}"

    def _one_factor(self, f: Any) -> str:
        return self.ones_product(f) if isinstance(f, sp.OneMatrix) else self.inside(f, ELEMENTS)

    def ones_product(self, e: Any) -> str:
        """Print a matrix of ones as a factor, where 𝟏 is a column."""
        column, row = (self.sized_text(self.ones, n) for n in e.shape)
        row = self.transposed_text(row)
        return row if e.shape[0] == 1 else column if e.shape[1] == 1 else f"{column} {row}"

    def sized_text(self, text: str, n: Any) -> str:
        """Return the text with its size as subscript, 𝟏₃, if the size is unclear."""
        return text + self.subscript(n) if self.sized else text

    def subscript(self, n: Any) -> str:
        raise NotImplementedError

    def transposed_text(self, text: str) -> str:
        raise NotImplementedError

    def scale(self, e: Any) -> str:
        """Print a scalar in front of a product of matrices."""
        return self._print(e) if e.is_Rational else self.inside(e, ELEMENTS)

    def _print_MatAdd(self, e: Any) -> str:
        terms = sorted(e.args, key=lambda t: (bool(parted(t)[0].could_extract_minus_sign()), isinstance(t, sp.Transpose)))
        if all(map(is_multiple_of_ones, terms)):
            return signed_sum([self._print(t) for t in terms])
        return signed_sum([self.term(t) for t in terms])

    def term(self, e: Any) -> str:
        return self._print(e)

    def _print_HadamardProduct(self, e: Any) -> str:
        return self.circle.join(self.inside(f, PRODUCT) for f in e.args)

    def _print_HadamardPower(self, e: Any) -> str:
        return self.raised_elements(self.inside(e.base, POWER), self.inside(e.exp, PRODUCT))

    def _print_Mul(self, e: Any) -> str:
        return self.product_of_elements(e) if self.is_matrix(e) else super()._print_Mul(e)  # type: ignore[misc]

    def product_of_elements(self, e: Any) -> str:
        """Print a product of elements: `-2 (x ∘ y ⊘ z)`."""
        if e.could_extract_minus_sign():
            return f"-{self.inside(-e, SUM)}"
        numbers, matrices = _split(self, e)
        scale = sp.Mul(*numbers)
        factors, others = [f for f in matrices if not _divides(f)], [1 / f for f in matrices if _divides(f)]
        if not factors:
            return f"{self.inside(scale, ELEMENTS)}{self.slash}{self._divisor(others)}"
        text = self.circle.join(self.inside(f, PRODUCT) for f in factors)
        if others:
            text += self.slash + self._divisor(others)
        if scale == 1:
            return text
        return f"{self.scale(scale)} {text if len(factors) + len(others) == 1 else self.bracket % text}"

    def _divisor(self, factors: list[Any]) -> str:
        text = self.circle.join(self.inside(f, PRODUCT) for f in factors)
        return text if len(factors) == 1 else self.bracket % text

    def _print_Pow(self, e: Any, **options: Any) -> str:
        return self.power_of_elements(e) if self.is_matrix(e) else super()._print_Pow(e, **options)  # type: ignore[misc]

    def power_of_elements(self, e: Any) -> str:
        if _divides(e):
            return self.product_of_elements(e)
        if e.exp == sp.Rational(1, 2):
            return self.root(e.base)
        return self.raised_elements(self.inside(e.base, POWER), self.inside(e.exp, PRODUCT))

    def root(self, e: Any) -> str:
        raise NotImplementedError


def is_multiple_of_ones(e: Any) -> bool:
    """True for s 𝟏, a matrix of equal elements."""
    factors = parted(e)[1]
    return len(factors) == 1 and isinstance(factors[0], sp.OneMatrix)


def says_sizes(e: Any) -> bool:
    """True if the sizes of all matrices of ones follow from the shape of the result and those of names."""
    if not isinstance(e, sp.Basic) or not e.has(sp.OneMatrix, sp.Identity):
        return True
    return all(_is_clear(part) for part in sp.preorder_traversal(e))


def _is_clear(e: Any) -> bool:
    """True if the sizes that an operation sums over are determined by one of its operands."""
    if isinstance(e, (Total, sp.Trace, Det)):
        return all(_said(e.args[0]))
    if isinstance(e, Rows):
        return any(_said(e.args[1])) if e.args[1].shape[1] == 1 else _said(e.args[1])[1]
    if isinstance(e, sp.MatMul):
        factors = parted(e)[1]
        return all(_said(a)[1] or _said(b)[0] for a, b in itertools.pairwise(factors))
    return True


def _said(e: Any) -> tuple[bool, bool]:
    """Return two booleans: the number of rows, and of columns, of a matrix follows from the names in it."""
    if isinstance(e, (sp.OneMatrix, sp.ZeroMatrix, sp.Identity)):
        rows, columns = (False, False)
    elif isinstance(e, (sp.Transpose, sp.Inverse)):
        columns, rows = _said(e.arg)
    elif isinstance(e, sp.DiagMatrix):
        rows = columns = _said(e.args[0])[0]
    elif isinstance(e, sp.MatMul):
        factors = parted(e)[1]
        rows, columns = _said(factors[0])[0], _said(factors[-1])[1]
    elif isinstance(e, (sp.MatAdd, sp.HadamardProduct, sp.HadamardPower, Elementwise, Rows)):
        found = [_said(a) for a in e.args if getattr(a, "is_Matrix", False)]
        rows, columns = any(r for r, _ in found), any(c for _, c in found)
    else:
        rows, columns = True, True
    return rows or e.shape[0] == 1, columns or e.shape[1] == 1


def _split(run: MatrixPrinter, product: Any) -> tuple[list[Any], list[Any]]:
    """Return the scalar factors of a product, and the matrix factors."""
    factors = sp.Mul.make_args(product)
    return [f for f in factors if not run.is_matrix(f)], [f for f in factors if run.is_matrix(f)]


def _divides(e: Any) -> bool:
    """True if a factor is a power with a negative exponent."""
    return isinstance(e, sp.Pow) and bool(e.exp.is_negative)


def signed_sum(terms: list[str]) -> str:
    """Join terms with their signs."""
    first, *others = terms
    return first + "".join(f" - {term[1:].lstrip()}" if term.startswith("-") else f" + {term}" for term in others)
