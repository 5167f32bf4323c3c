"""as_jax(): a compiled function on jax arrays, under JAX's own transformations, with our rules."""

from __future__ import annotations

import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError


def net(p, x):
    h = (x @ p["w"]).tanh()
    return (h * h.sin() + p["b"]).square().sum()


def jax_net(p, x):
    h = jnp.tanh(x @ p["w"])
    return jnp.square(h * jnp.sin(h) + p["b"]).sum()


FAST = {mode: sg.compile(net).as_jax(mode) for mode in ("vjp", "jvp")}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    w, b, x = (rng.standard_normal(shape).astype("float32") for shape in ((3, 2), 2, (4, 3)))
    return {"w": jnp.array(w), "b": jnp.array(b)}, jnp.array(x)


def check(transform, ours, data, theirs=jax_net):
    a, b = (jax.jit(transform(f))(*data) for f in (ours, theirs))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def twice(f):
    return jax.grad(lambda p, x: sum((g**2).sum() for g in jax.tree.leaves(jax.grad(f)(p, x))))


TRANSFORMS = {
    "value": lambda f: f,
    "value_and_grad": lambda f: jax.value_and_grad(f, argnums=(0, 1)),
    "vmap": lambda f: jax.vmap(jax.grad(lambda p, x: f(p, x[None])), (None, 0)),
    "hessian": jax.hessian,
    "reverse over reverse": twice,
}
FORWARD = {
    "jacfwd": jax.jacfwd,
    "jvp": lambda f: lambda p, x: jax.jvp(f, (p, x), (p, x)),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
}


QUICK = {("vjp", "value_and_grad"), ("vjp", "vmap"), ("vjp", "hessian"), ("jvp", "value_and_grad"), ("jvp", "jvp")}
CASES = [("vjp", name) for name in TRANSFORMS] + [("jvp", name) for name in TRANSFORMS | FORWARD]


@pytest.mark.parametrize(("mode", "name"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES])
def test_transformations(mode, name, data):
    check((TRANSFORMS | FORWARD)[name], FAST[mode], data)


@pytest.mark.slow
@pytest.mark.parametrize("mode", FAST)
def test_third_order_and_transformations_inside_jit_inside_vmap(mode, data):
    check(lambda f: jax.jacfwd(jax.hessian(f)), FAST[mode], data)
    check(lambda f: jax.vmap(jax.jit(jax.hessian(lambda p, x: f(p, x[None]))), (None, 0)), FAST[mode], data)
    check(lambda f: jax.checkpoint(f), FAST[mode], data)
    check(lambda f: lambda p, x: jax.lax.scan(lambda c, x: (c + jax.grad(f)(p, x[None])["b"], None), p["b"], x)[0], FAST[mode], data)


def test_forward_mode_of_a_vjp_is_refused_by_jax(data):
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(FAST["vjp"], data, data)


def test_the_gradient_is_our_closed_form():
    """At 0 the slope of abs is 0, as in PyTorch; JAX says 1. Forms that overflow are the stable ones."""
    for mode in ("vjp", "jvp"):
        assert jax.grad(sg.compile(lambda x: x.abs()).as_jax(mode))(0.0) == 0
        f = sg.compile(lambda x: (1 + x.exp()).log()).as_jax(mode)
        assert (f(200.0), jax.grad(f)(200.0)) == (200, 1)


class Pair(typing.NamedTuple):
    total: typing.Any
    parts: typing.Any


def several(scale, items, *, power, name="sum"):
    assert name in ("sum", "mean")
    total = sum((x**power).sum() for x in items) * scale
    return Pair(total, {"largest": items[0].argmax(), "first": items[0] * scale, "name": name})


def test_pytrees_settings_and_whole_numbers():
    f = sg.compile(several).as_jax()
    items = [jnp.array([1.0, 3.0]), jnp.array([2.0])]
    got = f(2.0, items, power=2)
    assert isinstance(got, Pair)
    assert (got.total, got.parts["largest"], got.parts["name"]) == (28, 1, "sum")
    assert f(2.0, items, power=3).total == 72

    def total(scale, items):
        result = f(scale, items, power=2)
        return result.total, result.parts["largest"]

    (scale, grads), aux = jax.grad(total, (0, 1), has_aux=True)(2.0, items)
    assert (scale, [g.tolist() for g in grads], aux) == (14, [[4, 12], [8]], 1)
    with pytest.raises(AssertionError):
        f(2.0, items, power=2, name="product")


