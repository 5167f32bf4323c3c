"""The tutorials print what PyTorch prints: `expected/` was written by PyTorch 2.13 running the same scripts."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

TUTORIALS = pathlib.Path(__file__).parents[1] / "examples" / "tutorials"
SCRIPTS = sorted(TUTORIALS.glob("tutorial_*.py"))


def output_of(source: str, folder: pathlib.Path) -> list[str]:
    """What a script prints; what it writes is written into `folder`."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", source], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_five_are_here():
    assert [s.stem for s in SCRIPTS] == [f"tutorial_00{i}" for i in range(5)]


@pytest.mark.parametrize("script", [*SCRIPTS, TUTORIALS / "legacy_001.py", TUTORIALS / "tensorboard_003.py"], ids=lambda s: s.stem)
def test_output(script, tmp_path):
    expected = (TUTORIALS / "expected" / f"{script.stem}.txt").read_text().splitlines()
    assert output_of(script.read_text(), tmp_path) == expected


@pytest.mark.peer
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.stem)
def test_output_is_still_what_pytorch_prints(script, tmp_path):
    pytest.importorskip("torch")
    source = script.read_text().replace("import symgrad as torch", "import torch").replace("from symgrad", "from torch")
    assert output_of(source, tmp_path) == (TUTORIALS / "expected" / f"{script.stem}.txt").read_text().splitlines()
