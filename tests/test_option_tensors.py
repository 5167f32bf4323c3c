"""A tensor of one number may be given for an option. No derivative is taken in an option, so a tensor that requires grad is refused."""

import pytest

import symgrad as sg
from symgrad.nn import functional as F

X = sg.tensor([-1.0, 2.0])
OPTIONS = {
    "leaky_relu": lambda s: F.leaky_relu(X, s), "elu": lambda s: F.elu(X, alpha=s), "softplus": lambda s: F.softplus(X, s),
    "huber_loss": lambda s: F.huber_loss(X, 2 * X, delta=s), "smooth_l1_loss": lambda s: F.smooth_l1_loss(X, 2 * X, beta=s),
    "add": lambda s: sg.add(X, X, alpha=s), "sub": lambda s: X.sub(X, alpha=s), "addcmul": lambda s: sg.addcmul(X, X, X, value=s),
    "addmm": lambda s: sg.addmm(sg.ones(1, 1), sg.ones(1, 1), sg.ones(1, 1), beta=s), "norm": lambda s: X.norm(s),
    "layer_norm": lambda s: F.layer_norm(X, (2,), eps=s), "celu": lambda s: F.celu(X, s), "hardshrink": lambda s: F.hardshrink(X, s),
    "threshold": lambda s: F.threshold(X, s, 1.0), "nan_to_num": lambda s: X.nan_to_num(s), "full": lambda s: sg.full((2,), s),
    "full_like": lambda s: sg.full_like(X, s), "new_full": lambda s: X.new_full((2,), s),
    "arange": lambda s: sg.arange(s, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_a_tensor_for_an_option(name):
    f, s = OPTIONS[name], sg.tensor(0.75)
    wanted = f(0.75).tolist()
    assert f(s).tolist() == wanted
    s.requires_grad_()
    with pytest.raises(TypeError, match="must be a number, not a tensor that requires grad"):
        f(s)
    with sg.no_grad():
        assert f(s).tolist() == wanted
    with pytest.raises(TypeError, match="must be a number, not a tensor that requires grad"):
        sg.func.grad(lambda s: f(s).sum())(sg.tensor(0.75))
