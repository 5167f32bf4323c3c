"""Wherever an option is a Python number, one of NumPy's, SymPy's or JAX's, a Fraction, or a tensor of one number will do."""

import inspect
import re
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from public_calls import OPTIONS, RECIPES, call_of, called, fresh, public_functions, public_methods

import symgrad as sg

NAMES = dict([*public_functions(), *public_methods()])


def of_jax(x):
    with jax.enable_x64(True):
        return jnp.asarray(x)


FORMS = {
    "NumPy scalar": np.float64, "float32": np.float32, "0-d array": np.array, "SymPy rational": sympy.Rational, "SymPy float": sympy.Float,
    "Fraction": Fraction, "jax array": of_jax, "tensor": lambda x: sg.tensor(x, dtype=sg.float64),
}  # fmt: skip
FACTORS = ("alpha", "beta", "value")
"""Options whose default is a whole number, and which are any numbers."""
SIZES = ("scale_factor",)
"""Numbers that decide sizes: see `test_tensor_likes.py`."""


def options(name, f, args):
    """The options of a function that are real numbers: places of arguments, or names, each with a number that is not its default."""
    places = [(i, x / 2) for i, x in enumerate(args) if type(x) is float]
    try:
        parameters = inspect.signature(f).parameters
    except ValueError:
        return places
    taken = {*list(parameters)[: len(args)], *OPTIONS.get(name, {}), *SIZES}
    for word, parameter in parameters.items():
        default = parameter.default
        if word not in taken and (type(default) is float or (word in FACTORS and default == 1 and type(default) is int)):
            places.append((word, default / 2 if default else 0.25))
    return places


def with_option(args, place, value):
    if isinstance(place, str):
        return [*fresh(args)], {place: value}
    return [value if i == place else x for i, x in enumerate(fresh(args))], {}


def result_of(name, f, args, place, value):
    given, keywords = with_option(args, place, value)
    return called(name, lambda *a, **k: f(*a, **k, **keywords), given)


def cases():
    for name, f in NAMES.items():
        call = call_of(name, f, RECIPES)
        for place, number in [] if call is None else options(name, f, call[0]):
            try:
                result_of(name, f, call[0], place, number)
            except (TypeError, ValueError, RuntimeError, NotImplementedError):
                continue  # no number for this option
            yield pytest.param(name, call[0], place, number, id=f"{name}-{place}")


DRAWN = {
    "uniform_": (-1.0, 2.0), "normal_": (0.5, 2.0), "exponential_": (2.0,), "log_normal_": (0.5, 0.25), "cauchy_": (0.5, 2.0),
    "geometric_": (0.25,), "bernoulli_": (0.25,),
}  # fmt: skip
"""Methods that draw numbers, whose options stand in the functions that they are made of."""
CASES = list(cases())
CASES += [
    pytest.param(f"Tensor.{name}", (sg.ones(5), *numbers), i, number, id=f"{name}-{i}")
    for name, numbers in DRAWN.items() for i, number in enumerate(numbers, 1)
]  # fmt: skip


def leaves(result):
    return [x for part in result for x in leaves(part)] if isinstance(result, (tuple, list)) else [result]


def assert_same(found, wanted):
    for x, y in zip(leaves(found), leaves(wanted), strict=True):
        if isinstance(y, sg.Tensor):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-6)
        else:
            assert type(x) is type(y)
            assert x == y or x != x


def test_there_are_enough():
    assert len(CASES) > 120


@pytest.mark.parametrize(("name", "args", "place", "number"), CASES)
def test_eagerly(name, args, place, number):
    wanted = result_of(name, NAMES[name], args, place, number)
    for kind, form in FORMS.items():
        assert_same(result_of(name, NAMES[name], args, place, form(np.float32(number).item() if kind == "float32" else number)), wanted)


def with_constant(program, value):
    return lambda tensors: program(tensors, value)


@pytest.mark.parametrize(("name", "args", "place", "number"), CASES)
def test_compiled(name, args, place, number):
    """The option is a constant of the function, or an argument."""
    f = NAMES[name]
    places = [i for i, x in enumerate(args) if isinstance(x, sg.Tensor)]

    def program(tensors, value):
        given, keywords = with_option(args, place, value)
        for i, t in zip(places, tensors, strict=True):
            given[i] = t.clone()
        return f(*given, **OPTIONS.get(name, {}), **keywords)

    def run(c, *given):
        return called("", c, [[args[i].clone() for i in places], *given])

    wanted = program([args[i] for i in places], number) if not places else run(program, number)
    try:
        run(sg.compile(lambda t: program(t, number), backend="numpy"))
    except (sg.errors.TraceError, sg.errors.GraphError):
        return  # what cannot be compiled with any number
    for form in ("NumPy scalar", "0-d array", "SymPy rational", "Fraction", "jax array"):
        assert_same(run(sg.compile(with_constant(program, FORMS[form](number)), backend="numpy")), wanted)
    carried = sg.compile(program, backend="numpy")
    for value in (sympy.Rational(number), Fraction(number)):
        assert_same(run(carried, value), wanted)
    for value in (np.float64(number), of_jax(number)):  # inputs of the program, which not every option can be
        try:
            found = run(sg.compile(program, backend="numpy"), value)
        except sg.errors.TraceError as error:
            assert re.search(r"test_options\.py:\d+: a tensor as (an )?option", str(error))  # noqa: PT017  (if it is one)
        else:
            assert_same(found, wanted)
