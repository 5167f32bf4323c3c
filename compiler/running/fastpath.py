"""The fast path of a call: from arguments like those of an earlier call straight to an executable.

For each structure of arguments there is a record, which reads the leaves, and finds the executable by what may be different from call
to call: which leaves require grad, whether operations are recorded, and the types that tell the programs apart. Executables refuse
arguments of other types, so no more is compared than that. Whatever is out of the ordinary takes the slow path, which finds the same
program, or says what is wrong. The code is plain for speed: beside a kernel of three microseconds each call of a function counts.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backend import Kernel
from symgrad.compiler.running.leaves import Reader, first, named, reader
from symgrad.compiler.running.program import MISS, Program
from symgrad.compiler.running.returns import array_of, choice
from symgrad.compiler.tracing.aliases import overlaps
from symgrad.compiler.tracing.signature import Call, held_by
from symgrad.compiler.tracing.sources import native_order, settle
from symgrad.compiler.tracing.tree import LEAF, unflatten
from symgrad.mode import local, watched
from symgrad.resident import MOST_MOVES, Resident, memory, new
from symgrad.tensor import Tensor

ndarray = np.ndarray
SMALL = 1 << 14
"""Bytes: copying so much to the host costs less than a second look at it."""
_COMPARED = 1 << 10
"""Bytes of a captured tensor: comparing so much takes less time than handing it over."""
REFUSED = (TypeError, ValueError, RuntimeError, OverflowError)
"""Arguments of other types, or what the slow path has words for."""
ARRAY = object()
"""The kind of leaves that are tensors or arrays; of others it is their class."""
_NUMBERS = (float, np.float64, int, bool, complex)
_MOST_STRUCTURES = 8
Form = Callable[[list[Any]], Any]


class Latest:
    """The program that ran last, for inspection: entries share it with the function, which they must not keep alive."""

    __slots__ = ("program",)

    def __init__(self) -> None:
        self.program: Any = None


class Copies:
    """Copies on the device of small captured tensors whose memory others see, used as long as the numbers are the same: comparing them
    takes less time than handing them over. One that changes again and again is handed over."""

    __slots__ = ("changes", "known")

    def __init__(self) -> None:
        self.known: dict[int, tuple[bytes, Any]] = {}
        self.changes = 0

    def find(self, t: Tensor, array: Any, kernel: Kernel) -> Any:
        """What the kernel gets: a copy, the memory itself, or what the tensor holds after it has moved to the device."""
        if array.nbytes > _COMPARED or self.changes > MOST_MOVES:
            return settle(t, kernel)
        numbers = array.tobytes()
        known = self.known.get(id(t))
        if known is not None and known[0] == numbers:
            return known[1]
        held = settle(t, kernel)
        if held.__class__ is ndarray:
            self.changes += known is not None
            held = kernel.buffer(held)
            self.known[id(t)] = numbers, held
        return held


class Target:
    """An executable, and what a call of it needs besides the leaves."""

    __slots__ = (
        "captured", "copies", "execute", "form", "guards", "kernel", "on_device", "plain", "program", "returns_arrays",
        "single", "small", "types", "x64",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, program: Program, form: Form | None, returns_arrays: bool | None) -> None:
        assert kernel.executable is not None
        self.kernel, self.execute, self.x64 = kernel, kernel.executable, kernel.x64
        self.program, self.guards = program, program.guards if program.guards.any else None
        captured = program.captured
        self.captured, self.form, self.on_device = captured, form, kernel.on_device
        outputs, inputs = kernel.graph.outputs, kernel.graph.inputs
        self.single = len(outputs) == 1
        self.plain = kernel.on_device and not captured and not returns_arrays
        """Whether the results for leaves on the device are what the executable gives for them, as tensors."""
        self.small = all(v.dtype.itemsize * math.prod(v.shape) <= SMALL for v in outputs)
        self.copies = Copies()
        self.returns_arrays = returns_arrays
        """None: the arguments decide."""
        self.types = [(x.shape, x.dtype) for x in inputs[: len(inputs) - len(captured)]]

    def run(self, held: list[Any], host: bool, arrays: bool) -> Any:
        """The results for what leaves hold. `host`: some of it is memory of the host or a number; `arrays`: arrays were given, and no
        tensors."""
        if self.guards is not None and not self.guards.hold():
            return MISS
        for t in self.captured:
            m = t._held
            if m.__class__ is ndarray:
                m = self.copies.find(t, m, self.kernel) if self.on_device else native_order(m)
                host = host or m.__class__ is ndarray
            held.append(m)
        try:
            if not host or self.x64 is None:
                found = self.execute(*held)
            else:
                get, put = self.x64
                before = get()
                try:
                    put(True)
                    found = self.execute(*held)
                    put(before)
                except BaseException:  # also of an interrupt right before the line above
                    put(before)
                    raise
        except REFUSED:
            return MISS
        if arrays if self.returns_arrays is None else self.returns_arrays:
            if self.form is None:
                return np.array(found) if self.on_device else array_of(found)
            return self.form([np.array(x) if self.on_device else array_of(x) for x in ((found,) if self.single else found)])
        return self.formed((found,) if self.single else found, host)

    def formed(self, found: Sequence[Any], host: bool) -> Any:
        """The results as tensors in their form. Of memory of the host's nothing is read after the call."""
        if host and self.on_device:
            if self.small:
                found = [np.array(x) for x in found]
            else:
                found[0].block_until_ready()  # the results of one run are ready together
        tensors: list[Any] = []
        for x in found:
            t: Any = new(Tensor if x.__class__ is ndarray else Resident)  # as resident() does
            t._held = x
            t._node = t._base = None
            t._requires_grad = False
            t._cell = []
            tensors.append(t)
        return tensors[0] if self.form is None else self.form(tensors)


