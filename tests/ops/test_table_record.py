"""The columns of the op table that only its tests read, and the samples of its rows, are as recorded: none gets lost in silence.

Domains, special points and samples decide what the tests of the whole table try. A sample that shrinks breaks no test, it only makes others
weaker. After a change that is meant, write the record anew: `python tests/ops/test_table_record.py`.
"""

from pathlib import Path

import numpy as np
import pytest

from symgrad.ops.table import TABLE
from symgrad.testing.samples import samples

RECORD = Path(__file__).parents[1] / "support/table_record.txt"
FLAGS = ("view", "may_copy", "tie", "elementwise", "variadic", "differentiable", "plain")


def value_text(x):
    """An array by its type, shape and a sum that weighs each element by its place; anything else by its repr."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return repr(x)
    flat = np.nan_to_num(np.asarray(x).reshape(-1).astype(complex), nan=7.0, posinf=8.0, neginf=9.0)
    total = (flat * np.arange(1, flat.size + 1)).sum()
    return f"{x.dtype}{list(x.shape)}:{total.real:.6g}" + (f"{total.imag:+.6g}j" if x.dtype.kind == "c" else "")


def row_text(row):
    flags = " ".join(name for name in FLAGS if getattr(row, name))
    saves = "; ".join(" ".join(sorted(names)) for names in row.saves)
    rules = "".join("-" if rule is None else "d" for rule in row.vjp)
    lines = [
        f"{row.name}({', '.join(row.args)} / {', '.join(row.attrs)}) -> {row.outputs}",
        f"    {row.policy}, {row.kinds}, {row.complex}, rules {rules}, saves [{saves}]: {flags}",
        f"    domain {row.domain}, special {row.special}",
    ]
    for args, attrs in samples(row):
        given = [*map(value_text, args), *(f"{name}={value_text(x)}" for name, x in attrs.items())]
        lines.append(f"    sample {', '.join(given)}")
    return "\n".join(lines)


RECORDED = {text.partition("(")[0]: text.strip() for text in RECORD.read_text().split("\n\n")}


@pytest.mark.parametrize("name", RECORDED)
def test_a_row_is_as_recorded(name):
    assert row_text(TABLE[name]) == RECORDED[name]


if __name__ == "__main__":
    RECORD.write_text("\n\n".join(row_text(TABLE[name]) for name in sorted(TABLE)) + "\n")
