"""Small programs on both sides: what is printed, the types, and the kinds of errors are the same."""

import copy
import warnings

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

PROGRAMS = [
    "torch.where(torch.tensor([True, False]), 1.0, 0)",
    "torch.where(torch.tensor([True, False]), 1, 2.5).dtype",
    "torch.remainder(torch.tensor([0.0, -0.0, 4.0, -4.0, 3.0]), -2)",
    "torch.remainder(torch.tensor([0.0, -0.0, 4.0, -4.0, -3.0]), 2)",
    "torch.remainder(-3, torch.tensor([1.0, 2.0, 3.0]))",
    "torch.nn.functional.cosine_similarity(torch.tensor([[[1.0, 2], [3, 4]]]), torch.tensor([[[1.0, 5]], [[2, 0]]]), dim=-2)",
    "torch.nn.functional.rms_norm(torch.tensor([300.0, 500]).half(), [2], torch.ones(2).half(), 0.5)",
    "torch.nn.functional.pad(torch.arange(16.0).view(1, 4, 4), [-1, 2, 1, -2], 'reflect')",
    "torch.nn.functional.pad(torch.arange(16.0).view(1, 4, 4), [-3, 5, 1, 1], 'replicate')",
    "torch.nn.functional.pad(torch.arange(6.0).view(1, 6), [-1, 2], 'circular')",
    "torch.nn.functional.pad(torch.arange(6.0).view(1, 6), [2, -1], 'circular')",
    "torch.nn.functional.pad(torch.arange(6.0).view(1, 6), [-2, -1], 'circular')",
    "torch.tensor([7]).unique_consecutive(True, True)",
    "torch.nn.functional.avg_pool2d(torch.arange(16.0).view(1, 1, 4, 4), (2, 2), ())",
    "torch.tensor([0.0, 2.0]).half().nonzero(), torch.tensor([0.0, 2.0]).bfloat16().argwhere()",
    "torch.tensor(3).unique_consecutive()",
    "torch.quantile(torch.tensor(3.0), 0.5, dim=0, keepdim=True)",
    "torch.aminmax(torch.ones(5, 0, 5), dim=0)",
    "torch.aminmax(torch.ones(5, 0, 5), dim=1)",
    "torch.aminmax(torch.ones(0, 2))",
    "torch.aminmax(torch.ones(0), dim=0)",
    "torch.broadcast_shapes((2, 1), (3,), 1)",
    "torch.broadcast_shapes((2, 3), (4,))",
    "torch.hsplit(torch.ones(4), 0)",
    "torch.roll(torch.tensor(1.0), 0, 0)",
    "torch.narrow(torch.ones(3), 0, torch.tensor([1]), 1)",
    "torch.narrow(torch.ones(3), 0, torch.tensor(1.0), 1)",
    "torch.narrow(torch.ones(3), 0, torch.tensor(1), 1)",
    "torch.tensor(1.0).unflatten(0, (2, 2))",
    "torch.amax(torch.tensor([1j]))",
    "torch.linalg.vecdot(torch.arange(3.0), torch.tensor(2.0))",
    "torch.linalg.vecdot(torch.ones(2, 1, 3), torch.ones(4, 3), dim=-2)",
    "torch.linalg.vecdot(torch.arange(3), torch.arange(3))",
    "torch.nn.functional.cosine_similarity(torch.arange(6).view(2, 3), torch.ones(2, 3))",
    "torch.nn.functional.cosine_similarity(torch.arange(6).view(2, 3), torch.arange(6).view(2, 3))",
    "torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 2, 4, 4), (0, 3))",
    "torch.max(torch.tensor([1j]))",
    "torch.arange(12.0).view(3, 4)[[[0, 1], [1, 2]]]",
    "torch.arange(12.0).view(3, 4)[[slice(0, 2), None]]",
    "torch.arange(12.0).view(3, 4)[[torch.tensor(0), torch.tensor(1)]]",
    "torch.arange(12.0).view(3, 4)[[0, 2]]",
    "torch.arange(3).__delitem__(0)",
    "+torch.tensor([True])",
    "+torch.tensor([1.0])",
    "torch.tensor([300], dtype=torch.uint8)",
    "torch.tensor([-255], dtype=torch.uint8)",
    "torch.tensor([-256], dtype=torch.uint8)",
    "torch.tensor([[1, 200.5]], dtype=torch.int8)",
    "torch.tensor([2**31], dtype=torch.int32)",
    "torch.autograd.grad(torch.ones(1, requires_grad=True), 'x')",
    "torch.clamp(torch.ones(2), np.float64(0.5), np.float64(2)), torch.norm(torch.ones(2), np.float64(3))",
    "torch.logit(torch.tensor([0.5]), np.float64(0.1)), torch.round(torch.tensor([0.26]), decimals=np.int64(1))",
    "torch.addcdiv(torch.ones(2), torch.ones(2), torch.ones(2), value=np.float64(2))",
    "torch.nn.functional.leaky_relu(torch.tensor([-1.0]), np.float64(0.1)), torch.nn.functional.elu(torch.ones(1), np.float64(1))",
    "torch.nn.functional.softplus(torch.ones(1), np.float64(2)), torch.nn.functional.huber_loss(torch.ones(1), torch.zeros(1))",
    "torch.ones(2, requires_grad=True) ** np.float64(2.5), torch.ones(2, requires_grad=True).var(correction=np.int64(0))",
    "torch.ones(3, requires_grad=True) @ torch.ones(3, 2)",
    "torch.ones(2, 3, 3, requires_grad=True) @ torch.ones(1, 3, 3)",
    "torch.ones(2).sub_(torch.tensor([True, False]))",
    "torch.ones(2).sub_(True)",
    "torch.ones(2).add_(torch.tensor([True, False]))",
    "torch.lerp(torch.arange(2), torch.arange(2), 0.5)",
    "torch.ones(2).masked_fill_(torch.tensor([True, False]), 1j)",
    "torch.lt(torch.ones(2), 1j)",
    "torch.remainder(torch.ones(2), 1j)",
    "torch.nn.functional.binary_cross_entropy(torch.tensor([True]), torch.tensor([True]))",
    "torch.nn.functional.layer_norm(torch.tensor([[True, False]]), [2])",
]


def outcome(module, program):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(eval(program, {"torch": module, "np": np}))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_outcome(program):
    assert outcome(sg, program) == outcome(torch, program)


@pytest.mark.parametrize("module", [sg, torch], ids=["symgrad", "torch"])
def test_deepcopy_keeps_what_is_shared(module):
    x = module.arange(6.0).view(2, 3)
    both = copy.deepcopy({"whole": x, "row": x[1], "columns": x.t()})
    both["whole"][1, 0] = 9
    assert both["row"].tolist() == [9.0, 4.0, 5.0]
    assert both["columns"].tolist() == [[0.0, 9.0], [1.0, 4.0], [2.0, 5.0]]
    assert x.tolist() == np.arange(6.0).reshape(2, 3).tolist()
