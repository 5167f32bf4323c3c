"""What holds for all tests: none reads or writes the kernels that the user keeps on disk, and a run is like the one before.

`--hypothesis-profile default` lets Hypothesis draw examples of its own. `--compiled` runs the eager suite under the compiler.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["under_compiler.plugin"]

os.environ["SYMGRAD_CACHE"] = "0"
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

SLOW = 3600
"""Seconds that a slow test may take; the others have the limit of pyproject.toml."""


def pytest_addoption(parser):
    parser.addoption("--compiled", choices=("numpy", "xla", "sample"), help="run the eager suite through compile()")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))
