"""L-BFGS: minima, PyTorch's numbers, its state, its line search."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad import optim
from symgrad.optim.line_search import Point, cubic_minimum, strong_wolfe


def rosenbrock(x):
    return (1 - x[:-1]).pow(2).sum() + 100 * (x[1:] - x[:-1].pow(2)).pow(2).sum()


def bowl(x):
    return (x - 1).pow(2).sum() + (x * x.roll(1)).sum() + x.pow(4).sum() / 4 + (3 * x).sin().sum()


def minimized(objective, options, steps):
    """Where it ends after some steps, the losses that they returned, and the optimizer."""
    x = sg.tensor([-1.2, 1.0, 0.5], dtype=sg.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], **options)

    def closure():
        optimizer.zero_grad()
        loss = objective(x)
        loss.backward()
        return loss

    return x, [optimizer.step(closure).item() for _ in range(steps)], optimizer


ENDS = [  # PyTorch's
    ({}, 1, [-0.4528414863754534, 1.1832508700727462, 1.183250788110028], 14),
    ({"lr": 0.1}, 5, [-0.4528192858824407, 1.1832611164855242, 1.1832411648147148], 100),
    ({"lr": 0.02, "history_size": 2, "max_iter": 7}, 4, [-0.5261199672297567, 1.189252291379333, -0.14108986122627262], 28),
    ({"line_search_fn": "strong_wolfe"}, 1, [-0.4528395290931771, 1.1832491449939415, 1.183241404900341], 11),
    ({"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2}, 2,
     [-0.45027323905301814, 1.1831158603794198, 1.1769683963486106], 10),
    ({"line_search_fn": "strong_wolfe", "max_eval": 4}, 2, [-0.5037477884161206, 1.160240459554668, 1.1850830786929742], 9),
    ({"line_search_fn": "strong_wolfe", "tolerance_grad": 1.0, "lr": 0.5}, 1,
     [-0.42401528741699823, 1.1965325376406295, 0.5988582272652341], 3),
    ({"line_search_fn": "strong_wolfe", "tolerance_change": 0.3}, 1, [-0.52556930171371, 1.2460572637112615, 0.5795120380024485], 2),
    ({"max_iter": 50, "max_eval": 20, "lr": 0.01}, 1, [-0.6871202975020954, 1.1021659095606584, 0.10218303868468097], 20),
]  # fmt: skip


@pytest.mark.parametrize(("options", "steps", "end", "evaluations"), ENDS, ids=str)
def test_ends_where_pytorchs_does(options, steps, end, evaluations):
    x, _, optimizer = minimized(bowl, options, steps)
    np.testing.assert_allclose(x.tolist(), end, rtol=1e-9)
    assert optimizer.state[x]["func_evals"] == evaluations


def test_finds_the_minimum():
    x, losses, _ = minimized(rosenbrock, {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-16}, 5)
    np.testing.assert_allclose(x.tolist(), [1, 1, 1], atol=1e-9)
    assert losses[0] == pytest.approx(49.2)
    assert losses[-1] < 1e-12


def test_a_quadratic_takes_as_many_steps_as_it_has_directions():
    x = sg.tensor([3.0, -1.0], dtype=sg.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def closure():
        optimizer.zero_grad()
        loss = (x * x * sg.tensor([1.0, 10.0], dtype=sg.float64)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.tolist(), [0, 0], atol=1e-7)
    assert optimizer.state[x]["n_iter"] < 12


def test_history_is_bounded_and_goes_on_in_another_optimizer():
    options = {"history_size": 3, "max_iter": 6, "line_search_fn": "strong_wolfe"}
    whole, _, first = minimized(bowl, options, 4)
    x, _, half = minimized(bowl, options, 2)
    assert len(half.state[x]["old_dirs"]) == 3
    second = optim.LBFGS([x], lr=99)
    second.load_state_dict(half.state_dict())

    def closure():
        second.zero_grad()
        loss = bowl(x)
        loss.backward()
        return loss

    for _ in range(2):
        second.step(closure)
    assert x.tolist() == whole.tolist()
    assert second.state[x]["func_evals"] == first.state[whole]["func_evals"]


def test_at_a_minimum_nothing_moves():
    x = sg.ones(3, requires_grad=True)
    optimizer = optim.LBFGS([x])

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0
    assert x.tolist() == [1, 1, 1]
    assert optimizer.state[x]["func_evals"] == 1


def test_several_parameters_one_without_gradient():
    p, q = sg.zeros(2, requires_grad=True), sg.ones(1, requires_grad=True)
    optimizer = optim.LBFGS([p, q], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (p - 3).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert p.tolist() == pytest.approx([3, 3])
    assert q.tolist() == [1]


def test_only_one_line_search():
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        minimized(rosenbrock, {"line_search_fn": "armijo"}, 1)


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        (((0.0, 1.0, -2.0), (3.0, 4.0, 4.0)), 1.0),  # (t - 1)²
        (((3.0, 4.0, 4.0), (0.0, 1.0, -2.0)), 1.0),
        (((0.0, 0.0, -3.0), (2.0, 2.0, 9.0)), 1.0),  # t³ - 3t
        (((0.0, 0.0, -1.0), (1.0, -1.0, -1.0)), 0.5),  # a line: there is no minimum
        (((0.0, 0.0, -1.0), (1.0, -0.5, -1.0)), 0.5),  # falls everywhere
        (((1.0, 0.0, -1.0), (1.0, 0.0, -1.0)), 1.0),
        (((0.0, 9.0, 2.0), (1.0, 0.0, -2.0)), 1.0),  # beyond the end
    ],
)
def test_minimum_of_a_cubic(ends, wanted):
    a, b = (Point(t, loss, sg.zeros(1), slope) for t, loss, slope in ends)
    low, high = sorted((a.t, b.t))
    assert cubic_minimum(a, b, low, high) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("coefficients", "first", "places"),
    [
        ((2.45, 0.9, 0.62, 4.51, 5.39), 4.11, [4.11, 1.687599851, 1.216435674]),
        ((1.12, 0.67, 1.45, 2.71, 4.89), 4.47, [4.47, 0.3593072, 0.03593072]),
        ((1.8, 0.11, 1.83, 0.67, 0.43), 4.18, [4.18, 11.119429356]),
    ],
)
def test_where_the_line_search_looks(coefficients, first, places):
    """On waves on a parabola: PyTorch's looks there too."""
    slope, bend, height, width, phase = coefficients
    seen = []

    def at(t):
        seen.append(t)
        loss = bend * t * t - slope * t + height * math.sin(width * t + phase)
        return Point(t, loss, sg.zeros(1), 2 * bend * t - slope + height * width * math.cos(width * t + phase))

    start = at(0.0)
    strong_wolfe(at, start, first, 1.0, 1e-9, 25)
    assert seen[1:] == pytest.approx(places, rel=1e-7)


