"""Runs only the tests that a file names, in its order: a pytest plugin (`-p mutants.choosing`).

`MUTANTS_CHOSEN` is a file of node ids to run, and `MUTANTS_KNOWN` one of those that the map knows. Tests that it does not know are newer
than the map, or have their names from what the fault changed, and run too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def _lines(variable: str) -> list[str]:
    return Path(os.environ[variable]).read_text().splitlines()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    known, places = set(_lines("MUTANTS_KNOWN")), {name: i for i, name in enumerate(_lines("MUTANTS_CHOSEN"))}
    left_out = [item for item in items if item.nodeid in known and item.nodeid not in places]
    config.hook.pytest_deselected(items=left_out)
    items[:] = sorted((x for x in items if x not in set(left_out)), key=lambda item: places.get(item.nodeid, len(places)))
