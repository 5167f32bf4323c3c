"""Calling a module that has hooks. Backward hooks sit at two gates, identities in the graph before and after the module."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from symgrad.autograd import is_grad_enabled
from symgrad.autograd.function import Function
from symgrad.autograd.hooks import RemovableHandle
from symgrad.escapes import PythonAction
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.tensor import Tensor

Hooks = OrderedDict[int, Any]

GROUPS = (
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_backward_pre_hooks", "_backward_hooks",
)  # fmt: skip
"""What a module keeps its hooks in, by id; the groups with and after `with_kwargs` say how they want to be called."""

EVERYWHERE: dict[str, Hooks] = {group: OrderedDict() for group in GROUPS}
"""The hooks of all modules at once."""

ANYWHERE: Hooks = OrderedDict()
"""The ids of the hooks of all modules: one look tells a call that there are none."""

REGISTRATION: dict[str, Hooks] = {kind: OrderedDict() for kind in ("parameter", "buffer", "module")}
"""Called with (module, name, value) when a module gets a parameter, a buffer or a submodule."""


def register(
    groups: dict[str, Any], group: str, hook: Callable[..., Any], prepend: bool = False, with_kwargs: bool = False, always: bool = False
) -> RemovableHandle:
    """Add a hook to a group, and to those that say how it is called."""
    flags = {f"{group}_with_kwargs": with_kwargs, f"{group}_always_called": always}
    handle = RemovableHandle(groups[group], extra_dict=[ANYWHERE, *(groups[flag] for flag in flags if flag in groups)])
    groups[group][handle.id] = hook
    if groups is EVERYWHERE:
        ANYWHERE[handle.id] = True
    for flag, wanted in flags.items():
        if wanted:
            groups[flag][handle.id] = True
    if prepend:
        groups[group].move_to_end(handle.id, last=False)
    return handle


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What hooks of registration make of a value."""
    for hook in tuple(REGISTRATION[kind].values()):
        result = hook(module, name, value)
        value = value if result is None else result
    return value


