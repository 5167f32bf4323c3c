"""Random numbers: PyTorch's CPU stream on raw ndarrays, so that a seed means here what it means there.

What has to hold; tests/peers compares it with torch 2.13:
  1. The bits are torch's: MT19937, seeded by the low 32 bits of the seed. A draw has 32 bits; a wide draw is two of
     them, the first on top. Each function takes as many as torch's does, so calls in any order stay in step, and
     `get_state` gives torch's own bytes.
  2. Equal bit for bit: uniform, randint, random_, randperm, bernoulli, dropout_mask, multinomial with replacement;
     normal in float16, bfloat16 and float32, and in float64 below 16 elements; exponential in float32 and narrower,
     hence multinomial without replacement, but for the order of ties.
  3. Equal to 2 units in the last place: float64 exponential, and float64 normal from 16 elements up (NumPy's
     logarithm is not libm's).
  4. Same distribution, other values: where torch's builds differ among themselves, its x86 wheels with AVX2 are
     followed. And torch fills a tensor that is not contiguous in memory order; here there is only C order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from symgrad.errors import require
from symgrad.lines import warn
from symgrad.ops.boxmuller import fma, normal_blocks, normal_pairs, unit
from symgrad.ops.generator import (
    INT64_MAX,
    INT64_MIN,
    Array,
    Generator,
    default_generator as default_generator,
)

Shape: TypeAlias = int | Sequence[int]

# digits of the significand (with the hidden one) and largest value; np.finfo does not know bfloat16
FLOATS = {
    "float16": (11, 65504.0),
    "bfloat16": (8, float.fromhex("0x1.fep127")),
    "float32": (24, float.fromhex("0x1.fffffep127")),
    "float64": (53, float.fromhex("0x1.fffffffffffffp1023")),
}


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = tuple(map(operator.index, shape if isinstance(shape, (tuple, list)) else (shape,)))
    least = min(sizes, default=0)
    if least < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {least}: {list(sizes)}")
    return sizes


def _floating(name: str, dtype: Any) -> np.dtype[Any]:
    checked: np.dtype[Any] = np.dtype(dtype)
    if checked.name not in FLOATS:
        raise NotImplementedError(f"{name} is not implemented for {checked}: it needs a floating-point dtype")
    return checked


# Real numbers


def _cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """To the two-byte floats torch goes by way of float32, and so rounds twice."""
    return x.astype(np.float32 if dtype.itemsize == 2 else dtype, copy=False).astype(dtype, copy=False)


def _complex(parts: Array, dtype: np.dtype[Any]) -> Array:
    return parts.view(dtype).reshape(parts.shape[:-1])


def uniform(gen: Generator, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
    """Uniform in [low, high)."""
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    if dtype.kind == "c":
        return _complex(uniform(gen, (*sizes, 2), f"f{dtype.itemsize // 2}", low, high), dtype)
    _check_uniform(_floating("uniform_", dtype), low, high)
    out = unit(gen, math.prod(sizes), dtype == np.float64)
    if (low, high) != (0, 1):
        start, stop = out.dtype.type(low), out.dtype.type(high)
        out = fma(out, float(stop - start), float(start))
    out = _cast(out, dtype)
    if (low, high) != (0, 1) or dtype.itemsize == 2:  # rounding can reach `high`, which torch sends to `low`
        ends = _cast(np.array([low, high]), dtype)
        out[out == ends[1]] = ends[0]
    return out.reshape(sizes)


def _check_uniform(dtype: np.dtype[Any], low: float, high: float) -> None:
    largest = FLOATS[dtype.name][1]
    for name, bound in (("from", low), ("to", high)):
        require(abs(bound) <= largest, f"{name} is out of bounds for {dtype}")
    require(low <= high, f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    require(high - low <= largest, f"uniform_ expects to-from <= {largest:g}, but found to={high:g} and from={low:g}")


def exponential(gen: Generator, shape: Shape, dtype: Any, lambd: float = 1.0) -> Array:
    """Density lambd * exp(-lambd * x), by inversion in float64 whatever the dtype."""
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    require(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    require(dtype.name in FLOATS, f"Exponential distribution is continuous, its dtype a floating point, not {dtype}")
    out = -1.0 / lambd * np.log1p(-unit(gen, math.prod(sizes), wide=True))
    return _cast(out, dtype).reshape(sizes)


def normal(gen: Generator, shape: Shape, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Array:
    """Normal, by Box-Muller: in blocks of 16 from 16 elements up, below that pair by pair in float64."""
    require(std >= 0, f"normal expects std >= 0.0, but found std {std:g}")
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    if dtype.kind == "c":  # half the variance to each part
        return _complex(normal(gen, (*sizes, 2), f"f{dtype.itemsize // 2}", mean, std / math.sqrt(2)), dtype)
    fill = normal_pairs if math.prod(sizes) < 16 else normal_blocks
    with gen._lock:
        out = fill(gen, math.prod(sizes), _floating("normal_", dtype))
    if (mean, std) != (0, 1):
        kind = out.dtype.type
        out = fma(out, float(kind(std)), float(kind(mean)))
    return _cast(out, dtype).reshape(sizes)


def log_normal(gen: Generator, shape: Shape, dtype: Any, mean: float = 1.0, std: float = 2.0) -> Array:
    """The exponential of a normal number; torch draws these pair by pair in float64, however many there are."""
    sizes, dtype = _sizes(shape), _floating("log_normal_", dtype)
    require(std > 0, f"log_normal_ expects std > 0.0, but found std={std:g}")
    with gen._lock:
        out = normal_pairs(gen, math.prod(sizes), dtype)
    return _cast(np.exp(out * std + mean), dtype).reshape(sizes)


def cauchy(gen: Generator, shape: Shape, dtype: Any, median: float = 0.0, sigma: float = 1.0) -> Array:
    """Median and half width at half height, by inversion in float64."""
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    require(dtype.name in FLOATS, f"Cauchy distribution is continuous, its dtype a floating point, not {dtype}")
    require(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    out = median + sigma * np.tan(math.pi * (unit(gen, math.prod(sizes), wide=True) - 0.5))
    return _cast(out, dtype).reshape(sizes)


# Integers


def geometric(gen: Generator, shape: Shape, dtype: Any, p: float) -> Array:
    """Trials up to the first success of probability p."""
    sizes = _sizes(shape)
    require(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    out = np.ceil(np.log(unit(gen, math.prod(sizes), wide=True)) / math.log1p(-p))
    return out.astype(dtype).reshape(sizes)


def randint(gen: Generator, low: int, high: int, shape: Shape, dtype: Any = np.int64) -> Array:
    """Uniform over low, ..., high - 1."""
    return random_(gen, shape, dtype, low, high)


def random_(gen: Generator, shape: Shape, dtype: Any, low: int | None = None, high: int | None = None) -> Array:
    """Whole numbers in [low, high), where `high` alone implies 0 as `low`. Without `high` they go up to the largest
    number to which the dtype counts without gaps, and without both they start at 0.
    """
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    count = math.prod(sizes)
    if low is None and high is None:
        require(_signed(dtype), f"random_ without bounds is not implemented for {dtype}", NotImplementedError)
        draws = gen.draw64(count) if dtype.name in ("int64", "float64") else gen.draw32(count)
        draws %= draws.dtype.type(_largest(dtype) + 1)
        return draws.astype(dtype).reshape(sizes)
    if low == INT64_MIN and high is None:
        covered = dtype.name in ("int64", "float64", "float32", "bfloat16")
        require(covered, f"random_ over all of int64 is not implemented for {dtype}", NotImplementedError)
        return gen.draw64(count).view(np.int64).astype(dtype).reshape(sizes)
    first, last = _range(dtype, low or 0, high)
    span = last - first + 1
    draws = gen.draw32(count) if span < 2**28 else gen.draw64(count)  # keeps the bias of a remainder small
    draws %= draws.dtype.type(span)
    values = draws.astype(np.int64, copy=False)
    values += first
    return values.astype(dtype, copy=False).reshape(sizes)


def _signed(dtype: np.dtype[Any]) -> bool:
    """Whether it is among the dtypes of torch's older kernels, which have uint8 but no wider unsigned one."""
    return dtype.name in FLOATS or dtype.kind in "bi" or dtype == np.uint8


