"""The first call of a compiled training step is its only trace, wherever the later ones do the same; and what makes them differ."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.backends.base import make_kernel
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.options import DEFAULT

nn, optim = sg.nn, sg.optim

MAKERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "Nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, maximize=True),
    "Adam": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.9, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    "Rprop": lambda p: optim.Rprop(p, lr=0.05),
    "ASGD": lambda p: optim.ASGD(p, lr=0.05),
}
X = np.linspace(-1, 1, 3)


def weight():
    return sg.tensor(np.array([1.0, -2.0, 0.5])).requires_grad_()


def made(make, *params, **options):
    """An optimizer, and a step as people write it."""
    optimizer = make([*params], **options)

    def step(x):
        optimizer.zero_grad()
        loss = sum(((p - x) ** 2).sum() for p in params)
        loss.backward()
        optimizer.step()
        return loss

    return optimizer, step


def both(scenario):
    """What a scenario gives eagerly and compiled, and how often the compiled function was traced."""
    found = []
    for wrap in (lambda f: f, sg.compile):
        functions = []

        def remember(f, wrap=wrap, functions=functions):
            functions.append(wrap(f))
            return functions[-1]

        found.append([np.asarray(x) for x in scenario(remember)])
    np.testing.assert_equal([x.shape for x in found[0]], [x.shape for x in found[1]])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-12)
    return len(functions[0].recompiles())


@pytest.mark.parametrize("name", MAKERS)
def test_a_step_is_traced_once(name):
    def scenario(compiled):
        p = weight()
        optimizer, step = made(MAKERS[name], p)
        run = compiled(step)
        losses = [run(sg.tensor(X + i)).item() for i in range(5)]
        return [*losses, p.detach(), p.grad, *(x for x in optimizer.state[p].values() if isinstance(x, sg.Tensor))]

    assert both(scenario) == 1


def test_dampened_momentum_begins_with_a_step_of_its_own():
    def scenario(compiled):
        p = weight()
        optimizer, step = made(lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5), p)
        run = compiled(step)
        return [run(sg.tensor(X)).item() for _ in range(4)] + [p.detach(), optimizer.state[p]["momentum_buffer"]]

    assert both(scenario) == 2


def test_a_gradient_from_before_the_first_step_makes_no_difference():
    def scenario(compiled):
        p = weight()
        _, step = made(MAKERS["SGD"], p)
        run = compiled(step)
        run(sg.tensor(X))
        p.grad = sg.ones(3, dtype=sg.float64) * 100
        run(sg.tensor(X))
        p.grad = None
        return [run(sg.tensor(X)).item(), p.detach(), p.grad]

    assert both(scenario) == 1


def test_zero_grad_of_a_module_does_not_depend_on_gradients():
    def scenario(compiled):
        sg.manual_seed(0)
        net = nn.Linear(3, 1).to(sg.float64)

        def slopes(x):
            net.zero_grad()
            net(x).sum().backward()
            return net.weight.grad * 2

        run = compiled(slopes)
        return [run(sg.tensor(X * i)) for i in range(4)] + [net.weight.grad]

    assert both(scenario) == 1


def test_a_gradient_that_nothing_replaces_is_cleared():
    def scenario(compiled):
        p, idle = weight(), weight()
        optimizer = optim.SGD([p, idle], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = ((p - x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        run(sg.tensor(X))
        idle.grad = sg.ones(3, dtype=sg.float64)
        run(sg.tensor(X))
        return [p.detach(), idle.detach(), idle.grad is None]

    both(scenario)


@pytest.mark.parametrize("first", [True, False])
def test_who_looks_at_a_gradient_first_depends_on_it(first):
    def scenario(compiled):
        p = weight()
        optimizer = optim.SGD([p], lr=0.1)

        def step(x):
            factor = 2 if p.grad is None else 3
            optimizer.zero_grad()
            loss = ((p - x) ** 2).sum() * factor
            loss.backward()
            optimizer.step()
            return loss

        p.grad = None if first else sg.ones(3, dtype=sg.float64)
        run = compiled(step)
        results = [run(sg.tensor(X)).item() for _ in range(3)]
        p.grad = None
        return [*results, run(sg.tensor(X)).item(), p.detach()]

    assert both(scenario) == 2


def test_gradients_that_are_added_to_depend_on_what_was_there():
    def scenario(compiled):
        p = weight()

        def slopes(x):
            loss = ((p - x) ** 2).sum()
            loss.backward()
            return loss

        run = compiled(slopes)
        found = []
        for _ in range(3):
            run(sg.tensor(X))
            found.append(p.grad.clone())
        return found

    assert both(scenario) == 2


def test_a_gradient_that_the_function_reads_by_another_name_is_read_at_every_run():
    def scenario(compiled):
        p = weight()
        p.grad = kept = sg.ones(3, dtype=sg.float64)

        def step(x):
            p.grad = None
            ((p - x) ** 2).sum().backward()
            return kept + p.grad

        run = compiled(step)
        return [run(sg.tensor(X)) for _ in range(3)]

    both(scenario)


def test_a_look_at_the_gradient_of_what_takes_no_part_leaves_nothing_behind():
    def scenario(compiled):
        p, idle = weight(), weight()

        def step(x):
            p.grad = None
            loss = ((p - x) ** 2).sum()
            loss.backward()
            nn.utils.clip_grad_norm_([p, idle], 0.5)
            return loss

        run = compiled(step)
        return [run(sg.tensor(X + i)).item() for i in range(3)] + [p.grad]

    assert both(scenario) == 1


def test_an_optimizer_that_the_function_makes_begins_anew_at_every_run():
    def scenario(compiled):
        p = weight()

        def step(x):
            optimizer = optim.Adam([p], lr=0.1)
            optimizer.zero_grad()
            loss = ((p - x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        for _ in range(3):
            run(sg.tensor(X))
        return [p.detach()]

    both(scenario)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_loaded_state_is_taken_up(name):
    def scenario(compiled):
        p = weight()
        optimizer, step = made(MAKERS[name], p)
        run = compiled(step)
        for _ in range(3):
            run(sg.tensor(X))
        saved = copy.deepcopy(optimizer.state_dict())
        run(sg.tensor(X))
        optimizer.load_state_dict(saved)
        optimizer.param_groups[0]["lr"] = 0.01
        found = [run(sg.tensor(X)).item() for _ in range(3)]
        return [*found, p.detach(), *(x for x in optimizer.state[p].values() if isinstance(x, sg.Tensor))]

    assert both(scenario) == 2


def test_other_groups_and_cleared_state_are_taken_up():
    def scenario(compiled):
        p, later = weight(), weight()
        optimizer = optim.Adam([p], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = ((p - x) ** 2).sum() + (later**2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        run(sg.tensor(X))
        optimizer.state.clear()
        run(sg.tensor(X))
        optimizer.add_param_group({"params": [later], "lr": 0.5})
        run(sg.tensor(X))
        run(sg.tensor(X))
        return [p.detach(), later.detach(), optimizer.state[p]["step"], optimizer.state[later]["step"]]

    both(scenario)


def test_why_a_step_was_traced_again():
    p = weight()
    optimizer, step = made(MAKERS["Adam"], p)
    run = sg.compile(step)
    run(sg.tensor(X))
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    run(sg.tensor(X))
    assert str(run.recompiles()[-1]) == "Adam: other state, or other groups of parameters"


def test_a_first_step_that_fails_leaves_no_state():
    p = weight()
    optimizer = optim.Adam([p], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        ((p - x) ** 2).sum().backward()
        optimizer.step()
        raise KeyError("no")

    with pytest.raises(KeyError):
        sg.compile(step)(sg.tensor(X))
    assert not optimizer.state
    assert p.grad is None
    assert p.tolist() == [1.0, -2.0, 0.5]


def test_random_numbers_whose_state_is_put_back_are_no_draw():
    p, q = weight(), weight()

    def f(x):
        y = x * p
        before = sg.get_rng_state()
        sg.manual_seed(3)
        sg.set_rng_state(before)
        return y + q

    np.testing.assert_allclose(sg.compile(f)(sg.tensor(X)).detach().numpy(), f(sg.tensor(X)).detach().numpy())


def test_a_buffer_does_not_see_what_is_written_afterwards():
    kernel = make_kernel(Graph([input_value(0, (1,), np.float64)], [input_value(0, (1,), np.float64)]), options=DEFAULT)
    for size in [8, 1000, 65536, 1024 * 1024] * 25:
        for offset in (0, 1, 16):
            array = np.zeros(size + offset)[offset:]
            array[:] = 1
            buffer = kernel.buffer(array)
            array[:] = 0
            assert (np.asarray(buffer) == 1).all()
