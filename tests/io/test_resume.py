"""A training that is saved, ended and taken up in another process gives the numbers of one that was never interrupted."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
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


OPTIMIZERS = sorted(name for name, made in vars(sg.optim).items() if isinstance(made, type) and issubclass(made, sg.optim.Optimizer))
SCHEDULERS = {
    "StepLR": {"step_size": 2}, "MultiStepLR": {"milestones": [2, 2, 5]}, "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 7}, "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch}, "LinearLR": {},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 20}, "ReduceLROnPlateau": {},
}  # fmt: skip


def stepped(weight, optimizer, count):
    def closure():
        optimizer.zero_grad()
        loss = ((weight - 1) ** 4).sum()
        loss.backward()
        return loss

    for _ in range(count):
        optimizer.step(closure)
    return weight


def made(name):
    weight = sg.tensor([0.5, -2.0, 3.0], requires_grad=True)
    return weight, getattr(sg.optim, name)([weight], lr=0.01)


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "Optimizer"])
def test_every_optimizer_goes_on_from_its_file(tmp_path, name):
    whole = stepped(*made(name), 6)
    weight, optimizer = made(name)
    stepped(weight, optimizer, 3)
    sg.save({"weight": weight, "optimizer": optimizer.state_dict()}, tmp_path / "x")
    found = sg.load(tmp_path / "x")
    other = getattr(sg.optim, name)([found["weight"]], lr=99.0)
    other.load_state_dict(found["optimizer"])
    assert stepped(found["weight"], other, 3).tolist() == whole.tolist()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_goes_on_from_its_file(tmp_path, name):
    def rates(scheduler, count):
        for _ in range(count):
            scheduler.optimizer.step()
            scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            yield scheduler.optimizer.param_groups[0]["lr"]

    def scheduler():
        return getattr(sg.optim.lr_scheduler, name)(made("SGD")[1], **SCHEDULERS[name])

    whole = list(rates(scheduler(), 14))
    first, second = scheduler(), scheduler()
    assert list(rates(first, 4)) == whole[:4]
    sg.save({"scheduler": first.state_dict(), "optimizer": first.optimizer.state_dict()}, tmp_path / "x")
    found = sg.load(tmp_path / "x")
    second.load_state_dict(found["scheduler"])
    second.optimizer.load_state_dict(found["optimizer"])
    assert list(rates(second, 10)) == whole[4:]
