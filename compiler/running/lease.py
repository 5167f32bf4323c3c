"""What a step of training writes to, and the gradients that it leaves, from one run to the next.

The tensors are in packs, and a run goes from pack to pack: it takes their buffers, and leaves new ones. So nothing is done for each tensor,
as long as nobody has looked at one on the host, or has written to it; who has left comes back in before the next run. What others on the
host share the memory of stays outside, and is copied in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from sys import getrefcount
from typing import Any

import numpy as np

from symgrad.buffers import DONATED, Donated, InUse, Pack, Part, Terms, giving, lock
from symgrad.compiler.backend import Kernel
from symgrad.compiler.graph.ir import Graph, Value
from symgrad.compiler.graph.packing import Group, Packing, places, types
from symgrad.resident import in_use, is_alone, is_resident, lease, leased, memory, tell
from symgrad.tensor import Tensor

Tensors = Mapping[int, Sequence[Tensor]]
WARM = 1000
"""Runs after which a step is likely to have many more."""


class Lease:
    """`written` are the tensors that are written to, by the inputs that they are (several if they are alike); `gradients` are the owners of
    gradients, by the outputs that these are; what is `cleared` has none."""

    def __init__(self, kernel: Kernel, graph: Graph, packing: Packing, written: Tensors, gradients: Tensors, cleared: Any) -> None:
        self.kernel, self.single = kernel, len(packing.outputs) == 1
        self.first = next(k for k, group in enumerate(packing.inputs) if group[0] in written)
        """How many inputs of the kernel are not ours."""
        kept = packing.inputs[self.first :]
        self.room = [None] * len(kept)
        self._terms, put = Terms(), kernel.put  # type: ignore[attr-defined]  # a kernel of XLA's
        self._groups = _members(graph.inputs, kept, written, self._terms, put)
        left = [group for group in packing.outputs if group[0] in gradients]
        last = len(packing.outputs) - len(left)
        self._left = _Gradients(graph, left, gradients, last, put)
        self._packs = [(self.first + k, pack, last - len(kept) + k) for k, (pack, _) in enumerate(self._groups)]
        self._cleared = cleared
        self.warm = False
        """Whether it has had so many runs that packing small tensors pays."""
        self._outside: list[tuple[Tensor, Part]] = []
        """Tensors whose memory others see."""

    def launch(  # noqa: C901  (between kernels each call of a function costs a microsecond)
        self, held: list[Any], execute: Callable[..., Any] | None = None, wait: bool = False, found: list[Any] | None = None
    ) -> Sequence[Any]:
        """The results, after a run with everything that it leaves. The last places of `held` are ours, and free. Who knows the kernel's
        executable gives it, and says whether to wait for its end, since it may read the host's memory until then: the kernel itself knows
        that, and has words for what is wrong, but takes longer. `found` is filled once there is no way back, also if an interrupt comes."""
        found = [] if found is None else found
        taken: list[bool] = []
        packs, terms = self._packs, self._terms
        try:
            with lock:
                if not terms.whole:
                    self._enter(held)
                for k, pack, _ in packs:
                    held[k] = buffer = pack.buffer
                    if buffer.__class__ is InUse:
                        raise Donated("another thread runs this step")
                giving.count += 1  # as begin() does
                taken.append(True)
                for _, pack, _ in packs:
                    pack.buffer = pack.nothing
            if execute is None:
                self.kernel.launch(held, found)
            else:
                found.extend(starmap(execute, (held,)))  # so no interrupt comes between a run and its results
            new: Sequence[Any] = found if self.single else found[0]
            if wait:  # now: another thread may give away what is left here
                new[0].block_until_ready()
            with lock:
                for _, pack, j in packs:  # as _leave() does
                    pack.buffer = new[j]
                terms.runs += 1
                left = self._left
                if self._cleared or terms.seen or terms.runs == WARM or left.others or left.terms.seen or not left.terms.whole:
                    self._more()
                for j, pack in left.packs:
                    pack.buffer = new[j]
                giving.count -= 1  # as over() does
                taken.clear()
                if giving.waiting:
                    giving.wake()
        except BaseException:
            try:
                self._recover(held, found, taken)
            except BaseException:  # another interrupt
                self._recover(held, found, taken)
                raise
            raise
        return new

    def _leave(self, new: Sequence[Any]) -> None:
        """The new values, and gradients."""
        for _, pack, j in self._packs:
            pack.buffer = new[j]
        self._terms.runs += 1
        self._more()
        for j, pack in self._left.packs:
            pack.buffer = new[j]

    def _more(self) -> None:
        """What is to be done only if somebody has looked at something, or is to know of it."""
        terms = self._terms
        if terms.runs == WARM:
            self.warm = True
        if terms.seen:
            self._tell()
        self._left.renew()
        for t in self._cleared:
            t._grad = None

    def _recover(self, held: list[Any], found: list[Any], taken: list[bool]) -> None:
        """After a run that has failed, everything as it was; an interrupt after a run that has not: what has begun is finished."""
        if not taken:
            return
        with lock:
            if found:
                self._leave(found if self.single else found[0])
            else:
                for k, pack, _ in self._packs:
                    if pack.buffer is pack.nothing:
                        pack.buffer = held[k]
            giving.over(taken)

    def _tell(self) -> None:
        for t, part in self._outside:
            np.copyto(memory(t), np.asarray(part))
            t._writes += 1
            tell(t, t._writes)
        for _, members in self._groups:
            for t, part in members:
                if memory(t) is part:
                    tell(t, t.__dict__["_writes"] + self._terms.runs)
        self._terms.seen = bool(self._outside)

    def _enter(self, held: Sequence[Any]) -> None:
        """Bring tensors in that have left, with the numbers that they have now."""
        self._terms.seen, outside = True, []
        for pack, members in self._groups:
            strays = [(t, part) for t, part in members if memory(t) is not part]
            if not strays:
                continue
            if pack.buffer is pack.nothing or any(in_use(memory(t)) for t, _ in strays):
                raise Donated("another thread runs a step with these tensors")
            pack.buffer = _filled(pack, members, held)
            for t, part in strays:
                if is_resident(t) or is_alone(t):
                    lease(t, part)
                else:
                    outside.append((t, part))
        self._outside, self._terms.whole = outside, not outside


def _members(
    values: Sequence[Value], groups: Sequence[Group], tensors: Tensors, terms: Terms, put: Callable[[Any], Any]
) -> list[tuple[Pack, list[tuple[Tensor, Part]]]]:
    """A pack for each group, and which part of it is whose."""
    found = []
    for (shape, dtype), group in zip(types(values, groups), groups, strict=True):
        pack = Pack(shape, dtype, terms, put)
        parts = [Part(pack, values[i].shape, dtype, place) for i, place in zip(group, places(values, group), strict=True)]
        found.append((pack, [(t, part) for i, part in zip(group, parts, strict=True) for t in tensors[i]]))
    return found


def _filled(pack: Pack, members: Sequence[tuple[Tensor, Part]], held: Sequence[Any]) -> Any:
    """A buffer with the numbers that tensors have now. A tensor by itself gives its own, unless that is read as another input, too."""
    try:
        if members[0][1].place is not None:
            firsts = {part: t for t, part in reversed(members)}
            return pack.put(np.concatenate([np.asarray(memory(t)).ravel() for t in reversed(firsts.values())]))
        now = memory(members[0][0])
        now = now.cut() if now.__class__ is Part else now
        mine = now.__class__ is not np.ndarray and now.shape and not any(now is x for x in held)  # others may hold a single number, too
        if mine and now.is_deleted():
            raise Donated(f"a tensor that this step writes to {DONATED}")
        return now if mine else pack.put(np.asarray(now))
    except RuntimeError as error:
        raise Donated(f"a tensor that this step writes to {DONATED}") from error


class _Gradients:
    """What a step leaves in `.grad`: the same tensors again, unless somebody has asked for one, or has looked. Of tensors that are in packs
    of the step that is known; of others, how many references there are to their gradients."""

    def __init__(
        self, graph: Graph, groups: Sequence[Group], owners: Tensors, first: int, put: Callable[[Any], Any]
    ) -> None:
        self._groups, self._first = groups, first
        self._values, self._owners, self._put = graph.outputs, owners, put
        self.terms = Terms()
        self.packs: list[tuple[int, Pack]] = []
        self.others: list[tuple[Tensor, Tensor]] = []
        """Those whose owners are in no pack, and these."""
        self._alone: list[int] = []
        """How many references each of these has if nobody else has one."""

    def renew(self) -> None:
        """Other tensors, and packs for them, if need be."""
        if not self.terms.seen and self.terms.whole and self._are_alone():
            return
        terms = Terms()
        made = _members(self._values, self._groups, self._owners, terms, self._put)
        self.packs = [*enumerate((pack for pack, _ in made), self._first)]
        self.others = []
        for owner, part in (member for _, members in made for member in members):
            owner._grad = leased(part)
            if memory(owner).__class__ is not Part:
                self.others.append((owner._grad, owner))
        self.terms, terms.whole, terms.seen = terms, True, False
        self._alone = [getrefcount(t) for t, _ in self.others]

    def _are_alone(self) -> bool:
        """Whether nobody but their owners has the others."""
        return all(owner._grad is t for t, owner in self.others) and [getrefcount(t) for t, _ in self.others] == self._alone
