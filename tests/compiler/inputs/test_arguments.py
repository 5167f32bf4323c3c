"""What compile() makes of arguments: containers, Python numbers, arrays of other libraries, and what is part of the program."""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from interpreter_backend import interpret

import symgrad as sg
from symgrad.errors import TraceError


@pytest.fixture(autouse=True)
def _kernels(request, monkeypatch):
    if request.function not in THROUGH_XLA:
        interpret(monkeypatch)


def counted(function, **options):
    """The compiled function, and a list that grows with every trace."""
    runs: list[int] = []

    def f(*args, **kwargs):
        runs.append(1)
        return function(*args, **kwargs)

    f.__signature__ = __import__("inspect").signature(function)
    f.__name__ = function.__name__
    return sg.compile(f, **options), runs


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6 if a.dtype == sg.float32 else 1e-13)


# containers


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Batch:
    x: Any
    weight: float = 1.0
    name: str = "train"
    parts: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.x.sum()


@dataclasses.dataclass(frozen=True)
class Frozen:
    pair: Pair
    depth: int


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_containers_of_every_kind_in_and_out(dtype):
    def f(batch, frozen, table):
        total = batch.total() * batch.weight + batch.parts[0]
        assert type(batch) is Batch
        assert isinstance(table, collections.OrderedDict)
        out = Frozen(Pair(total, frozen.pair.x * frozen.depth), frozen.depth)
        return {"frozen": out, "batch": Batch(total * 2, 0.5, batch.name, [table["a"]]), "table": collections.OrderedDict(b=table["a"] + 1)}

    fast, runs = counted(f)
    for seed in range(3):
        x, y, z = (sg.tensor(np.random.default_rng(seed + i).normal(size=3), dtype=dtype, requires_grad=True) for i in range(3))
        args = Batch(x, 1.5 + seed, "test", [z.sum()]), Frozen(Pair(y, None), 3), collections.OrderedDict(a=z)
        found, wanted = fast(*args), f(*args)
        assert type(found["frozen"]) is Frozen
        assert type(found["frozen"].pair) is Pair
        assert found["frozen"].depth == 3
        assert type(found["table"]) is collections.OrderedDict
        assert (found["batch"].name, found["batch"].weight) == ("test", 0.5)
        same(found["frozen"].pair.x, wanted["frozen"].pair.x)
        same(found["frozen"].pair.y, wanted["frozen"].pair.y)
        same(found["batch"].x, wanted["batch"].x)
        same(found["batch"].parts[0], z)
        same(found["table"]["b"], wanted["table"]["b"])
        found["batch"].x.backward()
        same(x.grad, sg.full((3,), 2 * (1.5 + seed), dtype=dtype))
    assert len(runs) == 1
    fast(Batch(x, 1.0, "other", [z.sum()]), args[1], args[2])
    fast(args[0], Frozen(Pair(y, None), 4), args[2])
    assert len(runs) == 3


@dataclasses.dataclass(frozen=True)
class Scaled:
    x: Any
    rate: float


def test_a_number_that_comes_in_goes_out_again_in_any_container():
    fast = sg.compile(lambda s: [Scaled(s.x * s.rate, s.rate * 2), Pair(s.x + s.rate, s.rate)])
    for rate in (1.5, 2.5, 1.5):
        found, pair = fast(Scaled(sg.ones(2), rate))
        assert (type(found), found.rate, pair.y) == (Scaled, 2 * rate, rate)
        assert found.x.tolist() == [rate, rate]
        assert pair.x.tolist() == [1 + rate, 1 + rate]


def test_an_argument_may_have_any_name():
    fast = sg.compile(lambda *xs, **named: (sum(xs) + sum(named.values())).sum())
    x = sg.ones(2)
    assert fast(x, self=x, args=x).item() == 6
    assert fast.grad(x, self=x, wrt="self").tolist() == [1, 1]


def test_names_of_leaves_are_paths():
    fast = sg.compile(lambda batch, *rest, **more: batch.x + batch.parts[0] + rest[0]["a"] + more["z"])
    one = sg.ones(2)
    fast(Batch(one, parts=[one]), {"a": one}, z=one)
    assert fast.graph().labels == ("batch.x", "batch.weight", "batch.parts.0", "rest.0.a", "z")


