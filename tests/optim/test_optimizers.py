"""Optimizers: groups, state, hooks, closures, errors. Where they go is in test_trajectories.py."""

from __future__ import annotations

import copy
import pickle

import pytest

import symgrad as sg
from symgrad import optim


def start():
    return sg.tensor([1.0, -2.0, 0.5], dtype=sg.float64, requires_grad=True)


def objective(p):
    return (p**2).sum() + (p * p.roll(1)).sum() + p.sin().sum()


def walk(p, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        objective(p).backward()
        optimizer.step()


@pytest.mark.parametrize(("name", "options"), [("SGD", {"lr": 0.02, "momentum": 0.9}), ("Adam", {"lr": 0.05, "amsgrad": True})])
def test_state_goes_on_in_another_optimizer(name, options):
    whole, p = start(), start()
    walk(whole, getattr(optim, name)([whole], **options), 20)
    first = getattr(optim, name)([p], **options)
    walk(p, first, 10)
    second = getattr(optim, name)([p], lr=99)
    second.load_state_dict(first.state_dict())
    walk(p, second, 10)
    assert p.tolist() == whole.tolist()
    assert second.param_groups[0]["lr"] == options["lr"]


def test_loaded_state_is_a_copy():
    p = start()
    first = optim.SGD([p], lr=0.1, momentum=0.9)
    walk(p, first, 1)
    second = optim.SGD([p], lr=0.1, momentum=0.9)
    second.load_state_dict(first.state_dict())
    before = first.state[p]["momentum_buffer"].tolist()
    walk(p, second, 1)
    assert first.state[p]["momentum_buffer"].tolist() == before


def test_groups_have_their_own_options():
    p, q = start(), start()
    optimizer = optim.SGD([{"params": [p], "lr": 0.5}, {"params": [q]}], lr=0.25)
    p.grad, q.grad = sg.ones_like(p), sg.ones_like(q)
    optimizer.step()
    assert p.tolist() == [0.5, -2.5, 0.0]
    assert q.tolist() == [0.75, -2.25, 0.25]


def test_what_has_no_gradient_stays():
    p, q = start(), start()
    p.grad = sg.ones_like(p)
    optim.Adam([p, q]).step()
    assert q.tolist() == start().tolist()
    assert p.tolist() != start().tolist()


def test_a_step_is_not_recorded_and_keeps_the_tensor():
    p = start()
    kept = p.detach()
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1)
    walk(p, optimizer, 3)
    assert p.is_leaf
    assert p.requires_grad
    assert kept.tolist() == p.tolist()
    assert optimizer.state[p]["momentum_buffer"].grad_fn is None


def test_a_closure_is_evaluated_with_recording_on():
    p = start()
    optimizer = optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = objective(p)
        loss.backward()
        return loss

    with sg.no_grad():
        assert optimizer.step(closure).item() == objective(start()).item()
    assert p.tolist() != start().tolist()


def test_zero_grad_to_none_or_zero():
    p = start()
    optimizer = optim.SGD([p], lr=0.1)
    objective(p).backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0, 0]
    optimizer.zero_grad()
    assert p.grad is None


def test_printed_form():
    wanted = """SGD (
Parameter Group 0
    dampening: 0
    differentiable: False
    foreach: None
    fused: None
    lr: 0.5
    maximize: False
    momentum: 0
    nesterov: False
    weight_decay: 0
)"""
    assert repr(optim.SGD([start()], lr=0.5)) == wanted


# --- state


def test_state_dict_has_positions_for_parameters():
    p, q = start(), start()
    optimizer = optim.Adam([{"params": [p]}, {"params": q, "lr": 0.5}])
    q.grad = sg.ones_like(q)
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved) == ["state", "param_groups"]
    assert [group["params"] for group in saved["param_groups"]] == [[0], [1]]
    assert list(saved["state"]) == [1]
    assert list(saved["state"][1]) == ["step", "exp_avg", "exp_avg_sq"]
    assert saved["state"][1]["step"].tolist() == 1.0
    assert saved["param_groups"][1] == {
        "lr": 0.5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False, "maximize": False, "foreach": None,
        "capturable": False, "differentiable": False, "fused": None, "decoupled_weight_decay": False, "params": [1],
    }  # fmt: skip


