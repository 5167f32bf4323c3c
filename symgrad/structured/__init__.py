"""Matrices that keep their structure: the result of `fast.hessian(..., structured=True)` and `fast.jacobian(..., structured=True)`."""

from symgrad.structured.layout import Layout as Layout, Side as Side
from symgrad.structured.matrix import StructuredMatrix as StructuredMatrix

__all__ = ["StructuredMatrix"]
