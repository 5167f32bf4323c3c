"""parse(): a function of tensors from a formula written as text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from symgrad.coercion import float_width, tensors_of
from symgrad.dispatch import tensors as ops
from symgrad.errors import describe
from symgrad.tensor import Tensor
from symgrad.text.evaluation import evaluate
from symgrad.text.functions import FUNCTIONS
from symgrad.text.inference import TypedFormula, typed
from symgrad.text.parser import parsed
from symgrad.text.sizes import Size
from symgrad.text.types import Declarations, Type, argument_name

_MOST_SHOWN = 100


def parse(text: str, /, **types: Any) -> TextFunction:
    """Return the function that a formula in the language of matrixcalculus.org computes: `parse("sum((X*w - y).^2) + lam*norm(w)^2")`.

    Its arguments are the names in the text, in the order of their first use. `types` declares them: `X=("n", "p"), w="p", lam=()`; sizes
    are names or numbers. A name that is not declared is a matrix if it begins with a capital, a scalar if it is Greek (`lam`, `sigma2`,
    `μ`), and else a vector. docs/text-input.md has the grammar.
    """
    for name in types:
        if name in FUNCTIONS:
            raise ValueError(f"{name} is a function of the language: choose another name for the argument")
    syntax = parsed(text)
    formula = typed(syntax, Declarations(types))
    _refuse_unused(formula, types)
    return TextFunction(formula, types)


def _refuse_unused(formula: TypedFormula, types: Mapping[str, Any]) -> None:
    for name in types:
        if name not in formula.arguments:
            known = ", ".join(formula.arguments) or "none"
            raise ValueError(f"{name} is declared, but the formula does not contain it; its names are {known}")


class TextFunction:
    """A function of tensors, given by the text of a formula. It has a signature with the names of the formula, and works with `derive`,
    `compile` and `func` as other functions do."""

    def __init__(self, formula: TypedFormula, types: Mapping[str, Any]) -> None:
        self.__name__ = self.__qualname__ = "f"
        self.text = formula.text
        self._formula, self._types = formula, dict(types)
        self._names = {argument_name(name): name for name in formula.arguments}
        if len(self._names) != len(formula.arguments):
            raise ValueError("lambda and lambda_ would be one argument in Python: choose another name")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in self._names])

    def __call__(self, /, *args: Any, **kwargs: Any) -> Tensor:
        try:
            given = self.__signature__.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"f({', '.join(self._names)}): {error}") from None
        tensors = self._tensors(given)
        arguments = {name: tensors[own] for own, name in self._names.items()}
        sizes = sizes_of(self._formula, arguments)
        return evaluate(self._formula, arguments, sizes, float_width([t for t in tensors.values() if t.ndim] or tensors.values()))

    def _tensors(self, given: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the arguments as tensors of floating-point numbers."""
        try:
            found = tensors_of(list(given.values()))
        except TypeError as error:
            shown = ", ".join(f"{name}: {describe(x)}" for name, x in given.items())
            raise TypeError(f"the arguments of a formula are tensors, arrays and numbers, got {shown} ({error})") from None
        width = float_width([t for t in found if t.ndim] or found)
        return {name: _of_width(t, width) for name, t in zip(given, found, strict=True)}

    @property
    def types(self) -> dict[str, str]:
        """The type of each argument, such as `n × p`, `n`, `scalar`; of unknown sizes, the kind alone."""
        return {own: self._formula.arguments[name].short for own, name in self._names.items()}

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}: {text}" for name, text in self.types.items())
        text = " ".join(self.text.split())
        return f"f({arguments}) = {text if len(text) <= _MOST_SHOWN else f'{text[:_MOST_SHOWN]}...'}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def __reduce__(self) -> Any:
        return functools.partial(parse, self.text, **self._types), ()


def _of_width(t: Tensor, width: Any) -> Tensor:
    """Return a tensor in the dtype of the widest one; scalars and complex numbers keep theirs, which other operands do not take."""
    if t._storage.dtype == width or t.is_complex() or (t.is_floating_point() and not t.ndim):
        return t
    return ops.cast(t, dtype=width)


def sizes_of(formula: TypedFormula, arguments: Mapping[str, Tensor]) -> dict[Size, int]:
    """Return the numbers of all sizes, from the shapes of the arguments; ValueError if the shapes do not fit the types."""
    found: dict[Size, tuple[int, str]] = {}
    for name, of in formula.arguments.items():
        shape = tuple(arguments[name].shape)
        if len(shape) != len(of.sizes):
            raise ValueError(f"{name} is {of} in this formula, got {describe(arguments[name])}: {_advice(name, shape)}")
        for place, (size, n) in enumerate(zip(of.sizes, shape, strict=True)):
            described = f"the {_places(of)[place]} of {name}"
            known, beside = found.setdefault(size.root(), (n, described))
            wanted = size.root().value if isinstance(size.root().value, int) else known
            if n != wanted:
                whose = f"as {beside}" if wanted == known and beside != described else "as declared"
                label = f" ({size})" if isinstance(size.root().value, str) else ""
                raise ValueError(f"{described}{label} is {n}, and has to be {wanted}, {whose}")
    return {size: n for size, (n, _) in found.items()}


def _places(of: Type) -> tuple[str, ...]:
    return ("number of rows", "number of columns") if len(of.sizes) == 2 else ("size",)


def _advice(name: str, shape: tuple[int, ...]) -> str:
    if len(shape) > 2:
        return "the language has scalars, vectors and matrices only"
    sizes = ("()", '"n"', '("n", "p")')[len(shape)]
    return f"declare it with parse(text, {name}={sizes})"
