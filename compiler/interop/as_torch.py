"""A compiled function on PyTorch tensors: a torch.autograd.Function whose forward and backward are kernels.

Contiguous tensors are passed without a copy; a kernel has read them when it returns. Its results own their memory, which PyTorch takes over
by DLPack. Backward calls the same Function for the VJP, so gradients of gradients are kernels too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from symgrad import dtypes
from symgrad.compiler.inputs.signature import Call
from symgrad.compiler.runtime.autograd_op import AutogradOp
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.trace.tracer import user_line
from symgrad.ops.promotion import kind
from symgrad.pytree import LEAF, flatten, unflatten
from symgrad.tensor import Tensor, wrap

_TYPES = frozenset(d.name for d in dtypes.ALL)
_NAMES = ", ".join(d.name for d in dtypes.ALL)


class Preparing(Protocol):
    """The method that TorchFunction needs of a compiled function."""

    def _prepare(self, args: Any, kwargs: Any, what: str) -> tuple[Call, Program]: ...


class TorchFunction:
    """A function on PyTorch tensors: call it like the original, in any of the containers that it takes."""

    def __init__(self, compiled: Preparing, function: Any) -> None:
        self.compiled = compiled
        self.torch = _torch()
        functools.update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<{getattr(self, '__name__', 'function')} on PyTorch's tensors>"

    def __reduce__(self) -> Any:
        """Copy and pickle along with the PyTorch modules that contain it."""
        return type(self), (self.compiled, self.__wrapped__)  # type: ignore[attr-defined]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        found, structure = flatten((args, kwargs), lambda x: isinstance(x, self.torch.Tensor))
        own = [wrap(_array(self.torch, x), x.requires_grad) for x in found]
        given = {id(t): x for t, x in zip(own, found, strict=True)}
        args, kwargs = unflatten(structure, own)
        call, program = self.compiled._prepare(args, kwargs, "as_torch")
        inputs = [given[id(t)] if id(t) in given else self._constant(t) for t in program.inputs(call)]
        results = _function().apply(program.operation, *inputs)
        return results[0] if program.structure is LEAF else unflatten(program.structure, results)

    def _constant(self, t: Tensor) -> Any:
        """Return a captured tensor, with its current values, as a PyTorch tensor."""
        return _tensor(self.torch, np.array(t.detach().numpy()) if t._array.dtype.name != "bfloat16" else t._array.copy())


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("as_torch() needs PyTorch, which is not installed: pip install torch") from error
    return torch


def _array(torch: Any, x: Any) -> Any:
    """Return a PyTorch tensor as a NumPy array: its memory, or a contiguous copy."""
    name = str(x.dtype).removeprefix("torch.")
    if x.device.type != "cpu" or x.layout is not torch.strided:
        given = f"{name} on {x.device}, {x.layout}"
        raise TypeError(f"{user_line()}: as_torch() takes dense tensors on the CPU, got {given}; call .cpu() or .to_dense()")
    if name not in _TYPES:
        raise TypeError(f"{user_line()}: as_torch() got a tensor of {name}, which symgrad does not have; convert it to one of {_NAMES}")
    x = x.detach()  # an active torch.func transform wraps the result, if not x already
    if torch.func.debug_unwrap(x) is not x:
        raise TypeError(
            f"{user_line()}: torch.func's transformations do not go through as_torch(); use torch.autograd.grad, or transform the function"
            " with symgrad.func before it is compiled"
        )
    x = x.resolve_conj().resolve_neg().contiguous()
    if name != "bfloat16":
        return x.numpy()
    import ml_dtypes

    return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _tensor(torch: Any, array: Any) -> Any:
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.name == "bfloat16":
        return torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_dlpack(array) if array.dtype != np.bool_ else torch.from_numpy(array)


def _run(torch: Any, operation: AutogradOp, tensors: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_tensor(torch, a) for a in operation.kernel([_array(torch, x) for x in tensors]))


@functools.cache
def _function() -> Any:
    """Return the torch.autograd.Function, a class that is created once PyTorch is imported."""
    torch = _torch()
    base: Any = torch.autograd.Function

    class Compiled(base):  # type: ignore[misc]
        """A kernel whose backward is a kernel too."""

        @staticmethod
        def forward(operation: Any, *tensors: Any) -> Any:
            return _run(torch, operation, tensors)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.operation = inputs[0]
            ctx.save_for_backward(*inputs[1:])
            ctx.mark_non_differentiable(*(x for x, v in zip(output, inputs[0].graph.outputs, strict=True) if kind(v.dtype) not in "fc"))

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> Any:
            wanted = ctx.operation.wanted(ctx.needs_input_grad[1:])
            if not wanted:
                return (None,) * len(ctx.needs_input_grad)
            found = Compiled.apply(ctx.operation.transpose(wanted), *ctx.saved_tensors, *gs)
            grads = dict(zip(wanted, found, strict=True))
            return None, *(grads.get(i) for i in range(len(ctx.needs_input_grad) - 1))

    return Compiled
