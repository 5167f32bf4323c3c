"""Tree: parameters, buffers and submodules as attributes, and all of them below a module by their path."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from symgrad.mode import guard_epoch, local
from symgrad.nn.hooks import registered
from symgrad.nn.parameter import Buffer, Parameter
from symgrad.tensor import Tensor, is_leaf_tensor

if TYPE_CHECKING:
    from symgrad.nn.module import Module

GROUPS = ("_parameters", "_buffers", "_modules")
_MISSING = object()


def _put_back(attributes: dict[str, Any], name: str, value: Any) -> None:
    """An attribute as it was."""
    attributes.pop(name, None)
    if value is not _MISSING:
        attributes[name] = value


def typename(value: Any) -> str:
    """The name of a value's type, as PyTorch's messages have it."""
    if isinstance(value, Tensor):
        return str(value.type())
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


class Tree:
    """What Module is made of: named tensors and subtrees."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    # attributes

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if "_parameters" not in state:
            self._set_early(name, value)
        elif isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif name in self._parameters:
            self._expect_none(name, value, "parameter", "torch.nn.Parameter")
            self.register_parameter(name, None)
        elif isinstance(value, Tree):
            self._forget(name, "_modules")
            self._modules[name] = registered("module", self, name, value)
        elif name in self._modules:
            self._expect_none(name, value, "child module", "torch.nn.Module")
            self._modules[name] = registered("module", self, name, None)
        elif name in self._buffers or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            self._set_plain(name, value)

    def _set_plain(self, name: str, value: Any) -> None:
        """What is neither parameter nor buffer nor module. Programs that were compiled may depend on it."""
        capture, own = local.mode.capture, self.__dict__
        if capture is not None:
            capture.record_undo(functools.partial(_put_back, own, name, own.get(name, _MISSING)))
        guard_epoch.count += 1
        object.__setattr__(self, name, value)

    def _set_early(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Tree)):
            kind = "parameters" if isinstance(value, Parameter) else "module"
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if isinstance(value, Buffer):
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        object.__setattr__(self, name, value)

    def _expect_none(self, name: str, value: Any, kind: str, wanted: str) -> None:
        if value is not None:
            raise TypeError(f"cannot assign '{typename(value)}' as {kind} '{name}' ({wanted} or None expected)")

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            self._expect_none(name, value, "buffer", "torch.nn.Buffer, torch.Tensor")
        if name not in self._buffers:
            self._forget(name, "_buffers")
        persistent = value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set
        self.register_buffer(name, value, persistent)

    def _forget(self, name: str, keep: str) -> None:
        """A name belongs to one group: take it out of the others."""
        self.__dict__.pop(name, None)
        for group in GROUPS:
            if group != keep:
                self.__dict__[group].pop(name, None)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:
            for group in GROUPS:
                if name in own[group]:
                    return own[group][name]
        # with name and obj Python suggests what may have been meant
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __delattr__(self, name: str) -> None:
        for group in GROUPS:
            if name in self.__dict__[group]:
                del self.__dict__[group][name]
                return
        guard_epoch.count += 1
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    # registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name free."""
        self._check_name(name, "parameter", "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)")
            if not is_leaf_tensor(param):
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To express"
                    f" '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """State that is not a parameter, such as a running mean; it is part of the state dict if persistent."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name; None keeps the name free."""
        if module is not None and not isinstance(module, Tree):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, name: str, kind: str, group: str) -> None:
        if group not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."{f", got: {name}" if kind == "module" else ""}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[group] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # traversal

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each with its path."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, cast("Module", self)
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules right below this one, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules right below this one."""
        return (module for _, module in self.named_children())

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What `get_members_fn` finds in each module, with its path."""
        seen = set()
        everywhere = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in everywhere if recurse else [(prefix, self)]:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, as an optimizer takes them."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    # by path

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as `encoder.layers.0`; the empty path is this module."""
        module: Any = self
        for name in target.split(".") if target else []:
            module = _attribute(module, name)
            if not isinstance(module, Tree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path; with `strict` only in place of another."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Tree):
            raise ValueError(f"`module` is not an nn.Module, found {module.__class__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(_attribute(parent, name), Tree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path."""
        path, _, name = target.rpartition(".")
        found = _attribute(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = _attribute(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found  # type: ignore[no-any-return]


def _attribute(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