def test_whole_number_arguments_have_no_gradient():
    rows = sg.compile(lambda x, i: x[i].square().sum())
    x, i = jnp.arange(6.0).reshape(3, 2), jnp.array([2, 2, 0])
    for mode in ("vjp", "jvp"):
        assert jax.jit(jax.grad(rows.as_jax(mode)))(x, i).tolist() == [[0, 2], [0, 0], [16, 20]]
        assert jax.jit(jax.hessian(rows.as_jax(mode)))(x, i).sum() == 12


def test_only_whole_numbers_come_out():
    f = sg.compile(lambda x: x.argmax()).as_jax()
    assert f(jnp.array([1.0, 5.0])) == 1
    assert jax.grad(lambda x: x[f(x)])(jnp.array([1.0, 5.0])).tolist() == [0, 1]
    with pytest.raises(TraceError, match="must return a tensor"):
        sg.compile(lambda x: "nothing").as_jax()(jnp.ones(1))


def test_modules_of_jax_libraries_are_arguments():
    @jax.tree_util.register_pytree_node_class
    class Linear:
        def __init__(self, w):
            self.w = w

        def tree_flatten(self):
            return (self.w,), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

    f = sg.compile(lambda layer, x: (x @ layer.w).sum()).as_jax()
    grads = jax.jit(jax.grad(f))(Linear(jnp.ones((2, 1))), jnp.array([3.0, 4.0]))
    assert grads.w.tolist() == [[3], [4]]


def test_tensors_that_the_function_brings_along_are_read_at_each_call():
    w = sg.tensor([1.0, 2.0])
    f = sg.compile(lambda x: (x * w).sum()).as_jax()
    assert f(jnp.ones(2)) == 3
    w *= 2
    assert f(jnp.ones(2)) == 6
    assert jax.grad(f)(jnp.ones(2)).tolist() == [2, 4]


def test_parameters_of_a_module_are_arguments_of_functional_call():
    layer = sg.nn.Linear(3, 1)
    f = sg.compile(lambda params, x: sg.func.functional_call(layer, params, (x,)).sum()).as_jax()
    params = {name: jnp.array(p.detach().numpy()) for name, p in layer.named_parameters()}
    grads = jax.jit(jax.grad(f))(params, jnp.ones((5, 3)))
    assert {k: g.tolist() for k, g in grads.items()} == {"bias": [5], "weight": [[5, 5, 5]]}


def test_the_mode_of_a_module_is_looked_at():
    net = sg.nn.Sequential(sg.nn.Dropout(0.5)).eval()
    f = sg.compile(net).as_jax()
    assert f(jnp.ones(2)).tolist() == [1, 1]
    net.train()
    with pytest.raises(TraceError, match="random numbers"):
        f(jnp.ones(2))


def test_64_bits_are_the_users_choice():
    """Where JAX is set to 32 bits, so is the function; nothing is said of whole numbers."""
    pick = sg.compile(lambda x: x.sort()[1].double() * x).as_jax()
    x = np.array([3.0, 1.0, 2.0])
    assert pick(x).dtype == "float32"
    with jax.enable_x64(True):
        assert pick(x).dtype == "float64"
        assert jax.grad(lambda x: pick(x).sum())(x).dtype == "float64"
        single = FAST["vjp"]({"w": np.ones((3, 2), "float32"), "b": np.ones(2, "float32")}, np.ones((4, 3), "float32"))
        assert single.dtype == "float32"
    w = sg.ones(3, dtype=sg.float64)
    weighted = sg.compile(lambda x: (x * w).sum()).as_jax()
    with pytest.warns(UserWarning, match=r"test_as_jax.py:\d+: .*computes with w in 64 bits.*is rounded"):
        assert jax.grad(weighted)(x).dtype == "float32"
    with jax.enable_x64(True):
        assert weighted(x).dtype == "float64"
    assert not jax.config.jax_enable_x64


def test_types_and_bits_make_programs_of_their_own():
    f = sg.compile(lambda x: (x / 2, x.argmax())).as_jax()
    whole, float32 = jnp.array([1, 3]), jnp.array([1.0, 3.0])
    assert [f(x)[0].dtype for x in (whole, float32)] == ["float32", "float32"]
    assert f(jnp.array([1, 3], "int16"))[0].tolist() == [0.5, 1.5]
    assert f(float32)[1].dtype == "int32"
    with jax.enable_x64(True):
        assert f(float32)[1].dtype == "int64"
    assert f(float32)[1].dtype == "int32"
    same = sg.compile(lambda x: x * 1).as_jax()
    assert [same(x).dtype for x in (whole, float32)] == ["int32", "float32"]


