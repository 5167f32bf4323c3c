"""The backward pass: one loop over the reachable nodes, newest first.

A node is newer than everything it was computed from, so descending sequence numbers are a topological order, and PyTorch's.
The loop is the same for arrays and for recorded tensors (`create_graph=True`): a backend says what a cotangent is and what `xp` is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, attrgetter
from typing import Any

from symgrad.graph import ARRAYS, NODES, Constant, Node, Output, input_order
from symgrad.mode import Mode
from symgrad.ops.exact import Exact
from symgrad.ops.shapes import unbroadcast
from symgrad.saved import DETACHED, FREED, first_write, write_error

_sequence = attrgetter("sequence")
_SCALARS = frozenset((float, int, bool, complex, Exact, type(None)))
_DEAD_ENDS = _SCALARS | {Constant}

def call(function: Callable[..., Any], *args: Any, **attrs: Any) -> Any:
    return function(*args, **attrs)


class Plan:
    """What a run must know of the graph: the nodes newest first; the leaves that cannot wait for the end, with the number of times
    each is used; and the nodes that the short loop must leave alone, since they may lead to user code."""

    __slots__ = ("apart", "order", "urgent")

    def __init__(self, stack: list[Node], accumulates: bool = True) -> None:
        order: list[Node] = []
        self.order = order
        self.urgent: dict[Any, int] = {}
        self.apart: set[Node] = set()
        seen: set[Any] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            order.append(node)
            for edge in node.inputs:
                cls = edge.__class__
                if cls is Node:
                    stack.append(edge)
                elif cls in _DEAD_ENDS:
                    continue
                elif cls is Output:
                    stack.append(edge.node)
                elif cls in NODES:
                    stack.append(edge)
                elif edge not in seen:
                    seen.add(edge)
                    if edge._hooks is not None or (edge._grad is not None and accumulates):
                        self.urgent[edge] = 0
        order.sort(key=_sequence, reverse=True)
        if self.urgent:
            self._count()

    def _count(self) -> None:
        """How often each urgent leaf is used by the nodes that will run. PyTorch accumulates a leaf when the last use is done:
        hooks see that, and a gradient that is there already is added to at once instead of being kept beside it."""
        urgent = dict.fromkeys(self.urgent, 0)
        for node in self.order:
            for edge in node.inputs:
                if is_leaf(edge) and edge in urgent:
                    urgent[edge] += 1
                    if edge._hooks is not None:
                        self.apart.add(node)
        self.urgent = urgent

    def restrict(self, captures: dict[Any, Any]) -> set[Any]:
        """Keep the nodes on a path to a captured edge; they, and the leaves that are captured, are returned."""
        wanted = {key[0] if key.__class__ is tuple else key for key in captures}
        self.apart |= wanted
        for node in reversed(self.order):
            for edge in node.inputs:
                cls = edge.__class__
                if cls not in _DEAD_ENDS and (edge.node if cls is Output else edge) in wanted:
                    wanted.add(node)
                    break
        self.order = [node for node in self.order if node in wanted]
        if self.urgent:
            self._count()
        return wanted


def key_of(edge: Any) -> Any:
    """What cotangents of an edge are filed under."""
    return (edge.node, edge.index) if edge.__class__ is Output else edge


def node_of(edge: Any) -> Any:
    """The node that an edge leads to."""
    return edge.node if edge.__class__ is Output else edge


def is_leaf(edge: Any) -> bool:
    """Whether an edge ends at a tensor of the user's that wants a gradient."""
    cls = edge.__class__
    return cls is not Node and cls is not Output and cls not in _DEAD_ENDS and cls not in NODES


