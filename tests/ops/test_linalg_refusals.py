"""What linear algebra refuses, in PyTorch's words."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import leaf

import symgrad as sg
from symgrad import linalg
from symgrad.tensor import wrap

INF = float("inf")
ZERO, EYE = np.zeros((2, 2)), np.eye(2)
FAILURES = [
    (lambda: linalg.inv(wrap(ZERO)), "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed"),
    (lambda: linalg.inv(wrap(np.stack([EYE, ZERO]))), r"linalg.inv: \(Batch element 1\): The diagonal element 1 is zero"),
    (lambda: linalg.inv(wrap(np.array([[1.0, 2], [2, 4]]))), "The diagonal element 2 is zero"),
    (lambda: linalg.solve(wrap(ZERO), leaf(2)), "The solver failed because the input matrix is singular"),
    (lambda: linalg.cholesky(wrap(-EYE)), "the leading minor of order 1 is not positive-definite"),
    (lambda: linalg.cholesky(wrap(np.stack([EYE, np.diag([1.0, -1])]))), r"\(Batch element 1\): .*the leading minor of order 2"),
    (lambda: linalg.matrix_power(wrap(ZERO), -1), "The diagonal element 1 is zero"),
    (lambda: linalg.svd(wrap(np.full((2, 2), np.nan))), "linalg.svd: The algorithm failed to converge"),
    (lambda: linalg.svd(wrap(np.stack([EYE, np.full((2, 2), np.nan)]))), r"linalg.svd: \(Batch element 1\): The algorithm failed"),
]
REFUSALS = [
    (lambda: linalg.inv(leaf(2, 3)), RuntimeError, "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
    (lambda: linalg.inv(leaf(3)), RuntimeError, "linalg.inv: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.det(sg.tensor([[1, 2], [3, 4]])), RuntimeError, "linalg.det: Expected a floating point or complex .*Got Long"),
    (lambda: linalg.inv(wrap(EYE.astype(np.float16))), RuntimeError, "linalg.inv: Low precision dtypes not supported. Got Half"),
    (lambda: linalg.slogdet(leaf(2, 3)), RuntimeError, "linalg.slogdet: A must be batches of square matrices"),
    (lambda: sg.logdet(leaf(2, 3)), RuntimeError, "logdet: A must be batches of square matrices"),
    (lambda: linalg.solve(leaf(2, 2), leaf(3)), RuntimeError, r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"),
    (lambda: linalg.solve(leaf(2, 2), sg.tensor([1.0, 2])), RuntimeError, "found A of type Double and B of type Float instead"),
    (lambda: linalg.solve_triangular(leaf(2, 2), leaf(2), upper=True), RuntimeError, "The input tensor B must have at least 2 dimensions"),
    (lambda: linalg.cholesky(leaf(2, 3)), RuntimeError, "linalg.cholesky: A must be batches of square matrices"),
    (lambda: linalg.matrix_power(leaf(2, 2), 0.5), TypeError, "argument 'n' .position 2. must be int, not float"),
    (lambda: linalg.multi_dot([leaf(2, 3)]), RuntimeError, "expected at least 2 tensors but got 1"),
    (lambda: linalg.multi_dot([leaf(2, 3), leaf(4, 5)]), RuntimeError, r"tensors 0 and 1 with shapes \[2, 3\] and \[4, 5\] cannot"),
    (lambda: linalg.vecdot(leaf(2, 3), leaf(2, 4)), RuntimeError, r"The size of tensor a \(3\) must match the size of tensor b \(4\)"),
    (lambda: linalg.eigh(leaf(2, 2), "x"), RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got x"),
    (lambda: linalg.qr(leaf(2, 2), "x"), RuntimeError, "qr received unrecognized mode 'x'"),
    (lambda: linalg.svd(leaf(2)), RuntimeError, "linalg.svd: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.vector_norm(leaf(3), "fro"), TypeError, "argument 'ord' .position 2. must be Number, not str"),
    (lambda: linalg.vector_norm(wrap(np.zeros(0)), INF), RuntimeError, "the operation does not have an identity"),
    (lambda: linalg.matrix_norm(leaf(3)), RuntimeError, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.matrix_norm(leaf(3, 3), 3), RuntimeError, "linalg.matrix_norm: Order 3 not supported."),
    (lambda: linalg.matrix_norm(leaf(3, 3), dim=(0, 0)), RuntimeError, "dims must be different"),
    (lambda: linalg.norm(leaf(3, 3, 3), 2), RuntimeError, "the input must be 1D or 2D. Got 3D"),
    (lambda: linalg.norm(sg.tensor([1, 2])), RuntimeError, "linalg.vector_norm: Expected a floating point or complex .*Got Long"),
    (lambda: sg.cdist(leaf(2, 3), leaf(4, 5)), RuntimeError, "X1 and X2 must have the same number of columns. X1: 3 X2: 5"),
    (lambda: linalg.inv("3"), TypeError, "argument 'A' .position 1. must be Tensor, not str"),
]


@pytest.mark.parametrize("index", range(len(FAILURES)))
def test_failure(index):
    call, text = FAILURES[index]
    with pytest.raises(linalg.LinAlgError, match=text):
        call()


def test_a_matrix_that_only_one_lapack_finds_singular_is_refused(monkeypatch):
    monkeypatch.setattr("symgrad.ops.linalg._zero_pivot", lambda matrix: 0)
    with pytest.raises(linalg.LinAlgError, match=r"^linalg\.inv: The diagonal element 1 is zero"):
        linalg.inv(wrap(np.stack([EYE, ZERO])))


@pytest.mark.parametrize("index", range(len(REFUSALS)))
def test_refusal(index):
    call, error, text = REFUSALS[index]
    with pytest.raises(error, match=text):
        call()


def test_a_linalg_error_is_a_runtime_error():
    assert issubclass(linalg.LinAlgError, RuntimeError)
