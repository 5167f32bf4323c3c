"""A module as a function of its parameters."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad import nn
from symgrad.func import functional_call, grad


def line():
    net = nn.Sequential(nn.Linear(2, 1))
    with sg.no_grad():
        net[0].weight.copy_(sg.tensor([[2.0, 3.0]]))
        net[0].bias.fill_(1.0)
    return net


def test_given_tensors_stand_in_for_the_time_of_the_call():
    net, x = line(), sg.ones(2)
    weight = net[0].weight
    assert functional_call(net, {"0.weight": sg.zeros(1, 2)}, x).tolist() == [1]
    assert functional_call(net, ({"0.weight": sg.zeros(1, 2)}, {"0.bias": sg.full((1,), 7.0)}), (x,)).tolist() == [7]
    assert functional_call(net, {}, (), {"input": x}).tolist() == [6]
    assert net[0].weight is weight


def test_after_a_failure_the_module_is_as_before():
    net = line()
    weight = net[0].weight
    with pytest.raises(RuntimeError, match="shape"):
        functional_call(net, {"0.weight": sg.zeros(1, 5)}, sg.ones(2))
    assert net[0].weight is weight


def test_derivatives_with_respect_to_the_parameters():
    net, x = line(), sg.tensor([5.0, 7.0])
    params = {name: p.detach() for name, p in net.named_parameters()}
    found = grad(lambda params: functional_call(net, params, x).square().sum())(params)
    assert {name: g.tolist() for name, g in found.items()} == {"0.weight": [[320, 448]], "0.bias": [64]}


def test_what_is_shared_is_replaced_everywhere():
    net = nn.Module()
    net.a = net.b = nn.Parameter(sg.ones(1))
    net.forward = lambda: (net.a.item(), net.b.item())
    zero = sg.zeros(1)
    assert functional_call(net, {"b": zero}) == (0, 0)
    assert functional_call(net, {"b": zero}, tie_weights=False) == (1, 0)
    assert functional_call(net, {"a": zero, "b": zero}) == (0, 0)
    with pytest.raises(ValueError, match="got multiple values for keys \\['a', 'b'\\], which are tied"):
        functional_call(net, {"a": zero, "b": sg.ones(1)})


@pytest.mark.parametrize(("given", "error", "words"), [
    ({"0.weight": sg.ones(1, 2), "zz": sg.ones(1)}, RuntimeError, "Unexpected key\\(s\\): 'zz'.\n\tMissing key\\(s\\): '0.bias'."),
    (({"a": sg.ones(1)}, {"a": sg.ones(1)}), ValueError, "\\['a'\\] appeared in multiple dictionaries"),
    (3, ValueError, "Expected parameter_and_buffer_dicts to be a dict"),
    ({"0.weight": "3"}, TypeError, "3 is not an instance of torch.Tensor"),
])  # fmt: skip
def test_what_cannot_stand_in(given, error, words):
    with pytest.raises(error, match=words):
        functional_call(line(), given, sg.ones(2), strict=True)
