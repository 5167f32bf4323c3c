"""How certify() compares: at which arguments, in which precision, along which directions, and within which limits."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import SCAN, WHILE
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.symbolic import certify as module
from symgrad.compiler.symbolic.certify import (
    Certificate,
    Comparison,
    _along,
    _Bounds,
    _complex_step,
    _definite,
    _difference,
    _eager,
    _inside,
    _length,
)

X = input_value(0, (), np.float64)


class Source:
    """A function of tensors, as `_difference` and `_complex_step` call it."""

    captured = ()

    def __init__(self, function, arguments=1):
        self.run = lambda tensors: function(*tensors)
        self.arguments = arguments


def test_a_difference_equal_to_the_limit_agrees():
    assert Comparison("f", "eager", 1e-4, 1e-4).ok
    assert not Comparison("f", "eager", 1.1e-4, 1e-4).ok
    assert str(Comparison("f", "eager", 1e-5, 1e-4)) == "f and eager: 1.0e-05"
    assert str(Comparison("f", "eager", 2e-4, 1e-4)) == "f and eager: 2.0e-04, more than 1e-04"
    both = Certificate((Comparison("f", "eager", 0.0, 1.0), Comparison("g", "eager", 2.0, 1.0)))
    assert not both
    assert repr(both) == str(both)
    assert str(both).startswith("the formula does NOT agree")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numerical_steps_agree_with_derivatives_by_hand(dtype):
    """Of Σ exp(x) sin(2 x) along v; the extrapolated difference has an error of order h⁴."""
    x, v = np.array([0.3, -0.7, 1.2], dtype), np.array([1.0, -2.0, 0.5], dtype)
    source = Source(lambda x: (x.exp() * (2 * x).sin()).sum())
    wide = x.astype(np.float64)
    wanted = np.sum(np.exp(wide) * (np.sin(2 * wide) + 2 * np.cos(2 * wide)) * v)
    double = dtype == np.float64
    np.testing.assert_allclose(_difference(source, [x], 0, v), wanted, rtol=1e-10 if double else 1e-3)
    np.testing.assert_allclose(_complex_step(source, [x], 0, v), wanted, rtol=1e-13 if double else 1e-5)


def test_differences_are_taken_in_one_argument_only():
    source = Source(lambda x, y: (x * y.sin()).sum(), 2)
    x, y = np.array([2.0]), np.array([0.5])
    np.testing.assert_allclose(_difference(source, [x, y], 1, np.ones(1)), 2 * np.cos(0.5), rtol=1e-10)
    np.testing.assert_allclose(_complex_step(source, [x, y], 0, np.ones(1)), np.sin(0.5), rtol=1e-13)


def test_a_derivative_is_applied_to_its_last_inputs():
    rng = np.random.default_rng(0)
    d, u, v = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=3), rng.normal(size=(4, 5))
    np.testing.assert_allclose(_along(d, (u, v)), np.einsum("aibc,i,bc->a", d, u, v), rtol=1e-12)
    assert _along(np.array(3.0), (np.array(2.0),)) == 6


def test_the_length_of_a_graph_counts_the_steps_of_its_loops():
    assert _length(Graph([X], [X])) == 1
    assert _length(Graph([X], [xp.sin(xp.cos(X)), X])) == 3
    body = Graph((X,), (xp.sin(X) + 1,))  # 3 operations, with the input
    (last,) = apply(SCAN, (X,), {"body": body, "carries": 1, "slices": 0, "length": 10, "reverse": False})
    assert _length(Graph([X], [last])) == 1 + 3 * 10 + 1  # and one output is chosen
    for steps, times in ((7, 7), (None, 1000)):
        (last,) = apply(WHILE, (X,), {"condition": Graph((X,), (X < 9,)), "body": body, "carries": 1, "max_steps": steps})
        assert _length(Graph([X], [last])) == 1 + 3 * times + 1


def test_differences_are_relative_to_the_largest_value_and_what_is_tiny_counts_as_zero():
    bounds = _Bounds(Graph([X], [X]), Source(lambda x: x), [np.array(1.0)], single=False)
    assert bounds._apart(np.array([1.0, 4.0]), np.array([1.5, 4.0])) == 0.125
    assert bounds._apart(np.array(8.0), np.array(4.0)) == 0.5
    assert bounds._apart(np.array(np.nan), np.array(1.0)) == np.inf
    assert bounds._apart(np.array(1e-300), np.array(0.0)) < 1e-7
    assert bounds._apart(np.zeros(0), np.zeros(0)) == 0
    single = _Bounds(Graph([X], [X]), Source(lambda x: x), [np.array(1.0)], single=True)
    assert single._apart(np.array(1e-36), np.array(0.0)) < 1e-4
    assert bounds._apart(np.array(1e-36), np.array(0.0)) == 1


def test_the_noise_of_a_function_is_its_change_under_one_rounding_of_the_arguments():
    """Of 1 / (x - 1) near 1, relative: eps x / (x - 1)."""
    x = np.array(1 + 1e-6)
    eps = np.finfo(np.float64).eps
    bounds = _Bounds(Graph([X], [X]), Source(lambda x: x), [x], single=False)
    noise = bounds._noise(lambda arrays: 1 / (arrays[0] - 1))
    assert eps / 1e-6 / 4 < noise < 4 * eps / 1e-6
    captured = _Bounds(Graph([X], [X]), Source(lambda x: x, 0), [x], single=False)
    assert captured._noise(lambda arrays: 1 / (arrays[0] - 1)) == 0
    whole = _Bounds(Graph([X], [X]), Source(lambda x: x), [np.array(3)], single=False)
    assert whole._noise(lambda arrays: arrays[0]) == 0


def compared(f, *args, **options):
    return sg.derive(f, **options)(*args).certify()


def test_limits_depend_on_the_method_and_on_the_precision_of_captured_tensors():
    x = sg.tensor([0.3, 0.4])
    wide = {c.beside: c.limit for c in compared(lambda x: x.sin().sum(), x).comparisons}
    assert wide == {"eager": 1e-10, "complex step": 1e-9}
    w = sg.tensor([1.0, 2.0])
    single = {c.beside: c.limit for c in compared(lambda x: (x * w).sin().sum(), x).comparisons}
    assert single == {"eager": 1e-4, "complex step": 1e-3}
    w = sg.tensor([1.0, 2.0], dtype=sg.float64)
    assert {c.beside: c.limit for c in compared(lambda x: (x * w).sin().sum(), x.double()).comparisons} == wide
    rough = {c.beside: c.limit for c in compared(lambda x: x.abs().sum(), x).comparisons}
    assert rough["central differences"] == pytest.approx(1e-5, rel=1e-3)


def test_each_derivative_is_compared_along_three_directions_and_a_scalar_along_one(monkeypatch):
    asked = []
    own = module._eager
    monkeypatch.setattr(module, "_eager", lambda source, arrays, wrt, directions: asked.append(wrt) or own(source, arrays, wrt, directions))
    compared(lambda x, y: (x * y).sum(), sg.tensor([1.0, 2.0]), sg.tensor(3.0))
    assert (asked.count((0,)), asked.count((1,))) == (3, 1)


def test_the_worst_of_all_directions_is_reported(monkeypatch):
    differences = iter([0.0, 1e-12, 3e-12, 2e-12])
    monkeypatch.setattr(_Bounds, "_apart", lambda self, found, wanted: next(differences, 0.0))
    monkeypatch.setattr(module, "_by_steps", lambda *args: ("complex step", np.zeros(())))
    certificate = compared(lambda x: x.sum(), sg.tensor([1.0, 2.0]))
    assert [(c.formula, c.beside) for c in certificate.comparisons] == [("f", "eager"), ("∂f/∂x", "eager"), ("∂f/∂x", "complex step")]
    assert [c.difference for c in certificate.comparisons] == [0.0, 2e-12, 3e-12]


def test_arguments_given_are_used_and_specs_are_drawn(monkeypatch):
    seen = []
    derivation = sg.derive(lambda x: (x * x).sum())(sg.spec(2))
    own = type(derivation).evaluate
    monkeypatch.setattr(type(derivation), "evaluate", lambda self, arrays, wide=False: seen.append(arrays[0]) or own(self, arrays, wide))
    assert derivation.certify()
    assert derivation.certify()
    assert seen[0].dtype == np.float64
    np.testing.assert_array_equal(seen[0], seen[1])  # the same numbers at every call
    assert derivation.certify(sg.tensor([3.0, 4.0]))
    assert seen[2].tolist() == [3, 4]


def test_matrices_outside_of_the_domain_are_replaced_by_matrices_inside():
    a = np.array([[0.0, 2.0], [3.0, 1.0]])
    np.testing.assert_allclose(_definite(a), a @ a.T + np.eye(2))
    negative = sg.tensor([[-1.0, 0.0], [0.0, 2.0]], dtype=sg.float64)
    assert compared(lambda a: sg.linalg.cholesky(a).sum(), sg.spec((3, 3)))
    assert compared(lambda a: a.logdet(), negative @ negative)
    with pytest.raises(sg.errors.FormulaError, match="outside of its domain"):
        sg.derive(lambda a: a.logdet())(sg.eye(2, dtype=sg.float64))(negative)


def test_symmetric_directions_are_used_where_one_triangle_is_read():
    """The derivative of eigvalsh reads both triangles, its kernel one: other directions would disagree."""
    a = np.random.default_rng(3).normal(size=(3, 3))
    certificate = compared(lambda a: (sg.linalg.eigvalsh(a) * sg.tensor([1.0, 2.0, 3.0], dtype=sg.float64)).sum(), sg.tensor(a + a.T))
    assert certificate.ok, certificate


def test_matrices_for_which_a_function_has_no_value_anywhere_are_kept():
    a = np.ones((2, 2))
    source = Source(lambda a: a * float("nan"))
    assert _inside(source, [a], symmetric=False)[0] is a
    assert _inside(source, [a], symmetric=True)[0] is a
    shifted = Source(lambda a: (a - 1.5).log())  # a value for A Aᵀ + I = [[3, 2], [2, 3]] only
    np.testing.assert_array_equal(_inside(shifted, [a], symmetric=False)[0], [[3, 2], [2, 3]])


def test_the_derivative_of_a_constant_is_zero():
    for f, wrt in ((lambda x: x.floor() + 1, (0,)), (lambda x: x + 1, (0, 0))):
        found = _eager(Source(f), [np.array([1.5, 2.5])], wrt, (np.ones(2),) * len(wrt))
        assert np.asarray(found).tolist() == [0, 0]


def test_differences_of_large_values_may_lose_digits():
    """A value of 1e9 beside a slope of 1: its rounding errors, divided by h, are 10 eps / h * 1e9 of the slope."""
    bounds = _Bounds(Graph([X], [X]), Source(lambda x: x), [np.array(1.0)], single=False)
    found = bounds.comparison("f", "central differences", np.array(2.0), np.array(2.0), lambda arrays: arrays[0], np.array(1e9))
    assert found.limit == pytest.approx(1e-5 + 10 * np.finfo(float).eps / 1e-3 * 1e9 / 2, rel=1e-9)


LINEAR = {"x + 1": lambda x: x + 1, "3 x": lambda x: 3 * x, "x + x": lambda x: x + x, "sum": lambda x: (2 * x).sum()}
LINEAR |= {"floor": lambda x: x.floor()}


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", LINEAR)
def test_higher_derivatives_of_linear_functions_are_certified(name, order):
    for x in (sg.tensor([0.3, 0.6]), sg.tensor(0.4)):
        assert compared(LINEAR[name], x, order=order)


def test_a_wrong_second_derivative_of_a_linear_function_is_not_certified(monkeypatch):
    derivation = sg.derive(lambda x: 3 * x, order=2)(sg.tensor(0.4))
    own = type(derivation).evaluate
    monkeypatch.setattr(type(derivation), "evaluate", lambda *args, **options: [*own(*args, **options)[:2], np.array(1.0)])
    assert [c.formula for c in derivation.certify().comparisons if not c.ok] == ["∂²f/∂x∂x"]


def test_mixed_derivatives_that_vanish_are_certified():
    assert compared(lambda x, y: x * x + y, sg.tensor(0.4), sg.tensor(0.3), order=2)


def test_detached_values_are_constants_that_numerical_steps_move():
    x = sg.tensor([2.0, 3.0], dtype=sg.float64)
    certificate = sg.derive(lambda x: (x.detach() * x).sum())(x).certify()
    assert certificate.ok
    assert "not compared with" in str(certificate)
    shifted = sg.derive(lambda x: (x - x.amax().detach()).exp().log().sum() * 0 + x.cos().sum())(x).certify()
    assert shifted.ok
    assert not shifted.notes  # equal anyway
