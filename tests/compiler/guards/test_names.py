"""What a function reads besides its arguments, wherever it finds it, is looked at again before each call."""

from __future__ import annotations

import math
import operator
import types
import warnings

import pytest
from interpreter_backend import interpret

import symgrad as sg


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


class Settings:
    offset = 1.0

    def __init__(self):
        self.gain, self.inner = 2.0, types.SimpleNamespace(shift=1.0)

    def amplified(self, x):
        return x * self.gain

    @property
    def doubled(self):
        return self.gain * 2


class Half(float):
    def __new__(cls, x):
        return super().__new__(cls, 0.5)


class Quarter(float):
    def __new__(cls, x):
        return super().__new__(cls, 0.25)


class Slotted:
    __slots__ = ("gain",)

    def __init__(self):
        self.gain = 2.0

    @sg.compile
    def amplified(self, x):
        return x * self.gain


settings, table, chain = Settings(), {"gain": 2.0, "inner": {"shift": 1.0}}, [2.0, [1.0]]
module = types.ModuleType("settings_of_a_test")
exec("gain = 2.0\ndef amplified(x): return x * gain", module.__dict__)
READERS = {
    "attribute": (lambda x: x * settings.gain, lambda: setattr(settings, "gain", 3.0), "settings.gain: 2.0 -> 3.0"),
    "method": (lambda x: settings.amplified(x), lambda: setattr(settings, "gain", 3.0), "settings.gain: 2.0 -> 3.0"),
    "property": (lambda x: x * settings.doubled, lambda: setattr(settings, "gain", 3.0), "settings.gain: 2.0 -> 3.0"),
    "nested": (lambda x: x * settings.inner.shift, lambda: setattr(settings.inner, "shift", 3.0), "settings.inner.shift: 1.0 -> 3.0"),
    "class": (lambda x: x * Settings.offset, lambda: setattr(Settings, "offset", 3.0), "Settings.offset: 1.0 -> 3.0"),
    "of the class": (lambda x: x * settings.offset, lambda: setattr(Settings, "offset", 3.0), "settings.offset: 1.0 -> 3.0"),
    "dict": (lambda x: x * table["gain"], lambda: table.update(gain=3.0), "global table['gain']: 2.0 -> 3.0"),
    "in it": (lambda x: x * table["inner"]["shift"], lambda: table["inner"].update(shift=3), "global table['inner']['shift']: 1.0 -> 3"),
    "list": (lambda x: x * chain[0], lambda: chain.__setitem__(0, 3.0), "global chain[0]: 2.0 -> 3.0"),
    "length": (lambda x: x * len(chain), lambda: chain.append(1.0), "global chain: 2 -> 3 entries"),
    "module": (lambda x: x * module.gain, lambda: setattr(module, "gain", 3.0), "module.gain: 2.0 -> 3.0"),
    "function in it": (lambda x: module.amplified(x), lambda: setattr(module, "gain", 3.0), "global gain: 2.0 -> 3.0"),
}


@pytest.mark.parametrize("name", READERS)
def test_what_names_in_the_code_lead_to_is_read_again(name, monkeypatch):
    monkeypatch.setattr(settings, "gain", 2.0)
    monkeypatch.setattr(settings.inner, "shift", 1.0)
    monkeypatch.setattr(Settings, "offset", 1.0)
    monkeypatch.setattr(module, "gain", 2.0)
    monkeypatch.setitem(table, "gain", 2.0)
    monkeypatch.setitem(table, "inner", {"shift": 1.0})
    chain[:] = [2.0, [1.0]]
    function, change, reason = READERS[name]
    fast = sg.compile(function)
    x = sg.ones(2)
    before = fast(x).tolist()
    change()
    assert fast(x).tolist() == function(x).tolist() != before
    fast(x)
    assert [str(record) for record in fast.recompiles()] == ["first call", reason]


def test_attributes_of_arguments_are_read_again():
    given, slotted = types.SimpleNamespace(gain=2.0), Slotted()
    fast = sg.compile(lambda x, options: x * options["gains"].gain)
    assert fast(sg.ones(1), {"gains": given}).item() == slotted.amplified(sg.ones(1)).item() == 2
    given.gain = slotted.gain = 3.0
    assert fast(sg.ones(1), {"gains": given}).item() == slotted.amplified(sg.ones(1)).item() == 3
    assert str(fast.recompiles()[-1]) == "options.gains.gain: 2.0 -> 3.0"


