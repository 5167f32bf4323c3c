"""Every warning of nn and optim names the line of the user's code, through however many calls of ours it came."""

from __future__ import annotations

import warnings

import pytest

import symgrad as sg
from symgrad import nn, optim
from symgrad.nn import functional as F
from symgrad.optim import lr_scheduler

x, y = sg.ones(2, 3), sg.ones(2, 1)


def sgd():
    return optim.SGD([sg.ones(2, requires_grad=True)], lr=0.1)


def stepped(scheduler):
    scheduler.optimizer.step()
    return scheduler


def replaced(scheduler):
    scheduler.optimizer.step = lambda: None
    return scheduler


def hooked(output=None, error=None):
    class Layer(nn.Module):
        def forward(self, input):
            if error is not None:
                raise error
            return input * 2 if output is None else output

    layer = Layer()
    layer.register_full_backward_hook(lambda *_: None)
    return layer


def failing_hook(*_):
    raise RuntimeError("hook")


def always_hooked():
    layer = hooked(error=ValueError("forward"))
    layer.register_forward_hook(failing_hook, always_call=True)
    return layer


def swallowed(layer):
    with pytest.raises(ValueError, match="forward"):
        layer(x)


DUPLICATED, EPOCH = "duplicate parameters", "The epoch parameter"

CASES = [  # words of the warning, what is made before, and the call on one line
    (DUPLICATED, lambda: sg.ones(2, requires_grad=True), lambda p: optim.SGD([p, p], lr=0.1)),
    (DUPLICATED, lambda: sg.ones(2, requires_grad=True), lambda p: optim.AdamW([p, p])),
    (DUPLICATED, lambda: (sgd(), sg.ones(1)), lambda made: made[0].add_param_group({"params": [made[1], made[1]]})),
    ("Detected call of", lambda: lr_scheduler.StepLR(sgd(), 3), lambda s: s.step()),
    ("has been overridden", lambda: replaced(lr_scheduler.StepLR(sgd(), 3)), lambda s: s.step()),
    (EPOCH, lambda: stepped(lr_scheduler.StepLR(sgd(), 3)), lambda s: s.step(4)),
    (EPOCH, lambda: lr_scheduler.ReduceLROnPlateau(sgd()), lambda s: s.step(1.0, 4)),
    ("please use `get_last_lr", lambda: lr_scheduler.StepLR(sgd(), 3), lambda s: s.get_lr()),
    ("Implicit dimension choice for softmax", lambda: F, lambda f: f.softmax(x)),
    ("Implicit dimension choice for log_softmax", lambda: F, lambda f: f.log_softmax(x)),
    ("Implicit dimension choice for softmin", lambda: F, lambda f: f.softmin(x)),
    ("Implicit dimension choice for softmax", nn.Softmax, lambda layer: layer(x)),
    ("`eps` parameter is deprecated", lambda: F, lambda f: f.gumbel_softmax(x, eps=1e-9)),
    ("Using a target size", lambda: F, lambda f: f.mse_loss(x, y)),
    ("Using a target size", nn.MSELoss, lambda loss: loss(x, y)),
    ("Using a target size", nn.L1Loss, lambda loss: loss(x, y)),
    ("Using a target size", nn.SmoothL1Loss, lambda loss: loss(x, y)),
    ("Using a target size", nn.HuberLoss, lambda loss: loss(x, y)),
    ("'batchmean' divides only", lambda: F, lambda f: f.kl_div(x, x)),
    ("'batchmean' divides only", nn.KLDivLoss, lambda loss: loss(x, x)),
    ("Received a 3D input to dropout2d", nn.Dropout2d, lambda layer: layer(sg.ones(2, 3, 4))),
    ("Received a 2-D input to dropout2d", lambda: F, lambda f: f.dropout2d(x)),
    ("Received a 3-D input to dropout3d", nn.Dropout3d, lambda layer: layer(sg.ones(2, 3, 4))),
    ("Positional args are being deprecated", lambda: nn.Linear(1, 1), lambda layer: layer.state_dict({})),
    ("mean is more than 2 std", lambda: x.clone(), lambda t: nn.init.trunc_normal_(t, 9.0)),
    ("zero-element tensors is a no-op", lambda: sg.ones(0, 3), lambda t: nn.init.kaiming_uniform_(t)),
    ("zero-element tensors is a no-op", lambda: sg.ones(0, 3), lambda t: nn.init.kaiming_normal_(t)),
    ("deprecated in favor of `nn.init.constant_`", lambda: x.clone(), lambda t: nn.init.constant(t, 2.0)),
    ("num_layers greater than 1", lambda: nn, lambda module: module.LSTM(2, 3, dropout=0.5)),
    ("num_layers greater than 1", lambda: nn, lambda module: module.RNN(2, 3, dropout=0.5)),
    ("`max_value` is deprecated", lambda: nn, lambda module: module.Hardtanh(max_value=2.0)),
    ("does not match num_features", lambda: nn.InstanceNorm1d(7), lambda layer: layer(sg.ones(2, 3, 4))),
    ("module output should be a Tensor", lambda: hooked([x]), lambda layer: layer(sg.ones(1, requires_grad=True))),
    ("since no inputs require gradients", lambda: hooked(sg.ones(1, requires_grad=True))(x), lambda output: output.backward()),
    ("raised an exception that was silenced", always_hooked, swallowed),
    ("is an empty generator", lambda: (p for p in ()), lambda generator: nn.utils.clip_grad_norm_(generator, 1.0)),
    ("in favor of `torch.nn.utils.clip_grad_norm_`", lambda: [x], lambda tensors: nn.utils.clip_grad_norm(tensors, 1.0)),
    ("`torch.nn.utils.weight_norm` is deprecated", lambda: nn.Linear(2, 2), lambda layer: nn.utils.weight_norm(layer)),
]

RENAMED = ("in favor of", "`max_value`", "Positional args", "weight_norm")
"""Words of warnings that something has a new name."""


@pytest.mark.parametrize(("words", "make", "call"), CASES, ids=[f"{case[0]} {i}" for i, case in enumerate(CASES)])
def test_a_warning_names_the_line_of_the_user(words, make, call):
    made = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(made)
    (warning,) = [w for w in caught if words in str(w.message)]
    line = call.__code__.co_firstlineno + (2 if call is swallowed else 0)
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert warning.category is (FutureWarning if any(name in words for name in RENAMED) else UserWarning)
