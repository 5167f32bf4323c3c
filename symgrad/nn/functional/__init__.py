"""Layers, activations and losses as functions of tensors and parameters."""

from symgrad.nn.functional.activation import *  # noqa: F403
from symgrad.nn.functional.convolution import *  # noqa: F403
from symgrad.nn.functional.linear import *  # noqa: F403
from symgrad.nn.functional.loss import *  # noqa: F403
from symgrad.nn.functional.normalization import *  # noqa: F403

from symgrad.functional.names import checked as _checked  # isort: skip

for _name, _value in list(globals().items()):
    if not _name.startswith("_") and getattr(_value, "__module__", "").startswith(__name__):
        globals()[_name] = _checked(_value)
