"""Guards: the state that a traced program depends on besides its inputs, compared before each run."""
