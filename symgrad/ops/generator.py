"""The stream of random bits: PyTorch's CPU generator, draw for draw and byte for byte.

MT19937, seeded by the low 32 bits of the seed. A draw has 32 bits; a wide draw is two of them, the first on top.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, TypeAlias

import numpy as np

from symgrad.errors import require

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DEFAULT_SEED = 67280421310721  # what torch.Generator() starts from
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
WORDS = 624  # the state of MT19937

# The bytes of torch.get_rng_state(). Half of the fields are relics.
STATE = np.dtype(
    [("seed", "u8"), ("left", "i4"), ("seeded", "i4"), ("next", "u8"), ("words", "u8", WORDS), ("normal_x", "f8"),
     ("normal_y", "f8"), ("normal_rho", "f8"), ("normal_valid", "i4"), ("float_y", "f4"), ("float_valid", "?")],
    align=True,
)  # fmt: skip


class Generator:
    """A seeded stream of draws. Threads may share it: each call takes all its draws in one piece."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._engine: np.random.MT19937 | None = None  # made at the first draw, as numpy.random is slow to import
        self.uses = 0
        """How often its state may have changed: whoever looks on compares this first, since the state itself is large."""
        Generator.manual_seed(self, DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        integer = hasattr(seed, "__index__") and not isinstance(seed, bool)
        require(integer, f"manual_seed expected a long, but got {seed.__class__.__name__}")
        require(INT64_MIN <= seed < 2**64, f"Overflow when unpacking long long: the seed {seed}", ValueError)
        with self._lock:
            self.uses += 1
            self._seed = int(seed) % 2**64
            self._spare: float | None = None  # the second normal number of the last pair
            if self._engine is not None:
                self._bulk.seed(self._seed % 2**32)
        return self

    def seed(self) -> int:
        """Seed from the system's entropy, and return that seed."""
        return Generator.manual_seed(self, int.from_bytes(os.urandom(8), "little")).initial_seed()

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
        require(data.dtype == np.uint8, f"RNG state must be bytes or an array of uint8, got {data.dtype}", TypeError)
        require(data.size == STATE.itemsize, f"Expected an RNG state of {STATE.itemsize} bytes but found {data.size}")
        record = np.ascontiguousarray(data).reshape(-1).view(STATE)[0]
        valid = record["seeded"] and 0 < record["left"] <= WORDS and record["next"] <= WORDS
        require(valid, "Invalid mt19937 state")
        used = WORDS if record["left"] == 1 else int(record["next"])
        with self._lock:
            self.uses += 1
            self._seed = int(record["seed"])
            self._spare = float(record["normal_y"]) if record["normal_valid"] else None
            words: Any = {"key": record["words"].astype(np.uint32), "pos": used}
            self._started().state = {"bit_generator": "MT19937", "state": words}

    def mark(self) -> tuple[Any, ...]:
        """Where the stream is, for `rewind`: for calls that may fail, as it takes a fraction of the time that a state takes."""
        with self._lock:
            engine = self._started()
            return self._seed, self._spare, engine.state if self._words is None else self._words.copy()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        with self._lock:
            self._seed, self._spare, words = mark
            if self._words is None:
                self._started().state = words
            else:
                self._words[:] = words

    def __getstate__(self) -> dict[str, Any]:  # for copy and pickle, which know no locks
        return {"state": self.get_state().tobytes()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        Generator.__init__(self)
        self.set_state(saved["state"])

    def draw32(self, count: int) -> Array:
        """The next draws, as uint32."""
        with self._lock:
            self.uses += 1
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
            self._words = _words(self._engine)
            self._bulk = np.random.RandomState(self._engine)
            self._bulk.seed(self._seed % 2**32)
        return self._engine


def _words(engine: np.random.MT19937) -> Array | None:
    """The memory of an engine, the words of its state and the place among them; None unless it is laid out that way."""
    pointer = ctypes.cast(engine.ctypes.state_address, ctypes.POINTER(ctypes.c_uint32))
    words = np.ctypeslib.as_array(pointer, (WORDS + 1,))
    known: Any = engine.state["state"]
    return words if (words[:WORDS] == known["key"]).all() and words[WORDS] == known["pos"] else None


default_generator = Generator()
default_generator.seed()
