"""What programs ask of `accelerator`: whether there is one. Eager tensors live on the CPU; compiled functions choose their own device."""

from __future__ import annotations

from typing import Any

_NONE = "Cannot access accelerator device when none is available."


def is_available() -> bool:
    """Whether eager tensors can be put on an accelerator: False."""
    return False


def device_count() -> int:
    """How many accelerators there are: none."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """The accelerator in use: None."""


def current_device_index() -> int:
    """Which accelerator is in use: an error without one."""
    raise RuntimeError(_NONE)


def synchronize(device: Any = None, /) -> None:
    """Wait for the accelerator: an error without one."""
    raise RuntimeError(_NONE)
