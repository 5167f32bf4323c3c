"""Index notation as text and as LaTeX: letters for indices, sums and folds over them, brackets, deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import sympy as sp

from symgrad.compiler.ir.elements.registry import OUTPUTS
from symgrad.compiler.symbolic.label_text import ACCENT, ACCENTS
from symgrad.compiler.symbolic.notations import index_algebra

_LETTERS = "ijklmnpqrstuvabcdefgh"
_BIG = (index_algebra.Sigma, index_algebra.Fold)


class IndexPrinter:
    """Common to both printers. Indices of tensors are i, j, ...; a sum takes the next letter that is free in its scope."""

    labels: Any
    letters: dict[Any, str]
    taken: set[str]
    word: Any
    comma: str
    _print: Callable[[Any], str]  # of SymPy's printer

    @cached_property
    def free_letters(self) -> list[str]:
        """Letters that are not user names."""
        taken = self.taken
        return [c for c in (*_LETTERS, *(f"{c}{n}" for n in range(1, 99) for c in _LETTERS)) if c not in taken]

    def letter(self, index: Any) -> str:
        if index not in self.letters:
            if index.name[0] == "i":
                self.letters[index] = self.free_letters[int(index.name[1:].partition("_")[0])]
            else:
                taken = set(self.letters.values())
                self.letters[index] = next(c for c in self.free_letters if c not in taken)
        return self.letters[index]

    def name_indices(self, e: Any) -> None:
        """Assign letters to free indices: those of tensors first, then those of directions."""
        for index in sorted((s for s in e.free_symbols if index_algebra.is_index(s)), key=lambda s: (s.name[0] != "i", s.name)):
            self.letter(index)

    @contextmanager
    def scope(self, e: Any, bound: list[Any]) -> Iterator[None]:
        """Assign letters to bound indices for the duration of a block, after the free indices have theirs."""
        self.name_indices(e)
        before = dict(self.letters)
        for index in bound:
            self.letters.pop(index, None)
        for index in bound:
            self.letter(index)
        try:
            yield
        finally:
            self.letters = before

    def places(self, at: Any) -> str:
        return self.comma.join(self._print(i) for i in at)

    def limits(self, limits: Any, *bodies: Any) -> str:
        return self.comma.join(self.limit(*limit, is_said=_is_said(limit[0], bodies)) for limit in limits)

    def limit(self, k: Any, first: Any, last: Any, *, is_said: bool) -> str:
        """Return `k`, or for a partial range `k ≤ i`, `k ≥ i`; with the end of the range unless the size of a tensor determines it."""
        name, end = self._print(k), self._print(sp.Integer(index_algebra.size(k)))
        start = "" if first == 0 else f"{self._print(first)} {self.at_most} "
        if last != index_algebra.size(k) - 1:
            return f"{start}{name} {self.at_most} {self._print(last)}"
        if not is_said:
            return f"{start}{name} < {end}"
        return name if first == 0 else f"{name} {self.at_least} {self._print(first)}"

    at_most: str
    at_least: str

    def bounds(self, e: Any) -> str:
        """Return the part of a bracket that does not follow from the ranges of its indices."""
        place, low, high = e.args
        ends = index_algebra.interval(place)
        text = self._print(place)
        above = ends is not None and ends[0] >= low
        below = ends is not None and ends[1] < high
        if above:
            return f"{text} < {self._print(high)}"
        if below:
            return f"{text} {self.at_least} {self._print(low)}"
        return f"{self._print(low)} {self.at_most} {text} < {self._print(high)}"


class IndexText(IndexPrinter):
    """Plain text: `Σ_k A[i, k]*x[k]`."""

    comma, at_most, at_least = ", ", "≤", "≥"

    @cached_property
    def bracketed(self) -> set[Any]:
        """Folds that are printed in brackets as factors, since a fold reaches to the end of a product: (Π_k x[k])*Π_k y[k]."""
        return set()

    def parenthesize(self, item: Any, level: Any, *args: Any, **options: Any) -> str:
        if item in self.bracketed:
            return f"({self._print(item)})"
        return super().parenthesize(item, level, *args, **options)  # type: ignore[misc, no-any-return]

    def _print_Indexed(self, e: Any) -> str:
        return f"{self._print(e.base)}[{self.places(e.indices)}]"

    def _print_Element(self, e: Any) -> str:
        return f"{self._print(e.args[0])}[{self.places(e.args[1:])}]"

    def _print_KroneckerDelta(self, e: Any) -> str:
        if "δ" in self.taken:
            return f"[{' = '.join(self._print(i) for i in e.args)}]"
        return f"δ[{self.places(e.args)}]"

    def _print_Within(self, e: Any) -> str:
        return f"[{self.bounds(e)}]"

    def _print_Quotient(self, e: Any) -> str:
        return f"⌊({self._print(e.args[0])})/{self._print(e.args[1])}⌋"

    def _print_FromEnd(self, e: Any) -> str:
        return f"Mod({self._print(e.args[0])}, {self._print(e.args[1])})"

    def _print_Sigma(self, e: Any) -> str:
        with self.scope(e, [limit[0] for limit in e.limits]):
            return f"{self.word('Σ')}_{self._under(self.limits(e.limits, e.function))} {self._body(e.function)}"

    def _print_Fold(self, e: Any) -> str:
        name, body, limits = e.args
        word = self.word("Π" if name.name == "prod" else name.name)
        with self.scope(e, [limits[0]]):
            if (left_out := _left_out(e)) is not None:
                return f"{word}_{{{self._print(limits[0])} ≠ {self._print(left_out[0])}}} {self._body(left_out[1])}"
            return f"{word}_{self._under(self.limits([limits], body))} {self._body(body)}"

    def _print_Last(self, e: Any) -> str:
        value, hit, default, *limits = e.args
        with self.scope(e, [limit[0] for limit in limits]):
            shown = [self._print(part) for part in (value, hit, default)]
            return f"(last_{self._under(self.limits(limits, value, hit))} {shown[0]} where {shown[1]} = 1, else {shown[2]})"

    def _under(self, text: str) -> str:
        return text if len(text) == 1 else f"{{{text}}}"

    def _body(self, e: Any) -> str:
        text = self._print(e)
        return f"({text})" if isinstance(e, sp.Add) or (isinstance(e, sp.Mul) and "/" in text and _big_factor(e) is not None) else text

    def _print_Mul(self, e: Any) -> str:
        big = _big_factor(e)
        if big is None:
            several = {f for f in e.args if isinstance(f, _BIG)}
            self.bracketed |= several if any(isinstance(f, index_algebra.Fold) for f in several) else set()
            return super()._print_Mul(e)  # type: ignore[misc, no-any-return]
        rest = e / big
        if rest == -1:
            return f"-{self._print(big)}"
        if sp.fraction(rest)[1] != 1 or isinstance(rest, sp.Add):
            return super()._print_Mul(e)  # type: ignore[misc, no-any-return]
        return f"{self._print(rest)}*{self._print(big)}"


class IndexLatex(IndexPrinter):
    r"""LaTeX: `\sum_{k} A_{i, k} x_{k}`."""

    comma, at_most, at_least = ", ", r"\le", r"\ge"

    def _print_Indexed(self, e: Any) -> str:
        return f"{self._subscripted(self._print(e.base))}_{{{self.places(e.indices)}}}"

    def _subscripted(self, text: str) -> str:
        """Return a base that can have indices: TeX drops braces around an accent alone, so that an empty atom stands before it."""
        return text if "_" not in text else f"{{{{}}{text}}}" if text.startswith(ACCENTS) or ACCENT in text else f"{{{text}}}"

    def _print_Element(self, e: Any) -> str:
        return f"{self._print(e.args[0])}_{{{self.places(e.args[1:])}}}"

    def _print_KroneckerDelta(self, e: Any, exp: Any = None) -> str:
        if r"\delta" in self.taken:
            return rf"\left[{' = '.join(self._print(i) for i in e.args)}\right]"
        return rf"\delta_{{{self.places(e.args)}}}"

    def _print_Quotient(self, e: Any, exp: Any = None) -> str:
        return rf"\left\lfloor \frac{{{self._print(e.args[0])}}}{{{self._print(e.args[1])}}} \right\rfloor"

    def _print_FromEnd(self, e: Any, exp: Any = None) -> str:
        return rf"\left({self._print(e.args[0])} \bmod {self._print(e.args[1])}\right)"

    def _print_Within(self, e: Any, exp: Any = None) -> str:
        return rf"\left[{self.bounds(e)}\right]"

    def _print_Sigma(self, e: Any) -> str:
        with self.scope(e, [limit[0] for limit in e.limits]):
            return rf"\sum_{{{self.limits(e.limits, e.function)}}} {self._body(e.function)}"

    def _print_Fold(self, e: Any, exp: Any = None) -> str:
        name, body, limits = e.args
        sign = {"prod": r"\prod", "max": r"\max", "min": r"\min"}.get(name.name, rf"\operatorname*{{{name.name}}}")
        with self.scope(e, [limits[0]]):
            if (left_out := _left_out(e)) is not None:
                return rf"{sign}_{{{self._print(limits[0])} \ne {self._print(left_out[0])}}} {self._body(left_out[1])}"
            return rf"{sign}_{{{self.limits([limits], body)}}} {self._body(body)}"

    def _print_Last(self, e: Any) -> str:
        value, hit, default, *limits = e.args
        with self.scope(e, [limit[0] for limit in limits]):
            shown = [self._print(part) for part in (value, hit, default)]
            sign = rf"\operatorname*{{last}}_{{{self.limits(limits, value, hit)}}}"
            return rf"\begin{{cases}} {sign} {shown[0]} & {shown[1]} = 1 \\ {shown[2]} & \text{{otherwise}} \end{{cases}}"

    def _body(self, e: Any) -> str:
        text = self._print(e)
        return rf"\left({text}\right)" if isinstance(e, sp.Add) else text

    def _needs_mul_brackets(self, expr: Any, first: bool = False, last: bool = False) -> bool:
        if isinstance(expr, _BIG):
            return not last
        return super()._needs_mul_brackets(expr, first, last)  # type: ignore[misc, no-any-return]


def _is_said(k: Any, bodies: Any) -> bool:
    """True if an index alone is an index of some tensor, and all such dimensions have its size."""
    sizes = {n for body in bodies for n in _sizes(k, body)}
    return sizes == {index_algebra.size(k)}


def _sizes(k: Any, body: Any) -> Iterator[int]:
    for e in body.atoms(sp.Indexed, index_algebra.Element):
        at = e.indices if isinstance(e, sp.Indexed) else e.args[1:]
        shape = e.base.shape if isinstance(e, sp.Indexed) else e.args[0].func.application.shape
        yield from (int(n) for n, place in zip(shape, at, strict=True) if place == k)


def _left_out(e: Any) -> Any:
    """Return i and f(j) for the product of (1 if j = i else f(j)) over all j, else None."""
    name, body, limits = e.args
    if name.name != "prod" or not isinstance(body, sp.Piecewise) or len(body.args) != 2 or body.args[1].cond != sp.true:
        return None
    (one, condition), (rest, _) = body.args
    delta = condition.lhs if isinstance(condition, sp.Ne) and condition.rhs == 0 else None
    if one != 1 or not isinstance(delta, sp.KroneckerDelta) or limits[0] not in delta.args or not _is_said(limits[0], (rest,)):
        return None
    if limits[1] != 0 or limits[2] != index_algebra.size(limits[0]) - 1:
        return None
    return next(a for a in delta.args if a != limits[0]), rest


def _big_factor(e: Any) -> Any:
    """Return the only sum or fold among the factors of a product, or None."""
    found = [f for f in e.args if isinstance(f, _BIG)]
    return found[0] if len(found) == 1 else None


def function_name(application: Any) -> str:
    """Return the name of an opaque function: `argsort` for the second output of sort, `jax.f.1` for that of an imported function."""
    name: str = application.row.name
    if application.row.foreign is not None and application.index is not None:
        return f"{name}.{application.index}"
    return name if application.index is None or name not in OUTPUTS else OUTPUTS[name][application.index]
