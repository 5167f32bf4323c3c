"""strict=True of `autograd.functional`: refusals, in PyTorch's words, of derivatives that do not depend on an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

INDEPENDENT = "{output} of the user-provided function is independent of input {i}. This is not allowed in strict mode."
MISSING = {
    "back": INDEPENDENT,
    "back_trick": (
        "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double backward trick to"
        " compute forward mode gradients. This is not allowed in strict mode."
    ),
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
}
"""For each stage: no gradient reached input i."""
_NOT_DIFFERENTIABLE = {
    "outputs": (
        "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a differentiable manner"
        " from the input when running in strict mode."
    ),
    "grad_inputs": (
        "The gradient with respect to input {i} is independent of the inputs of the user-provided function. This is not allowed in"
        " strict mode."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input {i} is independent of"
        " the input. This is not allowed in strict mode. You should ensure that your function is twice differentiable and that the"
        " jacobian depends on the inputs (this would be violated by a linear function for example)."
    ),
}


def require_history(values: Sequence[Any], what: str) -> None:
    """Refuse values that are None, or do not require grad."""
    for i, value in enumerate(values):
        if value is None or not value.requires_grad:
            raise RuntimeError((INDEPENDENT if value is None else _NOT_DIFFERENTIABLE[what]).format(i=i))


def require_gradients(found: Sequence[Any], create_graph: bool, stage: str, output: str = "The output") -> None:
    """Refuse gradients that are None; with create_graph, those that do not require grad, too."""
    for i, g in enumerate(found):
        if g is None:
            raise RuntimeError(MISSING[stage].format(i=i, output=output))
        if create_graph and not g.requires_grad:
            order = "hessian" if stage == "double_back" else "jacobian"
            raise RuntimeError(
                f"The {order} of the user-provided function is independent of input {i}. This is not allowed in strict mode when"
                " create_graph=True."
            )
