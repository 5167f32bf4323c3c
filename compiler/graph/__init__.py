"""The frozen graph: its values, its text, its verifier, the namespace that builds it and the interpreter that runs it."""
