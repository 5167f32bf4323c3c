"""fast.jacobian(sparse=...) and fast.hessian(sparse=...): formats, dtypes, both back ends, structures, and what is refused."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse

import symgrad as sg
from symgrad.compiler.runtime.program import Program
from symgrad.errors import TraceError

rng = np.random.default_rng(2)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def steps(x):
    return x[1:] ** 2 - 3 * x[:-1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_formats(backend, dtype):
    fast, hessian = sg.compile(steps, backend=backend), sg.compile(rosenbrock, backend=backend)
    x = rng.uniform(0.5, 1.5, 6).astype(dtype)
    for function, derivative in ((fast, "jacobian"), (hessian, "hessian")):
        expected = getattr(function, derivative)(x, wrt="x")
        for form, cls in ((True, scipy.sparse.csr_array), ("csr", scipy.sparse.csr_array), ("coo", scipy.sparse.coo_array)):
            found = getattr(function, derivative)(x, wrt="x", sparse=form)
            assert type(found) is cls
            assert found.dtype == dtype
            np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5 if dtype == "float32" else 1e-12)
            assert found.has_canonical_format or form == "coo"


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_bcoo(backend):
    from jax.experimental.sparse import BCOO

    x = rng.uniform(0.5, 1.5, 6)
    for function in (steps, lambda x: (2 * x)[1:], lambda x: sg.cat([x[:2] ** 2, 3 * x])):
        fast = sg.compile(function, backend=backend)
        found = fast.jacobian(x, wrt="x", sparse="bcoo")
        assert isinstance(found, BCOO)
        assert found.data.dtype == np.float64
        dense = np.zeros(found.shape)
        np.add.at(dense, tuple(np.asarray(found.indices).T), np.asarray(found.data))
        np.testing.assert_allclose(dense, fast.jacobian(x, wrt="x"), rtol=1e-12)


def test_results_own_their_memory():
    fast = sg.compile(steps)
    x = np.ones(5)
    first = fast.jacobian(x, wrt="x", sparse=True)
    first.data[:] = 7
    first.indices[:] = 0
    first.indptr[:] = 0
    np.testing.assert_array_equal(fast.jacobian(x, wrt="x", sparse=True).toarray(), fast.jacobian(x, wrt="x"))
    second = fast.jacobian(x, wrt="x", sparse="coo")
    second.data[:] = 7
    assert not second.coords[0].flags.writeable
    np.testing.assert_array_equal(fast.jacobian(x, wrt="x", sparse="coo").toarray(), fast.jacobian(x, wrt="x"))


def test_other_values_and_other_shapes():
    fast = sg.compile(rosenbrock)
    for n in (6, 6, 3, 9):
        x = rng.normal(size=n)
        np.testing.assert_allclose(fast.hessian(x, wrt=0, sparse=True).toarray(), fast.hessian(x, wrt=0), rtol=1e-12)


def test_numbers_and_computed_values_at_one_place_are_added():
    fast = sg.compile(lambda x: sg.cat([2 * x[:2], x[2:] ** 2]) + sg.cat([x[:1] ** 3, 5 * x[1:]]))
    x = np.array([1.0, 2.0, 3.0, 4.0])
    for form in ("csr", "coo"):
        np.testing.assert_allclose(fast.jacobian(x, wrt=0, sparse=form).toarray(), np.diag([5.0, 7, 11, 13]))


def test_several_inputs_have_the_structure_of_the_dense_derivative():
    fast = sg.compile(lambda x, p: {"a": x * p["k"][:3], "b": [p["k"].sum() * x[1:]]})
    x, p = rng.normal(size=3), {"k": rng.normal(size=4)}
    dense, sparse = fast.jacobian(x, p, wrt=("x", "p")), fast.jacobian(x, p, wrt=("x", "p"), sparse=True)
    blocks = [lambda found: found["a"][0], lambda found: found["a"][1]["k"], lambda found: found["b"][0][1]["k"]]
    for d, s in ((block(dense), block(sparse)) for block in blocks):
        np.testing.assert_allclose(s.toarray(), d, rtol=1e-12)
    loss = sg.compile(lambda x, y: (x[1:] * y[:-1] * x[:-1]).sum())
    dense, sparse = (loss.hessian(x, x + 1, wrt=("x", "y"), **options) for options in ({}, {"sparse": True}))
    for i in range(2):
        for j in range(2):
            np.testing.assert_allclose(sparse[i][j].toarray(), dense[i][j], rtol=1e-12)


def test_inputs_and_results_of_several_dimensions_are_flattened():
    fast = sg.compile(lambda x: x[:, 1:] * x[:, :-1])
    x = rng.normal(size=(3, 4))
    np.testing.assert_allclose(fast.jacobian(x, wrt=0, sparse=True).toarray(), fast.jacobian(x, wrt=0).reshape(9, 12))


def test_captured_parameters():
    w = sg.tensor(rng.normal(size=4), requires_grad=True)
    fast = sg.compile(lambda x: x * w.exp() + w[0])
    x = sg.tensor(rng.normal(size=4))
    for _ in range(2):
        np.testing.assert_allclose(fast.jacobian(x, wrt="x", sparse=True).toarray(), np.diag(np.exp(w.detach().numpy())))
        found = fast.jacobian(x, wrt="w", sparse=True).toarray()
        np.testing.assert_allclose(found, fast.jacobian(x, wrt="w").numpy(), rtol=1e-12)
        with sg.no_grad():
            w += 1


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_index_tensors_that_change(backend):
    fast = sg.compile(lambda x, i: x[i] ** 2 * x[: len(i)], backend=backend)
    x = rng.normal(size=6)
    for i in ([0, 5, 2], [3, 3, 3], [0, 5, 2], [-1, 0, -2]):
        i = np.array(i)
        np.testing.assert_allclose(fast.jacobian(x, i, wrt="x", sparse=True).toarray(), fast.jacobian(x, i, wrt="x"), rtol=1e-12)


def test_an_index_that_depends_on_the_argument():
    fast = sg.compile(lambda x: x[x.argsort()] ** 2)
    for x in (rng.normal(size=5), rng.normal(size=5)):
        np.testing.assert_allclose(fast.jacobian(x, wrt=0, sparse=True).toarray(), fast.jacobian(x, wrt=0), rtol=1e-12)


@pytest.mark.parametrize("shape", [(0,), (1,), (), (2, 0)])
def test_small_and_empty(shape):
    fast = sg.compile(lambda x: x * x + 1)
    x = np.ones(shape)
    for form in ("csr", "coo", "bcoo"):
        assert fast.jacobian(x, wrt=0, sparse=form).shape == (x.size, x.size)
    assert sg.compile(lambda x: (x**3).sum()).hessian(x, wrt=0, sparse=True).shape == (x.size, x.size)


def test_a_dense_function():
    w = rng.normal(size=(30, 30))
    for function in (lambda x: sg.tensor(w) @ x.sin(), lambda x: sg.linalg.solve(sg.tensor(w) + x.diag(), x)):
        fast = sg.compile(function)
        x = rng.normal(size=30)
        np.testing.assert_allclose(fast.jacobian(x, wrt=0, sparse=True).toarray(), fast.jacobian(x, wrt=0), rtol=1e-9, atol=1e-12)


def test_loops_and_hooks():
    def loop(x):
        return sg.cat([sg.scan(lambda s, y: (s * y, s), x[0], x[:3])[1], x[3:] ** 2])

    def hooked(x):
        y = x**2
        y.register_hook(lambda g: 3 * g)
        return y * 2

    x = rng.normal(size=9)
    for function in (loop, hooked):
        fast = sg.compile(function)
        np.testing.assert_allclose(fast.jacobian(x, wrt=0, sparse=True).toarray(), fast.jacobian(x, wrt=0), rtol=1e-12)


def test_half_precision_is_computed_in_float32():
    found = sg.compile(steps).jacobian(np.ones(4, np.float16), wrt=0, sparse=True)
    assert found.dtype == np.float32


def test_plans_live_as_long_as_the_function():
    x = rng.normal(size=5)

    def used():
        fast = sg.compile(lambda x: x**2)
        fast.jacobian(x, wrt=0, sparse=True)
        (program,) = [p for p in gc.get_objects() if type(p) is Program and p.sparse_plans]
        return weakref.ref(program)

    gc.collect()
    program = used()
    gc.collect()
    assert program() is None


def test_hooks_and_functions_in_hessians():
    class Cube(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    def hooked(x):
        y = x**3
        y.register_hook(lambda g: 3 * g)
        return (y[1:] * y[:-1]).sum()

    x = rng.normal(size=5)
    for function in (lambda x: (Cube.apply(x)[1:] * x[:-1]).sum(), hooked):
        fast = sg.compile(function)
        np.testing.assert_allclose(fast.hessian(x, wrt=0, sparse=True).toarray(), fast.hessian(x, wrt=0), rtol=1e-12)


def test_what_is_refused():
    fast = sg.compile(steps)
    x = np.ones(4)
    with pytest.raises(ValueError, match=r"sparse='crs': did you mean 'csr'\? It is True, 'csr', 'coo', 'bcoo', or False"):
        fast.jacobian(x, sparse="crs")
    with pytest.raises(ValueError, match="sparse=3"):
        fast.jacobian(x, sparse=3)
    with pytest.raises(Exception, match="of one number"):
        fast.hessian(x, sparse=True)
    with pytest.raises(TraceError, match="a sparse jacobian is no tensor"):
        sg.compile(lambda x: fast.jacobian(x, wrt=0, sparse=True))(x)
    with pytest.raises(Exception, match="is not sparse"):
        sg.compile(lambda x: x.cumsum(0)).jacobian(np.ones(40_000), wrt=0, sparse=True)
