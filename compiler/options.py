"""The options of compile()."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from symgrad.compiler.backends.base import BACKENDS
from symgrad.compiler.rewrite.pipeline import switches
from symgrad.devices import device


@dataclass(frozen=True)
class Options:
    """The options of a compiled function."""

    static: frozenset[str] = frozenset()
    """Arguments that are part of the program, whatever their type."""
    dynamic: frozenset[str] = frozenset()
    """Arguments that are inputs although they are integers or booleans."""
    device: str | None = None
    """The device that kernels run on; None for JAX's default device."""
    donate: bool = False
    """True if the memory of tensor arguments may be reused for results: they are invalid after the call."""
    backend: str = "xla"
    """The name of the back end that runs the kernels, see `symgrad.compiler.backends.base`."""
    roll: bool = True
    """True if equal layers become a loop where XLA compiles that faster."""
    verbose: bool = False
    fallback: str | None = None
    """With "eager", functions that cannot be traced run eagerly; with None they raise."""

    retrace: bool = False
    """True if the Python code runs at every call, on types alone, to find the program of this call."""
    returns: str | None = None
    """The type of results: "tensor", "numpy", or None to return NumPy arrays for NumPy arguments, see
    `symgrad.compiler.runtime.return_types`."""
    without: frozenset[str] = frozenset()
    """Rewrite rules, or whole tables of rules, that are switched off, see `symgrad.compiler.rewrite.pipeline.switches`."""
    check_assumptions: bool = False
    """True if each call checks on its values what `assume` says of them."""
    buckets: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Arguments that are padded to the next one of several lengths."""

    def __post_init__(self) -> None:
        backend: Any = self.backend
        if not isinstance(backend, str) or backend not in BACKENDS:
            BACKENDS.refuse(backend)
        if self.returns not in (None, "tensor", "numpy"):
            raise ValueError(f'returns={self.returns!r}: a call returns "tensor" or "numpy", or follows its arguments (None)')
        if self.fallback not in (None, "eager"):
            raise ValueError(f'fallback={self.fallback!r}: what cannot be compiled is an error (None) or runs eagerly ("eager")')


def names(given: str | Iterable[str], option: str) -> frozenset[str]:
    """Return one name or several as a set."""
    found = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{option}={given!r}: arguments are given by their names, {option}=\"n\" or {option}=(\"n\", \"m\")")
    return frozenset(found)


def place(given: Any) -> str | None:
    """Return the name of a device, which may be a name, a symgrad device or a JAX device."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, device):
        return str(given)
    if hasattr(given, "platform") and hasattr(given, "id"):
        return f"{given.platform}:{given.id}"
    raise TypeError(f'device={given!r}: kernels run on devices by name, device="gpu" or device="cpu:1"')


def lengths(given: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the lengths that arguments are padded to, in order: `{"x": (32, 64)}`."""
    if not isinstance(given, Mapping):
        raise TypeError(f'buckets={given!r}: which argument, and to which lengths: buckets={{"x": (32, 64)}}')
    found = []
    for name, sizes in given.items():
        ordered = tuple(sorted((sizes,) if isinstance(sizes, int) else sizes))
        if not ordered or not all(isinstance(n, int) and n > 0 for n in ordered):
            raise ValueError(f"buckets: {name!r} is filled up to {sizes!r}, which are no lengths")
        found.append((name, ordered))
    return tuple(found)


def rules(given: Any) -> frozenset[str]:
    """Return the names of rules and tables, which may be one string or several. Raise ValueError for a name that there is not."""
    found, known = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given), switches()
    for name in found:
        if not isinstance(name, str) or name not in known:
            close = get_close_matches(name, known, 1) if isinstance(name, str) else ()
            hint = f"did you mean {close[0]!r}? There are" if close else "there are"
            raise ValueError(f"without={given!r}: no rewrite rule or table is called {name!r}: {hint} {', '.join(known)}")
    return frozenset(found)


def options(
    *, static: Any = (), dynamic: Any = (), without: Any = (), buckets: Mapping[str, Any] = MappingProxyType({}), **others: Any
) -> Options:
    """Return the options; names of arguments and rules may be one string or several. Raise TypeError for an unknown option."""
    given = {field.name for field in fields(Options)}
    for name in others:
        if name not in given:
            close = get_close_matches(name, given, 1)
            hint = f": did you mean {close[0]!r}?" if close else f": there are {', '.join(sorted(given))}"
            raise TypeError(f"compile() has no option {name!r}{hint}")
    others["device"] = place(others.get("device"))
    return Options(names(static, "static"), names(dynamic, "dynamic"), without=rules(without), buckets=lengths(buckets), **others)


DEFAULT = Options()
