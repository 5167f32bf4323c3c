"""The IR: frozen graphs, their text, verifier, builder and interpreter; the rows of control flow; elements of rows."""
