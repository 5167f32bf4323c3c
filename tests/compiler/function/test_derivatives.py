"""The methods of a compiled function: derivatives of every kind, compared with eager ones and with JAX's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import GraphError, TraceError

sg.manual_seed(0)
X, W, U = (sg.randn(*s, dtype=sg.float64) for s in ((5,), (5, 4), (4, 3)))


def net(x, w, u):
    return (x @ w).tanh().matmul(u).sin()


def loss(x, w, u):
    return net(x, w, u).square().sum()


def in_jax(x, w, u):
    return jnp.sin(jnp.tanh(x @ w) @ u)


def oracle(transform, *args):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(transform)(*(np.asarray(a.numpy()) for a in args)))


def close(found, wanted):
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-11, atol=1e-12)


NET, LOSS = sg.compile(net), sg.compile(loss)


@pytest.mark.parametrize("wrt", [0, 1, 2])
def test_jacobian_in_one_input(wrt):
    found = NET.jacobian(X, W, U, wrt=wrt)
    close(found, oracle(jax.jacrev(in_jax, wrt), X, W, U))


def test_jacobian_in_several_inputs_is_a_tuple():
    found = NET.jacobian(X, W, U, wrt=("x", "w"))
    assert isinstance(found, tuple)
    for a, b in zip(found, oracle(jax.jacrev(in_jax, (0, 1)), X, W, U), strict=True):
        close(a, b)
    (alone,) = NET.jacobian(X, W, U, wrt=("x",))
    close(alone, found[0].numpy())


def test_jacobian_takes_the_cheaper_mode():
    wide = sg.compile(lambda x, a: (a @ x).exp())
    a = sg.randn(6, 2, dtype=sg.float64)
    x = sg.randn(2, dtype=sg.float64)
    close(wide.jacobian(x, a, wrt="x"), (wide(x, a)[:, None] * a).numpy())
    assert {v.shape for v in wide._latest.kernel("jacobian", (0,)).graph.values if v.op == "matmul"} <= {(6,), (2, 6)}  # not (6, 6)
    few = sg.compile(lambda x, b, c: c @ (b @ x).exp())
    b, c = sg.randn(3, 6, dtype=sg.float64), sg.randn(2, 3, dtype=sg.float64)
    close(few.jacobian(sg.ones(6, dtype=sg.float64), b, c, wrt="x"), (c * b.sum(1).exp() @ b).numpy())
    assert max(v.size for v in few._latest.kernel("jacobian", (0,)).graph.values if v.op == "mul") == 6  # 2 x 3, not 6 x 3


def test_products_by_unit_vectors_leave_no_trace():
    NET.jacobian(X, W, U, wrt="x")
    assert "eye" not in NET.source("jacobian", wrt="x")
    LOSS.hessian(X, W, U, wrt="x")
    assert "eye" not in LOSS.source("hessian", wrt="x")


def test_products_of_diagonal_matrices_are_vectors():
    chain = lambda x, w: (x @ w).sin().exp()
    fast = sg.compile(chain)
    close(fast.jacobian(X, W, wrt="x"), sg.func.jacrev(chain)(X, W).numpy())
    assert "eye" not in fast.source("jacobian", wrt="x")


def test_hessian_in_one_and_in_several():
    in_jax_loss = lambda *a: (in_jax(*a) ** 2).sum()
    close(LOSS.hessian(X, W, U, wrt="w"), oracle(jax.hessian(in_jax_loss, 1), X, W, U))
    found = LOSS.hessian(X, W, U, wrt=(0, "u"))
    wanted = oracle(jax.hessian(in_jax_loss, (0, 2)), X, W, U)
    for i in range(2):
        for j in range(2):
            close(found[i][j], wanted[i][j])


def test_hessian_of_several_results():
    close(NET.hessian(X, W, U, wrt="x"), oracle(jax.hessian(in_jax), X, W, U))


def test_hvp_is_the_hessian_times_a_vector():
    v = sg.randn(5, 4, dtype=sg.float64)
    hessian = LOSS.hessian(X, W, U, wrt="w")
    close(LOSS.hvp(X, W, U, v=v, wrt="w"), sg.einsum("ijkl,kl->ij", hessian, v).numpy())
    both = LOSS.hvp(X, W, U, v=(X, v), wrt=("x", "w"))
    blocks = LOSS.hessian(X, W, U, wrt=("x", "w"))
    close(both[0], (blocks[0][0] @ X + sg.einsum("ijk,jk->i", blocks[0][1], v)).numpy())
    close(both[1], (sg.einsum("ijk,k->ij", blocks[1][0], X) + sg.einsum("ijkl,kl->ij", blocks[1][1], v)).numpy())


def test_vjp_and_jvp():
    v, t = sg.randn(3, dtype=sg.float64), sg.randn(5, 4, dtype=sg.float64)
    jacobian = NET.jacobian(X, W, U, wrt="w")
    pull, push = NET.vjp(X, W, U, wrt="w"), NET.jvp(X, W, U, wrt="w")
    close(pull(v), sg.einsum("i,ijk->jk", v, jacobian).numpy())
    close(push(t), sg.einsum("ijk,jk->i", jacobian, t).numpy())
    close(pull.value, net(X, W, U).numpy())
    close(push.value, net(X, W, U).numpy())
    every = NET.vjp(X, W, U)(v)
    wanted = sg.func.vjp(net, X, W, U)[1](v)
    for a, b in zip(every, wanted, strict=True):
        close(a, b.numpy())
    close(NET.jvp(X, W, U)(X, t, U), sg.func.jvp(net, (X, W, U), (X, t, U))[1].numpy())
    close(NET.jvp(X, W, U)((X, t, U)), sg.func.jvp(net, (X, W, U), (X, t, U))[1].numpy())
    assert repr(pull) == "<vjp of net in w: call it with cotangents>"


def test_one_kernel_for_each_type_and_kind():
    fast = sg.compile(loss)
    fast.hessian(X, W, U, wrt="x")
    kernel = fast._latest.kernel("hessian", (0,))
    fast.hessian(2 * X, W, U, wrt=0)
    assert fast._latest.kernel("hessian", (0,)) is kernel
    assert len(fast._program_cache.programs()) == 1
    fast(X.float(), W.float(), U.float())
    fast.hessian(X, W, U, wrt="x")
    assert "float64[5]" in fast.source("hessian", wrt="x")


def nested(x):
    return {"wave": x.sin(), "rest": (x.sum(), [x * 2], x.argmax())}


def test_results_keep_their_containers():
    fast = sg.compile(lambda x: {k: v for k, v in nested(x).items() if k == "wave"} | {"rest": (x.sum(), [x * 2])})
    x = sg.tensor([1.0, 2.0], dtype=sg.float64)
    found = fast.jacobian(x, wrt="x")
    close(found["wave"], np.diag(np.cos([1.0, 2.0])))
    close(found["rest"][0], [1, 1])
    close(found["rest"][1][0], 2 * np.eye(2))
    pushed = fast.jvp(x, wrt="x")(x)
    close(pushed["rest"][0], 3.0)
    pulled = fast.vjp(x, wrt="x")({"wave": x, "rest": (1.0, [x])})
    close(pulled, np.cos([1.0, 2.0]) * [1, 2] + 1 + 2 * np.array([1.0, 2.0]))


def test_whole_numbers_among_the_results_have_no_cotangent():
    fast = sg.compile(nested)
    x = sg.tensor([1.0, 2.0])
    found = fast.vjp(x, wrt="x")({"wave": sg.zeros(2), "rest": (1.0, [sg.zeros(2)], None)})
    close(found, [1, 1])
    assert fast.jvp(x, wrt="x")(x)["rest"][2].item() == 0
    with pytest.raises(GraphError, match="only floating-point outputs have a Jacobian, got int64"):
        fast.jacobian(x, wrt="x")


def test_directions_of_another_form_are_refused():
    fast = sg.compile(nested)
    pull = fast.vjp(X, wrt="x")
    with pytest.raises(ValueError, match=r"the cotangent must be a dict of wave, rest, as the result is, got a dict of wave$"):
        pull({"wave": sg.ones(5)})
    with pytest.raises(ValueError, match=r"the cotangent must be a dict of wave, rest, as the result is, got Tensor\(5,\)"):
        pull(X)
    with pytest.raises(ValueError, match=r"the cotangent\['rest'\] must be a tuple of 3, as the result is, got a tuple of 2"):
        pull({"wave": X, "rest": (1.0, [X])})
    with pytest.raises(ValueError, match=r"the cotangent\['rest'\]\[1\]\[0\] must be float64\[5\], got Tensor\(5, 4\)"):
        pull({"wave": X, "rest": (1.0, [W], None)})
    with pytest.raises(ValueError, match=r"the tangent of w must be float64\[5, 4\], got Tensor\(5,\)"):
        NET.jvp(X, W, U, wrt=("x", "w"))(X, X)
    with pytest.raises(ValueError, match="v: one is needed for each of x, w, got 1"):
        LOSS.hvp(X, W, U, v=X, wrt=("x", "w"))


def test_directions_of_bfloat16():
    x = sg.tensor([0.5, 1.5], dtype=sg.bfloat16)
    fast = sg.compile(lambda x: (x * x * x).sum())
    assert fast.hvp(x, v=x, wrt=0).tolist() == [1.5, 13.5]
    assert fast.jvp(x, wrt=0)(x).item() == fast.jvp(x.float(), wrt=0)(x).item() == 10.5
    assert fast.vjp(x, wrt=0)(sg.tensor(2.0, dtype=sg.bfloat16)).tolist() == [1.5, 13.5]


def test_a_point_that_was_written_to_is_refused():
    x = X.clone()
    pull = NET.vjp(x, W, U, wrt="x")
    x.add_(1)
    with pytest.raises(RuntimeError, match="x has been written to in place since this derivative was begun"):
        pull(sg.ones(3))
    array = X.numpy().copy()
    pull = NET.vjp(array, W, U, wrt="x")
    array[:] = 7
    close(pull(sg.ones(3)), NET.vjp(X, W, U, wrt="x")(sg.ones(3)).numpy())


def test_branches_have_the_derivative_of_the_path_that_is_taken():
    fast = sg.compile(lambda x: (x * x).sum() if x.sum() > 0 else (x**3).sum())
    for values in ([1.0, 2.0], [-1.0, -2.0], [3.0, 1.0], [-2.0, 1.0]):
        x = sg.tensor(values)
        slope = 2 * x if sum(values) > 0 else 3 * x * x
        close(fast.grad(x, wrt="x"), slope.numpy())
        close(fast.jacobian(x, wrt="x"), slope.numpy())
        close(fast.hessian(x, wrt="x"), np.diag([2.0, 2.0]) if sum(values) > 0 else np.diag(6 * x.numpy()))
    assert len(fast._program_cache.programs()) == 2


def test_tensors_that_the_function_brings_along_have_names():
    layer = sg.nn.Linear(3, 2)
    x = sg.randn(3)
    fast = sg.compile(layer)
    close(fast.jacobian(x, wrt="input"), layer.weight.detach().numpy())
    close(fast.jacobian(x, wrt="bias"), np.eye(2))
    by_weight = sg.func.jacrev(lambda w: sg.nn.functional.linear(x, w, layer.bias))(layer.weight)
    close(fast.jacobian(x, wrt="weight"), by_weight.detach().numpy())
    with sg.no_grad():
        layer.weight.mul_(2)
    close(fast.jacobian(x, wrt="input"), layer.weight.detach().numpy())
    scale = sg.tensor(3.0)
    scaled = sg.compile(lambda x: (x * scale).sum())
    close(scaled.grad(x, wrt="x"), np.full(3, 3.0))
    scale.fill_(4.0)
    close(scaled.grad(x, wrt="x"), np.full(3, 4.0))


def test_effects_have_no_derivative_and_are_left_undone():
    layer = sg.nn.Linear(2, 1)
    optimizer = sg.optim.SGD(layer.parameters(), lr=0.1)
    count = sg.zeros(())

    @sg.compile
    def step(x):
        total = layer(x).sum()
        total.backward()
        optimizer.step()
        return total

    @sg.compile
    def counting(x):
        count.add_(1)
        return x.sum()

    before = layer.weight.detach().clone()
    with pytest.raises(TraceError, match=r"test_derivatives.py:\d+: backward\(\) .* hessian\(\) is for functions without"):
        step.hessian(sg.ones(2))
    with pytest.raises(TraceError, match=r"written to in place .* call grad\(\) of that"):
        counting.grad(sg.ones(2))
    assert (layer.weight == before).all()
    assert layer.weight.grad is None
    assert count.item() == 0


def test_empty_and_single_numbers():
    fast = sg.compile(lambda x, y: x.sum() * y + y.exp())
    x, y = sg.zeros(0, dtype=sg.float64), sg.tensor(2.0, dtype=sg.float64)
    assert fast.jacobian(x, y, wrt="x").shape == (0,)
    close(fast.jacobian(x, y, wrt="y"), np.exp(2.0))
    assert [[b.shape for b in row] for row in fast.hessian(x, y)] == [[(0, 0), (0,)], [(0,), ()]]
    column = sg.compile(lambda t: t * sg.arange(3, dtype=sg.float64))
    close(column.jacobian(sg.tensor([2.0], dtype=sg.float64), wrt="t"), [[0], [1], [2]])
    close(column.hessian(y, wrt="t"), np.zeros(3))


def test_complex_numbers():
    z, t = sg.randn(3, dtype=sg.complex128), sg.randn(3, dtype=sg.complex128)
    wave = lambda z: z * z + 2 * z.conj()
    fast = sg.compile(wave)
    close(fast.jvp(z, wrt="z")(t), (2 * z * t + 2 * t.conj()).numpy())
    close(fast.vjp(z, wrt="z")(t), sg.func.vjp(wave, z)[1](t)[0].numpy())
    with pytest.raises(GraphError, match=r"a Jacobian of complex numbers .* \(view_as_real\)"):
        fast.jacobian(z, wrt="z")
    with pytest.raises(ValueError, match=r"the tangent of x must be float64\[5\], got Tensor\(5,\) torch.complex128"):
        NET.jvp(X, W, U, wrt="x")(X.to(sg.complex128))


def test_convolutions_and_norms():
    F = sg.nn.functional
    f = lambda x, w: F.softmax(F.conv1d(x, w, padding=1).amax(2), 1)
    x, w = sg.randn(2, 3, 6, dtype=sg.float64), sg.randn(2, 3, 3, dtype=sg.float64)
    fast = sg.compile(f)
    for wrt in (0, 1):
        close(fast.jacobian(x, w, wrt=wrt), sg.func.jacrev(f, wrt)(x, w).numpy())


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("dtype", [sg.float16, sg.float32, sg.float64])
def test_derivatives_in_python_floats_have_the_dtype_of_the_result(dtype, backend):
    t, one = sg.tensor([1.0, 3.0], dtype=dtype), sg.ones((), dtype=dtype)
    fast = sg.compile(lambda x, t: (x * x * t).sum(), backend=backend)
    found = {
        "value_and_grad": fast.value_and_grad(2.0, t, wrt="x")[1], "grad": fast.grad(2.0, t, wrt="x"),
        "jacobian": fast.jacobian(2.0, t, wrt="x"), "vjp": fast.vjp(2.0, t, wrt="x")(one), "jvp": fast.jvp(2.0, t, wrt="x")(1.0),
        "hessian": fast.hessian(2.0, t, wrt="x"), "hvp": fast.hvp(2.0, t, wrt="x", v=1.0),
    }  # fmt: skip
    assert {name: d.dtype for name, d in found.items()} == dict.fromkeys(found, dtype)
    assert [d.item() for d in found.values()] == [16.0] * 5 + [8.0] * 2


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_vjp_in_python_floats_alone_and_of_several_results(backend):
    fast = sg.compile(lambda x, y: sg.mul(x, y), backend=backend)
    assert fast.vjp(2.0, 3.0, wrt="y")(1.0).dtype == sg.float32
    assert [(d.item(), d.dtype) for d in fast.vjp(2.0, 3.0)(1.0)] == [(3.0, sg.float32), (2.0, sg.float32)]
    several = sg.compile(lambda x, t: (x * t, x * t.double(), x * t.half()), backend=backend)
    ones = sg.ones(2)
    pulled = several.vjp(2.0, ones, wrt="x")((ones, ones.double(), ones.half()))
    assert (pulled.item(), pulled.dtype) == (6.0, sg.float64)
