"""Algebra on graphs: the index normal form, and the order of contractions."""
