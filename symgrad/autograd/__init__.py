"""Reverse-mode differentiation of what was recorded: `backward`, `grad`, grad modes, `Function`, checks."""

from symgrad.autograd.backward import backward as backward
from symgrad.autograd.backward import grad as grad