def _largest(dtype: np.dtype[Any]) -> int:
    """To which whole number the dtype counts without gaps, in int64."""
    if dtype.name in FLOATS:
        return 1 << FLOATS[dtype.name][0]
    return 1 if dtype.kind == "b" else min(int(np.iinfo(dtype).max), INT64_MAX)


def _range(dtype: np.dtype[Any], low: int, high: int | None) -> tuple[int, int]:
    """First and last number, so far inside the bounds that rounding to the dtype will not cross these."""
    require(dtype.kind != "c", "random_ handles only integral, floating-point and boolean types")
    first, stop = operator.index(low), _largest(dtype) + 1 if high is None else operator.index(high)
    fits = first >= INT64_MIN and (stop <= INT64_MAX or high is None)
    require(fits, f"Overflow when unpacking long long: from={first}, to={stop}", ValueError)
    less = first < stop or high is None
    require(less, f"random_ expects 'from' to be less than 'to', but got from={first} >= to={stop}")
    _check_bounds(dtype, first, stop - 1)
    if dtype.name in FLOATS:
        first, stop = _inward(dtype, first, 1), stop if high is None else _inward(dtype, stop, -1)
        less = first < stop - (high is None)
        require(less, f"random_ expects 'from' casted to dtype to be less than 'to', but got from={first}, to={stop}")
    return first, stop - 1