def _register_for_registration(kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(REGISTRATION[kind])
    REGISTRATION[kind][handle.id] = hook
    return handle


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, parameter)` whenever a module gets a parameter; what it returns replaces the parameter."""
    return _register_for_registration("parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` whenever a module gets a buffer; what it returns replaces the buffer."""
    return _register_for_registration("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` whenever a module gets a submodule; what it returns replaces the submodule."""
    return _register_for_registration("module", hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` before every forward of every module."""
    return register(EVERYWHERE, "_forward_pre_hooks", hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """`hook(module, args, output)` after every forward of every module."""
    return register(EVERYWHERE, "_forward_hooks", hook, with_kwargs=with_kwargs, always=always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` before the gradients of any module are computed."""
    return register(EVERYWHERE, "_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` when the gradients of any module are known."""
    return register(EVERYWHERE, "_backward_hooks", hook)


register_module_backward_hook = register_module_full_backward_hook


def _hooks(module: Any, group: str) -> list[tuple[int, Any]]:
    return [*EVERYWHERE[group].items(), *getattr(module, group).items()]


def _flagged(module: Any, flag: str, id: int) -> bool:
    return id in EVERYWHERE[flag] or id in getattr(module, flag)


class Gate(Function):
    """An identity whose backward shows the gradients to `watch`, which may replace them. With `zeros` none of them is None."""

    @staticmethod
    def forward(ctx: Any, watch: Any, zeros: bool, *tensors: Tensor) -> Any:
        ctx.watch = watch
        ctx.set_materialize_grads(zeros)
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tuple(t.view_as(t) if t.requires_grad else t for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *ctx.watch(grads))


def _gated(values: tuple[Any, ...], watch: Any, zeros: bool) -> tuple[Any, ...]:
    """The tensors among `values`, led through one gate if one of them requires grad."""
    items = list(values)
    places = [i for i, v in enumerate(items) if isinstance(v, Tensor)]
    if not is_grad_enabled() or not any(items[i].requires_grad for i in places):
        return values
    through = Gate.apply(lambda grads: watch(places, len(items), grads), zeros, *(items[i] for i in places))
    for i, t in zip(places, through, strict=True):
        items[i] = t
    return tuple(items) if type(values) is tuple else type(values)(*items)


class BackwardHooks:
    """Holds grad_output until grad_input is known, then calls the hooks with both."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_output: Any = None
        self.count = 0
        self.has_input = False
        if local.mode.capture is not None and _hooks(module, "_backward_hooks"):  # they see what comes in and what goes out together
            local.mode.capture.on_hook(None, None, PythonAction.MODULE_BACKWARD_HOOK, module.__class__.__name__)

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        gated = _gated(args, self.at_input, zeros=True)
        self.count, self.has_input = len(args), gated is not args
        return gated

    def outputs(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return _gated(result, self.at_output, zeros=False)
        if isinstance(result, Tensor):
            return _gated((result,), self.at_output, zeros=False)[0]
        words = f"For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received {result.__class__}"
        warn(words)
        return result

    def at_output(self, places: list[int], count: int, grads: Any) -> Any:
        full = _placed(places, count, grads)
        for _, hook in _hooks(self.module, "_backward_pre_hooks"):
            full = _replaced(hook(self.module, full), full, "Backward pre hook", "grad_output")
        self.grad_output = full
        if not self.has_input:
            self._without_input()
        return [full[i] for i in places]

    def _without_input(self) -> None:
        if self.module._backward_hooks or EVERYWHERE["_backward_hooks"]:
            words = "Full backward hook is firing when gradients are computed with respect to module outputs"
            warn(f"{words} since no inputs require gradients.")
        for _, hook in _hooks(self.module, "_backward_hooks"):
            result = hook(self.module, (None,) * self.count, self.grad_output)
            if result is not None and not (isinstance(result, tuple) and all(g is None for g in result)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for all gradients."
                )

    def at_input(self, places: list[int], count: int, grads: Any) -> Any:
        if self.grad_output is None:  # a gradient that did not come through the output, such as that of an attribute
            return grads
        full = _placed(places, count, grads)
        for _, hook in _hooks(self.module, "_backward_hooks"):
            full = _replaced(hook(self.module, full, self.grad_output), full, "Backward hook", "grad_input")
        self.grad_output = None
        return [full[i] for i in places]


def _placed(places: list[int], count: int, grads: Any) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for i, g in zip(places, grads, strict=True):
        full[i] = g
    return tuple(full)


def _replaced(result: Any, before: tuple[Any, ...], hook: str, what: str) -> tuple[Any, ...]:
    if result is None:
        return before
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(before):
        raise RuntimeError(f"{hook} returned an invalid number of {what}, got {len(results)}, but expected {len(before)}")
    return results


class _Call:
    """One call of a module with hooks: what they and `forward` have made of arguments and output so far."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.output: Any = None
        self.done: set[int] = set()

    def run(self) -> Any:
        module = self.module
        for id, hook in _hooks(module, "_forward_pre_hooks"):
            self._before(hook, _flagged(module, "_forward_pre_hooks_with_kwargs", id))
        watched = _hooks(module, "_backward_hooks") or _hooks(module, "_backward_pre_hooks")
        watch = BackwardHooks(module) if watched else None
        if watch is not None:
            self.args = watch.inputs(self.args)
        self.output = module.forward(*self.args, **self.kwargs)
        for id, hook in _hooks(module, "_forward_hooks"):
            self._after(id, hook)
        return self.output if watch is None else watch.outputs(self.output)

    def _before(self, hook: Any, with_kwargs: bool) -> None:
        result = hook(self.module, self.args, self.kwargs) if with_kwargs else hook(self.module, self.args)
        if result is None:
            return
        if not with_kwargs:
            self.args = result if isinstance(result, tuple) else (result,)
        elif isinstance(result, tuple) and len(result) == 2:
            self.args, self.kwargs = result
        else:
            raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}.")

    def _after(self, id: int, hook: Any) -> None:
        self.done.add(id)
        given = (self.args, self.kwargs) if _flagged(self.module, "_forward_hooks_with_kwargs", id) else (self.args,)
        result = hook(self.module, *given, self.output)
        self.output = self.output if result is None else result

    def fail(self) -> None:
        """Hooks that are always called have their turn, but cannot hide the error."""
        for id, hook in _hooks(self.module, "_forward_hooks"):
            if id in self.done or not _flagged(self.module, "_forward_hooks_always_called", id):
                continue
            try:
                self._after(id, hook)
            except Exception as error:
                warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced as another error was raised"
                    f" in forward: {error}",
                )


def call_with_hooks(module: Any, args: Any, kwargs: Any) -> Any:
    """Call a module, its hooks before and after, and those of its gradients."""
    call = _Call(module, args, kwargs)
    try:
        return call.run()
    except Exception:
        call.fail()
        raise