def test_keyword_and_default_arguments():
    def f(x, /, y, n=2, *rest, scale=0.5, shift=None, **more):
        result = x * n + y * scale
        for r in (*rest, *more.values()):
            result = result + r
        return result if shift is None else result - shift

    fast, runs = counted(f)
    x, y, z = sg.ones(3), sg.tensor([1.0, 2.0, 3.0]), sg.tensor([5.0, 6.0, 7.0])
    same(fast(x, y), f(x, y))
    same(fast(x, y=y), f(x, y))
    assert len(runs) == 1
    same(fast(x, y, scale=0.25), f(x, y, scale=0.25))
    same(fast(x, y, scale=0.125), f(x, y, scale=0.125))
    assert len(runs) == 2  # a default that is left out is part of the program, one that is given is an input
    same(fast(x, y, 3, z, z, shift=z, other=x), f(x, y, 3, z, z, shift=z, other=x))


def test_a_tensor_as_default_is_an_input():
    default = sg.ones(3)
    fast = sg.compile(lambda x, y=default: x + y)
    x = sg.zeros(3)
    for n in range(3):
        assert fast(x).tolist() == [n + 1] * 3
        default += 1


def test_a_container_that_the_function_changes_is_refused():
    def pops(batch):
        return batch.pop("x") * 2

    def replaces(batch):
        batch["x"] = batch["x"] + 1
        return batch["x"]

    def sets(batch):
        batch["record"].depth = 5
        return batch["x"] * 2

    x = sg.ones(2)
    for f in (pops, replaces, sets):
        batch = {"x": x, "record": Batch(x)}
        with pytest.raises(TraceError, match=r"changes .* in a container among its arguments"):
            sg.compile(f)(batch) if f is not sets else _deep(f)(batch)
        assert batch["x"] is x


def _deep(f):
    def g(batch):
        batch["record"].name = "changed"
        return batch["x"] * 2

    return sg.compile(g)


# Python numbers


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64, sg.int64, sg.bool, sg.complex64, sg.float16])
def test_a_float_is_an_input_without_a_type_of_its_own(dtype):
    def f(x, s):
        return x * s, s - (x.to(sg.float32) if not x.is_complex() else x), x + (1 + 2 * s) / 4 - abs(-s) ** 1.5

    fast, runs = counted(f)
    x = sg.tensor([1, 0, 3]).to(dtype)
    for s in (2.5, -0.1, 1e-3, np.float64(0.7), np.float32(0.1), 3.0):
        for found, wanted in zip(fast(x, s), f(x, float(s)), strict=True):
            assert found.dtype == wanted.dtype
            half = dtype == sg.float16
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-3 if half else 1e-6, atol=1e-3 if half else 0)
    assert len(runs) == 1


def test_a_float_beside_a_number_without_dimensions():
    fast, runs = counted(lambda x, s: x * s)
    for dtype in (sg.float32, sg.float64, sg.int32):
        x = sg.tensor(3, dtype=dtype)
        same(fast(x, 0.3), x * 0.3)
        same(fast(x, 0.4), x * 0.4)
    assert len(runs) == 3


def test_complex_numbers():
    def f(x, s):
        return x * s + (s * s - 1) - 2 * s

    fast, runs = counted(f)
    x = sg.tensor([1.0, 2.0])
    for s in (1 + 2j, -0.5j):
        same(fast(x, s), f(x, s))
    assert len(runs) == 1


def test_floats_in_containers():
    fast, runs = counted(lambda p: p["x"] * p["rates"][0] + p["rates"][1])
    x = sg.tensor([1.0, 2.0])
    for a, b in ((0.5, 0.25), (2.0, 3.0)):
        same(fast({"x": x, "rates": (a, b)}), x * a + b)
    assert len(runs) == 1


