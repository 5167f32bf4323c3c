"""The linear-algebra forms and losses of the benchmark in PyTensor, whose rewrites also change the order of products. Needs PyTensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

NAME = f"PyTensor {pytensor.__version__}"
FORMS: dict[str, Callable[..., Any]] = {
    "(A B) x": lambda A, B, H, x: (A @ B) @ x,
    "A'A x": lambda A, B, H, x: A.T @ A @ x,
    "(A - H'H) x": lambda A, B, H, x: (A - H.T @ H) @ x,
    "A B + A H": lambda A, B, H, x: A @ B + A @ H,
    "tr(A B)": lambda A, B, H, x: pt.linalg.trace(A @ B),
    "diag(A B)": lambda A, B, H, x: pt.diag(A @ B),
    "sum(A B)": lambda A, B, H, x: (A @ B).sum(),
    "(A B)[2, 2]": lambda A, B, H, x: (A @ B)[2, 2],
    "diag(x) A": lambda A, B, H, x: pt.diag(x) @ A,
    "sum of (x x') A": lambda A, B, H, x: (pt.outer(x, x) @ A).sum(),
    "(A'B)'(A'B)": lambda A, B, H, x: (A.T @ B).T @ (A.T @ B),
}
LOSSES: dict[str, Callable[..., Any]] = {
    "|(A B) x - x|²": lambda A, B, H, x: (((A @ B) @ x - x) ** 2).sum(),
    "|A'A x - x|²": lambda A, B, H, x: ((A.T @ A @ x - x) ** 2).sum(),
    "tanh((A - H'H) x)": lambda A, B, H, x: pt.tanh((A - H.T @ H) @ x).sum(),
    "sin(tr(A B))": lambda A, B, H, x: pt.sin(pt.linalg.trace(A @ B)),
    "sum(diag(A B)²)": lambda A, B, H, x: (pt.diag(A @ B) ** 2).sum(),
    "|diag(x) A x|²": lambda A, B, H, x: ((pt.diag(x) @ A @ x) ** 2).sum(),
    "x'A B H x": lambda A, B, H, x: x @ A @ B @ H @ x,
    "|A x|² |B x|²": lambda A, B, H, x: ((A @ x) ** 2).sum() * ((B @ x) ** 2).sum(),
}


def is_known(title: str | None) -> bool:
    """True for all but the batched product, whose gradient takes minutes."""
    return title in FORMS or title in LOSSES


def compiled(title: str, wrt: str | tuple[str, ...] | None, given: Sequence[Any]) -> Callable[[], Any]:
    """Return a call of a form, of the gradient of its sum in A, or of a loss with its gradients in all inputs, on the given arrays."""
    places = {name: pt.tensor(name, dtype=a.dtype, shape=a.shape) for name, a in zip("ABHx", given, strict=True)}
    result = {**FORMS, **LOSSES}[title](*places.values())
    outputs = [result]
    if wrt is not None:
        chosen = [places[name] for name in wrt]
        gradients = pytensor.grad(result.sum(), chosen, disconnected_inputs="ignore")
        outputs = gradients if wrt == "A" else [result, *gradients]
    run = pytensor.function(list(places.values()), outputs, on_unused_input="ignore")
    return lambda: [np.asarray(x) for x in run(*given)]
