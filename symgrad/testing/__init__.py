"""Checks for code that uses symgrad: values that should be close, gradients that should be right."""

from symgrad.autograd.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
from symgrad.testing.comparison import assert_close as assert_close
