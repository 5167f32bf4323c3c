"""check(): compare an answer, written as text, with a derivative, at random points inside the domain.

Nothing is simplified: two expressions that agree at several random points, to a relative 1e-9 in double precision, are equal. What differs
is compared again up to the layout, a factor, a sign and a constant, which are the usual slips.
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.autograd import no_grad
from symgrad.compiler.symbolic.points import points
from symgrad.compiler.symbolic.verdict import Verdict, quantity
from symgrad.errors import FormulaError, LinAlgError
from symgrad.tensor import wrap
from symgrad.text.evaluation import evaluate
from symgrad.text.function import sizes_of
from symgrad.text.inference import TypedFormula, typed
from symgrad.text.parser import parsed
from symgrad.text.types import KINDS, Declarations, is_name

TOLERANCE = 1e-9
"""Largest difference of equal values, relative to the largest element."""
_SINGLE_TOLERANCE = 1e-4
"""Largest difference where the formula has a JAX function that was traced for single precision, and is compared in it."""
_POINTS = 20
_FEWEST = 5
"""With fewer points inside the domain, no verdict is given."""
_TRIES = 200
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_ROUNDINGS = 3
_NOISE = 64
"""A difference may be this many times the largest effect of that many random roundings,"""
_MOST_NOISE, _ZERO = 1e-6, 1e-12
"""but no more than this, relative to the derivative, or to 1 where the derivative is 0 up to rounding."""


@dataclass(frozen=True)
class _Sample:
    """One point: the arguments, the right value, the answer, and how far rounding alone may move them."""

    arrays: list[Any]
    wanted: Any
    found: Any
    noise: float


@np.errstate(all="ignore")
def check(derivation: Any, source: Any, text: str, wrt: Any = None) -> Verdict:
    """Return how the answer compares with the derivative in `wrt`, a name or several; () is the value itself. The arguments that the
    formula was derived for come from `source`."""
    names, name = _chosen(derivation, wrt)
    shapes = {label: tuple(x.shape) for label, x in zip(derivation.graph.labels, derivation.graph.inputs, strict=True)}
    shape = (*derivation.graph.outputs[0].shape, *(n for label in names for n in shapes[label]))
    if len(shape) > 2:
        raise FormulaError(f"{name} has {len(shape)} dimensions, and an answer is a scalar, vector or matrix: check a part of the function")
    formula = typed(parsed(text), Declarations(_types(shapes), undeclared=False), result=shape)
    answer = tuple(s.root().value for s in formula.type.sizes)
    if answer not in (shape, shape[::-1]):
        return Verdict(formula.text, name, "different", f"{name} is {_kind(shape)}, and the answer is {formula.type}")
    single = any(v.row is not None and v.row.foreign is not None and not v.row.foreign.wide for v in derivation.graph.values)
    tolerance = _SINGLE_TOLERANCE if single else TOLERANCE
    samples = _samples(derivation, source, formula, names, single)
    return _compared(samples, _Comparing(derivation, formula.text, name, formula.type.kind == "row", tolerance))


def _chosen(derivation: Any, wrt: Any) -> tuple[tuple[str, ...], str]:
    """Return the names of the derivative that an answer is for, and how it is written."""
    known = _derivatives(derivation)
    if wrt is None and len(known) > 1:
        listed = ", ".join(f"wrt={names[0] if len(names) == 1 else names!r}" for names in known)
        raise ValueError(f"this derivation has several derivatives, and an answer is for one of them: {listed}")
    names = (known[0] if known else ()) if wrt is None else tuple(wrt) if isinstance(wrt, (tuple, list)) else (wrt,)
    if names and names not in known:
        listed = "; ".join(", ".join(names) for names in known) or "nothing: ask for wrt"
        raise ValueError(f"wrt={wrt!r}: this derivation has the derivatives in {listed}")
    return names, _head(derivation.name, names)


def _head(function: str, names: tuple[str, ...]) -> str:
    """Return a derivative as it is written: `∂²f/∂x∂y`."""
    power = "" if len(names) < 2 else str(len(names)).translate(_RAISED)
    return f"∂{power}{function}/{''.join(f'∂{name}' for name in names)}" if names else function


def _derivatives(derivation: Any) -> list[tuple[str, ...]]:
    """Return the names of the inputs of each derivative."""
    return [tuple(derivation.graph.labels[i] for i in d.wrt) for d in derivation._derivatives]


def _types(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs that the language can name. `lambda_` has its name `lambda`, too."""
    found = {label: shape for label, shape in shapes.items() if is_name(label) and len(shape) < len(KINDS)}
    return found | {label[:-1]: shape for label, shape in found.items() if label[-1] == "_" and keyword.iskeyword(label[:-1])}


