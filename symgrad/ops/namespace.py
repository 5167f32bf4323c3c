"""What `xp` is in a rule: an object whose attributes are the rows of the table, by name.

There are three, each made from the table by one function of a row:
    raw       xp.cos *is* np.cos                              eager backward
    tensors   xp.cos records                                  create_graph=True, and the public functions
    builder   xp.cos adds a node to a frozen graph            symbolic differentiation
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from symgrad.ops import (  # noqa: F401  (entering the rows)
    activation,
    arranging,
    assumptions,
    bessel,
    comparison,
    complexes,
    contraction,
    convolution,
    einsum,
    elementwise,
    fourier,
    indexing,
    integrals,
    joining,
    linalg,
    lookup,
    loss,
    moments,
    normalization,
    padding,
    piecewise,
    ranking,
    recurrent,
    reduction,
    scan,
    scattering,
    shaping,
    sorting,
    special,
    spectral,
    stable,
    writing,
)
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace


def namespace(make: Callable[[Row], Any]) -> Any:
    """An object with one attribute for each row: what `make` makes of it. `xp.apply(row, *args)` is for rows that stand in no table."""

    def apply(row: Row, *args: Any, **attrs: Any) -> Any:
        return make(row)(*args, **attrs)

    return SimpleNamespace(apply=apply, **{name: make(row) for name, row in TABLE.items()})


raw: Namespace[Any] = namespace(lambda row: row.numpy)
