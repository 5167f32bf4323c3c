"""gradcheck: the recorded gradients against central differences, in full Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.autograd.backward import grad
from symgrad.lines import warn
from symgrad.tensor import Tensor, wrap


class GradcheckError(RuntimeError):
    """The gradients that were computed are not those that were measured."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences in every input that requires grad.

    True, or a GradcheckError that names the input and the output and shows both Jacobians (False with raise_exception=False).
    The modes of PyTorch's that concern its forward mode and batching are accepted; the full Jacobian is always checked.
    """
    try:
        _check(func, _tuple(inputs), eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradient of `func`, in its inputs and in the gradients of its outputs (random if not given)."""
    arguments = _tuple(inputs)
    outputs = [o for o in _tuple(func(*arguments)) if _differentiable(o)]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        given = [wrap(_noise(rng, o._array), True) for o in outputs]
    else:
        given = list(_tuple(grad_outputs))
    count = len(arguments)

    def gradients(*both: Any) -> tuple[Any, ...]:
        primals, seeds = both[:count], both[count:]
        wanted = [x for x in primals if isinstance(x, Tensor) and x.requires_grad]
        results = [o for o in _tuple(func(*primals)) if _differentiable(o)]
        found = grad(results, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(
        gradients, (*arguments, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol
    )  # fmt: skip


def _noise(rng: np.random.Generator, like: Any) -> Any:
    noise = rng.normal(size=like.shape)
    return np.asarray(noise + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else noise).astype(like.dtype)


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _check(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float) -> None:
    wanted = _wanted(inputs)
    outputs = _tuple(func(*inputs))
    for j, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise ValueError(f"gradcheck expects all outputs to be tensors, but output {j} is {output.__class__.__name__}")
        for i, x in wanted:
            numerical = _numerical(func, inputs, x._array, j, eps)
            analytical = _analytical(output, x, nondet_tol)
            if not np.allclose(analytical, numerical, rtol=rtol, atol=atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {i},\n"
                    f"numerical:{_show(numerical)}\nanalytical:{_show(analytical)}"
                )
    _zero_stays_zero(outputs, wanted)


def _wanted(inputs: tuple[Any, ...]) -> list[tuple[int, Tensor]]:
    """The inputs to check, with their positions."""
    wanted = [(i, x) for i, x in enumerate(inputs) if _differentiable(x)]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for i, x in wanted:
        if x._array.dtype.str[1:] not in ("f8", "c16"):
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will likely fail"
                " if all the inputs are not of double precision floating point or complex.",
            )
    return wanted


def _show(jacobian: Any) -> str:
    return repr(wrap(jacobian))


def _numerical(func: Callable[..., Any], inputs: tuple[Any, ...], array: Any, j: int, eps: float) -> Any:
    """Rows: elements of the input, in a complex one d/d(real) + i d/d(imaginary). Columns: elements of output j, of a complex one
    first the real and then the imaginary parts: gradients are those of real functions."""

    def value() -> Any:
        out = _tuple(func(*inputs))[j]._array
        return np.concatenate([out.real.ravel(), out.imag.ravel()]) if out.dtype.kind == "c" else out.ravel()

    def slope(index: Any, step: Any) -> Any:
        kept = array[index].copy()
        array[index] = kept + step
        above = value().astype(np.float64)
        array[index] = kept - step
        below = value().astype(np.float64)
        array[index] = kept
        return (above - below) / (2 * eps)

    rows = []
    for index in np.ndindex(*array.shape):
        row = slope(index, eps)
        rows.append(row + 1j * slope(index, 1j * eps) if array.dtype.kind == "c" else row)
    return np.array(rows).reshape(array.size, -1)


def _analytical(output: Tensor, x: Tensor, nondet_tol: float) -> Any:
    size, parts = output._array.size, (1, 1j) if output._array.dtype.kind == "c" else (1,)
    jacobian = np.zeros((x._array.size, size * len(parts)), np.complex128 if x._array.dtype.kind == "c" else np.float64)
    if not output.requires_grad:
        return jacobian
    for k in range(size * len(parts)):
        column, again = (_column(output, x, k % size, parts[k // size]) for _ in range(2))
        if column is None or again is None:
            continue
        if not np.allclose(column, again, rtol=0, atol=nondet_tol, equal_nan=True):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives"
                " different values, although analytical gradient matches numerical gradient. The tolerance for nondeterminism"
                f" was {nondet_tol}."
            )
        jacobian[:, k] = column
    return jacobian


def _column(output: Tensor, x: Tensor, k: int, part: complex) -> Any:
    seed = np.zeros_like(output._array)
    seed[np.unravel_index(k, seed.shape)] = part
    (g,) = grad(output, x, wrap(seed), retain_graph=True, allow_unused=True)
    return None if g is None else g._array.ravel()


def _zero_stays_zero(outputs: tuple[Any, ...], wanted: list[tuple[int, Tensor]]) -> None:
    """A gradient is linear in the gradient of the output."""
    sources = [o for o in outputs if o.requires_grad]
    if not sources:
        return
    zeros = [wrap(np.zeros_like(o._array)) for o in sources]
    for g in grad(sources, [x for _, x in wanted], zeros, retain_graph=True, allow_unused=True):
        if g is not None and g._array.any():
            raise GradcheckError("backward not multiplied by grad_output")
