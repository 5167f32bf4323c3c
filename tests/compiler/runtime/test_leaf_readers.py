"""Readers of leaves: which calls they accept, which they leave to the slow path, and in which order the leaves come."""

from __future__ import annotations

import collections
import inspect
from dataclasses import dataclass

import pytest

from symgrad.compiler.runtime.leaf_readers import make_reader, read_keywords, read_positional
from symgrad.pytree import flatten

Pair = collections.namedtuple("Pair", "first second")


@dataclass
class Batch:
    x: object
    name: object = "a"


@dataclass
class One:
    x: object


class Setting:
    """Compared by identity."""


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


def is_float(x):
    return isinstance(x, float)


def reader_of(function, *args, **kwargs):
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return make_reader(signature, flatten(dict(bound.arguments), is_float)[1], args, kwargs)


def test_plain_calls_need_no_reader_of_their_own():
    f = lambda x, y, n=3: None
    assert reader_of(f, 1.0, 2.0) is read_positional
    assert read_positional((1.0, 2.0), {}) == (1.0, 2.0)
    assert reader_of(f, x=1.0, y=2.0) is read_keywords
    assert [*read_keywords((), {"x": 1.0, "y": 2.0})] == [1.0, 2.0]
    other = reader_of(f, y=2.0, x=1.0)
    assert other is not read_keywords
    assert other((), {"y": 20.0, "x": 10.0}) == [10.0, 20.0]  # in the order of the signature
    mixed = reader_of(f, 1.0, y=2.0)
    assert mixed((10.0,), {"y": 20.0}) == [10.0, 20.0]
    assert reader_of(f, 1.0, 2.0, 3)((10.0, 20.0, 3), {}) == [10.0, 20.0]
    assert reader_of(f, 1.0, 2.0, 3)((10.0, 20.0, 4), {}) is None


def test_rest_arguments_and_keywords_are_read_too():
    f = lambda x, /, *rest, key=1.5, **more: None
    read = reader_of(f, 1.0, 2.0, [3.0], key=4.0, other=5.0)
    assert read((10.0, 20.0, [30.0]), {"key": 40.0, "other": 50.0}) == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert read((10.0, 20.0, (30.0,)), {"key": 40.0, "other": 50.0}) is None
    only = lambda x, *, key: None
    assert reader_of(only, [1.0], key="a")(([2.0],), {"key": "a"}) == [2.0]
    assert reader_of(only, [1.0], key="a")(([2.0],), {"key": "b"}) is None


SAME = {
    "dictionary": ({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}, [3.0, 4.0]),
    "list": ([1.0, 2.0], [3.0, 4.0], [3.0, 4.0]),
    "empty list": ([], [], []),
    "named tuple": (Pair(1.0, 2.0), Pair(3.0, 4.0), [3.0, 4.0]),
    "nested": ({"a": [1.0, (2.0,)], "b": {"c": 3.0}}, {"a": [4.0, (5.0,)], "b": {"c": 6.0}}, [4.0, 5.0, 6.0]),
    "setting": ([1.0, "a", 3, True, None, b"x"], [2.0, "a", 3, True, None, b"x"], [2.0]),
    "other keys": ({1: 1.0, "a": [2.0]}, {1: 3.0, "a": [4.0]}, [3.0, 4.0]),
    "dataclass": (Batch(1.0), Batch(2.0), [2.0]),
    "dataclass with one field": (One(1.0), One(2.0), [2.0]),
}
OTHER = {
    "key": ({"a": 1.0}, {"b": 1.0}), "order of keys": ({"a": 1.0, "b": 2.0}, {"b": 1.0, "a": 2.0}), "length": ([1.0], [1.0, 2.0]),
    "shorter": ([1.0, 2.0], [1.0]), "tuple for list": ([1.0], (1.0,)), "class of dictionary": ({"a": 1.0}, collections.OrderedDict(a=1.0)),
    "True for 1 as key": ({1: 1.0}, {True: 1.0}), "True for 1": ([1.0, 1], [1.0, True]), "text": ([1.0, "a"], [1.0, "b"]),
    "none": ([1.0, None], [1.0, 0]), "inner key": ([{"a": 1.0}], [{"b": 1.0}]), "inner class": ([[1.0]], [(1.0,)]),
    "inner length": ([[1.0], 2], [[1.0, 2.0], 2]), "inner of a mixed dictionary": ({"a": [1.0], "b": 1}, {"a": (1.0,), "b": 1}),
    "key of a mixed dictionary": ({"a": [1.0], "b": 1}, {"a": [1.0], "c": 1}), "class of a dataclass": (One(1.0), Batch(1.0)),
    "field": (Batch(1.0, "a"), Batch(1.0, "b")), "mixed length": ([1.0, "a"], [1.0]), "named tuple": (Pair(1.0, 2.0), (1.0, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("first", "then", "leaves"), SAME.values(), ids=SAME)
def test_arguments_of_the_same_structure_are_read(first, then, leaves, alone):
    """Alone, and beside another argument."""
    if alone:
        assert [*reader_of(lambda x: None, first)((then,), {})] == leaves
    else:
        assert [*reader_of(lambda x, y: None, first, y=9.0)((then,), {"y": 8.0})] == [*leaves, 8.0]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("first", "then"), OTHER.values(), ids=OTHER)
def test_arguments_of_another_structure_are_not_read(first, then, alone):
    if alone:
        assert reader_of(lambda x: None, first)((then,), {}) is None
    else:
        assert reader_of(lambda x, y: None, first, y=9.0)((then,), {"y": 8.0}) is None
        assert reader_of(lambda x, y: None, 9.0, y=first)((8.0,), {"y": then}) is None


def test_objects_are_compared_by_identity_or_not_at_all():
    setting = Setting()
    read = reader_of(lambda x, s: None, 1.0, setting)
    assert read((2.0, setting), {}) == [2.0]
    assert read((2.0, Setting()), {}) is None
    assert reader_of(lambda x, s: None, 1.0, Equal()) is None
    config = One("no leaf")
    assert reader_of(lambda x, s: None, 1.0, config) is None  # dataclasses compare by value, and may change
