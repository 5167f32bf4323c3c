"""Looking into the recorded graph: nodes, and what they save."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.autograd.hooks import hooks_of
from symgrad.engine import node_of
from symgrad.graph import Node as Node
from symgrad.mode import Observer, local
from symgrad.tensor import Tensor, wrap


class saved_tensors_hooks:
    """Inside, `pack_hook(tensor)` is called with each tensor that an op saves for backward, and what it returns is kept instead;
    `unpack_hook` of that gives the tensor back when backward needs it. What a Function saves is not packed."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack, self.unpack = pack_hook, unpack_hook

    def __enter__(self) -> None:
        self._before = local.mode.capture
        local.mode.watch(_Packer(self._before, self.pack, self.unpack))

    def __exit__(self, *exc: object) -> None:
        local.mode.watch(self._before)


class _Packer(Observer):
    def __init__(self, outer: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        super().__init__(outer)
        self.pack, self.unpack = pack, unpack

    def seen(self, row: Any, result: Any) -> None:
        first = result[0] if isinstance(result, tuple) else result
        if first._node is not None and node_of(first._node).row is row:
            _Packed(node_of(first._node), self.pack, self.unpack)


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
        if value.__class__ is not np.ndarray:
            return False, value
        recording, local.mode.recording = local.mode.recording, False
        capture = local.mode.watch(None)
        try:
            return True, pack(wrap(value))
        finally:
            local.mode.recording = recording
            local.mode.watch(capture)

    def _unpack(self, entry: tuple[bool, Any]) -> Any:
        packed, value = entry
        if not packed:
            return value
        t = self.unpack(value)
        if not isinstance(t, Tensor):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(t)}")
        return t._array

    def __call__(self) -> None:
        node = self.node()
        if node is None or node.cells is None:  # freed
            return
        outs = [self._unpack(entry) for entry in self.outs]
        node.saved = tuple(self._unpack(entry) for entry in self.saved)
        node.out = tuple(outs) if self.several else outs[0]
