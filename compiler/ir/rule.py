"""Rules: equations between graphs, as rows with the maths beside them. A `RuleIndex` finds the rule that applies to an application.

Both sides of a rule are patterns; where the right side needs Python, it is a function `result(xp, m)`, where `m` has the bindings by name,
and `m.meta`, the type of the replaced value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from symgrad.compiler.ir.graph import LITERAL, OUTPUT, SPREADS, Value, literal
from symgrad.compiler.ir.match import COMMUTATIVE, Multiple, is_log_of_sum, match, match_multiple, pattern_form, value_form
from symgrad.compiler.ir.normal_form import POLYNOMIAL, PRODUCTS, NormalForm
from symgrad.compiler.ir.pattern import CONSTANT, VARIABLE, Bindings, Pattern, build
from symgrad.ops.table import TABLE

_NUMBER_OPS = SPREADS | {LITERAL}
ONCE = Multiple()
_SPELLINGS = {"exp": ("exp", "expm1"), "log": ("log", "log1p"), "sqrt": ("sqrt", "power", "rsqrt"),
              "square": ("square", "power", "mul", "div"), "power": ("power", "sqrt", "rsqrt", "square")}
"""Ops in whose place another one may stand where normal forms are compared."""
_ROOTS = {"sum": frozenset(("add", "sub", "rsub")), "product": frozenset(("mul", "square", "power")), "root": frozenset(("sqrt", "power")),
          "quotient": frozenset(("div", "rdiv", "reciprocal", "mul", "power", "rsqrt"))}  # fmt: skip
"""Ops at which a sum or a product becomes complete; its multiples contain it."""
_ARITHMETIC = frozenset(("add", "sub", "rsub", "mul", "div", "rdiv", "neg", "reciprocal", VARIABLE, CONSTANT, OUTPUT))
"""Ops that a sum or product may have or not, whatever its pattern is."""


@dataclass(frozen=True, eq=False)
class Rule:
    """`pattern -> result`, where `when` holds. It prints as the equation."""

    name: str
    pattern: Pattern
    result: Any
    """A pattern, a number, or a function of the namespace and the bindings, which may return None: the rule does not apply."""
    when: Callable[[Any], bool] | None = None
    """A condition on the bindings."""
    text: str = ""
    """The right side in print, if it is a function."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """What tests bind variables to: a value to a shape (by default three elements), an array or a function of xp; an attribute to itself; a
    constant to a number (by default 2) or an array of it."""
    differentiable: bool = True
    """False if only the values of both sides are equal, not their derivatives."""

    def __post_init__(self) -> None:
        if callable(self.result) and not self.text:
            raise ValueError(f"rule {self.name!r}: a result that is a function needs a text")
        free = self.result.names - self.pattern.names if isinstance(self.result, Pattern) else ()
        if free:
            raise ValueError(f"rule {self.name!r}: {', '.join(sorted(free))} is not bound on the left side")

    def __str__(self) -> str:
        return f"{self.pattern} -> {self.text or self.result}"

    def find(self, application: Application | Value, normal: bool) -> SimpleNamespace | None:
        """Return the bindings under which the rule applies, None if it does not."""
        names, args = self.pattern.argument_names, application.args
        reads_form = normal and self.pattern.polynomial
        if names is not None and not reads_form and len(names) == len(args) and all([a is not None for a in args]):
            m = SimpleNamespace(meta=application, multiple=ONCE, **dict(zip(names, args, strict=True)))
            for attribute, name in self.pattern.attribute_names:
                m.__dict__[name] = application.attrs[attribute]
            return m if self.when is None or self.when(m) else None
        for bound, multiple in self._matches(application, normal):
            m = SimpleNamespace(meta=application, multiple=multiple, **bound)
            if self.when is None or self.when(m):
                return m
        return None

    def _matches(self, application: Application | Value, normal: bool) -> Iterator[tuple[Bindings, Multiple]]:
        if normal and self.pattern.polynomial:
            form = application.form if isinstance(application, Application) else value_form(application)
            if any([need.isdisjoint(form.ops) for need in self.bases]):
                return iter(())
            return match_multiple(self.form, form, application.shape)
        return ((bound, ONCE) for bound in match(self.pattern, application, {}, normal))

    @cached_property
    def roots(self) -> frozenset[str]:
        """The ops that a value has which a sum or product on the left side matches."""
        if self.form.constant or len(self.form.terms) > 1:
            return _ROOTS["sum"]
        powers = [power for _, power in self.form.terms[0].factors if not isinstance(power, Pattern)]
        if len(powers) == 1 and powers[0] == 0.5:
            return _ROOTS["root"]
        return _ROOTS["product" if all(power > 0 for power in powers) else "quotient"]

    @cached_property
    def needs(self) -> tuple[frozenset[str], ...]:
        """The ops of the left side, each with those that may stand in its place: a graph without one of them has no match."""
        return tuple(frozenset(_SPELLINGS.get(op, (op,))) for op in sorted(self.pattern.ops - _ARITHMETIC))

    @cached_property
    def bases(self) -> tuple[frozenset[str], ...]:
        """The ops of the bases of a sum or product, each with those that may stand in its place."""
        return tuple([frozenset(_SPELLINGS.get(op, (op,))) for op in sorted(self.form.ops - POLYNOMIAL - {VARIABLE})])

    @cached_property
    def form(self) -> NormalForm:
        """The normal form of the left side."""
        return pattern_form(self.pattern)

    def apply(self, xp: Any, application: Application, normal: bool) -> Value | None:
        """Return what replaces an application, in its shape; None if the rule does not apply."""
        m = self.find(application, normal)
        if m is None:
            return None
        result = self.result
        if result.__class__ is Pattern:
            found = m.__dict__[result.args[0]] if result.op == VARIABLE else build(result, xp, m.__dict__)
        else:
            found = result(xp, m) if callable(result) else result
        if found is not None and m.multiple is not ONCE:
            found = _multiplied(xp, found, m.multiple)
        if found is None or (found.__class__ is Value and found.shape == application.shape):
            return found
        return xp.expand(found, shape=application.shape) if isinstance(found, Value) else filled(xp, found, application)


def _multiplied(xp: Any, found: Any, multiple: Multiple) -> Any:
    for base, power in multiple.rest:
        found = found * base if power == 1 else found / base if power == -1 else found * xp.power(base, exponent=power)
    return found if multiple.scale == 1 else -found if multiple.scale == -1 else found * multiple.scale


def filled(xp: Any, value: Any, meta: Any) -> Value:
    """Return a value of type `meta` filled with one number."""
    return xp.expand(literal(value, meta.dtype), shape=meta.shape)  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class Application:
    """An application of a row that is not a value yet."""

    op: str
    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    shape: Any
    dtype: Any
    _form: NormalForm | None = None

    @property
    def form(self) -> NormalForm:
        """Its normal form, which several rules read."""
        if self._form is None:
            self._form = value_form(self)
        return self._form


Test = tuple[int, frozenset[str], Any]
"""What argument i must be: one of these ops, and if it is a literal, this number (None: any)."""


class RuleIndex:
    """Rules by the op at their root, with tests on the arguments that reject most applications without matching."""

    def __init__(self, rules: Iterable[Rule], *, normal: bool) -> None:
        self.normal = normal
        self.rules = tuple(rules)
        self.by_op: dict[str, tuple[tuple[Rule, tuple[tuple[Test, ...], ...]], ...]] = {}
        for rule in self.rules:
            for op in self._heads(rule):
                self.by_op[op] = (*self.by_op.get(op, ()), (rule, self._tests(rule.pattern, op)))

    def _heads(self, rule: Rule) -> frozenset[str]:
        pattern = rule.pattern
        if self.normal and pattern.polynomial:
            return rule.roots
        return frozenset((pattern.op, "log1p")) if self.normal and is_log_of_sum(pattern) else frozenset((pattern.op,))

    def _tests(self, pattern: Pattern, op: str) -> tuple[tuple[Test, ...], ...]:
        """Return the tests for each order of the operands; an application must pass those of one order."""
        if self.normal and pattern.polynomial:
            return self._form_tests(pattern, op)
        if op != pattern.op:
            return ((),)
        orders = (pattern.args, pattern.args[::-1]) if op in COMMUTATIVE else (pattern.args,)
        return tuple(tuple(test for i, p in enumerate(args) if (test := self._test(i, p)) is not None) for args in orders)

    def _form_tests(self, pattern: Pattern, op: str) -> tuple[tuple[Test, ...], ...]:
        """An operand of a sum or product is one of the pattern's bases, or another sum or product."""
        form = pattern_form(pattern)
        if form.ops == {VARIABLE} and all(power == 1 for term in form.terms for _, power in term.factors):
            return ((),)
        ops = POLYNOMIAL.union(*(_SPELLINGS.get(base, (base,)) for base in form.ops - {VARIABLE}))
        return tuple(((i, ops, None),) for i in range(len(TABLE[op].args)))

    def _test(self, i: int, p: Any) -> Test | None:
        if not isinstance(p, Pattern):
            return i, _NUMBER_OPS, p
        if p.op == VARIABLE:
            return None
        if p.op == CONSTANT:
            return i, _NUMBER_OPS, None
        if self.normal and p.polynomial:
            return i, POLYNOMIAL, None
        ops = frozenset((p.op, "log1p")) if self.normal and is_log_of_sum(p) else frozenset((p.op,))
        return i, ops | PRODUCTS if self.normal else ops, None

    def may_apply(self, op: str, args: tuple[Any, ...]) -> list[Rule]:
        """Return the rules that the tests do not reject."""
        found = []
        for rule, orders in self.by_op.get(op, ()):
            for tests in orders:
                for i, ops, wanted in tests:
                    arg = args[i]
                    if arg is None or arg.op not in ops:
                        break
                    if arg.op == LITERAL and wanted is not None and arg.attrs["value"] != wanted and wanted == wanted:  # NaN needs a match
                        break
                else:
                    found.append(rule)
                    break
        return found
