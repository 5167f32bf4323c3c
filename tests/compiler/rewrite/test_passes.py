"""Passes that rewrite single rows: what they change, what they leave alone, and that both compute the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from symgrad.compiler.autodiff.jacobian import hessian, hvp, jacobian
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import SCAN, WHILE, is_control
from symgrad.compiler.ir.graph import Graph, input_value, literal
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.loops.unroll import unroll
from symgrad.compiler.rewrite.domain import domain, within_domain
from symgrad.compiler.rewrite.kernel import drop_stop_gradients
from symgrad.compiler.rewrite.round_constants import fold_constants
from symgrad.compiler.rewrite.stable import stabilise
from symgrad.compiler.rewrite.upcast_half import to_float32, widen_half
from symgrad.errors import GraphError

X = input_value(0, (), np.float64)
A = input_value(0, (2, 2), np.float64)


def ops(graph):
    return {v.op for v in graph.values}


# constants


def test_float_functions_of_literals_are_evaluated_and_others_kept():
    two = literal(2, np.float64)
    graph = Graph([X], [X * xp.sqrt(two)])
    folded = fold_constants(graph)
    assert ops(folded) == {"input", "literal", "mul"}
    assert folded.outputs[0].args[1].value == math.sqrt(2)
    plain = Graph([X], [xp.sqrt(X)])
    assert fold_constants(plain) is plain
    whole = Graph([X], [xp.maximum(literal(2, np.int64), literal(300, np.int64))])
    assert ops(fold_constants(whole)) >= {"maximum"}
    single = fold_constants(Graph([X], [xp.sqrt(literal(2, np.float32))])).outputs[0]
    assert (single.op, single.dtype, single.value) == ("literal", np.float32, math.sqrt(2))


@pytest.mark.parametrize(("a", "b", "folded"), [(200, 56, True), (200, 57, False), (256, 0, True), (257, 1, False), (1.0, 2.0, False)])
def test_sums_of_integers_are_folded_up_to_256(a, b, folded):
    found = literal(a, np.float64) + literal(b, np.float64)
    assert (found.op == "literal") is folded
    assert evaluate(Graph([], [found]), [])[0] == a + b


@pytest.mark.parametrize(
    ("a", "b", "wanted"), [(1, 2, 0.5), (6, 3, 2), (3, 4, 0.75), (1, 3, None), (1, 0, None), (-7, 8, -0.875), (5, 6, None)]
)
def test_quotients_are_folded_where_they_are_exact(a, b, wanted):
    found = literal(a, np.float64) / literal(b, np.float64)
    assert (found.value if found.op == "literal" else None) == wanted


def test_a_zero_of_the_user_keeps_nan_and_a_zero_of_a_rule_does_not():
    assert (X * 0).op == "literal"
    assert (X * 0.0).op == "mul"
    assert np.isnan(evaluate(Graph([X], [X * 0.0]), [np.array(np.inf)])[0])
    whole = input_value(0, (), np.int64)
    assert xp.mul(whole, literal(0, np.int64)).op == "literal"
    unsigned = input_value(0, (), np.uint8)
    assert (0 - unsigned).op == "sub"
    assert (xp.cast(literal(3, np.float64), dtype=np.dtype(np.uint8))).op == "cast"


# half precision


def test_rows_of_several_steps_compute_in_float32():
    x, y = (input_value(i, (2, 3), np.float16) for i in range(2))
    graph = Graph([x, y], [xp.cross(x, y, axis=1)])
    wide = widen_half(graph)
    assert next(v for v in wide.values if v.op == "cross").dtype == np.float32
    assert wide.outputs[0].dtype == np.float16
    one_step = Graph([x], [xp.sin(x)])
    assert widen_half(one_step) is one_step
    single = Graph([A], [xp.det(A)])
    assert widen_half(single) is single


@pytest.mark.parametrize(("value", "wanted"), [(0.1, float(np.float16(0.1))), (0.5, 0.5), (1e6, math.inf), (3, 3)])
def test_literals_are_rounded_to_half_precision_first(value, wanted):
    found = to_float32(literal(value, np.float16))
    assert (found.value, found.dtype, type(found.value)) == (wanted, np.float32, type(wanted))
    assert to_float32(None) is None
    assert to_float32(X) is X
    half = input_value(0, (), np.float16)
    assert (to_float32(half).op, to_float32(half).dtype) == ("cast", np.float32)


# domains


def logdet(a):
    sign, log = xp.slogdet(a)
    return xp.where(xp.lt(sign, 0), math.nan, log)


def test_the_logarithm_of_a_determinant_has_a_domain():
    graph = Graph([A], [logdet(A)])
    assert within_domain(graph).outputs[0] is xp.log(xp.det(A))
    (condition,) = domain(graph)
    assert condition is xp.gt(xp.det(A), 0)
    stacked = input_value(0, (5, 2, 2), np.float64)
    (condition,) = domain(Graph([stacked], [logdet(stacked) + 0 * logdet(stacked)]))
    assert (condition.op, condition.shape) == ("all", ())


@pytest.mark.parametrize(
    "other",
    [
        lambda sign, log: xp.where(xp.lt(sign, 0), 1.0, log), lambda sign, log: xp.where(xp.le(sign, 0), math.nan, log),
        lambda sign, log: xp.where(xp.lt(sign, 1), math.nan, log), lambda sign, log: xp.where(xp.lt(sign, 0), math.nan, sign),
        lambda sign, log: xp.where(xp.lt(log, 0), math.nan, xp.sin(log)),
    ],
)  # fmt: skip
def test_other_choices_keep_their_nan(other):
    graph = Graph([A], [other(*xp.slogdet(A))])
    assert domain(graph) == []
    assert within_domain(graph) is graph


def test_stop_gradients_are_dropped():
    graph = Graph([X], [xp.sin(xp.detach(xp.cos(X)))])
    assert ops(drop_stop_gradients(graph)) == {"input", "cos", "sin"}


def test_the_logarithm_of_one_plus_an_exponential_is_a_softplus():
    for total in (1 + xp.exp(X), xp.exp(X) + 1):
        stable = stabilise(Graph([X], [xp.log(total)]))
        assert "softplus" in ops(stable)
        assert evaluate(stable, [np.array(1000.0)])[0] == 1000
    kept = Graph([X], [xp.log(2 + xp.exp(X))])
    assert "softplus" not in ops(stabilise(kept))


# loops


def scan(length, reverse=False, results=True):
    c, x = input_value(0, (), np.float64), input_value(1, (), np.float64)
    body = Graph((c, x), (c * 2 + x, c - x) if results else (c * 2 + x,))
    xs = input_value(1, (length,), np.float64)
    outs = apply(SCAN, (c, xs), {"body": body, "carries": 1, "slices": 1, "length": length, "reverse": reverse})
    return Graph((c, xs), outs), len(body.values)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_short_loops_are_unrolled(length, reverse):
    graph, _ = scan(length, reverse)
    flat = unroll(graph)
    assert not any(map(is_control, flat.values))
    given = [np.array(0.5), np.random.default_rng(0).normal(size=length)]
    for a, b in zip(evaluate(graph, given), evaluate(flat, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
        assert a.shape == b.shape


def test_loops_are_unrolled_up_to_two_hundred_operations():
    _, size = scan(1, results=False)
    most = 200 // size
    assert not any(map(is_control, unroll(scan(most, results=False)[0]).values))
    assert any(map(is_control, unroll(scan(most + 1, results=False)[0]).values))
    body = Graph((X,), (X * 2,))
    for steps, stays in ((None, True), (3, False)):
        attrs = {"condition": Graph((X,), (X < 9,)), "body": body, "carries": 1, "max_steps": steps}
        assert any(map(is_control, unroll(Graph((X,), apply(WHILE, (X,), attrs))).values)) is stays


# Jacobians


def numbers(shape, seed):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(("rows", "columns"), [(2, 5), (5, 2), (1, 3), (3, 1), (4, 4)])
def test_jacobians_of_wide_and_tall_functions(rows, columns):
    x, w = input_value(0, (columns,), np.float64), input_value(1, (columns, rows), np.float64)
    graph = Graph((x, w), (xp.sin(x @ w),))
    a, b = numbers(columns, 0), numbers((columns, rows), 1)
    first, second = evaluate(jacobian(graph), [a, b])
    slope = np.cos(a @ b)
    np.testing.assert_allclose(first, slope[:, None] * b.T, rtol=1e-12)
    np.testing.assert_allclose(second, np.einsum("r,i,rs->ris", slope, a, np.eye(rows)), rtol=1e-12, atol=1e-15)


def test_hessians_of_several_outputs_and_of_empty_inputs():
    x, y, e = input_value(0, (2,), np.float64), input_value(1, (3,), np.float64), input_value(2, (0,), np.float64)
    product = xp.reshape(x, shape=(2, 1)) * xp.reshape(y * y, shape=(1, 3))
    graph = Graph((x, y, e), (xp.sum(product, axis=(1,), keepdims=False),))
    found = evaluate(hessian(graph), [numbers(2, 0), numbers(3, 1), np.zeros(0)])
    a, b = numbers(2, 0), numbers(3, 1)
    wanted = {
        0: np.zeros((2, 2, 2)), 1: np.einsum("oi,j->oij", np.eye(2), 2 * b), 3: np.einsum("oj,i->oij", np.eye(2), 2 * b),
        4: np.einsum("o,ij->oij", a, 2 * np.eye(3)),
    }  # fmt: skip
    for i, block in wanted.items():
        np.testing.assert_allclose(found[i], block, rtol=1e-12, atol=1e-15)
    assert [block.shape for block in found] == [(2, *p, *q) for p in ((2,), (3,), (0,)) for q in ((2,), (3,), (0,))]


def test_jacobians_in_inputs_without_elements_are_empty_and_the_others_are_not():
    x, e = input_value(0, (2,), np.float64), input_value(1, (0, 3), np.float64)
    found = evaluate(jacobian(Graph((x, e), (xp.sin(x), xp.exp(e)))), [numbers(2, 0), np.zeros((0, 3))])
    np.testing.assert_allclose(found[0], np.diag(np.cos(numbers(2, 0))), rtol=1e-12, atol=1e-15)
    assert [block.shape for block in found] == [(2, 2), (2, 0, 3), (0, 3, 2), (0, 3, 0, 3)]


def test_products_with_the_identity_are_folded():
    eye = xp.eye(rows=2, columns=2, dtype=np.dtype(np.float64))
    assert A @ eye is A
    assert eye @ A is A
    wide = xp.eye(rows=2, columns=3, dtype=np.dtype(np.float64))
    assert (A @ wide).shape == (2, 3)


def test_directions_of_hessian_vector_products_are_named():
    y = input_value(1, (), np.float64)
    graph = Graph((X, y), (X * X * y,), ("x", "v"))
    assert hvp(graph, [0]).labels[:2] == ("x", "v")
    assert len(set(hvp(graph, [0]).labels)) == 3
    assert hvp(Graph((X, y), (X * y,), ("x", "y"))).labels == ("x", "y", "v_x", "v_y")
    assert hvp(Graph((X,), (X * X,), ("x",))).labels == ("x", "v")
    assert [float(v) for v in evaluate(hvp(graph), [np.array(3.0), np.array(2.0), np.array(1.0), np.array(5.0)])] == [4 + 30, 6]


def test_derivatives_of_integers_and_complex_numbers_are_refused():
    z, n = input_value(0, (), np.complex128), input_value(0, (), np.int64)
    for of in (jacobian, hessian):
        what = "a Jacobian" if of is jacobian else "a Hessian"
        with pytest.raises(GraphError, match=f"{what} of complex numbers is no array of derivatives"):
            of(Graph((z,), (z * z,)))
        with pytest.raises(GraphError, match=f"only floating-point outputs have {what}, got int64"):
            of(Graph((n,), (n * n,)))
    assert len(grad(Graph((X,), (X * X,))).outputs) == 1


# folds of reductions and products


def test_reductions_of_one_element_or_of_equal_numbers_are_folded():
    x = input_value(0, (1, 3), np.float64)
    for reduce in (xp.sum, xp.amax, xp.amin):
        assert reduce(x, axis=(0,), keepdims=False) is xp.reshape(x, shape=(3,))
        assert reduce(x, axis=(0, 1), keepdims=False).op not in ("reshape", "input")
    for count, folded in ((256, True), (257, False)):
        ones = xp.expand(literal(1, np.float64), shape=(count, 2))
        total = xp.sum(ones, axis=(0,), keepdims=False)
        assert ("sum" not in ops(Graph([], [total]))) is folded
        assert evaluate(Graph([], [total]), [])[0].tolist() == [count, count]


def test_products_with_a_diagonal_matrix_scale_rows():
    d, e = (input_value(i, (2,), np.float64) for i in (1, 2))
    eye = xp.eye(rows=2, columns=2, dtype=np.dtype(np.float64))
    a, b, c = numbers((2, 2), 0), numbers(2, 1), numbers(2, 2)
    for diagonal, wanted in ((eye * d, np.diag(b) @ a), (d * eye, np.diag(b) @ a), (eye * d * e, np.diag(b * c) @ a)):
        graph = Graph((A, d, e), (diagonal @ A,))
        assert "matmul" not in ops(graph)
        np.testing.assert_allclose(evaluate(graph, [a, b, c])[0], wanted, rtol=1e-12)
    assert (eye * d @ d).op == "matmul"


def test_the_inverse_of_a_transpose_is_the_transpose_of_the_inverse():
    found = xp.inv(xp.transpose(A, dim0=0, dim1=1), check=True)
    assert (found.op, found.args[0].op, found.args[0].attrs["check"]) == ("transpose", "inv", True)
    stacked = input_value(0, (3, 3, 3), np.float64)
    assert xp.inv(xp.transpose(stacked, dim0=0, dim1=1), check=False).op == "inv"
    assert xp.inv(xp.transpose(stacked, dim0=-1, dim1=1), check=False).op == "transpose"


def test_an_embedding_that_turns_its_value_is_kept():
    x = input_value(0, (3,), np.float64)
    whole, turned = (xp.embed(x, shape=(3,), index=((start, stop, step),)) for start, stop, step in ((0, 3, 1), (2, None, -1)))
    assert whole is x
    assert evaluate(Graph([x], [turned]), [np.array([1.0, 2.0, 3.0])])[0].tolist() == [3.0, 2.0, 1.0]
