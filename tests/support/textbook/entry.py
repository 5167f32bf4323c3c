"""One derivative of a textbook: a function of tensors, the source of its derivative, and the derivative as the source writes it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import symgrad as sg
from tests.support.notation.derivation import RUNS, Printed
from tests.support.notation.grammar import parse
from tests.support.notation.matrices import Matrices

_ARGUMENT = re.compile(r"(\w+)(?:\[([0-9,]*)\])?(\S*)")
_DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "": lambda rng, shape: rng.normal(size=shape),
    "+": lambda rng, shape: rng.uniform(0.5, 2.0, shape),
    ">1": lambda rng, shape: rng.uniform(1.5, 3.0, shape),
    "<1": lambda rng, shape: rng.uniform(0.1, 0.9, shape),
    "sym": lambda rng, shape: (lambda a: a + a.T)(rng.normal(size=shape)),
    "spd": lambda rng, shape: (lambda a: a @ a.T + np.eye(shape[0]))(rng.normal(size=shape)),
    "regular": lambda rng, shape: rng.uniform(0.2, 0.8, shape) + 2 * np.eye(shape[0]),
    "onehot": lambda rng, shape: np.eye(shape[1])[rng.integers(shape[1], size=shape[0])],
    "simplex": lambda rng, shape: (lambda a: a / a.sum())(rng.uniform(0.5, 2.0, shape)),
    "sign": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
}
"""What the words after an argument's shape draw: `x[3]+` is positive, `A[3,3]spd` is symmetric and positive definite."""


@dataclass(frozen=True)
class Entry:
    """A derivative of `function`, of the given order in `wrt`."""

    source: str
    """The book, with the number of the equation or of the section."""
    function: Callable[..., Any]
    arguments: str
    """Names with shapes: `X[3,4] a[3] s`; a word behind a shape says which values are drawn, see _DRAWS."""
    wrt: str | tuple[str, str]
    textbook: str
    """The derivative as the source writes it, in the notation that `tests.support.notation` reads."""
    order: int = 1
    at: str = ""
    """The free indices of the textbook's form, if it is in index notation: those of the function first."""
    where: tuple[str, ...] = ()
    """Names that the source defines: `p = softmax(x)`."""
    given: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions of the arguments for which the textbook has names: labels as a matrix, singular vectors."""
    scalar: bool = False
    """True if all arguments are numbers, or stand for elements."""

    @functools.cached_property
    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(7)
        found = {}
        for text in self.arguments.split():
            match = _ARGUMENT.fullmatch(text)
            assert match is not None, text
            name, shape, word = match.groups()
            found[name] = np.asarray(_DRAWS[word](rng, tuple(int(n) for n in shape.split(",")) if shape else ()))
        return found

    @functools.cached_property
    def derivation(self) -> Any:
        """Our derivation of the same function."""
        wrt = self.wrt if isinstance(self.wrt, str) else tuple(sorted(self.wrt, key=list(self.arrays).index))
        return sg.derive(self.function, wrt=wrt, order=self.order)(**{k: sg.tensor(v) for k, v in self.arrays.items()})

    @functools.cached_property
    def position(self) -> int:
        """The position of the derivative among the formulas of the derivation."""
        wanted = (self.wrt,) * self.order if isinstance(self.wrt, str) else self.wrt
        return 1 + self.derivation._names.index(wanted)

    @property
    def formula(self) -> str:
        """The printed right side of our derivative."""
        return self.printed.ends[self.position][1][1]

    @functools.cached_property
    def printed(self) -> Printed:
        return Printed(str(self.derivation), tuple(self.arrays))

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        d = self.derivation
        return d._shape(d._derivatives[self.position - 1])  # type: ignore[no-any-return]

    def numbers_of_formula(self) -> Any:
        """The derivative as our formula's object computes it."""
        return self.derivation.evaluate(self.derivation._source.given(), wide=True)[self.position]

    def numbers_of_textbook(self) -> Any:
        """The derivative as the textbook's form computes it."""
        given = self.arrays | {name: function(**self.arrays) for name, function in self.given.items()}
        for line in self.where:
            name, _, text = line.partition(" = ")
            value = Matrices(given).value(parse(text, tuple(given)), None)
            given[name] = value.ravel() if value.ndim == 2 and value.shape[1] == 1 else value
        run = RUNS["index" if self.at else "scalar" if self.scalar else "matrix"](given, tuple(given))
        return run.formula(self.textbook, self.at.split(), self.shape)


def entries(scalar: bool, *rows: tuple[Any, ...]) -> tuple[Entry, ...]:
    return tuple(Entry(*row[:5], **(row[5] if len(row) > 5 else {}), scalar=scalar) for row in rows)