class Backward:
    """One run. `captures` (key of an edge -> its cotangent, filled in) restricts it to the paths that lead there; with `accumulates`
    a captured leaf's cotangent goes into its `.grad`, as that of every leaf does without captures."""

    __slots__ = (
        "accumulates", "apart", "backend", "captures", "hooks", "keep_graph", "nodes", "owned", "pending", "quietly", "urgent", "wanted",
        "watch",
    )  # fmt: skip

    def __init__(self, backend: Any, keep_graph: bool, captures: dict[Any, Any] | None, accumulates: bool, mode: Mode) -> None:
        self.backend = backend
        self.keep_graph = keep_graph
        self.captures = captures
        self.accumulates = accumulates
        self.quietly = backend.quiet(mode)
        self.watch = mode.anomaly
        self.hooks = mode.hooks
        self.pending: dict[Any, Any] = {}
        self.owned: set[Any] = set()
        self.wanted: set[Any] | None = None

    def run(self, roots: Sequence[tuple[Any, Any]]) -> None:
        """Send the cotangents of the roots, given as (edge, cotangent), to the leaves."""
        plan = Plan([node_of(edge) for edge, _ in roots if not is_leaf(edge)], self.accumulates)
        if self.captures is not None:
            self.wanted = plan.restrict(self.captures)
        self.apart, self.urgent = plan.apart, plan.urgent
        for edge, g in roots:
            if self._needed(edge):
                self.receive(edge, g)
        self.nodes = iter(plan.order)
        special = self.quietly(self._plain_nodes)
        while special is not None:
            self._any_node(special)
            special = self.quietly(self._plain_nodes)
        for leaf in tuple(self.pending):
            self.deliver(leaf)

    def _plain_nodes(self) -> Node | None:  # noqa: C901  (hot loop: benchmarks/chains.py)
        """The hot loop, in a quiet context: a call in it costs as much as a small kernel, for every node.

        It stops at a node that is not plain or may call user code, which must not run there.
        """
        backend, pending, owned, free, urgent = self.backend, self.pending, self.owned, not self.keep_graph, self.urgent
        apart, wanted, watch = self.apart, self.wanted, self.watch
        xp, raw = backend.xp, backend.raw
        node: Node
        args: Any
        for node in self.nodes:
            row = node.row
            if node.hooks is not None or not row.plain or watch is not None or (apart and node in apart):
                return node
            g = pending.pop(node, None)
            if g is None:
                self._skip(node, True)
                continue
            cells = node.cells
            if cells is not None:
                for cell in cells:
                    if cell:
                        check_saved(node)
            elif node.saved is None:
                raise RuntimeError(FREED)
            if raw:
                args, out = node.saved, node.out
            else:
                args, out = backend.arguments(node)
                g = self._tied(node, g)
            attrs, binary = node.attrs, len(args) == 2
            for edge, rule in zip(node.inputs, row.vjp):  # noqa: B905  (the table gives each argument a rule)
                cls = edge.__class__
                if cls is Node:
                    like = key = source = edge
                elif cls in _DEAD_ENDS:
                    continue
                elif cls is Output:
                    like, source = edge, edge.node
                    key = (source, edge.index)
                elif cls in NODES:
                    like = key = source = edge
                else:
                    like, key = edge._array, edge
                    source = edge
                if rule is not None and (wanted is None or source in wanted):
                    if attrs:
                        result = rule(xp, g, out, *args, **attrs)
                    elif binary:
                        result = rule(xp, g, out, args[0], args[1])  # a star would cost a tenth of a small op
                    else:
                        result = rule(xp, g, out, *args)
                    array = result if raw else result._array
                    if array.shape != like.shape:
                        result = unbroadcast(xp, result, like.shape)
                    if array.dtype is not like.dtype:
                        result = backend.fit(result, like.dtype)
                    if not raw and row.tie:
                        result = backend.tie(result, edge)
                    total = pending.get(key)
                    if total is None:
                        pending[key] = result
                        if cls is not Node and raw and result is not g and result.base is None:
                            owned.add(key)
                    elif raw and key in owned:
                        total += result
                        pending[key] = total  # a NumPy scalar is not changed in place
                    else:
                        pending[key] = total + result
                        owned.add(key)
                if urgent and edge in urgent:
                    self._used(edge, True)
            if free and cells is not None:
                node.saved = node.out = node.cells = None
        return None  # what is pending now are leaves

    def _any_node(self, node: Node) -> None:
        """The same for any node: several outputs, any number of arguments, hooks, captures, a user's Function."""
        backend, hooks = self.backend, node.hooks
        gs = self._arrived(node)
        needs = [self._needed(edge) for edge in node.inputs]
        if gs is None or not any(needs):
            return self._skip(node)
        if hooks is not None:
            if hooks.refill is not None:
                hooks.refill()
            gs = hooks.before(gs, backend) if self.hooks else gs
        g = gs[0] if node.row.outputs == 1 else tuple(gs)
        results = self._pull(node, g, needs) if self.watch is None else self.watch.pull(self._pull, node, g, needs)
        if hooks is not None and hooks.post and self.hooks:
            results = self._after(hooks, node, self._fitted(node, results), gs)
        self._hand_on(node, self._fitted(node, results))
        if not self.keep_graph and node.cells is not None:
            node.saved = node.out = node.cells = None

    def _after(self, hooks: Any, node: Node, results: list[Any], gs: list[Any]) -> list[Any]:
        """What the hooks of a node make of its results, which they see in PyTorch's order."""
        order = input_order(node)
        changed = hooks.after([results[i] for i in order], gs, self.backend)
        for i, result in zip(order, changed, strict=True):
            results[i] = result
        return results

    def _needed(self, edge: Any) -> bool:
        return edge.__class__ not in _DEAD_ENDS and (self.wanted is None or node_of(edge) in self.wanted)

    def _fitted(self, node: Node, results: Sequence[Any]) -> list[Any]:
        """The cotangents in the shapes and types of the arguments that they belong to."""
        return [self._fit(edge, result, node.row.tie) for edge, result in zip(node.inputs, results, strict=True)]

    def _fit(self, edge: Any, result: Any, tie: bool) -> Any:
        if result is None or not self._needed(edge):
            return None
        like, backend = edge._array if is_leaf(edge) else edge, self.backend
        if result.shape != like.shape:
            result = self.quietly(unbroadcast, backend.xp, result, like.shape)
        if result.dtype != like.dtype:
            result = self.quietly(backend.fit, result, like.dtype)
        return backend.tie(result, edge) if tie and not backend.raw else result

    def _hand_on(self, node: Node, results: Sequence[Any]) -> None:
        for edge, result in zip(node.inputs, results, strict=True):
            if result is not None:
                self.receive(edge, result)
            if edge.__class__ not in _DEAD_ENDS and edge in self.urgent:
                self._used(edge)

    def _skip(self, node: Node, quiet: bool = False) -> None:
        """No cotangent came: the leaves behind this node wait for one less."""
        if self.urgent:
            for edge in node.inputs:
                if edge.__class__ not in _DEAD_ENDS and edge in self.urgent:
                    self._used(edge, quiet)

    def _used(self, leaf: Any, quiet: bool = False) -> None:
        """One use of an urgent leaf is done. `quiet`: we are in the quiet context already, which cannot be entered twice."""
        self.urgent[leaf] -= 1
        if not self.urgent[leaf]:
            self.deliver(leaf, quiet)

    def receive(self, edge: Any, g: Any) -> None:
        """Add a cotangent to what has arrived at an edge."""
        key = key_of(edge)
        total = self.pending.get(key)
        if total is None:
            self.pending[key] = g
        else:
            self.pending[key] = self.quietly(add, total, g)
            self.owned.add(key)

    def _arrived(self, node: Node) -> list[Any] | None:
        """The cotangents of a node's outputs, None if none came; hooks have seen them and captures have taken them."""
        keys = [node] if node.row.outputs == 1 else [(node, i) for i in range(len(node.shape))]
        gs = [self.pending.pop(key, None) for key in keys]
        if all(g is None for g in gs):
            return None
        if node.hooks is not None and self.hooks:
            gs = node.hooks.arrive(gs, self.backend)
        if self.captures is not None:
            for key, g in zip(keys, gs, strict=True):
                if key in self.captures:
                    self.captures[key] = g
        return gs

    def _pull(self, node: Node, g: Any, needs: list[bool]) -> Sequence[Any]:
        """The cotangents of all arguments by the rules of the row."""
        row, backend = node.row, self.backend
        if row.pullback is not None:
            return row.pullback(backend, node, g, needs)  # type: ignore[no-any-return]
        check_saved(node)
        args, out = backend.arguments(node)
        g = g if backend.raw else self._tied(node, g)
        if row.prepare is not None:
            g = self.quietly(row.prepare, backend.xp, g, out, *args, **node.attrs)
        results = []
        for i, need in enumerate(needs):
            rule, attrs = row.rule(i), {"index": i, **node.attrs} if row.variadic else node.attrs
            results.append(self.quietly(rule, backend.xp, g, out, *args, **attrs) if need and rule is not None else None)
        return results

    def _tied(self, node: Node, g: Any) -> Any:
        """The cotangent of an elementwise node that ties, recorded as if it depended on the argument: so do all further derivatives."""
        return self.backend.tie(g, node.inputs[0]) if node.row.tie and node.row.elementwise and len(node.inputs) == 1 else g

    def deliver(self, leaf: Any, quiet: bool = False) -> None:
        """All contributions to a leaf have come: hand the sum over."""
        g = self.pending.pop(leaf, None)
        if g is None:
            return
        hooks = leaf._hooks if self.hooks else None
        if hooks is not None:
            (g,) = hooks.arrive([g], self.backend)
        if not self.accumulates:
            assert self.captures is not None
            self.captures[leaf] = g
        elif not leaf._requires_grad:  # frozen since the forward pass
            return
        elif hooks is not None:
            self._accumulate_with(hooks, leaf, g)
        elif quiet:
            self.backend.accumulate(leaf, g, leaf in self.owned)
        else:
            self.quietly(self.backend.accumulate, leaf, g, leaf in self.owned)

    def _accumulate_with(self, hooks: Any, leaf: Any, g: Any) -> None:
        """A hook may have kept the array: it is not ours any more."""
        gs = hooks.before([g], self.backend)
        self.quietly(self.backend.accumulate, leaf, gs[0], False)
        for hook in tuple(hooks.accumulated.values()):
            hook(leaf)
        hooks.after((), gs, self.backend)


