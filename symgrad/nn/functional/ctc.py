"""The connectionist temporal classification loss: dynamic programming over alignments, in logarithms."""

from __future__ import annotations

import math
from typing import Any

from symgrad.control import scan
from symgrad.creation import arange
from symgrad.dispatch import tensors as ops
from symgrad.dtypes import int64
from symgrad.from_data import tensor
from symgrad.functional.joining import stack
from symgrad.nn.functional.loss import legacy, reduced
from symgrad.tensor import Tensor

__all__ = ["ctc_loss"]

IMPOSSIBLE = -1e30
"""The logarithm of 0 that can be added to: differences of infinities are NaN."""


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of labels, over all alignments with (time, batch, classes); targets padded, or one after another."""
    reduction = legacy(None, None, reduction)
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    if x.ndim != 3:
        raise RuntimeError(f"ctc_loss: expected log_probs of 2 or 3 dimensions, got {list(log_probs.shape)}")
    if not x.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    times, lengths = _lengths("input_lengths", input_lengths, x.shape[1]), _lengths("target_lengths", target_lengths, x.shape[1])
    _check(x, times, blank)
    labels = _padded(targets, lengths, blank)
    loss = _losses(x, labels, times, lengths, blank)
    impossible = loss > -IMPOSSIBLE / 2
    loss = ops.where(impossible, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        return (loss / lengths.clamp_min(1)).mean()
    return reduced(loss.squeeze(0) if single else loss, reduction)


def _lengths(name: str, given: Any, batch: int) -> Tensor:
    lengths = given if isinstance(given, Tensor) else tensor(list(given) if isinstance(given, (list, tuple)) else [given])
    lengths = lengths.detach().to(int64).reshape(-1)
    if lengths.numel() != batch:
        raise RuntimeError(f"{name} must be of size batch_size: got {lengths.numel()} for {batch}")
    return lengths


def _check(x: Tensor, times: Tensor, blank: int) -> None:
    if not 0 <= blank < x.shape[2]:
        raise RuntimeError(f"blank must be in label range, got {blank} for {x.shape[2]} classes")
    if times.numel() and int(times.max()) > x.shape[0]:
        raise RuntimeError(f"Expected input_lengths to have value at most {x.shape[0]}, but got value {int(times.max())}")
    if times.numel() and int(times.min()) < 0:
        raise RuntimeError(f"Expected input_lengths to have value at least 0, but got value {int(times.min())}")


def _padded(targets: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """Labels as (batch, longest), with blanks where there are none."""
    longest = int(lengths.max()) if lengths.numel() else 0
    line = arange(longest)
    if targets.ndim == 1:
        starts = lengths.cumsum(0) - lengths
        if int(lengths.sum()) != targets.numel():
            raise RuntimeError(f"Expected 1-D targets to have {int(lengths.sum())} elements, the sum of target_lengths: {targets.numel()}")
        places = (starts.unsqueeze(1) + line).clamp_max(max(targets.numel() - 1, 0))
        rows = targets.long()[places] if targets.numel() else places
    else:
        if targets.shape[1] < longest:
            raise RuntimeError(f"Expected targets to have size at least {longest} at dimension 1, but got size {list(targets.shape)}")
        rows = targets.long()[:, :longest]
    return ops.where(line < lengths.unsqueeze(1), rows, blank)


def _losses(x: Tensor, labels: Tensor, times: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """alpha[s] is the log-probability of all paths that have come to s: blank, label, blank, label, ..., blank."""
    batch, longest = labels.shape
    states = 2 * longest + 1
    path = stack([labels.new_full((batch, longest), blank), labels], -1).reshape(batch, 2 * longest)
    path = ops.pad(path, widths=((0, 0), (0, 1)), value=blank)
    before = ops.pad(path, widths=((0, 0), (2, 0)), value=blank)[:, :states]
    may_skip = (path != blank) & (path != before)
    emitted = x.gather(2, path.unsqueeze(0).expand(x.shape[0], batch, states))
    running = (arange(x.shape[0]).unsqueeze(1) < times).unsqueeze(2)

    def step(alpha: Tensor, frame: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        once, twice = (ops.pad(alpha, widths=((0, 0), (by, 0)), value=IMPOSSIBLE)[:, :states] for by in (1, 2))
        ways = stack([alpha, once, ops.where(may_skip, twice, IMPOSSIBLE)], -1)
        return ops.where(frame[1], ways.logsumexp(-1) + frame[0], alpha), None

    start = ops.where(arange(states) == 0, 0.0, x.new_full((batch, states), IMPOSSIBLE))
    alpha, _ = scan(step, start, (emitted, running))
    ends = stack([2 * lengths, (2 * lengths - 1).clamp_min(0)], 1)
    last = alpha.gather(1, ends)
    last = ops.where((lengths.unsqueeze(1) == 0) & (arange(2) == 1), IMPOSSIBLE, last)
    return -last.logsumexp(1) + _normalisation(x, times)


def _normalisation(x: Tensor, times: Tensor) -> Tensor:
    """0 with the gradient exp(x): PyTorch's gradient is that of scores in front of a log_softmax, for which it vanishes."""
    odds = x.exp()
    counted = ops.where((arange(x.shape[0]).unsqueeze(1) < times).unsqueeze(2), odds - odds.detach(), 0)
    return counted.sum((0, 2))
