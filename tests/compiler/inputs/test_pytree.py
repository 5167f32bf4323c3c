"""Nested containers taken apart and put together, the selection of inputs by `wrt`, and the rule for arrays as results: each by hand."""

from __future__ import annotations

import collections
import inspect
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pytest

import symgrad as sg
from symgrad import pytree
from symgrad.compiler.inputs.wrt import guess_wrt, named_arguments, select_wrt, selected_tangents
from symgrad.compiler.runtime.return_types import array_of, convert_results, kinds_of, returns_arrays
from symgrad.errors import TraceError
from symgrad.pytree import LEAF, flatten, leaves_like, structure_key, unflatten

Pair = collections.namedtuple("Pair", "first second")


@dataclass(frozen=True)
class Config:
    name: str = "a"
    rate: object = None


@dataclass
class Late:
    x: object
    unset: object = field(init=False)


class Level(IntEnum):
    LOW = 1


def is_float(x):
    return isinstance(x, float)


TREES = [
    1.5, [1.5, (2.5, "a")], {"b": 1.5, "a": {"c": 2.5}}, Pair(1.5, 2), collections.OrderedDict(x=1.5), [], {}, Config(rate=1.5), Config(),
    [Config("b", [1.5]), Config("c")],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_tree_is_put_together_as_it_was(tree):
    leaves, structure = flatten(tree, is_float)
    again = unflatten(structure, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert flatten(unflatten(structure, [x + 1 for x in leaves]), is_float)[0] == [x + 1 for x in leaves]
    assert pytree.leaf_count(structure) == len(leaves) == len(pytree.paths(structure, "x"))
    assert structure_key(structure) == structure_key(flatten(tree, is_float)[1])


def test_leaves_are_in_order_and_have_paths():
    tree = {"b": [1.0, (2.0,)], "a": Pair(3.0, "s"), "c": Config("n", {"d": 4.0}), "e": 5}
    leaves, structure = flatten(tree, is_float)
    assert leaves == [1.0, 2.0, 3.0, 4.0]
    assert pytree.paths(structure, "t") == ["t.b.0", "t.b.1.0", "t.a.first", "t.c.rate.d"]
    assert pytree.static_values(structure, "t") == {"t.a.second": "s", "t.c.name": "n", "t.e": 5}
    assert repr(LEAF) == "*"


def test_an_object_without_leaves_is_kept_and_one_with_leaves_is_rebuilt():
    kept, changed = Config("a"), Config("a", 1.0)
    _, structure = flatten([kept, changed], is_float)
    found = unflatten(structure, [2.0])
    assert found[0] is kept
    assert found[1] == Config("a", 2.0)
    late = Late(1.0)
    leaves, structure = flatten(late, is_float)
    assert leaves == [1.0]
    assert not hasattr(unflatten(structure, [2.0]), "unset")


def test_a_class_and_a_module_are_no_containers():
    @dataclass
    class Net(sg.nn.Module):
        rate: float = 1.0

        def __post_init__(self):
            super().__init__()

    for x in (Config, object.__new__(Net)):
        assert flatten(x, is_float) == ([], x)
    assert pytree.children(Config()) is None


def test_static_values_may_be_left_out_or_replaced():
    _, structure = flatten([1.0, "a", Pair(2.0, 3), {"k": 4}, Config("n", 1.0)], is_float)
    bare = pytree.without_static_values(structure)
    assert bare[:4] == [LEAF, None, Pair(LEAF, None), {"k": None}]
    assert unflatten(bare[4], [7.0]) == Config(None, 7.0)
    assert pytree.without_static_values(flatten(Config(), is_float)[1]) is None
    replaced = pytree.replace_leaves(structure, [LEAF, 2, LEAF])
    assert flatten(unflatten(replaced, [10.0, 20.0]), is_float)[0] == [10.0, 20.0]
    assert unflatten(replaced, [10.0, 20.0])[2] == Pair(2, 3)


def test_keys_tell_structures_apart():
    structures = [
        [LEAF], (LEAF,), [LEAF, LEAF], {"a": LEAF}, {"b": LEAF}, {1: LEAF}, {True: LEAF}, Pair(LEAF, 1), Pair(LEAF, True),
        Pair(LEAF, Level.LOW), Pair(LEAF, 1.0), flatten(Config("a", 1.0), is_float)[1], flatten(Config("b", 1.0), is_float)[1], LEAF, "*",
        object(), object(), None,
    ]  # fmt: skip
    keys = [structure_key(s) for s in structures]
    assert len(set(keys)) == len(keys)
    for s in structures:
        assert structure_key(s) == structure_key(s)
    unhashable = {"mutable": 1}.keys()
    assert structure_key(unhashable) == structure_key(unhashable)
    assert structure_key(unhashable) != structure_key({"mutable": 1}.keys())
    assert structure_key(unhashable) != 1


def test_a_tree_of_another_structure_is_refused_at_its_place():
    structure = {"a": [LEAF, (LEAF,)], "b": flatten(Config("n", 1.0), is_float)[1]}
    found = list(leaves_like(structure, {"b": Config("m", 3), "a": ([1], [2])}, "v"))
    assert found == [([1], "v['a'][0]"), (2, "v['a'][1][0]"), (3, "v['b'].rate")]
    for tree, text in (
        ([1], r"v must be a dict of a, b, as the input is, got "),
        ({"a": [1, [2]]}, r"v must be a dict of a, b, as the input is, got a dict of a"),
        ({"a": 1, "b": 2}, r"v\['a'\] must be a list of 2, as the input is"),
        ({"a": [1], "b": 2}, r"v\['a'\] must be a list of 2, as the input is"),
        ({"a": [1, (2, 3)], "b": 2}, r"v\['a'\]\[1\] must be a tuple of 1, as the input is"),
        ({"a": [1, (2,)], "b": 2}, r"v\['b'\] must be a Config, as the input is"),
    ):
        with pytest.raises(ValueError, match=text):
            list(leaves_like(structure, tree, "v", "the input"))


def test_attributes_that_raise_anything_do_not_exist():
    class Odd:
        def __getattr__(self, name):
            raise KeyError(name)

    assert not pytree.has_attribute(Odd(), "named_parameters")
    assert pytree.has_attribute(Odd(), "__class__")


# wrt

F, K = np.ones(2), np.ones(2, np.int64)
GIVEN = [("x", LEAF), ("batch", {"a": LEAF, "b": [LEAF, 3]}), ("k", LEAF), ("mode", "fast")]
LABELS = ["x", "batch.a", "batch.b.0", "k", "net.weight", "net.bias", "w"]
LEAVES = [F, F, F, K, F, F, F]

SELECTED = {
    "x": ((0,), LEAF), "batch": ((1, 2), {"a": LEAF, "b": [LEAF, None]}), "batch.b": ((2,), [LEAF, None]), "batch.a": ((1,), LEAF),
    "k": ((3,), LEAF), "w": ((6,), LEAF), "net": ((4, 5), (LEAF, LEAF)), "net.bias": ((5,), LEAF),
    0: ((0,), LEAF), 1: ((1, 2), {"a": LEAF, "b": [LEAF, None]}), 2: ((3,), LEAF), 4: ((4,), LEAF), 6: ((6,), LEAF), -1: ((6,), LEAF),
    -7: ((0,), LEAF),
}  # fmt: skip


@pytest.mark.parametrize("wrt", SELECTED, ids=str)
def test_names_and_positions_select_inputs(wrt):
    inputs, form = SELECTED[wrt]
    assert select_wrt(wrt, GIVEN, LABELS, LEAVES, 4) == (inputs, form, False)
    assert select_wrt([wrt, "x"], GIVEN, LABELS, LEAVES, 4) == ((*inputs, 0), (form, LEAF), True)


@pytest.mark.parametrize("wrt", ["y", "batch.c", "ba", "mode", 3, 7, -8, True, None, 1.5, ("x", "y")], ids=str)
def test_what_is_no_input_is_refused(wrt):
    with pytest.raises((ValueError, TraceError), match=r"test_pytree.py:\d+: "):
        select_wrt(wrt, GIVEN, LABELS, [K] * 7, 4)


def test_by_default_tensors_that_require_grad_come_first_then_tensors_then_numbers():
    t, g = sg.ones(2), sg.ones(2, requires_grad=True)
    choose = lambda leaves, arguments, numbers=(): select_wrt(None, (), (), leaves, arguments, numbers)
    assert choose([F, K, t, F], 3) == ((0, 2), (LEAF, LEAF), True)
    assert choose([F, g, t, g], 3) == ((1, 3), (LEAF, LEAF), True)
    assert choose([F, F, K], 3, (None, float, None)).inputs == (0,)
    assert choose([K, F, F], 2, (None, float)).inputs == (1,)
    assert choose([np.ones(1, complex)], 1).inputs == (0,)


def test_before_a_trace_only_arguments_can_be_selected():
    known = GIVEN, LABELS[:4], LEAVES[:4]
    assert guess_wrt(("x", "w", 6), *known, ()) == {0}
    assert guess_wrt("w", *known, ()) == set()
    assert guess_wrt(None, *known, ()) == {0, 1, 2}
    assert guess_wrt("batch", *known, ()) == {1, 2}


def test_arguments_are_named_one_by_one():
    kinds = inspect.Parameter
    parameters = [
        ("x", kinds.POSITIONAL_ONLY, LEAF), ("rest", kinds.VAR_POSITIONAL, (LEAF, [LEAF])), ("key", kinds.KEYWORD_ONLY, 3),
        ("more", kinds.VAR_KEYWORD, {"a": LEAF}),
    ]  # fmt: skip
    assert named_arguments(parameters) == [("x", LEAF), ("rest.0", LEAF), ("rest.1", [LEAF]), ("key", 3), ("a", LEAF)]


def test_tangents_come_one_by_one_or_in_one_tuple():
    one, several = select_wrt("batch", GIVEN, LABELS, LEAVES, 4), select_wrt(("x", "w"), GIVEN, LABELS, LEAVES, 4)
    single = select_wrt(("x",), GIVEN, LABELS, LEAVES, 4)
    tangents = lambda choice, *given: selected_tangents(choice, given, ["x", "w"], "v")
    assert tangents(one, {"a": 1, "b": [2, None]}) == [1, 2]
    assert tangents(several, 1, 2) == tangents(several, (1, 2)) == tangents(several, [1, 2]) == [1, 2]
    assert tangents(single, [1.0, 2.0]) == [[1.0, 2.0]]  # the numbers of one tangent
    assert tangents(single, [1.0]) == tangents(single, (1.0,)) == tangents(single, 1.0) == [1.0]
    for choice, given, text in (
        (several, (1,), "v: one is needed for each of x, w, got 1"), (several, ((1, 2, 3),), "for each of x, w, got 3"),
        (one, (1, 2), "v: one is needed, in the form of the argument, got 2"),
        (one, ([1, 2],), "v must be a dict of a, b, as the argument is"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            tangents(choice, *given)


# arrays as results


def test_which_results_are_arrays():
    array, tensor = np.ones(2), sg.ones(2)
    assert kinds_of([array, 3, "a", np.float32(1)]) == {np.ndarray}
    assert kinds_of([array, tensor]) == {np.ndarray, sg.Tensor}
    assert [returns_arrays("numpy", True), returns_arrays("tensor", False), returns_arrays(None, True)] == [True, False, False]
    assert returns_arrays(None, False) is None
    arrays, tensors = frozenset([np.ndarray]), frozenset([sg.Tensor])
    history = sg.ones(2, requires_grad=True) * 1
    for result, kinds, returns, requires_grad, wanted in (
        (tensor, arrays, None, False, np.ndarray), (tensor, tensors, None, False, sg.Tensor),
        (tensor, arrays | tensors, None, False, sg.Tensor),
        (tensor, arrays, None, True, sg.Tensor), (history, arrays, None, False, sg.Tensor), (history, arrays, "numpy", False, np.ndarray),
        (tensor, arrays, "tensor", False, sg.Tensor), (np.float32(1), arrays, None, False, np.ndarray),
    ):  # fmt: skip
        found = convert_results({"y": [result]}, kinds, returns, requires_grad)["y"][0]
        assert isinstance(found, wanted)


def test_arrays_that_are_returned_belong_to_the_caller():
    whole = np.arange(4.0)
    assert array_of(whole) is whole
    part = whole[1:]
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    for given in (part, frozen):
        found = array_of(given)
        assert found.flags.writeable
        assert not np.shares_memory(found, given)
        assert found.tolist() == given.tolist()
