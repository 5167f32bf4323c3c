"""Which values of a graph are computed on their own, and the segments between them: a search for the cheapest division.

Values that several readers share start as leaves of their own. They are opened one by one, or in small sets, as long as the graph as a
whole gets cheaper: their readers then expand them too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from typing import Any

from symgrad.compiler.algebra.cost import flops
from symgrad.compiler.algebra.expand import ADDING, SCALING, SOURCES, STRUCTURAL, SUMMING, is_linear
from symgrad.compiler.algebra.segment import Planner, Segment
from symgrad.compiler.ir.graph import LITERAL, Graph, Value, toposort

_SUMS = ADDING | {"linear", "addmm"}
_CONTRACTING = SUMMING | SCALING | {"getitem", "diagonal"}
_SET = 12
"""Largest number of linear values below one that are looked at for a set of values to open."""
_SAVED = 0.001
"""A set of values is opened if the graph saves at least this share of its operations."""


def is_linear_value(v: Value) -> bool:
    """True if the value takes part in contractions; applications with several outputs do not."""
    return v.row is not None and not isinstance(v.dtype, tuple) and is_linear(v)


class Solution:
    """Which values are computed on their own, and the segments between them; `search` improves it."""

    def __init__(self, graph: Graph, fixed: Set[Value]) -> None:
        self.graph = graph
        self.linear = {v for v in graph.values if v not in fixed and is_linear_value(v)}
        self.position = {v: n for n, v in enumerate(graph.values)}
        self.users = self._users()
        outside = {a for v in graph.values if v not in self.linear for a in v.args if a is not None}
        self.external = {v for v in (*graph.outputs, *outside) if v in self.linear}
        self.planner = Planner(self.position)
        self.opaque = {v for v in self.linear if self._starts_opaque(v)}
        self.segments: dict[Value, Segment] = {}
        self.readers: Counter[Value] = Counter()
        """How many segments have the value as a leaf."""
        self.computed: Counter[Value] = Counter()
        """How many segments compute the value."""
        self.reached: dict[Value, set[Value]] = {}
        """The roots of the segments that reach a value, as a leaf or through it."""
        for v in self.external:
            self._require(v)

    def _users(self) -> dict[Value, list[Value]]:
        users: dict[Value, list[Value]] = {}
        for v in self.graph.values:
            for a in dict.fromkeys(v.args):
                if a is not None:
                    users.setdefault(a, []).append(v)
        return users

    def _readers_of(self, v: Value) -> Iterator[Value]:
        """Yield the users of a value, looking through rows that move elements."""
        for u in self.users.get(v, ()):
            if u.op in STRUCTURAL and u in self.linear:
                yield from self._readers_of(u)
            else:
                yield u

    def _starts_opaque(self, v: Value) -> bool:
        """True for values that several readers share, and for sums that are read by anything but sums."""
        if v.op in STRUCTURAL or v.op in SOURCES or not v.args:
            return False
        readers = set(self._readers_of(v))
        shared = len(readers) + sum(o is v for o in self.graph.outputs) > 1
        return shared or (v.op in _SUMS and any(u.op not in ADDING and u.op != "neg" for u in readers))

    # segments

    def _make(self, root: Value, opaque: set[Value]) -> Segment:
        leaves = Leaves(root, self.linear, opaque)
        return self.planner.segment(root, leaves)

    def _require(self, v: Value) -> None:
        """Add the segment of a value, and those of the leaves that it needs."""
        stack = [v]
        while stack:
            root = stack.pop()
            if root in self.segments:
                continue
            self._add(self._make(root, self.opaque))
            stack += [leaf for leaf in self.segments[root].leaves if leaf in self.linear]

    def _add(self, segment: Segment) -> int:
        """Add a segment; return the operations that are new."""
        self.segments[segment.root] = segment
        self.readers.update(segment.leaves)
        for v in segment.reached:
            self.reached.setdefault(v, set()).add(segment.root)
        new = 0
        for v in segment.computed:
            self.computed[v] += 1
            new += flops(v) if self.computed[v] == 1 else 0
        return new

    def _remove(self, root: Value) -> int:
        """Remove a segment; return the operations that are saved."""
        segment = self.segments.pop(root)
        self.readers.subtract(segment.leaves)
        for v in segment.reached:
            self.reached[v].discard(root)
        saved = 0
        for v in segment.computed:
            self.computed[v] -= 1
            saved += flops(v) if self.computed[v] == 0 else 0
        return saved

    # search

    def search(self) -> None:
        """Open values that are computed on their own, as long as the graph gets cheaper; then close those that no longer pay."""
        least = max(1, int(_SAVED * sum(flops(v) for v, n in self.computed.items() if n)))
        opened: list[Value] = []
        for v in reversed(self.graph.values):
            if v not in self.opaque or v not in self.segments or not self._may_pay(v):
                continue
            below = self._set_below(v)
            for chosen in ({v}, below) if len(below) > 1 else ({v},):
                if self._expected(v, chosen) and self._try(self.opaque - chosen, chosen, least):
                    opened += chosen
                    break
        for v in opened:
            self._try(self.opaque | {v}, {v}, 0)

    def _may_pay(self, v: Value) -> bool:
        """True if opening a value may save enough: it is no vector, its readers multiply or sum it, and it is not just a product or a sum
        of arrays of its own shape."""
        if sum(n > 1 for n in v.shape) < 2 or not any(u in self.linear and u.op in _CONTRACTING for u in self._readers_of(v)):
            return False
        inside = toposort((v,), frozenset(self.segments[v].leaves))
        return any(w.op in SUMMING or w.op in SOURCES or w.op == "expand" or _broadcasts(w) for w in inside if w in self.linear)

    def _expected(self, v: Value, chosen: set[Value]) -> bool:
        """True if opening values may be cheaper: a reader of v that took c operations then takes about c / size(v) for each element of v's
        leaves, and the values themselves are no longer computed."""
        if any(self._shares_leaf(self.segments[v], self.segments[root]) for root in self.reached[v]):
            return True
        leaves = Leaves(v, self.linear, self.opaque - chosen)
        ratio = sum(w.size for w in toposort((v,), leaves) if w in leaves) / v.size
        own = sum(flops(w) for root in chosen if root in self.segments for w in self.segments[root].computed)
        written = sum(flops(u) for u in set(self._readers_of(v)))
        planned = sum(flops(w) for root in self.reached[v] for w in self.segments[root].computed)
        return own + min(written, planned) * (1 - ratio) > 0

    def _shares_leaf(self, segment: Segment, reader: Segment) -> bool:
        """True if both read a value that is computed on its own: their terms may cancel, or have a common factor."""
        return any(leaf in self.linear and leaf in reader.leaf_set for leaf in segment.leaves)

    def _set_below(self, v: Value) -> set[Value]:
        """Return a value with the opaque values right below it: opening one alone may not pay."""
        found, stack = {v}, [v]
        while stack:
            for a in stack.pop().args:
                if a in self.linear and a not in found and len(found) < _SET:
                    found.add(a)
                    stack.append(a)
        return found & self.opaque

    def _try(self, opaque: set[Value], changed: set[Value], least: int) -> bool:
        """Change which values are opaque if that saves enough; return True if it did."""
        affected = sorted({root for v in changed for root in self.reached.get(v, ())}, key=self.position.__getitem__)
        before = [self.segments[root] for root in affected]
        old_opaque, saved = self.opaque, 0
        for root in affected:
            saved += self._remove(root)
        self.opaque = opaque
        added: set[Value] = set()
        removed: list[Segment] = []
        saved -= self._add_again(affected, added)
        saved += self._drop_unread(before, added, removed)
        if saved >= least:
            return True
        for root in added:
            if root in self.segments:
                self._remove(root)
        for segment in (*before, *removed):
            self._add(segment)
        self.opaque = old_opaque
        return False

    def _add_again(self, roots: list[Value], added: set[Value]) -> int:
        """Add the segments of those roots that are still read, and of the leaves that they need; return the operations that are new."""
        new = 0
        stack = [root for root in roots if root in self.external]
        stack += [r for r in roots if r not in self.external and self.readers[r] > 0]
        while stack:
            root = stack.pop()
            if root in self.segments:
                continue
            new += self._add(self._make(root, self.opaque))
            added.add(root)
            stack += [leaf for leaf in self.segments[root].leaves if leaf in self.linear]
        return new

    def _drop_unread(self, before: list[Segment], added: set[Value], removed: list[Segment]) -> int:
        """Remove segments that nothing reads any more; return the operations that are saved."""
        saved = 0
        stack = [leaf for s in before for leaf in s.leaves]
        while stack:
            leaf = stack.pop()
            if leaf in self.segments and leaf not in self.external and self.readers[leaf] <= 0:
                segment = self.segments[leaf]
                saved += self._remove(leaf)
                if leaf not in added:
                    removed.append(segment)
                stack += segment.leaves
        return saved


class Leaves:
    """The leaves of a segment: everything that is not linear or is computed on its own, except the root."""

    def __init__(self, root: Value, linear: set[Value], opaque: set[Value]) -> None:
        self.root, self.linear, self.opaque = root, linear, opaque

    def __contains__(self, v: Any) -> bool:
        return v is not self.root and v.op != LITERAL and (v not in self.linear or v in self.opaque)


def _broadcasts(v: Value) -> bool:
    return v.op == "mul" and any(a.shape != v.shape and a.ndim > 0 for a in v.args)
