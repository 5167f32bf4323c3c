"""Modules that hold modules."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import groupby
from typing import Any, Self

from symgrad.nn.module import Module, listed


class _Listed(Module):
    """What Sequential and ModuleList share: submodules in an order, named by their position."""

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{self._get_name()}.extend should be called with an iterable, but got {modules.__class__.__name__}")
        for module in tuple(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module in front of the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}, got {module.__class__.__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: Any = -1) -> Any:
        """Take the module at a position out, or those of a slice."""
        module = self[key]
        del self[key]
        return module

    def _renumber(self, modules: Iterable[Module]) -> None:
        """Name the modules by their positions, in the same dictionary: its changes bump the guard epoch."""
        renamed = {str(i): module for i, module in enumerate(modules)}
        self._modules.clear()
        self._modules.update(renamed)

    def _name(self, index: Any) -> str:
        """The name of the module at a position."""
        i = operator.index(index)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return list(self._modules)[i]

    def __getitem__(self, index: Any) -> Any:
        return self._modules[self._name(index)]

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


class Sequential(_Listed):
    """Modules applied one after another."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        by_name = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if by_name else enumerate(args):
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(_sequential(other))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self._factor(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (self._factor(other) - 1))

    def _factor(self, times: int) -> int:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {self.__class__} and {times.__class__}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {self.__class__}")
        return times


def _sequential(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {other.__class__} is given.")
    return other


class ModuleList(_Listed):
    """A list whose modules are registered."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Put a module in front of the one at `index`."""
        super().insert(index, module)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return super().__getitem__(index)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Equal modules in a row are printed once: `(0-1): 2 x Linear(...)`."""
        lines, start = [], 0
        for text, group in groupby(map(repr, self)):
            count = len(list(group))
            lines.append(listed(str(start), text) if count == 1 else listed(f"{start}-{start + count - 1}", f"{count} x {text}"))
            start += count
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """A dictionary whose modules are registered."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take one module out."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping, or of pairs of names and modules."""
        for key, module in pairs("ModuleDict", modules):
            self[key] = module


def pairs(name: str, given: Any) -> list[tuple[str, Any]]:
    """The entries of what `update` was given: a mapping, a container with names, or pairs."""
    if isinstance(given, Mapping) or (isinstance(given, Module) and hasattr(given, "items")):
        return list(given.items())
    if not isinstance(given, Iterable):
        raise TypeError(f"{name}.update should be called with an iterable of key/value pairs, but got {given.__class__.__name__}")
    entries = list(given)
    for i, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(f"{name} update sequence element #{i} should be Iterable; is {entry.__class__.__name__}")
        if len(entry) != 2:  # type: ignore[arg-type]
            raise ValueError(f"{name} update sequence element #{i} has length {len(entry)}; 2 is required")  # type: ignore[arg-type]
    return entries
