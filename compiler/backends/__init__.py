"""Back ends: graphs as source and kernels, on NumPy and on XLA."""
