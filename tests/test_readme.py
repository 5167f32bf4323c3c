"""The README's example prints what the README says."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_prints_what_is_shown():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL).group(1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown
