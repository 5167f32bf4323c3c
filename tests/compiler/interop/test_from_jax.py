"""from_jax(): functions written in JAX as operations on tensors, eager, compiled, derived."""

from __future__ import annotations

import functools
import gc
import typing
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError


def T(*values, dtype=sg.float64):
    return sg.tensor(values, dtype=dtype, requires_grad=True)


@sg.from_jax
def bend(x, w):
    return jnp.sin(x @ w) * jnp.exp(-x[:, :1])


def same_bend(x, w):
    return (x @ w).sin() * (-x[:, :1]).exp()


@functools.cache
def data():
    rng = np.random.default_rng(1)
    return tuple(sg.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((4, 3), (3, 2)))


def gradients(f, *args, **options):
    return sg.autograd.grad(f(*args).square().sum(), args, **options)


def close(a, b):
    for x, y in zip(a, b, strict=True):
        assert x.dtype is y.dtype
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_value_and_gradients_to_second_order():
    x, w = data()
    y = bend(x, w)
    assert y.grad_fn.name() == "bendBackward"
    close([y], [same_bend(x, w)])
    close(gradients(bend, x, w), gradients(same_bend, x, w))
    second = [[g.square().sum() for g in gradients(f, x, w, create_graph=True)] for f in (bend, same_bend)]
    close(*(sg.autograd.grad(sum(gs), (x, w)) for gs in second))


def test_compiled_it_is_part_of_one_program():
    x, w = data()
    fast, slow = (sg.compile(lambda x, w, f=f: f(x.tanh(), w * 2).square().sum()) for f in (bend, same_bend))
    close([fast(x, w)], [slow(x, w)])
    close(fast.grad(x, w), slow.grad(x, w))
    assert "bend_" in fast.source()
    assert "bend_vjp_" in fast.source("grad")
    result = fast(x, w)
    result.backward()
    close([x.grad, w.grad], slow.grad(x, w))
    x.grad = w.grad = None


@pytest.mark.slow
def test_hessian_in_a_kernel():
    x, _ = data()
    fast, slow = (sg.compile(sg.func.hessian(lambda w, f=f: f(x.detach(), w).square().sum())) for f in (bend, same_bend))
    w = sg.tensor([[1.0, 2.0], [0.5, -1.0], [0.3, 0.1]], dtype=sg.float64)
    close([fast(w)], [slow(w)])


@pytest.mark.slow
def test_forward_mode_and_vmap_of_functions_that_use_it():
    x, w = (t.detach() for t in data())
    ours, theirs = (sg.func.jvp(lambda w, f=f: f(x, w), (w,), (w * 2,)) for f in (bend, same_bend))
    close(ours, theirs)
    close([sg.func.vmap(lambda x: bend(x[None], w))(x)], [same_bend(x, w)[:, None]])


class Pair(typing.NamedTuple):
    first: typing.Any
    second: typing.Any


@functools.partial(sg.from_jax, static="scale")
def parts(tree, n, scale=1.0, *, name="none"):
    """Two results."""
    assert isinstance(n, int)
    assert type(scale) is float
    a, (b, i) = tree["a"], tree["rest"]
    return {"pair": Pair(a**n * scale, b[i]), "largest": jnp.argmax(a), "nothing": None}


def test_pytrees_settings_and_whole_numbers():
    a, b, i = T(1.0, 3.0), T(5.0, 6.0, 7.0), sg.tensor([2, 2, 0])
    got = parts({"a": a, "rest": (b, i)}, 3, scale=2.0)
    assert isinstance(got["pair"], Pair)
    assert (got["pair"].first.tolist(), got["pair"].second.tolist(), got["largest"].item()) == ([2, 54], [7, 7, 5], 1)
    assert got["nothing"] is None
    assert not got["largest"].requires_grad
    got["pair"].second.sum().backward()  # the other results were not used
    assert (b.grad.tolist(), a.grad.tolist()) == ([1, 0, 2], [0, 0])
    assert parts.__name__ == "parts"
    assert parts.__doc__ == "Two results."


def test_only_what_wants_a_gradient_gets_one():
    x, w = data()
    y = bend(x, w.detach())
    (g,) = sg.autograd.grad(y.sum(), x)
    close([g], sg.autograd.grad(same_bend(x, w).sum(), x))
    assert not bend(x.detach(), w.detach()).requires_grad
    with sg.no_grad():
        assert not bend(x, w).requires_grad


