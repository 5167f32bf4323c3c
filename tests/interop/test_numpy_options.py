"""Options of NumPy's functions on tensors: as in NumPy, or refused by name. None is ignored.

Every option of every function with an adapter is given, by its name and by its place. What tensors give is what arrays give, or an error
that names the function and the option.
"""

import inspect
import re

import numpy as np
import pytest
from numpy_options import Call, calls, functions, given, quiet, with_tensors

import symgrad as sg
from symgrad.interop.numpy_ufuncs import UFUNCS

NEUTRAL = {
    "subok", "device", "kind", "stable", "overwrite_input", "optimize", "assume_unique", "sorted", "copy", "order", "casting", "weights",
}  # fmt: skip
"""Options that may make no difference to numbers."""
CALLS = list(calls())


def leaves(x):
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (list, tuple)) else [x]


def plain(x):
    return x.detach().numpy() if isinstance(x, sg.Tensor) else x


def same(found, wanted, exact_type=False):
    """Whether two results have the same numbers, and types if asked."""
    found, wanted = [plain(x) for x in leaves(found)], leaves(wanted)
    if len(found) != len(wanted):
        return False
    for x, y in zip(found, wanted, strict=True):
        if not isinstance(y, (np.ndarray, np.number, np.bool_, bool, int, float, complex)):
            if x != y and not callable(y):
                return False
            continue
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or not np.allclose(x, y, rtol=1e-5, atol=1e-7, equal_nan=True) or (exact_type and x.dtype != y.dtype):
            return False
    return True


def names_it(error, call):
    """Whether an error of ours says which option of which function."""
    expected = isinstance(error, (TypeError, NotImplementedError, sg.errors.SymgradError))
    return expected and re.search(rf"numpy\.[\w.]*{call.title}\b", str(error)) and re.search(rf"\b({'|'.join(call.options)})", str(error))


def verdict(call: Call) -> str:
    """What becomes of an option: `honoured`, `refused`, or what is wrong."""
    arrays = call.data()
    tensors = [with_tensors(x) for x in call.data()]
    wanted = quiet(lambda: call(arrays, call.value))
    found = quiet(lambda: call(tensors, with_tensors(call.value)))
    if isinstance(wanted, Exception):
        return "refused" if isinstance(found, Exception) else f"NumPy raises {wanted}"
    if isinstance(found, Exception):
        return "refused" if names_it(found, call) else f"an error that does not name it: {found!r}"
    if call.name == "empty_like":  # any numbers
        found, wanted = np.zeros_like(found), np.zeros_like(wanted)
    if not same(found, wanted, call.option == "dtype"):
        return f"{found} is not {wanted}"
    return "honoured" if call.option == "overwrite_input" or same(tensors, arrays) else f"arguments are left as {tensors}, not {arrays}"


@pytest.mark.parametrize("name", functions())
def test_options_are_honoured_or_refused(name):
    wrong = {str(call): verdict(call) for call in CALLS if call.name == name}
    assert not {call: text for call, text in wrong.items() if text not in ("honoured", "refused")}


def test_the_values_make_a_difference():
    """An option that is honoured, and whose values change nothing in NumPy, is not tested by them."""
    changed = {(call.name, call.option): False for call in CALLS if call.option not in NEUTRAL and verdict(call) == "honoured"}
    for call in CALLS:
        if (call.name, call.option) in changed:
            usual, other = call.data(), call.data()
            results = quiet(lambda: call.function(*usual)), quiet(lambda: call(other, call.value))  # noqa: B023  (called at once)
            if not isinstance(results[1], Exception):
                differs = isinstance(results[0], Exception) or not same(results[1], results[0], True) or not same(other, usual)
                changed[call.name, call.option] |= differs
    same_still = sorted(f"{name}.{option}" for (name, option), differs in changed.items() if not differs)
    assert not same_still, same_still


def test_most_options_are_honoured():
    found = [verdict(call) for call in CALLS]
    counts = {kind: found.count(kind) for kind in ("honoured", "refused")}
    print(len({(call.name, call.option) for call in CALLS}), "options of", len(functions()), "functions:", counts)
    assert counts["honoured"] > 1300, counts


def words():
    for name, f in functions().items():
        for p in inspect.signature(f).parameters.values():
            if isinstance(p.default, str) or p.name in ("kind", "norm", "device"):
                yield Call(name, f, p.name, "bogus", None)


@pytest.mark.parametrize("call", list(words()), ids=str)
def test_words_that_numpy_does_not_know_are_errors(call):
    if isinstance(quiet(lambda: call(call.data(), "bogus")), Exception):
        assert isinstance(quiet(lambda: call([with_tensors(x) for x in call.data()], "bogus")), Exception)


