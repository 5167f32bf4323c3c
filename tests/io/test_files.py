"""What is saved comes back as it was; the files of NumPy and PyTorch are read."""

from __future__ import annotations

import io
import json
import math
import os
from collections import Counter, OrderedDict

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import symgrad as sg
from symgrad import nn
from symgrad.io import load, save
from symgrad.tensor import wrap


def equal(a, b):
    """Equal in type and value, down to the sign of zero."""
    assert type(a) is type(b)
    if isinstance(a, sg.Tensor):
        assert a.dtype is b.dtype
        assert a.requires_grad == b.requires_grad
        equal(a._array, b._array)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert [type(key) for key in a] == [type(key) for key in b]
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    else:
        assert repr(a) == repr(b)


CHECKPOINT = {
    "model": OrderedDict({"layer.weight": wrap(np.arange(6.0).reshape(2, 3)), "layer.bias": wrap(np.ones(2, np.float32))}),
    "optimizer": {"state": {0: {"step": wrap(np.array(5.0)), "exp_avg": wrap(np.zeros((2, 3)))}},
                  "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999)}]},
    "scheduler": {"milestones": Counter({30: 1, 80: 1}), "last_epoch": 3}, "generator": sg.Generator().manual_seed(3).get_state(),
    "epoch": 3, "name": "run", "best": None, "done": True, "history": {"loss": [0.5, 0.25], "accuracy": []},
}  # fmt: skip
OBJECTS = [
    wrap(np.arange(3)), CHECKPOINT, [], {}, (), "text", "", "\ud800 \x00 \U0001f600", True, 0, -(10**30), None, 2.5, 0.1, -0.0, math.inf,
    -math.inf, math.nan, 1 + 2j, complex(math.nan, -math.inf), b"", b"\x00\xff", {1, 2}, {"$": "tensor", "of": "x"}, {"$": 1, 2: 3},
    {None: 1, True: 2, 2.5: 3, (1, "a"): 4, b"k": 5}, OrderedDict([(2, 1), (1, 2)]), Counter("aab"), [[(1, [2, (3,)])]],
    {"a": {"b": wrap(np.ones(1))}, "a.b": wrap(np.zeros(1))}, {"__metadata__": wrap(np.ones(1))}, {"\ud800": wrap(np.ones(1))},
    sg.Size([2, 3]), sg.float32, sg.bfloat16, sg.device("cpu"), sg.device("cuda:1"), np.arange(3, dtype=np.uint32),
    np.ones((2, 0), np.uint64), np.array(3, np.uint16), np.float64(0.1), np.float32(0.1), np.bool_(True), np.int8(-3), np.complex128(1j),
    nn.Parameter(wrap(np.ones(2))), nn.Parameter(wrap(np.ones(2)), requires_grad=False), nn.Parameter(wrap(np.arange(2)), False),
    wrap(np.ones(2), requires_grad=True), wrap(np.array(1.5)), wrap(np.zeros((0, 3))), wrap(np.zeros((2, 0, 3), np.complex128)),
]  # fmt: skip


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: type(obj).__name__)
def test_round_trip(tmp_path, obj):
    save(obj, tmp_path / "x.safetensors")
    equal(load(tmp_path / "x.safetensors"), obj)
    equal(load(tmp_path / "x.safetensors", mmap=True), obj)


@pytest.mark.parametrize("dtype", sg.dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (5,), (2, 0), (3, 2)])
def test_every_dtype(tmp_path, dtype, shape):
    values = np.random.default_rng(0).integers(0, 256, math.prod(shape) * dtype.itemsize, np.uint8)
    x = wrap((values % 2 if dtype is sg.bool else values).view(dtype.dtype).reshape(shape))
    save({"x": x}, tmp_path / "x")
    equal(load(tmp_path / "x"), {"x": x})


def test_special_values_keep_their_bits(tmp_path):
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000, 0x7FF0000000000001, 1], np.uint64)
    save(wrap(bits.view(np.float64)), tmp_path / "x")
    np.testing.assert_array_equal(load(tmp_path / "x")._array.view(np.uint64), bits)