def _inward(dtype: np.dtype[Any], bound: int, step: int) -> int:
    """The lower bound (step 1) or the upper (step -1), moved where its neighbour would round out of the range."""
    near = bound + step
    rounded = int(np.int64(near).astype("f8" if dtype == np.float64 else "f4").astype(dtype))
    outside = rounded < bound if step > 0 else rounded >= bound
    return rounded + step * (1 << abs(near).bit_length() - FLOATS[dtype.name][0]) if outside else bound


def _check_bounds(dtype: np.dtype[Any], first: int, last: int) -> None:
    digits, highest = FLOATS.get(dtype.name, (None, _largest(dtype)))
    lowest = -highest if digits else 0 if dtype.kind in "bu" else int(np.iinfo(dtype).min)
    for name, bound in (("from", first), ("to - 1", last)):
        require(lowest <= bound <= highest, f"{name} is out of bounds for {dtype}")
        if digits and abs(bound) > 2**digits:
            text = f"{name} is out of bounds [-(2^{digits}), 2^{digits}], beyond which {dtype} skips whole numbers"
            warn(text)


def randperm(gen: Generator, n: int, dtype: Any = np.int64) -> Array:
    """A permutation of 0, ..., n - 1."""
    n, dtype = operator.index(n), np.dtype(dtype)
    require(n >= 0, f"n must be non-negative, got {n}")
    require(_signed(dtype) and dtype.kind != "b", f"randperm is not implemented for {dtype}", NotImplementedError)
    require(n <= _largest(dtype) + 1, f"n cannot be greater than {_largest(dtype) + 1} for {dtype}, got {n}")
    shuffle = _swaps if n < (2**32 - 1) // 20 else _inside_out
    return shuffle(gen, n).astype(dtype, copy=False)


def _swaps(gen: Generator, n: int) -> Array:
    """Exchange element i with element chosen[i] >= i, for i = 0, 1, ...; all at once.

    Place i, when its turn comes, holds what the last turn that chose it put there: the content of that turn's own
    place at the time, and so on back to a place that nobody had chosen, which holds its own number.
    """
    turns = np.arange(n)
    chosen = turns.copy()
    chosen[:-1] += gen.draw32(max(n - 1, 0)) % np.arange(n, 1, -1, dtype=np.uint32)
    by_choice = np.sort(chosen << 32 | turns)  # one sort of pairs
    place, turn = by_choice >> 32, by_choice & 0xFFFFFFFF
    repeated = place[1:] == place[:-1]
    before = np.full(n, -1)  # the turn before this one that chose the same place
    before[turn[1:][repeated]] = turn[:-1][repeated]
    final = np.append(~repeated, True)[:n]
    place, turn = place[final], turn[final]
    turn = np.where(turn == place, before[turn], turn)
    origin = turns
    origin[place] = np.where(turn < 0, place, turn)
    while not np.array_equal(further := origin[origin], origin):  # each round doubles the step back
        origin = further
    return np.where(before < 0, chosen, origin[before])


