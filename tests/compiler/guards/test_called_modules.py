"""Modules that no name in the code leads to: what they are when they are called is a condition of the program, too."""

from __future__ import annotations

import functools
import operator
import weakref

import pytest

import symgrad as sg
from symgrad import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.inner, self.drop = 2.0, nn.Identity(), nn.Dropout(1.0)

    def forward(self, x):
        return self.drop(self.inner(x)) * self.factor


WAYS = {
    "weak reference": lambda net: weakref.ref(net),
    "partial": lambda net: functools.partial(getattr, net, "missing", net),
    "item": lambda net: functools.partial(operator.itemgetter("net"), {"net": net}),
}
CHANGES = {
    "attribute": lambda net: setattr(net, "factor", 3.0),
    "part": lambda net: setattr(net, "inner", nn.ReLU6()),
    "mode": lambda net: net.train(),
    "hook": lambda net: net.register_forward_hook(lambda module, args, result: result + 1),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS)
def test_a_change_is_noticed(way, change):
    net = Scaled().eval()
    get = WAYS[way](net)
    function = lambda x: get()(x)
    fast, x = sg.compile(function, backend="numpy"), sg.tensor([1.0, 7.0])
    before = fast(x).tolist()
    assert before == function(x).tolist()
    CHANGES[change](net)
    after = fast(x).tolist()
    assert after == function(x).tolist() != before
