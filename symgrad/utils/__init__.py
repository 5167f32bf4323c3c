"""Helpers beside the tensors themselves."""

from symgrad.utils import dlpack as dlpack
