"""The NumPy back end: every row, buffers that nobody sees, types, threads, training, and no JAX."""

from __future__ import annotations

import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest
from host_graphs import random_graph
from row_graphs import row_graphs

import symgrad as sg
from symgrad.compiler.builder import apply, xp
from symgrad.compiler.differentiate import vjp
from symgrad.compiler.host import buffers
from symgrad.compiler.host.kernel import Kernel
from symgrad.compiler.interpreter import evaluate
from symgrad.compiler.ir import INPUT, LITERAL, Graph, input_value
from symgrad.errors import GraphError
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import elementwise_type
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE


def ulps(found, wanted):
    """How far two arrays of one type are apart, in units of the last place; NaN in the same place is the same."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "c":
        return max(ulps(np.real(found), np.real(wanted)), ulps(np.imag(found), np.imag(wanted)))
    if kind(wanted.dtype) in "bi":
        return 0 if np.array_equal(found, wanted) else np.inf
    apart = (found != wanted) & ~(np.isnan(found) & np.isnan(wanted))
    if not apart.any():
        return 0
    unit = np.spacing(np.abs(wanted[apart]))
    return float(np.max(np.abs(found[apart] - wanted[apart]) / unit.astype(np.float64)))


def same(arrays, others):
    return all(a.tobytes() == b.tobytes() for a, b in zip(arrays, others, strict=True))


def check(graph, arrays, tolerance=4):
    """A kernel gives what the interpreter gives, in memory of its own, and touches nothing."""
    wanted = evaluate(graph, arrays)
    before = [a.copy() for a in arrays]
    kernel = Kernel(graph)
    found = kernel(arrays)
    assert max((ulps(a, b) for a, b in zip(found, wanted, strict=True)), default=0) <= tolerance
    kept = [a.copy() for a in found]
    kernel(arrays)
    assert same(found, kept)
    assert same(arrays, before)
    for i, a in enumerate(found):
        assert a.flags.writeable
        assert not any(np.shares_memory(a, b) for b in (*arrays, *found[:i]))
    return found


def derivative(graph, arrays, seed=0):
    """The graph of the cotangents of all inputs, and arrays for it; None if there is none."""
    wrt = [i for i, x in enumerate(graph.inputs) if kind(x.dtype) in "fc"]
    if not wrt or not all(kind(v.dtype) in "fc" for v in graph.outputs):
        return None
    try:
        graph = vjp(graph, wrt)
    except (GraphError, RuntimeError):  # no derivative, which the tests of rows know about
        return None
    rng = np.random.default_rng(seed)
    cotangents = [np.asarray(rng.normal(size=x.shape)).astype(x.dtype) for x in graph.inputs[len(arrays) :]]
    return graph, [*arrays, *cotangents]


NAMES = sorted(row_graphs())
BATCHES = [NAMES[i::10] for i in range(10)]


@pytest.fixture(params=[1, buffers.LARGE], ids=["buffers", "plain"])
def large(request, monkeypatch):
    """Tests use small arrays: with a limit of one byte all of them live in buffers."""
    monkeypatch.setattr(buffers, "LARGE", request.param)
    return request.param


@pytest.mark.parametrize("batch", BATCHES, ids=range(10))
def test_rows(batch, large):
    for name in batch:
        for graph, arrays in row_graphs()[name]:
            check(graph, arrays)
            found = derivative(graph, arrays)
            if found is not None and large == 1:
                check(*found)


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES, ids=range(10))
def test_rows_to_second_order(batch, large):
    for name in batch:
        for graph, arrays in row_graphs()[name]:
            found = derivative(graph, arrays)
            twice = found and derivative(*found, seed=1)
            if twice:
                check(*twice)


def test_nearly_all_rows_have_a_derivative_that_runs():
    found = {name for name, graphs in row_graphs().items() if any(derivative(*g) is not None for g in graphs)}
    assert len(found) > 150


def layouts(arrays):
    yield arrays
    yield [a.copy(order="F") for a in arrays]
    yield [np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a for a in arrays]


@pytest.mark.parametrize("batch", BATCHES, ids=range(10))
def test_kernels_of_rows_give_arrays_of_their_own(batch):
    """What the plan of buffers rests on: only rows that say so give views."""
    for name in batch:
        row = TABLE[name]
        for graph, arrays in row_graphs()[name] if not row.view else ():
            for v in graph.values:
                if v.row is not row or any(a is not None and a.op not in (INPUT, LITERAL) for a in v.args):
                    continue
                for some in layouts(arrays):
                    args = [a if a is None else np.asarray(a.value, a.dtype) if a.op == LITERAL else some[a.attrs["index"]] for a in v.args]
                    with np.errstate(all="ignore"):
                        result = row.numpy(*args, **v.attrs)
                    for out in result if isinstance(result, tuple) else (result,):
                        if isinstance(out, np.ndarray):
                            assert not any(np.shares_memory(out, a) for a in args if isinstance(a, np.ndarray)), name
                            assert out.flags.writeable, name
                            assert all(stride or n < 2 for stride, n in zip(out.strides, out.shape, strict=True)), name


# --- buffers


@pytest.mark.parametrize("seeds", [range(i, 240, 8) for i in range(8)], ids=range(8))
def test_random_graphs(seeds, monkeypatch):
    monkeypatch.setattr(buffers, "LARGE", 1)
    for seed in seeds:
        graph, draw = random_graph(seed)
        kernel = Kernel(graph)
        first, second = draw(0), draw(1)
        found = kernel(first)
        kept = [a.copy() for a in found]
        other = kernel(second)
        assert same(found, kept), seed
        assert same(first, draw(0)), seed
        assert same(second, draw(1)), seed
        for arrays, results in ((first, found), (second, other)):
            for a, wanted in zip(results, evaluate(graph, arrays), strict=True):
                np.testing.assert_allclose(a, wanted, rtol=1e-12, atol=1e-12, err_msg=f"seed {seed}")
        everything = [*first, *found, *other]
        for i, a in enumerate(found + other):
            assert not any(np.shares_memory(a, b) for b in everything if b is not a), (seed, i)
        assert len({id(a) for a in found}) == len(found)


@pytest.mark.slow
def test_many_random_graphs(large):
    for seed in range(1000, 4000):
        graph, draw = random_graph(seed)
        check(graph, draw(0), tolerance=64)


def test_memory_is_shared_and_handed_over():
    """A chain of large values takes one buffer; what is returned is none, however it is computed."""
    x, y = (input_value(i, (100, 100), np.float32) for i in range(2))
    chain = xp.tanh(xp.exp(x * y) + 1)
    assert len(buffers.Plan(Graph([x, y], [xp.sum(chain, axis=(0, 1), keepdims=False)])).buffers) == 1
    plan = buffers.Plan(Graph([x, y], [chain]))
    assert plan.buffers == []
    assert len(set(plan.storage.values())) == 1
    kept = buffers.Plan(Graph([x, y], [chain * xp.transpose(chain, dim0=0, dim1=1)]))
    assert len(kept.buffers) == 1


def test_small_arrays_have_no_buffers():
    x = input_value(0, (3,), np.float32)
    assert buffers.Plan(Graph([x], [xp.tanh(x * 2) + 1])).storage == {}


def test_a_buffer_is_kept_while_a_view_of_it_is_read(monkeypatch):
    monkeypatch.setattr(buffers, "LARGE", 1)
    x = input_value(0, (3, 3), np.float64)
    a = xp.exp(x)
    view = xp.transpose(a, dim0=0, dim1=1)
    b = xp.sin(a)
    graph = Graph([x], [xp.tanh(b * 2) @ view, xp.sum(view * b, axis=(0,), keepdims=False)])
    check(graph, [np.random.default_rng(0).normal(size=(3, 3))])


def test_a_step_that_reads_an_operand_late_does_not_overwrite_it(monkeypatch):
    monkeypatch.setattr(buffers, "LARGE", 1)
    x, y = (input_value(i, (4,), np.float64) for i in range(2))
    arrays = [np.random.default_rng(i).normal(size=4) for i in range(2)]
    for graph in (
        Graph([x, y], [xp.tanh_backward(xp.exp(x), xp.sin(y))]),
        Graph([x, y], [xp.leaky_relu(xp.exp(x) - 1, negative_slope=0.1) * y]),
        Graph([x, y], [xp.addcmul(xp.exp(x), xp.sin(y), xp.cos(y), value=2)]),
        Graph([x, y], [xp.power(xp.exp(x), exponent=3)]),
        Graph([x, y], [xp.where(x > 0, xp.exp(x), xp.sin(y))]),
    ):
        check(graph, arrays)


def test_what_stands_in_a_later_line_is_read_there(monkeypatch):
    """The sum has no line of its own: what it sums must not be overwritten before the line that it stands in."""
    monkeypatch.setattr(buffers, "LARGE", 1)
    x, y = (input_value(i, (8,), np.float64) for i in range(2))
    graph = Graph([x, y], [xp.sin(y) * xp.sum(xp.tanh(xp.exp(x)), axis=(0,), keepdims=False)])
    check(graph, [np.random.default_rng(i).normal(size=8) for i in range(2)])


def test_products_are_written_into_memory_in_c_order(monkeypatch):
    """A result of an array in Fortran's order is in that order, too, and np.dot refuses to write into it."""
    monkeypatch.setattr(buffers, "LARGE", 1)
    x, y = (input_value(i, (4, 4), np.float64) for i in range(2))
    first = xp.exp(x)
    total = xp.sum(first, axis=(0, 1), keepdims=False)
    graph = Graph([x, y], [total, xp.tanh(xp.matmul(y, y))])
    plan = buffers.Plan(graph)
    assert any(s.rows and s.fresh for s in plan.storage.values())
    check(graph, [np.asfortranarray(np.random.default_rng(i).normal(size=(4, 4))) for i in range(2)])