def _kind(shape: tuple[int, ...]) -> str:
    return f"a {KINDS[len(shape)]}" + (f" ({' × '.join(map(str, shape))})" if shape else "")


def _samples(derivation: Any, source: Any, formula: TypedFormula, names: tuple[str, ...], single: bool) -> list[_Sample]:
    """Return random points inside the domain, with the values there."""
    if any(x.dtype.kind == "c" for x in (*derivation.graph.inputs, derivation.graph.outputs[0])):
        raise FormulaError("check compares real functions of real arguments, and this one is complex")
    rng = np.random.default_rng(0)
    drawn = points(source.given(), frozenset(source.constants), single, rng)
    samples = list(itertools.islice(_inside(derivation, formula, names, itertools.islice(drawn, _TRIES), rng), _POINTS))
    if len(samples) < _FEWEST:
        raise FormulaError(
            f"of {_TRIES} random points only {len(samples)} are in the domain of the formula, too few for a verdict: derive it for tensors"
            " inside the domain, near which points are drawn, too"
        )
    return samples


def _inside(
    derivation: Any, formula: TypedFormula, names: tuple[str, ...], drawn: Iterator[list[Any]], rng: np.random.Generator
) -> Iterator[_Sample]:
    """Iterate over the points at which the derivative is finite and well-conditioned. The effect of rounding is found by random rounding
    errors: of the arguments, and in the answer of every intermediate result."""
    place = [(), *_derivatives(derivation)].index(names)

    def wanted(arrays: list[Any]) -> Any:
        found = derivation.evaluate(arrays, wide=True)
        return np.asarray(found[place], np.float64) if np.all(np.isfinite(found[0])) else np.array(np.nan)

    for arrays in drawn:
        try:
            here, *beside = wanted(arrays), *(wanted(_rounded(arrays, rng)) for _ in range(_ROUNDINGS))
        except (FormulaError, LinAlgError, np.linalg.LinAlgError):  # a path condition, or the domain
            continue
        noise = _NOISE * max(_largest(b - here) for b in beside)
        most = max(_MOST_NOISE * _largest(here), _ZERO)
        if np.all(np.isfinite(here)) and noise <= most:
            found = _answer(formula, derivation, arrays)
            moved = (_answer(formula, derivation, _rounded(arrays, rng), rng) for _ in range(_ROUNDINGS))
            noise += _NOISE * max(_largest(m - found) for m in moved)
            yield _Sample(arrays, here, found, min(noise, most) if np.isfinite(noise) else 0.0)


def _rounded(arrays: list[Any], rng: np.random.Generator) -> list[Any]:
    """Return arrays, changed by random rounding errors."""
    return [
        np.asarray(a * (1 + np.finfo(a.dtype).eps * rng.integers(-2, 3, a.shape)), a.dtype) if a.dtype.kind == "f" else a for a in arrays
    ]


def _answer(formula: TypedFormula, derivation: Any, arrays: list[Any], rng: np.random.Generator | None = None) -> Any:
    """Return the value of the answer; NaN where it has none. With `rng`, every intermediate result has a random rounding error."""
    each = None if rng is None else lambda t: wrap(_rounded([t._array], rng)[0])
    own = dict(zip(derivation.graph.labels, arrays, strict=False))  # directions of derivatives are inputs, too
    named = {name: own[name] if name in own else own[f"{name}_"] for name in formula.arguments}
    tensors = {name: wrap(a.astype(np.float64)) for name, a in named.items()}
    try:
        with no_grad():
            return np.array(evaluate(formula, tensors, sizes_of(formula, tensors), np.float64, each)._array)
    except LinAlgError:
        return np.array(np.nan)


def _largest(x: Any) -> float:
    return float(np.max(np.abs(x), initial=0))


@dataclass(frozen=True)
class _Comparing:
    """The parts of a verdict that do not depend on the points, and the tolerance."""

    derivation: Any
    text: str
    name: str
    is_row: bool
    tolerance: float

    def agree(self, wanted: Any, found: Any, noise: float = 0.0) -> bool:
        difference = _largest(wanted - found)
        return np.isfinite(difference) and difference <= self.tolerance * max(_largest(wanted), _largest(found)) + noise

    def verdict(self, verdict: str, reason: str, samples: list[_Sample], **more: Any) -> Verdict:
        return Verdict(self.text, self.name, verdict, reason, len(samples), self.tolerance, **more)


