"""Module: the base class of layers and models: modes, conversion, state, hooks, calling, and a printed form."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Self

from symgrad import dtypes
from symgrad.autograd import no_grad
from symgrad.autograd.hooks import RemovableHandle
from symgrad.conversion import parse_to
from symgrad.counted import GuardedDict, GuardedHooks
from symgrad.creation import empty_like
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.nn import state
from symgrad.nn.hooks import (
    ANYWHERE,
    GROUPS as HOOK_GROUPS,
    call_with_hooks,
    register,
    register_module_backward_hook as register_module_backward_hook,
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
    register_module_forward_hook as register_module_forward_hook,
    register_module_forward_pre_hook as register_module_forward_pre_hook,
    register_module_full_backward_hook as register_module_full_backward_hook,
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
    register_module_module_registration_hook as register_module_module_registration_hook,
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from symgrad.nn.tree import Tree
from symgrad.tensor import Tensor

STATE_HOOK_GROUPS = ("_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")


def _fresh() -> dict[str, Any]:
    """The dictionary of a module without anything in it."""
    groups = {
        "training": True, "_parameters": GuardedDict(), "_buffers": GuardedDict(), "_non_persistent_buffers_set": set(),
        "_modules": GuardedDict(),
    }  # fmt: skip
    return groups | {name: GuardedHooks() for name in HOOK_GROUPS} | {name: OrderedDict() for name in STATE_HOOK_GROUPS}


class Module(Tree):
    """Base class of layers and models: assign parameters and submodules as attributes, define `forward`."""

    training: bool
    call_super_init = False
    """Whether `Module.__init__` goes on to the next class of a subclass with several bases."""
    _version = 1
    """Saved in `state_dict()._metadata`, so that `_load_from_state_dict` can tell how old a state dict is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and kwargs:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if not self.call_super_init and args:
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(_fresh())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_fresh() | state)

    # modes and changes of all parameters

    def train(self, mode: bool = True) -> Self:
        """Say that this module and all below it are being trained, or are not."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of every parameter whether operations on it are to be recorded."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """`fn` of every submodule, then of this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    @no_grad()
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """`fn` of every parameter, gradient and buffer, in their places."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for p in self._parameters.values():
            if p is not None:
                p.data = fn(p)
                if p.grad is not None:
                    p.grad.data = fn(p.grad)
        for name, b in self._buffers.items():
            self._buffers[name] = None if b is None else fn(b)
        return self

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, tensor: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Self:
        """Move to a device, and cast what is floating-point or complex: `to(dtype)`, `to(device, dtype)`, `to(tensor)`."""
        wanted, _ = parse_to(args if tensor is None else (tensor, *args), dtype, device)
        if wanted is None:
            return self
        target = dtypes.of(wanted)
        if not (target.is_floating_point or target.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={target}")
        return self._apply(lambda t: t.to(target) if t.is_floating_point() or t.is_complex() else t)

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Cast what is floating-point to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Cast what is floating-point to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Cast what is floating-point to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Cast what is floating-point to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """Move to the CPU, where everything is."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """An error, since there is only the CPU."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """New memory, not filled, for all parameters and buffers."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    # state

    def get_extra_state(self) -> Any:
        """What else belongs into the state dict, under `_extra_state`: override it together with `set_extra_state`."""
        raise RuntimeError("Module.get_extra_state() is there to be overridden, and is called only if it is")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError("Module.set_extra_state() is there to be overridden, and is called only if it is")

    get_extra_state.only_raises = set_extra_state.only_raises = True  # type: ignore[attr-defined]

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by their paths, without history unless `keep_vars`."""
        if args:
            warn("Positional args are being deprecated, use kwargs instead.", FutureWarning)
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(**{"destination": destination, "prefix": prefix, "keep_vars": keep_vars, **given})
        return state.save(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put what is of this module itself into `destination`."""
        state.save_own(self, destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> state.IncompatibleKeys:
        """Copy values in, all or nothing: an entry that is missing, unexpected or misshapen raises before anything is written.

        With `strict=False` missing and unexpected entries are only reported. With `assign=True` the given tensors themselves become
        the parameters and buffers. Post hooks run on loaded values, so where there are any, keys are judged after the writing.
        """
        return state.load(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what is of this module itself; override it to read what older versions saved, and call this one in the end."""
        state.load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before this module's state is taken."""
        return register(self.__dict__, "_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` when the state of this module and those below it has been taken."""
        return register(self.__dict__, "_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` before loading."""
        return register(self.__dict__, "_load_state_dict_pre_hooks", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after loading; it may take keys out of the two lists."""
        return register(self.__dict__, "_load_state_dict_post_hooks", hook)

    # calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes: defined by every subclass, and called by calling the module."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if local.mode.capture is not None:
            local.mode.capture.guard_module(self)
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"] or ANYWHERE:
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args)` before forward; what it returns replaces the arguments."""
        return register(self.__dict__, "_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, output)` after forward; what it returns replaces the output. `always_call`: also when forward raises."""
        return register(self.__dict__, "_forward_hooks", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` before the module's gradients are computed; what it returns replaces grad_output."""
        return register(self.__dict__, "_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when they are known; what it returns replaces grad_input."""
        return register(self.__dict__, "_backward_hooks", hook, prepend)

    register_backward_hook = register_full_backward_hook

    def formula(self, *args: Any, wrt: Any = None, order: int = 1, notation: str = "auto") -> Any:
        """The closed form of what the module computes from arguments, tensors or specs, with its parameters by their names; and of its
        derivatives in `wrt`, names of parameters or arguments."""
        from symgrad.compiler.api import module_formula

        return module_formula(self, args, wrt, order=order, notation=notation)

    # printing

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def _get_name(self) -> str:
        return self.__class__.__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [listed(name, repr(module)) for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def listed(name: str, text: str) -> str:
    """A text of one or several lines, as it stands in a list of submodules."""
    first, *rest = text.split("\n")
    return "\n".join([f"({name}): {first}", *(f"  {line}" if line.strip() else "" for line in rest)])
