"""compile(f, check_assumptions=True): check at every run what the function assumes of its values.

The values are computed again by the reference interpreter, from the inputs of the program; the kernel is the same as without the check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, Value, outputs_of
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.trace.trace import Trace
from symgrad.ops.assumptions import check, checked


class AssumptionChecks:
    """The assumptions of one trace, also those that no result depends on."""

    def __init__(self, traced: Trace) -> None:
        assumed = traced.capture.assumed
        loops = [v for v in traced.graph.values if is_control(v) and any("assume" in g.ops for g in Graph((), (v,)).within)]
        inputs, labels = traced.graph.inputs, traced.graph.labels
        self._words: list[tuple[tuple[str, ...], str]] = [(v.attrs["words"], line) for v, line in assumed.items()]
        self._values = Graph(inputs, [v.args[0] for v in assumed], labels) if assumed else None
        self._loops = Graph(inputs, _outputs(loops), labels) if loops else None

    def check(self, operands: Sequence[Any]) -> None:
        """Raise AssumptionError for the first value that is not what it is assumed to be, given the inputs of the program."""
        arrays = [np.asarray(x) for x in operands] if self._values or self._loops else []
        if self._values is not None:
            for array, (words, line) in zip(evaluate(self._values, arrays), self._words, strict=True):
                check(array, words, line)
        if self._loops is not None:
            with checked():
                evaluate(self._loops, arrays)


def _outputs(values: Sequence[Value]) -> list[Value]:
    return [out for v in values for out in (outputs_of(v) if isinstance(v.dtype, tuple) else (v,))]