def test_threads_do_not_share_buffers():
    x, w = input_value(0, (64, 64), np.float64), input_value(1, (64, 64), np.float64)
    h = xp.tanh(x @ w)
    graph = Graph([x, w], [xp.sum(h * xp.exp(h) - xp.sin(h), axis=(0,), keepdims=False), h])
    kernel = Kernel(graph)
    failed: list[int] = []

    def work(number):
        rng = np.random.default_rng(number)
        arrays = [rng.normal(size=(64, 64)) for _ in range(2)]
        wanted = evaluate(graph, arrays)
        for _ in range(200):
            if any(ulps(a, b) > 4 for a, b in zip(kernel(arrays), wanted, strict=True)):
                failed.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert failed == []
    assert 1 <= len(kernel._idle) <= 8


# --- inputs and outputs


def test_the_same_array_twice_views_and_arrays_that_cannot_be_written(large):
    x, y = (input_value(i, (4, 4), np.float64) for i in range(2))
    graph = Graph([x, y], [xp.tanh(x + y) @ x, x, xp.transpose(y, dim0=0, dim1=1), xp.reshape(x, shape=(16,)), xp.exp(x), xp.exp(x)])
    a = np.random.default_rng(0).normal(size=(4, 4))
    frozen = a.copy()
    frozen.flags.writeable = False
    wide = np.random.default_rng(1).normal(size=(8, 8))
    for arrays in ([a, a], [a, a.T], [frozen, frozen], [wide[::2, ::2], wide[::-2, 1::2]], [np.asfortranarray(a), a[::-1]]):
        check(graph, arrays)


