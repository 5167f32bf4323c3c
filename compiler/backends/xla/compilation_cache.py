"""What XLA compiles for us is kept on disk; what it compiles for others is left alone.

JAX has one compilation cache in a process, and asks it for everything that is compiled. `kept_on_disk` puts ours in that place while one of
our kernels is compiled, unless the user has one: it answers only to the thread and for the kernel that it was put there for. No setting of
JAX's that anybody could see is changed. If a JAX has no such place, nothing is kept.
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
"""Kernels that took XLA less, in seconds, are compiled again: looking them up would save nothing."""
_logger = logging.getLogger(__name__)


class _Thread(threading.local):
    parts: tuple[str, ...] | None = None


class _Store:
    """As JAX wants a cache to be: `get` and `put`."""

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
    """What XLA compiles in this block, in this thread, is looked up on disk, and kept there. `parts` tell programs apart, besides all that
    JAX's own key says: program, options, flags, device."""
    place = _place()
    if place is None or disk_cache.folder() is None or not _install_store(place):
        yield
        return
    before, _store.thread.parts = _store.thread.parts, parts
    try:
        with _settings().persistent_cache_min_compile_time_secs(_WORTH):  # of this thread
            yield
    finally:
        _store.thread.parts = before
        _remove_store(place)


def name_of(*parts: str) -> str:
    """The name of an entry: other parts, versions or machines have other names."""
    return blake2b(repr((*parts, *_versions())).encode(), digest_size=32).hexdigest()


@functools.cache
def _versions() -> tuple[str, ...]:
    packages = (_version(name) for name in ("symgrad", "jax", "jaxlib", "numpy"))
    return (*packages, sys.version, *_machine())


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # run from its folder
        return "unknown"


def _machine() -> tuple[str, str, str]:
    """Machine code for one processor may not run on another, and homes are shared between machines."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    return platform.system(), platform.machine(), flags or platform.processor()


def _install_store(place: Any) -> bool:
    """Put our cache where JAX looks for one; False if the user has one."""
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
    """The module of JAX's that has the cache of the process; None if this JAX has another."""
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
