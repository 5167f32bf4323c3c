"""Steps in the order in which a person differentiates: rules of calculus for scalars, differentials for vectors and matrices."""
