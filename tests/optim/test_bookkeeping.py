"""What optimizers keep, copy and check: limits of options, loaded state, hooks, flags and the printed form."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

import symgrad as sg
from symgrad import optim
from symgrad.mode import guard_epoch
from symgrad.optim.holdings import OptimizerGuard

NAMES = ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")


def start():
    return sg.tensor([1.0, -2.0, 0.5], dtype=sg.float64, requires_grad=True)


def stepped(optimizer, *params):
    for p in params:
        p.grad = sg.ones_like(p)
    optimizer.step()
    return optimizer


# --- options


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.0, "momentum": 0, "weight_decay": 0.0}), ("SGD", {"lr": sg.tensor([0.0])}), ("Adam", {"betas": (0.0, 0.0)}),
        ("SGD", {"nesterov": True, "momentum": 0.1}), ("Adam", {"eps": 0.0}), ("Adam", {"lr": sg.ones(1)}),
        ("Adam", {"lr": sg.ones(()), "foreach": True, "capturable": True}),
        ("Adam", {"foreach": True, "differentiable": True}), ("Adam", {"fused": True}),
        ("Adadelta", {"rho": 0.0}), ("Adadelta", {"rho": 1.0}), ("Adadelta", {"eps": 0.0}), ("Adagrad", {"lr_decay": 0.0}),
        ("Adagrad", {"initial_accumulator_value": 0.0}), ("Adamax", {"eps": 0.0, "betas": (0.0, 0.5)}), ("NAdam", {"momentum_decay": 0.0}),
        ("RMSprop", {"alpha": 0.0, "momentum": 0.0}), ("RAdam", {"betas": (0.0, 0.9)}), ("Rprop", {"etas": (0.99, 1.01)}),
        ("ASGD", {"weight_decay": 0.0}), ("LBFGS", {"lr": 0.0}),
    ],
    ids=str,
)  # fmt: skip
def test_limits_that_are_allowed(name, options):
    group = getattr(optim, name)([start()], **options).param_groups[0]
    assert all(group[key] is value or group[key] == value for key, value in options.items())


REFUSED = [(name, {"weight_decay": -1e-9}, "Invalid weight_decay value: -1e-09") for name in NAMES if name != "Rprop"]
REFUSED += [(name, {"lr": -1e-9}, "Invalid learning rate: -1e-09") for name in (*NAMES, "LBFGS")]
REFUSED += [(name, {"lr": sg.ones(2)}, "Tensor lr must be 1-element") for name in (*NAMES, "LBFGS")]
REFUSED += [(name, {"eps": -1.0}, "Invalid epsilon value: -1.0") for name in NAMES if name not in ("SGD", "ASGD", "Rprop")]
REFUSED += [
    (name, {"betas": pair}, f"Invalid beta parameter at index {i}")
    for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")
    for i, pair in enumerate([(1.0, 0.5), (0.5, 1.0)])
]
REFUSED += [("Adam", {"betas": (sg.ones(1) / 2, sg.ones(1) / 2), "foreach": True}, r"betas\[0\] as a Tensor is not supported")]
REFUSED += [("Adagrad", {"initial_accumulator_value": -1.0}, "Invalid initial_accumulator_value value: -1.0")]
REFUSED += [("RMSprop", {"momentum": -1.0}, "Invalid momentum value: -1.0")]
REFUSED += [("Rprop", {"etas": pair}, "Invalid eta values") for pair in ((0.0, 1.2), (1.0, 1.2), (0.5, 1.0))]
REFUSED += [("SGD", {"nesterov": True, "momentum": 0.5, "dampening": 0.1}, "zero dampening")]


@pytest.mark.parametrize(("name", "options", "words"), REFUSED, ids=str)
def test_limits_that_are_not(name, options, words):
    with pytest.raises((ValueError, RuntimeError), match=words):
        getattr(optim, name)([start()], **options)


@pytest.mark.parametrize("name", NAMES)
def test_groups_have_every_default_and_the_form_shows_it(name):
    optimizer = getattr(optim, name)([{"params": [start()]}, {"params": [start()], "lr": 0.75}])
    first, second = optimizer.param_groups
    assert {**first, "params": None} == {**optimizer.defaults, "params": None}
    assert {**second, "params": None} == {**optimizer.defaults, "params": None, "lr": 0.75}
    lines = repr(optimizer).splitlines()
    assert lines[0] == f"{name} ("
    assert lines[1] == "Parameter Group 0"
    half = len(optimizer.defaults) + 2
    assert lines[2:half] == [f"    {key}: {first[key]}" for key in sorted(optimizer.defaults)]
    assert lines[half : half + 2] == ["", "Parameter Group 1"]
    assert "    lr: 0.75" in lines[half:]


# --- parameters


@pytest.mark.parametrize("kind", ["differentiable", "retained"])
def test_computed_parameters_that_are_allowed(kind):
    p = start() * 2
    if kind == "retained":
        p.retain_grad()
    optimizer = optim.SGD([p], lr=0.5, differentiable=kind == "differentiable")
    assert optimizer.param_groups[0]["params"] == [p]


def test_a_group_of_one_tensor_and_names_for_some_groups():
    p, q = start(), start()
    optimizer = optim.SGD([{"params": p}, {"params": (q,)}], lr=1)
    assert [group["params"] for group in optimizer.param_groups] == [[p], [q]]
    named = optim.SGD([{"params": [("p", p)]}], lr=1)
    named.add_param_group({"params": [("q", q)]})
    assert [group["param_names"] for group in named.param_groups] == [["p"], ["q"]]
    with pytest.raises(ValueError, match="cannot add param group with names to the optimizer"):
        optimizer.add_param_group({"params": [("r", start())]})


def test_zero_grad_cuts_the_gradient_from_its_graph():
    p, q = start(), start()
    p.grad = sg.autograd.grad((p**3).sum(), p, create_graph=True)[0]
    assert p.grad.requires_grad
    optim.SGD([p, q], lr=1).zero_grad(set_to_none=False)
    assert (p.grad.requires_grad, p.grad.grad_fn, p.grad.tolist()) == (False, None, [0, 0, 0])
    assert q.grad is None


# --- state


def test_what_a_user_keeps_in_the_state_is_saved_and_loaded():
    p, q = start(), start()
    optimizer = stepped(optim.SGD([p, q], lr=0.5, momentum=0.5), p, q)
    optimizer.state[p]["list"] = [sg.ones(1), 3]
    optimizer.state[p]["pair"] = (sg.ones(1), {"deep": sg.ones(2)})
    optimizer.state[p]["numbers"] = numbers = [1, [2]]
    optimizer.state["mine"] = {"x": 1}
    saved = optimizer.state_dict()
    assert list(saved["state"]) == [0, 1, "mine"]
    other = optim.SGD([p, q], lr=0.5, momentum=0.5)
    other.load_state_dict(saved)
    kept = other.state[p]
    assert isinstance(kept["list"], list)
    assert isinstance(kept["pair"], tuple)
    assert kept["list"][0].dtype is kept["pair"][1]["deep"].dtype is sg.float64
    assert (kept["list"][1], kept["numbers"], other.state["mine"]) == (3, [1, [2]], {"x": 1})
    numbers[1].append(9)
    assert kept["numbers"] == [1, [2]]
    assert other.state[q]["momentum_buffer"].tolist() == [1, 1, 1]


def test_integers_keep_their_state_as_it_is():
    p = sg.tensor([1, 2])
    optimizer = optim.SGD([p], lr=1)
    optimizer.load_state_dict({"state": {0: {"x": sg.ones(2, dtype=sg.float64)}}, "param_groups": [{"params": [0], "lr": 2}]})
    assert optimizer.state[p]["x"].dtype is sg.float64


def test_what_a_state_dict_from_before_an_option_means():
    p = start()
    optimizer = optim.SGD([p], lr=0.5, momentum=0.9, nesterov=True, fused=True, maximize=True)
    optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0], "lr": 0.25}]})
    group = optimizer.param_groups[0]
    wanted = {"lr": 0.25, "momentum": 0, "nesterov": False, "fused": None, "foreach": None, "maximize": False, "weight_decay": False}
    assert {name: group[name] for name in wanted} == wanted
    assert group["params"][0] is p


def test_loading_changes_neither_what_was_given_nor_is_changed_by_it():
    p = start()
    optimizer = optim.Adam([p])
    saved = optimizer.state_dict()
    saved["param_groups"][0]["betas"] = betas = [0.5, 0.6]
    keys = list(saved)
    optimizer.register_load_state_dict_pre_hook(lambda o, given: given.pop("extra", None) and None)
    optimizer.load_state_dict(saved)
    betas[0] = 0.1
    assert optimizer.param_groups[0]["betas"] == [0.5, 0.6]
    assert list(saved) == keys


def test_hooks_stay_with_their_optimizer():
    p, seen = start(), []
    optimizer = optim.SGD([p], lr=0.5)
    optimizer.register_step_post_hook(lambda *_: seen.append("step"))
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["loaded"]
    stepped(optimizer, p)
    assert seen == ["loaded", "step"]
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer.__class__([start()], lr=1)))):
        stepped(other, *other.param_groups[0]["params"])
    assert seen == ["loaded", "step"]


@pytest.mark.parametrize("kind", ["state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"])
def test_hooks_of_state_dicts_in_order(kind):
    optimizer, seen = optim.SGD([start()], lr=0.5), []
    register = getattr(optimizer, f"register_{kind}_hook")
    register(lambda *_: seen.append("second"))
    register(lambda *_: seen.append("first"), prepend=True)
    handle = register(lambda *_: seen.append("never"))
    handle.remove()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["first", "second"]


def test_hooks_of_steps_hand_on_what_they_replace():
    optimizer, seen = optim.SGD([start()], lr=0.5), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: 5}))
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(kwargs["closure"]()))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append((args == (o,), kwargs["closure"]())))
    assert optimizer.step() == 5
    assert seen == [5, (True, 5)]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, kwargs, 3))
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_counted(name):
    p = start()
    optimizer = getattr(optim, name)([p])
    for n in range(3):
        stepped(optimizer, p)
        assert name == "SGD" or optimizer.state[p]["step"].item() == n + 1


@pytest.mark.parametrize("name", NAMES)
def test_parameters_without_gradients_do_not_end_a_step(name):
    p, q = start(), start()
    q.grad = sg.ones_like(q)
    getattr(optim, name)([p, q], lr=0.5).step()
    assert p.tolist() == start().tolist()
    assert q.tolist() != start().tolist()


# --- functional steps


@pytest.mark.parametrize("maximize", [False, True])
def test_a_functional_step_has_the_options_of_its_group(maximize):
    p, q = start(), start()
    optimizer = optim.SGD([{"params": [p], "momentum": 0.5}, {"params": [q], "lr": 2.0}], lr=1.0, maximize=maximize)
    params, states = optimizer.functional_step([sg.zeros(1), sg.zeros(1)], [sg.ones(1), sg.ones(1)])
    params, states = optimizer.functional_step(params, [sg.ones(1), sg.ones(1)], states)
    sign = 1 if maximize else -1
    assert [value.tolist() for value in params] == [[sign * 2.5], [sign * 4.0]]
    assert [list(state) for state in states] == [["momentum_buffer"], []]
    assert (dict(optimizer.state), p.tolist()) == ({}, start().tolist())
    with pytest.raises(ValueError, match="zip"):
        optimizer.functional_step([sg.zeros(1)], [sg.ones(1), sg.ones(1)])


# --- changes that compiled steps must notice


@pytest.mark.parametrize(
    ("change", "bumps"),
    [
        (lambda o, p: o.param_groups[0].__setitem__("lr", 0.25), False),
        (lambda o, p: o.param_groups[0].__setitem__("lr", sg.tensor(0.25)), True),
        (lambda o, p: o.param_groups[0].__setitem__("momentum", 0.25), False),
        (lambda o, p: o.param_groups[0].__setitem__("momentum", 0), True),
        (lambda o, p: o.param_groups[0].__setitem__("weight_decay", 0.25), True),
        (lambda o, p: o.param_groups[0].__setitem__("new", 1), True),
        (lambda o, p: o.param_groups[0].update(nesterov=True), True),
        (lambda o, p: o.param_groups[0]["params"].append(start()), True),
        (lambda o, p: o.param_groups.append({"params": []}), True),
        (lambda o, p: setattr(o, "param_groups", []), True),
        (lambda o, p: setattr(o, "state", {}), True),
        (lambda o, p: o.state[p].__setitem__("momentum_buffer", sg.ones(3)), True),
        (lambda o, p: o.state.update({p: {"momentum_buffer": sg.ones(3)}}), True),
        (lambda o, p: o.state.pop(p), True),
        (lambda o, p: o.state["new"], True),
        (lambda o, p: o.register_step_pre_hook(print), True),
        (lambda o, p: o.register_step_post_hook(print), True),
        (lambda o, p: o.zero_grad(), False),
    ],
)
def test_changes_count_as_changes_of_guards(change, bumps):
    p = start()
    optimizer = stepped(optim.SGD([p], lr=0.5, momentum=0.5), p)
    before = guard_epoch.count
    change(optimizer, p)
    assert (guard_epoch.count > before) is bumps


GUARDED = [  # a change, and what the guard of a traced step says of it
    (lambda o, p: None, None),
    (lambda o, p: o.param_groups[0].update(lr=0.25, momentum=0.25), None),
    (lambda o, p: o.param_groups[0].update(lr=sg.tensor(0.5)), "optimizer, lr: 0.5 -> 0.5"),
    (lambda o, p: o.param_groups[0].update(momentum=0), "optimizer, momentum: 0.5 -> 0"),
    (lambda o, p: o.param_groups[0].update(maximize=True), "optimizer, maximize: False -> True"),
    (lambda o, p: o.param_groups[0].update(new=3), "optimizer, new: None -> 3"),
    (lambda o, p: o.param_groups[0]["params"].append(start()), "optimizer: other parameters in a group"),
    (lambda o, p: o.param_groups[0]["params"].__setitem__(0, start()), "optimizer: other parameters in a group"),
    (lambda o, p: o.add_param_group({"params": start()}), "SGD: other state, or other groups of parameters"),
    (lambda o, p: o.param_groups.pop(), "SGD: other state, or other groups of parameters"),
    (lambda o, p: o.load_state_dict(o.state_dict()), "SGD: other state, or other groups of parameters"),
    (lambda o, p: o.state.clear(), "SGD: other state, or other groups of parameters"),
    (lambda o, p: o.state[p].update(momentum_buffer=sg.ones(3)), "SGD: other state, or other groups of parameters"),
    (lambda o, p: o.state[p].update(more=1), "SGD: other state, or other groups of parameters"),
    (lambda o, p: o.register_step_pre_hook(print), "SGD: other hooks of its steps"),
    (lambda o, p: o.register_step_post_hook(print), "SGD: other hooks of its steps"),
    (lambda o, p: o.register_state_dict_pre_hook(print), None),
]


@pytest.mark.parametrize(("change", "words"), GUARDED)
def test_the_guard_of_a_traced_step_tells_what_has_changed(change, words):
    p = start()
    optimizer = stepped(optim.SGD([p], lr=0.5, momentum=0.5), p)
    guard = OptimizerGuard(optimizer)
    assert (guard.explain_failure(), guard.tensors()) == (None, [])
    change(optimizer, p)
    assert guard.explain_failure() == words


def test_the_state_that_the_first_step_makes_is_expected():
    p = start()
    optimizer = optim.SGD([p], lr=0.5, momentum=0.5)
    guard = OptimizerGuard(optimizer)
    stepped(optimizer, p)
    assert guard.explain_failure() == "SGD: other state, or other groups of parameters"
    guard.finalize()
    assert guard.explain_failure() is None


def test_betas_are_inputs_of_a_traced_step_unless_it_is_differentiable():
    for options, words in (({}, None), ({"differentiable": True}, "optimizer, betas: (0.9, 0.999) -> (0.8, 0.9)")):
        optimizer = optim.Adam([start()], **options)
        guard = OptimizerGuard(optimizer)
        optimizer.param_groups[0]["betas"] = (0.8, 0.9)
        assert guard.explain_failure() == words
    optimizer = optim.Adam([start()])
    guard = OptimizerGuard(optimizer)
    optimizer.param_groups[0]["betas"] = (sg.tensor(0.9), sg.tensor(0.999))
    assert "betas" in guard.explain_failure()


def test_missing_state_is_an_empty_dictionary_that_stays():
    optimizer = optim.SGD([start()], lr=1)
    optimizer.state["new"]["x"] = 1
    assert optimizer.state == {"new": {"x": 1}}
    optimizer.state["plain"] = 3
    assert optimizer.state["plain"] == 3


def test_an_optimizer_is_freed_at_once():
    p = start()
    gone = weakref.ref(stepped(optim.Adam([p]), p))
    gc.disable()
    try:
        assert gone() is None
    finally:
        gc.enable()
