"""Settings that programs make at their start, remembered and without effect: kernels are deterministic and compute in full precision."""

from __future__ import annotations

from symgrad.lines import warn

__all__ = [
    "are_deterministic_algorithms_enabled", "get_float32_matmul_precision", "is_deterministic_algorithms_warn_only_enabled",
    "set_float32_matmul_precision", "use_deterministic_algorithms",
]  # fmt: skip

_PRECISIONS = ("highest", "high", "medium")


class _Settings:
    deterministic = False
    warn_only = False
    precision = "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: every kernel gives the same result each time it runs."""
    _Settings.deterministic, _Settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given."""
    return _Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was given as `warn_only`."""
    return _Settings.warn_only


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted: products of float32 matrices are computed in float32, the "highest" precision, whatever is set."""
    if precision in _PRECISIONS:
        _Settings.precision = precision
    else:
        warn(f"{precision} is not one of 'highest', 'high', or 'medium': it has no effect")


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given."""
    return _Settings.precision
