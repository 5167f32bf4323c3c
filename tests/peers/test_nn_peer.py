"""Modules, initial values and optimizers beside PyTorch: the same script in both, the same text out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


def network(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.register_buffer("count", torch.zeros(2))
            self.register_buffer("hidden", torch.ones(1), persistent=False)
            self.scale = nn.Parameter(torch.ones(4))
            self.nothing = None
            self.register_parameter("absent", None)

        def forward(self, x):
            return torch.relu(self.first(x)) * self.scale

        def extra_repr(self):
            return "kind=small"

    return nn.Sequential(Block(), nn.ReLU(), nn.ModuleList([nn.Tanh(), nn.Sigmoid()])[0], nn.Linear(4, 2, bias=False), nn.Flatten(0))


SCRIPTS = {
    "repr": "[repr(net), repr(nn.ReLU(inplace=True)), repr(nn.Identity()), repr(nn.ModuleList([nn.Tanh()])), repr(nn.MSELoss())]",
    "repr of repeats": "repr(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()])), repr(nn.Sequential()), repr(nn.ModuleList())",
    "names": "[n for n, _ in net.named_parameters()], [n for n, _ in net.named_buffers()], [n for n, _ in net.named_modules()]",
    "children": "[n for n, _ in net.named_children()], [type(m).__name__ for m in net.modules()], len(net), len(list(net.parameters()))",
    "state": "[(k, tuple(v.shape)) for k, v in net.state_dict().items()], [k for k in net.state_dict(prefix='a.')]",
    "load": "net.load_state_dict(net.state_dict())",
    "load missing": "net.load_state_dict({})",
    "load loosely": "net.load_state_dict({'other': torch.ones(1)}, strict=False)",
    "load misshapen": "net.load_state_dict({**net.state_dict(), '3.weight': torch.ones(1)})",
    "load misshapen loosely": "net.load_state_dict({'3.weight': torch.ones(1)}, strict=False)",
    "load what is no dict": "net.load_state_dict(3)",
    "modes": "net.eval().training, net.train()[0].training, net.train('yes')",
    "requires_grad": "[p.requires_grad for p in net.requires_grad_(False).parameters()]",
    "dtype": "[v.dtype == torch.float64 for v in net.double().state_dict().values()], net.float()[0].scale.dtype == torch.float32",
    "submodule": "type(net.get_submodule('0.first')).__name__, net.get_parameter('0.scale').shape, net.get_buffer('0.count').shape",
    "no submodule": "net.get_submodule('0.zero')",
    "no parameter": "net.get_parameter('0.zero')",
    "slice": "repr(net[1:3]), repr(net[-1]), len(net[:2])",
    "out of range": "net[7]",
    "delete": "net.__delitem__(1) or repr(net)",
    "insert and extend": "repr(nn.Sequential(nn.Tanh()).insert(0, nn.ReLU()).extend([nn.Sigmoid()]).append(nn.Tanh()))",
    "list insert": "nn.ModuleList([nn.Tanh()]).insert(0, nn.ReLU())",
    "list add": "repr(nn.ModuleList([nn.Tanh()]) + nn.ModuleList([nn.ReLU()]))",
    "list pop": "repr(nn.ModuleList([nn.Tanh(), nn.ReLU()]).pop(0))",
    "missing attribute": "net.zero",
    "early parameter": "type('M', (nn.Module,), {'__init__': lambda self: setattr(self, 'p', nn.Parameter(torch.ones(1)))})()",
    "early module": "type('M', (nn.Module,), {'__init__': lambda self: setattr(self, 'p', nn.Tanh())})()",
    "tensor as parameter": "setattr(net[0], 'scale', torch.ones(4))",
    "number as module": "setattr(net[0], 'first', 3)",
    "number as buffer": "setattr(net[0], 'count', 3)",
    "buffer that is taken": "net[0].register_buffer('forward', torch.ones(1))",
    "dotted buffer": "net[0].register_buffer('a.b', torch.ones(1))",
    "unnamed buffer": "net[0].register_buffer('', torch.ones(1))",
    "number as registered buffer": "net[0].register_buffer('b', 3)",
    "number as registered parameter": "net[0].register_parameter('b', 3)",
    "recorded parameter": "net[0].register_parameter('b', net[0].scale * 2)",
    "number as added module": "net.add_module('b', 3)",
    "no forward": "nn.Module()(1)",
    "linear misfit": "nn.Linear(3, 2)(torch.ones(4, 5))",
    "linear shapes": "nn.Linear(3, 2)(torch.ones(2, 5, 3)).shape, nn.Linear(3, 2, dtype=torch.float64).weight.dtype == torch.float64",
    "parameter": "repr(nn.Parameter(torch.ones(2))), nn.Parameter(torch.ones(2)).is_leaf, isinstance(net[0].scale, torch.Tensor)",
    "integer parameter": "nn.Parameter(torch.ones(2, dtype=torch.int64))",
    "frozen parameter": "nn.Parameter(torch.ones(2), requires_grad=False).requires_grad",
    "gains": "[nn.init.calculate_gain(n) for n in ('linear', 'relu', 'tanh', 'sigmoid', 'selu', 'leaky_relu', 'conv2d')]",
    "leaky gain": "nn.init.calculate_gain('leaky_relu', 0.3)",
    "no such gain": "nn.init.calculate_gain('zero')",
    "fans of a vector": "nn.init.xavier_uniform_(torch.ones(3))",
    "no such mode": "nn.init.kaiming_uniform_(torch.ones(3, 3), mode='fan')",
    "negative rate": "torch.optim.SGD(net.parameters(), lr=-1)",
    "negative momentum": "torch.optim.SGD(net.parameters(), lr=1, momentum=-1)",
    "negative decay": "torch.optim.SGD(net.parameters(), lr=1, weight_decay=-1)",
    "nesterov alone": "torch.optim.SGD(net.parameters(), lr=1, nesterov=True)",
    "bad beta": "torch.optim.Adam(net.parameters(), betas=(1.0, 0.9))",
    "bad epsilon": "torch.optim.Adam(net.parameters(), eps=-1)",
    "nothing to optimize": "torch.optim.SGD([], lr=1)",
    "a tensor to optimize": "torch.optim.SGD(net[0].scale, lr=1)",
    "numbers to optimize": "torch.optim.SGD([3], lr=1)",
    "no leaf to optimize": "torch.optim.SGD([net[0].scale * 2], lr=1)",
    "twice": "torch.optim.SGD([{'params': [net[0].scale]}, {'params': [net[0].scale]}], lr=1)",
    "groups": "[g['lr'] for g in torch.optim.SGD([{'params': [net[0].scale], 'lr': 2}, {'params': [net[3].weight]}], lr=1).param_groups]",
}  # fmt: skip


def said(module, script):
    """What a script gives or how it fails."""
    module.manual_seed(0)
    names = {"torch": module, "nn": module.nn, "net": network(module)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(script, names))
        except Exception as error:
            return type(error).__name__, str(error)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name):
    mine, reference = said(sg, SCRIPTS[name]), said(torch, SCRIPTS[name])
    if isinstance(reference, tuple):
        assert isinstance(mine, tuple), f"{mine} should be {reference}"
        assert mine[0] == reference[0], f"{mine} should be {reference}"
    else:
        assert mine == reference


def test_messages_that_people_search_for():
    for name in (
        "load missing",
        "load misshapen",
        "missing attribute",
        "no forward",
        "early parameter",
        "nothing to optimize",
        "nesterov alone",
        "bad beta",
    ):
        assert said(sg, SCRIPTS[name]) == said(torch, SCRIPTS[name])


INITIALS = (
    "uniform_(t, -1, 2)", "normal_(t, 1, 2)", "constant_(t, 3)", "ones_(t)", "zeros_(t)", "eye_(t)",
    "xavier_uniform_(t, 2)", "xavier_normal_(t, 2)",
    "kaiming_uniform_(t, 0.1)", "kaiming_normal_(t, mode='fan_out', nonlinearity='relu')",
)  # fmt: skip


@pytest.mark.parametrize("call", INITIALS)
def test_initial_values(call):
    for shape in ((3, 5), (40, 30)):
        results = []
        for module in (sg, torch):
            module.manual_seed(3)
            t = module.empty(*shape)
            results.append(eval(f"init.{call}", {"init": module.nn.init, "t": t}).numpy())
        np.testing.assert_allclose(*results, rtol=1e-6, atol=1e-6)


def test_layers_start_as_in_pytorch():
    for module in (sg, torch):
        module.manual_seed(0)
    mine, reference = network(sg), network(torch)
    for a, b in zip(mine.parameters(), reference.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


OPTIMIZERS = [
    ("SGD", {"lr": 0.05}), ("SGD", {"lr": 0.02, "momentum": 0.9}),
    ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.02, "momentum": 0.8, "dampening": 0.3}), ("SGD", {"lr": 0.01, "maximize": True, "weight_decay": 0.5}),
    ("SGD", {"lr": 0.01, "momentum": 0.5, "maximize": True}), ("Adam", {}), ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4}),
    ("Adam", {"lr": 0.05, "amsgrad": True}), ("Adam", {"lr": 0.05, "weight_decay": 0.2}), ("Adam", {"lr": 0.01, "maximize": True}),
]  # fmt: skip


def trajectory(module, name, options, steps=100):
    torch = module
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double()
    x, y = torch.randn(8, 4).double(), torch.randn(8, 2).double()
    optimizer = getattr(torch.optim, name)(net.parameters(), **options)
    points = []
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        points.append(np.concatenate([p.detach().numpy().reshape(-1) for p in net.parameters()]))
    return np.array(points), optimizer


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=str)
def test_trajectory(name, options):
    mine, optimizer = trajectory(sg, name, options)
    reference, theirs = trajectory(torch, name, options)
    np.testing.assert_allclose(mine, reference, rtol=1e-9, atol=1e-12)
    for a, b in zip(optimizer.state_dict()["state"].values(), theirs.state_dict()["state"].values(), strict=True):
        assert sorted(a) == sorted(b)
        for key in a:
            np.testing.assert_allclose(np.asarray(a[key].numpy()), b[key].numpy(), rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_drops_what_pytorch_drops(p):
    for shape in ((7,), (50, 40)):
        results = []
        for module in (sg, torch):
            module.manual_seed(5)
            results.append(module.nn.functional.dropout(module.ones(*shape), p).numpy())
        np.testing.assert_array_equal(*results)
