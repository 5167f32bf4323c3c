"""The demo of the README: runs, and its three lives agree."""

import runpy
from pathlib import Path

import symgrad as sg

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"


def test_demo(capsys):
    before = sg.get_default_dtype()
    try:
        runpy.run_path(str(DEMO), run_name="__main__")
    finally:
        sg.set_default_dtype(before)
    printed = capsys.readouterr().out
    assert "∂wave/∂t = t*cos(t) - t*exp(-t**2) + sin(t)" in printed
    assert "∂loss/∂w1 = 2 xᵀ (((max(0, x w1) w2 - y) w2ᵀ) ∘ H(x w1))" in printed
    assert "def grad(x, w1, w2, y):" in printed
    assert printed.count("against eager: largest difference") == 4
