"""User labels as printed text: without control characters, and in LaTeX escaped, with numbers and what follows _ as subscripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

BAR = "\N{COMBINING MACRON}"
_LETTERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho",
            "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega")  # fmt: skip
_CAPITALS = ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega")
_GREEK = {name: f"\\{name}" for name in (*_LETTERS, *_CAPITALS)} | {"lam": r"\lambda", "lamda": r"\lambda", "Lamda": r"\Lambda"}
"""Words that are printed as letters; `lambda` is a keyword of Python, for which people write `lam`."""
_ACCENTS = {name: f"\\{name}" for name in ("hat", "bar", "tilde", "dot", "ddot", "vec")}
"""Words behind _ that are printed above the letter."""
ACCENTS = tuple(f"{command}{{" for command in _ACCENTS.values())
"""How a label with an accent begins."""
ACCENT = "\ue002"
"""Marks a placeholder for a label that begins with an accent."""
_SIGNS = {
    "∂": r"\partial", "′": "'", "ᵀ": r"^{\top}", "⁻ᵀ": r"^{-\top}", "⁻¹": "^{-1}", "²": "^{2}", "³": "^{3}", "∘": r"\circ", "⊘": r"\oslash",
    "‖": r"\|", "𝟏": r"\mathbf{1}", "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "∞": r"\infty", "⌊": r"\lfloor", "⌋": r"\rfloor",
    "−": "-", "·": r"\cdot", "×": r"\times", "√": r"\surd", "→": r"\to",
}  # fmt: skip
"""Signs of our text in LaTeX's mathematics."""
_SIGN = re.compile(f"({'|'.join(sorted(_SIGNS, key=len, reverse=True))})")
_ESCAPES = {c: f"\\{c}" for c in "{}$&#_%"} | {"\\": r"\backslash ", "^": r"\hat{}", "~": r"\sim "}


def clean(label: str) -> str:
    """Return a label without control characters, which could move the cursor."""
    return label if label.isprintable() else "".join(c if c.isprintable() else "?" for c in label)


def escaped(text: str) -> str:
    """Return text with LaTeX's special characters escaped, and letters that its fonts do not have in ASCII: é is e, 中 is U4E2D."""
    return "".join(_ESCAPES.get(c) or (c if c.isascii() else _without_accent(c)) for c in clean(text))


def _without_accent(character: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", character) if c.isascii() and c.isalnum())
    return plain or f"U{ord(character):04X}"


def latex_text(text: str) -> str:
    """Return a text as LaTeX: words in \\text, and between them signs of mathematics, each with a base of its own. No $ is written."""
    return "".join(rf"\text{{{part}}}" if is_text else f"{{}}{part} " for is_text, part in _parts(text)).strip()


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield runs of letters with True, and signs and Greek letters as commands with False."""
    run = ""
    for part in _SIGN.split(clean(text)):
        for c in [part] if part in _SIGNS else part:
            sign = _SIGNS.get(c) or _greek(c) or (_ESCAPES[c] if c in "\\^~" else None)
            if sign is None:
                run += escaped(c)
                continue
            if run:
                yield True, run
            run = ""
            yield False, sign
    if run:
        yield True, run


def _greek(character: str) -> str | None:
    """Return the command for a Greek letter; capitals that look like Latin letters have none."""
    kind, _, name = unicodedata.name(character, "").partition(" LETTER ")
    word = {"LAMDA": "lambda", "FINAL SIGMA": "sigma", "OMICRON": ""}.get(name, name.lower())
    return _GREEK.get(word.capitalize() if kind == "GREEK CAPITAL" else word) if kind.startswith("GREEK") else None


def latex_label(label: str) -> str:
    """Return a label as LaTeX: `w1` is w₁, `W_q` has a subscript, `x_hat` a hat, `theta` and `lam` are θ and λ, words are upright, the
    index of an element is a subscript; a macron becomes a bar over what is before it."""
    if BAR in label:
        below, _, rest = label.partition(BAR)
        if not re.fullmatch(r"[0-9]*(\[[0-9, ]*\])?", rest):
            return rf"\bar{{{latex_label(label.replace(BAR, ''))}}}"
        subscript = ", ".join(re.findall("[0-9]+", rest))
        return rf"\bar{{{latex_label(below)}}}" + (f"_{{{subscript}}}" if subscript else "")
    found = re.fullmatch(r"([^\W\d_]+)(?:_?([0-9]+))?((?:_[^\W_]+)*)(?:\[([0-9, ]*)\])?", label)
    if found is None or (found[3] and not _is_letter(found[1])):
        return rf"\mathrm{{{_ascii_of_mathematics(label)}}}"
    text, subscripts = _word(found[1]), [found[2] or ""]
    for part in found[3].split("_")[1:]:
        accent = part.rstrip("0123456789")
        if accent in _ACCENTS:
            text = f"{_ACCENTS[accent]}{{{text}}}"
            subscripts.append(part[len(accent) :])
        else:
            subscripts.append(_word(part))
    below = ", ".join(part for part in (*subscripts, (found[4] or "").replace(" ", "")) if part)
    return f"{text}_{{{below}}}" if below else text


def _is_letter(word: str) -> bool:
    return len(word) == 1 or word in _GREEK


def _word(word: str) -> str:
    """Return a letter, a number or a word; a letter may have a number: `x1` is x₁."""
    numbered = re.fullmatch(r"([^\W\d_]+)([0-9]+)", word)
    if numbered and _is_letter(numbered[1]):
        return f"{_word(numbered[1])}_{{{numbered[2]}}}"
    if word in _GREEK or word.isdigit():
        return _GREEK.get(word, word)
    greek = _greek(word) if len(word) == 1 else None
    return greek or (word if len(word) == 1 and word.isascii() else rf"\mathrm{{{_ascii_of_mathematics(word)}}}")


def _ascii_of_mathematics(text: str) -> str:
    return "".join(f"{greek} " if (greek := _greek(c)) else escaped(c) for c in clean(text)).rstrip()
