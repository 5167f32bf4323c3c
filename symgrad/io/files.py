"""save() and load(), and which kind of file is which.

`save` writes one safetensors file: the tensors under the path that leads to them, so under their own names for a state_dict, and what
holds them together as JSON in the file's metadata. Any safetensors file without such a note, PyTorch's for example, loads as a dict.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections import OrderedDict
from typing import IO, Any

from symgrad import devices, dtypes
from symgrad.errors import FileError
from symgrad.io import numpy_files, tensor_file
from symgrad.io.atomic import replacing
from symgrad.io.structure import Decoder, Encoder, unique
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array

_KEY = "symgrad"


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write `obj` to the file `f`, wholly or not at all; or into an open binary file.

    `obj` is made of tensors, arrays, dicts, lists, tuples, sets, numbers, strings, bytes, dtypes, devices and None.
    """
    encoder = Encoder()
    note = json.dumps(encoder.encode(obj), allow_nan=False)
    metadata = {"format": "pt", _KEY: note}  # other libraries ask for a format, and mean the order of axes
    with replacing(f) if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        tensor_file.write(file, encoder.arrays, metadata)


def load(f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, *, weights_only: bool = True, mmap: bool = False) -> Any:
    """What `save` wrote; a dict of tensors for other safetensors files, their `.index.json`, and `.npz`; a tensor for `.npy`.

    With `mmap` the numbers of a safetensors file stay on disk until they are used. Nothing is ever unpickled, whatever `weights_only` is.
    """
    if isinstance(map_location, (str, devices.device)):
        devices.check(map_location)
    if isinstance(f, (str, os.PathLike)):
        return _load(os.fspath(f), os.fspath(f), mmap)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    with tempfile.TemporaryDirectory(prefix="symgrad-") as folder:  # the checks are those of a file
        path = os.path.join(folder, "copy")
        with open(path, "wb") as copy:
            shutil.copyfileobj(f, copy)
        return _load(path, str(getattr(f, "name", "the open file")), mmap)


def _load(path: str, name: str, mmap: bool) -> Any:
    with open(path, "rb") as file:
        head = file.read(9)
    try:
        return _reader(path, head)(path, mmap)
    except ValueError as error:
        raise FileError(f"load: {name} cannot be read: {error}") from error


def _reader(path: str, head: bytes) -> Any:
    """The function that reads a file, by its name and its first bytes."""
    if path.endswith(".index.json"):
        return _load_index
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _load_zip
    if head.startswith(b"\x93NUMPY"):
        return lambda path, mmap: wrap(numpy_files.read_npy(path, mmap))
    if head.startswith(b"\x80") and head[8:] != b"{":  # a safetensors header starts at the ninth byte
        raise ValueError(numpy_files.PICKLED)
    return _load_safetensors


def _load_safetensors(path: str, mmap: bool) -> Any:
    arrays, metadata = tensor_file.read(path, mmap)
    note = metadata.get(_KEY)
    if note is None:
        return _tensors(arrays)
    try:
        return Decoder(arrays).decode(json.loads(note, object_pairs_hook=unique, parse_constant=_refuse))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
        raise ValueError(f"its structure is damaged ({error.__class__.__name__}: {error})") from error


def _load_index(path: str, mmap: bool) -> OrderedDict[str, Tensor]:
    """`model.safetensors.index.json`: a large model in several files, which lie beside it."""
    try:
        with open(path, "rb") as file:
            places = dict(json.load(file)["weight_map"])
        shards = {shard: os.path.join(os.path.dirname(path), shard) for shard in places.values() if os.path.basename(shard) == shard}
        tensors = {name: t for shard in shards.values() for name, t in _tensors(tensor_file.read(shard, mmap)[0]).items()}
        return OrderedDict((name, tensors[name]) for name in places)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not an index of safetensors files in the same folder ({error.__class__.__name__}: {error})") from error


def _load_zip(path: str, mmap: bool) -> OrderedDict[str, Tensor]:
    return OrderedDict((name, wrap(array)) for name, array in numpy_files.read_npz(path).items())


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _tensors(arrays: dict[str, Array]) -> OrderedDict[str, Tensor]:
    """The arrays of a file that nothing holds together. Arrays of more types can be stored than there are types of tensors."""
    for name, array in arrays.items():
        try:
            dtypes.of(array.dtype)
        except TypeError as error:
            raise ValueError(f"{name!r}: {error}") from None
    return OrderedDict((name, wrap(array)) for name, array in arrays.items())
