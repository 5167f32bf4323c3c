"""Functions of a tensor of four elements and a Python number, one for each way by which a number gets into a program."""

from __future__ import annotations

import symgrad as sg
import symgrad.nn.functional as F

INDEX, MASK = sg.tensor([0, 2]), sg.tensor([True, False, True, False])


def writing(write):
    """A copy of the tensor after something was written into it."""

    def function(x, c):
        y = x * 1
        write(y, c)
        return y

    return function


def _set(place):
    return writing(lambda y, c: y.__setitem__(place, c))


WRITES = {
    "fill_": writing(lambda y, c: y.fill_(c)), "y[1] = c": _set(1), "y[1:3] = c": _set(slice(1, 3)), "y[mask] = c": _set(MASK),
    "y[index] = c": _set(INDEX), "y[...] = c": _set(...), "index_fill": lambda x, c: x.index_fill(0, INDEX, c),
    "index_fill_": writing(lambda y, c: y.index_fill_(0, INDEX, c)), "masked_fill": lambda x, c: x.masked_fill(MASK, c),
    "masked_fill_": writing(lambda y, c: y.masked_fill_(MASK, c)), "scatter": lambda x, c: x.scatter(0, INDEX, c),
    "scatter_": writing(lambda y, c: y.scatter_(0, INDEX, c)), "fill_diagonal_": lambda x, c: (x * 1).reshape(2, 2).fill_diagonal_(c),
    "fill_ of a view": writing(lambda y, c: y[1:].fill_(c)), "fill_ of a transpose": lambda x, c: (x * 1).reshape(2, 2).t().fill_(c),
    "copy_": writing(lambda y, c: y.copy_(sg.tensor(c, dtype=y.dtype))),
    "index_put": lambda x, c: x.index_put((INDEX,), sg.tensor(c, dtype=x.dtype)),
    "pad": lambda x, c: F.pad(x, (1, 1), value=c),
    "where": lambda x, c: sg.where(MASK, x, c), "where of a number": lambda x, c: sg.where(MASK, c, x),
    "full": lambda x, c: x * 0 + sg.full((4,), c, dtype=x.dtype), "full_like": lambda x, c: x * 0 + sg.full_like(x, c),
    "new_full": lambda x, c: x * 0 + x.new_full((4,), c), "tensor": lambda x, c: x * 0 + sg.tensor(c, dtype=x.dtype),
    "tensor of a list": lambda x, c: x * 0 + sg.tensor([c] * 4, dtype=x.dtype), "new_tensor": lambda x, c: x * 0 + x.new_tensor([c] * 4),
    "threshold": lambda x, c: F.threshold(x, 1.0, c), "stack": lambda x, c: sg.stack([x[0], sg.tensor(c, dtype=x.dtype)]),
}  # fmt: skip
"""Those whose result has the number in it, as it is."""
ARITHMETIC = {
    "x + c": lambda x, c: x + c, "c + x": lambda x, c: c + x, "x - c": lambda x, c: x - c, "c - x": lambda x, c: c - x,
    "x * c": lambda x, c: x * c, "x / c": lambda x, c: x / c, "c / x": lambda x, c: c / x, "add_": writing(lambda y, c: y.add_(c)),
    "mul_": writing(lambda y, c: y.mul_(c)), "add alpha": lambda x, c: x.add(x, alpha=c), "sub alpha": lambda x, c: x.sub(x, alpha=c),
    "nan_to_num": lambda x, c: sg.nan_to_num(x * 0 / 0, nan=c), "rsub": lambda x, c: sg.rsub(x, c),
    "addcmul": lambda x, c: sg.addcmul(x, x, x, value=c), "addcdiv": lambda x, c: sg.addcdiv(x, x, x, value=c),
    "addmm": lambda x, c: sg.addmm(x.reshape(2, 2), x.reshape(2, 2), x.reshape(2, 2), alpha=c, beta=c),
    "index_add": lambda x, c: x.index_add(0, INDEX, x[:2], alpha=c), "lerp": lambda x, c: sg.lerp(x, x + 1, c),
    "scatter add": lambda x, c: x.scatter(0, INDEX, c, reduce="add"), "ones * c": lambda x, c: x * (sg.ones(4, dtype=x.dtype) * c),
    "eq": lambda x, c: (x == c) * x, "linspace": lambda x, c: x * 0 + sg.linspace(0, c, 4, dtype=x.dtype),
}  # fmt: skip
ORDERED = {
    "clamp": lambda x, c: x.clamp(min=c), "clamp max": lambda x, c: x.clamp(max=c), "clamp_": writing(lambda y, c: y.clamp_(min=c)),
    "lt": lambda x, c: (x < c) * x, "hardtanh": lambda x, c: F.hardtanh(x, 0.0, c), "leaky_relu": lambda x, c: F.leaky_relu(-x, c),
    "hardshrink": lambda x, c: F.hardshrink(x, c), "softshrink": lambda x, c: F.softshrink(x, c), "remainder": lambda x, c: x % c,
    "fmod": lambda x, c: sg.fmod(x, c), "floor_divide": lambda x, c: x // c, "copysign": lambda x, c: sg.copysign(x, c),
    "maximum": lambda x, c: sg.maximum(x, sg.tensor(c, dtype=x.dtype)),
    "heaviside": lambda x, c: sg.heaviside(x * 0, sg.tensor(c, dtype=x.dtype)),
    "huber_loss": lambda x, c: F.huber_loss(x, x * 3, delta=c), "quantile": lambda x, c: sg.quantile(x, c),
}  # fmt: skip
ALL = WRITES | ARITHMETIC | ORDERED
