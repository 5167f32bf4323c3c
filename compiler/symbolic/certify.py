"""certify(): compare a formula with eager execution and with numerical derivatives.

Derivatives are compared along random directions, so that the number of evaluations does not grow with the number of elements: by the
complex step, which has almost no rounding error, if every op of the function is analytic; else by central differences.

Long computations lose digits: a difference above the limit is compared with the effect of one rounding of the arguments, scaled by the
number of successive operations. Values too small for a dtype's full precision count as zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.autograd import grad
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, Value, nested, toposort
from symgrad.compiler.symbolic.samples import exactly, with_properties
from symgrad.errors import LinAlgError
from symgrad.graph import Node, Output
from symgrad.ops.assumptions import check
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor, wrap

_DIRECTIONS = 3
_LIMITS = {"eager": (1e-10, 1e-4), "complex step": (1e-9, 1e-3), "central differences": (1e-5, 1e-2)}
"""Largest relative difference in double precision, and in single precision, which is used if the function captures such tensors."""
_ENDLESS = 1000
"""Assumed number of steps of a loop without a known bound."""
_SYMMETRIC = ("eigh", "cholesky")
"""Rows that read one triangle of a matrix that they assume to be symmetric: their derivatives hold along symmetric directions."""
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Comparison:
    """A formula compared with another computation of the same: the largest difference, relative to the largest value."""

    formula: str
    beside: str
    difference: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.difference <= self.limit

    def __str__(self) -> str:
        return f"{self.formula} and {self.beside}: {self.difference:.1e}{'' if self.ok else f', more than {self.limit:.0e}'}"


@dataclass(frozen=True)
class Certificate:
    """The comparisons; true if all of them agree. Notes name the derivatives that numerical steps cannot check."""

    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.comparisons)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = "\n".join(f"  {c}" for c in (*self.comparisons, *self.notes))
        return f"{'the formula agrees' if self.ok else 'the formula does NOT agree'}; relative differences:\n{lines}"

    __repr__ = __str__


def certify(derivation: Any, source: Any, given: Sequence[Any]) -> Certificate:
    """Compare at the given arrays; for specs, at random numbers. Compute in double precision, unless the function captures tensors of
    less, or calls a JAX function that was traced for other types. Square matrices outside of the domain are replaced by matrices inside
    it."""
    rng = np.random.default_rng(0)
    single = any(a.dtype.kind == "f" and a.dtype.itemsize < 8 for a in given[source.arguments :])
    single = single or any(v.row is not None and v.row.foreign is not None and not v.row.foreign.wide for v in derivation.graph.values)
    assumed = {i: words for i, words in derivation.program.assumed if isinstance(i, int)}
    arrays = [_drawn(a, rng, single, assumed.get(i, ()), derivation.graph.labels[i]) for i, a in enumerate(given)]
    symmetric = any(v.op in _SYMMETRIC for v in derivation.graph.values)
    arrays = _inside(source, arrays, symmetric, assumed)
    formulas = derivation.evaluate(arrays, wide=True)
    bounds = _Bounds(derivation.graph, source, arrays, single)
    value = _array(source.run(_tensors(source, arrays, False)))
    moved = lambda arrays: _array(source.run(_tensors(source, arrays, False)))
    found = [bounds.comparison(derivation.name, "eager", formulas[0], value, moved)]
    notes: dict[str, None] = {}
    for d, formula in zip(derivation._derivatives, formulas[1:], strict=True):
        slopes = not any("integer" in assumed.get(i, ()) for i in d.wrt)
        for beside, wanted, directions in _others(derivation.graph, source, arrays, d.wrt, rng, symmetric, slopes):
            slope = functools.partial(_eager, source, wrt=d.wrt, directions=directions)
            c = bounds.comparison(_name(derivation, d.wrt), beside, _along(formula, directions), wanted, slope, value)
            if c.ok or beside == "eager" or not _detaches(derivation.graph, {derivation.graph.inputs[d.wrt[0]]}):
                found.append(c)
            else:
                notes[f"{c.formula}: not compared with {beside}, since the function detaches values, which count as constants"] = None
    worst: dict[tuple[str, str], Comparison] = {}
    for c in sorted(found, key=lambda c: c.difference / c.limit, reverse=True):
        worst.setdefault((c.formula, c.beside), c)
    return Certificate(tuple(worst[key] for key in dict.fromkeys((c.formula, c.beside) for c in found)), tuple(notes))


def _detaches(graph: Graph, chosen: set[Value]) -> bool:
    """True if the graph detaches a value that depends on one of the chosen inputs: its derivative is not the slope of its value."""
    depends = set(chosen)
    for v in graph.values:
        if not depends.isdisjoint(v.args):
            depends.add(v)
            if v.op == "detach" or any(_detaches(inner, set(inner.inputs)) for inner in nested(v).values()):
                return True
    return False


class _Bounds:
    """Limits on the difference of two computations of the same."""

    def __init__(self, graph: Graph, source: Any, arrays: list[Any], single: bool) -> None:
        self.arrays, self.single, self.arguments = arrays, single, source.arguments
        self.type: Any = np.finfo(np.float32 if single else np.float64)
        self.steps = _length(graph)

    def comparison(
        self, formula: str, beside: str, found: Any, wanted: Any, eager: Callable[[list[Any]], Any], value: Any = None
    ) -> Comparison:
        difference, limit = self._apart(found, wanted), _LIMITS[beside][self.single]
        if beside == "central differences":  # they subtract values of the function
            h = 1e-2 if self.single else 1e-3
            limit += 10 * float(self.type.eps) / h * _largest(value) / max(_largest(found), float(self.type.tiny))
        if limit < difference < np.inf:
            limit = max(limit, 3 * self.steps**0.5 * self._noise(eager))  # rounding errors partly cancel
        return Comparison(formula, beside, difference, limit)

    def _noise(self, eager: Callable[[list[Any]], Any]) -> float:
        """Return the largest relative change that one rounding of the arguments causes."""
        here, eps = eager(self.arrays), float(self.type.eps)
        changed: Callable[[Any, float], Any] = lambda a, by: (a * (1 + by)).astype(a.dtype) if a.dtype.kind == "f" else a
        moved = ([changed(a, by) if i < self.arguments else a for i, a in enumerate(self.arrays)] for by in (eps, -eps))
        return max(self._apart(eager(arrays), here) for arrays in moved)

    def _apart(self, found: Any, wanted: Any) -> float:
        scale = max(_largest(wanted), _largest(found), float(self.type.tiny / self.type.eps))
        difference = _largest(np.asarray(found) - np.asarray(wanted)) / scale
        return difference if np.isfinite(difference) else np.inf


def _length(graph: Graph) -> int:
    """Return the largest number of successive operations."""
    depth: dict[Value, int] = {}
    for v in graph.values:
        own = max(map(_length, nested(v).values()), default=1)
        times = v.attrs.get("length", v.attrs.get("max_steps", 1)) if is_control(v) else 1
        depth[v] = own * (_ENDLESS if times is None else times) + max((depth[a] for a in v.args if a is not None), default=0)
    return max((depth[v] for v in graph.outputs), default=1)


def _largest(x: Any) -> float:
    return float(np.max(np.abs(x), initial=0))


def _drawn(a: Any, rng: np.random.Generator, single: bool, words: Sequence[str], label: str) -> Any:
    """Return an array in the precision of the comparison: the given one, which must be what is assumed, or for a spec, random numbers that
    are."""
    if isinstance(a, np.ndarray):
        check(a, words, label)
        change = exactly
    else:
        a = rng.normal(size=a.shape).astype(a.dtype)
        change = functools.partial(with_properties, label=label)
    a = a.astype(np.float64) if a.dtype.kind == "f" and not single else a
    return change(a, words) if words else a


def _is_square(a: Any) -> bool:
    return bool(a.dtype.kind == "f" and a.ndim > 1 and a.shape[-1] == a.shape[-2] > 1)


def _symmetric(a: Any) -> Any:
    return ((a + a.swapaxes(-1, -2)) / 2).astype(a.dtype)


def _definite(a: Any) -> Any:
    """Return A Aᵀ + I."""
    return (a @ a.swapaxes(-1, -2) + np.eye(a.shape[-1])).astype(a.dtype)


def _inside(source: Any, arrays: list[Any], symmetric: bool, assumed: Container[int] = ()) -> list[Any]:
    """Return arguments in the domain of the function: unchanged, else with symmetric, else with positive definite square matrices. Those in
    `assumed` stay what they are."""
    free = [i < source.arguments and i not in assumed and _is_square(a) for i, a in enumerate(arrays)]
    if not any(free):
        return arrays
    keep: Callable[[Any], Any] = lambda a: a
    for change in (_symmetric, _definite) if symmetric else (keep, _definite):
        moved = [change(a) if moves else a for a, moves in zip(arrays, free, strict=True)]
        if _has_value(source, moved):
            return moved
    return arrays


def _has_value(source: Any, arrays: list[Any]) -> bool:
    try:
        return bool(np.all(np.isfinite(_array(source.run(_tensors(source, arrays, False))))))
    except LinAlgError:
        return False


def _tensors(source: Any, arrays: list[Any], requires_grad: bool) -> list[Tensor]:
    """Return tensors of the arguments, followed by the captured ones."""
    own = [wrap(a.copy(), requires_grad and a.dtype.kind in "fc") for a in arrays[: source.arguments]]
    return [*own, *source.captured]


def _array(t: Any) -> Any:
    return t.detach()._array


def _name(derivation: Any, wrt: tuple[int, ...]) -> str:
    power = "" if len(wrt) == 1 else str(len(wrt)).translate(_RAISED)
    return f"∂{power}{derivation.name}/{''.join(f'∂{derivation.graph.labels[i]}' for i in wrt)}"


def _along(derivative: Any, directions: tuple[Any, ...]) -> Any:
    """Apply a derivative to directions, one for each of its last inputs."""
    for v in reversed(directions):
        derivative = np.tensordot(derivative, v, v.ndim) if v.ndim else derivative * v
    return derivative


def _others(
    graph: Graph, source: Any, arrays: list[Any], wrt: tuple[int, ...], rng: np.random.Generator, symmetric: bool,
    slopes: bool,
) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Iterate over derivatives along random directions: of the eager gradient, and with `slopes` of the value by numerical steps, which
    mean nothing at integers."""
    for _ in range(_DIRECTIONS if arrays[wrt[-1]].ndim else 1):
        directions = tuple(rng.normal(size=arrays[i].shape).astype(arrays[i].dtype) for i in wrt)
        if symmetric:  # other directions lead out of the domain
            directions = tuple(_symmetric(v) if _is_square(v) else v for v in directions)
        yield "eager", _eager(source, arrays, wrt, directions), directions
        if slopes and len(wrt) == 1 and wrt[0] < source.arguments:
            yield *_by_steps(graph, source, arrays, wrt[0], directions[0]), directions


