"""Which calls of a compiled function return NumPy arrays: one of their data is an array, and the others are NumPy's or Python numbers."""

import numpy as np
import pytest

import symgrad as sg

BACKENDS = ("xla", "numpy")


def cubes(x, scale=1.0):
    return (scale * x**3).sum()


DERIVATIVES = {
    "call": lambda f, x: f(x),
    "grad": lambda f, x: f.grad(x, wrt="x"),
    "value_and_grad": lambda f, x: f.value_and_grad(x, wrt="x")[1],
    "value": lambda f, x: f.value_and_grad(x, wrt="x")[0],
    "jacobian": lambda f, x: f.jacobian(x, wrt="x"),
    "hessian": lambda f, x: f.hessian(x, wrt="x"),
    "hvp": lambda f, x: f.hvp(x, v=np.ones(3, x.dtype), wrt="x"),
    "vjp": lambda f, x: f.vjp(x, wrt="x")(1.0),
    "vjp value": lambda f, x: f.vjp(x, wrt="x").value,
    "jvp": lambda f, x: f.jvp(x, wrt="x")(np.ones(3, x.dtype)),
    "jvp value": lambda f, x: f.jvp(x, wrt="x").value,
    "container": lambda f, x: f.grad(x)[0],
}


def is_array(result, dtype=np.float64):
    return type(result) is np.ndarray and result.dtype == dtype and result.flags.writeable


