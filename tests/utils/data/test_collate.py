"""default_collate and default_convert: which samples become which batch."""

from collections import OrderedDict, UserList, namedtuple
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest

import symgrad as sg
from symgrad.utils.data import default_collate, default_convert
from symgrad.utils.data.collate import collate, default_collate_fn_map

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("samples", "values", "dtype"),
    [
        ([sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])], [[1, 2], [3, 4]], sg.float32),
        ([sg.tensor(1), sg.tensor(2)], [1, 2], sg.int64),
        ([np.array([1, 2], np.int16), np.array([3, 4], np.int16)], [[1, 2], [3, 4]], sg.int16),
        ([np.float32(1), np.float32(2)], [1, 2], sg.float32),
        ([np.float64(1), np.float64(2)], [1, 2], sg.float64),
        ([np.bool_(True), np.bool_(False)], [True, False], sg.bool),
        ([1, 2], [1, 2], sg.int64),
        ([1.0, 2.0], [1, 2], sg.float64),
        ([True, False], [True, False], sg.bool),
    ],
)
def test_what_is_stacked(samples, values, dtype):
    batch = default_collate(samples)
    assert batch.tolist() == values
    assert batch.dtype is dtype


def test_text_stays():
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]


def test_containers_hold_batches():
    batch = default_collate([{"a": 1, "b": (2, "x")}, {"a": 3, "b": (4, "y")}])
    assert batch["a"].tolist() == [1, 3]
    numbers, words = batch["b"]
    assert numbers.tolist() == [2, 4]
    assert words == ("x", "y")
    assert isinstance(default_collate([(1, 2), (3, 4)]), list)
    point = default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert isinstance(point, Point)
    assert point.x.tolist() == [1, 3]
    assert isinstance(default_collate([OrderedDict(a=1)]), OrderedDict)
    listed = default_collate([UserList([1, 2]), UserList([3, 4])])
    assert isinstance(listed, UserList)
    assert [column.tolist() for column in listed] == [[1, 3], [2, 4]]
    assert [column.tolist() for column in default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]


def test_a_mapping_that_cannot_be_copied_becomes_a_dict_or_its_own_type():
    batch = default_collate([MappingProxyType({"a": 1})])
    assert isinstance(batch, MappingProxyType)
    assert batch["a"].tolist() == [1]


def test_the_samples_are_left_alone():
    samples = [{"a": 1}, {"a": 2}]
    default_collate(samples)
    assert samples == [{"a": 1}, {"a": 2}]


@dataclass
class Plain:
    x: int


@pytest.mark.parametrize(
    ("samples", "error", "text"),
    [
        ([Plain(1)], TypeError, r"batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class .*Plain.>"),
        ([None, None], TypeError, "found <class 'NoneType'>"),
        ([np.array(["a"])], TypeError, "found <U1"),
        ([[1, 2], [1]], RuntimeError, "each element in list of batch should be of equal size"),
        ([sg.zeros(2), sg.zeros(3)], RuntimeError, r"stack expects each tensor to be equal size"),
    ],
)
def test_refusals(samples, error, text):
    with pytest.raises(error, match=text):
        default_collate(samples)


def test_functions_of_ones_own():
    functions = {**default_collate_fn_map, Plain: lambda batch, collate_fn_map: sum(sample.x for sample in batch)}
    assert collate([{"p": Plain(1)}, {"p": Plain(2)}], collate_fn_map=functions) == {"p": 3}

    class Named(str):
        __slots__ = ()

    functions[Named] = lambda batch, collate_fn_map: "+".join(batch)  # comes after str, and is the sample's own type
    assert collate([Named("a"), Named("b")], collate_fn_map=functions) == "a+b"


def test_convert():
    tensor = sg.ones(2)
    assert default_convert(tensor) is tensor
    assert default_convert(np.array([1, 2])).tolist() == [1, 2]
    assert default_convert(np.float32(3)).dtype is sg.float32
    assert default_convert("text") == "text"
    assert default_convert(5) == 5
    words = np.array(["a", "b"])
    assert default_convert(words) is words
    assert isinstance(default_convert(np.str_("a")), np.str_)
    nested = default_convert({"a": (np.array(1), 2), "b": [np.array(3)], "c": Point(np.array(4), 5)})
    assert nested["a"][0].item() == 1
    assert isinstance(nested["a"], list)
    assert nested["b"][0].item() == 3
    assert isinstance(nested["c"], Point)
    assert nested["c"].x.item() == 4
