"""Random numbers in the bodies of loops: drawn for all steps beforehand, the same numbers as a plain loop draws."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError

F = sg.nn.functional
XS = sg.tensor(np.random.default_rng(0).normal(size=(4, 3)))


def two_draws(c, x):
    noise = sg.randn(3, dtype=sg.float64)
    return c + x * noise, sg.rand(2, dtype=sg.float64) + c.sum()


def dropped(c, x):
    return F.dropout(c + x, 0.4), c


def written(c, x):
    y = x * 2
    y.normal_()
    return c + y, None


def nested(c, x):
    c, ys = sg.scan(lambda d, y: (d * 0.5 + sg.randn(3, dtype=sg.float64), sg.rand(2)), c, None, length=3)
    return c + sg.rand(3, dtype=sg.float64) * x, ys


def looped(x):
    return sg.fori_loop(2, 6, lambda i, c: c + i * sg.randint(0, 10, (3,)) * sg.randperm(3), x)


FUNCTIONS = {
    "scan": lambda x: sg.scan(two_draws, x, XS),
    "reverse": lambda x: sg.scan(two_draws, x, XS, reverse=True),
    "dropout": lambda x: sg.scan(dropped, x, XS),
    "written": lambda x: sg.scan(written, x, XS)[0],
    "nested": lambda x: sg.scan(nested, x, XS),
    "fori_loop": looped,
    "no steps": lambda x: sg.scan(two_draws, x, XS[:0]),
    "around": lambda x: (sg.rand(3) + sg.scan(two_draws, x, XS)[0]) * sg.randn(3),
}


def tensors(result):
    return [t for part in result for t in tensors(part)] if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_numbers_are_those_of_the_plain_loop(name):
    f, x = FUNCTIONS[name], XS[1].clone()
    fast = sg.compile(f, backend="numpy" if name != "reverse" else "xla")
    sg.manual_seed(5)
    found = [fast(x) for _ in range(3)]
    after = sg.rand(2)
    sg.manual_seed(5)
    for results in found:
        for a, b in zip(tensors(results), tensors(f(x)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6 if a.dtype == sg.float32 else 1e-12, atol=1e-12)
    assert after.tolist() == sg.rand(2).tolist()  # the generator is where the loop leaves it
    assert len(fast.recompiles()) == 1


def test_gradients_go_through_what_was_drawn():
    w = sg.tensor([0.5, 1.0, 2.0], dtype=sg.float64, requires_grad=True)
    f = lambda x: sg.scan(lambda c, x: (c * w * F.dropout(x, 0.5), None), x, XS)[0].sum()
    found = []
    for run in (f, sg.compile(f), sg.compile(f)):
        sg.manual_seed(2)
        for _ in range(2):
            w.grad = None
            run(XS[0]).backward()
        found.append(w.grad.numpy())
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-12)


BRANCHES = {
    "cond": lambda x: sg.cond(x.sum() > 0, lambda: x + sg.rand(3, dtype=sg.float64), lambda: x * sg.randn(3, dtype=sg.float64)),
    "one side": lambda x: sg.cond(x.sum() > 0, lambda y: y * 2, lambda y: y + sg.rand(3, dtype=sg.float64), x) + sg.rand(3),
    "while": lambda x: sg.while_loop(lambda c: c.sum() < 4, lambda c: c + sg.rand(3, dtype=sg.float64), x),
    "drawn after it": lambda x: sg.while_loop(lambda c: c.sum() < 4, lambda c: c + sg.rand(3, dtype=sg.float64), x) + sg.rand(3),
    "condition": lambda x: sg.while_loop(lambda c: sg.rand(()) < 0.8, lambda c: c * 1.5, x) + sg.rand(3),
    "both": lambda x: sg.while_loop(lambda c: sg.rand(()) < 0.7, lambda c: c + sg.randn(3, dtype=sg.float64) * sg.rand(()), x),
    "steps": lambda x: sg.while_loop(lambda c: sg.rand(()) < 0.7, lambda c: c + sg.randn(3, dtype=sg.float64), x, max_steps=3) + sg.rand(3),
    "none": lambda x: sg.while_loop(lambda c: c.sum() < 4, lambda c: c + sg.rand(3, dtype=sg.float64), x, max_steps=0) + sg.rand(3),
    "many": lambda x: sg.while_loop(lambda c: c.sum() < 60, lambda c: c + sg.rand(3, dtype=sg.float64) * x.abs(), x) + sg.rand(3),
    "two": lambda x: BRANCHES["while"](BRANCHES["condition"](x) - 9) * sg.rand(3),
    "a branch after it": lambda x: BRANCHES["condition"](x) * 2 if sg.rand(()) < 0.5 else BRANCHES["one side"](x),
    "bounds": lambda x: sg.fori_loop(0, (x.sum() > 0) + sg.tensor(2), lambda i, c: c + i * sg.rand(3, dtype=sg.float64), x),
}  # fmt: skip


@pytest.mark.parametrize(("name", "backend"), [*((name, "numpy") for name in BRANCHES), ("cond", "xla"), ("steps", "xla"), ("two", "xla")])
def test_where_nobody_knows_how_many_draws_there_are(name, backend):
    f = BRANCHES[name]
    fast = sg.compile(f, backend=backend)
    sg.manual_seed(5)
    found, states = [], []
    for i in range(12):
        found.append(fast(XS[i % 4] * (1 + i % 3)))
        states.append(sg.get_rng_state().tolist())
    sg.manual_seed(5)
    for i in range(12):
        np.testing.assert_allclose(found[i].numpy(), f(XS[i % 4] * (1 + i % 3)).numpy(), rtol=1e-12, atol=1e-12)
        assert states[i] == sg.get_rng_state().tolist()
    assert len(fast.recompiles()) <= {"cond": 2, "one side": 2, "many": 2, "a branch after it": 3}.get(name, 1)


def test_gradients_through_a_loop_with_random_numbers():
    w = sg.tensor([0.5, 1.0, 0.7], dtype=sg.float64, requires_grad=True)

    def f(x):
        return sg.while_loop(lambda c: c.sum() < 5, lambda c: c * 1.1 + w * sg.rand(3, dtype=sg.float64), x).sum() * sg.rand(())

    found = []
    for run in (f, sg.compile(f, backend="numpy"), sg.compile(f)):
        sg.manual_seed(2)
        for i in range(4):
            w.grad = None
            run(XS[i].abs()).backward()
        found.append(w.grad.numpy())
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-12)


def test_random_numbers_of_a_loop_within_a_loop_are_refused():
    inner = lambda c, x: (sg.while_loop(lambda d: d.sum() < 4, lambda d: d + sg.rand(3).double(), c), None)
    with pytest.raises(TraceError, match=r"test_rng.py:\d+: random numbers are drawn in the body of a loop or branch"):
        sg.compile(lambda x: sg.scan(inner, x, XS)[0])(XS[0])


def test_a_generator_of_its_own_is_refused():
    own = sg.Generator()
    with pytest.raises(TraceError, match="from a generator of its own; draw them before the loop"):
        sg.compile(lambda x: sg.scan(lambda c, x: (c + sg.rand(3, generator=own).double(), None), x, XS)[0])(XS[0])


@pytest.mark.parametrize("f", [
    lambda p: sg.bernoulli(p) * 2,
    lambda p: p.bernoulli(0.4) + p,
    lambda p: sg.normal(p, p + 1),
    lambda p: sg.normal(2.0, p),
    lambda p: sg.scan(lambda c, x: (c * 0.5, sg.bernoulli(c)), p, None, length=4)[1],
], ids=["bernoulli", "number", "normal", "deviation", "scan"])  # fmt: skip
@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_draws_with_probabilities_that_are_computed(f, dtype):
    """They were drawn once and for all."""
    fast = sg.compile(f, backend="numpy")
    ps = [sg.tensor(np.linspace(0, 1, 7) ** k, dtype=dtype) for k in (1, 2, 3)]
    sg.manual_seed(1)
    found = [fast(p) for p in ps]
    sg.manual_seed(1)
    for a, b in zip(found, map(f, ps), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


OWN = sg.Generator()


def forked(p):
    with sg.random.fork_rng():
        y = sg.rand(7)
    return y + sg.rand(7) + p


def put_back(p):
    state = sg.get_rng_state()
    y = sg.rand(7)
    sg.set_rng_state(state)
    return y - sg.rand(7) + p


def new_generator(p):
    return sg.rand(7, generator=sg.Generator()) + sg.rand(7, generator=sg.Generator().manual_seed(4)) + p


def again(p):
    q = p.detach().requires_grad_()
    sg.utils.checkpoint.checkpoint(lambda y: F.dropout(y, 0.5) * y, q, use_reentrant=False).sum().backward()
    return q.grad * sg.rand(7)


DRAWS = {
    "multinomial": lambda p: sg.multinomial(p, 3),
    "one": lambda p: p.multinomial(1),
    "replaced": lambda p: sg.multinomial(p, 9, replacement=True),
    "rows": lambda p: sg.stack([p, p * p + 0.1, 2 - p]).multinomial(9, replacement=True),
    "without": lambda p: sg.stack([p, p * p + 0.1, 2 - p]).multinomial(4),
    "in a loop": lambda p: sg.scan(lambda c, x: (c * 0.5, sg.multinomial(c, 2)), p, None, length=4)[1],
    "out": lambda p: sg.multinomial(p, 2, out=sg.zeros(2, dtype=sg.int64)) + sg.bernoulli(p, out=sg.zeros(7)).sum(),
    "normal out": lambda p: sg.normal(p, 1.0, out=sg.zeros(7, dtype=p.dtype)),
    "in place": lambda p: sg.zeros(7).bernoulli_(p) + sg.zeros(2, 7).bernoulli_(p),
    "own": lambda p: sg.multinomial(p, 2, generator=OWN) + sg.rand(2, generator=OWN),
    "own branch": lambda p: p + sg.rand(7, generator=OWN) if sg.rand((), generator=OWN) > 0.5 else sg.randn(7, generator=OWN),
    "own cond": lambda p: sg.cond(sg.rand((), generator=OWN) > 0.5, lambda: p + sg.rand(7, generator=OWN), lambda: p * 2),
    "seeded": lambda p: (sg.rand(7), sg.manual_seed(3), sg.rand(7) + p)[2],
    "forked": forked,
    "put back": put_back,
    "new generator": new_generator,
    "checkpoint": again,
}


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("name", DRAWS)
def test_every_kind_of_draw(name, backend):
    """The same numbers, and the generators are where eager code leaves them."""
    f = DRAWS[name]
    found = []
    for run in (f, sg.compile(f, backend=backend)):
        sg.manual_seed(1)
        OWN.manual_seed(2)
        for i in range(6):
            p = sg.tensor(np.linspace(0.05, 1, 7) ** (1 + i % 3))
            found.append((run(p).numpy().copy(), sg.get_rng_state().tolist(), OWN.get_state().tolist()))
    for (x, *states), (y, *others) in zip(found[:6], found[6:], strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-6)
        assert states == others


def test_what_cannot_be_drawn_from_is_refused_as_in_eager_code():
    with pytest.raises(RuntimeError, match="contains either `inf`, `nan` or element < 0"):
        sg.compile(lambda p: sg.multinomial(p, 1))(-sg.ones(3))
    with pytest.raises(RuntimeError, match="a compiled function does not resize it"):
        sg.compile(lambda p: sg.bernoulli(p, out=sg.zeros(4)))(sg.ones(3))
    with pytest.raises(TraceError, match="a random generator is seeded, or given a state, in the body of a loop or branch"):
        sg.compile(lambda p: sg.scan(lambda c, x: (sg.manual_seed(1), (c, c))[1], p, None, length=2)[0])(sg.ones(3))


def test_a_trace_that_fails_puts_other_generators_back():
    def f(x):
        sg.rand(3, generator=OWN)
        return x * x.sum().item()

    OWN.manual_seed(2)
    with pytest.raises(TraceError):
        sg.compile(f)(XS[0])
    before = OWN.get_state().tolist()
    assert before == OWN.manual_seed(2).get_state().tolist()
