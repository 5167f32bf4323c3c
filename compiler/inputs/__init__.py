"""From the arguments of a call to the inputs of a graph: pytrees, signatures, `wrt`, and the sources of other inputs."""
