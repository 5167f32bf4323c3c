"""Callables that return no tensors when they are called are refused at every door, with what to do instead."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


class Layer:
    def __call__(self, x):
        return x


async def later(x):
    return x


def rows(x):
    yield x


async def later_rows(x):
    yield x


CALLABLES = {
    "ufunc": (np.sin, "expected a function of tensors, got"),
    "class": (Layer, "got the class Layer: compile an object of it, or its method"),
    "coroutine": (later, "later is async: compile the function that computes"),
    "generator": (rows, "rows is a generator, which runs after it has returned"),
    "async generator": (later_rows, "later_rows is a generator, which runs after it has returned"),
    "number": (3, "expected a function of tensors, got int 3"),
}
DOORS = {"compile": sg.compile, "derive": sg.derive}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", CALLABLES)
def test_refused(kind, door):
    function, text = CALLABLES[kind]
    with pytest.raises(TypeError, match=text):
        DOORS[door](function)(sg.ones(2))


@pytest.mark.parametrize("door", DOORS)
def test_an_object_of_the_class_is_welcome(door):
    DOORS[door](Layer())(sg.ones(2))
