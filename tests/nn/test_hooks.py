"""Hooks of modules: before and after forward, around backward, of one module and of all."""

from __future__ import annotations

import gc
import weakref
from collections import namedtuple

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.nn.hooks import ANYWHERE
from symgrad.nn.modules import module as everywhere


def test_forward_hooks_see_and_replace():
    layer, seen = nn.Linear(3, 2), []
    before = layer.register_forward_pre_hook(lambda m, args: seen.append("before") or (args[0] * 0,))
    after = layer.register_forward_hook(lambda m, args, out: seen.append("after") or out + 1)
    first = layer.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    np.testing.assert_allclose(layer(sg.ones(1, 3)).detach().numpy(), layer.bias.detach().numpy()[None] + 1)
    assert seen == ["before", "first", "after"]
    for handle in (before, after, first):
        handle.remove()
    layer(sg.ones(1, 3))
    assert len(seen) == 3


def test_hooks_with_keyword_arguments():
    class Scaled(nn.Module):
        def forward(self, x, factor=1):
            return x * factor

    module = Scaled()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 2 * kwargs["factor"]}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["factor"], with_kwargs=True)
    assert module(sg.tensor([1.0]), factor=3).tolist() == [12]


def test_full_backward_hooks_see_both_sides_and_replace_the_gradient():
    layer, seen = nn.Linear(3, 2), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].clone(), grad_output[0].clone()))
        return (grad_input[0] * 2,)

    layer.register_full_backward_hook(hook)
    x = sg.ones(1, 3, requires_grad=True)
    layer(x).sum().backward()
    ((given, asked),) = seen
    np.testing.assert_allclose(given.numpy(), layer.weight.detach().numpy().sum(0)[None], rtol=1e-6)
    assert asked.tolist() == [[1, 1]]
    np.testing.assert_allclose(x.grad.numpy(), 2 * given.numpy())
    assert layer.bias.grad.tolist() == [1, 1]


def test_full_backward_pre_hook_replaces_the_gradient_of_the_output():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
    layer(sg.ones(1, 3)).sum().backward()
    assert layer.bias.grad.tolist() == [3, 3]


def test_full_backward_hook_without_a_gradient_of_the_input():
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output[0].tolist())))
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to module outputs"):
        layer(sg.ones(1, 3)).sum().backward()
    assert seen == [((None,), [[1, 1]])]


def test_backward_hooks_of_nested_modules_run_from_the_output_inwards():
    net, seen = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), []
    for name, module in net.named_modules():
        module.register_full_backward_hook(lambda m, gi, go, name=name: seen.append(name))
    net(sg.ones(1, 3, requires_grad=True)).sum().backward()
    assert seen == ["2", "1", "0", ""]


def test_hooks_leave_no_cycles():
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        net[0].register_full_backward_hook(lambda *args: None)
        out = net(sg.ones(1, 3, requires_grad=True)).sum()
        out.backward()
        gone = weakref.ref(net)
        del net, out
        assert gone() is None
    finally:
        gc.enable()


class Scaled(nn.Module):
    def forward(self, x, factor=1):
        return x * factor


def test_a_hook_that_is_always_called_sees_failures_and_cannot_hide_them():
    layer, seen = nn.Linear(3, 2), []
    layer.register_forward_hook(lambda m, args, out: seen.append("usual"))
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    layer.register_forward_hook(lambda m, args, kwargs, out: 1 / 0, always_call=True, with_kwargs=True)
    with (
        pytest.warns(UserWarning, match="raised an exception that was silenced as another error was raised in forward: division by zero"),
        pytest.raises(RuntimeError, match="shape"),
    ):
        layer(sg.ones(1, 4))
    assert seen == [None]


def test_a_hook_that_failed_is_not_called_again():
    layer, seen = Scaled(), []
    layer.register_forward_hook(lambda m, args, out: seen.append("once") or 1 / 0, always_call=True)
    with pytest.raises(ZeroDivisionError):
        layer(sg.ones(1))
    assert seen == ["once"]


def test_what_a_pre_hook_with_keywords_must_return():
    module = Scaled()
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
        module(sg.ones(1))


