"""Calling a module that has hooks. Backward hooks sit at two gates, identities in the graph before and after the module."""

from __future__ import annotations

from typing import Any

from symgrad.autograd.function import Function
from symgrad.tensor import Tensor


class Gate(Function):
    """An identity whose backward shows the gradients to `watch`, which may replace them."""

    @staticmethod
    def forward(ctx: Any, watch: Any, *tensors: Tensor) -> Any:
        ctx.watch = watch
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.watch(grads))


def _gated(values: Any, watch: Any) -> Any:
    """The tensors among `values` that require grad, led through one gate."""
    single = isinstance(values, Tensor)
    items = [values] if single else list(values)
    places = [i for i, v in enumerate(items) if isinstance(v, Tensor) and v.requires_grad]
    if not places:
        return values
    through = Gate.apply(lambda grads: watch(places, len(items), grads), *(items[i] for i in places))
    for i, t in zip(places, through, strict=True):
        items[i] = t
    return items[0] if single else type(values)(items) if type(values) in (tuple, list) else tuple(items)


class BackwardHooks:
    """Holds grad_output until grad_input is known, then calls the hooks with both."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_output: Any = None
        self.has_input = False

    def inputs(self, args: Any) -> Any:
        self.has_input = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        return _gated(args, self.at_input)

    def outputs(self, result: Any) -> Any:
        return _gated(result, self.at_output)

    def at_output(self, places: list[int], count: int, grads: Any) -> Any:
        full = _placed(places, count, grads)
        for hook, _ in tuple(self.module._backward_pre_hooks.values()):
            full = _replaced(hook(self.module, full), full)
        self.grad_output = full
        if not self.has_input:
            for hook, _ in tuple(self.module._backward_hooks.values()):
                hook(self.module, (None,), full)
        return [full[i] for i in places]

    def at_input(self, places: list[int], count: int, grads: Any) -> Any:
        full = _placed(places, count, grads)
        for hook, _ in tuple(self.module._backward_hooks.values()):
            full = _replaced(hook(self.module, full, self.grad_output), full)
        self.grad_output = None
        return [full[i] for i in places]


def _placed(places: list[int], count: int, grads: Any) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for i, g in zip(places, grads, strict=True):
        full[i] = g
    return tuple(full)


def _replaced(result: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    if result is None:
        return before
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(before):
        raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(results)}, but expected {len(before)}")
    return results


def call_with_hooks(module: Any, args: Any, kwargs: Any) -> Any:
    """Call a module, its hooks before and after, and those of its gradients."""
    for hook, with_kwargs in tuple(module._forward_pre_hooks.values()):
        result = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if result is None:
            continue
        if with_kwargs:
            args, kwargs = result
        else:
            args = result if isinstance(result, tuple) else (result,)
    watch = BackwardHooks(module) if module._backward_hooks or module._backward_pre_hooks else None
    if watch is not None:
        args = watch.inputs(args)
    output = module.forward(*args, **kwargs)
    for hook, with_kwargs in tuple(module._forward_hooks.values()):
        result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        output = output if result is None else result
    return output if watch is None else watch.outputs(output)
