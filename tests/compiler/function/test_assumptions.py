"""Compiled functions that assume something of their tensors: cheaper, and right wherever the assumption does not reach."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.algebra.cost import total_flops

N = 40
BACKENDS = ("numpy", "xla")
rng = np.random.default_rng(3)
M = rng.standard_normal((N, N))
HOLDING = {
    "symmetric": M + M.T, "positive_definite": M @ M.T + N * np.eye(N), "orthogonal": np.linalg.qr(M)[0], "diagonal": np.diag(M.diagonal()),
    "lower_triangular": np.tril(M) + N * np.eye(N), "upper_triangular": np.triu(M) + N * np.eye(N), "positive": np.abs(M) + 0.1,
    "integer": np.round(3 * M),
}  # fmt: skip
X, Y = sg.tensor(rng.standard_normal(N)), sg.tensor(rng.standard_normal(N))
PLAIN = sg.tensor(M)


def tensor(word):
    return sg.tensor(HOLDING[word])


def close(found, wanted, rtol=1e-8):
    for f, w in zip(*(x if isinstance(x, (tuple, list)) else (x,) for x in (found, wanted)), strict=True):
        np.testing.assert_allclose(f.detach().numpy(), w.detach().numpy(), rtol, 1e-9)


def both(function, word):
    """A function of A and x with and without the assumption."""
    return (lambda A, x: function(sg.assume(A, word), x)), function


PROGRAMS = {
    "symmetric": lambda A, x: (A.T @ x).tanh().sum() + x @ A @ x + (A + A.T).sin().sum(),
    "positive_definite": lambda A, x: x @ sg.linalg.inv(A) @ x + sg.logdet(A) + (sg.linalg.solve(A, x) ** 2).sum(),
    "orthogonal": lambda A, x: (A.T @ (A @ x)).tanh().sum() + sg.linalg.solve(A, x).sin().sum() + (sg.linalg.inv(A) @ x).sum(),
    "diagonal": lambda A, x: (A @ x).tanh().sum() + (sg.linalg.inv(A) @ x).sin().sum() + (A @ A).sum() + sg.linalg.det(A / 2),
    "lower_triangular": lambda A, x: sg.linalg.solve(A, x).sum() + (sg.linalg.inv(A).T @ x).sin().sum() + sg.linalg.det(A / N),
    "upper_triangular": lambda A, x: sg.linalg.solve(A.T, x).sum() + (x @ sg.linalg.inv(A)).sin().sum() + A.triu().sum(),
    "positive": lambda A, x: (A * A.T).log().sum() + (A * A).sqrt().sum() + (A.abs() @ x).sum() + sg.where(A > 0, A, -A).sum(),
    "integer": lambda A, x: (A.floor() @ x).sum() + A.round().sum() + (A * A.ceil()).sum(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("word", "backend"), [*((word, "numpy") for word in PROGRAMS), *((word, "xla") for word in ("symmetric", "positive_definite"))]
)
def test_values_and_derivatives_are_those_without_the_assumption(word, backend):
    """Before a call, after it, and through backward()."""
    known, plain = both(PROGRAMS[word], word)
    A, fast = tensor(word), sg.compile(known, backend=backend)
    wanted = sg.func.grad(plain, argnums=(0, 1))(A, X)
    close(fast.grad(A, X, wrt=("A", "x")), wanted)
    close(fast(A, X), plain(A, X))
    leaves = A.clone().requires_grad_(), X.clone().requires_grad_()
    fast(*leaves).backward()
    close([leaf.grad for leaf in leaves], wanted)
    close(fast.grad(A, X, wrt=("A", "x")), wanted)


CHEAPER = {
    "symmetric": (lambda A, x: x @ A @ x, "x", 0.8), "orthogonal": (lambda A, x: (A.T @ (A @ x)).sin().sum(), "x", 0.2),
    "diagonal": (lambda A, x: (A @ (A @ x)).sin().sum(), "x", 0.1),
}  # fmt: skip


@pytest.mark.parametrize("word", CHEAPER)
def test_gradients_take_fewer_operations(word):
    function, wrt, most = CHEAPER[word]
    flops = []
    for f in both(function, word):
        fast = sg.compile(f, backend="numpy")
        fast.value_and_grad(tensor(word), X, wrt=wrt)
        flops.append(total_flops(fast._kernel("value_and_grad", wrt).graph))
    assert flops[0] <= most * flops[1]


SYSTEMS = {
    "lower_triangular": "solve_triangular", "upper_triangular": "solve_triangular", "positive_definite": "solve_definite",
    "orthogonal": "matmul", "diagonal": "diagonal",
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("word", SYSTEMS)
def test_systems_are_solved_by_what_is_known(word, backend):
    for function in (lambda A, x: sg.linalg.solve(A, x), lambda A, x: sg.linalg.inv(A) @ x):
        known, plain = both(function, word)
        fast = sg.compile(known, backend=backend)
        close(fast(tensor(word), X), plain(tensor(word), X))
        ops = fast._kernel("forward", None).graph.ops
        assert SYSTEMS[word] in ops
        assert ops.isdisjoint({"inv", "solve", "lu_factor", "assume"})


def test_a_matrix_that_is_not_definite_is_solved_by_lu():
    """It costs time, not digits, and a singular one is the error of eager code."""
    fast = sg.compile(lambda A, x: sg.linalg.solve(sg.assume(A, "positive_definite"), x), backend="numpy")
    S = tensor("symmetric")
    close(fast(S, X), sg.linalg.solve(S, X))
    with pytest.raises(sg.linalg.LinAlgError, match="singular"):
        fast(S * 0, X)


# where an assumption does not reach


def sym(A):
    return sg.assume(A, "symmetric")


def written(how):
    def function(A, x):
        B = A * 1
        known = sym(B)
        how(B, known, x)
        return (known.T @ x * Y).sum() + 2 * (B.T @ x * Y).sin().sum()

    return function


def through_a_view(B, known, x):
    row = known[0]
    row.mul_(3)
    known.T[2, 3] = x[1]


def in_both(B, known, x):
    B[3] = B[3].clone() * x
    known[0, 1] = x[0]


def without_history(B, known, x):
    with sg.no_grad():
        known[0, 1] = 7


WRITES = {
    "to the result": lambda B, known, x: known.__setitem__((0, 1), x[0]),
    "to the argument": lambda B, known, x: B.__setitem__((0, 1), x[0]),
    "through a view": through_a_view, "both": in_both, "no history": without_history, "op": lambda B, known, x: known.mul_(x),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_known_of_what_is_written_to(name):
    f, S = written(WRITES[name]), tensor("symmetric")
    fast = sg.compile(f, backend="numpy")
    close(fast.grad(S, X, wrt=("A", "x")), sg.func.grad(f, argnums=(0, 1))(S, X))
    close(fast(S, X), f(S, X))
    S = S.requires_grad_()
    other = S.detach().clone().requires_grad_()
    fast(S, X).backward()
    f(other, X).backward()
    close(S.grad, other.grad)


def test_writes_to_arguments_after_an_assumption():
    def f(A, x):
        known = sym(A)
        turned = known.T
        A.add_(PLAIN)
        return known.T @ x, turned @ x, A.T @ x

    fast, S, other = sg.compile(f, backend="numpy"), tensor("symmetric"), tensor("symmetric")
    for _ in range(3):
        close(fast(S, X), f(other, X))
        close(S, other)


def test_an_assumption_says_nothing_of_other_uses():
    """The matrix is not symmetric: only the use that says so may take it for that."""
    for f in (lambda A, x: 2 * (A.T @ x) + sym(A).T @ x, lambda A, x: sym(A).T @ x + 2 * (A.T @ x)):
        close(sg.compile(f, backend="numpy")(PLAIN, X), 2 * (PLAIN.T @ X) + PLAIN @ X)


u = lambda A, x: ((A.T @ x).tanh() * Y).sum()
f = lambda A, x: u(sym(A), x)
SMALL = 4
DIRECTIONS = {
    "hessian": lambda c, A, x: c.hessian(A, x, wrt="A"),
    "structured": lambda c, A, x: c.hessian(A, x, wrt="A", structured=True).to_dense(),
    "sparse": lambda c, A, x: sg.tensor(c.jacobian(A, x, wrt="A", sparse=True).toarray()),
    "jvp": lambda c, A, x: c.jvp(A, x, wrt="A")(PLAIN[:SMALL, :SMALL]),
    "vjp": lambda c, A, x: c.vjp(A, x, wrt="A")(sg.tensor(2.0, dtype=sg.float64)),
    "hvp": lambda c, A, x: c.hvp(A, x, wrt="A", v=PLAIN[:SMALL, :SMALL]),
    "taylor": lambda c, A, x: c.taylor(A, x, wrt="A", v=PLAIN[:SMALL, :SMALL], order=3),
}  # fmt: skip


@pytest.mark.parametrize("name", DIRECTIONS)
def test_derivatives_lead_out_of_what_is_assumed(name):
    """A direction need not be symmetric, nor is a gradient."""
    S, x = tensor("symmetric")[:SMALL, :SMALL].clone(), X[:SMALL].clone()
    small = lambda A, x: ((A.T @ x).tanh() * Y[:SMALL]).sum()
    found, wanted = (DIRECTIONS[name](sg.compile(g, backend="numpy"), S, x) for g in (lambda A, x: small(sym(A), x), small))
    close(found, wanted)


def test_transforms_inside_of_compiled_functions():
    S = tensor("symmetric")
    for transform in (
        lambda g: lambda A, x: sg.func.jvp(lambda A: g(A, x), (A,), (PLAIN,))[1],
        lambda g: lambda A, x: sg.func.grad(lambda A: g(A, x))(A).T,
        lambda g: lambda A, x: sg.func.grad(lambda x: (sg.func.grad(lambda A: g(A, x))(A) * PLAIN).sum())(x),
    ):
        close(sg.compile(transform(f), backend="numpy")(S, X), transform(u)(S, X))


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_batches(axes):
    S = tensor("symmetric")
    args = sg.stack([S, S * S, -S]) if axes[0] == 0 else S, sg.stack([X, Y, X * Y]) if axes[1] == 0 else X
    wanted = sg.vmap(u, in_dims=axes)(*args)
    close(sg.compile(lambda A, x: sg.vmap(f, in_dims=axes)(A, x), backend="numpy")(*args), wanted)
    close(sg.vmap(sg.compile(f, backend="numpy"), in_dims=axes)(*args), wanted)
    close(sg.vmap(f, in_dims=axes)(*args), wanted)


def test_batches_of_matrices():
    Q = sg.linalg.qr(sg.tensor(rng.standard_normal((3, 5, 5))))[0]
    b = sg.tensor(rng.standard_normal((3, 5, 2)))
    g = lambda Q, b: (Q.mT @ (Q @ b)).sin() + sg.linalg.solve(Q, b) + sg.linalg.inv(Q) @ b
    close(sg.compile(lambda Q, b: g(sg.assume(Q, "orthogonal"), b), backend="numpy")(Q, b), g(Q, b))
    D = sg.diag_embed(sg.tensor(rng.standard_normal((3, 5))))
    g = lambda D, b: (D @ b).sin() + sg.linalg.solve(D, b) + (b.mT @ D).mT + D @ b[0, :, 0].expand(3, 5).unsqueeze(-1)
    close(sg.compile(lambda D, b: g(sg.assume(D, "diagonal"), b), backend="numpy")(D, b), g(D, b))


def looped(know):
    """A loop whose body assumes something of a captured matrix, and one that carries a matrix that stops being symmetric."""

    def function(A, x):
        def step(c, _):
            c = (know(A).T @ c).tanh()
            return c, c

        def turn(C, _):
            return C.T * x, C.sum()

        last, steps = sg.scan(step, x, None, length=3)
        C, sums = sg.scan(turn, know(A), None, length=3)
        return (last * Y).sum() + steps.sum() + (C.T @ x).sum() + sums.sum()

    return function


def test_loops_and_branches():
    S = tensor("symmetric") / N
    fast, plain = sg.compile(looped(sym), backend="numpy"), sg.compile(looped(lambda A: A), backend="numpy")
    close(fast(S, X), plain(S, X))
    close(fast.grad(S, X, wrt=("A", "x")), plain.grad(S, X, wrt=("A", "x")))
    branch = sg.compile(lambda A, x: sg.cond(x.sum() > 0, lambda: sym(A).T @ x, lambda: A.T @ x), backend="numpy")
    x = X if X.sum() > 0 else -X
    close(branch(PLAIN, x), PLAIN @ x)
    close(branch(PLAIN, -x), PLAIN.T @ -x)


def test_a_step_that_differentiates_itself():
    w = tensor("symmetric").requires_grad_()
    other = w.detach().clone().requires_grad_()

    def step(w, A, x):
        loss = x @ w.T @ sg.assume(A, "positive_definite") @ Y
        loss.backward()
        with sg.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        return loss

    fast = sg.compile(step, backend="numpy")
    for _ in range(3):
        close(fast(w, tensor("positive_definite"), X), step(other, tensor("positive_definite"), X))
        close(w, other)


def test_a_branch_on_what_is_known_needs_no_guard():
    def g(x):
        x = sg.assume(x, "positive")
        return x.log().sum() if x.sum() > 0 else x.sum()

    fast = sg.compile(g, backend="numpy")
    for _ in range(2):
        close(fast(X.abs() + 1), (X.abs() + 1).log().sum())
    assert "gt" not in fast._kernel("forward", None).graph.ops


def test_rules_can_be_switched_off():
    g = lambda A, x: sg.assume(A, "orthogonal").T @ (sg.assume(A, "orthogonal") @ x)
    fast, plain = (sg.compile(g, backend="numpy", without=without) for without in ((), "assumed_values"))
    close(fast(PLAIN, X), X)
    close(plain(PLAIN, X), PLAIN.T @ (PLAIN @ X))
    assert dict(plain.explain()["passes"].rows)["assumed_values"] == "switched off"
    assert "rule 'orthogonal_product'" in dict(fast.explain()["passes"].rows)["assumed_values"]
    assert not any("assum" in name for name, _ in plain_explanation())


def plain_explanation():
    fast = sg.compile(lambda A, x: A @ x, backend="numpy")
    fast(PLAIN, X)
    return fast.explain()["passes"].rows


def test_specs_are_part_of_exported_programs(tmp_path):
    def chain(A, x):
        return x @ A.T @ A @ x

    fast = sg.compile(chain)
    Q = tensor("orthogonal")[:3, :3].contiguous()
    Q = sg.linalg.qr(Q)[0].float()
    x = X[:3].float()
    fast.export(tmp_path / "chain.sg", sg.spec((3, 3), orthogonal=True), sg.spec(3))
    loaded = sg.load_compiled(tmp_path / "chain.sg")
    close(loaded(Q, x), chain(Q, x), 1e-5)
    assert "assuming A orthogonal" in loaded.formula()
    close(fast(2 * Q, x), chain(2 * Q, x), 1e-5)  # the call makes a program of its own, of which nothing is assumed
