"""Linear maps, look-ups and padding as functions, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.autograd import no_grad
from symgrad.creation import arange
from symgrad.dispatch import tensors as ops
from symgrad.escapes import CLASSES, before_escape
from symgrad.linalg import vector_norm
from symgrad.mode import local
from symgrad.ops.promotion import INT32, INT64, word
from symgrad.tensor import Tensor

__all__ = ["bilinear", "embedding", "linear", "one_hot", "pad"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, in one node."""
    if input._array.dtype != weight._array.dtype:
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {input.dtype.word} and {weight.dtype.word}")
    if weight.ndim == 1 and bias is not None and input.ndim > 1:
        raise RuntimeError(f"linear: mat2 must be a matrix, got 1-D tensor for weight of shape {list(weight.shape)}")
    if weight.ndim > 2:
        raise RuntimeError(f"linear: t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D: weight {list(weight.shape)}")
    if weight.ndim == 1:
        out = ops.matmul(input, weight)
        return out if bias is None else out + bias
    return ops.linear(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1ᵀ W_k x2 for each output k."""
    if weight.ndim != 3 or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear(): expected inputs with the same leading dimensions and a weight of 3 dimensions, got"
            f" {list(input1.shape)}, {list(input2.shape)} and {list(weight.shape)}"
        )
    left = ops.matmul(input1.unsqueeze(-2).unsqueeze(-3), weight)  # (..., out, 1, in2)
    out = ops.matmul(left, input2.unsqueeze(-1).unsqueeze(-3)).squeeze(-1).squeeze(-1)
    return out if bias is None else out + bias


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` that `input` names; the row `padding_idx` gets no gradient."""
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {list(weight.shape)}")
    if sparse:
        raise ValueError("embedding: sparse gradients are not supported; leave sparse=False")
    indices = input._array
    if indices.dtype not in (INT64, INT32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got"
            f" {word(indices.dtype)} instead (while checking arguments for embedding)"
        )
    rows = weight.shape[0]
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= rows):
        raise IndexError(
            f"index out of range in self: embedding has {rows} rows, got indices from {int(indices.min())} to {int(indices.max())}"
        )
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError(f"Padding_idx must be within num_embeddings: got {padding_idx} for {rows} rows")
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    scale = _rarities(input, weight) if scale_grad_by_freq else None
    return ops.embedding(weight, input, scale, padding=None if padding_idx is None else padding_idx % rows)


@no_grad()
def _rarities(indices: Tensor, weight: Tensor) -> Tensor:
    """For each index, 1 / how often it occurs."""
    flat = indices.reshape(-1)
    counts = weight.new_zeros(weight.shape[0]).index_add(0, flat, weight.new_ones(flat.shape))
    return 1 / counts[indices]


@no_grad()
def _renormalize(weight: Tensor, input: Tensor, max_norm: float, p: float) -> None:
    """Scale the rows in use down to `max_norm`, in place."""
    if local.mode.capture is not None:  # how many there are is known only from values
        used = weight.new_zeros(weight.shape[0]).index_fill(0, input.reshape(-1), 1) > 0
        norms = vector_norm(weight, p, dim=1, keepdim=True).double()
        large = (norms > max_norm) & used.unsqueeze(1)
        weight.mul_(ops.where(large, max_norm / (norms + 1e-7), 1).to(weight.dtype))
        return
    used = input.unique()
    rows = weight[used]
    norms = vector_norm(rows, p, dim=1, keepdim=True).double()
    weight[used] = rows * ops.where(norms > max_norm, max_norm / (norms + 1e-7), 1).to(weight.dtype)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A last dimension that is 1 at the class and 0 elsewhere."""
    indices = tensor._array
    if indices.dtype != INT64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {word(indices.dtype)}")
    if indices.size == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if indices.size and int(indices.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        before_escape(tensor.max(), CLASSES)  # which a program depends on
    needed = int(indices.max(initial=-1)) + 1
    count = needed if num_classes == -1 else num_classes
    if count < needed:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return ops.one_hot(tensor, classes=count)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads are given from the last dimension on: (left, right, top, bottom, ...); negative ones crop."""
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "pad: Padding length should be less than or equal to two times the input dimension and even, got"
            f" {list(pad)} for {list(input.shape)}"
        )
    pairs = [(0, 0)] * (input.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if mode != "constant":
        return _pad_by_index(input, pairs, mode, len(pad))
    if any(n + b + a < 0 for n, (b, a) in zip(input.shape, pairs, strict=True)):
        raise RuntimeError(f"pad: the padding {list(pad)} takes more from an input of size {list(input.shape)} than there is")
    crops = tuple((max(-b, 0), max(-a, 0)) for b, a in pairs)
    out = ops.crop(input, widths=crops) if any(map(any, crops)) else input
    widths = tuple((max(b, 0), max(a, 0)) for b, a in pairs)
    return ops.pad(out, widths=widths, value=0 if value is None else value)


def _pad_by_index(input: Tensor, pairs: list[tuple[int, int]], mode: str, length: int) -> Tensor:
    """Each position outside is one inside: mirrored, the nearest, or the one from the other end. Negative pads crop."""
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}: use constant, reflect, replicate or circular")
    if input.ndim not in (length // 2 + 1, length // 2 + 2):
        raise NotImplementedError(f"pad: Padding size {length} is not supported for {input.ndim}D input tensor in mode {mode!r}.")
    for dim, (before, after) in enumerate(pairs):
        if not before and not after:
            continue
        size = input.shape[dim]
        if mode == "reflect" and max(before, after) >= size:
            raise RuntimeError(
                f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at"
                f" dimension {dim} of input {list(input.shape)}"
            )
        if mode == "circular" and max(before, after) > size:
            raise RuntimeError(
                f"pad: Padding value causes wrapping around more than once: ({before}, {after}) at dimension {dim} of input"
                f" {list(input.shape)}"
            )
        if size + before + after < (mode == "circular"):
            raise RuntimeError(f"pad: input {list(input.shape)} is too small at dimension {dim} for the padding ({before}, {after})")
        positions = arange(-before, size + after)
        if mode == "reflect":
            positions = size - 1 - (size - 1 - positions.abs()).abs()
        else:
            first, last = max(-before, 0), size - max(-after, 0)  # what is cropped takes no part in a circle
            positions = positions.clamp(0, size - 1) if mode == "replicate" else (positions - first) % max(last - first, 1) + first
        input = input.index_select(dim, positions)
    return input
