"""compile(): kernels behind an ordinary function, which eager autograd sees as one operation."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import GraphError, TraceError


def values(*shape, seed=0, dtype=np.float64):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype), requires_grad=True)


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-13)


def layer(x, w, b):
    return ((x @ w + b).tanh() * x.sum(1, keepdim=True)).sum()


ARGS = (values(2, 3), values(3, 4), values(4))


def test_backward_runs_the_compiled_vjp():
    fast = sg.compile(layer)
    y = fast(*ARGS)
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    for found, wanted in zip(sg.autograd.grad(y, ARGS), sg.autograd.grad(layer(*ARGS), ARGS), strict=True):
        same(found, wanted)


def test_it_is_one_operation_among_others():
    fast = sg.compile(layer)
    x, w, b = ARGS
    mixed, plain = (f(x * 2, w.sin(), b).exp() for f in (fast, layer))
    for found, wanted in zip(sg.autograd.grad(mixed, (x, w)), sg.autograd.grad(plain, (x, w)), strict=True):
        same(found, wanted)


def test_double_backward():
    def penalty(f):
        gradients = sg.autograd.grad(f(*ARGS), ARGS, create_graph=True)
        return sg.autograd.grad(sum((g * g).sum() for g in gradients), ARGS)

    for found, wanted in zip(penalty(sg.compile(layer)), penalty(layer), strict=True):
        same(found, wanted)


def test_only_what_needs_a_gradient_gets_one():
    x, w, b = values(2, 3), values(3, 4).detach(), values(4)
    y = sg.compile(layer)(x, w, b)
    y.backward()
    assert w.grad is None
    assert x.grad.shape == x.shape
    with sg.no_grad():
        assert sg.compile(layer)(x, w, b).grad_fn is None


def test_results_can_be_written_to_and_inputs_are_left_alone():
    x = values(3).detach()
    kept = x.numpy().copy()
    y = sg.compile(lambda x: x * 1)(x)
    y += 1
    np.testing.assert_array_equal(x.numpy(), kept)
    np.testing.assert_array_equal(y.numpy(), kept + 1)


def test_which_gradients():
    fast = sg.compile(layer)
    wanted = sg.autograd.grad(layer(*ARGS), ARGS)
    value, one = fast.value_and_grad(*ARGS, wrt="w")
    same(value, layer(*ARGS))
    same(one, wanted[1])
    several = fast.grad(*ARGS, wrt=("b", 0))
    same(several[0], wanted[2])
    same(several[1], wanted[0])
    assert len(fast.grad(*ARGS)) == 3
    assert len(fast.grad(ARGS[0].detach(), *ARGS[1:])) == 2
    with pytest.raises(ValueError, match="wrt='c': the tensor arguments are x, w, b"):
        fast.grad(*ARGS, wrt="c")
    with pytest.raises(GraphError, match="only for real scalar outputs, got complex64"):
        sg.compile(lambda x: (x * x).sum()).grad(sg.ones(2) * 1j)
    with pytest.raises(GraphError, match="only for scalar outputs"):
        sg.compile(lambda x: x * 2).grad(values(3))


def test_one_program_for_each_combination_of_types():
    runs = []

    def f(x, n=2):
        runs.append(x.shape)
        return (x * n).sum()

    fast = sg.compile(f)
    for x in (values(3), values(3, seed=1), values(4), values(3, dtype=np.float32), values(3)):
        same(fast(x), (x * 2).sum())
    assert len(runs) == 3
    same(fast(values(3), n=3), (values(3) * 3).sum())
    same(fast(values(3), n=3.0), (values(3) * 3).sum())
    assert len(runs) == 5


def test_containers_in_and_out():
    @sg.compile
    def f(batch, *rest, scale=2, **more):
        return {"sum": batch["x"] + rest[0], "parts": [batch["y"] * scale, (more["z"],)], "note": "text"}

    x, y, z, r = (values(2, seed=i) for i in range(4))
    result = f({"x": x, "y": y}, r, z=z)
    same(result["sum"], x + r)
    same(result["parts"][0], y * 2)
    same(result["parts"][1][0], z)
    assert result["note"] == "text"
    assert f.graph().labels == ("batch.x", "batch.y", "rest.0", "z")
    result["parts"][0].sum().backward()
    same(y.grad, sg.tensor([2.0, 2.0]))


def test_tensors_closed_over_are_read_at_each_call_and_get_gradients():
    weight = values(3)
    fast = sg.compile(lambda x: (x * weight).sum())
    x = values(3, seed=1)
    same(fast(x), (x * weight).sum())
    with sg.no_grad():
        weight.mul_(10)
    y = fast(x)
    same(y, (x * weight).sum())
    y.backward()
    same(weight.grad, x)


def test_arrays_are_taken_and_specs_are_not():
    fast = sg.compile(lambda x: x * 2)
    np.testing.assert_array_equal(fast(np.arange(3.0)), [0, 2, 4])
    with pytest.raises(TypeError, match="x is a spec"):
        fast(sg.spec((3,)))


def test_a_compiled_function_inside_another():
    inner = sg.compile(lambda x: x.sin() * 2)
    outer = sg.compile(lambda x: inner(x).sum())
    x = values(3)
    same(outer.grad(x, wrt="x"), 2 * x.cos())


def test_sources_before_the_first_call():
    with pytest.raises(TraceError, match="call it once"):
        sg.compile(layer).source()


def test_repr_of_functions_and_graphs():
    fast = sg.compile(lambda x, n=2: x * n)
    assert repr(fast) == "<compiled <lambda>(x, n): no program yet>"
    fast(values(3))
    assert repr(fast) == "<compiled <lambda>(x, n): 1 program>"
    fast(values(2)), fast(values(2), 3)
    assert repr(fast) == "<compiled <lambda>(x, n): 3 programs>"
    assert repr(fast.graph()) == str(fast.graph())


def test_a_failed_trace_leaves_nothing_behind():
    @sg.compile
    def f(x):
        return x * x.sum().item()

    with pytest.raises(TraceError, match=r"test_compiled\.py:\d+: item\(\)"):
        f(values(3))
    assert values(3).sum().item() == pytest.approx(float(values(3).detach().numpy().sum()))


def test_no_write_into_an_input_can_reach_the_result():
    fast = sg.compile(lambda x: (x @ x).sin().sum())
    for n in (8, 64, 256):
        for i in range(20):
            x = sg.tensor(np.random.default_rng(i).normal(size=(n, n)))
            wanted = (x @ x).sin().sum().item()
            y = fast(x)
            x.fill_(7)
            assert y.item() == pytest.approx(wanted, rel=1e-9, abs=1e-8)


def test_jax_is_left_as_it_was(caplog):
    import jax

    caplog.set_level(logging.DEBUG)
    before = {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_default_device", "jax_compilation_cache_dir")}
    y = sg.compile(lambda x: (x * x).sum())(values(3))
    assert y.dtype == sg.float64
    assert {name: getattr(jax.config, name) for name in before} == before
    assert jax.numpy.ones(2).dtype == np.float32
    with pytest.raises(GraphError):
        sg.compile(lambda x: x).grad(values(2))
    assert {name: getattr(jax.config, name) for name in before} == before


@pytest.mark.parametrize("wide", [False, True])
def test_what_the_user_told_jax_makes_no_difference(wide):
    import jax

    with jax.enable_x64(wide):
        for dtype in (np.float32, np.float64):
            assert sg.compile(lambda x: x * 2 + 0.5)(values(3, dtype=dtype)).detach().numpy().dtype == dtype
    assert sg.compile(lambda x: x.argmax())(values(3)).dtype == sg.int64


def test_threads():
    fast = sg.compile(layer)
    wanted = layer(*ARGS).item()
    found = []

    def work(seed):
        for _ in range(5):
            found.append(fast(*ARGS).item())
            fast(values(2, 3, dtype=np.float32), values(3, 4, dtype=np.float32), values(4, dtype=np.float32))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == pytest.approx([wanted] * 20, rel=1e-12)


@pytest.mark.parametrize("types", [("float32", "float64"), ("int32", "int64"), ("float64", "float32"), ("complex64", "complex128")])
@pytest.mark.parametrize("wrapped", [sg.from_numpy, lambda a: a])
def test_arrays_of_another_width_are_another_program(types, wrapped):
    fast = sg.compile(lambda x: x * 2)
    for dtype in (types[0], types[0], types[1], types[1], types[0]):
        result = fast(wrapped(np.full(3, 2**24 + 1, dtype)))
        assert str(np.asarray(result).dtype) == dtype
        assert np.asarray(result)[0] == np.full(3, 2**24 + 1, dtype)[0] * 2


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_complex_numbers_of_parts_that_are_broadcast_or_of_half_precision(backend):
    join, polar = sg.compile(sg.complex, backend=backend), sg.compile(sg.polar, backend=backend)
    x, y = sg.tensor([[1.0], [2.0]]), sg.tensor([3.0, float("inf")])
    np.testing.assert_array_equal(join(x, y), sg.complex(x, y))
    half = sg.tensor([1.0, 0.5], dtype=sg.float16)
    np.testing.assert_allclose(polar(half, half), sg.polar(half, half), rtol=1e-3)
