"""Looking into the recorded graph: nodes, and what they save."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.autograd.backward import attach
from symgrad.autograd.hooks import hooks_of
from symgrad.engine import node_of
from symgrad.escapes import PythonAction
from symgrad.graph import Node as Node, Output
from symgrad.mode import current_capture, local
from symgrad.observer import Observer
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor, wrap
from symgrad.tracer import Tracer


class saved_tensors_hooks:
    """Inside, `pack_hook(tensor)` is called with each tensor that an op saves for backward, and what it returns is kept instead;
    `unpack_hook` of that gives the tensor back when backward needs it. Of nested hooks the innermost are called."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack, self.unpack = pack_hook, unpack_hook

    def __enter__(self) -> None:
        self._before = local.mode.capture
        local.mode.swap_capture(_Packer(self._before, self.pack, self.unpack))

    def __exit__(self, *exc: object) -> None:
        local.mode.swap_capture(self._before)


class _Packer(Observer):
    def __init__(self, outer: Tracer | None, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        super().__init__(outer)
        self.pack, self.unpack = pack, unpack

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        super().on_op(row, args, attrs, result)
        if self.is_innermost():
            self._pack_of_row(row, result)

    def on_custom_function(self, node: Node | None, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        super().on_custom_function(node, args, results)
        if node is not None and node.saved is not None and self.is_innermost():
            self.on_hook(None, None, PythonAction.SAVED_TENSORS_HOOKS)
            node.saved = tuple(None if entry is None else self._entry(entry) for entry in node.saved)

    def _entry(self, entry: Any) -> _PackedEntry:
        return _PackedEntry(_packed(self.pack, entry.array), entry.edge, self.unpack)

    def is_innermost(self) -> bool:
        """True for the first packer that the mode reaches."""
        capture = local.mode.capture
        while isinstance(capture, Observer) and not isinstance(capture, _Packer):
            capture = capture.outer
        return capture is self

    def _pack_of_row(self, row: Any, result: Any) -> None:
        first = result[0] if isinstance(result, tuple) else result
        if first._node is not None and node_of(first._node).row is row:
            self.on_hook(None, None, PythonAction.SAVED_TENSORS_HOOKS)
            _Packed(node_of(first._node), self.pack, self.unpack)


def _packed(pack: Callable[..., Any], array: Any) -> Any:
    """What the pack hook makes of an array, unobserved and unrecorded."""
    recording, local.mode.recording = local.mode.recording, False
    capture = local.mode.swap_capture(current_capture())
    try:
        return pack(wrap(array))
    finally:
        local.mode.recording = recording
        local.mode.swap_capture(capture)


def _unpacked(unpack: Callable[..., Any], value: Any) -> Any:
    t = unpack(value)
    if not isinstance(t, Tensor):
        raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {t.__class__}")
    return t._array


class _PackedEntry:
    """A tensor that a Function saved, packed."""

    __slots__ = ("edge", "hook", "value")

    def __init__(self, value: Any, edge: Any, hook: Callable[..., Any]) -> None:
        self.value, self.edge, self.hook = value, edge, hook

    def moved(self, edge: Any) -> _PackedEntry:
        return _PackedEntry(self.value, edge, self.hook)

    def unpack(self, node: Node) -> Any:
        edge = Output(node, self.edge) if self.edge.__class__ is int else self.edge
        array = _unpacked(self.hook, self.value)
        return wrap(array) if edge is None else attach(array, edge, {})


class _Packed:
    """What a node saved, packed; calling it brings the arrays back."""

    def __init__(self, node: Node, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        if node.cells is None or node.saved is None:
            return
        self.unpack = unpack
        self.several = node.out.__class__ is tuple
        self.saved = [self._pack(pack, value) for value in node.saved]
        self.outs = [self._pack(pack, value) for value in (node.out if self.several else (node.out,))]
        inputs = node.inputs
        node.saved = tuple(edge if packed else value for (packed, value), edge in zip(self.saved, inputs, strict=True))
        node.out, node.cells = None, tuple([] for _ in node.cells)  # writing to the original is the hooks' affair now
        self.node = weakref.ref(node)
        hooks_of(node).refill = self

    @staticmethod
    def _pack(pack: Callable[..., Any], value: Any) -> tuple[bool, Any]:
        return (True, _packed(pack, value)) if value.__class__ is np.ndarray else (False, value)

    def _unpack(self, entry: tuple[bool, Any]) -> Any:
        packed, value = entry
        return _unpacked(self.unpack, value) if packed else value

    def __call__(self) -> None:
        node = self.node()
        if node is None or node.cells is None:  # freed
            return
        outs = [self._unpack(entry) for entry in self.outs]
        node.saved = tuple(self._unpack(entry) for entry in self.saved)
        node.out = tuple(outs) if self.several else outs[0]
