"""Derivatives of order 8, Laplacians of networks and descent inside of descent, against the ways to write them in JAX."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy
from by_recurrence import BY_RECURRENCE
from harness import Task
from jax.experimental.jet import jet

import symgrad as sg
from symgrad.device_tensor import storage_of

ORDER, POINTS = 8, 100_000
WIDTH, BATCH = 128, 64
X = sympy.Symbol("x")
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "exp(sin x) tanh x": (
        lambda x: sg.exp(sg.sin(x)) * sg.tanh(x), lambda x: jnp.exp(jnp.sin(x)) * jnp.tanh(x), sympy.exp(sympy.sin(X)) * sympy.tanh(X)
    ),
    "1 / (1 + x²)": (lambda x: 1 / (1 + x * x), lambda x: 1 / (1 + x * x), 1 / (1 + X**2)),
    "exp(-x²/2)": (lambda x: sg.exp(-(x * x) / 2), lambda x: jnp.exp(-(x * x) / 2), sympy.exp(-(X**2) / 2)),
    "log(1 + exp(sin² x))": (
        lambda x: sg.log(1 + sg.exp(sg.sin(x) * sg.sin(x))), lambda x: jnp.log(1 + jnp.exp(jnp.sin(x) * jnp.sin(x))),
        sympy.log(1 + sympy.exp(sympy.sin(X) ** 2)),
    ),
}  # fmt: skip
GOALS = {"exp(sin x) tanh x": 0.66, "1 / (1 + x²)": 0.24, "exp(-x²/2)": 0.42, "log(1 + exp(sin² x))": 0.91}
"""Wanted times in nested jax.jvp's."""


