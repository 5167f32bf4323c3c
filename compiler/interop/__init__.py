"""Interoperation with other libraries: JAX and PyTorch."""
