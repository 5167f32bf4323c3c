"""Loops and branches: rows whose attributes hold graphs."""
