"""The fast path of a call: from arguments like those of an earlier call straight to an executable.

Each argument structure has an entry, which reads the leaves and finds the executable by what may differ from call to call: which leaves
require grad, whether grad mode is on, and the types that distinguish the programs. Executables refuse arguments of other types, so nothing
else is compared. Unusual calls take the slow path, which finds the same program or reports what is wrong. Code is inlined for speed: beside
a kernel of three microseconds every Python call counts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from symgrad.compiler.guards.alias import aliased_pairs
from symgrad.compiler.inputs.signature import Call, is_jax_array, storage_or_spec
from symgrad.compiler.runtime.executables import LAUNCH_ERRORS, LaunchTarget
from symgrad.compiler.runtime.leaf_readers import Reader, make_reader, read_keywords, read_positional
from symgrad.compiler.runtime.program import CACHE_MISS
from symgrad.compiler.runtime.step_fast_path import StepFastPath
from symgrad.device_tensor import DeviceTensor, allocate, storage_of
from symgrad.mode import active_observers, local
from symgrad.tensor import Tensor

ndarray = np.ndarray
ARRAY = object()
"""The kind of a leaf that is a tensor or an array; the kind of any other leaf is its class."""
_NUMBERS = (float, np.float64, int, bool, complex)
_MAX_STRUCTURES = 8
_MAX_ALIASES = 64
_requires_grad = attrgetter("_requires_grad")


class LastRun:
    """The program that ran last, for inspection: entries share it with the compiled function, which they must not keep alive.

    The fast path stores the target, not its program: each object that a call touches costs time if many programs take turns.
    """

    __slots__ = ("target_or_program",)

    def __init__(self) -> None:
        self.target_or_program: Any = None
        """A LaunchTarget or a program."""

    @property
    def program(self) -> Any:
        return self.target_or_program.program if self.target_or_program.__class__ is LaunchTarget else self.target_or_program


class TargetsByType:
    """The targets for one kind of call, by the shapes and dtypes that distinguish them."""

    __slots__ = ("_by_key", "_differences", "_targets", "lookup", "only_target")

    def __init__(self) -> None:
        self._targets: list[LaunchTarget] = []
        self.only_target: LaunchTarget | None = None
        """The target, if there is only one."""
        self._differences: list[tuple[int, str]] = []
        self._by_key: dict[Any, LaunchTarget] = {}
        self.lookup: Callable[[Sequence[Any]], LaunchTarget | None] = _make_lookup({}, [])
        """Returns the target for the operands, if there are several targets."""

    def add(self, target: LaunchTarget) -> None:
        """Add a target, replacing one for the same types."""
        types = target.types
        if self.only_target is not None and self.only_target.types == types:
            self._targets, self.only_target = [target], target
            return
        key = _type_key(types, self._differences)
        known = self._by_key.get(key) if self._differences else self.only_target
        if known is not None and known.types != types:
            i = next(i for i, (a, b) in enumerate(zip(known.types, types, strict=True)) if a != b)
            self._differences = [*self._differences, (i, "shape" if known.types[i][0] != types[i][0] else "dtype")]
            self._by_key = {_type_key(t.types, self._differences): t for t in (*self._targets, target)}
            self.lookup = _make_lookup(self._by_key, self._differences)
        elif self._differences:
            self._by_key[key] = target
        self._targets = [t for t in self._targets if t.types != types] + [target]
        self.only_target = target if len(self._targets) == 1 else None


def _make_lookup(found: dict[Any, LaunchTarget], differences: Sequence[tuple[int, str]]) -> Callable[[Sequence[Any]], LaunchTarget | None]:
    """Return a function that finds targets by the `_type_key` of the operands; most often only the shape of one leaf differs."""
    if len(differences) == 1 and differences[0][1] == "shape":
        place = differences[0][0]
        return lambda operands: found.get(operands[place].shape)
    return lambda operands: found.get(tuple([getattr(operands[i], name) for i, name in differences]))


def _type_key(types: Sequence[tuple[Any, Any]], differences: Sequence[tuple[int, str]]) -> Any:
    values = tuple([types[i][name == "dtype"] for i, name in differences])
    return values[0] if len(differences) == 1 and differences[0][1] == "shape" else values


class FastPathEntry:
    """The targets for one argument structure."""

    __slots__ = (
        "has_numbers", "has_repeated_leaves", "kinds", "last_run", "next_entry", "read", "records", "step", "tables",
    )

    def __init__(self, read: Reader, kinds: list[Any], records: bool, other: FastPathEntry | None, latest: LastRun) -> None:
        self.read, self.kinds, self.next_entry, self.last_run = read, kinds, other, latest
        self.has_numbers = any([kind is not ARRAY for kind in kinds])
        """True if there are Python scalars or JAX arrays among the leaves."""
        self.records = records
        """True if results for leaves that require grad are recorded, which the slow path does."""
        self.has_repeated_leaves = False
        """True if there are programs for calls that pass one leaf in several places, where it is a single input, or if the user's code
        compares identities."""
        self.tables: dict[Any, TargetsByType] = {}
        self.step: StepFastPath | None = None
        """Runs a program with effects on the leaves; None for programs without."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: C901  (hot loop: benchmarks/calls.py)
        """Return the result of a call, or CACHE_MISS.

        What device tensors need is inlined, for "positional parameters on the device, 1" in `benchmarks/calls.py`: 6 us, of which the
        executable takes 4; each Python function that is called between two kernels adds 0.4.
        """
        if active_observers.count:
            return CACHE_MISS
        read = self.read
        leaves: Any = args
        if read is not read_positional:
            leaves = kwargs.values() if read is read_keywords else read(args, kwargs)
            if leaves is None:
                return self._try_next(args, kwargs)
        if self.step is not None:
            return self.step.run(tuple(leaves))
        operands, requires_grad, arrays = [], False, 0
        for a in leaves:
            if type(a) is DeviceTensor:
                operands.append(a._storage)
                if a._requires_grad:
                    requires_grad = True
            elif type(a) is ndarray and not self.has_numbers:
                operands.append(a)
                arrays += 1
            else:
                return self._run_mixed_leaves(leaves, args, kwargs)
        mode: Any = local.mode.recording
        if requires_grad or self.has_repeated_leaves:
            if arrays or self.has_repeated_leaves:
                mode = self._mode([type(a) is DeviceTensor and a._requires_grad for a in leaves], operands)
            else:
                mode = None if mode and self.records else (mode, *map(_requires_grad, leaves))
        table = self.tables.get(mode)
        if table is None:
            return CACHE_MISS
        target = table.only_target or table.lookup(operands)
        if target is None:
            return CACHE_MISS
        self.last_run.target_or_program = target
        if arrays or not target.launches_directly:
            return target.run(operands, arrays > 0, 0 < arrays == len(operands))
        try:
            for now, value in target.names:
                if now() is not value and not target.check_guards():
                    return CACHE_MISS
            found = target.execute(*operands)
        except LAUNCH_ERRORS:
            return CACHE_MISS
        if target.unflatten is not None:
            return target.wrap_results((found,) if target.single else found, False)
        t: Any = allocate(DeviceTensor)  # inlined tensor_from_storage()
        t._storage = found
        t._node = t._base = None
        t._requires_grad = False
        t._version_cell = []
        return t

    def _run_mixed_leaves(self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call with leaves of any kinds, or CACHE_MISS."""
        operands: list[Any] = []
        requires_grad: list[bool] = []
        host = arrays = tensors = False
        for a, kind in zip(leaves, self.kinds):  # noqa: B905  (there are as many)
            cls, m = type(a), a
            if kind is not ARRAY:
                if cls is not kind:
                    return self._try_next(args, kwargs)
                if cls in _NUMBERS:
                    host = True
                else:
                    tensors = True  # a JAX array
            elif cls is ndarray:
                host = arrays = True
            elif isinstance(a, Tensor):
                tensors, m = True, a._storage
                host = host or m.__class__ is ndarray
                if a._requires_grad if a._base is None else a.requires_grad:  # requires_grad of a view is computed when it is read
                    requires_grad = requires_grad or [False] * len(self.kinds)
                    requires_grad[len(operands)] = True
            else:
                return self._try_next(args, kwargs)
            operands.append(m)
        mode: Any = local.mode.recording
        if self.has_repeated_leaves:
            mode = self._mode(requires_grad, operands)
        elif requires_grad:  # inlined _mode(), for "value_and_grad in those that require grad" in benchmarks/calls.py
            mode = None if self.records and mode else (mode, *requires_grad)
        table = self.tables.get(mode)
        if table is None:
            return CACHE_MISS
        target = table.only_target or table.lookup(operands)
        if target is None:
            return CACHE_MISS
        self.last_run.target_or_program = target
        return target.run(operands, host, arrays and not tensors)

    def _try_next(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the entry for another structure of the same arguments, or CACHE_MISS."""
        return CACHE_MISS if self.next_entry is None else self.next_entry.run(args, kwargs)

    def _mode(self, requires_grad: list[bool], operands: Sequence[Any]) -> Any:
        """Return what a program depends on besides types: grad mode, which leaves require grad, and which are the same; None if the result
        is to be recorded."""
        mode: Any = local.mode.recording
        if True in requires_grad:
            if self.records and mode:
                return None
            mode = mode, *requires_grad
        if self.has_repeated_leaves:
            same = self._repeated_leaves(operands)
            return (mode, same) if same else mode
        return mode

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], kinds: list[Any]) -> bool:
        """True if these arguments have this structure: a reader of leaves also accepts a container in place of a leaf."""
        found = self.read(args, kwargs)
        return found is not None and self.kinds == kinds and list(map(id, found)) == list(map(id, leaves))

    def add(self, leaves: Sequence[Any], target: LaunchTarget) -> None:
        """Run the target for calls with leaves like these."""
        operands = [storage_of(a) if isinstance(a, Tensor) else a for a in leaves]
        self.has_repeated_leaves = self.has_repeated_leaves or (self.records and bool(self._repeated_leaves(operands)))
        mode = self._mode(_require_grad(leaves), operands)
        if mode is not None:
            self.tables.setdefault(mode, TargetsByType()).add(target)

    def _repeated_leaves(self, operands: Sequence[Any]) -> tuple[int, ...]:
        """Return for each leaf the first position of the same array or buffer; empty if all differ. Python scalars do not count as shared
        memory."""
        places: dict[int, int] = {}
        found = [places.setdefault(id(m), i) if kind is ARRAY else i for i, (m, kind) in enumerate(zip(operands, self.kinds, strict=True))]
        return tuple(found) if found != list(range(len(operands))) else ()


