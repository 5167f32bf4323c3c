"""Names under which the inputs of a formula are handed out as SymPy symbols.

A name stays as it is if `expression.subs(name, 1)` finds it. SymPy reads that string: an identifier that is a keyword, a built-in function
or a name of SymPy (`lambda`, `E`, `beta`) would be read as something else. Such names, and those that are no identifiers (`0.weight`), are
replaced by safe ones. No name is ever parsed here.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from collections.abc import Iterable, Iterator

import sympy as sp

_LETTERS = "ijklmnopqrsabcdefgh"


@functools.cache
def _reserved() -> frozenset[str]:
    return frozenset((*dir(sp), *dir(builtins), *keyword.kwlist, *keyword.softkwlist, "_"))


def is_plain(name: str) -> bool:
    """True if SymPy reads the name as a symbol."""
    return name.isidentifier() and not name.startswith("__") and name not in _reserved()


def safe_names(labels: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a distinct name for each label; plain labels keep theirs."""
    labels = list(labels)
    names = {label: label for label in labels if is_plain(label)}
    used = {*taken, *labels}
    for label in labels:
        if label not in names:
            names[label] = fresh(re.sub(r"\W", "_", label, flags=re.ASCII).lstrip("_") or "x", used)
            used.add(names[label])
    return names


def fresh(stem: str, used: Iterable[str]) -> str:
    """Return a plain name that begins with the stem and is not used: `E` becomes `E_`, `0_weight` becomes `x0_weight`."""
    stem = stem if stem.isidentifier() else f"x{stem}"
    used = frozenset(used)
    candidates = (stem, f"{stem}_", *(f"{stem}_{n}" for n in range(1, len(used) + 3)))
    return next(name for name in candidates if is_plain(name) and name not in used)


def letters(used: Iterable[str]) -> Iterator[str]:
    """Yield names for indices: i, j, k, ..., without those that are used."""
    used = frozenset(used)
    yield from (c for c in _LETTERS if c not in used)
    n = 1
    while True:
        if f"i{n}" not in used:
            yield f"i{n}"
        n += 1
