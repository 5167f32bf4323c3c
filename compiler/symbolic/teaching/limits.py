"""Limits of forward style, and the exceptions that say that it cannot be used."""

from __future__ import annotations

MAX_STEPS = 40
"""Derivatives with more lines are shown in backward style."""
MAX_CHARACTERS = 400
"""A longer line is no help."""

MAX_VALUES = 150
"""Functions and derivatives with more operations are not tried."""


class TooLong(Exception):
    """There are more than MAX_STEPS lines, or a line is too long."""


class NoRule(Exception):
    """No rule fits an operation, which the message names."""
