"""Products and matrices beside PyTorch: values, gradients, second gradients, node names, types and refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

INF = float("inf")


def array(*shape, seed=0):
    return np.random.default_rng(seed + len(shape) * 7 + sum(shape)).normal(size=shape)


def square(*shape):
    return array(*shape) + 3 * np.eye(shape[-1])


M, W, V, B1, B2, S, SB = array(2, 3), array(3, 4), array(3), array(5, 2, 3), array(5, 3, 4), square(3, 3), square(2, 3, 3)

CALLS = {
    "mm": (lambda m, x, y: m.mm(x, y), (M, W)),
    "mv": (lambda m, x, y: m.mv(x, y), (M, V)),
    "dot": (lambda m, x, y: m.dot(x, y), (V, V + 1)),
    "vdot": (lambda m, x, y: m.vdot(x, y), (V, V + 1)),
    "bmm": (lambda m, x, y: m.bmm(x, y), (B1, B2)),
    "matmul 3d 2d": (lambda m, x, y: x @ y, (B1, W)),
    "matmul 2d 3d": (lambda m, x, y: x @ y, (M, B2)),
    "matmul 1d 3d": (lambda m, x, y: x @ y, (V, B2)),
    "matmul 3d 1d": (lambda m, x, y: x @ y, (B1, V)),
    "outer": (lambda m, x, y: m.outer(x, y), (V, array(4))),
    "inner": (lambda m, x, y: m.inner(x, y), (M, array(4, 3))),
    "tensordot": (lambda m, x, y: m.tensordot(x, y, dims=([0, 2], [0, 1])), (B1, B2)),
    "kron": (lambda m, x, y: m.kron(x, y), (M, W)),
    "einsum": (lambda m, x, y, z: m.einsum("bij,bjk,kl->il", x, y, z), (B1, B2, array(4, 2))),
    "einsum diagonal": (lambda m, x, y: m.einsum("...ii,i->...", x, y), (SB, V)),
    "addmm": (lambda m, a, x, y: m.addmm(a, x, y, beta=0.5, alpha=2), (array(4), M, W)),
    "addmv": (lambda m, a, x, y: m.addmv(a, x, y, alpha=2), (array(2), M, V)),
    "baddbmm": (lambda m, a, x, y: m.baddbmm(a, x, y, beta=0.5), (array(4), B1, B2)),
    "addbmm": (lambda m, a, x, y: m.addbmm(a, x, y, beta=0.5), (array(4), B1, B2)),
    "addr": (lambda m, a, x, y: m.addr(a, x, y, beta=0.5), (array(4), V, array(4))),
    "trace": (lambda m, x: m.trace(x), (M,)),
    "cross": (lambda m, x, y: m.linalg.cross(x, y), (M, M[:1] + 1)),
    "mT": (lambda m, x: x.mT * 1, (B1,)),
    "inv": (lambda m, x: m.linalg.inv(x), (SB,)),
    "det": (lambda m, x: m.linalg.det(x), (SB,)),
    "logdet": (lambda m, x: m.logdet(x @ x.mT), (SB,)),
    "slogdet": (lambda m, x: m.linalg.slogdet(x)[1], (SB,)),
    "solve": (lambda m, x, y: m.linalg.solve(x, y), (SB, W)),
    "solve vector": (lambda m, x, y: m.linalg.solve(x, y), (SB, V)),
    "solve right": (lambda m, x, y: m.linalg.solve(x, y, left=False), (S, M)),
    "solve_triangular": (lambda m, x, y: m.linalg.solve_triangular(x, y, upper=True), (SB, W)),
    "cholesky": (lambda m, x: m.linalg.cholesky(x @ x.mT), (SB,)),
    "cholesky plain": (lambda m, x: m.linalg.cholesky(x), (S @ S.T,)),
    "cholesky_solve": (lambda m, x, y: m.cholesky_solve(y, m.linalg.cholesky(x @ x.mT)), (S, W)),
    "eigh": (lambda m, x: m.linalg.eigh(x + x.mT)[1] ** 2, (SB,)),
    "eigvalsh": (lambda m, x: m.linalg.eigvalsh(x), (S + S.T,)),
    "svd": (lambda m, x: m.linalg.svd(x)[2][..., :2, :] ** 2, (M,)),
    "svdvals": (lambda m, x: m.linalg.svdvals(x), (B1,)),
    "qr": (lambda m, x: m.linalg.qr(x)[0] ** 2, (W,)),
    "pinv": (lambda m, x: m.linalg.pinv(x), (B1,)),
    "matrix_power": (lambda m, x: m.linalg.matrix_power(x, 5), (S / 3,)),
    "multi_dot": (lambda m, x, y, z: m.linalg.multi_dot([x, y, z]), (V, W, array(4))),
    "vecdot": (lambda m, x, y: m.linalg.vecdot(x, y), (M, V)),
    "cdist": (lambda m, x, y: m.cdist(x, y), (B1, array(4, 3))),
    "norm": (lambda m, x: m.linalg.norm(x), (M,)),
    **{f"matrix_norm {o}": (lambda m, x, o=o: m.linalg.matrix_norm(x, o), (B1,)) for o in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)},
    **{f"vector_norm {o}": (lambda m, x, o=o: m.linalg.vector_norm(x, o, dim=1), (B1,)) for o in (1, 2, 3, 0.5, INF, -INF)},
}
# PyTorch splits these into views and products, or does not say which function they are
OTHER_NAMES = {
    "tensordot", "inner", "einsum", "einsum diagonal", "kron", "matmul 2d 3d", "matmul 1d 3d", "matmul 3d 1d", "addr", "addbmm", "cdist",
    "cholesky_solve", "multi_dot", "vecdot", "vdot", "norm", "solve right", "solve vector", "pinv",
}  # fmt: skip


def run(module, function, tensors, twice):
    """Value, gradients, and gradients of the sum of squares of the gradients."""
    out = function(module, *tensors)
    weights = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
    weights = torch.tensor(weights) if module is torch else wrap(weights)
    first = module.autograd.grad((out * weights).sum(), tensors, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None]
    if not twice:
        return out, [out, *first]
    squares = sum(((g * g).sum() for g in first[1:]), start=(first[0] * first[0]).sum())
    second = module.autograd.grad(squares, tensors, allow_unused=True) if squares.requires_grad else ()
    return out, [out, *first, *(g for g in second if g is not None)]


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name):
    function, arrays = CALLS[name]
    ours = run(sg, function, [wrap(a.copy(), requires_grad=True) for a in arrays], name != "cdist")
    theirs = run(torch, function, [torch.tensor(a, requires_grad=True) for a in arrays], name != "cdist")  # PyTorch has no more
    assert len(ours[1]) >= len(theirs[1])  # a second derivative that is 0 may be recorded by one side only
    for mine, their in zip(ours[1], theirs[1], strict=False):
        np.testing.assert_allclose(mine.detach().numpy(), their.numpy(force=True), rtol=1e-9, atol=1e-11)
    if name not in OTHER_NAMES:
        assert ours[0].grad_fn.name() == theirs[0].grad_fn.name()


EQUATIONS = [
    ("...ij,...jk", ((5, 2, 3), (3, 4))), ("ba", ((2, 3),)), ("i...,i->...", ((2, 3, 4), (2,))), ("ij,jk->ik", ((2, 1), (3, 4))),
    ("aB", ((2, 3),)), ("b...a->a", ((2, 3, 4),)), ("...ii->...i", ((2, 3, 3),)), ("...,...", ((2, 3), (1, 3))), ("ii", ((3, 3),)),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_grammar(equation, shapes):
    arrays = [array(*s) for s in shapes]
    ours, theirs = sg.einsum(equation, *map(wrap, arrays)), torch.einsum(equation, *map(torch.tensor, arrays))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-14)


REFUSALS = [
    lambda m, r: r(2, 3) @ r(4, 5),
    lambda m, r: r(3) @ r(4),
    lambda m, r: r(2, 3) @ r(4),
    lambda m, r: r(2, 3) @ r(),
    lambda m, r: r(2, 3, 4) @ r(2, 5, 6),
    lambda m, r: r(2, 3) @ r(3, 4).double(),
    lambda m, r: r(3) @ r(3).double(),
    lambda m, r: m.mm(r(2), r(2, 3)),
    lambda m, r: m.mm(r(2, 3), r(3)),
    lambda m, r: m.mm(r(2, 3), (3,)),
    lambda m, r: m.bmm(r(2, 3), r(3, 3)),
    lambda m, r: m.bmm(r(2, 3, 4), r(3, 4, 5)),
    lambda m, r: m.mv(r(2), r(2)),
    lambda m, r: m.mv(r(2, 3), r(2)),
    lambda m, r: m.dot(r(2, 2), r(2)),
    lambda m, r: m.outer(r(2, 2), r(3)),
    lambda m, r: m.inner(r(2, 3), r(2, 4)),
    lambda m, r: m.tensordot(r(2, 3), r(4, 5), 3),
    lambda m, r: m.tensordot(r(2, 3), r(4, 5), ([0, 1], [0])),
    lambda m, r: m.einsum("ij,jk->ik", r(2, 3), r(4, 5)),
    lambda m, r: m.einsum("ij,jk->ik", r(2, 3)),
    lambda m, r: m.einsum("ij->ik", r(2, 3)),
    lambda m, r: m.einsum("ijk->i", r(2, 3)),
    lambda m, r: m.einsum("ij->ii", r(2, 3)),
    lambda m, r: m.einsum("i1->i", r(2, 3)),
    lambda m, r: m.einsum("ii->i", r(2, 3)),
    lambda m, r: m.einsum("i.j->i", r(2, 3)),
    lambda m, r: m.einsum(""),
    lambda m, r: m.addmm(r(2, 4), r(2, 3), r(4, 4)),
    lambda m, r: m.addmm(r(2, 4), r(2, 3), r(3)),
    lambda m, r: m.addmv(r(3), r(2, 3), r(3)),
    lambda m, r: m.baddbmm(r(5), r(3, 4), r(3, 4, 5)),
    lambda m, r: m.addr(r(3), r(2, 2), r(3)),
    lambda m, r: m.trace(r(3)),
    lambda m, r: r(3).mT,
    lambda m, r: r(3).H,
    lambda m, r: r(3).adjoint(),
    lambda m, r: m.linalg.cross(r(3), r(2, 3)),
    lambda m, r: m.linalg.cross(r(4), r(4)),
    lambda m, r: m.linalg.multi_dot([r(2, 3)]),
    lambda m, r: m.linalg.multi_dot([r(2, 3), r(4, 5)]),
    lambda m, r: m.linalg.inv(0 * r(2, 2)),
    lambda m, r: m.linalg.inv(0 * r(3, 2, 2)),
    lambda m, r: m.linalg.inv(r(2, 3)),
    lambda m, r: m.linalg.inv(r(3)),
    lambda m, r: m.linalg.det(r(2, 2).long()),
    lambda m, r: m.logdet(r(2, 3)),
    lambda m, r: m.linalg.solve(0 * r(2, 2), r(2)),
    lambda m, r: m.linalg.solve(r(2, 2), r(3)),
    lambda m, r: m.linalg.solve(r(2, 3), r(3)),
    lambda m, r: m.linalg.solve(r(2, 2), r(2).double()),
    lambda m, r: m.linalg.cholesky(0 * r(2, 2) - 1),
    lambda m, r: m.linalg.cholesky(0 * r(3, 2, 2) - 1),
    lambda m, r: m.linalg.matrix_power(r(2, 3), 2),
    lambda m, r: m.linalg.matrix_power(0 * r(2, 2), -1),
    lambda m, r: m.linalg.matrix_power(r(2, 2), 0.5),
    lambda m, r: m.linalg.vecdot(r(2, 3), r(2, 4)),
    lambda m, r: m.linalg.vecdot(r(2, 3), r(3).double()),
    lambda m, r: m.linalg.vector_norm(r(3), "fro"),
    lambda m, r: m.linalg.matrix_norm(r(3)),
    lambda m, r: m.linalg.matrix_norm(r(3, 3), "x"),
    lambda m, r: m.linalg.matrix_norm(r(3, 3), 3),
    lambda m, r: m.linalg.norm(r(3, 3, 3), 2),
    lambda m, r: m.linalg.norm(r(3, 3), 2, dim=(0, 1, 2)),
    lambda m, r: m.linalg.norm(r(2).long()),
    lambda m, r: m.linalg.norm(r(3), "nuc"),
    lambda m, r: m.linalg.solve_triangular(r(2, 2), r(2), upper=True),
    lambda m, r: m.linalg.solve_triangular(r(2, 2), r(3, 1), upper=True),
    lambda m, r: m.linalg.eigh(r(2, 3)),
    lambda m, r: m.linalg.eigh(r(2, 2), UPLO="x"),
    lambda m, r: m.linalg.qr(r(2, 2), "x"),
    lambda m, r: m.cdist(r(2, 3), r(4, 5)),
    lambda m, r: m.cdist(r(3), r(4, 5)),
    lambda m, r: m.cholesky_solve(r(2), r(2, 2)),
    lambda m, r: m.ones(2, 2, dtype=m.bool) @ m.ones(2, 2, dtype=m.bool),
]


def refusal(call, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(module, lambda *shape: module.ones(shape))
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("index", range(len(REFUSALS)))
def test_refusals_are_of_the_same_type_and_say_the_same(index):
    ours, theirs = (refusal(REFUSALS[index], module) for module in (sg, torch))
    assert theirs is not None
    assert isinstance(ours, sg.linalg.LinAlgError if isinstance(theirs, torch.linalg.LinAlgError) else type(theirs))
    words = set(str(theirs).split("\n")[0].replace(",", " ").split())
    assert len(words & set(str(ours).replace(",", " ").split())) >= 0.7 * len(words), (str(ours), str(theirs))


@pytest.mark.parametrize("dtype", ["int64", "int32", "float16", "bfloat16", "float32", "complex64"])
def test_types_of_products(dtype):
    for function in (lambda m, x: x @ x, lambda m, x: m.einsum("ij,jk", x, x), lambda m, x: m.addmm(x, x, x), lambda m, x: m.trace(x),
                     lambda m, x: m.kron(x, x), lambda m, x: m.outer(x[0], x[0]), lambda m, x: m.tensordot(x, x, 1)):  # fmt: skip
        ours, theirs = (function(m, m.tensor([[1, 2], [3, 4]], dtype=getattr(m, dtype))) for m in (sg, torch))
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.tolist() == theirs.tolist()
