"""Graphs as JAX source, and that source as kernels. jax is imported when the first kernel is made."""
