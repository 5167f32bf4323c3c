"""Generated programs: the formula of their derivatives, run, is what eager execution gives, to rounding; at kinks, too.

A program is a list of steps, each an op on what earlier ones gave. In one mode inputs are such that no step comes near a kink of its op;
in the other they are small whole numbers and halves, so that there are ties, zeros and edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.errors import FormulaError

FAR = 1e-3


def edges(*places):
    """How far from the nearest of these places."""
    return lambda x, *others: min(np.abs(x - p).min(initial=np.inf) for p in places)


def tie(x, y):
    return np.abs(x - y).min(initial=np.inf)


def ties(x, *others):
    """The smallest difference of two elements."""
    return np.diff(np.sort(x, axis=None)).min(initial=np.inf)


SMOOTH = [
    sg.sin, sg.cos, sg.tanh, sg.sigmoid, sg.atan, sg.erf, sg.square, sg.neg, sg.expm1, sg.exp2, sg.asinh, F.softplus, F.silu, F.gelu,
    lambda x: (x * x + 1).log(), lambda x: (x * x + 1).sqrt(), lambda x: (x / 4).exp(), lambda x: 1 / (x * x + 2), lambda x: x**3 / 3,
    lambda x: 2 * x - 1, lambda x: x.detach() * x, lambda x: sg.sqrt(2) * x, lambda x: (x * x + 1) ** -0.5, lambda x: F.logsigmoid(x),
    lambda x: sg.sinc(x), lambda x: sg.lgamma(x * x + 1),
]  # fmt: skip
KINKED = [
    (sg.abs, edges(0)), (sg.relu, edges(0)), (lambda x: x.clamp(-0.5, 0.5), edges(-0.5, 0.5)), (sg.sign, edges(0)),
    (F.leaky_relu, edges(0)), (F.hardtanh, edges(-1, 1)), (lambda x: sg.where(x > 0, x, x.sin()), edges(0)), (F.elu, edges(0)),
    (lambda x: F.softshrink(x), edges(-0.5, 0.5)), (lambda x: F.hardswish(x), edges(-3, 3)),
    (lambda x: x * sg.heaviside(x.detach(), x.detach() * 0), edges(0)),
]  # fmt: skip
BINARY = [
    sg.add, sg.sub, sg.mul, lambda x, y: x / (y * y + 1), lambda x, y: x * y.sin(), lambda x, y: sg.atan2(x, y * y + 1),
    lambda x, y: sg.logaddexp(x, y), lambda x, y: (x - y) ** 2, lambda x, y: sg.lerp(x, y, 0.3), lambda x, y: (x * x + 1) ** (y / 4),
]  # fmt: skip
KINKED_BINARY = [(sg.maximum, tie), (sg.minimum, tie), (lambda x, y: sg.where(x > y, x, y), tie)]
REDUCTIONS = [
    lambda x, d: x.sum(d), lambda x, d: x.mean(d, keepdim=True), lambda x, d: x.logsumexp(d), lambda x, d: x.softmax(d),
    lambda x, d: x.log_softmax(d), lambda x, d: x.cumsum(d), lambda x, d: x.prod(d), lambda x, d: x.var(d, correction=0),
    lambda x, d: (x * x + 1).norm(dim=d), lambda x, d: x.flip(d), lambda x, d: x.roll(1, d), lambda x, d: x.unsqueeze(d),
    lambda x, d: x.narrow(d, 0, 1), lambda x, d: x.select(d, -1), lambda x, d: sg.cat([x, x * 2], d),
    lambda x, d: sg.stack([x, x.sin()], d),
    lambda x, d: x.index_select(d, sg.tensor([0, x.shape[d] - 1, 0])), lambda x, d: x.transpose(0, d),
    lambda x, d: x.repeat_interleave(2, d),
    lambda x, d: x.logcumsumexp(d), lambda x, d: x.cumprod(d), lambda x, d: F.layer_norm(x, x.shape[-1:], eps=0.5),
]  # fmt: skip
KINKED_REDUCTIONS = [
    (lambda x, d: x.amax(d), ties), (lambda x, d: x.amin(d, keepdim=True), ties), (lambda x, d: x.max(d).values, ties),
    (lambda x, d: x.sort(d).values, ties), (lambda x, d: x.norm(dim=d), lambda x, *o: np.linalg.norm(x)),
    (lambda x, d: x.cummax(d).values, ties), (lambda x, d: x.median(d).values, ties),
]  # fmt: skip
WHOLE = [
    lambda x: x.reshape(-1), lambda x: x.sum(), lambda x: x.mean(), lambda x: x.reshape(-1, 1) @ x.reshape(1, -1),
    lambda x: F.pad(x.reshape(-1), (1, 0)),
    lambda x: x.reshape(-1) @ x.reshape(-1), lambda x: x.reshape(1, -1).expand(2, -1),
    lambda x: sg.outer(x.reshape(-1)[:2], x.reshape(-1)[:2]).tril(),
    lambda x: sg.einsum("i,j->ij", x.reshape(-1)[:2], x.reshape(-1)[-2:]),
]  # fmt: skip


@dataclass
class Program:
    """Steps as (op, operands, dimension); called with tensors it gives one number."""

    steps: list

    def __call__(self, *xs, margins=None):
        known = list(xs)
        for op, margin, places, dim in self.steps:
            args = [known[p % len(known)] for p in places]
            if len(args) == 2 and op in CONTRACTIONS:
                result = contract(*args)
            elif dim is not None:
                result = op(args[0], dim % args[0].ndim) if args[0].ndim else args[0]
            else:
                result = op(*together(*args))
            if margins is not None and margin is not None and (dim is None or args[0].ndim):
                margins.append(margin(*(a.detach().numpy() for a in together(*args))))
            known.append(result if result.numel() <= 24 else result.reshape(-1)[:5])
        return sum((v * v.cos()).sum() if i % 2 else v.sum() for i, v in enumerate(known[len(xs) :])) + sum(x.sum() for x in xs)


def together(*xs):
    """Operands that broadcast: cut, if they do not."""
    try:
        np.broadcast_shapes(*(x.shape for x in xs))
    except ValueError:
        return tuple(x.reshape(-1)[:1] for x in xs)
    return xs


def contract(x, y):
    """x @ y, if it can be."""
    if x.ndim and y.ndim and x.shape[-1] == y.shape[-2 if y.ndim > 1 else 0]:
        return x @ y
    return sg.tensordot(x, y, 0)


CONTRACTIONS = [contract]


@st.composite
def programs(draw, kinks, most=5):
    place = st.integers(0, 20)
    dim = st.integers(0, 3)
    binary = [(op, None) for op in (*BINARY, *CONTRACTIONS)] + KINKED_BINARY
    reductions = [(op, None) for op in REDUCTIONS] + KINKED_REDUCTIONS
    unary = [(op, None) for op in (*SMOOTH, *WHOLE)] + KINKED
    step = st.one_of(
        st.tuples(st.sampled_from(unary), st.tuples(place), st.none()),
        st.tuples(st.sampled_from(binary), st.tuples(place, place), st.none()),
        st.tuples(st.sampled_from(reductions), st.tuples(place), dim),
    )
    steps = [(op, margin, places, d) for (op, margin), places, d in draw(st.lists(step, min_size=1, max_size=most))]
    shapes = draw(st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    values = [rng.integers(-2, 3, shape) / 2 if kinks else rng.uniform(-1.5, 1.5, shape) for shape in shapes]
    return Program(steps), [sg.tensor(np.asarray(v, float), requires_grad=True) for v in values]


def eager(f, xs, order):
    """Value, gradients and the Hessian's blocks, those of each pair once."""
    y = f(*xs)
    found = [y.detach().numpy()]
    first = sg.autograd.grad(y, xs, create_graph=order > 1, materialize_grads=True)
    found += [g.detach().numpy() for g in first]
    if order > 1:
        for i, g in enumerate(first):
            rows = [sg.autograd.grad(e, xs[i:], retain_graph=True, materialize_grads=True, allow_unused=True) if e.requires_grad else None
                    for e in g.reshape(-1)]  # fmt: skip
            for j, x in enumerate(xs[i:]):
                blocks = [np.zeros(x.shape) if row is None else row[j].numpy() for row in rows]
                found.append(np.array(blocks).reshape(g.shape + x.shape))
    return found


