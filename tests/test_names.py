"""What `symgrad.<TAB>` shows, and what a misspelt name gets."""

from __future__ import annotations

import types

import pytest

import symgrad as sg


def test_completion_shows_what_users_call():
    shown = {name for name in dir(sg) if not name.startswith("_")}
    assert {"tensor", "sum", "compile", "derive", "nn", "compiler", "linalg"} <= shown
    assert not shown & {"METHODS", "TYPE_CHECKING", "install", "tensors", "dispatch", "engine", "arranging"}
    modules = {name for name in shown if isinstance(getattr(sg, name), types.ModuleType)}
    assert all(getattr(sg, name).__doc__ for name in modules)


def test_everything_shown_is_there():
    assert [name for name in dir(sg) if not hasattr(sg, name)] == []


def test_python_can_suggest_the_right_name():
    with pytest.raises(AttributeError, match="module 'symgrad' has no attribute 'tensr'") as caught:
        sg.tensr  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("tensr", sg)


@pytest.mark.parametrize("place", [sg, sg.Tensor, sg.nn, sg.nn.functional, sg.linalg, sg.special, sg.func, sg.autograd, sg.optim])
def test_help_says_something(place):
    callables = {name: getattr(place, name) for name in dir(place) if not name.startswith("_") and callable(getattr(place, name))}
    assert [name for name, value in callables.items() if not value.__doc__] == []
