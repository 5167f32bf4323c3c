"""User labels as printed text: without control characters, and in LaTeX escaped, with numbers as subscripts."""

from __future__ import annotations

import re

BAR = "\N{COMBINING MACRON}"
_GREEK = frozenset(
    ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho",
     "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega")
)  # fmt: skip
_ESCAPES = {c: f"\\{c}" for c in "{}$&#_%"} | {"\\": r"\backslash ", "^": r"\hat{}", "~": r"\sim "}


def clean(label: str) -> str:
    """Return a label without control characters, which could move the cursor."""
    return label if label.isprintable() else "".join([c if c.isprintable() else "?" for c in label])


def escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in clean(text))


def latex_label(label: str) -> str:
    """Return a label as LaTeX: `w1` is w₁, `theta` is θ, words are upright, the index of an element is a subscript; a macron becomes a bar
    over the letter before it."""
    if BAR in label:
        letter, _, rest = label.partition(BAR)
        return rf"\bar{{{escaped(letter)}}}" + (f"_{{{escaped(rest)}}}" if rest else "")
    found = re.fullmatch(r"([A-Za-z]+)_?([0-9]*)(?:\[([0-9, ]*)\])?", label)
    if found is None:
        return rf"\mathrm{{{escaped(label)}}}"
    word, digits, index = found.groups()
    text = f"\\{word}" if word in _GREEK else word if len(word) == 1 else rf"\mathrm{{{word}}}"
    subscript = ", ".join(part for part in (digits, (index or "").replace(" ", "")) if part)
    return f"{text}_{{{subscript}}}" if subscript else text
