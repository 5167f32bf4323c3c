"""Dropout as functions, with PyTorch's signatures and draws."""

from __future__ import annotations

from typing import Any

from symgrad.escapes import before_escape, option
from symgrad.lines import warn
from symgrad.mode import record_draw
from symgrad.ops.generator import default_generator
from symgrad.ops.promotion import kind, word
from symgrad.ops.sampling import dropout_mask
from symgrad.tensor import Tensor, wrap
from symgrad.views import inplace as in_place

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check_probability(p: Any) -> None:
    if isinstance(p, Tensor):
        before_escape(p, option("p", "dropout"))
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _float_type(input: Tensor) -> Any:
    """The type of the input, which must be a float: the scale and the mask would be cut off to integers."""
    dtype = input._array.dtype
    if kind(dtype) == "c":
        raise NotImplementedError(f"dropout is not implemented for '{word(dtype)}'")
    if kind(dtype) != "f":
        raise RuntimeError(f"dropout: result type Float can't be cast to the desired output type {word(dtype)}: convert the input")
    return dtype


def _dropped(input: Tensor, p: float, mask_shape: tuple[int, ...]) -> Tensor:
    dtype = _float_type(input)
    scale = dtype.type(0.0 if p == 1 else 1 / (1 - p))
    return input * wrap(record_draw(lambda: dropout_mask(default_generator, mask_shape, p).astype(dtype) * scale, default_generator))


def _maybe_inplace(input: Tensor, p: float, mask_shape: tuple[int, ...], inplace: bool) -> Tensor:
    return in_place(_dropped)(input, p, mask_shape) if inplace else _dropped(input, p, mask_shape)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the rest by 1 / (1 - p)."""
    _check_probability(p)
    if not training or p == 0:
        return input
    return _maybe_inplace(input, p, tuple(input.shape), inplace)


def _feature_mask(input: Tensor) -> tuple[int, ...]:
    """The shape of a mask with one entry for each channel of each example."""
    if input.ndim < 2:
        raise RuntimeError(f"Feature dropout requires at least 2 dimensions in the input, got {list(input.shape)}")
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def _is_unbatched(name: str, ranks: tuple[int, int], ndim: int) -> bool:
    """PyTorch's rule: dropout3d takes any input but one of 5 dimensions for one example, dropout2d none."""
    return ndim != ranks[1] if name == "dropout3d" else ndim == ranks[0] and name != "dropout2d"


def _feature_dropout(name: str, ranks: tuple[int, int], input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p)
    if input.ndim not in ranks:
        warn(
            f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result in an error in a future release. To"
            f" retain the behavior and silence this warning, please use dropout instead. Inputs of {name} have {ranks[0]} or {ranks[1]}"
            " dimensions.",
        )
    if not training or p == 0:
        return input
    shape = (input.shape[0], *(1,) * (input.ndim - 1)) if _is_unbatched(name, ranks, input.ndim) else _feature_mask(input)
    return _maybe_inplace(input, p, shape, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, length) set to 0 at random."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to provide channel-wise"
            " dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _feature_dropout("dropout1d", (2, 3), input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, height, width) set to 0 at random."""
    if input.ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input is"
            " interpreted as shape (N, C, L), where C is the channel dim. To maintain the 1D channel-wise dropout behavior, please switch"
            " to using dropout1d instead.",
        )
    return _feature_dropout("dropout2d", (3, 4), input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (batch, channels, depth, height, width) set to 0 at random."""
    return _feature_dropout("dropout3d", (4, 5), input, p, training, inplace)


ALPHA = 1.7580993408473766
"""What a selu tends to for large negative inputs, without its sign."""


def _moved(input: Tensor, p: float, mask_shape: tuple[int, ...]) -> Tensor:
    """What is dropped becomes -ALPHA, and all is scaled and shifted back to mean 0 and variance 1."""
    if p == 1:
        return input * 0
    scale = ((ALPHA**2 * p + 1) * (1 - p)) ** -0.5
    dtype = _float_type(input)
    keep = wrap(record_draw(lambda: dropout_mask(default_generator, mask_shape, p).astype(dtype), default_generator))
    return input * (keep * scale) + ((keep - 1) * (ALPHA * scale) + ALPHA * scale * p)  # type: ignore[no-any-return]


def _alpha_dropout(input: Tensor, p: float, mask_shape: tuple[int, ...], inplace: bool) -> Tensor:
    return in_place(_moved)(input, p, mask_shape) if inplace else _moved(input, p, mask_shape)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of a selu's output."""
    _check_probability(p)
    return _alpha_dropout(input, p, tuple(input.shape), inplace) if training and p > 0 else input


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels."""
    _check_probability(p)
    return _alpha_dropout(input, p, _feature_mask(input), inplace) if training and p > 0 else input
