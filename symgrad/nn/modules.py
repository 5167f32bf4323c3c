"""PyTorch's place for the classes of layers: `nn.modules.linear.Linear` is `nn.linear.Linear`, and `nn.modules.Linear` `nn.Linear`."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from symgrad import nn

    return getattr(nn, name)
