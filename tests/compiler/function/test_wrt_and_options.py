"""What derivatives are taken in by default, and options and calls that go wrong."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError

X = sg.tensor([1.0, 2.0, 3.0])


def test_without_wrt_derivatives_are_those_of_arguments():
    w = sg.tensor([2.0, 3.0, 4.0])
    fast = sg.compile(lambda x: (x * sg.tensor([1.0, 2.0, 3.0]) * w).sum())
    for _ in range(2):
        (found,) = fast.grad(X)
        assert found.tolist() == [2, 6, 12]
        _, (found,) = fast.value_and_grad(X)
        assert found.tolist() == [2, 6, 12]
    (found,) = fast.jacobian(X)
    assert found.tolist() == [2, 6, 12]
    w.requires_grad_()
    (found,) = fast.grad(X)  # that which requires grad
    assert found.tolist() == [1, 4, 9]
    whole = sg.compile(lambda n: (n * sg.tensor([1.0, 2.0])).sum())
    with pytest.raises(TraceError, match="no argument is a floating-point tensor"):
        whole.grad(sg.tensor([1, 2]))


def test_the_default_is_the_same_in_a_file(tmp_path):
    fast = sg.compile(lambda x: (x * sg.tensor([1.0, 2.0, 3.0])).sum())
    fast.export(tmp_path / "f.sgx", X)
    assert [g.tolist() for g in sg.load_compiled(tmp_path / "f.sgx").grad(X)] == [[1, 2, 3]]


def test_a_truth_value_is_no_position():
    fast = sg.compile(lambda x, y: (x * x * y).sum())
    for _ in range(2):
        assert fast.grad(X, X, wrt=1).tolist() == [1, 4, 9]
        assert fast.vjp(X, X, wrt=1)(sg.tensor(1.0)).tolist() == [1, 4, 9]
        for wrt in (True, (0, True)):
            with pytest.raises(ValueError, match=r"test_wrt_and_options.py:\d+: wrt=True: a truth value is no position; .* number of x, y"):
                fast.grad(X, X, wrt=wrt)
            with pytest.raises(ValueError, match="a truth value is no position"):
                fast.vjp(X, X, wrt=wrt)


def test_what_is_remembered_of_gradients_has_a_limit():
    fast = sg.compile(lambda x: (x * x).sum())
    fast(X)
    for i in range(300):
        fast._program_cache.keep_by_types(("x", i), fast._latest)
        assert len(fast._program_cache.by_types) <= 256
    assert fast.grad(X, wrt=0).tolist() == [2, 4, 6]


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("bounds", [
    lambda t: {"atol": t}, lambda t: {"rtol": t}, lambda t: {"atol": t, "rtol": t / 2}, lambda t: {"rcond": t * 2}, lambda t: {"atol": 0.5},
    lambda t: {"atol": 0.5, "rtol": t}, lambda t: {"atol": t * 0}, lambda t: {"rtol": sg.stack([t, t * 9])},
    lambda t: {"atol": sg.stack([t, t * 9])},
], ids=["atol", "rtol", "both", "rcond", "number", "mixed", "zero", "rtols", "atols"])  # fmt: skip
def test_bounds_of_pinv_may_be_tensors(bounds, backend):
    """Of each matrix of a batch those singular values count that are above its own bound."""
    a = sg.tensor([[[4.0, 0.0], [0.0, 0.3]], [[0.6, 0.0], [0.0, 0.1]]], dtype=sg.float64)

    def f(a, t):
        return sg.linalg.pinv(a, **bounds(t))

    fast = sg.compile(f, backend=backend)
    for t in (0.01, 0.08, 0.2):
        found = []
        for run in (f, fast):
            x = (a * 1).requires_grad_()
            result = run(x, sg.tensor(t, dtype=sg.float64))
            result.square().sum().backward()
            found += [result.detach().numpy(), x.grad.numpy()]
        np.testing.assert_allclose(found[2:], found[:2], rtol=1e-10, atol=1e-12)
        given = {k: np.asarray(v) for k, v in bounds(sg.tensor(t, dtype=sg.float64)).items()}
        usual = 0.0 if given.get("atol", 0.0) is not None and np.all(given.get("atol", 0.0) > 0) else 2 * np.finfo(float).eps
        relative = given.get("rtol", given.get("rcond", usual))
        cut = np.maximum(relative * np.array([4.0, 0.6]), given.get("atol", 0.0))
        wanted = [np.diag([1 / s if s > c else 0.0 for s in row]) for row, c in zip([[4.0, 0.3], [0.6, 0.1]], cut, strict=True)]
        np.testing.assert_allclose(found[0], wanted, atol=1e-12)
    assert len(fast.recompiles()) == 1


def layers(x):
    x = x.expand(3, 3)
    for i in range(40):
        x = sg.sin(x) @ x / 10 + sg.tanh(x + i)
    return x.sum(0)


def test_layers_are_rolled_up_unless_it_is_switched_off():
    flat, rolled = sg.compile(layers, roll=False), sg.compile(layers)
    np.testing.assert_allclose(flat(X).numpy(), rolled(X).numpy(), rtol=1e-5)
    np.testing.assert_allclose(flat.vjp(X, wrt=0)(X).numpy(), rolled.vjp(X, wrt=0)(X).numpy(), rtol=1e-4)
    assert "scan" in rolled.source()
    assert "scan" not in flat.source()


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_a_run_that_raises_puts_the_generator_back(backend, monkeypatch):
    w = sg.zeros(3)

    def step(x):
        w.add_(x * sg.rand(3))
        return w.sum()

    def fails(self, held, found=None):
        raise RuntimeError("no memory")

    fast = sg.compile(step, backend=backend)
    sg.manual_seed(4)
    fast(X)
    fast(X)
    before = w.tolist()
    kernel = fast._latest.kernel()
    with monkeypatch.context() as patch:
        patch.setattr(type(kernel), "launch", fails)
        patch.setattr(fast, "_fast_entries", {})  # which call XLA's executable itself
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no memory"):
                fast(X)
    assert w.tolist() == before
    found = fast(X)
    sg.manual_seed(4)
    w.zero_()
    for _ in range(3):
        wanted = step(X)
    np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-6)


@pytest.mark.parametrize("f", [
    lambda t: sg.full((2, 3), t), lambda t: sg.full_like(sg.ones(2, dtype=sg.float64), t), lambda t: t.new_full((2,), t * 2),
    lambda t: sg.full((3,), t, dtype=sg.int64), lambda t: sg.full((2,), t > 0.5), lambda t: sg.full((2,), t).mul_(t), lambda t: copied(t),
    lambda t: sg.zeros(3).fill_(t), lambda t: sg.ones(3).masked_fill(sg.tensor([True, False, True]), t), lambda t: t.new_tensor(t * 2),
])  # fmt: skip
def test_tensors_that_are_filled_with_what_is_computed(f):
    fast = sg.compile(f, backend="numpy")
    for number in (0.25, 1.5, 2.5):
        t = sg.tensor(number, dtype=sg.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tensor(t) says what to write instead
            found, wanted = fast(t), f(t)
        assert (found.tolist(), found.dtype, found.requires_grad) == (wanted.tolist(), wanted.dtype, wanted.requires_grad)
    assert len(fast.recompiles()) == 1


def copied(t):
    return sg.tensor(t * 2, dtype=sg.float32)


def test_devices_are_given_by_name_or_as_objects():
    for device in ("cpu", "cpu:0", sg.device("cpu"), jax.devices()[0]):
        assert sg.compile(lambda x: x * 2, device=device)(X).tolist() == [2, 4, 6]
    with pytest.raises(TypeError, match=r'device=3: kernels run on devices by name, device="gpu"'):
        sg.compile(lambda x: x, device=3)
    with pytest.raises(ValueError, match=r"device='cpu:77' is not there: JAX sees cpu:0"):
        sg.compile(lambda x: x * 2, device="cpu:77")(X)


def test_arguments_are_named_in_options():
    with pytest.raises(TypeError, match=r'static=1: arguments are given by their names, static="n"'):
        sg.compile(lambda x, n: x * n, static=1)
    with pytest.raises(TypeError, match=r"dynamic=\['n', 1\]: arguments are given by their names"):
        sg.compile(lambda x, n: x * n, dynamic=["n", 1])


def test_functions_and_results_that_are_none():
    with pytest.raises(TypeError, match="got NumPy's sin: compile symgrad's function of that name"):
        sg.compile(np.sin)
    with pytest.raises(TraceError, match=r"got float 4.0; return tensor\("):
        sg.compile(lambda x: 4.0)(X)
    with pytest.raises(TraceError, match=r"got bool True; return tensor\(...\) of a comparison or a size, or return it beside a tensor"):
        sg.compile(lambda x: x.shape[0] > 2)(X)
    with pytest.raises(TraceError, match=r"got str 'a'; return tensors, or this beside one"):
        sg.compile(lambda x: "a")(X)
    with pytest.raises(TraceError, match=r"got ndarray\(3,\) float64; return a tensor"):
        sg.compile(lambda x: np.ones(3))(X)
    with pytest.raises(TraceError, match=r"got object; return what is in it as a tuple, dict or dataclass"):
        sg.compile(lambda x: object())(X)
