"""The disk cache of compiled kernels in the user's cache folder, so that the next process need not compile them again.

XLA's output is machine code, which will run in the process that reads it. So the folder and its files must belong to the user alone: files
that others could have written, links, and files with a wrong checksum are not read, and their kernels are compiled again. A folder that
cannot be used is logged once, as a warning.

    SYMGRAD_CACHE=0          no cache
    SYMGRAD_CACHE_DIR=...    another folder than the user's cache folder
    SYMGRAD_CACHE_SIZE=...   maximal size in bytes ("500M", "2G"; default 1G): the least recently used kernels are removed first
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

_MAGIC = b"symgrad kernel 1\n"
_SUFFIX = ".kernel"
_UNFINISHED = ".unfinished"
_HOUR = 3600.0
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_DEFAULT_LIMIT = 2**30
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_logger = logging.getLogger(__name__)
_warned: set[str] = set()


def folder() -> Path | None:
    """Return the folder of the kernels; None if the cache is off."""
    if os.environ.get("SYMGRAD_CACHE", "").strip().lower() in ("0", "off", "no", "false"):
        return None
    given = os.environ.get("SYMGRAD_CACHE_DIR")
    try:
        base = Path(given).expanduser().absolute() if given else _users_folder() / "symgrad"
    except (RuntimeError, OSError):  # the user has no home directory
        return None
    return base / "kernels"


def limit() -> int:
    """Return the maximal size of the cache in bytes."""
    given = os.environ.get("SYMGRAD_CACHE_SIZE", "").strip()
    if not given:
        return _DEFAULT_LIMIT
    found = re.fullmatch("([0-9]{1,18})([KMG]?)B?", given.upper())
    if found is None:
        _warn(f"SYMGRAD_CACHE_SIZE={given!r} is no number of bytes, such as 500M or 2G: it is taken as 1G")
        return _DEFAULT_LIMIT
    return int(found[1]) * _UNITS[found[2]]


def size() -> int:
    """Return the size of the cache in bytes."""
    return sum(bytes_ for _, bytes_, _ in _entries(folder()))


def clear() -> int:
    """Remove all kernels; return how many there were."""
    removed = [_remove(path) for path, _, _ in _entries(folder())]
    return sum(removed)


def read(name: str) -> bytes | None:
    """Return the content that was written under a name; None if there is none, or if it is damaged or unsafe."""
    place = folder()
    if place is None:
        return None
    path = place / f"{name}{_SUFFIX}"
    try:
        with open(os.open(path, _READ), "rb") as file:
            reason = _not_ours(os.lstat(place), stat.S_ISDIR) or _not_ours(os.fstat(file.fileno()), stat.S_ISREG)
            content = b"" if reason else file.read()
    except FileNotFoundError:
        return None
    except OSError as error:  # a symbolic link, for example
        reason = f"cannot be read ({error.strerror or error})"
    if reason:
        _warn(f"a kernel in {place} is not used: it, or the folder, {reason}")
        return None
    found = _unsealed(name, content)
    if found is None:
        _logger.info("%s is damaged, and will be compiled again", path)
        return None
    with contextlib.suppress(OSError):  # failing to update the time of use is harmless
        os.utime(path)
    return found


def write(name: str, content: bytes) -> None:
    """Write content under a name, atomically; warn if the folder cannot be written to."""
    place = folder()
    if place is None or len(content) > limit():
        return
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        reason = _not_ours(os.lstat(place), stat.S_ISDIR)
        if reason is None:
            _replace(place / f"{name}{_SUFFIX}", _sealed(name, content))
            _forget_oldest(place)
    except OSError as error:
        reason = f"cannot be written to ({error.strerror or error})"
    if reason:
        _warn(f"kernels are not kept in {place}, which {reason}; SYMGRAD_CACHE_DIR names another folder, SYMGRAD_CACHE=0 keeps none")


def _users_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def _not_ours(status: os.stat_result, kind: object) -> str | None:
    """Return why others may have written there; None if only the user can."""
    if not kind(status.st_mode):  # type: ignore[operator]
        return "is a link or something else"
    if not hasattr(os, "geteuid"):
        return None  # Windows: the user's folder belongs to the user
    if status.st_uid != os.geteuid():
        return "is another user's"
    return "is writable for others" if status.st_mode & 0o022 else None


def _seal(name: str, content: bytes) -> bytes:
    return blake2b(content, digest_size=32, key=name.encode()[:64]).digest()


def _sealed(name: str, content: bytes) -> bytes:
    return _MAGIC + _seal(name, content) + content


def _unsealed(name: str, whole: bytes) -> bytes | None:
    head = len(_MAGIC) + 32
    content = whole[head:]
    return content if whole[:head] == _MAGIC + _seal(name, content) else None


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically. Several processes may write the same file: each writes a temporary file, and the last one wins."""
    temporary = path.with_name(f"{secrets.token_hex(8)}{_UNFINISHED}")
    try:
        with open(os.open(temporary, _WRITE, 0o600), "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _forget_oldest(place: Path) -> None:
    entries = sorted(_entries(place), key=lambda entry: entry[2])
    excess = sum(bytes_ for _, bytes_, _ in entries) - limit()
    for path, bytes_, _ in entries:
        if excess <= 0:
            break
        excess -= bytes_ * _remove(path)
    for path, _, written in _entries(place, _UNFINISHED):
        if written < time.time() - _HOUR:  # its process has ended
            _remove(path)


def _entries(place: Path | None, suffix: str = _SUFFIX) -> Iterator[tuple[Path, int, float]]:
    """Yield the files with their sizes and times of last use."""
    if place is None:
        return
    try:
        found = list(os.scandir(place))
    except OSError:
        return  # no folder, no files
    for entry in found:
        if entry.name.endswith(suffix):
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                status = entry.stat(follow_symlinks=False)
                yield Path(entry.path), status.st_size, status.st_mtime


def _remove(path: Path) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False  # removed by another process, or not removable
    return True


def _warn(text: str) -> None:
    """Log a warning once."""
    if text not in _warned:
        _warned.add(text)
        _logger.warning(text)
