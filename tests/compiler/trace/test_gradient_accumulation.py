"""backward() in a compiled function adds to gradients that are there in place, as in eager code: who holds one, or its memory, sees it."""

from __future__ import annotations

import contextlib

import pytest
from interpreter_backend import interpret

import symgrad as sg


def nothing(a, b):
    return []


def held(a, b):
    return [a.grad, b.grad]


def flat(a, b):
    both = sg.zeros(4)
    a.grad, b.grad = both[:2], both[2:]
    return [both]


def one_for_both(a, b):
    b.grad = a.grad
    return [a.grad]


def a_view_of_the_other(a, b):
    b.grad = a.grad.view(2)
    return [a.grad]


def the_same_memory(a, b):
    b.grad = a.grad.detach()
    return [a.grad]


def apart_again(a, b):
    b.grad = a.grad.clone()
    return [a.grad]


def gone(a, b):
    kept, a.grad = a.grad, None
    return [kept]


HAPPENINGS = [nothing, held, flat, one_for_both, a_view_of_the_other, the_same_memory, apart_again, gone]
SHARED = (one_for_both, a_view_of_the_other, the_same_memory)


def run(prepare, happens, then, steps):
    a, b = (sg.tensor(x, requires_grad=True) for x in ([1.0, 2.0], [3.0, 4.0]))
    optimizer = sg.optim.SGD([a, b], lr=0.1)

    def step(x):
        loss = (a * x).square().sum() + (b * x * 3).sum()
        loss.backward()
        if steps:
            optimizer.step()
        return loss

    fast, kept, seen = prepare(step), [], []
    for i in range(8):
        fast(sg.tensor([1.0, i + 1.0]))
        kept += happens(a, b) if i == 2 else then(a, b) if i == 5 else []
        seen.append([t.tolist() for t in (a, b, a.grad, b.grad, *kept) if t is not None])
    return seen


@pytest.mark.parametrize("happens", HAPPENINGS)
@pytest.mark.parametrize("then", [nothing, apart_again, flat])
@pytest.mark.parametrize("steps", [False, True], ids=["gradients", "steps"])
@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_gradients_are_added_to_in_place(monkeypatch, backend, happens, then, steps):
    interpret(monkeypatch)
    shared = pytest.warns(UserWarning, match="share memory, and it is written to") if happens in SHARED else contextlib.nullcontext()
    with shared:
        found = run(lambda f: sg.compile(f, backend=backend), happens, then, steps)
    expected = run(lambda f: f, happens, then, steps)
    assert [len(x) for x in found] == [len(x) for x in expected]
    for now, wanted in zip(found, expected, strict=True):
        for x, y in zip(now, wanted, strict=True):
            assert x == pytest.approx(y, rel=1e-5)
