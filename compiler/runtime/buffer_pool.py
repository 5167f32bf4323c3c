"""What a step of training writes to, and the gradients that it leaves, from one run to the next.

The tensors are in pooled buffers, and a run goes from pooled buffer to pooled buffer: it takes their buffers, and leaves new ones. So
nothing is done for each tensor, as long as nobody has looked at one on the host, or has written to it; who has left comes back in before
the next run. What others on the host share the memory of stays outside, and is copied in and out.
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
from symgrad.tensor import Tensor

TensorsByPosition = Mapping[int, Sequence[Tensor]]
WARM_RUNS = 1000
"""Runs after which a step is likely to have many more."""


class BufferPool:
    """`written` are the tensors that are written to, by the inputs that they are (several if they are alike); `gradients` are the owners of
    gradients, by the outputs that these are; what is `cleared` has none."""

    def __init__(
        self, kernel: Kernel, graph: Graph, packing: Packing, written: TensorsByPosition, gradients: TensorsByPosition, cleared: Any
    ) -> None:
        self.kernel, self.single = kernel, len(packing.outputs) == 1
        self.first_input = next(k for k, group in enumerate(packing.inputs) if group[0] in written)
        """How many inputs of the kernel are not ours."""
        kept = packing.inputs[self.first_input :]
        self.empty_slots = [None] * len(kept)
        self._state, device_put = PoolState(), kernel.device_put  # type: ignore[attr-defined]  # a kernel of XLA's
        self._groups = _pool_members(graph.inputs, kept, written, self._state, device_put)
        gradients_left = [group for group in packing.outputs if group[0] in gradients]
        last = len(packing.outputs) - len(gradients_left)
        self._gradients = _PooledGradients(graph, gradients_left, gradients, last, device_put)
        self._pooled_buffers = [(self.first_input + k, pooled, last - len(kept) + k) for k, (pooled, _) in enumerate(self._groups)]
        self._cleared_grads = cleared
        self.is_warm = False
        """Whether it has had so many runs that packing small tensors pays."""
        self._aliased: list[tuple[Tensor, BufferSlice]] = []
        """Tensors whose memory others see."""

    def launch(  # noqa: C901  (between kernels each call of a function costs a microsecond)
        self, operands: list[Any], execute: Callable[..., Any] | None = None, wait: bool = False, found: list[Any] | None = None
    ) -> Sequence[Any]:
        """The results, after a run with everything that it leaves. The last places of `operands` are ours, and free. Who knows the kernel's
        executable gives it, and says whether to wait for its end, since it may read the host's memory until then: the kernel itself knows
        that, and has words for what is wrong, but takes longer. `found` is filled once there is no way back, also if an interrupt comes."""
        found = [] if found is None else found
        in_flight: list[bool] = []
        pooled_buffers, state = self._pooled_buffers, self._state
        try:
            with storage_lock:
                if not state.intact:
                    self._readmit(operands)
                for k, pooled, _ in pooled_buffers:
                    operands[k] = buffer = pooled.buffer
                    if buffer.__class__ is DonatedPlaceholder:
                        raise DonatedError("another thread runs this step")
                donations_in_flight.count += 1  # as begin() does
                in_flight.append(True)
                for _, pooled, _ in pooled_buffers:
                    pooled.buffer = pooled.placeholder
            if execute is None:
                self.kernel.launch(operands, found)
            else:
                found.extend(starmap(execute, (operands,)))  # so no interrupt comes between a run and its results
            new: Sequence[Any] = found if self.single else found[0]
            if wait:  # now: another thread may donate what is left here
                new[0].block_until_ready()
            with storage_lock:
                for _, pooled, j in pooled_buffers:  # as _commit() does
                    pooled.buffer = new[j]
                state.runs += 1
                gradients_left = self._gradients
                if (
                    self._cleared_grads or state.observed or state.runs == WARM_RUNS or gradients_left.outside_pool
                    or gradients_left.pool_state.observed or not gradients_left.pool_state.intact
                ):
                    self._slow_epilogue()
                for j, pooled in gradients_left.pooled_buffers:
                    pooled.buffer = new[j]
                donations_in_flight.count -= 1  # as end() does
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

    def _commit(self, new: Sequence[Any]) -> None:
        """The new values, and gradients."""
        for _, pooled, j in self._pooled_buffers:
            pooled.buffer = new[j]
        self._state.runs += 1
        self._slow_epilogue()
        for j, pooled in self._gradients.pooled_buffers:
            pooled.buffer = new[j]

    def _slow_epilogue(self) -> None:
        """What is to be done only if somebody has looked at something, or is to know of it."""
        state = self._state
        if state.runs == WARM_RUNS:
            self.is_warm = True
        if state.observed:
            self._bump_versions()
        self._gradients.refresh()
        for t in self._cleared_grads:
            t._grad = None

    def _recover(self, operands: list[Any], found: list[Any], in_flight: list[bool]) -> None:
        """After a run that has failed, everything as it was; an interrupt after a run that has not: what has begun is finished."""
        if not in_flight:
            return
        with storage_lock:
            if found:
                self._commit(found if self.single else found[0])
            else:
                for k, pooled, _ in self._pooled_buffers:
                    if pooled.buffer is pooled.placeholder:
                        pooled.buffer = operands[k]
            donations_in_flight.end(in_flight)

    def _bump_versions(self) -> None:
        for t, buffer_slice in self._aliased:
            np.copyto(storage_of(t), np.asarray(buffer_slice))
            t._writes += 1
            bump_version(t, t._writes)
        for _, members in self._groups:
            for t, buffer_slice in members:
                if storage_of(t) is buffer_slice:
                    bump_version(t, t.__dict__["_writes"] + self._state.runs)
        self._state.observed = bool(self._aliased)

    def _readmit(self, operands: Sequence[Any]) -> None:
        """Bring tensors in that have left, with the numbers that they have now."""
        self._state.observed, outside = True, []
        for pooled, members in self._groups:
            strays = [(t, buffer_slice) for t, buffer_slice in members if storage_of(t) is not buffer_slice]
            if not strays:
                continue
            if pooled.buffer is pooled.placeholder or any(is_donation_in_flight(storage_of(t)) for t, _ in strays):
                raise DonatedError("another thread runs a step with these tensors")
            pooled.buffer = _gather_buffer(pooled, members, operands)
            for t, buffer_slice in strays:
                if is_on_device(t) or is_unaliased(t):
                    move_to_pool(t, buffer_slice)
                else:
                    outside.append((t, buffer_slice))
        self._aliased, self._state.intact = outside, not outside


def _pool_members(
    values: Sequence[Value], groups: Sequence[Group], tensors: TensorsByPosition, state: PoolState, device_put: Callable[[Any], Any]
) -> list[tuple[PooledBuffer, list[tuple[Tensor, BufferSlice]]]]:
    """A pooled buffer for each group, and which part of it is whose."""
    found = []
    for (shape, dtype), group in zip(types(values, groups), groups, strict=True):
        pooled = PooledBuffer(shape, dtype, state, device_put)
        slices = [BufferSlice(pooled, values[i].shape, dtype, place) for i, place in zip(group, places(values, group), strict=True)]
        found.append((pooled, [(t, buffer_slice) for i, buffer_slice in zip(group, slices, strict=True) for t in tensors[i]]))
    return found


def _gather_buffer(pooled: PooledBuffer, members: Sequence[tuple[Tensor, BufferSlice]], operands: Sequence[Any]) -> Any:
    """A buffer with the numbers that tensors have now. A tensor by itself gives its own, unless that is read as another input, too."""
    try:
        if members[0][1].span is not None:
            firsts = {buffer_slice: t for t, buffer_slice in reversed(members)}
            return pooled.device_put(np.concatenate([np.asarray(storage_of(t)).ravel() for t in reversed(firsts.values())]))
        now = storage_of(members[0][0])
        now = now.materialize() if now.__class__ is BufferSlice else now
        mine = now.__class__ is not np.ndarray and now.shape and not any(now is x for x in operands)  # others may hold a single number, too
        if mine and now.is_deleted():
            raise DonatedError(f"a tensor that this step writes to {DONATED}")
        return now if mine else pooled.device_put(np.asarray(now))
    except RuntimeError as error:
        raise DonatedError(f"a tensor that this step writes to {DONATED}") from error


class _PooledGradients:
    """What a step leaves in `.grad`: the same tensors again, unless somebody has asked for one, or has looked. Of tensors that are in
    pooled buffers of the step that is known; of others, how many references there are to their gradients."""

    def __init__(
        self, graph: Graph, groups: Sequence[Group], owners: TensorsByPosition, first: int, device_put: Callable[[Any], Any]
    ) -> None:
        self._groups, self._first = groups, first
        self._values, self._owners, self._device_put = graph.outputs, owners, device_put
        self.pool_state = PoolState()
        self.pooled_buffers: list[tuple[int, PooledBuffer]] = []
        self.outside_pool: list[tuple[Tensor, Tensor]] = []
        """Those whose owners are in no pooled buffer, and these."""
        self._sole_refcounts: list[int] = []
        """How many references each of these has if nobody else has one."""

    def refresh(self) -> None:
        """Other tensors, and pooled buffers for them, if need be."""
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
        """Whether nobody but their owners has the others."""
        return (
            all(owner._grad is t for t, owner in self.outside_pool)
            and [getrefcount(t) for t, _ in self.outside_pool] == self._sole_refcounts
        )
