"""Parametrizations: a parameter that is computed from others each time it is read.

    layer.weight   ->   layer.parametrizations.weight[0](layer.parametrizations.weight.original)

What is trained and saved is `original` (or `original0`, `original1`, ... where a parametrization takes several tensors). The module gets a
class of its own, `ParametrizedLinear`, in which `weight` is a property.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any

from symgrad.autograd import no_grad
from symgrad.nn.container import ModuleDict, ModuleList
from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.ops.foreign import class_name
from symgrad.tensor import Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "type_before_parametrizations",
]  # fmt: skip

_cache: ContextVar[dict[Any, Tensor] | None] = ContextVar("computed parameters", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed only once."""
    token = _cache.set({}) if _cache.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _cache.reset(token)


def _own(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _require_same(before: Tensor, after: Any) -> None:
    """A parametrization gives a tensor of the same type and shape."""
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {after.__class__.__name__}.")
    for attribute in ("dtype", "shape"):
        was, got = getattr(before, attribute), getattr(after, attribute)
        if was != got:
            raise ValueError(
                f"Registering a parametrization may not change the {attribute} of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized {attribute}: {was}\nparametrized {attribute}: {got}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and the tensors that they start from."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new = self._inverted(original, required=False)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        before = original.detach()
        if self.is_tensor:
            if new.dtype != original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            original.data = new
            _own(self, "original", original)
        else:
            for i, tensor in enumerate(new):
                owned = Parameter(tensor, original.requires_grad) if isinstance(original, Parameter) else tensor
                _own(self, f"original{i}", owned)
        if not unsafe:
            try:
                _require_same(before, self())
            except Exception:
                original.data = before
                raise

    def _inverted(self, value: Any, required: bool) -> Any:
        """What the parametrizations make `value` from, as far as they know."""
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        if required:
                            raise
                elif required:
                    raise RuntimeError(f"parametrization {module.__class__.__name__} does not implement right_inverse.")
        tensors = [value] if isinstance(value, Tensor) else value
        if not isinstance(tensors, Sequence) or not all(isinstance(t, Tensor) for t in tensors):
            raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {class_name(value)}")
        return value

    def originals(self) -> list[Tensor]:
        """The tensors that are trained and saved."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the result is `value`: what `layer.weight = value` does."""
        new = self._inverted(value, required=True)
        tensors, originals = [new] if isinstance(new, Tensor) else new, self.originals()
        if len(tensors) != len(originals):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {len(originals)}. Got a sequence of length {len(tensors)}."
            )
        for i, (original, tensor) in enumerate(zip(originals, tensors, strict=True)):
            if original.dtype != tensor.dtype:
                raise ValueError(f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype}, its original {original.dtype}")
        for original, tensor in zip(originals, tensors, strict=True):
            original.data = tensor

    def forward(self) -> Any:
        first, *rest = self
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


def _make_class(module: Module) -> None:
    """Give a module a class of its own, where properties can be added."""

    def __getstate__(self: Any) -> Any:
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict()")

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        copy = memo[id(self)] = self.__new__(self.__class__)
        copy.__dict__.update(deepcopy(self.__dict__, memo))
        return copy

    cls = module.__class__
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"__getstate__": __getstate__, "__deepcopy__": __deepcopy__})


def _make_property(module: Module, name: str) -> None:
    def compute(self: Any) -> Any:
        parametrization, known = self.parametrizations[name], _cache.get()
        if known is None:
            return parametrization()
        if parametrization not in known:
            known[parametrization] = parametrization()
        return known[parametrization]

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(module.__class__, name, property(compute, assign))


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """From now on `module.<tensor_name>` is what `parametrization` makes of it. Its `right_inverse`, if any, is used to assign to it."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        before = getattr(module, tensor_name)
        if not unsafe:
            _require_same(before, parametrization(before))
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _make_class(module)
            module.parametrizations = ModuleDict()
        _make_property(module, tensor_name)
        # a method or attribute of dictionaries may have the name of the tensor, so it is not assigned as an attribute
        module.parametrizations._modules[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of the given name."""
    found = getattr(module, "parametrizations", None)
    return isinstance(found, ModuleDict) and (len(found) > 0 if tensor_name is None else tensor_name in found)


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized."""
    return module.__class__.__bases__[0] if is_parametrized(module) else module.__class__


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor a plain parameter or buffer again, with the value that it has now or, if told so, the one it started from."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if not parametrizations.is_tensor and not leave_parametrized:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors."
        )
    value = getattr(module, tensor_name)
    if parametrizations.is_tensor:
        tensor = parametrizations.original
        if leave_parametrized:
            tensor.data = value.detach()
    else:
        tensor = Parameter(value.detach()) if value.requires_grad else value
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _own(module, tensor_name, tensor)
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = module.__class__.__bases__[0]
    return module
