"""SymbolicScalar: a Python number that a traced program must not depend on, unless Python reads its value.

Python float arguments of a compiled function change from call to call. In their place a traced function gets a `SymbolicScalar`: it has the
value of this call, passes for a float (`isinstance(x, float)` holds), and records how it was computed. Where it meets a tensor it becomes
an input of the program. Any other use by Python becomes a condition of the program, which is checked before each run: the outcome of a
comparison, the result of `int(x)`, or, for everything that needs the value itself (`math.sin(x)`, `f"{x}"`, `hash(x)`), its exact value. No
code can read the value unnoticed: a SymbolicScalar is no float at the C level, so the interpreter's own functions must call its conversion
methods.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

_NUMBERS = (bool, int, float, complex)
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": operator.abs}
_PREDICATES: dict[str, Callable[..., Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
    "bool": bool, "int": int, "floor": math.floor, "ceil": math.ceil, "round": round, "kind": type, "itself": lambda x: x,
}  # fmt: skip
_SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_LONGEST_OPERAND = 100
"""Characters of an operand in the text of a condition."""
_SYMBOLS |= {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}


class ScalarForm:
    """How a symbolic scalar is computed: the name of a row, and its operands, which are forms, inputs and Python numbers.

    Operands are shared: Newton's method on a float uses each iterate three times. `walk_form` computes them once.
    """

    __slots__ = ("name", "operands", "values")

    def __init__(self, name: str, *operands: Any) -> None:
        self.name, self.operands = name, operands
        self.values: dict[Any, Any] = {}
        """The graph values of this form by dtype, once they were created."""


def walk_form(form: Any, known: dict[int, Any], leaf: Callable[[Any], Any], apply: Callable[[ScalarForm, list[Any]], Any]) -> Any:
    """Return the result for a form, each part of it once and without recursion: `leaf(part)`, or `apply(part, results of its operands)`
    for a ScalarForm for which `leaf` returns None. `known` maps the ids of parts to results, and is filled."""
    waiting = [form]
    while waiting:
        part = waiting[-1]
        if id(part) not in known:
            result = leaf(part)
            if result is None:
                missing = [x for x in part.operands if id(x) not in known]
                if missing:
                    waiting += missing
                    continue
                result = apply(part, [known[id(x)] for x in part.operands])
            known[id(part)] = result
        waiting.pop()
    return known[id(form)]


class SymbolicScalar:
    """A number and its form: an input (an object that `ScalarInputs` maps to a number), or a ScalarForm."""

    __slots__ = ("_add_condition", "form", "number", "value")

    def __new__(cls, number: Any = 0.0, *made_of: Any) -> Any:
        """Return a Python number for `type(x)(number)`, as generic code writes it."""
        if made_of:
            return super().__new__(cls)
        return (int if issubclass(cls, SymbolicInt) else float)(number)

    def __init__(self, number: Any, form: Any, add_condition: Callable[[ScalarCondition], None]) -> None:
        self.number, self.form, self._add_condition = number, form, add_condition
        self.value: Any = None
        """The graph value of this number, once it was created."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.number)

    def guard(self, predicate: str, *operands: Any) -> Any:
        """Evaluate a predicate; its outcome becomes a condition of the program."""
        condition = ScalarCondition(predicate, (self, *operands))
        self._add_condition(condition)
        return condition.expected

    def specialize(self) -> Any:
        """Return the exact value, which becomes a condition of the program."""
        return self.guard("itself")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.number, name):
            raise AttributeError(f"'{type(self.number).__name__}' object has no attribute '{name}'")
        return getattr(self.specialize(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.specialize(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*(x.specialize() if is_symbolic_scalar(x) else x for x in inputs), **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.number), (self.specialize(),)

    def __format__(self, spec: str) -> str:
        return format(self.specialize(), spec)

    def __round__(self, digits: int | None = None) -> Any:
        return self.guard("round") if digits is None else round(self.specialize(), digits)

    def __pos__(self) -> SymbolicScalar:
        return self


class SymbolicInt(SymbolicScalar):
    """A symbolic integer, which may be an index."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self.specialize())


for _cls, _kind in ((SymbolicScalar, float), (SymbolicInt, int)):  # so that messages of Python and libraries say float and int
    _cls.__name__, _cls.__qualname__, _cls.__module__ = _kind.__name__, _kind.__qualname__, _kind.__module__


def is_symbolic_scalar(x: Any) -> bool:
    """True for a symbolic scalar. isinstance() would see a float or an int."""
    return type(x) is SymbolicScalar or type(x) is SymbolicInt


def make_symbolic_scalar(number: Any, form: Any, add_condition: Callable[[ScalarCondition], None]) -> SymbolicScalar:
    """Return a SymbolicInt for an integer, else a SymbolicScalar."""
    return (SymbolicInt if isinstance(number, int) else SymbolicScalar)(number, form, add_condition)


class ScalarInputs(Protocol):
    """Other numbers for the inputs of conditions: calling it with an input returns its number. `known` has the results for forms."""

    known: dict[int, Any]

    def __call__(self, value: Any, /) -> Any: ...


class ScalarCondition:
    """A predicate on symbolic scalars, with its outcome during the trace. Outcomes are compared by type and bits."""

    def __init__(self, predicate: str, operands: tuple[Any, ...]) -> None:
        self.predicate = predicate
        self.operands = tuple(_bare(x) for x in operands)
        self.expected = _PREDICATES[predicate](*(x.number if is_symbolic_scalar(x) else x for x in operands))

    def holds(self, inputs: ScalarInputs) -> bool:
        """True if the outcome is the same for the numbers that `inputs` returns."""
        return _same_bits(self.evaluate(inputs), self.expected)

    def evaluate(self, inputs: ScalarInputs) -> Any:
        """Return the outcome for other numbers; an exception that Python raises is an outcome too."""
        try:
            return _PREDICATES[self.predicate](*(evaluate(form, inputs) for form in self.operands))
        except (ArithmeticError, ValueError, TypeError) as error:
            return error

    def text(self, name: Callable[[Any], str]) -> str:
        """Format the condition, with names for inputs: `rate > 0.5`."""
        words = [_text(form, name) for form in self.operands]
        if self.predicate in ("itself", "kind"):
            return words[0]
        symbol = _SYMBOLS.get(self.predicate)
        return f"{self.predicate}({words[0]})" if symbol is None else f"{words[0]} {symbol} {words[1]}"


def _same_bits(x: Any, y: Any) -> bool:
    if type(x) is not type(y):
        return False
    return repr(x) == repr(y) if isinstance(x, (float, complex)) else bool(x == y)  # -0.0 differs from 0.0, nan equals nan


def _bare(x: Any) -> Any:
    return x.form if is_symbolic_scalar(x) else x


def evaluate(form: Any, inputs: ScalarInputs) -> Any:
    """Return the number that a form evaluates to, computed as Python does."""

    def leaf(x: Any) -> Any:
        return x if type(x) in _NUMBERS else None if type(x) is ScalarForm else inputs(x)

    def apply(part: ScalarForm, numbers: list[Any]) -> Any:
        return (_UNARY if part.name in _UNARY else _BINARY)[part.name](*numbers)

    return walk_form(form, inputs.known, leaf, apply)


def _text(form: Any, name: Callable[[Any], str]) -> str:
    """Format a form. Parts that are long are shown as `...`: their texts grow exponentially where operands are shared."""

    def leaf(x: Any) -> str | None:
        return repr(x) if type(x) in _NUMBERS else None if type(x) is ScalarForm else name(x)

    def apply(part: ScalarForm, words: list[str]) -> str:
        words = [word if len(word) <= _LONGEST_OPERAND else "..." for word in words]
        return f"{part.name}({words[0]})" if part.name in _UNARY else f"({words[0]} {_SYMBOLS[part.name]} {words[1]})"

    text: str = walk_form(form, {}, leaf, apply)
    return text


def _number_of(x: Any) -> Any:
    """Return the number of a symbolic or plain operand; None for anything else."""
    return x.number if is_symbolic_scalar(x) else x if type(x) in _NUMBERS else None


def _carried(name: str, x: Any, y: Any) -> Any:
    a, b = _number_of(x), _number_of(y)
    if a is None or b is None:
        return NotImplemented
    one = x if is_symbolic_scalar(x) else y
    number = _BINARY[name](a, b)
    result = make_symbolic_scalar(number, ScalarForm(name, _bare(x), _bare(y)), one._add_condition)
    if name in ("div", "pow"):  # division by zero raises, and roots of negative numbers are complex
        result.guard("kind")
    return result


def _install_arithmetic(name: str, word: str) -> None:
    def forward(self: SymbolicScalar, other: Any) -> Any:
        return _carried(name, self, other)

    def backward(self: SymbolicScalar, other: Any) -> Any:
        return _carried(name, other, self)

    setattr(SymbolicScalar, f"__{word}__", forward)
    setattr(SymbolicScalar, f"__r{word}__", backward)


def _install_comparison(name: str) -> None:
    def compare(self: SymbolicScalar, other: Any) -> Any:
        return NotImplemented if _number_of(other) is None else self.guard(name, other)

    setattr(SymbolicScalar, f"__{name}__", compare)


def _install_alone(name: str) -> None:
    def alone(self: SymbolicScalar) -> Any:
        if isinstance(self.number, complex) and name == "abs":  # the result is real, its operand complex
            return abs(self.specialize())
        return make_symbolic_scalar(_UNARY[name](self.number), ScalarForm(name, self.form), self._add_condition)

    setattr(SymbolicScalar, f"__{name}__", alone)


def _install_predicate(method: str, predicate: str) -> None:
    setattr(SymbolicScalar, f"__{method}__", lambda self: self.guard(predicate))


def _install_exact(method: str, action: Callable[..., Any], reflected: bool = False) -> None:
    def direct(self: SymbolicScalar, *others: Any) -> Any:
        return action(self.specialize(), *(x.specialize() if is_symbolic_scalar(x) else x for x in others))

    setattr(SymbolicScalar, f"__{method}__", direct)
    if reflected:
        setattr(SymbolicScalar, f"__r{method}__", lambda self, other: action(other, self.specialize()))


for _name in _BINARY:
    _install_arithmetic(_name, {"div": "truediv"}.get(_name, _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _install_comparison(_name)
for _name in _UNARY:
    _install_alone(_name)
for _name, _question in {"bool": "bool", "int": "int", "trunc": "int", "floor": "floor", "ceil": "ceil"}.items():
    _install_predicate(_name, _question)
_EXACT: dict[str, Callable[..., Any]] = {"float": float, "complex": complex, "hash": hash, "str": str, "repr": repr}
for _name, _action in _EXACT.items():
    _install_exact(_name, _action)
for _name, _action in {"mod": operator.mod, "floordiv": operator.floordiv, "divmod": divmod}.items():
    _install_exact(_name, _action, reflected=True)
