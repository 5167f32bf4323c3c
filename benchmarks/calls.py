"""What a call costs: every form of arguments beside jax.jit, on functions that do next to nothing, and small models of science.

`symgrad` is a compiled function (XLA unless the title says otherwise). JAX's contenders of float64 run inside of `jax.enable_x64`, which is
entered once for all repetitions; ours is called outside of it, as users do.
"""

from __future__ import annotations

import inspect
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from harness import Task

import symgrad as sg
from symgrad.compiler.function.compiled import Compiled

COUNTS = (1, 10, 50)
GOAL = {"jax.jit": 1.3}
NOTE = """The cost of a call compared with `jax.jit`, for every form of arguments. Before there was one fast path
([decision 16](decisions/0016-fast-path.md)) a call took up to 16 times as long as with `jax.jit`, and derivatives without `wrt` more.

"""


def total(*xs):
    found = xs[0]
    for x in xs[1:]:
        found = found + x
    return found * 2


def with_parameters(count):
    """`total` with so many parameters that have names."""

    def function(*xs):
        return total(*xs)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(f"x{i}", kind) for i in range(count)])
    return function


def by_name(**xs):
    return total(*xs.values())


def of_dictionary(xs):
    return total(*xs.values())


def of_tree(tree):
    return total(*(x for pair in tree["pairs"] for x in pair), *tree["rest"].values())


def x64():
    return jax.enable_x64(True)


def on_devices(arrays):
    """The same numbers as tensors of ours and arrays of JAX's."""
    ours = sg.compile(lambda xs: [x * 1 for x in xs], returns="tensor")(list(arrays))
    return ours, [jnp.asarray(a) for a in arrays]


def host(count, dtype):
    return [np.full(4, i + 1, dtype) for i in range(count)]


def named(xs):
    return {f"x{i}": x for i, x in enumerate(xs)}


def on_the_device():
    for n in COUNTS:
        ours, theirs = on_devices(host(n, np.float32))
        yield beside(f"positional parameters on the device, {n}", with_parameters(n), lambda f, xs: lambda: f(*xs), ours, theirs)
        yield beside(f"dictionary on the device, {n}", of_dictionary, lambda f, xs: lambda: f(xs), named(ours), named(theirs))
        yield beside(f"*args on the device, {n}", total, lambda f, xs: lambda: f(*xs), ours, theirs)
        yield beside(f"keywords on the device, {n}", by_name, lambda f, xs: lambda: f(**xs), named(ours), named(theirs))
    ours, theirs = on_devices(host(10, np.float32))
    trees = [{"pairs": [(xs[0], xs[1]), (xs[2], xs[3])], "rest": named(xs[4:])} for xs in (ours, theirs)]
    yield beside("tree of 10 on the device", of_tree, lambda f, xs: lambda: f(xs), *trees)


def beside(title, function, call, ours, theirs, **how):
    """One function, called in one way by both."""
    return Task(title, {"jax.jit": call(jax.jit(function), theirs), "symgrad": call(sg.compile(function), ours)}, targets=GOAL, **how)


def of_numpy():
    def call(f, xs):
        return (lambda: f(*xs)) if isinstance(f, Compiled) else lambda: np.asarray(f(*xs))  # ours are NumPy's arrays

    for dtype, n in itertools.product((np.float32, np.float64), COUNTS):
        xs, wide = host(n, dtype), {"contexts": {"jax.jit": x64}} if dtype is np.float64 else {}
        yield beside(f"NumPy {np.dtype(dtype)} in and out, {n}", with_parameters(n), call, xs, xs, **wide)
    for n in COUNTS:
        mixed = [x if i % 2 == 0 else 0.5 + i for i, x in enumerate(host(n + 1, np.float64))]
        title = f"float64 arrays and Python floats, {n + 1} in turn"
        yield beside(title, with_parameters(n + 1), call, mixed, mixed, contexts={"jax.jit": x64})


def many_programs():
    """200 shapes in turn: each has a program of its own, and a call finds it."""
    fast, jitted = sg.compile(total), jax.jit(total)
    ours, theirs = zip(*(on_devices([np.ones(n + 1, np.float32)]) for n in range(200)), strict=True)
    for (a,), (b,) in zip(ours, theirs, strict=True):
        fast(a), jitted(b)
    one = {"jax.jit": lambda: jitted(*theirs[7]), "symgrad": lambda: fast(*ours[7])}
    yield Task("one of 200 programs, always the same", one, targets=GOAL)
    in_turn = {"jax.jit": lambda: [jitted(*xs) for xs in theirs], "symgrad": lambda: [fast(*xs) for xs in ours]}
    yield Task("200 programs in turn", in_turn, targets=GOAL, per=200)


