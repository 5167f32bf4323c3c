"""State that code reaches through imports in its body, and through methods of base classes."""

from __future__ import annotations

import sys
import types

import pytest

import symgrad as sg


class Base:
    def scale(self, x):
        return x * 2


class Middle(Base):
    def scale(self, x):
        return super().scale(x) + 1


class Last(Middle):
    def scale(self, x):
        return super().scale(x) * 10


@pytest.mark.parametrize("owner", [Base, Middle, Last])
def test_methods_that_super_calls(owner, monkeypatch):
    model, x = Last(), sg.ones(1)
    fast = sg.compile(lambda x: model.scale(x), backend="numpy")
    assert fast(x).item() == 30.0
    monkeypatch.setattr(owner, "scale", lambda self, x: x * 7)
    assert fast(x).item() == model.scale(x).item() != 30.0


@pytest.fixture
def settings(monkeypatch):
    module = types.ModuleType("settings_of_a_test")
    module.rate, module.bias = 2.0, 1.0
    monkeypatch.setitem(sys.modules, "settings_of_a_test", module)
    return module


def imports(x):
    import settings_of_a_test

    return x * settings_of_a_test.rate + settings_of_a_test.bias


def imports_from(x):
    from settings_of_a_test import bias, rate as r

    return x * r + bias


@pytest.mark.parametrize("f", [imports, imports_from])
@pytest.mark.parametrize("name", ["rate", "bias"])
def test_modules_that_are_imported_in_the_body(f, name, settings):
    fast, x = sg.compile(f, backend="numpy"), sg.ones(1)
    assert fast(x).item() == 3.0
    setattr(settings, name, 5.0)
    assert fast(x).item() == f(x).item() != 3.0
