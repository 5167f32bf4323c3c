"""Small programs of public functions that between them use every row that is not elementwise: name -> (function, arrays)."""

from __future__ import annotations

import numpy as np

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.tensor import wrap

RNG = np.random.default_rng(7)


def a(*shape):
    return RNG.uniform(0.2, 1.8, size=shape)


def symmetric(n):
    m = RNG.normal(size=(n, n))
    return m @ m.T + n * np.eye(n)


INDEX = wrap(np.array([2, 0, 2]))
PLACES = wrap(np.array([[1, 0, 2], [0, 2, 1]]))
TARGET = wrap(np.array([1, 0, 2]))
MASK = wrap(np.array([[True, False, True], [False, True, True]]))
WEIGHTS, FACTORS = wrap(a(3)), wrap(a(2, 3))


def written(x):
    x[1].mul_(3)
    return x


def recurrent(kind, lengths=None):
    """A layer of both directions, with weights in double precision; on sequences of different lengths if they are given."""
    net = getattr(sg.nn, kind)(2, 2, bidirectional=True, dtype=sg.float64).requires_grad_(False)
    for p in net.parameters():
        p.data = wrap(a(*p.shape) - 1)
    if lengths is None:
        return lambda x: net(x)[0]
    return lambda x: net(sg.nn.utils.rnn.pack_padded_sequence(x, lengths))[0].data


