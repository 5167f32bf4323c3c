"""Devices: names of places where a tensor may live, and what is said when a place is not there.

Eager tensors are computed by NumPy, so they live on the CPU. Whether there is a GPU is for JAX to say, and JAX is only asked
(that is, imported) when one of its GPU plugins is installed.
"""

from __future__ import annotations

import functools
import importlib
import re
from importlib.util import find_spec
from typing import Any

TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "jax_rocm7_plugin", "jax_plugins.xla_cuda12")
_PATTERN = re.compile(r"([a-z_]+)(?::(0|[1-9]\d*))?")


class device:
    """`device("cpu")`, `device("cuda:1")`, `device("cuda", 1)`; compares by value."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int) and not isinstance(type, bool):
            if not device_count():
                raise RuntimeError("Cannot access accelerator device when none is available.")
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, device or int, not {type.__class__.__name__}")
        if index is not None and not isinstance(index, int):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
        kind, number = _parse(type)
        if number is not None and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number if index is None else index)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute {name!r} of 'device' objects is not writable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __enter__(self) -> device:
        """`with device("cpu"):` makes tensors on that device, which has to be there."""
        check(self)
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)


def _parse(text: str) -> tuple[str, int | None]:
    if not text:
        raise RuntimeError("Device string must not be empty")
    found = _PATTERN.fullmatch(text)
    kind = text.partition(":")[0]
    if kind not in TYPES:
        raise RuntimeError(f"Expected one of {', '.join(TYPES)} device type at start of device string: {kind}")
    if found is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    return kind, None if found[2] is None else int(found[2])


CPU = device("cpu")


def check(given: Any) -> None:
    """Refuse every place but the CPU, saying why."""
    if given is CPU or given is None or given == "cpu":
        return
    place = given if isinstance(given, device) else device(given)
    if place.type == "cpu":
        return
    if place.type == "cuda" and device_count() == 0:
        raise RuntimeError(
            f"device '{place}' is not available: JAX sees no GPU on this machine (cuda.is_available() is False). Use"
            " device='cpu', or install JAX with GPU support."
        )
    raise RuntimeError(
        f"eager tensors live on the CPU, so a tensor cannot be moved to '{place}'. Keep it on device='cpu'; compiled functions"
        " choose their device themselves."
    )


@functools.cache
def device_count() -> int:
    """How many GPUs JAX sees: none, and JAX stays unloaded, where no GPU plugin of JAX is installed."""
    if not any(_installed(plugin) for plugin in _PLUGINS):
        return 0
    jax = importlib.import_module("jax")
    return sum(place.platform in ("gpu", "cuda", "rocm") for place in jax.devices())


def _installed(plugin: str) -> bool:
    try:
        return find_spec(plugin) is not None
    except ModuleNotFoundError:
        return False


def get_default_device() -> device:
    """Where new tensors are made."""
    return CPU


def set_default_device(given: Any) -> None:
    """There is one place for eager tensors: anything but the CPU is refused."""
    check(given)
