"""scan, while_loop, fori_loop and cond: eager, compiled and JAX's own agree, with their derivatives."""

from collections import namedtuple

import numpy as np
import pytest
from doubles import close, gradients, tensor

import symgrad as sg
from symgrad.compiler.ir.control_flow import CONTROL
from symgrad.compiler.ir.graph import Graph, walk

F = sg.float64
State = namedtuple("State", "h count")


# what is tested: a function of symgrad's, the same in JAX, and its arguments


def rnn(h0, xs, w):
    h, ys = sg.scan(lambda h, x: (lambda new: (new, (new * x).sum()))(sg.tanh(h @ w + x)), h0, xs)
    return (h * h).sum() + (ys * ys).sum()


def rnn_jax(jax, jnp, h0, xs, w):
    h, ys = jax.lax.scan(lambda h, x: (lambda new: (new, (new * x).sum()))(jnp.tanh(h @ w + x)), h0, xs)
    return (h * h).sum() + (ys * ys).sum()


def backwards(h0, xs, w):
    (a, b), ys = sg.scan(lambda c, x: ((c[0] * x["u"] + c[1], c[1].sin()), {"y": c[0] * w}), (h0, h0 * 2), {"u": xs}, reverse=True)
    return (a * b).sum() + (ys["y"] * xs).sum()


def backwards_jax(jax, jnp, h0, xs, w):
    def step(c, x):
        return (c[0] * x["u"] + c[1], jnp.sin(c[1])), {"y": c[0] * w}

    (a, b), ys = jax.lax.scan(step, (h0, h0 * 2), {"u": xs}, reverse=True)
    return (a * b).sum() + (ys["y"] * xs).sum()


def nested(h0, xs, w):
    def outer(c, x):
        inner, ys = sg.scan(lambda d, z: (d * z.cos() + w, d.sum()), c, sg.stack([x, x * 2]))
        chosen = sg.cond(inner.sum() > 0, lambda v: v.sin(), lambda v: v * v, inner)
        return chosen, ys.sum()

    last, ys = sg.scan(outer, h0, xs)
    return last.sum() + (ys * ys).sum()


def nested_jax(jax, jnp, h0, xs, w):
    def outer(c, x):
        inner, ys = jax.lax.scan(lambda d, z: (d * jnp.cos(z) + w, d.sum()), c, jnp.stack([x, x * 2]))
        chosen = jax.lax.cond(inner.sum() > 0, lambda v: jnp.sin(v), lambda v: v * v, inner)
        return chosen, ys.sum()

    last, ys = jax.lax.scan(outer, h0, xs)
    return last.sum() + (ys * ys).sum()


def branch(h0, xs, w):
    return sg.cond(h0.sum() > xs.sum(), lambda a, b: (a * b).sum() * w.sum(), lambda a, b: (a / (2 + b.cos())).sum(), h0, w)


def branch_jax(jax, jnp, h0, xs, w):
    return jax.lax.cond(h0.sum() > xs.sum(), lambda: (h0 * w).sum() * w.sum(), lambda: (h0 / (2 + jnp.cos(w))).sum())


def counted(h0, xs, w):
    return sg.fori_loop(1, 4, lambda i, c: c * xs[i].sin() + i * w, h0).sum()


def counted_jax(jax, jnp, h0, xs, w):
    return jax.lax.fori_loop(1, 4, lambda i, c: c * jnp.sin(xs[i]) + i * w, h0).sum()


