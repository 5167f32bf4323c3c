"""Compiled functions among other libraries: JAX and PyTorch."""
