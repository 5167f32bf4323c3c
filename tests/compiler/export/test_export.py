"""Compiled functions as files: what is loaded computes what was exported, in a process that has never seen it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
from exported import roundtrip, same
from kernel_folder import entries, own_folder

import symgrad as sg
from symgrad.compiler import cache
from symgrad.compiler.export import container
from symgrad.errors import FileError, TraceError


def loss(x, w, y, *, scale=2.0, n=3):
    return (((x @ w).tanh() - y).square() * scale).sum() * n


def arguments(dtype=sg.float64):
    sg.manual_seed(0)
    return sg.randn(4, 3, dtype=dtype), sg.randn(3, 2, dtype=dtype), sg.randn(4, 2, dtype=dtype)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "loss.sgx"
    sg.compile(loss).export(path, *arguments())
    return path


@pytest.fixture(scope="module")
def loaded(path):
    return sg.load_compiled(path)


def test_value_and_gradients(loaded):
    args = arguments()
    same(loaded(*args), loss(*args))
    same(loaded.value_and_grad(*args)[0], loss(*args))
    expected = sg.func.grad(loss, argnums=(0, 1, 2))(*args)
    for found in (loaded.value_and_grad(*args)[1], loaded.grad(*args)):
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    same(loaded.grad(*args, wrt="w"), expected[1])
    same(loaded.grad(*args, wrt=2), expected[2])
    y, x = loaded.grad(*args, wrt=("y", 0))
    same(x, expected[0])
    same(y, expected[2])


def test_backward_runs_the_vjp_of_the_file(loaded):
    x, w, y = arguments()
    w.requires_grad_()
    result = loaded(x, w, y)
    assert "CompiledFunctionBackward" in str(result.grad_fn)
    (result * 3).backward()
    same(w.grad, 3 * sg.func.grad(loss, argnums=1)(x, w.detach(), y))
    assert x.grad is None
    with sg.no_grad():
        assert loaded(x, w, y).grad_fn is None


def test_a_second_derivative_is_an_error_that_says_what_to_do(loaded):
    x, w, y = arguments()
    w.requires_grad_()
    with pytest.raises(RuntimeError, match=r"loss was loaded from a file, which has its first derivative only.*compile\(func.grad"):
        sg.autograd.grad(loaded(x, w, y), w, create_graph=True)


def test_a_derivative_can_be_exported_itself(tmp_path):
    x, w, y = arguments()
    slope = roundtrip(sg.func.grad(loss, argnums=1), tmp_path, x, w, y)
    w.requires_grad_()
    slope(x, w, y).sum().backward()
    expected = w.detach().requires_grad_()
    sg.func.grad(loss, argnums=1)(x, expected, y).sum().backward()
    same(w.grad, expected.grad)


def test_arrays_of_numpy_and_jax_and_keywords(loaded):
    import jax

    x, w, y = arguments()
    same(loaded(x.numpy(), y=y.numpy(), w=w), loss(x, w, y))
    with jax.enable_x64(True):
        array = jax.numpy.asarray(x.numpy())
    same(loaded(array, w, y), loss(x, w, y))


def test_what_it_says_of_itself(loaded, path):
    assert loaded.signature == "loss(x: float64[4, 3], w: float64[3, 2], y: float64[4, 2]) -> float64[]"
    assert repr(loaded) == f"<loaded {loaded.signature}>"
    assert loaded.__name__ == "loss"
    assert loaded.formula().startswith("loss(x, w, y) = 6*‖tanh(x w) - y‖²\n∂loss/∂x = ")
    assert loaded.formula("latex").startswith("\\begin{aligned}\n\\mathrm{loss} &= 6")
    fast = sg.compile(loss)
    fast(*arguments())
    assert loaded.source() == fast.source()
    assert loaded.source("vjp") == fast.source("vjp")
    assert "stablehlo.tanh" in loaded.hlo()
    assert loaded.description.hash == fast.graph().hash
    assert sg.compiler.Graph.parse(loaded.graph()) == fast.graph()
    assert set(loaded.description.versions) == {"python", "symgrad", "jax", "jaxlib", "numpy"}
    with pytest.raises(ValueError, match="there is forward, vjp, value_and_grad in this file, and no 'jvp'"):
        loaded.source("jvp")
    with pytest.raises(ValueError, match="text or latex, not 'html'"):
        loaded.formula("html")
    assert list(inspect.signature(loaded).parameters) == ["x", "w", "y", "scale", "n"]


def test_nothing_of_this_machine_is_in_the_file(path):
    content = path.read_bytes()
    for word in (os.path.dirname(__file__), os.path.dirname(sg.__file__), "test_export", "site-packages"):
        assert word.encode() not in content


def test_the_same_function_makes_the_same_file(path, tmp_path):
    sg.compile(loss).export(tmp_path / "again.sgx", *(sg.spec(t.shape, t.dtype) for t in arguments()))
    assert (tmp_path / "again.sgx").read_bytes() == path.read_bytes()


def test_the_latest_program_is_exported_if_no_arguments_are_given(tmp_path):
    fast = sg.compile(loss)
    with pytest.raises(TraceError, match=r"test_export.py:\d+: loss has no program yet: call it once, or say for which arguments"):
        fast.export(tmp_path / "f.sgx")
    assert not (tmp_path / "f.sgx").exists()
    fast(*arguments())
    fast(*arguments(sg.float32))
    fast.export(tmp_path / "f.sgx")
    found = sg.load_compiled(tmp_path / "f.sgx")
    assert "x: float32[4, 3]" in found.signature
    same(found(*arguments(sg.float32)), loss(*arguments(sg.float32)))
    fast(*arguments())
    fast.export(tmp_path / "f.sgx")
    assert "x: float64[4, 3]" in sg.load_compiled(tmp_path / "f.sgx").signature


WRONG = {
    "another shape": (lambda x, w, y: (x[:2], w, y), {}, r"^x: expected float64\[4, 3\], got float64\[2, 3\]"),
    "another dtype": (lambda x, w, y: (x, w.float(), y), {}, r"^w: expected float64\[3, 2\], got float32\[3, 2\]"),
    "no tensor": (lambda x, w, y: (x, w, "y"), {}, r"^y: expected float64\[4, 2\], got str 'y'"),
    "a number": (lambda x, w, y: (x, w, 1.0), {}, r"^y: expected float64\[4, 2\], got float 1.0"),
    "nothing": (lambda x, w, y: (x, w, None), {}, r"^y: expected float64\[4, 2\], got NoneType"),
    "too few": (lambda x, w, y: (x, w), {}, r"^missing a required argument: 'y': this is loss\(x: float64"),
    "too many": (lambda x, w, y: (x, w, y, y), {}, r"^too many positional arguments: this is loss\("),
    "unknown": (lambda x, w, y: (x, w, y), {"z": 1}, r"^got an unexpected keyword argument 'z': this is loss"),
    "another setting": (lambda x, w, y: (x, w, y), {"n": 4}, r"^n: it is part of the program, as 3; got int 4. Export again"),
    "a setting of another type": (lambda x, w, y: (x, w, y), {"n": 3.0}, r"^n: it is part of the program, as 3; got float 3.0"),
    "another float": (lambda x, w, y: (x, w, y), {"scale": 2.5}, r"^scale: it is part of the program, as 2.0; got float 2.5"),
}


@pytest.mark.parametrize(("change", "kwargs", "text"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("method", ["__call__", "value_and_grad"])
def test_wrong_arguments_are_named(loaded, change, kwargs, text, method):
    with pytest.raises(TypeError, match=text):
        getattr(loaded, method)(*change(*arguments()), **kwargs)


def test_settings_may_be_given_as_they_were(loaded):
    same(loaded(*arguments(), n=3, scale=2.0), loss(*arguments()))


def test_a_loaded_function_is_not_traced(loaded):
    with pytest.raises(TraceError, match=r"test_export.py:\d+: loss was loaded from a file.*call it outside"):
        sg.compile(lambda x, w, y: loaded(x, w, y) * 2)(*arguments())


CODE = """
import sys
import numpy as np
import symgrad as sg
f = sg.load_compiled(sys.argv[1])
x, w, y = (np.load(p) for p in sys.argv[2:])
w = sg.tensor(w, requires_grad=True)
result = f(x, w, y)
result.backward()
print(repr(result.item()), repr(w.grad.sum().item()), "sympy" in sys.modules)
"""


def test_a_process_that_never_saw_the_function(path, tmp_path):
    args = arguments()
    names = [str(tmp_path / f"{i}.npy") for i in range(3)]
    for name, t in zip(names, args, strict=True):
        np.save(name, t.numpy())
    run = subprocess.run([sys.executable, "-W", "error", "-c", CODE, str(path), *names], cwd=tmp_path, capture_output=True, text=True)
    assert run.stderr == ""
    value, slope, _ = run.stdout.split()
    assert float(value) == pytest.approx(loss(*args).item(), rel=1e-12)
    assert float(slope) == pytest.approx(sg.func.grad(loss, argnums=1)(*args).sum().item(), rel=1e-12)


def test_the_cache_serves_loaded_functions_too(path, tmp_path, monkeypatch):
    folder = own_folder(tmp_path, monkeypatch)
    sg.load_compiled(path)(*arguments())
    assert len(entries(folder)) == 1
    assert cache.size() > 0


def test_export_replaces_a_file_wholly_or_not_at_all(path, tmp_path, monkeypatch):
    target = tmp_path / "f.sgx"
    target.write_bytes(b"old")

    def fail(*args):
        raise OSError("full")

    monkeypatch.setattr(container.os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        container.write(target, {}, {"a": b"1"})
    assert [p.name for p in tmp_path.iterdir()] == ["f.sgx"]
    assert target.read_bytes() == b"old"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"export: there is no folder .*nowhere"):
        sg.compile(loss).export(tmp_path / "nowhere" / "f.sgx", *arguments())


def test_settings_of_jax_are_as_they_were(path):
    import jax

    names = [name for name in jax.config.values if hasattr(jax.config, name)]
    before = {name: getattr(jax.config, name) for name in names}
    sg.compile(loss).export(path.with_name("x.sgx"), *arguments())
    sg.load_compiled(path)(*arguments())
    with pytest.raises(FileError):
        sg.load_compiled(__file__)
    assert {name: getattr(jax.config, name) for name in names} == before


def test_the_vjp_of_a_loaded_function(tmp_path):
    def function(p, x, rows):
        return {"y": (x @ p["w"]).tanh() + p["b"], "most": x.argmax(), "sum": x[rows].sum()}

    p, x = {"w": sg.randn(3, 2, dtype=sg.float64), "b": sg.zeros(2, dtype=sg.float64)}, sg.randn(4, 3, dtype=sg.float64)
    args, v = (p, x, sg.tensor([0, 2])), {"y": sg.randn(4, 2, dtype=sg.float64), "most": None, "sum": 2.0}
    fast = sg.compile(function)
    fast.export(tmp_path / "f.sgx", *args)
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    found, wanted = loaded.vjp(*args, wrt="p")(v), fast.vjp(*args, wrt="p")(v)
    assert found.keys() == {"w", "b"}
    for name in found:
        np.testing.assert_allclose(found[name].numpy(), wanted[name].numpy(), rtol=1e-12)
    pull = loaded.vjp(*args, wrt="x")
    np.testing.assert_allclose(pull.value["y"].numpy(), function(*args)["y"].numpy(), rtol=1e-12)
    before = pull(v)
    x.add_(1)
    assert (pull(v) == before).all()
    with pytest.raises(ValueError, match="the cotangent must be a dict of y, most, sum"):
        pull(1.0)
    with pytest.raises(ValueError, match=r"rows is int64\[2\]: only floating-point inputs have a derivative"):
        loaded.vjp(*args, wrt="rows")


def test_an_export_that_is_refused_has_drawn_no_random_numbers(tmp_path):
    def drawing(x):
        return x * float(sg.rand(()) + x.sum())  # the number leaves the trace

    sg.manual_seed(3)
    expected = sg.rand(4).tolist()
    sg.manual_seed(3)
    with pytest.raises(TraceError):
        sg.compile(drawing).export(tmp_path / "f.sgx", sg.ones(2))
    assert sg.rand(4).tolist() == expected


TABLE = sg.tensor([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]])
OF_INTEGERS = {
    "integers": (lambda i: i * 2, sg.arange(3)),
    "truth values": (lambda b: ~b, sg.tensor([True, False])),
    "rows of a table": (lambda i: TABLE[i].sum(1), sg.tensor([2, 0])),
    "integers to floats": (lambda i: (i / 2).sum(), sg.arange(3)),
}


@pytest.mark.parametrize("called", [True, False])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_functions_of_integers_are_exported_without_gradients(name, called, tmp_path):
    f, x = OF_INTEGERS[name]
    fast = sg.compile(f)
    if called:
        fast(x)
    fast.export(tmp_path / "f.sgx", *([] if called else [x]))
    same(sg.load_compiled(tmp_path / "f.sgx")(x), f(x))


def test_by_default_numbers_are_not_differentiated_in_a_file_either(tmp_path):
    fast = sg.compile(lambda x, s: (x * x * s).sum())
    x = sg.tensor([1.0, 2.0])
    fast.export(tmp_path / "f.sgx", x, 0.5)
    found = sg.load_compiled(tmp_path / "f.sgx")
    assert [g.tolist() for g in found.grad(x, 0.5)] == [g.tolist() for g in fast.grad(x, 0.5)] == [[1.0, 2.0]]
    assert found.grad(x, 0.5, wrt="s").item() == 5.0


def with_defaults(x, rate=0.5, n=2, *, scale=(1.0, 2.0), options={"a": 3.0}, weights=[1.0, 2.0], shift=-0.0):  # noqa: B006
    return (x * rate * n * scale[0] * scale[1] * options["a"] * weights[1]).sum() + (1 / (x * shift)).sum()


@pytest.mark.parametrize(
    "given",
    [
        {}, {"rate": 0.25}, {"scale": (1.5, 2.5)}, {"options": {"a": 1.0}}, {"weights": [4.0, 5.0]}, {"shift": 1.0},
        {"rate": sg.tensor(2.0), "shift": 1.0},
    ],
    ids=str,
)
def test_inputs_keep_their_defaults(tmp_path, given):
    x = sg.tensor([1.0, 2.0])
    sg.compile(with_defaults).export(tmp_path / "f.sgx", x, **given)
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    for kept in ({}, given):
        assert loaded(x, **kept).item() == pytest.approx(with_defaults(x, **kept).item())
    found = inspect.signature(loaded).parameters
    wanted = inspect.signature(with_defaults).parameters
    assert {name: found[name].default for name in given} == {name: wanted[name].default for name in given}


def test_a_default_that_no_file_holds_must_be_passed(tmp_path):
    def f(x, w=np.ones(2, np.float32)):  # noqa: B008
        return (x * w).sum()

    sg.compile(f).export(tmp_path / "f.sgx", sg.ones(2), sg.ones(2) * 3)
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    assert loaded(sg.ones(2), sg.ones(2)).item() == 2
    with pytest.raises(TypeError, match="missing a required argument: 'w'"):
        loaded(sg.ones(2))
