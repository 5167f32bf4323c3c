"""The fast path of a call: from arguments like those of an earlier call straight to an executable.

For each structure of arguments there is a record, which reads the leaves, and finds the executable by what may be different from call
to call: which leaves require grad, whether operations are recorded, and the types that tell the programs apart. Executables refuse
arguments of other types, so no more is compared than that. Whatever is out of the ordinary takes the slow path, which finds the same
program, or says what is wrong. The code is plain for speed: beside a kernel of three microseconds each call of a function counts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from symgrad.compiler.running.leaves import Reader, first, named, reader
from symgrad.compiler.running.program import MISS
from symgrad.compiler.running.target import REFUSED, Target
from symgrad.compiler.tracing.aliases import overlaps
from symgrad.compiler.tracing.signature import Call, held_by, is_jax_array
from symgrad.mode import local, watched
from symgrad.resident import Resident, memory, new
from symgrad.tensor import Tensor

ndarray = np.ndarray
ARRAY = object()
"""The kind of leaves that are tensors or arrays; of others it is their class."""
_NUMBERS = (float, np.float64, int, bool, complex)
_MOST_STRUCTURES = 8
_requires_grad = attrgetter("_requires_grad")


class Latest:
    """The program that ran last, for inspection: entries share it with the function, which they must not keep alive.

    The fast path notes the target, not its program: each object that a call touches costs time if many programs take turns.
    """

    __slots__ = ("ran",)

    def __init__(self) -> None:
        self.ran: Any = None
        """A target or a program."""

    @property
    def program(self) -> Any:
        return self.ran.program if self.ran.__class__ is Target else self.ran


class Table:
    """The targets for leaves of one kind, by the shapes and dtypes that tell them apart."""

    __slots__ = ("_differences", "_found", "_targets", "find", "only")

    def __init__(self) -> None:
        self._targets: list[Target] = []
        self.only: Target | None = None
        """If there is but one."""
        self._differences: list[tuple[int, str]] = []
        self._found: dict[Any, Target] = {}
        self.find: Callable[[Sequence[Any]], Target | None] = _finder({}, [])
        """Returns the target for what leaves hold, if there are several targets."""

    def enter(self, target: Target) -> None:
        """Add a target, or let it take the place of one for the same types."""
        types = target.types
        if self.only is not None and self.only.types == types:
            self._targets, self.only = [target], target
            return
        key = _type_key(types, self._differences)
        known = self._found.get(key) if self._differences else self.only
        if known is not None and known.types != types:
            i = next(i for i, (a, b) in enumerate(zip(known.types, types, strict=True)) if a != b)
            self._differences = [*self._differences, (i, "shape" if known.types[i][0] != types[i][0] else "dtype")]
            self._found = {_type_key(t.types, self._differences): t for t in (*self._targets, target)}
            self.find = _finder(self._found, self._differences)
        elif self._differences:
            self._found[key] = target
        self._targets = [t for t in self._targets if t.types != types] + [target]
        self.only = target if len(self._targets) == 1 else None


def _finder(found: dict[Any, Target], differences: Sequence[tuple[int, str]]) -> Callable[[Sequence[Any]], Target | None]:
    """Finds targets by `_type_key` of what leaves hold; most often all that differs is the shape of one leaf."""
    if len(differences) == 1 and differences[0][1] == "shape":
        place = differences[0][0]
        return lambda held: found.get(held[place].shape)
    return lambda held: found.get(tuple([getattr(held[i], name) for i, name in differences]))


def _type_key(types: Sequence[tuple[Any, Any]], differences: Sequence[tuple[int, str]]) -> Any:
    values = tuple([types[i][name == "dtype"] for i, name in differences])
    return values[0] if len(differences) == 1 and differences[0][1] == "shape" else values


class Entry:
    """One structure of arguments."""

    __slots__ = ("direct", "kinds", "latest", "numbers", "other", "read", "records", "repeats", "step", "tables")

    def __init__(self, read: Reader, kinds: list[Any], records: bool, other: Entry | None, latest: Latest) -> None:
        self.read, self.kinds, self.other, self.latest = read, kinds, other, latest
        self.numbers = any(kind is not ARRAY for kind in kinds)
        """Whether there are Python numbers, or arrays of JAX's, among the leaves."""
        self.records = records
        """Whether a result for leaves that require grad is recorded, which the slow path does."""
        self.repeats = False
        """Whether there are programs for calls with one leaf in several places, where it is one input, or may be: the code asks."""
        self.tables: dict[Any, Table] = {}
        self.step: Any = None
        """Runs a program with effects on the leaves."""
        self.direct: Any = None
        """The same, if the leaves are the positional arguments as they are: the caller may run it without `run`."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: C901  (each call of a function counts)
        """The result of a call, or MISS."""
        if watched.count:
            return MISS
        read = self.read
        leaves: Any = args
        if read is not first:
            leaves = kwargs.values() if read is named else read(args, kwargs)
            if leaves is None:
                return MISS if self.other is None else self.other.run(args, kwargs)
        if self.step is not None:
            return self.step(tuple(leaves))
        held, asked, arrays = [], False, 0
        for a in leaves:
            if type(a) is Resident:
                held.append(a._held)
                if a._requires_grad:
                    asked = True
            elif type(a) is ndarray and not self.numbers:
                held.append(a)
                arrays += 1
            else:
                return self._of_any_kind(leaves, args, kwargs)
        mode: Any = local.mode.recording
        if asked or self.repeats:
            if arrays or self.repeats:
                mode = self._mode([type(a) is Resident and a._requires_grad for a in leaves], held)
            else:
                mode = None if mode and self.records else (mode, *map(_requires_grad, leaves))
        table = self.tables.get(mode)
        if table is None:
            return MISS
        target = table.only or table.find(held)
        if target is None:
            return MISS
        self.latest.ran = target
        if arrays or not target.bare:
            return target.run(held, arrays > 0, 0 < arrays == len(held))
        try:
            for now, value in target.names:
                if now() is not value and not target.holds():
                    return MISS
            found = target.execute(*held)
        except REFUSED:
            return MISS
        if target.form is not None:
            return target.formed((found,) if target.single else found, False)
        t: Any = new(Resident)  # as resident() does
        t._held = found
        t._node = t._base = None
        t._requires_grad = False
        t._cell = []
        return t

    def _of_any_kind(self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `run`, for leaves of any kinds."""
        held: list[Any] = []
        asked: list[bool] = []
        host = arrays = tensors = False
        for a, kind in zip(leaves, self.kinds):  # noqa: B905  (there are as many)
            cls, m = type(a), a
            if kind is not ARRAY:
                if cls is not kind:
                    return MISS if self.other is None else self.other.run(args, kwargs)
                if cls in _NUMBERS:
                    host = True
                else:
                    tensors = True  # an array of JAX's
            elif cls is ndarray:
                host = arrays = True
            elif isinstance(a, Tensor):
                tensors, m = True, a._held
                host = host or m.__class__ is ndarray
                if a._requires_grad if a._base is None else a.requires_grad:  # a view finds out now
                    asked = asked or [False] * len(self.kinds)
                    asked[len(held)] = True
            else:
                return MISS if self.other is None else self.other.run(args, kwargs)
            held.append(m)
        mode: Any = local.mode.recording
        if self.repeats:
            mode = self._mode(asked, held)
        elif asked:  # as _mode() does
            mode = None if self.records and mode else (mode, *asked)
        table = self.tables.get(mode)
        if table is None:
            return MISS
        target = table.only or table.find(held)
        if target is None:
            return MISS
        self.latest.ran = target
        return target.run(held, host, arrays and not tensors)

    def _mode(self, asked: list[bool], held: Sequence[Any]) -> Any:
        """What a program depends on besides types: whether operations are recorded, which leaves require grad, and which are the same; None
        if the result is to be recorded."""
        mode: Any = local.mode.recording
        if True in asked:
            if self.records and mode:
                return None
            mode = mode, *asked
        if self.repeats:
            same = self._repetitions(held)
            return (mode, same) if same else mode
        return mode

    def reads(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], kinds: list[Any]) -> bool:
        """Whether these arguments have this structure: a reader of leaves also accepts a container in the place of one."""
        found = self.read(args, kwargs)
        return found is not None and self.kinds == kinds and list(map(id, found)) == list(map(id, leaves))

    def enter(self, leaves: Sequence[Any], target: Target) -> None:
        """Let calls with such leaves run the target."""
        held = [memory(a) if isinstance(a, Tensor) else a for a in leaves]
        self.repeats = self.repeats or (self.records and bool(self._repetitions(held)))
        mode = self._mode(_required(leaves), held)
        if mode is not None:
            self.tables.setdefault(mode, Table()).enter(target)

    def _repetitions(self, held: Sequence[Any]) -> tuple[int, ...]:
        """Where the same array or buffer was before, for each leaf; empty if all are different. Numbers are no memory."""
        places: dict[int, int] = {}
        found = [places.setdefault(id(m), i) if kind is ARRAY else i for i, (m, kind) in enumerate(zip(held, self.kinds, strict=True))]
        return tuple(found) if found != list(range(len(held))) else ()


