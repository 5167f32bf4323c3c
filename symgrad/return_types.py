"""The named tuples that some functions return, printed as PyTorch prints them."""

from __future__ import annotations

from typing import Any, NamedTuple

from symgrad.tensor import Tensor


def _text(pair: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(pair._fields, pair, strict=True))
    return f"torch.return_types.{pair.__class__.__name__}(\n{fields})"


class max(NamedTuple):
    values: Tensor
    indices: Tensor


class min(NamedTuple):
    values: Tensor
    indices: Tensor


class median(NamedTuple):
    values: Tensor
    indices: Tensor


class nanmedian(NamedTuple):
    values: Tensor
    indices: Tensor


class mode(NamedTuple):
    values: Tensor
    indices: Tensor


class kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor


class sort(NamedTuple):
    values: Tensor
    indices: Tensor


class topk(NamedTuple):
    values: Tensor
    indices: Tensor


class cummax(NamedTuple):
    values: Tensor
    indices: Tensor


class cummin(NamedTuple):
    values: Tensor
    indices: Tensor


class aminmax(NamedTuple):
    min: Tensor
    max: Tensor


class slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class linalg_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class linalg_eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_svd(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class linalg_qr(NamedTuple):
    Q: Tensor
    R: Tensor


for _kind in (
    max, min, median, nanmedian, mode, kthvalue, sort, topk, cummax, cummin, aminmax,
    slogdet, linalg_slogdet, linalg_eig, linalg_eigh, linalg_svd, linalg_qr,
):  # fmt: skip
    _kind.__repr__ = _text  # type: ignore[method-assign]
