"""Helpers beside the tensors themselves: checkpointing, DLPack, the handles of hooks."""

from symgrad.utils import checkpoint as checkpoint, dlpack as dlpack, hooks as hooks
