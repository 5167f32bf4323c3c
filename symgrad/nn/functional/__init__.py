"""Layers, activations and losses as functions of tensors and parameters."""

from symgrad.nn.functional.activation import *
from symgrad.nn.functional.attention import *
from symgrad.nn.functional.bags import *
from symgrad.nn.functional.convolution import *
from symgrad.nn.functional.ctc import *
from symgrad.nn.functional.dropout import *
from symgrad.nn.functional.linear import *
from symgrad.nn.functional.loss import *
from symgrad.nn.functional.margin import *
from symgrad.nn.functional.normalization import *
from symgrad.nn.functional.pooling import *
from symgrad.nn.functional.resampling import *

from symgrad.functional.names import checked as _checked  # isort: skip

for _name, _value in list(globals().items()):
    if not _name.startswith("_") and getattr(_value, "__module__", "").startswith(__name__):
        globals()[_name] = _checked(_value)
