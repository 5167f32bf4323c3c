"""Equal layers of an unrolled program become loops, or calls of one function."""