def _compared(samples: list[_Sample], how: _Comparing) -> Verdict:
    """Return the first verdict that holds at all points."""
    name = how.name
    layouts = [False, True] if samples[0].wanted.ndim == 2 else [how.is_row]
    for transposed in layouts:
        pairs = [(s.wanted, _laid_out(s, transposed), s.noise) for s in samples]
        if pairs[0][0].shape != pairs[0][1].shape:
            continue
        layout = f"{name} is the transpose of the answer" if transposed else ""
        if all(how.agree(*pair) for pair in pairs):
            return how.verdict("equal up to the layout" if transposed else "equal", layout, samples, transposed=transposed)
        found = _by_factor(pairs, how) or _by_constant(pairs, how)
        if found is not None:
            verdict, reason, more = found
            both = f"{verdict} and the layout" if transposed else verdict
            return how.verdict(both, f"{reason}{', and its transpose' if transposed else ''}", samples, transposed=transposed, **more)
    return _different(samples, how)


def _laid_out(sample: _Sample, transposed: bool) -> Any:
    found = sample.found if sample.found.shape or not sample.wanted.shape else np.broadcast_to(sample.found, sample.wanted.shape)
    return found.T if transposed else found


def _by_factor(pairs: list[tuple[Any, Any, float]], how: _Comparing) -> tuple[str, str, dict[str, Any]] | None:
    """Return the verdict on an answer that has to be multiplied by one number at all points."""
    wanted, found, _ = max(pairs, key=lambda pair: _largest(pair[1]))
    square = float(np.sum(found * found))
    factor = float(np.sum(wanted * found)) / square if square > 0 and np.isfinite(square) else 0.0
    if factor == 0 or not all(how.agree(w, factor * f, abs(factor) * noise) for w, f, noise in pairs):
        return None
    name = how.name
    if how.agree(np.float64(factor), np.float64(-1)):
        return "equal up to the sign", f"{name} is -1 times the answer", {"factor": -1.0}
    if _is_constant([w for w, _, _ in pairs], how) and not wanted.shape:
        return None  # any two numbers have a quotient
    whose = _size_named(factor, how.derivation)
    return "equal up to a factor", f"{name} is {quantity(factor)} times the answer{whose}", {"factor": factor}


def _size_named(factor: float, derivation: Any) -> str:
    """Return a remark on a factor that is the size of an argument, or its inverse."""
    sizes = {label: x.shape for label, x in zip(derivation.graph.labels, derivation.graph.inputs, strict=True)}
    for n in (factor, 1 / factor):
        labels = [label for label, shape in sizes.items() if round(abs(n)) in shape]
        if abs(n - round(n)) < TOLERANCE and abs(n) > 2.5 and labels:
            return f"; {abs(round(n))} is a size of {labels[0]}"
    return ""


def _by_constant(pairs: list[tuple[Any, Any, float]], how: _Comparing) -> tuple[str, str, dict[str, Any]] | None:
    """Return the verdict on an answer to which the same has to be added at all points."""
    allowed = [how.tolerance * max(_largest(w), _largest(f)) + noise for w, f, noise in pairs]
    if not np.all(np.isfinite(allowed)) or _is_constant([w for w, _, _ in pairs], how):
        return None
    differences = [w - f for w, f, _ in pairs]
    exact = int(np.argmin(allowed))  # where rounding counts least
    first, noise = differences[exact], allowed[exact]
    if any(not _largest(d - first) <= most + noise for d, most in zip(differences, allowed, strict=True)):
        return None
    element = float(first.flat[0])
    alike = _largest(first - element) <= 2 * noise
    amount = quantity(element) if alike else "the same array at all points"
    everywhere = " in every element" if alike and first.shape else ""
    reason = f"{how.name} is the answer plus {amount}{everywhere}"
    return "equal up to a constant", reason, {"constant": element if alike else first}


def _is_constant(values: list[Any], how: _Comparing) -> bool:
    return all(how.agree(v, values[0]) for v in values)


def _different(samples: list[_Sample], how: _Comparing) -> Verdict:
    """Return the verdict with the numbers at the first point where the two differ."""
    turned = how.is_row or samples[0].found.shape not in ((), samples[0].wanted.shape)
    apart = [s for s in samples if not how.agree(s.wanted, _laid_out(s, turned), s.noise)]
    sample = apart[0]
    found = _laid_out(sample, turned)
    gaps = np.abs(np.where(np.isfinite(found), found - sample.wanted, np.inf))
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(gaps)), gaps.shape))
    expected, given = float(sample.wanted[at]), float(found[at])
    place = f"{how.name}{list(at) if at else ''}"
    answer = f"{'the transpose of ' if turned else ''}the answer is {f'{given:.6g}' if np.isfinite(given) else 'not defined'}"
    agreeing = len(samples) - len(apart)
    note = f"; they agree at {agreeing} of {len(samples)} points" if agreeing else ""
    point = dict(zip(how.derivation.graph.labels, sample.arrays, strict=False))
    return how.verdict("different", f"{place} is {expected:.6g}, {answer}{note}", samples, point=point, expected=sample.wanted, found=found)
