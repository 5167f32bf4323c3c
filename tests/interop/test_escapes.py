"""Every way by which a number can leave a tensor of a traced function: recorded, guarded, or refused with the line. None is silent."""

from __future__ import annotations

import array
import concurrent.futures
import copy
import ctypes
import io
import json
import math
import pickle
import statistics
import struct
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd.graph import saved_tensors_hooks

HERE = r"test_escapes\.py:\d+: "


def total(x, number):
    return (x * number).sum()


def unpickled(x):
    return total(x, pickle.loads(pickle.dumps(x)))


def saved(x):
    file = io.BytesIO()
    sg.save({"x": x}, file)
    return x.sum()


def saved_by_numpy(x):
    np.save(io.BytesIO(), x)
    return x.sum()


def put_into_an_array(x):
    values = np.zeros(3)
    values[0] = x[0]
    return total(x, sg.from_numpy(values))


def added_to_an_array(x):
    values = np.zeros(3)
    values += x
    return total(x, sg.from_numpy(values))


def written_by_numpy(x):
    values = np.zeros(3)
    np.multiply(x, 2, out=values)
    return total(x, sg.from_numpy(values))


def copied_by_numpy(x):
    values = np.zeros(3)
    np.copyto(values, x)
    return total(x, sg.from_numpy(values))


