"""Types of all parts of a formula, and what each computes: from syntax to typed nodes, with errors at their columns.

`*` becomes a scaling, a product or an outer product, by the types of its operands; unknown sizes are unified. What depends on numbers alone
is computed here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from symgrad.text.functions import CONSTANTS, FUNCTIONS, Function
from symgrad.text.numbers import applied, combined
from symgrad.text.sizes import Size
from symgrad.text.syntax import Node, Syntax
from symgrad.text.tokens import failure
from symgrad.text.types import MATRIX, ROW, SCALAR, VECTOR, Declarations, Type

_MOST_FACTORS = 1000
"""The largest power of a matrix."""
_PRODUCTS = {
    (MATRIX, MATRIX): ("product", MATRIX), (MATRIX, VECTOR): ("product", VECTOR), (ROW, MATRIX): ("product", ROW),
    (ROW, VECTOR): ("product", SCALAR), (VECTOR, ROW): ("outer", MATRIX),
}  # fmt: skip
"""Action and kind of the result of products whose operands are not scalars."""
_ADVICE = {
    (VECTOR, VECTOR): "write x'*y for the scalar product, x.*y for the elementwise one, x*y' for the outer one",
    (ROW, ROW): "transpose one of them, or write .* for the elementwise product",
    (VECTOR, MATRIX): "write A*x or x'*A",
    (MATRIX, ROW): "write A*x' or x*A",
}
_ARITHMETIC = {"+": "add", "-": "subtract", ".*": "scale", "./": "divide", ".^": "power"}
_FOLDED = frozenset(("add", "subtract", "scale", "divide", "power", "elementwise", "negation"))


@dataclass(frozen=True, slots=True)
class Typed:
    """A node with its type: an action applied to earlier nodes."""

    action: str
    args: tuple[int, ...]
    type: Type
    at: int
    value: Any = None
    """A number, the name of an argument, a size, the row of an elementwise function, or the power of a matrix."""


@dataclass(frozen=True, slots=True)
class TypedFormula:
    """A formula with types: its text, the typed nodes in postorder, and the arguments by name, in the order of their first use."""

    text: str
    nodes: tuple[Typed, ...]
    arguments: Mapping[str, Type]
    sizes: Mapping[str, Size]

    @property
    def type(self) -> Type:
        return self.nodes[-1].type


def typed(syntax: Syntax, declarations: Declarations, result: tuple[int, ...] = ()) -> TypedFormula:
    """Return the formula with types, or raise TextError at the column where they do not fit. The sizes of a known `result` are those of
    vector(1), matrix(1) and eye where nothing else tells them."""
    return _Inference(syntax, declarations).run(result)


class _Inference:
    def __init__(self, syntax: Syntax, declarations: Declarations) -> None:
        self.syntax, self.declarations = syntax, declarations
        self.nodes: list[Typed] = []
        self.arguments: dict[str, Type] = {}

    def run(self, result: tuple[int, ...]) -> TypedFormula:
        for node in self.syntax.nodes:
            self.nodes.append(self.folded(_RULES[node.kind](self, node)))
        self.unify_result(result)
        self.check_sizes()
        return TypedFormula(self.syntax.text, tuple(self.nodes), self.arguments, self.declarations.sizes)

    def fail(self, at: int, message: str) -> NoReturn:
        raise failure(self.syntax.text, at, message)

    def folded(self, node: Typed) -> Typed:
        """Return the number that a node is, if all its arguments are numbers; else the node."""
        given = [self.nodes[a] for a in node.args]
        if node.action not in _FOLDED or not all(a.action == "number" for a in given):
            return node
        try:
            return Typed("number", (), node.type, node.at, number(node, [a.value for a in given]))
        except (ArithmeticError, ValueError) as error:
            self.fail(node.at, str(error))

    def unify_result(self, wanted: tuple[int, ...]) -> None:
        """Let unknown sizes of the result be those that are wanted, or those of the transpose if only they fit."""
        sizes = self.nodes[-1].type.sizes
        known = [s.root().value for s in sizes]
        fits = all(k is None or k == n for k, n in zip(known, wanted, strict=False))
        for size, n in zip(sizes, wanted if fits else wanted[::-1], strict=False):
            size.unify(Size(str(n), n))

    def check_sizes(self) -> None:
        """Raise an error for vector(1), matrix(1) and eye if no argument tells their size."""
        known = {s.root() for t in self.arguments.values() for s in t.sizes}
        for node in self.nodes:
            if node.action in ("fill", "eye", "ones", "zeros", "size"):
                for size in [node.value] if node.action == "size" else node.type.sizes:
                    if size.root() not in known and not isinstance(size.root().value, int):
                        self.fail(node.at, f"no argument tells {size.root().described}: declare it as a number, or write ones(3)")

    # names and numbers

    def number(self, node: Node) -> Typed:
        return Typed("number", (), Type(SCALAR), node.at, node.value)

    def name(self, node: Node) -> Typed:
        name: str = node.value
        if name not in self.declarations.types:
            if name in self.declarations.sizes:
                return Typed("size", (), Type(SCALAR), node.at, self.declarations.sizes[name])
            if name in CONSTANTS:
                return Typed("number", (), Type(SCALAR), node.at, CONSTANTS[name])
            if name == "eye":
                return self.identity(node, Size("the size of eye"))
            if name in FUNCTIONS:
                self.fail(node.at, f"{name} is a function: write {name}(...)")
        found = self.declarations.type_of(name)
        if found is None:
            known = ", ".join(self.declarations.types) or "none"
            self.fail(node.at, f"{name[:40]!r} is unknown here; the names are {known}")
        self.arguments.setdefault(name, found)
        return Typed("argument", (), found, node.at, name)

    # functions

    def call(self, node: Node) -> Typed:
        name: str = node.value
        function = FUNCTIONS.get(name)
        if function is None or name in self.declarations.types:
            close = difflib.get_close_matches(name, FUNCTIONS, 1)
            hint = f"did you mean {close[0]}?" if close else f"a product is written {name[:20]}*(...)"
            self.fail(node.at, f"there is no function {name[:40]!r}: {hint}")
        if len(node.args) not in function.arguments:
            wanted = " or ".join(map(str, function.arguments))
            self.fail(node.at, f"{name} takes {wanted} argument{'s' if wanted != '1' else ''}, got {len(node.args)}: {function.meaning}")
        for a in node.args:
            self.check_argument(name, function, self.nodes[a])
        return _CALLS[function.rule](self, node, function)

    def check_argument(self, name: str, function: Function, given: Typed) -> None:
        if function.kinds and given.type.kind not in function.kinds:
            self.fail(given.at, f"{name} takes a {' or '.join(function.kinds)}, got {given.type}: {function.meaning}")
        if function.square and not given.type.sizes[0].unify(given.type.sizes[1]):
            self.fail(given.at, f"{name} takes a square matrix, got {given.type}")

    def applied(self, node: Node, function: Function, result: Type) -> Typed:
        return Typed(function.action, node.args, result, node.at, function.row or None)

    def same(self, node: Node, function: Function) -> Typed:
        return self.applied(node, function, self.nodes[node.args[0]].type)

    def extreme(self, node: Node, function: Function) -> Typed:
        if len(node.args) == 1:
            return Typed(f"{node.value}_element", node.args, Type(SCALAR), node.at)
        return self.applied(node, function, self.elementwise(node, node.value))

    def diagonal(self, node: Node, function: Function) -> Typed:
        given = self.nodes[node.args[0]].type
        if given.kind == VECTOR:
            return self.applied(node, function, Type(MATRIX, given.sizes * 2))
        if not given.sizes[0].unify(given.sizes[1]):
            self.fail(node.at, f"diag takes a square matrix, got {given}")
        return self.applied(node, function, Type(VECTOR, given.sizes[:1]))

    def filled(self, node: Node, function: Function) -> Typed:
        sizes = (Size("the rows of matrix(...)"), Size("the columns of matrix(...)"))
        one = (Size("the size of vector(...)"),)
        return self.applied(node, function, Type(MATRIX, sizes) if function.rule == "matrix" else Type(VECTOR, one))

    def sized(self, node: Node, function: Function) -> Typed:
        sizes = tuple(self.size(node, a) for a in node.args)
        return Typed(function.action, (), Type((VECTOR, MATRIX)[len(sizes) - 1], sizes), node.at)

    def identity(self, node: Node, size: Size) -> Typed:
        return Typed("eye", (), Type(MATRIX, (size, size)), node.at)

    def size(self, node: Node, a: int) -> Size:
        given = self.nodes[a]
        if given.action == "size":
            found: Size = given.value
            return found
        if given.action == "number" and isinstance(given.value, Fraction) and given.value.denominator == 1 and 0 <= given.value < 2**31:
            return Size(str(given.value), int(given.value))
        declared = ", ".join(self.declarations.sizes) or "none is declared"
        self.fail(given.at, f"{node.value} takes sizes: integers, or names of declared sizes ({declared})")

    # operators

    def negation(self, node: Node) -> Typed:
        return Typed("negation", node.args, self.nodes[node.args[0]].type, node.at)

    def transpose(self, node: Node) -> Typed:
        given = self.nodes[node.args[0]].type
        kind = {VECTOR: ROW, ROW: VECTOR}.get(given.kind, given.kind)
        return Typed("transpose", node.args, Type(kind, given.sizes[::-1]), node.at)

    def elementwise(self, node: Node, sign: str) -> Type:
        """Return the type of an elementwise operation: a scalar goes with everything, other operands have one type."""
        first, second = (self.nodes[a].type for a in node.args)
        if SCALAR in (first.kind, second.kind):
            return first if second.kind == SCALAR else second
        if first.kind != second.kind:
            hint = ": transpose one of them" if {first.kind, second.kind} == {VECTOR, ROW} else ""
            self.fail(node.at, f"{sign} takes operands of one kind, got {first} and {second}{hint}")
        self.unify(node, f"{sign} takes operands of one size", tuple(zip(first.sizes, second.sizes, strict=True)))
        return first

    def unify(self, node: Node, rule: str, pairs: tuple[tuple[Size, Size], ...]) -> None:
        first, second = (self.nodes[a].type for a in node.args)
        for a, b in pairs:
            if not a.unify(b):
                self.fail(node.at, f"{rule}, got {first} and {second}: {a} and {b} differ; transpose an operand, or declare one size")

    def sum(self, node: Node) -> Typed:
        kinds = {self.nodes[a].type.kind for a in node.args}
        if kinds == {SCALAR, MATRIX}:
            add = f"write matrix(a) to {'add a to' if node.kind == '+' else 'subtract a from'} every element, a*eye for the diagonal"
            self.fail(node.at, f"{node.kind} of a scalar and a matrix is read in two ways: {add}")
        return Typed(_ARITHMETIC[node.kind], node.args, self.elementwise(node, node.kind), node.at)

    def pointwise(self, node: Node) -> Typed:
        return Typed(_ARITHMETIC[node.kind], node.args, self.elementwise(node, node.kind), node.at)

    def product(self, node: Node) -> Typed:
        first, second = (self.nodes[a].type for a in node.args)
        if SCALAR in (first.kind, second.kind):
            return Typed("scale", node.args, first if second.kind == SCALAR else second, node.at)
        found = _PRODUCTS.get((first.kind, second.kind))
        if found is None:
            self.fail(node.at, f"no product of {first} and {second}: {_ADVICE[first.kind, second.kind]}")
        action, kind = found
        if action == "product":
            self.unify(node, "a product needs equal inner sizes", ((first.sizes[-1], second.sizes[0]),))
            return Typed(action, node.args, Type(kind, (*first.sizes[:-1], *second.sizes[1:])), node.at)
        return Typed(action, node.args, Type(kind, (*first.sizes, *second.sizes)), node.at)

    def quotient(self, node: Node) -> Typed:
        first, second = (self.nodes[a].type for a in node.args)
        if second.kind != SCALAR:
            advice = "write ./ to divide element by element" if first.kind in (SCALAR, second.kind) else "divisors are scalars"
            advice = "write A*inv(B), or ./ to divide element by element" if first.kind == second.kind == MATRIX else advice
            self.fail(node.at, f"{first} cannot be divided by {second}: {advice}")
        return Typed("divide", node.args, first, node.at)

    def power(self, node: Node) -> Typed:
        first, exponent = (self.nodes[a] for a in node.args)
        if first.type.kind == MATRIX:
            return self.matrix_power(node, exponent)
        if first.type.kind != SCALAR or exponent.type.kind != SCALAR:
            of = first.type if first.type.kind != SCALAR else exponent.type
            self.fail(node.at, f"^ is the power of a scalar or of a square matrix, not of {of}: write .^ for the power of each element")
        if first.action == "norm2" and exponent.action == "number" and exponent.value == 2:
            self.nodes[node.args[0]] = replace(first, action="sum_of_squares")  # it has a slope at 0
            return Typed("itself", node.args[:1], first.type, node.at)
        return Typed("power", node.args, first.type, node.at)

    def matrix_power(self, node: Node, exponent: Typed) -> Typed:
        given = self.nodes[node.args[0]].type
        n = exponent.value
        if exponent.action == "argument" and n == "T":
            self.fail(node.at, "the transpose is written A'")
        if not isinstance(n, Fraction) or n.denominator != 1 or abs(n) > _MOST_FACTORS:
            advice = f"write an integer up to {_MOST_FACTORS} in size, or .^ for the power of each element"
            self.fail(node.at, f"the power of a matrix is no integer: {advice}")
        if not given.sizes[0].unify(given.sizes[1]):
            self.fail(node.at, f"^ takes a square matrix, got {given}: write .^ for the power of each element")
        return Typed("matrix_power", node.args[:1], given, node.at, int(n))


def number(node: Typed, given: list[Any]) -> Any:
    """Return the number that an action makes of numbers; ArithmeticError if there is none."""
    if node.action == "negation":
        return combined("scale", -1, given[0])
    if node.action == "elementwise":
        return applied(str(node.value), given[0])
    return combined(node.action, *given)


_RULES: dict[str, Callable[[_Inference, Node], Typed]] = {
    "number": _Inference.number,
    "name": _Inference.name,
    "call": _Inference.call,
    "negation": _Inference.negation,
    "transpose": _Inference.transpose,
    "+": _Inference.sum,
    "-": _Inference.sum,
    ".*": _Inference.pointwise,
    "./": _Inference.pointwise,
    ".^": _Inference.pointwise,
    "*": _Inference.product,
    "/": _Inference.quotient,
    "^": _Inference.power,
}
_CALLS: dict[str, Callable[[_Inference, Node, Function], Typed]] = {
    "same": _Inference.same,
    "scalar": lambda run, node, function: run.applied(node, function, Type(SCALAR)),
    "extreme": _Inference.extreme,
    "transposed": lambda run, node, function: run.applied(node, function, Type(MATRIX, run.nodes[node.args[0]].type.sizes[::-1])),
    "diag": _Inference.diagonal,
    "vector": _Inference.filled,
    "matrix": _Inference.filled,
    "sized": _Inference.sized,
    "eye": lambda run, node, function: run.identity(node, run.size(node, node.args[0])),
}
