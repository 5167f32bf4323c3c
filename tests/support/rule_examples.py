"""An example of each rule, built from its own pattern: both sides as graphs, and random inputs inside the domain of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import OUTPUT, Graph, application, input_value, literal
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.pattern import CONSTANT, VARIABLE, Pattern, build
from symgrad.compiler.ir.rule import Application, Rule
from symgrad.ops.spec import Meta
from symgrad.ops.table import TABLE


class Example:
    """The two sides of a rule for its example; `after` is None if the rule does not apply to its own example."""

    def __init__(self, rule: Rule, normal: bool, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.arrays: list[Any] = []
        bound: dict[str, Any] = {}
        for name, role in sorted(roles(rule.pattern).items()):
            given = rule.example.get(name)
            if role == "attribute":
                bound[name] = given
            elif callable(given):
                bound[name] = given(xp)
            elif role == CONSTANT:
                array = np.asarray(2 if given is None else given)
                bound[name] = xp.expand(literal(int(array.flat[0]), np.float64), shape=array.shape)
            else:
                array = given if isinstance(given, np.ndarray) else rng.normal(size=(3,) if given is None else given)
                bound[name] = input_value(len(self.arrays), array.shape, array.dtype)
                self.arrays.append(array)
        inputs = [input_value(i, a.shape, a.dtype) for i, a in enumerate(self.arrays)]
        root = unfolded(rule.pattern, bound)
        self.before = Graph(inputs, [root])
        found = rule.apply(xp, Application(root.op, root.args, root.attrs, root.shape, root.dtype), normal)
        self.after = None if found is None else Graph(inputs, [found])

    def is_finite(self) -> bool:
        """True if the inputs are inside the domain."""
        return bool(np.isfinite(evaluate(self.before, self.arrays)[0]).all())


def unfolded(pattern: Pattern, bound: dict[str, Any]) -> Any:
    """The value of a pattern whose root is not simplified by the builder."""
    args = tuple(build(a, xp, bound) for a in pattern.args)
    dtype = next((a.dtype for a in args[::-1] if hasattr(a, "dtype")), np.dtype(np.float64))
    shapes = [a.shape for a in args if hasattr(a, "shape")] if pattern.op == "matmul" else [()]
    fill = lambda a: literal(a, np.dtype(bool) if isinstance(a, bool) else dtype)
    args = tuple(a if hasattr(a, "dtype") else xp.expand(fill(a), shape=shapes[0]) for a in args)
    attrs = {k: build(a, xp, bound) for k, a in pattern.attrs.items()}
    row = TABLE[pattern.op]
    return application(row, args, attrs, row.type(*(Meta(a.shape, a.dtype) for a in args), **attrs))


def roles(pattern: Any) -> dict[str, str]:
    """Where each variable of a pattern stands: a value, a constant or an attribute."""
    if not isinstance(pattern, Pattern):
        return {}
    if pattern.op in (VARIABLE, CONSTANT):
        return {pattern.args[0]: pattern.op}
    found = {} if pattern.op == OUTPUT else {a.args[0]: "attribute" for a in pattern.attrs.values() if isinstance(a, Pattern)}
    for a in pattern.args:
        found |= roles(a)
    return found
