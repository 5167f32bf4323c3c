"""The rows of a stack in JAX.

XLA makes a kernel for each row that is taken at an index that it knows, which takes it some 25 ms; where it does not know the index, one
kernel serves all rows of one shape. So indices go through a loop that never runs, and of which XLA cannot tell that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from symgrad.compiler.graph.ir import Value
from symgrad.compiler.source import parsed

ROWS = "rows"
_MANY = 8

_SOURCE = '''
def rows(stack):
    """The rows of a stack, by indices that XLA does not know: one kernel serves them all."""
    zero = jax.lax.while_loop(lambda i: i < 1, lambda i: i + 1, 0) - 1
    state = (zero, tuple(range(stack.shape[0])))
    _, places = jax.lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, (*s[1][1:], s[1][0])), state)
    return [jax.lax.dynamic_index_in_dim(stack, i, keepdims=False) for i in places]
'''


def takes_many_rows(v: Value) -> bool:
    """Whether a value is all rows of a long stack."""
    return v.op == "unbind" and v.attrs["axis"] == 0 and len(v.dtype) >= _MANY


def helpers(used: Iterable[str]) -> list[ast.stmt]:
    """The functions that the source needs beside its own."""
    return parsed(_SOURCE) if ROWS in used else []