def scaled_bowl(t, seen):
    """(t - 1)², with its slope."""
    seen.append(t)
    return Point(t, (t - 1) ** 2, sg.zeros(1), 2 * (t - 1))


def test_a_step_that_is_good_enough_is_taken_at_once():
    seen = []
    found, calls = strong_wolfe(lambda t: scaled_bowl(t, seen), scaled_bowl(0.0, []), 1.2, 1.0, 1e-9, 25)
    assert (found.t, calls, seen) == (1.2, 1, [1.2])


@pytest.mark.parametrize(("limit", "looks"), [(0, 1), (1, 2)])
def test_the_line_search_looks_no_more_often_than_it_may(limit, looks):
    seen = []
    found, calls = strong_wolfe(lambda t: scaled_bowl(t, seen), scaled_bowl(0.0, []), 9.0, 1.0, 1e-9, limit)
    assert calls == len(seen) == looks
    assert found.t == pytest.approx(0.0 if limit == 0 else 1.0)  # the lower end, or the minimum of the cubic


def test_a_short_bracket_is_not_narrowed():
    for length, looks in ((1.0, 2), (0.1, 1)):
        seen = []
        strong_wolfe(lambda t, seen=seen: scaled_bowl(t, seen), scaled_bowl(0.0, []), 9.0, length, 1.0, 25)
        assert len(seen) == looks


@pytest.mark.parametrize("max_iter", [1, 4, 5])
def test_at_most_so_many_iterations(max_iter):
    x, _, optimizer = minimized(rosenbrock, {"lr": 1e-4, "max_iter": max_iter}, 1)
    assert optimizer.state[x]["n_iter"] == max_iter
    assert optimizer.state[x]["func_evals"] == max_iter
    assert optimizer.param_groups[0]["max_eval"] == max_iter * 5 // 4