LOOKS = {  # what Python does with a float besides arithmetic: the result must be that of eager code, whatever comes next
    "math": lambda x, s: x * math.sin(s),
    "sqrt": lambda x, s: x * math.sqrt(abs(s)),
    "text": lambda x, s: x * len(f"{s}") + len(str(s)) + len(("%g",)[0] % s),
    "compared": lambda x, s: x * s if s > 0 else x - s,
    "both ways": lambda x, s: x * s if -0.5 < s <= 1 else x - s,
    "truth": lambda x, s: x * 2 if s else x * 3,
    "int": lambda x, s: x * int(s),
    "rounded": lambda x, s: x * round(s) + math.floor(s) - math.ceil(s) + math.trunc(s),
    "digits": lambda x, s: x * round(s, 1),
    "range": lambda x, s: sum((x * i for i in range(int(abs(s)))), x),
    "remainder": lambda x, s: x * (s % 0.7) + s // 0.7 + divmod(s, 0.3)[1] + 5 % (abs(s) + 1),
    "largest": lambda x, s: x * max(s, 0.5) + min(s, 1),
    "isinstance": lambda x, s: x * s if isinstance(s, float) else x,
    "type": lambda x, s: x * s if type(s) is not str else x,
    "nan": lambda x, s: x if math.isnan(s) else x * math.copysign(2, s),
    "numpy": lambda x, s: x * float(np.sin(s)) + float(np.asarray(s) * 2),
    "array": lambda x, s: x + sg.tensor(np.array([1.0, 2.0, 3.0]) * s).float(),
    "tensor": lambda x, s: x * sg.tensor(s) + sg.full((3,), s),
    "power": lambda x, s: x**s + (x + 1) ** abs(s),
    "root": lambda x, s: x + abs(s**0.5),
    "attribute": lambda x, s: x.clamp(min=s) + x.clamp(-abs(s), abs(s)) + sg.nn.functional.leaky_relu(x - 2, abs(s)),
    "hash": lambda x, s: x * {2.5: 7}.get(s, 3),
    "method": lambda x, s: x * (2 if s.is_integer() else 3) + s.real,
    "equality": lambda x, s: x if s == 2.5 or s != -1.0 else x * 2,
    "with others": lambda x, s: x if s == "text" or s is None or s in (1.0, 3.0) else x * 2,
    "copy": lambda x, s: x * copy.copy(s) + copy.deepcopy([s])[0],
    "alpha": lambda x, s: sg.add(x, x, alpha=s) + x.lerp(x + 1, s),
    "sum": lambda x, s: x * sum([s, s, 1]),
    "lists": lambda x, s: x + sg.tensor([s, 1.0, 2.0]),
}


@pytest.mark.parametrize("name", LOOKS)
def test_whatever_python_does_with_a_float_is_right_for_the_next_one(name):
    f = LOOKS[name]
    fast = sg.compile(f)
    x = sg.tensor([1.0, 2.0, 3.0])
    for s in (2.5, 1.0, 2.5, -1.5, 0.0, -0.0, 3.0):
        same(fast(x, s), f(x, s))


def test_comparisons_make_two_programs_and_values_one_each():
    fast, runs = counted(LOOKS["compared"])
    for s in (1.0, 2.0, -1.0, -2.0, 3.0):
        fast(sg.ones(2), s)
    assert len(runs) == 2
    fast, runs = counted(LOOKS["math"])
    for s in (1.0, 2.0, 1.0, 2.0):
        fast(sg.ones(2), s)
    assert len(runs) == 2


def test_python_refuses_what_it_refuses_eagerly():
    fast = sg.compile(lambda x, s: x / (1 / s) + 10**s)
    fast(sg.ones(2), 2.0)
    with pytest.raises(ZeroDivisionError):
        fast(sg.ones(2), 0.0)
    with pytest.raises(OverflowError):
        fast(sg.ones(2), 1e10)
    root = sg.compile(lambda x, s: x * (s**0.5))
    assert root(sg.ones(2), 4.0).dtype == sg.float32
    assert root(sg.ones(2), -4.0).dtype == sg.complex64
    with pytest.raises(TypeError):
        sg.compile(lambda x, s: x * len(range(s)))(sg.ones(2), 3.0)


def test_gradients_in_tensors_beside_floats():
    fast, runs = counted(lambda x, s: (x * s).sum() + s if s > 0 else (x * x * s).sum())
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    for s in (3.0, 4.0, -2.0, -3.0):
        wanted = [s, s] if s > 0 else [2 * s, 4 * s]
        y = fast(x, s)
        x.grad = None
        y.backward()
        assert x.grad.tolist() == wanted
        assert fast.grad(x, s)[0].tolist() == wanted
        assert fast.grad(x, s, wrt="x").tolist() == wanted
        assert fast.grad(x, s, wrt="s").item() == (4.0 if s > 0 else 5.0)
    assert len(runs) == 4  # two paths, in which s requires grad or does not


