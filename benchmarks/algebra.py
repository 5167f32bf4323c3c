"""Linear-algebra forms as users write them, their gradients, losses and linear systems: with jax.jit, ours, PyTensor, and by hand.

`by hand` is JAX with the least number of operations, which tests/support/contraction_forms.py counts. `symgrad, as written` is compiled
with `without=("contract", "solve")`. All inputs are on the device, n = 1000 (500 for linear systems), float32, on one core. PyTensor is
measured where it is installed, on arrays; only versions from 3.2 on change the order of products.
"""

from __future__ import annotations

import contextlib
import os

import jax
import jax.numpy as jnp
import numpy as np
from harness import Task

import symgrad as sg

N = int(os.environ.get("N", "1000"))
NOTE = """Products in the order of least cost ([Products and linear systems](algebra.md)).

"""


def rows(v):
    return jnp.broadcast_to(v, (len(v), len(v)))


def columns(v):
    return rows(v).T


FORMS = {
    # name: (as written, in JAX, by hand, the gradient in A of the sum by hand)
    "(A B) x": (lambda A, B, H, x: (A @ B) @ x, None, lambda A, B, H, x: A @ (B @ x), lambda A, B, H, x: rows(B @ x)),
    "A'A x": (
        lambda A, B, H, x: A.T @ A @ x, None, lambda A, B, H, x: A.T @ (A @ x),
        lambda A, B, H, x: (A @ x)[:, None] + A.sum(1)[:, None] * x,
    ),
    "(A - H'H) x": (
        lambda A, B, H, x: (A - H.T @ H) @ x, None, lambda A, B, H, x: A @ x - H.T @ (H @ x), lambda A, B, H, x: rows(x),
    ),
    "A B + A H": (
        lambda A, B, H, x: A @ B + A @ H, None, lambda A, B, H, x: A @ (B + H), lambda A, B, H, x: rows(B.sum(1) + H.sum(1)),
    ),
    "tr(A B)": (
        lambda A, B, H, x: sg.trace(A @ B), lambda A, B, H, x: jnp.trace(A @ B), lambda A, B, H, x: (A * B.T).sum(),
        lambda A, B, H, x: B.T,
    ),
    "diag(A B)": (
        lambda A, B, H, x: sg.diag(A @ B), lambda A, B, H, x: jnp.diag(A @ B), lambda A, B, H, x: (A * B.T).sum(1),
        lambda A, B, H, x: B.T,
    ),
    "sum(A B)": (lambda A, B, H, x: (A @ B).sum(), None, lambda A, B, H, x: A.sum(0) @ B.sum(1), lambda A, B, H, x: rows(B.sum(1))),
    "(A B)[2, 2]": (
        lambda A, B, H, x: (A @ B)[2, 2], None, lambda A, B, H, x: A[2] @ B[:, 2],
        lambda A, B, H, x: jnp.zeros_like(A).at[2].set(B[:, 2]),
    ),
    "diag(x) A": (
        lambda A, B, H, x: sg.diag(x) @ A, lambda A, B, H, x: jnp.diag(x) @ A, lambda A, B, H, x: x[:, None] * A,
        lambda A, B, H, x: columns(x),
    ),
    "sum of (x x') A": (
        lambda A, B, H, x: (sg.outer(x, x) @ A).sum(), lambda A, B, H, x: (jnp.outer(x, x) @ A).sum(),
        lambda A, B, H, x: x.sum() * (x @ A.sum(1)), lambda A, B, H, x: columns(x * x.sum()),
    ),
    "(A'B)'(A'B)": (
        lambda A, B, H, x: (A.T @ B).T @ (A.T @ B), None, lambda A, B, H, x: (lambda p: p.T @ p)(A.T @ B),
        lambda A, B, H, x: B.sum(1)[:, None] * ((B.sum(1) @ A) * 2),
    ),
}  # fmt: skip