def test_numbers_are_weak_and_arrays_are_data():
    seen = []

    @sg.from_jax
    def scaled(x, factor):
        seen.append(factor)
        return x * factor

    assert scaled(sg.ones(2), 0.1).dtype is sg.float32
    assert scaled(sg.ones(2), 0.2).tolist() == pytest.approx([0.2, 0.2])
    assert len(seen) == 1
    assert scaled(sg.ones(2, dtype=sg.float64), 0.1).tolist() == [0.1, 0.1]
    assert scaled(np.ones(2), jnp.ones(2)).dtype is sg.float64
    assert scaled(sg.ones(2, dtype=sg.bfloat16), 2.0).dtype is sg.bfloat16


SLOW = [pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("bfloat16", "float32")]


@pytest.mark.parametrize("dtype", ["float16", "complex128", *SLOW])
def test_other_types_have_gradients_too(dtype):
    f = sg.from_jax(lambda x: x * x * x)
    x = T(1.5, -2.0, dtype=getattr(sg, dtype))
    x = (x * (1 + 2j)).detach().requires_grad_() if dtype == "complex128" else x
    own = x.detach().clone().requires_grad_()
    for op, t in ((f, x), (lambda t: t * t * t, own)):
        op(t).abs().sum().backward()
    assert x.grad.dtype is x.dtype
    compiled = sg.compile(lambda x: f(x).abs().sum()).grad(x)[0]
    first, second, third = (g.to(sg.complex128).numpy() for g in (x.grad, own.grad, compiled))
    np.testing.assert_allclose(first, second, rtol=1e-2 if "16" in dtype else 1e-6)
    np.testing.assert_allclose(third, second, rtol=1e-2 if "16" in dtype else 1e-6)


def test_64_bits_come_with_the_arguments():
    """And the user's setting is left as it is. A kernel that has 64 bits elsewhere makes no difference to it."""
    ones = sg.from_jax(lambda x: x + jnp.ones(3))
    assert ones(sg.ones(3)).dtype is sg.float32
    assert ones(sg.ones(3, dtype=sg.float64)).dtype is sg.float64
    assert sg.compile(lambda x: ones(x) * x.argmax().double().expand(3))(sg.tensor([1.0, 2.0, 1.0])).dtype is sg.float64
    assert sg.compile(lambda x: (x.double(), ones(x)))(sg.ones(3))[1].dtype is sg.float32
    assert sg.from_jax(lambda i: i + 1)(sg.tensor(2**40)).item() == 2**40 + 1
    with jax.enable_x64(True):
        inside = sg.from_jax(lambda x: jnp.float32(jnp.sum(jnp.float64(x) + 1e-12 - x)))
        assert inside(sg.ones(1)).item() == pytest.approx(1e-12, rel=1e-3)
        assert sg.compile(lambda x: inside(x) * 2)(sg.ones(1)).item() == pytest.approx(2e-12, rel=1e-3)
    assert not jax.config.jax_enable_x64