def _eager(source: Any, arrays: list[Any], wrt: tuple[int, ...], directions: tuple[Any, ...]) -> Any:
    """Return the eager derivative along the directions: each forward derivative is the transpose of a backward one."""
    leaves = _tensors(source, arrays, True)
    value = source.run(leaves)
    for i, v in zip(wrt, directions, strict=True):
        if not value.requires_grad:  # a constant, such as the derivative of a linear function
            return np.zeros(value.shape)
        seed = wrap(np.ones(value.shape, value._array.dtype), True)
        (pulled,) = grad(value, [leaves[i]], seed, create_graph=True, materialize_grads=True)
        if not pulled.requires_grad:  # for x + 1 it is the seed itself, which has no node either
            return np.zeros(value.shape)
        (value,) = grad(pulled, [seed], wrap(v), create_graph=True, materialize_grads=True)
    return _array(value)


def _by_steps(graph: Graph, source: Any, arrays: list[Any], i: int, v: Any) -> tuple[str, Any]:
    rows = [x.row for x in toposort([graph.outputs[0]]) if x.row is not None]
    if _analytic((*rows, *_recorded(source, arrays))):
        try:
            return "complex step", _complex_step(source, arrays, i, v)
        except (RuntimeError, TypeError):  # an op refuses complex numbers
            return "central differences", _difference(source, arrays, i, v)
    return "central differences", _difference(source, arrays, i, v)