LOSSES = {
    # name: (as written, in JAX, reordered by hand: JAX's gradient of it is in the right order, too)
    "|(A B) x - x|²": (lambda A, B, H, x: (((A @ B) @ x - x) ** 2).sum(), None, lambda A, B, H, x: ((A @ (B @ x) - x) ** 2).sum()),
    "|A'A x - x|²": (lambda A, B, H, x: ((A.T @ A @ x - x) ** 2).sum(), None, lambda A, B, H, x: ((A.T @ (A @ x) - x) ** 2).sum()),
    "tanh((A - H'H) x)": (
        lambda A, B, H, x: ((A - H.T @ H) @ x).tanh().sum(), lambda A, B, H, x: jnp.tanh((A - H.T @ H) @ x).sum(),
        lambda A, B, H, x: jnp.tanh(A @ x - H.T @ (H @ x)).sum(),
    ),
    "sin(tr(A B))": (
        lambda A, B, H, x: sg.trace(A @ B).sin(), lambda A, B, H, x: jnp.sin(jnp.trace(A @ B)),
        lambda A, B, H, x: jnp.sin((A * B.T).sum()),
    ),
    "sum(diag(A B)²)": (
        lambda A, B, H, x: (sg.diag(A @ B) ** 2).sum(), lambda A, B, H, x: (jnp.diag(A @ B) ** 2).sum(),
        lambda A, B, H, x: ((A * B.T).sum(1) ** 2).sum(),
    ),
    "|diag(x) A x|²": (
        lambda A, B, H, x: ((sg.diag(x) @ A @ x) ** 2).sum(), lambda A, B, H, x: ((jnp.diag(x) @ A @ x) ** 2).sum(),
        lambda A, B, H, x: ((x * (A @ x)) ** 2).sum(),
    ),
    "x'A B H x": (lambda A, B, H, x: x @ A @ B @ H @ x, None, lambda A, B, H, x: (x @ A) @ (B @ (H @ x))),
    "|A x|² |B x|²": (lambda A, B, H, x: ((A @ x) ** 2).sum() * ((B @ x) ** 2).sum(), None, None),
    "batched (A B) x": (
        lambda A, B, H, x: ((((A.reshape(len(x) // 4, 4, -1) @ B) @ x) - 1) ** 2).sum(), None,
        lambda A, B, H, x: ((A @ (B @ x) - 1) ** 2).sum(),
    ),
}  # fmt: skip

_lu = jax.scipy.linalg.lu_factor


def _by_lu(A, x):
    return jax.scipy.linalg.lu_solve(_lu(A), x)


def _det_and_system(A, x):
    lu, pivots = _lu(A)
    sign = jnp.where((pivots != jnp.arange(len(pivots))).sum() % 2, -1.0, 1.0)
    return sign * jnp.diag(lu).prod(), jax.scipy.linalg.lu_solve((lu, pivots), x)


SYSTEMS = {
    # name: (as written, in JAX, by hand)
    "inv(A) x": (lambda A, x: sg.linalg.inv(A) @ x, lambda A, x: jnp.linalg.inv(A) @ x, _by_lu),
    "gradient of sum(inv(A) x) in A": (
        lambda A, x: (sg.linalg.inv(A) @ x).sum(), jax.grad(lambda A, x: (jnp.linalg.inv(A) @ x).sum()),
        jax.grad(lambda A, x: jnp.linalg.solve(A, x).sum()),
    ),
    "det(A) and inv(A) x": (
        lambda A, x: (sg.linalg.det(A), sg.linalg.inv(A) @ x), lambda A, x: (jnp.linalg.det(A), jnp.linalg.inv(A) @ x), _det_and_system,
    ),
    "triangular system": (
        lambda A, x: sg.linalg.solve(A.tril(), x), lambda A, x: jnp.linalg.solve(jnp.tril(A), x),
        lambda A, x: jax.scipy.linalg.solve_triangular(A, x, lower=True),
    ),
    "ridge regression": (
        lambda A, x: sg.linalg.solve(A.T @ A + sg.diag(x.exp()), x), lambda A, x: jnp.linalg.solve(A.T @ A + jnp.diag(jnp.exp(x)), x),
        lambda A, x: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(A.T @ A + jnp.diag(jnp.exp(x)), lower=True), x),
    ),
}  # fmt: skip


def ready(found):
    """Wait for results of either library; return them in a flat list."""
    found = found if isinstance(found, (list, tuple)) else [found]
    return jax.block_until_ready(jax.tree.leaves([x._storage if isinstance(x, sg.Tensor) else x for x in found]))


def beside(title, ours, written, by_hand, given, wrt=None, goal=1.15, form=None):
    """The contenders of one form; with `wrt`, ours is value and gradient, or the gradient alone of a function that is not JAX's value.
    `form` is the name that PyTensor knows it by."""
    there = sg.compile(lambda *xs: [x * 1 for x in xs], returns="tensor")(*given)
    here = ready(list(there))  # the same buffers: where an array lies makes up to half of the time of a transposed read
    runs = {"jax.jit": _jitted(written, here), "by hand": _jitted(by_hand, here)}
    for name, without in (("symgrad", ()), ("symgrad, as written", ("contract", "solve"))):
        runs[name] = _ours(sg.compile(ours, without=without), there, wrt)
    with contextlib.suppress(ImportError):
        import by_pytensor

        if by_pytensor.is_known(form):
            runs[by_pytensor.NAME] = by_pytensor.compiled(form, wrt, given)
    return Task(title, runs, targets={"by hand": goal}, rtol=2e-2)


def _jitted(function, here):
    made = jax.jit(function)
    return lambda: ready(made(*here))


def _ours(made, there, wrt):
    if wrt is None:
        return lambda: ready(made(*there))
    if wrt == "A":
        return lambda: ready(made.grad(*there, wrt="A"))

    def both():
        value, gradients = made.value_and_grad(*there, wrt=wrt)
        return ready([value, *gradients])

    return both


def inputs(n):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((n, n)) / n**0.5).astype(np.float32) for _ in range(3)] + [rng.standard_normal(n).astype(np.float32)]


def tasks():
    given = inputs(N)
    for title, (ours, written, by_hand, _) in FORMS.items():
        yield beside(title, ours, written or ours, by_hand, given, form=title)
    for title, (ours, written, _, gradient) in FORMS.items():
        summed = lambda *args, f=written or ours: f(*args).sum()
        total = lambda A, B, H, x, f=ours: f(A, B, H, x).sum()
        yield beside(f"gradient of the sum of {title} in A", total, jax.grad(summed), gradient, given, "A", form=title)
    every = ("A", "B", "H", "x")
    for title, (ours, written, by_hand) in LOSSES.items():
        both = [jax.value_and_grad(f, argnums=(0, 1, 2, 3)) for f in (written or ours, by_hand or ours)]
        yield beside(f"value and gradient of {title}", ours, *both, given, every, form=title)
    rng = np.random.default_rng(0)
    n = N // 2
    system = [(rng.standard_normal((n, n)) / n**0.5 / 4 + np.eye(n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)]
    for title, (ours, written, by_hand) in SYSTEMS.items():
        yield beside(title, ours, written, by_hand, system, "A" if "gradient" in title else None)