BASE = np.arange(24.0).reshape(2, 3, 4)
LAYOUTS = {
    "plain": BASE, "transposed": BASE.T, "swapped": BASE.swapaxes(0, 1), "strided": BASE[:, ::2], "reversed": BASE[::-1],
    "column": BASE[:, :, 1], "fortran": np.asfortranarray(BASE), "broadcast": np.broadcast_to(BASE[0], (2, 3, 4)), "scalar": np.array(1.5),
    "empty": BASE[:0], "offset": BASE[1:], "diagonal": np.diagonal(BASE, axis1=0, axis2=1),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.dtype(">f4"), np.dtype(">c16")])
def test_every_layout_keeps_its_values(tmp_path, layout, dtype):
    array = LAYOUTS[layout].astype(dtype)
    save([wrap(array), array], tmp_path / "x")
    tensor, plain = load(tmp_path / "x")
    np.testing.assert_array_equal(tensor._array, array)
    np.testing.assert_array_equal(plain, array)
    assert tensor.is_contiguous()


def test_round_trip_through_an_open_file(tmp_path):
    buffer = io.BytesIO()
    sg.save(CHECKPOINT, buffer)
    buffer.seek(0)
    equal(sg.load(buffer), CHECKPOINT)
    with open(tmp_path / "x", "wb") as file:
        sg.save(CHECKPOINT, file)
    with open(tmp_path / "x", "rb") as file:
        equal(sg.load(file), CHECKPOINT)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        sg.load(buffer, mmap=True)


def test_a_loaded_tensor_is_a_leaf_of_its_own(tmp_path):
    x = sg.ones(2, requires_grad=True)
    save({"leaf": x, "result": x * 2}, tmp_path / "x")
    loaded = load(tmp_path / "x")
    assert loaded["result"].is_leaf
    assert loaded["result"].requires_grad  # as in PyTorch
    loaded["leaf"].data.fill_(7)
    (loaded["leaf"] * 3).sum().backward()
    assert loaded["leaf"].grad.tolist() == [3, 3]
    assert x.tolist() == load(tmp_path / "x")["leaf"].tolist() == [1, 1]


def test_what_is_tied_is_stored_once_and_tied_again(tmp_path):
    weight = nn.Parameter(sg.ones(100, 100))
    array = weight.detach().numpy()
    save({"a": weight, "b": weight, "c": weight.detach(), "d": array, "e": weight.detach().T, "f": weight.detach()[:1]}, tmp_path / "x")
    with safe_open(tmp_path / "x", "np") as file:
        assert set(file.keys()) == {"a", "e", "f"}
    for mmap in (False, True):
        loaded = load(tmp_path / "x", mmap=mmap)
        assert loaded["a"] is loaded["b"]
        assert isinstance(loaded["a"], nn.Parameter)
        loaded["c"][0, 0] = 5
        assert loaded["a"][0, 0].item() == loaded["d"][0, 0] == 5
        assert loaded["e"][0, 0].item() == loaded["f"][0, 0].item() == 1  # other views of the memory are copies


def test_state_dicts_load_into_modules_and_optimizers(tmp_path):
    def made():
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        net[2].weight = net[0].weight
        return net, sg.optim.Adam(net.parameters(), lr=0.01)

    net, optimizer = made()
    net(sg.ones(2, 3)).sum().backward()
    optimizer.step()
    save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x")
    other, other_optimizer = made()
    loaded = load(tmp_path / "x", map_location="cpu", weights_only=True)
    other.load_state_dict(loaded["net"])
    other_optimizer.load_state_dict(loaded["optimizer"])
    equal(other.state_dict(), net.state_dict())
    equal(other_optimizer.state_dict(), optimizer.state_dict())
    assert other[2].weight is other[0].weight


def test_other_programs_read_a_state_dict_under_its_own_names(tmp_path):
    net = nn.Linear(2, 3)
    save(net.state_dict(), tmp_path / "x")
    arrays = load_file(tmp_path / "x")
    assert sorted(arrays) == ["bias", "weight"]
    np.testing.assert_array_equal(arrays["weight"], net.weight.detach().numpy())
    save(CHECKPOINT, tmp_path / "y")
    with safe_open(tmp_path / "y", "np") as file:
        assert {"model.layer.weight", "optimizer.state.0.exp_avg"} < set(file.keys())
        assert file.metadata()["format"] == "pt"
        note = json.loads(file.metadata()["symgrad"], parse_constant=pytest.fail)
    assert (note["epoch"], note["history"]["loss"], note["best"]) == (3, [0.5, 0.25], None)


