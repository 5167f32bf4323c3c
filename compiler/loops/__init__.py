"""Loops and branches: derivatives, batches, random numbers, unrolling and rerolling."""
