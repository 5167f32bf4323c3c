"""Plans of segments: a segment is a linear value as a function of leaves, planned once for each form.

    matmul(matmul(A, B), x)  ->  matmul(A, matmul(B, x))
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from symgrad.compiler.algebra.affine import Label, NotAffine
from symgrad.compiler.algebra.combine import combine
from symgrad.compiler.algebra.cost import flops_of, nanoseconds
from symgrad.compiler.algebra.eliminate import normal_terms
from symgrad.compiler.algebra.emit import compute_dtype
from symgrad.compiler.algebra.expand import ADDING, SOURCES, SUMMING, expand
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, LITERAL, Value, input_value, toposort
from symgrad.compiler.ir.subgraph import substitute

MAX_VALUES = 64
"""Segments with more values stay as they are."""
_MAX_WORK = 24
"""Segments with more factors, in all terms together, stay as they are."""
_WORK, _WORK_PER_VALUE = 200, 3
"""How many factors are planned for a graph, in all terms of all forms."""
_PLAIN = frozenset(("transpose", "permute", "t", "reshape", "squeeze", "unsqueeze", "clone"))
_SAVED = 0.1
"""A plan replaces a segment only if it saves at least this share of its operations."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A value computed from leaves: as written, or as planned."""

    root: Value
    leaves: tuple[Value, ...]
    value: Value
    """The value that computes the root from the leaves."""
    computed: tuple[Value, ...]
    """The values between the leaves and `value`."""
    reached: tuple[Value, ...]
    """The leaves, and the values between them and the root as written."""
    written: int
    """The operations of the segment as written."""

    @cached_property
    def leaf_set(self) -> frozenset[Value]:
        return frozenset(self.leaves)

    @property
    def planned(self) -> bool:
        return self.value is not self.root


class Planner:
    """Plans segments of one graph; `position` orders its values."""

    def __init__(self, position: Mapping[Value, int]) -> None:
        self.position = position
        self.forms: dict[Value, Value] = {}
        self.work = _WORK + _WORK_PER_VALUE * len(position)
        """How many more factors may be planned: planning takes time in proportion to the graph."""

    def segment(self, root: Value, leaves: Container[Value]) -> Segment:
        """Return the segment from `root` down to the leaves, planned if that is cheaper."""
        inside = toposort((root,), leaves)
        found = sorted((v for v in inside if v in leaves or v.op == INPUT), key=self.position.__getitem__)
        known = frozenset(found)
        computed = _computed(inside, known)
        written = flops_of(computed)
        value = root
        terms, factors = count_terms(inside, known)
        if len(computed) <= MAX_VALUES and terms * factors <= _MAX_WORK and is_contraction(computed):
            places = {v: input_value(i, v.shape, v.dtype) for i, v in enumerate(found)}
            (form,) = substitute([root], places)
            plan = self._plan(form, written, terms * factors)
            if plan is not form:
                (value,) = substitute([plan], {place: v for v, place in places.items()})
                computed = _computed(toposort((value,), known), known)
        return Segment(root, tuple(found), value, tuple(computed), tuple(v for v in inside if v is not root and v.op != LITERAL), written)

    def _plan(self, form: Value, written: int, work: int) -> Value:
        """Return the plan of a form. Work is counted also for forms that other graphs had, so that plans do not depend on them."""
        plan = self.forms.get(form)
        if plan is None:
            self.work -= work
            plan = self.forms[form] = _remembered(form, written) if self.work >= 0 else form
        return plan


def _computed(values: Sequence[Value], leaves: Container[Value]) -> list[Value]:
    return [v for v in values if v.op != LITERAL and v not in leaves]


_plans: dict[Value, Value] = {}
_MAX_PLANS = 4096


def _remembered(form: Value, written: int) -> Value:
    """Return `cheapest(form, written)`, from memory if another graph had the form: value, gradient and their second compilation do."""
    plan = _plans.get(form)
    if plan is None:
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        plan = _plans[form] = cheapest(form, written)
    return plan


def count_terms(values: Sequence[Value], leaves: Container[Value]) -> tuple[int, int]:
    """Return how many terms the last of the values has when it is expanded down to the leaves, and the most factors in one."""
    counts: dict[Value, tuple[int, int]] = {}
    for v in values:
        known = [counts[a] for a in v.args if a is not None] if v not in leaves else []
        if v in leaves or v.op == LITERAL or not known:
            counts[v] = 1, int(v in leaves)
        elif v.op in ADDING:
            counts[v] = sum(n for n, _ in known), max(n for _, n in known)
        else:
            counts[v] = prod(n for n, _ in known), sum(n for _, n in known)
    return counts[values[-1]]


def is_contraction(values: Sequence[Value]) -> bool:
    """True if a plan may be cheaper: at least two rows that are more than a transpose, of which one sums or has zeros at known places."""
    return sum(v.op not in _PLAIN for v in values) > 1 and any(v.op in SUMMING or v.op in SOURCES for v in values)


def cheapest(form: Value, written: int) -> Value:
    """Return the planned form if it is cheaper, else the form itself."""
    try:
        plan = plan_form(form)
    except NotAffine:
        return form
    values = toposort((plan,))
    is_cheaper = flops_of(values) <= written * (1 - _SAVED) and nanoseconds(values) <= nanoseconds(toposort((form,)))
    return plan if is_cheaper else form


def plan_form(form: Value) -> Value:
    """Return a value whose leaves are inputs, in the cheapest order that was found; raise NotAffine if it has no normal form."""
    expanded = expand(form)
    out: list[Label] = []
    for i in expanded.at:
        out += [label for label, _ in sorted(i.coefficients, key=lambda part: -part[1])]
    value = combine(normal_terms(expanded.expression), out, compute_dtype(form.dtype))
    return xp.cast(xp.reshape(value, shape=form.shape), dtype=form.dtype)
