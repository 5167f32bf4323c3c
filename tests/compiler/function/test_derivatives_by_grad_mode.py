"""Derivatives are those of eager code, whenever they are asked for: the functions here do something else if gradients are recorded."""

import numpy as np
import pytest
from derivative_modes import assert_same_in_all_lives

import symgrad as sg

X = np.array([[0.7, -1.3, 0.4], [1.9, 0.6, -0.8]])
W = np.array([0.3, 1.1, -0.9])


class Tripled(sg.autograd.Function):
    """x², whose backward is not that of its forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 6 * x


class SavesOutput(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class SavesAll(sg.autograd.Function):
    """Inputs, outputs and something in between, which has no derivative."""

    @staticmethod
    def forward(ctx, x, w):
        between = x.sin()
        first, second = between * w, (x * x).tanh()
        ctx.save_for_backward(x, w, first, between, second)
        return first, second

    @staticmethod
    def backward(ctx, g, h):
        x, _, first, between, second = ctx.saved_tensors
        return g * first * 2 + h * (1 - second * second) * 2 * x, (g * between + h * second * first).sum(0)


class WritesIntoArgument(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class KeepsOutput(sg.autograd.Function):
    """Once as it is, and once without its history."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = x.exp()
        return ctx.result

    @staticmethod
    def backward(ctx, g):
        return g * ctx.result * ctx.result.detach()


