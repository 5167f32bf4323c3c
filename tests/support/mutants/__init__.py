"""Mutation testing: seeded one-line faults, and whether the test suite notices them. See `python -m mutants --help`."""
