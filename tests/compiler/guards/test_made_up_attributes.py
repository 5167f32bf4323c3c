"""Objects that make attributes up, as configurations and proxies do, are no modules; dictionaries of other classes keep their entries."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from unittest import mock

import pytest

import symgrad as sg
from symgrad.pytree import flatten, is_module, unflatten


class Config:
    def __init__(self):
        self.__dict__["values"] = {"rate": 2.0}

    def __getattr__(self, name):
        return self.values.get(name, 0.0)


class AttributeDict(dict):
    def __getattr__(self, name):
        return self[name]


class Everything:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 2.0


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("settings", [Config(), AttributeDict(rate=2.0), Everything(), mock.Mock(rate=2.0)], ids=lambda x: type(x).__name__)
def test_objects_that_make_attributes_up(settings, backend):
    assert not is_module(settings)
    assert sg.compile(lambda x: x * settings.rate, backend=backend)(sg.ones(2)).tolist() == [2.0, 2.0]


def test_their_changes_are_noticed():
    config, settings = Config(), AttributeDict(rate=2.0)
    fast = sg.compile(lambda x: x * config.rate * settings.rate, backend="numpy")
    assert fast(sg.ones(1)).item() == 4.0
    settings["rate"] = 5.0
    assert fast(sg.ones(1)).item() == 10.0
    config.values["rate"] = 3.0
    assert fast(sg.ones(1)).item() == 15.0


OTHER_DICTIONARIES = [Counter(a=3.0, b=1.0), OrderedDict(b=1.0, a=3.0), defaultdict(int, a=3.0)]


@pytest.mark.parametrize("made", OTHER_DICTIONARIES, ids=lambda x: type(x).__name__)
def test_dictionaries_of_other_classes(made):
    leaves, structure = flatten(made, lambda x: isinstance(x, float))
    assert unflatten(structure, leaves) == made
    fast = sg.compile(lambda x, n: x * n["a"], backend="numpy")
    assert fast(sg.ones(2), made).tolist() == [3.0, 3.0]
    assert fast(sg.ones(2), made).tolist() == [3.0, 3.0]
    assert fast(sg.ones(2), Counter(a=3)).tolist() == [3.0, 3.0]
