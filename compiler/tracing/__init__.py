"""From a call of a Python function to a graph: what it computed, read, wrote, drew and asked for."""
