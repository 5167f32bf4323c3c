"""What a traced program depends on besides its inputs, and how it is compared before each run."""