def check_saved(node: Node) -> None:
    """Refuse to go back through a node that has let go of what it saved, or of which a saved array was written to."""
    if node.saved is None:
        raise RuntimeError(FREED)
    if node.cells is not None and any(node.cells):
        for array, edge, cell in saved_arrays(node):
            _check_cell(array, edge, cell, node)


def saved_arrays(node: Node) -> list[tuple[Any, Any, list[Any]]]:
    """What a node saved of tensors: the array, its edge (None for the node's own result), and the cell that says if it was written to."""
    assert node.saved is not None
    pairs = [(a, e) for a, e in zip(node.saved, node.inputs, strict=True) if a.__class__ in ARRAYS and e.__class__ not in _SCALARS]
    outs = node.out if node.out.__class__ is tuple else (node.out,)
    pairs += [(out, None) for out in outs if out is not None]
    return [(a, e, cell) for (a, e), cell in zip(pairs, node.cells or (), strict=True)]


def _check_cell(array: Any, edge: Any, cell: list[Any], node: Node) -> None:
    """Refuse a saved array that was written to, or whose tensor lost its history by `detach_()`. `edge` is None for the node's result."""
    if edge is not None and len(cell) == 3 and cell[2] == key_of(edge):
        raise RuntimeError(DETACHED)
    cell = first_write(cell)
    if cell:
        raise write_error(array, Output(node, 0) if edge is None else edge, cell)
