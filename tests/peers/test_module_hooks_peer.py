"""Hooks of modules beside PyTorch's: the same program in both, and the same seen by every hook."""

from __future__ import annotations

import warnings
from collections import namedtuple

import pytest
from module_programs import numbers, said_by, small

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

Pair = namedtuple("Pair", "a b")


def forward_hooks(torch):
    net, seen = small(torch), []
    net.register_forward_pre_hook(lambda m, args: seen.append("pre") or args[0] * 2)
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 3}), with_kwargs=True, prepend=True)
    net.register_forward_hook(lambda m, args, kwargs, out: seen.append((numbers(args), kwargs)) or out + 1, with_kwargs=True)
    net.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    with net.register_forward_hook(lambda m, args, out: seen.append("once")):
        net(torch.ones(3))
    return numbers(net(torch.ones(3))), seen, len(net._forward_hooks), len(net._forward_pre_hooks)


def a_pre_hook_with_keywords_that_returns_one_thing(torch):
    net = small(torch)
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    net(torch.ones(3))


def hooks_that_are_always_called(torch):
    net, seen = small(torch), []
    net.register_forward_hook(lambda m, args, out: seen.append(("usual", out)))
    net.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
    net.register_forward_hook(lambda m, args, kwargs, out: 1 / 0, always_call=True, with_kwargs=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            net(torch.ones(7))
        except RuntimeError:
            seen.append("raised")
    return seen, [str(w.message) for w in caught]


def hooks_everywhere(torch):
    net, seen = torch.nn.Sequential(small(torch), torch.nn.ReLU()), []
    module = torch.nn.modules.module
    handles = [
        module.register_module_forward_pre_hook(lambda m, args: seen.append(("pre", type(m).__name__))),
        module.register_module_forward_hook(lambda m, args, out: seen.append(("post", type(m).__name__))),
        module.register_module_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True),
        module.register_module_full_backward_pre_hook(lambda m, go: seen.append(("back", type(m).__name__, len(go)))),
        module.register_module_full_backward_hook(lambda m, gi, go: seen.append(("backward", type(m).__name__, len(gi)))),
    ]
    try:
        net[0].register_forward_hook(lambda m, args, out: seen.append("own"))
        net(torch.ones(2, 3, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    before = len(seen)
    net(torch.ones(2, 3))
    return seen, len(seen) - before


def hooks_of_registration(torch):
    seen, module = [], torch.nn.modules.module
    handles = [
        module.register_module_parameter_registration_hook(lambda m, name, p: seen.append(("parameter", name))),
        module.register_module_buffer_registration_hook(lambda m, name, b: b * 0 + 5 if name == "count" else None),
        module.register_module_module_registration_hook(lambda m, name, sub: seen.append(("module", name, type(sub).__name__))),
    ]
    try:
        net = small(torch)
    finally:
        for handle in handles:
            handle.remove()
    return seen, numbers(net.count)


def backward_hooks(torch):
    net, seen = small(torch), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((numbers(gi), numbers(go))) or (gi[0] * 2,))
    net.register_full_backward_pre_hook(lambda m, go: seen.append(numbers(go)) or (go[0] * 3,))
    x = torch.ones(2, 3, requires_grad=True)
    y = net(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen, numbers(x.grad), numbers(net.scale.grad), type(y.grad_fn).__name__ != ""


def backward_hooks_of_several(torch):
    class Two(torch.nn.Module):
        def forward(self, x, k, y):
            return Pair(x * k, (y * 2, x + y)[0])

    net, seen = Two(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((numbers(gi), numbers(go))))
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    out = net(x, 3, y)
    out.a.sum().backward()
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    out = net(x, 3, y)
    out.b.sum().backward()
    return seen, type(out).__name__, numbers(x.grad), numbers(y.grad)


def backward_hooks_without_inputs(torch):
    net, seen = small(torch), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((numbers(gi), numbers(go))))
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to module outputs"):
        net(torch.ones(3)).sum().backward()
    return seen


def backward_hooks_that_replace_nothing(torch):
    net = small(torch)
    net.register_full_backward_hook(lambda m, gi, go: (torch.ones(3),))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        net(torch.ones(3)).sum().backward()


def backward_hook_of_the_wrong_length(torch):
    net = small(torch)
    net.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    net(torch.ones(3, requires_grad=True)).sum().backward()


def backward_pre_hook_of_the_wrong_length(torch):
    net = small(torch)
    net.register_full_backward_pre_hook(lambda m, go: ())
    net(torch.ones(3, requires_grad=True)).sum().backward()


def backward_hooks_around_the_output(torch):
    class Leak(torch.nn.Module):
        def forward(self, x):
            self.kept = x * 2
            return x * 3

    net = Leak()
    net.register_full_backward_hook(lambda m, gi, go: None)
    net(torch.ones(2, requires_grad=True))
    net.kept.sum().backward()


def backward_hooks_of_other_outputs(torch):
    class Named(torch.nn.Module):
        def forward(self, x):
            return {"a": x * 2}

    net, seen = Named(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = net(torch.ones(2))
    return list(out), [str(w.message) for w in caught], seen


def backward_hooks_without_recording(torch):
    net, seen = small(torch), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    with torch.no_grad():
        y = net(torch.ones(3, requires_grad=True))
    return y.requires_grad, seen


def state_hooks(torch):
    net, seen = torch.nn.Sequential(small(torch), torch.nn.ReLU()), []
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    net[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state.__setitem__(prefix + "more", meta["version"]))
    state = net.state_dict()
    net[0].register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.pop(prefix + "more", None))
    seen.append(str(net.load_state_dict(state)))
    net[0].register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state.pop("0.scale")
    seen.append(str(net.load_state_dict(state)))
    return list(state), seen


def state_post_hook_that_returns(torch):
    net = small(torch)
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state)
    net.state_dict()


def load_post_hook_that_returns(torch):
    net = small(torch)
    net.register_load_state_dict_post_hook(lambda m, keys: keys)
    net.load_state_dict(net.state_dict())


@pytest.mark.parametrize("program", [
    forward_hooks, a_pre_hook_with_keywords_that_returns_one_thing, hooks_that_are_always_called, hooks_everywhere, hooks_of_registration,
    backward_hooks, backward_hooks_of_several, backward_hooks_without_inputs, backward_hooks_that_replace_nothing,
    backward_hook_of_the_wrong_length, backward_pre_hook_of_the_wrong_length, backward_hooks_around_the_output,
    backward_hooks_of_other_outputs, backward_hooks_without_recording, state_hooks, state_post_hook_that_returns,
    load_post_hook_that_returns,
], ids=lambda program: program.__name__)  # fmt: skip
def test_program(program):
    assert said_by(program, sg) == said_by(program, torch)
