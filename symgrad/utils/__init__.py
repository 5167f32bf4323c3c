"""Helpers beside the tensors themselves."""
