"""The examples that use nothing but PyTorch's names print with PyTorch what they print here: weights, random streams and all that
follows are the same, but for what float32 rounds."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.peer

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
WITH_PYTORCH = "import sys, torch; torch.set_num_threads(1); sys.modules['symgrad'] = torch; "


def printed(name: str, prelude: str, folder: pathlib.Path) -> str:
    code = f"{prelude}import runpy, sys; sys.path.insert(0, {str(EXAMPLES)!r}); sys.argv = ['{name}.py', '--quick']\n"
    code += f"runpy.run_path({str(EXAMPLES / name)!r} + '.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return re.sub(r" *\d+ nodes", "nodes", done.stdout)  # PyTorch has a node for the transposed weights of a linear layer


@pytest.mark.parametrize("name", ["bayesian_regression", "char_lstm", "dynamic_net", "physics_informed", "transformer_copy"])
def test_prints_what_pytorch_prints(name, tmp_path):
    ours, theirs = printed(name, "", tmp_path), printed(name, WITH_PYTORCH, tmp_path)
    assert NUMBER.split(ours) == NUMBER.split(theirs)
    assert [float(n) for n in NUMBER.findall(ours)] == pytest.approx([float(n) for n in NUMBER.findall(theirs)], rel=5e-3)
