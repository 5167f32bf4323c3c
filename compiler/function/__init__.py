"""Compiled functions, the result of compile(): calls, derivatives, inspection and the log of traces."""