def test_back_to_jax_it_is_what_it_was():
    f = sg.compile(lambda x: (bend(x, x.T) * x.argmax()).sum()).as_jax()
    x = np.arange(6.0, dtype="float32").reshape(2, 3) / 10
    expected = jax.jit(jax.value_and_grad(lambda x: (jnp.sin(x @ x.T) * jnp.exp(-x[:, :1])).sum() * 5))(x)
    for a, b in zip(jax.jit(jax.value_and_grad(f))(x), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_two_functions_of_one_name_are_two_operations():
    def make(n):
        def power(x):
            return x**n

        return sg.from_jax(power)

    square, cube = make(2), make(3)
    f = sg.compile(lambda x: square(x) + 10 * cube(x))
    assert f(T(2.0)).tolist() == [84]
    hashes = {sg.derive(lambda x, op=op: op(x))(T(2.0)).graph.hash for op in (square, cube)}
    assert len(hashes) == 2
    assert sg.derive(lambda x: make(2)(x))(T(2.0)).graph.hash in hashes


def test_what_it_closes_over_is_a_constant():
    w = jnp.array([1.0, 2.0])
    assert sg.compile(lambda x: sg.from_jax(lambda x: x * w)(x).sum()).grad(sg.ones(2), wrt=0).tolist() == [1, 2]


def test_functions_that_differ_in_what_they_close_over_only():
    def make(w):
        return sg.from_jax(lambda x: x * w)

    one, two = make(jnp.array([1.0, 2.0])), make(jnp.array([10.0, 20.0]))
    f = sg.compile(lambda x: one(x) + two(x))
    assert f(sg.ones(2)).tolist() == [11, 22]
    assert len({sg.derive(lambda x, op=op: op(x).sum())(sg.spec(2)).graph.hash for op in (one, two)}) == 2


def test_formula():
    d = sg.derive(lambda x: bend(x, x.T).sum(), notation="index")(sg.spec((2, 2)))
    assert str(d).splitlines()[0] == "f(x) = Σ_{i, j} jax.bend(x, t1)[i, j]"
    assert "jax.bend_vjp.0(x, t1, t2)" in str(d)
    x = data()[1][:2].detach()
    value, (gradient,) = sg.derive(lambda x: bend(x, x.T).sum())(x)(x)
    close([value], [same_bend(x, x.T).sum()])
    x.requires_grad_()
    close([gradient], sg.autograd.grad(same_bend(x, x.T).sum(), x))


def test_whole_jacobians_and_hessians_are_one_kernel():
    x, w = (t.detach() for t in data())
    fast, slow = (sg.compile(lambda x, w, f=f: f(x, w).square().sum()) for f in (bend, same_bend))
    close([fast.hessian(x, w, wrt="w")], [slow.hessian(x, w, wrt="w")])
    close([sg.compile(bend).jacobian(x, w, wrt="x")], [sg.compile(same_bend).jacobian(x, w, wrt="x")])


def test_inside_of_loops_training_steps_and_the_numpy_back_end():
    double = sg.from_jax(lambda x: jnp.sin(x) * 2)
    x = T(0.1, 0.2, 0.3)

    def looped(x):
        return sg.scan(lambda c, x: (double(c) + x, c), sg.zeros((), dtype=sg.float64), x)[0]

    close([sg.compile(looped)(x)], [looped(x)])
    close([sg.compile(looped).grad(x, wrt="x")], sg.autograd.grad(looped(x), x))
    fast = sg.compile(lambda x: double(x).sum(), backend="numpy")
    close([fast.grad(x, wrt="x")], [2 * x.cos()])

    def trained(compiled):
        p = T(1.0, -1.0)
        optimizer = sg.optim.SGD([p], lr=0.1)

        def step():
            optimizer.zero_grad()
            loss = double(p).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        step = sg.compile(step) if compiled else step
        return [step() for _ in range(4)][-1], p

    close(*(trained(compiled) for compiled in (False, True)))


def test_a_file_of_it_needs_no_function(tmp_path):
    fast = sg.compile(lambda x: sg.from_jax(lambda x: jnp.sinh(x))(x).sum())
    x = T(0.5, 1.0)
    fast.export(tmp_path / "f.sgx", x)
    close([sg.load_compiled(tmp_path / "f.sgx")(x)], [x.sinh().sum()])


def test_no_tensor_of_a_call_is_kept():
    f = sg.from_jax(lambda x: x * 2)
    x = sg.ones(3)
    f(x)
    watched = weakref.ref(x)
    del x
    gc.collect()
    assert watched() is None


def test_steps_and_certificate():
    d = sg.derive(lambda x: sg.from_jax(jnp.sinh)(x).sum())(sg.spec(3, dtype=sg.float64))
    assert "x̄ = jax.sinh_vjp(x, v̄1)[i]   derivative of jax.sinh" in str(d.steps())
    assert d.certify().ok
    assert sg.derive(lambda x: sg.from_jax(jnp.sinh)(x).sum())(sg.spec(3)).certify().ok


def loop(x):
    return jax.lax.while_loop(lambda x: (x < 10).all(), lambda x: x * 2, x)


def called_back(x):
    return jax.pure_callback(np.sin, x, x)


CASES = [
    (lambda x: x if x.sum() > 0 else -x, r"function cannot be traced by JAX: Attempted boolean conversion.*; use jnp.where"),
    (lambda x: x * float(x[0]), r"function cannot be traced by JAX: Abstract tracer value.*compute with jax.numpy"),
    (lambda x: np.sin(x), r"cannot be traced.*use jax.numpy in place of NumPy"),
    (lambda x: x[x > 0], r"cannot be traced.*use jnp.where\(mask"),
    (called_back, r"called_back calls Python back from inside \(pure_callback\)"),
]


@pytest.mark.parametrize(("function", "words"), CASES)
def test_what_cannot_be_traced_names_the_line(function, words):
    line = function.__code__.co_firstlineno + (function is called_back)
    for run in (sg.from_jax(function), sg.compile(sg.from_jax(function))):
        with pytest.raises(TraceError, match=rf"test_from_jax.py:{line}: .*{words}"):
            run(T(1.0, 2.0))


def test_what_cannot_be_differentiated():
    f = sg.from_jax(loop)
    x = T(1.0, 3.0)
    assert f(x).tolist() == [4, 12]
    assert sg.compile(f)(x).tolist() == [4, 12]
    with pytest.raises(TraceError, match=r"test_from_jax.py:\d+: loop cannot be differentiated by JAX: Reverse-mode differentiation"):
        f(x).sum().backward()


def test_refusals():
    with pytest.raises(TypeError, match="takes a function on jax arrays, got"):
        sg.from_jax(3)
    with pytest.raises(ValueError, match=r"static=\['k'\]: the arguments are x, w"):
        sg.from_jax(lambda x, w: x, static="k")
    with pytest.raises(TypeError, match=r"test_from_jax.py:\d+: function is given no tensor"):
        sg.from_jax(lambda n: jnp.ones(n))(3)
    with pytest.raises(TraceError, match="gives uint32, which tensors do not have"):
        sg.from_jax(lambda x: x.astype("uint32"))(sg.ones(1))
    with pytest.raises(TypeError, match=r"key has the type key<fry>.*make it inside"):
        sg.from_jax(lambda key, x: x)(jax.random.key(0), sg.ones(1))
    with pytest.raises(TraceError, match="must return arrays, and returns none"):
        sg.from_jax(lambda x: None)(sg.ones(1))
    with pytest.raises(TraceError, match=r"test_from_jax.py:\d+: function must return arrays, and returns str"):
        sg.from_jax(lambda x: {"x": x, "name": "a"})(sg.ones(1))
    with pytest.raises(TraceError, match=r"function gives key<fry>, which tensors do not have"):
        sg.from_jax(lambda x: jax.random.key(0))(sg.ones(1))
    with pytest.raises(TypeError, match="dot_general requires") as caught:
        sg.from_jax(lambda x: x @ jnp.ones(5))(sg.ones(3))
    assert "inside of function, which JAX traces for tensors given at" in "".join(caught.value.__notes__)


def test_functions_that_differ_in_a_key_they_hold_are_two():
    def noise(key):
        return sg.from_jax(lambda x: x + jax.random.normal(key, x.shape))

    keys = [jax.random.key(i) for i in (0, 1, 0)]
    found = sg.compile(lambda x: [noise(key)(x) for key in keys])(sg.zeros(3))
    for y, key in zip(found, keys, strict=True):
        np.testing.assert_allclose(y.numpy(), jax.random.normal(key, 3), rtol=1e-6)
    assert found[0].tolist() == found[2].tolist() != found[1].tolist()


def test_results_may_be_written_to_and_inputs_right_after_the_call():
    double = sg.from_jax(lambda x: x * 2)
    x = sg.ones(1000)
    for i in range(20):
        y = double(x)
        x += 1
        y += 1
        assert (y.numpy() == 2 * (i + 1) + 1).all()


def test_jitted_functions_that_differ_in_a_constant_are_two():
    def scaled(factors):
        constant = jnp.asarray(factors)
        return sg.from_jax(jax.jit(lambda x: x * constant))

    twice, thrice = scaled([2.0, 2.0]), scaled([3.0, 3.0])
    fast = sg.compile(lambda x: (twice(x) + 10 * thrice(x)).sum())
    value, gradient = fast.value_and_grad(sg.tensor([1.0, 5.0]), wrt="x")
    assert value.item() == 2 + 30 + 10 + 150
    assert gradient.tolist() == [32, 32]


def test_static_floats_are_compared_by_their_bits():
    signed = sg.from_jax(lambda x, s: jnp.copysign(x, s), static="s")
    assert [signed(sg.ones(1), s).item() for s in (0.0, -0.0, 0.0, np.float32(-0.0))] == [1, -1, 1, -1]


def test_state_that_the_function_closes_over_is_followed():
    rate, table, numbers = 1.0, {"k": 1}, np.ones(2)
    f = sg.from_jax(lambda x: x * rate * table["k"] + numbers)
    fast, x = sg.compile(lambda x: f(x), backend="numpy"), T(1.0, 2.0)
    assert f(x).tolist() == fast(x).tolist() == [2, 3]
    rate = 2.0
    assert f(x).tolist() == fast(x).tolist() == [3, 5]
    table["k"] = 3
    assert f(x).tolist() == fast(x).tolist() == [7, 13]
    numbers[0] = 10
    assert f(x).tolist() == fast(x).tolist() == [16, 13]
    assert sg.autograd.grad(f(x).sum(), x)[0].tolist() == [6, 6]
    rate = 1.0
    assert sg.autograd.grad(f(x).sum(), x)[0].tolist() == [3, 3]