def _inside_out(gen: Generator, n: int) -> Array:
    """From 2**32 / 20 on, where a remainder of 32 bits would be too coarse; serial."""
    out = np.arange(n)
    for start in range(0, n, 2**20):
        stop = min(start + 2**20, n)
        chosen = gen.draw64(stop - start) % np.arange(start + 1, stop + 1, dtype=np.uint64)
        for i, j in enumerate(chosen.tolist(), start):
            out[i] = out[j]
            out[j] = i
    return out


# Choices


def bernoulli(gen: Generator, p: Array | float, shape: Shape, dtype: Any) -> Array:
    """1 with probability p, else 0. An array of probabilities is compared in its own precision, a number in float64."""
    sizes = _sizes(shape)
    if not isinstance(p, np.ndarray):
        require(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        return _unit_below(gen, float(p), sizes).astype(dtype, copy=False)
    wide = _floating("bernoulli", p.dtype) == np.float64
    require(((p >= 0) & (p <= 1)).all(), "bernoulli expects each p to be in [0, 1], but got others")
    try:
        expanded = np.broadcast_to(p if wide else p.astype(np.float32), sizes)
    except ValueError:
        raise RuntimeError(f"bernoulli cannot expand probabilities of shape {p.shape} to {sizes}") from None
    return (unit(gen, math.prod(sizes), wide).reshape(sizes) < expanded).astype(dtype, copy=False)


def _unit_below(gen: Generator, p: float, sizes: tuple[int, ...]) -> Array:
    """unit(...) < p, but in integers."""
    draws = gen.draw64(math.prod(sizes))
    draws &= 2**53 - 1
    return (draws < math.ceil(p * 2.0**53)).reshape(sizes)


def dropout_mask(gen: Generator, shape: Shape, p: float) -> Array:
    """True where torch.nn.functional.dropout keeps the element."""
    require(0 <= p <= 1, f"dropout probability has to be between 0 and 1, but got {p}", ValueError)
    if p in (0, 1):  # torch draws nothing then
        return np.full(_sizes(shape), p == 0)
    return _unit_below(gen, 1.0 - p, _sizes(shape))


def multinomial(gen: Generator, weights: Array, num_samples: int, replacement: bool = False) -> Array:
    """Indices drawn from each row with probabilities proportional to its weights, as int64."""
    check_weights(weights, num_samples, replacement)
    dtype, categories = weights.dtype, weights.shape[-1]
    if 0 in weights.shape[:-1]:
        return np.empty((0, num_samples), np.int64)
    if replacement and num_samples > 1:
        return _with_replacement(gen, weights.reshape(-1, categories), num_samples).reshape(*weights.shape[:-1], -1)
    # The largest w / Exp(1) is at a sample; the largest k are at k samples without replacement.
    scores = weights / exponential(gen, weights.shape, dtype)
    if num_samples == 1:
        return np.asarray(np.argmax(scores, -1, keepdims=True))
    return np.argsort(-scores, -1, kind="stable")[..., :num_samples]


def check_weights(weights: Array, num_samples: int, replacement: bool, abstract: bool = False) -> None:
    """Refuse what is no distribution to draw from; `abstract` weights have a type and no values."""
    require(weights.ndim in (1, 2), f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    dtype, categories = weights.dtype, weights.shape[-1]
    require(dtype.name in FLOATS, f"multinomial only supports floating-point dtypes for input, got: {dtype}")
    require(num_samples > 0, f"cannot sample n_sample <= 0 samples, got {num_samples}")
    enough = replacement or num_samples <= categories
    require(enough, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    require(categories <= 2**24, "number of categories cannot exceed 2^24")
    if not abstract and 0 not in weights.shape[:-1]:
        require((weights >= 0).all() and np.isfinite(weights).all(), WEIGHTS_OUTSIDE)
        require(weights.any(-1).all(), "invalid multinomial distribution (sum of probabilities <= 0)")


WEIGHTS_OUTSIDE = "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or element < 0"


def _with_replacement(gen: Generator, rows: Array, num_samples: int) -> Array:
    rows = rows if rows.dtype == np.float64 else rows.astype(np.float32)
    cumulative = np.cumsum(rows, -1, dtype=rows.dtype)
    cumulative /= cumulative[:, -1:].copy()
    cumulative[:, -1] = 1
    points = unit(gen, len(rows) * num_samples, wide=True).reshape(len(rows), num_samples)
    return np.stack([np.searchsorted(row, u) for row, u in zip(cumulative.astype(np.float64), points, strict=True)])
