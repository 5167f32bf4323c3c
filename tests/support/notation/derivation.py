"""The printed text of a Derivation, read line by line, and computed."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import sympy as sp

import symgrad as sg
from symgrad.compiler.symbolic.notations.index_algebra import size
from tests.support.notation.elements import Elements
from tests.support.notation.grammar import NotationError, parse
from tests.support.notation.matrices import Matrices


class Printed:
    """The formulas of a text: the value first, then the derivatives, and the names below them."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        lines = [line for line in text.splitlines() if not line.startswith(("(", "assuming ", "for ", "with "))]
        split = lines.index("where") if "where" in lines else len(lines)
        self.names = names
        self.ends = [self.line(line) for line in lines[:split]]
        self.bindings = [self.line(line.strip()) for line in lines[split + 1 :]]

    def line(self, line: str) -> tuple[list[str], tuple[str, str]]:
        left, _, right = line.partition(" = ")
        at = [letter for part in re.findall(r"\[([^\]]*)\]", left) for letter in part.split(", ")]
        return at, (left, right)

    def compute(self, arrays: dict[str, Any], shapes: list[tuple[int, ...]], inner: dict[str, tuple[int, ...]], notation: str) -> list[Any]:
        """An array for each formula, of these shapes; `inner` are the shapes of the names below."""
        run = RUNS[notation](dict(arrays), (*self.names, *inner))
        for at, (left, right) in self.bindings:
            name = left.partition("[")[0] if notation != "elements" else left
            run.given[name] = run.formula(right, at, inner[name])
        return [run.formula(right, at, shape) for (at, (_, right)), shape in zip(self.ends, shapes, strict=True)]


class _Run:
    def __init__(self, given: dict[str, Any], names: tuple[str, ...]) -> None:
        self.given, self.names = given, names


class _Matrix(_Run):
    def formula(self, text: str, at: list[str], shape: tuple[int, ...]) -> Any:
        return Matrices(self.given).value(parse(text, self.names), shape)


class _Scalar(_Run):
    def formula(self, text: str, at: list[str], shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(Elements(self.given).value(parse(text, self.names), {}), shape)


class _Spelled(_Run):
    """Elements of small tensors: names such as `t1[0]` are those of numbers."""

    def formula(self, text: str, at: list[str], shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(_SpelledOut(self.given).value(parse(text, self.names), {}), shape)


class _SpelledOut(Elements):
    def value_at(self, node: Any, at: dict[str, int]) -> Any:
        places = ", ".join(str(self.value(part, at)) for part in node.parts[1:])
        name = f"{node.parts[0].text}[{places}]"
        return self.given[name] if name in self.given else super().value_at(node, at)


class _Index(_Run):
    def formula(self, text: str, at: list[str], shape: tuple[int, ...]) -> Any:
        node, run = parse(text, (*self.names, *at)), Elements(self.given)
        sizes = list(shape)
        while len(sizes) > len(at) and 1 in sizes:  # what has one element is written without its indices
            sizes.remove(1)
        if len(sizes) != len(at):
            raise NotationError(f"{len(at)} indices for a tensor of shape {shape}: {text}")
        result = [run.value(node, dict(zip(at, place, strict=True))) for place in itertools.product(*map(range, sizes))]
        return np.array(result).reshape(shape)


RUNS = {"matrix": _Matrix, "scalar": _Scalar, "elements": _Spelled, "index": _Index}


def compare(derivation: Any) -> list[float]:
    """How far the numbers of the printed text lie from those of the formula's object, and of eager code, relative to the largest."""
    arrays = derivation._source.given()
    program, labels = derivation.program, derivation.graph.labels
    count = len(program.inputs)
    given = {label: np.asarray(a, float if a.dtype.kind == "f" else a.dtype) for label, a in zip(labels[:count], arrays, strict=True)}
    inner = {program.labels[line.symbol]: _shape(line.name) for line in program.lines}
    shapes = [derivation.graph.outputs[0].shape, *(derivation._shape(d) for d in derivation._derivatives)]
    found = Printed(str(derivation), tuple(given)).compute(given, shapes, inner, program.notation)
    wanted = derivation.evaluate(arrays, wide=True)
    apart = [_apart(f, w) for f, w in zip(found, wanted, strict=True)]
    eager = [_apart(f, w) for f, w in zip(found, _eager(derivation, arrays), strict=False) if w is not None]
    return apart + (eager if all(a.dtype.itemsize == 8 for a in arrays if a.dtype.kind == "f") else [])


def _eager(derivation: Any, arrays: list[Any]) -> list[Any]:
    """Value and gradients of the function itself; None for other derivatives."""
    source = derivation._source
    leaves = [sg.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays[: source.arguments]]
    value = source.run([*leaves, *source.captured])
    wrt = [d.wrt[0] if len(d.wrt) == 1 and d.wrt[0] < len(leaves) and not value.ndim else None for d in derivation._derivatives]
    found = [None if i is None else _gradient(value, leaves[i]) for i in wrt]
    return [value.detach().numpy(), *found]


def _gradient(value: Any, leaf: Any) -> Any:
    if not value.requires_grad:
        return np.zeros(leaf.shape)
    return sg.autograd.grad(value, [leaf], retain_graph=True, materialize_grads=True)[0].numpy()


def _shape(name: Any) -> tuple[int, ...]:
    if isinstance(name, sp.Indexed):
        return tuple(size(i) for i in name.indices)
    return tuple(int(n) for n in name.shape) if isinstance(name, sp.MatrixSymbol) else ()


def _apart(found: Any, wanted: Any) -> float:
    scale = max(np.max(np.abs(wanted), initial=0), 1e-6)
    return float(np.max(np.abs(np.asarray(found) - np.asarray(wanted)), initial=0) / scale)