class Table:
    """The targets for leaves of one kind, by the shapes and dtypes that tell them apart."""

    __slots__ = ("differences", "found", "only", "targets")

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.only: Target | None = None
        """If there is but one."""
        self.differences: list[tuple[int, str]] = []
        self.found: dict[Any, Target] = {}

    def find(self, held: Sequence[Any]) -> Target | None:
        if len(self.differences) == 1:
            i, name = self.differences[0]
            return self.found.get(getattr(held[i], name))
        return self.found.get(tuple([getattr(held[i], name) for i, name in self.differences]))

    def enter(self, target: Target) -> None:
        """Add a target, or let it take the place of one for the same types."""
        types = target.types
        if self.only is not None and self.only.types == types:
            self.targets, self.only = [target], target
            return
        key = self._key(types, self.differences)
        known = self.found.get(key) if self.differences else self.only
        if known is not None and known.types != types:
            i = next(i for i, (a, b) in enumerate(zip(known.types, types, strict=True)) if a != b)
            differences = [*self.differences, (i, "shape" if known.types[i][0] != types[i][0] else "dtype")]
            found = {self._key(t.types, differences): t for t in (*self.targets, target)}
            self.found, self.differences = found, differences  # in this order: other threads may look
        elif self.differences:
            self.found[key] = target
        self.targets = [t for t in self.targets if t.types != types] + [target]
        self.only = target if len(self.targets) == 1 else None

    @staticmethod
    def _key(types: Sequence[tuple[Any, Any]], differences: Sequence[tuple[int, str]]) -> Any:
        values = tuple([types[i][name == "dtype"] for i, name in differences])
        return values[0] if len(values) == 1 else values


