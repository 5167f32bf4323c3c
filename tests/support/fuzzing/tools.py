"""What random programs call besides operations: Functions, hooks, writes through views of complex numbers, shapes changed in place."""

from __future__ import annotations

from typing import Any

import symgrad as sg
from symgrad.autograd import Function


class Doubling(Function):
    """x², with a slope that is not its derivative: what is shown must be this one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x


class Scaled(Function):
    """scale · x, with a separate `setup_context`."""

    @staticmethod
    def forward(x: Any, scale: float) -> Any:
        return x * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.scale, None


class Both(Function):
    """x y and x + y."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


class Straight(Function):
    """Rounded, with the slope of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.floor() if x.is_floating_point() else x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Dirty(Function):
    """Doubled in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def hooked(x: Any) -> Any:
    """x², where the cotangent of x is doubled by a hook."""
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda g: g * 2)
    return y * y


def cut(x: Any) -> Any:
    """x², half of whose slope is lost."""
    y = x * 1
    with sg.no_grad():
        z = y * 1
    return y * z


def if_recorded(x: Any) -> Any:
    """The same numbers, another slope where x is recorded."""
    y = x * 1
    return Scaled.apply(y, 2.0) if y.requires_grad else y * 2


def overwritten(x: Any) -> Any:
    """What is written through `.data` and `.detach()` has no history."""
    y = x * 2
    y.detach().mul_(2)
    y.data.add_(1)
    return y * x


def unsqueezed(x: Any) -> Any:
    """Written to after its shape was changed in place."""
    h = x * 1
    h.unsqueeze_(0)
    h[0] = h[0] * 3
    h.squeeze_(0)
    h.mul_(x)
    return h


def turned(x: Any) -> Any:
    h = (x * 1).reshape(1, -1)
    h.t_()
    h[0, 0] = x.reshape(-1)[0] * 5
    h.transpose_(0, 1)
    h[0, 0] += 1
    return h.sum() * x


def through_real(x: Any, y: Any) -> Any:
    """Numbers written through the real and the imaginary part."""
    z = sg.complex(x * 1.0, x * 2.0)
    z.real.mul_(y)
    z.imag[...] = z.real * 2 + x
    return (z * z).real + z.imag


def through_pairs(x: Any) -> Any:
    z = sg.complex(x * 1.0, x * x)
    pairs = sg.view_as_real(z)
    pairs[..., 0] = x * 3
    pairs[..., 1].add_(1)
    return (z.conj() * z).real


def large_and_small(x: Any) -> Any:
    """1e40, which no float32 holds, and a third, which none holds exactly."""
    y = x.new_zeros(x.shape).fill_(1e40) * 1e-40 if x.dtype == sg.float64 else x * 0
    y = y + x.masked_fill(x > 0.25, 1 / 3)
    if y.ndim:
        y[0] = 1 / 7
    return y * x


TOOLS = {
    tool.__name__: tool
    for tool in (
        Doubling, Scaled, Both, Straight, Dirty, hooked, cut, if_recorded, overwritten, unsqueezed, turned, through_real, through_pairs,
        large_and_small,
    )
}  # fmt: skip
