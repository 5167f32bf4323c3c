"""A training that is saved, ended and taken up in another process gives the numbers of one that was never interrupted."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import resumed_training

import symgrad as sg


def test_an_interrupted_training_is_bit_for_bit_the_whole_one(tmp_path):
    before = sg.get_rng_state()
    try:
        resumed_training.Training(0).run(4).save(tmp_path / "whole")
        resumed_training.Training(0).run(2).save(tmp_path / "half")
    finally:
        sg.set_rng_state(before)
    program = pathlib.Path(resumed_training.__file__)
    subprocess.run([sys.executable, program, tmp_path / "half", tmp_path / "resumed"], check=True)
    whole, half, resumed = (sg.load(tmp_path / name) for name in ("whole", "half", "resumed"))
    assert len(whole["losses"]) == 20
    assert len(half["losses"]) == 10
    assert resumed["losses"] == whole["losses"]
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
