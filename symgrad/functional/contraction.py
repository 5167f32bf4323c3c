"""Public products of vectors and matrices, with PyTorch's signatures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from symgrad.coercion import beside, tensor_list
from symgrad.computed_options import fixed, is_computed
from symgrad.dispatch import tensors as ops
from symgrad.errors import require
from symgrad.functional.einsum import contract
from symgrad.functional.names import METHODS, method, method_inplace, public
from symgrad.lines import warn
from symgrad.ops.promotion import kind, word
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "adjoint", "baddbmm", "bmm", "chain_matmul", "cross", "dot", "ger", "inner", "kron", "matmul", "mm",
    "mv", "outer", "tensordot", "trace", "vdot",
]  # fmt: skip


@method
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; of batches, of a matrix with a vector, of two vectors."""
    return ops.matmul(input, other)


@method
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"{'self' if input.ndim != 2 else 'mat2'} must be a matrix")
    return ops.matmul(input, mat2)


@method
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices."""
    _require_batches(input, mat2)
    return ops.matmul(input, mat2)


@method
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    return ops.matmul(input, vec)


@method
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return ops.matmul(input, tensor)


@method
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """As dot, the first vector conjugated."""
    return dot(_conjugate(input), other)


@method
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of one vector with one of the other."""
    if input.ndim != 1 or vec2.ndim != 1:
        name, wrong = ("self", input) if input.ndim != 1 else ("vec2", vec2)
        raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {wrong.ndim}-D")
    return ops.mul(ops.reshape(input, shape=(input._array.size, 1)), vec2)


@method
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """Another name for `outer`."""
    return outer(input, vec2)


@method
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both."""
    if not input.ndim or not other.ndim:
        return ops.mul(input, other)
    shapes = f"{list(input.shape)} and {list(other.shape)}"
    require(input.shape[-1] == other.shape[-1], f"inner() the last dimension must match on both input tensors but got shapes {shapes}")
    return tensordot(input, other, ([-1], [-1]))


@public
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over the last `dims` dimensions of `a` and the first of `b`, or over the pairs that `dims` lists."""
    require(a.dtype == b.dtype, "both inputs should have same dtype")
    first, second = _contracted(a, b, dims)
    for i, j in zip(first, second, strict=True):
        n, m = a.shape[i], b.shape[j]
        sizes = f"first has size {n} in dim {i} and second has size {m} in dim {j}"
        require(n == m or 1 in (n, m), f"contracted dimensions need to match, but {sizes}")
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    of_a, of_b = [next(letters) for _ in range(a.ndim)], [next(letters) for _ in range(b.ndim)]
    for i, j in zip(first, second, strict=True):
        of_b[j] = of_a[i]
    output = [c for i, c in enumerate(of_a) if i not in first] + [c for j, c in enumerate(of_b) if j not in second]
    return contract(f"{''.join(of_a)},{''.join(of_b)}->{''.join(output)}", a, b)


def _contracted(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        require(dims >= 0, f"tensordot expects dims >= 0, but got dims={dims}")
        require(dims <= min(a.ndim, b.ndim), f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(a.ndim - dims, a.ndim)), list(range(dims))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    require(len(first) == len(second), "both dimension lists should have same length")
    return [normalize_axis(i, a.ndim) for i in first], [normalize_axis(j, b.ndim) for j in second]


@method
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of `input` times the whole of `other`."""
    rank = max(input.ndim, other.ndim)
    first, second = ((1,) * (rank - t.ndim) + tuple(t.shape) for t in (input, other))
    x = ops.reshape(input, shape=tuple(n for size in first for n in (size, 1)))
    y = ops.reshape(other, shape=tuple(n for size in second for n in (1, size)))
    return ops.reshape(ops.mul(x, y), shape=tuple(n * m for n, m in zip(first, second, strict=True)))


# --- sums with a product


@method_inplace
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)"""
    if mat1.ndim != 2 or mat2.ndim != 2:
        name, wrong = ("mat1", mat1) if mat1.ndim != 2 else ("mat2", mat2)
        raise RuntimeError(f"{name} must be a matrix, got {wrong.ndim}-D tensor")
    return _add_product(input, mat1, mat2, beta, alpha)


@method_inplace
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)"""
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    (rows, columns), (length,) = mat._array.shape, vec._array.shape
    if columns != length or input.ndim > 1 or input._array.size not in (1, rows):
        sizes = ", ".join(map(str, input.shape))
        raise RuntimeError(f"size mismatch, got input ({sizes}), mat ({rows}x{columns}), vec ({length})")
    return _add_product(input, mat, vec, beta, alpha)


@method_inplace
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), for batches of matrices"""
    _require_batches(batch1, batch2)
    return _add_product(input, batch1, batch2, beta, alpha)