CASES = {
    "rnn": (rnn, rnn_jax, (3, 3)), "backwards": (backwards, backwards_jax, (3,)), "nested": (nested, nested_jax, (3,)),
    "branch": (branch, branch_jax, (3,)), "counted": (counted, counted_jax, (3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_eager_compiled_and_jax_agree(name):
    import jax
    import jax.numpy as jnp

    f, in_jax, shape = CASES[name]
    args = [tensor(3), tensor(4, 3, seed=1), tensor(*shape, seed=2)]
    arrays = [a.detach().numpy() for a in args]
    compiled = sg.compile(f)
    directions = [np.random.default_rng(7 + i).normal(size=a.shape) for i, a in enumerate(arrays)]
    with jax.enable_x64(True):
        function = lambda *xs: in_jax(jax, jnp, *xs)
        value, slopes = jax.jit(jax.value_and_grad(function, (0, 1, 2)))(*arrays)
        slopes, curve = jax.jit(lambda xs, vs: jax.jvp(jax.grad(function, (0, 1, 2)), xs, vs))(tuple(arrays), tuple(directions))
    close(f(*args), value)
    close(compiled(*args), value)
    for found, again, expected in zip(gradients(f, args), gradients(compiled, args), slopes, strict=True):
        close(found, expected)
        close(again, expected)
    seeds = [sg.tensor(v, dtype=F) for v in directions]
    along = compiled.jvp(*args)(*seeds)
    close(along, sum((np.asarray(g) * v).sum() for g, v in zip(slopes, directions, strict=True)))
    for found, expected in zip(compiled.hvp(*args, v=tuple(seeds)), curve, strict=True):
        close(found, expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_that_depends_on_nothing(sign):
    f = lambda x, w: (sg.cond(x.sum() > 0, lambda: x * w, lambda: sg.ones(3, dtype=F)) * w).sum()
    x, w = sg.tensor([1.0, 2.0, -0.5], dtype=F) * sign, tensor(3)
    x = x.detach().requires_grad_()
    compiled = sg.compile(f)
    expected = gradients(f, (x, w))
    for found, one in zip(gradients(compiled, (x, w)), expected, strict=True):
        close(found, one)
    close(compiled.jvp(x, w)(w.detach(), x.detach()), (expected[0] * w + expected[1] * x).sum())


@pytest.mark.parametrize("name", CASES)
def test_a_loop_is_one_value_of_the_graph(name):
    f, _, shape = CASES[name]
    compiled = sg.compile(f)
    compiled(tensor(3), tensor(4, 3, seed=1), tensor(*shape, seed=2))
    graph = compiled.graph()
    assert sum(v.op in CONTROL for v in graph.values) == 1
    assert Graph.parse(str(graph)) == graph


# while_loop


def grown(x, w):
    last, steps = sg.while_loop(lambda c: c[0].sum() < 50, lambda c: (c[0] * w.exp() + 1, c[1] + 1), (x, 0), max_steps=40)
    return (last * last).sum() * steps


def test_a_while_loop_with_max_steps_is_differentiated_in_reverse():
    x, w = tensor(3), tensor(3, seed=1)
    compiled = sg.compile(grown)
    close(compiled(x, w), grown(x, w))
    for found, expected in zip(gradients(compiled, (x, w)), gradients(grown, (x, w)), strict=True):
        close(found, expected)
    a, b = tensor(3, seed=5, grad=False), tensor(3, seed=6, grad=False)
    along = compiled.jvp(x, w)(a, b)
    close(along, (compiled.grad(x, w)[0] * a).sum() + (compiled.grad(x, w)[1] * b).sum())
    eager = sg.func.jvp(lambda x, w: sum(sg.func.grad(grown, argnums=(0, 1))(x, w)), (x, w), (a, b))[1]
    close(sum(compiled.hvp(x, w, v=(a, b))), eager)


def test_a_while_loop_without_max_steps_is_differentiated_forwards():
    def f(x):
        return sg.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + c.sin(), x).sum()

    x, v = tensor(3), tensor(3, seed=1, grad=False)
    compiled = sg.compile(f)
    close(compiled(x), f(x))
    along = compiled.jvp(x)(v)
    close(along, (gradients(f, [x])[0] * v).sum())
    with pytest.raises(sg.errors.GraphError, match=r"pass max_steps=.*scan or fori_loop.*jvp"):
        compiled(x).backward()


def test_max_steps_ends_a_loop():
    f = lambda x: sg.while_loop(lambda c: c < 100, lambda c: c + 1, x, max_steps=3)
    assert f(sg.tensor(0)).item() == sg.compile(f)(sg.tensor(0)).item() == 3
    assert f(sg.tensor(99)).item() == sg.compile(f)(sg.tensor(99)).item() == 100
    f = lambda x: sg.while_loop(lambda c: True, lambda c: c + 1, x, max_steps=0)
    assert f(sg.tensor(5)).item() == sg.compile(f)(sg.tensor(5)).item() == 5


def test_a_while_loop_in_a_branch():
    def f(x):
        grow = lambda v: sg.while_loop(lambda c: c.sum() < 20, lambda c: c * 2, v, max_steps=10)
        return sg.cond(x.sum() > 0, grow, lambda v: -v, x).sum()

    compiled = sg.compile(f)
    for sign in (1, -1):
        x = sg.tensor(np.array([0.5, 0.25]) * sign, requires_grad=True)
        close(compiled(x), f(x))
        close(gradients(compiled, [x])[0], gradients(f, [x])[0])


def test_bounds_may_be_tensors():
    f = lambda n, x: sg.fori_loop(0, n, lambda i, c: c + x * i, x)
    compiled = sg.compile(f)
    for n in (0, 1, 5):
        close(compiled(sg.tensor(n), tensor(3, grad=False)), f(n, tensor(3, grad=False)))


# containers, types, lengths


def test_containers_keep_their_form():
    def f(x):
        step = lambda c, v: (State(c.h * v["a"], c.count + 1), {"y": [c.h, None], "n": (c.count,)})
        return sg.scan(step, State(x, 0), {"a": sg.stack([x, x + 1])})

    for g in (f, sg.compile(f)):
        carry, ys = g(tensor(3))
        assert isinstance(carry, State)
        assert carry.count.item() == 2
        assert carry.count.dtype == sg.int64
        assert ys["y"][0].shape == (2, 3)
        assert ys["y"][1] is None
        assert ys["n"][0].tolist() == [0, 1]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_no_steps(reverse):
    def f(h, xs, w):
        last, ys = sg.scan(lambda c, x: (c * w + x, (c.sum(), x)), h, xs, reverse=reverse)
        return last, ys

    args = tensor(3), tensor(0, 3), tensor(3, seed=2)
    for g in (f, sg.compile(f)):
        last, (sums, xs) = g(*args)
        close(last, args[0])
        assert (sums.shape, sums.dtype, xs.shape) == ((0,), F, (0, 3))
    loss = lambda h, xs, w: (f(h, xs, w)[0] * 2).sum()
    found = sg.compile(loss).grad(*args)
    close(found[0], np.full(3, 2.0))
    assert found[1].shape == (0, 3)
    close(found[2], np.zeros(3))


def test_a_length_without_xs():
    f = lambda x: sg.scan(lambda c, _: (c * 2, c), x, length=3)
    for g in (f, sg.compile(f)):
        last, ys = g(tensor(2))
        close(last, 8 * tensor(2))
        assert ys.shape == (3, 2)


@pytest.mark.parametrize("dtype", [sg.float16, sg.bfloat16, sg.float32, sg.complex64])
def test_number_types(dtype):
    x = sg.ones(3, dtype=dtype)
    f = lambda x: sg.scan(lambda c, v: (c * v + 1, c), x, sg.stack([x, x]))
    for found, expected in zip(sg.compile(f)(x), f(x), strict=True):
        assert found.dtype == expected.dtype == dtype
        assert found.tolist() == expected.tolist()


def test_constants_inside_a_body():
    def f(xs):
        return sg.scan(lambda c, x: (c + sg.tensor([1.0, 2.0, 3.0]) * sg.full((3,), 2.0) + x, sg.zeros(2)), sg.zeros(3), xs)

    xs = sg.ones(4, 3)
    for found, expected in zip(sg.compile(f)(xs), f(xs), strict=True):
        assert found.tolist() == expected.tolist()


def test_memory_of_the_body_itself_may_be_written_to():
    def f(xs):
        def step(c, x):
            c = c.clone()
            c[0] = x.sum()
            c += 1
            new = sg.zeros(3, dtype=F)
            new[1:] = c[:2]
            return new, c

        return sg.scan(step, xs[0], xs)

    xs = tensor(4, 3, grad=False)
    for found, expected in zip(sg.compile(f)(xs), f(xs), strict=True):
        close(found, expected)


def test_a_gradient_inside_a_body():
    def f(x, w):
        def step(c, _):
            slope = sg.func.grad(lambda v: ((v * w).sin()).sum())(c)
            return c - 0.1 * slope, None

        return (sg.scan(step, x, length=3)[0] ** 2).sum()

    x, w = tensor(3), tensor(3, seed=1)
    compiled = sg.compile(f)
    for found, expected in zip(gradients(compiled, (x, w)), gradients(f, (x, w)), strict=True):
        close(found, expected)


class Cube(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_a_function_of_ones_own_inside_a_body():
    f = lambda x, w: (sg.scan(lambda c, v: (Cube.apply(c * w).sin() + v, None), x[0], x)[0] ** 2).sum()
    x, w = tensor(4, 3), tensor(3, seed=1)
    compiled = sg.compile(f)
    expected = gradients(f, (x, w))
    for found, one in zip(gradients(compiled, (x, w)), expected, strict=True):
        close(found, one)
    along = compiled.jvp(x, w)(x.detach(), w.detach())
    close(along, (expected[0] * x).sum() + (expected[1] * w).sum())


def test_no_grad_around_and_inside():
    def f(x):
        with sg.no_grad():
            fixed, _ = sg.scan(lambda c, _: (c * 2, None), x, length=2)

        def step(c, _):
            with sg.no_grad():
                scale = c.sin()
            return c * scale, None

        return (sg.scan(step, x, length=2)[0] * fixed).sum()

    x = tensor(3)
    close(gradients(sg.compile(f), [x])[0], gradients(f, [x])[0])


def test_a_training_step_with_a_scan_inside():
    def made():
        sg.manual_seed(0)
        cell, head = sg.nn.Linear(5, 3), sg.nn.Linear(3, 1)
        optimizer = sg.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.05)

        def step(xs, y):
            optimizer.zero_grad()
            h, _ = sg.scan(lambda h, x: (cell(sg.cat([h, x])).tanh(), None), sg.zeros(3), xs)
            loss = ((head(h) - y) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step, [*cell.parameters(), *head.parameters()]

    eager, expected = made()
    step, found = made()
    step = sg.compile(step)
    for i in range(6):
        xs, y = sg.tensor(np.random.default_rng(i).normal(size=(7, 2)).astype("float32")), sg.ones(1)
        close(step(xs, y), eager(xs, y), 1e-5)
    for a, b in zip(found, expected, strict=True):
        close(a, b, 1e-5)


def test_a_long_recurrence():
    w = tensor(4, 4)
    with sg.no_grad():
        w *= 0.4
    f = lambda h0, xs: (lambda h, ys: (h * h).sum() + (ys * ys).mean())(*sg.scan(lambda h, x: ((n := sg.tanh(h @ w + x)), n.sum()), h0, xs))
    args = tensor(4), tensor(1000, 4, seed=1)
    compiled = sg.compile(f)
    expected = [*gradients(f, args), w.grad.clone()]
    w.grad = None
    for found, one in zip([*gradients(compiled, args), w.grad], expected, strict=True):
        close(found, one)
    assert len([*walk(compiled.graph())]) < 40


def test_numbers_that_change_from_call_to_call():
    traces = []

    def f(x, rate, start=0.5):
        traces.append(rate)

        def outer(c, v):
            inner, _ = sg.scan(lambda d, _: (d * rate + v.sum(), None), c, length=2)
            return sg.cond(inner > 0, lambda: inner * (rate + 1), lambda: inner), c * rate

        return sg.scan(outer, start, x)

    compiled = sg.compile(f)
    x = tensor(3, 2).float()
    for rate, start in ((0.5, 1.0), (0.25, 2.0), (-3.0, 0.1)):
        for found, expected in zip(compiled(x, rate, start=start), f(x, rate, start), strict=True):
            close(found, expected, 1e-5)
    assert len(traces) == 4


def test_a_module_inside_a_body_may_change():
    net = sg.nn.Sequential(sg.nn.Linear(2, 2))
    f = sg.compile(lambda x: sg.scan(lambda c, v: (net(c) + v, None), x[0], x)[0])
    x = sg.ones(3, 2)
    before = f(x)
    net.append(sg.nn.Tanh())
    expected = x[0]
    for v in x:
        expected = net(expected) + v
    close(f(x), expected, 1e-5)
    assert before.tolist() != expected.tolist()


def test_a_condition_of_pythons_is_no_branch():
    f = sg.compile(lambda x: sg.cond(x.ndim == 1, lambda: x * 2, lambda: x))
    close(f(tensor(3)), 2 * tensor(3))
    assert not any(v.op == "cond" for v in f.graph().values)
