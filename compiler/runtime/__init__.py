"""Programs: graphs with their kernels, the tensors that these read and write, and the fast paths to them."""
