"""Arrays from `.npy` and `.npz` files. What a file claims is held against its bytes before memory is taken for it; nothing is unpickled."""

from __future__ import annotations

import math
import os
import tokenize
import zipfile
import zlib
from typing import IO

import numpy as np
from numpy.lib import format as npy

from symgrad import dtypes
from symgrad.typing import Array

PICKLED = (
    "it holds a pickle, as torch.save writes it; loading one can run any code, so symgrad never does. Convert it once with PyTorch:"
    " safetensors.torch.save_file(torch.load(path, weights_only=True), 'model.safetensors')"
)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_RATIO = 1032  # deflate cannot pack more into one byte
_DAMAGE = (  # what reading such files raises beside ValueError
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, KeyError, SyntaxError, TypeError, tokenize.TokenError,
)  # fmt: skip


def read_npy(path: str, mmap: bool) -> Array:
    """The array of an `.npy` file."""
    try:
        with open(path, "rb") as file:
            _check_header(file, os.path.getsize(path))
        return _native(np.load(path, "c" if mmap else None, allow_pickle=False))
    except _DAMAGE as error:
        raise ValueError(f"not a whole .npy file ({error})") from error


def read_npz(path: str) -> dict[str, Array]:
    """The arrays of an `.npz` archive, by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(members, os.path.getsize(path))
            return {info.filename.removesuffix(".npy"): _member(archive, info) for info in members}
    except _DAMAGE as error:
        raise ValueError(f"not a whole .npz file ({error})") from error


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if any(info.filename.endswith("data.pkl") for info in members):
        raise ValueError(PICKLED)
    if len({info.filename for info in members}) != len(members):
        raise ValueError("two members of the archive have one name")
    if sum(info.compress_size for info in members) > size:
        raise ValueError("the members of the archive overlap, or are longer than the file")
    for info in members:
        if not info.filename.endswith(".npy"):
            raise ValueError(f"an .npz archive holds .npy files, and {info.filename!r} is not one")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{info.filename!r} is packed in a way that NumPy does not use")
        if info.file_size > info.compress_size * (_RATIO if info.compress_type == zipfile.ZIP_DEFLATED else 1):
            raise ValueError(f"{info.filename!r} claims {info.file_size} bytes, more than its {info.compress_size} packed ones can hold")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as file:
        _check_header(file, info.file_size)
    with archive.open(info) as file:
        return _native(npy.read_array(file, allow_pickle=False))


def _check_header(file: IO[bytes], size: int) -> None:
    """The type must be one of symgrad's, and shape and type must account for every byte."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array of version {version}, which only structured types need")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are pickled; loading them could run any code")
    dtypes.of(dtype)
    if file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"an array of shape {shape} and type {dtype} does not fill {size} bytes")


def _native(array: Array) -> Array:
    """Rows first, and bytes in this machine's order."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")
