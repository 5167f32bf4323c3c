"""Derivatives of a compiled function against those of eager code, however they are asked for.

    assert_same_in_all_lives(f, x, w)

A compiled function must give the same derivatives *before* a call, *after* one (of arguments that require grad, or do not), and through
`backward()` of its results, in reverse and forward mode, of order 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg


@dataclass(frozen=True)
class Derivatives:
    """Of a scalar function, in some of its arguments."""

    value: Any
    gradient: list[Any]
    directional: Any
    """In the fixed directions `directions_of` the arguments."""
    hvp: list[Any] | None = None
    """The Hessian times these directions, forward over reverse."""
    vhp: list[Any] | None = None
    """The directions times the Hessian, reverse over reverse: that of a Function need not be symmetric."""


def assert_same_in_all_lives(
    function: Callable[..., Any], *args: Any, wrt: Sequence[int] | None = None, backends: Sequence[str] = ("numpy",), order: int = 2,
    rtol: float = 1e-9, **options: Any,
) -> None:  # fmt: skip
    """Compare all lives of `compile(function, **options)` with eager code. `args` are tensors or arrays, `wrt` the positions of those to
    differentiate in: all floating-point ones by default."""
    tensors = [a if isinstance(a, sg.Tensor) else sg.tensor(a) for a in args]
    chosen = [i for i, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()] if wrt is None else list(wrt)
    loss = weighted(function)
    wanted = {eager: eager(loss, tensors, chosen, order) for eager in set(EAGER.values())}
    for backend in backends:
        for life, derivatives in LIVES.items():
            found = derivatives(sg.compile(loss, backend=backend, **options), tensors, chosen, order)
            _compare(f"{life}, {backend}", wanted[EAGER[life]], found, rtol)


def weighted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one with a scalar result: all tensors among its results, each with a weight of its own."""

    def loss(*args: Any) -> Any:
        found = [t for t in _tensors(function(*args)) if t.is_floating_point() or t.is_complex()]
        return sum((t.abs() if t.is_complex() else t).mul(k + 0.5).sum() for k, t in enumerate(found))

    return loss


def _tensors(results: Any) -> list[Any]:
    if isinstance(results, sg.Tensor):
        return [results]
    return [t for x in (results.values() if isinstance(results, dict) else results) for t in _tensors(x)]


def fresh(tensors: Sequence[Any], chosen: Sequence[int]) -> list[Any]:
    """Copies of the arguments, of which the chosen ones require grad."""
    return [t.detach().clone().requires_grad_(i in chosen) if i in chosen else t.detach().clone() for i, t in enumerate(tensors)]


def directions_of(tensors: Sequence[Any], chosen: Sequence[int]) -> list[Any]:
    """Directions for the chosen arguments."""
    rng = np.random.default_rng(5)
    return [sg.tensor(rng.uniform(-1, 1, tuple(tensors[i].shape)), dtype=tensors[i].dtype) for i in chosen]


def eager_derivatives(loss: Callable[..., Any], tensors: Sequence[Any], chosen: Sequence[int], order: int) -> Derivatives:
    """By autograd: of eager code, or of the results of a compiled function."""
    leaves, directions = fresh(tensors, chosen), directions_of(tensors, chosen)
    inputs = [leaves[i] for i in chosen]
    value = loss(*leaves)
    gradient = _grad(value, inputs, create_graph=order > 1)
    along = sum(_inner(g, t) for g, t in zip(gradient, directions, strict=True))
    return Derivatives(value, gradient, along.to(value.dtype), vhp=_grad(along, inputs) if order > 1 else None)


def eager_methods(loss: Callable[..., Any], tensors: Sequence[Any], chosen: Sequence[int], order: int) -> Derivatives:
    """What the methods of a compiled function give: order 2 forward over reverse."""
    args, directions = fresh(tensors, ()), tuple(directions_of(tensors, chosen))

    def of_chosen(*inputs: Any) -> Any:
        filled = dict(zip(chosen, inputs, strict=True))
        return loss(*(filled.get(i, t) for i, t in enumerate(args)))

    at = tuple(args[i] for i in chosen)
    value, along = sg.func.jvp(of_chosen, at, directions)
    gradient = sg.func.grad(of_chosen, tuple(range(len(chosen))))
    first = eager_derivatives(loss, tensors, chosen, 1)
    return Derivatives(value, first.gradient, along, list(sg.func.jvp(gradient, at, directions)[1]) if order > 1 else None)


