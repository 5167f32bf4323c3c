"""Utilities for every stage: progress of compilation, lines of user source, the garbage collector."""
