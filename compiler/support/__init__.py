"""What every stage uses: progress of long work, lines of the user's source, the garbage collector."""
