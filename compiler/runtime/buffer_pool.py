"""Device buffers for the tensors that a training step writes to and the gradients that it leaves, kept from one run to the next.

These tensors live in pooled buffers. A run donates the pooled buffers to the kernel and stores the kernel's outputs in their place, so it
does no work per tensor as long as nothing was copied to the host or written to between runs. A tensor that left the pool is moved back
before the next run. A tensor whose host memory is aliased stays outside the pool and is copied in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from sys import getrefcount
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.backends.packing import Group, Packing, places, types
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.device_buffers import (
    DONATED,
    BufferSlice,
    DonatedError,
    DonatedPlaceholder,
    PooledBuffer,
    PoolState,
    donations_in_flight,
    storage_lock,
)
from symgrad.device_tensor import bump_version, is_donation_in_flight, is_on_device, is_unaliased, move_to_pool, pooled_tensor, storage_of
from symgrad.mode import active_observers, trace_epoch
from symgrad.tensor import Tensor

TensorsByPosition = Mapping[int, Sequence[Tensor]]
WARM_RUNS = 1000
"""Number of runs after which a step is expected to run many more times."""


class BufferPool:
    """The pooled buffers of one step.

    `written` maps graph inputs to the tensors that are written to (several tensors if they are equal scalars that share one input);
    `gradients` maps graph outputs to the tensors whose `.grad` they become; `cleared` are the tensors whose `.grad` the step sets to None.
    """

    def __init__(
        self, kernel: Kernel, graph: Graph, packing: Packing, written: TensorsByPosition, gradients: TensorsByPosition, cleared: Any
    ) -> None:
        self.kernel, self.single = kernel, len(packing.outputs) == 1
        self.first_input = next(k for k, group in enumerate(packing.inputs) if group[0] in written)
        """Number of kernel inputs that precede the pooled ones."""
        kept = packing.inputs[self.first_input :]
        self.empty_slots = [None] * len(kept)
        self.state, device_put = PoolState(), kernel.buffer
        self._groups = _pool_members(graph.inputs, kept, written, self.state, device_put)
        gradients_left = [group for group in packing.outputs if group[0] in gradients]
        last = len(packing.outputs) - len(gradients_left)
        self._gradients = _PooledGradients(graph, gradients_left, gradients, last, device_put)
        self._pooled_buffers = [(self.first_input + k, pooled, last - len(kept) + k) for k, (pooled, _) in enumerate(self._groups)]
        self._cleared_grads = cleared
        self.is_warm = False
        """True once there were WARM_RUNS runs, so that packing small tensors pays off."""
        self._aliased: list[tuple[Tensor, BufferSlice]] = []
        """Tensors whose host memory is aliased."""

    def launch(
        self, operands: list[Any], execute: Callable[..., Any] | None = None, wait: bool = False, found: list[Any] | None = None,
        epoch: int | None = None
    ) -> Sequence[Any]:
        """Run the kernel, store its new values and gradients, and return its outputs.

        The trailing slots of `operands` are filled with the pooled buffers. A caller that knows the kernel's executable passes it as
        `execute`, and sets `wait` to block until the run is done, because XLA may read host memory until then. Without `execute` the kernel
        decides that itself and reports errors in detail, but takes longer. `found` is filled as soon as the inputs have been consumed, even
        if the call is interrupted. `epoch`, on the fast path, is the trace epoch at which the guards were read.
        """
        found = [] if found is None else found
        in_flight: list[bool] = []
        try:
            self._take_buffers(operands, in_flight, epoch)
            if execute is None:
                self.kernel.launch(operands, found)
            else:
                found.extend(starmap(execute, (operands,)))  # in C, so that no interrupt comes between the run and its results
            new: Sequence[Any] = found if self.single else found[0]
            if wait:  # now: another thread may donate these results
                new[0].block_until_ready()
            with storage_lock:
                for _, pooled, j in self._pooled_buffers:  # inlined _commit()
                    pooled.buffer = new[j]
                state, gradients_left = self.state, self._gradients
                state.runs += 1
                if (
                    self._cleared_grads or state.observed or state.runs == WARM_RUNS or gradients_left.outside_pool
                    or gradients_left.pool_state.observed or not gradients_left.pool_state.intact
                ):
                    self._slow_epilogue()
                for j, pooled in gradients_left.pooled_buffers:
                    pooled.buffer = new[j]
                donations_in_flight.count -= 1  # inlined end()
                in_flight.clear()
                if donations_in_flight.waiters:
                    donations_in_flight.notify()
        except BaseException:
            try:
                self._recover(operands, found, in_flight)
            except BaseException:  # another interrupt
                self._recover(operands, found, in_flight)
                raise
            raise
        return new

    def _take_buffers(self, operands: list[Any], in_flight: list[bool], epoch: int | None) -> None:
        """Fill the trailing slots of `operands` with the pooled buffers, and put placeholders in their place."""
        pooled_buffers = self._pooled_buffers
        with storage_lock:
            # checked under the lock: whoever traces counts first, and then waits for this run
            if epoch is not None and (active_observers.count or trace_epoch.count != epoch):
                raise DonatedError("another thread traces a function")
            if not self.state.intact:
                self._readmit(operands)
            for k, pooled, _ in pooled_buffers:
                operands[k] = buffer = pooled.buffer
                if buffer.__class__ is DonatedPlaceholder:
                    raise DonatedError("another thread runs this step")
            donations_in_flight.count += 1  # inlined begin()
            in_flight.append(True)
            for _, pooled, _ in pooled_buffers:
                pooled.buffer = pooled.placeholder
            if self._aliased:
                donations_in_flight.on_host.update(id(t) for t, _ in self._aliased)

    def _commit(self, new: Sequence[Any]) -> None:
        """Store the new values and gradients."""
        for _, pooled, j in self._pooled_buffers:
            pooled.buffer = new[j]
        self.state.runs += 1
        self._slow_epilogue()
        for j, pooled in self._gradients.pooled_buffers:
            pooled.buffer = new[j]

    def _slow_epilogue(self) -> None:
        """Slow epilogue: bump versions, make fresh gradients, clear `.grad`, note that the pool is warm."""
        state = self.state
        if state.runs == WARM_RUNS:
            self.is_warm = True
        if state.observed:
            self._bump_versions()
        self._gradients.refresh()
        for t in self._cleared_grads:
            t._grad = None

    def _recover(self, operands: list[Any], found: list[Any], in_flight: list[bool]) -> None:
        """Restore the buffers after a failed run; after an interrupted run that did finish, commit its results."""
        if not in_flight:
            return
        with storage_lock:
            try:
                if found:
                    self._commit(found if self.single else found[0])
                else:
                    for k, pooled, _ in self._pooled_buffers:
                        if pooled.buffer is pooled.placeholder:
                            pooled.buffer = operands[k]
            finally:  # other threads must not wait for a run that has failed
                self._release_aliased()
                donations_in_flight.end(in_flight)

    def _release_aliased(self) -> None:
        donations_in_flight.on_host.difference_update(id(t) for t, _ in self._aliased)

    def _bump_versions(self) -> None:
        self._release_aliased()
        for t, buffer_slice in self._aliased:
            if is_on_device(t):  # a kernel that read it meanwhile has moved it there
                move_to_pool(t, buffer_slice)
                continue
            np.copyto(storage_of(t), np.asarray(buffer_slice))
            t._writes += 1
            bump_version(t, t._writes)
        self._aliased = [(t, buffer_slice) for t, buffer_slice in self._aliased if not is_on_device(t)]
        for _, members in self._groups:
            for t, buffer_slice in members:
                if storage_of(t) is buffer_slice:
                    bump_version(t, t.__dict__["_writes"] + self.state.runs)
        self.state.observed = bool(self._aliased)

    def _readmit(self, operands: Sequence[Any]) -> None:
        """Move tensors that have left back into the pool, with their current values."""
        self.state.observed, outside = True, []
        for pooled, members in self._groups:
            strays = [(t, buffer_slice) for t, buffer_slice in members if storage_of(t) is not buffer_slice]
            if not strays:
                continue
            if pooled.buffer is pooled.placeholder or any(map(_gets_new_values, (t for t, _ in strays))):
                raise DonatedError("another thread runs a step with these tensors")
            pooled.buffer = _gather_buffer(pooled, members, operands)
            for t, buffer_slice in strays:
                if is_on_device(t) or is_unaliased(t):
                    move_to_pool(t, buffer_slice)
                else:
                    outside.append((t, buffer_slice))
        self._aliased, self.state.intact = outside, not outside


def _gets_new_values(t: Tensor) -> bool:
    """True if a run in flight is about to give a tensor new values."""
    return id(t) in donations_in_flight.on_host or is_donation_in_flight(storage_of(t))


def _pool_members(
    values: Sequence[Value], groups: Sequence[Group], tensors: TensorsByPosition, state: PoolState, device_put: Callable[[Any], Any]
) -> list[tuple[PooledBuffer, list[tuple[Tensor, BufferSlice]]]]:
    """Return a pooled buffer for each group, with the tensors in it and their slices."""
    found = []
    for (shape, dtype), group in zip(types(values, groups), groups, strict=True):
        pooled = PooledBuffer(shape, dtype, state, device_put)
        slices = [BufferSlice(pooled, values[i].shape, dtype, place) for i, place in zip(group, places(values, group), strict=True)]
        found.append((pooled, [(t, buffer_slice) for i, buffer_slice in zip(group, slices, strict=True) for t in tensors[i]]))
    return found


def _gather_buffer(pooled: PooledBuffer, members: Sequence[tuple[Tensor, BufferSlice]], operands: Sequence[Any]) -> Any:
    """Return a buffer with the current values of the members. A tensor that has the pooled buffer to itself contributes its own buffer,
    unless that is also another operand."""
    try:
        if members[0][1].span is not None:
            firsts = {buffer_slice: t for t, buffer_slice in reversed(members)}
            return pooled.device_put(np.concatenate([np.asarray(storage_of(t)).ravel() for t in reversed(firsts.values())]))
        now = storage_of(members[0][0])
        now = now.materialize() if now.__class__ is BufferSlice else now
        mine = now.__class__ is not np.ndarray and now.shape and not any(now is x for x in operands)  # scalar buffers may be shared
        if mine and now.is_deleted():
            raise DonatedError(f"a tensor that this step writes to {DONATED}")
        return now if mine else pooled.device_put(np.asarray(now))
    except RuntimeError as error:
        raise DonatedError(f"a tensor that this step writes to {DONATED}") from error


class _PooledGradients:
    """The `.grad` tensors that a step leaves.

    A run reuses the tensors of the last one, unless one was read or may be referenced elsewhere. For owners in a pooled buffer of the step,
    the pool state records reads; for other owners, the reference counts of their gradients are checked.
    """

    def __init__(
        self, graph: Graph, groups: Sequence[Group], owners: TensorsByPosition, first: int, device_put: Callable[[Any], Any]
    ) -> None:
        self._groups, self._first = groups, first
        self._values, self._owners, self._device_put = graph.outputs, owners, device_put
        self.pool_state = PoolState()
        self.pooled_buffers: list[tuple[int, PooledBuffer]] = []
        self.outside_pool: list[tuple[Tensor, Tensor]] = []
        """Gradients whose owners are in no pooled buffer, with these owners."""
        self._sole_refcounts: list[int] = []
        """The reference count of each of these if only its owner refers to it."""

    def refresh(self) -> None:
        """Make new gradient tensors, with pooled buffers, if the old ones may be referenced elsewhere."""
        if not self.pool_state.observed and self.pool_state.intact and self._are_unaliased():
            return
        state = PoolState()
        made = _pool_members(self._values, self._groups, self._owners, state, self._device_put)
        self.pooled_buffers = [*enumerate((pooled for pooled, _ in made), self._first)]
        self.outside_pool = []
        for owner, buffer_slice in (member for _, members in made for member in members):
            owner._grad = pooled_tensor(buffer_slice)
            if storage_of(owner).__class__ is not BufferSlice:
                self.outside_pool.append((owner._grad, owner))
        self.pool_state, state.intact, state.observed = state, True, False
        self._sole_refcounts = [getrefcount(t) for t, _ in self.outside_pool]

    def _are_unaliased(self) -> bool:
        """True if only the owners refer to the gradients outside the pool."""
        return (
            all(owner._grad is t for t, owner in self.outside_pool)
            and [getrefcount(t) for t, _ in self.outside_pool] == self._sole_refcounts
        )
