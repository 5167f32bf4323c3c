"""Comparisons with PyTorch, and with libraries built on JAX, are collected where these are installed: `tox -e peers` installs them."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
collect_ignore = [] if all(map(importlib.util.find_spec, ("optax", "equinox", "diffrax"))) else ["test_jax_libraries_peer.py"]
