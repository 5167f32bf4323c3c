"""What may be asked of compile() besides the function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_BACKENDS = ("xla", "numpy", "auto")


@dataclass(frozen=True)
class Options:
    """As `compile` takes them."""

    static: frozenset[str] = frozenset()
    """Arguments that are part of the program, whatever they are."""
    dynamic: frozenset[str] = frozenset()
    """Arguments that are inputs although they are whole numbers or truth values."""
    device: str | None = None
    """Where kernels run: None is JAX's default device."""
    donate: bool = False
    """Whether the memory of tensor arguments may be used for the results: they are gone after the call."""
    backend: str = "xla"
    roll: bool = True
    """Whether equal layers become a loop where XLA compiles that faster."""
    verbose: bool = False
    fallback: str | None = None
    """"eager": what cannot be traced runs as it is written."""

    def __post_init__(self) -> None:
        if self.backend not in _BACKENDS:
            raise ValueError(f"backend={self.backend!r}: kernels run by {', '.join(map(repr, _BACKENDS))}")
        if self.fallback not in (None, "eager"):
            raise ValueError(f'fallback={self.fallback!r}: what cannot be compiled is an error (None) or runs eagerly ("eager")')


def names(given: str | Iterable[str]) -> frozenset[str]:
    """One name or several."""
    return frozenset((given,) if isinstance(given, str) else given)


def options(*, static: Any = (), dynamic: Any = (), **others: Any) -> Options:
    """The options, with names of arguments in any form."""
    return Options(names(static), names(dynamic), **others)


DEFAULT = Options()