class Entry:
    """One structure of arguments."""

    __slots__ = ("kinds", "latest", "other", "read", "records", "repeats", "step", "tables")

    def __init__(self, read: Reader, kinds: list[Any], records: bool, other: Entry | None, latest: Latest) -> None:
        self.read, self.kinds, self.other, self.latest = read, kinds, other, latest
        self.records = records
        """Whether a result for leaves that require grad is recorded, which the slow path does."""
        self.repeats = False
        """Whether there are programs for calls with one leaf in several places, where it is one input."""
        self.tables: dict[Any, Table] = {}
        self.step: Any = None
        """Runs a program with effects on the leaves."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: C901  (each call of a function counts)
        """The result of a call, or MISS."""
        if watched.count:
            return MISS
        read = self.read
        leaves: Any = args if read is first else kwargs.values() if read is named else read(args, kwargs)
        if leaves is None:
            return MISS if self.other is None else self.other.run(args, kwargs)
        if self.step is not None:
            return self.step(tuple(leaves))
        held = []
        asked = False
        for a in leaves:
            if type(a) is not Resident:
                return self._with_host(leaves, args, kwargs)
            held.append(a._held)
            if a._requires_grad:
                asked = True
        recording = local.mode.recording
        table = self.tables.get(self._mode([a._requires_grad for a in leaves], held) if asked or self.repeats else recording)
        if table is None:
            return MISS
        target = table.only or table.find(held)
        if target is None:
            return MISS
        self.latest.program = target.program
        if not target.plain:
            return target.run(held, False, False)
        if target.guards is not None and not target.guards.hold():
            return MISS
        try:
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

    def _with_host(self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `run`, for leaves of any kinds."""
        held: list[Any] = []
        asked: list[bool] = []
        host = arrays = tensors = False
        for a, kind in zip(leaves, self.kinds):  # noqa: B905  (there are as many)
            cls, m = type(a), a
            if kind is not ARRAY:
                if cls is not kind:
                    return MISS if self.other is None else self.other.run(args, kwargs)
                host = True
            elif cls is ndarray:
                if not a.dtype.isnative:
                    return MISS  # an executable reads the bytes as they are
                host = arrays = True
            elif isinstance(a, Tensor):
                tensors, m = True, a._held
                if m.__class__ is ndarray:
                    if not m.dtype.isnative:
                        return MISS
                    host = True
                if a._requires_grad if a._base is None else a.requires_grad:  # a view finds out now
                    asked = asked or _required(leaves)
            else:
                return MISS if self.other is None else self.other.run(args, kwargs)
            held.append(m)
        table = self.tables.get(self._mode(asked, held) if asked or self.repeats else local.mode.recording)
        if table is None:
            return MISS
        target = table.only or table.find(held)
        if target is None:
            return MISS
        self.latest.program = target.program
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

    def reads(self, args: tuple[Any, ...], kwargs: dict[str, Any], kinds: list[Any]) -> bool:
        """Whether these arguments have this structure."""
        return self.read(args, kwargs) is not None and self.kinds == kinds

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


def target_of(kernel: Kernel, program: Program, form: Form | None, returns: str | None) -> Target | None:
    """The kernel of a program as a target; None if it is not compiled yet, or depends on numbers among the arguments."""
    if kernel.executable is None or program.guards.conditions:
        return None
    return Target(kernel, program, form, choice(returns, program.requires_grad))


class FastPath:
    """The entries of a compiled function, by the number of positional arguments and the keywords; of its derivatives also by what was asked
    for."""

    def __init__(self, signature: inspect.Signature) -> None:
        self.signature = signature
        self.entries: dict[Any, Entry] = {}
        self.latest = Latest()

    def enter(self, key: Any, call: Call, target: Target, records: bool) -> None:
        """Let calls like this one run the target. If `records`, leaves in the same memory are one input of it."""
        found = None if records and _overlap(call) else self._entry(key, call, records)
        if found is not None:
            entry, leaves = found
            entry.step = None
            entry.enter(leaves, target)

    def enter_step(self, call: Call, step: Any) -> None:
        """Let calls like this one run a program with effects."""
        found = None if step is None else self._entry(key_of(*call.given), call, True)
        if found is not None:
            found[0].step = step

    def _entry(self, key: Any, call: Call, records: bool) -> tuple[Entry, list[Any]] | None:
        """The entry for calls like this one, and the leaves of this one as they were given; None: such calls take the slow path."""
        args, kwargs = call.given
        read = reader(self.signature, call.structure, args, kwargs) if call.complete else None
        leaves = None if read is None else read(args, kwargs)
        kinds = None if leaves is None else _kinds(list(leaves), call)
        if read is None or leaves is None or kinds is None:
            return None
        first = entry = self.entries.get(key)
        count = 0
        while entry is not None and not entry.reads(args, kwargs, kinds):
            entry, count = entry.other, count + 1
        if entry is None:
            entry = self.entries[key] = Entry(read, kinds, records, first if count < _MOST_STRUCTURES else None, self.latest)
        return entry, list(leaves)


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
        elif type(given) in _NUMBERS and (number is not None or type(given) is np.float64):
            found.append(type(given))
        else:
            return None
    return found


def form_of(structure: Any) -> Form | None:
    """Puts results into their containers; None: there is one, by itself."""
    if structure is LEAF:
        return None
    if type(structure) in (list, tuple) and all(part is LEAF for part in structure):
        return type(structure)
    return lambda found: unflatten(structure, found)
