"""Tracing: from a call of a Python function to a graph of the ops, writes and random draws that it performed."""
