"""Comments that silence a checker are few: each has to be worth a place below its ceiling."""

from __future__ import annotations

import pathlib
import re

from import_graph import source_files

TYPE_IGNORES = 150
"""A new `type: ignore` takes the place of an old one; where the ceiling can be lower, lower it."""

HOT_LOOPS = {"symgrad.compiler.runtime.fast_path": "benchmarks/calls.py", "symgrad.engine": "benchmarks/chains.py"}
"""The modules with one complex function, where a call for each step would cost too much, and the benchmarks that show it."""


def places(pattern: str) -> list[str]:
    """Where comments of the package match: `module:line`."""
    found = []
    for name, path in source_files().items():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(rf"#.*{pattern}", line):
                found.append(f"{name}:{number}")
    return found


def test_type_ignores_are_few():
    found = places(r"type: ignore")
    assert 0 < len(found) < TYPE_IGNORES


def test_every_type_ignore_names_its_errors():
    assert places(r"type: ignore(?!\[)") == []


def test_only_named_hot_loops_are_complex():
    assert sorted(place.split(":")[0] for place in places(r"noqa:.*C901")) == sorted(HOT_LOOPS)


def test_hot_loops_name_the_benchmark_that_needs_them():
    for name, benchmark in HOT_LOOPS.items():
        assert [place.split(":")[0] for place in places(rf"noqa: C901  \(hot loop: {benchmark}\)")] == [name]
        assert (pathlib.Path(__file__).parents[1] / benchmark).is_file()


def test_places_are_found():
    assert "symgrad.dispatch:1" not in places("noqa")
    assert any(place.startswith("symgrad.compiler.") for place in places("type: ignore"))
