"""Structured Jacobians and Hessians of compiled functions, against dense ones."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import LinAlgError, TraceError
from symgrad.nn import functional as F

rng = np.random.default_rng(0)
n = 40
x, d = rng.standard_normal(n), rng.uniform(1, 2, n)
X, U, M = x.reshape(8, 5), rng.standard_normal((n, 3)), rng.standard_normal((2 * n, n))


def positive(size):
    a = rng.standard_normal((size, size))
    return a @ a.T + np.eye(size)


A, B = positive(8), positive(5)
KNOWN = {
    "diagonal": (lambda x: (x**4).sum(), "diagonal", x),
    "identity": (lambda x: (x * x).sum(), "diagonal", x),
    "blocks": (lambda X, B: (X * X * X).sum() + ((X @ B) ** 3).sum(), "blocks(8, 5x5)", X, B),
    "I ⊗ B": (lambda X, B: ((X @ B) * X).sum(), "Kronecker(I_8, 5x5)", X, B),
    "A ⊗ I": (lambda X, A: ((A @ X) * X).sum(), "Kronecker(8x8, I_5)", X, A),
    "A ⊗ I + I ⊗ B": (lambda X, A, B: (X * (A @ X)).sum() + (X * (X @ B)).sum(), "Kronecker(8x8, I_5) + Kronecker(I_8, 5x5)", X, A, B),
    "A ⊗ B + A' ⊗ B'": (lambda x, A, B: x @ sg.kron(A, B) @ x, "Kronecker(8x8, 5x5) + Kronecker(8x8, 5x5)", x, A, B),
    "A ⊗ I + I ⊗ B, the digits of A not side by side": (
        lambda T, C, B: sg.einsum("aib,abcd,cid->", T, C, T) + sg.einsum("aib,ij,ajb->", T, B, T),
        "Kronecker(8x8, I_5) + Kronecker(I_8, 5x5)", x.reshape(2, 5, 4), A.reshape(2, 4, 2, 4), B,
    ),
    "A ⊗ B, the digits of A not side by side": (
        lambda T, C, B: sg.einsum("aib,abcd,ij,cjd->", T, C, B, T),
        "Kronecker(8x8, 5x5) + Kronecker(8x8, 5x5)", x.reshape(2, 5, 4), A.reshape(2, 4, 2, 4), B,
    ),
    "chain": (lambda x: ((x[1:] - x[:-1]) ** 4).sum() + (x**2).sum(), "banded(1)", x),
    "diagonal + low rank": (lambda x, U, d: (d * x * x).sum() + ((x @ U) ** 2).sum(), "diagonal + rank 3", x, U, d),
    "matrix of low rank": (lambda x, U, d: (d * x.cosh()).sum() + x @ (U @ U.T) @ x, "diagonal + rank 3", x, U, d),
    "band + low rank": (lambda x, U: ((x[1:] - x[:-1]) ** 2).sum() + (x**2).sum() + (x @ U).sin().sum(), "banded(1) + rank 3", x, U),
    "logistic regression": (lambda w, M: F.softplus(M @ w).sum(), "M' diag(s) M", x, M),
    "ridge": (lambda w, M: F.softplus(M @ w).sum() + (w * w).sum(), "M' diag(s) M + diagonal", x, M),
    "grid": (lambda u: ((u[1:] - u[:-1]) ** 2).sum() + ((u[:, 1:] - u[:, :-1]) ** 2).sum() + (u**4).sum(), "sparse 2.1%", positive(20)),
    "gather": (lambda x, i: (x[i] ** 3).sum() + (x**2).sum(), "diagonal", x, rng.integers(-n, n, 90)),
    "net": (lambda W, v, B: sg.logsumexp(B @ (W @ v).relu(), 0) + (W**2).sum(), "Kronecker(5x5, rank 1) + diagonal", X.T, x[:8], B),
    "no structure": (lambda x, A: x @ A @ x, "dense", x, positive(n)),
}
SINGULAR = {
    "zero": lambda x: x.sum(),
    "diagonal": lambda x: (x[1:] ** 2).sum(),
    "band": lambda x: ((x[1:] - x[:-1]) ** 2).sum(),
    "blocks": lambda x: (x.reshape(8, 5).sum(1) ** 2).sum(),
    "product of vectors": lambda x: x.sum() ** 2,
    "grid": lambda x: ((x.reshape(8, 5)[1:] - x.reshape(8, 5)[:-1]) ** 2).sum(),
}


def matrix_of(function, *arrays, backend="numpy", **options):
    fast = sg.compile(function, backend=backend)
    H = fast.hessian(*arrays, structured=True, **{"wrt": 0, **options})
    return H, fast.hessian(*arrays, wrt=0).reshape(H.shape) if options.get("wrt", 0) == 0 else None


@pytest.mark.parametrize("name", KNOWN)
def test_known_structure(name):
    function, text, *arrays = KNOWN[name]
    H, expected = matrix_of(function, *arrays)
    v = rng.standard_normal((len(expected), 2))
    scale = np.abs(expected).max()
    assert H.structure == text
    assert H.shape == expected.shape
    assert np.allclose(H.to_dense().reshape(H.shape), expected, rtol=1e-11, atol=1e-11 * scale)
    assert np.allclose(H @ v, expected @ v, rtol=1e-10, atol=1e-10 * scale)
    assert np.allclose(H.T @ v, expected.T @ v, rtol=1e-10, atol=1e-10 * scale)
    assert np.allclose(H.diagonal().reshape(-1), np.diag(expected), rtol=1e-11, atol=1e-11 * scale)
    assert np.allclose(H.to_scipy().toarray(), expected, rtol=1e-11, atol=1e-11 * scale)
    sign, value = H.slogdet()
    assert (sign, value) == pytest.approx(np.linalg.slogdet(expected), rel=1e-8)
    assert H.logdet() == pytest.approx(value, rel=1e-8) if sign > 0 else np.isnan(H.logdet())
    condition = np.linalg.cond(expected)
    assert np.allclose(H.solve(v), np.linalg.solve(expected, v), rtol=1e-13 * condition, atol=1e-13 * condition / scale)


@pytest.mark.parametrize("name", SINGULAR)
def test_a_singular_matrix_is_an_error_that_names_the_structure(name):
    H, expected = matrix_of(SINGULAR[name], x)
    assert np.allclose(H.to_dense(), expected)
    with pytest.raises(LinAlgError, match=r"singular|zero.*Its structure is"):
        H.solve(x)


def test_a_part_without_inverse_does_not_stop_the_sum():
    function = lambda x, U: (x[1:] ** 2).sum() + ((U.T @ x) ** 2).sum()
    H, expected = matrix_of(function, x, U)
    assert H.structure == "diagonal + rank 3"
    assert np.allclose(H @ H.solve(x), x)
    assert H.slogdet() == pytest.approx(np.linalg.slogdet(expected))


def test_an_indefinite_matrix_is_solved():
    H, expected = matrix_of(lambda x, U: (x[:20] ** 2).sum() - (x[20:] ** 2).sum() - ((U.T @ x) ** 2).sum(), x, U)
    assert np.linalg.eigvalsh(expected)[0] < 0 < np.linalg.eigvalsh(expected)[-1]
    assert np.allclose(H @ H.solve(x), x)
    assert H.slogdet() == pytest.approx(np.linalg.slogdet(expected))


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_back_ends(backend):
    function, text, *arrays = KNOWN["blocks"]
    H, expected = matrix_of(function, *arrays, backend=backend)
    assert H.structure == text
    assert np.allclose(H.to_dense().reshape(H.shape), expected)
    assert np.allclose(H @ H.solve(X), X)


def test_tensors_give_tensors_and_arrays_arrays():
    fast = sg.compile(KNOWN["chain"][0], backend="numpy")
    H = fast.hessian(sg.tensor(x, requires_grad=True), structured=True, wrt=0)
    assert isinstance(H.to_dense(), sg.Tensor)
    assert isinstance(H @ sg.tensor(x), sg.Tensor)
    assert isinstance(H.diagonal(), sg.Tensor)
    assert isinstance(H @ x, np.ndarray)
    assert isinstance(fast.hessian(x, structured=True, wrt=0).diagonal(), np.ndarray)


def test_float32_stays_float32():
    H, expected = matrix_of(KNOWN["blocks"][0], X.astype(np.float32), B.astype(np.float32))
    g = X.astype(np.float32)
    assert expected.dtype == H.dtype == (H @ g).dtype == H.solve(g).dtype == np.float32
    assert np.allclose(H @ H.solve(g), g, atol=1e-3)


def test_several_inputs_are_one_matrix():
    function = lambda U, V: ((U @ V.T - 1) ** 2).sum() + (U**2).sum() + (V**2).sum()
    arrays = U[:6], U[6:11]
    fast = sg.compile(function, backend="numpy")
    H = fast.hessian(*arrays, wrt=("U", "V"), structured=True)
    blocks = fast.hessian(*arrays, wrt=("U", "V"))
    rows = [np.concatenate([b.reshape(a.size, -1) for b in row], 1) for a, row in zip(arrays, blocks, strict=True)]
    expected = np.concatenate(rows)
    assert np.allclose(H.to_dense(), expected)
    product = H @ (arrays[0], arrays[1])
    assert np.allclose(np.concatenate([p.ravel() for p in product]), expected @ np.concatenate([a.ravel() for a in arrays]))
    solved = H.solve(product)
    assert all(np.allclose(s, a) for s, a in zip(solved, arrays, strict=True))
    assert [v.shape for v in H.diagonal()] == [(6, 3), (5, 3)]


def test_pytrees():
    fast = sg.compile(lambda p, y: ((p["w"] * p["b"]) ** 2).sum() + (p["w"] * y).sum(), backend="numpy")
    params = {"w": x[:4], "b": d[:4]}
    H = fast.hessian(params, x[4:8], wrt="p", structured=True)
    back = H.solve(H @ params)
    assert back.keys() == params.keys()
    assert all(np.allclose(back[k], params[k]) for k in params)


def test_parameters_of_a_module():
    layer = sg.nn.Linear(3, 2)
    fast = sg.compile(lambda t: (layer(t) ** 2).sum(), backend="numpy")
    t = sg.tensor(U[:5].astype(np.float32))
    H = fast.hessian(t, wrt="layer_weight", structured=True)
    assert H.structure == "Kronecker(I_2, 3x3)"
    assert np.allclose(H.to_dense(), fast.hessian(t, wrt="layer_weight"), atol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (), (1,), (1, 1)])
def test_empty_and_single_elements(shape):
    H, expected = matrix_of(lambda x: (x * x * x).sum(), np.full(shape, 2.0))
    assert H.to_dense().shape == (*shape, *shape)
    assert np.allclose(H.to_dense().reshape(H.shape), expected)
    g = np.full(shape, 24.0)
    assert np.allclose(H.solve(g), np.full(shape, 2.0))
    assert H.logdet() == pytest.approx(np.log(12.0) * g.size)
    assert repr(H).startswith("StructuredMatrix(")
    assert "<svg" in H._repr_html_()


def test_what_has_no_normal_form_is_dense_and_says_why():
    H, expected = matrix_of(lambda x: (x.cumsum(0) ** 3).sum(), x)
    assert H.structure == "dense"
    assert "computed with unit vectors: cumsum" in repr(H)
    assert np.allclose(H.to_dense(), expected)


def test_a_full_matrix_of_thin_parts_has_their_text():
    H, expected = matrix_of(lambda x: sum((x[k:] * x[:-k]).sum() for k in (3, 7, 11, 14, 17, 20, 23, 26, 29)), x)
    assert H.structure.startswith("banded(3, 0) + banded(0, 3) + sparse 2.1% + banded(0, 7)")
    assert "dense" not in H.structure
    assert np.array_equal(H.to_dense(), expected)


@pytest.mark.parametrize(
    ("function", "text"),
    [(lambda x: x.exp(), "diagonal"), (lambda x: x[1:] - x[:-1] ** 2, "banded(0, 1)"), (lambda x: sg.outer(x, x), None)],
)
def test_jacobians(function, text):
    fast = sg.compile(function, backend="numpy")
    J, expected = fast.jacobian(x, structured=True, wrt=0), fast.jacobian(x, wrt=0)
    assert text in (None, J.structure)
    assert np.allclose(J.to_dense(), expected)
    assert np.allclose(J @ x, expected @ x)


def test_jacobians_have_the_structure_of_the_results():
    found = sg.compile(lambda x: {"a": x * 2, "b": (x.sum(), x**2)}, backend="numpy").jacobian(x, structured=True, wrt=0)
    assert found["a"].structure == found["b"][1].structure == "diagonal"
    assert np.allclose(found["b"][0].to_dense(), np.ones(n))


def test_an_untraceable_function_gives_a_dense_matrix():
    fast = sg.compile(lambda x: (x * float(x[0].item() > -9) * x).sum(), fallback="eager", backend="numpy")
    with pytest.warns(UserWarning, match="computed eagerly"):
        H = fast.hessian(sg.tensor(x), structured=True, wrt=0)
    assert np.allclose(H @ x, 2 * x)


def test_vectors_of_a_wrong_shape():
    H, _ = matrix_of(KNOWN["blocks"][0], X, B)
    with pytest.raises(ValueError, match=r"must have the shape \[8, 5\].*got \[8, 4\]"):
        H @ X[:, :4]
    with pytest.raises(LinAlgError, match="square"):
        sg.compile(lambda x: x[1:], backend="numpy").jacobian(x, structured=True, wrt=0).solve(x[1:])


def test_inside_of_a_traced_function():
    fast = sg.compile(KNOWN["chain"][0], backend="numpy")
    with pytest.raises(TraceError, match="structured hessian is no tensor"):
        sg.compile(lambda x: fast.hessian(x, structured=True, wrt=0).solve(x), backend="numpy")(x)


def test_linalg_functions_take_it():
    H, expected = matrix_of(KNOWN["blocks"][0], X, B)
    assert np.allclose(sg.linalg.solve(H, X), np.linalg.solve(expected, X.ravel()).reshape(X.shape))
    assert sg.linalg.slogdet(H) == pytest.approx(np.linalg.slogdet(expected))
    assert sg.linalg.det(H) == pytest.approx(np.linalg.det(expected))
    assert np.allclose(sg.linalg.matmul(H, X.ravel()), expected @ X.ravel())
    assert np.allclose(sg.linalg.diagonal(H), H.diagonal())


def test_other_forms():
    H, expected = matrix_of(KNOWN["grid"][0], *KNOWN["grid"][2:])
    assert np.allclose(np.asarray(H), expected)
    bcoo = H.to_bcoo()
    assert bcoo.nse < expected.size / 20
    with jax.enable_x64(True):
        assert np.allclose(bcoo.todense(), expected)
    assert H.nbytes < expected.nbytes / 100


def test_plot():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    H, _ = matrix_of(KNOWN["chain"][0], x)
    ax = H.plot(pyplot.figure().add_subplot())
    assert ax.get_title() == "banded(1)"
    assert ax.images[0].get_array().sum() == 3 * n - 2
    pyplot.close(ax.figure)


@pytest.mark.parametrize("seed", range(20))
def test_a_form_of_low_rank_has_no_solution_whatever_rounding_does(seed):
    rng = np.random.default_rng(seed)
    point, sides = rng.normal(size=12), rng.normal(size=(12, 3))
    H, _ = matrix_of(lambda x, V: ((V.T @ x) ** 2).sum() + ((V.T @ x) ** 3).sum(), point, sides)
    with pytest.raises(LinAlgError, match="rank is at most"):
        H.solve(point)
    assert H.slogdet() == (0.0, -np.inf)


SMALL = {
    "elementwise": lambda x: (x**3).sum(),
    "a recurrence": lambda x: (sg.cumprod(x.reshape(-1), 0) ** 3).sum(),
    "one square": lambda x: x.sum() ** 2 + (x**2).sum(),
    "differences": lambda x: ((x.reshape(-1)[1:] - x.reshape(-1)[:-1]) ** 4).sum() + (x**2).sum(),
    "places from an array": lambda x: (x.reshape(-1)[[0, -1]] ** 3).sum(),
}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2,), (1, 2), (0,), (0, 2), (2, 0)])
@pytest.mark.parametrize("name", SMALL)
def test_matrices_of_few_elements_or_none(name, shape):
    x = np.linspace(2.0, 3.0, int(np.prod(shape))).reshape(shape)
    if not x.size and name == "places from an array":
        return
    fast = sg.compile(SMALL[name], backend="numpy")
    matrix, dense = fast.hessian(x, wrt=0, structured=True), np.reshape(fast.hessian(x, wrt=0), (x.size, x.size))
    b = np.ones((*shape, 3))
    np.testing.assert_allclose(np.asarray(matrix), dense)
    np.testing.assert_allclose(np.reshape(matrix @ b, (x.size, 3)), dense @ np.ones((x.size, 3)))
    np.testing.assert_allclose(np.reshape(matrix.solve(b), (x.size, 3)), np.linalg.solve(dense, np.ones((x.size, 3))))
    np.testing.assert_allclose((matrix.det(), *matrix.slogdet()), (np.linalg.det(dense), *np.linalg.slogdet(dense)))
    np.testing.assert_allclose(np.reshape(matrix.diagonal(), -1), np.diag(dense))


def test_a_singular_matrix_raises_numpys_error_too():
    matrix = sg.compile(SMALL["elementwise"], backend="numpy").hessian(np.zeros(3), wrt=0, structured=True)
    with pytest.raises(np.linalg.LinAlgError, match="element 0 of its diagonal is 0"):
        matrix.solve(np.ones(3))


FIRST, SECOND = np.array([1, 0, 3, 2, 1]), np.array([0, -1, 2, 2, 0])
GATHERS = {
    "index": lambda x: x[FIRST], "twice": lambda x: x[FIRST][SECOND],
    "two": lambda x: x[FIRST] + 2 * x[SECOND], "a product": lambda x: x[FIRST] * x[SECOND],
    "rows": lambda x: x.reshape(2, 2)[[1, 0, 1]].reshape(-1)[:5], "take": lambda x: sg.take(x, sg.tensor(SECOND % 4)),
    "gather": lambda x: x.gather(0, sg.tensor(SECOND % 4)), "select": lambda x: x.index_select(0, sg.tensor(FIRST)),
}  # fmt: skip
THEN = {
    "plus its sum": lambda z: z + z.sum(), "less its mean": lambda z: z - z.mean(), "gathered again": lambda z: z[SECOND % 5] + z.sum() * z,
    "two sums": lambda z: z * z[0] + (z * sg.arange(5.0)).sum(), "outer": lambda z: z[:, None] * 2 + z,
    "sum of its rows": lambda z: (z[:, None] + z).sum(0),
    "matrix": lambda z: sg.tensor(M[:3, :5]) @ z + z.sum(), "softmax": lambda z: sg.softmax(z, 0),
}  # fmt: skip


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("gather", GATHERS)
def test_gathers_whose_elements_are_also_summed(gather, then):
    """A row and the sum over all rows are at the same looked-up place, with different labels inside of it."""

    def f(x):
        return THEN[then](GATHERS[gather](x))

    at = np.array([0.3, -1.2, 0.8, 2.1])
    fast = sg.compile(f, backend="numpy")
    matrix = fast.jacobian(at, wrt=0, structured=True)
    expected = sg.func.jacrev(f)(sg.tensor(at)).numpy().reshape(-1, 4)
    np.testing.assert_allclose(np.asarray(matrix).reshape(-1, 4), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.reshape(matrix @ at, -1), expected @ at, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.jacobian(at, wrt=0).reshape(-1, 4), expected, rtol=1e-12, atol=1e-12)
    weights = np.linspace(1, 2, len(expected))
    second = sg.compile(lambda x: (f(x).reshape(-1) ** 2 * weights).sum(), backend="numpy").hessian(at, wrt=0, structured=True)
    reference = sg.func.hessian(lambda x: (f(x).reshape(-1) ** 2 * sg.tensor(weights)).sum())(sg.tensor(at)).numpy()
    np.testing.assert_allclose(np.asarray(second), reference, rtol=1e-10, atol=1e-10)
