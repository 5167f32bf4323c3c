"""What derive() gives: formulas of a function and of its derivatives, step by step, and certified."""
