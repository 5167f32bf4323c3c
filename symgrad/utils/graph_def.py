"""A module, a function or a frozen graph as TensorBoard's GraphDef: one node for each value.

A node is named after the module that computes it, as PyTorch names them: `Net/Sequential[body]/Linear[0]/linear_1`; arguments are
`input/x`, results `output/output.1`. In the frozen graph equal subexpressions are one value: it belongs to the module that came first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef
from tensorboard.compat.tensorflow_stub.dtypes import as_dtype

from symgrad.compiler.inputs.signature import Signature
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value
from symgrad.compiler.ir.printer import attribute
from symgrad.compiler.trace.trace import trace
from symgrad.compiler.trace.tracer import GraphTracer
from symgrad.mode import current_capture
from symgrad.tensor import Tensor


def draw(model: Callable[..., Any], args: tuple[Any, ...]) -> Drawing:
    """Trace `model(*args)`."""
    signature = Signature(model)
    call = signature.bind(args, {})
    run = signature.caller(call)
    scopes = Scopes(model)

    def watched(tensors: Sequence[Tensor]) -> Any:
        tracer = current_capture()
        assert isinstance(tracer, GraphTracer)
        scopes.capture = tracer
        return run(tensors)

    with scopes.watching(), _evaluating(model):
        traced = trace(watched, call.leaves, call.labels)
    return Drawing(traced.graph, traced.captured, scopes)


def draw_graph(graph: Graph) -> Drawing:
    """A graph that is frozen already; no module claims any of its values."""
    return Drawing(graph, (), Scopes(graph))


def _modules(model: Any) -> list[tuple[str, Any]]:
    """Modules by their paths; a plain function has none."""
    return list(model.named_modules()) if hasattr(model, "named_modules") else []


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """As in evaluation: running statistics are not written to and nothing is drawn at random. Each module gets its own mode back."""
    before = [(module, module.training) for _, module in _modules(model)]
    try:
        for module, _ in before:
            module.training = False
        yield
    finally:
        for module, training in before:
            module.training = training


class Scopes:
    """Which module computed which value, noted by hooks when a module is left; the inner modules are left first."""

    capture: GraphTracer

    def __init__(self, model: Any) -> None:
        modules = _modules(model)
        self.root = _word(model.__class__.__name__ if modules else getattr(model, "__name__", model.__class__.__name__))
        self.of: dict[Value, str] = {}
        self.states: dict[int, tuple[str, str]] = {}
        """By id, the name and kind of each parameter and buffer."""
        paths: dict[str, str] = {}
        for path, module in modules:
            parent, _, name = path.rpartition(".")
            paths[path] = scope = f"{paths[parent]}/{module.__class__.__name__}[{_word(name)}]" if path else self.root
            for kind, named in (("Parameter", module.named_parameters), ("Buffer", module.named_buffers)):
                for name, t in named(recurse=False):
                    self.states.setdefault(id(t), (f"{scope}/{_word(name)}", kind))
        self.modules = {module: paths[path] for path, module in modules}

    @contextmanager
    def watching(self) -> Iterator[None]:
        handles = []
        entered: list[int] = []

        def enter(module: Any, args: Any) -> None:
            entered.append(len(self.capture.keep_alive))

        def leave(module: Any, args: Any, output: Any) -> None:
            for t in self.capture.keep_alive[entered.pop() :]:
                if isinstance(t, Tensor):
                    self.of.setdefault(self.capture.value(t), self.modules[module])

        try:
            for module in self.modules:
                handles.append(module.register_forward_pre_hook(enter, prepend=True))
                handles.append(module.register_forward_hook(leave))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def spread(self, graph: Graph) -> None:
        """What an op captured, such as a number or a cast, belongs where it is used."""
        for value in reversed(graph.values):
            scope = self.of.setdefault(value, self.root)
            for arg in value.args:
                if arg is not None:
                    self.of.setdefault(arg, scope)


class Drawing:
    """A graph, the tensors behind its last inputs, and a name for every value."""

    def __init__(self, graph: Graph, captured: Sequence[Tensor], scopes: Scopes) -> None:
        self.graph = graph
        self._names: dict[Value, str] = {}
        self._kinds: dict[Value, str] = {}
        self._taken: set[str] = set()
        scopes.spread(self.graph)
        tensors = [*[None] * (len(graph.inputs) - len(captured)), *captured]  # arguments come first
        for value, label, t in zip(self.graph.inputs, self.graph.labels, tensors, strict=True):
            brought_along = f"{scopes.of.get(value, scopes.root)}/{_word(label)}", "Constant"
            self._call(value, *((f"input/{_word(label)}", "IO Node") if t is None else scopes.states.get(id(t), brought_along)))
        counts: Counter[str] = Counter()
        for value in self.graph.values:
            if value.op in (INPUT, OUTPUT):
                continue
            kind = "Const" if value.op == LITERAL else value.op  # TensorBoard draws a Const as a dot beside its reader
            stem = f"{scopes.of[value]}/{kind}"
            counts[stem] += 1
            self._call(value, f"{stem}_{counts[stem]}", kind)

    def _call(self, value: Value, name: str, kind: str) -> None:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._names[value], self._kinds[value] = name, kind

    def proto(self) -> Any:
        nodes = [self._node(value) for value in self.graph.values if value.op != OUTPUT]
        for i, value in enumerate(self.graph.outputs, start=1):
            attrs = _types([value.shape], [value.dtype])
            nodes.append(NodeDef(name=f"output/output.{i}", op="IO Node", input=[self._edge(value)], attr=attrs))
        return GraphDef(node=nodes, versions=VersionDef(producer=22))

    def _node(self, value: Value) -> Any:
        several = isinstance(value.dtype, tuple)
        attrs = {} if value.op == INPUT else {k: AttrValue(s=attribute(x).encode()) for k, x in value.attrs.items()}
        attrs |= _types(value.shape, value.dtype) if several else _types([value.shape], [value.dtype])
        inputs = [self._edge(arg) for arg in value.args if arg is not None]
        return NodeDef(name=self._names[value], op=self._kinds[value], input=inputs, attr=attrs)

    def _edge(self, value: Value) -> str:
        """`name`, or `name:1` for the second result of an op that has several."""
        if value.op != OUTPUT:
            return self._names[value]
        index = value.attrs["index"]
        return f"{self._names[value.args[0]]}:{index}" if index else self._names[value.args[0]]


def _types(shapes: Sequence[Sequence[int]], kinds: Sequence[Any]) -> dict[str, Any]:
    protos = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in shape]) for shape in shapes]
    enums = [as_dtype(str(kind)).as_datatype_enum for kind in kinds]
    dtype = AttrValue(type=enums[0]) if len(enums) == 1 else AttrValue(list=AttrValue.ListValue(type=enums))
    return {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=protos)), "dtype": dtype}


def _word(name: str) -> str:
    """Part of a name, without the characters that mean something to TensorBoard, such as the slash."""
    return re.sub(r"[^\w.-]", "_", name)
