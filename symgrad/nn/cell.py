"""One step of a recurrent network: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any

from symgrad.creation import empty, zeros
from symgrad.dispatch import tensors as ops
from symgrad.functional import relu, tanh
from symgrad.nn import functional as F, init
from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Parameters of a cell, and what it asks of its input and states."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size), "bias_ih": (rows,), "bias_hh": (rows,)}
        for name, shape in shapes.items():
            missing = name.startswith("bias") and not bias
            self.register_parameter(name, None if missing else Parameter(empty(shape, dtype=dtype, device=device)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _batched(self, input: Tensor, states: tuple[Tensor, ...], labels: tuple[str, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Input and states as matrices, with zeros where no state is given."""
        name = self._get_name()
        for label, value in (("input", input), *zip(labels, states, strict=False)):
            if value.ndim not in (1, 2):
                raise ValueError(f"{name}: Expected {label} to be 1D or 2D, got {value.ndim}D instead")
        if input.ndim == 1:
            input, states = input.unsqueeze(0), tuple(s.unsqueeze(0) for s in states)
        if input.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {self.input_size}")
        if not states:
            return input, (zeros(input.shape[0], self.hidden_size, dtype=input.dtype),) * len(labels)
        for i, state in enumerate(states):
            if state.shape[0] != input.shape[0]:
                raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {state.shape[0]}")
            if state.shape[1] != self.hidden_size:
                raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {state.shape[1]}, expected {self.hidden_size}")
        return input, states

    def extra_repr(self) -> str:
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        options = ("" if self.bias is True else f", bias={self.bias}", "" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")
        return f"{self.input_size}, {self.hidden_size}{''.join(options)}"


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu in place of tanh."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        rows, (h,) = self._batched(input, () if hx is None else (hx,), ("hidden",))
        by_input, by_state = F.linear(rows, self.weight_ih, self.bias_ih), F.linear(h, self.weight_hh, self.bias_hh)
        out = (tanh if self.nonlinearity == "tanh" else relu)(by_input + by_state)
        return out if input.ndim == 2 else out.squeeze(0)


class LSTMCell(RNNCellBase):
    """i, f, g, o = W_ih x + b_ih + W_hh h + b_hh;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c')"""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        rows, (h, c) = self._batched(input, () if hx is None else tuple(hx), ("hx[0]", "hx[1]"))
        bias = None if self.bias_ih is None else self.bias_ih + self.bias_hh
        h, c, _ = ops.lstm(F.linear(rows, self.weight_ih, bias), h, c, self.weight_hh, sizes=(rows.shape[0],), reverse=False)
        return (h, c) if input.ndim == 2 else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """r, z = σ(W_ih x + b_ih + W_hh h + b_hh);  n = tanh(W_in x + b_in + r (W_hn h + b_hn));  h' = (1 - z) n + z h"""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        rows, (h,) = self._batched(input, () if hx is None else (hx,), ("hidden",))
        by_input = F.linear(rows, self.weight_ih, self.bias_ih)
        out, _, _ = ops.gru(by_input, h, self.weight_hh, self.bias_hh, sizes=(rows.shape[0],), reverse=False)
        return out if input.ndim == 2 else out.squeeze(0)
