"""State, copies, parametrizations and functional calls of modules beside PyTorch's: the same program in both sees the same."""

from __future__ import annotations

import copy
import warnings

import pytest
from module_programs import numbers, said_by, small

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


def assigned_state(torch):
    net, seen = small(torch), []
    net.scale.requires_grad_(False)
    old = net.scale
    state = {k: v.clone().double() for k, v in net.state_dict().items()}
    state["first.bias"] = torch.nn.Parameter(state["first.bias"])
    seen.append(str(net.load_state_dict(state, assign=True)))
    seen.append([net.scale is old, net.scale.dtype, net.scale.requires_grad, net.first.weight.requires_grad, type(net.scale).__name__])
    seen.append([net.first.bias is state["first.bias"], net.count is state["count"], net.scale.data_ptr() == state["scale"].data_ptr()])
    return seen


def assigned_misshapen_state(torch):
    small(torch).load_state_dict({**small(torch).state_dict(), "scale": torch.ones(3)}, assign=True)


def extra_state(torch):
    class Counting(torch.nn.Linear):
        steps = 0

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    net, other = torch.nn.Sequential(Counting(1, 1)), torch.nn.Sequential(Counting(1, 1))
    net[0].steps = 7
    state = net.state_dict()
    seen = [list(state), state["0._extra_state"], str(other.load_state_dict(state)), other[0].steps]
    seen.append(str(other.load_state_dict({k: v for k, v in state.items() if "extra" not in k}, strict=False)))
    seen.append(str(torch.nn.Sequential(torch.nn.Linear(1, 1)).load_state_dict(state, strict=False)))
    return seen


def state_of_an_older_version(torch):
    class Renamed(torch.nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = torch.nn.Sequential(Renamed(1, 1))
    result = net.load_state_dict({"0.w": torch.ones(1, 1), "0.bias": torch.zeros(1)})
    return str(result), numbers(net[0].weight), net.state_dict()._metadata["0"], str(net.load_state_dict(net.state_dict()))


def saving_of_ones_own(torch):
    class Doubled(torch.nn.Linear):
        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "twice"] = self.weight.detach() * 2

    return list(torch.nn.Sequential(Doubled(1, 1)).state_dict())


def a_number_from_an_old_file(torch):
    net = torch.nn.Module()
    net.number = torch.nn.Parameter(torch.tensor(1.0))
    return str(net.load_state_dict({"number": torch.tensor([3.0])})), numbers(net.number)


def copies(torch):
    net = small(torch)
    net.register_forward_hook(len_of)
    net(torch.ones(3)).sum().backward()
    other = copy.deepcopy(net)
    seen = [list(other.state_dict()), other.again is other.first, other.scale.grad is None, len(other._forward_hooks)]
    with torch.no_grad():
        other.scale.zero_()
    return seen, numbers(net.scale), other.first.weight.requires_grad


def len_of(module, args, out):
    return None


def a_conversion(torch):
    net = small(torch)
    net(torch.ones(3)).sum().backward()
    weight, grad = net.first.weight, net.first.weight.grad
    net.double()
    seen = [net.first.weight is weight, net.first.weight.grad is grad, grad.dtype, net.hidden.dtype, net.again is net.first]
    net.steps = torch.nn.Buffer(torch.zeros(1, dtype=torch.int64))
    return seen, net.half().steps.dtype, net.to(torch.float32).steps.dtype, net.type(torch.float64).steps.dtype


def several_bases(torch):
    class Other:
        def __init__(self, a):
            self.a = a

    class Both(torch.nn.Module, Other):
        call_super_init = True

    return Both(3).a


def a_train_of_ones_own(torch):
    class Frozen(torch.nn.Linear):
        def train(self, mode=True):
            return super().train(False)

    net = torch.nn.Sequential(Frozen(1, 1), torch.nn.ReLU())
    return [m.training for m in net.train().modules()]


def an_apply_of_ones_own(torch):
    class Watching(torch.nn.Linear):
        def _apply(self, fn, recurse=True):
            seen.append(recurse)
            return super()._apply(fn, recurse)

    seen = []
    net = torch.nn.Sequential(Watching(1, 1)).double()
    return seen, net[0].weight.dtype


