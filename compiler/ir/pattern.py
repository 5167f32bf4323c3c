"""Patterns: the fourth `xp`. An expression of variables, written as the rows' own rules are, is a tree that is matched against a graph.

    x = variable("x")
    Rule("softplus", P.log(1 + P.exp(x)), P.softplus(x, beta=1, threshold=inf))     # prints as log(1 + exp(x)) -> softplus(x)

A variable binds a value; if it occurs again, it must be the same value. A `constant` variable binds the number that fills a value. A number
matches every value that is filled with it, whatever its dtype. Operands of commutative rows match in either order. Each attribute of a row
is named: a variable binds it, anything else must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from symgrad.compiler.ir.graph import OUTPUT
from symgrad.compiler.ir.normal_form import POLYNOMIAL
from symgrad.ops.infix import install, reflected
from symgrad.ops.namespace import namespace
from symgrad.ops.spec import Row

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace, Operators

    class PatternOperators(Operators["Pattern"]): ...
else:
    PatternOperators = object

VARIABLE, CONSTANT = "variable", "constant"
_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "matmul": ("@", 2)}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_known: dict[Any, Pattern] = {}

Bindings = Mapping[str, Any]


class Pattern(PatternOperators):
    """A variable, or an application of a row to patterns and numbers; made by `P` and `variable`. Equal patterns are one object."""

    __slots__ = ("args", "argument_names", "attribute_names", "attrs", "op", "polynomial")
    op: str
    args: tuple[Any, ...]
    attrs: dict[str, Any]
    polynomial: bool
    """True for a sum or product, which has a normal form."""
    argument_names: tuple[str, ...] | None
    """The variables of a pattern such as f(x, y, axis=axis), which matches every application of f; None for other patterns."""
    attribute_names: tuple[tuple[str, str], ...]
    """Its attributes with their variables."""
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return f"<pattern {self}>"

    @property
    def names(self) -> frozenset[str]:
        """The names of the variables."""
        if self.op in (VARIABLE, CONSTANT):
            return frozenset(self.args)
        return frozenset().union(*(p.names for p in (*self.args, *self.attrs.values()) if isinstance(p, Pattern)))

    @property
    def ops(self) -> frozenset[str]:
        """The ops of all applications, and of variables."""
        return frozenset((self.op,)).union(*(a.ops for a in self.args if isinstance(a, Pattern)))


def _pattern(op: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Pattern:
    key = op, tuple(_key(a) for a in args), tuple((k, _key(attrs[k])) for k in sorted(attrs))
    if key not in _known:
        made = _known[key] = Pattern()
        made.op, made.args, made.attrs, made.polynomial = op, args, attrs, op in POLYNOMIAL
        parts = (*args, *attrs.values())
        plain = op not in (VARIABLE, CONSTANT) and all(isinstance(p, Pattern) and p.op == VARIABLE for p in parts)
        plain = plain and len(set(parts)) == len(parts)
        made.argument_names = tuple(p.args[0] for p in args) if plain else None
        made.attribute_names = tuple((k, p.args[0]) for k, p in attrs.items()) if plain else ()
    return _known[key]


def _key(x: Any) -> Any:
    return (Pattern, id(x)) if isinstance(x, Pattern) else (type(x), repr(x))


def variable(name: str) -> Pattern:
    """Return the variable of this name, which binds a value or an attribute."""
    return _pattern(VARIABLE, (name,), {})


def constant(name: str) -> Pattern:
    """Return the variable of this name that binds the Python number which fills a value."""
    return _pattern(CONSTANT, (name,), {})


def _build(row: Row) -> Any:
    def op(*args: Any, **attrs: Any) -> Any:
        if set(attrs) != set(row.attrs):
            raise TypeError(f"a pattern of {row.name} names each of its attributes {row.attrs}, got {tuple(attrs)}")
        whole = _pattern(row.name, args, attrs)
        return whole if row.outputs == 1 else tuple(_pattern(OUTPUT, (whole,), {"index": i}) for i in range(row.outputs))

    return op


P: Namespace[Pattern] = namespace(_build)
install(Pattern, P)
for _word, _op in {"add": P.add, "mul": P.mul, "sub": P.sub}.items():
    setattr(Pattern, f"__r{_word}__", reflected(_op))  # 1 + x prints as it is written


def build(pattern: Any, xp: Any, bound: Bindings) -> Any:
    """Return the value of a pattern, applied by the namespace `xp`, for the values of its variables."""
    if not isinstance(pattern, Pattern):
        return pattern
    if pattern.op in (VARIABLE, CONSTANT):
        return bound[pattern.args[0]]
    args = [build(a, xp, bound) for a in pattern.args]
    if pattern.op == OUTPUT:
        return args[0][pattern.attrs["index"]]
    return getattr(xp, pattern.op)(*args, **{k: build(a, xp, bound) for k, a in pattern.attrs.items()})


# printing


def _text(pattern: Any, level: int = 0) -> str:
    """Return a pattern as an expression; `level` is the precedence of the operator around it. Attributes are left out."""
    if not isinstance(pattern, Pattern):
        return repr(pattern)
    if pattern.op in (VARIABLE, CONSTANT):
        return str(pattern.args[0])
    if pattern.op in _INFIX:
        sign, own = _INFIX[pattern.op]
        left, right = pattern.args
        return _in_parentheses(f"{_text(left, own)} {sign} {_text(right, own + (sign not in '+*'))}", own < level)
    if pattern.op in _COMPARE:
        left, right = pattern.args
        return _in_parentheses(f"{_text(left, 1)} {_COMPARE[pattern.op]} {_text(right, 1)}", level > 0)
    if pattern.op == "neg":
        return _in_parentheses(f"-{_text(pattern.args[0], 3)}", level > 1)
    if pattern.op == "power":
        return f"{_text(pattern.args[0], 4)}**{_text(pattern.attrs['exponent'])}"
    if pattern.op == OUTPUT:
        return f"{_text(pattern.args[0])}[{pattern.attrs['index']}]"
    return f"{pattern.op}({', '.join(map(_text, pattern.args))})"


def _in_parentheses(text: str, wanted: bool) -> str:
    return f"({text})" if wanted else text
