"""Calls whose arguments Python can tell apart have programs of their own, whatever was called before them."""

from __future__ import annotations

import copy
import itertools
from collections import namedtuple
from dataclasses import dataclass
from enum import IntEnum

import pytest

import symgrad as sg


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_structures_take_turns(backend):
    Pair = namedtuple("Pair", "a b")

    @dataclass
    class State:
        a: object
        b: object
        kind: str = "sum"

    def f(state, *rest, scale=1, **more):
        if isinstance(state, State):
            return (state.a + state.b if state.kind == "sum" else state.a * state.b) * scale
        parts = list(state.values()) if isinstance(state, dict) else list(state) if isinstance(state, (list, tuple)) else [state]
        return sum((i + 1) * x for i, x in enumerate([*parts, *rest, *more.values()])) * scale

    fast = sg.compile(f, backend=backend)
    x, y = sg.tensor([1.0, 2.0]), sg.tensor([5.0, 7.0])
    given = [
        ((x,), {}), ((x, y), {}), (([x, y],), {}), (((x, y),), {}), ((Pair(x, y),), {}), (({"a": x, "b": y},), {}),
        (({"b": x, "a": y},), {}), ((x,), {"k": y}), ((x,), {"scale": 3}), ((x,), {"scale": 2}), ((x,), {"k": y, "scale": 2}),
        ((State(x, y),), {}), ((State(x, y, "product"),), {}), (([x, [1.5, 2]][:1], y), {}), ((), {"state": x, "k": y}),
        ((), {"k": y, "state": x}),
    ]  # fmt: skip
    for _ in range(3):
        for args, kwargs in given:
            assert fast(*args, **kwargs).tolist() == f(*args, **kwargs).tolist()


class Mode(IntEnum):
    SUM = 1


class OtherMode(IntEnum):
    SUM = 1


Single = namedtuple("Single", "a")
ALIKE = [
    3.0, (3.0,), [3.0], {"a": 3.0}, Single(3.0), (3.0, 2), ((3.0,),), {"a": (3.0,)}, {1: 3.0}, {True: 3.0}, (1, 3.0), (True, 3.0),
    (Mode.SUM, 3.0), 1, True, Mode.SUM, OtherMode.SUM, sg.tensor(3.0), (sg.tensor(3.0),), None, (), {},
]  # fmt: skip
"""Arguments that are equal, or have the same leaves, and that Python code can tell apart."""


def written(x):
    """A text that tells arguments apart by their structure, their types, and the values that are part of a program."""
    if isinstance(x, dict):
        return f"{x.__class__.__name__}{[(k.__class__.__name__, k, written(v)) for k, v in x.items()]}"
    if isinstance(x, (list, tuple)):
        return f"{x.__class__.__name__}{[written(v) for v in x]}"
    return x.__class__.__name__ if isinstance(x, (float, sg.Tensor)) else f"{x.__class__.__name__} {x!r}"


@pytest.mark.parametrize("what", ["call", "grad"])
def test_arguments_that_python_can_tell_apart_have_programs_of_their_own(what):
    codes = {text: float(i) for i, text in enumerate(sorted({written(x) for x in ALIKE}), 1)}
    assert len(codes) == len(ALIKE)
    x = sg.ones(2)
    for one, other in itertools.permutations(ALIKE, 2):
        fast = sg.compile(lambda x, s: (x * codes[written(s)]).sum(), backend="numpy")
        for s in (one, other, one, other):
            found = fast(x, s) / 2 if what == "call" else fast.grad(x, s, wrt="x")[0]
            assert found.item() == codes[written(s)], (one, other)


def is_same(x, y):
    return x is y


ASKING = {
    "is": lambda x, y: x * 3 if x is y else x * 2,
    "is not": lambda x, y: x * 2 if x is not y else x * 3,
    "by a function": lambda x, y: x * 3 if is_same(x, y) else x * 2,
    "id": lambda x, y: x * 3 if len({id(x), id(y)}) == 1 else x * 2,
    "deepcopy": lambda x, y: x * 3 if len({*map(id, copy.deepcopy([x, y]))}) == 1 else x * 2,
}


@pytest.mark.parametrize("f", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize("first", [True, False], ids=["distinct first", "the same first"])
def test_code_that_asks_which_arguments_are_the_same_is_answered(f, first):
    fast, (a, b) = sg.compile(f, backend="numpy"), (sg.ones(2), sg.ones(2))
    for _ in range(3):
        for y in (b, a) if first else (a, b):
            assert fast(a, y).tolist() == f(a, y).tolist() == ([3, 3] if y is a else [2, 2])
