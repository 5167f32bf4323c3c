"""Programs with modules that run in symgrad and in PyTorch, given as `torch`, and what they say there."""

import numpy as np


def small(torch):
    """A module with parameters, buffers of both kinds, nothing under two names, and a submodule under two."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.again = self.first
            self.register_buffer("count", torch.zeros(2))
            self.register_buffer("hidden", torch.ones(1), persistent=False)
            self.scale = nn.Parameter(torch.ones(4))
            self.plain = 3
            self.nothing = None
            self.register_parameter("absent", None)
            self.register_module("void", None)

        def forward(self, x, factor=1):
            return torch.relu(self.first(x)) * self.scale * factor

        def extra_repr(self):
            return "kind=small,\n\nmore=True"

    return Block()


def numbers(value):
    """Tensors as rounded lists, whatever they are nested in."""
    if isinstance(value, (tuple, list)):
        return [numbers(v) for v in value]
    return np.round(value.detach().numpy(), 4).tolist() if hasattr(value, "detach") else value


def said_by(program, module):
    """What a program gives in a library, or how it fails there, as text without the library's name."""
    module.manual_seed(0)
    try:
        return str(program(module)).replace("symgrad.", "torch.")
    except Exception as error:
        return type(error).__name__, str(error).replace("symgrad.", "torch.")
