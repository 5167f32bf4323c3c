"""The same programs under PyTorch and under symgrad: what they print, and the errors they raise, must be equal."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


class Report(list):
    """Lines that a program shows; an error counts as a line."""

    def show(self, *values):
        self.append(" ".join(repr(v) if isinstance(v, (str, tuple)) else str(v) for v in values))

    def attempt(self, call):
        try:
            self.show(call())
        except Exception as error:
            self.show(type(error).__name__, str(error))


def run(program):
    reports = []
    for lib in (torch, sg):
        report = Report()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            program(lib, report.show, report.attempt)
        for warning in seen:
            if warning.category is not UserWarning:
                continue
            report.show("warning", warning.category.__name__, str(warning.message).split("(Triggered")[0].strip()[:60])
        reports.append(report)
    assert reports[1] == reports[0]


def hooks(lib, show, attempt):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    end = y.grad_fn.next_functions[0][0]
    show(y.grad_fn.name(), end.name(), end.next_functions, y.grad_fn.metadata, y.grad_fn.next_functions[1])
    end.register_prehook(lambda gs: show("end before", gs))
    end.register_hook(lambda gi, go: show("end after", gi, go))
    x.register_hook(lambda g: show("x", g))
    x.register_post_accumulate_grad_hook(lambda t: show("accumulated", t.grad))
    y.register_hook(lambda g: show("y first", g))
    y.grad_fn.register_prehook(lambda gs: show("node before", gs))
    y.grad_fn.register_hook(lambda gi, go: show("node after", gi, go))
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    z = y.sin()
    z.register_hook(lambda g: show("z", g))
    (z + y).sum().backward()
    show(y.grad, x.grad, y.retains_grad, x.retains_grad, z.retains_grad)
    for wrong in (lambda g: g.double(), lambda g: g[:1]):
        t = x * 2
        t.register_hook(wrong)
        attempt(lambda t=t: t.sum().backward())
    attempt(lambda: y.register_post_accumulate_grad_hook(print))
    attempt(lambda: lib.tensor([1.0]).register_hook(print))
    attempt(lambda: lib.tensor([1.0]).retain_grad())


def order_of_nodes(lib, show, attempt):
    x = lib.tensor(3.0, requires_grad=True)
    w = lib.tensor(2.0, requires_grad=True)
    x.register_hook(lambda g: show("x", g))
    w.register_hook(lambda g: show("w", g))
    a, b = x - 1, x * w
    c, d = b.sin(), a * b
    for name, t in (("a", a), ("b", b), ("c", c), ("d", d)):
        t.register_hook(lambda g, name=name: show(name, g))
    (c * d + w).backward()


def functions(lib, show, attempt):
    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c):
            ctx.save_for_backward(a, b)
            ctx.c = c
            return a * b * c

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            show(ctx.needs_input_grad)
            return g * b * ctx.c, g * a * ctx.c, None

    a, b = (lib.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
    y = Scale.apply(a, b, 2.0)
    show(y, y.grad_fn.c, y.grad_fn.saved_tensors, y.grad_fn.name(), len(y.grad_fn.next_functions))
    (g,) = lib.autograd.grad(y.sum(), a, create_graph=True)
    show(g)
    show(lib.autograd.grad((g * g).sum(), b))
    with lib.no_grad():
        show(Scale.apply(a, b, 2.0))


def wrong_gradients(lib, show, attempt):
    a = lib.tensor([1.0, 2.0], requires_grad=True)

    def call(result):
        class Bad(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a * b

            @staticmethod
            def backward(ctx, g):
                return result(g)

        a.grad = None
        Bad.apply(a, 2.0).sum().backward()
        return a.grad

    wide, long = lib.tensor([[1.0, 1], [2, 2], [3, 3]]), lib.tensor([1.0, 1.0, 1.0])
    for result in (
        lambda g: (g, g, g), lambda g: (g, g), lambda g: (g, None, None), lambda g: (long, None), lambda g: (1.0, None),
        lambda g: (wide, None), lambda g: [g, None], lambda g: None, lambda g: (None, None), lambda g: (g.double(), None),
    ):  # fmt: skip
        attempt(lambda result=result: call(result))


def function_outputs(lib, show, attempt):
    a = lib.tensor([1.0, 2.0], requires_grad=True)

    class Several(lib.autograd.Function):
        @staticmethod
        def forward(a, extra):
            return a * 2, a * 3, lib.tensor([1, 2]), extra

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.extra = inputs[1]

        @staticmethod
        def backward(ctx, *gs):
            show(gs, ctx.extra)
            return gs[0] * 2 + gs[1] * 3, None

    p, q, integers, extra = Several.apply(a, 7)
    show(p, q, integers, extra)
    q.sum().backward()
    show(a.grad)

    class Dirty(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            a.mul_(2)
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 2

    z = a * 1
    show(Dirty.apply(z) is z, z)
    attempt(lambda: Dirty.apply(lib.tensor([1.0], requires_grad=True)))

    class Saver(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            out = a.exp()
            ctx.save_for_backward(out)
            ctx.set_materialize_grads(False)
            return out, a * 2

        @staticmethod
        def backward(ctx, g, h):
            show(g, h)
            return g * ctx.saved_tensors[0]

    y, _ = Saver.apply(a)
    (g,) = lib.autograd.grad(y.sum(), a, create_graph=True)
    show(g, lib.autograd.grad(g.sum(), a))
    y, _ = Saver.apply(a)
    y.sum().backward()
    attempt(lambda: y.sum().backward())
    attempt(lambda: lib.autograd.Function.apply(a))


def errors(lib, show, attempt):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    t, grad = lib.tensor, lib.autograd.grad
    attempt(lambda: (x * 2).backward())
    attempt(lambda: t(1.0).backward())
    attempt(lambda: (x * 2).backward(t([[1.0], [1.0]])))
    attempt(lambda: (x * 2).backward([1]))
    attempt(lambda: x.sum().backward(inputs=[]))
    attempt(lambda: grad(x * 2, x))
    attempt(lambda: grad(x * 2, x, t([1.0])))
    attempt(lambda: grad(x.sum(), t([1.0], requires_grad=True)))
    attempt(lambda: grad(x.sum(), [x, t([1.0], requires_grad=True)], materialize_grads=True))
    attempt(lambda: grad(x.sum(), x, materialize_grads=True, allow_unused=False))
    attempt(lambda: grad(x.sum(), [x, t([1.0], requires_grad=True)], allow_unused=True))
    attempt(lambda: grad(x.sum(), t([1.0])))
    attempt(lambda: grad(x.sum(), []))
    attempt(lambda: grad(t(1.0), x))
    attempt(lambda: grad(x * 2, x, t([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True))
    attempt(lambda: lib.autograd.backward([x * 2, x * 3], [t([1.0, 1.0])]))
    y = (x * x).sum()
    y.backward()
    attempt(y.backward)
    w = t([1.0, 2.0])
    z = (x * w).sum()
    w.mul_(2)
    w.mul_(2)
    attempt(z.backward)
    show(x.grad, w._version)
    attempt(lambda: setattr(x, "grad", t([1.0])))
    attempt(lambda: setattr(x, "grad", 3))
    attempt(lambda: (x * 2).grad)


def anomaly(lib, show, attempt):
    x = lib.tensor([-1.0, 2.0], requires_grad=True)
    with lib.autograd.detect_anomaly():
        y = x.sqrt().sum()
        attempt(y.backward)
    with lib.autograd.set_detect_anomaly(True, check_nan=False):
        x.sqrt().sum().backward()
    show(x.grad, lib.is_grad_enabled())


def modes(lib, show, attempt):
    x = lib.tensor([1.0], requires_grad=True)

    @lib.no_grad()
    def steps():
        got = yield (x * 2).requires_grad
        yield got, lib.is_grad_enabled()

    generator = steps()
    show(next(generator), lib.is_grad_enabled(), generator.send(4), lib.is_grad_enabled())
    with lib.inference_mode():
        show(lib.is_grad_enabled(), lib.is_inference_mode_enabled(), (x * 2).requires_grad)
        with lib.inference_mode(False):
            show(lib.is_grad_enabled(), lib.is_inference_mode_enabled())
    with lib.no_grad(), lib.inference_mode(False):
        show(lib.is_grad_enabled())
    with lib.no_grad(), lib.set_grad_enabled(True):
        show((x * 2).requires_grad)
    f = lib.set_grad_enabled(False)(lambda: lib.is_grad_enabled())
    show(lib.is_grad_enabled(), f(), lib.no_grad(lib.is_grad_enabled)(), lib.is_grad_enabled())
    lib.set_grad_enabled(False)
    show(lib.is_grad_enabled())
    lib.set_grad_enabled(True)


def transforms(lib, show, attempt):
    f = lib.func
    x, m = lib.tensor([1.0, 2.0]), lib.tensor([[0.0, 1, 2], [3, 4, 5]])
    for call in (
        lambda: f.grad(lambda x: x.sin())(x), lambda: f.grad(lambda x: 3.0)(x), lambda: f.grad(lambda x: (x.sum(), 1))(x),
        lambda: f.grad(lambda x: x.sum(), has_aux=True)(x), lambda: f.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x),
        lambda: f.grad(lambda x: x.sum(), argnums=2)(x), lambda: f.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": [x]}),
        lambda: f.grad(lambda x: x)("1"), lambda: f.grad(lambda x: x.sum())(lib.tensor([1, 2])),
        lambda: f.vjp(lambda x: x.sin(), x)[1](x), lambda: f.vjp(lambda x, y: (x * y, x + y), x, x)[1]((x, x)),
        lambda: f.vjp(lambda x: x * 2, x)[1](m), lambda: f.jvp(lambda x: x.sin(), (x,), (x,)),
        lambda: f.jvp(lambda x: x.sin(), x, x), lambda: f.jvp(lambda x: x.sin(), (x,), (m,)),
        lambda: f.jacrev(lambda x: x * x.sum())(x), lambda: f.jacfwd(lambda x: (x * x.sum(), (x * x).sum()))(x),
        lambda: f.jacrev(lambda x, y: (x * y, (x * y).sum()), argnums=(0, 1))(x, x), lambda: f.hessian(lambda x: (x**3).sum())(x),
        lambda: f.hessian(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x), lambda: f.grad(f.grad(lambda t: t**3))(x[0]),
        lambda: f.vmap(lambda r: r.sum(), in_dims=1)(m), lambda: f.vmap(lambda r: (r * 2, r.sum()), out_dims=(1, 0))(m),
        lambda: f.vmap(lambda r, s: r * s, in_dims=(0, None))(m, m[0]), lambda: f.vmap(lambda x, y: x)(x, lib.tensor([1.0, 2, 3])),
        lambda: f.vmap(lambda x: x, in_dims=2)(m), lambda: f.vmap(lambda x: 3)(m), lambda: f.vmap(lambda x: x)(3),
        lambda: f.vmap(lambda x: x)(), lambda: f.vmap(f.vmap(lambda x: x * 2))(m), lambda: f.vmap(f.grad(lambda r: (r**3).sum()))(m),
        lambda: f.vmap(lambda x: x, in_dims=None)(m), lambda: f.vmap(lambda x: x + lib.rand(3))(m),
    ):  # fmt: skip
        attempt(call)


def forward_derivatives(lib, show, attempt):
    """A hook that is not linear: forward derivatives do not call it."""

    def clipped(x):
        h = x * x
        if h.requires_grad:
            h.register_hook(lambda g: g.clamp(-1, 1) * 2)
        return (h * h).sum()

    f, functional, x, v = lib.func, lib.autograd.functional, lib.tensor([0.25, 2.0, -0.5]), lib.tensor([1.0, -2.0, 3.0])
    for call in (
        lambda: f.grad(clipped)(x), lambda: f.jacrev(clipped)(x), lambda: f.jvp(clipped, (x,), (v,)), lambda: f.jacfwd(clipped)(x),
        lambda: f.jvp(f.grad(clipped), (x,), (v,)), lambda: f.jacfwd(f.grad(clipped))(x), lambda: f.hessian(clipped)(x),
        lambda: functional.jacobian(clipped, x), lambda: functional.jacobian(clipped, x, strategy="forward-mode", vectorize=True),
        lambda: functional.hessian(clipped, x), lambda: functional.vhp(clipped, x, v), lambda: functional.jvp(clipped, x, v),
    ):  # fmt: skip
        attempt(call)


def functional(lib, show, attempt):
    f = lib.autograd.functional
    x = lib.tensor([1.0, 2.0])
    for call in (
        lambda: f.jacobian(lambda x: x**2, x), lambda: f.jacobian(lambda x, y: (x**2, x * y), (x, x)),
        lambda: f.hessian(lambda x: (x**3).sum(), x), lambda: f.hessian(lambda x, y: (x * y).sum(), (x, x)),
        lambda: f.vjp(lambda x: x**2, x, x), lambda: f.vjp(lambda x: (x**2).sum(), x), lambda: f.vjp(lambda x: x**2, x),
        lambda: f.jvp(lambda x: x**2, x, x), lambda: f.jvp(lambda x: x**2, x), lambda: f.vhp(lambda x: (x**3).sum(), x, x),
        lambda: f.hvp(lambda x: (x**3).sum(), x, x), lambda: f.hvp(lambda x: x**3, x, x),
        lambda: f.jacobian(lambda x: lib.tensor([1.0]), x, strict=True), lambda: f.vjp(lambda x: x, x, lib.tensor([1.0])),
    ):  # fmt: skip
        attempt(call)


def comparisons(lib, show, attempt):
    close = lib.testing.assert_close
    t = lib.tensor
    nan = float("nan")
    for actual, expected, options in (
        (t([1.0, 2.0]), t([1.0, 2.1]), {}), (t(1.0), t(2.0), {}), (1.0, 2.0, {}), (t([1.0]), t([1.0]).double(), {}),
        (t([1.0]), t([1.0, 2.0]), {}), ([t(1.0), t(2.0)], [t(1.0), t(3.0)], {}), ({"a": t(1.0)}, {"a": t(3.0)}, {}),
        ({"a": t(1.0)}, {"b": t(3.0)}, {}), ([t(1.0)], [t(3.0), t(1.0)], {}), (t(nan), t(nan), {}),
        (t(nan), t(nan), {"equal_nan": True}), (t([1, 2]), t([1, 3]), {}), (t([1.0]), t([3.0]), {"rtol": 0.0}),
        (t([1.0]), t([3.0]), {"rtol": 0.0, "atol": 1.0}), ("a", "b", {}), (t([1.0]), t([3.0]), {"msg": "mine"}),
        (t([[1.0, 2], [3, 4]]), t([[1.0, 2], [4, 7]]), {}), (t([1.0, nan]), t([1.0, 2.0]), {}),
    ):  # fmt: skip
        attempt(lambda a=actual, e=expected, o=options: close(a, e, **o))


@pytest.mark.parametrize(
    "program",
    [
        hooks,
        order_of_nodes,
        functions,
        wrong_gradients,
        function_outputs,
        errors,
        anomaly,
        modes,
        transforms,
        forward_derivatives,
        functional,
        comparisons,
    ],
    ids=lambda program: program.__name__,
)
def test_the_same_lines(program):
    run(program)


OPS = {
    "add": lambda lib, a, b: a + b,
    "sub": lambda lib, a, b: a - b,
    "mul": lambda lib, a, b: a * b,
    "div": lambda lib, a, b: a / (b * b + 1),
    "scale": lambda lib, a, b: 0.5 * a + 1,
    "tanh": lambda lib, a, b: a.tanh(),
    "sin": lambda lib, a, b: a.sin(),
    "exp": lambda lib, a, b: (a * 0.1).exp(),
    "square": lambda lib, a, b: a**2 * 0.3,
    "where": lambda lib, a, b: lib.where(a > b, a, b * 2),
    "matmul": lambda lib, a, b: a @ b * 0.2,
    "transpose": lambda lib, a, b: a.t() + b,
    "reshape": lambda lib, a, b: (a.reshape(9) * 2).reshape(3, 3),
    "row": lambda lib, a, b: a[1] + b,
    "column": lambda lib, a, b: a * b[:, :1],
    "sum": lambda lib, a, b: a + b.sum(0),
    "mean": lambda lib, a, b: a * b.mean(1, keepdim=True),
    "stack": lambda lib, a, b: lib.stack([a, b, a]).sum(0) * 0.3,
    "cat": lambda lib, a, b: lib.cat([a, b])[2:5],
    "unbind": lambda lib, a, b: lib.stack([a.unbind(0)[2], b.unbind(0)[0], a.unbind(0)[2] * 2]),
    "clone": lambda lib, a, b: a.clone(),
    "detach": lambda lib, a, b: a + b.detach(),
}
WRITES = {
    "mul_": lambda t, s: t.mul_(0.5),
    "add_": lambda t, s: t.add_(s),
    "row_": lambda t, s: t[0].mul_(2),
    "set_": lambda t, s: t.__setitem__((slice(None), 1), s[0] * 0.5),
    "view_": lambda t, s: t.t().add_(s),
}


def random_program(seed):
    """A list of steps: (op, left, right) on earlier values; a write changes a copy of an earlier value."""
    rng = random.Random(seed)
    steps = []
    for i in range(rng.randint(5, 25)):
        pick = [max(0, 2 + i - rng.randint(1, 5)) for _ in range(2)]
        steps.append((rng.choice([*OPS, *WRITES]), *pick))
    return steps, [rng.randrange(2 + len(steps)) for _ in range(3)]


def execute(lib, steps, chosen, arrays):
    """Gradients of a random program: by backward, by grad in inner tensors, and of second order."""
    leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
    values = list(leaves)
    for name, i, j in steps:
        if name in OPS:
            values.append(OPS[name](lib, values[i], values[j]))
        else:
            target = values[i].clone()
            WRITES[name](target, values[j].clone())
            values.append(target)
    weights = lib.tensor(arrays[0])
    loss = sum(((v * weights).sum() for v in values[2:]), start=lib.tensor(0.0, dtype=lib.float64))
    inner = [values[c] for c in chosen if values[c].requires_grad]
    grad = lib.autograd.grad
    first = grad(loss, [*leaves, *inner], create_graph=True, allow_unused=True)
    square = sum(((g * g).sum() for g in first if g is not None), start=lib.tensor(0.0, dtype=lib.float64))
    second = grad(square, leaves, retain_graph=True, allow_unused=True) if square.requires_grad else ()
    loss.backward()
    return [None if g is None else np.asarray(g.detach().numpy()) for g in (*first, *second, *(x.grad for x in leaves))]


@pytest.mark.parametrize("block", range(10))
def test_random_programs_have_the_same_gradients(block):
    for seed in range(block * 20, block * 20 + 20):
        rng = np.random.default_rng(seed)
        arrays = [rng.normal(size=(3, 3)) for _ in range(2)]
        steps, chosen = random_program(seed)
        theirs, ours = (execute(lib, steps, chosen, arrays) for lib in (torch, sg))
        for expected, found in zip(theirs, ours, strict=True):
            assert (expected is None) == (found is None), (seed, steps)
            if expected is not None:
                scale = max(np.abs(expected).max(), 1)
                np.testing.assert_allclose(found / scale, expected / scale, rtol=1e-9, atol=1e-10, err_msg=f"{seed} {steps}")
