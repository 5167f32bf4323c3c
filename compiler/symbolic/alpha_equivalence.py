"""Forms: what is common to values whose formulas differ in names only. Equal layers have equal forms, and are lowered, printed once.

A name is an input, or a value that has got one. What stands between names and a value is its form: rows, attributes, types, numbers,
and which names are the same. Graphs share equal values, so a form need not say what is shared between names.
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.graph import Value, freeze


class Forms:
    """For each value the number of its form, and the names that it is made of, in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[Value, tuple[int, tuple[Value, ...]]] = {}

    def name(self, v: Value, kind: Any = ()) -> None:
        """From here on the value is a name; names of different kinds are told apart, such as those of different rows."""
        self._known[v] = self._number(("name", v.shape, v.dtype, kind)), (v,)

    def alone(self, v: Value) -> None:
        """A value like no other."""
        self._known[v] = self._number(("alone", id(v))), ()

    def of(self, v: Value) -> tuple[int, tuple[Value, ...]]:
        if v not in self._known:
            self._known[v] = self._built(v)
        return self._known[v]

    def _built(self, v: Value) -> tuple[int, tuple[Value, ...]]:
        """From the forms of the arguments, which come first."""
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
