"""Kernels that NumPy runs: readable source whose temporaries share memory. Nothing here needs JAX."""
