"""From the arguments of a call to the inputs of a graph: containers, signatures, `wrt`, and captured tensors."""
