"""The types of the formula language: scalar, vector, row and matrix with symbolic sizes; their declarations, and what names mean."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symgrad.errors import describe
from symgrad.text.sizes import Size
from symgrad.text.tokens import GREEK

SCALAR, VECTOR, ROW, MATRIX = "scalar", "vector", "row", "matrix"
KINDS = (SCALAR, VECTOR, MATRIX)
_GREEK_NAMES = frozenset((
    "alpha", "beta", "gamma", "delta", "epsilon", "eps", "zeta", "eta", "theta", "iota", "kappa", "lam", "lambda", "mu", "nu", "xi",
    "omicron", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
))  # fmt: skip
_NAME = re.compile(rf"[A-Za-z{GREEK}][A-Za-z0-9_{GREEK}]*")
_STEM = re.compile(r"_?[0-9]*\Z|_.*\Z")


@dataclass(frozen=True, slots=True)
class Type:
    """A kind, and one size for each dimension. A row is a transposed vector."""

    kind: str
    sizes: tuple[Size, ...] = ()

    def __str__(self) -> str:
        if self.kind == MATRIX:
            return f"a matrix ({self.sizes[0]} × {self.sizes[1]})"
        return f"a {self.kind} ({self.sizes[0]})" if self.sizes else "a scalar"

    @property
    def short(self) -> str:
        """The type as a signature shows it: `n × p`, `n`, `scalar`; unknown sizes are left out."""
        known = [str(s) for s in self.sizes if s.root().value is not None]
        return " × ".join(known) if len(known) == len(self.sizes) and known else self.kind


class Declarations:
    """The declared types, the sizes they name, and the rule for names that are not declared."""

    def __init__(self, declared: Mapping[str, Any], undeclared: bool = True) -> None:
        self.sizes: dict[str, Size] = {}
        self.types = {name: self._type(name, given) for name, given in declared.items()}
        self.undeclared = undeclared

    def _type(self, name: str, given: Any) -> Type:
        if not is_name(name):
            raise ValueError(f"{name!r} is no name of the language: names begin with a letter and have letters, digits and _")
        if isinstance(given, str) and given in KINDS:
            return unknown(given, name)
        sizes = given if isinstance(given, (tuple, list)) else (given,)
        if len(sizes) > 2:
            raise ValueError(f"{name} is declared with {len(sizes)} sizes: values are scalars (), vectors (n,) and matrices (n, p)")
        return Type(KINDS[len(sizes)], tuple(self._size(name, s) for s in sizes))

    def _size(self, name: str, given: Any) -> Size:
        if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
            return Size(str(given), given)
        if isinstance(given, str) and is_name(given):
            return self.sizes.setdefault(given, Size(given, given))
        example = '() for a scalar, "n" for a vector, ("n", "p") for a matrix; a size is a name or a number'
        raise TypeError(f"{name} is declared as {describe(given)}: write {example}")

    def type_of(self, name: str) -> Type | None:
        """Return the type of a name, or None if it has to be declared and is not."""
        if name not in self.types:
            if not self.undeclared:
                return None
            self.types[name] = unknown(default_kind(name), name)
        return self.types[name]


def is_name(text: str) -> bool:
    """True for a name of the language."""
    return _NAME.fullmatch(text) is not None


def default_kind(name: str) -> str:
    """Return the kind of a name that is not declared: a capital is a matrix, a Greek letter a scalar, anything else a vector."""
    if name[0].isupper():
        return MATRIX
    stem = _STEM.sub("", name)
    return SCALAR if not name[0].isascii() or stem in _GREEK_NAMES else VECTOR


def unknown(kind: str, name: str) -> Type:
    """Return a type of this kind whose sizes are unknown."""
    if kind == MATRIX:
        return Type(MATRIX, (Size(f"rows of {name}"), Size(f"columns of {name}")))
    return Type(kind, () if kind == SCALAR else (Size(f"size of {name}"),))


def argument_name(name: str) -> str:
    """Return the Python name of an argument: `lambda_` for `lambda`, which Python reserves."""
    return f"{name}_" if keyword.iskeyword(name) else name