def test_leaving_a_handle_removes_the_hook_and_its_flags():
    module = Scaled()
    with module.register_forward_hook(lambda *args: None, with_kwargs=True, always_call=True):
        assert module._forward_hooks_always_called
    assert not any((module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called))


def test_hooks_of_all_modules():
    net, seen = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), []
    handles = [
        everywhere.register_module_forward_pre_hook(lambda m, args: seen.append(("before", type(m).__name__))),
        everywhere.register_module_forward_hook(lambda m, args, kwargs, out: seen.append(("after", kwargs)), with_kwargs=True),
        everywhere.register_module_full_backward_pre_hook(lambda m, go: seen.append(("back", type(m).__name__))),
        everywhere.register_module_full_backward_hook(lambda m, gi, go: seen.append(("gradient", len(gi), len(go)))),
    ]
    try:
        net[1].register_forward_hook(lambda m, args, out: seen.append("own"))
        net(sg.ones(1, 3, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    forward = [("before", "Sequential"), ("before", "Linear"), ("after", {}), ("before", "ReLU"), ("after", {}), "own", ("after", {})]
    names = ["Sequential", "ReLU", "Linear"]
    assert seen[:7] == forward
    assert [entry[1] for entry in seen[7:] if entry[0] == "back"] == names
    assert seen[7:].count(("gradient", 1, 1)) == 3
    seen.clear()
    net(sg.ones(1, 3))
    assert seen == ["own"]
    assert not ANYWHERE  # calls are as fast as before


def test_hooks_of_registration():
    seen = []
    handles = [
        everywhere.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name)),
        everywhere.register_module_buffer_registration_hook(lambda m, name, b: b + 5),
        everywhere.register_module_module_registration_hook(lambda m, name, sub: seen.append((name, type(sub).__name__))),
    ]
    try:
        net = nn.Sequential(nn.Linear(1, 1))
        net.register_buffer("b", sg.zeros(1))
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["weight", "bias", ("0", "Linear")]
    assert net.b.tolist() == [5]


Pair = namedtuple("Pair", "first second")


def test_backward_hooks_of_several_inputs_and_outputs():
    class Both(nn.Module):
        def forward(self, x, k, y):
            return Pair(x * k, y * 2)

    module, seen = Both(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append([None if g is None else g.tolist() for g in (*gi, *go)]))
    x, y = sg.ones(1, requires_grad=True), sg.ones(1, requires_grad=True)
    module(x, 3, y).first.sum().backward()
    assert seen == [[[3], None, [0], [1], None]]
    assert y.grad.tolist() == [0]


@pytest.mark.parametrize(("kind", "hook", "words"), [
    ("hook", lambda m, gi, go: (gi[0], gi[0]), "Backward hook returned an invalid number of grad_input, got 2, but expected 1"),
    ("pre_hook", lambda m, go: (), "Backward pre hook returned an invalid number of grad_output, got 0, but expected 1"),
])  # fmt: skip
def test_a_backward_hook_gives_as_many_gradients_as_it_got(kind, hook, words):
    layer = nn.Linear(3, 2)
    getattr(layer, f"register_full_backward_{kind}")(hook)
    with pytest.raises(RuntimeError, match=words):
        layer(sg.ones(3, requires_grad=True)).sum().backward()


def test_without_gradients_of_inputs_there_is_nothing_to_replace():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda m, gi, go: (sg.ones(3),))
    with (
        pytest.warns(UserWarning, match="Full backward hook is firing"),
        pytest.raises(RuntimeError, match="should always return None or None for all gradients"),
    ):
        layer(sg.ones(3)).sum().backward()


def test_a_gradient_that_does_not_come_through_the_output_is_not_shown():
    class Leak(nn.Module):
        def forward(self, x):
            self.kept = x * 2
            return x * 3

    module, seen, x = Leak(), [], sg.ones(2, requires_grad=True)
    module.register_full_backward_hook(lambda *args: seen.append(args))
    out = module(x)
    module.kept.sum().backward(retain_graph=True)
    assert seen == []
    assert x.grad.tolist() == [2, 2]
    out.sum().backward(retain_graph=True)
    assert len(seen) == 1
    module.kept.sum().backward()  # what the output received before is not shown again
    assert len(seen) == 1