@method_inplace
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (the sum of batch1 @ batch2 over the batch)"""
    _require_batches(batch1, batch2)
    b, n, k = batch1.shape
    first = ops.reshape(ops.transpose(batch1, dim0=0, dim1=1), shape=(n, b * k))
    return _add_product(input, first, ops.reshape(batch2, shape=(b * k, batch2.shape[2])), beta, alpha)


@method_inplace
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (the outer product of vec1 and vec2)"""
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        require(vector.ndim == 1, f"addr: Expected 1-D argument {name}, but got {vector.ndim}-D")
    product = outer(vec1, vec2)
    _require_expands(input, tuple(product.shape))
    if alpha != 1:
        product = ops.mul(product, alpha)
    if beta == 0:
        return product
    return ops.add(input if beta == 1 else ops.mul(input, beta), product)


def _add_product(input: Tensor, x: Tensor, y: Tensor, beta: Any, alpha: Any) -> Tensor:
    if kind(x._array.dtype) in "bi":
        beta, alpha = int(beta), int(alpha)
    beta, alpha = (beside(factor, input, x, y) for factor in (beta, alpha))
    if is_computed(beta) or is_computed(alpha):
        return ops.add(ops.mul(input, fixed(beta)), ops.mul(ops.matmul(x, y), fixed(alpha)))
    return ops.addmm(input, x, y, beta=beta, alpha=alpha)


# --- chains


