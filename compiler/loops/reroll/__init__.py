"""Turn equal layers of an unrolled program into loops, or into calls of one function."""
