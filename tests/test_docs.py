"""The examples of the documentation print what the pages say. A page is one session: its blocks run one after the other in one process."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)

SESSION = """
import contextlib, io, json, os, sys
import symgrad

os.chdir(sys.argv[1])  # examples may write files
names, printed = {"__name__": "__main__"}, []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        try:
            exec(compile(code, "page", "exec"), names)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    printed.append(text.getvalue())
json.dump(printed, sys.stdout)
"""


def blocks(text: str) -> list[tuple[str, str]]:
    """The code blocks of a page, each with what it shall print."""
    return [(code, shown or "") for code, shown in BLOCK.findall(text)]


def outputs(page: list[tuple[str, str]], folder: pathlib.Path) -> list[str]:
    command, codes = [sys.executable, "-W", "error", "-c", SESSION, folder], json.dumps([code for code, _ in page])
    done = subprocess.run(command, input=codes, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


PAGES = {path.name: blocks(path.read_text()) for path in sorted(DOCS.glob("*.md"))}


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page])
def test_examples_print_what_is_shown(name, tmp_path):
    for (code, shown), printed in zip(PAGES[name], outputs(PAGES[name], tmp_path), strict=True):
        assert printed == shown, code


def test_every_python_block_is_seen():
    """A block that the pattern missed would be an example that nobody runs."""
    for path in DOCS.glob("*.md"):
        assert path.read_text().count("```python") == len(PAGES[path.name]), path


def extension(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_of_ops_lists_every_row_with_its_formula_and_derivatives():
    table = extension("op_table")
    page = ["before <!-- the op table --> after"]
    table.fill(None, "ops", page)
    rows = {line[3:].partition("(")[0]: line for line in page[0].splitlines() if line.startswith("| `")}
    assert rows.keys() == table.TABLE.keys()
    assert rows["sin"] == r"| `sin(x)`<br>saves `x` | $\sin{\left(x \right)}$<br>`x:` $\cos{\left(x \right)}$ |"
    assert rows["abs"].endswith(r" | $\left\|{x}\right\|$<br>`x:` $\operatorname{sign}{\left(x \right)}$ |")
    product = r"$\sum_{k} x_{i, k} y_{k, j}$<br>`x:` $\sum_{k} y_{j, k} g_{i, k}$<br>`y:` $\sum_{k} x_{k, i} g_{k, j}$"
    assert rows["matmul"] == f"| `matmul(x, y)`<br>saves `x, y` | {product} |"
    assert r"| $\sum_{l \le i} x_{l, j, k}$<br>`x:` $\sum_{l \ge i} g_{l, j, k}$ |" in rows["cumsum"]
    assert "argsort" in rows["sort"].partition("`x:`")[2]
    for name, row in table.TABLE.items():
        _, _, cell, _ = (cell.strip() for cell in re.split(r"(?<!\\)\|", rows[name]))
        formula, *slopes = cell.split("<br>")
        assert len(formula) > 2, name
        assert slopes[-1] != "no derivative" or not row.differentiable, name


def test_every_formula_of_the_page_of_ops_is_typeset():
    mathml = extension("mathml").mathml
    page = extension("op_table").markdown()
    formulas = [tex.replace("\\|", "|") for tex in re.findall(r"\$(.+?)\$", page)]
    assert len(formulas) > 700
    for tex in formulas:
        shown = mathml(tex)
        assert shown.startswith("<math"), tex
        assert "\\" not in shown, tex  # a command that was taken for text
    assert "<mtext>sinc_derivative</mtext>" in mathml(r"\operatorname{sinc\_derivative}\left(x\right)")
    assert "<mtext>L</mtext>" in mathml(r"\text{L}")
    assert mathml("x", block=True).startswith('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">')
