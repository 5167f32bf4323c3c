"""Module: parameters, buffers and submodules by name, hooks, state dicts, and a printed form."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from symgrad.autograd import no_grad
from symgrad.autograd.hooks import RemovableHandle
from symgrad.nn.hooks import call_with_hooks
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

Self = TypeVar("Self", bound="Module")


class IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def indented(text: str) -> str:
    """A text of several lines, as it stands in a list."""
    return text.replace("\n", "\n  ")


class Module:
    """Base class of layers and models: assign parameters and submodules as attributes, define `forward`."""

    training: bool
    _parameters: OrderedDict[str, Parameter | None]
    _buffers: OrderedDict[str, Tensor | None]
    _modules: OrderedDict[str, Module | None]

    def __init__(self) -> None:
        put = object.__setattr__
        put(self, "training", True)
        for name in ("_parameters", "_buffers", "_modules"):
            put(self, name, OrderedDict())
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            put(self, name, OrderedDict())
        put(self, "_transient", set())

    # attributes

    def __setattr__(self, name: str, value: Any) -> None:
        groups = self.__dict__
        if "_parameters" not in groups:
            if isinstance(value, (Parameter, Module)):
                kind = "parameters" if isinstance(value, Parameter) else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            object.__setattr__(self, name, value)
            return
        if isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._forget(name, "_modules")
            self._modules[name] = value
        elif name in self._parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self._parameters[name] = None
        elif name in self._modules:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as child module '{name}' (torch.nn.Module or None expected)")
            self._modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """A name belongs to one group: take it out of the others."""
        self.__dict__.pop(name, None)
        for group in {"_parameters", "_buffers", "_modules"} - {keep}:
            self.__dict__[group].pop(name, None)

    def __getattr__(self, name: str) -> Any:
        for group in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(group)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for group in (self._parameters, self._buffers, self._modules):
            if name in group:
                del group[name]
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        self._check_name(name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' (torch.nn.Parameter or None required)")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """State that is not a parameter, such as a running mean; it is part of the state dict if persistent."""
        self._check_name(name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        self._check_name(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot register before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"a name should be a string, got {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f"a name can't be empty or contain '.', got {name!r}")
        if hasattr(self, name) and name not in self._parameters and name not in self._buffers and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")

    # traversal

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        return (module for _, module in self.named_children())

    def _named(self, group: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        everywhere = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in everywhere if recurse else [(prefix, self)]:
            for name, value in module.__dict__[group].items():
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        module: Any = self
        for name in target.split(".") if target else []:
            module = module._modules.get(name)
            if module is None:
                raise AttributeError(f"{type(self).__name__} has no submodule {target!r}")
        return module  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        return self._find(target, "_parameters", "an nn.Parameter")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        return self._find(target, "_buffers", "a buffer")  # type: ignore[no-any-return]

    def _find(self, target: str, group: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = module.__dict__[group].get(name)
        if found is None:
            known = hasattr(module, name)
            raise AttributeError(f"`{name}` is not {kind}" if known else f"{type(module).__name__} has no attribute `{name}`")
        return found

    # modes and changes of all parameters

    def train(self: Self, mode: bool = True) -> Self:
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.parameters():
            if p.grad is not None and not set_to_none:
                p.grad.detach_()
                p.grad.zero_()
            else:
                p.grad = None

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """`fn` of every submodule, then of this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _convert(self: Self, fn: Callable[[Tensor], Tensor]) -> Self:
        with no_grad():
            for module in self.modules():
                for p in module._parameters.values():
                    if p is not None:
                        p.data = fn(p.data)
                        p.grad = None if p.grad is None else fn(p.grad)
                for name, b in module._buffers.items():
                    module._buffers[name] = None if b is None else fn(b)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast floating-point parameters and buffers."""
        return self._convert(lambda t: t.to(*args, **kwargs) if t.is_floating_point() or t.is_complex() else t)

    def float(self: Self) -> Self:
        return self._convert(lambda t: t.float() if t.is_floating_point() else t)

    def double(self: Self) -> Self:
        return self._convert(lambda t: t.double() if t.is_floating_point() else t)

    def half(self: Self) -> Self:
        return self._convert(lambda t: t.half() if t.is_floating_point() else t)

    def cpu(self: Self) -> Self:
        return self._convert(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        return self._convert(lambda t: t.cuda(device))

    # state

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Tensor]:
        state: OrderedDict[str, Tensor] = OrderedDict()
        self._save(state, prefix, keep_vars)
        return state

    def _save(self, state: OrderedDict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        kept = {**self._parameters, **{n: b for n, b in self._buffers.items() if n not in self._transient}}
        for name, value in kept.items():
            if value is not None:
                state[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._modules.items():
            if module is not None:
                module._save(state, f"{prefix}{name}.", keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copy values in, all or nothing: a missing, unexpected or misshapen entry raises before anything is written."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        own = self.state_dict(keep_vars=True)
        missing = [k for k in own if k not in state_dict]
        unexpected = [k for k in state_dict if k not in own]
        problems = []
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if strict and unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        for key in (key for key in own if key in state_dict):
            if own[key].shape != state_dict[key].shape:
                problems.append(
                    f"size mismatch for {key}: copying a param with shape {state_dict[key].shape} from checkpoint, the shape in current"
                    f" model is {own[key].shape}."
                )
        if problems:
            listed = "\n\t".join(problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        with no_grad():
            for key, tensor in own.items():
                if key in state_dict:
                    tensor.copy_(state_dict[key])
        return IncompatibleKeys(missing, unexpected)

    # calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__
        if not (state["_forward_hooks"] or state["_forward_pre_hooks"] or state["_backward_hooks"] or state["_backward_pre_hooks"]):
            return self.forward(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args)` before forward; what it returns replaces the arguments."""
        return self._register("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, output)` after forward; what it returns replaces the output."""
        return self._register("_forward_hooks", hook, prepend, with_kwargs)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` before the module's gradients are computed; what it returns replaces grad_output."""
        return self._register("_backward_pre_hooks", hook, prepend, False)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when they are known; what it returns replaces grad_input."""
        return self._register("_backward_hooks", hook, prepend, False)

    register_backward_hook = register_full_backward_hook

    def _register(self, group: str, hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> RemovableHandle:
        hooks: OrderedDict[int, Any] = self.__dict__[group]
        handle = RemovableHandle(hooks)
        hooks[handle.id] = (hook, with_kwargs)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    # printing

    def extra_repr(self) -> str:
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [indented(f"({name}): {module!r}") for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})
