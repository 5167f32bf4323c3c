"""Programs: graphs with their kernels, the tensors that these read and write, and the shortest ways to them."""
