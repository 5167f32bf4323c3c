"""A disk cache for the programs that XLA compiles for symgrad, and for no others.

JAX has one compilation cache per process, and asks it for everything that is compiled. `kept_on_disk` installs symgrad's cache while a
kernel is compiled, unless the user has a cache: it serves only the thread and the kernel that it was installed for. No public JAX setting
changes. If a JAX version has no such cache, nothing is stored.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import platform
import sys
import threading
from collections.abc import Iterator
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

from symgrad.compiler.backends import disk_cache

_WORTH = 0.2
"""Kernels that XLA compiled in less time, in seconds, are not stored: looking them up would save nothing."""
_logger = logging.getLogger(__name__)


class _Thread(threading.local):
    parts: tuple[str, ...] | None = None


class _Store:
    """A cache with the interface that JAX expects: `get` and `put`."""

    _path = "kernels of symgrad's"

    def __init__(self) -> None:
        self.thread = _Thread()
        self.lock = threading.Lock()
        self.users = 0

    def get(self, key: str) -> bytes | None:
        parts = self.thread.parts
        return None if parts is None else disk_cache.read(name_of(*parts, key))

    def put(self, key: str, value: bytes) -> None:
        parts = self.thread.parts
        if parts is not None:
            disk_cache.write(name_of(*parts, key), value)


_store = _Store()


@contextlib.contextmanager
def kept_on_disk(*parts: str) -> Iterator[None]:
    """Look up on disk what XLA compiles in this block, in this thread, and store it there. `parts` distinguish programs beyond JAX's own
    key, which covers program, options, flags and device."""
    place = _place()
    if place is None or disk_cache.folder() is None or not _install_store(place):
        yield
        return
    before, _store.thread.parts = _store.thread.parts, parts
    try:
        with _settings().persistent_cache_min_compile_time_secs(_WORTH):  # thread-local
            yield
    finally:
        _store.thread.parts = before
        _remove_store(place)


def name_of(*parts: str) -> str:
    """Return the name of an entry: it depends on the parts, the versions of libraries and the machine."""
    return blake2b(repr((*parts, *_versions())).encode(), digest_size=32).hexdigest()


@functools.cache
def _versions() -> tuple[str, ...]:
    packages = (_version(name) for name in ("symgrad", "jax", "jaxlib", "numpy"))
    return (*packages, sys.version, *_machine())


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # not installed
        return "unknown"


def _machine() -> tuple[str, str, str]:
    """Return a description of the processor: machine code for one may not run on another, and home directories are shared between
    machines."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    return platform.system(), platform.machine(), flags or platform.processor()


def _install_store(place: Any) -> bool:
    """Install symgrad's cache where JAX looks for one; return False if the user has one."""
    with _store.lock:
        if place._cache is None and _settings().compilation_cache_dir.value is None:
            place._cache = _store
        if place._cache is not _store:
            return False
        _store.users += 1
        return True


def _remove_store(place: Any) -> None:
    with _store.lock:
        _store.users -= 1
        if _store.users == 0 and place._cache is _store:
            place._cache = None


@functools.cache
def _place() -> Any:
    """Return the JAX module that holds the cache of the process; None if this JAX version has another interface."""
    try:
        from jax._src import compilation_cache

        known = compilation_cache._cache is None or hasattr(compilation_cache._cache, "get")
        return compilation_cache if known and hasattr(_settings(), "persistent_cache_min_compile_time_secs") else None
    except (ImportError, AttributeError):
        _logger.info("this version of JAX has another cache of compiled programs: kernels are not kept on disk")
        return None


def _settings() -> Any:
    from jax._src import config

    return config
