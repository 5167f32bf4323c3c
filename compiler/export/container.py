"""A container file of named parts, each with a checksum.

    8 bytes    \\x89SGX\\r\\n\\x1a\\n: detects a copy that was converted as text
    8 bytes    length of the header, little-endian
    32 bytes   blake2b of the header
    header     JSON; "parts" lists name, size and blake2b of each part
    parts      one after the other, in that order; nothing follows

A reader takes no more memory than the file has bytes. Names of parts are dictionary keys, never file names.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from symgrad.errors import FileError

_MAGIC = b"\x89SGX\r\n\x1a\n"
_START = len(_MAGIC) + 8 + 32
_MAX_HEADER_BYTES = 2**24


def write(path: str | os.PathLike[str], header: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write a file atomically."""
    listed = [{"name": name, "size": len(part), "blake2b": _digest(part).hex()} for name, part in parts.items()]
    text = json.dumps({**header, "parts": listed}, allow_nan=False).encode()
    if len(text) > _MAX_HEADER_BYTES:
        raise ValueError(f"the description of the function takes {len(text)} bytes, and {_MAX_HEADER_BYTES} is the limit")
    target = place_for(path)
    temporary = os.path.join(os.path.dirname(target), f".symgrad-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(_MAGIC + len(text).to_bytes(8, "little") + _digest(text) + text)
            for part in parts.values():
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def place_for(path: str | os.PathLike[str]) -> str:
    """Return the real path of a file to write; raise FileNotFoundError if its folder does not exist."""
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(f"export: there is no folder {os.path.dirname(target)}")
    return target


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the header and the parts of a file, after verifying all checksums."""
    with open(path, "rb") as file:
        whole = file.read()
    if whole[: len(_MAGIC)] != _MAGIC:
        raise FileError("it is no file that export() wrote")
    length = int.from_bytes(whole[len(_MAGIC) : len(_MAGIC) + 8], "little")
    if length > _MAX_HEADER_BYTES or _START + length > len(whole):
        raise FileError(f"its header has {length} bytes, more than there are or may be: it is cut off or damaged")
    text = whole[_START : _START + length]
    if _digest(text) != whole[_START - 32 : _START]:
        raise FileError("its header has another checksum: it is damaged")
    header = _parsed(text)
    return header, _parts(header.pop("parts", None), whole, _START + length)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=32).digest()


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FileError(f"its header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise FileError("its header is no JSON object")
    return header


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(items)
    if len(made) != len(items):
        raise ValueError("a key stands twice in one object")
    return made


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON's")


def _parts(listed: Any, whole: bytes, start: int) -> dict[str, bytes]:
    if not isinstance(listed, list):
        raise FileError("its header does not list its parts")
    parts: dict[str, bytes] = {}
    for entry in listed:
        name, size, digest = _entry(entry)
        if name in parts:
            raise FileError(f"it has two parts {name!r}")
        if start + size > len(whole):
            raise FileError(f"its part {name!r} ends after the file: it is cut off")
        parts[name] = part = whole[start : start + size]
        if _digest(part).hex() != digest:
            raise FileError(f"its part {name!r} has another checksum: it is damaged")
        start += size
    if start != len(whole):
        raise FileError(f"{len(whole) - start} bytes follow its last part")
    return parts


def _entry(entry: Any) -> tuple[str, int, str]:
    if not isinstance(entry, dict) or entry.keys() != {"name", "size", "blake2b"}:
        raise FileError("a part is not described by name, size and blake2b")
    name, size, digest = entry["name"], entry["size"], entry["blake2b"]
    if not isinstance(name, str) or not isinstance(digest, str) or type(size) is not int or size < 0:
        raise FileError("a part is not described by a text, a size and a checksum")
    return name, size, digest
