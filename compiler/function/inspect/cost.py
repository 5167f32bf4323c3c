"""The cost of a kernel: floating-point operations, memory traffic, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.ir.graph import Value


@dataclass(frozen=True)
class Cost:
    """The cost that XLA reports for an executable; None for figures that a back end does not report. Sizes are in bytes."""

    flops: float | None = None
    """Additions, multiplications and similar operations."""
    transcendentals: float | None = None
    """Evaluations of exp, tanh, ..., which do not count as flops."""
    bytes_accessed: float | None = None
    """Bytes that all operations read and write."""
    argument_bytes: int = 0
    output_bytes: int = 0
    donated_bytes: int = 0
    """Results that reuse the memory of arguments."""
    temp_bytes: int | None = None
    """Memory for intermediate values."""
    peak_bytes: int | None = None
    """Arguments, results and temporary memory together, without donated memory counted twice."""
    code_bytes: int | None = None

    def __str__(self) -> str:
        return "\n".join(f"{title:16}{text}" for title, text in self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Return titles and formatted amounts."""
        found = []
        for field in fields(self):
            amount = getattr(self, field.name)
            if amount is None or (field.name in ("donated_bytes", "code_bytes") and not amount):
                continue
            sized = field.name.endswith("_bytes") or field.name == "bytes_accessed"
            found.append((field.name.removesuffix("_bytes").replace("_", " "), size(amount) if sized else count(amount)))
        return found


def count(n: float) -> str:
    """Format a number: `1,234`, `5.6 million`."""
    for scale, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if n >= scale:
            return f"{n / scale:.3g} {word}"
    return f"{n:,.0f}"


def size(n: float) -> str:
    """Format a size: `512 B`, `1.5 MB`."""
    for scale, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= scale:
            return f"{n / scale:.3g} {word}"
    return f"{n:.0f} B"


def cost_of(kernel: Kernel) -> Cost:
    """Return the cost of a kernel, compiling it if needed."""
    kernel = getattr(kernel, "chosen", kernel)  # for "auto", the kernel of the selected back end
    executable = getattr(kernel, "compiled", None)
    if executable is None:  # not XLA: the graph gives the sizes of inputs and outputs only
        return Cost(argument_bytes=sum(map(_bytes, kernel.graph.inputs)), output_bytes=sum(map(_bytes, kernel.graph.outputs)))
    counts: Any = executable.cost_analysis() or {}
    counts = counts[0] if isinstance(counts, list) else counts
    memory = executable.memory_analysis()
    amount: Callable[[str], Any] = lambda name: getattr(memory, f"{name}_in_bytes", None)
    given, results, donated, temp = (amount(name) or 0 for name in ("argument_size", "output_size", "alias_size", "temp_size"))
    return Cost(
        counts.get("flops", 0.0), counts.get("transcendentals", 0.0), counts.get("bytes accessed", 0.0), given, results, donated, temp,
        given + results - donated + temp, amount("generated_code_size"),
    )  # fmt: skip


def _bytes(v: Value) -> int:
    return v.size * int(v.dtype.itemsize)