def _required(leaves: Iterable[Any]) -> list[bool]:
    """Which leaves require grad."""
    return [isinstance(a, Tensor) and a.requires_grad for a in leaves]


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return (len(args), *kwargs) if kwargs else len(args)


class FastPath:
    """The entries of a compiled function, by the number of positional arguments and the keywords; of its derivatives also by what was asked
    for."""

    def __init__(self, signature: inspect.Signature, asks_identity: Callable[[], bool]) -> None:
        self.signature, self.asks_identity = signature, functools.cache(asks_identity)
        self.entries: dict[Any, Entry] = {}
        self.latest = Latest()

    def enter(self, key: Any, call: Call, target: Target, records: bool) -> None:
        """Let calls like this one run the target. If `records`, leaves in the same memory are one input of it."""
        found = None if records and _overlap(call) else self._entry(key, call, records)
        if found is not None:
            entry, leaves = found
            entry.step = entry.direct = None
            entry.enter(leaves, target)

    def enter_step(self, call: Call, step: Any) -> None:
        """Let calls like this one run a program with effects."""
        found = None if step is None else self._entry(key_of(*call.given), call, True)
        if found is not None:
            entry = found[0]
            entry.step = step
            entry.direct = step if entry.read is first else None

    def _entry(self, key: Any, call: Call, records: bool) -> tuple[Entry, list[Any]] | None:
        """The entry for calls like this one, and the leaves of this one as they were given; None: such calls take the slow path."""
        args, kwargs = call.given
        read = reader(self.signature, call.structure, args, kwargs) if call.complete else None
        found = None if read is None else read(args, kwargs)
        if read is None or found is None:
            return None
        leaves = list(found)
        kinds = _kinds(leaves, call)
        if kinds is None:
            return None
        earlier = entry = self.entries.get(key)
        count = 0
        while entry is not None and not entry.reads(args, kwargs, leaves, kinds):
            entry, count = entry.other, count + 1
        if entry is None:
            entry = self.entries[key] = Entry(read, kinds, records, earlier if count < _MOST_STRUCTURES else None, self.latest)
            entry.repeats = records and self.asks_identity()
        return entry, leaves


def _overlap(call: Call) -> bool:
    """Whether leaves share memory that are not the same array."""
    held = [held_by(x) for x in call.leaves]
    return any(held[i] is not held[j] for i, j, _ in overlaps(held))


def _kinds(leaves: list[Any], call: Call) -> list[Any] | None:
    """The kinds of leaves as they were given; None if one of them is converted by the slow path."""
    if len(leaves) != len(call.leaves):
        return None
    found: list[Any] = []
    for given, leaf, number in zip(leaves, call.leaves, call.weak or (None,) * len(leaves), strict=True):
        if number is None and given is leaf:
            found.append(ARRAY)
        elif (type(given) in _NUMBERS and (number is not None or type(given) is np.float64)) or is_jax_array(given):
            found.append(type(given))
        else:
            return None
    return found
