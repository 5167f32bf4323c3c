"""Functions, classes and methods that a compiled function finds by name may be replaced: the next call runs the new ones.

Every place where Python code can find something to call, by every kind of thing that can be called.
"""

from __future__ import annotations

import functools
import sys
import types

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn

X = sg.tensor([0.5, 2.0])


class Doubling:
    """As an object it is called, as a class its attribute is read."""

    rate = 2.0

    def __call__(self, x):
        return x * 2

    def method(self, x):
        return x * 2


class Tripling(Doubling):
    rate = 3.0

    def __call__(self, x):
        return x * 3

    def method(self, x):
        return x * 3


def double(x):
    return x * 2


def triple(x):
    return x * 3


CALLED = {
    "a function": (double, triple),
    "a lambda": (lambda x: x * 2, lambda x: x * 3),
    "a function of symgrad": (sg.sin, sg.cos),
    "a function of NumPy": (np.sin, np.cos),
    "a builtin": (abs, len),
    "an object": (Doubling(), Tripling()),
    "a bound method": (Doubling().method, Tripling().method),
    "a partial": (functools.partial(sg.mul, 2.0), functools.partial(sg.mul, 3.0)),
    "a module": (nn.Tanh(), nn.Sigmoid()),
    "a compiled function": (sg.compile(double, backend="numpy"), sg.compile(triple, backend="numpy")),
    "a class": (nn.Tanh, nn.Sigmoid),
}


def applied(f, x):
    """Call it; make an object of a class and call that. The number of elements is a number."""
    found = f()(x) if isinstance(f, type) else f(x)
    return found if isinstance(found, sg.Tensor) else x * found


def in_a_cell(before):
    act = before

    def replace(after):
        nonlocal act
        act = after

    return lambda x: applied(act, x), replace


def in_a_global(before):
    space = {"applied": applied, "act": before}
    f = types.FunctionType(compile("lambda x: applied(act, x)", "<test>", "eval").co_consts[0], space)
    return f, lambda after: space.__setitem__("act", after)


def in_an_attribute(before, owner=None):
    owner = types.SimpleNamespace() if owner is None else owner
    owner.act = before
    return lambda x: applied(owner.act, x), lambda after: setattr(owner, "act", after)


def in_an_object(before):
    class Own:
        pass

    return in_an_attribute(before, Own())


def in_slots(before):
    class Slotted:
        __slots__ = ("act",)

    return in_an_attribute(before, Slotted())


def in_an_imported_module(before):
    module = sys.modules.setdefault("module_of_a_user", types.ModuleType("module_of_a_user"))
    return in_an_attribute(before, module)


def in_a_network(before):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = before

        def forward(self, x):
            return applied(self.act, x)

    net = Net()
    return net, lambda after: setattr(net, "act", after)


def in_self(before):
    class Model:
        def __init__(self):
            self.act = before

        def run(self, x):
            return applied(self.act, x)

    model = Model()
    return model.run, lambda after: setattr(model, "act", after)


def in_a_class(before):
    class Settings:
        act = staticmethod(before) if isinstance(before, types.FunctionType) else before

    return lambda x: applied(Settings.act, x), lambda after: setattr(Settings, "act", after)


def in_a_list(before):
    acts = [before]
    return lambda x: applied(acts[0], x), lambda after: acts.__setitem__(0, after)


def in_a_dictionary(before):
    acts = {"act": before}
    return lambda x: applied(acts["act"], x), lambda after: acts.__setitem__("act", after)


HOLDERS = [
    in_a_cell, in_a_global, in_an_attribute, in_an_object, in_slots, in_an_imported_module, in_a_network, in_self, in_a_class, in_a_list,
    in_a_dictionary,
]  # fmt: skip


def check(f, replace):
    fast = sg.compile(f, backend="numpy")
    fast(X)
    before = f(X).tolist()
    assert fast(X).tolist() == before
    replace()
    after = f(X).tolist()
    assert after != before  # the change can be seen
    np.testing.assert_allclose(fast(X).tolist(), after, rtol=1e-6)
    np.testing.assert_allclose(fast(X).tolist(), after, rtol=1e-6)
    assert len(fast.recompiles()) <= 2


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", CALLED)
def test_what_is_called(holder, kind):
    before, after = CALLED[kind]
    f, replace = holder(before)
    check(f, lambda: replace(after))


class Descriptor:
    def __get__(self, x, cls):
        return x.hidden


def owner():
    class Own:
        described, hidden = Descriptor(), 2.0

        @property
        def prop(self):
            return 2.0

        @staticmethod
        def static(x):
            return x * 2

        @classmethod
        def of_class(cls, x):
            return x * 2

        def method(self, x):
            return x * 2

    class Derived(Own):
        pass

    return Derived(), Own


REPLACED = {
    "a property": (lambda x, o: x * o.prop, lambda o, cls: setattr(cls, "prop", property(lambda self: 7.0))),
    "a static method": (lambda x, o: o.static(x), lambda o, cls: setattr(cls, "static", staticmethod(lambda x: x * 7))),
    "a class method": (lambda x, o: o.of_class(x), lambda o, cls: setattr(cls, "of_class", classmethod(lambda cls, x: x * 7))),
    "a method": (lambda x, o: o.method(x), lambda o, cls: setattr(cls, "method", lambda self, x: x * 7)),
    "a method of one object": (lambda x, o: o.method(x), lambda o, cls: setattr(o, "method", lambda x: x * 7)),
    "what a descriptor reads": (lambda x, o: x * o.described, lambda o, cls: setattr(o, "hidden", 7.0)),
    "an attribute that was missing": (lambda x, o: x * 7 if hasattr(o, "new") else x, lambda o, cls: setattr(o, "new", 1)),
    "a default that was used": (lambda x, o: x * getattr(o, "new", 2.0), lambda o, cls: setattr(o, "new", 7.0)),
    "the class": (lambda x, o: o.method(x), lambda o, cls: setattr(o, "__class__", type("Other", (cls,), {"method": lambda s, x: x * 7}))),
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_objects_and_classes_have(name):
    use, change = REPLACED[name]
    o, cls = owner()
    check(lambda x: use(x, o), lambda: change(o, cls))


def test_names_that_stay_are_no_reason_to_trace_again():
    o, _ = owner()
    fast = sg.compile(lambda x: o.method(x) + o.static(x) * o.prop + sg.sin(x) + nn.functional.relu(x), backend="numpy")
    for _ in range(5):
        o.unused = object()
        fast(X)
    assert len(fast.recompiles()) == 1