class Computed:
    """Reads an attribute whose name is nowhere in its code."""

    def __init__(self):
        self.low, self.choice = 2.0, "lo"

    def __call__(self, x):
        return x * getattr(self, self.choice + "w")


@pytest.mark.parametrize("of", [lambda owner: owner.__call__, lambda owner: owner], ids=["method", "object"])
def test_attributes_of_computed_names_are_read_again(of):
    owner = Computed()
    fast = sg.compile(of(owner))
    assert fast(sg.ones(1)).item() == 2
    owner.low = 3.0
    assert fast(sg.ones(1)).item() == 3
    assert str(fast.recompiles()[-1]) == "Computed.low: 2.0 -> 3.0"


def test_tensors_in_a_list_may_be_exchanged_and_a_log_may_grow():
    weights, log = [sg.ones(2)], []

    def f(x):
        log.append(1)
        return (x * weights[0]).sum()

    fast = sg.compile(f)
    for _ in range(3):
        fast(sg.ones(2))
    assert len(log) == 1
    weights[0] = sg.ones(2) * 3
    assert fast(sg.ones(2)).item() == 6
    weights[0].mul_(2)
    assert fast(sg.ones(2)).item() == 12
    assert [str(record) for record in fast.recompiles()] == ["first call", "closure cell weights[0]: another Tensor"]


def test_what_changes_all_the_time_is_one_warning_that_names_it():
    gain = 0.0
    fast = sg.compile(lambda x: x * gain)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(12):
            gain = float(i)
            assert fast(sg.ones(1)).item() == i
    (said,) = [str(w.message) for w in caught]
    assert said.startswith("closure cell gain has changed 8 times")
    assert "pass it as an argument" in said

    worded = sg.compile(lambda x, word: x * len(word))
    for i in range(8):
        worded(sg.ones(1), "a" * i)
    with pytest.warns(UserWarning, match="argument word has come in 9 values"):
        worded(sg.ones(1), "b")


def test_what_a_module_finds_in_its_attributes_is_read_again():
    class Scaled(sg.nn.Module):
        def __init__(self):
            super().__init__()
            self.settings, self.gains, self.unread = types.SimpleNamespace(gain=2.0), [1.0], []

        def forward(self, x):
            return self.scaled(x) * self.gains[0]

        def scaled(self, x):
            return x * self.settings.gain

    net = sg.nn.Sequential(Scaled(), sg.nn.Identity())
    for fast in (sg.compile(net), sg.compile(lambda x: net(x))):
        net[0].settings.gain, net[0].gains[0] = 2.0, 1.0
        assert fast(sg.ones(1)).item() == 2
        net[0].settings.gain = 3.0
        assert fast(sg.ones(1)).item() == 3
        net[0].gains[0] = 5.0
        net[0].unread.append(1)
        assert fast(sg.ones(1)).item() == 15
        assert [str(record) for record in fast.recompiles()[1:]] == ["Scaled.settings.gain: 2.0 -> 3.0", "Scaled.gains[0]: 1.0 -> 5.0"]


@pytest.mark.parametrize(("before", "after", "given"), [(sg.sin, sg.cos, sg.ones(2)), (math.sin, math.cos, 1.0), (Half, Quarter, 1.0)])
def test_another_function_or_class_under_a_name_of_the_users(before, after, given):
    chosen = before
    fast = sg.compile(lambda x: x * chosen(given))
    x = sg.ones(2)
    assert fast(x).tolist() == fast(x).tolist() == (x * before(given)).tolist()
    chosen = after
    assert fast(x).tolist() == (x * after(given)).tolist()


GETTERS = {
    "attrgetter": operator.attrgetter("gain"),
    "attrgetter of two": lambda s: operator.attrgetter("offset", "gain")(s)[1],
    "dotted attrgetter": operator.attrgetter("inner.shift"),
    "methodcaller": operator.methodcaller("amplified", 1.0),
    "methodcaller with keywords": operator.methodcaller("amplified", x=1.0),
}


@pytest.mark.parametrize("name", GETTERS)
def test_attributes_that_a_getter_in_a_variable_reads(name):
    settings, get = Settings(), GETTERS[name]
    fast = sg.compile(lambda x: x * get(settings))
    before = float(fast(sg.tensor(3.0)))
    settings.gain, settings.inner.shift = 5.0, 7.0
    assert before == 3.0 * (1.0 if "dotted" in name else 2.0)
    assert float(fast(sg.tensor(3.0))) == 3.0 * get(settings)
