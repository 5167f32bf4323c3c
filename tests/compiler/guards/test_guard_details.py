"""Guards in detail: what a failed guard says, the states of host generators, the names that code reads, and path conditions."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.guards.code_names import attribute_names, compares_identity, global_names, text_names, used_names
from symgrad.compiler.guards.conditions import PathConditions, as_python_value
from symgrad.compiler.guards.equal_scalars import EqualScalarsGuard
from symgrad.compiler.guards.host_rng import HostRngSnapshot
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.errors import TraceError

GENERATORS = {
    "random": (lambda: random, lambda g: g.random()),
    "numpy.random": (lambda: np.random, lambda g: g.rand()),
    "Generator": (lambda: np.random.default_rng(3), lambda g: g.normal()),
    "BitGenerator": (lambda: np.random.PCG64(3), lambda g: g.random_raw()),
    "MT19937": (lambda: np.random.Generator(np.random.MT19937(3)), lambda g: g.normal()),
    "RandomState": (lambda: np.random.RandomState(3), lambda g: g.rand()),
    "Random": (lambda: random.Random(3), lambda g: g.random()),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_draw_during_a_trace_is_refused_and_taken_back(name):
    make, draw = GENERATORS[name]
    generator = make()
    before = (random.getstate(), np.random.get_state(legacy=False))
    try:
        expected = draw(copy.deepcopy(generator)) if name not in ("random", "numpy.random") else None
        snapshot = HostRngSnapshot(given=[("given.__self__", generator), ("given again", generator)])
        snapshot.refuse_draws()  # nothing was drawn
        first = draw(generator)
        with pytest.raises(TraceError, match=f"the function draws from {name if '.' in name or name == 'random' else 'given'} while it is"):
            snapshot.refuse_draws()
        assert draw(generator) == first
        assert expected is None or first == expected
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def test_generators_without_a_state_and_other_objects_are_passed_over():
    snapshot = HostRngSnapshot(given=[("system", random.SystemRandom()), ("number", 3)])
    random.SystemRandom().random()
    snapshot.refuse_draws()


def test_all_generators_that_were_drawn_from_are_named():
    one, other, third = (np.random.default_rng(i) for i in range(3))
    snapshot = HostRngSnapshot(given=[("one", one), ("other", other), ("third", third)])
    one.normal()
    third.normal()
    with pytest.raises(TraceError, match="draws from one and third while"):
        snapshot.refuse_draws()


# what a failed guard says


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda w: w.requires_grad_(), "float32[2] -> float32[2] that requires grad"),
        (lambda w: w.resize_(3), "float32[2] -> float32[3]"),
    ],
    ids=["requires_grad", "shape"],
)
def test_a_changed_captured_tensor_is_described(change, wanted):
    w = sg.tensor([1.0, 2.0])
    f = sg.compile(lambda x: (x * w.sum()).sum())
    x = sg.ones(2)
    f(x)
    change(w)
    f(x)
    assert f"w, which the function captures: {wanted}" in str(f.recompiles())


# the names that code reads


def reader(x):
    inner = lambda: math_like.sin(x)  # noqa: F821
    table.append(x)  # noqa: F821
    return inner() + box.weights.shape[0] + getattr(box, "bias_name") + len("not a name!")  # noqa: B009, F821


def plain(x):
    return x.left + "text"


def test_names_of_globals_attributes_and_strings():
    code = reader.__code__
    assert {"math_like", "table", "box", "getattr", "len"} <= set(global_names(code))
    assert "x" not in set(global_names(code))
    assert {"sin", "append", "weights", "shape", "bias_name"} <= set(attribute_names(code))
    assert "not a name!" not in set(attribute_names(code))
    assert set(text_names(code)) >= {"bias_name"}
    assert set(attribute_names(plain.__code__)) == {"left"}
    assert list(text_names(plain.__code__)) == []


def test_names_that_are_only_written_to_or_asked_for_metadata_are_not_used():
    def f():
        log.append(1)  # noqa: F821
        return table.shape, data.total, hasattr(other, "field")  # noqa: F821

    def g():
        return [held.value for _ in range(3)], (lambda: deep)  # noqa: F821

    found = set(used_names(f.__code__))
    assert {"data", "other", "field"} <= found
    assert not {"log", "table"} & found
    assert {"held", "deep"} <= set(used_names(g.__code__))


def is_none(x):
    return x is None


def is_same(x, y):
    return x is y


def is_other(x, y):
    return (lambda: x is not y)()


def identity(x):
    return id(x)


def copied(x):
    return copy.deepcopy(x)


@pytest.mark.parametrize(
    ("f", "wanted"), [(is_none, False), (plain, False), (is_same, True), (is_other, True), (identity, True), (copied, True)]
)
def test_code_that_may_ask_whether_two_tensors_are_the_same(f, wanted):
    assert compares_identity(f.__code__) is wanted


# path conditions


def test_conditions_on_constants_are_left_out():
    x, c = input_value(0, (), np.float64), input_value(1, (), np.float64)
    path = PathConditions(constants={c})
    path.add(xp.gt(c, 0), True, "a constant")
    path.add(xp.gt(x + c, 0), False, "bool(tensor) at a.py:1")
    path.add_loop_count(xp.cast(c, dtype=np.dtype(np.int64)), 3, "steps")
    assert path.texts == ["bool(tensor) at a.py:1", "steps"]
    assert path.expected_outcomes == (False, 3)
    assert [v.dtype.kind for v in path.values] == ["b", "i"]
    assert path.is_constant(xp.sin(c))
    assert not path.is_constant(x)
    condition = SimpleNamespace()
    path.add_scalar_condition(condition)
    assert path.scalar_conditions == [condition]


@pytest.mark.parametrize(
    ("value", "python_type"), [(2, bool), (0, bool), (True, bool), (0.0, bool), (-0.5, bool), (2.7, int), (-2.7, int), (3, int)]
)
def test_what_a_kernel_computes_for_a_conversion_is_what_python_converts_to(value, python_type):
    array = np.asarray(value)
    x = input_value(0, (), array.dtype)
    (found,) = evaluate(Graph([x], [as_python_value(x, python_type)]), [array])
    assert found.item() == python_type(value)
    assert type(found.item()) is python_type


def test_equal_scalars_are_compared_by_value_and_type_unless_they_share_storage():
    first = sg.tensor(3.0)
    guard = EqualScalarsGuard(first, input_value(0, (), np.float32))
    assert guard()
    guard.others = [sg.tensor(3.0), sg.tensor(3.0)]
    assert guard()
    guard.others[1].fill_(4.0)
    assert not guard()
    guard.others = [sg.tensor(3.0, dtype=sg.float64)]
    assert not guard()
    assert guard.describe() == "optimizer: counters of steps that were equal are not"