@pytest.fixture(scope="module")
def pairs():
    """A compiled function for each back end, and one that always returns tensors."""
    return {b: (sg.compile(cubes, backend=b), sg.compile(cubes, backend=b, returns="tensor")) for b in BACKENDS}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_give_arrays_of_their_dtype_at_every_call(pairs, backend, name, dtype):
    (f, tensors), ask = pairs[backend], DERIVATIVES[name]
    x = np.array([1.0, 2.0, 3.0], dtype)
    wanted = ask(tensors, x)
    assert isinstance(wanted, sg.Tensor)
    for _ in range(3):  # the first call traces, the next ones are short
        found = ask(f, x)
        assert is_array(found, dtype)
        np.testing.assert_allclose(found, wanted.numpy())
        found[...] = 0  # nobody else has it


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [2.0, 2, np.float64(2), np.float32(2), np.ones(3)], ids=lambda x: type(x).__name__)
def test_numbers_beside_an_array_change_nothing(backend, scale):
    f = sg.compile(cubes, backend=backend)
    for _ in range(2):
        assert is_array(f(np.ones(3), scale))
        assert is_array(f(x=np.ones(3), scale=scale))
        assert is_array(f.grad(np.ones(3), scale, wrt="x"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_other_call_returns_tensors(backend):
    f = sg.compile(cubes, backend=backend)
    tensor, array = sg.ones(3, dtype=sg.float64), np.ones(3)
    calls = [(tensor,), (array, sg.tensor(2.0)), (tensor, 2.0), (tensor, array)]
    for args in calls * 2:
        assert isinstance(f(*args), sg.Tensor), args
        assert isinstance(f.grad(*args, wrt="x"), sg.Tensor), args
    numbers = sg.compile(lambda x, scale=1.0: scale * sg.sin(x), backend=backend)
    for args in [(1.0,), (np.float64(1.0),), (1.0, 2.0), (2, 2.0)] * 2:
        assert isinstance(numbers(*args), sg.Tensor), args
        assert isinstance(numbers.grad(*args, wrt="x"), sg.Tensor), args
    assert isinstance(f.hvp(array, v=tensor, wrt="x"), sg.Tensor)
    assert isinstance(f.vjp(array, wrt="x")(sg.tensor(1.0, dtype=sg.float64)), sg.Tensor)
    assert isinstance(f.jvp(array, wrt="x")(tensor), sg.Tensor)
    assert is_array(f(array))


def test_an_array_of_jax_is_no_array_of_numpy():
    jnp = pytest.importorskip("jax.numpy")
    f = sg.compile(cubes)
    assert isinstance(f(jnp.ones(3)), sg.Tensor)
    assert isinstance(f(np.ones(3), jnp.ones(3)), sg.Tensor)


@pytest.mark.parametrize("backend", BACKENDS)
def test_captured_tensors_that_require_grad_keep_tensors(backend):
    w = sg.ones(3, dtype=sg.float64, requires_grad=True)
    f = sg.compile(lambda x: (w * x).sum(), backend=backend)
    for _ in range(3):
        out = f(np.ones(3))
        assert isinstance(out, sg.Tensor)
        out.backward()
        assert isinstance(f.grad(np.ones(3), wrt="x"), sg.Tensor)
    assert w.grad.tolist() == [3.0] * 3
    w.requires_grad_(False)
    for _ in range(2):
        assert is_array(f(np.ones(3)))
        assert is_array(f.grad(np.ones(3), wrt="x"))
    w.requires_grad_()
    assert isinstance(f(np.ones(3)), sg.Tensor)


def test_results_in_containers_and_modules():
    pair = sg.compile(lambda d: {"twice": 2 * d["x"], "n": 3})
    for _ in range(2):
        found = pair({"x": np.ones(2), "y": 1.0})
        assert is_array(found["twice"])
        assert found["n"] == 3
    net = sg.nn.Linear(2, 1)
    fast = sg.compile(net)
    assert isinstance(fast(np.ones((1, 2), np.float32)), sg.Tensor)
    net.requires_grad_(False)
    assert is_array(fast(np.ones((1, 2), np.float32)), np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_with_effects(backend):
    total = sg.zeros(3, dtype=sg.float64)

    def add(x):
        total.add_(x)
        return total

    f = sg.compile(add, backend=backend)
    for k in (1, 2, 3):
        found = f(np.ones(3))
        assert is_array(found)
        found += 100  # a copy: the state does not change
        assert total.tolist() == [k] * 3


def test_functions_that_branch_fall_back_retrace_or_fill_up():
    branch = sg.compile(lambda x: x * 2 if x.sum() > 0 else -x)
    for sign in (1, -1, 1, -1):
        assert is_array(branch(sign * np.ones(3)))
    eager = sg.compile(lambda x: x.sigmoid() * float(x.sum()), fallback="eager")
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert is_array(eager(np.ones(3)))
    assert is_array(sg.compile(cubes, retrace=True)(np.ones(3)))
    rows = sg.compile(lambda x: x * 2, buckets={"x": (4, 8)})
    assert is_array(rows(np.ones((3, 2))))
    assert isinstance(rows(sg.ones(3, 2)), sg.Tensor)


def test_returns_overrides_the_rule():
    tensors, arrays = sg.compile(cubes, returns="tensor"), sg.compile(cubes, returns="numpy")
    for _ in range(3):
        for name, ask in DERIVATIVES.items():
            assert isinstance(ask(tensors, np.ones(3)), sg.Tensor), name
        assert is_array(arrays(sg.ones(3)), np.float32)
        assert is_array(arrays.grad(sg.ones(3, requires_grad=True))[0], np.float32)
        assert is_array(arrays(sg.ones(3, requires_grad=True)), np.float32)
    with pytest.raises(ValueError, match="returns='array': a call returns"):
        sg.compile(cubes, returns="array")


def test_inside_other_functions():
    f = sg.compile(cubes)
    assert isinstance(sg.func.grad(lambda t: t * f(np.ones(3)))(sg.tensor(1.0)), sg.Tensor)

    def inner(t):
        slope = f.grad(np.ones(3), wrt="x")
        assert is_array(slope)
        return (t * sg.tensor(slope)).sum()

    assert sg.func.grad(inner)(sg.ones(3, dtype=sg.float64)).tolist() == [3.0] * 3
    outer = sg.compile(lambda t: t * f.grad(np.ones(3), wrt="x").sum())
    assert outer(sg.tensor(1.0)).item() == 9.0


def test_functions_from_files(tmp_path):
    sg.compile(cubes).export(tmp_path / "f.sgx", np.ones(3), 1.0)
    f = sg.load_compiled(tmp_path / "f.sgx")
    assert is_array(f(np.ones(3), 1.0))
    assert is_array(f.grad(np.ones(3), 1.0, wrt="x"))
    assert is_array(f.vjp(np.ones(3), 1.0, wrt="x")(1.0))
    assert is_array(f.vjp(np.ones(3), 1.0, wrt="x").value)
    assert isinstance(f(sg.ones(3, dtype=sg.float64), 1.0), sg.Tensor)
    assert isinstance(f.vjp(np.ones(3), 1.0, wrt="x")(sg.tensor(1.0, dtype=sg.float64)), sg.Tensor)