def _grad(value: Any, inputs: list[Any], create_graph: bool = False) -> list[Any]:
    if not value.requires_grad:
        return [sg.zeros_like(t) for t in inputs]
    return list(sg.autograd.grad(value, inputs, create_graph=create_graph, materialize_grads=True))


def _inner(g: Any, t: Any) -> Any:
    return (g.conj() * t).real.sum() if g.is_complex() else (g * t).sum()


def _before(compiled: Any, tensors: Sequence[Any], chosen: Sequence[int], order: int) -> Derivatives:
    args, wrt, directions = fresh(tensors, ()), tuple(chosen), directions_of(tensors, chosen)
    hvp = list(compiled.hvp(*args, v=tuple(directions), wrt=wrt)) if order > 1 else None
    along = compiled.jvp(*args, wrt=wrt)(*directions)
    value, gradient = compiled.value_and_grad(*args, wrt=wrt)
    pulled = compiled.vjp(*args, wrt=wrt)(1.0)
    for g, p in zip(gradient, pulled, strict=True):
        np.testing.assert_allclose(array(g), array(p), rtol=1e-5, atol=1e-12)  # float32 arguments, too
    return Derivatives(value, list(gradient), along, hvp)


def _after(compiled: Any, tensors: Sequence[Any], chosen: Sequence[int], order: int) -> Derivatives:
    compiled(*fresh(tensors, ()))
    return _before(compiled, tensors, chosen, order)


def _after_recorded(compiled: Any, tensors: Sequence[Any], chosen: Sequence[int], order: int) -> Derivatives:
    compiled(*fresh(tensors, chosen))
    return _before(compiled, tensors, chosen, order)


def _backward(compiled: Any, tensors: Sequence[Any], chosen: Sequence[int], order: int) -> Derivatives:
    """Of the second call, which is no trace, after one without gradients."""
    compiled(*fresh(tensors, ()))
    eager_derivatives(compiled, tensors, chosen, 1)
    leaves = fresh(tensors, chosen)
    result = compiled(*leaves)
    if result.requires_grad:
        result.backward()
    found = eager_derivatives(compiled, tensors, chosen, order)
    for i, g in zip(chosen, found.gradient, strict=True):
        np.testing.assert_allclose(0 if leaves[i].grad is None else array(leaves[i].grad), array(g), rtol=1e-5, atol=1e-12)
    return found


LIVES: dict[str, Callable[..., Derivatives]] = {
    "before a call": _before, "after a call": _after, "after a recorded call": _after_recorded, "through backward()": _backward,
}  # fmt: skip


EAGER = {life: eager_derivatives if life == "through backward()" else eager_methods for life in LIVES}
"""What each is compared with."""


def array(t: Any) -> Any:
    return t.detach()._array if isinstance(t, sg.Tensor) else np.asarray(t)


def _compare(life: str, wanted: Derivatives, found: Derivatives, rtol: float) -> None:
    pairs = [("value", wanted.value, found.value), ("jvp", wanted.directional, found.directional)]
    pairs += [(f"gradient {i}", g, f) for i, (g, f) in enumerate(zip(wanted.gradient, found.gradient, strict=True))]
    for name, ours, theirs in (("hvp", wanted.hvp, found.hvp), ("vhp", wanted.vhp, found.vhp)):
        if ours is not None and theirs is not None:
            pairs += [(f"{name} {i}", g, f) for i, (g, f) in enumerate(zip(ours, theirs, strict=True))]
    for name, w, f in pairs:
        w, f = array(w), array(f)
        assert (f.dtype, f.shape) == (w.dtype, w.shape), f"{name}, {life}"
        scale = float(np.abs(w).max(initial=0)) + 1e-2
        np.testing.assert_allclose(f, w, rtol=rtol, atol=rtol * scale, err_msg=f"{name}, {life}")