def a_subclass_as_parameter(torch):
    class Tagged(torch.Tensor):
        pass

    p = torch.nn.Parameter(torch.ones(2).as_subclass(Tagged))
    net = torch.nn.Module()
    net.p = p
    return type(p).__name__, isinstance(p, torch.nn.Parameter), p.requires_grad, [n for n, _ in net.named_parameters()]


@pytest.mark.parametrize("program", [
    assigned_state, assigned_misshapen_state, extra_state, state_of_an_older_version, saving_of_ones_own, a_number_from_an_old_file,
    copies, a_conversion, several_bases, a_train_of_ones_own, an_apply_of_ones_own, a_subclass_as_parameter,
], ids=lambda program: program.__name__)  # fmt: skip
def test_program(program):
    assert said_by(program, sg) == said_by(program, torch)


def parametrized_modules(torch):
    nn = torch.nn
    kinds, P = nn.utils.parametrizations, nn.utils.parametrize

    class Twice(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, y):
            return y / 2

    seen = []
    for layer in (
        kinds.weight_norm(nn.Linear(3, 2)),
        kinds.weight_norm(nn.Linear(3, 2), dim=1),
        kinds.weight_norm(nn.Linear(3, 2), dim=None),
        kinds.spectral_norm(nn.Linear(3, 2)),
        P.register_parametrization(P.register_parametrization(nn.Linear(3, 2), "weight", Twice()), "weight", Twice()),
    ):
        y = layer(torch.ones(4, 3))
        y.square().sum().backward()
        seen += [repr(layer), list(layer.state_dict()), numbers(y), numbers([p.grad for p in layer.parameters()])]
        P.remove_parametrizations(layer, "weight")
        seen += [repr(layer), list(layer.state_dict()), numbers(list(layer.parameters()))]
    return seen


def older_weight_norm(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2), dim=1)
    layer(torch.ones(3)).sum().backward()
    seen = [list(layer.state_dict()), numbers([p.grad for p in layer.parameters()])]
    newer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2), dim=1)
    seen += [str(newer.load_state_dict(layer.state_dict())), numbers(newer.weight)]
    return seen, repr(torch.nn.utils.remove_weight_norm(layer)), list(layer.state_dict())


def older_spectral_norm(torch):
    seen = []
    for layer, x in ((torch.nn.Linear(3, 2), torch.ones(3)), (torch.nn.ConvTranspose2d(2, 3, 2), torch.ones(1, 2, 2, 2))):
        torch.nn.utils.spectral_norm(layer, n_power_iterations=2)
        layer(x).sum().backward()
        seen += [list(layer.state_dict()), numbers(list(layer.state_dict().values())), numbers([p.grad for p in layer.parameters()])]
        torch.nn.utils.remove_spectral_norm(layer)
        seen += [list(layer.state_dict()), numbers(list(layer.state_dict().values()))]
    return seen


@pytest.mark.parametrize("program", [parametrized_modules, older_weight_norm, older_spectral_norm], ids=lambda program: program.__name__)
def test_parametrization(program):
    assert said_by(program, sg) == said_by(program, torch)


# --- modules as functions


def calls_with_other_tensors(torch):
    call, nn, x = torch.func.functional_call, torch.nn, torch.ones(2)
    net, tied = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1)), nn.Module()
    tied.a = tied.b = nn.Parameter(torch.ones(1))
    tied.forward = lambda: (tied.a.tolist(), tied.b.tolist())
    seen = [call(tied, {name: torch.zeros(1)}, (), tie_weights=tie) for name in "ab" for tie in (True, False)]
    params = {name: p.detach() for name, p in net.named_parameters()}
    gradients = torch.func.grad(lambda p: call(net.eval(), (p, dict(net.named_buffers())), x.expand(3, 2)).square().sum())(params)
    return seen, {name: numbers(g) for name, g in gradients.items()}


def a_call_that_lacks_tensors(torch):
    torch.func.functional_call(small(torch), {"scale": torch.ones(4), "zz": torch.ones(1)}, torch.ones(3), strict=True)


@pytest.mark.parametrize("program", [calls_with_other_tensors, a_call_that_lacks_tensors], ids=lambda program: program.__name__)
def test_functional_call(program):
    assert said_by(program, sg) == said_by(program, torch)
