"""Compiled functions as files: written by `fast.export`, read by `load_compiled`, which executes nothing."""
