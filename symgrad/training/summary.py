"""The table of a net: its modules as a tree, the shapes that they give, how many parameters they have."""

from __future__ import annotations

from typing import Any

from symgrad.autograd import no_grad
from symgrad.nn import Module
from symgrad.pytree import leaves
from symgrad.tensor import Tensor
from symgrad.training.loop import mode


def table(net: Module, run: Any) -> str:
    """`run()` calls the net once, to see shapes; None if no input is known."""
    shapes = {} if run is None else _shapes(net, run)
    rows = [("Layer (type)", "Output shape", "Parameters")]
    for path, module in net.named_modules():
        depth = path.count(".") + 1 if path else 0
        name = path.rpartition(".")[2]
        label = f"{name} ({module.__class__.__name__})" if path else module.__class__.__name__
        own = sum(p.numel() for p in module.parameters(recurse=False))
        rows.append(("  " * depth + label, shapes.get(module, "?"), f"{own:,}" if own else "-"))
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [f"{a:<{first}}   {b:<{second}}   {c:>{third}}" for a, b, c in rows]
    rule = "─" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:], rule, *_totals(net)])


def _shapes(net: Module, run: Any) -> dict[Module, str]:
    """What each module gave when it was last called; the net is left as it was."""
    found: dict[Module, str] = {}

    def note(module: Module, args: Any, output: Any) -> None:
        shapes = [str(tuple(leaf.shape)) for leaf in leaves(output) if isinstance(leaf, Tensor)]
        found[module] = ", ".join(shapes)

    handles = [module.register_forward_hook(note) for module in net.modules()]
    try:
        with mode(net, False), no_grad():
            run()
    finally:
        for handle in handles:
            handle.remove()
    return found


def _totals(net: Module) -> list[str]:
    trainable = [p for p in net.parameters() if p.requires_grad]
    frozen = [p for p in net.parameters() if not p.requires_grad]
    lines = []
    for label, group in (("Parameters", trainable + frozen), ("  trained", trainable), ("  frozen", frozen)):
        lines.append(f"{label + ':':<12} {sum(p.numel() for p in group):,} ({_size(sum(p.numel() * p.element_size() for p in group))})")
    return lines


def _size(count: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"
