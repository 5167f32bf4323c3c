"""Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import symgrad as sg
from symgrad import nn
from symgrad.mode import guard_epoch


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


def kinds(modules):
    return [type(module).__name__ for module in modules]


def test_sequential_grows_and_shrinks_in_place():
    net = nn.Sequential(nn.ReLU())
    assert net.append(nn.Tanh()) is net
    assert net.insert(0, nn.Identity()) is net
    assert net.insert(-1, nn.Flatten()) is net
    assert kinds(net) == ["Identity", "ReLU", "Flatten", "Tanh"]
    assert kinds(net.pop(slice(0, 2))) == ["Identity", "ReLU"]
    assert kinds([net.pop(0), *net]) == ["Flatten", "Tanh"]
    assert list(net._modules) == ["0"]
    net += nn.Sequential(nn.ReLU())
    net *= 2
    assert kinds(net) == ["Tanh", "ReLU", "Tanh", "ReLU"]
    assert net[0] is net[2]
    del net[1:]
    assert kinds(net) == ["Tanh"]


def test_sums_and_multiples_of_sequentials_are_new():
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert kinds(net + nn.Sequential(nn.Identity())) == ["ReLU", "Tanh", "Identity"]
    assert kinds(2 * net) == kinds(net * 2) == ["ReLU", "Tanh", "ReLU", "Tanh"]
    assert len(net) == 2


@pytest.mark.parametrize(("act", "error", "words"), [
    (lambda net: net.__add__([nn.ReLU()]), ValueError, "add operator supports only objects of Sequential class"),
    (lambda net: net * 0, ValueError, "Non-positive multiplication factor 0"),
    (lambda net: net * 1.5, TypeError, r"unsupported operand type\(s\) for \*"),
    (lambda net: net.insert(5, nn.ReLU()), IndexError, "Index out of range: 5"),
    (lambda net: net.insert(0, 3), AssertionError, "module should be of type"),
    (lambda net: net.append(3), TypeError, "int is not a Module subclass"),
    (lambda net: net.__setitem__(0, 3), TypeError, r"cannot assign 'int' as child module '0' \(torch.nn.Module or None expected\)"),
    (lambda net: net.extend(3), TypeError, "Sequential.extend should be called with an iterable, but got int"),
])  # fmt: skip
def test_what_a_sequential_refuses(act, error, words):
    net = nn.Sequential(nn.ReLU())
    with pytest.raises(error, match=words):
        act(net)
    assert kinds(net) == ["ReLU"]


def test_a_list_may_be_extended_by_itself():
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers += layers
    assert kinds(layers) == ["ReLU", "Tanh", "ReLU", "Tanh"]
    assert kinds(layers + nn.ModuleList([nn.Identity()]))[-1] == "Identity"
    with pytest.raises(TypeError, match=r"ModuleList.extend should be called with an iterable, but got int"):
        nn.ModuleList(3)


def test_blank_lines_of_a_nested_module_stay_blank():
    class Spaced(nn.Module):
        def extra_repr(self):
            return "a\n\nb"

    assert repr(nn.Sequential(Spaced())) == "Sequential(\n  (0): Spaced(\n    a\n\n    b\n  )\n)"


def test_module_dict_is_a_dictionary():
    layers = nn.ModuleDict({"b": nn.Linear(1, 1), "a": nn.ReLU()})
    assert list(layers) == list(layers.keys()) == ["b", "a"]
    assert "a" in layers
    assert "z" not in layers
    assert kinds(layers.values()) == ["Linear", "ReLU"]
    assert [name for name, _ in layers.named_parameters()] == ["b.weight", "b.bias"]
    layers.update([("c", nn.Tanh())])
    layers.update(nn.ModuleDict({"d": nn.Tanh()}))
    layers["a"] = nn.Identity()
    assert repr(layers).split("\n")[2:] == ["  (a): Identity()", "  (c): Tanh()", "  (d): Tanh()", ")"]
    assert kinds([layers.pop("a")]) == ["Identity"]
    del layers["b"]
    assert [name for name, _ in layers.items()] == ["c", "d"]
    layers.clear()
    assert (len(layers), repr(layers)) == (0, "ModuleDict()")


@pytest.mark.parametrize(("given", "error", "words"), [
    (3, TypeError, "ModuleDict.update should be called with an iterable of key/value pairs, but got int"),
    ([3], TypeError, "ModuleDict update sequence element #0 should be Iterable"),
    ([("a", nn.ReLU()), (1, 2, 3)], ValueError, "ModuleDict update sequence element #1 has length 3; 2 is required"),
    ({"keys": nn.ReLU()}, KeyError, "attribute 'keys' already exists"),
    ({"a": 3}, TypeError, "int is not a Module subclass"),
])  # fmt: skip
def test_what_a_module_dict_refuses(given, error, words):
    layers = nn.ModuleDict()
    with pytest.raises(error, match=words):
        layers.update(given)
    assert len(layers) == 0


def test_parameter_list():
    params = nn.ParameterList([sg.ones(2), nn.Parameter(sg.zeros(1, 3), requires_grad=False), 3])
    assert [isinstance(p, nn.Parameter) for p in params] == [True, True, False]
    assert [name for name, _ in params.named_parameters()] == ["0", "1"]
    assert repr(params).split("\n")[1:] == [
        "    (0): Parameter containing: [torch.float32 of size 2]",
        "    (1): Parameter containing: [torch.float32 of size 1x3]",
        "    (2): Object of type: int",
        ")",
    ]
    params[-1] = sg.ones(4)
    params += [sg.ones(5)]
    assert [len(p) for p in params[2:]] == [4, 5]
    assert isinstance(params[:1], nn.ParameterList)
    assert len(params.append(sg.ones(1)).extend([sg.ones(1)])) == 6
    with pytest.raises(IndexError, match="index 6 is out of range"):
        params[6]
    with pytest.raises(TypeError, match="should be called with an iterable, but got Tensor"):
        params.extend(sg.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        params(1)


def test_parameter_dict():
    params = nn.ParameterDict({"b": sg.ones(2), "a": sg.zeros(3)})
    assert list(params) == ["a", "b"]  # a plain dict is sorted, as in PyTorch
    assert list(nn.ParameterDict(OrderedDict(b=sg.ones(2), a=sg.ones(1)))) == ["b", "a"]
    assert repr(params) == (
        "ParameterDict(\n    (a): Parameter containing: [torch.FloatTensor of size 3]\n"
        "    (b): Parameter containing: [torch.FloatTensor of size 2]\n)"
    )
    assert params.get("z", 7) == 7
    assert params.get("a") is params["a"]
    assert isinstance(params.setdefault("c", sg.ones(1)), nn.Parameter)
    assert list(reversed(params)) == ["c", "b", "a"]
    assert params.copy()["a"] is params["a"]
    assert list(params | nn.ParameterDict({"d": sg.ones(1)})) == ["a", "b", "c", "d"]
    params |= nn.ParameterDict({"a": sg.ones(9)})
    assert len(params["a"]) == 9
    assert params.popitem()[0] == "c"
    assert len(params.pop("a")) == 9
    assert list(params.keys()) == [name for name, _ in params.items()] == [name for name, _ in params.named_parameters()] == ["b"]
    assert list(params.fromkeys(["x"], 3).values()) == [3]
    params.clear()
    with pytest.raises(KeyError, match="dictionary is empty"):
        params.popitem()
    with pytest.raises(RuntimeError, match="ParameterDict should not be called"):
        params(1)


@pytest.mark.parametrize(("key", "error"), [(3, TypeError), ("a.b", KeyError), ("keys", KeyError)])
def test_names_that_a_parameter_dict_refuses(key, error):
    params = nn.ParameterDict()
    with pytest.raises(error, match=r"string|contain|exists"):
        params[key] = sg.ones(1)
    assert list(params) == []


# --- changes that compiled functions must notice


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, input):
        return input * self.factor


CHANGES = {
    "append": lambda net, new: net.append(new),
    "extend": lambda net, new: net.extend([new]),
    "insert first": lambda net, new: net.insert(0, new),
    "insert last": lambda net, new: net.insert(len(net), new),
    "insert from the end": lambda net, new: net.insert(-1, new),
    "replace": lambda net, new: net.__setitem__(1, new),
    "delete": lambda net, new: net.__delitem__(0),
    "delete some": lambda net, new: net.__delitem__(slice(0, 2)),
    "pop": lambda net, new: net.pop(),
    "pop first": lambda net, new: net.pop(0),
}


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_list_counts_as_a_change_of_guards(kind, change):
    parts, new = [Times(2.0), Times(3.0), Times(5.0)], Times(7.0)
    net = kind(*parts) if kind is nn.Sequential else kind(parts)
    for _ in range(2):  # again, for what the first change has left
        before = guard_epoch.count
        CHANGES[change](net, new)
        assert guard_epoch.count > before
        assert list(net._modules) == [str(i) for i in range(len(net))]
        if not len(net) or change == "delete some":
            break


def test_a_compiled_function_sees_a_module_that_is_inserted():
    net, new = nn.Sequential(Times(2.0), Times(3.0)), Times(5.0)
    f = sg.compile(lambda x: net(x))
    assert f(sg.ones(1)).item() == 6
    net.insert(1, new)
    assert f(sg.ones(1)).item() == 30
    del net[0]
    assert f(sg.ones(1)).item() == 15


def test_places_at_which_a_module_may_be_inserted():
    for index, wanted in ((0, [9, 1, 2]), (2, [1, 2, 9]), (-1, [1, 9, 2]), (-2, [9, 1, 2])):
        net = nn.Sequential(Times(1), Times(2))
        assert net.insert(index, Times(9)) is net
        assert [part.factor for part in net] == wanted
        assert nn.ModuleList(net).insert(0, Times(9)) is None
    for index in (3, -3):
        with pytest.raises(IndexError, match=f"Index out of range: {index}"):
            nn.Sequential(Times(1), Times(2)).insert(index, Times(9))


def test_values_are_kept_and_handed_out_by_the_dictionaries():
    parts = {"b": nn.Linear(1, 1), "a": nn.ReLU()}
    held = nn.ModuleDict(parts)
    assert held.pop("b") is parts["b"]
    assert (list(held), len(held), "b" in held, "a" in held) == (["a"], 1, False, True)
    tensors = nn.ParameterDict({"b": sg.ones(1), "a": sg.zeros(2)})
    assert list(tensors) == ["a", "b"]
    assert list(reversed(tensors)) == ["b", "a"]
    assert tensors.get("c", 3) == 3
    assert tensors.setdefault("c", sg.ones(3)) is tensors["c"]
    assert tensors.popitem()[0] == "c"
    both = tensors | nn.ParameterDict({"a": sg.ones(4)})
    assert (both["a"].shape, both["b"] is tensors["b"]) == ((4,), True)
    assert tensors.fromkeys(["x", "y"], 5)["y"] == 5
    assert tensors.copy()["a"] is tensors["a"]
    tensors.clear()
    assert (len(tensors), list(tensors.parameters())) == (0, [])
    with pytest.raises(KeyError, match="dictionary is empty"):
        tensors.popitem()
