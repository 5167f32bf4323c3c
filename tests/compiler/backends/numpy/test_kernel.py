"""The NumPy back end: every row, buffers that nobody sees, types, threads, loops."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from numpy_graphs import random_graph, tensors
from row_graphs import row_graphs

import symgrad as sg
from symgrad.compiler.autodiff.pull import vjp
from symgrad.compiler.backends.numpy import buffers
from symgrad.compiler.backends.numpy.kernel import HostKernel
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.errors import GraphError
from symgrad.ops.kernels import select
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
    kernel = HostKernel(graph)
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
    monkeypatch.setattr(select, "LARGE", min(request.param, select.LARGE))
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
        kernel = HostKernel(graph)
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
    assert len(buffers.MemoryPlan(Graph([x, y], [xp.sum(chain, axis=(0, 1), keepdims=False)])).buffers) == 1
    plan = buffers.MemoryPlan(Graph([x, y], [chain]))
    assert plan.buffers == []
    assert len(set(plan.storage.values())) == 1
    kept = buffers.MemoryPlan(Graph([x, y], [chain * xp.transpose(chain, dim0=0, dim1=1)]))
    assert len(kept.buffers) == 1


def test_small_arrays_have_no_buffers():
    x = input_value(0, (3,), np.float32)
    assert buffers.MemoryPlan(Graph([x], [xp.tanh(x * 2) + 1])).storage == {}


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
    plan = buffers.MemoryPlan(graph)
    assert any(s.rows and s.fresh for s in plan.storage.values())
    check(graph, [np.asfortranarray(np.random.default_rng(i).normal(size=(4, 4))) for i in range(2)])


def test_threads_do_not_share_buffers():
    x, w = input_value(0, (64, 64), np.float64), input_value(1, (64, 64), np.float64)
    h = xp.tanh(x @ w)
    graph = Graph([x, w], [xp.sum(h * xp.exp(h) - xp.sin(h), axis=(0,), keepdims=False), h])
    kernel, alone = HostKernel(graph), HostKernel(graph)
    failed: list[int] = []
    given = [[np.random.default_rng(number).normal(size=(64, 64)) for _ in range(2)] for number in range(8)]
    wanted = [alone(arrays) for arrays in given]  # in one thread

    def work(number):
        for _ in range(200):
            if not all(np.array_equal(a, b) for a, b in zip(kernel(given[number]), wanted[number], strict=True)):
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


# --- forms that are faster than what the graph says


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masks_let_no_nan_and_no_infinity_through(dtype):
    """Bits times 0 are 0, whatever they say; what is kept is kept to the last bit."""
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=(30, 20)).astype(dtype) for _ in range(2))
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-310], dtype)
    x[:8], g[8:16] = special[:, None], special[:, None]
    x[16:24], g[16:24] = np.tile(special, 20).reshape(8, 20), np.repeat(special, 20).reshape(8, 20)
    a, b = (input_value(i, (30, 20), np.dtype(dtype)) for i in range(2))
    relu = xp.relu(a)
    outputs = [xp.where(relu <= 0, 0, b), xp.where(a <= 0, 0, b), xp.where(a > 0, b, 0), xp.where(a <= 0, b, 0), xp.where(relu <= 0, b, 0)]
    found = check(Graph([a, b], outputs), [x, g], tolerance=0)
    r = np.maximum(x, 0)
    wanted = np.where(r <= 0, 0, g), np.where(x <= 0, 0, g), np.where(x > 0, g, 0), np.where(x <= 0, g, 0), np.where(r <= 0, g, 0)
    assert same(found, wanted)


def test_choices_are_written_by_size_and_type():
    x, g = (input_value(i, (100, 100), np.float32) for i in range(2))
    text = HostKernel(Graph([x, g], [xp.where(xp.relu(x) <= 0, 0, g * 2)])).source()
    assert "np.not_equal(" in text
    assert "= masked(" in text
    assert "select(" not in text
    for shape, dtype, word in (((100, 100), np.float64, "masked("), ((100, 100), np.int64, "select("), ((5, 5), np.float32, "np.where(")):
        x, y = (input_value(i, shape, np.dtype(dtype)) for i in range(2))
        assert word in HostKernel(Graph([x, y], [xp.where(x > 0, y, 0)])).source()


@pytest.mark.parametrize("rows", [1, 15, 16, 300, 4096, 4097])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_rows(rows, dtype):
    x = input_value(0, (rows, 3), np.dtype(dtype))
    kernel = HostKernel(
        Graph([x], [xp.sum(x, axis=axis, keepdims=keep) for axis, keep in (((0,), False), ((0,), True), ((1,), False))], ["x"])
    )
    assert ("np.dot(ones, x)" in kernel.source()) == (16 <= rows <= 4096)
    array = np.random.default_rng(rows).normal(size=(rows, 3)).astype(dtype)
    long = array.astype(np.longdouble)
    for found, wanted in zip(kernel([array]), (long.sum(0), long.sum(0, keepdims=True), long.sum(1)), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2 * np.finfo(dtype).eps * np.abs(array).sum(0).max())
    if rows > 1:
        array[0], array[-1] = (np.inf, -np.inf, np.inf), (1, 1, -np.inf)
        np.testing.assert_array_equal(kernel([array])[0], (np.inf, -np.inf, np.nan))


def test_ones_have_one_name_for_each_length_and_type():
    shapes = ((20, 3), np.float32), ((20, 4), np.float32), ((20, 3), np.float64)
    inputs = [input_value(i, shape, np.dtype(dtype)) for i, (shape, dtype) in enumerate(shapes)]
    graph = Graph(inputs, [xp.sum(v, axis=(0,), keepdims=False) for v in inputs], ["ones", "y", "z"])
    text = HostKernel(graph).source()
    assert "import numpy as np\n\nones1 = np.ones(20, np.float32)\nones2 = np.ones(20, np.float64)\n\n\ndef forward(ones, y, z):" in text
    assert all(line in text for line in ("np.dot(ones1, ones)", "np.dot(ones1, y)", "np.dot(ones2, z)"))
    check(graph, [np.ones(v.shape, v.dtype) for v in inputs])


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
    assert "os" not in HostKernel(graph).source()


def test_wrong_arrays_are_refused():
    x = input_value(0, (2,), np.float32)
    kernel = HostKernel(Graph([x], [x * 2], ["weight"]))
    for arrays in ([np.ones(3, np.float32)], [np.ones(2)], []):
        with pytest.raises(GraphError, match=r"takes \(weight: float32\[2\]\), got \("):
            kernel(arrays)


def test_warnings_are_quiet_and_settings_are_kept():
    x = input_value(0, (3,), np.float32)
    kernel = HostKernel(Graph([x], [xp.log(x), 1 / x, xp.sum(1 / x, axis=(0,), keepdims=False) * 0]))
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
    found = HostKernel(graph)([array])
    for a, wanted in zip(found, evaluate(graph, [array]), strict=True):
        np.testing.assert_array_equal(a, wanted)
    assert found[0].flags.owndata
    assert "hostile" not in HostKernel(graph).source()


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
