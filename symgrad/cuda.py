"""The little that programs ask of `cuda`: whether a GPU is there, and nothing else without one."""

from __future__ import annotations

from typing import Any

from symgrad.devices import check, device_count as device_count
from symgrad.random import default_generator


def is_available() -> bool:
    """True where JAX sees a GPU."""
    return device_count() > 0


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
    if is_available():
        default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def __getattr__(name: str) -> Any:
    """`cuda.FloatTensor` and the like exist everywhere, and refuse to be made without a GPU."""
    from symgrad import legacy

    if name in legacy.TYPES:
        return legacy.tensor_type(name, "cuda")
    raise AttributeError(f"module 'symgrad.cuda' has no attribute {name!r}")
