"""Results whose size depends on values: a program for each size, with the same numbers and gradients as eager code."""

from __future__ import annotations

import numpy as np
import pytest
from interpreter_backend import interpret

import symgrad as sg
from symgrad.errors import TraceError

FORMS = {
    "mask": lambda x: x[x > 0] * 2,
    "rows": lambda x: x[x.sum(1) > 0].sum(0),
    "masked_select": lambda x: sg.masked_select(x, x > 0).exp(),
    "nonzero": lambda x: sg.nonzero(x > 0) + x.sum().to(sg.int64) * 0,
    "as_tuple": lambda x: x[sg.nonzero(x > 0, as_tuple=True)],
    "argwhere": lambda x: sg.argwhere(x > 0.5),
    "where": lambda x: sg.where(x > 0)[1],
    "put": lambda x: _put(x),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x * 10),
    "unique": lambda x: sg.unique(x.round(), return_inverse=True, return_counts=True),
    "consecutive": lambda x: sg.unique_consecutive(x.round().reshape(-1), return_inverse=True, return_counts=True),
    "bincount": lambda x: sg.bincount((x * 2).abs().to(sg.int64).reshape(-1), minlength=2),
    "weighted": lambda x: sg.bincount((x * 2).abs().to(sg.int64).reshape(-1), weights=x.reshape(-1)),
    "repeats": lambda x: sg.repeat_interleave(x, (x[:, 0] * 2).abs().to(sg.int64), dim=0),
    "in": lambda x: x * 2 if 0.5 in x.round(decimals=1) else x,
    "no dimensions": lambda x: x.sum()[x.sum() > 0],
}


def _put(x):
    y = x * 1
    y[y > 0] = y[y > 0] * 3
    return y


def draws(count=5, shape=(3, 4)):
    return [sg.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)) for seed in range(count)]


def leaves(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", FORMS)
def test_sizes_are_asked_again_at_every_call(name, monkeypatch):
    interpret(monkeypatch)
    f = FORMS[name]
    fast = sg.compile(f)
    for x in (*draws(), -sg.ones(3, 4), sg.ones(3, 4), *draws(2)):
        for found, wanted in zip(leaves(fast(x)), leaves(f(x)), strict=True):
            assert found.dtype == wanted.dtype
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["mask", "nonzero", "unique", "bincount", "repeats"])
def test_kernels_agree(name):
    f = FORMS[name]
    fast = sg.compile(f)
    for x in (*draws(1), -draws(1)[0]):
        for found, wanted in zip(leaves(fast(x)), leaves(f(x)), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["mask", "rows", "masked_select", "as_tuple", "put", "masked_scatter", "repeats"])
def test_gradients(name, monkeypatch):
    interpret(monkeypatch)
    f = FORMS[name]
    fast = sg.compile(f)
    for x in draws(3):
        a, b = (x.clone().requires_grad_() for _ in range(2))
        (fast(a) * 3).sum().backward()
        (f(b) * 3).sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5)
        np.testing.assert_allclose(sg.compile(lambda x: f(x).sum()).grad(x, wrt="x").numpy() * 3, b.grad.numpy(), rtol=1e-5)


def test_one_program_for_each_size_with_a_limit(monkeypatch):
    interpret(monkeypatch)
    fast = sg.compile(lambda x: x[x > 0].sum())
    lines = [sg.tensor([1.0] * n + [-1.0] * (12 - n)) for n in range(12)]
    for _ in range(2):
        for x in lines[:8]:
            assert fast(x).item() == (x > 0).sum().item()
    assert len(fast.recompiles()) == 8
    assert "path: the size of nonzero at " in str(fast.recompiles()[1])
    assert str(fast.recompiles()[1]).endswith("was 0, now 1")
    with pytest.warns(UserWarning, match="more than 8 paths"):
        fast(lines[9])


def test_sizes_in_training_steps(monkeypatch):
    interpret(monkeypatch)

    def make():
        w = sg.tensor([1.0, -2.0, 3.0], requires_grad=True)
        optimizer = sg.optim.SGD([w], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            y = w * x
            loss = y[y > 0].square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return w, step

    (v, eager), (w, step) = make(), make()
    fast = sg.compile(step)
    for i in range(6):
        x = sg.tensor([1.0, -1.0 if i % 2 else 1.0, 0.5])
        np.testing.assert_allclose(fast(x).item(), eager(x).item(), rtol=1e-6)
        np.testing.assert_allclose(w.detach().numpy(), v.detach().numpy(), rtol=1e-6)


def test_what_has_no_size_before_it_runs_is_refused_elsewhere():
    with pytest.raises(TraceError, match="unique: the size of the result is known only from values"):
        sg.compile(lambda x: sg.unique(x, dim=0))(sg.ones(2, 2))
    with pytest.raises(TraceError, match="mask"):
        sg.derive(lambda x: x[x > 0].sum())(sg.tensor([1.0, -1.0]))
    with pytest.raises(RuntimeError, match="negative"):
        sg.compile(lambda x, n: sg.repeat_interleave(x, n))(sg.ones(2), sg.tensor([1, -1]))


@pytest.mark.parametrize("form", [sg.unique, sg.unique_consecutive])
def test_distinct_elements_have_no_derivative_as_in_eager_code(form):
    x = sg.tensor([1.0, 1.0, 2.0], requires_grad=True)
    assert not form(x).requires_grad
    assert not sg.compile(form)(x).requires_grad


def test_a_whole_number_in_a_tensor_is_a_size_that_is_asked_for():
    fast = sg.compile(lambda n: sg.arange(n) * 1.5 + sg.full((1,), n))
    for n in (3, 5, 3):
        assert fast(sg.tensor(n)).tolist() == [1.5 * i + n for i in range(n)]
    assert len(fast.recompiles()) == 2


def test_under_vmap_each_example_has_its_size():
    f = sg.func.vmap(lambda row: row.nonzero())
    fast = sg.compile(f)
    for rows in ([[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [0.0, 4.0]]):
        np.testing.assert_array_equal(fast(sg.tensor(rows)), f(sg.tensor(rows)))


def test_in_a_loop_there_are_no_sizes():
    loop = sg.compile(lambda x: sg.scan(lambda c, row: (c + row.nonzero().sum(), None), sg.tensor(0), x)[0])
    with pytest.raises(TraceError, match=r"test_dynamic_shapes\.py:\d+: nonzero, whose result is as large as values say, asks for a value"):
        loop(sg.ones(2, 2))