def agree(f, xs, order, notations=("auto", "index", "matrix", "elements")):
    wanted = eager(f, xs, order)
    for notation in notations:
        try:
            d = sg.derive(lambda *xs: f(*xs), wrt=tuple(range(len(xs))), order=order, notation=notation)(*xs)
        except FormulaError:
            assert notation in ("matrix", "elements"), notation
            continue
        for found, value in zip(d.evaluate(d._source.given()), wanted, strict=True):
            size = np.abs(value[np.isfinite(value)]).max(initial=1)
            np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-12 * size, err_msg=f"{notation}\n{d}")


def run(program, order, kinks):
    f, xs = program
    margins = []
    value = f(*xs, margins=margins).detach().numpy()
    assume(np.isfinite(value) and abs(value) < 1e4)
    assume(kinks or min(margins, default=1) > FAR)
    agree(f, xs, order)


QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}


@pytest.mark.parametrize("kinks", [False, True], ids=["smooth", "kinks"])
def test_first_order(kinks):
    settings(max_examples=40, **QUICK)(given(programs(kinks))(lambda program: run(program, 1, kinks)))()


@pytest.mark.parametrize("kinks", [False, True], ids=["smooth", "kinks"])
def test_second_order(kinks):
    settings(max_examples=12, **QUICK)(given(programs(kinks, 3))(lambda program: run(program, 2, kinks)))()


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kinks", [False, True], ids=["smooth", "kinks"])
def test_many(kinks, order):
    options = {**QUICK, "derandomize": False}
    settings(max_examples=500, **options)(given(programs(kinks, 8 if order == 1 else 5))(lambda program: run(program, order, kinks)))()
