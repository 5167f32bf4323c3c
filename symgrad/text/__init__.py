"""Formulas as text, in the language of matrixcalculus.org: tokens <- syntax <- parser <- types <- evaluation <- functions of tensors."""

from symgrad.text.function import TextFunction as TextFunction, parse as parse
