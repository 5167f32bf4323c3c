"""Graphs as JAX source, and that source as kernels; jax is imported here only, and when a kernel is first made."""