def test_numpy_and_tensors_are_copied():
    memory = np.empty(2**16 + 64, "uint8")
    aligned = memory[-memory.ctypes.data % 64 :][: 2**16].view("float32")  # as JAX likes it, to share it
    assert not np.shares_memory(np.asarray(sg.compile(net).as_jax()._leaf("x", aligned)), memory)
    x, t = np.ones(3, "float32"), sg.ones(3)
    f = sg.compile(lambda x, y: x + y).as_jax()
    for _ in range(20):
        y = f(x, t)
        x += 1
        t += 1
        assert y.tolist() == [2 * x[0] - 2] * 3


def test_refusals():
    with pytest.raises(ValueError, match=r"mode='both'.*\"vjp\""):
        sg.compile(net).as_jax("both")
    with pytest.raises(TypeError, match=r"test_as_jax.py:\d+: x has the type key<fry>"):
        sg.compile(lambda x: x).as_jax()(jax.random.key(0))
    with pytest.raises(TraceError, match=r"test_as_jax.py:\d+: bool\(tensor\).*use where"):
        jax.jit(sg.compile(lambda x: x if x > 0 else -x).as_jax())(1.0)
    state = sg.zeros(1)
    with pytest.raises(TraceError, match="from outside is written to"):
        sg.compile(lambda x: state.add_(x)).as_jax()(jnp.ones(1))
    assert state.item() == 0


def test_static_and_dynamic_arguments():
    seen = []

    def power(x, n, k):
        seen.append(n)
        return x**n * k

    f = sg.compile(power, static="n", dynamic="k").as_jax()
    assert [f(jnp.array(2.0), 3.0, k) for k in (1, 2, 3)] == [8, 16, 24]
    assert seen == [3.0]


def test_static_floats_are_compared_by_their_bits():
    f = sg.compile(lambda x, s: sg.copysign(x, s), static="s").as_jax()
    assert [f(jnp.array(1.0), s).item() for s in (0.0, -0.0, 0.0)] == [1, -1, 1]


COMPLEX = {
    "complex to complex": (lambda z: z * z * (1 + 2j), lambda f: lambda x: jnp.real(f(jnp.exp(1j * x))).sum()),
    "complex to real": (lambda z: (z * z.conj()).real, lambda f: lambda x: f(x * (1 + 2j)).sum()),
    "real to complex": (lambda x: (x * 1j), lambda f: lambda x: jnp.imag(f(x) * f(x) * (2 + 1j)).sum()),
}


@pytest.mark.parametrize("mode", ["vjp", "jvp"])
@pytest.mark.parametrize("name", COMPLEX)
def test_cotangents_of_complex_numbers_are_as_jax_has_them(mode, name):
    """JAX's cotangent is the conjugate of PyTorch's, which is ours: between functions of JAX's it must be JAX's."""
    function, around = COMPLEX[name]
    ours, x = sg.compile(function).as_jax(mode), jnp.array([0.3, 0.7])
    for transform in (jax.grad, jax.hessian):
        np.testing.assert_allclose(transform(around(ours))(x), transform(around(function))(x), rtol=1e-5, atol=1e-5)
    z, f = jnp.array([1 + 2j, 3 - 1j]), lambda f: lambda z: jnp.abs(f(jnp.real(z) if name == "real to complex" else z)).sum()
    np.testing.assert_allclose(jax.grad(f(ours))(z), jax.grad(f(function))(z), rtol=1e-5)


@pytest.mark.parametrize("mode", FAST)
def test_derivatives_of_every_order_lead_out_of_what_is_assumed(mode):
    """JAX differentiates our tangents again: what follows from assumptions holds for values only."""
    ours = sg.compile(lambda A, x: (sg.assume(A, "symmetric").T @ x).tanh().sum() + sg.assume(A, "orthogonal").inverse().sum()).as_jax(mode)
    theirs = lambda A, x: jnp.tanh(A.T @ x).sum() + jnp.linalg.inv(A).sum()
    A, x = jnp.array([[0.6, 0.8], [0.8, -0.6]]), jnp.array([0.3, -0.7])  # a reflection
    for transform in (jax.grad, lambda f: jax.jacrev(jax.grad(f)), *([jax.hessian] if mode == "jvp" else [])):
        check(transform, ours, (A, x), theirs)