WITH_OUT = [name for name, f in functions().items() if "out" in inspect.signature(f).parameters]


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_is_written_to(name):
    """By its name and by its place; an array or a tensor."""
    function = functions()[name]
    args, beside = given(name, function), {"axis": 0} if name.startswith("cumulative") else {}
    wanted = np.asarray(function(*args, **beside))
    parameters = list(inspect.signature(function).parameters.values())
    place = next(i for i, p in enumerate(parameters) if p.name == "out")
    positional = parameters[place].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
    for make in (np.zeros_like, lambda x: sg.from_numpy(np.zeros_like(x))):
        for by_place in (False, True)[: 1 + positional]:
            out, data = make(wanted), [with_tensors(x) for x in args]
            filled = [*data, *(p.default for p in parameters[len(args) : place]), out]
            found = function(*filled) if by_place else function(*data, out=out, **beside)
            assert found is out
            assert same(out, wanted), (name, by_place)


A = np.arange(6.0).reshape(2, 3)
FORMS = {
    "expand_dims": lambda a: np.expand_dims(a, (0, 2)), "median": lambda a: np.median(a, 0, None, False, True),
    "clip": lambda a: np.clip(a, 1, 3),
    "clip to the left": lambda a: np.clip(a, None, 3),
    "mean of integers": lambda a: np.mean(a.astype(int) if isinstance(a, np.ndarray) else a.long()),
    "sparse grids": lambda a: np.meshgrid(a[0], a[1], a[1], sparse=True), "sum": lambda a: np.sum(a, 1, None, None, True, 3.0, a > 1),
    "roll": lambda a: np.roll(a, (1, 2), (0, 1)), "zeros": lambda a: np.zeros_like(a, np.int64, "C"),
    "mask of one axis": lambda a: np.var(a, 1, where=a[0] > 0),
    "integers": lambda a: [np.mean(a, np.int64(1)), np.add.reduce(a, np.int64(0)), np.expand_dims(a, np.int8(1)), np.median(a, np.int8(0))],
    "vstack": lambda a: np.vstack([a, a], dtype=np.int8, casting="unsafe"), "reduce": lambda a: np.add.reduce(a, 1, initial=2, where=a > 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_calls(name):
    assert same(FORMS[name](sg.from_numpy(A.copy())), FORMS[name](A))


SLOPES = {
    "sum": lambda x: np.sum(x * x, where=x > 0.4, initial=2.0), "max": lambda x: np.max(x * x, initial=0.1, where=x < 0.6),
    "mean": lambda x: np.mean(x * x, where=x > 0.4), "var": lambda x: np.var(x, where=x > 0.4), "std": lambda x: np.std(x, correction=1),
    "nanmean": lambda x: np.nanmean(x * x, where=x > 0.4), "angle": lambda x: np.angle(x * (1 + 1j) + x * x, deg=True)[0],
    "trace": lambda x: np.trace(np.outer(x, x * x), 1), "prod": lambda x: np.prod(x, initial=3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_options_have_derivatives(name):
    x = np.array([0.31, 0.72, 0.54])
    wanted = [(SLOPES[name](x + step) - SLOPES[name](x - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(sg.func.grad(SLOPES[name])(sg.from_numpy(x)).numpy(), wanted, rtol=1e-5, atol=1e-7)
    compiled = sg.compile(lambda x: SLOPES[name](x), backend="numpy")
    compiled(x * 0.9)
    np.testing.assert_allclose(np.asarray(compiled(x)), SLOPES[name](x), rtol=1e-7)


OPTIONS = {
    "dtype": (np.float32, np.int64, bool), "casting": ("no", "safe", "unsafe"), "order": ("C", "F"), "subok": (False,),
    "where": (np.array([True, False, True]),), "signature": ("dd->d", "d->d"), "axis": (0,), "keepdims": (True,),
}  # fmt: skip
METHODS = {"dtype": (np.float32,), "axis": (0, 1, (0, 1), ()), "keepdims": (True,), "initial": (9.0,), "where": (np.eye(3) > 0,)}
DECIDED = ("matmul", "matvec", "vecmat", "logical_and", "logical_or")
"""Universal functions of matrices; and those of truth values, which have no other type."""


def check_ufunc(f, args, options):
    """A universal function, or a method of one, with options: as in NumPy, or refused by name."""
    wanted = quiet(lambda: f(*args, **options))
    found = quiet(lambda: f(*map(with_tensors, args), **options))
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        name = next(iter(options))
        assert isinstance(found, Exception), (options, wanted)
        assert isinstance(wanted, Exception) or (f.__name__ in str(found) and name in str(found)), found
    else:
        assert same(found, wanted, "dtype" in options), (options, found, wanted)


@pytest.mark.parametrize("name", sorted({f.__name__ for f in UFUNCS} - set(DECIDED)))
def test_options_of_universal_functions(name):
    ufunc = next(f for f in UFUNCS if f.__name__ == name)
    args = (np.array([0.72, 0.31, 0.54]), np.array([0.9, 0.4, 0.2]))[: ufunc.nin]
    if isinstance(quiet(lambda: ufunc(*args)), Exception):
        args = (np.array([3, 1, 2]), np.array([1, 2, 2]))[: ufunc.nin]
    for option in ((name, value) for name, values in OPTIONS.items() for value in values):
        check_ufunc(ufunc, args, dict([option]))
    for option in ((name, value) for name, values in METHODS.items() for value in values if ufunc.nin == 2 and ufunc.signature is None):
        for method in ("reduce", "accumulate"):
            check_ufunc(getattr(ufunc, method), (np.outer(*args),), dict([option]))