class ReturnsArgument(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * 2


class SetUp(sg.autograd.Function):
    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


def saves_output(x, w):
    return SavesOutput.apply(x * w) * w


def saves_all(x, w):
    first, second = SavesAll.apply(x, w)
    return first * second + second


def writes_into_argument(x, w):
    return WritesIntoArgument.apply(x * w) * x


def keeps_output(x, w):
    return KeepsOutput.apply(x * w) * w


def returns_argument(x, w):
    return ReturnsArgument.apply(x * w) ** 2


def saves_in_setup(x, w):
    return SetUp.apply(x * w).exp()


def nested_functions(x, w):
    return SavesOutput.apply(SetUp.apply(SavesOutput.apply(x) * w))


def hook_reads_its_tensor(x, w):
    h = x * w
    if h.requires_grad:
        h.register_hook(lambda g: g * h)
    return h.sin()


def function(x, w):
    return Tripled.apply(x * w)


def written_without_recording(x, w):
    h = x * w
    with sg.no_grad():
        h *= 2
    return h * h


def block(x, w):
    with sg.no_grad():
        scale = (x * w).sum()
    return x * scale


def through_data(x, w):
    h = x.sin() * w
    h.data.mul_(3)
    return h * x


def through_detach(x, w):
    h = x * w
    h.detach().add_(1)
    return h.exp()


def detached(x, w):
    return x.detach() * w * x


def branch_on_history(x, w):
    h = x * w
    return h * h if h.requires_grad else h


def branch_on_argument(x, w):
    return x * x if x.requires_grad else w * x


def branch_on_leaf(x, w):
    h = x * 2
    return h * w if h.is_leaf else h * h * w


def hook(x, w):
    h = x * w
    if h.requires_grad:
        h.register_hook(lambda g: g * 2)
    return h.sin()


def enabled(x, w):
    with sg.no_grad():
        h = x * w
        with sg.enable_grad():
            k = x * x
    return h * k


def mode(x, w):
    return x * w * (3 if sg.is_grad_enabled() else 2)


def required_inside(x, w):
    h = x.detach().requires_grad_()
    (g,) = sg.autograd.grad((h**3).sum(), h)
    return g * x * w


def derivative_inside(x, w):
    """It requires grad only if what it was computed from does."""
    h = sg.func.jvp(lambda z: z * z, (w,), (w,))[1] * 1
    return x * h if h.requires_grad else x * x * h


FUNCTIONS = [
    function, written_without_recording, block, through_data, through_detach, detached, branch_on_history, branch_on_argument,
    branch_on_leaf, hook, enabled, mode, required_inside, derivative_inside, saves_output, saves_all, writes_into_argument,
    saves_in_setup, nested_functions, hook_reads_its_tensor, keeps_output, returns_argument,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("wrt", [(0, 1), pytest.param((0,), marks=pytest.mark.slow), (1,)], ids=str)
def test_a_derivative_is_that_of_eager_code_whenever_it_is_asked_for(f, wrt):
    assert_same_in_all_lives(f, X, W, wrt=wrt)


@pytest.mark.parametrize(
    "f", [function, written_without_recording, branch_on_history, hook, saves_output, saves_all], ids=lambda f: f.__name__
)
def test_the_same_on_xla(f):
    assert_same_in_all_lives(f, X, W, backends=("xla",))


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("named", [True, False], ids=["wrt", "asked"])
def test_which_arguments_require_grad_is_part_of_a_derivative(backend, named):
    def f(x, w):
        return ((x * w) ** (3 if w.requires_grad else 2)).sum()

    fast = sg.compile(f, backend=backend)
    x, w = sg.tensor(W).requires_grad_(), sg.tensor(W + 2)
    wrt = {"wrt": "x"} if named else {}
    for asked in (False, True, False, True):
        for t in (w, fast(w, w)):  # on the host, and where the kernel leaves it
            t = t.detach().requires_grad_(asked) if t is w else (t * sg.ones(3, dtype=sg.float64)).detach().requires_grad_(asked)
            wanted = sg.autograd.grad(f(x, t), x)[0]
            for _ in range(2):
                found = fast.grad(x, t, **wrt)
                np.testing.assert_allclose(found._array if named else found[0]._array, wanted._array, rtol=1e-12)


def test_a_captured_tensor_requires_grad_while_a_derivative_is_taken_in_it():
    w = sg.tensor(W)
    fast = sg.compile(lambda x: Tripled.apply(w * x).sum() * (2 if w.requires_grad else 1))
    x = sg.tensor(X[0])
    assert fast(x).item() == pytest.approx(((W * X[0]) ** 2).sum())
    np.testing.assert_allclose(fast.grad(x, wrt="w")._array, 12 * W * X[0] ** 2)
    assert not w.requires_grad
    np.testing.assert_allclose(fast.grad(x, wrt="x")._array, 6 * W**2 * X[0])
    np.testing.assert_allclose(fast.grad(x)[0]._array, 6 * W**2 * X[0])


def test_formula_source_and_export_are_of_a_function_that_is_differentiated(tmp_path):
    fast = sg.compile(lambda x: Tripled.apply(x).sum())
    x = sg.tensor(W)
    fast(x)
    assert "6 x" in str(fast.formula())
    fast(x)
    assert "6" in fast.source("grad", wrt="x")
    fast.export(tmp_path / "f.sgx")
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    np.testing.assert_allclose(loaded.grad(x, wrt="x")._array, 6 * W, rtol=1e-6)
    assert "6 x" in str(sg.derive(lambda x: Tripled.apply(x).sum())(x))


def test_the_formula_of_a_branch_is_that_of_the_last_arguments_or_refused():
    fast = sg.compile(lambda x: Tripled.apply(x).sum() if x.sum() > 0 else x.sum())
    x = sg.ones(2000)
    fast(x)
    assert "6 x" in str(fast.formula())
    del x
    fast(sg.ones(2001))  # too large to be kept
    with pytest.raises(sg.errors.TraceError, match="gone: call formula"):
        fast.formula(wrt="x")


@pytest.mark.parametrize("out_dims", [0, 1, -1, None])
def test_what_vmap_returns_is_no_view(out_dims):
    """The fuzzer's program 9604509: a view made under no_grad could not be written to."""

    def f(x, w):
        with sg.no_grad():
            v = sg.func.vmap(lambda z: z.sum() * z, out_dims=out_dims)(x)
        v -= w[:1] * 0.5
        return v * w[0]

    assert_same_in_all_lives(f, X, W)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("p", [2, 3, 1.5])
def test_forward_mode_through_a_norm_at_the_origin(backend, p):
    f = lambda x: x.norm(p=p)
    x, t = sg.zeros(2, dtype=sg.float64), sg.ones(2, dtype=sg.float64)
    fast = sg.compile(f, backend=backend)
    assert fast.jvp(x)(t).item() == sg.func.jvp(f, (x,), (t,))[1].item() == 0
    assert fast.grad(x, wrt="x").tolist() == [0, 0]


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_a_parameter_that_is_frozen_between_forward_and_backward_gets_no_gradient(backend):
    layer = sg.nn.Linear(3, 2)
    for fast in (sg.compile(layer, backend=backend), sg.compile(lambda x: layer(x), backend=backend)):
        for _ in range(2):
            result = fast(sg.ones(1, 3))
            layer.bias.requires_grad_(False)
            result.sum().backward()
            assert layer.bias.grad is None
            assert layer.weight.grad is not None
            layer.bias.requires_grad_(True)
            layer.zero_grad()


def views_of_a_detached_base(x, w):
    h = x * w
    view = h[:1]
    h.detach_()
    return view * view + h


def test_detaching_a_base_leaves_its_views_their_history():
    assert_same_in_all_lives(views_of_a_detached_base, X, W)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_the_default_dtype_is_a_condition_of_a_program(backend):
    def f(x):
        return (x / 2 + sg.zeros(2)).sum() * sg.tensor(1.5)

    fast, whole, floats = sg.compile(f, backend=backend), sg.tensor([1, 2]), sg.ones(2)
    try:
        for dtype in (sg.float32, sg.float64, sg.float32, sg.float64):
            sg.set_default_dtype(dtype)
            for _ in range(3):
                assert fast(whole).dtype == f(whole).dtype == dtype
                assert fast(floats).dtype == f(floats).dtype
                assert fast.value_and_grad(floats, wrt="x")[0].dtype == dtype
    finally:
        sg.set_default_dtype(sg.float32)
    assert len(fast.recompiles()) == 6  # of whole numbers, of floats, and for derivatives, once for each type
    assert "default dtype: float32 -> float64" in str(fast.recompiles())


def test_functions_on_jax_arrays_and_retraced_ones_have_the_derivatives_of_eager_code():
    import jax

    f = lambda x: Tripled.apply(x).sum()
    fast, x = sg.compile(f), sg.tensor(W)
    fast(x)
    np.testing.assert_allclose(jax.grad(fast.as_jax())(W.astype(np.float32)), 6 * W, rtol=1e-6)
    _, along = jax.jvp(fast.as_jax("jvp"), (W.astype(np.float32),), (np.ones(3, np.float32),))
    np.testing.assert_allclose(along, 6 * W.sum(), rtol=1e-6)
    retraced = sg.compile(lambda x: f(x) if x.requires_grad else x.sum(), retrace=True)
    assert retraced(x).item() == pytest.approx(W.sum())
    np.testing.assert_allclose(retraced.grad(x, wrt="x")._array, 6 * W)
    recorded = sg.tensor(W).requires_grad_()
    retraced(recorded).backward()
    np.testing.assert_allclose(recorded.grad._array, 6 * W)


def test_derivatives_in_the_parameters_of_a_module_are_traced_once():
    runs = []

    class Net(sg.nn.Linear):
        def forward(self, x):
            runs.append(x.requires_grad)
            return super().forward(x).sum()

    fast, x = sg.compile(Net(3, 2)), sg.ones(1, 3)
    weight, bias = fast.grad(x)
    assert (weight.tolist(), bias.tolist()) == ([[1, 1, 1], [1, 1, 1]], [1, 1])
    assert runs == [False]
    fast.grad(x, wrt=0)
    assert runs == [False, True]
