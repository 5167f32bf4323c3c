"""Imports at the top of modules have no cycle; those inside of functions are listed in pyproject.toml, each with a reason."""

from __future__ import annotations

import tomllib

from import_graph import ROOT, cycles, imports_of, package_imports

SOURCE = '''
from typing import TYPE_CHECKING
import symgrad.a
from symgrad import b, missing
from ..c import d

if TYPE_CHECKING:
    import symgrad.only_types
else:
    import symgrad.other

try:
    import json
except ImportError:
    json = None

class C:
    import symgrad.in_class

    def method(self):
        from symgrad.b import name
        return lambda: __import__("x")

def outer():
    if True:
        def inner():
            import scipy.linalg
'''


def listed() -> list[dict]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["symgrad"]["late-imports"]


def test_top_level_imports_have_no_cycle():
    imports = package_imports()
    assert len(imports) > 400
    assert cycles({name: found.top & imports.keys() for name, found in imports.items()}) == []


def test_imports_inside_of_functions_are_listed_with_a_reason():
    found = {f"{name} -> {target}" for name, imports in package_imports().items() for target in imports.late}
    known = [pair for entry in listed() for pair in entry["imports"]]
    assert sorted(found - set(known)) == [], "move it to the top of the module, or list it in pyproject.toml with the reason"
    assert sorted(set(known) - found) == [], "it is gone: take it off the list"
    assert len(known) == len(set(known))


def test_every_reason_is_given_and_cycles_are_cycles():
    imports = package_imports()
    edges = {name: found.top & imports.keys() for name, found in imports.items()}
    for entry in listed():
        assert len(entry["reason"].split()) >= 4
        for pair in entry["imports"] if entry["reason"].startswith("breaks a cycle") else ():
            name, target = pair.split(" -> ")
            assert cycles({**edges, name: edges[name] | {target}}), f"{pair} makes no cycle at the top of the module"


def test_imports_are_found():
    modules = {"symgrad.a", "symgrad.b", "symgrad.c.d", "symgrad.other", "symgrad.in_class"}
    found = imports_of(SOURCE, "symgrad.package", modules)
    assert found.top == {"typing", "symgrad.a", "symgrad.b", "symgrad", "symgrad.c.d", "symgrad.other", "json", "symgrad.in_class"}
    assert found.late == {"symgrad.b", "scipy.linalg"}


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["d"], ["b", "c"]]
    edges = {name: found.top for name, found in package_imports().items()}
    edges["symgrad.pytree"] = edges["symgrad.pytree"] | {"symgrad.func.vmap"}
    assert any("symgrad.pytree" in cycle for cycle in cycles(edges))
