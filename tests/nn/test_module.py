"""Module: registration, traversal, modes, conversion, printing."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from small_nets import Net, same

import symgrad as sg
from symgrad import nn

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
    net.first.tied = net.second.weight
    assert len(list(net.parameters())) == 5
    assert len(net.state_dict()) == 9


def test_what_cannot_be_registered():
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'scale'"):
        net.scale = sg.ones(2)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.register_buffer("forward", sg.ones(1))
    with pytest.raises(KeyError, match=r"parameter name can.*t contain"):
        net.register_parameter("a.b", None)
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        type("Early", (nn.Module,), {"__init__": lambda self: setattr(self, "inner", nn.ReLU())})()


# --- parameters and buffers


def test_a_buffer_is_registered_when_it_is_assigned():
    net = nn.Module()
    net.mean = nn.Buffer(sg.zeros(2))
    net.scratch = nn.Buffer(sg.zeros(2), persistent=False)
    assert [name for name, _ in net.named_buffers()] == ["mean", "scratch"]
    assert list(net.state_dict()) == ["mean"]
    net.scratch = sg.ones(2)  # another tensor in its place stays out of the state, too
    net.scratch = nn.Parameter(sg.ones(2))  # but not for ever
    del net.scratch
    net.register_buffer("scratch", sg.ones(2))
    assert list(net.state_dict()) == ["mean", "scratch"]
    assert type(net.mean) is sg.Tensor
    assert isinstance(net.mean, nn.Buffer)
    assert isinstance(pickle.loads(pickle.dumps(net)).mean, nn.Buffer)
    assert not isinstance(sg.ones(1), nn.Buffer)


def test_a_subclass_of_tensor_as_a_parameter_keeps_its_class():
    class Tagged(sg.Tensor):
        pass

    net = nn.Module()
    net.tagged = nn.Parameter(sg.ones(2).as_subclass(Tagged))
    assert type(net.tagged) is Tagged
    assert isinstance(net.tagged, nn.Parameter)
    assert [name for name, p in net.named_parameters() if p.requires_grad] == ["tagged"]
    assert isinstance(copy.deepcopy(net).tagged, nn.Parameter)


def test_parameters():
    data = sg.ones(2)
    p = nn.Parameter(data)
    assert p.data_ptr() == data.data_ptr()
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(nn.Parameter(data, requires_grad=False)) == "Parameter containing:\ntensor([1., 1.])"
    assert nn.Parameter(p * 2).is_leaf
    p.data = sg.zeros(3)
    assert (p.tolist(), p.requires_grad) == ([0, 0, 0], True)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        nn.Parameter(sg.ones(2, dtype=sg.int64))
    assert not nn.Parameter(sg.ones(2, dtype=sg.int64), requires_grad=False).requires_grad


@pytest.mark.parametrize("made", [sg.ones(3), sg.ones(2, 3)[0], sg.ones(3, requires_grad=True) * 1, nn.Parameter(sg.ones(3))], ids=str)
def test_a_write_to_what_a_parameter_was_made_of_is_noticed(made):
    p = nn.Parameter(made)
    for written in (made, p, made.detach()):
        y = (p * p).sum()
        with sg.no_grad():
            written.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
    assert p._version == made._version == 3
    (p * p).sum().backward()
    assert p.grad.tolist() == [8, 8, 8]


def test_a_parameter_that_was_computed_is_refused():
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'p'"):
        nn.Module().register_parameter("p", nn.Parameter(sg.ones(1)).requires_grad_().clone().as_subclass(nn.Parameter))


# --- by path


def test_modules_parameters_and_buffers_by_path():
    net = nn.Sequential(Net())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.bias") is net[0].first.bias
    assert net.get_buffer("0.steps") is net[0].steps
    net.set_submodule("0.first", nn.Identity())
    net.set_submodule("0.new", nn.Tanh())
    assert [name for name, _ in net[0].named_children()] == ["first", "second", "new"]


@pytest.mark.parametrize(("act", "error", "words"), [
    (lambda net: net.get_submodule("first.zero"), AttributeError, "Linear has no attribute `zero`"),
    (lambda net: net.get_submodule("scale"), AttributeError, "`scale` is not an nn.Module"),
    (lambda net: net.get_parameter("steps"), AttributeError, "`steps` is not an nn.Parameter"),
    (lambda net: net.get_buffer("scale"), AttributeError, "`scale` is not a buffer"),
    (lambda net: net.set_submodule("", nn.ReLU()), ValueError, "Cannot set the submodule without a target name!"),
    (lambda net: net.set_submodule("first", 3), ValueError, "`module` is not an nn.Module, found <class 'int'>"),
    (lambda net: net.set_submodule("new", nn.ReLU(), strict=True), AttributeError, "Net has no attribute `new`"),
    (lambda net: net.set_submodule("scale", nn.ReLU()), AttributeError, "`scale` is not an nn.Module"),
    (lambda net: net.to(sg.int64), TypeError, "only accepts floating point or complex dtypes, but got desired dtype=torch.int64"),
    (lambda net: net.add_module("b", 3), TypeError, "int is not a Module subclass"),
    (lambda net: net.register_buffer("b", 3), TypeError, "cannot assign 'int' object to buffer 'b'"),
    (lambda net: net.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
    (lambda net: setattr(net, "first", 3), TypeError, "cannot assign 'int' as child module 'first'"),
    (lambda net: setattr(net, "scale", nn.ReLU()), TypeError, "as parameter 'scale'"),
    (lambda net: setattr(net, "steps", 3), TypeError, "cannot assign 'int' as buffer 'steps'"),
    (lambda net: nn.Module(3), TypeError, "takes 1 positional argument but 2 were given"),
    (lambda net: nn.Module(a=3), TypeError, "got an unexpected keyword argument 'a'"),
])  # fmt: skip
def test_refusals(act, error, words):
    net = Net()
    before = list(net.state_dict())
    with pytest.raises(error, match=re.escape(words)):
        act(net)
    assert list(net.state_dict()) == before


def test_python_can_suggest_what_a_misspelled_attribute_means():
    net = Net()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scal'") as error:
        _ = net.scal
    assert (error.value.name, error.value.obj) == ("scal", net)  # from these two it finds 'scale'


def test_dir_names_what_can_be_written_after_a_dot():
    names = dir(nn.Sequential(Net()))
    assert "0" not in names
    assert {"scale", "first", "steps", "forward"} <= set(dir(Net()))


def test_the_classes_are_also_where_pytorch_has_them():
    assert nn.modules.Linear is nn.modules.linear.Linear is nn.Linear
    assert nn.modules.module.Module is nn.Module


def test_several_base_classes():
    class Other:
        def __init__(self, a):
            self.a = a

    class Both(nn.Module, Other):
        call_super_init = True

    assert Both(3).a == 3


def test_prefixes_and_levels():
    net = Net()
    assert [name for name, _ in net.named_parameters("p", recurse=False)] == ["p.scale"]
    assert [name for name, _ in net.named_modules(prefix="p")] == ["p", "p.first", "p.second"]
    net.again = net.first
    assert [name for name, _ in net.named_modules(remove_duplicate=False)] == ["", "first", "second", "again"]


# --- copies


def test_a_copy_is_independent_and_can_be_pickled():
    net = Net()
    net.first.bias.requires_grad_(False)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert same(other.first.weight, net.first.weight)
        assert other.first.weight is not net.first.weight
        assert isinstance(other.first.weight, nn.Parameter)
        assert other.first.weight.requires_grad
        assert not other.first.bias.requires_grad
        with sg.no_grad():
            other.scale.zero_()
        assert net.scale.tolist() == [1, 1]


def test_an_old_pickle_gets_what_it_lacks():
    state = vars(nn.Linear(1, 1)).copy()
    del state["_load_state_dict_post_hooks"]
    layer = nn.Linear.__new__(nn.Linear)
    layer.__setstate__(state)
    layer.load_state_dict(layer.state_dict())
    assert layer(sg.ones(1)).shape == (1,)


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


def test_only_floats_are_cast():
    net = Net()
    net.register_buffer("places", sg.zeros(2, dtype=sg.int64))
    assert net.half().places.dtype == sg.int64
    assert net.bfloat16().scale.dtype == sg.bfloat16
    assert net.to(sg.ones(1, dtype=sg.float64)).scale.dtype == sg.float64
    assert net.to("cpu", sg.float32, non_blocking=True).places.dtype == sg.int64
    assert net.to(device="cpu").scale.dtype == sg.float32
    assert net.to(dtype=sg.complex64).steps.dtype == sg.complex64
    assert net.float().scale.dtype == sg.complex64
    assert Net().type(sg.float64).scale.dtype == sg.float64
    assert Net().to_empty(device="cpu").first.weight.shape == (4, 3)
    with pytest.raises(RuntimeError, match=r"CUDA|cuda"):
        net.cuda()


def test_the_gradient_is_cast_in_its_place():
    net = Net()
    net(sg.ones(1, 3)).sum().backward()
    grad = net.scale.grad
    assert net.double().scale.grad is grad
    assert grad.dtype == sg.float64


def test_a_submodule_may_have_modes_of_its_own():
    class Frozen(nn.Linear):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(Frozen(1, 1), nn.ReLU())
    assert [module.training for module in net.train().modules()] == [True, False, True]


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


# --- printing


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