def regression(x, w1, w2, y):
    return (((x @ w1).clip(0) @ w2 - y) ** 2).sum()


def gradients():
    rng = np.random.default_rng(0)
    data = [rng.normal(size=s).astype(np.float32) for s in ((8, 4), (4, 6), (6, 1), (8, 1))]
    ours, theirs = on_devices(data)
    jitted, fast = jax.jit(jax.value_and_grad(regression, (1, 2))), sg.compile(regression)
    for i in (1, 2):
        ours[i].requires_grad_()

    def flat(found):
        return found[0], *found[1]

    yield Task(
        "value_and_grad(x, w1, w2, y) in those that require grad",
        {"jax.jit": lambda: flat(jitted(*theirs)), "symgrad": lambda: flat(fast.value_and_grad(*ours))}, targets=GOAL,
    )  # fmt: skip
    yield Task(
        'value_and_grad(x, w1, w2, y, wrt=("w1", "w2"))',
        {"jax.jit": lambda: flat(jitted(*theirs)), "symgrad": lambda: flat(fast.value_and_grad(*ours, wrt=("w1", "w2")))}, targets=GOAL,
    )  # fmt: skip
    parameters, others = {"w1": data[1], "w2": data[2]}, (data[0], data[3])

    def of_parameters(p, x, y):
        return regression(x, p["w1"], p["w2"], y)

    jitted_of, fast_of = jax.jit(jax.value_and_grad(of_parameters)), sg.compile(of_parameters)
    others_here = on_devices(data)[0]
    here = {"w1": others_here[1], "w2": others_here[2]}, others_here[0], others_here[3]
    there = {"w1": theirs[1], "w2": theirs[2]}, theirs[0], theirs[3]

    def values(found):
        return found[0], *found[1].values()

    yield Task(
        'value_and_grad(parameters, x, y, wrt="p"), a dictionary',
        {"jax.jit": lambda: values(jitted_of(*there)), "symgrad": lambda: values(fast_of.value_and_grad(*here, wrt="p"))}, targets=GOAL,
    )  # fmt: skip
    wide = [{k: v.astype(np.float64) for k, v in parameters.items()}, *(a.astype(np.float64) for a in others)]
    fast_wide = sg.compile(of_parameters)
    yield Task(
        'value_and_grad(parameters, x, y, wrt="p"), NumPy float64 in and out',
        {
            "jax.jit": lambda: [np.asarray(a) for a in values(jitted_of(*wide))],
            "symgrad": lambda: values(fast_wide.value_and_grad(*wide, wrt="p")),
        },
        targets=GOAL, contexts={"jax.jit": x64},
    )  # fmt: skip


def pendulum(lib):
    """The right-hand side of a double pendulum of unit lengths and masses, as solvers call it."""

    def velocity(state, t):
        a, b, u, v = state[0], state[1], state[2], state[3]
        c, s = lib.cos(a - b), lib.sin(a - b)
        first = 9.81 * lib.sin(b) * c - s * (u * u * c + v * v) - 2 * 9.81 * lib.sin(a)
        second = 2 * (u * u * s - 9.81 * lib.sin(b) + 9.81 * lib.sin(a) * c) + v * v * s * c
        return lib.stack([u, v, first / (1 + s * s), second / (1 + s * s) + 0 * t])

    return velocity


def physics():
    state = np.array([1.0, 0.5, 0.1, -0.2])
    jitted, fast = jax.jit(pendulum(jnp)), sg.compile(pendulum(sg))
    yield Task(
        "double pendulum, (ndarray, float), in and out",
        {"jax.jit": lambda: np.asarray(jitted(state, 0.3)), "symgrad": lambda: fast(state, 0.3)},
        targets=GOAL, contexts={"jax.jit": x64},
    )  # fmt: skip


EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(lib):
    """The log posterior of Rubin's eight schools."""

    def log_posterior(mu, log_tau, theta):
        tau = lib.exp(log_tau)
        prior = -0.5 * (mu / 5) ** 2 - 0.5 * (tau / 5) ** 2 + log_tau
        groups = (-0.5 * ((theta - mu) / tau) ** 2 - log_tau).sum()
        return prior + groups + (-0.5 * ((EFFECTS - theta) / ERRORS) ** 2).sum()

    return log_posterior


def posteriors():
    """A sampler's call: value and gradients of a small log posterior, with tensors on the host, and as arrays."""
    point = [np.asarray(1.5), np.asarray(0.7), np.linspace(-3, 12, 8)]
    jitted = jax.jit(jax.value_and_grad(eight_schools(jnp), (0, 1, 2)))
    ways = {backend: sg.compile(eight_schools(sg), backend=backend) for backend in ("xla", "numpy", "auto")}
    tensors = [sg.tensor(a) for a in point]

    def ours(fast, given):
        def run():
            value, found = fast.value_and_grad(*given, wrt=(0, 1, 2))
            return (value, *found) if given is point else [x.numpy() for x in (value, *found)]

        for _ in range(50):  # "auto" decides
            run()
        return run

    def theirs():
        value, found = jitted(*point)
        return [np.asarray(x) for x in (value, *found)]

    for words, given in (("host tensors", tensors), ("arrays", point)):
        yield Task(
            f"log posterior of eight schools, {words}", {"jax.jit": theirs, "symgrad": ours(ways["xla"], given)}, targets=GOAL, rtol=1e-9,
            contexts={"jax.jit": x64},
        )  # fmt: skip
        yield Task(
            f'the same, backend="auto", {words}',
            {"numpy": ours(ways["numpy"], given), "xla": ours(ways["xla"], given), "symgrad": ours(ways["auto"], given)},
            targets={"numpy": 1.05, "xla": 1.05}, rtol=1e-9,
        )  # fmt: skip


def gamma_regression(lib, lgamma):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    y = rng.gamma(3.0, np.exp(x @ [0.5, 0.3, -0.2]) / 3.0)

    def loss(p):
        shape = lib.exp(p[3])
        rate = shape * lib.exp(-(x @ p[:3]))
        return -(shape * lib.log(rate) + (shape - 1) * np.log(y) - rate * y - lgamma(shape)).sum()

    return loss


def optimizers():
    by_numbers, ours = gamma_regression(np, lambda z: math.lgamma(float(z))), gamma_regression(sg, sg.lgamma)
    start = np.zeros(4)
    compiled = sg.compile(gamma_regression(sg, sg.lgamma))
    contenders = {
        "SciPy with numerical gradients": lambda: scipy.optimize.minimize(by_numbers, start, method="BFGS", tol=1e-4).x,
        "symgrad": lambda: sg.optimize.minimize(ours, start, method="BFGS", tol=1e-4).x,
        "symgrad of a compiled function": lambda: sg.optimize.minimize(compiled, start, method="BFGS", tol=1e-4).x,
    }
    targets = {"SciPy with numerical gradients": 1}
    yield Task("gamma regression, 200 x 3, minimize by BFGS", contenders, unit="ms", rtol=1e-3, targets=targets)


def frames(lib, x, y):
    """An orthonormal frame of two vectors, as robot kinematics makes it."""
    a, b, c = lib.unbind(x)
    first = x / (a * a + b * b + c * c) ** 0.5
    third = lib.linalg.cross(first, y)
    return lib.linalg.cross(third / (third**2).sum() ** 0.5, first)


def frames_by_hand(x, y):
    first = x / np.sqrt((x * x).sum(-1, keepdims=True))
    third = np.cross(first, y)
    return np.cross(third / np.sqrt((third * third).sum(-1, keepdims=True)), first)


def batches():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(1000, 3)) for _ in range(2))
    fast = sg.compile(sg.vmap(lambda x, y: frames(sg, x, y)), backend="numpy")
    yield Task(
        "vmap of cross and unbind over 1000, NumPy back end",
        {"numpy by hand": lambda: frames_by_hand(x, y), "symgrad": lambda: np.asarray(fast(x, y))}, targets={"numpy by hand": 1.3},
    )  # fmt: skip


def tasks():
    yield from on_the_device()
    yield from of_numpy()
    yield from many_programs()
    yield from gradients()
    yield from physics()
    yield from posteriors()
    yield from optimizers()
    yield from batches()
