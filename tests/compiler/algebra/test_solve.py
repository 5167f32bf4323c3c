"""The pass `solve`: systems by what is known of their matrix, and one decomposition for each matrix."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.algebra.contract import contraction
from symgrad.compiler.algebra.solve import solve
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace

inv, det, slogdet = sg.linalg.inv, sg.linalg.det, sg.linalg.slogdet


def arrays(dtype=np.float64, batch=()):
    rng = np.random.default_rng(1)
    shapes = [(*batch, 4, 4), (*batch, 4, 2), (4,)]
    made = [rng.standard_normal(s) + (1j * rng.standard_normal(s) if np.dtype(dtype).kind == "c" else 0) for s in shapes]
    return [a.astype(dtype) for a in made]


def graph_of(function, given):
    return trace(lambda ts: function(*ts), given, ["A", "B", "x"]).graph


def solved(function, given, gradient=False):
    """The graph after the pass, whose values the interpreter has compared; contracted before, as in the pipeline."""
    graph = graph_of(function, given)
    if gradient:
        graph = Graph(graph.inputs, (*graph.outputs, *grad(graph).outputs), graph.labels)
    found = verify(solve(contraction(graph).graph))
    for before, after in zip(evaluate(graph, given), evaluate(found, given), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)
    return found


def count(graph, *ops):
    return tuple(sum(v.op == op for v in graph.values) for op in ops)


CASES = {
    # name: (function, numbers of inv, solve, lu_factor and lu_solve after the pass)
    "inv(A) x": (lambda A, B, x: inv(A) @ x, (0, 0, 1, 1)),
    "inv(A) B": (lambda A, B, x: inv(A) @ B, (0, 0, 1, 1)),
    "x inv(A)": (lambda A, B, x: x @ inv(A), (0, 0, 1, 1)),
    "B' inv(A)": (lambda A, B, x: B.mT @ inv(A), (0, 0, 1, 1)),
    "inv(A)' x": (lambda A, B, x: inv(A).mT @ x, (0, 0, 1, 1)),
    "inv(A') B": (lambda A, B, x: inv(A.mT) @ B, (0, 0, 1, 1)),
    "B' inv(A')": (lambda A, B, x: B.mT @ inv(A.mT), (0, 0, 1, 1)),
    "two products": (lambda A, B, x: (inv(A) @ x, x @ inv(A)), (0, 0, 1, 2)),
    "det and inv": (lambda A, B, x: (det(A), inv(A) @ x), (0, 0, 1, 1)),
    "slogdet and inv": (lambda A, B, x: (*slogdet(A.mT), inv(A)), (0, 0, 1, 1)),
    "det and slogdet": (lambda A, B, x: (det(A), *slogdet(A)), (0, 0, 1, 0)),
    "two systems": (lambda A, B, x: (sg.linalg.solve(A, B), sg.linalg.solve(A.mT, B)), (0, 0, 1, 2)),
    "sums": (lambda A, B, x: (inv(A).sum(-1), inv(A).mT.sum(-1), inv(A).sum(-2, keepdim=True)), (0, 0, 1, 2)),
    "an inverse alone": (lambda A, B, x: inv(A), (1, 0, 0, 0)),
    "a system alone": (lambda A, B, x: sg.linalg.solve(A, B), (0, 1, 0, 0)),
    "an inverse that is also read": (lambda A, B, x: (inv(A) @ x, inv(A).sin()), (1, 0, 0, 0)),
    "an inverse that is also a result": (lambda A, B, x: (inv(A) @ x, inv(A)), (1, 0, 0, 0)),
    "its own square": (lambda A, B, x: inv(A) @ inv(A), (1, 0, 0, 0)),
}


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", CASES)
def test_systems_share_one_decomposition(name, batch):
    function, expected = CASES[name]
    found = solved(function, arrays(batch=batch))
    assert count(found, "inv", "solve", "lu_factor", "lu_solve") == expected


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["inv(A)' x", "B' inv(A)", "slogdet and inv", "det and inv"])
def test_other_dtypes(name, dtype):
    given = arrays(dtype)
    graph = graph_of(CASES[name][0], given)
    found = verify(solve(graph))
    assert count(found, "lu_factor") == (1,)
    single = np.dtype(dtype) in (np.float32, np.complex64)
    for before, after in zip(evaluate(graph, given), evaluate(found, given), strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_allclose(after, before, rtol=1e-3 if single else 1e-10, atol=1e-3 if single else 1e-10)


@pytest.mark.parametrize("name", ["inv(A) x", "x inv(A)", "inv(A') B"])
def test_value_and_gradient_take_one_decomposition(name):
    found = solved(lambda *args: CASES[name][0](*args).sin().sum(), arrays(), gradient=True)
    assert count(found, "inv", "solve", "lu_factor") == (0, 0, 1)


STRUCTURES = {
    # name: (function, row that solves it)
    "lower": (lambda A, B, x: sg.linalg.solve(A.tril(), B), "solve_triangular"),
    "upper": (lambda A, B, x: sg.linalg.solve(A.triu(), B), "solve_triangular"),
    "transposed lower": (lambda A, B, x: sg.linalg.solve(A.tril().mT, B), "solve_triangular"),
    "inverse of upper": (lambda A, B, x: B.mT @ inv(A.triu()), "solve_triangular"),
    "inverse of transposed upper": (lambda A, B, x: inv(A.triu().mT) @ x, "solve_triangular"),
    "orthogonal": (lambda A, B, x: inv(sg.linalg.qr(A)[0]) @ x, "matmul"),
    "transposed orthogonal": (lambda A, B, x: sg.linalg.solve(sg.linalg.qr(A)[0].mT, B), "matmul"),
    "definite": (lambda A, B, x: sg.linalg.solve(A.mT @ A + sg.diag(x.exp()), B), "solve_definite"),
    "ridge": (lambda A, B, x: sg.linalg.solve(A.mT @ A + 0.1 * sg.eye(4, dtype=A.dtype), B), "solve_definite"),
    "scaled ridge": (lambda A, B, x: sg.linalg.solve(A.mT @ A + x[0].exp() * sg.eye(4, dtype=A.dtype), B), "solve_definite"),
    "diagonal": (lambda A, B, x: B.mT @ inv(sg.diag(x)), "div"),
    "identity": (lambda A, B, x: sg.linalg.solve(3 * sg.eye(4, dtype=A.dtype), B), "div"),
    "inverse of definite": (lambda A, B, x: x @ inv(A.mT @ A + sg.diag(x.exp())), "solve_definite"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_is_known_of_a_matrix_is_used(name):
    function, row = STRUCTURES[name]
    found = solved(function, arrays())
    assert count(found, "inv", "solve", "lu_factor") == (0, 0, 0)
    assert row in found.ops
    assert "solve_triangular" not in found.ops or row == "solve_triangular"


ON_XLA = {**{name: f for name, (f, _) in CASES.items() if name != "its own square"}, **{name: f for name, (f, _) in STRUCTURES.items()}}


def test_kernels_agree_with_eager_code():
    given = [sg.tensor(a) for a in arrays()]
    everything = sg.compile(lambda A, B, x: [f(A, B, x) for f in ON_XLA.values()])
    for found, name in zip(everything(*given), ON_XLA, strict=True):
        expected = ON_XLA[name](*given)
        for a, b in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(("batch", "name"), [((3,), "B' inv(A)"), ((2, 3), "slogdet and inv")])
def test_kernels_of_batches(batch, name):
    given = [sg.tensor(a) for a in arrays(batch=batch)]
    made = sg.compile(CASES[name][0])
    found, expected = made(*given), CASES[name][0](*given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9)
    assert "lu_factor" in made.source()


def test_gradients_of_kernels():
    given = [sg.tensor(a) for a in arrays()]
    loss = lambda A, B, x: ((inv(A) @ x) ** 2).sum() + slogdet(A)[1]
    fast, plain = sg.compile(loss), sg.compile(loss, without="solve")
    for a, b in zip(fast.grad(*given, wrt="A"), plain.grad(*given, wrt="A"), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)
    assert "one LU decomposition" in dict(fast.explain("grad")["passes"].rows)["solve"]


def test_a_matrix_that_rounding_makes_indefinite_is_solved_by_lu():
    a = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    b = (a.T @ np.ones((3, 1), np.float32)).astype(np.float32)
    made = sg.compile(lambda a, b, e: sg.linalg.solve(a.mT @ a + sg.diag(e.exp()), b))
    found = made(sg.tensor(a), sg.tensor(b), sg.full((40,), -30.0))
    assert "cholesky" in made.source()
    assert np.isfinite(found.numpy()).all()


@pytest.mark.parametrize("structure", ["tril", "triu"])
def test_a_system_whose_matrix_is_an_inverse_is_a_product(structure):
    """The inverse is the matrix of the system, not what the system is solved by."""
    given = arrays()
    for matrix in (lambda A: inv(getattr(A, structure)()), lambda A: inv(getattr(A, structure)()).T):
        solved(lambda A, B, x, m=matrix: sg.linalg.solve(m(A), B), given)
