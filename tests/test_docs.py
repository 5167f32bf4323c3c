"""The examples of the documentation print what the pages say. A page is one session: its blocks run one after the other in one process."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import pkgutil
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


GLOSSARY = (DOCS / "glossary.md").read_text()
ENTRY = re.compile(r"^- \*\*(.+?)\*\*: (.+(?:\n  .+)*)$", re.MULTILINE)
SOURCES = [path for top in ("symgrad", "compiler") for path in sorted((DOCS.parent / top).rglob("*.py"))]
CLASSES = {name for path in SOURCES for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)}


def glossary():
    """The terms of the glossary with their definitions, each on one line."""
    return [(term, " ".join(text.split())) for term, text in ENTRY.findall(GLOSSARY)]


def is_one_sentence(text):
    plain = re.sub(r"`[^`]*`|\([^()]*\)", "x", text)
    return plain[0].isupper() and plain.endswith(".") and re.search(r"[.!?]\s", plain) is None


def test_the_glossary_has_about_forty_terms_in_order():
    terms = [term for term, _ in glossary()]
    assert GLOSSARY.count("\n- ") == len(terms)  # an entry in another form would not be seen
    assert 38 <= len(terms) <= 48
    assert terms == sorted(terms, key=str.lower)
    assert len({term.lower() for term in terms}) == len(terms)


def test_every_term_of_the_glossary_is_defined_by_one_sentence():
    assert [term for term, text in glossary() if not is_one_sentence(text)] == []
    assert not is_one_sentence("A tensor. It has a shape.")
    assert not is_one_sentence("a fragment")


def test_names_in_the_glossary_exist():
    """Classes, and dotted names of modules and of what is in them."""
    named = {span for _, text in glossary() for span in re.findall(r"`([^`]+)`", text)}
    classes = {name for name in named if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}
    dotted = {name for name in named if re.fullmatch(r"symgrad(\.\w+)+", name)}
    assert len(classes) > 15
    assert len(dotted) > 10
    assert classes - CLASSES == set()
    for name in dotted:
        assert pkgutil.resolve_name(name) is not None, name
    with pytest.raises((AttributeError, ImportError)):
        pkgutil.resolve_name("symgrad.compiler.runtime.no_such_module")


CHANGELOG = (DOCS.parent / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
MARK = "**Silently wrong before:** "


def test_the_changelog_keeps_to_its_form():
    """Keep a Changelog: six kinds of changes, each at most once per version and in this order, and one mark for silently wrong results."""
    versions = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    assert versions[0].startswith("[Unreleased]\n")
    for version in versions:
        found = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert found == [kind for kind in KINDS if kind in found]
        before, *sections = re.split(r"^### ", version, flags=re.MULTILINE)
        assert "\n- " not in before
        for section in sections:
            entries = re.findall(r"^- (.+(?:\n  .+)*)$", section, re.MULTILINE)
            assert len(entries) == len(set(entries)) == section.count("\n- ") > 0
            for entry in entries:
                assert entry.startswith(MARK) == ("silently wrong" in entry.lower()), entry
                assert section.startswith("Fixed\n") or not entry.startswith(MARK), entry
