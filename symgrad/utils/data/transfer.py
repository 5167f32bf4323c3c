"""Objects between processes: a pickle, and the memory of large arrays in a file without a name.

Such a file lives as long as a process has it open or mapped. However processes end, nothing is left behind, and no list of names has to
be kept. One batch, microseconds in all and (in the receiving process), measured on two cores:

    bytes          through the pipe    file without a name    multiprocessing.shared_memory
    16,000              18 (6)              74 (40)                166 (71)
    64,000              24 (15)             93 (55)                210 (85)
    1,000,000          548 (399)           814 (387)             1,315 (300)
    10,000,000      17,450 (12,911)      6,906 (3,053)          16,355 (2,664)
    40,000,000     148,828 (75,505)     49,748 (12,300)         73,648 (11,211)

What does not fit into the pipe's buffer would also keep a worker waiting until the batch is asked for; so all that is large goes by file.
"""

from __future__ import annotations

import io
import itertools
import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

INLINE = 64 * 1024
ALIGNMENT = 64  # of every array, as NumPy's own memory
MAX_MAPPINGS = 64  # at a time
HAS_FILES = os.name == "posix"  # where descriptors can be sent

_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def send(connection: Connection, value: Any) -> None:
    """Send an object; fails before anything is sent if it cannot be pickled or does not fit into memory."""
    body, buffers = _pickled(value)
    pieces = [body, *buffers]
    sizes = [piece.nbytes for piece in pieces]
    if _starts(sizes)[-1] <= INLINE or not HAS_FILES:
        connection.send((sizes, False))
        connection.send_bytes(_joined(pieces, sizes))
        return
    descriptor = _file_of(pieces, sizes)
    try:
        connection.send((sizes, True))
        reduction.send_handle(connection, descriptor, None)  # the receiver's pid matters on Windows only
    finally:
        os.close(descriptor)


def receive(connection: Connection) -> Any:
    """The object that the other side sent. Its arrays lie in memory of their own and may be written to."""
    sizes, in_file = connection.recv()
    if in_file:
        memory = _opened(reduction.recv_handle(connection))
    else:
        memory = memoryview(bytearray(_starts(sizes)[-1]))
        connection.recv_bytes_into(memory)
    body, *buffers = _cut(memory, sizes)
    return pickle.loads(body, buffers=buffers)


class Parcel:
    """What workers are started with. Pickled when a process starts; unpickled by `open`, in the worker, which can then report a failure.

    Large arrays are copied once, into a file that all workers map; a worker that writes to them gets copies of its own pages.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self._descriptor = -1

    def __reduce__(self) -> Any:
        body, buffers = _pickled(self._value)
        sizes = [piece.nbytes for piece in buffers]
        if not sum(sizes) or not HAS_FILES:
            return Arrived, (bytes(body), [bytearray(piece) for piece in buffers], [], None)
        if self._descriptor < 0:
            self._descriptor = _file_of(buffers, sizes)
        return Arrived, (bytes(body), [], sizes, reduction.DupFd(self._descriptor))

    def open(self) -> Any:
        """Where processes are forked there is nothing to unpickle."""
        return self._value

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Arrived:
    """A parcel in a worker."""

    def __init__(self, body: bytes, buffers: list[bytearray], sizes: list[int], descriptor: Any) -> None:
        self._body, self._buffers, self._sizes, self._descriptor = body, buffers, sizes, descriptor

    def open(self) -> Any:
        buffers: Sequence[Any] = self._buffers
        if self._descriptor is not None:
            buffers = _cut(memoryview(_mapped(self._descriptor.detach(), mmap.ACCESS_COPY)), self._sizes)
        return pickle.loads(self._body, buffers=buffers)


def _pickled(value: Any) -> tuple[memoryview, list[memoryview]]:
    """The pickle, and the memory of arrays beside it."""
    body, buffers = io.BytesIO(), []  # type: tuple[io.BytesIO, list[pickle.PickleBuffer]]
    reduction.ForkingPickler(body, 5, True, buffers.append).dump(value)
    return body.getbuffer(), [buffer.raw() for buffer in buffers]


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where each piece begins, and where the last ends."""
    return [0, *itertools.accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]


def _cut(memory: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    return [memory[start : start + size] for start, size in zip(_starts(sizes), sizes, strict=False)]


def _joined(pieces: Sequence[memoryview], sizes: Sequence[int]) -> bytearray:
    memory = bytearray(_starts(sizes)[-1])
    for place, piece in zip(_cut(memoryview(memory), sizes), pieces, strict=True):
        place[:] = piece
    return memory


def _file_of(pieces: Sequence[memoryview], sizes: Sequence[int]) -> int:
    """The descriptor of a new file that holds the pieces."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("symgrad")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.truncate(descriptor, _starts(sizes)[-1])
        for start, piece in zip(_starts(sizes), pieces, strict=False):
            written = 0
            while written < piece.nbytes:  # the system may take less than all at once
                written += os.pwrite(descriptor, piece[written:], start + written)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mapped(descriptor: int, access: int) -> mmap.mmap:
    """The file in memory; it is unmapped with the last array in it."""
    try:
        return mmap.mmap(descriptor, 0, access=access)
    finally:
        os.close(descriptor)


def _opened(descriptor: int) -> memoryview:
    """The file in memory. Python keeps a descriptor for each mapping, so who collects many batches gets copies of the later ones."""
    if len(_mappings) < MAX_MAPPINGS:
        mapping = _mapped(descriptor, mmap.ACCESS_WRITE)
        _mappings.add(mapping)
        return memoryview(mapping)
    with open(descriptor, "rb", buffering=0) as file:
        memory = memoryview(bytearray(os.fstat(descriptor).st_size))
        read = 0
        while read < memory.nbytes:
            read += os.preadv(file.fileno(), [memory[read:]], read)
    return memory
