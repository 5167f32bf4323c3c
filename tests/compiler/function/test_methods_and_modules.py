"""Compiled functions as Python objects: methods, attributes of compiled modules, copies and pickles, buckets around a module."""

from __future__ import annotations

import copy
import pickle
import types

import pytest

import symgrad as sg

nn = sg.nn


class Scaled:
    """A class with a compiled method."""

    def __init__(self, factor):
        self.factor = factor

    @sg.compile(backend="numpy")
    def times(self, x):
        return x * self.factor


class Slotted:
    """Objects without a dictionary: nothing can be kept in them."""

    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    @sg.compile(backend="numpy")
    def times(self, x):
        return x * 2


@sg.compile(backend="numpy")
def doubled(x):
    return x * 2


def test_each_object_has_its_own_compiled_method():
    one, other = Scaled(2.0), Scaled(3.0)
    assert one.times(sg.ones(2)).tolist() == [2, 2]
    assert other.times(sg.ones(2)).tolist() == [3, 3]
    assert one.times is one.times
    assert one.times is not other.times
    assert (one.times.__self__, other.times.__self__) == (one, other)
    assert one.times.options.backend == "numpy"
    assert Scaled.times.__self__ is None
    assert Scaled.__dict__["times"] is Scaled.times
    assert len(Scaled.times.recompiles()) == 0


def test_a_method_may_be_hidden_by_an_attribute_and_shown_again():
    scaled = Scaled(2.0)
    with pytest.raises(AttributeError, match="times"):
        del scaled.times
    scaled.times = len
    assert scaled.times is len
    del scaled.times
    assert scaled.times(sg.ones(2)).tolist() == [2, 2]


def test_a_copied_object_does_not_call_the_method_of_the_original():
    scaled = Scaled(2.0)
    scaled.times(sg.ones(2))
    for duplicate in (copy.copy(scaled), copy.deepcopy(scaled)):
        duplicate.factor = 5.0
        assert duplicate.times(sg.ones(2)).tolist() == [5, 5]
        assert duplicate.times.__self__ is duplicate
        assert duplicate.times is duplicate.times
    assert scaled.times(sg.ones(2)).tolist() == [2, 2]
    assert scaled.times.__self__ is scaled


def test_objects_without_a_dictionary_get_a_plain_method():
    slotted = Slotted(2.0)
    assert isinstance(slotted.times, types.MethodType)
    assert slotted.times(sg.ones(2)).tolist() == [2, 2]


def test_a_compiled_function_that_was_not_named_in_a_class_is_a_method_too():
    class Late:
        factor = 4.0

    Late.times = sg.compile(lambda self, x: x * self.factor, backend="numpy")
    assert Late().times(sg.ones(2)).tolist() == [4, 4]


def test_what_is_no_function_is_no_method():
    class Holder:
        net = sg.compile(nn.Identity(), backend="numpy")

    assert Holder().net(sg.ones(2)).tolist() == [1, 1]


def test_functions_are_pickled_by_name_and_methods_by_their_object():
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled
    scaled = Scaled(3.0)
    again = pickle.loads(pickle.dumps(scaled.times))
    assert again.__self__.factor == 3.0
    assert again.__self__ is not scaled
    assert again is again.__self__.times
    local = sg.compile(lambda x: x + 1, backend="numpy", dynamic="x")
    duplicate = copy.copy(local)
    assert duplicate is not local
    assert duplicate.options == local.options
    assert duplicate(sg.ones(2)).tolist() == [2, 2]


# modules


@pytest.fixture(params=["once", "retrace", "buckets"])
def net(request):
    options = {"retrace": {"retrace": True}, "buckets": {"buckets": {"input": 4}}}.get(request.param, {})
    return sg.compile(nn.Linear(2, 3), backend="numpy", **options)


def test_a_compiled_module_has_the_attributes_of_the_module(net):
    assert net.in_features == 2
    assert [name for name, _ in net.named_parameters()] == ["weight", "bias"]
    assert net.eval() is net
    assert net.double() is net
    assert not net.training
    assert net(sg.ones(4, 2, dtype=sg.float64)).shape == (4, 3)
    with pytest.raises(AttributeError, match="missing"):
        _ = net.missing
    with pytest.raises(AttributeError, match="__missing__"):
        _ = net.__missing__


def test_attributes_are_set_and_deleted_on_the_module():
    module = nn.Linear(2, 3)
    net = sg.compile(module, backend="numpy")
    net.extra = 5
    assert module.extra == 5
    assert "extra" not in net.__dict__
    del net.extra
    assert not hasattr(module, "extra")
    net.weight = nn.Parameter(sg.zeros(3, 2))
    assert module.weight.tolist() == [[0, 0]] * 3
    net._name = "other"  # an attribute of the compiled function itself
    assert net.__dict__["_name"] == "other"
    assert not hasattr(module, "_name")
    del net._name
    assert "_name" not in net.__dict__


def test_a_compiled_module_is_of_the_class_of_the_module():
    class Other(nn.Linear):
        def forward(self, input):
            return super().forward(input) * 0

    module = nn.Linear(2, 3)
    net = sg.compile(module, backend="numpy")
    assert isinstance(net, nn.Linear)
    assert len(list(nn.Sequential(net).parameters())) == 2
    net.__class__ = Other
    assert type(module) is Other
    assert net(sg.ones(2)).tolist() == [0, 0, 0]


def test_copies_of_compiled_modules_are_compiled_modules_of_their_own():
    net = sg.compile(nn.Linear(2, 3), backend="numpy", returns="numpy")
    for duplicate in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert type(duplicate) is type(net)
        assert duplicate.weight is not net.weight
        assert duplicate.weight.tolist() == net.weight.tolist()
        assert duplicate.options == net.options
        assert duplicate(sg.ones(2)).tolist() == net(sg.ones(2)).tolist()


def test_a_bucketed_function_looks_like_the_compiled_one():
    fast = sg.compile(doubled.signature.function, backend="numpy", buckets={"x": 4})
    assert repr(fast) == "<compiled doubled(x): no program yet>"
    assert fast.__name__ == "doubled"
    fast(sg.ones(3))
    assert repr(fast) == "<compiled doubled(x): 1 program>"
    assert "float32[4]" in fast.source()
    duplicate = copy.copy(sg.compile(lambda x: x * 2, backend="numpy", buckets={"x": 4}))
    assert duplicate.lengths == {"x": (4,)}
    assert duplicate(sg.ones(3)).tolist() == [2, 2, 2]
