"""func and autograd.functional: derivatives of functions as functions, nested, and batches."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import functional
from symgrad.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, value_and_grad, vjp, vmap
from symgrad.tensor import wrap


@pytest.fixture
def x():
    return wrap(np.array([0.3, -0.7, 1.1]))


@pytest.fixture
def m():
    return wrap(np.arange(6.0).reshape(2, 3) / 4)


def same(t, values):
    assert not t.requires_grad
    np.testing.assert_allclose(t._array, values, rtol=1e-10, atol=1e-12)


def test_grad_of_grad_of_grad(x):
    f = lambda t: t.sin()
    z = wrap(np.array(0.4))
    same(grad(f)(z), np.cos(0.4))
    same(grad(grad(f))(z), -np.sin(0.4))
    same(grad(grad(grad(f)))(z), -np.cos(0.4))
    same(grad(lambda t: grad(lambda s: (s * t * t).sum())(t).sum())(x), 2 * x._array)  # the inner level sees t as a constant


def test_inner_and_outer_variables_are_not_confused():
    z = wrap(np.array(2.0))
    same(grad(lambda a: a * grad(lambda b: a * b)(z))(z), 4.0)  # d(a·a)/da


def test_argnums_trees_and_auxiliary_results(x):
    f = lambda p, q: (p["a"] * q[0] * q[1]).sum()
    gradients = grad(f, argnums=(0, 1))({"a": x}, [x, x])
    same(gradients[0]["a"], x._array**2)
    same(gradients[1][0], x._array**2)
    same(grad(lambda a, b: (a * b).sum(), argnums=-1)(x, x * 2), x._array)
    gradient, (value, aux) = grad_and_value(lambda a: ((a * a).sum(), {"seen": a * 2, "word": "aux"}), has_aux=True)(x)
    same(gradient, 2 * x._array)
    same(value, (x._array**2).sum())
    same(aux["seen"], 2 * x._array)
    assert aux["word"] == "aux"
    value, gradient = value_and_grad(lambda a, power=1: (a**power).sum())(x, power=3)
    same(value, (x._array**3).sum())
    same(gradient, 3 * x._array**2)
    assert grad(lambda a: ((a * a).sum(), 5), has_aux=True)(x)[1] == 5


def test_constant_functions_have_zero_derivatives(x):
    same(grad(lambda a: sg.tensor(1.0))(x), np.zeros(3))
    same(jacrev(lambda a: wrap(np.ones(2)))(x), np.zeros((2, 3)))
    same(jacfwd(lambda a: wrap(np.ones(2)))(x), np.zeros((2, 3)))
    same(jvp(lambda a: wrap(np.ones(2)), (x,), (x,))[1], np.zeros(2))
    same(vjp(lambda a: wrap(np.ones(2)), x)[1](wrap(np.ones(2)))[0], np.zeros(3))


def test_results_stay_connected_to_what_the_user_differentiates(x):
    w = wrap(np.array(3.0), True)
    (grad(lambda a: (w * a * a).sum())(x)).sum().backward()
    np.testing.assert_allclose(w.grad._array, 2 * x._array.sum())
    leaf = wrap(x._array.copy(), True)
    grad(lambda a: (a**3).sum())(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad._array, 6 * x._array)
    leaf.grad = None
    jvp(lambda a: a**3, (leaf,), (x,))[1].sum().backward()
    np.testing.assert_allclose(leaf.grad._array, 6 * x._array**2)


def test_grad_modes_inside_and_outside(x):
    leaf = wrap(x._array.copy(), True)
    with sg.no_grad():
        same(grad(lambda a: (a * a).sum())(leaf), 2 * x._array)

    def half_constant(a):
        with sg.no_grad():
            constant = a * 1
        return (a * constant).sum()

    same(grad(half_constant)(x), x._array)


def test_vjp_and_jvp_agree_with_the_jacobian(x):
    f = lambda a, b: (a * b.sin(), (a @ b))
    jacobians = jacrev(f, argnums=(0, 1))(x, x * 2)
    u, s = wrap(np.array([1.0, -2.0, 0.5])), wrap(np.array(3.0))
    value, pull = vjp(f, x, x * 2)
    same(value[1], 2 * (x._array**2).sum())
    for i, found in enumerate(pull(u, s)):
        same(found, u._array @ jacobians[0][i]._array + 3 * jacobians[1][i]._array)
    _, slope = jvp(f, (x, x * 2), (u, u * 0))
    same(slope[0], jacobians[0][0]._array @ u._array)
    same(slope[1], jacobians[1][0]._array @ u._array)
    for a, b in zip(jacfwd(f, argnums=(0, 1))(x, x * 2), jacobians, strict=True):
        for i in range(2):
            same(a[i], b[i]._array)


def test_second_derivatives_by_every_way(x):
    f = lambda a: (a[0] * a[1].exp() * a[2] ** 3).sum()
    expected = functional.hessian(f, x)
    for way in (hessian(f), jacfwd(jacrev(f)), jacrev(jacfwd(f)), jacfwd(jacfwd(f)), jacrev(grad(f)), jacfwd(grad(f))):
        same(way(x), expected._array)
    v = wrap(np.array([1.0, 2.0, -1.0]))
    same(jvp(grad(f), (x,), (v,))[1], expected._array @ v._array)
    blocks = hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, x * 3)
    same(blocks[0][0], np.diag(6 * x._array))
    same(blocks[0][1], np.diag(2 * x._array))
    same(blocks[1][1], np.zeros((3, 3)))


def test_jacobian_of_matrix_functions_has_both_shapes(m):
    f = lambda a: a.t() @ a
    found = jacrev(f)(m)
    assert found.shape == (3, 3, 2, 3)
    same(jacfwd(f)(m), found._array)
    same(functional.jacobian(f, m), found._array)


def test_vmap_over_dimensions_and_structures(m):
    same(vmap(lambda r: r.sum())(m), m._array.sum(1))
    same(vmap(lambda r: r.sum(), in_dims=1)(m), m._array.sum(0))
    same(vmap(lambda r: r.sum(), in_dims=-1)(m), m._array.sum(0))
    same(vmap(lambda r: r * 2, out_dims=1)(m), 2 * m._array.T)
    same(vmap(lambda r: r * 2, out_dims=-1)(m), 2 * m._array.T)
    same(vmap(lambda r, s: r * s, in_dims=(0, None))(m, m[0]), m._array * m._array[0])
    same(vmap(lambda d, k=None: d["a"] * k, in_dims=({"a": 0},))({"a": m}, k=m), m._array**2)
    both = vmap(lambda r: {"twice": r * 2, "sum": (r.sum(), 3)}, out_dims={"twice": 1, "sum": (0, None)})(m)
    same(both["twice"], 2 * m._array.T)
    assert both["sum"][1] == 3
    same(vmap(vmap(lambda e: e * e))(m), m._array**2)
    same(vmap(lambda c: wrap(np.ones(2)))(m), np.ones((2, 2)))


def test_vmap_and_derivatives_nest(m):
    f = lambda r: (r**3).sum()
    same(vmap(grad(f))(m), 3 * m._array**2)
    same(grad(lambda a: vmap(f)(a).sum())(m), 3 * m._array**2)
    same(vmap(hessian(f))(m), np.stack([np.diag(6 * r) for r in m._array]))
    w = wrap(np.array(2.0), True)
    vmap(lambda r: (r * w).sum())(m).sum().backward()
    np.testing.assert_allclose(w.grad._array, m._array.sum())


def test_random_numbers_in_vmap(m):
    draw = lambda r: r * 0 + sg.rand(3, dtype=sg.float64)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(draw)(m)
    equal = vmap(draw, randomness="same")(m)
    np.testing.assert_array_equal(equal._array[0], equal._array[1])
    other = vmap(draw, randomness="different")(m)
    assert (other._array[0] != other._array[1]).any()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, m: grad(lambda a: a.sin())(x), RuntimeError, "Expected f.* to return a scalar Tensor, got tensor with 1 dims"),
        (lambda x, m: grad(lambda a: 3.0)(x), RuntimeError, "Expected f.* to return a Tensor, got <class 'float'>"),
        (lambda x, m: grad(lambda a: a.sum(), has_aux=True)(x), RuntimeError, r"should be a tuple: \(output, aux\) if has_aux"),
        (lambda x, m: grad(lambda a: a.sum(), argnums=2)(x), RuntimeError, "Got argnum=2, but only 1 positional inputs"),
        (lambda x, m: grad(lambda a: a)("a"), ValueError, "must be Tensor, got <class 'str'>"),
        (lambda x, m: grad(lambda a: a.sum())(sg.tensor([1])), RuntimeError, "only Tensors of floating point dtype"),
        (lambda x, m: jvp(lambda a: a, x, (x,)), RuntimeError, "Expected primals to be a tuple"),
        (lambda x, m: jvp(lambda a: a, (x,), (m,)), RuntimeError, r"size \[3\] while the given forward gradient is of size \[2, 3\]"),
        (lambda x, m: vjp(lambda a: a * 2, x)[1](m), RuntimeError, "Mismatch in shape: grad_output"),
        (lambda x, m: vmap(lambda a: a)(), ValueError, "got no inputs"),
        (lambda x, m: vmap(lambda a: a)(3), ValueError, "We cannot vmap over non-Tensor arguments"),
        (lambda x, m: vmap(lambda a, b: a)(x, m), ValueError, r"got sizes \[3, 2\] for the mapped dimension"),
        (lambda x, m: vmap(lambda a: a, in_dims=2)(m), ValueError, "expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda x, m: vmap(lambda a: a, in_dims=(0, 0))(m), ValueError, "in_dims is not compatible with the structure of `inputs`"),
        (lambda x, m: vmap(lambda a: a, in_dims=None)(m), ValueError, "expected `in_dims` to be int"),
        (lambda x, m: vmap(lambda a: a, out_dims=(0, 0))(m), ValueError, "out_dims is not compatible with the structure of `outputs`"),
        (lambda x, m: vmap(lambda a: 3)(m), ValueError, "must only return Tensors, got type <class 'int'>"),
        (lambda x, m: vmap(lambda a: a, randomness="some")(m), RuntimeError, "Only allowed values for randomness"),
    ],
)  # fmt: skip
def test_refusals(x, m, call, error, text):
    with pytest.raises(error, match=text):
        call(x, m)


def test_functional_products(x):
    f = lambda a, b: (a * b, (a * a).sum())
    v = (wrap(np.array([1.0, 2.0, 3.0])), wrap(np.array(2.0)))
    value, found = functional.vjp(f, (x, x * 2), v)
    same(value[0], 2 * x._array**2)
    same(found[0], v[0]._array * 2 * x._array + 4 * x._array)
    same(functional.jvp(f, (x, x * 2), (v[0], v[0]))[1][0], 3 * x._array * v[0]._array)
    cube = lambda a: (a**3).sum()
    for product in (functional.hvp, functional.vhp):
        value, found = product(cube, x, v[0])
        same(value, (x._array**3).sum())
        same(found, 6 * x._array * v[0]._array)
    recorded = functional.jacobian(lambda a: a**3, wrap(x._array.copy(), True), create_graph=True)
    assert recorded.requires_grad
    blocks = functional.hessian(lambda a, b: (a * b).sum(), (x, x))
    same(blocks[0][1], np.eye(3))
    assert isinstance(functional.jacobian(lambda a: (a, a), (x,))[0], tuple)


def test_functional_refusals(x):
    with pytest.raises(RuntimeError, match="v can only be None if the user-provided function returns a single Tensor"):
        functional.vjp(lambda a: a, x)
    with pytest.raises(RuntimeError, match="v can only be None if the input to the user-provided function"):
        functional.jvp(lambda a: a, x)
    with pytest.raises(RuntimeError, match="given to hvp should contain a single element"):
        functional.hvp(lambda a: a, x, x)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
        functional.jacobian(lambda a: wrap(np.ones(2)), x, strict=True)
    with pytest.raises(RuntimeError, match=r"independent of input 1. This is not allowed in strict mode"):
        functional.jacobian(lambda a, b: a * 2, (x, x), strict=True)
    with pytest.raises(RuntimeError, match="Entry 0 in v has invalid size"):
        functional.vjp(lambda a: a, x, (wrap(np.ones(2)),))


@pytest.mark.parametrize(
    "make",
    [
        lambda f: grad(f),
        lambda f: grad(lambda y: grad(f)(y).sum()),
        lambda f: lambda x: jvp(f, (x,), (x,))[1],
        lambda f: hessian(f),
        lambda f: vmap(grad(lambda t: t**3)),
    ],
)
def test_transformed_functions_compile(make):
    function = make(lambda x: (x * x * x).sin().sum())
    compiled, first, second = sg.compile(function), sg.tensor([1.0, 2.0]), sg.tensor([0.3, 0.7])
    for x in (first, second):
        np.testing.assert_allclose(compiled(x).detach().numpy(), function(x).numpy(), rtol=1e-5)
