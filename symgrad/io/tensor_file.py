"""Safetensors files: eight bytes that say how long the header is, the header in JSON, and then the numbers of every tensor.

Writing streams: no more memory than the largest tensor that is not contiguous. Before a file is read, the safetensors library holds its
header against its length: whatever is claimed, no more memory is taken than the file has bytes.
"""

from __future__ import annotations

import json
import math
from typing import IO, Any

import numpy as np

from symgrad import dtypes
from symgrad.io.structure import unique
from symgrad.typing import Array

_LIMIT = 100_000_000  # the longest header that the library reads
_NUMPY = {
    "F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
    "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64", "BF16": "bfloat16",
}  # fmt: skip
_CODES = {name: code for code, name in _NUMPY.items()}


def write(file: IO[bytes], arrays: dict[str, Array], metadata: dict[str, str]) -> None:
    """Nothing is written unless everything can be."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)  # so that each starts at a multiple of its size
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in ordered:
        start, end = end, end + array.nbytes
        header[name] = {**_described(name, array), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LIMIT:
        raise ValueError(
            f"save: what is not in tensors takes {len(text) / 1e6:.0f} MB, and {_LIMIT / 1e6:.0f} MB is the limit;"
            " put long lists of numbers into tensors"
        )
    file.write(len(text).to_bytes(8, "little") + text)
    for _, array in ordered:
        file.write(_bytes(array))


def _bytes(array: Array) -> memoryview:
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return plain.reshape(-1).view(np.uint8).data


def _described(name: str, array: Array) -> dict[str, Any]:
    if array.dtype.name == "complex128":  # has no code: real and imaginary parts, side by side
        return {"dtype": "F64", "shape": [*array.shape, 2]}
    if array.dtype.name not in _CODES:
        raise TypeError(f"save: cannot store an array of {array.dtype} (at {name}); types that can be are {', '.join(_CODES)}, complex128")
    return {"dtype": _CODES[array.dtype.name], "shape": list(array.shape)}


def read(path: str, mmap: bool) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a file and its metadata; with `mmap` the arrays are parts of the file, read when they are used."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise ValueError(f"not a whole safetensors file ({error})") from error
    with open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8), object_pairs_hook=unique)
        metadata = header.pop("__metadata__", None) or {}
        types = {name: _type(name, entry["dtype"]) for name, entry in header.items()}
        arrays = {}
        for name, entry in header.items():
            place = start + entry["data_offsets"][0]
            arrays[name] = (_mapped if mmap else _array)(file, types[name], tuple(entry["shape"]), place)
    return arrays, metadata


def _type(name: str, code: str) -> np.dtype[Any]:
    if code not in _NUMPY:
        raise ValueError(f"{name!r} has the type {code}, which symgrad does not have; convert it with PyTorch, to float16 for example")
    numpy = dtypes.bfloat16.dtype if code == "BF16" else np.dtype(_NUMPY[code])
    return numpy.newbyteorder("<")


def _array(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], place: int) -> Array:
    array = np.empty(shape, dtype)
    file.seek(place)
    if file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
        raise ValueError("the file became shorter while it was read")
    return array


def _mapped(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], place: int) -> Array:
    """A view of the file; what is written to the tensor stays in memory."""
    if 0 in shape:
        return np.empty(shape, dtype)
    count = math.prod(shape) * dtype.itemsize
    mapped = np.memmap(file, np.uint8, "c", place, count)
    return np.asarray(mapped).view(dtype).reshape(shape)