def test_gradient_descent_without_momentum_keeps_nothing():
    p = start()
    optimizer = optim.SGD([p], lr=0.1)
    walk(p, optimizer, 2)
    assert optimizer.state_dict()["state"] == {}


def test_loaded_state_takes_the_type_of_the_parameter_but_not_for_steps():
    p = start()
    first = optim.Adam([p])
    walk(p, first, 2)
    single = p.detach().float().requires_grad_()
    second = optim.Adam([single])
    second.load_state_dict(first.state_dict())
    state = second.state[single]
    assert state["exp_avg"].dtype is sg.float32
    assert state["step"].dtype is sg.float32
    sg.set_default_dtype(sg.float64)
    try:
        third = optim.Adam([single])
        walk(single, third, 1)
        second.load_state_dict(third.state_dict())
    finally:
        sg.set_default_dtype(sg.float32)
    assert second.state[single]["step"].dtype is sg.float64


def test_an_old_state_dict_lacks_options_and_counts_in_numbers():
    p = start()
    first = optim.Adam([p], amsgrad=False)
    walk(p, first, 3)
    saved = first.state_dict()
    del saved["param_groups"][0]["amsgrad"]
    del saved["param_groups"][0]["foreach"]
    saved["state"][0] = {**saved["state"][0], "step": 3}
    second = optim.Adam([p], amsgrad=True, foreach=True)
    second.load_state_dict(saved)
    assert second.state[p]["step"].item() == 3
    group = second.param_groups[0]
    assert (group["amsgrad"], group["foreach"]) == (False, None)


def test_adamw_stays_adamw_when_it_loads_adam():
    p = start()
    second = optim.AdamW([p])
    second.load_state_dict(optim.Adam([p]).state_dict())
    assert second.param_groups[0]["decoupled_weight_decay"]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([{"params": [0]}, {"params": [1]}], "loaded state dict has a different number of parameter groups"),
        ([{"params": [0, 1]}], "contains a parameter group that doesn't match the size of optimizer's group"),
    ],
)
def test_a_state_dict_that_does_not_fit_changes_nothing(groups, words):
    p = start()
    optimizer = optim.SGD([p], lr=0.25, momentum=0.5)
    walk(p, optimizer, 1)
    before = optimizer.state_dict()
    with pytest.raises(ValueError, match=words):
        optimizer.load_state_dict({"state": {}, "param_groups": [{**group, "lr": 7} for group in groups]})
    assert optimizer.state_dict() == before


def test_copies_go_on_alone():
    p = start()
    optimizer = optim.Adam([p], lr=0.1)
    walk(p, optimizer, 3)
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (q,) = other.param_groups[0]["params"]
        assert q is not p
        assert q.tolist() == p.tolist()
        walk(q, other, 2)
        after = copy.deepcopy(optimizer)
        walk(after.param_groups[0]["params"][0], after, 2)
        assert q.tolist() == after.param_groups[0]["params"][0].tolist()
        assert other.state[q]["step"].item() == 5
    assert optimizer.state[p]["step"].item() == 3


# --- names


def test_named_parameters():
    net = sg.nn.Linear(2, 1)
    optimizer = optim.SGD(net.named_parameters(), lr=0.5)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is net.weight
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    nameless = optim.SGD(net.parameters(), lr=0.25)
    optimizer.load_state_dict(nameless.state_dict())
    assert (optimizer.param_groups[0]["param_names"], optimizer.param_groups[0]["lr"]) == (["weight", "bias"], 0.25)


def test_names_for_all_or_for_none():
    p, q = start(), start()
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.SGD([("p", p), q], lr=1)
    optimizer = optim.SGD([("p", p)], lr=1)
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        optimizer.add_param_group({"params": [q]})
    assert len(optimizer.param_groups) == 1


def test_a_group_given_is_not_changed():
    group = {"params": start()}
    optim.SGD([group], lr=1)
    assert list(group) == ["params"]


