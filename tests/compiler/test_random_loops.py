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


def test_where_nobody_knows_how_many_draws_there_are():
    with pytest.raises(TraceError, match=r"test_random_loops.py:\d+: random numbers are drawn in the body of a loop or branch"):
        sg.compile(lambda x: sg.cond(x.sum() > 0, lambda: x + sg.rand(3).double(), lambda: x))(XS[0])


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


def test_draws_that_need_values_are_refused():
    x = sg.full((3,), 0.5)
    for f in (lambda x: sg.multinomial(x, 2), lambda x: sg.zeros(3).bernoulli_(x), lambda x: sg.bernoulli(x, out=sg.zeros(3))):
        with pytest.raises(TraceError, match=r"test_random_loops.py:\d+: .*\(\) of probabilities or parameters in a tensor"):
            sg.compile(f)(x)
