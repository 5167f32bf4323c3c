"""Random short programs of views and in-place writes, and what they must give.

A program is a list of steps that run on any PyTorch-like library. The oracle runs them on dual numbers: each tensor is a pair of NumPy
arrays, value and tangent, whose views share memory as the tensors do. A recorded write changes both, a write under no_grad or through a
detached tensor changes the value only. The tangent of the loss must be the gradient times the direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Dual:
    value: Any
    tangent: Any

    def __post_init__(self):
        self.value, self.tangent = np.asarray(self.value), np.asarray(self.tangent)  # arithmetic without dimensions gives scalars

    def map(self, function):
        return Dual(function(self.value), function(self.tangent))


class Program:
    """Steps are (word, arguments); tensors are numbered in the order in which they come into being."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        draw = self.rng.normal
        self.leaves = {"a": draw(size=(2, 3)), "w": draw(size=3), "s": draw(size=())}
        self.directions = {name: draw(size=value.shape) for name, value in self.leaves.items()}
        self.steps: list[tuple[Any, ...]] = []
        self.duals: list[Dual] = [Dual(self.leaves[n].copy(), self.directions[n].copy()) for n in "aws"]
        self.add("times", 0, 2.0)
        self.add("zeros")
        for _ in range(self.rng.integers(3, 9)):
            self.random_step()
        self.used = sorted({int(i) for i in self.rng.integers(3, len(self.duals), size=3)} | {3, 4})

    def add(self, word: str, *args: Any) -> None:
        self.steps.append((word, *args))
        oracle(self.duals, word, *args)

    def pick(self, *words: str) -> str:
        return words[self.rng.integers(len(words))]

    def random_step(self) -> None:
        i = int(self.rng.integers(3 if self.rng.random() < 0.95 else 0, len(self.duals)))
        kind = self.rng.random()
        if kind < 0.4:
            self.view(i)
        elif kind < 0.55:
            self.add(self.pick("times", "times"), i, 1.5) if self.rng.random() < 0.5 else self.add(self.pick("square", "tanh"), i)
        else:
            self.write(i)

    def view(self, i: int) -> None:
        value = self.duals[i].value
        ndim, shape = value.ndim, value.shape
        words = ["unsqueeze", "detach", "alias", "expand"]
        if ndim:
            words += ["select", "slice", "slice", "select", "no_grad_select", "split", "unbind"]
        if ndim == 2:
            words += ["t", "t", "column", "diagonal"]
        if value.flags.c_contiguous:
            words += ["flat"]
        word = self.pick(*words)
        if word in ("select", "no_grad_select", "split", "unbind") and not shape[0]:
            word = "alias"
        if word in ("select", "no_grad_select", "split", "unbind"):
            self.add(word, i, int(self.rng.integers(shape[0])))
        elif word == "column":
            self.add(word, i, int(self.rng.integers(shape[1]))) if shape[1] else self.add("alias", i)
        elif word == "slice":
            self.add(word, i, int(self.rng.integers(2)), int(self.rng.integers(1, 4)), int(self.rng.integers(1, 3)))
        else:
            self.add(word, i)

    def write(self, i: int) -> None:
        value = self.duals[i].value
        word = self.pick(
            "mul_", "add_", "sub_", "copy_", "mul_scalar", "fill_", "zero_", "tanh_", "set_first", "put", "masked_fill_", "t_",
            "fill_tensor",
        )  # fmt: skip
        if word == "t_" and value.ndim != 2:
            word = "mul_scalar"
        if word in ("set_first", "put") and not (value.ndim and value.shape[0]):
            word = "mul_scalar"
        quiet = bool(self.rng.random() < 0.12)
        if word in ("mul_", "add_", "sub_", "copy_"):
            others = [j for j, d in enumerate(self.duals) if fits(d.value.shape, value.shape)]
            self.add(word, i, quiet, others[self.rng.integers(len(others))])
        else:
            self.add(word, i, quiet)


def fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(given, shape) == shape
    except ValueError:
        return False


VIEWS = {
    "select": lambda x, k: x[k, ...] if isinstance(x, np.ndarray) else x[k],
    "column": lambda x, k: x[:, k],
    "slice": lambda x, a, b, c: x[a:b:c],
    "unsqueeze": lambda x: x[None],
    "alias": lambda x: x[...],
    "t": lambda x: x.T if isinstance(x, np.ndarray) else x.t(),
    "diagonal": lambda x: np.einsum("ii->i", x[: min(x.shape), : min(x.shape)]) if isinstance(x, np.ndarray) else x.diagonal(),
    "flat": lambda x: x.reshape(-1) if isinstance(x, np.ndarray) else x.view(-1),
    "expand": lambda x: _spread(x) if isinstance(x, np.ndarray) else x.expand(2, *x.shape),
}


def _spread(x):
    return np.lib.stride_tricks.as_strided(x, (2, *x.shape), (0, *x.strides))


