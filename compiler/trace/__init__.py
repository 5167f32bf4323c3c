"""From a call of a Python function to a graph: what it computed, wrote and drew."""
