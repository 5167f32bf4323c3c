"""What is said of PyTorch's tensors where ours are expected."""

import pytest

import symgrad as sg

torch = pytest.importorskip("torch")


def test_tensors_of_pytorch_are_named_with_the_way_to_take_them():
    t, theirs = sg.ones(3), torch.ones(3)
    for call in (
        lambda: sg.sin(theirs), lambda: t * theirs, lambda: sg.matmul(t, theirs), lambda: t.dot(theirs), lambda: sg.stack([t, theirs]),
        lambda: sg.compile(sg.sin)(theirs), lambda: sg.func.grad(sg.sum)(theirs), lambda: sg.derive(sg.sin)(theirs),
        lambda: sg.where(t > 0, t, theirs), lambda: t.add_(theirs), lambda: sg.nn.functional.relu(theirs),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=r"sg\.from_dlpack"):
            call()
