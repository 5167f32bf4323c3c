"""save() and load(): a tensor, or dicts, lists and tuples of tensors, numbers, strings and None, in one safetensors file.

The tensors stand under generated names or, for a plain dict of tensors (a state_dict), under their own; the structure around them is
JSON in the file's metadata. Any safetensors file without such a structure, PyTorch's own for example, loads as a dict of tensors.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import OrderedDict
from typing import IO, Any

import numpy as np

from symgrad.tensor import Tensor, wrap

_KEY = "symgrad"
_DEPTH = 100
_PICKLED = (
    "{path} holds a pickle, as torch.save writes it; loading one can run any code, so symgrad never does. Convert it once with PyTorch:"
    " safetensors.torch.save_file(torch.load(path, weights_only=True), 'model.safetensors')"
)


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write `obj` to the file `f`, wholly or not at all; or into an open binary file."""
    from safetensors.numpy import save as to_bytes

    arrays: dict[str, Any] = {}
    structure = _encode(obj, arrays, "", 0)
    data = to_bytes(arrays, metadata={_KEY: json.dumps(structure)})
    if hasattr(f, "write"):
        f.write(data)
        return
    folder = os.path.dirname(os.path.abspath(os.fspath(f)))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".symgrad-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, f)
    except BaseException:
        os.unlink(temporary)
        raise


def _encode(obj: Any, arrays: dict[str, Any], name: str, depth: int) -> Any:
    """The structure of `obj` as JSON; arrays are put aside under the path that leads to them."""
    if depth > _DEPTH:
        raise ValueError(f"save: the object is nested deeper than {_DEPTH} levels")
    if isinstance(obj, (Tensor, np.ndarray)):
        array = obj._array if isinstance(obj, Tensor) else obj
        key = name or "tensor"
        while key in arrays:
            key += "_"
        arrays[key] = np.ascontiguousarray(array)  # safetensors writes other layouts wrongly
        return {"tensor": key, "shape": list(array.shape)}
    if isinstance(obj, dict):
        return {"dict": [[_key(k), _encode(v, arrays, f"{name}.{k}" if name else str(k), depth + 1)] for k, v in obj.items()]}
    if isinstance(obj, (list, tuple)):
        items = [_encode(v, arrays, f"{name}.{i}" if name else str(i), depth + 1) for i, v in enumerate(obj)]
        return {"tuple" if isinstance(obj, tuple) else "list": items}
    if obj is None or isinstance(obj, (bool, int, float, str)):
        return {"value": obj}
    raise TypeError(
        f"save: cannot store a {type(obj).__name__}; tensors, arrays, dicts, lists, tuples, numbers, strings and None can be stored"
    )


def _key(key: Any) -> str | int:
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise TypeError(f"save: dict keys must be strings or ints, got {key!r}")
    return key


def load(f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, *, weights_only: bool = True) -> Any:
    """What `save` wrote; a dict of tensors for any other safetensors or .npz file. `f` may be an open binary file."""
    if hasattr(f, "read"):
        with tempfile.TemporaryDirectory(prefix="symgrad-") as folder:  # the checks are those of a file
            path = os.path.join(folder, "given")
            with open(path, "wb") as copy:
                copy.write(f.read())
            return load(path)
    path = os.fspath(f)
    with open(path, "rb") as file:
        head = file.read(9)
    if head[:4] == b"PK\x03\x04":
        return _load_zip(path)
    if head[:1] == b"\x80" and head[8:] != b"{":  # a safetensors header starts at the ninth byte
        raise ValueError(_PICKLED.format(path=path))
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:  # checks the header against the file's size before it reads any number
            note = (file.metadata() or {}).get(_KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OverflowError, MemoryError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error
    tensors = {name: wrap(np.array(array)) for name, array in arrays.items()}
    return OrderedDict(tensors) if note is None else _structured(path, note, tensors)


def _structured(path: str, note: str, tensors: dict[str, Tensor]) -> Any:
    try:
        return _decode(json.loads(note), tensors, 0)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} has a damaged structure: {error}") from error


def _decode(node: Any, tensors: dict[str, Tensor], depth: int) -> Any:
    if depth > _DEPTH or not isinstance(node, dict) or not node:
        raise ValueError(f"unexpected entry {str(node)[:40]}")
    if "tensor" in node:
        found = tensors[node["tensor"]]
        return wrap(found._array.reshape(tuple(node["shape"])))
    if "value" in node:
        if isinstance(node["value"], (dict, list)):
            raise ValueError("a value must be a number, a string or null")
        return node["value"]
    if "dict" in node:
        return {k: _decode(v, tensors, depth + 1) for k, v in node["dict"]}
    if "list" in node:
        return [_decode(v, tensors, depth + 1) for v in node["list"]]
    if "tuple" in node:
        return tuple(_decode(v, tensors, depth + 1) for v in node["tuple"])
    raise ValueError(f"unknown entry {sorted(node)[:3]}")


def _load_zip(path: str) -> Any:
    """An .npz archive; PyTorch's .pt files are zip archives too, with a pickle inside."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any(name.endswith("data.pkl") for name in names):
            raise ValueError(_PICKLED.format(path=path))
        with np.load(path, allow_pickle=False) as arrays:
            return OrderedDict((name, wrap(np.ascontiguousarray(arrays[name]))) for name in arrays.files)
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} is not a whole .npz file: {error}") from error