def computed_elsewhere(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return total(x, pool.submit(lambda: x * 2).result())


def read_elsewhere(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return total(x, pool.submit(lambda: (x * 1)[0].item()).result())


REFUSED = {
    "a thread": computed_elsewhere,
    "a number in a thread": read_elsewhere,
    "float": lambda x: total(x, float(x.sum())),
    "complex": lambda x: total(x, complex(x.sum())),
    "item": lambda x: total(x, x.sum().item()),
    "tolist": lambda x: total(x, sg.tensor(x.tolist())),
    "numpy": lambda x: total(x, sg.from_numpy(x.numpy())),
    "numpy of detach": lambda x: total(x, sg.from_numpy(x.detach().numpy())),
    "numpy of data": lambda x: total(x, sg.from_numpy(x.data.numpy(force=True))),
    "asarray": lambda x: total(x, np.asarray(x)),
    "array": lambda x: total(x, np.array([x, x])),
    "array of objects": lambda x: total(x, np.array([x[0], x[1], x[2]], dtype=object).astype(float)),
    "ascontiguousarray": lambda x: total(x, np.ascontiguousarray(x)),
    "__array__": lambda x: total(x, x.__array__()),
    "np.float64": lambda x: total(x, np.float64(x.sum())),
    "np.fromiter": lambda x: total(x, np.fromiter(x, float)),
    "np.vectorize": lambda x: total(x, np.vectorize(math.sin)(x)),
    "np.frompyfunc": lambda x: total(x, np.frompyfunc(math.sin, 1, 1)(x)),
    "np.random": lambda x: total(x, np.random.default_rng(0).normal(x)),
    "np.arange": lambda x: total(x, np.arange(x[0], x[0] + 3)[:3]),
    "an item of an array": put_into_an_array,
    "array += tensor": added_to_an_array,
    "out=": written_by_numpy,
    "copyto": copied_by_numpy,
    "dlpack": lambda x: total(x, np.from_dlpack(x)),
    "dlpack of our own": lambda x: total(x, sg.from_dlpack(x.detach())),
    "capsule": lambda x: total(x, sg.utils.dlpack.from_dlpack(sg.utils.dlpack.to_dlpack(x))),
    "pickle": unpickled,
    "save": saved,
    "np.save": saved_by_numpy,
    "data_ptr": lambda x: total(x, ctypes.c_double.from_address(x.data_ptr()).value),
    "math.sin": lambda x: total(x, math.sin(x.sum())),
    "math.fsum": lambda x: total(x, math.fsum(x)),
    "statistics.median": lambda x: total(x, float(statistics.median(x))),
    "struct": lambda x: total(x, struct.unpack("d", struct.pack("d", x.sum()))[0]),
    "array.array": lambda x: total(x, array.array("d", x)[0]),
    "ctypes": lambda x: total(x, ctypes.c_double(x.sum()).value),
    "json": lambda x: total(x, json.loads(json.dumps(x.tolist()))[0]),
    "view(dtype)": lambda x: total(x, x.view(sg.int64)),
    "torch-like tensor": lambda x: total(x, np.concatenate([np.asarray(x), x])),
    "scipy": lambda x: total(x, __import__("scipy.stats").stats.norm.pdf(x)),
    "shares_memory": lambda x: total(x, 1.0 + np.shares_memory(x, x)),
}

GUARDED = {
    "bool": lambda x: x.sum() if x.sum() > 10 else total(x, 2.0),
    "int": lambda x: total(x, int(x.sum())),
    "index": lambda x: total(x, sg.arange(100)[x.sum().long()].item() if False else [*range(100)][x.sum().long()]),
    "range": lambda x: total(x, len(range(x.sum().long()))),
    "tolist of integers": lambda x: total(x, sum(x.long().tolist())),
    "max": lambda x: total(x, max(x[:2])),
    "sorted": lambda x: sorted(x)[0] * x.sum(),
    "a mask": lambda x: x[x > 2].sum(),
    "in": lambda x: total(x, 2.0 if 2.0 in x else 3.0),
    "equal": lambda x: total(x, 1.0 + sg.equal(x, sg.tensor([1.0, 2.0, 3.0], dtype=sg.float64))),
    "allclose": lambda x: total(x, 1.0 + np.allclose(x, np.array([1.0, 2.0, 3.0]))),
    "array_equal": lambda x: total(x, 1.0 + np.array_equal(x, sg.tensor([1.0, 2.0, 3.0]))),
    "is_nonzero": lambda x: total(x, 1.0 + (x[0] - 1).is_nonzero()),
}

RECORDED = {
    "iteration": lambda x: sum(v * v for v in x),
    "unpacking": lambda x: (lambda a, b, c: a * b - c)(*x),
    "list": lambda x: sg.stack(list(x)).prod(),
    "sum": lambda x: total(x, sum(x)),
    "copy": lambda x: total(x, copy.copy(x)),
    "deepcopy": lambda x: total(x, copy.deepcopy(x.detach())),
    "tensor": lambda x: total(x, sg.as_tensor(x)),
    "stack of numbers": lambda x: total(x, sg.tensor([x.detach()[0], x.detach()[1], 1.0])),
    "array on the left": lambda x: (np.ones(3) * x - np.float64(2) / x).sum(),
    "reversed": lambda x: total(x, reversed(x)),
    "round": lambda x: total(x, round(x)) if hasattr(type(x), "__round__") else total(x, x.round()),
    "detach": lambda x: total(x, x.detach()),
    "data": lambda x: total(x, x.data),
}

FIRST, SECOND = np.array([1.0, 2.0, 3.0]), np.array([20.0, 10.0, 30.5])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in (sg.compile(REFUSED[name], backend="numpy"), sg.derive(REFUSED[name])):
            with pytest.raises((sg.errors.TraceError, TypeError, ValueError), match=HERE):
                run(FIRST)
        with pytest.raises((sg.errors.TraceError, TypeError, ValueError), match=HERE):
            sg.derive(REFUSED[name])(sg.spec((3,), dtype=sg.float64))


@pytest.mark.parametrize("name", GUARDED)
def test_guarded(name):
    fast = sg.compile(GUARDED[name], backend="numpy")
    for x in (FIRST, SECOND, FIRST):
        assert float(fast(x)) == pytest.approx(float(GUARDED[name](sg.from_numpy(x))), rel=1e-12)
    assert len(fast.recompiles()) == 2


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name):
    fast = sg.compile(RECORDED[name], backend="numpy")
    for x in (FIRST, SECOND):
        np.testing.assert_allclose(float(fast(x)), float(RECORDED[name](sg.from_numpy(x))), rtol=1e-12)
        t = sg.from_numpy(x.copy()).requires_grad_()
        RECORDED[name](t).backward()
        np.testing.assert_allclose(np.asarray(fast.grad(x, wrt="x")), t.grad.numpy(), rtol=1e-12)
    assert len(fast.recompiles()) == 2  # for calls, and for derivatives


def test_python_numbers_among_the_arguments_are_guarded_or_recorded():
    exact = sg.compile(lambda x, r: total(x, np.sin(r)), backend="numpy")
    carried = sg.compile(lambda x, r: (x * np.clip(x, 1.5, r) + np.linspace(x[0], r, 3)).sum(), backend="numpy")
    for r in (2.5, 1.75, 2.25):
        assert float(exact(FIRST, r)) == pytest.approx(FIRST.sum() * np.sin(r), rel=1e-12)
        assert float(carried(FIRST, r)) == pytest.approx((FIRST * np.clip(FIRST, 1.5, r) + np.linspace(1.0, r, 3)).sum(), rel=1e-12)
    assert (len(exact.recompiles()), len(carried.recompiles())) == (3, 1)


def test_memoryview_has_nothing_to_see():
    for buffer in (memoryview, bytearray):
        with pytest.raises(TypeError):
            sg.compile(lambda x, buffer=buffer: total(x, buffer(x)[0]), backend="numpy")(FIRST)
    assert not hasattr(sg.ones(1), "__array_interface__")
    assert not hasattr(sg.ones(1), "__array_struct__")


TEXTS = {
    "str": str, "repr": repr, "format": format, "f-string": lambda t: f"{t}", "with a format": lambda t: f"{t.sum():.3f}",
    "str.format": lambda t: "{}".format(*[t]), "numpy": np.array_repr, "numpy.str": np.array_str, "numpy.array2string": np.array2string,
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_text_has_no_numbers(name):
    texts = []

    def show(x):
        for _ in range(3):
            texts.append(TEXTS[name](x))
        return x.sum()

    line = show.__code__.co_firstlineno + 2
    with pytest.warns(UserWarning, match=r"test_escapes\.py:\d+: .*sg\.debug\.print") as caught:
        sg.compile(show, backend="numpy")(FIRST * 1.25)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert name in ("f-string", "with a format", "str.format") or caught[0].lineno == line
    shape = () if name == "with a format" else (3,)
    assert texts == [f"tensor(<traced>, shape={shape}, dtype=torch.float64)"] * 3
    assert "1.25" in sg.tensor([1.25]).__repr__()


def test_debug_print_prints_numbers(capsys):
    def show(x):
        sg.debug.print("{}", x)
        return x.sum()

    fast = sg.compile(show, backend="numpy")
    fast(sg.tensor([1.5]))
    fast(sg.tensor([2.5]))
    assert capsys.readouterr().out == "tensor([1.5000])\ntensor([2.5000])\n"


def test_saved_tensors_hooks_are_recorded():
    def f(x):
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = (x.sin() * x.exp()).sum()
        y.backward()
        return x.grad * 1

    fast = sg.compile(f, backend="numpy")
    for value in (1.0, 2.0):
        x, y = (sg.tensor([value], dtype=sg.float64, requires_grad=True) for _ in range(2))
        np.testing.assert_allclose(fast(x).numpy(), f(y).numpy(), rtol=1e-14)
