"""The IR: frozen graphs with their printer, parser, verifier, builder and interpreter; the control-flow rows; index formulas of rows."""
