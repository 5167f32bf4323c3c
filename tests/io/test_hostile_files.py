"""Files that are damaged or lie: a clear error, before memory is taken, and nothing is run."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

import symgrad as sg
from symgrad.errors import FileError
from symgrad.io import load, save
from symgrad.tensor import wrap


@pytest.fixture
def refused(tmp_path):
    """A function that asserts that bytes are refused by a FileError that names the file, with less than a megabyte of memory."""

    def check(data: bytes, match: str | None, name: str = "hostile") -> None:
        (tmp_path / name).write_bytes(data)
        tracemalloc.start()
        try:
            for mmap in (False, True):
                with pytest.raises(FileError, match=match) as caught:
                    load(tmp_path / name, mmap=mmap)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000 + 30 * len(data)
        finally:
            tracemalloc.stop()
        assert str(tmp_path / name) in str(caught.value)
        assert isinstance(caught.value, ValueError)

    return check


def file(header, numbers=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + numbers


def entry(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


W = entry("F32", [1], 0, 4)
FILES = {
    "empty": b"", "short": b"\x05", "text": b"hello, world", "no header": file(b""), "not JSON": file(b"{]"),
    "10 TB": file({"w": entry("F32", [2_500_000_000_000], 0, 10**13)}), "10 TB of nothing": file({"w": entry("F32", [0, 1 << 62], 0, 0)}),
    "shape that overflows": file({"w": entry("F64", [1 << 62, 1 << 62], 0, 0)}), "header of 4 EB": file(b"{}", length=1 << 62),
    "header of 200 MB": file(b"{}", length=200_000_000), "header beyond the file": file(b"{}", length=3),
    "truncated": file({"w": W}, b"\0" * 3), "more than it says": file({"w": W}, b"\0" * 5), "overlap": file({"w": W, "v": W}, b"\0" * 4),
    "hole": file({"w": W, "v": entry("F32", [1], 8, 12)}, b"\0" * 12), "backwards": file({"w": entry("F32", [1], 4, 0)}, b"\0" * 4),
    "negative size": file({"w": entry("F32", [-1], 0, 4)}, b"\0" * 4),
    "negative offset": file({"w": entry("F32", [1], -4, 0)}, b"\0" * 4), "half a size": file({"w": entry("F32", [1.5], 0, 6)}, b"\0" * 6),
    "shape and offsets differ": file({"w": entry("F32", [2], 0, 4)}, b"\0" * 4),
    "no such type": file({"w": entry("F31", [1], 0, 4)}, b"\0" * 4),
    "no type": file({"w": {"shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4), "deep": file(b'{"w":' + b"[" * 100_000),
    "not UTF-8": file(b'{"\xff":' + json.dumps(W).encode() + b"}", b"\0" * 4),
    "NaN": file(b'{"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', b"\0" * 4),
    "metadata of lists": file({"__metadata__": {"a": []}}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_headers_that_lie(refused, name):
    refused(FILES[name], "cannot be read: (not a whole safetensors file|array is too big|Maximum allowed dimension exceeded)")


def test_names_that_stand_twice(refused):
    refused(file(b'{"w":' + json.dumps(W).encode() + b',"w":' + json.dumps(W).encode() + b"}", b"\0" * 4), "a key stands twice in one dict")


def test_types_that_are_not_there_are_named(refused):
    refused(file({"w": entry("F8_E4M3", [4], 0, 4)}, b"\0" * 4), r"'w' has the type F8_E4M3, which symgrad does not have; convert it")
    refused(file({"w": entry("U32", [1], 0, 4)}, b"\0" * 4), r"'w': can't convert np.ndarray of type numpy.uint32")


def structured(note, **arrays):
    path = io.BytesIO()
    header = {"__metadata__": {"symgrad": note if isinstance(note, str) else json.dumps(note)}}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = entry("U8", list(array.shape), start, end)
    path.write(file(header, b"".join(array.tobytes() for array in arrays.values())))
    return path.getvalue()


BYTES = np.zeros(16, np.uint8)
NOTES = {
    "not JSON": "{", "NaN": "[NaN]", "infinite": "Infinity", "deep": "[" * 100_000, "deep and closed": "[" * 150 + "]" * 150,
    "key twice": '{"a": 1, "a": 2}', "pairs twice": {"$": "dict", "of": [[1, 1], [1, 2]]}, "no such kind": {"$": "os.system", "of": "ls"},
    "kind of a list": {"$": [], "of": 1}, "kind of nothing": {"$": None, "of": 1}, "no content": {"$": "tuple"},
    "tuple of a number": {"$": "tuple", "of": 3}, "no such tensor": {"$": "tensor", "of": "v"},
    "tensor of a list": {"$": "tensor", "of": ["w"]}, "float": {"$": "float", "of": "1e400"}, "dtype": {"$": "dtype", "of": "__class__"},
    "as": {"$": "tensor", "of": "w", "as": "object"}, "half a number": {"$": "tensor", "of": "odd", "as": "complex128"},
    "device": {"$": "device", "of": "nowhere"}, "keys that cannot be": {"$": "dict", "of": [[[], 1]]},
    "set of lists": {"$": "set", "of": [[]]}, "three in a pair": {"$": "dict", "of": [[1, 2, 3]]},
    "complex of text": {"$": "complex", "of": ["a", "b"]}, "grad of bytes": {"$": "tensor", "of": "w", "requires_grad": True},
    "grad of an array": {"$": "array", "of": "w", "requires_grad": True},
    "a large small number": {"$": "scalar", "of": ["int8", 300]}, "half a scalar": {"$": "scalar", "of": ["int8"]},
    "scalar of objects": {"$": "scalar", "of": ["object", 1]}, "an integer of 5,000 digits": "9" * 5000,
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_structures_that_lie(refused, name):
    refused(structured(NOTES[name], w=BYTES, odd=BYTES[:15]), "cannot be read: its structure is damaged")


def test_a_small_file_that_names_one_tensor_often_stays_small(tmp_path):
    kinds = ["tensor", "array", "bytes", "parameter"]
    note = [{"$": kind, "of": "w"} for kind in kinds for _ in range(1000)]
    (tmp_path / "x").write_bytes(structured(note, w=np.zeros(1_000_000, np.uint8)))
    tracemalloc.start()
    loaded = load(tmp_path / "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(loaded) == 4000
    assert peak < 6_000_000


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_pickles_are_refused(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    archive, array = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    np.save(array, np.array([Bomb()], dtype=object), allow_pickle=True)
    for protocol in (2, 5):
        refused(
            pickle.dumps(Bomb(), protocol), r"holds a pickle.*Convert it once.*save_file\(torch.load\(path, weights_only=True\)", "old.pt"
        )
    refused(archive.getvalue(), "holds a pickle.*Convert it once", "new.pt")
    refused(array.getvalue(), "holds Python objects, which are pickled", "object.npy")
    refused(zipped_array("a.npy", array.getvalue()), "holds Python objects, which are pickled", "object.npz")
    with pytest.raises(FileError, match="load: the open file cannot be read: it holds a pickle"):
        load(io.BytesIO(pickle.dumps(Bomb())), weights_only=False)
    assert not (tmp_path / "exploded").exists()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped_array(name, data, compression=zipfile.ZIP_STORED, again=None):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for member in (name, again) if again else (name,):
            archive.writestr(member, data)
    return buffer.getvalue()


def test_arrays_that_lie(refused):
    good = npy(np.zeros(5))
    refused(good[:-1], r"an array of shape \(5,\) and type float64 does not fill 167 bytes", "x.npy")
    refused(good + b"\0", "does not fill", "x.npy")
    refused(good[:40], "not a whole|header|EOF", "x.npy")
    refused(good.replace(b"(5,)", b"(9**9**9,)"), "Cannot parse header|malformed", "x.npy")
    refused(good.replace(b"(5,), }     ", b"(10**12,), }"), "Cannot parse header|malformed|does not fill", "x.npy")
    refused(good.replace(b"(5,), }          ", b"(1250000000000,)}"), "shape .1250000000000,. and type float64 does not fill", "x.npy")
    refused(good.replace(b"(5,), }  ", b"(-1,-5),}"), None, "x.npy")
    refused(good.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x07"), "an array of version", "x.npy")
    refused(npy(np.array(["a"])), "can't convert np.ndarray of type numpy.str_", "x.npy")
    refused(npy(np.zeros(2, [("a", "f4")])), "can't convert np.ndarray", "x.npy")


def test_archives_that_lie(refused):
    good = npy(np.zeros(5))
    refused(zipped_array("a.npy", good)[:-30], "not a whole .npz file", "x.npz")
    refused(zipped_array("a.txt", good), "an .npz archive holds .npy files, and 'a.txt' is not one", "x.npz")
    refused(zipped_array("a.npy", good, zipfile.ZIP_LZMA), "packed in a way that NumPy does not use", "x.npz")
    refused(zipped_array("a.npy", good + b"\0"), "does not fill", "x.npz")
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        damaged = bytearray(zipped_array("a.npy", good, compression))
        damaged[damaged.index(b"a.npy") + 30] ^= 255
        refused(bytes(damaged), None, "x.npz")
    twice = zipped_array("a.npy", good, again="b.npy").replace(b"b.npy", b"a.npy")
    refused(twice, "two members of the archive have one name", "x.npz")


def claimed(data, size, packed=None):
    """The archive with other sizes of its only member, in both places where a zip file has them."""
    data = bytearray(data)
    for place in (data.index(b"PK\x03\x04") + 18, data.index(b"PK\x01\x02") + 20):
        old = struct.unpack_from("<II", data, place)
        struct.pack_into("<II", data, place, old[0] if packed is None else packed, size)
    return bytes(data)


def test_zip_bombs(refused):
    terabyte = npy(np.zeros(5)).replace(b"(5,), }       ", b"(500000000,),}")
    refused(
        claimed(zipped_array("a.npy", terabyte, zipfile.ZIP_DEFLATED), 4_000_000_128),
        r"claims 4000000128 bytes, more than its \d+ packed ones",
        "x.npz",
    )
    refused(claimed(zipped_array("a.npy", terabyte), 4_000_000_128), "claims 4000000128 bytes", "x.npz")
    refused(claimed(zipped_array("a.npy", terabyte), 4_000_000_128, 4_000_000_128), "overlap, or are longer than the file", "x.npz")
    refused(zipped_array("a.npy", terabyte, zipfile.ZIP_DEFLATED), "does not fill", "x.npz")


def mutations(good, count):
    """Damaged copies: cut short, or with one to three other bytes, anywhere or near the start."""
    rng = np.random.default_rng(0)
    for i in range(count):
        data = bytearray(good)
        if i % 4 == 0:
            data = data[: rng.integers(0, len(data))]
        else:
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(0, len(data) if i % 4 == 1 else 300)] = rng.integers(0, 256)
        yield bytes(data)


CHECKPOINT = {
    "model": {"weight": wrap(np.arange(6.0).reshape(2, 3)), "bias": sg.ones(2, requires_grad=True)}, 7: (1.5, None, [np.int8(1), b"x", 1j]),
    "dtype": sg.float32, "shape": sg.Size([1, 2]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "count"), [("safetensors", 1000), ("npz", 300), ("npy", 300)])
def test_damaged_files_are_clear_errors_and_run_nothing(tmp_path, kind, count):
    """Each mutation loads or is a FileError, and no code is run, unpickled or spawned."""
    buffer = io.BytesIO()
    if kind == "safetensors":
        save(CHECKPOINT, buffer)
    elif kind == "npz":
        np.savez_compressed(buffer, a=np.arange(6.0).reshape(2, 3), b=np.ones(2, np.float32))
    else:
        np.save(buffer, np.arange(40))
    path = tmp_path / "bad"
    load(io.BytesIO(buffer.getvalue()))  # imports what it needs
    damaged = list(mutations(buffer.getvalue(), count))
    forbidden, seen = {"exec", "pickle.find_class", "subprocess.Popen", "os.system"}, []
    watching = True
    sys.addaudithook(lambda event, args: seen.append(event) if watching and event in forbidden else None)
    refusals = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            load(path)
        except FileError as error:
            refusals += 1
            assert str(path) in str(error)  # noqa: PT017  (some mutations do no harm, and nothing is raised)
    watching = False
    assert seen == []
    assert refusals > count // 3


def test_what_the_safetensors_library_writes_is_never_refused(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(20):
        arrays = {
            f"{i}é": rng.normal(size=rng.integers(0, 4, rng.integers(0, 4))).astype(rng.choice(["f2", "f4", "f8", "i1"])) for i in range(5)
        }
        save_file({name: np.ascontiguousarray(array) if array.ndim else array for name, array in arrays.items()}, tmp_path / "x")
        for name, tensor in load(tmp_path / "x").items():
            np.testing.assert_array_equal(tensor.numpy(), arrays[name])
