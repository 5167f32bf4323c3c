"""The examples of "How to add an op" in CONTRIBUTING.md are code of the tree, and do what the steps say."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import gradcheck, gradgradcheck
from symgrad.compiler.ir.interpret import evaluate

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
STEPS = TEXT.partition("## How to add an op\n")[2].partition("\n## ")[0]
BLOCKS = [textwrap.dedent(code) for code in re.findall(r"^ *```python\n(.*?)^ *```$", STEPS, re.DOTALL | re.MULTILINE)]
FROM_FILES = {code.partition("\n")[0].removeprefix("# "): code for code in BLOCKS if code.startswith("# ")}
(TEST,) = (code for code in BLOCKS if not code.startswith("# "))

ENTERED = """
import dataclasses, sys
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.autograd import gradcheck, gradgradcheck
from symgrad.compiler.ir.elements.registry import element
from symgrad.application import apply
from symgrad.ops.table import TABLE, elementwise

row, function = sys.argv[1:]
exec(row)
def inverse(x): return apply(TABLE["inverse"], (x,), {})
x = sg.tensor([0.5, -2.0], dtype=sg.float64, requires_grad=True)
assert inverse(x).tolist() == [2.0, -0.5]
assert gradcheck(inverse, (x,)) and gradgradcheck(inverse, (x,))
assert sg.compile(lambda x: inverse(x).sum()).grad(x, wrt="x").tolist() == [-4.0, -0.25]
print(sg.derive(inverse, wrt="x")(sg.tensor(3.0)))

TABLE["rearrange"] = dataclasses.replace(TABLE["permute"], name="rearrange")
def rearranged(x): return apply(TABLE["rearrange"], (x,), {"axes": (2, 0, 1)})
y = sg.ones(2, 3, 4)
print(sg.derive(rearranged, notation="index")(y))
exec(function)
print(sg.derive(rearranged, notation="index")(y))
"""


def test_every_block_is_seen():
    assert len(BLOCKS) == STEPS.count("```python") == 4
    assert list(FROM_FILES) == ["symgrad/ops/elementwise.py", "compiler/ir/elements/shaping.py", "symgrad/functional/elementwise.py"]


@pytest.mark.parametrize("path", FROM_FILES)
def test_an_example_stands_in_the_file_that_it_names(path):
    in_file = {ast.dump(statement) for statement in ast.parse((ROOT / path).read_text()).body}
    shown = ast.parse(FROM_FILES[path]).body
    assert shown
    for statement in shown:
        assert ast.dump(statement) in in_file, ast.unparse(statement)


def test_the_rows_can_be_entered():
    row, function = FROM_FILES["symgrad/ops/elementwise.py"], FROM_FILES["compiler/ir/elements/shaping.py"]
    row, function = row.replace('"reciprocal"', '"inverse"'), function.replace('"permute"', '"rearrange"')
    done = subprocess.run([sys.executable, "-P", "-W", "error", "-c", ENTERED, row, function], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    derivative = "∂rearranged[i, j, k]/∂x[l, m, n] = δ[i, n]*δ[j, l]*δ[k, m]"  # by the row's rule, in both cases
    assert done.stdout.splitlines() == [
        "inverse(x) = 1/x", "∂inverse/∂x = -1/x**2",
        "rearranged(x)[i, j, k] = rearrange(x, axes=(2, 0, 1))[i, j, k]", derivative,  # without an @element function
        "rearranged(x)[i, j, k] = x[j, k, i]", derivative,
    ]  # fmt: skip


def test_the_test_of_the_last_step_passes():
    names = {"sg": sg, "gradcheck": gradcheck, "gradgradcheck": gradgradcheck}
    exec(TEST, names)
    tests = [name for name in names if name.startswith("test_")]
    assert tests == ["test_reciprocal"]
    for name in tests:
        names[name]()


def test_files_that_the_page_names_are_there():
    named = set(re.findall(r"`([\w/]+\.(?:py|md|toml))`", TEXT))
    assert len(named) > 20
    files = [str(path.relative_to(ROOT)) for top in ("symgrad", "compiler", "tests") for path in (ROOT / top).rglob("*.py")]
    files += [path.name for path in ROOT.iterdir()] + [f"docs/{path.name}" for path in (ROOT / "docs").iterdir()]
    written_later = {"docs/ops.md"} - set(files)
    for name in named - written_later:
        assert any(path == name or path.endswith(f"/{name}") for path in files), name


def test_the_example_of_a_rule_is_one():
    """The rule of "How to add a rule" prints as its equation, matches its own pattern, and is stable."""
    from rule_examples import Example

    text = TEXT.partition("## How to add a rule\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^ *```python\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    names = {}
    exec(textwrap.dedent(code), names)
    rule = names["rule"]
    assert str(rule).startswith("log(cosh(x)) -> abs(x) + softplus(-2 * abs(x)) - 0.69")
    example = Example(rule, normal=True)
    before, after = (evaluate(side, example.arrays)[0] for side in (example.before, example.after))
    np.testing.assert_allclose(after, before, rtol=1e-12)
    assert evaluate(example.after, [np.array([1000.0, 0.0, -1000.0])])[0].max() == pytest.approx(1000 - np.log(2))


def test_files_that_the_steps_for_rules_and_passes_name_are_there():
    text = TEXT.partition("## How to add a rule\n")[2].partition("\n## How to add a back end")[0]
    paths = set(re.findall(r"`((?:compiler|tests)/[\w/]+\.py)`", text))
    assert len(paths) >= 6
    assert all((ROOT / path).exists() for path in paths)
