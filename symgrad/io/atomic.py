"""Writing a file wholly or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends well, and is removed when it does not.

    Until then `path` is what it was, also if the disk is full or the power fails. Permissions are what open() gives: those of the old
    file, or else what the umask leaves. Where `path` is a link, the link stays and what it points to is replaced.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe: written to, never replaced
        with open(target, "wb") as file:
            yield file
        return
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    mode = _mode(target)
    temporary = os.path.join(folder, f".symgrad-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _synchronize(folder)


def _mode(target: str) -> int | None:
    """The permissions of a file that is there; whoever may not write to it may not replace it either."""
    try:
        with open(target, "r+b") as file:
            return os.fstat(file.fileno()).st_mode & 0o7777
    except FileNotFoundError:
        return None


def _synchronize(folder: str) -> None:
    """Let the new name reach the disk. Systems that cannot open or synchronize a folder do this by themselves."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
