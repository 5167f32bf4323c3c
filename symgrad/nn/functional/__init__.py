"""Layers, activations and losses as functions of tensors and parameters."""

from symgrad.nn.functional.activation import *  # noqa: F403
from symgrad.nn.functional.convolution import *  # noqa: F403
from symgrad.nn.functional.linear import *  # noqa: F403
from symgrad.nn.functional.loss import *  # noqa: F403
from symgrad.nn.functional.normalization import *  # noqa: F403
