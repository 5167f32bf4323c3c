"""Comparisons with PyTorch are collected where PyTorch is installed: `tox -e peers` installs it, the other environments do without."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
