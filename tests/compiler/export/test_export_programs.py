"""Which functions a file can hold: containers, state, every kind of op and loop; and which it refuses, changing nothing."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
from exported import roundtrip, same

import symgrad as sg
from symgrad.compiler.export import pytree_json
from symgrad.errors import FileError, TraceError

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Point:
    x: sg.Tensor
    y: sg.Tensor


def test_containers(tmp_path):
    def f(batch, pairs, *more, names=("a", None), **others):
        s = batch["x"] + batch["y"][0] + pairs.first * pairs.second + more[0] + others["extra"]
        return {"sum": s, "all": [s * 2, (s.sum(), 5, None)], "pair": Pair(s, -s), 7: "seven"}

    x = sg.ones(2)
    args = {"x": x, "y": [x * 2]}, Pair(x * 3, x * 4), x * 5
    found = roundtrip(f, tmp_path, *args, extra=x)
    result, expected = found(*args, extra=x), f(*args, extra=x)
    assert result.keys() == expected.keys()
    same(result["sum"], expected["sum"])
    same(result["all"][0], expected["all"][0])
    same(result["all"][1][0], expected["all"][1][0])
    assert result["all"][1][1:] == (5, None)
    assert type(result["all"]) is list
    assert result[7] == "seven"
    same(result["pair"].second, expected["pair"].second)
    same(result["pair"][0], expected["pair"].first)
    assert str(result["pair"]).startswith("Pair(first=tensor")
    assert [x.label for x in found.description.arguments] == ["batch.x", "batch.y.0", "pairs.first", "pairs.second", "more.0", "extra"]
    with pytest.raises(TypeError, match=r"^batch: expected a dict with the keys x, y; got the keys x$"):
        found({"x": x}, *args[1:], extra=x)
    with pytest.raises(TypeError, match=r"^batch.y: expected a list of 1, got list of 2$"):
        found({"x": x, "y": [x, x]}, *args[1:], extra=x)
    with pytest.raises(TypeError, match=r"^pairs: expected a Pair, with first, second; got int 3$"):
        found(args[0], 3, x, extra=x)
    with pytest.raises(TypeError, match=r"^batch.y.0: expected float32\[2\], got float32\[3\]"):
        found({"x": x, "y": [sg.ones(3)]}, *args[1:], extra=x)


def test_a_module_brings_its_weights_along(tmp_path):
    sg.manual_seed(0)
    net = sg.nn.Sequential(sg.nn.Linear(3, 4), sg.nn.Tanh(), sg.nn.Linear(4, 2)).double()  # results near zero have few digits in float32
    net[2].bias.requires_grad_(False)
    x = sg.randn(5, 3, dtype=sg.float64)
    found = roundtrip(net, tmp_path, sg.spec((5, 3), dtype=sg.float64))
    assert {label: t.requires_grad for label, t in found.state.items()} == {
        "0.weight": True, "0.bias": True, "2.weight": True, "2.bias": False,
    }  # fmt: skip
    for label, t in net.state_dict().items():
        same(found.state[label], t)
    same(found(x), net(x))
    found(x).square().sum().backward()
    net(x).square().sum().backward()
    same(found.state["0.weight"].grad, net[0].weight.grad)
    assert found.state["2.bias"].grad is None
    with sg.no_grad():
        found.state["0.weight"].zero_()
        net[0].weight.zero_()
    same(found(x), net(x))
    found.state["0.weight"] = sg.ones(4, 4)
    with pytest.raises(TypeError, match=r"^0.weight: expected float64\[4, 3\], got float32\[4, 4\]"):
        found(x)
    del found.state["0.weight"]
    with pytest.raises(KeyError, match=r"the state should have 0.weight, 0.bias"):
        found(x)


def test_state_of_every_dtype(tmp_path):
    sg.manual_seed(0)
    names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()  # noqa: SIM905
    brought = {name: (sg.randn(3, 2) * 3).to(getattr(sg, name)).T for name in names}

    def f(x):
        return {name: x.detach().to(t.dtype) * t for name, t in brought.items()}

    x = sg.tensor([[1.0, 2.0, 0.0]])
    found, expected = roundtrip(f, tmp_path, x)(x), f(x)
    for name in names:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(found[name].numpy(), expected[name].numpy())


def test_constants_keep_every_bit(tmp_path):
    numbers = [0.1, 1 / 3, 1e-300, 5e-324, float("inf"), -0.0, 1.7976931348623157e308, 2.0**0.5]
    f = lambda x: [x * 0 + n if np.isfinite(n) else x + n for n in numbers]
    x = sg.tensor(0.0, dtype=sg.float64)
    eager = [t.item() for t in sg.compile(f)(x)]
    assert [t.item() for t in roundtrip(f, tmp_path, x)(x)] == eager


OPS = {
    "cholesky": lambda a: sg.linalg.cholesky(a @ a.T + sg.eye(3)),
    "solve": lambda a: sg.linalg.solve(a, a.T),
    "eigh": lambda a: sg.linalg.eigh(a + a.T)[0],
    "svd": lambda a: sg.linalg.svd(a)[1],
    "qr": lambda a: sg.linalg.qr(a)[1],
    "slogdet": lambda a: sg.linalg.slogdet(a)[1],
    "erf": lambda a: a.erf(),
    "erfinv": lambda a: (a / 4).erfinv(),
    "digamma": lambda a: (a.abs() + 1).digamma(),
    "lgamma": lambda a: (a.abs() + 1).lgamma(),
    "sort": lambda a: a.sort(1)[0],
    "topk": lambda a: a.topk(2)[0],
    "cumsum": lambda a: a.cumsum(0),
    "cumprod": lambda a: a.cumprod(0),
    "max": lambda a: a.max(0)[0],
    "gather": lambda a: a.gather(0, sg.tensor([[0, 1, 0]])),
    "conv": lambda a: sg.nn.functional.conv2d(a[None, None], a[None, None, :2, :2]),
    "pool": lambda a: sg.nn.functional.max_pool2d(a[None, None], 2),
    "roll": lambda a: a.roll(1, 0).flip(1),
    "softmax": lambda a: a.softmax(1).log(),
    "einsum": lambda a: sg.einsum("ij,jk->ik", a, a),
}
FAST = {"cholesky", "solve", "erf", "topk"}  # what calls code by name, and what needs more than StableHLO


@pytest.mark.parametrize("op", [pytest.param(op, id=name, marks=() if name in FAST else pytest.mark.slow) for name, op in OPS.items()])
def test_ops(tmp_path, op):
    sg.manual_seed(1)
    x = sg.randn(3, 3, dtype=sg.float64, requires_grad=True)
    found = roundtrip(op, tmp_path, x)(x)
    np.testing.assert_allclose(found.detach().numpy(), op(x).detach().numpy(), rtol=1e-9, atol=1e-12)
    found.sum().backward()
    mine, x.grad = x.grad, None
    op(x).sum().backward()
    np.testing.assert_allclose(mine.numpy(), x.grad.numpy(), rtol=1e-8, atol=1e-11)


LOOPS = {
    "scan": lambda x: sg.scan(lambda c, r: (c * r + r, c.sin()), x[0], x)[0],
    "while": lambda x: sg.while_loop(lambda c: c.sum() < 20, lambda c: c * 2, x.abs() + 0.1, max_steps=20),
    "for": lambda x: sg.fori_loop(0, 5, lambda i, c: c.sin() + x, x),
    "cond": lambda x: sg.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 3, x),
}


@pytest.mark.parametrize("op", [pytest.param(op, id=name, marks=() if name == "scan" else pytest.mark.slow) for name, op in LOOPS.items()])
def test_loops(tmp_path, op):
    test_ops(tmp_path, op)


def test_functions_from_jax(tmp_path):
    """Their program is in the file, and JAX's function is not needed any more."""
    import jax.numpy as jnp

    test_ops(tmp_path, sg.from_jax(lambda x: jnp.sinc(x) @ x))


