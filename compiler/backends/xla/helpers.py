"""Helper functions that are emitted beside the main one, for operations that jax.numpy does not have: the rows of a stack, and integer
powers.

For each row that is taken at a constant index XLA generates a kernel, which takes it about 25 ms; if it does not know the index, one kernel
serves all rows of one shape. So the indices go through a loop that never runs, which XLA cannot find out.

jnp.power reads only six bits of an integer exponent, and its result for a negative exponent is arbitrary.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from symgrad.compiler.backends.source import parsed
from symgrad.compiler.ir.graph import Value
from symgrad.ops.promotion import kind

ROWS = "rows"
POWERS = "powers"
_MANY = 8

_SOURCES = {}
_SOURCES[ROWS] = '''
def rows(stack):
    """The rows of a stack, by indices that XLA does not know: one kernel serves them all."""
    zero = jax.lax.while_loop(lambda i: i < 1, lambda i: i + 1, 0) - 1
    state = (zero, tuple(range(stack.shape[0])))
    _, places = jax.lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, (*s[1][1:], s[1][0])), state)
    return [jax.lax.dynamic_index_in_dim(stack, i, keepdims=False) for i in places]
'''
_SOURCES[POWERS] = '''
def powers(x, y):
    """Whole numbers to whole powers, which wrap; to a negative one they are 0, save for 1 and -1."""
    x, y = (jnp.broadcast_to(a, jnp.broadcast_shapes(jnp.shape(x), jnp.shape(y))).astype(jnp.result_type(x, y)) for a in (x, y))
    state = (jnp.ones_like(x), x, jnp.where((y < 0) & (jnp.abs(x) == 1), y & 1, jnp.maximum(y, 0)))
    found, _, _ = jax.lax.while_loop(
        lambda s: jnp.any(s[2] > 0), lambda s: (jnp.where(s[2] & 1 > 0, s[0] * s[1], s[0]), s[1] * s[1], s[2] >> 1), state
    )
    return jnp.where((y < 0) & (jnp.abs(x) != 1), 0, found)
'''


def takes_many_rows(v: Value) -> bool:
    """True if a value is all rows of a long stack."""
    return v.op == "unbind" and v.attrs["axis"] == 0 and len(v.dtype) >= _MANY


def is_whole_power(v: Value) -> bool:
    """True if a value is an integer power whose exponent is known at run time only."""
    return v.op == "pow" and kind(v.dtype) == "i"


def helpers(used: Iterable[str]) -> list[ast.stmt]:
    """Return the definitions of the helper functions that the source uses."""
    return [line for name, text in _SOURCES.items() if name in used for line in parsed(text)]