def oracle(duals: list[Dual], word: str, *args: Any) -> None:
    """One step on dual numbers."""
    if word == "zeros":
        duals.append(Dual(np.zeros((2, 3)), np.zeros((2, 3))))
        return
    x, rest = duals[args[0]], args[1:]
    if word in VIEWS:
        duals.append(x.map(lambda array: VIEWS[word](array, *rest)))
    elif word in ("split", "unbind"):
        duals.append(x.map(lambda array: array[rest[0] : rest[0] + 1] if word == "split" else array[rest[0], ...]))
    elif word in ("detach", "no_grad_select"):
        value = x.value if word == "detach" else x.value[rest[0], ...]
        duals.append(Dual(value, np.zeros(value.shape)))
    elif word == "times":
        duals.append(Dual(x.value * rest[0], x.tangent * rest[0]))
    elif word == "square":
        duals.append(Dual(x.value * x.value, 2 * x.value * x.tangent))
    elif word == "tanh":
        out = np.tanh(x.value)
        duals.append(Dual(out, (1 - out * out) * x.tangent))
    elif word == "t_":
        duals[args[0]] = x.map(lambda array: array.T)
    else:
        quiet, *others = rest
        other = duals[others[0]] if others else duals[2]
        value, tangent = written(word, x, other)
        region = slice(0, 1) if word in ("set_first", "put") else ...
        x.value[region] = value
        if not quiet:
            x.tangent[region] = tangent


def written(word: str, x: Dual, other: Dual) -> tuple[Any, Any]:
    v, t, u, d = x.value, x.tangent, other.value, other.tangent
    if word == "tanh_":
        out = np.tanh(v)
        return out, (1 - out * out) * t
    return {
        "masked_fill_": lambda: (np.where(v > 0.3, 0.7, v), np.where(v > 0.3, 0.0, t)),
        "set_first": lambda: (u.copy(), d.copy()),
        "put": lambda: (u.copy(), d.copy()),
        "mul_": lambda: (v * u, t * u + v * d),
        "add_": lambda: (v + u, t + d),
        "sub_": lambda: (v - u, t - d),
        "copy_": lambda: (u.copy(), d.copy()),
        "fill_tensor": lambda: (u, d),
        "mul_scalar": lambda: (v * 0.5, t * 0.5),
        "fill_": lambda: (0.25, 0.0),
        "zero_": lambda: (0.0, 0.0),
    }[word]()


def step(lib: Any, tensors: list[Any], word: str, *args: Any) -> None:
    """The same step on the tensors of a library."""
    if word == "zeros":
        tensors.append(lib.zeros(2, 3, dtype=lib.float64))
        return
    x, rest = tensors[args[0]], args[1:]
    if word in VIEWS:
        tensors.append(VIEWS[word](x, *rest))
    elif word in ("split", "unbind"):
        tensors.append((x.split(1) if word == "split" else x.unbind())[rest[0]])
    elif word == "detach":
        tensors.append(x.detach())
    elif word == "no_grad_select":
        with lib.no_grad():
            tensors.append(x[rest[0]])
    elif word == "times":
        tensors.append(x * rest[0])
    elif word in ("square", "tanh"):
        tensors.append(x * x if word == "square" else x.tanh())
    elif word == "t_":
        x.t_()
    else:
        quiet, *others = rest
        with lib.set_grad_enabled(not quiet):
            write(lib, x, word, tensors[others[0]] if others else None, tensors[2])


def write(lib: Any, x: Any, word: str, other: Any, scalar: Any) -> None:
    if word == "set_first":
        x[0] = scalar
    elif word == "put":
        x[[0]] = scalar
    elif word == "masked_fill_":
        x.masked_fill_(x > 0.3, 0.7)
    elif word == "mul_scalar":
        x.mul_(0.5)
    elif word == "fill_":
        x.fill_(0.25)
    elif word == "fill_tensor":
        x.fill_(scalar)
    elif other is None:
        getattr(x, word)()
    else:
        getattr(x, word)(other)


def run(lib: Any, program: Program) -> tuple[float, float]:
    """The loss and its derivative in the program's direction; raises RuntimeError if the library refuses."""
    leaves = [lib.tensor(program.leaves[n], dtype=lib.float64, requires_grad=True) for n in "aws"]
    tensors = list(leaves)
    for each in program.steps:
        step(lib, tensors, *each)
    loss = sum((tensors[i] * tensors[i] * (k + 1)).sum() for k, i in enumerate(program.used)) + 0 * leaves[0].sum()
    loss.backward()
    slope = 0.0
    for name, leaf in zip("aws", leaves, strict=True):
        if leaf.grad is not None:
            slope += float((np.asarray(leaf.grad.numpy()) * program.directions[name]).sum())
    return float(loss.detach().numpy()), slope


def expected(program: Program) -> tuple[float, float]:
    used = [(k + 1, program.duals[i]) for k, i in enumerate(program.used)]
    loss = sum(k * (d.value * d.value).sum() for k, d in used)
    return float(loss), float(sum(2 * k * (d.value * d.tangent).sum() for k, d in used))