def test_results_without_derivatives(tmp_path):
    found = roundtrip(lambda x: (x.argmax(), x > 0, x * 2), tmp_path, sg.spec(4))
    x = sg.tensor([1.0, -2.0, 3.0, 0.0], requires_grad=True)
    place, positive, double = found(x)
    assert place.item() == 2
    assert positive.tolist() == [True, False, True, False]
    double.sum().backward()
    assert x.grad.tolist() == [2.0] * 4
    with pytest.raises(ValueError, match="only a function with one floating-point number as its result has a gradient"):
        found.grad(x)
    whole = roundtrip(lambda n: n + 1, tmp_path, sg.spec(3, sg.int64))
    assert whole(sg.arange(3)).tolist() == [1, 2, 3]
    assert list(whole.description.programs()) == ["forward"]


def test_what_no_result_has_a_slope_in_gets_no_gradient(tmp_path):
    found = roundtrip(lambda a, x, unused: a.detach() * x, tmp_path, sg.spec(3), sg.spec(3), sg.spec(3))
    a, x, unused = (sg.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(3))
    found(a, x, unused).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    assert a.grad is None
    assert unused.grad is None


def test_gradients_in_whole_numbers_are_refused(tmp_path):
    found = roundtrip(lambda x, n: (x * n).sum(), tmp_path, sg.spec(3), sg.spec(3, sg.int64))
    with pytest.raises(ValueError, match=r"n is int64\[3\]: only floating-point inputs have a derivative"):
        found.grad(sg.ones(3), sg.arange(3), wrt="n")
    assert found.grad(sg.ones(3), sg.arange(3), wrt="x").tolist() == [0.0, 1.0, 2.0]


