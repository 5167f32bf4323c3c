"""Recurrent layers over whole sequences: RNN, LSTM, GRU.

Padded and packed input are one case: the steps stand one after another in the first dimension, and each step has as many rows as there are
sequences that reach it. The products with the input are taken for all steps at once; what is left to a step is the product with its state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symgrad.creation import empty, zeros
from symgrad.dispatch import tensors as ops
from symgrad.functional import addmm, cat, relu, stack, tanh
from symgrad.lines import warn
from symgrad.nn import functional as F, init
from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.nn.recurrence import State, after_last, gated, is_loop, long_short_term, looped, stepwise
from symgrad.nn.utils.rnn import PackedSequence
from symgrad.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _require(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, got: {value.__class__.__name__}")


def _is_probability(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


class RNNBase(Module):
    """What recurrent layers share: parameters by layer and direction, and the way through layers, directions and steps."""

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not _is_probability(dropout):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1,"
                f" but got dropout={dropout} and num_layers={num_layers}",
            )
        _require("bias", bias, bool)
        _require("batch_first", batch_first, bool)
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            _require(name, size, int)
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._names: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: self._directions]:
                shapes = self._shapes(layer)
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{suffix}", Parameter(empty(shape, dtype=dtype, device=device)))
                self._names.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """The parameters of one direction of a layer."""
        rows, width = GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, width * self._directions if layer else self.input_size), "weight_hh": (rows, width),
        }  # fmt: skip
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: PyTorch moves parameters together here for one of its kernels on GPUs."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        return [[getattr(self, name) for name in names] for names in self._names]

    # what differs between the kinds of layers

    def _direction(self, data: Tensor, sizes: list[int], start: State, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, State]:
        """One direction of a layer: the outputs of all steps, and the state of each sequence after its last one."""
        raise NotImplementedError

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size,)

    def _given(self, hx: Any) -> State:
        """The state that a user gives, as a tuple."""
        return (hx,)

    def _returned(self, state: State) -> Any:
        return state[0]

    # the way through

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of all steps, and the state after the last."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            what = "tensor " if isinstance(self, RNN) else ""
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.ndim}D {what}instead")
        batched = input.ndim == 3
        start = None if hx is None else self._given(hx)
        if start is not None:
            _check_rank(start, batched)
        if not batched:
            input, start = input.unsqueeze(1), None if start is None else tuple(s.unsqueeze(1) for s in start)
        elif self.batch_first:
            input = input.transpose(0, 1)
        length, batch, _ = input.shape
        self._check_input(input, 3)
        if not length:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        out, last = self._layers(input.reshape(length * batch, self.input_size), [batch] * length, start)
        out = out.reshape(length, batch, out.shape[-1])
        if not batched:
            return out.squeeze(1), self._returned(tuple(s.squeeze(1) for s in last))
        return out.transpose(0, 1) if self.batch_first else out, self._returned(last)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, sizes, order, back = input
        self._check_input(data, 2)
        start = None if hx is None else self._given(hx)
        if start is not None and order is not None:
            start = tuple(s.index_select(1, order) for s in start)
        out, last = self._layers(data, sizes.tolist(), start)
        if back is not None:
            last = tuple(s.index_select(1, back) for s in last)
        return PackedSequence(out, sizes, order, back), self._returned(last)

    def _check_input(self, data: Tensor, rank: int) -> None:
        weight = self.all_weights[0][0]
        if data.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({data.dtype}) does not match weight dtype ({weight.dtype}). Convert input: input.to({weight.dtype}), or"
                f" convert model: model.to({data.dtype})"
            )
        if data.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {data.ndim}")
        if data.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}")

    def _start(self, given: State | None, batch: int, data: Tensor) -> State:
        """The state before the first step of every layer and direction: zeros, if none is given."""
        shapes = [(len(self._names), batch, size) for size in self._state_sizes()]
        if given is None:
            return tuple(zeros(shape, dtype=data.dtype) for shape in shapes)
        for i, (state, shape) in enumerate(zip(given, shapes, strict=True)):
            if tuple(state.shape) != shape:
                which = f"hidden[{i}]" if len(shapes) > 1 else "hidden"
                raise RuntimeError(f"Expected {which} size {shape}, got {list(state.shape)}")
        return given

    def _layers(self, data: Tensor, sizes: list[int], given: State | None) -> tuple[Tensor, State]:
        start = self._start(given, sizes[0], data)
        ends = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                data = F.dropout(data, self.dropout)
            outs = []
            for direction in range(self._directions):
                index = layer * self._directions + direction
                weights = [getattr(self, name) for name in self._names[index]]
                out, end = self._direction(data, sizes, tuple(s[index] for s in start), weights, bool(direction))
                outs.append(out)
                ends.append(end)
            data = outs[0] if len(outs) == 1 else cat(outs, 1)
        return data, tuple(stack(states) for states in zip(*ends, strict=True))

    def extra_repr(self) -> str:
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        options = [f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return f"{self.input_size}, {self.hidden_size}{''.join(options)}"


def _check_rank(state: State, batched: bool) -> None:
    rank = 3 if batched else 2
    if any(s.ndim != rank for s in state):
        kind = "batched 3-D" if batched else "unbatched 2-D"
        which = "hx" if len(state) == 1 else "hx and cx"
        got = f"{state[0].ndim}-D tensor" if len(state) == 1 else f"({', '.join(f'{s.ndim}-D' for s in state)}) tensors"
        raise RuntimeError(f"For {kind} input, {which} should also be {rank}-D but got {got}")


def _by_input(data: Tensor, weights: Sequence[Tensor], bias: bool) -> Tensor:
    """What all steps take from the input: the product with its weights, and both biases."""
    return F.linear(data, weights[0], weights[2] + weights[3] if bias else None)


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu in place of tanh; several layers, one or both directions."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        proj_size: int | None = None,
    ) -> None:
        _refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _direction(self, data: Tensor, sizes: list[int], start: State, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, State]:
        hidden, activation = weights[1].t(), tanh if self.nonlinearity == "tanh" else relu
        inputs = _by_input(data, weights, self.bias)
        return stepwise(lambda x, state: (activation(addmm(x, state[0], hidden)),), inputs, sizes, start, reverse)


class LSTM(RNNBase):
    """i, f, g, o = W_ih x + b_ih + W_hh h + b_hh;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c'), times W_hr if proj_size is given."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)

    def _direction(self, data: Tensor, sizes: list[int], start: State, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, State]:
        inputs = _by_input(data, weights, self.bias)
        if self.proj_size or is_loop(sizes):
            return stepwise(long_short_term(weights[1].t(), weights[-1] if self.proj_size else None), inputs, sizes, start, reverse)
        h, c = start
        out, memory, _ = ops.lstm(inputs, h, c, weights[1], sizes=tuple(sizes), reverse=reverse)
        return out, (after_last(out, sizes, reverse), after_last(memory, sizes, reverse))

    def _state_sizes(self) -> tuple[int, ...]:
        return self.proj_size or self.hidden_size, self.hidden_size

    def _given(self, hx: Any) -> State:
        return hx[0], hx[1]

    def _returned(self, state: State) -> Any:
        return state


class GRU(RNNBase):
    """r, z = σ(W_ih x + b_ih + W_hh h + b_hh);  n = tanh(W_in x + b_in + r (W_hn h + b_hn));  h' = (1 - z) n + z h"""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        proj_size: int | None = None,
    ) -> None:
        _refuse_projection(proj_size)
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)

    def _direction(self, data: Tensor, sizes: list[int], start: State, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, State]:
        by_input, by_state = weights[2:4] if self.bias else (None, None)
        inputs = F.linear(data, weights[0], by_input)
        if is_loop(sizes):
            return looped(gated(weights[1], by_state), inputs, sizes, start, reverse)
        (h,) = start
        out, _, _ = ops.gru(inputs, h, weights[1], by_state, sizes=tuple(sizes), reverse=reverse)
        return out, (after_last(out, sizes, reverse),)


def _refuse_projection(proj_size: int | None) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
