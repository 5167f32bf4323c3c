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

That build fuses multiply-adds, so they are replayed with one rounding: in float32 through float64 (whose own rounding
shows in perhaps one value of 10**8), in float64 by error-free transformations.
"""

from __future__ import annotations

import math
import operator
import os
import threading
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Shape: TypeAlias = int | Sequence[int]

DEFAULT_SEED = 67280421310721  # what torch.Generator() starts from
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
WORDS = 624  # the state of MT19937

# digits of the significand (with the hidden one) and largest value; np.finfo does not know bfloat16
FLOATS = {
    "float16": (11, 65504.0),
    "bfloat16": (8, float.fromhex("0x1.fep127")),
    "float32": (24, float.fromhex("0x1.fffffep127")),
    "float64": (53, float.fromhex("0x1.fffffffffffffp1023")),
}

# The bytes of torch.get_rng_state(). Half of the fields are relics.
STATE = np.dtype(
    [("seed", "u8"), ("left", "i4"), ("seeded", "i4"), ("next", "u8"), ("words", "u8", WORDS), ("normal_x", "f8"),
     ("normal_y", "f8"), ("normal_rho", "f8"), ("normal_valid", "i4"), ("float_y", "f4"), ("float_valid", "?")],
    align=True,
)  # fmt: skip


def _require(holds: Any, message: str, error: type[Exception] = RuntimeError) -> None:
    if not holds:
        raise error(message)


class Generator:
    """A seeded stream of draws. Threads may share it: each call takes all its draws in one piece."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._engine: np.random.MT19937 | None = None  # made at the first draw, as numpy.random is slow to import
        self.manual_seed(DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        integer = hasattr(seed, "__index__") and not isinstance(seed, bool)
        _require(integer, f"manual_seed expected a long, but got {type(seed).__name__}")
        _require(INT64_MIN <= seed < 2**64, f"Overflow when unpacking long long: the seed {seed}", ValueError)
        with self._lock:
            self._seed = int(seed) % 2**64
            self._spare: float | None = None  # the second normal number of the last pair
            if self._engine is not None:
                self._bulk.seed(self._seed % 2**32)
        return self

    def seed(self) -> int:
        """Seed from the system's entropy, and return that seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> Array:
        """The 5056 bytes that torch.get_rng_state() gives for this state."""
        with self._lock:
            state: Any = self._started().state["state"]
            record = np.zeros(1, STATE)
            record["seed"], record["seeded"], record["words"] = self._seed, 1, state["key"]
            record["left"], record["next"] = WORDS + 1 - state["pos"], state["pos"]
            if state["pos"] == WORDS and state["key"][0] == self._seed % 2**32:  # no draw yet
                record["next"] = 0
            if self._spare is not None:
                record["normal_valid"], record["normal_y"] = 1, self._spare
        return record.view(np.uint8)

    def set_state(self, state: Array | bytes | bytearray | memoryview) -> None:
        data = state if isinstance(state, np.ndarray) else np.frombuffer(state, np.uint8)
        _require(data.dtype == np.uint8, f"RNG state must be bytes or an array of uint8, got {data.dtype}", TypeError)
        _require(data.size == STATE.itemsize, f"Expected an RNG state of {STATE.itemsize} bytes but found {data.size}")
        record = np.ascontiguousarray(data).reshape(-1).view(STATE)[0]
        valid = record["seeded"] and 0 < record["left"] <= WORDS and record["next"] <= WORDS
        _require(valid, "Invalid mt19937 state")
        used = WORDS if record["left"] == 1 else int(record["next"])
        with self._lock:
            self._seed = int(record["seed"])
            self._spare = float(record["normal_y"]) if record["normal_valid"] else None
            words: Any = {"key": record["words"].astype(np.uint32), "pos": used}
            self._started().state = {"bit_generator": "MT19937", "state": words}

    def __getstate__(self) -> dict[str, Any]:  # for copy and pickle, which know no locks
        return {"state": self.get_state().tobytes()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        Generator.__init__(self)
        self.set_state(saved["state"])

    def draw32(self, count: int) -> Array:
        """The next draws, as uint32."""
        with self._lock:
            engine = self._started()
            if count < 128:  # for so few, randint takes longer to begin than to draw
                return np.asarray(engine.random_raw(count)).astype(np.uint32)
            return self._bulk.randint(0, 2**32, count, dtype=np.uint32)  # NumPy has frozen the streams of RandomState

    def draw64(self, count: int) -> Array:
        """The next wide draws, as uint64."""
        halves = self.draw32(2 * count)
        wide = halves[0::2].astype(np.uint64)
        wide <<= 32
        wide |= halves[1::2]
        return wide

    def _started(self) -> np.random.MT19937:
        if self._engine is None:
            self._engine = np.random.MT19937(0)
            self._bulk = np.random.RandomState(self._engine)
            self._bulk.seed(self._seed % 2**32)
        return self._engine


default_generator = Generator()
default_generator.seed()


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
    least = min(sizes, default=0)
    _require(least >= 0, f"Trying to create tensor with negative dimension {least}: {list(sizes)}")
    return sizes


def _floating(name: str, dtype: Any) -> np.dtype[Any]:
    checked: np.dtype[Any] = np.dtype(dtype)
    problem = f"{name} is not implemented for {checked}: it needs a floating-point dtype"
    _require(checked.name in FLOATS, problem, NotImplementedError)
    return checked


# Real numbers


def _unit(gen: Generator, count: int, wide: bool) -> Array:
    """Uniform in [0, 1): the low 24 bits of draws in float32, or the low 53 of wide ones in float64."""
    draws, digits = (gen.draw64(count), 53) if wide else (gen.draw32(count), 24)
    draws &= 2**digits - 1
    out = draws.view(f"i{draws.itemsize}").astype(f"f{draws.itemsize}")  # signed: the conversion processors have
    out *= 2.0**-digits
    return out


def _fma(a: Array, b: float, c: float) -> Array:
    """a * b + c, rounded once to the dtype of `a`, in which `b` and `c` are exact."""
    if a.dtype == np.float32:
        return (a * np.float64(b) + c).astype(np.float32)
    if c == 0 or abs(math.frexp(b)[0]) == 0.5 or not (2.0**-500 < abs(b) < 2.0**500 and math.isfinite(c)):
        return a * b + c  # only one of the two operations rounds, or splitting would overflow
    a_high, b_high = (x * 134217729.0 - (x * 134217729.0 - x) for x in (a, b))  # Dekker: halves by 2**27 + 1
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    lost = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total = product + c
    kept = total - product
    return total + ((product - (total - kept)) + (c - kept) + lost)


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
    out = _unit(gen, math.prod(sizes), dtype == np.float64)
    if (low, high) != (0, 1):
        start, stop = out.dtype.type(low), out.dtype.type(high)
        out = _fma(out, float(stop - start), float(start))
    out = _cast(out, dtype)
    if (low, high) != (0, 1) or dtype.itemsize == 2:  # rounding can reach `high`, which torch sends to `low`
        ends = _cast(np.array([low, high]), dtype)
        out[out == ends[1]] = ends[0]
    return out.reshape(sizes)


def _check_uniform(dtype: np.dtype[Any], low: float, high: float) -> None:
    largest = FLOATS[dtype.name][1]
    for name, bound in (("from", low), ("to", high)):
        _require(abs(bound) <= largest, f"{name} is out of bounds for {dtype}")
    _require(low <= high, f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    _require(high - low <= largest, f"uniform_ expects to-from <= {largest:g}, but found to={high:g} and from={low:g}")


def exponential(gen: Generator, shape: Shape, dtype: Any, lambd: float = 1.0) -> Array:
    """Density lambd * exp(-lambd * x), by inversion in float64 whatever the dtype."""
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    _require(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    _require(dtype.name in FLOATS, f"Exponential distribution is continuous, its dtype a floating point, not {dtype}")
    out = -1.0 / lambd * np.log1p(-_unit(gen, math.prod(sizes), wide=True))
    return _cast(out, dtype).reshape(sizes)


def normal(gen: Generator, shape: Shape, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Array:
    """Normal, by Box-Muller: in blocks of 16 from 16 elements up, below that pair by pair in float64."""
    _require(std >= 0, f"normal expects std >= 0.0, but found std {std:g}")
    sizes, dtype = _sizes(shape), np.dtype(dtype)
    if dtype.kind == "c":  # half the variance to each part
        return _complex(normal(gen, (*sizes, 2), f"f{dtype.itemsize // 2}", mean, std / math.sqrt(2)), dtype)
    fill = _normal_pairs if math.prod(sizes) < 16 else _normal_blocks
    with gen._lock:
        out = fill(gen, math.prod(sizes), _floating("normal_", dtype))
    if (mean, std) != (0, 1):
        kind = out.dtype.type
        out = _fma(out, float(kind(std)), float(kind(mean)))
    return _cast(out, dtype).reshape(sizes)


def _normal_pairs(gen: Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """The odd one out of the last pair is kept for the next call. `math` calls libm, as torch does."""
    out = [gen._spare] if gen._spare is not None and count else []
    for turn, distance in _unit(gen, (count - len(out) + 1) // 2 * 2, wide=True).reshape(-1, 2).tolist():
        radius, angle = math.sqrt(-2.0 * math.log1p(-distance)), 2.0 * math.pi * turn
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    if count:
        gen._spare = out.pop() if len(out) > count else None
    return np.array(out, np.float64)


def _normal_blocks(gen: Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Whole blocks of 16, then, if some elements are left over, one more block that overwrites the last 16."""
    rest = count % 16
    whole, wide = count - rest, dtype == np.float64
    draws = _unit(gen, whole, wide)
    if rest and dtype.itemsize > 2:
        _unit(gen, rest, wide)  # torch draws these and forgets them
    if rest:
        draws = np.concatenate([draws, _unit(gen, 16, wide)])
    out = (_box_muller64 if wide else _box_muller32)(draws.reshape(-1, 2, 8)).reshape(-1)
    return np.concatenate([out[: count - 16], out[-16:]]) if rest else out


def _box_muller64(u: Array) -> Array:
    radius, angle = np.sqrt(-2.0 * np.log(1.0 - u[:, 0])), 2.0 * math.pi * u[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


# In float32 torch has its own logarithm, sine and cosine (Cephes' polynomials), so they have to be here too: NumPy's
# would be up to 4 units off in the last place. The numbers are float32's but kept in float64, where a product of two
# is exact; each step then rounds.


def _exact(*decimals: float) -> list[float]:
    return [float(np.float32(decimal)) for decimal in decimals]


LOG = _exact(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
             -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
SIN = _exact(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = _exact(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
HALF_PI = _exact(-1.5703125, -4.837512969970703125e-4, -7.54978995489188216e-8)  # -pi/2, as a sum
LOG_2 = _exact(0.693359375, -2.12194440e-4)  # likewise
TWO_PI, FOUR_OVER_PI, SQRT_HALF = _exact(2 * math.pi, 4 / math.pi, math.sqrt(0.5))
ALONG, ACROSS = np.array([1.0, 0.0, -1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0, -1.0, 0.0])  # cos, sin of quarter turns


def _round(x: Array) -> Array:
    x[...] = x.astype(np.float32)
    return x


def _polynomial(terms: list[float], x: Array) -> Array:
    out = _round(terms[0] * x + terms[1])
    for term in terms[2:]:
        out *= x
        out += term
        _round(out)
    return out


def _box_muller32(u: Array) -> Array:
    out = np.empty_like(u)
    for start in range(0, len(u), 1024):  # pieces that stay in the cache
        piece = u[start : start + 1024]
        radius = np.sqrt(-2.0 * _log32(1.0 - piece[:, 0]).astype(np.float32))
        sine, cosine = _sincos32(_round(TWO_PI * piece[:, 1].astype(np.float64)))
        out[start : start + 1024, 0] = radius * cosine
        out[start : start + 1024, 1] = radius * sine
    return out


def _log32(x: Array) -> Array:
    """log(m * 2**e) = e * log(2) + log(1 + (m - 1)), with m in [sqrt(1/2), sqrt(2))."""
    bits = x.view(np.int32)
    m = (bits & 0x7FFFFF | 0x3F000000).view(np.float32).astype(np.float64)
    below = m < SQRT_HALF
    e = ((bits >> 23) - 126 - below).astype(np.float64)
    m += m * below
    m -= 1.0
    square = _round(m * m)
    tail = _round(_polynomial(LOG, m) * m)
    tail = _round(tail * square + _round(e * LOG_2[1]))
    tail = _round(tail - 0.5 * square)
    return _round(e * LOG_2[0] + _round(m + tail))


def _sincos32(angle: Array) -> tuple[Array, Array]:
    """For angle in [0, 2 * pi]: those of its distance x to the nearest quarter turn, and then the turns."""
    quarters = ((FOUR_OVER_PI * angle).astype(np.float32).astype(np.int32) + 1) >> 1
    x = angle
    for piece in HALF_PI:
        x = _round(quarters * piece + x)
    square = _round(x * x)
    cosine = _round(_round(_polynomial(COS, square) * square) * square - 0.5 * square)
    cosine = _round(cosine + 1.0)
    sine = _round(_round(_polynomial(SIN, square) * square) * x + x)
    along, across = ALONG[quarters], ACROSS[quarters]
    return along * sine + across * cosine, along * cosine - across * sine


# Integers


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
        _require(_signed(dtype), f"random_ without bounds is not implemented for {dtype}", NotImplementedError)
        draws = gen.draw64(count) if dtype.name in ("int64", "float64") else gen.draw32(count)
        draws %= draws.dtype.type(_largest(dtype) + 1)
        return draws.astype(dtype).reshape(sizes)
    if low == INT64_MIN and high is None:
        covered = dtype.name in ("int64", "float64", "float32", "bfloat16")
        _require(covered, f"random_ over all of int64 is not implemented for {dtype}", NotImplementedError)
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
    _require(dtype.kind != "c", "random_ handles only integral, floating-point and boolean types")
    first, stop = operator.index(low), _largest(dtype) + 1 if high is None else operator.index(high)
    fits = first >= INT64_MIN and (stop <= INT64_MAX or high is None)
    _require(fits, f"Overflow when unpacking long long: from={first}, to={stop}", ValueError)
    less = first < stop or high is None
    _require(less, f"random_ expects 'from' to be less than 'to', but got from={first} >= to={stop}")
    _check_bounds(dtype, first, stop - 1)
    if dtype.name in FLOATS:
        first, stop = _inward(dtype, first, 1), stop if high is None else _inward(dtype, stop, -1)
        less = first < stop - (high is None)
        _require(less, f"random_ expects 'from' casted to dtype to be less than 'to', but got from={first}, to={stop}")
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
        _require(lowest <= bound <= highest, f"{name} is out of bounds for {dtype}")
        if digits and abs(bound) > 2**digits:
            text = f"{name} is out of bounds [-(2^{digits}), 2^{digits}], beyond which {dtype} skips whole numbers"
            warnings.warn(text, stacklevel=4)


def randperm(gen: Generator, n: int, dtype: Any = np.int64) -> Array:
    """A permutation of 0, ..., n - 1."""
    n, dtype = operator.index(n), np.dtype(dtype)
    _require(n >= 0, f"n must be non-negative, got {n}")
    _require(_signed(dtype) and dtype.kind != "b", f"randperm is not implemented for {dtype}", NotImplementedError)
    _require(n <= _largest(dtype) + 1, f"n cannot be greater than {_largest(dtype) + 1} for {dtype}, got {n}")
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
        _require(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        return _unit_below(gen, float(p), sizes).astype(dtype, copy=False)
    wide = _floating("bernoulli", p.dtype) == np.float64
    _require(((p >= 0) & (p <= 1)).all(), "bernoulli expects each p to be in [0, 1], but got others")
    try:
        expanded = np.broadcast_to(p if wide else p.astype(np.float32), sizes)
    except ValueError:
        raise RuntimeError(f"bernoulli cannot expand probabilities of shape {p.shape} to {sizes}") from None
    return (_unit(gen, math.prod(sizes), wide).reshape(sizes) < expanded).astype(dtype, copy=False)


def _unit_below(gen: Generator, p: float, sizes: tuple[int, ...]) -> Array:
    """_unit(...) < p, but in integers."""
    draws = gen.draw64(math.prod(sizes))
    draws &= 2**53 - 1
    return (draws < math.ceil(p * 2.0**53)).reshape(sizes)


def dropout_mask(gen: Generator, shape: Shape, p: float) -> Array:
    """True where torch.nn.functional.dropout keeps the element."""
    _require(0 <= p <= 1, f"dropout probability has to be between 0 and 1, but got {p}", ValueError)
    if p in (0, 1):  # torch draws nothing then
        return np.full(_sizes(shape), p == 0)
    return _unit_below(gen, 1.0 - p, _sizes(shape))


def multinomial(gen: Generator, weights: Array, num_samples: int, replacement: bool = False) -> Array:
    """Indices drawn from each row with probabilities proportional to its weights, as int64."""
    _require(weights.ndim in (1, 2), f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    dtype, categories = weights.dtype, weights.shape[-1]
    _require(dtype.name in FLOATS, f"multinomial only supports floating-point dtypes for input, got: {dtype}")
    _require(num_samples > 0, f"cannot sample n_sample <= 0 samples, got {num_samples}")
    enough = replacement or num_samples <= categories
    _require(enough, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    _require(categories <= 2**24, "number of categories cannot exceed 2^24")
    if 0 in weights.shape[:-1]:
        return np.empty((0, num_samples), np.int64)
    _require((weights >= 0).all() and np.isfinite(weights).all(), WEIGHTS_OUTSIDE)
    _require(weights.any(-1).all(), "invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement and num_samples > 1:
        return _with_replacement(gen, weights.reshape(-1, categories), num_samples).reshape(*weights.shape[:-1], -1)
    # The largest w / Exp(1) is at a sample; the largest k are at k samples without replacement.
    scores = weights / exponential(gen, weights.shape, dtype)
    if num_samples == 1:
        return np.asarray(np.argmax(scores, -1, keepdims=True))
    return np.argsort(-scores, -1, kind="stable")[..., :num_samples]


WEIGHTS_OUTSIDE = "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or element < 0"


def _with_replacement(gen: Generator, rows: Array, num_samples: int) -> Array:
    rows = rows if rows.dtype == np.float64 else rows.astype(np.float32)
    cumulative = np.cumsum(rows, -1, dtype=rows.dtype)
    cumulative /= cumulative[:, -1:].copy()
    cumulative[:, -1] = 1
    points = _unit(gen, len(rows) * num_samples, wide=True).reshape(len(rows), num_samples)
    return np.stack([np.searchsorted(row, u) for row, u in zip(cumulative.astype(np.float64), points, strict=True)])
