"""The notations of formulas: scalar, elements, matrix and index."""
