"""Reductions, scans and sorts of nothing: forward and all derivatives, on both back ends, as in eager code."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

F = sg.nn.functional
ALL = ("sum", "nansum", "prod", "mean", "nanmean", "std", "var", "norm", "max", "min", "median", "nanmedian", "logsumexp", "argmax", "all")
ALONG = (
    "sum", "nansum", "prod", "mean", "nanmean", "std", "var", "amax", "amin", "logsumexp", "softmax", "log_softmax", "cumsum", "cumprod",
    "logcumsumexp", "flip", "count_nonzero", "argsort", "argmax", "all", "any", "norm",
)  # fmt: skip
PAIRED = ("max", "min", "sort", "cummax", "cummin", "median", "nanmedian", "mode")


def norm_along(x, d):
    return x.norm(dim=d)


def moved(result):
    """A number that moves with the result."""
    return result.double().sum()


CALLS = {
    **{f"{name}()": lambda x, name=name: getattr(x, name)(*([0] if name == "logsumexp" else [])) for name in ALL},
    **{f"{name}({d})": lambda x, name=name, d=d: (norm_along if name == "norm" else getattr(sg.Tensor, name))(x, d)
       for name in ALONG for d in (0, 1)},
    **{f"{name}({d})[0]": lambda x, name=name, d=d: getattr(x, name)(d)[0] for name in PAIRED for d in (0, 1)},
    **{f"topk({d})": lambda x, d=d: x.topk(0 if d == 0 else 2, d)[0] for d in (0, 1)},
    "kthvalue": lambda x: x.kthvalue(1, 1)[0], "aminmax": lambda x: sum(sg.aminmax(x, dim=1)), "var_mean": lambda x: sum(sg.var_mean(x, 1)),
    "norm 1": lambda x: x.norm(1), "norm 3": lambda x: x.norm(3), "norm inf": lambda x: x.norm(float("inf"), dim=1),
    "prod keepdim": lambda x: x.prod(0, keepdim=True), "logsumexp keepdim": lambda x: x.logsumexp(0, keepdim=True),
    "diff": lambda x: x.diff(dim=1), "roll": lambda x: x.roll(1, 0),
    "searchsorted": lambda x: sg.searchsorted(sg.ones(2), x) * x, "cat": lambda x: sg.cat([x, x]), "matmul": lambda x: x.T @ x,
    "dot": lambda x: x.reshape(-1) @ x.reshape(-1), "einsum": lambda x: sg.einsum("ij,ij->j", x, x), "cdist": lambda x: sg.cdist(x, x),
    "unfold": lambda x: x.unfold(1, 2, 1), "layer_norm": lambda x: F.layer_norm(x, (3,)), "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "scatter_add": lambda x: sg.zeros(2, 3).scatter_add(0, sg.zeros(0, 3, dtype=sg.int64), x),
    "index_select": lambda x: x.index_select(1, sg.tensor([0, 2])), "gather": lambda x: x.gather(1, sg.zeros(0, 2, dtype=sg.int64)),
}  # fmt: skip
FLAT = {
    **{f"{name}()": lambda x, name=name: getattr(x, name)(*([0] if name == "logsumexp" else [])) for name in ALL},
    **{f"{name}(0)": lambda x, name=name: (norm_along if name == "norm" else getattr(sg.Tensor, name))(x, 0) for name in ALONG},
    **{f"{name}(0)[0]": lambda x, name=name: getattr(x, name)(0)[0] for name in PAIRED},
}


def programs():
    """Functions of a matrix, or of a vector, of which a slice without elements goes into the call."""
    for name, call in CALLS.items():
        yield f"{name} of rows", lambda x, call=call: moved(call(x[:0])) + (x * x).sum()
    for name, call in FLAT.items():
        yield f"{name} of a vector", lambda x, call=call: moved(call(x[0, :0])) + (x * x).sum()


PROGRAMS = dict(programs())
X, V = sg.tensor([[0.5, -0.3, 1.2], [0.1, 2.0, -1.0]]), sg.ones(2, 3)
WAYS = {
    "value": (lambda f: f(X), lambda c: c(X)),
    "grad": (lambda f: sg.func.grad(f)(X), lambda c: c.grad(X, wrt="x")),
    "jvp": (lambda f: sg.func.jvp(f, (X,), (V,))[1], lambda c: c.jvp(X, wrt="x")(V)),
    "jacobian": (lambda f: sg.func.jacrev(f)(X), lambda c: c.jacobian(X, wrt="x")),
    "hessian": (lambda f: sg.func.hessian(f)(X), lambda c: c.hessian(X, wrt="x")),
}


def outcome(run, f):
    """Numbers, or the type of the error."""
    try:
        return run(f).detach().numpy()
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_goes_in(name):
    compare(name, "numpy")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if n % 4 else name for n, name in enumerate(PROGRAMS)])
def test_nothing_goes_in_on_xla(name):
    compare(name, "xla")


def compare(name, backend):
    f = PROGRAMS[name]
    if isinstance(outcome(lambda f: f(X), f), type):  # eager code refuses it
        assert isinstance(outcome(lambda c: c(X), sg.compile(f, backend=backend)), type)
        return
    for way, (eagerly, compiled) in WAYS.items():
        found, wanted = outcome(compiled, sg.compile(f, backend=backend)), outcome(eagerly, f)
        assert not isinstance(wanted, type), (way, wanted)
        assert not isinstance(found, type), (way, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=way)