def test_numbers_for_tensors_without_dimensions(tmp_path):
    found = roundtrip(lambda x, k, flag: sg.where(flag, x * k, x), tmp_path, sg.spec(()), sg.spec((), sg.int64), sg.spec((), sg.bool))
    assert found(2.5, 2, True).item() == 5.0
    assert found(3, 2, False).item() == 3.0
    with pytest.raises(TypeError, match=r"^k: expected int64\[\], got float 2.5"):
        found(2.5, 2.5, True)


def test_floats_are_inputs(tmp_path):
    def f(x, k):
        return (x * k).sin().sum()

    x = sg.ones(3)
    found, fast = roundtrip(f, tmp_path, x, 0.5), sg.compile(f)
    for k in (0.5, 2.0):
        same(found(x, k), f(x, k))
        same(found.grad(x, k)[0], fast.grad(x, k)[0])
    assert len(found.grad(x, 2.0)) == 1
    same(found.grad(x, 2.0, wrt="k"), fast.grad(x, 2.0, wrt="k"))


def test_a_way_that_depends_on_a_float_is_refused(tmp_path):
    def f(x, k):
        return x * k if k > 0 else x

    fast = sg.compile(f)
    with pytest.raises(TraceError, match=r"export_programs.py:\d+: f goes by its argument, k > 0, and a file holds one way only: compile"):
        fast.export(tmp_path / "f.sgx", sg.ones(3), 2.0)
    fast(sg.ones(3), 2.0)
    with pytest.raises(TraceError, match="a file holds one way only"):
        fast.export(tmp_path / "f.sgx")
    sg.compile(f, static="k").export(tmp_path / "f.sgx", sg.ones(3), 2.0)
    found = sg.load_compiled(tmp_path / "f.sgx")
    assert found(sg.ones(3), 2.0).tolist() == found(sg.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(TypeError, match=r"^k: it is part of the program, as 2.0; got float 3.0"):
        found(sg.ones(3), 3.0)


def test_dataclasses(tmp_path):
    found = roundtrip(lambda p: Point(p.y, p.x * 2), tmp_path, Point(sg.spec(2), sg.spec(2)))
    result = found(Point(sg.ones(2), sg.zeros(2)))
    assert result.x.tolist() == [0.0, 0.0]
    assert result.y.tolist() == [2.0, 2.0]
    assert [x.label for x in found.description.arguments] == ["p.x", "p.y"]


def test_objects_as_arguments_are_part_of_the_program(tmp_path):
    found = roundtrip(lambda activation, x: activation(x), tmp_path, sg.tanh, sg.spec(3))
    assert found(x=sg.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(TypeError, match=r"activation: this argument is part of the program.*leave it out"):
        found(sg.sin, sg.zeros(3))


def test_functions_with_effects_are_refused_and_nothing_changes(tmp_path):
    sg.manual_seed(0)
    net, total = sg.nn.Linear(3, 1), sg.zeros(())
    optimizer = sg.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        result = net(x).square().sum()
        result.backward()
        optimizer.step()
        return result

    def adds(x):
        total.add_(x.sum())
        return total * 1

    def draws(x):
        return sg.rand(3), sg.rand(3)

    def branches(x):
        return x * 2 if x.sum() > 0 else x

    before, state = net.weight.detach().clone(), sg.get_rng_state()
    for f, args in ((step, (sg.ones(2, 3),)), (adds, (sg.ones(3),)), (draws, (sg.ones(3),)), (branches, (sg.ones(3),))):
        with pytest.raises(
            TraceError, match=rf"export_programs.py:\d+: .*Files hold functions of their arguments, and {f.__name__} does more"
        ):
            sg.compile(f).export(tmp_path / "f.sgx", *args)
    fast = sg.compile(step)
    assert net.weight.tolist() == before.tolist()
    assert net.weight.grad is None
    assert total.item() == 0
    assert sg.get_rng_state().tolist() == state.tolist()
    fast(sg.ones(2, 3))
    fast(sg.ones(2, 3))
    with pytest.raises(TraceError, match="step has effects"):
        fast.export(tmp_path / "f.sgx")
    assert not list(tmp_path.iterdir())


def test_a_step_as_a_function_of_its_state_is_exported(tmp_path):
    def step(w, x, y):
        value, g = sg.func.grad_and_value(lambda w: (x @ w - y).square().mean())(w)[::-1]
        return w - 0.1 * g, value

    sg.manual_seed(0)
    w, x, y = sg.zeros(3), sg.randn(8, 3), sg.randn(8)
    found, eager = roundtrip(step, tmp_path, w, x, y), w
    for _ in range(5):
        w, value = found(w, x, y)
        eager, expected = step(eager, x, y)
    same(value, expected)
    np.testing.assert_allclose(w.numpy(), eager.numpy(), rtol=1e-5)


def test_a_result_that_no_file_holds(tmp_path):
    with pytest.raises(TraceError, match=r"export_programs.py:\d+: the result\[1\] is object"):
        sg.compile(lambda x: (x, object())).export(tmp_path / "f.sgx", sg.ones(3))
    with pytest.raises(TraceError, match="the result has set in it, which no file holds"):
        pytree_json.encode((pytree_json.LEAF, {1}), fixed=False)
    assert not list(tmp_path.iterdir())


def test_a_callback_of_this_process_is_not_exported(tmp_path):
    """A row of a user's whose lowering calls back into Python."""
    from symgrad.compiler.export.writer import stablehlo
    from symgrad.compiler.ir.graph import Graph, application, input_value
    from symgrad.errors import GraphError
    from symgrad.ops.spec import Meta
    from symgrad.ops.table import TABLE

    call = "jax.pure_callback(jnp.sin, {0}, {0})"
    row = dataclasses.replace(TABLE["sin"], name="python", jax=lambda x: call.format(x), elementwise=True)
    x = input_value(0, (3,), np.float32)
    graph = Graph([x], [application(row, (x,), {}, Meta((3,), np.dtype(np.float32)))])
    with pytest.raises(GraphError, match="forward cannot be exported"):
        stablehlo(graph, "forward")


def test_what_could_not_be_loaded_is_not_written(tmp_path, monkeypatch):
    from symgrad.compiler.export import lapack_calls

    monkeypatch.setattr(lapack_calls, "_FORMS", {})
    with pytest.raises(FileError, match="calls code by the name 'lapack_spotrf_ffi'"):
        sg.compile(OPS["cholesky"]).export(tmp_path / "f.sgx", sg.spec((3, 3)))
    assert not list(tmp_path.iterdir())


def test_arguments_may_be_written_to_after_a_call(tmp_path):
    """XLA reads NumPy's memory, and may still do so when a call has returned."""
    found = roundtrip(lambda x: x @ x @ x, tmp_path, sg.spec((300, 300)))
    for _ in range(30):
        x = np.ones((300, 300), np.float32)
        result = found(x)
        x[:] = 7
        assert (result == 90_000).all()


def test_long_programs_have_their_graph_in_place_of_a_formula(tmp_path):
    def f(x):
        for i in range(160):
            x = x.sin() if i % 2 else x.cos()
        return x

    found = roundtrip(f, tmp_path, sg.spec(()))
    assert found.formula() == found.graph()
    assert found.formula("latex") == ""


def test_several_results_have_a_formula_each(tmp_path):
    found = roundtrip(lambda x, y: (x @ y, x.sin()), tmp_path, sg.spec(3), sg.spec(3))
    assert found.formula() == "f_0(x, y) = xᵀ y\nf_1(x, y) = sin(x)"


def test_structures_go_through_json():
    tree = {"a": [pytree_json.LEAF, (1, True, None, "x", float("nan"), -0.0, 2**70)], 3: Pair(pytree_json.LEAF, {})}
    node = pytree_json.encode(tree, fixed=False)
    pytree_json.check(node, 2)
    built = pytree_json.build(node, ["first", "second"])
    assert built["a"][0] == "first"
    assert str(built["a"][1]) == "(1, True, None, 'x', nan, -0.0, 1180591620717411303424)"
    assert built[3].first == "second"
    assert built[3].second == {}


def test_floats_that_are_part_of_a_program_are_compared_by_their_bits():
    node = pytree_json.encode((-0.0, float("nan")), fixed=True)
    pytree_json.match(node, (-0.0, -float("nan")), "k", [])
    with pytest.raises(TypeError, match=r"^k.0: it is part of the program, as -0.0; got float 0.0"):
        pytree_json.match(node, (0.0, float("nan")), "k", [])
