"""Module: registration, state, modes, printing, hooks."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.register_buffer("steps", sg.zeros(1))
        self.register_buffer("scratch", sg.zeros(1), persistent=False)
        self.scale = nn.Parameter(sg.ones(2))

    def forward(self, x):
        return self.second(sg.relu(self.first(x))) * self.scale


def same(a, b):
    return np.array_equal(a.detach().numpy(), b.detach().numpy())


# --- registration


def test_assignment_registers():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [n for n, _ in net.named_buffers()] == ["steps", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]


def test_a_name_moves_between_groups():
    net = Net()
    net.second = None
    assert net.second is None
    assert [n for n, _ in net.named_children()] == ["first"]
    net.extra = 3
    net.extra = nn.Parameter(sg.ones(1))
    assert "extra" in dict(net.named_parameters())
    assert "extra" not in vars(net)
    del net.extra
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'extra'"):
        _ = net.extra


def test_what_is_shared_is_listed_once():
    net = Net()
    net.third = net.second
    assert len(list(net.parameters())) == 5
    assert len(list(net.named_parameters(remove_duplicate=False))) == 7
    assert len(list(net.modules())) == 3
    assert len(net.state_dict()) == 8


def test_what_cannot_be_registered():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'torch.FloatTensor' as parameter 'scale'"):
        net.scale = sg.ones(2)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.register_buffer("forward", sg.ones(1))
    with pytest.raises(KeyError, match="parameter name can.*t contain"):
        net.register_parameter("a.b", None)
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        type("Early", (nn.Module,), {"__init__": lambda self: setattr(self, "inner", nn.ReLU())})()


# --- state


def test_state_goes_out_and_in():
    a, b = Net(), Net()
    assert list(a.state_dict()) == ["scale", "steps", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert not a.state_dict()["scale"].requires_grad
    assert a.state_dict(keep_vars=True)["scale"] is a.scale
    kept = b.first.weight
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert b.first.weight is kept
    assert all(same(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scale": None}, 'Missing key\\(s\\) in state_dict: "scale"'),
        ({"other": sg.ones(1)}, 'Unexpected key\\(s\\) in state_dict: "other"'),
        ({"second.bias": sg.ones(3)}, r"size mismatch for second.bias: copying a param with shape torch.Size\(\[3\]\)"),
    ],
)
def test_loading_is_all_or_nothing(change, words):
    net = Net()
    state = {k: v + 1 for k, v in net.state_dict().items()}
    state.update(change)
    state = {k: v for k, v in state.items() if v is not None}
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(RuntimeError, match=f"Error\\(s\\) in loading state_dict for Net:\n\t{words}"):
        net.load_state_dict(state)
    assert all(same(v, net.state_dict()[k]) for k, v in before.items())


def test_loading_loosely_tells_what_did_not_fit():
    net = Net()
    result = net.load_state_dict({"scale": sg.zeros(2), "other": sg.ones(1)}, strict=False)
    assert result.unexpected_keys == ["other"]
    assert "first.weight" in result.missing_keys
    assert net.scale.tolist() == [0, 0]


def test_a_copy_is_independent_and_can_be_pickled():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert same(other.first.weight, net.first.weight)
        assert other.first.weight is not net.first.weight
        assert isinstance(other.first.weight, nn.Parameter)
        assert other.first.weight.requires_grad
        with sg.no_grad():
            other.scale.zero_()
        assert net.scale.tolist() == [1, 1]


# --- modes and conversions


def test_modes_reach_every_module():
    net = nn.Sequential(Net(), nn.ReLU())
    assert all(not m.training for m in net.eval().modules())
    assert all(m.training for m in net.train().modules())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train("yes")


def test_conversion_keeps_the_parameters():
    net = Net()
    kept = net.scale
    net(sg.ones(1, 3)).sum().backward()
    net.double()
    assert net.scale is kept
    assert {p.dtype for p in net.parameters()} == {sg.float64}
    assert net.scale.grad.dtype == sg.float64
    assert net.steps.dtype == sg.float64
    assert net.scale.is_leaf
    net.to(sg.float32)(sg.ones(1, 3)).sum().backward()


def test_zero_grad_and_requires_grad():
    net = Net()
    net(sg.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.second.bias.grad.tolist() == [0, 0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert not net.requires_grad_(False)(sg.ones(1, 3)).requires_grad


def test_apply_goes_from_the_leaves_up():
    seen = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Linear", "Net"]


# --- containers and printing


def test_sequential_is_a_sequence():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert net(sg.ones(5, 3)).shape == (5, 2)
    assert len(net[:2]) == 2
    assert net[-1] is net[2]
    net[1] = nn.Tanh()
    del net[0]
    assert repr(net) == "Sequential(\n  (0): Tanh()\n  (1): Linear(in_features=4, out_features=2, bias=True)\n)"
    with pytest.raises(IndexError, match="index 2 is out of range"):
        net[2]
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert [n for n, _ in named.named_children()] == ["a", "b"]
    assert named[1] is named.b


def test_module_list_registers_and_prints_repeats_once():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    layers.append(nn.ReLU())
    assert len(list(layers.parameters())) == 6
    assert repr(layers) == "ModuleList(\n  (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)\n  (3): ReLU()\n)"
    layers.insert(0, nn.Tanh())
    assert isinstance(layers[0], nn.Tanh)
    assert isinstance(layers.pop(0), nn.Tanh)
    assert [len(layers), len(layers[1:]), len(layers + nn.ModuleList([nn.ReLU()]))] == [4, 3, 5]
    with pytest.raises(NotImplementedError, match="missing the required"):
        layers(1)


def test_nested_modules_are_indented():
    first, second = "Linear(in_features=3, out_features=4, bias=True)", "Linear(in_features=4, out_features=2, bias=True)"
    inner = f"Net(\n    (first): {first}\n    (second): {second}\n  )"
    assert repr(nn.Sequential(Net(), nn.ReLU(inplace=True))) == f"Sequential(\n  (0): {inner}\n  (1): ReLU(inplace=True)\n)"


# --- first values: those of PyTorch for the same seed


def test_linear_starts_with_pytorchs_numbers():
    sg.manual_seed(0)
    layer = nn.Linear(3, 2)
    weight = [
        [-0.004322517663240433, 0.3097158372402191, -0.4751853346824646],
        [-0.4248946011066437, -0.2223689705133438, 0.15482072532176971],
    ]
    assert layer.weight.tolist() == weight
    assert layer.bias.tolist() == [-0.011439144611358643, 0.45777493715286255]
    larger = nn.Linear(30, 20)
    assert abs(larger.weight.sum().item() + 1.0115373134613037) < 1e-5
    assert larger.bias[-1].item() == -0.030151372775435448


# --- hooks


def test_forward_hooks_see_and_replace():
    layer, seen = nn.Linear(3, 2), []
    before = layer.register_forward_pre_hook(lambda m, args: seen.append("before") or (args[0] * 0,))
    after = layer.register_forward_hook(lambda m, args, out: seen.append("after") or out + 1)
    first = layer.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    np.testing.assert_allclose(layer(sg.ones(1, 3)).detach().numpy(), layer.bias.detach().numpy()[None] + 1)
    assert seen == ["before", "first", "after"]
    for handle in (before, after, first):
        handle.remove()
    layer(sg.ones(1, 3))
    assert len(seen) == 3


def test_hooks_with_keyword_arguments():
    class Scaled(nn.Module):
        def forward(self, x, factor=1):
            return x * factor

    module = Scaled()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 2 * kwargs["factor"]}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["factor"], with_kwargs=True)
    assert module(sg.tensor([1.0]), factor=3).tolist() == [12]


def test_full_backward_hooks_see_both_sides_and_replace_the_gradient():
    layer, seen = nn.Linear(3, 2), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].clone(), grad_output[0].clone()))
        return (grad_input[0] * 2,)

    layer.register_full_backward_hook(hook)
    x = sg.ones(1, 3, requires_grad=True)
    layer(x).sum().backward()
    ((given, asked),) = seen
    np.testing.assert_allclose(given.numpy(), layer.weight.detach().numpy().sum(0)[None], rtol=1e-6)
    assert asked.tolist() == [[1, 1]]
    np.testing.assert_allclose(x.grad.numpy(), 2 * given.numpy())
    assert layer.bias.grad.tolist() == [1, 1]


def test_full_backward_pre_hook_replaces_the_gradient_of_the_output():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
    layer(sg.ones(1, 3)).sum().backward()
    assert layer.bias.grad.tolist() == [3, 3]


def test_full_backward_hook_without_a_gradient_of_the_input():
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output[0].tolist())))
    layer(sg.ones(1, 3)).sum().backward()
    assert seen == [((None,), [[1, 1]])]


def test_backward_hooks_of_nested_modules_run_from_the_output_inwards():
    net, seen = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), []
    for name, module in net.named_modules():
        module.register_full_backward_hook(lambda m, gi, go, name=name: seen.append(name))
    net(sg.ones(1, 3, requires_grad=True)).sum().backward()
    assert seen == ["2", "1", "0", ""]


def test_hooks_leave_no_cycles():
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        net[0].register_full_backward_hook(lambda *args: None)
        out = net(sg.ones(1, 3, requires_grad=True)).sum()
        out.backward()
        gone = weakref.ref(net)
        del net, out
        assert gone() is None
    finally:
        gc.enable()


def test_a_network_learns():
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    x = sg.rand(64, 2) * 2 - 1
    y = (x[:, :1] * x[:, 1:]).sin()
    optimizer, loss = sg.optim.Adam(net.parameters(), lr=0.02), nn.MSELoss()
    for _ in range(200):
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
    assert value.item() < 1e-3
