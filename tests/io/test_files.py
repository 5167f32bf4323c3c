"""Saving and loading, and files that are damaged or hostile."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile

import numpy as np
import pytest

import symgrad as sg
from symgrad.io import load, save
from symgrad.tensor import wrap


def equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, sg.Tensor):
        assert a.dtype is b.dtype
        np.testing.assert_array_equal(a._array, b._array)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    else:
        assert a == b


CHECKPOINT = {
    "model": {"layer.weight": wrap(np.arange(6.0).reshape(2, 3)), "layer.bias": wrap(np.ones(2, np.float32))},
    "step": 3, "lr": 1e-3, "name": "run", "best": None, "done": True, "shape": (1, [2, wrap(np.array(5))]), 7: wrap(np.zeros((0, 3))),
}  # fmt: skip


@pytest.mark.parametrize(
    "obj", [wrap(np.arange(3)), CHECKPOINT, [], {}, 2.5, "text", {"a": {"b": wrap(np.ones(1))}, "a.b": wrap(np.zeros(1))}]
)
def test_round_trip(tmp_path, obj):
    save(obj, tmp_path / "x.safetensors")
    equal(load(tmp_path / "x.safetensors"), obj)


def test_round_trip_through_an_open_file():
    buffer = io.BytesIO()
    sg.save(CHECKPOINT, buffer)
    buffer.seek(0)
    equal(sg.load(buffer), CHECKPOINT)
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        sg.load(io.BytesIO(buffer.getvalue()[:50]))
    with pytest.raises(ValueError, match="holds a pickle"):
        sg.load(io.BytesIO(pickle.dumps({"a": 1})))


BASE = np.arange(24.0).reshape(2, 3, 4)
LAYOUTS = {
    "plain": BASE, "transposed": BASE.T, "swapped": BASE.swapaxes(0, 1), "strided": BASE[:, ::2], "reversed": BASE[::-1],
    "column": BASE[:, :, 1],
    "fortran": np.asfortranarray(BASE), "broadcast": np.broadcast_to(BASE[0], (2, 3, 4)), "scalar": np.array(1.5), "empty": BASE[:0],
    "offset": BASE[1:], "diagonal": np.diagonal(BASE, axis1=0, axis2=1),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_keeps_its_values(tmp_path, layout):
    save(wrap(LAYOUTS[layout]), tmp_path / "x")
    np.testing.assert_array_equal(load(tmp_path / "x")._array, LAYOUTS[layout])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_dtype(tmp_path, dtype):
    x = wrap(np.array([0, 1, 1]).astype(getattr(sg, dtype).dtype))
    save({"x": x}, tmp_path / "x")
    equal(load(tmp_path / "x"), {"x": x})


def test_npz_and_foreign_safetensors_load_as_dicts(tmp_path):
    from safetensors.numpy import save_file

    np.savez(tmp_path / "x.npz", a=BASE, b=np.arange(3))
    assert list(load(tmp_path / "x.npz")) == ["a", "b"]
    save_file({"w": BASE}, tmp_path / "y.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "y.safetensors")["w"]._array, BASE)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    save(wrap(np.ones(2)), path)
    with pytest.raises(TypeError, match="cannot store a set"):
        save({"a": {1, 2}}, path)
    equal(load(path), wrap(np.ones(2)))
    assert os.listdir(tmp_path) == ["x"]


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_pickles_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Bomb(), protocol=2))
    with zipfile.ZipFile(tmp_path / "new.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "object.npz", "w") as archive:
        archive.writestr("a.npy", buffer.getvalue())
    for name in ("old.pt", "new.pt"):
        with pytest.raises(ValueError, match=r"holds a pickle.*Convert it once"):
            load(tmp_path / name)
    with pytest.raises(ValueError, match=r"allow_pickle|Object arrays"):
        load(tmp_path / "object.npz")
    assert not (tmp_path / "exploded").exists()


def test_damaged_files_are_clear_errors_and_run_nothing(tmp_path):
    """1,000 mutations of a good file: each loads or is a ValueError, and no code is compiled, unpickled or spawned."""
    path = tmp_path / "good"
    save(CHECKPOINT, path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    forbidden, seen = {"exec", "compile", "pickle.find_class", "subprocess.Popen", "os.system"}, []
    watching = True
    sys.addaudithook(lambda event, args: seen.append(event) if watching and event in forbidden else None)
    refused = 0
    for i in range(1000):
        data = bytearray(good)
        if i % 4 == 0:
            data = data[: rng.integers(0, len(data))]
        else:
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(0, len(data) if i % 4 == 1 else 300)] = rng.integers(0, 256)
        (tmp_path / "bad").write_bytes(data)
        try:
            load(tmp_path / "bad")
        except ValueError as error:
            refused += 1
            assert "bad" in str(error)  # noqa: PT017  (some mutations do no harm, and nothing is raised)
    watching = False
    assert seen == []
    assert refused > 300


def test_a_header_that_claims_too_much_is_refused_before_memory_is_taken(tmp_path):
    header = b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
    (tmp_path / "huge").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load(tmp_path / "huge")
    (tmp_path / "long").write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load(tmp_path / "long")
