"""Layers that are their options and a function: a dataclass gives them a typed constructor, this base the rest."""

from __future__ import annotations

from dataclasses import dataclass, fields

from symgrad.nn.module import Module


@dataclass(eq=False, repr=False)
class Options(Module):
    """A module whose dataclass fields are its arguments and its printed form; `inplace` is printed only when it is set."""

    def __post_init__(self) -> None:
        Module.__init__(self)

    def extra_repr(self) -> str:
        shown = [(field.name, getattr(self, field.name)) for field in fields(self) if field.repr]
        return ", ".join(f"{name}={value!r}" for name, value in shown if value or name != "inplace")