def test_no_elements_and_no_dimensions(large):
    x, y = input_value(0, (0, 3), np.float32), input_value(1, (), np.float32)
    graph = Graph([x, y], [xp.tanh(x) * y, xp.sum(x, axis=(0, 1), keepdims=False) + y, xp.sigmoid(y) * 2, y, xp.expand(y, shape=(2, 2))])
    check(graph, [np.zeros((0, 3), np.float32), np.array(2, np.float32)])


def test_outputs_that_are_numbers():
    x = input_value(0, (2,), np.float32)
    graph = Graph([x], [xp.zero(x), xp.expand(xp.sum(xp.zero(x), axis=(0,), keepdims=False), shape=(3,))])
    check(graph, [np.ones(2, np.float32)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int64", "int32", "uint8", "bool"])
def test_types(dtype, large):
    import ml_dtypes

    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x, y = (input_value(i, (5, 5), dtype) for i in range(2))
    numbers = [np.random.default_rng(i).normal(size=(5, 5)) * 3 for i in range(2)]
    arrays = [(np.abs(n) if kind(dtype) in "bi" else n + 1j * n if dtype.kind == "c" else n).astype(dtype) for n in numbers]
    outputs = [x + y, x * y, xp.where(x == y, x, y), xp.cast(x, dtype=np.dtype(np.complex64))]
    if dtype.kind != "b":
        outputs += [x * 3 - y, xp.matmul(x, y), xp.sum(x, axis=(0,), keepdims=False)]
    if kind(dtype) in "fc":
        outputs += [xp.tanh(x) * 0.1, xp.sigmoid(x), x / 3, xp.mean(x, axis=(0,), keepdims=True), xp.exp(x) @ y]
    if kind(dtype) == "f":
        outputs += [xp.relu(x), xp.maximum(x, 70000), xp.softmax(x, axis=(1,)), xp.cast(x, dtype=np.dtype(np.int32))]
    check(Graph([x, y], outputs), arrays)


def test_half_precision_is_rounded_at_every_step():
    """As in PyTorch, and not only at the end."""
    x = input_value(0, (1,), np.float16)
    array = np.array([1.001], np.float16)
    (found,) = check(Graph([x], [(x * 1.1 + 1000) - 1000]), [array])
    single = np.float32(array) * np.float32(np.float16(1.1)) + 1000 - 1000
    assert found != np.float16(single)


def test_numbers_are_half_precise_in_half_precision():
    x = input_value(0, (2000,), np.float16)
    check(Graph([x], [x * (1 / 3)]), [np.arange(2000, dtype=np.float16)], tolerance=0)


def test_labels_are_no_code():
    labels = ["np", "kernels", "buffers", "workspace", "v0", "b0", "select", "x); import os", "lambda", "ünï", "_x", "v0", "call_0"]
    inputs = [input_value(i, (64, 64), np.float32) for i in range(len(labels))]
    total = inputs[0]
    for x in inputs[1:]:
        total = xp.where(x > 0, total, xp.tanh(total) * x)
    graph = Graph(inputs, [total, xp.sum(total, axis=(0,), keepdims=False)], labels)
    check(graph, [np.random.default_rng(i).normal(size=(64, 64)).astype(np.float32) for i in range(len(labels))], tolerance=64)
    assert "os" not in Kernel(graph).source()


def test_wrong_arrays_are_refused():
    x = input_value(0, (2,), np.float32)
    kernel = Kernel(Graph([x], [x * 2], ["weight"]))
    for arrays in ([np.ones(3, np.float32)], [np.ones(2)], []):
        with pytest.raises(GraphError, match=r"takes \(weight: float32\[2\]\), got \("):
            kernel(arrays)


def test_warnings_are_quiet_and_settings_are_kept():
    x = input_value(0, (3,), np.float32)
    kernel = Kernel(Graph([x], [xp.log(x), 1 / x, xp.sum(1 / x, axis=(0,), keepdims=False) * 0]))
    with np.errstate(all="raise"):
        found = kernel([np.array([0.0, -1.0, 1.0], np.float32)])
        assert np.geterr()["divide"] == "raise"
    assert np.isinf(found[0][0])
    assert np.isnan(found[0][1])


# --- rows of the user's


def test_a_row_that_is_not_in_the_table():
    """Its kernel might give a view, or anything that looks at an operand."""
    row = Row("hostile) name", ("x",), lambda x: x[::-1], (None,), (frozenset(),), "each", elementwise_type("flipped", "each"))
    x = input_value(0, (4096,), np.float64)
    a = xp.exp(x)
    flipped = apply(row, (a,), {})
    graph = Graph([x], [flipped, xp.tanh(flipped) + xp.sin(a), xp.sum(xp.sin(flipped) * 2, axis=(0,), keepdims=False)])
    array = np.random.default_rng(0).normal(size=4096)
    found = Kernel(graph)([array])
    for a, wanted in zip(found, evaluate(graph, [array]), strict=True):
        np.testing.assert_array_equal(a, wanted)
    assert found[0].flags.owndata
    assert "hostile" not in Kernel(graph).source()


def test_attributes_that_have_no_text():
    table = np.arange(3.0)
    type = elementwise_type("looked_up", "each")
    row = Row("looked_up", ("x",), lambda x, *, table: x + table, (None,), (frozenset(),), "each", type, attrs=("table",))
    x = input_value(0, (3,), np.float64)
    check(Graph([x], [apply(row, (x,), {"table": table})]), [np.ones(3)])


# --- loops and branches


def looped(x, w):
    def body(carry, item):
        carry = (carry @ w + item).tanh()
        return carry, (carry.sum(0), carry * 2)

    last, (sums, whole) = sg.scan(body, x[0] * 0, x)
    grown = sg.while_loop(lambda c: c[0].abs().sum() < 100, lambda c: (c[0] * 1.5 + last, c[1] + 1), (last, sg.tensor(0)), max_steps=60)
    chosen = sg.cond(last.sum() > 0, lambda v: v.sin(), lambda v: v, last)
    return sums.sum() + (whole * x).sum() + chosen.square().sum() + grown[0].mean()


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_loops(steps, large):
    x, w = tensors((steps + 1, 4, 4), (4, 4), seed=steps)
    x = x[1:]
    if not steps:
        fast = sg.compile(lambda x, w: sg.scan(lambda c, i: (c @ w + i, c), w, x), backend="numpy")
        last, stacked = fast(x, w)
        assert stacked.shape == (0, 4, 4)
        np.testing.assert_array_equal(last.numpy(), w.numpy())
        assert not np.shares_memory(last.numpy(), w.numpy())
        return
    fast = sg.compile(looped, backend="numpy")
    np.testing.assert_allclose(fast(x, w).numpy(), looped(x, w).numpy(), rtol=1e-5)
    found = fast.grad(x, w, wrt=("x", "w"))
    leaves = [t.clone().requires_grad_() for t in (x, w)]
    for a, b in zip(found, sg.autograd.grad(looped(*leaves), leaves), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_the_source_of_a_loop():
    fast = sg.compile(lambda x, w: sg.scan(lambda c, i: ((c * w + i).tanh(), c.sum()), w, x), backend="numpy")
    fast(*tensors((6, 3), (3,)))
    assert fast.source().splitlines()[5:] == [
        "",
        "    def body(carry, x1):",
        "        v0 = np.tanh(carry * w + x1)",
        "        v1 = np.add.reduce(carry, axis=0)",
        "        return (v0, v1)",
        "    v2 = w",
        "    v3 = np.empty((6,), np.float32)",
        "    for t in range(6):",
        "        v2, v3[t] = body(v2, x[t])",
        "    return (v2.copy(), v3)",
    ]


def test_buffers_of_a_loop_are_in_the_workspace():
    fast = sg.compile(lambda x, w: sg.scan(lambda c, i: (((c @ w) * i).exp().sum(0), c.sum()), w[0], x)[0], backend="numpy")
    x, w = tensors((5, 80, 80), (80, 80))
    x, w = x * 0.01, w * 0.01
    wanted = sg.scan(lambda c, i: (((c @ w) * i).exp().sum(0), c.sum()), w[0], x)[0]
    found = fast(x, w)
    kept = found.numpy().copy()
    np.testing.assert_allclose(kept, wanted.numpy(), rtol=1e-5)
    fast(x * 2, w)
    np.testing.assert_array_equal(found.numpy(), kept)
    assert "out=b0" in fast.source()


def test_a_loop_does_not_carry_a_view_of_a_buffer(large):
    def run(x, w):
        return sg.scan(lambda c, i: (((c @ w).tanh() + i).T, c.sum()), w, x)

    x, w = tensors((4, 5, 5), (5, 5))
    for a, b in zip(sg.compile(run, backend="numpy")(x, w), run(x, w), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


# --- compile()


def tensors(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [sg.tensor(rng.normal(size=s).astype(np.float32)) for s in shapes]


def loss(x, w, y):
    return ((x @ w).tanh() - y).square().sum()


def test_source():
    fast = sg.compile(loss, backend="numpy")
    fast(*tensors((64, 300), (300, 100), (64, 100)))
    assert fast.source() == (
        "import numpy as np\n"
        "\n\n"
        "def workspace():\n"
        '    """Memory for what is computed on the way; of calls at the same time each needs its own."""\n'
        "    return (np.empty((64, 100), np.float32),)\n"
        "\n\n"
        "def forward(x, w, y, buffers=None):\n"
        '    """(x: float32[64, 300], w: float32[300, 100], y: float32[64, 100]) -> float32[]"""\n'
        "    b0, = buffers or workspace()\n"
        "    v0 = np.dot(x, w, out=b0)\n"
        "    v1 = np.tanh(v0, out=v0)\n"
        "    v2 = np.subtract(v1, y, out=v1)\n"
        "    v3 = np.square(v2, out=v2)\n"
        "    return np.add.reduce(v3, axis=(0, 1))\n"
    )
    small = sg.compile(loss, backend="numpy")
    small(*tensors((4, 3), (3, 2), (4, 2)))
    assert small.source("grad", wrt="w").splitlines()[-2:] == [
        "    v0 = np.tanh(x @ w)",
        "    return x.T @ ((1 - v0 * v0) * ((v0 - y) * 2))",
    ]


def test_source_is_a_module_of_its_own():
    arrays = tensors((64, 300), (300, 100), (64, 100))
    fast = sg.compile(loss, backend="numpy")
    wanted = fast(*arrays)
    scope: dict = {}
    exec(fast.source("value_and_grad"), scope)
    value, *gradients = scope["value_and_grad"](*(a.numpy() for a in arrays))
    assert value == wanted.item()
    np.testing.assert_allclose(gradients[1], fast.grad(*arrays, wrt="w").numpy())


def test_source_of_the_other_back_end():
    fast = sg.compile(loss)
    fast(*tensors((4, 3), (3, 2), (4, 2)))
    assert fast.source(backend="numpy").startswith("import numpy as np\n")
    assert fast.source().startswith("import jax.numpy as jnp\n")
    assert fast.source("grad", backend="numpy") != fast.source("grad")
    with pytest.raises(ValueError, match="'numpy'"):
        fast.source(backend="torch")


def test_gradients_of_every_kind():
    x, w, y = tensors((8, 6), (6, 5), (8, 5))
    fast = sg.compile(loss, backend="numpy")
    eager = w.clone().requires_grad_()
    loss(x, eager, y).backward()
    gradient = fast.grad(x, w, y, wrt="w")
    np.testing.assert_allclose(gradient.numpy(), eager.grad.numpy(), rtol=1e-5)
    mine = w.clone().requires_grad_()
    fast(x, mine, y).backward()
    np.testing.assert_allclose(mine.grad.numpy(), eager.grad.numpy(), rtol=1e-5)
    (first,) = sg.autograd.grad(fast(x, mine, y), mine, create_graph=True)
    (second,) = sg.autograd.grad(first.square().sum(), mine)
    (wanted,) = sg.autograd.grad(loss(x, eager, y), eager, create_graph=True)
    (wanted,) = sg.autograd.grad(wanted.square().sum(), eager)
    np.testing.assert_allclose(second.numpy(), wanted.numpy(), rtol=1e-4)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_training_is_what_eager_training_is(name):
    def trained(prepare):
        sg.manual_seed(3)
        net = sg.nn.Sequential(sg.nn.Linear(20, 60), sg.nn.ReLU(), sg.nn.Linear(60, 60), sg.nn.Tanh(), sg.nn.Linear(60, 4))
        options = {"momentum": 0.9, "lr": 0.05} if name == "SGD" else {"lr": 1e-2}
        optimizer = getattr(sg.optim, name)(net.parameters(), **options)

        def step(x, y):
            optimizer.zero_grad()
            value = sg.nn.functional.cross_entropy(net(x), y)
            value.backward()
            optimizer.step()
            return value

        run = prepare(step)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        losses = []
        for i in range(20):
            if i == 10:
                optimizer.param_groups[0]["lr"] *= 0.5
            x, y = sg.tensor(rng.normal(size=(50, 20)).astype(np.float32)), sg.tensor(rng.integers(0, 4, 50))
            losses.append(run(x, y).item())
        return np.array(losses), [p.detach().numpy() for p in net.parameters()], [p.grad.numpy() for p in net.parameters()]

    wanted, found = trained(lambda step: step), trained(lambda step: sg.compile(step, backend="numpy"))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
    for a, b in zip(found[1] + found[2], wanted[1] + wanted[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)


def test_new_state_takes_the_place_of_the_old_without_a_copy():
    """Unless somebody else sees the memory: then the values are copied into it."""
    weight, shared = (sg.tensor(np.ones(5000, np.float32)) for _ in range(2))
    view = shared.numpy()

    @sg.compile(backend="numpy")
    def step(x):
        weight.mul_(x)
        shared.mul_(x)
        return x + 1

    two = sg.tensor(2.0)
    step(two)
    before = [t._array.ctypes.data for t in (weight, shared)]
    step(two)
    assert weight._array.ctypes.data != before[0]
    assert shared._array.ctypes.data == before[1]
    assert weight[0].item() == view[0] == 4


def test_tensors_of_the_other_back_end():
    """What XLA left on its device is an argument like any other."""
    x, w, y = tensors((8, 6), (6, 5), (8, 5))
    there = sg.compile(lambda w: w * 2)(w)
    found = sg.compile(loss, backend="numpy")(x, there, y)
    np.testing.assert_allclose(found.numpy(), loss(x, w * 2, y).numpy(), rtol=1e-5)


PROGRAM = """
import sys
sys.modules["jax"] = None  # every import of it fails
import numpy as np
import symgrad as sg
w = sg.tensor(np.ones((3, 2), np.float32), requires_grad=True)
fast = sg.compile(lambda x, w: (x @ w).tanh().sum(), {options})
x = sg.tensor(np.ones((4, 3), np.float32))
fast(x, w).backward()
optimizer = sg.optim.Adam([w])

@sg.compile({options})
def step(x):
    optimizer.zero_grad()
    loss = (x @ w).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(4):
    step(x)
print(fast.source("vjp").splitlines()[0], fast.value_and_grad(x, w)[0].item() > 0)
assert not any(name.startswith("jaxlib") for name in sys.modules)
"""


def test_jax_is_not_needed():
    def run(options):
        command = [sys.executable, "-P", "-c", PROGRAM.replace("{options}", options)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run('backend="numpy"')
    assert done.stdout == "import numpy as np True\n", done.stderr
    assert "jax" in run("").stderr


# --- auto


def test_auto_measures_both_and_keeps_the_faster(monkeypatch):
    from symgrad.compiler import auto

    taken = {"numpy": 2e-3, "xla": 1e-3}
    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: taken["xla" if kernel.on_device else "numpy"])
    for slower, faster in (("numpy", "xla"), ("xla", "numpy")):
        taken[slower], taken[faster] = 2e-3, 0.5e-3
        fast = sg.compile(loss, backend="auto")
        given = tensors((8, 6), (6, 5), (8, 5))
        np.testing.assert_allclose(fast(*given).numpy(), loss(*given).numpy(), rtol=1e-5)
        kernel = fast._traced().operation.kernel
        assert kernel.choice.backend == faster
        assert kernel.choice.seconds == taken
        assert kernel.on_device == (faster == "xla")
        names = {"numpy": "NumPy", "xla": "XLA"}
        assert str(kernel.choice) == f"{names[faster]}: 500 µs a run, {names[slower]} 2 ms (the fastest of 5 runs each)"
        assert ("jnp" in fast.source()) == (faster == "xla")
        np.testing.assert_allclose(fast(*given).numpy(), loss(*given).numpy(), rtol=1e-5)


def test_auto_goes_on_measuring_at_the_next_call(monkeypatch):
    from symgrad.compiler import auto

    monkeypatch.setattr(auto, "PATIENCE", 0)
    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: 1.0)
    fast = sg.compile(loss, backend="auto")
    given = tensors((8, 6), (6, 5), (8, 5))
    fast(*given)
    kernel = fast._traced().operation.kernel
    assert str(kernel.choice) == "NumPy: both are measured on the first calls"
    monkeypatch.setattr(auto, "PATIENCE", 60)
    fast(*given)
    assert kernel.choice.final
    assert "chosen because  NumPy: 1 s a run, XLA 1 s (the fastest of 5 runs each)" in str(fast.explain())


def test_auto_without_the_other_back_end(monkeypatch):
    from symgrad.compiler.auto import AutoKernel

    x = input_value(0, (3,), np.float32)
    graph = Graph([x], [xp.tanh(x)])

    def missing():
        raise ImportError("No module named 'jax'")

    kernel = AutoKernel(graph, "forward", missing)
    np.testing.assert_array_equal(kernel([np.zeros(3, np.float32)])[0], np.zeros(3))
    assert str(kernel.choice) == "NumPy: XLA cannot run it (No module named 'jax')"


def test_auto_does_not_choose_what_is_wrong():
    from symgrad.compiler.auto import AutoKernel

    x = input_value(0, (3,), np.float32)
    array = np.ones(3, np.float32)
    kernel = AutoKernel(Graph([x], [x * 2]), "forward", lambda: Kernel(Graph([x], [x * 2.1])))
    np.testing.assert_array_equal(kernel([array])[0], [2, 2, 2])
    assert "other numbers" in str(kernel.choice)
    same = AutoKernel(Graph([x], [x * 2]), "forward", lambda: Kernel(Graph([x], [x * 2.0001])))
    same([array])
    assert "other numbers" not in str(same.choice)


@pytest.mark.parametrize("faster", ["numpy", "xla"])
def test_auto_trains(faster, monkeypatch):
    """A step that writes to parameters is measured without writing twice, and goes on with either."""
    from symgrad.compiler import auto

    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: float(kernel.on_device != (faster == "xla")))
    weight = sg.tensor(np.ones((3, 2), np.float32), requires_grad=True)
    optimizer = sg.optim.SGD([weight], lr=0.01, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        value = (x @ weight).square().sum()
        value.backward()
        optimizer.step()
        return value

    compiled = sg.compile(step, backend="auto")
    (x,) = tensors((4, 3))
    found = [compiled(x).item() for _ in range(6)]
    with sg.no_grad():
        weight.fill_(1)
    optimizer.state.clear()
    np.testing.assert_allclose(found, [step(x).item() for _ in range(6)], rtol=1e-4)


def test_auto_in_threads():
    fast = sg.compile(loss, backend="auto")
    given = tensors((8, 6), (6, 5), (8, 5))
    wanted = loss(*given).item()
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.extend(fast(*given).item() for _ in range(20))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len(found) == 80
