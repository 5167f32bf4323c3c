"""The little that programs ask of `cuda`: whether tensors can be put on a GPU. They cannot yet: eager tensors live on the CPU."""

from __future__ import annotations

from typing import Any

from symgrad import legacy
from symgrad.devices import check


def is_available() -> bool:
    """Whether eager tensors can be put on a GPU: False, also where JAX sees one, so that `if cuda.is_available()` does what it can."""
    return False


def device_count() -> int:
    return 0


def current_device() -> int:
    check("cuda")
    return 0


def synchronize(device: Any = None) -> None:
    """Wait for the device. Eager tensors are computed when the call returns, so there is nothing to wait for."""
    check("cuda" if device is None else device)


def empty_cache() -> None:
    """There is no cache of device memory to empty."""


def is_initialized() -> bool:
    return False


def manual_seed(seed: int) -> None:
    """Seed the devices' generators; as in PyTorch, ignored when there is no GPU."""


manual_seed_all = manual_seed


def __getattr__(name: str) -> Any:
    """`cuda.FloatTensor` and the like exist everywhere, and refuse to be made without a GPU."""
    if name in legacy.TYPES:
        return legacy.tensor_type(name, "cuda")
    raise AttributeError(f"module 'symgrad.cuda' has no attribute {name!r}")