def _analytic(rows: Iterable[Row]) -> bool:
    return all("c" in row.kinds and row.complex == "analytic" for row in rows)


def _recorded(source: Any, arrays: list[Any]) -> Iterator[Row]:
    """Iterate over the rows of the eager history: the graph has simpler ones, such as the root of a sum of squares for a norm. Complex
    arguments have further rows: conj(), which is not analytic, has no row for real ones."""
    seen: set[int] = set()
    waiting = [source.run(_tensors(source, arrays, True))._node]
    while waiting:
        node = waiting.pop()
        node = node.node if isinstance(node, Output) else node
        if isinstance(node, Node) and id(node) not in seen:
            seen.add(id(node))
            waiting += node.inputs
            yield node.row


def _complex_step(source: Any, arrays: list[Any], i: int, v: Any) -> Any:
    """Return Im f(x + i h v) / h."""
    double = arrays[i].dtype == np.float64
    wide, step = (np.complex128, 1e-100) if double else (np.complex64, 1e-15)
    moved = [a.astype(wide) if a.dtype.kind == "f" else a for a in arrays]
    moved[i] = (arrays[i] + 1j * step * v).astype(wide)
    if not _analytic(_recorded(source, moved)):
        raise TypeError("an op is not analytic")
    result = _array(source.run(_tensors(source, moved, False)))
    if result.dtype.kind != "c":
        raise TypeError("the imaginary part was lost")
    return result.imag / step


def _difference(source: Any, arrays: list[Any], i: int, v: Any) -> Any:
    """Return (f(x + h v) - f(x - h v)) / 2 h, extrapolated once."""

    def value(h: float) -> Any:
        moved = [(a + h * v).astype(a.dtype) if k == i else a for k, a in enumerate(arrays)]
        return _array(source.run(_tensors(source, moved, False)))

    slope: Callable[[float], Any] = lambda h: (value(h) - value(-h)) / (2 * h)
    h = 1e-3 if arrays[i].dtype == np.float64 else 1e-2
    return (4 * slope(h / 2) - slope(h)) / 3