def test_tensors_start_at_multiples_of_their_size(tmp_path):
    save([wrap(np.ones(3, np.int8)), wrap(np.ones(1)), wrap(np.ones(3, np.float16)), wrap(np.ones(1, np.complex64))], tmp_path / "x")
    assert [t._array.ctypes.data % t.itemsize for t in load(tmp_path / "x", mmap=True)] == [0, 0, 0, 0]


def test_tensors_of_others_may_start_anywhere(tmp_path):
    odd, w = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, {"dtype": "F64", "shape": [3], "data_offsets": [1, 25]}
    header = json.dumps({"odd": odd, "w": w})
    for pad in range(8):
        text = (header + " " * pad).encode()
        (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + b"\x05" + np.arange(3.0).tobytes())
        for mmap in (False, True):
            w = load(tmp_path / "x", mmap=mmap)["w"]
            assert (w @ w).item() == 5


def test_mapped_tensors_can_be_written_to_and_leave_the_file_alone(tmp_path):
    save(wrap(np.ones(3)), tmp_path / "x")
    mapped = load(tmp_path / "x", mmap=True)
    mapped += 1
    assert mapped.tolist() == [2, 2, 2]
    assert load(tmp_path / "x").tolist() == [1, 1, 1]
    save(mapped, tmp_path / "x")  # over the file that it is mapped from
    assert load(tmp_path / "x").tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["?", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8", "c8", "c16"])
def test_numpy_scalars_of_every_type(tmp_path, name):
    raw = np.random.default_rng(0).integers(0, 256, 16, np.uint8)
    x = (raw % 2 if name == "?" else raw).view(name)[0]
    save([x] * 1000, tmp_path / "x")
    equal(load(tmp_path / "x"), [x] * 1000)
    with safe_open(tmp_path / "x", "np") as file:
        assert list(file.keys()) == []  # they stand with the other numbers


class Named(dict):
    pass


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (nn.Linear(1, 1), r"cannot store a Linear;.*state_dict\(\)"),
        ({"a": [sg.Generator()]}, r"cannot store a Generator \(at a.0\);.*get_state\(\)"),
        (Named(), "cannot store a Named"),
        (np.array(["a"]), "cannot store an array of <U1"),
        ({"x": np.array([None])}, r"cannot store an array of object \(at x\)"),
        (np.datetime64("2020-01-01"), "cannot store a datetime64"),
        (print, "cannot store a builtin_function_or_method"),
    ],
)
def test_what_cannot_come_back_is_refused(tmp_path, obj, message):
    with pytest.raises(TypeError, match=message):
        save(obj, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_too_deep_and_too_long(tmp_path, monkeypatch):
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper than 100 levels, or holds itself"):
        save(loop, tmp_path / "x")
    monkeypatch.setattr("symgrad.io.tensor_file._LIMIT", 100_000)
    with pytest.raises(ValueError, match=r"what is not in tensors takes 0 MB.*put long lists of numbers into tensors"):
        save([0.1] * 30_000, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


WRAPPERS = {
    "lists": (lambda x: [x], 1),
    "dicts": (lambda x: {"a": x}, 1),
    "dicts with other keys": (lambda x: {0: x}, 1),
    "tuples": (lambda x: (x,), 2),  # a tuple is written as a list with a label
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_hundred_levels_are_saved_and_loaded_and_no_more(tmp_path, name):
    wrap, levels = WRAPPERS[name]
    obj = 1.5
    for _ in range(100 // levels):
        obj = wrap(obj)
    save(obj, tmp_path / "x")
    assert load(tmp_path / "x") == obj
    with pytest.raises(ValueError, match="nested deeper than 100 levels"):
        save(wrap(obj), tmp_path / "x")


def test_the_longest_header_is_as_long_as_the_limit(tmp_path, monkeypatch):
    save("text", tmp_path / "x")
    length = int.from_bytes((tmp_path / "x").read_bytes()[:8], "little")
    assert length % 8 == 0
    monkeypatch.setattr("symgrad.io.tensor_file._LIMIT", length)
    save("text", tmp_path / "x")
    monkeypatch.setattr("symgrad.io.tensor_file._LIMIT", length - 1)
    with pytest.raises(ValueError, match="put long lists of numbers into tensors"):
        save("text", tmp_path / "x")


def test_no_file_stays_open(tmp_path):
    """Of saving, loading and mapping, also where they fail."""

    def opened():
        return len(os.listdir("/proc/self/fd"))

    save(sg.ones(3), tmp_path / "x")
    np.save(tmp_path / "x.npy", np.ones(3))
    np.savez(tmp_path / "x.npz", a=np.ones(3))
    (tmp_path / "broken").write_bytes(b"not a file of ours")
    before = opened()
    for _ in range(3):
        save(sg.ones(3), tmp_path / "x")
        for name in ("x", "x.npy", "x.npz"):
            load(tmp_path / name)
        with pytest.raises(RuntimeError, match="cannot be read"):
            load(tmp_path / "broken")
        with pytest.raises(TypeError):
            save(print, tmp_path / "y")
    assert opened() == before


def test_locations(tmp_path):
    save(1, tmp_path / "x")
    for location in (None, "cpu", sg.device("cpu"), lambda storage, location: storage, {"cuda:0": "cpu"}):
        assert load(tmp_path / "x", location) == 1
    with pytest.raises(RuntimeError, match="device 'cuda' is not available"):
        load(tmp_path / "x", map_location="cuda")


def test_other_safetensors_files_load_as_dicts(tmp_path):
    save_file({"w": BASE, "n": np.array(3)}, tmp_path / "y.safetensors", metadata={"format": "pt"})
    for mmap in (False, True):
        loaded = load(tmp_path / "y.safetensors", mmap=mmap)
        assert type(loaded) is OrderedDict
        equal(dict(sorted(loaded.items())), {"n": wrap(np.array(3)), "w": wrap(BASE)})


def test_a_model_in_several_files(tmp_path):
    save_file({"a": BASE, "b": BASE[0]}, tmp_path / "model-1.safetensors")
    save_file({"c": BASE[1]}, tmp_path / "model-2.safetensors")
    index = {
        "metadata": {"total_size": 8},
        "weight_map": {"c": "model-2.safetensors", "a": "model-1.safetensors", "b": "model-1.safetensors"},
    }
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    equal(load(path), OrderedDict(c=wrap(BASE[1]), a=wrap(BASE), b=wrap(BASE[0])))
    for damaged in ("[]", "{}", '{"weight_map": {"a": "model-2.safetensors"}}', '{"weight_map": {"a": 3}}', "{", "[" * 100_000):
        path.write_text(damaged)
        with pytest.raises(sg.errors.FileError, match=r"model\.safetensors\.index\.json cannot be read"):
            load(path)
    (tmp_path / "below").mkdir()
    outside = tmp_path / "below" / "x.index.json"
    outside.write_text('{"weight_map": {"a": "../model-1.safetensors"}}')
    with pytest.raises(sg.errors.FileError, match="in the same folder"):
        load(outside)


def test_numpy_files(tmp_path):
    arrays = {
        "a": BASE.T,
        "b": np.array(3, np.int16),
        "empty": np.ones((0, 2), bool),
        "big endian": np.arange(3, dtype=">f4"),
        "c": np.ones(2, np.complex64),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    np.savez_compressed(tmp_path / "y.npz", **arrays, zeros=np.zeros(1_000_000))
    for name in ("x.npz", "y.npz"):
        loaded = load(tmp_path / name)
        assert type(loaded) is OrderedDict
        for key, array in arrays.items():
            assert loaded[key].shape == array.shape
            assert loaded[key].dtype is sg.dtypes.of(array.dtype)
            np.testing.assert_array_equal(loaded[key].numpy(), array)
    np.savez(tmp_path / "none.npz")
    assert load(tmp_path / "none.npz") == {}
    for array in arrays.values():
        np.save(tmp_path / "x.npy", array)
        for mmap in (False, True):
            np.testing.assert_array_equal(load(tmp_path / "x.npy", mmap=mmap).numpy(), array)