def test_backward_hooks_and_outputs_that_are_no_tensors():
    module = nn.Identity()
    module.register_full_backward_hook(lambda *args: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors but received <class 'dict'>"):
        assert module({"a": 1}) == {"a": 1}


def test_without_recording_backward_hooks_cost_nothing():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda *args: None)
    layer.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    x, seen = sg.ones(3, requires_grad=True), []
    layer.forward = lambda given: seen.append(given) or given
    with sg.no_grad():
        assert layer(x) is x
    assert seen[1] is x  # there is no gate in between


# --- flags, order, removal


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("forward_pre", "_forward_pre_hooks"), ("forward", "_forward_hooks"), ("full_backward_pre", "_backward_pre_hooks"),
        ("full_backward", "_backward_hooks"), ("backward", "_backward_hooks"),
    ],
)  # fmt: skip
def test_hooks_are_registered_in_order_and_removed(kind, group):
    layer, seen = nn.Linear(1, 1), []
    register = getattr(layer, f"register_{kind}_hook")
    handles = [register(lambda *_: seen.append("second"))]
    if kind != "backward":
        handles.append(register(lambda *_: seen.append("first"), prepend=True))
    layer(sg.ones(1, requires_grad=True)).backward()
    assert seen == ["first", "second"][2 - len(handles) :]
    for handle in handles:
        handle.remove()
    assert not layer._forward_hooks
    assert not getattr(layer, group)
    layer(sg.ones(1, requires_grad=True)).backward()
    assert len(seen) == len(handles)


def test_flags_belong_to_their_hook_alone():
    module, seen = Scaled(), []
    module.register_forward_pre_hook(lambda m, args: seen.append(len(args)))
    module.register_forward_pre_hook(lambda m, args, kwargs: seen.append(kwargs), with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: seen.append(out.item()))
    module.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    module(sg.ones(1), factor=3)
    assert seen == [1, {"factor": 3}, 3.0, {"factor": 3}]


def test_a_pre_hook_may_return_one_value():
    module = Scaled()
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    assert module(sg.ones(1), factor=2).item() == 4


def test_a_hook_of_all_modules_that_is_always_called():
    seen = []
    handles = [
        everywhere.register_module_forward_hook(lambda m, args, out: seen.append(out), always_call=True),
        everywhere.register_module_forward_hook(lambda m, args, out: seen.append("never")),
    ]
    try:
        with pytest.raises(TypeError):
            Scaled()()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [None]
    Scaled()(sg.ones(1))
    assert (seen, len(ANYWHERE)) == ([None], 0)


def test_hooks_of_registration_are_removed():
    handles = [
        everywhere.register_module_parameter_registration_hook(lambda m, name, p: nn.Parameter(p.detach().double())),
        everywhere.register_module_module_registration_hook(lambda m, name, sub: nn.Identity()),
    ]
    net = nn.Sequential(nn.Linear(1, 1))
    layer = nn.Linear(2, 2)
    for handle in handles:
        handle.remove()
    assert isinstance(net[0], nn.Identity)
    assert (layer.weight.dtype, nn.Linear(1, 1).weight.dtype) == (sg.float64, sg.float32)
    assert isinstance(nn.Sequential(nn.Linear(1, 1))[0], nn.Linear)


def test_without_gradients_of_inputs_none_may_be_returned_for_each():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda m, gi, go: (None,))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        layer(sg.ones(3)).sum().backward()
    assert layer.bias.grad.tolist() == [1, 1]
    only_before = nn.Linear(3, 2)
    only_before.register_full_backward_pre_hook(lambda m, go: None)
    only_before(sg.ones(3)).sum().backward()  # nothing fires that could be warned of
    assert only_before.bias.grad.tolist() == [1, 1]


def test_gates_leave_what_needs_no_gradient_alone():
    class Both(nn.Module):
        def forward(self, x, y):
            self.given = y
            return x * 2, y

    module, y = Both(), sg.ones(1)
    module.register_full_backward_hook(lambda *_: None)
    first, second = module(sg.ones(1, requires_grad=True), y)
    assert (first.requires_grad, second.requires_grad, module.given.requires_grad) == (True, False, False)
