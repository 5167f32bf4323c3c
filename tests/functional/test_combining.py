"""Products and choices of elements, blocks, Vandermonde matrices, distances, and names of constants: the figures are PyTorch 2.13's."""

from __future__ import annotations

import math

import pytest

import symgrad as sg


def vector(count=3):
    return sg.arange(1.0, count + 1, dtype=sg.float64).requires_grad_()


VALUES = {
    "sg.block_diag(v, sg.tensor(3.), sg.ones(2, 1))": [[1, 2, 3, 0, 0], [0, 0, 0, 3, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]],
    "sg.block_diag()": [[]],
    "sg.cartesian_prod(v[:2], v[1:])": [[1, 2], [1, 3], [2, 2], [2, 3]],
    "sg.cartesian_prod(v)": [1, 2, 3],
    "sg.combinations(v)": [[1, 2], [1, 3], [2, 3]],
    "sg.combinations(v[:2], 2, with_replacement=True)": [[1, 1], [1, 2], [2, 2]],
    "sg.combinations(v, 0)": [],
    "sg.combinations(v, 4)": [],
    "sg.vander(v)": [[1, 1, 1], [4, 2, 1], [9, 3, 1]],
    "sg.vander(v, N=4, increasing=True)": [[1, 1, 1, 1], [1, 2, 4, 8], [1, 3, 9, 27]],
    "sg.vander(v, 0)": [[], [], []],
    "sg.vander(sg.tensor([2, 3]))": [[2, 1], [3, 1]],
    "sg.dist(v, v[:1], math.inf)": 2,
    "sg.dist(v, v + 2, 1)": 6,
    "v.dist(v)": 0,
    "sg.stack(v.split_with_sizes([1, 1, 1]))": [[1], [2], [3]],
    "v[:, sg.newaxis]": [[1], [2], [3]],
}


@pytest.mark.parametrize("text", VALUES)
def test_values(text):
    assert eval(text, {"sg": sg, "v": vector(), "math": math}).tolist() == VALUES[text]


GRADIENTS = {
    "sg.block_diag(v, v)": [11, 13, 15],
    "sg.cartesian_prod(v, v[:2])": [22, 36, 20],
    "sg.combinations(v)": [4, 7, 10],
    "sg.dist(v, v.detach() + 2, 4)": [-0.4386913376508309] * 3,
}


@pytest.mark.parametrize("how", ["eager", "numpy", "xla"])
@pytest.mark.parametrize("text", GRADIENTS)
def test_gradients(text, how):
    def weighted(v):
        y = eval(text, {"sg": sg, "v": v})
        return (y * sg.arange(1, y.numel() + 1).reshape(y.shape)).sum()

    v = vector()
    (weighted if how == "eager" else sg.compile(weighted, backend=how))(v).backward()
    assert v.grad.tolist() == pytest.approx(GRADIENTS[text])


REFUSED = {
    "sg.block_diag(sg.ones(2, 2, 2))": "Input tensors must have 2 or fewer dimensions. Input 0 has 3 dimensions",
    "sg.cartesian_prod(sg.ones(2, 2))": "Expect a 1D vector, but got shape",
    "sg.cartesian_prod()": "meshgrid expects a non-empty TensorList",
    "sg.combinations(sg.ones(3), -1)": "Expect a non-negative number, but got -1",
    "sg.vander(sg.ones(2, 2))": "x must be a one-dimensional tensor.",
    "sg.vander(sg.ones(2), -1)": "N must be non-negative.",
    "sg.ones(3).split_with_sizes([1, 1])": "split_sizes to sum exactly to 3",
    "sg.ones(3).split_with_sizes([-1, 4])": "only non-negative entries",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text):
    with pytest.raises(RuntimeError) as caught:
        eval(text, {"sg": sg})
    assert REFUSED[text] in str(caught.value)


def test_constants():
    assert (sg.pi, sg.e, sg.inf, sg.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(sg.nan)


def test_what_is_not_there_says_so():
    assert not sg.accelerator.is_available()
    assert sg.accelerator.device_count() == 0
    assert sg.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        sg.accelerator.synchronize()
    assert not sg.backends.cudnn.is_available()
    assert not sg.backends.mps.is_available()
    assert not sg.backends.cuda.is_built()
    assert sg.backends.cudnn.version() is None
    sg.backends.cudnn.benchmark = True
    assert sg.backends.cudnn.benchmark
    sg.backends.cudnn.benchmark = False


def test_settings_are_remembered():
    sg.use_deterministic_algorithms(True, warn_only=True)
    assert sg.are_deterministic_algorithms_enabled()
    assert sg.is_deterministic_algorithms_warn_only_enabled()
    sg.use_deterministic_algorithms(False)
    assert not sg.are_deterministic_algorithms_enabled()
    sg.set_float32_matmul_precision("high")
    assert sg.get_float32_matmul_precision() == "high"
    with pytest.warns(UserWarning, match="has no effect"):
        sg.set_float32_matmul_precision("low")
    sg.set_float32_matmul_precision("highest")
    assert sg.get_float32_matmul_precision() == "highest"
