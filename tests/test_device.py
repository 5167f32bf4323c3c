"""Devices: their names, and what is said where there is no GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

import symgrad as sg
from symgrad import devices


@pytest.mark.parametrize(
    ("device", "text", "shown"),
    [
        (sg.device("cpu"), "cpu", "device(type='cpu')"),
        (sg.device("cuda:1"), "cuda:1", "device(type='cuda', index=1)"),
        (sg.device("cuda", 1), "cuda:1", "device(type='cuda', index=1)"),
        (sg.device(type="cpu", index=0), "cpu:0", "device(type='cpu', index=0)"),
        (sg.device(sg.device("meta")), "meta", "device(type='meta')"),
    ],
)
def test_names(device, text, shown):
    assert (str(device), repr(device)) == (text, shown)


def test_compared_by_value():
    assert sg.device("cuda:1") == sg.device("cuda", 1)
    assert len({sg.device("cuda:1"), sg.device("cuda", 1)}) == 1
    assert sg.device("cpu") != sg.device("cpu:0")
    assert sg.device("cpu") != "cpu"
    with pytest.raises(AttributeError, match="not writable"):
        sg.device("cpu").index = 3


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (("foo",), RuntimeError, "Expected one of cpu, cuda, .* device type at start of device string: foo"),
        (("cuda:-1",), RuntimeError, "Invalid device string: 'cuda:-1'"),
        (("cuda:01",), RuntimeError, "Invalid device string: 'cuda:01'"),
        (("",), RuntimeError, "Device string must not be empty"),
        (("cuda:1", 1), RuntimeError, "must not include an index"),
        (("cpu", "1"), TypeError, r"argument 'index' \(position 2\) must be int, not str"),
        ((None,), TypeError, "must be str, device or int, not NoneType"),
    ],
)
def test_bad_names(args, error, text):
    with pytest.raises(error, match=text):
        sg.device(*args)


@pytest.mark.parametrize("cpu", ["cpu", "cpu:0", sg.device("cpu")])
def test_the_cpu_is_always_there(cpu):
    assert sg.zeros(2, device=cpu).to(cpu).cpu().device == sg.device("cpu")


def test_as_a_context():
    with sg.device("cpu") as place:
        assert sg.zeros(2).device == place
    with pytest.raises(RuntimeError, match="cannot be moved to 'mps'"), sg.device("mps"):
        sg.zeros(2)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "_PLUGINS", ())
    devices.device_count.cache_clear()
    yield
    devices.device_count.cache_clear()


@pytest.mark.usefixtures("no_gpu")
class TestWithoutGPU:
    def test_says_so(self):
        assert not sg.cuda.is_available()
        assert sg.cuda.device_count() == 0
        sg.cuda.manual_seed_all(3)

    @pytest.mark.parametrize(
        "move",
        [
            lambda: sg.ones(1).to("cuda"), lambda: sg.ones(1).cuda(), lambda: sg.ones(1, device="cuda:0"),
            lambda: sg.tensor([1], device=sg.device("cuda")), lambda: sg.rand(1, device="cuda"), lambda: sg.Generator(device="cuda"),
            lambda: sg.set_default_device("cuda"), lambda: sg.cuda.current_device(), lambda: sg.cuda.synchronize(),
            lambda: sg.ones(1).type("torch.cuda.FloatTensor"), lambda: sg.ones(1).type(sg.cuda.FloatTensor),
        ],
    )  # fmt: skip
    def test_refuses(self, move):
        with pytest.raises(RuntimeError, match=r"device 'cuda(:0)?' is not available: JAX sees no GPU"):
            move()

    def test_numbers_of_devices(self):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            sg.device(0)

    def test_other_places(self):
        with pytest.raises(RuntimeError, match="eager tensors live on the CPU, so a tensor cannot be moved to 'mps'"):
            sg.ones(1).to("mps")


def test_a_gpu_is_there_when_jax_sees_one(monkeypatch):
    class Place:
        platform = "gpu"

    class Jax:
        @staticmethod
        def devices():
            return [Place(), Place()]

    monkeypatch.setattr(devices, "_PLUGINS", ("numpy",))  # something that is installed
    monkeypatch.setattr(devices.importlib, "import_module", lambda name: Jax)
    devices.device_count.cache_clear()
    try:
        assert devices.device_count() == 2
        assert not sg.cuda.is_available()  # eager tensors cannot go there
        assert sg.device(1) == sg.device("cuda:1")
        with pytest.raises(RuntimeError, match="eager tensors live on the CPU"):
            sg.ones(1).cuda()
    finally:
        devices.device_count.cache_clear()


def test_asking_does_not_load_jax():
    code = "import sys, symgrad; symgrad.devices._PLUGINS = (); symgrad.cuda.is_available(); print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
