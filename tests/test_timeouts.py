"""A test that hangs is stopped and named, also in a worker of pytest-xdist; others go on."""

from __future__ import annotations

import subprocess
import sys

HANGS = """
import threading
import pytest

@pytest.mark.timeout(1)
def test_hangs():
    threading.Event().wait()

def test_runs():
    pass
"""


def test_every_test_has_a_limit(request):
    assert 0 < float(request.config.getini("timeout")) <= 600
    assert request.config.getini("timeout_method") == "thread"


def test_a_test_that_hangs_is_named(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "--timeout-method", "thread", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "test_hanging.py::test_hangs" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