@public
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, in the order that costs least."""
    warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot instead, which"
        " accepts a list of two or more tensors rather than multiple parameters.",
    )
    given = tensor_list("chain_matmul", matrices)
    return given[0] if len(given) == 1 else multi_dot(given)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, in the order that costs least; the first and the last may be vectors."""
    tensors = tensor_list("multi_dot", tensors)
    count = len(tensors)
    require(count >= 2, f"multi_dot(): expected at least 2 tensors but got {count}")
    for i, t in enumerate(tensors):
        ends = i in (0, count - 1)
        require(t.ndim == 2 or (ends and t.ndim == 1), f"multi_dot(): tensor {i} must be {'1D or 2D' if ends else '2D'} but got {t.ndim}D")
        types = f"tensor 0 is {word(tensors[0]._array.dtype).lower()} and tensor {i} {word(t._array.dtype).lower()}"
        require(t.dtype == tensors[0].dtype, f"multi_dot(): all tensors must have be the same dtype but {types}")
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain = list(tensors)
    if row:
        chain[0] = ops.reshape(chain[0], shape=(1, *chain[0].shape))
    if column:
        chain[-1] = ops.reshape(chain[-1], shape=(*chain[-1].shape, 1))
    for i, (x, y) in enumerate(itertools.pairwise(chain)):
        shapes = f"{list(tensors[i].shape)} and {list(tensors[i + 1].shape)}"
        require(x.shape[1] == y.shape[0], f"multi_dot(): tensors {i} and {i + 1} with shapes {shapes} cannot be multiplied")
    product = _multiply_chain(chain, _best_splits([t.shape[0] for t in chain] + [chain[-1].shape[1]]), 0, count - 1)
    if not row and not column:
        return product
    return ops.reshape(product, shape=tuple(product.shape[1 if row else 0 : 1 if column else 2]))


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut each stretch of a chain of matrices so that the fewest numbers are multiplied (Cormen et al., 15.2)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            splits[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[splits[i, j]]
    return splits


def _multiply_chain(chain: list[Tensor], splits: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = splits[i, j]
    return ops.matmul(_multiply_chain(chain, splits, i, k), _multiply_chain(chain, splits, k + 1, j))


# --- trace, cross, transposes


@method
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    require(input.ndim == 2, f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return ops.trace(input)


@method
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The vector product along `dim`, by default along the first dimension of size 3."""
    if dim is None:
        threes = [i for i, n in enumerate(input.shape) if n == 3]
        require(bool(threes), "no dimension of size 3 in input")
        dim = threes[0]
    return vector_product(input, other, dim)


def vector_product(input: Tensor, other: Tensor, dim: int) -> Tensor:
    """The vector product along a dimension of two tensors of one rank."""
    require(input.ndim == other.ndim, "linalg.cross: inputs must have the same number of dimensions.")
    return ops.cross(input, other, axis=normalize_axis(dim, input.ndim))


@method
def adjoint(input: Tensor) -> Tensor:
    """Matrices transposed and conjugated."""
    if not input.ndim:
        return _conjugate(input)
    _require_matrices(input, "tensor.adjoint()")
    return _conjugate(ops.transpose(input, dim0=input.ndim - 2, dim1=input.ndim - 1))


def _mT(input: Tensor) -> Tensor:
    """Matrices transposed."""
    _require_matrices(input, "tensor.mT")
    return ops.transpose(input, dim0=input.ndim - 2, dim1=input.ndim - 1)


def _mH(input: Tensor) -> Tensor:
    """Matrices transposed and conjugated."""
    _require_matrices(input, "tensor.mH")
    return adjoint(input)


def _T(input: Tensor) -> Tensor:
    """All dimensions in reverse."""
    if input.ndim != 2:
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in"
            " a future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to"
            " reverse the dimensions of a tensor.",
        )
    if input.ndim < 2:
        return input
    if input.ndim == 2:
        return ops.transpose(input, dim0=0, dim1=1)
    return ops.permute(input, axes=tuple(reversed(range(input.ndim))))


def _H(input: Tensor) -> Tensor:
    """A matrix transposed and conjugated."""
    more = " For batches of matrices, consider using tensor.mH" if input.ndim > 2 else ""
    fits = input.ndim in (0, 2)
    require(fits, f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.{more}")
    return adjoint(input) if input.ndim else _conjugate(input)


METHODS.update(T=property(_T), mT=property(_mT), H=property(_H), mH=property(_mH))


# --- what the functions share


def _conjugate(x: Tensor) -> Tensor:
    return ops.conj(x) if x._array.dtype.kind == "c" else x


def _require_matrices(input: Tensor, name: str) -> None:
    require(input.ndim >= 2, f"{name} is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor.")


def _require_batches(batch1: Tensor, batch2: Tensor) -> None:
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError(f"{'batch1' if batch1.ndim != 3 else 'batch2'} must be a 3D tensor")
    x, y = batch1._array, batch2._array
    (b, _, k), (c, m, _) = x.shape, y.shape
    if b != c or k != m:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{b}, {k}] but got: [{c}, {m}].")
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected scalar type {word(x.dtype)} but found {word(y.dtype)}")


def _require_expands(input: Tensor, shape: tuple[int, ...]) -> None:
    sizes = tuple(input.shape)
    if (math.prod(sizes) == 1 and len(sizes) <= len(shape)) or sizes == shape:
        return
    fits = len(sizes) <= len(shape) and all(n in (1, m) for n, m in zip(sizes, shape[len(shape) - len(sizes) :], strict=True))
    given = f"Target sizes: {list(shape)}.  Tensor sizes: {list(sizes)}"
    require(fits, f"The expanded size of the tensor must match the existing size.  {given}")