def test_floats_in_training_steps():
    def make():
        w = sg.tensor([1.0, -2.0], requires_grad=True)

        def step(x, rate, momentum=0.5):
            loss = (w * x).square().sum() * momentum
            loss.backward()
            with sg.no_grad():
                w.sub_(w.grad * rate)
            w.grad = None
            return loss

        return w, step

    (w, step), (v, eager) = make(), make()
    fast, runs = counted(step)
    for i in range(5):
        x = sg.tensor([1.0, 0.5 + i])
        same(fast(x, 0.1 / (i + 1)), eager(x, 0.1 / (i + 1)))
        same(w, v)
    assert len(runs) == 1


def test_static_floats_and_dynamic_ints():
    fast, runs = counted(lambda x, s: x * s, static="s")
    for s in (1.5, 2.5, 1.5):
        same(fast(sg.ones(2), s), sg.ones(2) * s)
    assert len(runs) == 2
    assert fast.graph().labels == ("x",)

    def f(x, n):
        return x * n + (n + 1) / 4 - n * n

    for dtype in (sg.float32, sg.int32, sg.float64):
        fast, runs = counted(f, dynamic=["n"])
        x = sg.tensor([1, 2], dtype=dtype)
        for n in (2, 3, -7, 10**6):
            same(fast(x, n), f(x, n))
        assert len(runs) == 1
    fast, runs = counted(lambda x, n: sg.stack([x] * n).sum(0) if n > 2 else x[:n], dynamic="n")
    for n in (1, 3, 3, 1, 4):
        assert fast(sg.ones(3), n).tolist() == ([n] * 3 if n > 2 else [1] * n)
    assert len(runs) == 3


def test_ints_bools_strings_and_none_are_part_of_the_program():
    def f(x, n, flag, word, nothing):
        return x * n if flag and word == "a" and nothing is None else x

    fast, runs = counted(f)
    x = sg.ones(2)
    first = 2, True, "a", None
    for args in (first, first, (3, True, "a", None), (3, False, "a", None), (3, True, "b", None), (3, 1, "a", 0)):
        same(fast(x, *args), f(x, *args))
    assert len(runs) == 5


def test_other_objects_are_part_of_the_program_by_value_or_by_identity():
    class Plain:
        def __init__(self, n):
            self.n = n

    class Listed(Plain):
        def __eq__(self, other):
            return True

    fast, runs = counted(lambda x, o: x * o.n)
    x = sg.ones(2)
    one = Plain(1)
    assert [fast(x, o)[0].item() for o in (one, one, Plain(2))] == [1, 1, 2]
    assert len(runs) == 2
    for n in range(20):  # unhashable, all equal, and gone at once: none may be taken for another
        assert fast(x, Listed(n))[0].item() == n
    fast, runs = counted(lambda x, f: f(x))
    assert [fast(x, f)[0].item() for f in (sg.exp, sg.log, sg.exp)] == pytest.approx([math.e, 0, math.e])
    assert len(runs) == 2


def test_arrays_of_numpy_and_jax():
    import jax.numpy as jnp

    fast, runs = counted(lambda x, y: (x * y).sum())
    a = np.array([1.0, 2.0, 3.0], np.float32)
    for x in (sg.tensor(a), a, jnp.asarray(a), np.asarray(jnp.asarray(a))):
        assert fast(x, {"w": x}["w"]).item() == 14
    assert len(runs) == 1  # the same memory twice, whichever object leads to it
    assert sg.compile(lambda b: b["x"] * 2)({"x": jnp.ones(2)}).tolist() == [2, 2]

    @sg.compile
    def writes(x):
        x += 1
        return x

    with pytest.raises(RuntimeError, match="read-only"):
        writes(jnp.ones(2))


def test_arrays_of_other_types_are_refused_and_bytes_put_in_order():
    double = sg.compile(lambda batch: batch["x"] * 2)
    for array in (np.array(["a"]), np.array([None, 1]), np.ones(2, np.uint16), np.ones(2, np.longdouble)):
        with pytest.raises(TypeError, match=r"batch is or has ndarray.*no type of tensors: pass an array of float64"):
            double({"x": array})
    assert double({"x": np.array([1.0, 2.0], ">f4")}).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="read-only"):
        sg.compile(lambda x: x.add_(1))(np.ones(2, ">f8"))


