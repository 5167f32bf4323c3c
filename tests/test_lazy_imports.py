"""`import symgrad` is quick: what is heavy is loaded when it is first used."""

import subprocess
import sys
from pathlib import Path

HEAVY = {"jax", "matplotlib", "mpmath", "opt_einsum", "scipy", "sympy", "symgrad.compiler", "symgrad.training", "tensorboard"}


def loaded_by(code: str, folder: Path) -> set[str]:
    """Which of the heavy modules a fresh interpreter has loaded after `code`."""
    code += f"\nimport sys; print(*({HEAVY!r} & set(sys.modules)))"
    command = [sys.executable, "-P", "-c", code]
    return set(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split())


def test_symgrad_loads_nothing_heavy(tmp_path):
    assert loaded_by("import symgrad", tmp_path) == set()


def test_training_draws_and_writes_with_what_is_loaded_then(tmp_path):
    assert loaded_by("import symgrad; symgrad.Model", tmp_path) == {"symgrad.training"}


def test_formulas_as_text_are_read_and_computed_with_what_is_loaded_then(tmp_path):
    assert loaded_by("import symgrad; symgrad.parse('sum((A*x).^2)')([[1.0]], [2.0])", tmp_path) == set()


def test_the_test_above_can_fail(tmp_path):
    assert loaded_by(f"import symgrad, {', '.join(HEAVY)}", tmp_path) == HEAVY
