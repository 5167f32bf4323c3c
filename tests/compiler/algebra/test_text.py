"""Linear values as text in reports: operators, brackets, names of what has none, and what is left out."""

import numpy as np
import pytest

from symgrad.compiler.algebra.text import expression_text
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import input_value

A, B, C = (input_value(i, (3, 3), np.float64) for i in range(3))
V, W = (input_value(i, (3,), np.float64) for i in range(3, 5))
NAMES = {A: "A", B: "B", C: "C", V: "v", W: "w"}
TEXTS = {
    "A B": lambda: xp.matmul(A, B),
    "(A B) C": lambda: xp.matmul(xp.matmul(A, B), C),
    "A (B C)": lambda: xp.matmul(A, xp.matmul(B, C)),
    "v' w": lambda: xp.matmul(V, W),
    "(A + B) C": lambda: xp.matmul(A + B, C),
    "A' B": lambda: xp.matmul(xp.permute(A, axes=(1, 0)), B),
    "(A + B)' C": lambda: xp.matmul(xp.permute(A + B, axes=(1, 0)), C),
    "A + B - C": lambda: A + B - C,
    "A - (B - C)": lambda: A - (B - C),
    "A - (B + C)": lambda: A - (B + C),
    "A * B / C": lambda: A * B / C,
    "A / (B * C)": lambda: A / (B * C),
    "(A + B) * C": lambda: (A + B) * C,
    "-(A + B)": lambda: -(A + B),
    "A * (-B)": lambda: A * -B,
    "A * 2.5": lambda: A * 2.5,
    "A * 3": lambda: A * 3,
    "sum(A * B)": lambda: xp.sum(A * B, axis=(0, 1), keepdims=False),
    "A * v": lambda: A * xp.expand(xp.reshape(V, shape=(1, 3)), shape=(3, 3)),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text(text):
    assert expression_text(TEXTS[text](), NAMES, NAMES) == text


def test_what_has_no_name_is_numbered():
    leaf = xp.sin(A)
    assert expression_text(xp.matmul(leaf, B) + xp.matmul(leaf, C), {leaf, B, C}, {}) == "v1 v2 + v1 v3"
    assert expression_text(xp.matmul(leaf, B), {leaf}, {B: "B"}) == "v1 B"


@pytest.mark.parametrize(("length", "shown"), [(60, "n" * 60), (61, "n" * 57 + "...")])
def test_long_texts_are_cut(length, shown):
    assert expression_text(A, {A}, {A: "n" * length}) == shown
