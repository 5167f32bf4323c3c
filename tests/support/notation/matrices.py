"""Matrix notation computed: sizes of 𝟏 and I are found by unification, as a reader finds them from what they are multiplied with."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tests.support.notation.elements import COMPARE, CONSTANTS, LOGIC, literal
from tests.support.notation.functions import ELEMENTWISE, REDUCING, ROWS, of_whole
from tests.support.notation.grammar import Node, NotationError


class Size:
    """A number of rows or columns, perhaps not known yet."""

    def __init__(self, value: int | None = None) -> None:
        self.value, self.parent = value, self

    @property
    def root(self) -> Size:
        return self if self.parent is self else self.parent.root

    def meet(self, other: Size) -> None:
        a, b = self.root, other.root
        if a.value is not None and b.value is not None and a.value != b.value:
            raise NotationError(f"sizes {a.value} and {b.value} do not fit")
        a.value = b.value if a.value is None else a.value
        b.parent = a

    @property
    def known(self) -> int | None:
        return self.root.value


Shape = tuple[Size, Size] | None
"""Rows and columns; None for a number."""


class Matrices:
    """Values of the nodes of one formula."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.shapes: dict[int, Shape] = {}

    def value(self, node: Node, shape: tuple[int, ...] | None) -> Any:
        """As an array of this shape, or of the shape that it has of itself."""
        own = self.shape(node)
        if own is not None and shape is not None:
            for size, n in zip(own, (*shape, 1)[:2] if shape else (1, 1), strict=True):
                size.meet(Size(n))
        result = np.asarray(self.compute(node))
        if shape is None:
            return result
        return np.broadcast_to(result, shape) if result.ndim == 0 else result.reshape(shape)

    def shape(self, node: Node) -> Shape:
        found = getattr(self, f"shape_{node.kind}", self.shape_inner)(node)
        if found is not None and all(size.known == 1 for size in found):
            found = None  # a matrix of one element is a number
        self.shapes[id(node)] = found
        return found

    def shape_number(self, node: Node) -> Shape:
        return None

    def shape_name(self, node: Node) -> Shape:
        if node.text in self.given:
            array = self.given[node.text]
            return None if array.ndim == 0 else (Size(array.shape[0]), Size(array.shape[1] if array.ndim == 2 else 1))
        if node.text in CONSTANTS:
            return None
        if node.text.rstrip("′").rstrip(_LOWERED) in ("𝟏", "I", "Id"):
            size = node.text.strip("𝟏Id′")
            n = Size(int(size.translate(_RAISE)) if size else None)
            return n, Size(1) if node.text[0] == "𝟏" else n
        raise NotationError(f"{node.text} is nothing that was given")

    def shape_infix(self, node: Node) -> Shape:
        left, right = map(self.shape, node.parts)
        if node.text == " " and left is not None and right is not None:
            left[1].meet(right[0])
            return left[0], right[1]
        if node.text in ("*", "/", "**") and right is not None and (left is not None or node.text != "*"):
            raise NotationError(f"{node.text} is for numbers; the product of elements is ∘, their quotient ⊘, their power ^∘")
        if node.text == "**" and left is not None:
            raise NotationError("** is for numbers; the power of elements is ^∘")
        return self.alike([left, right])

    def alike(self, shapes: list[Shape]) -> Shape:
        matrices = [shape for shape in shapes if shape is not None]
        for shape in matrices[1:]:
            for a, b in zip(matrices[0], shape, strict=True):
                a.meet(b)
        return matrices[0] if matrices else None

    def shape_inner(self, node: Node) -> Shape:
        return self.alike([self.shape(part) for part in node.parts])

    def shape_postfix(self, node: Node) -> Shape:
        shape = self.shape(node.parts[0])
        if node.text in ("²", "³") or shape is None:
            return shape
        if node.text == "⁻¹":
            shape[0].meet(shape[1])
        return shape[::-1]  # type: ignore[return-value]

    def shape_call(self, node: Node) -> Shape:
        shapes = [self.shape(part) for part in node.parts]
        if node.text in REDUCING:
            return None
        if node.text == "diag":
            assert shapes[0] is not None
            return shapes[0][0], shapes[0][0]
        if node.text == "logsumexp":
            return None if shapes[0] is None or shapes[0][1].known == 1 else (shapes[0][0], Size(1))
        if node.text == "diagonal":
            assert shapes[0] is not None
            shapes[0][0].meet(shapes[0][1])
            return shapes[0][0], Size(1)
        return self.alike(shapes)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape_‖", "shape_⌊"):
            return lambda node: self.shape(node.parts[0]) and None
        raise AttributeError(name)

    def compute(self, node: Node) -> Any:
        return getattr(self, f"compute_{_WORD.get(node.kind, node.kind)}")(node)

    def compute_number(self, node: Node) -> Any:
        return literal(node.text)

    def compute_name(self, node: Node) -> Any:
        if node.text in self.given:
            array = self.given[node.text]
            return array.reshape(-1, 1) if array.ndim == 1 else array
        if node.text in CONSTANTS:
            return CONSTANTS[node.text]
        rows, columns = (size.known for size in self.shapes[id(node)] or (Size(1), Size(1)))
        if rows is None:
            raise NotationError(f"nothing says how large {node.text} is")
        return np.ones((rows, columns)) if node.text[0] == "𝟏" else np.eye(rows)

    def compute_infix(self, node: Node) -> Any:
        left, right = (self.number(part) for part in node.parts)
        if node.text == " ":
            return left @ right if np.ndim(left) and np.ndim(right) else left * right
        return _OPERATORS[node.text](left, right)

    def number(self, node: Node) -> Any:
        value = self.compute(node)
        return np.reshape(value, ()) if self.shapes[id(node)] is None and np.size(value) == 1 else value

    def compute_prefix(self, node: Node) -> Any:
        value = self.compute(node.parts[0])
        return np.logical_not(value) if node.text == "~" else -value

    def compute_postfix(self, node: Node) -> Any:
        value = self.compute(node.parts[0])
        if node.text in _POWERS:
            return value ** _POWERS.index(node.text)
        if self.shapes[id(node.parts[0])] is None:
            return value if node.text == "ᵀ" else 1 / np.asarray(value)
        return {"ᵀ": np.transpose, "⁻¹": np.linalg.inv, "⁻ᵀ": lambda x: np.linalg.inv(x).T}[node.text](value)

    def compute_norm(self, node: Node) -> Any:
        return np.sqrt(np.sum(np.square(self.compute(node.parts[0]))))

    def compute_call(self, node: Node) -> Any:
        values = [self.number(part) for part in node.parts]
        if node.text in ROWS and np.shape(values[0])[1:] == (1,):  # a vector is a column
            return np.transpose(ROWS[node.text](np.transpose(values[0])))
        if node.text in REDUCING or node.text in ROWS:
            return (REDUCING | ROWS)[node.text](np.atleast_2d(values[0]))
        if node.text == "diag":
            return np.diag(np.ravel(values[0]))
        if node.text == "diagonal":
            return np.diag(values[0]).reshape(-1, 1)
        if node.text in ELEMENTWISE and not node.options:
            return ELEMENTWISE[node.text](*values)
        return of_whole(node.text, values, node.options)

    def compute_if(self, node: Node) -> Any:
        value, condition, other = map(self.number, node.parts)
        return np.where(condition, value, other)

    def compute_relation(self, node: Node) -> Any:
        values = [self.number(part) for part in node.parts]
        pairs = zip(node.text.split(","), values[:-1], values[1:], strict=True)
        return np.logical_and.reduce([COMPARE[op](a, b) for op, a, b in pairs])

    def compute_bracket(self, node: Node) -> Any:
        return np.asarray(self.compute(node.parts[0])).astype(float)


_LOWERED = "₀₁₂₃₄₅₆₇₈₉"
_RAISE = str.maketrans(_LOWERED, "0123456789")
_WORD = {"‖": "norm"}
_POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_OPERATORS = {
    "+": operator.add, "-": operator.sub, "∘": operator.mul, "⊘": np.true_divide, "*": operator.mul, "/": np.true_divide,
    "**": np.float_power, "^∘": np.float_power, **LOGIC,
}  # fmt: skip
