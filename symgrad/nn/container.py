"""Modules that hold modules."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, TypeVar

from symgrad.nn.module import Module, indented

Self = TypeVar("Self", bound="_Listed")


class _Listed(Module):
    """What Sequential and ModuleList share: submodules in an order, named by their position."""

    def append(self: Self, module: Module) -> Self:
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        for module in modules:
            self.append(module)
        return self

    def insert(self: Self, index: int, module: Module) -> Self:
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index + len(self) if index < 0 else index, module)
        self._renumber(modules)
        return self

    def pop(self, index: int = -1) -> Module:
        module: Module = self[index]
        del self[index]
        return module

    def _renumber(self, modules: Iterable[Module]) -> None:
        object.__setattr__(self, "_modules", OrderedDict((str(i), m) for i, m in enumerate(modules)))

    def _name(self, index: Any) -> str:
        """The name of the module at a position."""
        i = operator.index(index)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return list(self._modules)[i]

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        for name in list(self._modules)[index] if isinstance(index, slice) else [self._name(index)]:
            del self._modules[name]
        self._renumber(self)

    def __add__(self: Self, other: Iterable[Module]) -> Self:
        return type(self)().extend(self).extend(other)

    def __iadd__(self: Self, other: Iterable[Module]) -> Self:
        return self.extend(other)


class Sequential(_Listed):
    """Modules applied one after another."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        by_name = len(modules) == 1 and isinstance(modules[0], OrderedDict)
        for name, module in modules[0].items() if by_name else enumerate(modules):
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]


class ModuleList(_Listed):
    """A list whose modules are registered."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def insert(self, index: int, module: Module) -> None:  # type: ignore[override]
        super().insert(index, module)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])  # type: ignore[arg-type]
        return self._modules[self._name(index)]

    def __repr__(self) -> str:
        """Equal modules in a row are printed once: `(0-1): 2 x Linear(...)`."""
        lines, start = [], 0
        for text, group in groupby(map(repr, self)):
            count = len(list(group))
            named = f"({start}): {text}" if count == 1 else f"({start}-{start + count - 1}): {count} x {text}"
            lines.append(indented(named))
            start += count
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)" if lines else f"{self._get_name()}()"
