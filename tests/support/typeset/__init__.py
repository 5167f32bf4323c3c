"""Typeset formulas by pdflatex, MathJax and KaTeX, and collect their errors. A tool that is missing is an error, too."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PREAMBLE = r"""\documentclass{article}
\usepackage[paperwidth=200cm,paperheight=200cm,margin=1cm]{geometry}
\usepackage{amsmath,amssymb}
\begin{document}
"""
_ERROR = re.compile(r"^[^:\n]*formulas\.tex:([0-9]+): (.*)$", re.MULTILINE)
_RENDERER = Path(__file__).with_name("render.js")


def tool(name: str) -> str:
    """Return the path of a program, which must be installed."""
    found = shutil.which(name)
    assert found is not None, f"{name} is not installed: this environment needs it"
    return found


def pdflatex_errors(formulas: Sequence[str], folder: Path) -> list[tuple[int, str]]:
    """Compile one document with all formulas; return the errors, with the positions of their formulas."""
    lines, at = _PREAMBLE.splitlines(), []
    for n, formula in enumerate(formulas):
        block = [r"\[", *formula.splitlines(), r"\]", r"\newpage"]
        lines += block
        at += [n] * len(block)
    start = len(_PREAMBLE.splitlines())
    (folder / "formulas.tex").write_text("\n".join([*lines, r"\end{document}", ""]), encoding="utf-8")
    command = [tool("pdflatex"), "-interaction=nonstopmode", "-file-line-error", "-no-shell-escape", "formulas.tex"]
    run = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    log = run.stdout.decode("utf-8", "replace")
    found = [(at[min(int(line) - start - 1, len(at) - 1)], text) for line, text in _ERROR.findall(log)]
    if run.returncode and not found:
        return [(-1, log[-2000:])]
    return found


def browser_errors(formulas: Sequence[str]) -> list[tuple[int, str, str]]:
    """Render all formulas with MathJax and KaTeX in node; return the positions of those that fail, the renderer and the error."""
    command, given = [tool("node"), str(_RENDERER)], json.dumps(list(formulas)).encode()
    run = subprocess.run(command, input=given, capture_output=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr.decode()
    found: list[tuple[int, str, str]] = [tuple(each) for each in json.loads(run.stdout)]
    return found
