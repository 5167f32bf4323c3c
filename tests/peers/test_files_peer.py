"""Files that PyTorch has written are read, PyTorch reads ours, and a converted `.pt` file brings the same model."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict

import numpy as np
import pytest

import symgrad as sg

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

DTYPES = [dtype.name for dtype in sg.dtypes.ALL]


def values(name):
    """Bits that are a number of the type, NaNs and infinities among them."""
    dtype = getattr(sg, name).dtype
    raw = np.random.default_rng(0).integers(0, 256, 12 * dtype.itemsize, np.uint8)
    return (raw % 2 if name == "bool" else raw).view(dtype).reshape(3, 4)


def torch_tensor(array):
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if array.dtype.name == "bfloat16" else torch.from_numpy(array)


def bits(tensor):
    return (tensor.detach().view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor.detach()).numpy().tobytes()


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "complex128"])
def test_files_of_pytorch(tmp_path, name):
    array = values(name)
    state = {"matrix": torch_tensor(array), "number": torch_tensor(array)[0, 0].clone(), "empty": torch_tensor(array)[:0].clone()}
    safetensors_torch.save_file(state, tmp_path / "x.safetensors", metadata={"format": "pt"})
    for mmap in (False, True):
        loaded = sg.load(tmp_path / "x.safetensors", mmap=mmap)
        assert loaded.keys() == state.keys()
        for key, tensor in loaded.items():
            assert tensor.shape == state[key].shape
            assert repr(tensor.dtype) == repr(state[key].dtype)
            assert tensor._array.tobytes() == bits(state[key])


def test_eight_bit_floats_are_refused_and_converted_ones_read(tmp_path):
    x = torch.tensor([0.5, -448.0]).to(torch.float8_e4m3fn)
    safetensors_torch.save_file({"x": x}, tmp_path / "x")
    with pytest.raises(sg.errors.FileError, match=r"'x' has the type F8_E4M3.*convert it with PyTorch, to float16"):
        sg.load(tmp_path / "x")
    safetensors_torch.save_file({"x": x.to(torch.float16)}, tmp_path / "x")
    assert sg.load(tmp_path / "x")["x"].tolist() == [0.5, -448.0]


@pytest.mark.parametrize("name", DTYPES)
def test_pytorch_reads_our_files(tmp_path, name):
    array = values(name)
    sg.save({"x": sg.tensor(array), "y": sg.tensor(array).T}, tmp_path / "x")
    loaded = safetensors_torch.load_file(tmp_path / "x")
    if name == "complex128":
        loaded = {key: torch.view_as_complex(pairs) for key, pairs in loaded.items()}
    assert bits(loaded["x"]) == array.tobytes()
    assert bits(loaded["y"]) == np.ascontiguousarray(array.T).tobytes()


def models(library):
    net = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.Tanh(), library.nn.Linear(4, 2))
    return net, library.optim.Adam(net.parameters(), lr=0.01)


def test_a_converted_checkpoint_goes_on_as_in_pytorch(tmp_path):
    """The recipe of the documentation, on a real torch.save file."""
    torch.manual_seed(0)
    theirs, their_optimizer = models(torch)
    theirs[2].weight.data.mul_(2)
    torch.save(theirs.state_dict(), tmp_path / "model.pt")
    torch.save(theirs.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("model.pt", "old.pt"):
        with pytest.raises(sg.errors.FileError, match="holds a pickle"):
            sg.load(tmp_path / name)

    state = torch.load(tmp_path / "model.pt", map_location="cpu", weights_only=True)
    safetensors_torch.save_file({name: t.clone().contiguous() for name, t in state.items()}, tmp_path / "model.safetensors")
    ours, our_optimizer = models(sg)
    ours.load_state_dict(sg.load(tmp_path / "model.safetensors"))

    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for _ in range(5):
        for net, optimizer, library in ((theirs, their_optimizer, torch), (ours, our_optimizer, sg)):
            optimizer.zero_grad()
            (net(library.from_numpy(x)) ** 2).sum().backward()
            optimizer.step()
    for name, tensor in ours.state_dict().items():
        np.testing.assert_allclose(tensor.numpy(), theirs.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6)


def test_tied_weights_load_into_a_tied_model_of_pytorch(tmp_path):
    def tied(library):
        net = library.nn.Sequential(library.nn.Linear(3, 3), library.nn.Linear(3, 3))
        net[1].weight = net[0].weight
        return net

    ours, theirs = tied(sg), tied(torch)
    sg.save(ours.state_dict(), tmp_path / "x")
    safetensors_torch.load_model(theirs, tmp_path / "x")
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), ours.state_dict()[name].numpy(), err_msg=name)


OBJECTS = [
    {1: 2, (1, 2): "a", None: 1.5, False: []}, OrderedDict([("b", 1), ("a", (1, [2.5]))]), Counter("aab"), {1, 2}, b"ab", 1 + 2j,
    float("inf"), "é", None, -0.0,
]  # fmt: skip


@pytest.mark.parametrize("obj", OBJECTS, ids=repr)
def test_what_pytorch_stores_without_running_code_is_stored(obj):
    """torch.load(weights_only=True) has a list of types; ours is no shorter."""
    for library in (torch, sg):
        buffer = io.BytesIO()
        library.save(obj, buffer)
        buffer.seek(0)
        loaded = library.load(buffer, weights_only=True)
        assert type(loaded) is type(obj)
        assert repr(loaded) == repr(obj)


@pytest.mark.parametrize("kind", ["Size", "dtype", "device", "Parameter", "Buffer", "tensor"])
def test_what_is_stored_prints_as_in_pytorch(kind):
    make = {
        "Size": lambda t: t.Size([2, 3]),
        "dtype": lambda t: t.float16,
        "device": lambda t: t.device("cuda:1"),
        "Parameter": lambda t: t.nn.Parameter(t.ones(2)),
        "Buffer": lambda t: t.nn.Buffer(t.ones(2)),
        "tensor": lambda t: t.ones(2, requires_grad=True) * 2,
    }[kind]
    printed = []
    for library in (torch, sg):
        buffer = io.BytesIO()
        library.save(make(library), buffer)
        buffer.seek(0)
        printed.append(repr(library.load(buffer, map_location="cpu")))
    assert printed[0] == printed[1]


def refusal(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011  (which one is compared)
        call()
    return caught.value


def test_refusals_are_of_the_same_kind(tmp_path):
    whole = io.BytesIO()
    torch.save(torch.ones(3), whole)
    for call in (
        lambda library: library.save(1, tmp_path / "missing" / "x"),
        lambda library: library.load(tmp_path / "missing"),
        lambda library: library.load(io.BytesIO(whole.getvalue()), mmap=True),
        lambda library: library.save(1, 5),
    ):
        ours, theirs = refusal(lambda call=call: call(sg)), refusal(lambda call=call: call(torch))
        assert type(ours) is type(theirs)
    assert isinstance(refusal(lambda: torch.load(io.BytesIO(whole.getvalue()[:100]))), RuntimeError)
    assert isinstance(refusal(lambda: sg.load(io.BytesIO(whole.getvalue()[:100]))), RuntimeError)


def test_generator_states_are_exchanged(tmp_path):
    torch.manual_seed(5)
    torch.rand(7)
    safetensors_torch.save_file({"state": torch.get_rng_state()}, tmp_path / "x")
    before = sg.get_rng_state()
    try:
        sg.set_rng_state(sg.load(tmp_path / "x")["state"])
        np.testing.assert_array_equal(sg.rand(5).numpy(), torch.rand(5).numpy())
        sg.save(sg.Generator().manual_seed(3).get_state(), tmp_path / "y")
    finally:
        sg.set_rng_state(before)
    theirs = torch.Generator()
    theirs.set_state(safetensors_torch.load_file(tmp_path / "y")["tensor"])
    assert torch.rand(1, generator=theirs).item() == sg.rand(1, generator=sg.Generator().manual_seed(3)).item()
