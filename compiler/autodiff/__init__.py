"""Derivatives and batching, graph to graph, through the rules of the op table."""
