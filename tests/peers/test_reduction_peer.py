"""Reductions, scans and sorting against PyTorch: values, types, first and second derivatives, at ties, zeros, NaN and infinities,
and errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

nan, inf = float("nan"), float("inf")
RNG = np.random.default_rng(3)


def both(data, dtype, requires_grad=False):
    array = np.array(data, dtype)
    return wrap(array.copy(), requires_grad), torch.tensor(array, requires_grad=requires_grad)


def floats(result):
    """The differentiable parts of a result."""
    parts = result if isinstance(result, tuple) else (result,)
    return [t for t in parts if t.requires_grad]


def array(t):
    return t._array if isinstance(t, sg.Tensor) else t.detach().numpy(force=True)


def close(ours, theirs, rtol=1e-12, atol=1e-14):
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    if isinstance(ours, tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b, rtol, atol)
        return
    a, b = array(ours), array(theirs)
    assert a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def weights(shape):
    return 1 + np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape) / 7


def derivatives(lib, make, x, f):
    """The gradient of a weighted sum of the results, and the gradient of a weighted sum of that."""
    total = 0
    for t in floats(f(x)):
        total = (t * make(weights(tuple(t.shape)))).sum() + total
    (g,) = lib.autograd.grad(total, x, create_graph=True)
    if not g.requires_grad:
        return g, None
    (h,) = lib.autograd.grad((g * make(weights(tuple(g.shape)))).sum(), x, allow_unused=True)
    return g, h


def compare(f, data, second=True, rtol=1e-10):
    x, tx = both(data, np.float64, True)
    ours, theirs = f(sg, x), f(torch, tx)
    close(ours, theirs)
    for a, b in zip(floats(ours), floats(theirs), strict=True):
        assert a.grad_fn.name() == b.grad_fn.name()
    (g, h), (tg, th) = derivatives(sg, wrap, x, lambda t: f(sg, t)), derivatives(torch, torch.tensor, tx, lambda t: f(torch, t))
    close(g, tg, rtol)
    if second:
        zero = np.zeros_like(array(x))
        np.testing.assert_allclose(zero if h is None else array(h), zero if th is None else array(th), rtol=rtol, atol=1e-12)


FUNCTIONS = {
    "sum": lambda t, x: x.sum(),
    "sum0": lambda t, x: x.sum(0),
    "sum keep": lambda t, x: x.sum(-1, keepdim=True),
    "sum both": lambda t, x: t.sum(x, (0, 1)),
    "sum empty dims": lambda t, x: t.sum(x, ()),
    "mean": lambda t, x: x.mean(),
    "mean0": lambda t, x: x.mean([0], True),
    "prod": lambda t, x: x.prod(),
    "prod1": lambda t, x: x.prod(1, keepdim=True),
    "prod0": lambda t, x: t.prod(x, 0),
    "amax": lambda t, x: x.amax(),
    "amax1": lambda t, x: x.amax((1,), True),
    "amin0": lambda t, x: t.amin(x, 0),
    "max": lambda t, x: x.max(),
    "min": lambda t, x: x.min(),
    "max1": lambda t, x: x.max(1),
    "max1 keep": lambda t, x: x.max(-1, keepdim=True),
    "min0": lambda t, x: t.min(x, dim=0),
    "aminmax": lambda t, x: t.aminmax(x, dim=1),
    "aminmax all": lambda t, x: x.aminmax(),
    "var": lambda t, x: x.var(),
    "var biased": lambda t, x: x.var(False),
    "var0": lambda t, x: x.var(0, unbiased=False, keepdim=True),
    "var correction": lambda t, x: t.var(x, (0, 1), correction=0.5),
    "std": lambda t, x: x.std(),
    "std1": lambda t, x: x.std(1, correction=0),
    "var_mean": lambda t, x: t.var_mean(x, 1),
    "std_mean": lambda t, x: t.std_mean(x, dim=0, keepdim=True),
    "std_mean second only": lambda t, x: t.std_mean(x)[1],
    "var_mean first only": lambda t, x: t.var_mean(x, 0)[0],
    "cov": lambda t, x: t.cov(x, correction=0),
    "cov of a vector": lambda t, x: x[0].cov(),
    "corrcoef": lambda t, x: x.corrcoef(),
    "logsumexp": lambda t, x: x.logsumexp(1),
    "logsumexp both": lambda t, x: t.logsumexp(x, (0, 1), keepdim=True),
    "nansum": lambda t, x: x.nansum(),
    "nansum1": lambda t, x: t.nansum(x, 1),
    "nanmean": lambda t, x: x.nanmean(),
    "nanmean1": lambda t, x: x.nanmean(1, True),
    "cumsum": lambda t, x: x.cumsum(1),
    "cumsum0": lambda t, x: t.cumsum(x, 0),
    "cumprod": lambda t, x: x.cumprod(-1),
    "cumprod0": lambda t, x: t.cumprod(x, dim=0),
    "logcumsumexp": lambda t, x: x.logcumsumexp(1),
    "sort": lambda t, x: x.sort(),
    "sort0": lambda t, x: t.sort(x, 0, descending=True),
    "topk": lambda t, x: x.topk(2),
    "topk0": lambda t, x: t.topk(x, 1, 0, largest=False),
    "kthvalue": lambda t, x: x.kthvalue(2),
    "cummax": lambda t, x: x.cummax(1),
    "cummin": lambda t, x: t.cummin(x, 0),
    "median": lambda t, x: x.median(),
    "median1": lambda t, x: x.median(1),
    "median keep": lambda t, x: t.median(x, dim=0, keepdim=True),
    "nanmedian": lambda t, x: x.nanmedian(),
    "nanmedian1": lambda t, x: x.nanmedian(1),
    "mode": lambda t, x: x.mode(),
    "diff": lambda t, x: x.diff(),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_generic_values(name):
    compare(FUNCTIONS[name], RNG.normal(size=(4, 5)))


@pytest.mark.parametrize("name", ["sum0", "mean0", "prod0", "amin0", "min0", "var0", "cumsum0", "cumprod0", "sort0", "logsumexp both"])
def test_three_dimensions_and_transposed(name):
    dims = {"logsumexp both": lambda t, x: t.logsumexp(x, (0, 2))}
    f = dims.get(name, FUNCTIONS[name])
    compare(lambda t, x: f(t, x.transpose(0, 2)), RNG.normal(size=(2, 3, 4)))


TIES = [[1, 1, 1], [2, 1, 2], [0, 0, 0]]
MEDIANS = [[2, 1, 2], [1, nan, nan], [nan, 3, 1], [nan, nan, nan]]
ZEROS = [[0, 3, 2], [0, 0, 2], [0, 0, 0], [3, 0, 2], [1, 2, 0]]
SPECIAL = [
    *((name, row) for name in ("amax1", "max", "min", "max1", "amin0", "aminmax", "sort", "cummax", "cummin") for row in TIES),
    *((name, row) for name in ("std", "std1", "var") for row in TIES),
    *((name, row) for name in ("prod", "prod1", "cumprod") for row in ZEROS),
    *((name, row) for name in ("median", "median1", "nanmedian", "nanmedian1") for row in MEDIANS),
    *((name, [1, nan, nan]) for name in ("amax1", "max", "min", "max1", "nansum1", "nanmean", "cummax", "sum", "var")),
    *((name, [-inf, -inf, -inf]) for name in ("logsumexp", "logcumsumexp", "max")),
    *((name, [-inf, 1, 2]) for name in ("logsumexp", "logcumsumexp", "amax1")),
    *((name, [inf, 1, 2]) for name in ("logsumexp", "amax1", "sum", "mean")),
    *((name, [1000, 1000, -1000]) for name in ("logsumexp", "logcumsumexp")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "row"), SPECIAL)
def test_special_points(name, row):
    compare(FUNCTIONS[name], [row, [1, 2, 4]], second=name != "logcumsumexp" or row[0] > 0)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 0), (0,)])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "nansum", "nanmean"])
def test_small_and_empty(name, shape):
    x, tx = both(RNG.normal(size=shape), np.float64)
    close(FUNCTIONS[name](sg, x), FUNCTIONS[name](torch, tx))


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: t.sum(x, 0), lambda t, x: t.max(x, 0), lambda t, x: t.prod(x, -1), lambda t, x: t.amax(x, 0), lambda t, x: x.sort(),
        lambda t, x: x.topk(1), lambda t, x: x.cumsum(0), lambda t, x: x.cumprod(0), lambda t, x: x.logcumsumexp(0), lambda t,
        x: x.argmax(0),
        lambda t, x: x.logsumexp(0), lambda t, x: x.mean(0), lambda t, x: x.kthvalue(1), lambda t, x: x.cummax(0), lambda t, x: x.max(),
        lambda t, x: x.argsort(), lambda t, x: x.all(0),
    ],
)  # fmt: skip
def test_no_dimensions(f):
    x, tx = both(1.5, np.float64, True)
    ours, theirs = f(sg, x), f(torch, tx)
    close(ours, theirs)
    for a, b in zip(floats(ours), floats(theirs), strict=True):
        close(sg.autograd.grad(a, x), torch.autograd.grad(b, tx))


INTEGERS = {
    "sum": lambda x: x.sum(), "sum1": lambda x: x.sum(1), "prod": lambda x: x.prod(), "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(1),
    "max": lambda x: x.max(), "max1": lambda x: x.max(1), "amin": lambda x: x.amin(0), "all": lambda x: x.all(), "any": lambda x: x.any(1),
    "sort": lambda x: x.sort(1), "nansum": lambda x: x.nansum(), "count": lambda x: x.count_nonzero(),
    "count0": lambda x: x.count_nonzero(0),
    "argsort": lambda x: x.argsort(0, descending=True), "logsumexp": lambda x: x.logsumexp(0), "cummin": lambda x: x.cummin(1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int32, np.int64])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, dtype):
    x, tx = both([[0, 3, 1], [2, 0, 2]], dtype)
    close(INTEGERS[name](x), INTEGERS[name](tx), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32])
def test_indices(dtype):
    x, tx = both([[0, 3, 1], [2, 0, 2], [7, 7, 0]], dtype)
    for f in (
        lambda x: x.argmax(), lambda x: x.argmin(1), lambda x: x.argmax(0, keepdim=True), lambda x: x.argmin(keepdim=True),
        lambda x: x.topk(2, 1),
        lambda x: x.sort(descending=True), lambda x: x.min(1), lambda x: x.all((0, 1)), lambda x: x.any(dim=[0], keepdim=True),
    ):  # fmt: skip
        close(f(x), f(tx))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", ["sum0", "mean", "var0", "std_mean", "logsumexp", "cumsum", "cumprod", "logcumsumexp", "amax1", "prod"])
def test_narrow_floats(name, dtype):
    x, tx = both(RNG.normal(size=(6, 5)), dtype, True)
    ours, theirs = FUNCTIONS[name](sg, x), FUNCTIONS[name](torch, tx)
    eps = float(np.finfo(dtype).eps)
    close(ours, theirs, rtol=4 * eps, atol=4 * eps)
    for a, b in zip(floats(ours), floats(theirs), strict=True):
        g, tg = sg.autograd.grad(a.sum(), x, retain_graph=True), torch.autograd.grad(b.sum(), tx, retain_graph=True)
        close(g, tg, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize(
    ("name", "to"), [*product(["sum", "prod", "cumsum", "nansum"], ["float64", "float32", "int64"]), ("sum", "bool"), ("prod", "bool")]
)
def test_dtype_argument(name, to):
    call = lambda lib, x: getattr(lib, name)(x, dtype=getattr(lib, to)) if name != "cumsum" else x.cumsum(0, dtype=getattr(lib, to))
    x, tx = both([1.5, 2.5, 0.0], np.float32)
    close(call(sg, x), call(torch, tx))


def test_mean_with_dtype_takes_integers():
    x, tx = both([1, 2, 4], np.int64)
    close(sg.mean(x, dtype=sg.float32), torch.mean(tx, dtype=torch.float32))
    close(x.mean(0, dtype=sg.float64), tx.mean(0, dtype=torch.float64))


def test_topk_of_long_rows_agrees():
    x, tx = both(RNG.normal(size=(3, 500)), np.float64, True)
    for largest in (True, False):
        close(x.topk(7, largest=largest), tx.topk(7, largest=largest))
        close(x.t().topk(3, 0, largest), tx.t().topk(3, 0, largest))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("data", [[[3, 1, 2], [9, 5, 4]], [[3, 1, 2], [nan, 5, 4]]])
def test_quantiles(interpolation, data):
    for name in ("quantile", "nanquantile"):
        for args in ((0.4,), (0.3, 1), (0.0, 0, True), (1.0, -1), (0.5, None, True)):
            call = lambda t, x, name=name, args=args: getattr(x, name)(*args, interpolation=interpolation)
            x, tx = both(data, np.float64, True)
            ours, theirs = call(sg, x), call(torch, tx)
            close(ours, theirs)
            close(sg.autograd.grad(ours.sum(), x), torch.autograd.grad(theirs.sum(), tx))
        x, tx = both(data, np.float64)
        q, tq = both([0.1, 0.5, 0.9], np.float64)
        for args in ((1,), (0, True), (None,)):
            close(getattr(x, name)(q, *args, interpolation=interpolation), getattr(tx, name)(tq, *args, interpolation=interpolation))


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: t.unique(x), lambda t, x: t.unique(x, return_inverse=True, return_counts=True), lambda t,
        x: x.unique(dim=0, return_counts=True),
        lambda t, x: x.unique(dim=1, return_inverse=True), lambda t, x: x.unique_consecutive(return_inverse=True, return_counts=True),
        lambda t, x: x.unique_consecutive(dim=0, return_inverse=True), lambda t, x: x[:, 0].bincount(), lambda t,
        x: t.bincount(x[:, 1], minlength=9),
        lambda t, x: t.bincount(x[:, 1], weights=x[:, 0] / 2), lambda t, x: t.bincount(x[:, 1], x[:, 0]), lambda t, x: x.median(),
        lambda t, x: x.mode(1),
        lambda t, x: x.diff(2, 0), lambda t, x: x.diff(dim=0, prepend=x[:1], append=x[1:]), lambda t, x: x.diff(n=9), lambda t,
        x: x.bool().diff(),
        lambda t, x: t.unique(x[:0]), lambda t, x: x[:0, 0].bincount(), lambda t, x: x.median(1), lambda t, x: x.diff(0),
    ],
)  # fmt: skip
def test_counts_and_differences(f):
    x, tx = both([[1, 2, 2], [1, 2, 2], [3, 0, 3], [1, 2, 2]], np.int64)
    close(f(sg, x), f(torch, tx))


def test_printed_pairs():
    x, tx = both([[1.0, 2.0], [3.0, 0.0]], np.float32, True)
    for name, args in (("max", (0,)), ("min", (1, True)), ("sort", ()), ("topk", (1,)), ("kthvalue", (1,)), ("cummax", (0,)), ("mode", ())):
        f = lambda x, name=name, args=args: getattr(x, name)(*args)
        assert repr(f(x)) == repr(f(tx))
    values, indices = x.max(dim=1)
    assert array(x.max(1).values).tolist() == array(values).tolist() == [2, 3]
    assert array(indices).tolist() == [1, 0]


NORMS = [2, 1, 3, 1.5, 0.5, inf, -inf, -1, "fro", 2.5]


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("dim", [None, 0, (0, 1)])
def test_norm(p, dim):
    compare(lambda t, x: t.norm(x, p, dim, keepdim=dim is not None), RNG.normal(size=(3, 4)), rtol=1e-9)


@pytest.mark.parametrize("p", [2, 1, 3, 1.5, 0.5, inf, -inf, -1])
@pytest.mark.parametrize("row", [[0, 0], [0, 4], [1, 1], [-1, 1]])
def test_norm_at_kinks(p, row):
    compare(lambda t, x: x.norm(p, 1), [row, [3, -4]], second=p in (1, 3, inf, -inf))


ERRORS = {
    "no such dim": lambda t, x, e, i, b: x.sum(2),
    "dim twice": lambda t, x, e, i, b: x.mean((0, -2)),
    "dim twice var": lambda t, x, e, i, b: x.var((0, 0)),
    "float dim": lambda t, x, e, i, b: x.sum(1.5),
    "text dim": lambda t, x, e, i, b: x.sum("a"),
    "max of two dims": lambda t, x, e, i, b: x.max((0, 1)),
    "prod of two dims": lambda t, x, e, i, b: x.prod((0, 1)),
    "max dim": lambda t, x, e, i, b: x.max(5),
    "argmax dim": lambda t, x, e, i, b: x.argmax(3),
    "sort dim": lambda t, x, e, i, b: x.sort(2),
    "topk too many": lambda t, x, e, i, b: x.topk(4),
    "topk negative": lambda t, x, e, i, b: x.topk(-1),
    "topk dim": lambda t, x, e, i, b: x.topk(1, 5),
    "kthvalue": lambda t, x, e, i, b: x.kthvalue(5),
    "cumsum dim": lambda t, x, e, i, b: x.cumsum(2),
    "cumsum without dim": lambda t, x, e, i, b: x.cumsum(),
    "logsumexp without dim": lambda t, x, e, i, b: x.logsumexp(),
    "empty max": lambda t, x, e, i, b: e.max(),
    "empty amax": lambda t, x, e, i, b: e.amax(),
    "empty amax 0": lambda t, x, e, i, b: e.amax(0),
    "empty max 0": lambda t, x, e, i, b: e.max(0),
    "empty argmax": lambda t, x, e, i, b: e.argmax(),
    "empty argmax 0": lambda t, x, e, i, b: e.argmax(0),
    "empty aminmax": lambda t, x, e, i, b: e.aminmax(),
    "empty inf norm": lambda t, x, e, i, b: e.norm(inf),
    "empty inf norm 0": lambda t, x, e, i, b: e.norm(inf, 0),
    "mean of integers": lambda t, x, e, i, b: i.mean(),
    "var of integers": lambda t, x, e, i, b: i.var(),
    "var_mean of integers": lambda t, x, e, i, b: t.var_mean(i),
    "norm of integers": lambda t, x, e, i, b: i.norm(),
    "logcumsumexp of integers": lambda t, x, e, i, b: i.logcumsumexp(0),
    "argmax of booleans": lambda t, x, e, i, b: b.argmax(),
    "topk of booleans": lambda t, x, e, i, b: b.topk(1),
    "unbiased and correction": lambda t, x, e, i, b: x.var(0, False, correction=1),
    "unknown norm": lambda t, x, e, i, b: x.norm("bad"),
    "nuclear of one dim": lambda t, x, e, i, b: x.norm("nuc", 0),
    "frobenius of three": lambda t, x, e, i, b: x.norm("fro", (0, 1, 1)),
    "quantile of integers": lambda t, x, e, i, b: i.quantile(0.5),
    "quantile of nothing": lambda t, x, e, i, b: e.quantile(0.5),
    "quantile beyond": lambda t, x, e, i, b: x.quantile(1.5),
    "quantile dim": lambda t, x, e, i, b: x.quantile(0.5, 3),
    "quantile interpolation": lambda t, x, e, i, b: x.quantile(0.5, interpolation="foo"),
    "median of booleans": lambda t, x, e, i, b: b.median(),
    "median of two dims": lambda t, x, e, i, b: x.median((0, 1)),
    "empty median 0": lambda t, x, e, i, b: e.median(0),
    "empty mode": lambda t, x, e, i, b: e.mode(0),
    "bincount of floats": lambda t, x, e, i, b: x[0].bincount(),
    "bincount of negatives": lambda t, x, e, i, b: (-i).bincount(),
    "bincount of a matrix": lambda t, x, e, i, b: i.reshape(1, 2).bincount(),
    "diff of a scalar": lambda t, x, e, i, b: x[0, 0].diff(),
    "diff order": lambda t, x, e, i, b: x.diff(-1),
    "nanmean of integers": lambda t, x, e, i, b: i.nanmean(),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    pairs = [both(np.ones((2, 3)), np.float32), both(np.ones((0, 3)), np.float32), both([1, 2], np.int64), both([True, False], np.bool_)]
    with pytest.raises((RuntimeError, IndexError, TypeError)) as theirs:
        ERRORS[name](torch, *(pair[1] for pair in pairs))
    with pytest.raises(theirs.type) as ours:
        ERRORS[name](sg, *(pair[0] for pair in pairs))
    if theirs.type is not TypeError:
        wording = str(theirs.value).split("\n")[0].split(" (")[0].replace("dimension 0because", "dimension 0 because")
        assert wording.strip() in str(ours.value)
