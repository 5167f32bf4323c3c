"""User-defined ops: `elementwise` makes one from a SymPy expression, and a Function may state its meaning as one.

Neither is entered in the op table, so that two users' "swish" do not clash. In a graph they are replaced by their meaning, written with
the rows of the table.
"""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.symbolic.from_sympy import derivative, translate
from symgrad.compiler.symbolic.printing import TextPrinter
from symgrad.dispatch import recorded
from symgrad.errors import FormulaError, describe
from symgrad.ops.namespace import raw
from symgrad.ops.shapes import elementwise_type
from symgrad.ops.spec import Row


def elementwise(name: str, expression: Any, symbols: Sequence[Any] | None = None) -> Callable[..., Any]:
    """Return an op that applies a SymPy expression to every element: `elementwise("swish", lambda x: x / (1 + sympy.exp(-x)))`.

    `expression` is a function of SymPy symbols, or an expression with its `symbols` in the order of the arguments. Value, derivatives of
    every order, formula and kernel follow from it.
    """
    if not str(name).isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"an op needs a name that is an identifier, such as 'swish', got {name!r}")
    meaning, arguments, labels = _meaning(name, expression, symbols)
    row = _row(name, meaning, arguments)
    op = recorded(row)
    shown = f"{name}({', '.join(labels)}) = {TextPrinter(dict(zip(arguments, labels, strict=True))).doprint(meaning)}"
    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"{shown}, of every element."
    return op


def _meaning(name: str, expression: Any, symbols: Sequence[Any] | None) -> tuple[Any, tuple[Any, ...], list[str]]:
    """Return the expression in internal symbols, these symbols, and the user's names for them."""
    if isinstance(expression, sp.Expr):
        if symbols is None:
            raise TypeError(f"elementwise({name!r}): an expression needs its symbols in the order of the arguments: symbols=(x, y)")
        given = (symbols,) if isinstance(symbols, sp.Symbol) else tuple(symbols)
        ours = _symbols(len(given))
        meaning, labels = expression.xreplace(dict(zip(given, ours, strict=True))), [s.name for s in given]
    elif callable(expression) and symbols is None:
        labels = list(inspect.signature(expression).parameters)
        ours = _symbols(len(labels))
        meaning = expression(*ours)
    else:
        got = describe(expression)
        raise TypeError(f"elementwise({name!r}) takes a function of SymPy's symbols, or an expression and its symbols, got {got}")
    return _checked(f"elementwise({name!r})", meaning, ours), ours, labels


def _symbols(count: int) -> tuple[Any, ...]:
    return tuple(sp.Symbol(f"x{i}", real=True) for i in range(count))


def _checked(who: str, meaning: Any, symbols: tuple[Any, ...]) -> Any:
    meaning = sp.Integer(meaning) if type(meaning) is int else meaning
    if not isinstance(meaning, sp.Expr) or isinstance(meaning, sp.MatrixExpr):
        raise TypeError(f"{who} must be an expression of SymPy's for one element, got {describe(meaning)}")
    foreign = meaning.free_symbols - set(symbols)
    if foreign:
        raise FormulaError(f"{who} mentions {', '.join(sorted(map(str, foreign)))}, which is none of its {len(symbols)} arguments")
    return meaning


def _row(name: str, meaning: Any, symbols: tuple[Any, ...]) -> Row:
    unused = [i for i, s in enumerate(symbols) if s not in meaning.free_symbols]
    if unused or not symbols:
        raise FormulaError(f"elementwise({name!r}) does not depend on argument {unused[0] if unused else 0}: leave it out")
    args = ("x", "y") if len(symbols) == 2 else ("x", *(f"x{i}" for i in range(1, len(symbols))))
    names = dict(zip(symbols, args, strict=True))
    out = sp.Dummy("out", real=True)
    slopes = [derivative(meaning, s).xreplace({meaning: out}) for s in symbols]
    for e in (meaning, *slopes):  # raises now if an expression has no row
        translate(_Anything(), e, dict.fromkeys((*symbols, out), None))
    row_name = f"elementwise.{name}"
    return Row(
        row_name, args, functools.partial(_kernel, meaning, symbols), tuple(_rule(e, symbols, out) for e in slopes),
        tuple(frozenset("out" if s is out else names[s] for s in e.free_symbols) for e in slopes), "float",
        elementwise_type(name, "float"), sympy=lambda sp, *xs: meaning.xreplace(dict(zip(symbols, xs, strict=True))),
        compose=lambda xp, *xs: translate(xp, meaning, dict(zip(symbols, xs, strict=True)), xs[0].dtype), elementwise=True,
        display=f"{name[0].upper()}{name[1:]}Backward0", kinds="bif",
    )  # fmt: skip


class _Anything:
    """A namespace that has every row and computes nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **attrs: None


def _kernel(meaning: Any, symbols: tuple[Any, ...], *arrays: Any) -> Any:
    dtype = next(a.dtype for a in arrays if isinstance(a, (np.ndarray, np.generic)))
    return np.asarray(translate(raw, meaning, dict(zip(symbols, arrays, strict=True)), dtype), dtype)


def _rule(e: Any, symbols: tuple[Any, ...], result: Any) -> Callable[..., Any]:
    def rule(xp: Any, g: Any, out: Any, *args: Any) -> Any:
        dtype = getattr(g, "_array", g).dtype
        return xp.mul(g, translate(xp, e, {result: out, **dict(zip(symbols, args, strict=True))}, dtype))

    return rule


def of_function(xp: Any, row: Row, args: Sequence[Any], is_data: Callable[[Any], bool]) -> Any:
    """Return a call of a Function as its `symbolic` method defines it: a value, or a tuple of them."""
    symbols = {i: sp.Symbol(f"x{i}", real=True) for i, a in enumerate(args) if is_data(a)}
    meaning = row.sympy(sp, *(symbols.get(i, a) for i, a in enumerate(args)))  # type: ignore[misc]
    bindings = {s: args[i] for i, s in symbols.items()}
    dtype = getattr(next(iter(bindings.values())), "_array", next(iter(bindings.values()))).dtype
    found = tuple(
        translate(xp, _checked(f"{row.name}.symbolic()", m, tuple(symbols.values())), bindings, dtype)
        for m in (meaning if isinstance(meaning, tuple) else (meaning,))
    )
    return found if isinstance(meaning, tuple) else found[0]