@pytest.mark.peer
def test_tensors_of_other_libraries_are_refused():
    import torch

    with pytest.raises(TypeError, match="from_dlpack"):
        sg.compile(lambda x: x * 2)(torch.ones(2))


def test_names_in_options():
    def f(x, scale, count):
        return x

    with pytest.raises(ValueError, match=r"static='scal'.*did you mean 'scale'"):
        sg.compile(f, static="scal")
    with pytest.raises(ValueError, match=r"dynamic='zzz'.*its arguments are x, scale, count"):
        sg.compile(f, dynamic=("count", "zzz"))
    with pytest.raises(ValueError, match="static and in dynamic"):
        sg.compile(f, static="count", dynamic="count")
    with pytest.raises(TypeError, match=r"static='x'.*tensors are always inputs"):
        sg.compile(f, static="x")(sg.ones(2), 1.0, 1)
    sg.compile(lambda x, **more: x, static="anything")(sg.ones(2), anything=2.0)


def test_requires_grad_of_arguments_and_recording_are_part_of_the_program():
    def f(x):
        return x * 2 if x.requires_grad else x * (3 if sg.is_grad_enabled() else 4)

    fast = sg.compile(f)
    x = sg.ones(2)
    for _ in range(2):
        assert fast(x).tolist() == [3, 3]
        assert fast(x.clone().requires_grad_()).tolist() == [2, 2]
        with sg.no_grad():
            assert fast(x).tolist() == [4, 4]
            assert fast(x.clone().requires_grad_()).tolist() == [2, 2]


def test_whole_numbers_of_tensors_are_asked_again():
    fast, runs = counted(lambda x, n: x[: int(n)] * 2 if n.ndim else x * [10, 20, 30][n])
    x = sg.tensor([1.0, 2.0, 3.0])
    for n in (1, 2, 1):
        assert len(fast(x, sg.tensor([n]))) == n
        assert fast(x, sg.tensor(n)).tolist() == [10 * (n + 1) * v for v in (1, 2, 3)]
    assert len(runs) == 4


THROUGH_XLA = (
    test_a_float_is_an_input_without_a_type_of_its_own, test_complex_numbers, test_floats_in_training_steps,
    test_gradients_in_tensors_beside_floats, test_arrays_of_numpy_and_jax,
)  # fmt: skip


def test_a_float_leaves_other_objects_their_reflected_operators():
    class Scale:
        def __rmul__(self, number):
            return number + 3

    fast = sg.compile(lambda x, rate: x * (rate * Scale()))
    np.testing.assert_array_equal(fast(sg.ones(2), 0.5).numpy(), [3.5, 3.5])
    np.testing.assert_array_equal(fast(sg.ones(2), 1.5).numpy(), [4.5, 4.5])
    with pytest.raises(TypeError):
        fast(sg.ones(2), None)


@pytest.mark.parametrize("make", [list, tuple, lambda v: {str(i): x for i, x in enumerate(v)}], ids=["list", "tuple", "dict"])
def test_many_python_numbers_in_a_container_are_a_warning(make):
    total = sg.compile(lambda x, w: x * sum(w.values() if isinstance(w, dict) else w), backend="numpy")
    few, many = make([0.5] * 32), make([0.5] * 33)
    assert total(sg.ones(1), few).item() == 16
    with pytest.warns(UserWarning, match=r"argument w of .* has 33 Python numbers.* pass sg.tensor\(list\)") as caught:
        assert total(sg.ones(1), many).item() == 16.5
    assert total(sg.ones(2), many).tolist() == [16.5, 16.5]
    assert len(caught) == 1


def test_many_integers_or_a_tensor_of_a_list_are_no_warning():
    total = sg.compile(lambda x, w: x * sum(w), backend="numpy")
    assert total(sg.ones(1), [2] * 100).item() == 200
    assert sg.compile(lambda x, w: x * w.sum(), backend="numpy")(sg.ones(1), sg.tensor([0.5] * 100)).item() == 50
