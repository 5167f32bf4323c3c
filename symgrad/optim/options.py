"""Options of an optimizer: how they are checked, and how an update reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import getitem
from typing import Any

from symgrad.creation import full
from symgrad.dtypes import float32, float64, get_default_dtype
from symgrad.mode import local
from symgrad.tensor import Tensor

Group = dict[str, Any]
State = dict[str, Any]


def check_rate(lr: Any) -> None:
    """A learning rate is a number, or a tensor with one element, and not negative."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_betas(betas: tuple[Any, Any]) -> None:
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_positive(**values: Any) -> None:
    """No value is negative; `eps` is called epsilon in the message."""
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")


def check_kind(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Ways of running that exclude each other in PyTorch. Here there is one way, and the words are only kept."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def counter(value: float = 0.0) -> Tensor:
    """A number that is kept in the state, as PyTorch keeps it: in single precision unless the default is double."""
    return full((), value, dtype=float64 if get_default_dtype() is float64 else float32)


def keeps_tensors(group: Group) -> bool:
    """Whether numbers that the state holds must stay tensors: a trace or a derivative goes through them."""
    return _asked_for_tensors(group) or local.mode.capture is not None


def _asked_for_tensors(group: Group) -> bool:
    return bool(group.get("differentiable") or group.get("capturable"))


def number(value: Any, group: Group) -> Any:
    """An option or a counter as a number, or as a tensor without dimensions where it must stay one: in a program, with as many digits."""
    if not isinstance(value, Tensor):
        return value
    if not keeps_tensors(group):
        return value.item()
    return value.squeeze() if _asked_for_tensors(group) else value.squeeze().to(float64)


def rate(group: Group) -> Any:
    """The learning rate; in a program that is being traced it is an input, so that it may change between runs."""
    lr = group["lr"]
    capture = local.mode.capture
    if capture is None or isinstance(lr, Tensor):
        return number(lr, group)
    return capture.scalar_input((id(group), "lr"), partial(group.__getitem__, "lr"))  # no function of ours: it is read before every run


def momentum(group: Group) -> Any:
    """The momentum, which a schedule may change: where it is not zero, in a program it is an input as the learning rate is."""
    capture, value = local.mode.capture, group["momentum"]
    if capture is None or group.get("differentiable") or isinstance(value, Tensor) or value == 0:
        return value
    return capture.scalar_input((id(group), "momentum"), partial(group.__getitem__, "momentum"))


def betas(group: Group) -> tuple[Any, Any]:
    """The two betas, in a program inputs as well."""
    capture, (beta1, beta2) = local.mode.capture, group["betas"]
    if capture is None or group.get("differentiable") or isinstance(beta1, Tensor) or isinstance(beta2, Tensor):
        return number(beta1, group), number(beta2, group)
    return (
        capture.scalar_input((id(group), "beta1"), partial(reduce, getitem, ("betas", 0), group)),  # group["betas"][0], as in rate()
        capture.scalar_input((id(group), "beta2"), partial(reduce, getitem, ("betas", 1), group)),
    )


def advance(state: State, group: Group, p: Tensor) -> Any:
    """Count a step; the number of steps so far."""
    step = state["step"].add_(1)
    return step.to(p.dtype) if _asked_for_tensors(group) else once(group, "step", step, lambda: number(step, group))


def once(group: Group, name: str, step: Any, compute: Callable[[], Any]) -> Any:
    """What follows from the number of steps and the options of a group: in a program once for all parameters that took as many."""
    capture = local.mode.capture
    return compute() if capture is None or not isinstance(step, Tensor) else capture.cse((id(group), name), step, compute)


def decayed(g: Any, p: Any, group: Group, lr: Any) -> Any:
    """The gradient of the objective plus weight_decay/2 |p|²; or, if that is decoupled, the gradient alone and a smaller p."""
    weight_decay = number(group["weight_decay"], group)
    if not isinstance(weight_decay, Tensor) and weight_decay == 0:
        return g
    if not group.get("decoupled_weight_decay"):
        return g + p * weight_decay
    p.mul_(1 - lr * weight_decay)
    return g