PROGRAMS = {
    # shapes
    "reshape": (lambda x: x.reshape(3, 2), a(2, 3)), "transpose": (lambda x: x.transpose(0, 1), a(2, 3)), "t": (lambda x: x.t(), a(2, 3)),
    "permute": (lambda x: x.permute(2, 0, 1), a(2, 3, 2)), "squeeze": (lambda x: x.squeeze(1), a(2, 1, 3)),
    "unsqueeze": (lambda x: x.unsqueeze(1), a(2, 3)), "expand": (lambda x: x.expand(4, 2, 3), a(2, 1)),
    "diagonal": (lambda x: x.diagonal(1), a(3, 4)),
    "unfold": (lambda x: x.unfold(0, 3, 2), a(7, 2)), "flip": (lambda x: x.flip(0), a(3, 2)), "roll": (lambda x: x.roll(1, 0), a(3, 2)),
    "tile": (lambda x: x.tile(2, 3), a(2, 2)), "repeat": (lambda x: x.repeat(2, 1, 2), a(2, 2)), "tril": (lambda x: x.tril(-1), a(3, 3)),
    "triu": (lambda x: x.triu(1), a(3, 3)), "diag_embed": (lambda x: sg.diag_embed(x), a(2, 3)), "diag": (lambda x: sg.diag(x), a(3)),
    "cat": (lambda x, y: sg.cat([x, y], 1), a(2, 3), a(2, 1)), "stack": (lambda x, y: sg.stack([x, y], 1), a(2, 3), a(2, 3)),
    "split": (lambda x: sg.cat(x.split(2)[::2], 0), a(5, 2)), "split_with_sizes": (lambda x: x.split([1, 4])[1], a(5, 2)),
    "assume": (lambda x: sg.assume(x, "positive") * x, a(2, 3)),
    "unbind": (lambda x: x.unbind(0)[1], a(3, 2)), "clone": (lambda x: x.clone(), a(2, 2)), "pad": (lambda x: F.pad(x, (1, 2)), a(2, 3)),
    "crop": (lambda x: F.pad(x, (-1, 1)), a(2, 3)),
    # indexing
    "getitem": (lambda x: x[1:, ::2], a(3, 4)), "select": (lambda x: x[1], a(3, 4)), "index": (lambda x: x[INDEX], a(3, 2)),
    "index two": (lambda x: x[INDEX, INDEX], a(3, 3)), "mask": (lambda x: x[MASK], a(2, 3)),
    "gather": (lambda x: x.gather(1, PLACES), a(2, 3)),
    "index_select": (lambda x: x.index_select(0, INDEX), a(3, 2)), "take_along_dim": (lambda x: sg.take_along_dim(x, PLACES, 1), a(2, 3)),
    "scatter": (lambda x, y: x.scatter(1, PLACES, y), a(2, 3), a(2, 3)),
    "scatter_add": (lambda x, y: x.scatter_add(1, PLACES, y), a(2, 3), a(2, 3)),
    "index_add": (lambda x, y: x.index_add(0, INDEX, y), a(3, 2), a(3, 2)),
    "index_copy": (lambda x, y: x.index_copy(0, INDEX[:2], y), a(3, 2), a(2, 2)),
    "index_fill": (lambda x: x.index_fill(0, INDEX, 2.0), a(3, 2)), "masked_fill": (lambda x: x.masked_fill(MASK, 3.0), a(2, 3)),
    "index_put": (lambda x, y: x.index_put((INDEX[:2],), y), a(3, 2), a(2, 2)),
    "index_put accumulate": (lambda x, y: x.index_put((INDEX,), y, accumulate=True), a(3, 2), a(3, 2)),
    "masked_select": (lambda x: x.masked_select(MASK), a(2, 3)), "take": (lambda x: x.take(INDEX), a(2, 3)),
    # reductions
    **{
        name: (lambda x, name=name: getattr(x, name)(1), a(2, 3))
        for name in ("sum", "mean", "prod", "logsumexp", "nansum", "var", "std", "amax", "amin")
    },
    **{
        f"{name} of all": (lambda x, name=name: getattr(x, name)(), a(2, 3))
        for name in ("sum", "mean", "prod", "max", "min", "var", "std", "norm")
    },
    **{name: (lambda x, name=name: getattr(x, name)(1)[0], a(2, 4)) for name in ("max", "min", "sort", "cummax", "cummin")},
    **{name: (lambda x, name=name: getattr(x, name)(1), a(2, 4)) for name in ("cumsum", "cumprod", "logcumsumexp")},
    "topk": (lambda x: x.topk(2)[0], a(2, 4)), "kthvalue": (lambda x: x.kthvalue(2)[0], a(2, 4)),
    "var_mean": (lambda x: sum(sg.var_mean(x, 1)), a(2, 4)),
    "std_mean": (lambda x: sum(sg.std_mean(x, 1)), a(2, 4)), "aminmax": (lambda x: sum(sg.aminmax(x, dim=1)), a(2, 4)),
    "norm 1": (lambda x: x.norm(1), a(4)), "norm 3": (lambda x: x.norm(3), a(4)), "norm inf": (lambda x: x.norm(float("inf")), a(4)),
    **{name: (lambda x, name=name: getattr(x, name)(1)[0], a(2, 5)) for name in ("median", "nanmedian", "mode")},
    **{f"{name} of all": (lambda x, name=name: getattr(x, name)(), a(2, 5)) for name in ("median", "nanmedian")},
    # products
    "matmul": (lambda x, y: x @ y, a(2, 3), a(3, 2)), "matmul vector": (lambda x, y: x @ y, a(3), a(2, 3, 2)),
    "mv": (lambda x, y: x @ y, a(2, 3), a(3)),
    "dot": (lambda x, y: x @ y, a(3), a(3)), "bmm": (lambda x, y: x @ y, a(2, 2, 3), a(2, 3, 2)),
    "addmm": (lambda m, x, y: sg.addmm(m, x, y, beta=2, alpha=3), a(2, 2), a(2, 3), a(3, 2)),
    "linear": (lambda x, w, b: F.linear(x, w, b), a(2, 3), a(4, 3), a(4)),
    "einsum": (lambda x, y: sg.einsum("ij,kj->ik", x, y), a(2, 3), a(4, 3)),
    "einsum three": (lambda x, y, z: sg.einsum("ij,jk,ik->", x, y, z), a(2, 3), a(3, 2), a(2, 2)), "trace": (lambda x: x.trace(), a(3, 3)),
    "cross": (lambda x, y: sg.cross(x, y, dim=1), a(2, 3), a(2, 3)), "outer": (lambda x, y: sg.outer(x, y), a(2), a(3)),
    "kron": (lambda x, y: sg.kron(x, y), a(2, 2), a(2, 2)),
    # matrices
    "inv": (lambda x: sg.linalg.inv(x), symmetric(3)), "det": (lambda x: sg.linalg.det(x), symmetric(3)),
    "complex slogdet": (lambda x: sg.linalg.slogdet(x)[0], symmetric(2) + 1j * RNG.normal(size=(2, 2))),
    "slogdet": (lambda x: sg.linalg.slogdet(x)[1], symmetric(3)), "solve": (lambda x, y: sg.linalg.solve(x, y), symmetric(3), a(3, 2)),
    "cholesky": (lambda x: sg.linalg.cholesky((x + x.mT) / 2), symmetric(3)),
    "eigh": (lambda x: sg.linalg.eigh((x + x.mT) / 2)[0], symmetric(3)),
    "eig": (lambda x: sg.linalg.eig(x)[0].abs(), symmetric(3) + np.triu(a(3, 3))),
    "fft": (lambda x: sg.fft.rfft(x, 5).abs() * sg.fft.irfft(x, 4).sum(), a(2, 3)),
    "searchsorted": (lambda x, y: y * sg.searchsorted(x.sort()[0], y), a(4), a(3)),
    "solve_triangular": (lambda x, y: sg.linalg.solve_triangular(x, y, upper=True), symmetric(3), a(3, 2)),
    "svd": (lambda x: sg.linalg.svd(x, full_matrices=False)[1], a(3, 2)), "qr": (lambda x: sg.linalg.qr(x)[1], a(3, 2)),
    "cdist": (lambda x, y: sg.cdist(x, y), a(3, 2), a(4, 2)),
    "pinv": (lambda x: sg.linalg.pinv(x), a(3, 2)), "matrix_power": (lambda x: sg.linalg.matrix_power(x, 3), a(2, 2)),
    # without derivatives, and views written to
    "indices": (lambda x: x * (x.argmax(1) + x.argmin(1) + x.argsort(1)[:, 0] + x.count_nonzero(1)).reshape(2, 1), a(2, 3)),
    "tests": (lambda x: x if (x > 0).all() or (x > 0).any() else x * 2, a(2, 3)),
    "complex": (lambda x: sg.view_as_real(sg.view_as_complex(x) ** 2), a(3, 2)),
    "write into a view": (lambda x: written(x * 1), a(3, 2)), "write a whole": (lambda x, y: (x * 1).copy_(y), a(3, 2), a(2)),
    # networks
    "softmax": (lambda x: F.softmax(x, 1), a(2, 3)), "log_softmax": (lambda x: F.log_softmax(x, 1), a(2, 3)),
    "glu": (lambda x: F.glu(x, 1), a(2, 4)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), a(2, 3), a(3), a(3)),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), a(1, 2, 5), a(3, 2, 3)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, groups=2), a(1, 2, 4, 4), a(2, 1, 2, 2), a(2)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), a(1, 1, 4, 4)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, padding=1), a(1, 1, 4, 4)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 2), a(1, 1, 3, 5)),
    "lstm": (recurrent("LSTM"), a(2, 2, 2)), "gru": (recurrent("GRU"), a(2, 2, 2)),
    "packed lstm": (recurrent("LSTM", [3, 1]), a(3, 2, 2)), "packed gru": (recurrent("GRU", [3, 1]), a(3, 2, 2)),
    "embedding": (lambda w: F.embedding(INDEX, w), a(3, 2)), "nll_loss": (lambda x: F.nll_loss(x, TARGET), a(3, 3)),
    "cross_entropy": (lambda x: F.cross_entropy(x, TARGET), a(3, 3)), "mse_loss": (lambda x, y: F.mse_loss(x, y), a(2, 3), a(2, 3)),
    "huber_loss": (lambda x, y: F.huber_loss(x, y, delta=0.5), a(2, 3), a(2, 3)),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), a(2, 3), a(2, 3)),
    "soft_margin_loss": (lambda x, y: F.soft_margin_loss(x, y), a(2, 3), a(2, 3)),
    "bce": (lambda x, y: F.binary_cross_entropy(x / 2, y / 2), a(2, 3), a(2, 3)),
    "weighted nll_loss": (lambda x: F.nll_loss(x, TARGET, WEIGHTS, reduction="sum"), a(3, 3)),
    "weighted bce": (lambda x, y: F.binary_cross_entropy(x / 2, y / 2, FACTORS), a(2, 3), a(2, 3)),
    "weighted bce logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y, FACTORS, pos_weight=WEIGHTS), a(2, 3), a(2, 3)),
    "embedding by frequency": (lambda w: F.embedding(INDEX, w, scale_grad_by_freq=True), a(3, 2)),
    "bce logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y), a(2, 3), a(2, 3)),
}  # fmt: skip
