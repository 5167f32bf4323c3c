"""The generated type stubs are up to date with the table and with Tensor's methods."""

from __future__ import annotations

import ast

import pytest
from write_stubs import STUBS, row_signature

from symgrad.compiler.ir.builder import xp
from symgrad.dispatch import tensors
from symgrad.ops.namespace import raw
from symgrad.ops.table import TABLE


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.name)
def test_stubs_are_what_the_generator_writes(path):
    assert path.read_text() == STUBS[path](), "run: python tests/support/write_stubs.py"


@pytest.mark.parametrize("namespace", [raw, tensors, xp], ids=["raw", "tensors", "builder"])
def test_typed_names_are_those_of_every_namespace(namespace):
    (signatures,) = (path for path in STUBS if path.name == "signatures.pyi")
    tree = ast.parse(signatures.read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Namespace")
    assert {node.name for node in typed.body if isinstance(node, ast.FunctionDef)} == set(vars(namespace))


@pytest.mark.parametrize(
    ("row", "stub"),
    [
        ("sin", "def sin(self, x: Any, /) -> T: ..."),
        ("cat", "def cat(self, *tensors: Any, axis: Any) -> T: ..."),
        ("split", "def split(self, x: Any, /, *, axis: Any, sizes: Any) -> tuple[T, ...]: ..."),
        ("svd", "def svd(self, x: Any, /, *, full_matrices: Any) -> tuple[T, T, T]: ..."),
    ],
)
def test_signature_of_a_row(row, stub):
    assert row_signature(TABLE[row]).strip() == stub
