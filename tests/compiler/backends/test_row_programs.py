"""Rows that are not elementwise, in small programs: eager code, formula and kernel give the same values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F

rng = np.random.default_rng(1)
PICK = sg.tensor([0, 2, 1])


def T(*shape):
    return sg.tensor(rng.normal(size=shape), requires_grad=True)


def S(n):
    """Symmetric and positive-definite."""
    a = rng.normal(size=(n, n))
    return sg.tensor(a @ a.T + n * np.eye(n), requires_grad=True)


PROGRAMS = {
    "t": (lambda x: (x.t()@x).sum(), T(3, 2)),
    "T": (lambda x: (x.T@x).sum(), T(3, 2)),
    "permute": (lambda x: (x.permute(2, 0, 1)**3).sum(), T(2, 3, 4)),
    "squeeze": (lambda x: (x.squeeze(1)**3).sum(), T(2, 1, 4)),
    "unsqueeze": (lambda x: (x.unsqueeze(1)*x).sum(), T(3, 4)),
    "mean": (lambda x: x.mean(1).exp().mean(), T(3, 4)),
    "prod": (lambda x: x.prod(1).sum(), T(3, 4)),
    "amax": (lambda x: x.amax(1).exp().sum(), T(3, 4)),
    "max": (lambda x: x.max(), T(3, 4)),
    "maxdim": (lambda x: x.max(1)[0].exp().sum(), T(3, 4)),
    "min": (lambda x: x.min(0).values.exp().sum(), T(3, 4)),
    "var": (lambda x: x.var(1).exp().sum(), T(3, 4)),
    "std": (lambda x: x.std(), T(3, 4)),
    "norm": (lambda x: x.norm(), T(3, 4)),
    "logsumexp": (lambda x: x.logsumexp(1).exp().sum(), T(3, 4)),
    "softmax": (lambda x: (x.softmax(1)**2).sum(), T(3, 4)),
    "log_softmax": (lambda x: (x.log_softmax(1)**2).sum(), T(3, 4)),
    "cumsum": (lambda x: (x.cumsum(1)**2).sum(), T(3, 4)),
    "cumprod": (lambda x: (x.cumprod(1)).sum(), T(3, 4)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1).exp().sum(), T(3, 4)),
    "cummax": (lambda x: x.cummax(1)[0].exp().sum(), T(3, 4)),
    "sort": (lambda x: (x.sort(1)[0]*sg.arange(4.)).sum(), T(3, 4)),
    "topk": (lambda x: x.topk(2)[0].exp().sum(), T(3, 4)),
    "slice": (lambda x: (x[1:, ::2]**2).sum(), T(3, 4)),
    "int": (lambda x: (x[1]**2).sum(), T(3, 4)),
    "index": (lambda x: (x[PICK]**2).sum(), T(3, 4)),
    "gather": (lambda x: x.gather(0, sg.tensor([[0, 1, 2, 0]])).exp().sum(), T(3, 4)),
    "index_select": (lambda x: x.index_select(0, PICK).exp().sum(), T(3, 4)),
    "cat": (lambda x, y: (sg.cat([x, y], 1)**3).sum(), T(3, 4), T(3, 2)),
    "stack": (lambda x, y: (sg.stack([x, y], 1)**3).sum(), T(3, 4), T(3, 4)),
    "split": (lambda x: (x.split(2, 1)[0]*x.split(2, 1)[1]).sum(), T(3, 4)),
    "unbind": (lambda x: (x.unbind(1)[0]*x.unbind(1)[1]).sum(), T(3, 4)),
    "flip": (lambda x: (x.flip(0)*x).sum(), T(3, 4)),
    "roll": (lambda x: (x.roll(1, 0)*x).sum(), T(3, 4)),
    "repeat": (lambda x: (x.repeat(2, 1)**2).sum(), T(3, 4)),
    "tril": (lambda x: (x.tril()**2).sum(), T(3, 4)),
    "diagonal": (lambda x: (x.diagonal()**2).sum(), T(3, 4)),
    "diag": (lambda x: (sg.diag(x)@sg.diag(x)).sum(), T(3)),
    "unfold": (lambda x: (x.unfold(0, 2, 1)**2).sum(), T(4)),
    "bmm": (lambda x, y: (x@y).tanh().sum(), T(2, 3, 4), T(2, 4, 2)),
    "mv": (lambda x, y: (x@y).tanh().sum(), T(3, 4), T(4)),
    "vm": (lambda x, y: (y@x).tanh().sum(), T(3, 4), T(3)),
    "dot": (lambda x, y: x.dot(y).tanh(), T(3), T(3)),
    "outer": (lambda x, y: sg.outer(x, y).tanh().sum(), T(3), T(2)),
    "addmm": (lambda c, x, y: sg.addmm(c, x, y, beta=2, alpha=3).tanh().sum(), T(3, 2), T(3, 4), T(4, 2)),
    "einsum": (lambda x, y: sg.einsum("ij,kj->ik", x, y).tanh().sum(), T(3, 4), T(2, 4)),
    "trace": (lambda x: (x@x).trace(), T(3, 3)),
    "kron": (lambda x, y: sg.kron(x, y).sin().sum(), T(2, 2), T(2, 2)),
    "cross": (lambda x, y: sg.cross(x, y, dim=0).exp().sum(), T(3), T(3)),
    "inv": (lambda x: sg.linalg.inv(x).sum(), S(3)),
    "det": (lambda x: sg.linalg.det(x), S(3)),
    "slogdet": (lambda x: sg.linalg.slogdet(x)[1], S(3)),
    "solve": (lambda x, y: sg.linalg.solve(x, y).sum(), S(3), T(3, 2)),
    "cholesky": (lambda x: sg.linalg.cholesky(x).sum(), S(3)),
    "where": (lambda x: sg.where(x>0, x.exp(), x**2).sum(), T(3, 4)),
    "clamp": (lambda x: (x.clamp(-.5, .5)*x).sum(), T(3, 4)),
    "masked_fill": (lambda x: (x.masked_fill(x>0, 0.)**2).sum(), T(3, 4)),
    "linear": (lambda x, w, b: F.linear(x, w, b).tanh().sum(), T(3, 4), T(2, 4), T(2)),
    "mse": (lambda x, y: F.mse_loss(x, y), T(3, 4), T(3, 4)),
    "ce": (lambda x: F.cross_entropy(x, sg.tensor([0, 1, 2])), T(3, 4)),
    "bcel": (lambda x: F.binary_cross_entropy_with_logits(x, sg.ones(3, 4).double()), T(3, 4)),
    "huber": (lambda x, y: F.huber_loss(x, y), T(3, 4), T(3, 4)),
    "sl1": (lambda x, y: F.smooth_l1_loss(x, y), T(3, 4), T(3, 4)),
    "ln": (lambda x, w, b: (F.layer_norm(x, (4, ), w, b)**3).sum(), T(3, 4), T(4), T(4)),
    "conv": (lambda x, w: (F.conv2d(x, w, padding=1)**2).sum(), T(1, 2, 5, 5), T(3, 2, 3, 3)),
    "conv_s": (lambda x, w, b: (F.conv1d(x, w, b, stride=2, dilation=2)**2).sum(), T(2, 2, 9), T(3, 2, 2), T(3)),
    "maxpool": (lambda x: (F.max_pool2d(x, 2)**2).sum(), T(1, 2, 4, 4)),
    "avgpool": (lambda x: (F.avg_pool2d(x, 2)**2).sum(), T(1, 2, 4, 4)),
    "pad": (lambda x: (F.pad(x, (1, 2))**2).sum(), T(3, 4)),
    "gelu": (lambda x: F.gelu(x).sum(), T(3, 4)),
    "softplus": (lambda x: F.softplus(x).sum(), T(3, 4)),
    "emb": (lambda w: (F.embedding(PICK, w)**2).sum(), T(3, 4)),
    "detach": (lambda x: (x*x.detach()).sum(), T(3, 4)),
}
BATCHES = [sorted(PROGRAMS)[i::6] for i in range(6)]


def eager(f, args):
    y = f(*args)
    return [y.detach().numpy(), *(g.numpy() for g in sg.autograd.grad(y, args))]


def close(found, wanted, name=""):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_formula(name):
    f, *args = PROGRAMS[name]
    value, gradients = sg.derive(f, wrt=tuple(range(len(args))))(*args)(*args)
    close([value.numpy(), *(g.numpy() for g in gradients)], eager(f, args))


def together(names):
    """Several programs as one function, which is compiled once, and its arguments."""
    counts = [len(PROGRAMS[name]) - 1 for name in names]

    def all_of_them(*args):
        given = iter(args)
        return [PROGRAMS[name][0](*(next(given) for _ in range(count))) for name, count in zip(names, counts, strict=True)]

    return all_of_them, [a for name in names for a in PROGRAMS[name][1:]]


def test_kernels():
    names = sorted(PROGRAMS)
    f, args = together(names)
    for found, wanted, name in zip(sg.compile(f)(*args), f(*args), names, strict=True):
        close([found.detach().numpy()], [wanted.detach().numpy()], name)


@pytest.mark.slow
@pytest.mark.parametrize("names", BATCHES, ids=range(6))
def test_compiled_gradients(names):
    f, args = together(names)
    total = lambda *args: sum(f(*args)[1:], f(*args)[0])
    close([g.numpy() for g in sg.autograd.grad(sg.compile(total)(*args), args)], [g.numpy() for g in sg.autograd.grad(total(*args), args)])
