"""The examples run, end with a picture, and reach what they state: a little of it in the quick runs, all of it in the slow ones."""

from __future__ import annotations

import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PICTURES = ROOT / "docs" / "_static" / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("common", "demo"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs an example in this process, looks at the picture that it writes, and returns its results."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)

    def run(name, *argv):
        results = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]([*argv, "--output", "picture.png"])
        assert_is_picture(tmp_path / "picture.png")
        return results

    return run


def assert_is_picture(path):
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width >= 800
        assert image.height >= 300
        assert len(image.getcolors(256)) > 20  # not an empty page
    assert path.stat().st_size < 80_000


def test_two_layer_net(run, capsys):
    results = run("two_layer_net", "--quick")
    assert "∂loss/∂w1 = 2 xᵀ (((max(0, x w1) w2 - y) w2ᵀ) ∘ H(x w1))" in capsys.readouterr().out
    assert results["difference"] < 1e-5
    assert results["autograd"][-1] < results["autograd"][0] / 1e4
    assert results["formula"] == pytest.approx(results["autograd"], rel=0.01)


@pytest.mark.slow
def test_two_layer_net_in_full(run):
    assert run("two_layer_net")["autograd"][-1] < 1e-4


def test_dynamic_net(run, capsys):
    results = run("dynamic_net", "--quick")
    nodes = re.findall(r"depth (\d) +(\d+) nodes", capsys.readouterr().out)
    assert ("0", "8") in nodes  # what is recorded is what ran
    assert ("3", "16") in nodes
    assert {depth for depth, _ in results["history"]} == {0, 1, 2, 3}
    assert max(results["losses"]) < results["history"][0][1] / 3


@pytest.mark.slow
def test_dynamic_net_in_full(run):
    assert max(run("dynamic_net")["losses"]) < 0.01


def test_digits(run):
    results = run("digits", "--quick")
    assert len(results["history"]["val_accuracy"]) == 2
    assert results["accuracy"] > 0.8


@pytest.mark.slow
def test_digits_in_full(run):
    assert run("digits")["accuracy"] > 0.97


@pytest.mark.slow
def test_char_lstm(run):
    results = run("char_lstm", "--quick")
    assert results["bits"][-1] < results["bits"][0] * 0.9
    assert results["text"].startswith("This is the man")


@pytest.mark.slow
def test_char_lstm_in_full(run):
    results = run("char_lstm")
    assert results["bits"][-1] < 0.2
    assert results["known"] > 0.95


def test_transformer_copy(run):
    results = run("transformer_copy", "--quick")
    assert len(results["history"]) == 60
    assert results["accuracy"] > 0.15  # by chance it would be 0.1


def test_transformer_copy_has_both_tasks(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    example = runpy.run_path(str(EXAMPLES / "transformer_copy.py"))
    tokens, answer = example["task"](50)
    reversing = tokens[:, :1] == example["REVERSE"]
    digits = tokens[:, 1:11]
    assert 0 < reversing.sum() < 50
    assert (answer == digits.flip(1).where(reversing, digits)).all()
    assert (tokens[:, 11:] == example["BLANK"]).all()


@pytest.mark.slow
def test_transformer_copy_in_full(run):
    assert run("transformer_copy")["accuracy"] > 0.99


def test_physics_informed(run):
    results = run("physics_informed", "--quick")
    assert results["losses"][-1] < results["losses"][0] / 5
    assert results["error"] < 0.4


@pytest.mark.slow
def test_physics_informed_in_full(run):
    assert run("physics_informed")["error"] < 0.005


def test_bratu(run):
    results = run("bratu", "--quick")
    assert results["pattern"].nnz == 5 * 40**2 - 4 * 40
    assert [u.max() for u in results["solutions"]] == pytest.approx([0.2704, 0.797, 1.3238], rel=2e-3)
    for u, history in zip(results["solutions"], results["histories"], strict=True):
        assert len(history) < 12
        assert history[-1] < 1e-6
        assert abs(u - u.T).max() < 1e-9


@pytest.mark.slow
def test_bratu_in_full(run):
    results = run("bratu")
    assert [u.max() for u in results["solutions"]] == pytest.approx([0.2704, 0.7971, 1.3235], rel=2e-4)
    assert max(history[-1] for history in results["histories"]) < 1e-5


def test_bayesian_regression(run):
    results = run("bayesian_regression", "--quick")
    assert 0.8 < results["accepted"] < 1
    assert results["mean_error"] < 0.3
    assert results["covariance_error"] < 0.3


@pytest.mark.slow
def test_bayesian_regression_in_full(run):
    results = run("bayesian_regression")
    assert results["mean_error"] < 0.05
    assert results["covariance_error"] < 0.1


def test_an_example_is_a_script(tmp_path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / "dynamic_net.py"), "--quick", "--steps", "40"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "step    3" in done.stdout
    assert "step  400" not in done.stdout  # --steps is stronger than --quick
    assert_is_picture(tmp_path / "dynamic_net.png")


@pytest.mark.parametrize("page", ["examples/README.md", "docs/examples.md"])
def test_every_example_is_on_the_page(page):
    assert sorted(set(re.findall(r"(\w+)\.py", (ROOT / page).read_text())) & set(NAMES)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_a_picture_in_the_docs_and_two_tests(name):
    assert_is_picture(PICTURES / f"{name}.png")
    assert f"_static/examples/{name}.png" in (ROOT / "docs" / "examples.md").read_text()
    source = pathlib.Path(__file__).read_text()
    assert f"def test_{name}(" in source
    assert f"def test_{name}_in_full(" in source
