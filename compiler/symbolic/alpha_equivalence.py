"""Alpha equivalence: values whose formulas differ only in names have the same form. Equal layers have equal forms, and are lowered and
printed once.

A name is an input, or a value that was given one. The form of a value is everything between the names and the value: rows, attributes,
types, literals, and which names are equal. Graphs share equal values, so a form need not record sharing between names.
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.graph import Value, freeze


class Forms:
    """For each value, the number of its form and the names in it, in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[Value, tuple[int, tuple[Value, ...]]] = {}

    def name(self, v: Value, kind: Any = ()) -> None:
        """Make the value a name from now on; names of different kinds, such as those of different rows, have different forms."""
        self._known[v] = self._number(("name", v.shape, v.dtype, kind)), (v,)

    def alone(self, v: Value) -> None:
        """Give the value a form of its own, which no other value has."""
        self._known[v] = self._number(("alone", id(v))), ()

    def of(self, v: Value) -> tuple[int, tuple[Value, ...]]:
        if v not in self._known:
            self._known[v] = self._built(v)
        return self._known[v]

    def _built(self, v: Value) -> tuple[int, tuple[Value, ...]]:
        """Compute the form of a value from those of its arguments, which must be known."""
        places: dict[Value, int] = {}
        args: list[Any] = []
        for a in v.args:
            if a is None:
                args.append(None)
            else:
                form, names = self._known[a]
                args.append((form, *[places.setdefault(n, len(places)) for n in names]))
        attrs = freeze(v.attrs) if v.attrs else None
        return self._number((v.op, id(v.row), attrs, v.shape, v.dtype, tuple(args))), tuple(places)

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
