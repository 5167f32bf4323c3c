"""The handle that registering a hook returns."""

from symgrad.autograd.hooks import RemovableHandle as RemovableHandle
