"""Weak: a Python number of which a program that is being traced must not depend, unless Python looks at it.

Arguments of a compiled function that are Python floats change from call to call. In their place a traced function gets a `Weak`: it has the
number of this call, passes for a float (`isinstance(x, float)` holds), and remembers how it was computed. Where it meets a tensor it is an
input of the program. Whatever Python asks it otherwise is a condition of the program, which is checked before each run: the answer to a
comparison, the result of `int(x)`, or, for all that needs the number itself (`math.sin(x)`, `f"{x}"`, `hash(x)`), its exact value.
No code can read the number unseen: to the interpreter's own functions a Weak is no float, so they have to ask for one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

_NUMBERS = (bool, int, float, complex)
_CARRIED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
}  # fmt: skip
_ALONE: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": operator.abs}
_QUESTIONS: dict[str, Callable[..., Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
    "bool": bool, "int": int, "floor": math.floor, "ceil": math.ceil, "round": round, "kind": type, "itself": lambda x: x,
}  # fmt: skip
_SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_SYMBOLS |= {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}


class Weak:
    """A number with its form: an input (any object, which `inputs` in `evaluate` knows), or a row's name and its operands."""

    __slots__ = ("_ask", "form", "number", "value")

    def __new__(cls, number: Any = 0.0, *made_of: Any) -> Any:
        """`type(x)(number)` in code for any kind of number is a Python number."""
        if made_of:
            return super().__new__(cls)
        return (int if issubclass(cls, WeakInt) else float)(number)

    def __init__(self, number: Any, form: Any, ask: Callable[[Condition], None]) -> None:
        self.number, self.form, self._ask = number, form, ask
        self.value: Any = None
        """What stands for it in a graph, once somebody has made that."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.number)

    def asked(self, question: str, *operands: Any) -> Any:
        """Answer a question, whose answer is from now on a condition."""
        condition = Condition(question, (self, *operands))
        self._ask(condition)
        return condition.answer

    def itself(self) -> Any:
        """The number, on which everything depends from now on."""
        return self.asked("itself")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.number, name):
            raise AttributeError(f"'{type(self.number).__name__}' object has no attribute '{name}'")
        return getattr(self.itself(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.asarray(self.itself(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*(x.itself() if is_weak(x) else x for x in inputs), **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.number), (self.itself(),)

    def __format__(self, spec: str) -> str:
        return format(self.itself(), spec)

    def __round__(self, digits: int | None = None) -> Any:
        return self.asked("round") if digits is None else round(self.itself(), digits)

    def __pos__(self) -> Weak:
        return self


class WeakInt(Weak):
    """A whole number may be an index."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self.itself())


for _cls, _kind in ((Weak, float), (WeakInt, int)):  # messages of Python and of libraries call them so, too
    _cls.__name__, _cls.__qualname__, _cls.__module__ = _kind.__name__, _kind.__qualname__, _kind.__module__


def is_weak(x: Any) -> bool:
    """Not by isinstance, to which a Weak says that it is a float."""
    return type(x) is Weak or type(x) is WeakInt


def weak(number: Any, form: Any, ask: Callable[[Condition], None]) -> Weak:
    """A Weak of the kind that the number needs."""
    return (WeakInt if isinstance(number, int) else Weak)(number, form, ask)


class Condition:
    """A question about weak numbers, and the answer with which a program was traced. Answers are compared by type and bits."""

    def __init__(self, question: str, operands: tuple[Any, ...]) -> None:
        self.question = question
        self.forms = tuple(_bare(x) for x in operands)
        self.answer = _QUESTIONS[question](*(x.number if is_weak(x) else x for x in operands))

    def holds(self, inputs: Callable[[Any], Any]) -> bool:
        """Whether the answer is the same for the numbers that `inputs` gives for the forms of inputs."""
        return _alike(self.now(inputs), self.answer)

    def now(self, inputs: Callable[[Any], Any]) -> Any:
        """The answer for other numbers; an error of Python's is an answer, too."""
        try:
            return _QUESTIONS[self.question](*(evaluate(form, inputs) for form in self.forms))
        except (ArithmeticError, ValueError, TypeError) as error:
            return error

    def text(self, name: Callable[[Any], str]) -> str:
        """`rate > 0.5`, with names for inputs."""
        words = [_text(form, name) for form in self.forms]
        if self.question in ("itself", "kind"):
            return words[0]
        symbol = _SYMBOLS.get(self.question)
        return f"{self.question}({words[0]})" if symbol is None else f"{words[0]} {symbol} {words[1]}"


