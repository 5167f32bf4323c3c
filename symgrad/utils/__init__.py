"""Helpers beside the tensors themselves: checkpointing, data loading, DLPack, the handles of hooks."""

from symgrad.utils import checkpoint as checkpoint, data as data, dlpack as dlpack, hooks as hooks