def test_the_same_parameter_twice_in_a_group_is_warned_of():
    p = start()
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        optim.SGD([p, p], lr=1)


# --- hooks


def test_hooks_around_a_step():
    p, seen = start(), []
    optimizer = optim.SGD([p], lr=0.1)
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", o is optimizer, len(args), kwargs)))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", p.tolist() == start().tolist())))
    p.grad = sg.ones_like(p)
    optimizer.step()
    assert seen == [("before", True, 1, {}), ("after", False)]
    before.remove()
    optimizer.step()
    assert [entry[0] for entry in seen] == ["before", "after", "after"]


def test_a_hook_may_replace_the_arguments_of_a_step():
    p = start()
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((*args, lambda: 7), kwargs))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"):
        optimizer.step()


def test_an_optimizer_of_ones_own_is_hooked_too():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @sg.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad.sign() * group["lr"])

    p, seen = start(), []
    optimizer = Signs([p], lr=0.5)
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    objective(p).backward()
    optimizer.step()
    assert p.tolist() == [0.5, -1.5, 0.0]
    assert seen == [1]


def test_hooks_around_state_dicts():
    p, seen = start(), []
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "more": 1})
    saved = optimizer.state_dict()
    assert seen == ["first", "before"]
    assert saved["more"] == 1
    optimizer.register_load_state_dict_pre_hook(lambda o, saved: {**saved, "param_groups": [{"params": [0], "lr": saved["more"]}]})
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(saved)
    assert seen[-1] == 1


# --- errors


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: optim.SGD([p], lr=sg.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (lambda p: optim.SGD([p], lr=1, momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda p: optim.SGD([p], lr=1, weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda p: optim.SGD([p], lr=1, nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
        (lambda p: optim.SGD([p], fused=True, foreach=True), RuntimeError, "`fused` and `foreach` cannot be `True` together."),
        (lambda p: optim.SGD([p], fused=True, differentiable=True), RuntimeError, "`fused` does not support `differentiable`"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), ValueError, "Invalid beta parameter at index 1: 1.0"),
        (lambda p: optim.Adam([p], betas=(0, 0.5)), ValueError, "betas must be either both floats or both Tensors"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda p: optim.Adam([p], lr=sg.ones(1), foreach=True), ValueError, "lr as a Tensor is not supported for capturable=False"),
        (lambda p: optim.RMSprop([p], alpha=-1), ValueError, "Invalid alpha value: -1"),
        (lambda p: optim.Adagrad([p], lr_decay=-1), ValueError, "Invalid lr_decay value: -1"),
        (lambda p: optim.Adadelta([p], rho=2), ValueError, "Invalid rho value: 2"),
        (lambda p: optim.NAdam([p], momentum_decay=-1), ValueError, "Invalid momentum_decay value: -1"),
        (lambda p: optim.Rprop([p], etas=(2, 1)), ValueError, "Invalid eta values: 2, 1"),
        (lambda p: optim.LBFGS([{"params": p}, {"params": start()}]), ValueError, "LBFGS doesn't support per-parameter options"),
        (lambda p: optim.LBFGS([p]).step(), TypeError, "needs a closure"),
        (lambda p: optim.SGD([], lr=1), ValueError, "optimizer got an empty parameter list"),
        (lambda p: optim.SGD(p, lr=1), TypeError, "should be an iterable of Tensors or dicts, but got torch.DoubleTensor"),
        (lambda p: optim.SGD([3], lr=1), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
        (lambda p: optim.SGD([{"params": {p}}], lr=1), TypeError, "Please use a list instead"),
        (lambda p: optim.SGD([p], lr=1).add_param_group([p]), TypeError, "param_group must be a dict, but got <class 'list'>"),
        (lambda p: optim.SGD([p * 2], lr=1), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}], lr=1), ValueError, "appear in more than one parameter group"),
    ],
)
def test_refused(make, error, words):
    with pytest.raises(error, match=words):
        make(start())


def test_a_parameter_twice_in_a_group_has_one_position():
    p = start()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=0.1, momentum=0.5)
    walk(p, optimizer, 1)
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["params"] == [0, 0]
    assert list(saved["state"]) == [0]