def _alike(x: Any, y: Any) -> bool:
    if type(x) is not type(y):
        return False
    return repr(x) == repr(y) if isinstance(x, (float, complex)) else bool(x == y)  # -0.0 is another number than 0.0, nan is itself


def _bare(x: Any) -> Any:
    return x.form if is_weak(x) else x


def evaluate(form: Any, inputs: Callable[[Any], Any]) -> Any:
    """The number of a form, computed as Python does."""
    if type(form) in _NUMBERS:
        return form
    if not isinstance(form, tuple):
        return inputs(form)
    name, *operands = form
    numbers: Sequence[Any] = [evaluate(x, inputs) for x in operands]
    return _ALONE[name](*numbers) if name in _ALONE else _CARRIED[name](*numbers)


def _text(form: Any, name: Callable[[Any], str]) -> str:
    if type(form) in _NUMBERS:
        return repr(form)
    if not isinstance(form, tuple):
        return name(form)
    head, *operands = form
    words = [_text(x, name) for x in operands]
    return f"{head}({words[0]})" if head in _ALONE else f"({words[0]} {_SYMBOLS[head]} {words[1]})"


def _number_of(x: Any) -> Any:
    """The number of a weak or plain operand; None for what is no such number."""
    return x.number if is_weak(x) else x if type(x) in _NUMBERS else None


def _carried(name: str, x: Any, y: Any) -> Any:
    a, b = _number_of(x), _number_of(y)
    if a is None or b is None:
        return NotImplemented
    one = x if is_weak(x) else y
    number = _CARRIED[name](a, b)
    result = weak(number, (name, _bare(x), _bare(y)), one._ask)
    if name in ("div", "pow"):  # Python refuses to divide by zero, and roots of negative numbers are complex
        result.asked("kind")
    return result


def _install_arithmetic(name: str, word: str) -> None:
    def forward(self: Weak, other: Any) -> Any:
        return _carried(name, self, other)

    def backward(self: Weak, other: Any) -> Any:
        return _carried(name, other, self)

    setattr(Weak, f"__{word}__", forward)
    setattr(Weak, f"__r{word}__", backward)


def _install_comparison(name: str) -> None:
    def compare(self: Weak, other: Any) -> Any:
        return NotImplemented if _number_of(other) is None else self.asked(name, other)

    setattr(Weak, f"__{name}__", compare)


def _install_alone(name: str) -> None:
    def alone(self: Weak) -> Any:
        if isinstance(self.number, complex) and name == "abs":  # of another kind than what it is computed from
            return abs(self.itself())
        return weak(_ALONE[name](self.number), (name, self.form), self._ask)

    setattr(Weak, f"__{name}__", alone)


def _install_question(method: str, question: str) -> None:
    setattr(Weak, f"__{method}__", lambda self: self.asked(question))


def _install_exact(method: str, action: Callable[..., Any], reflected: bool = False) -> None:
    def direct(self: Weak, *others: Any) -> Any:
        return action(self.itself(), *(x.itself() if is_weak(x) else x for x in others))

    setattr(Weak, f"__{method}__", direct)
    if reflected:
        setattr(Weak, f"__r{method}__", lambda self, other: action(other, self.itself()))


for _name in _CARRIED:
    _install_arithmetic(_name, {"div": "truediv"}.get(_name, _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _install_comparison(_name)
for _name in _ALONE:
    _install_alone(_name)
for _name, _question in {"bool": "bool", "int": "int", "trunc": "int", "floor": "floor", "ceil": "ceil"}.items():
    _install_question(_name, _question)
_EXACT: dict[str, Callable[..., Any]] = {"float": float, "complex": complex, "hash": hash, "str": str, "repr": repr}
for _name, _action in _EXACT.items():
    _install_exact(_name, _action)
for _name, _action in {"mod": operator.mod, "floordiv": operator.floordiv, "divmod": divmod}.items():
    _install_exact(_name, _action, reflected=True)