def along_ones(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


def by_jet(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def derivative(x: Any) -> Any:
        return jet(f, (x,), ([jnp.ones_like(x), *[jnp.zeros_like(x)] * (ORDER - 1)],))[1][-1]

    return derivative


def by_sympy(expression: Any) -> Callable[[Any], Any]:
    names, parts = sympy.cse(sympy.diff(expression, X, ORDER))
    modules = {name: getattr(jnp, name) for name in ("exp", "sin", "cos", "tanh", "log")}
    steps = [(name, sympy.lambdify([X, *(n for n, _ in names[:k])], e, [modules])) for k, (name, e) in enumerate(names)]
    last = sympy.lambdify([X, *(n for n, _ in names)], parts[0], [modules])

    def derivative(x: Any) -> Any:
        known = [x]
        for _, step in steps:
            known.append(step(*known))
        return last(*known)

    return derivative


def derivative_task(name: str) -> Task:
    ours, theirs, expression = FUNCTIONS[name]
    x = np.linspace(-2, 2, POINTS)
    fast = sg.compile(lambda x: sg.func.taylor(ours, ORDER)(x)[ORDER] * math.factorial(ORDER))
    here = sg.compile(lambda x: x * 1, returns="tensor")(x)  # on the device, as the arguments of the others are
    in_jax = {
        "nested jax.jvp": functools.reduce(lambda f, _: along_ones(f), range(ORDER), theirs),
        "jax.experimental.jet": by_jet(theirs),
        "SymPy, CSE": by_sympy(expression),
        "recurrences by hand": lambda x: math.factorial(ORDER) * BY_RECURRENCE[name](x, ORDER)[ORDER],
    }
    contenders, contexts = _in_jax(in_jax, (x,), x64=True)
    first = {"nested jax.jvp": contenders.pop("nested jax.jvp")}
    run = lambda: jax.block_until_ready(storage_of(fast(here)))
    return Task(
        f"derivative of order {ORDER} of {name}, {POINTS:,} points", {**first, "symgrad": run, **contenders}, unit="ms", rtol=1e-6,
        targets={"nested jax.jvp": GOALS[name]}, contexts=contexts,
    )  # fmt: skip


def _in_jax(functions: dict[str, Callable[..., Any]], args: tuple[Any, ...], x64: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the functions under jax.jit on these arguments, and the contexts that they run in."""
    context = functools.partial(jax.enable_x64, True) if x64 else contextlib.nullcontext
    with context():
        there = tuple(jnp.asarray(a) for a in args)
    runs = {name: functools.partial(_run, jax.jit(f), there) for name, f in functions.items()}
    return runs, dict.fromkeys(runs, context)


def _run(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return jax.block_until_ready(f(*args))


def laplacian_task(d: int) -> Task:
    """The Laplacian of a tanh network of four layers at 64 points, as a physics-informed network computes it."""
    rng = np.random.default_rng(0)
    sizes = [d, WIDTH, WIDTH, WIDTH, 1]
    layers = [(rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32) for s in itertools.pairwise(sizes)]
    x = rng.standard_normal((BATCH, d)).astype(np.float32)
    ours = [sg.tensor(w) for w in layers]

    def theirs(x: Any) -> Any:
        return through(layers, jnp.tanh, x)

    fast, here = sg.compile(sg.func.vmap(sg.func.laplacian(lambda x: through(ours, sg.tanh, x)))), sg.tensor(x)
    in_jax = {
        "forward Laplacian by hand": functools.partial(forward_laplacian, layers),
        "nested jax.jvp": jax.vmap(lambda x: jax.vmap(functools.partial(_second_along, theirs, x))(jnp.eye(d, dtype=x.dtype)).sum()),
        "trace of jax.hessian": jax.vmap(lambda x: jnp.trace(jax.hessian(theirs)(x))),
    }
    with contextlib.suppress(ImportError):  # it is measured where it is installed
        import folx

        in_jax["folx"] = jax.vmap(lambda x: folx.forward_laplacian(theirs, 0)(x).laplacian)
    contenders, _ = _in_jax(in_jax, (x,))
    return Task(
        f"Laplacian of a tanh network in {d} dimensions, {BATCH} points", {"symgrad": lambda: fast(here).numpy(), **contenders}, unit="ms",
        rtol=2e-3, targets={"forward Laplacian by hand": 1.0},
    )  # fmt: skip


def through(layers: Any, tanh: Callable[[Any], Any], x: Any) -> Any:
    """The sum of the outputs of a network."""
    for w in layers[:-1]:
        x = tanh(x @ w)
    return (x @ layers[-1]).sum()


def _second_along(f: Callable[[Any], Any], x: Any, v: Any) -> Any:
    return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]


def forward_laplacian(layers: Any, x: Any) -> Any:
    """The value, its derivatives and the sum of the second ones, carried through the layers."""
    first, *rest = layers
    y, slopes, total = x @ first, jnp.broadcast_to(first, (len(x), *first.shape)), 0.0
    for w in rest:
        t = jnp.tanh(y)
        s = 1 - t * t
        total = s * total - 2 * t * s * (slopes * slopes).sum(1)
        y, slopes, total = t @ w, (slopes * s[:, None]) @ w, total @ w
    return total.sum(-1)


def saddle_task() -> Task:
    """Descent to a saddle point: the outer descent differentiates the inner one, forwards, through a loop of unknown length."""

    def saddle(start: Any, loop: Any, slope: Any) -> Any:
        def minimum(f: Any, x: Any) -> Any:
            return loop(lambda x: (slope(f)(x) ** 2).sum() > 1e-12, lambda x: x - 0.2 * slope(f)(x), x)

        def f(x: Any, y: Any) -> Any:
            return ((x - 0.5) ** 2).sum() - ((y - x) ** 2).sum() * (1 + y[0] ** 2)

        return minimum(lambda x: f(x, minimum(lambda y: -f(x, y), start)), start)

    start = np.array([0.3, -0.2])
    fast, here = sg.compile(lambda x: saddle(x, sg.while_loop, sg.func.jacfwd)), sg.tensor(start)
    contenders, contexts = _in_jax({"jax.jit": lambda x: saddle(x, jax.lax.while_loop, jax.jacfwd)}, (start,), x64=True)
    return Task("saddle point by nested descent", {"symgrad": lambda: fast(here).numpy(), **contenders}, rtol=1e-5, contexts=contexts)


def tasks() -> Iterator[Task]:
    yield from map(derivative_task, FUNCTIONS)
    yield from map(laplacian_task, (10, 100))
    yield saddle_task()