def _require_grad(leaves: Iterable[Any]) -> list[bool]:
    """Return which leaves require grad."""
    return [isinstance(a, Tensor) and a.requires_grad for a in leaves]


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return (len(args), *kwargs) if kwargs else len(args)


class FastPath:
    """The entries of a compiled function, by the number of positional arguments and the keywords; for its derivatives also by what was
    asked for."""

    def __init__(self, signature: inspect.Signature, asks_identity: Callable[[], bool]) -> None:
        self.signature, self.compares_identity = signature, functools.cache(asks_identity)
        self.entries: dict[Any, FastPathEntry] = {}
        self._aliases: dict[int, Any] = {}
        """Objects whose ids are in keys of entries: keeping them here ensures that no other object gets the same id."""
        self.last_run = LastRun()

    def add(self, key: Any, call: Call, target: LaunchTarget, records: bool) -> None:
        """Run the target for calls like this one. If `records`, leaves in the same memory are one input of it."""
        found = None if records and _partly_aliased(call) else self._entry(key, call, records)
        if found is not None:
            entry, leaves = found
            entry.step = None
            entry.add(leaves, target)

    def add_alias(self, key: Any, alias: Any, pinned: Any) -> None:
        """Let `alias`, which has the id of `pinned` at its second place, find the entry of `key`, if there is one."""
        entry = self.entries.get(key)
        if entry is None:
            return
        if len(self._aliases) >= _MAX_ALIASES:
            for known in [k for k in self.entries if isinstance(k, tuple) and len(k) > 1 and k[1] in self._aliases]:
                self.entries.pop(known, None)
            self._aliases.clear()
        self._aliases[id(pinned)] = pinned
        self.entries[alias] = entry

    def clear(self) -> None:
        """Forget all entries."""
        self.entries.clear()
        self._aliases.clear()

    def add_step(self, call: Call, step: StepFastPath | None) -> None:
        """Run a program with effects for calls like this one."""
        found = None if step is None else self._entry(call_key(*call.given), call, True)
        if found is not None:
            found[0].step = step

    def _entry(self, key: Any, call: Call, records: bool) -> tuple[FastPathEntry, list[Any]] | None:
        """Return the entry for calls like this one, and the leaves of this one as they were passed; None if such calls take the slow
        path."""
        args, kwargs = call.given
        read = make_reader(self.signature, call.structure, args, kwargs) if call.complete else None
        found = None if read is None else read(args, kwargs)
        if read is None or found is None:
            return None
        leaves = list(found)
        kinds = _kinds(leaves, call)
        if kinds is None:
            return None
        earlier = entry = self.entries.get(key)
        count = 0
        while entry is not None and not entry.matches(args, kwargs, leaves, kinds):
            entry, count = entry.next_entry, count + 1
        if entry is None:
            entry = self.entries[key] = FastPathEntry(read, kinds, records, earlier if count < _MAX_STRUCTURES else None, self.last_run)
            entry.has_repeated_leaves = records and self.compares_identity()
        return entry, leaves


def _partly_aliased(call: Call) -> bool:
    """True if leaves share memory without being the same array."""
    operands = [storage_or_spec(x) for x in call.leaves]
    return any(operands[i] is not operands[j] for i, j, _ in aliased_pairs(operands))


def _kinds(leaves: list[Any], call: Call) -> list[Any] | None:
    """Return the kinds of the leaves as they were passed; None if the slow path converts one of them."""
    if len(leaves) != len(call.leaves):
        return None
    found: list[Any] = []
    for given, leaf, number in zip(leaves, call.leaves, call.scalar_types or (None,) * len(leaves), strict=True):
        if number is None and given is leaf:
            found.append(ARRAY)
        elif (type(given) in _NUMBERS and (number is not None or type(given) is np.float64)) or is_jax_array(given):
            found.append(type(given))
        else:
            return None
    return found
