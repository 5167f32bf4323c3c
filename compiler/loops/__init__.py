"""Loops and branches: derivatives, batching, random numbers, unrolling and rerolling."""
